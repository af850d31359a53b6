"""Background tasks and the body they live beside; and no trace of either afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from informer._lifetime import Lifetime, plain

HOUR = 3600.0


class Bug(Exception):
    pass


class Own(Exception):
    """An exception of the body's own."""


async def forever() -> None:
    await asyncio.sleep(HOUR)


async def dies(after: float = 1.0, error: BaseException | None = None) -> None:
    await asyncio.sleep(after)
    raise Bug("died") if error is None else error


class Living:
    """As a user of `Lifetime` would write it."""

    def __init__(self, *work) -> None:
        self.work = work
        self.tasks: list[asyncio.Task] = []

    async def __aenter__(self):
        self.lifetime = Lifetime()
        await self.lifetime.enter()
        self.tasks = [self.lifetime.spawn(work, f"work {n}") for n, work in enumerate(self.work)]
        return self

    async def __aexit__(self, et, e, tb) -> None:
        await self.lifetime.exit(et, e, tb)


def nothing_left() -> None:
    assert asyncio.all_tasks() == {asyncio.current_task()}
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_leaving_ends_the_tasks():
    """When the body is left, its tasks should be cancelled and waited for, and nothing raised."""
    async with Living(forever(), forever()) as living:
        await asyncio.sleep(1)
    assert all(task.cancelled() for task in living.tasks)
    nothing_left()
    assert asyncio.get_running_loop().time() == 1001


async def test_leaving_at_once():
    """When the body is left before a task has begun, it should end all the same."""
    async with Living(forever()):
        pass
    nothing_left()


async def test_a_bug_ends_the_body():
    """When a task dies, the body should be cancelled and the plain exception raised, with its own traceback."""
    reached = []
    with pytest.raises(Bug) as caught:
        async with Living(dies(), forever()):
            try:
                await asyncio.sleep(HOUR)
            finally:
                reached.append(asyncio.get_running_loop().time())
    assert reached == [1001]
    assert any(entry.name == "dies" for entry in caught.traceback)
    nothing_left()
    await asyncio.sleep(1)  # the cancellation is not left over


async def test_a_bug_and_a_body_that_ends_all_the_same():
    """When a task has died and the body ends well or swallows its cancellation, the bug should still be raised."""
    with pytest.raises(Bug):
        async with Living(dies()):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(HOUR)
    nothing_left()


async def test_a_bug_while_leaving():
    """When a task dies of its cancellation, that is a bug too."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(HOUR)
        finally:
            raise Bug

    with pytest.raises(Bug):
        async with Living(stubborn()):
            await asyncio.sleep(1)
    nothing_left()


async def test_several_bugs():
    """When two tasks die at once, one of them should be raised, plain."""
    with pytest.raises(Bug):
        async with Living(dies(), dies()):
            await asyncio.sleep(HOUR)


@pytest.mark.parametrize("error", [Own("mine"), ExceptionGroup("mine", [Own()]), KeyError("k"), StopAsyncIteration()])
async def test_own_exceptions_stay_plain(error: Exception):
    """When the body raises, that very exception should come out."""
    with pytest.raises(type(error)) as caught:
        async with Living(forever()):
            await asyncio.sleep(1)
            raise error
    assert caught.value is error
    nothing_left()


async def test_in_a_task_group():
    """When it stands in a TaskGroup, the group should wrap the body's exception once, as it does with any."""
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup():
            async with Living(forever()):
                raise Own
    assert [type(error) for error in caught.value.exceptions] == [Own]

    async def one() -> None:
        async with Living(dies()):
            await asyncio.sleep(HOUR)

    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            group.create_task(one())
    assert [type(error) for error in caught.value.exceptions] == [Bug]


async def test_with_a_timeout_around():
    """When a timeout around it fires, the tasks should end and TimeoutError come out."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), Living(forever()):
            await asyncio.sleep(HOUR)
    nothing_left()
    with pytest.raises(Bug):
        async with asyncio.timeout(5), Living(dies()):
            await asyncio.sleep(HOUR)
    nothing_left()


async def test_with_a_timeout_inside():
    """When a timeout inside the body fires, the tasks should not mind."""
    async with Living(forever()) as living:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(HOUR)
        assert not living.tasks[0].done()


@pytest.mark.parametrize("while_leaving", [False, True], ids=["in the body", "while it is left"])
async def test_cancelled_from_outside(while_leaving: bool):
    """When the body's task is cancelled from outside, the tasks should end and the cancellation go on."""

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(HOUR)
        finally:
            await asyncio.sleep(10)

    living = Living(slow_to_end())

    async def main() -> None:
        async with living:
            await asyncio.sleep(1 if while_leaving else HOUR)

    task = asyncio.create_task(main())
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert living.tasks[0].cancelled()
    nothing_left()


async def test_spawning_after_the_end():
    """When the body has been left, another task should be refused, without a coroutine that nobody awaits."""
    async with Living() as living:
        pass
    with pytest.raises(RuntimeError):
        living.lifetime.spawn(forever(), "late")
    gc.collect()


def test_plain():
    """When groups are nested, it should find the first real exception."""
    bug = Bug()
    assert plain(ExceptionGroup("a", [ExceptionGroup("b", [bug]), Own()])) is bug
    assert plain(bug) is bug
