"""delta_fifo_test.go, the_real_fifo_test.go, fifo_test.go: what their queues promise to a handler and a reader.

There is no queue between reflector and store here: one task reads, changes the store, then tells the handlers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define, field

from informer import (
    Added,
    ApiListerWatcher,
    Change,
    Deleted,
    InformerOptions,
    KubeObject,
    Removed,
    SharedInformer,
)
from informer.testing import FakeApiServer, FakeListerWatcher

from .support import (
    NODES,
    PODS,
    SILENCE,
    Scripted,
    following,
    gone,
    names,
    page,
    pod,
    pods,
    record,
    say,
    settle,
    tree,
)


@pytest.fixture
def source() -> FakeListerWatcher:
    return FakeListerWatcher(PODS)


@define
class Slow:
    """A handler that takes the first change and then waits, until the gate is opened."""

    source: FakeListerWatcher
    informer: SharedInformer[KubeObject]
    told: list[str] = field(factory=list)
    gate: asyncio.Event = field(factory=asyncio.Event)

    async def __call__(self, change: Change[KubeObject]) -> None:
        await self.gate.wait()
        self.told.append(say(change))

    async def open(self) -> list[str]:
        """What was told once the handler was free again, apart from the first."""
        self.gate.set()
        await settle()
        return self.told[1:]

    async def relist_without(self, *gone: str) -> None:
        """A LIST that lacks these, while no watch has told of it."""
        with self.source.cluster.drop_events():
            for name in gone:
                self.source.delete(name)
        await self.informer.relist()


@asynccontextmanager
async def slowly(source: FakeListerWatcher, **options: Any) -> AsyncIterator[Slow]:
    """An informer whose handler is stuck with `add first`, while more comes."""
    informer: SharedInformer[KubeObject] = SharedInformer(source, options=InformerOptions(**options))
    slow = Slow(source, informer)
    informer.add_handler(on_change=slow)
    async with informer:
        await informer.wait_for_sync(timeout=5)
        source.create("first")
        await settle()
        yield slow


# ---------------------------------------------------------------- order


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: basic", verdict="same")
async def test_order_of_one_producer(source: FakeListerWatcher) -> None:
    """When two producers write, a handler should hear of each one's objects in its order."""

    async def produce(letter: str) -> None:
        for number in range(100):
            source.create(f"{letter}{number:03}")
            await asyncio.sleep(0.001 if letter == "a" else 0.0013)

    async with following(source) as (_, told):
        async with asyncio.TaskGroup() as group:
            group.create_task(produce("a"))
            group.create_task(produce("b"))
        await settle()
    for letter in "ab":
        of_one = [text.split()[1].partition("@")[0] for text in told if text.startswith(f"add {letter}")]
        assert of_one == [f"{letter}{number:03}" for number in range(100)]


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: detectLineJumpers", verdict="same")
@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: addUpdate", verdict="same")
async def test_order_of_everything(source: FakeListerWatcher) -> None:
    """When objects change in turns, a slow handler should hear of every state, in the order in which it came about."""
    async with slowly(source) as slow:
        source.create("foo")
        source.create("bar")
        source.update("foo", 11)
        source.update("foo", 13)
        source.create("zab")
        source.update("bar", 14)
        await settle()
        told = await slow.open()
    assert [text.split()[:2] for text in told] == [
        ["add", "foo@3"],
        ["add", "bar@4"],
        ["update", "foo@3"],
        ["update", "foo@5"],
        ["add", "zab@7"],
        ["update", "bar@4"],
    ]


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: addReplace", verdict="same")
@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: ReplaceAtomicPop", verdict="same")
async def test_change_before_a_relist(source: FakeListerWatcher) -> None:
    """When an object is pending and a relist brings a newer state, the handler should hear of both, in that order."""
    async with slowly(source) as slow:
        source.create("foo", 10)
        await settle()
        with source.cluster.drop_events():
            source.update("foo", 15)
        await slow.relist_without()
        assert slow.informer.lister.get("foo", namespace="default")["spec"] == 15
        assert await slow.open() == ["add foo@3", "update foo@3 to foo@4"]


