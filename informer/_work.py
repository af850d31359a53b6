"""The tasks of one informer: its reflector, its handlers and who watches over them, the resync; none ends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from informer._cache import Cache
from informer._lifetime import plain
from informer._stuck import watch_over
from informer.errors import InformerError
from informer.health import Pulse
from informer.reflector import Reflector

T = TypeVar("T")


async def work(
    name: str,
    reflector: Reflector[T],
    cache: Cache[T],
    pulse: Pulse,
    resync_period: float | None,
    ending: Callable[[], bool],
) -> None:
    """Run until cancelled. What ends it otherwise is a bug: the pulse is told, and it is raised plain.

    A cancellation while nobody is `ending` the informer is such a bug too: a TaskGroup would take no notice of it, and the
    cache would stand still without a word.

    This is no method, so that the tracebacks of a cancellation do not keep an informer alive that nobody needs any more.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            # This task itself only waits: timeouts cancel the task they run in, and that must not look like the end.
            cache.fanout.start(tasks)
            if resync_period is not None:
                tasks.create_task(_until_the_end(_resync(cache, resync_period), cache), name="resync")
            tasks.create_task(_until_the_end(watch_over(cache.fanout, name), cache), name="watch over handlers")
            tasks.create_task(_until_the_end(reflector.run(), cache), name="reflector")
    except asyncio.CancelledError:
        if ending():
            raise
        stray = _stray("leave the body of its `async with` to end it")
        pulse.died(stray)
        raise stray from None
    except BaseException as error:
        cause = plain(error)
        pulse.died(cause)
        if error is cause:
            raise
        raise cause from None


def _stray(remark: str) -> InformerError:
    task = asyncio.current_task()
    return InformerError(f"the task {task.get_name() if task else ''!r} was cancelled by somebody else; {remark}")


async def _until_the_end(task: Awaitable[None], cache: Cache[T]) -> None:
    ending = cache.fanout.ending
    try:
        await task
    except asyncio.CancelledError:
        if ending.under_way:
            raise
        raise _stray("an informer without it would not be what was asked for") from None
    finally:
        ending.begin()


async def _resync(cache: Cache[T], period: float) -> None:
    while True:
        await asyncio.sleep(period)
        await cache.resync()
