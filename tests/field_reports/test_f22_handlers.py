"""F22: a handler raises, or never returns."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from informer import Added, Change, DegradedListerWatcher, InformerOptions, KubeObject, SharedInformer, Updated
from informer.testing import FakeListerWatcher
from informer.testing.faults import End, Wait
from informer.testing.virtual import VirtualTimeLoop, run
from tests.logs import keeping

from .world import EV, SILENT, WIDGETS, Follower, L, W, World, decode_widget

KEYS, EVENTS = 100, 10_000


class Seen:
    """The versions that a handler got, by key."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.by_key: dict[str, list[int]] = defaultdict(list)

    def note(self, change: Change[Any]) -> None:
        self.calls += 1
        assert isinstance(change, Added | Updated)
        obj = change.object if isinstance(change, Added) else change.new
        self.by_key[obj.name].append(int(obj.metadata.resource_version))

    @property
    def total(self) -> int:
        return sum(len(versions) for versions in self.by_key.values())

    def in_order(self) -> bool:
        return all(versions == sorted(set(versions)) for versions in self.by_key.values())


@contextmanager
def ending(release: threading.Event) -> Iterator[None]:
    """However the test ends, no thread stays blocked."""
    try:
        yield
    finally:
        release.set()


class DeviceError(Exception):
    """What an application raises."""


async def test_f22_ten_thousand_events_with_bad_neighbours(world: World) -> None:
    asyncio_loop = asyncio.get_running_loop()
    assert isinstance(asyncio_loop, VirtualTimeLoop)
    asyncio_loop.wait_for_threads = False  # a blocked thread must not stop the clock
    lines = [EV("MODIFIED", W(f"w{i % KEYS}", str(1001 + i))) for i in range(EVENTS)]
    world.on_list(L("1000", [W(f"w{i}", "1") for i in range(KEYS)]))
    world.on_watch([*[b"".join(lines[i : i + 500]) for i in range(0, EVENTS, 500)], Wait(60)])
    world.on_watch(SILENT, times=None)
    raising, raising_async, fine, fine_async, slow, blocked = (
        Seen(name) for name in ("H1", "H1 async", "H2", "H2 async", "H3", "H3 in a thread")
    )
    release = threading.Event()

    def raises(change: Change[Any]) -> None:
        raising.note(change)
        if raising.calls % 2 == 0:
            raise DeviceError("plain")

    async def raises_async(change: Change[Any]) -> None:
        raising_async.note(change)
        await asyncio.sleep(0)
        if raising_async.calls % 2 == 0:
            raise DeviceError("async")

    async def notes(change: Change[Any]) -> None:
        fine_async.note(change)

    async def sleeps(change: Change[Any]) -> None:
        slow.note(change)
        if slow.calls == 1:
            await asyncio.sleep(3600)

    def blocks(change: Change[Any]) -> None:
        blocked.note(change)
        if blocked.calls == 1:
            release.wait(60)

    registrations = {}

    def prepare(follower: Follower) -> None:
        add = follower.informer.add_handler
        add(on_change=raises, name="H1")
        add(on_change=raises_async, name="H1 async")
        add(on_change=fine.note, name="H2")
        add(on_change=notes, name="H2 async")
        registrations["H3"] = add(on_change=sleeps, name="H3")
        registrations["in thread"] = add(on_change=blocks, in_thread=True, name="H3 in a thread")

    registry = CollectorRegistry()
    options = InformerOptions(registry=registry)
    with keeping("informer.handlers") as failures, ending(release):
        async with world.follow(options=options, before=prepare) as follower:
            await follower.informer.wait_for_version(str(1000 + EVENTS), timeout=30)
            await world.until(59)
            # The watch is read on, and those who can keep up have got everything, in order per key.
            for handler in (raising, raising_async, fine, fine_async):
                assert handler.total == EVENTS + KEYS, handler.name
                assert handler.in_order(), handler.name
            assert len(failures) == (EVENTS + KEYS) // 2 * 2
            for name, text in (("H1", "plain"), ("H1 async", "async")):
                told = [record for record in failures if record.handler == name]  # type: ignore[attr-defined]  # an extra
                assert len(told) == (EVENTS + KEYS) // 2
                record = told[-1]
                assert record.levelno == logging.ERROR
                assert record.exc_info is not None
                assert isinstance(record.exc_info[1], DeviceError)
                assert str(record.exc_info[1]) == text
                assert record.exc_info[2] is not None
                for part in (f"handler {name} ", "Updated", "team-a/w99"):
                    assert part in record.getMessage()
            # Who hangs has a backlog that is bounded and can be seen.
            assert slow.calls == blocked.calls == 1
            for registration in registrations.values():
                assert KEYS <= registration.backlog < options.max_backlog
            labels = {"resource": "widgets.v1.example.test", "informer": ""}
            metric = registry.get_sample_value("informer_handler_backlog", labels)
            assert metric == max(one.backlog for one in registrations.values())

            release.set()
            asyncio_loop.wait_for_threads = True
            await world.until(3700)
            for handler in (slow, blocked):
                assert handler.in_order(), handler.name
                assert {name: versions[-1] for name, versions in handler.by_key.items()} == {
                    f"w{i}": 1000 + EVENTS - KEYS + i + 1 for i in range(KEYS)
                }
            assert all(one.backlog == 0 for one in registrations.values())
            assert world.asked()[:3] == ["LIST rv=0 limit=500", "WATCH rv=1000", f"WATCH rv={1000 + EVENTS}"]


