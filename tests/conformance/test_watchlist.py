"""reflector_watchlist_test.go and what belongs to it: streaming lists, and pages where there are none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from informer import (
    ApiError,
    ApiListerWatcher,
    Bookmark,
    DegradedListerWatcher,
    InformerError,
    KubeObject,
    NotSyncedError,
    Page,
    SharedInformer,
)
from informer.testing import End, FakeApiServer, FakeListerWatcher, match
from informer.testing.faults import Script

from .support import (
    BROKEN,
    MARK,
    PODS,
    SILENCE,
    Scripted,
    Step,
    following,
    gone,
    line,
    mark,
    names,
    page,
    pod,
    pods,
    record,
    settle,
    tasks,
    tree,
)

INVALID = ApiError("sendInitialEvents is forbidden for watch", status=422, reason="Invalid")
TOO_MANY = ApiError("slow down", status=429, reason="TooManyRequests")


@pytest.mark.upstream(
    "reflector_watchlist_test.go: NewReflectorWithDisablementWatchList",
    verdict="different",
    reason="`InformerOptions.initial_list` of each informer instead of a process-wide gate; a source that cannot stream refuses with 400, 405 or 422",
)
@pytest.mark.upstream(
    "listwatch_test.go, watch_list_test.go: ToListWatcherWithWatchListSemantics (3), DoesClientNotSupportWatchListSemantics (3)",
    verdict="different",
    reason="no mark on clients and fakes, which is easily forgotten: a source that cannot stream refuses as a server does, and gets LISTs",
)
@pytest.mark.parametrize(
    ("initial_list", "can_stream", "expected"),
    [
        ("list", True, ["LIST rv=0 limit=500", "WATCH rv=1"]),
        ("stream", True, ["STREAM rv="]),
        ("stream", False, ["STREAM rv=", "LIST rv=0 limit=500", "WATCH rv=1"]),
        ("auto", True, ["STREAM rv="]),
        ("auto", False, ["STREAM rv=", "LIST rv=0 limit=500", "WATCH rv=1"]),
    ],
)
async def test_streaming_is_an_option(initial_list: str, can_stream: bool, expected: list[str]) -> None:
    """When streaming lists are asked for or not, and served or not, the requests should be these."""
    stream: list[Step] = [pod("a", "1"), MARK("1"), SILENCE]
    watches = {"list": [], "stream": [stream], "auto": [stream]}[initial_list] if can_stream else [INVALID]
    source = Scripted([page("1", *pods("a"))], watches)
    async with following(source, initial_list=initial_list) as (informer, _):
        assert names(informer) == ["a"]
        assert source.asked == expected


@pytest.mark.upstream(
    "reflector_watchlist_test.go: InitialEventsEndBookmarkTicker",
    verdict="stricter",
    reason="after 60 s without an event (10 s with `auto`) it does not only warn: it LISTs from then on, since a server that never sends the mark would keep it out for ever (kubernetes#139716)",
)
@pytest.mark.parametrize(("initial_list", "seconds"), [("stream", 60.0), ("auto", 10.0)])
async def test_silence_before_the_mark(caplog: pytest.LogCaptureFixture, initial_list: str, seconds: float) -> None:
    """When a streaming list falls silent without its mark, one warning should say so and a LIST follow; not in a watch."""
    source = Scripted([page("1", *pods("a"))], [[1.0, pod("a", "1"), SILENCE]])
    async with following(source, initial_list=initial_list, sync=False) as (informer, _):
        await asyncio.sleep(seconds)
        assert not informer.health.synced
        await asyncio.sleep(2)
        assert names(informer) == ["a"]
        await asyncio.sleep(240)  # the watch is as silent
    assert source.asked == ["STREAM rv=", "LIST rv=0 limit=500", "WATCH rv=1"]
    [warning] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert f"nothing came for {seconds:.0f} s" in warning


@pytest.mark.upstream("reflector_watchlist_test.go: WatchListResourceVersion", verdict="same")
@pytest.mark.parametrize(
    ("steps", "version"),
    [([], ""), ([pod("a", "1")], ""), ([pod("a", "1"), MARK("2"), BROKEN], "2")],
    ids=["no events", "added only", "added and mark"],
)
async def test_version_to_go_on_from(steps: Sequence[Step], version: str) -> None:
    """When a streaming list breaks, the next one should ask for the mark's version, and for none when there was no mark."""
    source = Scripted(watches=[steps, [MARK("3"), SILENCE]])
    async with following(source, initial_list="stream", sync=False):
        await asyncio.sleep(5)
    assert source.asked == ["STREAM rv=", f"STREAM rv={version}"]


