"""Background tasks that live as long as the body of an `async with`, and end it when one of them dies."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from attrs import define, field


@define(eq=False)
class Lifetime:
    """A TaskGroup for tasks that never end by themselves.

    Leaving the body cancels the tasks and waits for them. When a task dies, the body is cancelled and the task's plain
    exception is raised from it, not an ExceptionGroup of one; an exception of the body itself stays as it is.
    """

    _group: asyncio.TaskGroup = field(factory=asyncio.TaskGroup, init=False)
    _tasks: list[asyncio.Task[None]] = field(factory=list, init=False)

    async def enter(self) -> None:
        """Begin; the body runs in the calling task."""
        await self._group.__aenter__()

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a task until the body is left.

        Raises:
            RuntimeError: that has begun.
        """
        try:
            task = self._group.create_task(coroutine, name=name)
        except RuntimeError:
            coroutine.close()  # the body was left, or is being left; before Python 3.13 a group would leave it open
            raise
        self._tasks.append(task)
        return task

    async def exit(self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        """End: to be called by `__aexit__` with what it was given."""
        for task in self._tasks:
            task.cancel()
        if et is not None and not issubclass(et, asyncio.CancelledError):
            et, e, tb = None, None, None  # a group would wrap the body's exception
        try:
            await self._group.__aexit__(et, e, tb)
        except BaseExceptionGroup as group:
            raise plain(group) from None


def plain(error: BaseException) -> BaseException:
    """The first exception in a group, however deep; an exception that is no group as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
