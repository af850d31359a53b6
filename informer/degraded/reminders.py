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
    named: bool  # the log's last word is that this object is bad


@define
class _Word:
    """What the log has said about one life lately: when it last named it as bad, whether it has said since that this is
    over, and how often it has said so since the last reminder.
    """

    at: float
    over: bool = False
    ends: int = 0


@define
class Schedule:
    """Every object once at first sight and when it begins to terminate, then once per interval, within a common budget.

    An object that turns good and bad again and again is followed for one round, and then until the next reminder only that
    it is bad stands in the log. What bounds it is that an end is held back, not what comes after an end that was said: the
    last word about a bad object is never that it is well.

    Attributes:
        interval: seconds between two lines about one object.
        lines: how many lines may name an object within any stretch of that length.
    """

    interval: float
    lines: int = LINES
    _due: dict[str, _Due] = field(factory=dict, init=False)
    _heaps: dict[Turn, list[tuple[float, str]]] = field(factory=lambda: {turn: [] for turn in Turn}, init=False)
    # The lines of the last interval, and what they have said of each life.
    _said: deque[tuple[float, tuple[str, str]]] = field(factory=deque, init=False)
    _words: dict[tuple[str, str], _Word] = field(factory=dict, init=False)
    _last_reminder: float = field(default=float("-inf"), init=False)
    _last_summary: float = field(default=float("-inf"), init=False)

    def news(self, key: str, uid: str, now: float, *, terminating: bool, again: bool = False) -> None:
        """The object is new, or bad again, or (`again`) its life has just begun to end: name it at once, unless the log
        has not said in the meantime that it was well.
        """
        word = self._word(key, uid, now)
        if again or word is None or word.over:
            named = again and self.was_named(key)
            self._put(key, _Due(now, Turn.TERMINATING_NEWS if terminating else Turn.NEWS, named))
        else:
            turn = Turn.TERMINATING if terminating else Turn.REMINDER
            self._put(key, _Due(word.at + self.interval, turn, named=True))

    def end(self, key: str, uid: str, now: float, *, gone: bool) -> float | None:
        """The object is no longer bad. Returns when to say so: now, later if it is still so then, or never, as nothing was
        said of it. That it is `gone` may be said once more than that it is well: mostly it is final.
        """
        due = self._due.pop(key, None)
        if due is None or not due.named:
            return None
        word = self._word(key, uid, now)
        if word is None:
            return now
        if word.ends > gone:
            return word.at + self.interval
        word.over = True
        word.ends += 1
        return now

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
        word = self._word(key, uid, now)  # at a reminder there is none, and the next round begins
        self._said.append((now, (key, uid)))
        self._words[key, uid] = _Word(now, ends=word.ends if word else 0)
        self._put(key, _Due(now + self.interval, Turn.TERMINATING if terminating else Turn.REMINDER, named=True))

    def was_named(self, key: str) -> bool:
        """Whether the log's last word about this object is that it is bad."""
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

    def _word(self, key: str, uid: str, now: float) -> _Word | None:
        self._forget(now)
        return self._words.get((key, uid))

    def _forget(self, now: float) -> None:
        while self._said and self._said[0][0] <= now - self.interval:
            at, life = self._said.popleft()
            word = self._words.get(life)
            if word is not None and word.at == at:
                del self._words[life]
