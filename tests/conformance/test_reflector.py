"""reflector_test.go: which requests are sent, when, and what they do to the store."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc

import pytest

from informer import (
    ApiError,
    ApiListerWatcher,
    Bookmark,
    DegradedListerWatcher,
    InformerOptions,
    KubeObject,
    NotSyncedError,
    SharedInformer,
    WatchOptions,
)
from informer._identify import Identify
from informer._lists import read_page
from informer.backoff import Backoff
from informer.testing import End, FakeApiServer, FakeListerWatcher, faults, match
from informer.testing.faults import Script, Wait

from .support import (
    BROKEN,
    PODS,
    SILENCE,
    Scripted,
    following,
    gone,
    line,
    mark,
    names,
    page,
    pod,
    pods,
    reflecting,
    settle,
    tasks,
    tree,
)

EXPIRED = ApiError("too old resource version", status=410, reason="Expired")
TOO_MANY = ApiError("slow down", status=429, reason="TooManyRequests")
INTERNAL = ApiError("etcdserver: no leader", status=500, reason="InternalError")


class Counting(Backoff):
    """A backoff that counts how often it is asked."""

    asked = 0

    def next(self, retry_after: float | None = None) -> float:
        Counting.asked += 1
        return super().next(retry_after)


# ---------------------------------------------------------------- life


@pytest.mark.upstream("reflector_test.go: CloseWatchChannelOnError", verdict="same")
async def test_error_event_without_a_status(server: FakeApiServer) -> None:
    """When an ERROR event holds a Pod instead of a Status, the stream should be closed at once and another one opened."""
    server.faults.add(match("watch", PODS), Script(line("ERROR", tree("a", "2")), Wait(3600.0), End.CLOSE))
    async with (
        server.api_client() as api,
        following(ApiListerWatcher(api, PODS)) as (informer, told),
    ):
        await asyncio.sleep(0.5)
        assert server.open_connections == 0
        assert "ERROR event without a Status" in (informer.health.last_error or "")
        await asyncio.sleep(5)
        assert len(server.watches(PODS)) == 2
        assert told == []
        assert informer.health.state == "live"


@pytest.mark.upstream("reflector_test.go: RunUntil", verdict="same")
async def test_stop_closes_the_stream() -> None:
    """When the informer is left, its task should end and the open stream be closed."""
    source = Scripted(watches=[[pod("a", "2"), SILENCE]])
    async with following(source) as (_, told):
        assert told == ["add a@2"]
        assert (source.opened, source.closed) == (1, 0)
    assert (source.opened, source.closed) == (1, 1)
    assert not tasks()


@pytest.mark.upstream("reflector_test.go: WatchStoppedBefore", verdict="same")
async def test_stopped_before_it_begins() -> None:
    """When the informer is left before it could begin, it should send nothing."""
    source = Scripted()
    async with SharedInformer(source):
        pass
    await asyncio.sleep(60)
    assert source.asked == []


@pytest.mark.upstream("reflector_test.go: WatchStoppedAfter", verdict="same")
@pytest.mark.upstream("reflector_test.go: HandleWatchStoppedBefore / After", verdict="same")
@pytest.mark.parametrize("seconds", [0.0, 0.01, 100.0])
async def test_stopped_during_a_silent_watch(seconds: float) -> None:
    """When the informer is left during a silent watch, that one stream should have been opened and closed."""
    source = Scripted()
    async with following(source):
        await asyncio.sleep(seconds)
    assert source.asked == ["LIST rv=0 limit=500", "WATCH rv=1"]
    assert (source.opened, source.closed) == (1, 1)


@pytest.mark.upstream("reflector_test.go: StopWatch", verdict="same")
async def test_nothing_is_read_after_the_stop() -> None:
    """When the stop comes while events are due, no later event should reach a handler."""
    source = Scripted(watches=[[pod("a", "2"), 1.0, pod("b", "3"), SILENCE]])
    async with following(source) as (_, told):
        pass
    await asyncio.sleep(10)
    assert told == ["add a@2"]


# ---------------------------------------------------------------- resync


@pytest.mark.upstream("reflector_test.go: ReflectorResyncChan", verdict="same")
async def test_resync_timer() -> None:
    """When the resync period is over, every object should be told again, without a request."""
    source = Scripted([page("1", *pods("a"))])
    async with following(source, resync_period=1.0) as (_, told):
        await asyncio.sleep(2.5)
    assert told == ["add a@1 initial", "resync a@1", "resync a@1"]
    assert len(source.asked) == 2


@pytest.mark.upstream(
    "reflector_test.go: ReflectorResync",
    verdict="different",
    reason="a resync is no store operation that may fail: it tells handlers again. A handler that raises is logged, and the next resync comes; upstream a failed one ends the watch",
)
async def test_resync_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """When a handler fails in a resync, the resyncs and the watch should go on."""
    source = Scripted([page("1", *pods("a"))])
    informer: SharedInformer[KubeObject] = SharedInformer(source, options=InformerOptions(resync_period=1.0))
    seen: list[str] = []

    def fail(old: KubeObject, new: KubeObject) -> None:
        seen.append(new.name)
        raise ValueError("no")

    informer.add_handler(on_update=fail)
    async with informer:
        await asyncio.sleep(3.5)
        assert informer.health.state == "live"
    assert seen == ["a"] * 3
    assert source.asked == ["LIST rv=0 limit=500", "WATCH rv=1"]
    assert [one.levelno for one in caplog.records] == [logging.ERROR] * 3


# ---------------------------------------------------------------- a watch and its end


@pytest.mark.upstream(
    "reflector_test.go: HandleWatchResultChanClosedBefore / After",
    verdict="different",
    reason="one short empty watch is asked for again as a watch, with backoff; only three in a row lead to a LIST (kubernetes#104171), which costs the server most",
)
@pytest.mark.parametrize("seconds", [0.0, 0.01], ids=["at once", "after 10 ms"])
async def test_stream_that_ends_at_once(seconds: float) -> None:
    """When streams end at once without an event, each should be closed and count as a failure, and three lead to a LIST."""
    source = Scripted([page("1")], [[seconds]] * 3)
    async with following(source) as (informer, _):
        await asyncio.sleep(0.5)
        assert "ended after 0.0 s without an event" in (informer.health.last_error or "")
        assert informer.health.consecutive_failures == 1
        await asyncio.sleep(60)
        assert source.asked == ["LIST rv=0 limit=500", *["WATCH rv=1"] * 3, "LIST rv=1", "WATCH rv=1"]
        assert (source.opened, source.closed) == (4, 3)


@pytest.mark.upstream(
    "reflector_test.go: WatchHandler",
    verdict="different",
    reason="the kind is not judged (items of built-in kinds carry none, kubernetes#3030) unless `decode` or a check does; then the object is withheld and the version moves on, while upstream leaves it out without moving",
)
async def test_events_change_the_store() -> None:
    """When events come, they should change the store, keep out what does not decode, and the last one's version count."""

    def decode(obj: KubeObject) -> KubeObject:
        if obj["kind"] != "Pod":
            raise ValueError("no Pod")
        return obj

    service = pod("web", "5").object.raw.replace(b'"kind": "Pod"', b'"kind": "Service"')
    alien = pod("web", "5")
    alien = type(alien)(alien.key, alien.uid, "5", {}, KubeObject.parse(service))
    source = Scripted(
        [page("1", *pods("foo", "bar")), page("60", pod("bar", "55"), pod("baz", "32"))],
        [[alien, gone("foo", "6"), pod("bar", "55"), pod("baz", "32"), 1.0, BROKEN]],
    )
    async with following(DegradedListerWatcher(source, decode=decode)) as (informer, told):
        assert names(informer) == ["bar", "baz"]
        assert informer.lister.get("bar", namespace="default").resource_version == "55"
        assert [entry.key for entry in informer.lister.withheld()] == ["default/web"]
        await asyncio.sleep(5)
        assert source.versions("LIST") == ["0", "32"]
    assert told[2:] == ["quarantined web", "delete foo@6", "update bar@1 to bar@55", "add baz@32"]


