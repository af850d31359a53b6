from __future__ import annotations

import asyncio
import itertools
import logging
import sys
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import KubeObject, NotFoundError, Problem, QuarantinedError
from informer._cache import Cache
from informer.lister import Lister
from informer.listerwatcher import Deleted, Item, Withheld
from informer.store import other_life, unchanged
from informer.testing import run

from .kit import WIDGETS, Bench, bad, by_spec, drain, gone, good, obj

OTHER = Problem(("spec", "timeout"), '"2"', "missing unit")
NOW = "2026-01-01T00:00:00Z"

GOOD1, GOOD2 = good(obj("a", 1)), good(obj("a", 2))
BAD1, BAD2, BAD3 = bad(obj("a", 1)), bad(obj("a", 2)), bad(obj("a", 3))
NEW_GOOD, NEW_BAD = good(obj("a", 7, "other")), bad(obj("a", 7, "other"))

# The table of degraded-mode behaviour: what came before, what happens, what a handler that was there is told, and what one
# that joined just before the event is told after its initial objects. None stands for: gone.
TABLE = {
    "unknown, bad": ([], BAD1, [("quarantined", None, "a 1")], ...),
    "good, bad of the same life": ([GOOD1], BAD2, [("quarantined", "a 1", "a 2")], ...),
    "good, bad of another life": ([GOOD1], NEW_BAD, [("delete", "a 1", "unknown"), ("quarantined", None, "a 7")], ...),
    "good, good of another life": ([GOOD1], NEW_GOOD, [("delete", "a 1", "unknown"), ("add", "a 7")], ...),
    "bad, bad as before": ([BAD1], BAD2, [], ...),
    "bad, other problems": ([BAD1], bad(obj("a", 2), OTHER), [("quarantined", None, "a 2")], ...),
    "bad, begins to terminate": (
        [BAD1],
        bad(obj("a", 2, deletionTimestamp=NOW)),
        [("quarantined", None, "a 2")],
        ...,
    ),
    "bad, another finalizer": ([BAD1], bad(obj("a", 2, finalizers=["x/y"])), [("quarantined", None, "a 2")], ...),
    "bad, other labels only": ([BAD1], bad(obj("a", 2, labels={"x": "y"})), [], ...),
    "bad, good of the same life": ([BAD1], GOOD2, [("add", "a 2")], ...),
    "bad and once good, good again": ([GOOD1, BAD2], good(obj("a", 3)), [("add", "a 3")], ...),
    "bad, never good, gone": ([BAD1], None, [], ...),
    "bad, once good, gone": ([GOOD1, BAD2], None, [("delete", "a 1", "unknown")], []),
    "bad twice, once good, gone": ([GOOD1, BAD2, BAD3], None, [("delete", "a 1", "unknown")], []),
    "good, bad, good, bad, gone": (
        [GOOD1, BAD2, good(obj("a", 3)), bad(obj("a", 4))],
        None,
        [("delete", "a 3", "unknown")],
        [],
    ),
    "bad, never good, good of another life": ([BAD1], NEW_GOOD, [("add", "a 7")], ...),
    "bad, never good, bad of another life": ([BAD1], NEW_BAD, [("quarantined", None, "a 7")], ...),
    "bad, once good, good of another life": (
        [GOOD1, BAD2],
        NEW_GOOD,
        [("delete", "a 1", "unknown"), ("add", "a 7")],
        [("add", "a 7")],
    ),
    "bad, once good, bad of another life": (
        [GOOD1, BAD2],
        NEW_BAD,
        [("delete", "a 1", "unknown"), ("quarantined", None, "a 7")],
        [("quarantined", None, "a 7")],
    ),
    "unknown, good": ([], GOOD1, [("add", "a 1")], ...),
    "good, good of a later version": ([GOOD1], GOOD2, [("update", "a 1", "a 2")], ...),
    "good, the same again": ([GOOD1], good(obj("a", 1)), [], ...),
    "good, an uid that is missing": ([GOOD1], good(obj("a", 2, "")), [("update", "a 1", "a 2")], ...),
    "good, gone": ([GOOD1], None, [("delete", "a 1", "unknown")], ...),
    "unknown, gone": ([], None, [], ...),
}


