"""A drain's limit as a point in time: it shortens a wake-up so that the limit is noticed when it passes, not an interval later.

Works alone. A drain with a limit of ten seconds, and a throttle that would like to look again in thirty:

>>> from datetime import datetime, timedelta, timezone
>>> from eviction import Deadline, Requeue
>>> start = datetime(2026, 1, 1, tzinfo=timezone.utc)
>>> clock = iter([100.0, 100.0, 110.0, 110.0]).__next__       # time.monotonic where you leave it out
>>> deadline = Deadline.since(start, 10, now=start, clock=clock)
>>> deadline.clamp(Requeue.after(30))
Requeue(delay=10.0)
>>> deadline.expired, deadline.clamp(Requeue.after(30)) == Requeue.NOW
(True, True)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal

from attrs import field, frozen

from eviction._seconds import at_least
from eviction.requeue import Requeue, soonest


@frozen
class Deadline:
    """When a drain has to be over; `Deadline()` is none at all.

    It is a point in time and never a count of tries: counted as 360 tries of 20 s, a limit of two hours took eleven
    (gardener/machine-controller-manager#785). The start comes from the API object, so it survives a restart; from there on
    the monotonic clock counts, and a step of the wall clock does not move a deadline that exists.

    Look at `expired` before asking a throttle: a gate must never be the reason why a limit goes unnoticed. All of it is O(1),
    but for `earliest`.
    """

    _left: float | None = None
    _anchor: float = 0.0
    _clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    @classmethod
    def since(
        cls,
        started_at: datetime | None,
        timeout: float | timedelta | None,
        /,
        *,
        zero: Literal["unlimited", "expired"] = "unlimited",
        now: datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Deadline:
        """The deadline of something that started then and may take so long.

        Args:
            started_at: When it began, with a time zone. None: it has not begun, no clock is running. In the future (the
                clocks of two writers differ): at most the whole timeout is left.
            timeout: Seconds or a timedelta. None: no limit.
            zero: What a timeout of zero means. "unlimited" is kubectl's and Cluster API's convention.
            now: The wall clock, with a time zone; the present when left out.
            clock: A monotonic clock in seconds that counts from now on.

        Raises:
            ValueError: A datetime without time zone; a timeout that is negative, NaN, infinite, text or bool; another `zero`.
            TypeError: A start or a present that is no datetime, such as a number of seconds or a text.
        """
        if zero not in ("unlimited", "expired"):
            raise ValueError(f'zero must be "unlimited" or "expired", not {zero!r}')
        limit = None if timeout is None else at_least(0.0, timeout, "the timeout of Deadline.since")
        began = None if started_at is None else _utc(started_at, "started_at")
        present = datetime.now(UTC) if now is None else _utc(now, "now")
        if began is None or limit is None or (limit == 0 and zero == "unlimited"):
            return cls(clock=clock)
        return cls(min(limit, limit - (present - began).total_seconds()), clock(), clock)

    @staticmethod
    def earliest(*deadlines: Deadline) -> Deadline:
        """The one that ends first; none at all if none of them has a limit. O(deadlines)."""
        running = [(left, deadline) for deadline in deadlines if (left := deadline.remaining()) is not None]
        return min(running, key=lambda pair: pair[0])[1] if running else Deadline()

    @property
    def expired(self) -> bool:
        """The limit has passed. Always False without one."""
        return self.remaining() == 0

    def remaining(self) -> float | None:
        """Seconds left, never negative; None without a limit."""
        if self._left is None:
            return None
        # A monotonic clock that runs backwards (a bad fake, a restored VM) must not hand out more than there was.
        return max(0.0, self._left - max(0.0, self._clock() - self._anchor))

    def clamp(self, requeue: Requeue, /) -> Requeue:
        """The wish, shortened to what is left; never lengthened.

        `DONE` while the clock runs becomes the deadline itself, since no event will announce it. Passed: `NOW`, over and
        over; the floor of `PassResults` keeps that from spinning.
        """
        left = self.remaining()
        if left is None:
            return requeue
        return soonest(requeue, Requeue(left, limit=left)) if left > 0 else Requeue.NOW


def _utc(moment: datetime, what: str) -> datetime:
    if not isinstance(moment, datetime):
        raise TypeError(
            f"{what} is a datetime with a time zone, not {moment!r:.200}: datetime.now(UTC), or of what you have "
            "datetime.fromtimestamp(seconds, UTC) or datetime.fromisoformat(text)"
        )
    # Also because subtracting two datetimes of one zone would compare their wall clocks, an hour off across a DST change.
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError(f"{what} needs a time zone: {moment!r} may be any of 24 moments")
    return moment.astimezone(UTC)