@pytest.mark.upstream("reflector_watchlist_test.go: WatchList: no bookmark", verdict="same")
async def test_nothing_is_published_without_the_mark() -> None:
    """When the stop comes before the mark, nothing should have been published."""
    source = Scripted(watches=[[pod("a", "1"), SILENCE]])
    async with following(source, initial_list="stream", sync=False) as (informer, told):
        await asyncio.sleep(1)
        with pytest.raises(NotSyncedError):
            informer.lister.list()
    assert told == []
    assert source.asked == ["STREAM rv="]


@pytest.mark.upstream(
    "reflector_watchlist_test.go: WatchList: any error falls back",
    verdict="different",
    reason="a broken connection or an overload (429, 503, 504) says nothing about streaming lists, and a LIST costs a struggling server most: it is asked for again as a stream, with backoff; 403 and 500 lead to a LIST that time, two streams that end without the mark to LIST for good",
)
async def test_errors_of_a_streaming_list() -> None:
    """When a streaming list is refused with 503, it should be asked for again; when two break, a LIST should follow."""
    refused = ApiError("x", status=503, reason="ServiceUnavailable")
    source = Scripted([page("1", *pods("p1"))], [refused, [BROKEN], [BROKEN], [pod("p2", "2"), 1.0, BROKEN]])
    async with following(source, initial_list="stream") as (informer, _):
        assert source.asked == [*["STREAM rv="] * 3, "LIST rv=0 limit=500", "WATCH rv=1"]
        await asyncio.sleep(30)
        assert source.asked[5:] == ["LIST rv=2", "WATCH rv=1"]
        assert names(informer) == ["p1"]


@pytest.mark.parametrize("status", [403, 500])
async def test_a_server_that_trips_over_streaming_lists(status: int) -> None:
    """When a streaming list is refused with 403 or 500, the sync should be reached with a LIST, after a delay."""
    source = Scripted([page("1", *pods("p1"))], [ApiError("x", status=status), [SILENCE]])
    async with following(source, initial_list="stream") as (informer, _):
        await asyncio.sleep(1)
        assert source.asked == ["STREAM rv=", "LIST rv=0 limit=500", "WATCH rv=1"]
        assert names(informer) == ["p1"]


@pytest.mark.upstream(
    "reflector_watchlist_test.go: WatchList: Invalid falls back",
    verdict="stricter",
    reason="also for 400 and 405, without a delay, and remembered: upstream asks for a streaming list again each time",
)
@pytest.mark.parametrize("status", [400, 405, 422])
async def test_a_server_without_streaming_lists(status: int) -> None:
    """When a streaming list is refused as unknown, a LIST should follow at once, and LISTs from then on."""
    source = Scripted([page("1", *pods("p1"))], [ApiError("x", status=status), [pod("p2", "2"), 1.0, BROKEN]])
    async with following(source, initial_list="stream") as (informer, _):
        assert names(informer) == ["p1", "p2"]
        assert source.delays == [0.0, 0.0]
        await asyncio.sleep(5)
    assert source.asked == ["STREAM rv=", "LIST rv=0 limit=500", "WATCH rv=1", "LIST rv=2", "WATCH rv=1"]


