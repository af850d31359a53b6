"""How long a watch may stay silent, learnt from the pace of its bookmarks, and how to get out of it from outside."""

from __future__ import annotations

import asyncio
import itertools
from types import TracebackType
from typing import Self

BOOKMARKS = 3
"""How many steady bookmarks make a promise, and how many may be missed in a row."""


class Silence:
    """Ends the body of `async with` when nothing is heard for too long, or on `interrupt()`; neither raises.

    Newer API servers send a bookmark about every minute, 1.20 none while nothing changes, so there is no fixed limit: once
    three have come at a steady pace, missing three in a row means that the connection is dead (half-open connections
    behind proxies, which keepalive does not see).

    Attributes:
        limit: seconds of silence that are allowed; None for any.
        expired: the silence was too long.
        interrupted: `interrupt()` was called.
        last_heard: when something came last, on the loop's clock; to be set by whoever hears it, as no timer is moved.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self.last_heard = self._loop.time()
        self._bookmarks: list[float] = []
        self.limit: float | None = None
        self.expired = False
        self.interrupted = False

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        try:
            await self._timeout.__aexit__(et, e, tb)
        except TimeoutError:
            return True
        return False

    def bookmark(self) -> None:
        """A bookmark came."""
        times = self._bookmarks
        times.append(self._loop.time())
        if len(times) > BOOKMARKS:
            del times[0]
        if len(times) == BOOKMARKS:
            paces = [later - earlier for earlier, later in itertools.pairwise(times)]
            if min(paces) >= 1.0 and max(paces) <= 2 * min(paces):
                self.allow((BOOKMARKS + 0.5) * max(paces))

    def allow(self, seconds: float | None) -> None:
        """Set the limit; None for any silence."""
        self.limit = seconds
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = self._loop.call_at(self.last_heard + seconds, self._look)

    def interrupt(self) -> None:
        """End the body now."""
        self.interrupted = True
        self._end()

    def _look(self) -> None:
        assert self.limit is not None
        due = self.last_heard + self.limit
        if self._loop.time() >= due:
            self.expired = True
            self._end()
        else:
            self._timer = self._loop.call_at(due, self._look)

    def _end(self) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(self._loop.time())