@pytest.mark.upstream("reflector_test.go: ResourceVersionUpdate", verdict="same")
async def test_version_of_every_event() -> None:
    """When events of all kinds come, the store should be known to be at the version of each."""
    source = Scripted(
        [page("1")],
        [[pod("a", "10"), 1.0, pod("a", "20"), 1.0, Bookmark("30"), 1.0, gone("a", "40"), SILENCE]],
    )
    async with following(source) as (informer, _):
        for version in (10, 20, 30, 40):
            await informer.wait_for_version(str(version), timeout=0.1)
            with pytest.raises(TimeoutError):
                await informer.wait_for_version(str(version + 1), timeout=0.1)
            await asyncio.sleep(0.9)


@pytest.mark.upstream(
    "reflector_test.go: WatchTimeout",
    verdict="different",
    reason="the same figures, but they are no knob: a shorter timeout only costs requests, and a longer one hides dead connections",
)
@pytest.mark.parametrize(("rng", "seconds"), [(0.0, 300), (0.5, 450), (0.999, 599)])
async def test_watch_timeout(server: FakeApiServer, rng: float, seconds: int) -> None:
    """When a watch is opened, it should ask for 300 s and a random part of as much again."""
    source = Scripted()
    async with reflecting(source, rng=lambda: rng):
        await settle()
    [options] = [options for options, _ in source.calls if isinstance(options, WatchOptions)]
    async with server.api_client() as api, ApiListerWatcher(api, PODS).watch(options):
        [request] = server.watches(PODS)
    assert request.query["timeoutSeconds"] == str(seconds)


