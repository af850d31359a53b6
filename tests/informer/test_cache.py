from __future__ import annotations

import asyncio

import pytest

from informer import Bookmark

from .kit import Bench, bad, drain, gone, good, obj


async def test_versions():
    """When good, bad and deleted objects and bookmarks come, each should move the version; an empty one should not."""
    bench = Bench()
    await bench.relist(good(obj("a")))
    cache = bench.cache
    assert cache.version == "1001"
    seen = []
    for event in (good(obj("a", 5)), bad(obj("a", 6)), gone(obj("a"), 7), good(obj("b", ""))):
        cache.apply(event)
        seen.append(cache.version)
    cache.bookmark(Bookmark("9"))
    cache.bookmark(Bookmark(""))
    assert [*seen, cache.version] == ["5", "6", "7", "7", "9"]
    assert cache.reached(9)
    assert not cache.reached(10)


@pytest.mark.parametrize("version", ["", "abc", "10a"])
async def test_a_version_without_order_reaches_nothing(version: str):
    """When the server's versions are no decimals, no version should count as reached."""
    bench = Bench()
    bench.cache.version = version
    assert not bench.cache.reached(1)


async def test_an_event_without_a_key():
    """When an event of the stream has no usable key, the cache should be incomplete until the next list."""
    bench = Bench()
    await bench.relist(good(obj("a")))
    bench.cache.bookmark(Bookmark("5", unidentifiable=1))
    assert bench.cache.indexer.state.unidentifiable == 1
    assert bench.cache.version == "5"
    await bench.relist(good(obj("a")))
    assert bench.cache.indexer.state.unidentifiable == 0


async def test_resync_beside_changes(monkeypatch: pytest.MonkeyPatch):
    """When objects change while a resync is under way, no handler should be told of a state that is over."""
    monkeypatch.setattr("informer._slices.Slices.due", lambda _self: True)
    bench = Bench()
    await bench.relist(*(good(obj(name)) for name in "abcd"))
    bench.told()
    resync = asyncio.create_task(bench.cache.resync())
    await asyncio.sleep(0)
    assert bench.told() == [("update", "a 1", "a 1", "resync")]
    bench.cache.apply(gone(obj("b", 2)))
    bench.cache.apply(good(obj("c", 2)))
    bench.cache.apply(bad(obj("d", 2)))
    await resync
    assert [word for word, *_ in bench.told()] == ["delete", "update", "quarantined"]


async def test_waiting():
    """When a condition comes true, its waiters should go on; a waiter that is cancelled should leave nothing behind."""
    bench = Bench()
    cache = bench.cache
    await cache.wait(lambda: True)
    waits = [asyncio.create_task(cache.wait(lambda n=n: cache.reached(n))) for n in (1, 5, 5)]
    await asyncio.sleep(0)
    cache.bookmark(Bookmark("1"))
    await asyncio.sleep(0)
    assert [wait.done() for wait in waits] == [True, False, False]
    waits[1].cancel()
    await asyncio.sleep(0)
    assert len(cache._waiting) == 1
    cache.bookmark(Bookmark("7"))
    await waits[2]
    assert cache._waiting == []


async def test_many_handlers_share_the_objects():
    """When several handlers are told of one change, they should all get the stored object itself."""
    bench = Bench()
    others = [bench.join(), bench.join()]
    await bench.relist(good(obj("a")))
    stored = bench.cache.indexer.state.items["ns/a"].object
    for buffer in (bench.buffer, *others):
        assert [change.object is stored for change in drain(buffer)] == [True]