@pytest.mark.upstream(
    "fifo_test.go: basic, addUpdate, addReplace, detectLineJumpers, HasSynced, PopShouldUnblockWhenClosed",
    verdict="different",
    reason="not always but past `max_backlog`: until then a handler gets every state",
)
async def test_newest_state_once_for_a_slow_handler(source: FakeListerWatcher) -> None:
    """When more is pending than `max_backlog`, the handler should get the newest state once, in the place of the first."""
    async with slowly(source, max_backlog=1) as slow:
        source.create("foo", 10)
        source.create("bar", 1)
        source.update("foo", 12)
        source.create("brief")
        source.delete("brief")
        source.update("foo", 15)
        for number in (2, 3, 4, 5):
            source.update("bar", number)
        await settle()
        # Merged whenever twice as much waits as the last merge has left over: the last two are not merged yet.
        expected = ["add foo@8", "add bar@10", "update bar@10 to bar@11", "update bar@11 to bar@12"]
        assert await slow.open() == expected


# ---------------------------------------------------------------- deletions


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: replaceWithDeleteDeltaIn", verdict="same")
async def test_deleted_before_a_relist_that_lacks_it(source: FakeListerWatcher) -> None:
    """When an object was deleted and a relist brings another one, that should be one delete and one add."""
    source.create("foo1")
    async with following(source) as (_, told):
        source.delete("foo1")
        with source.cluster.drop_events():
            source.create("foo2")
        source.drop_watches()
        source.compact()
        await asyncio.sleep(5)
    assert [text.partition("@")[0] for text in told] == ["add foo1", "delete foo1", "add foo2"]


async def _pending_add(slow: Slow) -> None:
    slow.source.create("foo")
    await settle()
    await slow.relist_without("foo")


async def _still_there(slow: Slow) -> None:
    slow.source.create("foo")
    await settle()
    await slow.relist_without()


async def _deleted_already(slow: Slow) -> None:
    slow.source.create("foo")
    slow.source.delete("foo")
    await settle()
    await slow.relist_without()


async def _two_relists(slow: Slow) -> None:
    slow.source.create("foo")
    await settle()
    await slow.relist_without("foo")
    await slow.relist_without()


async def _second_life(slow: Slow) -> None:
    slow.source.create("foo")
    slow.source.delete("foo")
    slow.source.create("foo")
    await settle()
    await slow.relist_without("foo")


async def _known_and_updated(slow: Slow) -> None:
    slow.source.create("foo")
    slow.source.update("foo", 2)
    await settle()
    await slow.relist_without("foo")


@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: ReplaceMakesDeletionsForObjectsOnlyInQueue (6)", verdict="same"
)
@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (_pending_add, ["add foo@3", "delete foo@3 unknown"]),
        (_still_there, ["add foo@3"]),
        (_deleted_already, ["add foo@3", "delete foo@4"]),
        (_two_relists, ["add foo@3", "delete foo@3 unknown"]),
        (_second_life, ["add foo@3", "delete foo@4", "add foo@5", "delete foo@5 unknown"]),
        (_known_and_updated, ["add foo@3", "update foo@3 to foo@4", "delete foo@4 unknown"]),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
async def test_pending_object_that_a_relist_lacks(
    source: FakeListerWatcher, scenario: Callable[[Slow], Any], expected: list[str]
) -> None:
    """When an object waits for a slow handler and a relist lacks it, it should be deleted exactly once, in its last state."""
    async with slowly(source) as slow:
        await scenario(slow)
        assert await slow.open() == expected


@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: enqueueingNoLister",
    verdict="different",
    reason="the deletion of an object nobody was told of is no change; RealFIFO calls OnDelete for it",
)
async def test_deletion_of_an_unknown_object() -> None:
    """When a DELETED event comes for an object that is not in the store, no handler should hear of it."""
    source = Scripted(watches=[[pod("a", "10"), gone("b", "17"), pod("c", "18"), SILENCE]])
    async with following(source) as (informer, told):
        assert names(informer) == ["a", "c"]
        await informer.wait_for_version("18", timeout=0)
    assert told == ["add a@10", "add c@18"]


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: enqueueingWithLister", verdict="same")
@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: DeleteExistingNonPropagated", verdict="same")
async def test_deletion_of_a_known_object(source: FakeListerWatcher) -> None:
    """When an object is added and deleted before the handler looked, it should hear of both."""
    async with slowly(source) as slow:
        source.create("foo")
        source.delete("foo")
        await settle()
        assert names(slow.informer) == ["first"]
        assert await slow.open() == ["add foo@3", "delete foo@4"]