@pytest.mark.parametrize("by", ["watch", "relist"])
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
async def test_table(row: tuple, by: str):
    """When an object changes between good, bad and gone, it should be told as the table says, in the store before."""
    before, event, told, told_late = row
    bench = Bench()
    await bench.relist()
    for earlier in before:
        bench.cache.apply(earlier)
    bench.told()
    late = bench.join()
    drain(late)
    if by == "relist":
        await bench.relist(*([] if event is None else [event]))
    elif event is None:
        bench.cache.apply(gone(obj("a", 1), last=False))
    else:
        bench.cache.apply(event)
    assert bench.told() == told
    assert bench.told(late) == (told if told_late is ... else told_late)
    version = None if event is None else event.resource_version
    assert bench.names == ([f"a {version}"] if isinstance(event, Item) else [])
    assert bench.held == ([f"a {version}"] if isinstance(event, Withheld) else [])


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (gone(obj("a", 5)), [("delete", "a 5")]),
        (gone(obj("a", 5), last=False), [("delete", "a 1", "unknown")]),
        (gone(obj("a", 5, "other")), [("delete", "a 1", "unknown")]),
    ],
    ids=["with its last state", "whose last state does not decode", "of another life, the delete of ours was missed"],
)
async def test_deleted_by_watch(event: Deleted[KubeObject], told: list):
    """When a DELETED comes, it should tell the last state, or the last one known with the flag."""
    bench = Bench()
    await bench.relist(GOOD1)
    bench.told()
    bench.cache.apply(event)
    assert bench.told() == told
    assert bench.names == []


async def test_relist_order():
    """When a list replaces the store, it should tell deletes, then quarantined, then updates, then adds."""
    bench = Bench()
    lives = [good(obj(name, 1)) for name in ("gone", "turns-bad", "changed", "reborn", "same")]
    await bench.relist(*lives, bad(obj("bad", 1)))
    bench.told()
    await bench.relist(
        good(obj("new", 9)),
        good(obj("changed", 9)),
        bad(obj("new-bad", 9)),
        good(obj("reborn", 9, "other")),
        bad(obj("turns-bad", 9)),
        good(obj("same", 1)),
        good(obj("bad", 9)),
    )
    told = bench.told()
    assert [word for word, *_ in told] == ["delete"] * 2 + ["quarantined"] * 2 + ["update"] + ["add"] * 3
    assert {name for word, name, *_ in told if word == "delete"} == {"gone 1", "reborn 1"}
    assert {name for word, name, *_ in told if word == "add"} == {"new 9", "reborn 9", "bad 9"}
    assert bench.names == ["bad 9", "changed 9", "new 9", "reborn 9", "same 1"]


async def test_store_is_final_before_handlers():
    """When a change is told, it should find the store, every index and the namespaces as they are after it."""
    bench = Bench()
    bench.cache.indexer.add_index("tag", by_spec("tags"))
    lister: Lister[KubeObject] = Lister(bench.cache.indexer, WIDGETS, lambda: bench.cache.synced)
    seen = []

    class Spy:
        def put_list(self, news):
            self.put([*itertools.chain(*news.notes.values(), news.first)])

        def put(self, notes):
            for note in notes:
                name = note.key.rpartition("/")[2]
                seen.append(
                    (name, len(lister.by_index("tag", "red")), len(lister.list(namespace="ns")), lister.complete)
                )

    bench.cache.fanout.attach(Spy())  # type: ignore[arg-type]
    await bench.relist(good(obj("a", 1, tags=["red"])))
    bench.cache.apply(good(obj("b", 2, tags=["red"])))
    bench.cache.apply(good(obj("b", 3, tags=["blue"])))
    bench.cache.apply(bad(obj("b", 4)))
    await bench.relist(good(obj("b", 5, tags=["red"])))
    assert seen == [
        ("a", 1, 1, True),
        ("b", 2, 2, True),
        ("b", 1, 2, True),
        ("b", 1, 1, False),
        ("a", 1, 1, True),
        ("b", 1, 1, True),
    ]


