"""The table of the degraded mode over real HTTP: server, client, wrapper, reflector, store and handlers together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from informer import (
    ApiListerWatcher,
    DegradedListerWatcher,
    Event,
    InformerOptions,
    Item,
    KubeObject,
    ListOptions,
    Page,
    SharedInformer,
    WatchOptions,
)
from informer.testing import FakeApiServer

from .kit import TIMEOUT_CHECK, WIDGETS, Replay, good, obj, short


class World:
    """One widget and its server."""

    def __init__(self, server: FakeApiServer) -> None:
        self.server = server

    def create(self, timeout: str, **metadata) -> None:
        self.server.create(WIDGETS, {"metadata": {"name": "a", **metadata}, "spec": {"timeout": timeout}})

    def good(self, timeout: str = "5m") -> None:
        self.server.patch(WIDGETS, "a", {"spec": {"timeout": timeout}})

    def bad(self, timeout: str = "1") -> None:
        self.good(timeout)

    def delete(self) -> None:
        self.server.delete(WIDGETS, "a")

    def patch(self, **metadata) -> None:
        self.server.patch(WIDGETS, "a", {"metadata": metadata})

    def again(self, timeout: str) -> None:
        self.delete()
        self.create(timeout)


Step = Callable[[World], None]

# before the handler joins; after it, before the event; the event; what the handler is told; what is in store and quarantine
TABLE: dict[str, tuple[list[Step], list[Step], Step, list[str], str]] = {
    "unknown, bad": ([], [], lambda w: w.create("1"), ["quarantined new"], "bad"),
    "good, bad": ([lambda w: w.create("1m")], [], lambda w: w.bad(), ["quarantined old"], "bad"),
    "good, bad of another life": (
        [lambda w: w.create("1m")],
        [],
        lambda w: w.again("1"),
        ["delete", "quarantined new"],
        "bad",
    ),
    "bad, bad in the same way": ([lambda w: w.create("1")], [], lambda w: w.patch(labels={"x": "y"}), [], "bad"),
    "bad, bad in another way": ([lambda w: w.create("1")], [], lambda w: w.bad("2"), ["quarantined new"], "bad"),
    "bad, another finalizer": (
        [lambda w: w.create("1")],
        [],
        lambda w: w.patch(finalizers=["x.test/y"]),
        ["quarantined new"],
        "bad",
    ),
    "bad, begins to terminate": (
        [lambda w: w.create("1", finalizers=["x.test/y"])],
        [],
        lambda w: w.delete(),
        ["quarantined new"],
        "bad",
    ),
    "bad, good": ([lambda w: w.create("1")], [], lambda w: w.good(), ["add"], "good"),
    "bad, never good, gone": ([lambda w: w.create("1")], [], lambda w: w.delete(), [], "none"),
    "good before the handler joined, bad, gone": (
        [lambda w: w.create("1m"), lambda w: w.bad()],
        [],
        lambda w: w.delete(),
        [],
        "none",
    ),
    "bad, once good, gone": (
        [lambda w: w.create("1m")],
        [lambda w: w.bad()],
        lambda w: w.delete(),
        ["delete unknown"],
        "none",
    ),
    "bad, once good, good of another life": (
        [lambda w: w.create("1m")],
        [lambda w: w.bad()],
        lambda w: w.again("2m"),
        ["delete unknown", "add"],
        "good",
    ),
    "bad, never good, good of another life": ([lambda w: w.create("1")], [], lambda w: w.again("2m"), ["add"], "good"),
    "bad, never good, bad of another life": (
        [lambda w: w.create("1")],
        [],
        lambda w: w.again("1"),
        ["quarantined new"],
        "bad",
    ),
}


def word(change: tuple) -> str:
    match change:
        case ("quarantined", None, _):
            return "quarantined new"
        case ("quarantined", _, _):
            return "quarantined old"
        case ("delete", _, "unknown"):
            return "delete unknown"
        case _:
            return change[0]


@pytest.mark.parametrize("mode", ["list", "stream"])
@pytest.mark.parametrize("by", ["watch", "relist"])
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
async def test_table(row, by: str, mode):
    """When an object changes between good, bad and gone, by an event or found out by a relist, a handler should be told as
    the table says, and cache, quarantine and health agree.
    """
    before, known, event, told, end = row
    async with FakeApiServer([WIDGETS]) as server, server.api_client() as client:
        world = World(server)
        for step in before:
            step(world)
        source = DegradedListerWatcher(ApiListerWatcher(client, WIDGETS), checks=[TIMEOUT_CHECK])
        async with SharedInformer(source, options=InformerOptions(initial_list=mode)) as informer:
            await informer.wait_for_sync(timeout=60)
            replay = Replay()
            informer.add_handler(on_change=replay)
            for step in known:
                step(world)
            await asyncio.sleep(1)
            calls = len(replay.calls)
            if by == "watch":
                event(world)
            else:
                with server.drop_events():
                    event(world)
                await informer.relist()
            await asyncio.sleep(1)
            said = [word(short(change)) for change in replay.calls[calls:]]
            if by == "relist":  # nobody has seen the last state
                told = ["delete unknown" if text == "delete" else text for text in told]
            assert said == told
            assert len(informer.lister) == (end == "good")
            assert [*source.quarantine] == (["default/a"] if end == "bad" else [])
            assert informer.health.quarantined == (end == "bad")
            assert informer.lister.complete == (end != "bad")
            if by == "watch":  # never a second request for a bad object's sake
                assert len(server.requests) == (2 if mode == "list" else 1)


class Edited:
    """A source of a thousand widgets that cannot be read, each of which somebody edits every four seconds."""

    resource = WIDGETS
    count, edits = 1_000, 60

    def __init__(self) -> None:
        self.calls: list[str] = []

    def _all(self, version: int) -> Iterator[Item[KubeObject]]:
        return (good(obj(f"w-{number}", version, timeout="1")) for number in range(self.count))

    async def list(self, _: ListOptions, /) -> Page[KubeObject]:
        self.calls.append("list")
        return Page([*self._all(1)], "1")

    @asynccontextmanager
    async def watch(self, _: WatchOptions, /) -> AsyncIterator[AsyncIterator[Event[KubeObject]]]:
        self.calls.append("watch")
        yield self._events()

    async def _events(self) -> AsyncIterator[Event[KubeObject]]:
        for edit in range(self.edits):
            await asyncio.sleep(4)
            for item in self._all(2 + edit):
                yield item
        await asyncio.Event().wait()


async def test_many_bad_objects_that_are_edited_all_the_time(caplog: pytest.LogCaptureFixture):
    """When a thousand bad objects are edited sixty times each, that should cost one LIST and one WATCH in all, and the log
    name a hundred of them within five minutes and count the others.
    """
    edited = Edited()
    source = DegradedListerWatcher(edited, checks=[TIMEOUT_CHECK])
    async with SharedInformer(source) as informer:
        await informer.wait_for_sync(timeout=60)
        heard: list[object] = []
        informer.add_handler(on_change=heard.append)
        await asyncio.sleep(4 * edited.edits + 1)
        assert edited.calls == ["list", "watch"]
        assert len(heard) == edited.count  # as initial ones; an edit that mends nothing is no news
        assert {entry.times_seen for entry in source.quarantine.values()} == {1 + edited.edits}
    named = [record for record in caplog.records if record.levelname == "ERROR" and "timeout" in record.getMessage()]
    assert len(named) == 100
    assert any("1000 objects" in record.getMessage() for record in caplog.records)
