"""WATCH: the log as a stream of lines, with bookmarks, streaming lists, selectors and the server's own time limit."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from attrs import Factory, define, field

from informer.testing import _status
from informer.testing._exchange import End, Ended, Exchange
from informer.testing._history import Change, History, Stored
from informer.testing._lists import Selection, read_version, selection
from informer.testing._objects import Served
from informer.testing._requests import RecordedRequest

StreamingLists: TypeAlias = Literal["marked", "unmarked", "refused"]


@define(eq=False)
class WatchRules:
    """How this server watches; may be changed while it runs, for later watches.

    Attributes:
        bookmark_period: seconds between bookmarks; None for none.
        final_bookmark: seconds before `timeoutSeconds` at which a last bookmark is sent.
        streaming_lists: `marked` as since Kubernetes 1.32, `unmarked` as a hop that loses the marker (kubernetes#139716),
            `refused` as an older server.
        expired_in_stream: answer an expired version with 200 and an ERROR event, as servers with a watch cache do, instead
            of HTTP 410.
        timeout: seconds between which a watch without `timeoutSeconds` is ended.
    """

    bookmark_period: float | None = 60.0
    final_bookmark: float = 2.0
    streaming_lists: StreamingLists = "marked"
    expired_in_stream: bool = False
    timeout: tuple[float, float] = (1800.0, 3600.0)


@define(eq=False)
class OpenWatch:
    """One watch being served. `orders` come from outside: foreign bytes to send, or how to end, and after which version."""

    request: RecordedRequest
    served: Served
    position: int
    orders: deque[tuple[int, bytes | End]] = Factory(deque)
    _news: asyncio.Event = field(factory=asyncio.Event, init=False)

    def order(self, version: int, what: bytes | End) -> None:
        """When everything up to this version is sent: send these bytes, or end."""
        self.orders.append((version, what))
        self._news.set()

    def wake(self) -> None:
        """Look at the log again."""
        self._news.set()

    async def news(self, until: float) -> None:
        """Wait for something to do, at most until this loop time."""
        try:
            async with asyncio.timeout_at(None if until == math.inf else until):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()


@define(eq=False)
class WatchServer:
    """Serves watches of one history.

    Attributes:
        open: the watches being served now.
    """

    history: History
    rules: WatchRules
    random: random.Random
    tell: Callable[[], object]
    open: set[OpenWatch] = Factory(set)

    async def serve(self, exchange: Exchange, served: Served) -> None:
        """Answer a WATCH until its time is up or somebody ends it."""
        request = exchange.request
        selected = selection(served, request)
        streaming = self._check(request.query)
        text = request.query.get("resourceVersion", "")
        version = read_version(text, code=500, reason="")
        refusal = None
        if streaming and version > self.history.version:
            refusal = _status.version_too_large(version, self.history.version)
        elif not streaming and version and version < self.history.compacted:
            refusal = _status.watch_expired(version, self.history.compacted)
        if refusal is not None:
            if refusal.code == 410 and not self.rules.expired_in_stream:
                raise refusal
            await exchange.start()
            await exchange.write(_line("ERROR", _status.to_bytes(refusal.body)))
            await exchange.finish(End.CLOSE)
            return
        initial = streaming or version == 0
        watch = OpenWatch(request, served, self.history.version if initial else version)
        present = sorted(served.table.objects.items()) if initial else []
        self.open.add(watch)
        self.tell()
        served.table.listeners.add(watch.wake)
        try:
            await exchange.start()
            for _, stored in present:
                if selected(stored):
                    await exchange.write(_line("ADDED", stored.whole))
            if streaming and self.rules.streaming_lists == "marked":
                await exchange.write(_bookmark(served, watch.position, marked=True))
            await self._follow(exchange, watch, selected)
        finally:
            served.table.listeners.discard(watch.wake)
            self.open.discard(watch)

    async def _follow(self, exchange: Exchange, watch: OpenWatch, selected: Selection) -> None:
        query, time = watch.request.query, asyncio.get_running_loop().time
        seconds = query.get("timeoutSeconds", "")
        end = time() + (
            float(seconds) if seconds.isdecimal() and int(seconds) else self.random.uniform(*self.rules.timeout)
        )
        bookmarks = _Bookmarks(time, end, self.rules) if watch.request.flag("allowWatchBookmarks") else None
        table = watch.served.table
        while True:
            if watch.position < table.forgotten:  # compaction took what it has not sent
                expired = _status.watch_expired(watch.position, self.history.compacted)
                await exchange.write(_line("ERROR", _status.to_bytes(expired.body)))
                break
            change = table.after(watch.position)
            if watch.orders and (change is None or change.version > watch.orders[0][0]):
                _, order = watch.orders.popleft()
                if isinstance(order, End):
                    raise Ended(order)
                await exchange.write(order)
                continue
            if change is not None:
                watch.position = change.version
                if not change.silent and (line := _event(change, selected)):
                    await exchange.write(line)
                continue
            if bookmarks and bookmarks.due() and watch.position <= self.history.version:
                watch.position = self.history.version
                await exchange.write(_bookmark(watch.served, watch.position))
            if time() >= end:
                break
            await watch.news(min(end, bookmarks.next if bookmarks else math.inf))
        await exchange.finish(End.CLOSE)

    def _check(self, query: Mapping[str, str]) -> bool:
        match, streaming = query.get("resourceVersionMatch", ""), "sendInitialEvents" in query
        faults, path = [], "resourceVersionMatch"
        if streaming and match != "NotOlderThan":
            faults.append(
                (path, "Forbidden", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
            )
        if streaming and self.rules.streaming_lists == "refused":
            text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            faults.append(("sendInitialEvents", "Forbidden", text))
        if match and not streaming:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            faults.append((path, "Forbidden", text))
        if faults:
            raise _status.invalid_options(faults)
        return streaming and query["sendInitialEvents"].lower() in ("1", "t", "true")


@define(eq=False)
class _Bookmarks:
    """When the next bookmark is due: every period, and once shortly before the end."""

    time: Callable[[], float]
    end: float
    rules: WatchRules
    next: float = math.inf

    def __attrs_post_init__(self) -> None:
        self._plan()

    def due(self) -> bool:
        if self.time() < self.next:
            return False
        self._plan()
        return True

    def _plan(self) -> None:
        now, period = self.time(), self.rules.bookmark_period
        if period is None:
            self.next = math.inf
            return
        final = self.end - self.rules.final_bookmark
        self.next = min(now + period, final) if now < final else math.inf


def _event(change: Change, selected: Selection) -> bytes:
    """One change as this watch's selection sees it: what leaves the selection is deleted for its client."""
    was = change.old is not None and selected(change.old)
    if change.new is not None and selected(change.new):
        return _line("MODIFIED" if was else "ADDED", change.new.whole)
    if not was:
        return b""
    assert change.old is not None
    return _line("DELETED", change.last.whole if change.last else _moved(change.old, change.version))


def _moved(stored: Stored, version: int) -> bytes:
    """The last state inside the selection, with the version at which it was left."""
    if not stored.metadata:
        return stored.whole
    tree = stored.copy()
    tree["metadata"]["resourceVersion"] = str(version)
    return _status.to_bytes(tree)


def _bookmark(served: Served, version: int, *, marked: bool = False) -> bytes:
    meta: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
    if marked:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return _line(
        "BOOKMARK", _status.to_bytes({"kind": served.kind, "apiVersion": served.api_version, "metadata": meta})
    )


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
