from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import Change, InformerError, KubeObject, Quarantined, Removed, Updated
from informer._buffer import Buffer, iterate
from informer.testing import run

from .kit import Bench, Replay, bad, drain, gone, good, obj, short

HUGE = 1 << 40


class World:
    """A server whose objects live, change and die in any way, and a store that follows it."""

    def __init__(self) -> None:
        self.bench = Bench(HUGE)
        self.present: dict[str, tuple[str, bool, int]] = {}  # name -> uid, good, taste
        self.version = 0
        self.lives = 0

    def _event(self, name: str):
        uid, is_good, taste = self.present[name]
        self.version += 1
        return (good if is_good else bad)(
            obj(name, self.version, uid, namespace="", **({} if is_good else {"finalizers": [str(taste)]}))
        )

    def change(self, name: str, how: str, is_good: bool, taste: int):
        """An event of a watch; None when nothing comes of it."""
        if how == "delete":
            if name not in self.present:
                return None
            uid, _, _ = self.present.pop(name)
            self.version += 1
            return gone(obj(name, self.version, uid, namespace=""), self.version, last=is_good)
        if name not in self.present or how == "recreate":
            self.lives += 1
            self.present[name] = (f"life-{self.lives}", is_good, taste)
        else:
            self.present[name] = (self.present[name][0], is_good, taste)
        return self._event(name)

    def state(self) -> tuple[dict[str, bytes], set[str]]:
        state = self.bench.cache.indexer.state
        return {key: item.object.raw for key, item in state.items.items()}, set(state.held)


CHANGES = st.tuples(
    st.sampled_from("abc"), st.sampled_from(["edit", "edit", "recreate", "delete"]), st.booleans(), st.integers(0, 1)
)
STEPS = st.lists(
    st.one_of(
        CHANGES,
        CHANGES,
        CHANGES,
        st.lists(CHANGES, max_size=4),  # a relist, after changes that were missed
        st.tuples(st.just("pop"), st.integers(1, 3)),
        st.just("join"),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 4), st.booleans())
def test_merging_keeps_handlers_in_step(steps: list, max_backlog: int, before_sync: bool):
    """When changes of any kind wait and are merged at any time, a handler should be told only what fits what it knows, and
    end up knowing what the store has; as one whose changes are never merged.
    """

    async def main() -> None:
        world = World()
        cache = world.bench.cache
        merged = []
        handlers: list[tuple[Buffer[KubeObject], Replay]] = []

        def join(limit: int) -> None:
            buffer: Buffer[KubeObject] = Buffer(limit, merged.append)
            if cache.synced:
                buffer.snapshot(cache.indexer.state)
            cache.fanout.attach(buffer)
            handlers.append((buffer, Replay()))

        if not before_sync:
            await world.bench.relist()
        join(max_backlog)
        join(HUGE)
        for step in steps:
            if step == "join":
                join(max_backlog)
            elif isinstance(step, tuple) and step[0] == "pop":
                for buffer, replay in handlers:
                    for entry in itertools.islice(buffer.take(), step[1]):
                        if entry is not None:
                            replay(entry[1])
            elif isinstance(step, list) or not cache.synced:
                for change in step if isinstance(step, list) else [step]:
                    world.change(*change)
                await world.bench.relist(*(world._event(name) for name in world.present))
            elif (event := world.change(*step)) is not None:
                cache.apply(event)
        for buffer, replay in handlers:
            for change in drain(buffer):
                replay(change)
            replay.agrees(*world.state())
        unmerged = handlers[1][1]
        assert handlers[0][1].known == unmerged.known
        assert all(count >= 0 for count in merged)

    run(main())


@given(st.lists(CHANGES, min_size=1, max_size=60), st.integers(1, 5))
def test_merging_bounds_what_waits(changes: list, max_backlog: int):
    """When merging happens, at most one delete and then one other change of each key should be left, and what waits should
    never be more than twice what merging can leave, or `max_backlog`.
    """

    async def main() -> None:
        world = World()
        buffer: Buffer[KubeObject] = Buffer(max_backlog)
        await world.bench.relist()
        world.bench.cache.fanout.attach(buffer)
        for change in changes:
            if (event := world.change(*change)) is None:
                continue
            world.bench.cache.apply(event)
            # Three keys, two changes of each, one more event that may be two changes.
            assert len(buffer) <= max(max_backlog, 2 * 6)
        buffer._fold()
        left = drain(buffer)
        per_key = Counter((short(change)[0] == "delete", _key(change)) for change in left)
        assert all(count == 1 for count in per_key.values())
        deletes = [_key(change) for change in left if isinstance(change, Removed)]
        for key in deletes:
            own = [change for change in left if _key(change) == key]
            assert isinstance(own[0], Removed)
        assert not deletes  # this handler knows of nothing, so no delete is left

    run(main())


