"""An event loop with virtual time: when nothing is ready, the clock jumps to the next timer instead of waiting for it.

Ten minutes of backoff pass in milliseconds and always in the same order. Sockets are real: a server and its client may share
the loop over loopback, because the loop looks at the kernel before each jump.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import define, field, frozen

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")

START: Final = 1000.0
"""`loop.time()` of a new virtual loop, in seconds. Not zero: a forgotten `or` or a "never" of 0.0 should show."""

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The wall-clock time that belongs to `START`."""


class DeadlockError(RuntimeError):
    """Everybody waits and nothing can wake anybody: no timer, no I/O, no running thread. Names the waiting tasks."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose `time()` only moves when all tasks wait for a timer, and then moves there at once.

    Before a jump it polls the sockets; while any are open it gives the kernel a short real grace to carry bytes from one
    end of a loopback connection to the other. While jobs of `run_in_executor` (or `asyncio.to_thread`) are running, time
    stands still and the loop waits for them in real time.

    Args:
        grace: Real seconds to listen before a jump when sockets are open.
        silence_limit: Real seconds without timer, I/O or running job after which `DeadlockError` is raised.
        job_limit: Real seconds to wait for a running executor job while nothing else happens; then `DeadlockError`.

    Attributes:
        wait_for_threads: Set to False where a test wants time to pass while a thread is blocked.
    """

    def __init__(self, *, grace: float = 0.001, silence_limit: float = 3.0, job_limit: float = 60.0) -> None:
        self._now = START
        self._jobs = 0
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self.wait_for_threads = True
        self._limits = _Limits(grace, silence_limit, job_limit)
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """The virtual time in seconds; starts at `START`."""
        return self._now

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep time still inside the block, for work the loop cannot see: a plain thread, another process."""
        self._jobs += 1
        try:
            yield
        finally:
            self._jobs -= 1

    def run_in_executor(  # type: ignore[override]  # typeshed spells the same signature with TypeVarTuple
        self, executor: concurrent.futures.Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As asyncio's, and the job is counted until its thread is done with it, even when its awaiter was cancelled."""
        if executor is None:
            if self._executor is None:
                self._executor = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="virtual-time")
                self.set_default_executor(self._executor)
            executor = self._executor
        job = executor.submit(func, *args)
        self._jobs += 1
        future = asyncio.wrap_future(job, loop=self)
        job.add_done_callback(self._job_is_over)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109  # the base's signature since 3.12
        """As asyncio's, without a time limit: virtual time would use it up at once."""
        with self.hold():
            await super().shutdown_default_executor()

    def _job_is_over(self, _job: concurrent.futures.Future[Any]) -> None:
        # Runs in the job's thread, after wrap_future's callback: time must not move between the job's end and its result.
        if not self.is_closed():
            self.call_soon_threadsafe(self._forget_job)

    def _forget_job(self) -> None:
        self._jobs -= 1

    def _jump(self, seconds: float) -> None:
        self._now += seconds

    def _time_may_pass(self) -> bool:
        return self._jobs == 0 or not self.wait_for_threads


@frozen
class _Limits:
    grace: float
    silence: float
    job: float


@define
class _JumpingSelector(selectors.BaseSelector):
    """The loop asks its selector to wait; this one moves the clock instead. That is all a virtual clock needs."""

    loop: VirtualTimeLoop
    real: selectors.BaseSelector = field(factory=selectors.DefaultSelector)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self.real.select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        loop, limits = self.loop, self.loop._limits  # noqa: SLF001  # one idea in two classes
        if not loop._time_may_pass():  # noqa: SLF001
            return self._wait_for_job(limits.job)
        if timeout is None:
            # A thread that is waited for only in name may still bring news.
            if events := self._listen(limits.silence):
                return events
            raise DeadlockError(f"nothing can happen any more: no timer, no I/O, no running thread.\n{_waiting(loop)}")
        # One registered file is the loop's own wake-up pipe.
        files = self.real.get_map()
        if len(files) > 1:
            # Who wants to write is most often still connecting, and an answer to that is sure to come.
            connecting = any(key.events & selectors.EVENT_WRITE for key in files.values())
            if events := self.real.select(limits.grace * 20 if connecting else limits.grace):
                return events
        loop._jump(timeout)  # noqa: SLF001
        return []

    def _wait_for_job(self, limit: float) -> list[tuple[selectors.SelectorKey, int]]:
        if events := self._listen(limit):
            return events
        raise DeadlockError(
            f"an executor job is still running after {limit:g} real seconds of silence; if time shall pass meanwhile, set "
            f"`loop.wait_for_threads = False`.\n{_waiting(self.loop)}"
        )

    def _listen(self, limit: float) -> list[tuple[selectors.SelectorKey, int]]:
        # A signal may end a select early and empty-handed.
        deadline = time.monotonic() + limit
        while (left := deadline - time.monotonic()) > 0:
            if events := self.real.select(left):
                return events
        return []

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.real.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self.real.unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self.real.get_map()

    def close(self) -> None:
        self.real.close()


def _waiting(loop: asyncio.AbstractEventLoop) -> str:
    lines = []
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        frames = task.get_stack(limit=1)
        where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "not started"
        lines.append(f"  {task.get_name()}: {task.get_coro()!r} at {where}")
    return "Pending tasks:\n" + "\n".join(lines) if lines else "No task is pending."


def run(coro: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Run one coroutine on a new virtual-time loop, as `asyncio.run` does: tasks, generators and threads are ended after it.

    Raises:
        DeadlockError: Everybody waits for something that cannot happen.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop, debug=debug) as runner:
        return runner.run(coro)


def now() -> datetime:
    """The wall-clock time that moves with the running loop: `EPOCH` plus the virtual seconds passed, with time zone.

    On an ordinary loop, or without one, it is the real time, so that one default serves tests and demos.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return datetime.now(UTC)
    return VirtualClock()() if isinstance(loop, VirtualTimeLoop) else datetime.now(UTC)


@define
class VirtualClock:
    """A wall clock on the virtual loop that can be set, as an administrator or NTP would do. Call it for the time.

    Args:
        start: The time that belongs to `START`; must have a time zone.
    """

    start: datetime = EPOCH

    def __call__(self) -> datetime:
        """The wall-clock time now, from the running loop's clock."""
        return self.start + timedelta(seconds=asyncio.get_running_loop().time() - START)

    def shift(self, seconds: float) -> None:
        """Move the wall clock by so many seconds (negative: back); the loop's clock does not move."""
        self.start += timedelta(seconds=seconds)