async def test_f22_the_end_of_the_informer_is_no_failure_of_a_handler(world: World) -> None:
    ended: list[str] = []

    async def sleeps(_: object) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    world.on_list(L("1", [W("a", "1"), W("b", "1")]))
    world.on_watch(SILENT)
    async with world.follow(before=lambda follower: follower.informer.add_handler(on_add=sleeps)):
        await world.until(10)
    assert ended == ["cancelled"]
    assert world.now < 11
    assert not world.log.at(logging.WARNING)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio's own end is cut short
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_f22_who_wants_to_leave_may_leave(kind: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def leaves(obj: Any) -> None:
        calls.append(obj.name)
        raise kind

    async def main() -> None:
        source = FakeListerWatcher(WIDGETS)
        source.create("a")
        source.create("b")
        informer = SharedInformer(DegradedListerWatcher(source, decode=decode_widget))
        informer.add_handler(on_add=leaves)
        async with informer:
            await asyncio.sleep(60)
            raise AssertionError("the process went on")

    with pytest.raises(kind):
        run(main())
    assert calls == ["a"]
    assert not [record for record in caplog.records if "failed on" in record.getMessage()]
    gc.collect()


async def test_f22_no_handler_can_change_what_others_see(world: World) -> None:
    world.on_list(L("1", [W("a", "1", spec={"tier": "true"})]))
    world.on_watch([Wait(1), EV("MODIFIED", W("a", "2", spec={"tier": "true"})), End.STALL])
    seen: list[str] = []

    def vandal(change: Change[KubeObject]) -> None:
        obj = change.object if isinstance(change, Added) else change.new  # type: ignore[union-attr]  # no others here
        obj.to_dict()["spec"]["tier"] = "false"
        obj["spec"]["tier"] = "false"
        for name, value in (("raw", b"{}"), ("name", "x")):
            with pytest.raises(AttributeError):
                setattr(obj, name, value)

    def reader(change: Change[KubeObject]) -> None:
        obj = change.object if isinstance(change, Added) else change.new  # type: ignore[union-attr]  # no others here
        seen.append(obj["spec"]["tier"])

    def prepare(follower: Follower) -> None:
        follower.informer.add_handler(on_change=vandal)
        follower.informer.add_handler(on_change=reader)

    async with world.follow(decode=None, before=prepare) as follower:
        await world.until(2)
        assert seen == ["true", "true"]
        assert follower.get("a").to_dict()["spec"] == {"tier": "true"}
        assert not world.log.at(logging.WARNING)