@pytest.mark.upstream("reflector_watchlist_test.go: WatchList: synced after marker", verdict="same")
async def test_synced_after_the_mark() -> None:
    """When the mark comes, what came before it should be the store, with one request in all."""
    source = Scripted(watches=[[pod("p1", "1"), pod("p2", "2"), MARK("2"), SILENCE]])
    async with following(source, initial_list="stream") as (informer, told):
        assert names(informer) == ["p1", "p2"]
        await informer.wait_for_version("2", timeout=0)
    assert told == ["add p1@1 initial", "add p2@2 initial"]
    assert source.asked == ["STREAM rv="]


@pytest.mark.upstream(
    "reflector_watchlist_test.go: WatchList: updates and deletes during the initial phase", verdict="same"
)
async def test_changes_before_the_mark() -> None:
    """When objects change and go before the mark, the store should have the last state, told once."""
    steps: list[Step] = [pod("p1", "1"), pod("p2", "2"), pod("p1", "3"), pod("p3", "4"), gone("p3", "5"), MARK("6")]
    source = Scripted(watches=[[*steps, SILENCE]])
    async with following(source, initial_list="stream") as (_, told):
        pass
    assert sorted(told) == ["add p1@3 initial", "add p2@2 initial"]


@pytest.mark.upstream("reflector_watchlist_test.go: WatchList: retries 429", verdict="same")
async def test_streaming_list_and_too_many_requests() -> None:
    """When a streaming list is refused twice with 429, the same request should come a third time, and no LIST."""
    source = Scripted(watches=[TOO_MANY, TOO_MANY, [pod("p1", "1"), MARK("1"), SILENCE]])
    async with following(source, initial_list="stream") as (informer, _):
        assert names(informer) == ["p1"]
    assert source.asked == ["STREAM rv="] * 3


@pytest.mark.upstream("reflector_watchlist_test.go: WatchList: stream closed before the marker", verdict="same")
async def test_stream_closed_before_the_mark() -> None:
    """When a streaming list is closed before its mark, the same request should follow, and the first part be forgotten."""
    source = Scripted(watches=[[pod("old", "1"), 5.0], [pod("new", "2"), MARK("2"), SILENCE]])
    async with following(source, initial_list="stream") as (_, told):
        pass
    assert source.asked == ["STREAM rv="] * 2
    assert told == ["add new@2 initial"]


@pytest.mark.upstream("reflector_watchlist_test.go: WatchList: stream closed after the sync", verdict="same")
async def test_stream_closed_after_the_sync() -> None:
    """When the stream is closed after the mark, an ordinary watch should go on from the last event."""
    source = Scripted(watches=[[pod("p1", "1"), MARK("2"), pod("p3", "3"), 1.0], [pod("p4", "4"), SILENCE]])
    async with following(source, initial_list="stream") as (informer, _):
        await asyncio.sleep(1)
        assert source.asked == ["STREAM rv=", "WATCH rv=3"]
        assert names(informer) == ["p1", "p3", "p4"]


@pytest.mark.upstream(
    "reflector_watchlist_test.go: WatchList: expired after the sync",
    verdict="stricter",
    reason="the newest state is asked for at once; upstream first waits and asks for the expired version again",
)
async def test_expired_after_the_sync() -> None:
    """When the watch after the streaming list is refused with 410, a streaming list of the newest state should follow."""
    expired = ApiError("too old", status=410, reason="Expired")
    source = Scripted(watches=[[pod("p1", "1"), MARK("2"), 1.0], expired, [pod("p2", "9"), MARK("9"), SILENCE]])
    async with following(source, initial_list="stream") as (informer, told):
        await asyncio.sleep(1)
        assert source.asked == ["STREAM rv=", "WATCH rv=2", "STREAM rv="]
        assert source.delays == [1.0, 0.0]
        assert names(informer) == ["p2"]
    assert told == ["add p1@1 initial", "delete p1@1 unknown", "add p2@9"]


