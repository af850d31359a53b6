"""F23: it must neither give up for good nor start twice."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from informer import ApiListerWatcher, DegradedListerWatcher, SharedInformer
from informer.testing import faults, match

from .world import CHECKS, WIDGETS, W, Widget, World, decode_widget


@pytest.mark.parametrize("synced", [True, False], ids=["after the sync", "from the beginning"])
async def test_f23_a_half_an_hour_without_a_server(world: World, synced: bool) -> None:
    server = world.server
    server.create(WIDGETS, W("a", ""))
    if not synced:
        await server.stop()
    async with world.follow(sync=synced) as follower:
        if synced:
            await server.stop()
        failures = []
        for minute in range(1, 31):
            await world.until(61 * minute)
            health = follower.informer.health
            failures.append(health.consecutive_failures)
            assert health.state == "failing"
            assert health.synced is synced
            assert health.last_error is not None
            assert "Connect" in health.last_error
        assert all(later > earlier for earlier, later in itertools.pairwise(failures))
        assert failures[-1] < 80  # with a delay, however long it takes
        if synced:
            assert follower.store == ["a"]
        await server.start()
        server.create(WIDGETS, W("b", ""))
        await asyncio.sleep(61)
        assert follower.store == ["a", "b"]
        assert sorted(follower.calls) == ["add a", "add b"]
        assert follower.informer.health.state == "live"
        assert follower.informer.health.consecutive_failures == 0
        assert len(server.lists()) == 1


async def test_f23_b_a_second_start_is_refused_and_starts_nothing(world: World) -> None:
    server = world.server
    server.create(WIDGETS, W("a", ""))
    refusals: list[BaseException] = []

    async with world.follow() as follower:

        async def start_again(_: object) -> None:
            try:
                async with follower.informer:
                    raise AssertionError("started twice")
            except RuntimeError as error:
                refusals.append(error)

        for _ in range(5):
            await start_again(None)
        follower.informer.add_handler(on_add=start_again)  # and from a handler
        await world.until(10)
        assert len(refusals) == 6
        assert all("started before" in str(error) for error in refusals)
        server.create(WIDGETS, W("b", ""))
        await world.until(20)
        assert follower.calls == ["add a", "add b"]
        assert len(server.lists()) == len(server.watches()) == 1
        assert server.open_watches() == 1
        assert server.open_connections == 1
        assert follower.informer.health.state == "live"


async def test_f23_c_a_stop_during_the_backoff_is_at_once_and_a_new_informer_starts_afresh(world: World) -> None:
    server = world.server
    server.create(WIDGETS, W("a", ""))
    async with server.api_client() as api:

        def make() -> tuple[SharedInformer[Widget], list[str]]:
            source = DegradedListerWatcher(ApiListerWatcher(api, WIDGETS), decode=decode_widget, checks=CHECKS)
            informer: SharedInformer[Widget] = SharedInformer(source)
            calls: list[str] = []
            informer.add_handler(on_add=lambda widget: calls.append(f"add {widget.name}"))
            return informer, calls

        informer, calls = make()
        async with informer:
            await informer.wait_for_sync(timeout=10)
            refusal = faults.status_answer(500, "InternalError", "not now")
            rule = server.faults.add(match(resource=WIDGETS), refusal, times=None)
            server.end_watches()
            await world.until(100)
            assert informer.health.consecutive_failures >= 5
            asked = len(server.requests)
            begin = world.now
        assert world.now - begin < 0.1
        assert informer.health.state == "stopped"
        assert await informer.stopped() is None
        server.faults.remove(rule)
        await asyncio.sleep(600)
        assert len(server.requests) == asked
        assert calls == ["add a"]

        with pytest.raises(RuntimeError, match="make a new one"):
            async with informer:
                pass
        assert len(server.requests) == asked

        again, calls = make()
        async with again:
            await again.wait_for_sync(timeout=10)
            await asyncio.sleep(0.01)
            assert calls == ["add a"]
            assert again.health.state == "live"
