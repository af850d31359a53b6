"""A work queue as client-go's: a key is with one worker at a time, and one that failed comes again after a growing delay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("workqueue")


class TemporaryError(Exception):
    """What `reconcile` raises when it wants to look again after a delay of its own choice."""

    def __init__(self, message: str, delay: float) -> None:
        super().__init__(message)
        self.delay = delay


class WorkQueue:
    """Keys that need a look, oldest first. Seconds throughout. For one event loop: in a thread, use `call_soon_threadsafe`."""

    def __init__(self, *, first_delay: float = 0.2, longest_delay: float = 300.0) -> None:
        self._first_delay, self._longest_delay = first_delay, longest_delay
        self._waiting: dict[str, None] = {}  # a dict keeps the order, and a key in it once
        self._taken: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._news = asyncio.Event()
        self._ended = False

    def __len__(self) -> int:
        """How many keys wait for a worker."""
        return len(self._waiting)

    def add(self, key: str) -> None:
        """Note a key. One that waits already is handed out once; one that is being worked on comes again after `done`."""
        if not self._ended:
            self._waiting[key] = None
            self._news.set()

    def add_after(self, key: str, delay: float) -> None:
        """Note a key after a delay. Of two delays of one key, the one that ends sooner counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if self._ended or (timer is not None and timer.when() <= loop.time() + delay):
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(delay, self._due, key)

    def add_rate_limited(self, key: str) -> float:
        """Note a key after a delay that doubles with each call; the delay. `forget` begins anew."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(self._first_delay * 2.0 ** min(failures, 64), self._longest_delay)
        self.add_after(key, delay)
        return delay

    def forget(self, key: str) -> None:
        """It went well, or is gone: its next failure is its first."""
        self._failures.pop(key, None)

    async def get(self) -> str | None:
        """The next key that nobody works on, yours until `done`. None when the queue has ended and nothing is left."""
        while True:
            for key in self._waiting:
                if key not in self._taken:
                    del self._waiting[key]
                    self._taken.add(key)
                    return key
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()

    def done(self, key: str) -> None:
        """The worker that took the key is through with it, whatever came of it."""
        self._taken.discard(key)
        self._news.set()  # it may be waiting again

    def shut_down(self) -> None:
        """Take nothing more, and forget what waits for a delay. Workers get what is there, and then None."""
        self._ended = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._news.set()

    def _due(self, key: str) -> None:
        del self._timers[key]
        self.add(key)


async def work(queue: WorkQueue, reconcile: Callable[[str], Awaitable[object]]) -> None:
    """One worker; run as many as you like. It ends after `shut_down`."""
    while (key := await queue.get()) is not None:
        try:
            await reconcile(key)
        except TemporaryError as error:
            log.info("%s: %s; again in %g s", key, error, error.delay)
            queue.forget(key)
            queue.add_after(key, error.delay)
        except Exception:
            delay = queue.add_rate_limited(key)
            log.exception("%s failed; again in %g s", key, delay)
        else:
            queue.forget(key)
        finally:
            queue.done(key)
