"""`informer.reflector`: every row of the table of list, watch and relist, as requests in time and calls of a sink."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import pytest
from attrs import Factory, define
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from informer.api import ApiListerWatcher
from informer.backoff import Backoff, Limiter
from informer.errors import ApiError, InformerError, ItemTooLargeError, StreamBrokenError
from informer.health import Pulse
from informer.listerwatcher import Bookmark, Deleted, Item, ListOptions, Page, WatchOptions, Withheld
from informer.metrics import Recorder
from informer.objects import KubeObject
from informer.problems import Problem, QuarantinedObject
from informer.reflector import Reflector, describe
from informer.resource import Resource
from informer.testing import End, FakeApiServer, FakeListerWatcher, faults, match
from informer.testing.virtual import run

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
SECRETS = Resource("", "v1", "secrets", kind="Secret")
FOREVER = object()
EXPIRED = ApiError("too old resource version: 10 (9000)", status=410, reason="Expired")
GONE = ApiError("too old resource version: 10 (9000)", status=410, reason="Gone")
NO_TOKEN = ApiError("The provided continue parameter is too old", status=410, reason="Expired")
NO_KIND = ApiError("the server could not find the requested resource", status=404, reason="NotFound")
TOO_LARGE = "Too large resource version"
WORDINGS = [
    ApiError("Timeout", status=504, reason="Timeout", causes=[{"reason": "ResourceVersionTooLarge", "message": "x"}]),
    ApiError("Timeout", status=504, reason="Timeout", causes=[{"message": TOO_LARGE}]),
    ApiError(f"Timeout: {TOO_LARGE}: 10, current: 8", status=504, reason="Timeout"),
]
KEEP_VERSION = [
    ApiError("no", status=401, reason="Unauthorized"),
    ApiError("no", status=403, reason="Forbidden"),
    ApiError("no", status=429, reason="TooManyRequests"),
    ApiError("no", status=500, reason="InternalError"),
    ApiError("no", status=503, reason="ServiceUnavailable"),
    ApiError("no", status=504, reason="Timeout"),
    ApiError("<html>504 Gateway Time-out</html>", status=504),
    ApiError("refused", reason="ConnectionError"),
    ApiError("no answer within 30 s", reason="Timeout"),
    ConnectionRefusedError("refused"),
    TimeoutError(),
    ValueError("a strict decoder's"),
]


def item(name: str, version: str) -> Item[KubeObject]:
    raw = b'{"metadata":{"name":"%s","resourceVersion":"%s"}}' % (name.encode(), version.encode())
    return Item(name, f"u-{name}", version, {}, KubeObject(raw, name, "", f"u-{name}", version))


def withheld(name: str, version: str) -> Withheld:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    entry = QuarantinedObject(
        resource=WIDGETS,
        key=name,
        uid=f"u-{name}",
        resource_version=version,
        problems=(Problem(("spec",), "1", "bad"),),
        first_seen=now,
        last_seen=now,
        times_seen=1,
        metadata=KubeObject(b"{}", name).metadata,
        raw=b"{}",
    )
    return Withheld(name, f"u-{name}", version, entry)


def deleted(name: str, version: str) -> Deleted[KubeObject]:
    return Deleted(name, f"u-{name}", version, None)


def page(version: str, *names: str, token: str = "") -> Page[KubeObject]:
    return Page([item(name, version) for name in names], version, token)


def marked(version: str) -> Bookmark:
    return Bookmark(version, initial_events_end=True)


@define(eq=False)
class Source:
    """Plays its answers one after the other. When they are used up, a LIST hangs, a WATCH is silent.

    A page, or seconds before the next answer, for a LIST; for a WATCH a list of events, seconds, errors, `...` for silence
    until the watch's own time is up, or FOREVER. An exception refuses the request.
    """

    answers: list[Any]
    resource: Resource = WIDGETS
    calls: list[tuple[float, str]] = Factory(list)
    options: list[ListOptions | WatchOptions] = Factory(list)
    open: int = 0

    def _next(self, text: str, options: ListOptions | WatchOptions) -> Any:
        self.calls.append((round(asyncio.get_running_loop().time() - 1000.0, 6), text))
        self.options.append(options)
        return self.answers.pop(0) if self.answers else FOREVER

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        version = "-" if options.resource_version is None else f"'{options.resource_version}'"
        limit = "all" if options.limit is None else options.limit
        answer = self._next(
            f"PAGE {options.continue_token} {limit} {version}" if options.continue_token else f"LIST {version} {limit}",
            options,
        )
        await asyncio.sleep(0)
        while isinstance(answer, float | int):
            await asyncio.sleep(answer)
            answer = self.answers.pop(0)
        if answer is FOREVER:
            await asyncio.sleep(1e9)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Page), f"a LIST cannot be answered with {answer}"
        return answer

    @asynccontextmanager
    async def watch(self, options: WatchOptions, /) -> AsyncIterator[AsyncIterator[Any]]:
        verb = "STREAM" if options.send_initial_events else "WATCH"
        answer = self._next(f"{verb} '{options.resource_version}'", options)
        await asyncio.sleep(0)
        if isinstance(answer, BaseException):
            raise answer
        steps = [FOREVER] if answer is FOREVER else answer
        assert isinstance(steps, list), f"a WATCH cannot be answered with {answer}"
        self.open += 1
        events = self._events(steps, asyncio.get_running_loop().time() + options.timeout)
        try:
            yield events
        finally:
            self.open -= 1
            await events.aclose()

    async def _events(self, steps: Sequence[Any], end: float) -> Any:
        for step in steps:
            if step is ...:
                await asyncio.sleep(end - asyncio.get_running_loop().time())
            elif step is FOREVER:
                await asyncio.sleep(1e9)
            elif isinstance(step, float | int):
                await asyncio.sleep(step)
            elif isinstance(step, BaseException):
                raise step
            else:
                yield step


@define(eq=False)
class List:
    """A complete list on its way into the sink."""

    sink: Sink
    unidentifiable: int = 0
    found: dict[str, Any] = Factory(dict)

    def add(self, event: Item[Any] | Withheld, /) -> None:
        self.found[event.key] = event

    def discard(self, key: str, /) -> None:
        self.found.pop(key, None)

    async def publish(self, resource_version: str, /) -> None:
        await asyncio.sleep(0)
        if self.sink.error is not None:
            raise self.sink.error
        words = [f"{key}!" if isinstance(event, Withheld) else key for key, event in self.found.items()]
        self.sink.calls.append(f"all {resource_version}: {' '.join(words)}".rstrip())
        self.sink.unidentifiable = self.unidentifiable


@define(eq=False)
class Sink:
    """Notes down what it is told."""

    calls: list[str] = Factory(list)
    unidentifiable: int = 0
    error: Exception | None = None

    def collect(self) -> List:
        return List(self)

    def apply(self, event: Any, /) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(f"{type(event).__name__.lower()} {event.key} {event.resource_version}")

    def bookmark(self, bookmark: Bookmark, /) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(f"bookmark {bookmark.resource_version}")
        self.unidentifiable += bookmark.unidentifiable


class Counter(Recorder):
    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    def request(self, verb: str, outcome: str) -> None:
        self.requests.append((verb, outcome))


@define(eq=False)
class Life:
    """A reflector at work."""

    source: Any
    sink: Sink
    pulse: Pulse
    counter: Counter
    reflector: Reflector[KubeObject]
    task: asyncio.Task[None]

    async def until(self, seconds: float) -> None:
        await asyncio.sleep(1000.0 + seconds - asyncio.get_running_loop().time())


@asynccontextmanager
async def living(
    source: Any,
    *,
    initial_list: Literal["list", "stream", "auto"] = "list",
    chance: float = 0.0,
    limiter: Limiter | None = None,
) -> AsyncIterator[Life]:
    """Run a reflector without jitter and, unless given, without a limit, and see that it ends within a second."""
    loop = asyncio.get_running_loop()
    sink, counter = Sink(), Counter()
    pulse = Pulse(clock=loop.time, now=lambda: datetime.now(UTC), deadline=630.0)
    reflector = Reflector(
        source,
        sink,
        pulse=pulse,
        recorder=counter,
        initial_list=initial_list,
        backoff=Backoff(rng=lambda: chance),
        limiter=Limiter(burst=10_000) if limiter is None else limiter,
        rng=lambda: chance,
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield Life(source, sink, pulse, counter, reflector, task)
    finally:
        begin = loop.time()
        task.cancel()
        await asyncio.wait([task], timeout=1.0)
        assert task.done()
        assert loop.time() - begin < 1.0
        if isinstance(source, Source):
            assert source.open == 0
    if not task.cancelled():
        task.result()
        pytest.fail("the reflector ended by itself")


# ---------------------------------------------------------------------- the table

START: Any = page("10", "a")
FIRST: tuple[float, str] = (0, "LIST '0' 500")
Row: TypeAlias = tuple[str, list[Any], list[tuple[float, str]], list[str]]
ROWS: list[Row] = [
    # ------------------------------------------------------------------ first LIST and clean ends
    ("first LIST, then WATCH", [START], [FIRST, (0, "WATCH '10'")], ["all 10: a"]),
    (
        "events, clean end",
        [START, [item("b", "11"), item("a", "12"), deleted("b", "13")]],
        [FIRST, (0, "WATCH '10'"), (0, "WATCH '13'")],
        ["all 10: a", "item b 11", "item a 12", "deleted b 13"],
    ),
    ("clean end after a second", [START, [1.0], [400.0]], [FIRST, (0, "WATCH '10'"), (1, "WATCH '10'"), (401, "WATCH '10'")], ["all 10: a"]),
    ("versions are opaque", [START, [item("b", "9"), item("c", "abc-7")]], [FIRST, (0, "WATCH '10'"), (0, "WATCH 'abc-7'")], ["all 10: a", "item b 9", "item c abc-7"]),
    # ------------------------------------------------------------------ what moves the version
    ("a bookmark", [START, [Bookmark("12")]], [FIRST, (0, "WATCH '10'"), (0, "WATCH '12'")], ["all 10: a", "bookmark 12"]),
    ("a bookmark without version", [START, [Bookmark("")]], [FIRST, (0, "WATCH '10'"), (0, "WATCH '10'")], ["all 10: a", "bookmark "]),
    ("a withheld object", [START, [withheld("b", "11")]], [FIRST, (0, "WATCH '10'"), (0, "WATCH '11'")], ["all 10: a", "withheld b 11"]),
    ("an unidentifiable object", [START, [Bookmark("11", unidentifiable=1)]], [FIRST, (0, "WATCH '10'"), (0, "WATCH '11'")], ["all 10: a", "bookmark 11"]),
    ("an object without version", [START, [item("b", "")]], [FIRST, (0, "WATCH '10'"), (0, "WATCH '10'")], ["all 10: a", "item b"]),
    ("a delete without version", [START, [deleted("a", "")]], [FIRST, (0, "WATCH '10'"), (0, "WATCH '10'")], ["all 10: a", "deleted a"]),
    # ------------------------------------------------------------------ short empty watches
    (
        "three short empty watches",
        [START, [], [0.05], [0.05], page("10", "a")],
        [FIRST, (0, "WATCH '10'"), (0.8, "WATCH '10'"), (2.45, "WATCH '10'"), (5.7, "LIST '10' all"), (5.7, "WATCH '10'")],
        ["all 10: a", "all 10: a"],
    ),
    (
        "short watches, but not in a row",
        [START, [], [], [1.0], [], []],
        [FIRST, (0, "WATCH '10'"), (0.8, "WATCH '10'"), (2.4, "WATCH '10'"), (3.4, "WATCH '10'"), (6.6, "WATCH '10'"), (13.0, "WATCH '10'")],
        ["all 10: a"],
    ),
    # ------------------------------------------------------------------ 410
    ("410 at the opening: at once", [START, EXPIRED, page("20", "b")], [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0, "WATCH '20'")], ["all 10: a", "all 20: b"]),
    (
        "410 in the stream: at once",
        [START, [item("b", "11"), 5, GONE], page("20", "b")],
        [FIRST, (0, "WATCH '10'"), (5, "LIST '' 500"), (5, "WATCH '20'")],
        ["all 10: a", "item b 11", "all 20: b"],
    ),
    (
        "410 again and again: growing",
        [START, EXPIRED, page("20"), [EXPIRED], page("30"), EXPIRED, page("40"), EXPIRED],
        [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0, "WATCH '20'"), (0.8, "LIST '' 500"), (0.8, "WATCH '30'"), (2.4, "LIST '' 500"), (2.4, "WATCH '40'"), (5.6, "LIST '' 500")],
        ["all 10: a", "all 20:", "all 30:", "all 40:"],
    ),
    (
        "410 again after a healthy watch: at once",
        [START, EXPIRED, page("20"), [10, EXPIRED], page("30")],
        [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0, "WATCH '20'"), (10, "LIST '' 500"), (10, "WATCH '30'")],
        ["all 10: a", "all 20:", "all 30:"],
    ),
    (
        "410 on the LIST itself",
        [START, EXPIRED, EXPIRED, EXPIRED, page("20")],
        [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0.8, "LIST '' 500"), (2.4, "LIST '' 500"), (2.4, "WATCH '20'")],
        ["all 10: a", "all 20:"],
    ),
    ("410 on the first LIST", [EXPIRED, START], [FIRST, (0, "LIST '' 500"), (0, "WATCH '10'")], ["all 10: a"]),
    (
        "410 on a later LIST",
        [START, StreamBrokenError("x"), EXPIRED, page("20")],
        [FIRST, (0, "WATCH '10'"), (0.8, "LIST '10' all"), (0.8, "LIST '' 500"), (0.8, "WATCH '20'")],
        ["all 10: a", "all 20:"],
    ),
    # ------------------------------------------------------------------ too large
    *[
        (
            f"too large, wording {number}, WATCH",
            [START, error, page("8", "a")],
            [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0, "WATCH '8'")],
            ["all 10: a", "all 8: a"],
        )
        for number, error in enumerate(WORDINGS, 1)
    ],
    *[
        (
            f"too large, wording {number}, LIST",
            [START, StreamBrokenError("x"), error, page("8", "a")],
            [FIRST, (0, "WATCH '10'"), (0.8, "LIST '10' all"), (0.8, "LIST '' 500"), (0.8, "WATCH '8'")],
            ["all 10: a", "all 8: a"],
        )
        for number, error in enumerate(WORDINGS, 1)
    ],
    # ------------------------------------------------------------------ 404
    (
        "404 on WATCH and LIST",
        [START, NO_KIND, NO_KIND, NO_KIND, page("5", "a")],
        [FIRST, (0, "WATCH '10'"), (0.8, "LIST '' 500"), (2.4, "LIST '' 500"), (5.6, "LIST '' 500"), (5.6, "WATCH '5'")],
        ["all 10: a", "all 5: a"],
    ),
    # ------------------------------------------------------------------ refused WATCH: the version stays
    *[
        (
            f"WATCH refused: {error!r:.60}",
            [START, [item("b", "11")], error, error, error, [item("c", "12")]],
            [FIRST, (0, "WATCH '10'"), (0, "WATCH '11'"), (0.8, "WATCH '11'"), (2.4, "WATCH '11'"), (5.6, "WATCH '11'"), (5.6, "WATCH '12'")],
            ["all 10: a", "item b 11", "item c 12"],
        )
        for error in KEEP_VERSION
    ],
    *[
        (f"stream broken by: {error!r:.60}", [START, [item("b", "11"), error]], [FIRST, (0, "WATCH '10'"), (0.8, "WATCH '11'")], ["all 10: a", "item b 11"])
        for error in KEEP_VERSION
    ],
    *[
        (f"first LIST refused: {error!r:.60}", [error, error, START], [FIRST, (0.8, "LIST '0' 500"), (2.4, "LIST '0' 500"), (2.4, "WATCH '10'")], ["all 10: a"])
        for error in KEEP_VERSION
    ],
    (
        "the client cancels what waits for it",
        [asyncio.CancelledError(), START, asyncio.CancelledError(), [item("b", "11"), asyncio.CancelledError()]],
        [FIRST, (0.8, "LIST '0' 500"), (0.8, "WATCH '10'"), (2.4, "WATCH '10'"), (5.6, "WATCH '11'")],
        ["all 10: a", "item b 11"],
    ),
    # ------------------------------------------------------------------ lost events
    ("an event was lost", [START, [item("b", "11"), StreamBrokenError("x")], page("12")], [FIRST, (0, "WATCH '10'"), (0.8, "LIST '11' all"), (0.8, "WATCH '12'")], ["all 10: a", "item b 11", "all 12:"]),
    ("a line was too large", [START, [ItemTooLargeError("x")], page("12")], [FIRST, (0, "WATCH '10'"), (0.8, "LIST '10' all"), (0.8, "WATCH '12'")], ["all 10: a", "all 12:"]),
    # ------------------------------------------------------------------ pages
    (
        "pages",
        [page("10", "a", token="t1"), page("10", "b", token="t2"), page("10", "c")],
        [FIRST, (0, "PAGE t1 500 -"), (0, "PAGE t2 500 -"), (0, "WATCH '10'")],
        ["all 10: a b c"],
    ),
    (
        "pages at first: pages later",
        [page("10", "a", token="t1"), page("10"), [StreamBrokenError("x")], page("20", "b", token="t2"), page("20", "c")],
        [FIRST, (0, "PAGE t1 500 -"), (0, "WATCH '10'"), (0.8, "LIST '10' 500"), (0.8, "PAGE t2 500 -"), (0.8, "WATCH '20'")],
        ["all 10: a", "all 20: b c"],
    ),
    (
        "pages of a newest list only: no limit later",
        [START, EXPIRED, page("20", "a", token="t1"), page("20"), [StreamBrokenError("x")]],
        [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0, "PAGE t1 500 -"), (0, "WATCH '20'"), (0.8, "LIST '20' all")],
        ["all 10: a", "all 20: a"],
    ),
    (
        "the first expired token",
        [page("10", "a", "b", token="t1"), NO_TOKEN, page("76", "a", token="t2"), page("76", "c")],
        [FIRST, (0, "PAGE t1 500 -"), (0, "LIST '' 500"), (0, "PAGE t2 500 -"), (0, "WATCH '76'")],
        ["all 76: a c"],
    ),
    (
        "the second expired token",
        [page("10", "a", "b", token="t1"), NO_TOKEN, page("76", "a", token="t2"), NO_TOKEN, page("80", "a", "d")],
        [FIRST, (0, "PAGE t1 500 -"), (0, "LIST '' 500"), (0, "PAGE t2 500 -"), (0, "LIST '' all"), (0, "WATCH '80'")],
        ["all 80: a d"],
    ),
    (
        "a server that pages what was to come whole",
        [page("10", token="t1"), NO_TOKEN, page("76", token="t2"), NO_TOKEN, page("80", token="t3"), NO_TOKEN, page("90", "a")],
        [FIRST, (0, "PAGE t1 500 -"), (0, "LIST '' 500"), (0, "PAGE t2 500 -"), (0, "LIST '' all"), (0, "PAGE t3 all -"), (0, "LIST '' 500"), (0, "WATCH '90'")],
        ["all 90: a"],
    ),
    (
        "a page fails otherwise",
        [page("10", "a", token="t1"), ApiError("no", status=503), page("12", "b")],
        [FIRST, (0, "PAGE t1 500 -"), (0.8, "LIST '0' 500"), (0.8, "WATCH '12'")],
        ["all 12: b"],
    ),
    ("a list without version", [page("", "a"), START], [FIRST, (0.8, "LIST '0' 500"), (0.8, "WATCH '10'")], ["all 10: a"]),
    ("a later list without version", [START, EXPIRED, page(""), page("12")], [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0.8, "LIST '' 500"), (0.8, "WATCH '12'")], ["all 10: a", "all 12:"]),
    # ------------------------------------------------------------------ the restore probe
    (
        "deaf, restored",
        [START, [Bookmark("12")], [...], page("5", "x"), page("5", "z")],
        [FIRST, (0, "WATCH '10'"), (0, "WATCH '12'"), (300, "LIST '' 1"), (300, "LIST '' 500"), (300, "WATCH '5'")],
        ["all 10: a", "bookmark 12", "all 5: z"],
    ),
    (
        "deaf, all is well",
        [START, [Bookmark("12")], [...], page("12"), [...], page("13")],
        [FIRST, (0, "WATCH '10'"), (0, "WATCH '12'"), (300, "LIST '' 1"), (300, "WATCH '12'"), (600, "LIST '' 1"), (600, "WATCH '12'")],
        ["all 10: a", "bookmark 12"],
    ),
    (
        "deaf, the probe fails",
        [START, [Bookmark("12")], [...], ApiError("no", status=503)],
        [FIRST, (0, "WATCH '10'"), (0, "WATCH '12'"), (300, "LIST '' 1"), (300.8, "WATCH '12'")],
        ["all 10: a", "bookmark 12"],
    ),
    (
        "an unidentifiable object is no bookmark of the server's",
        [START, [Bookmark("12", unidentifiable=1)], [...]],
        [FIRST, (0, "WATCH '10'"), (0, "WATCH '12'"), (300, "WATCH '12'")],
        ["all 10: a", "bookmark 12"],
    ),
    ("quiet, without bookmarks ever", [START, [...], [...]], [FIRST, (0, "WATCH '10'"), (300, "WATCH '10'"), (600, "WATCH '10'")], ["all 10: a"]),
    ("quiet, but cut short", [START, [Bookmark("12")], [200]], [FIRST, (0, "WATCH '10'"), (0, "WATCH '12'"), (200, "WATCH '12'")], ["all 10: a", "bookmark 12"]),
    # ------------------------------------------------------------------ silence
    (
        "three bookmarks, three missing",
        [START, [60, Bookmark("12"), 60, Bookmark("13"), 60, Bookmark("14"), FOREVER]],
        [FIRST, (0, "WATCH '10'"), (390.8, "WATCH '14'")],
        ["all 10: a", "bookmark 12", "bookmark 13", "bookmark 14"],
    ),
    (
        "two bookmarks, silence",
        [START, [60, Bookmark("12"), 60, Bookmark("13"), FOREVER]],
        [FIRST, (0, "WATCH '10'")],
        ["all 10: a", "bookmark 12", "bookmark 13"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("answers", "requests", "told"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
async def test_rows(answers: list[Any], requests: list[tuple[float, str]], told: list[str]) -> None:
    """When answers come as in the row, requests should be sent at these times and the sink be told this."""
    async with living(Source([*answers])) as life:
        await life.until(890)
        assert life.source.calls == [(pytest.approx(time), text) for time, text in requests]
        assert [call.rstrip() for call in life.sink.calls] == [call.rstrip() for call in told]
        assert not life.source.answers


STREAM: tuple[float, str] = (0, "STREAM ''")
STREAMED: list[Row] = [
    (
        "marked",
        [[item("a", "7"), item("b", "3"), marked("10"), item("c", "11")]],
        [STREAM, (0, "WATCH '11'")],
        ["all 10: a b", "item c 11"],
    ),
    ("empty", [[marked("10"), ...]], [STREAM, (300, "WATCH '10'")], ["all 10:"]),
    ("withheld before the mark is present", [[item("a", "7"), withheld("b", "8"), marked("10")]], [STREAM, (0, "WATCH '10'")], ["all 10: a b!"]),
    ("bad, then good before the mark", [[withheld("b", "8"), item("b", "9"), marked("10")]], [STREAM, (0, "WATCH '10'")], ["all 10: b"]),
    ("deleted before the mark is gone", [[item("a", "7"), item("b", "8"), deleted("a", "9"), marked("10")]], [STREAM, (0, "WATCH '10'")], ["all 10: b"]),
    ("a mark without version", [[item("a", "7"), marked("")], [marked("10")]], [STREAM, (0.8, "STREAM ''"), (0.8, "WATCH '10'")], ["all 10:"]),
    ("a bookmark without the mark does not end it", [[item("a", "7"), Bookmark("8"), item("b", "9"), marked("10")]], [STREAM, (0, "WATCH '10'")], ["all 10: a b"]),
    (
        "a broken stream starts anew",
        [[item("a", "7"), Bookmark("8"), ApiError("reset")], [item("b", "9"), marked("10")]],
        [STREAM, (0.8, "STREAM ''"), (0.8, "WATCH '10'")],
        ["all 10: b"],
    ),
    *[
        (
            f"refused with {status}",
            [ApiError("sendInitialEvents is forbidden", status=status), START, EXPIRED, page("20", "b")],
            [STREAM, FIRST, (0, "WATCH '10'"), (0, "LIST '' 500"), (0, "WATCH '20'")],
            ["all 10: a", "all 20: b"],
        )
        for status in (400, 405, 422)
    ],
    (
        "two ends without the mark",
        [[item("a", "7")], [item("a", "7")], START, EXPIRED, page("20")],
        [STREAM, (0.8, "STREAM ''"), (2.4, "LIST '0' 500"), (2.4, "WATCH '10'"), (2.4, "LIST '' 500"), (2.4, "WATCH '20'")],
        ["all 10: a", "all 20:"],
    ),
    (
        "two streams cut before the mark",
        [[item("a", "7"), ApiError("reset")], [ConnectionResetError("reset")], START],
        [STREAM, (0.8, "STREAM ''"), (2.4, "LIST '0' 500"), (2.4, "WATCH '10'")],
        ["all 10: a"],
    ),
    (
        "60 s of silence",
        [[5, item("a", "7"), FOREVER], START, EXPIRED],
        [STREAM, (65, "LIST '0' 500"), (65, "WATCH '10'"), (65, "LIST '' 500")],
        ["all 10: a"],
    ),
    ("59 s of silence", [[59, item("a", "7"), 59, marked("10"), 200, item("b", "11")]], [STREAM, (318, "WATCH '11'")], ["all 10: a", "item b 11"]),
    (
        "may list but not watch",
        [ApiError("no", status=403), START, ApiError("no", status=403)],
        [STREAM, (0.8, "LIST '0' 500"), (0.8, "WATCH '10'"), (2.4, "WATCH '10'")],
        ["all 10: a"],
    ),
    (
        "overloaded",
        [ApiError("no", status=429), ApiError("no", status=429), [item("a", "7"), marked("10")]],
        [STREAM, (0.8, "STREAM ''"), (2.4, "STREAM ''"), (2.4, "WATCH '10'")],
        ["all 10: a"],
    ),
    (
        "expired later",
        [[item("a", "7"), marked("10")], EXPIRED, [item("b", "19"), marked("20")]],
        [STREAM, (0, "WATCH '10'"), (0, "STREAM ''"), (0, "WATCH '20'")],
        ["all 10: a", "all 20: b"],
    ),
    (
        "an event lost later",
        [[marked("10"), StreamBrokenError("x")], [item("b", "19"), marked("20")]],
        [STREAM, (0.8, "STREAM '10'"), (0.8, "WATCH '20'")],
        ["all 10:", "all 20: b"],
    ),
    (
        "broken right after the mark: no unmarked end",
        [[marked("10"), ApiError("reset")], [StreamBrokenError("x")], [ApiError("reset")], [marked("20")]],
        [STREAM, (0.8, "WATCH '10'"), (2.4, "STREAM '10'"), (5.6, "STREAM '10'"), (5.6, "WATCH '20'")],
        ["all 10:", "all 20:"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "requests", "told"), [row[1:] for row in STREAMED], ids=[row[0] for row in STREAMED]
)
async def test_streaming_rows(answers: list[Any], requests: list[tuple[float, str]], told: list[str]) -> None:
    """When the list is streamed and answers come as in the row, it should be published at the mark, or listed."""
    async with living(Source([*answers]), initial_list="stream") as life:
        await life.until(590)
        assert life.source.calls == [(pytest.approx(time), text) for time, text in requests]
        assert life.sink.calls == told
        assert not life.source.answers


async def test_auto_lists_sooner() -> None:
    """When the way is chosen automatically, a streaming list that stays silent should cost seconds, not a minute."""
    async with living(Source([[FOREVER], START]), initial_list="auto") as life:
        await life.until(60)
        assert life.source.calls == [STREAM, (10, "LIST '0' 500"), (10, "WATCH '10'")]


async def test_unidentifiable_objects_are_counted() -> None:
    """When items have no key, they should be counted over all pages, and before the mark of a streaming list."""
    pages: list[Page[KubeObject]] = [Page([], "10", "t", unidentifiable=1), Page([], "10", "", unidentifiable=2)]
    async with living(Source([*pages, [Bookmark("11", unidentifiable=1)]])) as life:
        await life.until(1)
        assert life.sink.unidentifiable == 4
    async with living(
        Source([[Bookmark("7", unidentifiable=1), item("a", "8"), marked("10")]]), initial_list="stream"
    ) as life:
        await asyncio.sleep(1)
        assert life.sink.unidentifiable == 1
        assert life.source.calls[1][1] == "WATCH '10'"


# ---------------------------------------------------------------------- delays


@pytest.mark.parametrize(("retry_after", "second"), [(7.0, 7.0), (0.5, 0.8), (86400.0, 300.0)])
async def test_retry_after(retry_after: float, second: float) -> None:
    """When the server asks to wait, it should wait that long, or its own delay, or five minutes at most."""
    refusal = ApiError("no", status=429, retry_after=retry_after)
    async with living(Source([refusal, refusal, START])) as life:
        await life.until(700)
        times = [time for time, _ in life.source.calls]
        assert times[:3] == [0, pytest.approx(second), pytest.approx(second + max(second, 1.6))]


async def test_one_sequence_for_all() -> None:
    """When LIST, WATCH and streams fail in turn, the delays should be one growing sequence, up to 30 s."""
    no = ApiError("no", status=503)
    async with living(Source([no, no, START, no, [StreamBrokenError("x")], no, no, no, no])) as life:
        await life.until(200)
        times = [time for time, _ in life.source.calls]
        assert times == pytest.approx([0, 0.8, 2.4, 2.4, 5.6, 12.0, 24.8, 50.4, 80.4, 110.4])


@pytest.mark.parametrize(("lived", "delay"), [(9, 3.2), (10, 0.8), (100, 0.8)])
async def test_reset_of_the_sequence(lived: float, delay: float) -> None:
    """When a watch lived 10 s and longer than its own last delay, delays should start anew, and not before."""
    no = ApiError("no", status=503)
    async with living(Source([no, no, START, [lived, no]])) as life:
        await life.until(150)
        assert life.source.calls[-1] == (pytest.approx(2.4 + lived + delay), "WATCH '10'")


async def test_no_reset_by_lists() -> None:
    """When LISTs succeed and watches break, an hour should see growing delays and not a LIST or WATCH a second."""
    source = Source([START, *[[item("b", "11"), ApiError("reset")]] * 1000])
    async with living(source) as life:
        await life.until(3600)
        assert len(source.calls) < 130
        assert {text for _, text in source.calls} == {"LIST '0' 500", "WATCH '10'", "WATCH '11'"}


async def test_jitter() -> None:
    """When two clients fail alike, they should not come back at the same time, nor ask for equally long watches."""
    times, timeouts = [], []
    for chance in (0.25, 0.75):
        begin = asyncio.get_running_loop().time() - 1000.0
        source = Source([ApiError("no", status=503)] * 2 + [START])
        async with living(source, chance=chance):
            await asyncio.sleep(20)
        times.append([round(time - begin, 3) for time, _ in source.calls])
        assert isinstance(source.options[-1], WatchOptions)
        timeouts.append(source.options[-1].timeout)
    assert times == [[0, 1.0, 3.0, 3.0], [0, 1.4, 4.2, 4.2]]
    assert timeouts == [375, 525]


async def test_limiter() -> None:
    """When a server ends every watch at once, the limiter should hold beside the backoff: few requests in 30 s."""
    source = Source([START, *[[]] * 500])
    async with living(source, limiter=Limiter()) as life:
        await life.until(30)
        assert 3 < len(source.calls) <= 10


async def test_limiter_alone() -> None:
    """When every request succeeds and yet nothing lasts, the limiter should be enough: five, then one per 6 s."""
    source = Source([START, *[[item("b", "11")]] * 500])
    async with living(source, limiter=Limiter()) as life:
        await life.until(61)
        assert [time for time, _ in source.calls] == [0, 0, 0, 0, 0, *range(6, 61, 6)]


async def test_pages_do_not_pass_the_limiter_and_restarts_do() -> None:
    """When a LIST has many pages they should come at once, but a LIST that starts over is another start."""
    many = [page("10", token=f"t{number}") for number in range(50)]
    source = Source([*many, NO_TOKEN, *many, NO_TOKEN, page("20"), *[[item("b", "11")]] * 4])
    async with living(source, limiter=Limiter()) as life:
        await life.until(20)
        starts = [(time, text) for time, text in source.calls if not text.startswith("PAGE")]
        assert starts == [
            (0, "LIST '0' 500"),
            (0, "LIST '' 500"),
            (0, "LIST '' all"),
            (0, "WATCH '20'"),
            (0, "WATCH '11'"),
            (6, "WATCH '11'"),
            (12, "WATCH '11'"),
            (18, "WATCH '11'"),
        ]


async def test_pairs_of_list_and_410() -> None:
    """When every WATCH answers 410 at once, LISTs should be spaced by growing delays: no more than 8 in a minute."""
    source = Source([answer for number in range(200) for answer in (page(str(number + 1)), [EXPIRED])])
    async with living(source, limiter=Limiter()) as life:
        await life.until(60)
        assert 4 <= sum("LIST" in text for _, text in source.calls) <= 8


# ---------------------------------------------------------------------- relist()


async def test_relist_during_a_watch() -> None:
    """When asked during a watch, it should leave it, LIST the newest state at once, and return once that is published."""
    async with living(Source([START, [item("b", "11"), FOREVER], page("20", "c")])) as life:
        await life.until(50)
        await asyncio.wait_for(life.reflector.relist(), 5)
        assert life.sink.calls == ["all 10: a", "item b 11", "all 20: c"]
        await life.until(60)
        assert life.source.calls[2:] == [(50, "LIST '' 500"), (50, "WATCH '20'")]
        assert life.pulse.failures == 0


async def test_relist_during_a_list() -> None:
    """When asked while a LIST is under way, another should follow: the first may be older than the question."""
    async with living(Source([20, page("10", "a"), page("20", "b")])) as life:
        await life.until(10)
        await asyncio.wait_for(life.reflector.relist(), 1000)
        assert life.sink.calls == ["all 10: a", "all 20: b"]
        assert life.source.calls[:2] == [FIRST, (20, "LIST '' 500")]


async def test_relist_during_backoff() -> None:
    """When asked during a delay, the delay should be kept, and a LIST come after it in place of a WATCH."""
    async with living(Source([START, ApiError("no", status=429, retry_after=100), page("20", "b")])) as life:
        await life.until(10)
        await asyncio.wait_for(life.reflector.relist(), 1000)
        assert life.source.calls[:3] == [FIRST, (0, "WATCH '10'"), (100, "LIST '' 500")]


async def test_relist_while_failing() -> None:
    """When LISTs fail, it should go on waiting until one succeeds."""
    no = ApiError("no", status=503)
    async with living(Source([START, FOREVER, no, no, page("20", "b")])) as life:
        await life.until(10)
        await asyncio.wait_for(life.reflector.relist(), 1000)
        assert life.source.calls[2:5] == [(10, "LIST '' 500"), (10.8, "LIST '' 500"), (12.4, "LIST '' 500")]
        assert life.sink.calls[-1] == "all 20: b"


async def test_relist_while_a_watch_is_opened() -> None:
    """When asked while a WATCH is about to open, it should be given up for a LIST."""
    source = Source([START, FOREVER, page("20", "b")])
    async with living(source) as life:
        for _ in range(100):
            await asyncio.sleep(0)
            if len(source.calls) == 2:
                break
        await asyncio.wait_for(life.reflector.relist(), 1000)
        assert source.calls[:3] == [FIRST, (0, "WATCH '10'"), (0, "LIST '' 500")]


async def test_relist_of_several() -> None:
    """When several ask, one LIST should answer all that came before it."""
    async with living(Source([START, FOREVER, 5, page("20", "b"), page("30", "c")])) as life:
        await life.until(10)
        await asyncio.gather(*(life.reflector.relist() for _ in range(3)))
        assert [text for _, text in life.source.calls].count("LIST '' 500") == 1


async def test_relist_given_up() -> None:
    """When nobody waits any more, nothing should break."""
    async with living(Source([START, FOREVER, 5, page("20", "b")])) as life:
        await life.until(10)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(life.reflector.relist(), 1)
        await life.until(20)
        assert life.sink.calls[-1] == "all 20: b"
        assert not life.task.done()


async def test_relist_of_a_streamed_list() -> None:
    """When the list is streamed, it should be streamed again; when it is still coming, once more after it."""
    answers = [
        [item("a", "1"), 20, marked("10"), FOREVER],
        [item("b", "19"), marked("20"), FOREVER],
        [item("c", "29"), marked("30"), FOREVER],
    ]
    async with living(Source(answers), initial_list="stream") as life:
        await life.until(10)
        await asyncio.wait_for(life.reflector.relist(), 1000)
        assert life.sink.calls == ["all 10: a", "all 20: b"]
        await asyncio.wait_for(life.reflector.relist(), 1000)
        assert life.sink.calls[-1] == "all 30: c"
        assert life.source.calls == [STREAM, (20, "STREAM ''"), (20, "STREAM ''")]


@pytest.mark.parametrize(
    "answers", [[START], [FOREVER], [ApiError("no", status=503)] * 50], ids=["watch", "list", "failing"]
)
@pytest.mark.parametrize("initial_list", ["list", "stream"])
async def test_relist_and_stop(answers: list[Any], initial_list: Literal["list", "stream"]) -> None:
    """When the informer stops, or has stopped, it should say so and not wait for ever."""
    if initial_list == "stream" and answers == [START]:
        answers = [[marked("10"), FOREVER]]
    async with living(Source([*answers]), initial_list=initial_list) as life:
        await life.until(10)
        waiting = asyncio.create_task(life.reflector.relist())
        await asyncio.sleep(0)
    with pytest.raises(InformerError, match="stopped"):
        await waiting
    with pytest.raises(InformerError, match="stopped"):
        await asyncio.wait_for(life.reflector.relist(), 5)


# ---------------------------------------------------------------------- health, logs, metrics


async def test_log_of_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    """When an outage goes on, it should be logged at once and then sparsely, and its end once; a later one again at once."""
    no = ApiError("watch widgets: no", status=503, reason="ServiceUnavailable")
    source = Source([START, *[no] * 12, [40, no], [20, Bookmark("11"), FOREVER]])
    with caplog.at_level(logging.INFO, logger="informer"):
        async with living(source) as life:
            await life.until(1000)
            assert life.pulse.failures == 0
    words = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in words] == ["WARNING"] * 5, "its end is as loud as the outage"
    assert words[0][1].startswith(
        "widgets.v1.example.test: 503 ServiceUnavailable: watch widgets: no (failure 1 in a row; next"
    )
    assert "failure 10 in a row" in words[1][1]
    assert words[2][1] == "widgets.v1.example.test: the server answers again after 12 failures"
    assert "failure 1 in a row" in words[3][1]
    assert words[4][1] == "widgets.v1.example.test: the server answers again after 1 failures"
    assert all(record.exc_info is None for record in caplog.records)


DOWN = ApiError("watch widgets: the connection broke", reason="ConnectionError")
DENIED = ApiError("watch widgets: no", status=403, reason="Forbidden")
AILING = ApiError("watch widgets: no", status=503, reason="ServiceUnavailable")


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ([DOWN] * 3 + [DENIED] * 5, [1, 4]),
        ([DOWN, AILING, DOWN, DOWN], [1, 2, 3]),
        ([DOWN, ApiError("another text", reason="ConnectionError"), OSError("x"), OSError("y")], [1, 3]),
        ([DENIED, ApiError("no", status=403, reason="Other")], [1, 2]),
        ([DOWN, DENIED] * 13, [1, 2, 3, 4, 10, 11, 12, 13, 20, 21, 22, 23]),
        ([DOWN, DENIED] * 4 + [AILING] * 2, [1, 2, 3, 4, 9, 10]),
    ],
    ids=["another cause", "a blip", "other texts", "other reasons", "two take turns", "a third beside two"],
)
async def test_log_of_another_cause(errors: list[Exception], said: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """When the cause of an outage changes, that should be logged at once, but not for ever if two causes take turns."""
    async with living(Source([START, *errors, [20, Bookmark("11"), FOREVER]])) as life:
        await life.until(10_000)
    assert [record.failures for record in caplog.records] == [*said, len(errors)]
    assert "answers again" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("resource", [WIDGETS, SECRETS])
async def test_log_of_foreign_errors(resource: Resource, caplog: pytest.LogCaptureFixture) -> None:
    """When a source raises something of its own, it should be shown with its traceback, unless that could quote a Secret."""
    async with living(Source([ValueError("bad value hunter2")], resource=resource)) as life:
        await life.until(1)
    (record,) = caplog.records
    assert ("hunter2" in caplog.text) is (resource is WIDGETS)
    assert (record.exc_info is not None) is (resource is WIDGETS)
    assert "ValueError" in record.getMessage()


@pytest.mark.parametrize(
    ("error", "resource", "text"),
    [
        (ApiError("no", status=403, reason="Forbidden"), WIDGETS, "403 Forbidden: no"),
        (ApiError("no", status=403, reason="Forbidden"), SECRETS, "403 Forbidden: no"),
        (ValueError("a\nb"), WIDGETS, "ValueError: a b"),
        (ValueError("a\nb"), SECRETS, "ValueError"),
        (TimeoutError(), WIDGETS, "TimeoutError"),
    ],
)
def test_describe(error: Exception, resource: Resource, text: str) -> None:
    """When an error is described, it should be one line, and nothing a decoder may have quoted of a Secret."""
    assert describe(error, resource) == text
    assert len(describe(ValueError("x" * 10_000), resource)) < 1100


async def test_pulse() -> None:
    """When requests fail and succeed, health should know the last contact, the failures in a row, and the last error."""
    no = ApiError("no", status=503)
    async with living(Source([no, no, 5, START, [10, Bookmark("11"), 50, no, FOREVER]])) as life:
        await life.until(0.5)
        assert (life.pulse.failures, life.pulse.failing, life.pulse.last_error) == (1, True, no)
        await life.until(2.5)
        assert life.pulse.failures == 2
        await life.until(8)
        assert (life.pulse.failures, life.pulse.failing) == (0, False)
        await life.until(30)
        assert life.pulse.silence == pytest.approx(30 - 17.4)
        await life.until(68)
        assert (life.pulse.failures, life.pulse.failing) == (1, True)


async def test_metrics() -> None:
    """When requests end, they should be counted by verb and outcome."""
    answers = [
        ApiError("no", status=503),
        TimeoutError(),
        START,
        [item("b", "11")],
        ApiError("x", reason="ConnectionError"),
        ValueError("x"),
        [],
        EXPIRED,
        page("20"),
    ]
    async with living(Source(answers)) as life:
        await life.until(200)
        assert life.counter.requests == [
            ("list", "503"),
            ("list", "timeout"),
            ("list", "ok"),
            ("watch", "ok"),
            ("watch", "ConnectionError"),
            ("watch", "error"),
            ("watch", "ShortWatch"),
            ("watch", "410"),
            ("list", "ok"),
        ]


# ---------------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("answers", "initial_list"),
    [
        ([5, START], "list"),
        ([5, Page([], "10")], "list"),
        ([[5, item("a", "7"), marked("10"), FOREVER]], "stream"),
    ],
)
async def test_a_bug_is_no_outage(answers: list[Any], initial_list: Literal["list", "stream"]) -> None:
    """When the sink raises over a list, that is a bug: the reflector should end with it instead of trying for ever."""
    bug = RuntimeError("a bug")
    with pytest.raises(RuntimeError, match="a bug") as caught:
        async with living(Source([*answers]), initial_list=initial_list) as life:
            life.sink.error = bug
            waiting = asyncio.create_task(life.reflector.relist())
            await asyncio.sleep(6)
            assert life.task.done()
    assert caught.value is bug
    with pytest.raises(InformerError, match="stopped"):
        await waiting


@pytest.mark.parametrize("event", [item("b", "11"), withheld("b", "11"), deleted("a", "11"), Bookmark("11")], ids=str)
async def test_a_bug_in_a_change(event: Any) -> None:
    """When the sink raises over a change, the reflector should end with it, and the watch be closed."""
    source = Source([START, [5, event, FOREVER]])
    bug = RuntimeError("a bug")
    with pytest.raises(RuntimeError, match="a bug") as caught:
        async with living(source) as life:
            await life.until(1)
            life.sink.error = bug
            await life.until(6)
            assert source.open == 0
    assert caught.value is bug


@pytest.mark.parametrize("turns", range(30))
@pytest.mark.parametrize("initial_list", ["list", "stream"])
async def test_cancelling(turns: int, initial_list: Literal["list", "stream"]) -> None:
    """When it is cancelled at any turn of the loop, it should end at once and leave nothing open."""
    answers = {
        "list": [page("10", "a", token="t"), page("10", "b"), [item("c", "11"), item("d", "12")], EXPIRED, START],
        "stream": [[item("a", "9"), marked("10"), item("c", "11")], EXPIRED, [item("a", "9"), marked("20")]],
    }[initial_list]
    source = Source([*answers])
    before = asyncio.all_tasks()
    async with living(source, initial_list=initial_list):
        for _ in range(turns):
            await asyncio.sleep(0)
    assert source.open == 0
    assert asyncio.all_tasks() == before
    calls = len(source.calls)
    await asyncio.sleep(1000)
    assert len(source.calls) == calls


# ---------------------------------------------------------------------- any server

VERSIONS = st.sampled_from(["1", "9", "10", "999999", "1000000", "abc-7", ""])
REFUSALS = st.sampled_from([EXPIRED, GONE, NO_KIND, *WORDINGS, *KEEP_VERSION, StreamBrokenError("x"), ItemTooLargeError("x"), *(ApiError("x", status=code) for code in (400, 405, 422))])  # fmt: skip
WAITS = st.sampled_from([0.01, 0.5, 1.0, 11.0, 60.0, 299.0])
STEPS = st.one_of(
    WAITS,
    st.just(...),
    REFUSALS,
    st.builds(item, st.sampled_from("abc"), VERSIONS),
    st.builds(withheld, st.sampled_from("abc"), VERSIONS),
    st.builds(deleted, st.sampled_from("abc"), VERSIONS),
    st.builds(Bookmark, VERSIONS, st.booleans()),
)
PAGES = st.builds(
    lambda version, names, token: page(version, *names, token=token),
    VERSIONS,
    st.text(alphabet="abc", max_size=2),
    st.sampled_from(["", "", "t"]),
)


@define(eq=False)
class AnyServer(Source):
    """Answers each request with anything that fits it."""

    lists: Iterator[Any] = Factory(lambda: iter(()))
    streams: Iterator[Any] = Factory(lambda: iter(()))

    def _next(self, text: str, options: ListOptions | WatchOptions) -> Any:
        Source._next(self, text, options)
        return next(self.lists if isinstance(options, ListOptions) else self.streams, FOREVER)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=150)
@given(
    st.lists(st.one_of(PAGES, PAGES, REFUSALS), max_size=25),
    st.lists(st.one_of(st.lists(STEPS, max_size=5), REFUSALS), max_size=25),
    st.sampled_from(["list", "stream", "auto"]),
    st.lists(st.floats(0, 3000), max_size=3),
)
def test_any_server(
    lists: list[Any], streams: list[Any], initial_list: Literal["list", "stream", "auto"], asks: list[float]
) -> None:
    """When a server answers anything at all, requests should stay within the rules, and the reflector alive."""

    async def main() -> None:
        source = AnyServer([], lists=iter(lists), streams=iter(streams))
        async with living(source, initial_list=initial_list, chance=0.5, limiter=Limiter()) as life:
            waiting = []
            for ask in sorted(asks):
                await life.until(ask)
                waiting.append(asyncio.create_task(life.reflector.relist()))
            await life.until(6000)
            for one in waiting:
                one.cancel()
        calls = source.calls
        starts = [time for time, text in calls if not text.startswith("PAGE")]
        for first in range(len(starts)):
            for last in range(first, len(starts)):
                assert last - first + 1 <= 5 + (starts[last] - starts[first]) / 6.0 + 1e-6
        published = False
        for at, ((_, text), options) in enumerate(zip(calls, source.options, strict=True)):
            if isinstance(options, ListOptions):
                assert not (options.continue_token and options.resource_version is not None)
                assert options.resource_version != "0" or not published
            else:
                assert 300 <= options.timeout <= 600
            # A WATCH always has a version: it follows a published list, or a 404 led to a LIST.
            assert text != "WATCH ''"
            published = published or text.startswith("WATCH")
            assert at == 0 or not text.startswith("PAGE") or calls[at - 1][1].startswith(("LIST", "PAGE"))

    run(main())


# ---------------------------------------------------------------------- over the fakes


async def test_fake_source() -> None:
    """When a source follows the API server's rules, the sink should be kept equal to it through expiry and outage."""
    source = FakeListerWatcher(WIDGETS)
    source.create("a")
    first = source.cluster.resource_version
    async with living(source) as life:
        await life.until(1)
        assert life.sink.calls == [f"all {first}: default/a"]
        source.create("b")
        source.delete("a")
        await life.until(2)
        assert [call.rsplit(" ", 1)[0] for call in life.sink.calls[1:]] == ["item default/b", "deleted default/a"]
        source.fail_watches(*[ApiError("no", status=503)] * 3)
        source.drop_watches(ApiError("reset"))
        source.create("c")
        source.compact()
        await life.until(60)
        assert life.sink.calls[-1] == f"all {source.cluster.resource_version}: default/b default/c"
        assert source.count("list") == 2
        assert source.open_watches == 1


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([WIDGETS], bookmark_period=60.0) as server:
        server.create(WIDGETS, {"metadata": {"name": "a"}})
        yield server


