from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informer.errors import ApiError
from informer.listerwatcher import Bookmark, Deleted, Event, Item, ListerWatcher, ListOptions, WatchOptions, Withheld
from informer.objects import KubeObject, ObjectMeta
from informer.problems import QuarantinedObject
from informer.testing import FakeListerWatcher, now, run

from .conftest import CLUSTERS, WIDGETS


def loop_time() -> float:
    return asyncio.get_running_loop().time()


def show(event: Event[KubeObject]) -> tuple[str, ...]:
    match event:
        case Item(key=key, object=obj):
            return ("item", key, str(obj["spec"]))
        case Deleted(key=key, last=last):
            return ("deleted", key, str(last["spec"]) if last else "unreadable")
        case Bookmark(resource_version=version, initial_events_end=end):
            return ("bookmark", version, str(end))
        case Withheld(key=key):
            return ("withheld", key)


async def read(events: AsyncIterator[Event[KubeObject]]) -> list[tuple[str, ...]]:
    return [show(event) async for event in events]


@pytest.fixture
def source() -> FakeListerWatcher:
    return FakeListerWatcher(WIDGETS)


def test_it_is_a_lister_watcher(source: FakeListerWatcher):
    """When a ListerWatcher is wanted, the fake should be one (checked by mypy) and name its resource."""
    seam: ListerWatcher[KubeObject] = source
    assert seam.resource == WIDGETS


async def test_list(source: FakeListerWatcher):
    """When objects are listed, each should stand beside its identity, and the call be recorded."""
    made = source.create("a", {"n": 1}, namespace="team-a", labels={"x": "y"})
    options = ListOptions(resource_version="0")
    page = await source.list(options)
    [item] = page.items
    assert item == Item("team-a/a", made.uid, made.resource_version, {"x": "y"}, made)
    assert (page.resource_version, page.continue_token, page.unidentifiable) == (made.resource_version, "", 0)
    assert [(call.verb, call.options, call.time) for call in source.calls] == [("list", options, 1000)]


async def test_pages(source: FakeListerWatcher):
    """When a limit is given, pages should come from one snapshot, and an expired token be 410."""
    for name in "abc":
        source.create(name)
    version = source.cluster.resource_version
    one = await source.list(ListOptions(limit=2))
    source.delete("c")
    two = await source.list(ListOptions(limit=2, continue_token=one.continue_token))
    assert [[item.key for item in page.items] for page in (one, two)] == [["default/a", "default/b"], ["default/c"]]
    assert (two.resource_version, two.continue_token) == (version, "")
    source.compact()
    with pytest.raises(ApiError) as caught:
        await source.list(ListOptions(limit=2, continue_token=one.continue_token))
    assert caught.value.expired
    whole = await source.list(ListOptions(limit=1, resource_version="0"))
    assert len(whole.items) == 2


async def test_version_too_large(source: FakeListerWatcher):
    """When the version is ahead, the error should be recognisable as that."""
    with pytest.raises(ApiError) as caught:
        await source.list(ListOptions(resource_version="99"))
    assert caught.value.version_too_large
    assert (caught.value.status, caught.value.retry_after) == (504, 1)


async def test_watch(source: FakeListerWatcher):
    """When objects change, an open watch should bring it from its version on, and end at its timeout."""
    source.create("a", {"n": 1})
    version = source.cluster.resource_version
    source.update("a", {"n": 2})
    async with source.watch(WatchOptions(resource_version=version, timeout=10)) as events:
        reading = asyncio.create_task(read(events))
        await asyncio.sleep(1)
        source.create("b")
        source.delete("a")
        await asyncio.sleep(1)
        assert source.open_watches == 1
        assert await reading == [
            ("item", "default/a", "{'n': 2}"),
            ("item", "default/b", "{}"),
            ("deleted", "default/a", "{'n': 2}"),
        ]
    assert loop_time() == 1010
    assert source.open_watches == 0
    assert source.count("watch") == 1


async def test_selection():
    """When selectors are set, an object that leaves them should be deleted."""
    source = FakeListerWatcher(WIDGETS, namespace="team-a", label_selector="x=1", field_selector="metadata.name!=c")
    async with source.watch(WatchOptions(resource_version="1", timeout=5)) as events:
        source.create("a", 1, namespace="team-a", labels={"x": "1"})
        source.create("b", 1, namespace="team-b", labels={"x": "1"})
        source.create("c", 1, namespace="team-a", labels={"x": "1"})
        source.update("a", 2, namespace="team-a", labels={"x": "2"})
        source.update("a", 3, namespace="team-a", labels={"x": "1"})
        assert await read(events) == [
            ("item", "team-a/a", "1"),
            ("deleted", "team-a/a", "1"),
            ("item", "team-a/a", "3"),
        ]
    assert [item.key for item in (await source.list(ListOptions())).items] == ["team-a/a"]


async def test_streaming_list(source: FakeListerWatcher):
    """When initial events are asked for, they should come first and end with the marked bookmark."""
    source.create("a")
    options = WatchOptions(resource_version="", timeout=5, send_initial_events=True)
    async with source.watch(options) as events:
        source.create("b")
        assert await read(events) == [
            ("item", "default/a", "{}"),
            ("bookmark", "2", "True"),
            ("item", "default/b", "{}"),
        ]
    source.streaming_lists = False
    with pytest.raises(ApiError) as caught:
        async with source.watch(options):
            pass
    assert caught.value.status == 422