@pytest.mark.upstream("reflector_test.go: ReplacesStoreOnUnsafeDelete", verdict="same")
async def test_storage_read_error_inside_the_stream() -> None:
    """When the server says inside the stream that it cannot read an object any more, a LIST should show what is gone."""
    unreadable = ApiError("object foo could not be read", status=500, reason="StorageReadError")
    source = Scripted(
        [page("3", *pods("a", "b", "c")), page("5", *pods("a", "b", "c"))], [[pod("foo", "4"), unreadable]]
    )
    async with following(source) as (informer, told):
        await asyncio.sleep(5)
        assert source.asked == ["LIST rv=0 limit=500", "WATCH rv=3", "LIST rv=4", "WATCH rv=5"]
        assert names(informer) == ["a", "b", "c"]
    assert told[3:] == ["add foo@4", "delete foo@4 unknown"]


# ---------------------------------------------------------------- list and watch


@pytest.mark.upstream("reflector_test.go: ListAndWatch: streaming list on", verdict="same")
async def test_streaming_list_on_the_wire(server: FakeApiServer) -> None:
    """When the list is to be streamed, one request should bring it and go on as the watch."""
    script = [
        line("ADDED", tree("foo", "1")),
        line("BOOKMARK", mark("1")),
        line("MODIFIED", tree("foo", "2")),
        *(line("ADDED", tree(name, version)) for name, version in (("bar", "3"), ("baz", "4"), ("qux", "5"))),
    ]
    server.faults.add(match("watch", PODS), Script(*script, End.STALL))
    async with (
        server.api_client() as api,
        following(ApiListerWatcher(api, PODS), initial_list="stream") as (_, told),
    ):
        await settle()
        [request] = server.requests
    assert 300 <= int(request.query["timeoutSeconds"]) < 600
    assert {name: text for name, text in request.query.items() if name != "timeoutSeconds"} == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": "",
    }
    assert told == ["add foo@1 initial", "update foo@1 to foo@2", "add bar@3", "add baz@4", "add qux@5"]


@pytest.mark.upstream("reflector_test.go: ListAndWatch: streaming list off", verdict="same")
@pytest.mark.upstream("reflector_watchlist_test.go: WatchList: gate off", verdict="same")
async def test_list_and_watch_on_the_wire(server: FakeApiServer) -> None:
    """When the list is not streamed, a LIST of version 0 should be followed by a WATCH from the list's version."""
    server.create(PODS, {"metadata": {"name": "foo"}})
    version = server.resource_version
    async with server.api_client() as api, following(ApiListerWatcher(api, PODS)):
        listed, watched = server.requests
    assert listed.query == {"resourceVersion": "0", "limit": "500"}
    assert 300 <= int(watched.query["timeoutSeconds"]) < 600
    assert {name: text for name, text in watched.query.items() if name != "timeoutSeconds"} == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
    }