def asked(server: FakeApiServer) -> list[tuple[str, str | None, str | None]]:
    """The requests so far: verb, version, limit."""
    return [(one.verb, one.query.get("resourceVersion"), one.query.get("limit")) for one in server.requests]


async def test_server(server: FakeApiServer) -> None:
    """When a real server is there, it should be listed once and followed, without another LIST for hours."""
    server.resource_version = "40"
    async with server.api_client() as api, living(ApiListerWatcher(api, WIDGETS)) as life:
        await server.wait_until(lambda: server.open_watches(WIDGETS) == 1)
        server.create(WIDGETS, {"metadata": {"name": "b"}})
        await life.until(4 * 3600)
        assert asked(server)[:2] == [("list", "0", "500"), ("watch", "40", None)]
        assert len(server.lists()) == 1
        assert all(request.query["resourceVersion"] == "41" for request in server.watches()[1:])
        assert life.sink.calls[:2] == ["all 40: default/a", "item default/b 41"]
        assert life.pulse.failures == 0


@pytest.mark.parametrize("in_stream", [False, True])
async def test_server_expires(server: FakeApiServer, in_stream: bool) -> None:
    """When the version expires while the connection is lost, a LIST should bring what was missed."""
    server.watch_rules.expired_in_stream = in_stream
    async with server.api_client() as api, living(ApiListerWatcher(api, WIDGETS)) as life:
        await server.wait_until(lambda: server.open_watches(WIDGETS) == 1)
        server.faults.add(match("watch"), faults.status_answer(503, "ServiceUnavailable", "no"), times=2)
        server.end_watches(end=End.RESET)
        server.create(WIDGETS, {"metadata": {"name": "b"}})
        server.delete(WIDGETS, "a")
        server.compact()
        await life.until(60)
        assert [(verb, version) for verb, version, _ in asked(server) if verb == "list"] == [
            ("list", "0"),
            ("list", ""),
        ]
        assert life.sink.calls[-1].endswith(": default/b")