async def test_bookmarks():
    """When a period is set, bookmarks should come with it; and by hand at any time."""
    source = FakeListerWatcher(WIDGETS, bookmark_period=60)
    async with source.watch(WatchOptions(resource_version="1", timeout=130)) as events:
        source.bookmark("77")
        assert await read(events) == [
            ("bookmark", "77", "False"),
            ("bookmark", "1", "False"),
            ("bookmark", "1", "False"),
        ]
    assert loop_time() == 1130


async def test_scripted_errors(source: FakeListerWatcher):
    """When errors are put in the way, the next calls should meet them in order, one each."""
    source.fail_lists(ApiError("no", status=500), None, OSError("refused"))
    source.fail_watches(ApiError("no", status=429))
    with pytest.raises(ApiError, match="500"):
        await source.list(ListOptions())
    await source.list(ListOptions())
    with pytest.raises(OSError, match="refused"):
        await source.list(ListOptions())
    await source.list(ListOptions())
    with pytest.raises(ApiError, match="429"):
        async with source.watch(WatchOptions(resource_version="1")):
            pass
    async with source.watch(WatchOptions(resource_version="1", timeout=1)) as events:
        assert await read(events) == []
    assert (source.count("list"), source.count("watch")) == (4, 2)


async def test_dropped_watches(source: FakeListerWatcher):
    """When watches are dropped, they should end cleanly or raise, after what came before."""
    async with source.watch(WatchOptions(resource_version="1")) as events:
        source.create("a")
        source.drop_watches()
        assert await read(events) == [("item", "default/a", "{}")]
    async with source.watch(WatchOptions(resource_version="2")) as events:
        source.drop_watches(ConnectionResetError("gone"))
        with pytest.raises(ConnectionResetError):
            await anext(events)
    assert loop_time() == 1000


async def test_expiry(source: FakeListerWatcher):
    """When history is compacted, an older version should be 410 at opening, and inside a watch that is behind."""
    async with source.watch(WatchOptions(resource_version="1")) as events:
        source.create("a")
        source.compact()
        with pytest.raises(ApiError) as caught:
            await anext(events)
    assert caught.value.expired
    with pytest.raises(ApiError) as caught:
        async with source.watch(WatchOptions(resource_version="1")):
            pass
    assert caught.value.expired


async def test_raw_and_withheld_objects(source: FakeListerWatcher):
    """When an object has no key, it should be counted; when a test withholds one, that should stand in its place."""
    source.create("a")
    source.create("b")
    source.cluster.put_raw(WIDGETS, "c", b'{"metadata":{}}')

    def withhold(obj: KubeObject) -> Withheld | None:
        if obj.name != "b":
            return None
        entry = QuarantinedObject(WIDGETS, obj.key, obj.uid, obj.resource_version, (), now(), now(), 1, ObjectMeta())
        return Withheld(obj.key, obj.uid, obj.resource_version, entry)

    source.withhold = withhold
    page = await source.list(ListOptions())
    assert [type(item) for item in page.items] == [Item, Withheld]
    assert page.unidentifiable == 1
    async with source.watch(WatchOptions(resource_version="1", timeout=1)) as events:
        source.delete("b")
        assert await read(events) == [
            ("item", "default/a", "{}"),
            ("withheld", "default/b"),
            ("deleted", "default/b", "{}"),
        ]


async def test_cluster_scoped_resources():
    """When the resource has no namespaces, keys should be plain names."""
    source = FakeListerWatcher(CLUSTERS)
    source.create("a")
    source.update("a", {"n": 2})
    assert [item.key for item in (await source.list(ListOptions())).items] == ["a"]
    source.delete("a")
    assert (await source.list(ListOptions())).items == []


async def test_cancelled_reader(source: FakeListerWatcher):
    """When a reader is cancelled, its watch should be gone at once."""

    async def reader() -> None:
        async with source.watch(WatchOptions(resource_version="1")) as events:
            await read(events)

    task = asyncio.create_task(reader())
    await asyncio.sleep(1)
    assert source.open_watches == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.open_watches == 0
    assert loop_time() == 1001


OPERATIONS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", None])), max_size=25)


@settings(deadline=None, max_examples=60)
@given(before=OPERATIONS, after=OPERATIONS, limit=st.sampled_from([None, 1, 2]))
def test_list_and_watch_lead_to_the_servers_state(before, after, limit):
    """When a client lists in pages while objects change and then watches, it should end with what a fresh list shows."""

    def play(source: FakeListerWatcher, operations: list[tuple[str, str | None]]) -> None:
        present = {obj["metadata"]["name"] for obj in source.cluster.objects(WIDGETS)}
        for name, label in operations:
            if label is None:
                if name in present:
                    source.delete(name)
                present.discard(name)
            elif name in present:
                source.update(name, None, labels={"x": label})
            else:
                source.create(name, labels={"x": label})
                present.add(name)

    async def main() -> None:
        source = FakeListerWatcher(WIDGETS, label_selector="x=1")
        play(source, before)
        page = await source.list(ListOptions(limit=limit))
        known = {item.key: item.resource_version for item in page.items}
        version = page.resource_version
        half = len(after) // 2
        play(source, after[:half])
        while page.continue_token:
            page = await source.list(ListOptions(limit=limit, continue_token=page.continue_token))
            known |= {item.key: item.resource_version for item in page.items}
            assert page.resource_version == version
        async with source.watch(WatchOptions(resource_version=version, timeout=10)) as events:
            asyncio.get_running_loop().call_later(5, play, source, after[half:])
            async for event in events:
                match event:
                    case Item(key=key, resource_version=at):
                        known[key] = at
                    case Deleted(key=key):
                        del known[key]
        assert known == {item.key: item.resource_version for item in (await source.list(ListOptions(limit=None))).items}

    run(main())
