"""List, watch, and list again when there is no other way: keeps a sink equal to what a source serves.

The reflector sends the requests that `_course` decides on and hands what it learns to a `Sink`; it knows nothing of stores
and handlers. It never ends by itself: whatever a server, a network or an object does is met by another attempt.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Generic, Literal, TypeVar

from attrs import define

from informer._course import Course, Next, Phase
from informer._paging import complete_list
from informer._silence import Silence
from informer._sink import Collected, Sink, SinkError, sinking
from informer._slices import Slices
from informer.backoff import Backoff, Limiter
from informer.errors import ApiError, InformerError
from informer.health import Pulse
from informer.listerwatcher import Bookmark, Deleted, Event, ListerWatcher, ListOptions, Page, WatchOptions
from informer.metrics import Recorder
from informer.problems import excerpt
from informer.resource import Resource

_log = logging.getLogger("informer.reflector")

T = TypeVar("T")

WATCH_TIMEOUT = 300.0
"""Seconds; each watch asks for this plus a random 0-100 % of it, so that a fleet does not come back in step."""
MARK_SILENCE = {"list": 60.0, "stream": 60.0, "auto": 10.0}
"""Seconds without an event after which a streaming list is taken for one that will never be marked complete; `auto` starts
sooner on a server that cannot stream."""


@define(eq=False)
class _OpenWatch(Generic[T]):
    """What is known of one open watch. `initial`: the list it streams, until the mark that completes it."""

    silence: Silence
    initial: Collected[T] | None = None
    delivered: int = 0


class Reflector(Generic[T]):
    """Keeps a sink equal to what a source serves.

    Args:
        source: where objects come from.
        sink: where they go.
        pulse: is told of every contact and failure, for `health`.
        recorder: counts requests.
        initial_list: `list`, or `stream` or `auto` for streaming lists.
        backoff: delays after failures.
        limiter: the bound on requests, whatever else goes wrong.
        rng: a float in [0, 1).
        name: for log lines and errors; the resource by default.
    """

    def __init__(
        self,
        source: ListerWatcher[T],
        sink: Sink[T],
        *,
        pulse: Pulse,
        recorder: Recorder,
        initial_list: Literal["list", "stream", "auto"] = "list",
        backoff: Backoff | None = None,
        limiter: Limiter | None = None,
        rng: Callable[[], float] = random.random,
        name: str = "",
    ) -> None:
        self._source = source
        self._sink = sink
        self._pulse = pulse
        self._recorder = recorder
        self._backoff = Backoff(rng=rng) if backoff is None else backoff
        self._limiter = Limiter() if limiter is None else limiter
        self._rng = rng
        self._mark_silence = MARK_SILENCE[initial_list]
        self._course = Course(name or str(source.resource), streaming=initial_list != "list")
        self._relists: list[asyncio.Future[None]] = []
        self._open: _OpenWatch[T] | None = None
        self._said: list[tuple[type, int, str]] = []
        self._phase = self._course.complete_list
        self._stopped = False

    async def relist(self) -> None:
        """Ask for the newest state as soon as the limiter allows; returns when it is published.

        Raises:
            InformerError: the informer stopped before.
        """
        if self._stopped:
            raise InformerError("the informer has stopped; it lists no more")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._relists.append(done)
        if self._open is not None and self._open.initial is None:
            self._open.silence.interrupt()
        await done

    async def run(self) -> None:
        """Run until cancelled.

        Raises:
            Exception: the sink raised it. Whatever the source raises is met by another attempt.
        """
        phase = self._course.complete_list
        try:
            while True:
                await self._limiter.wait()
                if self._relists:
                    self._course.newest = True
                    phase = self._course.complete_list
                phase, error = await self._attempt(phase)
                if error is not None:
                    await self._fail(error)
        except SinkError as failure:
            raise (failure.__cause__ or failure) from None
        finally:
            self._stopped = True
            for waiter in self._relists:
                if not waiter.done():
                    waiter.set_exception(InformerError("the informer stopped before it could list again"))
                    waiter.exception()  # looked at, since nobody may be waiting any more

    async def _attempt(self, phase: Phase) -> Next:
        self._phase = phase
        try:
            match phase:
                case Phase.LIST:
                    after = await self._list()
                case Phase.STREAM | Phase.WATCH:
                    after = await self._watch(phase)
                case Phase.PROBE:
                    after = await self._probe()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not this task was cancelled, but what it waited for: a client does that to its waiters when it is closed.
            message = f"{phase.verb} {self._course.name}: the request was cancelled by its client"
            error: Exception = ApiError(message, reason="Cancelled")
        except Exception as raised:  # noqa: BLE001 - a source may be anybody's code; it is logged and tried again
            error = raised
        else:
            self._recorder.request(phase.verb, "ok" if after.error is None else _outcome(after.error))
            return after
        self._recorder.request(phase.verb, _outcome(error))
        return self._course.refused(self._phase, error)

    async def _fail(self, error: Exception) -> None:
        delay = self._backoff.next(error.retry_after if isinstance(error, ApiError) else None)
        self._pulse.failed(error)
        failures = self._pulse.failures
        kind = _kind(error)
        if failures == 1 or failures % 10 == 0:  # at once, then sparsely: an hour of outage has about 80 failures
            self._said.clear()
        # Another cause at once, so that the last line is not about one that is over; causes that take turns twice each.
        if kind not in self._said[-1:] and self._said.count(kind) < 2:
            self._said.append(kind)
            unexpected = not isinstance(error, InformerError | OSError)
            _log.warning(
                "%s: %s (failure %d in a row; next attempt in %.1f s)",
                self._course.name,
                describe(error, self._source.resource),
                failures,
                delay,
                exc_info=error if unexpected and not self._source.resource.sensitive else None,
                extra={"resource": str(self._source.resource), "failures": failures, "delay": delay},
            )
        await asyncio.sleep(delay)

    def _healthy(self) -> None:
        """The server gave what was asked for, so a row of failures is over."""
        self._pulse.contact()
        self._recovered()

    def _recovered(self) -> None:
        if self._pulse.failures:
            _log.warning(  # as loud as the failures were
                "%s: the server answers again after %d failures",
                self._course.name,
                self._pulse.failures,
                extra={"resource": str(self._source.resource), "failures": self._pulse.failures},
            )
        self._pulse.failures = 0

    # ------------------------------------------------------------------ LIST

    async def _list(self) -> Next:
        waiting, self._relists = self._relists, []
        try:
            collected, version = await complete_list(
                self._source, self._sink, self._course.list_options(), self._limiter, self._page_came
            )
            await self._publish(collected, version, waiting)
        except BaseException:
            self._relists += waiting
            raise
        return Next(Phase.WATCH)

    def _page_came(self, page: Page[T]) -> None:
        self._pulse.contact()
        if page.continue_token and not self._course.synced:
            self._course.paged = True

    async def _publish(self, collected: Collected[T], version: str, waiting: list[asyncio.Future[None]]) -> None:
        if not version:  # and no watch without a version: it would miss the deletes between the two
            raise ApiError(f"list {self._course.name}: it has no resource version", reason="UnreadableAnswer")
        with sinking():
            await collected.publish(version)
        self._course.published(version)
        self._healthy()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    # ------------------------------------------------------------------ WATCH, and streaming lists

    async def _watch(self, phase: Phase) -> Next:
        course, loop = self._course, asyncio.get_running_loop()
        stream = phase is Phase.STREAM
        waiting: list[asyncio.Future[None]] = []
        if stream:
            waiting, self._relists = self._relists, []
        options = WatchOptions(
            resource_version="" if stream and course.newest else course.version,
            timeout=WATCH_TIMEOUT * (1 + self._rng()),
            send_initial_events=stream,
        )
        try:
            async with self._source.watch(options) as events, Silence() as silence:
                opened = loop.time()
                self._pulse.contact()
                watch = self._open = _OpenWatch(silence, self._sink.collect() if stream else None)
                try:
                    await self._follow(watch, events, waiting)
                finally:
                    self._open = None
                    lived = loop.time() - opened
                    course.watched(lived, delivered=watch.delivered > 0)
                    if self._backoff.survived(lived):
                        course.healthy()
                        self._recovered()
                    if watch.initial is not None and not silence.expired:
                        course.stream_ended_unmarked()
        finally:
            self._relists += (waiter for waiter in waiting if not waiter.done())
        return self._ended(watch, lived)

    async def _follow(
        self, watch: _OpenWatch[T], events: AsyncIterator[Event[T]], waiting: list[asyncio.Future[None]]
    ) -> None:
        sink, course, pulse, silence, slices = self._sink, self._course, self._pulse, watch.silence, Slices()
        if watch.initial is not None:
            silence.allow(self._mark_silence)
        elif self._relists:
            silence.interrupt()
        async for event in events:
            silence.last_heard = pulse.contact()
            if not watch.delivered:
                self._healthy()
            watch.delivered += 1
            if slices.due():
                await slices.breathe()
            if isinstance(event, Bookmark):
                if watch.initial is None:
                    with sinking():
                        sink.bookmark(event)
                    self._bookmark(event, silence)
                elif event.initial_events_end:
                    silence.allow(None)
                    await self._publish(watch.initial, event.resource_version, waiting)
                    watch.initial = None
                    self._phase = Phase.WATCH  # from here on; what breaks it is no reason to list again
                    if self._relists:  # asked for while the list was coming
                        silence.interrupt()
                else:
                    watch.initial.unidentifiable += event.unidentifiable
            elif watch.initial is None:
                try:  # costs nothing, as `with` would here
                    sink.apply(event)
                except Exception as error:
                    raise SinkError from error
                course.advance(event.resource_version)
            elif isinstance(event, Deleted):
                watch.initial.discard(event.key)
            else:
                watch.initial.add(event)

    def _bookmark(self, bookmark: Bookmark, silence: Silence) -> None:
        if bookmark.unidentifiable:  # an event in disguise, not the server's own bookmark
            self._course.advance(bookmark.resource_version)
        else:
            self._course.bookmarked(bookmark.resource_version)
            silence.bookmark()

    def _ended(self, watch: _OpenWatch[T], lived: float) -> Next:
        """What follows a watch that ended without an error."""
        course, silence = self._course, watch.silence
        if silence.interrupted:
            return Next(course.complete_list)
        if silence.expired and watch.initial is not None:
            course.stop_streaming(f"nothing came for {silence.limit:.0f} s, and no mark that the list is complete")
            return Next(Phase.LIST)
        if silence.expired:
            message = f"watch {course.name}: no bookmark for {silence.limit:.0f} s; the connection seems dead"
            return course.refused(Phase.WATCH, ApiError(message, reason="Timeout"))
        if watch.initial is not None:
            message = f"watch {course.name}: the stream ended before its list was complete"
            return Next(course.complete_list, ApiError(message, reason="StreamEnded"))
        return course.watch_ended(lived, delivered=watch.delivered > 0)

    # ------------------------------------------------------------------ PROBE

    async def _probe(self) -> Next:
        page = await self._source.list(ListOptions(resource_version="", limit=1))
        self._pulse.contact()
        return self._course.probed(page.resource_version)


def describe(error: BaseException, resource: Resource) -> str:
    """An error in one line, bounded; for a sensitive resource nothing that a decoder may have quoted."""
    if isinstance(error, InformerError):
        return str(error)
    name = type(error).__name__
    text = "" if resource.sensitive else excerpt(" ".join(str(error).split()), 1000)
    return f"{name}: {text}" if text else name


def _kind(error: Exception) -> tuple[type, int, str]:
    """What makes one cause of failure another than the one before; not its text, which may differ each time."""
    return type(error), getattr(error, "status", 0), getattr(error, "reason", "")


def _outcome(error: Exception) -> str:
    """A word or number for the metric; never a text that grows without bound."""
    if isinstance(error, ApiError):
        return str(error.status) if error.status else (error.reason or "error")
    return "timeout" if isinstance(error, TimeoutError) else "error"