@pytest.mark.upstream("reflector_watchlist_test.go: WatchList: annotation value false", verdict="same")
@pytest.mark.parametrize(("value", "synced"), [("true", True), ("false", False), ("True", False), ("", False)])
async def test_value_of_the_annotation(server: FakeApiServer, value: str, synced: bool) -> None:
    """When the annotation of a bookmark is not "true", the list should not be taken for complete."""
    script = Script(line("ADDED", tree("p1", "1")), line("BOOKMARK", mark("2", value)), End.STALL)
    server.faults.add(match("watch", PODS), script)
    async with (
        server.api_client() as api,
        following(ApiListerWatcher(api, PODS), initial_list="stream", sync=False) as (informer, _),
    ):
        await asyncio.sleep(5)
        assert informer.health.synced is synced


@pytest.mark.upstream(
    "reflector_data_consistency_detector_test.go, data_consistency_detector_test.go: ReflectorDataConsistencyDetector",
    verdict="different",
    reason="no detector that panics in production; the equality itself is the test",
)
@pytest.mark.parametrize("transformed", [False, True])
async def test_both_ways_bring_the_same(transformed: bool) -> None:
    """When the same objects are listed and streamed, transformed or not, both stores should be equal."""
    stores = []
    for initial_list in ("list", "stream"):
        source = FakeListerWatcher(PODS)
        for number in range(20):
            source.create(f"p{number}", {"n": number}, labels={"odd": str(number % 2)})
        source.delete("p3")
        used = DegradedListerWatcher(source, decode=lambda obj: obj["spec"]) if transformed else source
        async with following(used, initial_list=initial_list) as (informer, told):
            stores.append((sorted(map(str, informer.lister.list())), sorted(told)))
    assert stores[0] == stores[1]
    assert len(stores[0][0]) == 19


# ---------------------------------------------------------------- pages


@pytest.mark.upstream(
    "pager_test.go: ListPager_List (9)",
    verdict="different",
    reason="an expired token begins the LIST anew, the second one asks once for everything; see FullListIfExpired",
)
@pytest.mark.parametrize("pages", [0, 1, 2, 3])
async def test_pages_of_a_list(pages: int) -> None:
    """When a list has none to three pages, it should be complete, and count as paged from two on."""
    answers = [page("5", pod(f"p{n}", "1"), token=f"C{n}" if n < pages else "") for n in range(1, pages + 1)]
    source = Scripted([*(answers or [page("5")]), page("6")], [[BROKEN]])
    async with following(source) as (informer, _):
        assert names(informer) == [f"p{n}" for n in range(1, pages + 1)]
        await asyncio.sleep(10)
    expected = ["LIST rv=0 limit=500", *(f"LIST limit=500 continue=C{n}" for n in range(1, pages)), "WATCH rv=5"]
    assert source.asked[: len(expected)] == expected
    assert source.asked[len(expected)] == ("LIST rv=5 limit=500" if pages > 1 else "LIST rv=5")


@pytest.mark.upstream(
    "pager_test.go: ListPager_EachListItem (8)",
    verdict="stricter",
    reason="pages are published together or not at all: nobody sees the first page of a list whose second one fails",
)
@pytest.mark.parametrize("end", ["error", "stop"])
async def test_no_half_list(end: str) -> None:
    """When the second page fails, or the stop comes while it is awaited, nobody should have seen the first one."""

    async def never() -> Page[KubeObject]:
        await asyncio.Event().wait()
        raise AssertionError

    second = OSError("reset") if end == "error" else never
    source = Scripted([page("5", *pods("a"), token="C1"), second, page("6", *pods("b"))])
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    told = record(informer)
    async with informer:
        await asyncio.sleep(0.1)
        with pytest.raises(NotSyncedError):
            informer.lister.list()
        if end == "error":
            await informer.wait_for_sync(timeout=10)
            await settle()
    assert told == (["add b@1 initial"] if end == "error" else [])
    assert not tasks()
    with pytest.raises(InformerError):
        record(informer)


async def test_ordinary_bookmarks_before_the_mark_are_no_mark() -> None:
    """When ordinary bookmarks come before the mark, they should neither publish the list nor be asked from again."""
    source = Scripted(watches=[[pod("a", "1"), Bookmark("7"), 1.0], [MARK("9"), SILENCE]])
    async with following(source, initial_list="stream") as (_, told):
        assert source.versions("STREAM") == ["", ""]
        assert told == []