async def test_unchanged_objects_stay_the_same_objects():
    """When a relist brings an object unchanged, it should keep the stored one, without an event."""
    bench = Bench()
    await bench.relist(GOOD1, good(obj("b", 1)))
    before = dict(bench.cache.indexer.state.items)
    bench.told()
    await bench.relist(good(obj("a", 1)), good(obj("b", 1, x="a default that was added under the same version")))
    items = bench.cache.indexer.state.items
    assert items["ns/a"] is before["ns/a"]
    assert items["ns/b"] is not before["ns/b"]
    assert bench.told() == [("update", "b 1", "b 1")]
    stored = items["ns/a"]
    bench.cache.apply(good(obj("a", 1)))
    assert bench.cache.indexer.state.items["ns/a"] is stored


class Opaque:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compare me not")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (Item("k", "u", "1", {}, 1), Item("k", "u", "1", {}, 1), True),
        (Item("k", "u", "1", {}, 1), Item("k", "u", "1", {}, 2), False),
        (Item("k", "u", "", {}, 1), Item("k", "u", "", {}, 1), False),
        (Item("k", "u", "1", {}, object(), 7), Item("k", "u", "1", {}, object(), 7), True),
        (Item("k", "u", "1", {}, 1, 7), Item("k", "u", "1", {}, 1, 8), False),
        (Item("k", "u", "1", {}, Opaque()), Item("k", "u", "1", {}, Opaque()), False),
        (
            good(KubeObject(b'{"metadata":{}}', "a")),
            good(KubeObject(b'{"kind":"W","apiVersion":"g/v1","metadata":{}}', "a")),
            False,
        ),
        (
            Item("k", "u", "1", {}, KubeObject(b'{"metadata":{}}', "a")),
            Item("k", "u", "1", {}, KubeObject(b'{"kind":"W","apiVersion":"g/v1","metadata":{}}', "a")),
            True,
        ),
    ],
    ids=[
        "equal values",
        "other values",
        "no version",
        "equal digests of values without equality",
        "other digests",
        "an equality that raises",
        "no version, list and watch",
        "the same bytes by list and by watch",
    ],
)
def test_unchanged(old: Item, new: Item, same: bool):
    """When an object comes again, it should be unchanged only with the same non-empty version and content."""
    assert unchanged(old, new) is same


@pytest.mark.parametrize(
    ("one", "other", "two"), [("a", "b", True), ("a", "a", False), ("", "b", False), ("a", "", False)]
)
def test_other_life(one: str, other: str, two: bool):
    """When both uids are known and differ, it should be another life; never on an unknown uid."""
    assert other_life(one, other) is two


async def test_list_before_it_is_published():
    """When a list is still coming, or dies, nothing of it should be seen."""
    bench = Bench()
    await bench.relist(GOOD1)
    bench.told()
    collected = bench.cache.collect()
    collected.add(good(obj("b", 2)))
    collected.add(good(obj("c", 2)))
    collected.discard("ns/c")
    collected.discard("ns/never")
    assert bench.names == ["a 1"]
    assert len(collected) == 1
    await collected.publish("5")
    assert bench.names == ["b 2"]
    assert bench.told() == [("delete", "a 1", "unknown"), ("add", "b 2")]


async def test_one_key_twice_in_a_list():
    """When pages bring one key twice, it should be one object, the later one."""
    bench = Bench()
    await bench.relist(good(obj("a", 1)), bad(obj("a", 2)), good(obj("a", 3)))
    assert bench.told() == [("add", "a 3", "initial")]
    assert (bench.names, bench.held) == (["a 3"], [])


# ---------------------------------------------------------------------- indexes


def entries(cache: Cache[KubeObject], index: str) -> dict[str, set[str]]:
    return {value: set(bucket) for value, bucket in cache.indexer.state.indexes[index].buckets.items()}


def expected(cache: Cache[KubeObject], values: Callable[[KubeObject], list[str]]) -> dict[str, set[str]]:
    model: dict[str, set[str]] = {}
    for item in cache.indexer.state.items.values():
        for value in values(item.object):
            model.setdefault(value, set()).add(item.key)
    return model


