"""When which bad object is named in the log: loud enough not to be missed, quiet enough to be read.

Nothing here sleeps or logs. Times are seconds of one monotonic clock, handed in by the caller.
"""

from __future__ import annotations

import heapq
from collections import deque
from enum import IntEnum

from attrs import define, field

# No interval has more lines than this that name an object, however many are bad.
LINES = 100


class Turn(IntEnum):
    """Who goes first among those whose turn it is."""

    TERMINATING_NEWS = 0
    TERMINATING = 1
    NEWS = 2
    REMINDER = 3


@define
class _Due:
    at: float
    turn: Turn
    named: bool


@define
class Schedule:
    """Every object once at first sight and when it begins to terminate, then once per interval, within a common budget.

    Attributes:
        interval: seconds between two lines about one object.
        lines: how many lines may name an object within any stretch of that length.
    """

    interval: float
    lines: int = LINES
    _due: dict[str, _Due] = field(factory=dict, init=False)
    _heaps: dict[Turn, list[tuple[float, str]]] = field(factory=lambda: {turn: [] for turn in Turn}, init=False)
    # The lines of the last interval, and by life when it had its last one: an object that turns good and bad again and
    # again has one line per interval like every other.
    _said: deque[tuple[float, tuple[str, str]]] = field(factory=deque, init=False)
    _last: dict[tuple[str, str], float] = field(factory=dict, init=False)
    _last_reminder: float = field(default=float("-inf"), init=False)
    _last_summary: float = field(default=float("-inf"), init=False)

    def news(self, key: str, uid: str, now: float, *, terminating: bool, again: bool = False) -> None:
        """The object is new, or (`again`) its life has just begun to end: name it at once."""
        last = self._last_line(key, uid, now)
        named = again and self.was_named(key)
        if last is None or again:
            self._put(key, _Due(now, Turn.TERMINATING_NEWS if terminating else Turn.NEWS, named))
        else:
            self._put(key, _Due(last + self.interval, Turn.TERMINATING if terminating else Turn.REMINDER, named))

    def drop(self, key: str) -> None:
        """The object is no longer bad."""
        self._due.pop(key, None)

    def next_news(self, now: float) -> str | None:
        """The key to name now, of those that cannot wait; None when there is none or the budget is used up."""
        return self._next(now, (Turn.TERMINATING_NEWS, Turn.NEWS))

    def next_any(self, now: float) -> str | None:
        """The key to name now, reminders included. They are spread over the interval, not said in one breath."""
        if now - self._last_reminder < self.spacing:
            return None
        return self._next(now, tuple(Turn))

    @property
    def spacing(self) -> float:
        """Seconds between two reminders."""
        return self.interval / self.lines

    def named(self, key: str, uid: str, now: float, *, terminating: bool) -> None:
        """A line about this object was written."""
        due = self._due[key]
        if due.turn in {Turn.TERMINATING, Turn.REMINDER}:
            self._last_reminder = now
        self._said.append((now, (key, uid)))
        self._last[key, uid] = now
        self._put(key, _Due(now + self.interval, Turn.TERMINATING if terminating else Turn.REMINDER, named=True))

    def was_named(self, key: str) -> bool:
        """Whether the log has a line about this object since it was news."""
        due = self._due.get(key)
        return due is not None and due.named

    def summary_due(self, now: float) -> bool:
        """True once per interval while there are more objects than lines. Asking counts as saying."""
        if len(self._due) <= self.lines and not (self._held_back() and not self._has_budget(now)):
            return False
        if now - self._last_summary < self.interval:
            return False
        self._last_summary = now
        return True

    def _held_back(self) -> bool:
        return any(self._top(turn) for turn in (Turn.TERMINATING_NEWS, Turn.NEWS))

    def _next(self, now: float, turns: tuple[Turn, ...]) -> str | None:
        if not self._has_budget(now):
            return None
        for turn in turns:
            top = self._top(turn)
            if top is not None and top[0] <= now:
                return top[1]
        return None

    def _top(self, turn: Turn) -> tuple[float, str] | None:
        heap = self._heaps[turn]
        while heap and not self._is_current(turn, *heap[0]):
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _is_current(self, turn: Turn, at: float, key: str) -> bool:
        due = self._due.get(key)
        return due is not None and due.at == at and due.turn is turn

    def _put(self, key: str, due: _Due) -> None:
        self._due[key] = due
        heap = self._heaps[due.turn]
        if len(heap) > 64 + 2 * len(
            self._due
        ):  # what was superseded in the middle of the heap is swept out now and then
            heap[:] = sorted({pair for pair in heap if self._is_current(due.turn, *pair)})
        heapq.heappush(heap, (due.at, key))

    def _has_budget(self, now: float) -> bool:
        self._forget(now)
        return len(self._said) < self.lines

    def _last_line(self, key: str, uid: str, now: float) -> float | None:
        self._forget(now)
        return self._last.get((key, uid))

    def _forget(self, now: float) -> None:
        while self._said and self._said[0][0] <= now - self.interval:
            at, life = self._said.popleft()
            if self._last.get(life) == at:
                del self._last[life]
