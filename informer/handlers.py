"""Fan-out: what happened goes to every handler through a buffer of its own, in order, and none waits for another."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from informer._buffer import Buffer
from informer._slices import Slices
from informer.changes import Added, Change, Quarantined, Removed, Updated
from informer.errors import InformerError, SyncError
from informer.problems import QuarantinedObject
from informer.store import News, Note

_log = logging.getLogger("informer.handlers")

T = TypeVar("T")


@frozen
class Callbacks(Generic[T]):
    """The functions of one handler; each may be plain or a coroutine function.

    Raises:
        TypeError: one cannot be called with what it will be called with.
    """

    on_add: Callable[[T], object] | None = None
    on_update: Callable[[T, T], object] | None = None
    on_delete: Callable[[T], object] | None = None
    on_change: Callable[[Change[T]], object] | None = None
    on_quarantined: Callable[[T | None, QuarantinedObject], object] | None = None

    def __attrs_post_init__(self) -> None:
        for what, count in (("on_add", 1), ("on_update", 2), ("on_delete", 1), ("on_change", 1), ("on_quarantined", 2)):
            _require_takes(getattr(self, what), count, what)

    def calls(self, change: Change[T]) -> list[tuple[Callable[..., object], tuple[Any, ...]]]:
        """Which function is to be called with what."""
        found: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        if type(change) is Updated:  # `isinstance` takes five times as long to say no to a Struct
            if self.on_update is not None:
                found.append((self.on_update, (change.old, change.new)))
        elif type(change) is Added:
            if self.on_add is not None:
                found.append((self.on_add, (change.object,)))
        elif type(change) is Removed:
            if self.on_delete is not None:
                found.append((self.on_delete, (change.object,)))
        elif type(change) is Quarantined and self.on_quarantined is not None:
            found.append((self.on_quarantined, (change.old, change.entry)))
        if self.on_change is not None:
            found.append((self.on_change, (change,)))
        return found


@define(eq=False)
class Ending:
    """Tells a cancellation that ends the informer from one by a stranger, or by a handler of itself.

    Attributes:
        owner: the task whose cancellation ends the informer; it does nothing but wait for the others.
    """

    owner: asyncio.Task[Any] | None = None
    _begun: bool = field(default=False, init=False)

    def begin(self) -> None:
        """The informer ends. To be called before its tasks are cancelled, so that they know whose cancellation it is."""
        self._begun = True

    @property
    def under_way(self) -> bool:
        """It has begun, or the owner is being cancelled and has only not come to begin it."""
        return self._begun or (self.owner is not None and self.owner.cancelling() > 0)


@define(eq=False)
class Handler(Generic[T]):
    """One registered handler: a buffer, a task, and perhaps a thread. To users it is a `Registration`.

    A call that raises is logged with its traceback, the change and the key, and life goes on. Names come from `name` or the
    first function.

    Attributes:
        call: the key and the change that it is being called with.
    """

    name: str
    callbacks: Callbacks[T]
    buffer: Buffer[T]
    in_thread: bool = False
    on_removed: Callable[[Handler[T]], None] = field(default=lambda _: None)
    ending: Ending = field(factory=Ending)
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _thread: ThreadPoolExecutor | None = field(default=None, init=False)
    _synced: bool = field(default=False, init=False)
    _settled: asyncio.Event = field(factory=asyncio.Event, init=False)
    call: tuple[str, Change[T]] | None = field(default=None, init=False)
    _removed: bool = field(default=False, init=False)

    @property
    def has_synced(self) -> bool:
        """See `Registration`, as of the others."""
        return self._synced

    @property
    def backlog(self) -> int:
        """Changes that wait for this handler, the one in progress included."""
        return len(self.buffer) + (self.call is not None)

    async def wait_for_sync(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as the informer's own
        """Return once `has_synced` is true."""
        try:
            async with asyncio.timeout(timeout):
                await self._settled.wait()
        except TimeoutError:
            late = (
                f"handler {self.name} has not heard of every initial object; {self.backlog} wait (waited {timeout:g} s)"
            )
            raise SyncError(late) from None
        if not self._synced:
            raise InformerError(
                f"handler {self.name} was removed, or its informer has ended, before it had heard of all"
            )

    def close(self) -> None:
        """No more will come."""
        self.buffer.close()
        self._settled.set()

    async def remove(self) -> None:
        """Stop; returns after the last call."""
        self._removed = True
        self.close()
        self.on_removed(self)
        task = self._task
        if task is not None and task is not asyncio.current_task():
            await asyncio.wait([task])

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to deliver, as a task of the informer's."""
        self._task = tasks.create_task(self._run(), name=f"handler {self.name}")

    async def _run(self) -> None:
        slices = Slices()
        try:
            while await self.buffer.wait():
                await self._deliver(slices)
        except asyncio.CancelledError:
            if self._removed or self.ending.under_way:
                raise
            self.ending.begin()  # a TaskGroup would take no notice, and this handler never hear of anything again
            raise InformerError(f"the task of handler {self.name} was cancelled by somebody else") from None
        except BaseException:
            self.ending.begin()  # SystemExit and its like end the informer
            raise
        finally:
            self.call = None
            if self._thread is not None:
                self._thread.shutdown(wait=False, cancel_futures=True)

    async def _deliver(self, slices: Slices) -> None:
        """Everything that waits. One coroutine for all of it, since one for each change would cost as much as the call."""
        task = self._task
        for entry in self.buffer.take():
            if entry is None:
                self._synced = True
                self._settled.set()
                continue
            self.call = entry
            for function, arguments in self.callbacks.calls(entry[1]):
                # Not in the `try`: that no thread takes the call is no fault of the call, and would be so for every other.
                job = self._submit(function, arguments) if self.in_thread else None
                try:
                    result = function(*arguments) if job is None else await job
                    if result is not None and inspect.isawaitable(result):  # the second question costs a microsecond
                        await result
                    elif task is not None and task.cancelling():
                        await asyncio.sleep(0)  # the call has cancelled this task: let that come here, as its failure
                except asyncio.CancelledError:
                    if self.ending.under_way or self._removed:
                        raise
                    while task is not None and task.cancelling():
                        task.uncancel()  # a handler that cancels itself has failed like any other
                    self._say(*entry)
                except Exception:  # noqa: BLE001 - a handler may raise anything, and `_say` logs it
                    self._say(*entry)
                if self.ending.under_way:
                    raise asyncio.CancelledError  # again, in case the call has swallowed it
                if self._removed:
                    return
            self.call = None
            if slices.due():
                await slices.breathe()
                if self._removed:
                    return

    def _submit(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> asyncio.Future[object]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"handler {self.name}")
        return asyncio.get_running_loop().run_in_executor(self._thread, _call, function, arguments)

    def _say(self, key: str, change: Change[T]) -> None:
        kind = type(change).__name__
        _log.exception(
            "handler %s failed on %s of %s; going on with the next",
            self.name,
            kind,
            key,
            extra={"handler": self.name, "change": kind, "key": key},
        )