@pytest.mark.upstream("reflector_test.go: ListAndWatchWithErrors", verdict="same")
async def test_recovery_from_errors() -> None:
    """When LISTs and WATCHes are refused in between, the store should equal the server's state after each recovery."""
    source = FakeListerWatcher(PODS)
    source.create("a")
    async with following(source) as (informer, _):
        with source.cluster.drop_events():
            source.create("b")
        await informer.relist()
        assert names(informer) == ["a", "b"]
        with source.cluster.drop_events():
            source.delete("a")
        source.fail_lists(INTERNAL)
        await informer.relist()
        assert "no leader" in (informer.health.last_error or "")
        assert names(informer) == ["b"]
        source.fail_watches(ApiError("no watch today", status=503))
        source.drop_watches()
        await asyncio.sleep(7)  # the limiter lets one request start every 6 s by now
        assert "no watch today" in (informer.health.last_error or "")
        source.create("c")
        await asyncio.sleep(30)
        assert names(informer) == ["b", "c"]
        await informer.relist()
        assert names(informer) == ["b", "c"]


# ---------------------------------------------------------------- backoff


@pytest.mark.upstream("reflector_test.go: ListAndWatchInitConnBackoff", verdict="same")
@pytest.mark.parametrize("times", [5, 40])
async def test_delays_while_the_connection_is_refused(times: int) -> None:
    """When the connection is refused again and again, delays should double up to the longest; there is no second LIST."""
    source = Scripted(watches=[ConnectionRefusedError("refused")] * times)
    async with reflecting(source):
        await asyncio.sleep(40 * 30)
    expected = [min(0.8 * 2**step, 30.0) for step in range(times)]
    assert source.delays == [0.0, *(round(delay, 3) for delay in expected)]
    assert source.asked == ["LIST rv=0 limit=500", *["WATCH rv=1"] * (times + 1)]


@pytest.mark.upstream("reflector_test.go: NewReflectorWithCustomBackoff", verdict="same")
async def test_other_delays() -> None:
    """When other delays are given, exactly these should be waited."""
    source = Scripted(watches=[ConnectionRefusedError("refused")] * 5)
    async with reflecting(source, backoff=Backoff(base=0.01, cap=0.1, rng=lambda: 0.0)):
        await asyncio.sleep(1)
    assert source.delays == [0.0, 0.01, 0.02, 0.04, 0.08, 0.1]


@pytest.mark.upstream("reflector_test.go: BackoffOnTooManyRequests", verdict="same")
async def test_too_many_requests_take_a_step_each() -> None:
    """When 429 comes once at the opening and once inside the stream, the backoff should be asked exactly twice."""
    Counting.asked = 0
    source = Scripted(watches=[TOO_MANY, [TOO_MANY], [5.0]])
    async with reflecting(source, backoff=Counting(rng=lambda: 0.0)):
        await asyncio.sleep(10)
    assert Counting.asked == 2
    assert source.delays == [0.0, 0.8, 1.6, 5.0]


@pytest.mark.upstream("reflector_test.go: NoRelistOnTooManyRequests", verdict="same")
async def test_too_many_requests_cost_no_list() -> None:
    """When the opening of a watch is refused four times with 429, it should be asked for a fifth time, with no LIST."""
    source = Scripted(watches=[TOO_MANY] * 4)
    async with following(source):
        await asyncio.sleep(300)
    assert source.asked == ["LIST rv=0 limit=500", *["WATCH rv=1"] * 5]


@pytest.mark.upstream(
    "reflector_test.go: RetryInternalError",
    verdict="different",
    reason="there is no window after which a LIST follows (upstream's is 0 by default, so it lists at once): each InternalError takes a step of the backoff and is met by a watch from the same version, since a LIST costs a struggling server most",
)
async def test_internal_errors_inside_the_stream() -> None:
    """When every stream ends with an InternalError, watches should be opened again with growing delays and no LIST."""
    source = Scripted(watches=[[1.0, INTERNAL]] * 31)
    async with reflecting(source):
        await asyncio.sleep(1200)
    assert source.asked == ["LIST rv=0 limit=500", *["WATCH rv=1"] * 32]
    assert source.delays[:7] == [0.0, 1.8, 2.6, 4.2, 7.4, 13.8, 26.6]
    assert set(source.delays[7:]) == {31.0}