OBJECTS = st.builds(
    lambda name, namespace, version, uid, tags, is_bad: (bad if is_bad else good)(
        obj(name, version, uid, namespace=namespace, tags=tags)
    ),
    st.sampled_from("abc"),
    st.sampled_from(["", "n1", "n2"]),
    st.integers(1, 4),
    st.sampled_from(["u1", "u2", ""]),
    st.lists(st.sampled_from("xyz"), max_size=3),
    st.booleans(),
)
STEPS = st.lists(
    st.one_of(
        OBJECTS,
        OBJECTS.map(lambda event: Deleted(event.key, event.uid, "9", None)),
        st.lists(OBJECTS, max_size=6),
        st.sampled_from(["new index", "index while listing"]),
    ),
    max_size=25,
)


@given(STEPS)
def test_indexes_are_exact(steps: list):
    """When objects come, change and go in any way, every index and namespace should hold exactly what a scan would find."""

    async def main() -> None:
        bench, tags = Bench(), by_spec("tags")
        cache, indexer = bench.cache, bench.cache.indexer
        indexer.add_index("index", tags)
        for number, step in enumerate(steps):
            if step == "new index":
                indexer.add_index(f"index {number}", tags)
            elif step == "index while listing":
                collected = cache.collect()
                for item in indexer.state.items.values():
                    collected.add(item)
                publishing = asyncio.create_task(collected.publish("7"))
                indexer.add_index(f"index {number}", tags)
                await publishing
            elif isinstance(step, list):
                await bench.relist(*step)
            else:
                cache.apply(step)
            state = indexer.state
            for index in state.indexes:
                assert entries(cache, index) == expected(cache, tags)
            by_namespace: dict[str, set[str]] = {}
            for item in state.items.values():
                by_namespace.setdefault(item.object.namespace, set()).add(item.key)
            assert {namespace: set(bucket) for namespace, bucket in state.namespaces.items()} == by_namespace
            for bucket in state.namespaces.values():
                assert all(state.items[key] is item for key, item in bucket.items())
            assert not state.items.keys() & state.held.keys()

    run(main())


async def test_index_added_while_a_list_is_built(monkeypatch: pytest.MonkeyPatch):
    """When an index is added between two slices of building a list, it should be complete in the new state."""
    monkeypatch.setattr("informer._slices.Slices.due", lambda _self: True)
    bench = Bench()
    await bench.relist(*(good(obj(f"a{n}", 1, tags=["old"])) for n in range(5)))
    collected = bench.cache.collect()
    for n in range(10):
        collected.add(good(obj(f"a{n}", 2, tags=[f"t{n % 2}"])))
    publishing = asyncio.create_task(collected.publish("7"))
    for number in range(30):
        await asyncio.sleep(0)
        bench.cache.indexer.add_index(f"i{number}", by_spec("tags"))
        assert entries(bench.cache, f"i{number}") == expected(bench.cache, by_spec("tags"))
    await publishing
    assert bench.names == [f"a{n} 2" for n in range(10)]
    for number in range(30):
        assert entries(bench.cache, f"i{number}") == expected(bench.cache, by_spec("tags"))


async def test_index_name_taken():
    """When an index of that name exists, a second should be refused and the first left alone."""
    bench = Bench()
    bench.cache.indexer.add_index("tag", by_spec("tags"))
    await bench.relist(good(obj("a", tags=["x"])))
    with pytest.raises(ValueError, match="'tag'"):
        bench.cache.indexer.add_index("tag", lambda _: ["y"])
    assert entries(bench.cache, "tag") == {"x": {"ns/a"}}


@pytest.mark.parametrize(
    "function",
    [
        lambda one: one["spec"]["missing"],
        lambda _: [1],
        lambda _: "a string, which would be taken for its characters",
    ],
    ids=["raises", "no strings", "one string"],
)
async def test_broken_index_function(function: Callable, caplog: pytest.LogCaptureFixture):
    """When an index function fails for an object, it should be stored, under no key of it, and logged once."""
    bench = Bench()
    bench.cache.indexer.add_index("broken", lambda one: ["fine"] if one["spec"].get("ok") else function(one))
    bench.cache.indexer.add_index("other", lambda _: ["all"])
    with caplog.at_level(logging.ERROR):
        await bench.relist(good(obj("a", 1, ok=True)))
        bench.cache.apply(good(obj("a", 2)))
        for _ in range(3):
            await bench.relist(good(obj("a", 2)))
        assert entries(bench.cache, "broken") == {}
        assert entries(bench.cache, "other") == {"all": {"ns/a"}}
        assert bench.names == ["a 2"]
        assert ["'broken'" in record.getMessage() and "ns/a" in record.getMessage() for record in caplog.records] == [
            True
        ]
        assert caplog.records[0].exc_info
        bench.cache.apply(good(obj("a", 3)))
        assert len(caplog.records) == 1
    bench.cache.apply(good(obj("a", 4, ok=True)))
    assert entries(bench.cache, "broken") == {"fine": {"ns/a"}}


