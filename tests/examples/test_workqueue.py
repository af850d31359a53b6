"""The work queue of the examples: never two workers with one key, nothing that was noted is forgotten, and an end in order."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer.testing import run
from tests.docs.pages import DOCS


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_workqueue", DOCS / "examples" / "workqueue.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


module = example()


@pytest.fixture(autouse=True)
def _no_errors_of_timers(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.name == "asyncio"] == []


def now() -> float:
    return asyncio.get_running_loop().time()


class Looks:
    """A `reconcile` that takes a second, and fails as often as it is told to."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.begun: list[tuple[float, str]] = []
        self.held: set[str] = set()

    async def __call__(self, key: str) -> None:
        assert key not in self.held, "two workers hold one key"
        self.held.add(key)
        self.begun.append((now(), key))
        try:
            await asyncio.sleep(1)
            if self.errors:
                raise self.errors.pop(0)
        finally:
            self.held.discard(key)

    def times(self) -> list[float]:
        return [round(when - self.begun[0][0], 3) for when, _ in self.begun]


async def ended(queue: Any, looks: Looks, *, workers: int = 2, after: float = 0) -> None:
    """Workers, and after a while an end in order."""
    async with asyncio.TaskGroup() as tasks:
        for _ in range(workers):
            tasks.create_task(module.work(queue, looks))
        await asyncio.sleep(after)
        queue.shut_down()


async def test_once() -> None:
    """When a key is noted twice before anybody looks, it should be handed out once, and in the order of the notes."""
    queue, looks = module.WorkQueue(), Looks()
    for key in ("b", "a", "b"):
        queue.add(key)
    assert len(queue) == 2
    await ended(queue, looks, workers=1)
    assert [key for _, key in looks.begun] == ["b", "a"]


async def test_noted_while_held() -> None:
    """When a key is noted while a worker holds it, it should be looked at again, and only after `done`."""
    queue, looks = module.WorkQueue(), Looks()
    queue.add("a")
    asyncio.get_running_loop().call_later(0.5, queue.add, "a")
    await ended(queue, looks, workers=3, after=10)
    assert looks.times() == [0, 1]


async def test_done_by_a_worker_that_goes() -> None:
    """When a key was noted while it was held, another worker that waits should get it as soon as it is done."""
    queue = module.WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    other = asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    assert not other.done()
    queue.done("a")
    async with asyncio.timeout(1):
        assert await other == "a"


async def test_another_key_meanwhile() -> None:
    """When one key is held, another should not wait for it."""
    queue, looks = module.WorkQueue(), Looks()
    queue.add("a")
    queue.add("b")
    await ended(queue, looks)
    assert looks.times() == [0, 0]


async def test_backoff(caplog: pytest.LogCaptureFixture) -> None:
    """When looks fail, the delays should double up to the longest; a success should make the next failure the first."""
    queue = module.WorkQueue(first_delay=1, longest_delay=4)
    looks = Looks(*(ValueError("no") for _ in range(4)))
    queue.add("a")
    asyncio.get_running_loop().call_later(60, looks.errors.append, ValueError("no"))
    asyncio.get_running_loop().call_later(60.5, queue.add, "a")
    await ended(queue, looks, after=100)
    # each look takes a second
    assert looks.times() == [0, 2, 5, 10, 15, 60.5, 62.5]
    assert "a failed; again in 4 s" in caplog.text
    assert "ValueError: no" in caplog.text


async def test_many_failures() -> None:
    """When a key has failed for years, its delay should still be the longest, and no overflow."""
    queue = module.WorkQueue(first_delay=0.5, longest_delay=300)
    assert [queue.add_rate_limited("a") for _ in range(3000)][-1] == 300
    queue.forget("a")
    assert queue.add_rate_limited("a") == 0.5


async def test_temporary_error(caplog: pytest.LogCaptureFixture) -> None:
    """When a look asks for a delay, it should get that one, without a traceback, and not count as a failure."""
    caplog.set_level(logging.INFO)
    queue = module.WorkQueue(first_delay=1)
    looks = Looks(ValueError("no"), module.TemporaryError("not yet", delay=30), ValueError("no"))
    queue.add("a")
    await ended(queue, looks, after=100)
    assert looks.times() == [0, 2, 33, 35]
    assert "a: not yet; again in 30 s" in caplog.text


@pytest.mark.parametrize(("delays", "due"), [([5, 2], [2]), ([2, 5], [2]), ([2, 2], [2]), ([0, 3], [0])])
async def test_delays(delays: list[float], due: list[float]) -> None:
    """When a key waits for two delays, it should come once, after the shorter one."""
    queue, looks = module.WorkQueue(), Looks()
    begun = now()
    for delay in delays:
        queue.add_after("a", delay)
    await ended(queue, looks, after=20)
    assert [when - begun for when, _ in looks.begun] == due


async def test_shut_down() -> None:
    """When it ends, a look in progress and what waits should be finished, what waits for a delay dropped, and nothing taken."""
    queue, looks = module.WorkQueue(), Looks()
    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add_after("late", 2)
    await ended(queue, looks, workers=1, after=0.5)
    queue.add("new")
    queue.add_after("new", 1)
    await asyncio.sleep(10)
    assert [key for _, key in looks.begun] == ["a", "b", "c"]
    assert len(queue) == 0
    assert await queue.get() is None


async def test_held_at_the_end() -> None:
    """When a key was noted again before the end while a worker holds it, that worker should still look again."""
    queue, looks = module.WorkQueue(), Looks()
    queue.add("a")
    asyncio.get_running_loop().call_later(0.3, queue.add, "a")
    await ended(queue, looks, workers=2, after=0.5)
    assert looks.times() == [0, 1]


async def test_cancelled() -> None:
    """When a worker is cancelled in a look, the key should not stay with it."""
    queue, looks = module.WorkQueue(), Looks()
    queue.add("a")
    worker = asyncio.create_task(module.work(queue, looks))
    await asyncio.sleep(0.5)
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    queue.add("a")
    await ended(queue, looks)
    assert len(looks.begun) == 2


NOTES = st.lists(st.tuples(st.floats(0, 20), st.sampled_from("abc"), st.booleans()), max_size=20)


@given(notes=NOTES, workers=st.integers(1, 4), failures=st.integers(0, 3))
def test_property(notes: list[tuple[float, str, bool]], workers: int, failures: int) -> None:
    """Whatever is noted and whenever, no two workers hold a key, and each note is followed by a look that begins after it."""

    async def story() -> Looks:
        queue, looks = module.WorkQueue(), Looks(*(ValueError("no") for _ in range(failures)))
        loop, begun = asyncio.get_running_loop(), now()
        for when, key, later in notes:
            loop.call_at(begun + when, *((queue.add_after, key, 1.5) if later else (queue.add, key)))
        await ended(queue, looks, workers=workers, after=200)
        for when, key, later in notes:
            due = begun + when  # one that was delayed may come sooner, for another note's sake, but not before it
            assert any(key == other and at >= due - 1e-6 for at, other in looks.begun), (key, when, later)
        return looks

    logging.disable()
    try:
        looks = run(story())
    finally:
        logging.disable(logging.NOTSET)
    assert len(looks.begun) <= len(notes) + failures
