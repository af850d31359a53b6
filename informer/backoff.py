"""How long to wait before the next request: a growing, jittered delay after failures, and one limiter at all times."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from attrs import define, field

_log = logging.getLogger("informer.backoff")

RETRY_AFTER_CAP = 300.0
"""Seconds. A longer Retry-After is shortened to this, with a log line: a day of silence helps nobody."""


@define
class Backoff:
    """Delays of 0.8 s doubling to 30 s, each plus a random 0-100 % of itself (client-go's figures).

    One sequence serves LIST, WATCH and streaming lists. It starts again only once a watch has proved healthy:
    client-go 0.36 and later start again in the middle of an outage, which doubles the requests.

    Attributes:
        base: the first delay in seconds, before jitter.
        cap: the longest delay in seconds, before jitter.
        rng: a float in [0, 1) for the jitter.
    """

    base: float = 0.8
    cap: float = 30.0
    rng: Callable[[], float] = field(default=random.random, repr=False)
    _steps: int = field(default=0, init=False)
    _last: float = field(default=0.0, init=False)

    def next(self, retry_after: float | None = None) -> float:
        """The next delay in seconds; a Retry-After of the server is a floor under it."""
        delay = min(self.cap, self.base * 2.0 ** min(self._steps, 32))
        delay += self.rng() * delay
        if retry_after is not None:
            if retry_after > RETRY_AFTER_CAP:
                _log.warning("the server asks to wait %.0f s; waiting %.0f s", retry_after, RETRY_AFTER_CAP)
                retry_after = RETRY_AFTER_CAP
            delay = max(delay, retry_after + self.rng() * min(retry_after, 1.0))
        self._steps += 1
        self._last = delay
        return delay

    def survived(self, seconds: float) -> bool:
        """A watch lived that long: True, and the sequence starts again, if that proves the server healthy.

        Healthy is at least 10 s, and longer than the delay that led to the watch.
        """
        if seconds < max(10.0, self._last):
            return False
        self._steps = 0
        self._last = 0.0
        return True


@define
class Limiter:
    """Lets `burst` requests start at once, and then one every `period` seconds; on top of any backoff.

    This is what keeps a loop nobody foresaw (kubernetes#104171: an answer of 200, empty, at once) from hurting a server.
    """

    burst: int = 5
    period: float = 6.0
    _ready_at: float | None = field(default=None, init=False)

    async def wait(self) -> None:
        """Return when the next request may start."""
        now = asyncio.get_running_loop().time()
        # The bucket is full when `_ready_at` lies a whole burst in the past, empty when it is now.
        full = now - self.burst * self.period
        start = full if self._ready_at is None else max(self._ready_at, full)
        self._ready_at = start + self.period
        if self._ready_at > now:
            await asyncio.sleep(self._ready_at - now)