# ---------------------------------------------------------------- which list


@pytest.mark.upstream(
    "reflector_test.go: WatchListPageSize",
    verdict="different",
    reason="the page size is no knob: always 500",
)
async def test_all_pages_with_one_size() -> None:
    """When a list comes in pages, each should be asked for with the same limit, and all objects be in the store."""
    letters = "abcdefghij"
    source = Scripted(
        [
            page("10", *pods(*letters[:4]), token="C1"),
            page("10", *pods(*letters[4:8]), token="C2"),
            page("10", *pods(*letters[8:])),
        ]
    )
    async with following(source) as (informer, _):
        assert names(informer) == [*letters]
        assert source.asked[:3] == ["LIST rv=0 limit=500", "LIST limit=500 continue=C1", "LIST limit=500 continue=C2"]


@pytest.mark.upstream("reflector_test.go: NotPaginatingNotConsistentReads", verdict="same")
async def test_list_at_a_version_has_no_limit() -> None:
    """When a list is asked for at a known version, it should have no limit."""
    source = Scripted([page("10")], [[BROKEN]])
    async with following(source):
        await asyncio.sleep(5)
    assert source.asked[2] == "LIST rv=10"


@pytest.mark.upstream("reflector_test.go: PaginatingNonConsistentReadsIfWatchCacheDisabled", verdict="same")
async def test_pages_at_first_mean_pages_later() -> None:
    """When the first LIST came in pages, the server has no watch cache, so a later one should have a limit as well."""
    source = Scripted([page("10", *pods("a"), token="C1"), page("10", *pods("b"))], [[BROKEN]])
    async with following(source):
        await asyncio.sleep(5)
    assert source.asked[3] == "LIST rv=10 limit=500"


@pytest.mark.upstream("reflector_test.go: ResyncWithResourceVersion", verdict="same")
async def test_second_list_asks_for_the_version_reached() -> None:
    """When the second list brings other objects, it should have been asked for at the first one's version."""
    source = Scripted([page("10", *pods(*"abcd")), page("11", *pods(*"abcdefgh"))], [[1.0, BROKEN]])
    async with following(source) as (informer, _):
        assert names(informer) == [*"abcd"]
        await asyncio.sleep(5)
        assert source.versions("LIST") == ["0", "10"]
        assert names(informer) == [*"abcdefgh"]


@pytest.mark.upstream("reflector_test.go: ExpiredExactResourceVersion", verdict="same")
async def test_expired_version() -> None:
    """When the version of a LIST has expired, the newest state should be asked for at once."""
    source = Scripted([page("10", *pods(*"abcd")), EXPIRED, page("11", *pods(*"abcdefgh"))], [[BROKEN]])
    async with following(source) as (informer, _):
        await asyncio.sleep(5)
        assert source.versions("LIST") == ["0", "10", ""]
        assert source.delays[-2] == 0.0
        assert names(informer) == [*"abcdefgh"]


@pytest.mark.upstream(
    "reflector_test.go: FullListIfExpired",
    verdict="different",
    reason="the first expired token begins the LIST anew, the second asks once for everything in one answer: the newest state either way, and a full answer only where pages cannot be had",
)
async def test_expired_continue_token() -> None:
    """When continue tokens expire twice, the list should be begun anew in pages, and then be asked for in one answer."""
    source = Scripted(
        [
            page("10", *pods("a"), token="C1"),
            EXPIRED,
            page("11", *pods("b"), token="C2"),
            EXPIRED,
            page("12", *pods("c", "d")),
        ]
    )
    async with following(source) as (informer, told):
        assert names(informer) == ["c", "d"]
        assert source.asked[:5] == [
            "LIST rv=0 limit=500",
            "LIST limit=500 continue=C1",
            "LIST rv= limit=500",
            "LIST limit=500 continue=C2",
            "LIST rv=",
        ]
        assert told == ["add c@1 initial", "add d@1 initial"]