def _key(change: Change[KubeObject]) -> str:
    if isinstance(change, Quarantined):
        return change.entry.key
    return (change.new if isinstance(change, Updated) else change.object).key


def put(buffer: Buffer[KubeObject], bench: Bench, *events) -> None:
    for event in events:
        notes = bench.cache.indexer.apply(event)
        buffer.put(notes)


A1, A2, A3 = (good(obj("a", version)) for version in (1, 2, 3))
A_BAD, B1 = bad(obj("a", 4)), good(obj("b", 1))
NEXT, NEXT_BAD = good(obj("a", 7, "next")), bad(obj("a", 8, "next"))


@pytest.mark.parametrize(
    ("known", "pending", "left"),
    [
        ([], [A1, A2, A3], [("add", "a 3")]),
        ([], [A1, gone(obj("a"))], []),
        ([], [A1, A_BAD], [("quarantined", None, "a 4")]),
        ([], [A_BAD, A1], [("add", "a 1")]),
        ([], [A1, gone(obj("a")), NEXT], [("add", "a 7")]),
        ([A1], [A2, A3], [("update", "a 1", "a 3")]),
        ([A1], [A2, gone(obj("a", 9))], [("delete", "a 9")]),
        ([A1], [gone(obj("a", 9)), NEXT], [("delete", "a 9"), ("add", "a 7")]),
        ([A1], [NEXT, NEXT_BAD], [("delete", "a 1", "unknown"), ("quarantined", None, "a 8")]),
        ([A1], [NEXT, gone(obj("a", 9, "next"))], [("delete", "a 1", "unknown")]),
        ([A1], [A_BAD, good(obj("a", 5))], [("update", "a 1", "a 5")]),
        ([A1], [A2, A_BAD], [("quarantined", "a 1", "a 4")]),
        ([A1], [A_BAD, gone(obj("a"), last=False)], [("delete", "a 1", "unknown")]),
        ([A1, A_BAD], [A2, A3], [("add", "a 3")]),
        ([A1, A_BAD], [A2, gone(obj("a", 9))], [("delete", "a 9")]),
        ([A1, A_BAD], [A2, bad(obj("a", 5))], [("quarantined", None, "a 5")]),
        ([A_BAD], [A2, bad(obj("a", 5)), gone(obj("a"))], []),
    ],
)
async def test_merged(known: list, pending: list, left: list):
    """When changes of one object wait, merging should leave what the handler needs to stay in step."""
    bench = Bench()
    await bench.relist()
    buffer: Buffer[KubeObject] = Buffer(HUGE)
    for event in known:
        put(buffer, bench, event)
        drain(buffer)
    put(buffer, bench, *pending)
    buffer._fold()
    assert bench.told(buffer) == left


async def test_no_merging_up_to_the_limit():
    """When no more than `max_backlog` changes wait, every single one should be told."""
    bench = Bench()
    await bench.relist()
    saved: list[int] = []
    buffer: Buffer[KubeObject] = Buffer(3, saved.append)
    put(buffer, bench, A1, A2, A3)
    assert (len(buffer), saved) == (3, [])
    put(buffer, bench, good(obj("a", 4)))
    assert (bench.told(buffer), saved) == ([("add", "a 4")], [3])


async def test_an_object_that_always_changes_is_not_put_off():
    """When one object changes all the time, merging should keep its place, or a slow handler would never hear of it."""
    bench = Bench()
    await bench.relist()
    buffer: Buffer[KubeObject] = Buffer(2)
    put(buffer, bench, A1, B1)
    for version in range(2, 9):
        put(buffer, bench, good(obj("c", version)), good(obj("b", version)), good(obj("a", version)))
    buffer._fold()
    assert [name for _, name in bench.told(buffer)] == ["a 8", "b 8", "c 8"]