@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: ReplaceMakesDeletions (5), ReplaceMakesDeletionsReplaced, ReplaceDeltaType",
    verdict="same",
)
async def test_order_of_a_relist() -> None:
    """When a relist lacks, changes and brings objects, deletes should come first, with the last known objects."""
    source = Scripted(
        [page("1", *pods("a", "b", "c", "d")), page("9", pod("d", "7"), pod("e", "8"), pod("b", "1"))], [[SILENCE]]
    )
    async with following(source) as (informer, told):
        told.clear()
        await informer.relist()
        await settle()
    assert told == ["delete a@1 unknown", "delete c@1 unknown", "update d@1 to d@7", "add e@8"]


@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: KeyOf (4)",
    verdict="different",
    reason="the key stands beside the value (`Item.key`, `Deleted.key`), so no function has to find it, also where a deletion has no last object",
)
async def test_keys() -> None:
    """When objects and deletions come from a source, each should carry its key, with and without a value."""
    assert pod("a", "1").key == gone("a", "2").key == "default/a"
    assert Deleted("default/a", "u-a", "2", None).key == "default/a"
    assert FakeListerWatcher(NODES).create("n").key == "n"
    source = Scripted([page("1", *pods("a"))], [[Deleted("default/a", "u-a", "2", None), SILENCE]])
    async with following(source) as (informer, told):
        assert len(informer.lister) == 0
    assert told == ["add a@1 initial", "delete a@1 unknown"]


# ---------------------------------------------------------------- resync


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: Resync", verdict="same")
@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: ResyncNonExisting", verdict="same")
@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: ResyncAtomic (2)", verdict="same")
async def test_resync_of_what_is_there(source: FakeListerWatcher) -> None:
    """When a resync comes after pending changes, every object that is there should be told once, after them."""
    async with slowly(source, resync_period=5.0) as slow:
        source.create("kept")
        source.create("deleted")
        source.delete("deleted")
        await asyncio.sleep(7)
        told = await slow.open()
    assert told == ["add kept@3", "add deleted@4", "delete deleted@5", "resync first@2", "resync kept@3"]


@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: UpdateResyncRace",
    verdict="different",
    reason="the resync is not left out for an object with a pending update: it comes after it, with the newest state",
)
async def test_resync_never_goes_back(source: FakeListerWatcher) -> None:
    """When an update is pending while a resync comes, the resync should show the newest state, after the update."""
    source.create("a", 0)
    async with slowly(source, resync_period=5.0) as slow:
        source.update("a", 1)
        await asyncio.sleep(6)
        expected = ["add first@3", "update a@2 to a@4", "resync a@4", "resync first@3"]
        assert await slow.open() == expected


