from __future__ import annotations

import asyncio
import selectors
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer.testing.virtual import (
    EPOCH,
    START,
    DeadlockError,
    VirtualClock,
    VirtualTimeLoop,
    _JumpingSelector,
    now,
    run,
)


def loop_time() -> float:
    return asyncio.get_running_loop().time()


async def test_sleep_is_virtual():
    """When a task sleeps ten days, it should wake at exactly that virtual time without waiting."""
    assert loop_time() == START
    began = time.monotonic()
    await asyncio.sleep(864_000)
    assert loop_time() == START + 864_000
    assert time.monotonic() - began < 60


@given(delays=st.lists(st.integers(0, 10**9).map(lambda ms: ms / 1000), max_size=20))
def test_timers_fire_in_order(delays: list[float]):
    """When timers are set in any order, they should fire in the order of their due times, each at its time."""

    async def main() -> list[float]:
        fired: list[float] = []

        async def sleeper(delay: float) -> None:
            await asyncio.sleep(delay)
            fired.append(delay)
            assert loop_time() == pytest.approx(START + delay, abs=1e-6)

        async with asyncio.TaskGroup() as group:
            for delay in delays:
                group.create_task(sleeper(delay))
        return fired

    assert run(main()) == sorted(delays)


async def test_timeouts_and_clock_share_one_time():
    """When a timeout runs out, it should do so at its virtual moment."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()
    assert loop_time() == START + 30


async def test_wall_clock_moves_with_the_loop():
    """When virtual time passes, the wall clock should move by as much; shifting it must not move the loop."""
    clock = VirtualClock()
    await asyncio.sleep(90)
    assert clock() == now() == EPOCH + timedelta(seconds=90)
    clock.shift(-3600)
    assert clock() == EPOCH - timedelta(seconds=3510)
    assert loop_time() == START + 90


def test_now_is_real_elsewhere():
    """When there is no loop, now() should be the real time with a time zone."""
    assert abs(now() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.real_time
async def test_marked_tests_run_on_an_ordinary_loop():
    """When a test is marked real_time, it should not get the virtual loop."""
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    assert abs(now() - datetime.now(UTC)) < timedelta(minutes=1)


async def test_sockets_work_across_virtual_time():
    """When server and client share the loop, every byte should arrive at the virtual moment it was sent."""
    arrivals: list[tuple[bytes, float]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(200):
            await asyncio.sleep(30)
            writer.write(b"tick\n")
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        # A deadline right behind each byte: it fires first if time jumps while a byte is under way.
        while line := await asyncio.wait_for(reader.readline(), 30.000001):
            arrivals.append((line, loop_time()))
        writer.close()
        await writer.wait_closed()
    assert len(arrivals) == 200
    assert [when for _, when in arrivals] == [START + 30 * (i + 1) for i in range(200)]


async def test_time_stands_still_while_a_job_runs():
    """When a thread works, timers should wait for it."""
    release = threading.Event()
    job = asyncio.create_task(asyncio.to_thread(release.wait))
    timer = asyncio.create_task(asyncio.sleep(1))
    threading.Timer(0.05, release.set).start()
    done, _ = await asyncio.wait({job, timer}, return_when=asyncio.FIRST_COMPLETED)
    assert done == {job}
    assert loop_time() == START
    await timer
    assert loop_time() == START + 1


async def test_time_stands_still_for_a_cancelled_waiter_until_the_thread_is_done():
    """When the awaiter is cancelled but its thread goes on, time should still wait for the thread."""
    release, finished = threading.Event(), threading.Event()
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def job() -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait()
        finished.set()

    task = asyncio.create_task(asyncio.to_thread(job))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    threading.Timer(0.05, release.set).start()
    await asyncio.sleep(1)
    assert finished.is_set()


async def test_time_may_pass_a_blocked_thread_on_request():
    """When wait_for_threads is off, a blocked thread should not stop the clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    release = threading.Event()
    job = asyncio.create_task(asyncio.to_thread(release.wait))
    loop.wait_for_threads = False
    await asyncio.sleep(3600)
    assert not job.done()
    release.set()
    loop.wait_for_threads = True
    assert await job


async def test_hold_keeps_time_still():
    """When a block holds time, a timer should not fire before the held work reports."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    told = asyncio.Event()
    threading.Timer(0.05, loop.call_soon_threadsafe, [told.set]).start()
    with loop.hold():
        async with asyncio.timeout(0.001):
            await told.wait()
    assert loop_time() == START


def test_deadlock_names_the_waiting_tasks():
    """When nothing can wake anybody, it should raise an error with the tasks' names and places instead of hanging."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait(), name="forgotten")

    loop = VirtualTimeLoop(silence_limit=0.05)
    with asyncio.Runner(loop_factory=lambda: loop) as runner, pytest.raises(DeadlockError, match="forgotten") as caught:
        runner.run(main())
    assert "test_virtual.py" in str(caught.value)


def test_deadlock_is_seen_with_an_idle_server():
    """When only a listening socket is left, it should still be called a deadlock."""

    async def main() -> None:
        async with await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0) as server:
            await server.serve_forever()

    with (
        asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(silence_limit=0.05)) as runner,
        pytest.raises(DeadlockError),
    ):
        runner.run(main())


def test_hung_job_is_named():
    """When an executor job hangs longer than the limit, it should raise and say how to let time pass."""
    release = threading.Event()

    async def main() -> None:
        await asyncio.to_thread(release.wait)

    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(job_limit=0.05)) as runner:
        with pytest.raises(DeadlockError, match="wait_for_threads"):
            runner.run(main())
        release.set()


def test_run_cleans_up():
    """When the coroutine ends, run() should cancel other tasks, close generators and join threads."""
    seen: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            seen.append("task")

    async def generator():
        try:
            yield 1
        finally:
            seen.append("generator")

    async def main() -> str:
        task = asyncio.create_task(forever())
        seen_before = generator()
        await anext(seen_before)
        await asyncio.sleep(0)
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.01)
        assert not task.done()
        main.keep = (task, seen_before)  # type: ignore[attr-defined]
        return "result"

    before = threading.active_count()
    assert run(main()) == "result"
    assert sorted(seen) == ["generator", "task"]
    assert threading.active_count() == before


def test_run_raises_what_the_coroutine_raised():
    """When the coroutine raises, run() should raise just that."""

    async def main() -> None:
        raise LookupError("x")

    with pytest.raises(LookupError, match="x"):
        run(main())


class SlowKernel(selectors.DefaultSelector):
    """A selector whose socket has news only for whoever listens for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.files = 2
        self.news = ["an event"]

    def get_map(self):
        return {fd: selectors.SelectorKey(fd, fd, selectors.EVENT_READ, None) for fd in range(self.files)}

    def select(self, timeout=None):
        return self.news if timeout else []


@pytest.mark.parametrize(
    ("files", "news", "events", "passed"),
    [(2, ["an event"], ["an event"], 0), (2, [], [], 30), (1, ["unheard"], [], 30)],
    ids=["socket with news", "silent socket", "no socket"],
)
def test_grace_before_a_jump(files: int, news: list[str], events: list[str], passed: float):
    """When sockets are open, it should listen for a moment before it jumps; without any, it should jump at once."""
    loop, kernel = VirtualTimeLoop(), SlowKernel()
    kernel.files, kernel.news = files, news
    try:
        assert _JumpingSelector(loop, kernel).select(30) == events
        assert loop.time() == START + passed
    finally:
        kernel.close()
        loop.close()
