"""`SharedInformer`: one source, one cache, any number of handlers; puts the rooms together and owns their lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from informer import _hints, metrics
from informer._buffer import Buffer, iterate
from informer._cache import Cache
from informer._course import is_decimal
from informer._lifetime import Lifetime
from informer._work import work
from informer.changes import Change
from informer.errors import InformerError, SyncError
from informer.handlers import Callbacks, Handler, is_asynchronous
from informer.health import Health, Pulse, state_of
from informer.lister import Index, Lister
from informer.listerwatcher import WATCH_GRACE, ListerWatcher
from informer.options import InformerOptions
from informer.problems import QuarantinedObject, excerpt
from informer.reflector import WATCH_TIMEOUT, Reflector, describe
from informer.registration import Registration
from informer.resource import Resource

T = TypeVar("T")

# So many refusals in a row that no waiting of ours mends end a `wait_for_sync` that has no timeout.
_HOPELESS = 3


class SharedInformer(Generic[T]):
    """Keeps a cache of what a source serves, and tells handlers of every change.

    Single-use: `async with` starts it, leaving the body ends it, a second start raises. Troubles of the server, the
    network, permissions and objects are never crashes: they are tried again and shown in `health`. Only a bug ends an
    informer: then the body is cancelled and the plain exception raised from it. What names no cost is O(1).

    Args:
        source: an `ApiListerWatcher`, perhaps in a `DegradedListerWatcher`, or anything else that lists and watches.
        options: see `InformerOptions`.
    """

    def __init__(self, source: ListerWatcher[T], /, *, options: InformerOptions | None = None) -> None:
        self._source = source
        self._options = InformerOptions() if options is None else options
        self._cache: Cache[T] = Cache()
        cache = self._cache  # not `self`: an informer that nobody needs any more goes at once, and its metrics with it
        self._lister: Lister[T] = Lister(cache.indexer, source.resource, lambda: cache.synced)
        self._lifetime: Lifetime | None = None
        self._reflector: Reflector[T] | None = None
        self._pulse: Pulse | None = None

    if not TYPE_CHECKING:  # a type checker refuses such an attribute by itself, and would then no longer

        def __getattr__(self, name: str) -> Any:
            raise _hints.unknown(self, name, _hints.INFORMER)

    def __repr__(self) -> str:
        return f"SharedInformer({self.name}, {self.health.state})"

    # ------------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        """Start; does not wait for the sync.

        Raises:
            RuntimeError: it was started before.
        """
        self._must_be_new()
        lifetime = Lifetime()
        await lifetime.enter()
        self.start_in(lifetime)
        return self

    async def __aexit__(
        self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """End, within a second; raises what ended the informer when that was a bug."""
        assert self._lifetime is not None
        await self._lifetime.exit(et, e, tb)

    def start_in(self, lifetime: Lifetime) -> None:
        """Start as one of several tasks with a common lifetime; what a factory does.

        Raises:
            RuntimeError: it was started before.
        """
        self._must_be_new()
        self._lifetime = lifetime
        self._pulse = Pulse(
            clock=asyncio.get_running_loop().time,
            now=lambda: datetime.now(UTC),
            deadline=2 * WATCH_TIMEOUT + WATCH_GRACE,
            on_failure=self._cache.wake,
        )
        self._cache.recorder = metrics.observe(
            self._options.registry, self, str(self._source.resource), self._options.name
        )
        self._reflector = Reflector(
            self._source,
            self._cache,
            pulse=self._pulse,
            recorder=self._cache.recorder,
            initial_list=self._options.initial_list,
            name=self.name,
        )
        cache = self._cache
        task = lifetime.spawn(
            work(
                self.name,
                self._reflector,
                cache,
                self._pulse,
                self._options.resync_period,
                lambda: lifetime.ending,
            ),
            name=f"informer {self.name}",
        )
        task.add_done_callback(lambda _: cache.end())  # no `finally`: cancelled at once, a task never comes to it

    def _must_be_new(self) -> None:
        if self._lifetime is not None:
            raise RuntimeError(f"the informer of {self.name} was started before; make a new one")

    async def stopped(self) -> BaseException | None:
        """Wait for the end; returns the bug that caused it, None when it was asked to end."""
        await self._cache.wait(lambda: self._cache.ended)
        return None if self._pulse is None else self._pulse.cause

    # ------------------------------------------------------------------ reading

    @property
    def lister(self) -> Lister[T]:
        """The read side of the cache."""
        return self._lister

    def add_index(self, name: str, values: Callable[[T], Iterable[str]], /) -> Index[T]:
        """Keep an index: `values(obj)` are the strings under which an object can be found. O(objects), then O(1) each.

        It may be added at any time. A function that returns None or nothing puts that object under no value; so does one
        that raises or returns something else, with a log line. It runs on the event loop, so it must be quick.

        Raises:
            ValueError: there is an index of that name.
            TypeError: `values` is a coroutine function.
        """
        if is_asynchronous(values):
            raise TypeError(f"the function of index {name!r} must not be a coroutine function")
        self._cache.indexer.add_index(name, values)
        return Index(self._lister, name)

    # ------------------------------------------------------------------ reacting

    def add_handler(
        self,
        *,
        on_add: Callable[[T], object] | None = None,
        on_update: Callable[[T, T], object] | None = None,
        on_delete: Callable[[T], object] | None = None,
        on_change: Callable[[Change[T]], object] | None = None,
        on_quarantined: Callable[[T | None, QuarantinedObject], object] | None = None,
        in_thread: bool = False,
        name: str = "",
    ) -> Registration:
        """Be told of every change; at any time, also late: then every object comes first as an initial add.

        Functions may be plain or coroutine functions. A plain one runs on the event loop and must not block; with
        `in_thread` it runs in a thread that belongs to this handler. Calls of one handler come one at a time and in order;
        handlers do not wait for each other. The store is final before a handler hears of a change. O(objects) when late.

        "Deleted" means deleted or left the selection. `on_quarantined(old, entry)` says that an object cannot be read any
        more (it is not deleted); an `on_add` after it replaces the earlier object.

        Raises:
            TypeError: no function at all, one that cannot be called so, or a coroutine function together with `in_thread`.
            InformerError: the informer has ended.
        """
        functions = [f for f in (on_add, on_update, on_delete, on_quarantined, on_change) if f is not None]
        if not functions:
            raise TypeError("a handler needs at least one function, such as on_add or on_change")
        if in_thread and any(is_asynchronous(f) for f in functions):
            raise TypeError("in_thread is for plain functions; a coroutine function runs on the event loop")
        handler = Handler(
            name or getattr(functions[0], "__qualname__", type(functions[0]).__name__),
            Callbacks(on_add, on_update, on_delete, on_change, on_quarantined),
            self._new_buffer(),
            in_thread,
        )
        self._cache.fanout.add(handler)
        return handler

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[Change[T]]]:
        """The changes as an iterator, every object first as an initial add (O(objects)); ends with the informer or the context.

        Raises:
            InformerError: the informer has ended; from the iterator, when a bug ended it.
        """
        return self._changes()

    @asynccontextmanager
    async def _changes(self) -> AsyncIterator[AsyncIterator[Change[T]]]:
        buffer = self._new_buffer()
        self._cache.fanout.attach(buffer)
        changes = iterate(buffer, lambda: None if self._pulse is None else self._pulse.cause)
        try:
            yield changes
        finally:
            self._cache.fanout.detach(buffer)
            buffer.close()
            with suppress(RuntimeError):  # another task waits inside, and has been woken
                await changes.aclose()

    def _new_buffer(self) -> Buffer[T]:
        if self._cache.ending:
            raise InformerError(f"the informer of {self.name} has ended")
        buffer: Buffer[T] = Buffer(self._options.max_backlog, self._cache.merged)
        if self._cache.synced:
            buffer.snapshot(self._cache.indexer.state)
        return buffer

    # ------------------------------------------------------------------ waiting

    async def wait_for_sync(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - part of the error's text
        """Return once the first complete list is in the store.

        Args:
            timeout: seconds. Without one, this waits as long as there is hope: three refusals in a row that no waiting
                mends (400, 401, 403, 404, 405, 422) end it. The informer itself goes on trying in any case.

        Raises:
            SyncError: not synced in time; says what the server answered last.
            InformerError: the informer was not started.
        """
        self._must_be_started()
        try:
            async with asyncio.timeout(timeout):
                await self._cache.wait(
                    lambda: self._cache.synced or self._cache.ended or (timeout is None and self._hopeless)
                )
        except TimeoutError:
            raise SyncError(f"{self.laggard()} (waited {timeout:g} s)") from self._last_error()
        if not self._cache.synced:
            raise SyncError(self.laggard()) from self._last_error()

    def _must_be_started(self) -> None:
        if self._lifetime is None:
            raise InformerError(f"the informer of {self.name} was not started; use it in `async with`")

    def laggard(self) -> str:
        """Why this informer is not synced, in one line."""
        error = self._last_error()
        if error is None:
            why = "the informer has ended" if self._cache.ended else "no answer from the server yet"
            return f"{self.name} is not synced: {why}"
        return f"{self.name} is not synced: {describe(error, self._source.resource)}"

    def _last_error(self) -> BaseException | None:
        return None if self._pulse is None else self._pulse.last_error

    @property
    def _hopeless(self) -> bool:
        return self._pulse is not None and self._pulse.refusals >= _HOPELESS

    async def wait_for_version(self, resource_version: str, /, *, timeout: float) -> None:  # noqa: ASYNC109 - as above
        """Return once the cache is at least at that version: read your own write.

        Raises:
            ValueError: the version is no decimal, so it has no order.
            TimeoutError: not in time.
            InformerError: the informer was not started, or ended before.
        """
        self._must_be_started()
        if not is_decimal(resource_version):
            raise ValueError(f"resource version {resource_version!r} is no decimal number, so it cannot be ordered")
        wanted = int(resource_version)
        try:
            async with asyncio.timeout(timeout):
                await self._cache.wait(lambda: self._cache.ended or self._cache.reached(wanted))
        except TimeoutError:
            here = f"{self.name} is at version {self._cache.version or 'none'}"
            raise TimeoutError(f"{here}, not yet at {resource_version} (waited {timeout:g} s)") from None
        if not self._cache.reached(wanted):
            raise InformerError(f"the informer of {self.name} has ended")

    async def relist(self) -> None:
        """Ask the server for the newest state now; returns when it is in the store. Changes arrive as usual.
        O(objects), as any LIST.

        Raises:
            InformerError: the informer is not running.
        """
        if self._reflector is None or self._cache.ending:
            raise InformerError(f"the informer of {self.name} is not running")
        await self._reflector.relist()

    # ------------------------------------------------------------------ health

    @property
    def resource(self) -> Resource:
        """What is followed."""
        return self._source.resource

    @property
    def name(self) -> str:
        """The resource and what tells this informer from others of it: `pods.v1 (ns=shop labels=app=web)`; for people."""
        return f"{self.resource} ({excerpt(self._options.name)})" if self._options.name else str(self.resource)

    @property
    def size(self) -> int:
        """Objects in the store. O(1)."""
        return len(self._cache.indexer.state.items)

    @property
    def backlog(self) -> int:
        """The longest queue of changes that wait for a handler. O(handlers)."""
        return self._cache.fanout.backlog

    @property
    def health(self) -> Health:
        """How it is doing now; safe to ask at any time and from any thread. O(1)."""
        pulse, cache, error = self._pulse, self._cache, self._last_error()
        quarantine = getattr(self._source, "quarantine", None)
        silenced = getattr(quarantine, "silenced", None)
        failing = silenced is not None or bool(getattr(quarantine, "overfull", False))
        if silenced is not None and not cache.ended:
            error = silenced
        return Health(
            state=state_of(pulse, synced=cache.synced, ended=cache.ended, overfull=failing),
            synced=cache.synced,
            complete=self._lister.complete,
            quarantined=len(cache.indexer.state.held),
            seconds_since_contact=0.0 if pulse is None else pulse.silence,
            last_error=None if error is None else describe(error, self._source.resource),
            last_error_at=None if pulse is None else pulse.last_error_at,
            consecutive_failures=0 if pulse is None else pulse.failures,
        )