async def test_the_mark_of_the_initial_objects_keeps_its_place():
    """When changes are merged before the initial objects are told, what came later should not put off `has_synced`."""
    bench = Bench()
    await bench.relist(A1, B1)
    buffer: Buffer[KubeObject] = Buffer(1)
    buffer.snapshot(bench.cache.indexer.state)
    for version in range(2, 9):
        put(buffer, bench, good(obj("c", version)), good(obj("a", version)))
    buffer._fold()
    told = [entry and short(entry[1]) for entry in buffer.take()]
    assert told == [("add", "a 8", "initial"), ("add", "b 1", "initial"), None, ("add", "c 8")]


async def test_the_limit_comes_back_after_a_large_beginning():
    """When a handler has caught up after many initial objects, merging should begin at `max_backlog` again."""
    bench = Bench()
    await bench.relist(*(good(obj(f"o{n}")) for n in range(100)))
    buffer: Buffer[KubeObject] = Buffer(10)
    buffer.snapshot(bench.cache.indexer.state)
    drain(buffer)
    for version in range(2, 60):
        put(buffer, bench, good(obj("o1", version)))
        assert len(buffer) <= 11


async def test_snapshot():
    """When a handler joins late, every object should come first, then every withheld one, then the mark."""
    bench = Bench()
    await bench.relist(bad(obj("x")), A1, B1)
    buffer = bench.join()
    entries = [*buffer.take()]
    assert [entry and short(entry[1]) for entry in entries] == [
        ("add", "a 1", "initial"),
        ("add", "b 1", "initial"),
        ("quarantined", None, "x 1"),
        None,
    ]
    assert not len(buffer)


async def test_first_sync():
    """When a handler was there before the sync, its first objects should be initial ones, and later ones not."""
    bench = Bench()
    await bench.relist(A1, bad(obj("x")))
    entries = [*bench.buffer.take()]
    assert [entry and short(entry[1]) for entry in entries] == [
        ("quarantined", None, "x 1"),
        ("add", "a 1", "initial"),
        None,
    ]
    await bench.relist(A1, B1)
    assert bench.told() == [("add", "b 1")]


async def test_list_of_many_changes():
    """When a list changes more objects than `max_backlog` and nothing else waits, there should be nothing to merge; when
    another follows before any is told, each object should wait once.
    """
    bench = Bench(max_backlog=2)
    merges: list[int] = []
    names = "abcdef"
    await bench.relist(*(good(obj(name, 1)) for name in names))
    bench.told()
    buffer: Buffer[KubeObject] = Buffer(2, merges.append)
    buffer.snapshot(bench.cache.indexer.state)
    drain(buffer)
    bench.cache.fanout.attach(buffer)
    await bench.relist(*(good(obj(name, 2)) for name in names))
    assert merges == []
    assert len(buffer) == 6
    bench.cache.apply(good(obj("a", 3)))
    assert merges == []
    await bench.relist(*(good(obj(name, 4)) for name in names))
    assert merges == [7]
    assert bench.told(buffer) == [("update", f"{name} 1", f"{name} 4") for name in names]
    bench.cache.apply(good(obj("a", 5)))
    bench.cache.apply(good(obj("a", 6)))
    bench.cache.apply(good(obj("a", 7)))
    assert merges == [7, 2]


async def test_waiting():
    """When something arrives, who waits should wake; when it is closed, wait should say so, for ever."""
    buffer: Buffer[KubeObject] = Buffer(10)
    waiting = asyncio.create_task(buffer.wait())
    await asyncio.sleep(1)
    assert not waiting.done()
    bench = Bench()
    await bench.relist()
    put(buffer, bench, A1)
    assert await waiting is True
    assert await buffer.wait() is True
    drain(buffer)
    waiting = asyncio.create_task(buffer.wait())
    await asyncio.sleep(1)
    buffer.close()
    assert await waiting is False
    assert await buffer.wait() is False


async def test_iterate():
    """When a buffer is closed, iterating should end; with the cause when there is one."""
    bench = Bench()
    await bench.relist(A1)
    changes = iterate(bench.buffer, lambda: None)
    assert short(await anext(changes)) == ("add", "a 1", "initial")
    bench.buffer.close()
    assert [change async for change in changes] == []
    cause = LookupError("a bug")
    with pytest.raises(InformerError, match="a bug") as caught:
        await anext(iterate(bench.buffer, lambda: cause))
    assert caught.value.__cause__ is cause