@pytest.mark.upstream(
    "reflector_test.go: FullListIfTooLarge",
    verdict="stricter",
    reason="the first such answer is met at once, as upstream; each further one before a watch has proved healthy takes a step of the backoff",
)
async def test_version_ahead_of_the_server() -> None:
    """When the server says in any of its wordings that it is behind our version, the newest state should be asked for."""
    by_cause = ApiError("x", status=504, reason="Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
    by_cause_text = ApiError("x", status=504, reason="Timeout", causes=[{"message": "Too large resource version"}])
    by_text = ApiError("Too large resource version: 40, current: 39", status=504, reason="Timeout")
    source = Scripted(
        [page("20"), by_cause, page("30"), by_cause_text, page("40"), by_text, page("50")], [[BROKEN]] * 3
    )
    async with reflecting(source):
        await asyncio.sleep(60)
    assert source.versions("LIST") == ["0", "20", "", "30", "", "40", ""]
    lists = [time for (options, time), text in zip(source.calls, source.asked, strict=True) if text[:4] == "LIST"]
    assert lists[2] == lists[1]
    assert lists[4] - lists[3] >= 0.8


# ---------------------------------------------------------------- what is in a list


@pytest.mark.upstream("reflector_test.go: ListExtract", verdict="same")
async def test_objects_of_a_page_are_freed_one_by_one() -> None:
    """When one object of a page is kept, the others should not stay in memory with it."""
    items = b",".join(pod(f"p{n}", "1", spec={"filler": "x" * 10_000}).object.raw for n in range(100))
    body = bytearray(b'{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[' + items + b"]}")
    tracemalloc.start()
    try:
        found = list((await read_page(body, Identify(PODS, 1 << 20))).items)
        assert tracemalloc.get_traced_memory()[0] > 1_000_000
        del found[1:], body
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    assert found[0].key == "default/p0"


@pytest.mark.upstream(
    "reflector_test.go: RespectStoreTransformer",
    verdict="stricter",
    reason="each object is decoded once, not once for the temporary store and once more for the real one",
)
@pytest.mark.upstream("delta_fifo_test.go, the_real_fifo_test.go: transformer", verdict="same")
async def test_decode_is_called_once_for_each_object() -> None:
    """When objects come by streaming list and by watch, each should be decoded once, and a deletion's store object not."""
    decoded: list[str] = []

    def decode(obj: KubeObject) -> str:
        decoded.append(f"{obj.name}@{obj.resource_version}")
        return obj.name.upper()

    source = FakeListerWatcher(PODS)
    first = [source.create(name).resource_version for name in ("a", "b")]
    async with following(DegradedListerWatcher(source, decode=decode), initial_list="stream") as (informer, told):
        third = source.create("c").resource_version
        await settle()
        assert sorted(informer.lister.list()) == ["A", "B", "C"]
        assert decoded == [f"a@{first[0]}", f"b@{first[1]}", f"c@{third}"]
        with source.cluster.drop_events():
            source.delete("a")
        await informer.relist()
        await settle()
        assert len(decoded) == 5  # b and c again, from the list; never a
    assert told == ["add A initial", "add B initial", "add C", "delete A unknown"]


@pytest.mark.upstream("reflector_test.go: IsUnsupportedTableObject", verdict="same")
@pytest.mark.parametrize(
    ("version", "refused"),
    [("meta.k8s.io/v1", True), ("meta.k8s.io/v1beta1", True), ("furniture.example.test/v1", False)],
)
async def test_tables(server: FakeApiServer, version: str, refused: bool) -> None:
    """When a LIST is answered with a Table of meta.k8s.io, it should be refused; another group's Table is a list."""
    body = {"kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": [tree("a", "1")]}
    server.faults.add(match("list", PODS), faults.Answer(200, body), times=None)
    async with (
        server.api_client() as api,
        following(ApiListerWatcher(api, PODS), sync=False) as (informer, _),
    ):
        await asyncio.sleep(1)
        if refused:
            with pytest.raises(NotSyncedError):
                informer.lister.list()
            assert "expected a list, got a Table" in (informer.health.last_error or "")
        else:
            assert names(informer) == ["a"]