async def test_bug_of_an_index_function_does_not_flood_the_log(caplog: pytest.LogCaptureFixture):
    """When an index function fails for every object, there should be one traceback per kind of error, and a count."""
    bench = Bench()
    bench.cache.indexer.add_index("broken", lambda one: one["spec"]["missing"] if one.name != "x" else 1 / 0)
    with caplog.at_level(logging.ERROR):
        for version in (1, 2):
            await bench.relist(*[good(obj(f"o{n}", version)) for n in range(120)], good(obj("x", version)))
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError, ZeroDivisionError]
    counted = [record.getMessage() for record in caplog.records if not record.exc_info]
    assert [text.split("KeyError for ")[1].split(" objects")[0] for text in counted] == ["10", "100"]
    assert all("'broken'" in text and "ns/o" in text for text in counted)


@pytest.mark.parametrize("by", ["watch", "relist"])
async def test_failures_of_objects_that_are_gone_are_forgotten(by: str):
    """When an object goes whose index failed, nothing should be remembered of it."""
    bench = Bench()

    def broken(_: object) -> list[str]:
        raise LookupError

    bench.cache.indexer.add_index("broken", broken)
    await bench.relist(good(obj("a")))
    if by == "watch":
        bench.cache.apply(gone(obj("a")))
    else:
        await bench.relist()
    assert bench.cache.indexer.state.indexes["broken"].failed == {}


# ---------------------------------------------------------------------- readers in other threads


@pytest.fixture
def fast_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


async def test_readers_in_threads(fast_switching: None):
    """When threads read while objects change and lists are replaced, none should see an exception, an object that is absent
    for a moment, or half a list.
    """
    bench = Bench()
    bench.cache.indexer.add_index("tag", by_spec("tags"))
    lister: Lister[KubeObject] = Lister(bench.cache.indexer, WIDGETS, lambda: bench.cache.synced)
    generations = [[good(obj(f"g{n}", version, tags=[f"v{version}"])) for n in range(40)] for version in (1, 2)]
    steady = [good(obj("steady", version, tags=["here", f"x{version}"])) for version in (1, 2)]
    flip: list[Item[KubeObject] | Withheld] = [good(obj("flip", 1)), bad(obj("flip", 2))]
    await bench.relist(*generations[0], steady[0], flip[0])
    stop, faults, reads = threading.Event(), [], [0, 0, 0]

    def lists() -> None:
        versions = {one.resource_version for one in lister.list() if one.name.startswith("g")}
        found = sum(one.name.startswith("g") for one in lister.list(namespace="ns"))
        if len(versions) != 1 or found != 40:
            faults.append((versions, found))

    def index() -> None:
        if [one.name for one in lister.by_index("tag", "here")] != ["steady"]:
            faults.append("steady was not under its tag")
        lister.index_values("tag")

    def single() -> None:
        try:
            lister.get("flip", namespace="ns")
        except QuarantinedError:
            pass
        except NotFoundError:
            faults.append("flip was absent")
        if lister.get("steady", namespace="ns").name != "steady":
            faults.append("steady is another")

    def reader(number: int, read: Callable[[], None]) -> None:
        try:
            while not stop.is_set():
                read()
                reads[number] += 1
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=reader, args=pair) for pair in enumerate((lists, index, single))]
    for thread in threads:
        thread.start()
    try:
        for turn in range(4000):
            bench.cache.apply(steady[turn % 2])
            bench.cache.apply(flip[turn % 2])
            if turn % 100 == 0:
                await bench.relist(*generations[turn // 100 % 2], steady[turn % 2], flip[turn % 2])
            drain(bench.buffer)
            if faults:
                break
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert faults == []
    assert min(reads) > 0