@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: UpdateResyncRace",
    verdict="different",
    reason="the resync is not left out for an object with a pending update: it comes after it, with the newest state",
)
async def test_change_in_the_middle_of_a_resync(source: FakeListerWatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """When objects change while a long resync is under way, no older state should be told after a newer one."""
    monkeypatch.setattr("informer._slices.Slices.due", lambda _: True)  # a slice for each object
    for number in range(20):
        source.create(f"p{number:02}")
    informer: SharedInformer[KubeObject] = SharedInformer(source, options=InformerOptions(resync_period=1.0))
    told: list[str] = []

    def follow(change: Change[KubeObject]) -> None:
        told.append(say(change))
        if told[-1].startswith("resync p00"):
            source.update("p10", 1)
            source.delete("p15")

    informer.add_handler(on_change=follow)
    async with informer:
        await asyncio.sleep(1.5)
    updated, deleted = told.index("update p10@12 to p10@22"), told.index("delete p15@23")
    assert told[20] == "resync p00@2"
    assert told[-1] == "resync p19@21"  # it was in the middle
    assert "resync p10@12" not in told[updated:]
    assert "resync p15@17" not in told[deleted:]


# ---------------------------------------------------------------- synced


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: HasSynced (7)", verdict="same")
@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: HasSyncedCorrectOnDeletion",
    verdict="stricter",
    reason="a change that comes while the first list is still being handled is not marked as initial, unlike RealFIFO's",
)
@pytest.mark.parametrize("count", [0, 1, 3])
async def test_synced_when_handled(source: FakeListerWatcher, count: int) -> None:
    """When the first list has so many objects, a handler should be synced after as many calls, all marked as initial."""
    for number in range(count):
        source.create(f"p{number}")
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    turn = asyncio.Semaphore(0)
    changes: list[Change[KubeObject]] = []

    async def handle(change: Change[KubeObject]) -> None:
        await turn.acquire()
        changes.append(change)

    registration = informer.add_handler(on_change=handle)
    synced = [registration.has_synced]
    async with informer:
        await informer.wait_for_sync(timeout=5)
        if count:
            source.create("later")
            source.delete("p0")
        for _ in range(count):
            await settle()
            synced.append(registration.has_synced)
            turn.release()
        await settle()
        synced.append(registration.has_synced)
        for _ in range(2):
            turn.release()
        await settle()
    assert synced == [False] * (count + 1) + [True]
    assert [isinstance(change, Added) and change.initial for change in changes[:count]] == [True] * count
    later = [(type(change), getattr(change, "initial", None)) for change in changes[count:]]
    assert later == ([(Added, False), (Removed, None)] if count else [])


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: PopShouldUnblockWhenClosed", verdict="same")
@pytest.mark.upstream(
    "tools/watch/informerwatcher_test.go: EventProcessorExit, EventProcessorOrders, NewInformerWatcher",
    verdict="different",
    reason="`changes()` is an asynchronous iterator, with backpressure by `max_backlog` instead of an unbounded buffer",
)
async def test_iterators_end_with_the_informer(source: FakeListerWatcher) -> None:
    """When ten iterate over changes, each should get all of them in order, and come to the end with the informer."""
    source.create("a")
    informer: SharedInformer[KubeObject] = SharedInformer(source)

    async def follow() -> list[str]:
        async with informer.changes() as changes:
            return [say(change) async for change in changes]

    async with informer:
        readers = [asyncio.create_task(follow()) for _ in range(10)]
        await informer.wait_for_sync(timeout=5)
        source.create("b")
        source.update("a", 2)
        await settle()
        assert not any(reader.done() for reader in readers)
    async with asyncio.timeout(1):
        seen = await asyncio.gather(*readers)
    assert seen == [["add a@2 initial", "add b@3", "update a@2 to a@4"]] * 10


# ---------------------------------------------------------------- one step


@pytest.mark.upstream(
    "delta_fifo_test.go, the_real_fifo_test.go: PopBrokenItemsInBatch (4)",
    verdict="stricter",
    reason="it is counted, logged, and makes the cache incomplete, instead of being logged only",
)
@pytest.mark.upstream("controller_test.go: ProcessDeltasInBatch (4)", verdict="same")
async def test_object_without_a_key(server: FakeApiServer) -> None:
    """When one object of a list and one of a watch have no usable key, all others should be stored and told."""
    for name in ("a", "c"):
        server.create(PODS, {"metadata": {"name": name}})
    server.put_raw(PODS, "b", lambda version: json.dumps(tree("", version)).encode())
    async with (
        server.api_client() as api,
        following(ApiListerWatcher(api, PODS)) as (informer, told),
    ):
        server.put_raw(PODS, "d", lambda version: json.dumps(tree("", version)).encode())
        server.create(PODS, {"metadata": {"name": "e"}})
        await asyncio.sleep(0.1)
        assert names(informer) == ["a", "c", "e"]
        assert not informer.lister.complete
        assert [text.split("@")[0] for text in told] == ["add a", "add c", "add e"]
        assert (len(server.lists(PODS)), len(server.watches(PODS))) == (1, 1)


@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: ReplaceAtomic (4)", verdict="same")
async def test_relist_is_one_step() -> None:
    """When relists replace all objects, every look at the store should see one list in full, with its version."""
    source = Scripted([page(str(n), *(pod(f"p{n}-{i}", str(n)) for i in range(50))) for n in range(1, 5)])
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    looks: list[tuple[int, set[str]]] = []

    def look(change: Change[KubeObject]) -> None:
        found = informer.lister.list()
        looks.append((len(found), {obj.resource_version for obj in found}))

    informer.add_handler(on_change=look)
    told = record(informer)
    async with informer:
        await informer.wait_for_sync(timeout=5)
        for version in ("1", "2", "3", "4"):
            await informer.wait_for_version(version, timeout=0)
            if version != "4":
                await informer.relist()
        await settle()
    assert all(count == 50 and len(versions) == 1 for count, versions in looks)
    assert len(told) == 50 + 3 * 100