async def test_server_restored(server: FakeApiServer) -> None:
    """When a server is restored from a backup, it should be noticed by the deaf watch, and the old state be listed."""
    async with server.api_client() as api, living(ApiListerWatcher(api, WIDGETS)) as life:
        await life.until(100)
        old = server.resource_version
        for name in "bcd":
            server.create(WIDGETS, {"metadata": {"name": name}})
        await life.until(200)
        assert life.sink.calls[-1].startswith(("item", "bookmark"))
        server.watch_rules.bookmark_period = None
        server.watch_rules.final_bookmark = -1.0
        server.restore(old)
        await life.until(1500)
        assert life.sink.calls[-1] == f"all {old}: default/a"
        assert [request for request in asked(server) if request[0] == "list"][:3] == [
            ("list", "0", "500"),
            ("list", "", "1"),
            ("list", "", "500"),
        ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("marked", [("watch", "", None)]),
        ("refused", [("watch", "", None), ("list", "0", "500"), ("watch", None, None)]),
        ("unmarked", [("watch", "", None), ("list", "0", "500"), ("watch", None, None)]),
    ],
)
async def test_server_streams(
    server: FakeApiServer, rule: Any, expected: list[tuple[str, str | None, str | None]]
) -> None:
    """When the list is streamed by a server of any age, the sink should be synced within about a minute."""
    latest = server.resource_version
    server.watch_rules.streaming_lists = rule
    server.watch_rules.bookmark_period = None
    async with server.api_client() as api, living(ApiListerWatcher(api, WIDGETS), initial_list="stream") as life:
        await life.until(65)
        assert asked(server) == [
            (verb, latest if version is None else version, limit) for verb, version, limit in expected
        ]
        assert life.sink.calls == [f"all {latest}: default/a"]


async def test_server_is_away() -> None:
    """When nobody listens for half an hour, it should try about once a minute and then be there again by itself."""
    async with FakeApiServer([WIDGETS]) as server:
        server.create(WIDGETS, {"metadata": {"name": "a"}})
        await server.stop()
        async with server.api_client() as api, living(ApiListerWatcher(api, WIDGETS), chance=0.5) as life:
            await life.until(1800)
            assert 40 <= len(life.counter.requests) <= 60
            assert {outcome for _, outcome in life.counter.requests} == {"ConnectionError"}
            assert life.sink.calls == []
            await server.start()
            await life.until(1860)
            assert life.sink.calls == [f"all {server.resource_version}: default/a"]