def _require_takes(function: Callable[..., object] | None, count: int, what: str) -> None:
    """Refuse a function that cannot be called with so many objects; at the first change, a year later, would be late.

    Raises:
        TypeError: it takes fewer, or more, or keyword arguments only.
    """
    if function is None:
        return
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have none
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise TypeError(
            f"{what} is called with {count} positional argument{'s' * (count > 1)}, and {name}{signature}"
            f" does not take that: {error}"
        ) from None


def is_asynchronous(function: Callable[..., object]) -> bool:
    """True for a coroutine function, and for an object whose `__call__` is one."""
    return any(inspect.iscoroutinefunction(f) for f in (function, getattr(function, "__call__", None)))  # noqa: B004 - not a test of whether it can be called


def _call(function: Callable[..., object], arguments: tuple[Any, ...]) -> object:
    try:
        return function(*arguments)
    except StopIteration as error:  # no future can carry it: before Python 3.12 its awaiter would wait for ever
        raise RuntimeError("a handler raised StopIteration") from error


class Fanout(Generic[T]):
    """All handlers of one informer."""

    def __init__(self) -> None:
        self.ending = Ending()
        self._buffers: list[Buffer[T]] = []
        self.handlers: list[Handler[T]] = []
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to deliver; handlers added from now on start at once."""
        self._tasks = tasks
        self.ending.owner = asyncio.current_task()
        for handler in self.handlers:
            handler.start(tasks)

    def stop(self) -> None:
        """No more deliveries; who iterates over changes comes to the end."""
        self._tasks = self.ending.owner = None
        for handler in self.handlers:
            handler.close()
        for buffer in self._buffers:
            buffer.close()

    def attach(self, buffer: Buffer[T]) -> None:
        """Tell this buffer too from now on."""
        self._buffers.append(buffer)

    def detach(self, buffer: Buffer[T]) -> None:
        """Tell this buffer no more."""
        if buffer in self._buffers:
            self._buffers.remove(buffer)

    def add(self, handler: Handler[T]) -> None:
        """Take in a handler; it starts at once when the informer runs."""
        handler.on_removed = self._forget
        handler.ending = self.ending
        self.attach(handler.buffer)
        self.handlers.append(handler)
        if self._tasks is not None:
            handler.start(self._tasks)

    def _forget(self, handler: Handler[T]) -> None:
        self.detach(handler.buffer)
        if handler in self.handlers:
            self.handlers.remove(handler)

    def put(self, notes: Sequence[Note[T]]) -> None:
        """Tell every handler what happened; the store is final already."""
        for buffer in self._buffers:
            buffer.put(notes)

    def put_list(self, news: News[T]) -> None:
        """Tell every handler what a complete list means; the store is final already."""
        for buffer in self._buffers:
            buffer.put_list(news)

    @property
    def backlog(self) -> int:
        """The longest backlog of any handler."""
        return max((handler.backlog for handler in self.handlers), default=0)
