"""F02: bad objects and a watch that ends every half minute must lead to no relist loop and no growth."""

from __future__ import annotations

import gc
import logging
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import kubernetes_asyncio.client  # noqa: F401  # its 30 MB are not what is measured

from informer import Quarantine
from informer.testing.faults import Wait
from tests.logs import keeping

from .world import EV, L, W, World

GOOD, BAD, ROUNDS = 2000, 20, 200
REMIND_EVERY = 600.0  # ten minutes instead of five, for the sake of this test's run time


@contextmanager
def tracing() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


async def test_f02_two_hundred_watches_cost_no_list_and_no_memory(world: World) -> None:
    good = [W(f"good-{i}", "1", spec={"drainTimeout": "24h"}) for i in range(GOOD)]
    bad = [W(f"bad-{i}", "1", spec={"drainTimeout": "1d", "tier": "x" * 2000}) for i in range(BAD)]
    world.on_list(L("100", [*good, *bad]))
    healed = [
        step
        for i in range(5)
        for step in (Wait(1), EV("MODIFIED", W(f"bad-{i}", str(101 + i), spec={"drainTimeout": "24h"})))
    ]
    world.on_watch([Wait(30)], times=ROUNDS // 2)
    world.on_watch([*healed, Wait(25)])
    world.on_watch([Wait(30)], times=None)
    versions: list[str] = []
    said: Counter[str] = Counter()
    peaks: dict[int, int] = {}
    with tracing(), keeping("informer") as log:
        async with world.follow(quarantine=Quarantine(remind_every=REMIND_EVERY)) as follower:
            assert len(log) == BAD
            assert len(world.server.lists()) == 1
            for number in range(1, ROUNDS + 1):
                await world.server.wait_until(lambda: bool(world.server.watches()))
                assert len(follower.quarantine) == (BAD if number <= ROUNDS // 2 + 1 else BAD - 5)
                if number == ROUNDS // 2 + 1:
                    begin = world.now
                    for i in range(5):  # each is back within one event of its repair
                        await world.until(begin + i + 1.5)
                        assert follower.calls[-1] == f"add bad-{i}"
                        assert len(follower.quarantine) == BAD - 1 - i
                # The test must not keep what would count as growth: what was asked and said is counted and dropped.
                versions += [one.query["resourceVersion"] for one in world.server.watches()]
                assert number == 1 or not world.server.lists()
                said.update(vars(record)["object_name"] for record in log if record.levelno == logging.ERROR)
                assert all(len(record.getMessage()) < 4096 for record in log)
                world.server.requests.clear()
                log.clear()
                gc.collect()  # what the collector has not come to yet is no growth either
                peaks[number] = tracemalloc.get_traced_memory()[1]
                tracemalloc.reset_peak()
            run_time = world.now
    assert run_time > 30 * (ROUNDS - 2)
    assert versions == ["100"] * (ROUNDS // 2 + 1) + ["105"] * (ROUNDS // 2 - 1)
    # On a schedule: not once per round, and not never.
    assert said.total() <= BAD * run_time / REMIND_EVERY + BAD
    assert all(said[f"bad-{i}"] >= run_time // REMIND_EVERY for i in range(5, BAD))
    assert set(said) == {f"bad-{i}" for i in range(BAD)}
    # Not from the beginning: yarl and the client keep their last 128 addresses, and that many watches fill these caches.
    early = max(peaks[number] for number in range(140, 161))
    late = max(peaks[number] for number in range(180, ROUNDS + 1))
    assert late <= 1.02 * early


async def test_f02_what_is_shown_of_a_bad_value_is_bounded(world: World) -> None:
    huge = "1d" * 50_000
    world.on_list(L("100", [W("bad", "1", spec={"drainTimeout": huge})]))
    async with world.follow() as follower:
        (problem,) = follower.entry("bad").problems
        assert len(problem.value) < 200
        assert len(problem.reason) < 600
        assert "100002 characters" in problem.value
        (record,) = world.log.errors()
        assert len(record.getMessage()) < 4096
