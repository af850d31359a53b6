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
    _owner: asyncio.Task[Any] | None = field(default=None, init=False)
    _left: bool = field(default=False, init=False)

    async def enter(self) -> None:
        """Begin; the body runs in the calling task."""
        self._owner = asyncio.current_task()
        await self._group.__aenter__()

    @property
    def ending(self) -> bool:
        """The body was left, or is being cancelled: a task that is cancelled otherwise was cancelled by a stranger."""
        return self._left or (self._owner is not None and self._owner.cancelling() > 0)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run a task until the body is left.

        Raises:
            RuntimeError: that has begun.
        """
        try:
            return self._group.create_task(coroutine, name=name)
        except RuntimeError:
            coroutine.close()  # the body was left, or is being left; before Python 3.13 a group would leave it open
            raise

    async def exit(self, _et: type[BaseException] | None, e: BaseException | None, _tb: TracebackType | None) -> None:
        """End: to be called by `__aexit__` with what it was given."""
        self._left, self._owner = True, None
        me = asyncio.current_task()
        assert me is not None
        cancelled_before = me.cancelling()
        # A group would wait for its tasks, and wrap an exception of the body. It ends the tasks on a cancellation, so it is
        # always told of one; to cancel them here would let one that dies of it cancel the body once more.
        leaving = e if isinstance(e, asyncio.CancelledError) else asyncio.CancelledError()
        try:
            await self._group.__aexit__(asyncio.CancelledError, leaving, None)
        except BaseExceptionGroup as group:
            raise plain(group) from None
        except asyncio.CancelledError as error:
            if error is e or error is not leaving or me.cancelling() > cancelled_before:
                raise


def plain(error: BaseException) -> BaseException:
    """The first exception in a group, however deep; an exception that is no group as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
