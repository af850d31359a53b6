"""Gate the attempt, not the pass: at most one batch of evictions per key and interval, however often the loop comes by.

Works alone. A node is refused, and the passes that follow know it without asking:

>>> from eviction import EvictionThrottle, Refusal, RefusalKind
>>> now = 0.0
>>> throttle = EvictionThrottle(interval=30, clock=lambda: now)
>>> with throttle.acquire("node-1") as permit:
...     permit.refused(Refusal(RefusalKind.BUDGET, "needs 2 healthy pods and has 2"))
>>> now = 2.0
>>> denied = throttle.acquire("node-1")
>>> bool(denied), denied.reason, denied.retry_in, denied.refusal.message
(False, 'interval', 28.0, 'needs 2 healthy pods and has 2')
>>> now = 30.0
>>> bool(throttle.acquire("node-1")), bool(throttle.acquire("node-2"))
(True, True)
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence, Set
from typing import Final, cast

from eviction._pacing import LASTING, OverloadGate, Pacing
from eviction._permit import Denied, Entry, Permit, Reason
from eviction._seconds import at_least
from eviction.refusal import Refusal, RefusalKind

__all__ = ["Denied", "EvictionThrottle", "Permit"]

RESERVATION: Final = 120.0
"""Seconds after which a permit that nobody answered no longer blocks its key as "in flight"."""

# Event loops fire timers up to their clock's resolution early, and a wake-up must not miss its moment by that.
_TICK: Final = 1e-6

_TWICE: Final = (1, 2)


class EvictionThrottle:
    """Says whether evictions of a key may be tried now. Never blocks, never sleeps; safe to share by tasks and threads.

    The key is any hashable and is taken once per node and pass, not per pod, or the first pod would lock out its siblings.
    `(name, uid)` lets a node that was recreated under its old name start afresh.

    The state is in memory, and that is the design. Losing it, by a restart or a new leader, costs one immediate attempt per
    blocked node, which is no more than every single pass did before there was a throttle; nothing depends on it for
    correctness. An annotation instead would cost a write per blocked node and interval, to the API server whose load is the
    reason for all this; it would need a wall clock that agrees between replicas, and would outlive what it describes. What
    changes an outcome, the start of a drain, belongs in the API object; see `Deadline`.

    Nothing has to be cleaned up: a key that is not asked about drops out by itself a while after its wait. `prune` only
    makes a node that left forgotten at once.

    Args:
        interval: Seconds between a refusal and the next attempt. 0 turns the throttle off, explicitly. A default of zero has
            made whole fleets of controllers retry without pause (kubernetes#133461, kubermatic/kubeone#4105).
        factor: Growth of the interval per refused attempt in a row, 1 to 100. The default keeps it fixed: growth is paid for
            in how late a drain resumes (NVIDIA/NVSentinel#1847).
        max_interval: Seconds the growth stops at; also the wait after a refusal that only a person can end.
        jitter: Random part added to the interval, as a fraction of it.
        clock: A monotonic clock in seconds. If it runs backwards, the throttle's time stands still and goes on from there.
        rng: Random numbers from 0 to 1 for the jitter.

    Raises:
        ValueError: A parameter is negative, NaN, infinite, a bool or otherwise out of range.
    """

    def __init__(
        self,
        interval: float = 30.0,
        *,
        factor: float = 1.0,
        max_interval: float = 300.0,
        jitter: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._pacing = Pacing(
            interval=at_least(0.0, interval, "interval"),
            factor=at_least(1.0, factor, "factor"),
            max_interval=at_least(0.0, max_interval, "max_interval"),
            jitter=at_least(0.0, jitter, "jitter"),
            rng=rng,
        )
        self._memory = self._pacing.memory
        self._reserved = max(RESERVATION, self._pacing.interval)
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[Hashable, Entry] = {}
        # Every entry of the table is in here once, besides void ones on their way out.
        self._queue: deque[Entry] = deque()
        self._gate = OverloadGate()
        self._marks = 0
        self._last = clock()
        self._skew = 0.0

    def now(self) -> float:
        """Seconds on the throttle's own clock, which never runs backwards. O(1)."""
        with self._lock:
            return self._now()

    def acquire(self, key: Hashable, /) -> Permit | Denied:
        """Ask to try now. Check and reservation are one step: of fifty tasks asking at once, one gets the permit. O(1)."""
        with self._lock:
            now = self._now()
            if not self._pacing.interval:
                return Permit(Entry(key, "void", now, now, 0), self, now)
            self._drop_expired(now)
            last = self._entries.get(key)
            # A new key while the gate is open needs no question, which would be a tenth of its cost.
            if (last is not None or self._gate.due > now) and (denied := self._denied(key, last, now)) is not None:
                return denied
            entry = Entry(key, "in flight", now + self._reserved, now, self._marks)
            if last is not None:
                entry.attempts, entry.refusal, entry.blocked_since = last.attempts, last.refusal, last.blocked_since
                last.state = "void"
            self._entries[key] = entry
            self._queue.append(entry)
            return Permit(entry, self, now)

    def peek(self, key: Hashable, /) -> Denied | None:
        """What `acquire` would refuse with now, or None if it would not. Takes nothing. Test with `is not None`. O(1)."""
        with self._lock:
            return self._denied(key, self._entries.get(key), self._now()) if self._pacing.interval else None

    def release(self, key: Hashable, /, *, min_gap: float = 1.0) -> None:
        """The reason to wait is gone: allow the next attempt as soon as `min_gap` seconds after the refusal.

        Does not touch an attempt in flight, nor what the server itself asked for (Retry-After, overload). O(1).

        Raises:
            ValueError: `min_gap` is negative or not finite.
        """
        gap = at_least(0.0, min_gap, "min_gap")
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.state == "interval":
                entry.due = min(entry.due, entry.since + gap)

    def forget(self, key: Hashable, /) -> None:
        """Drop what is known about the key, unless an attempt is in flight. O(1)."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and not self._in_flight(entry, self._now()):
                self._remove(entry)

    def mark(self) -> int:
        """A moment, for `prune`: take it before listing. O(1)."""
        with self._lock:
            self._marks += 1
            return self._marks - 1

    def prune(self, live: Collection[Hashable], /, *, mark: int) -> None:
        """Forget every key that is not alive, except those in flight and those touched after the mark.

        Take the mark, then list, then prune: a node that came while the listing ran is not in it, and its entry is younger
        than the mark. Pass a complete listing only. O(keys), for a set or a mapping as `live` without a copy.

        Raises:
            TypeError: `live` is no collection of keys; None is what a failed listing looks like.
        """
        if not isinstance(live, Collection) or isinstance(live, (str, bytes)):
            raise TypeError(f"prune takes a collection of keys, not {live!r}")
        keep = live if isinstance(live, (Set, Mapping)) else set(live)
        with self._lock:
            now = self._now()
            for entry in list(self._entries.values()):
                if entry.touched <= mark and not self._in_flight(entry, now) and entry.key not in keep:
                    self._remove(entry)

    def snapshot(self) -> Sequence[Denied]:
        """All keys that would be denied now by themselves, sorted by their text. The overload gate names no key. O(n log n)."""
        with self._lock:
            now = self._now()
            denied = [self._waiting(entry, now) for entry in self._entries.values()]
        return sorted((entry for entry in denied if entry is not None), key=lambda entry: str(entry.key))

    # ------------------------------------------------------------------ answers

    def _succeeded(self, entry: Entry, started: float) -> None:
        with self._lock:
            now = self._now()
            self._gate.served(started=started)
            if entry.state == "in flight":
                # It stays for a while, free to be taken, in case this very permit reports a refusal after all.
                entry.state, entry.due, entry.since, entry.touched = "cleared", now, now, self._marks
                entry.attempts, entry.refusal, entry.blocked_since = 0, None, None

    def _refused(self, entry: Entry, refusal: Refusal, started: float) -> None:
        if not refusal.blocks:
            self._succeeded(entry, started)
            return
        with self._lock:
            now = self._now()
            overloaded = refusal.kind is RefusalKind.OVERLOADED
            # A late answer is stale news about its key, yet overload is news about the server.
            if overloaded and self._pacing.interval:
                self._gate.close(refusal, now=now, started=started)
            elif refusal.kind is not RefusalKind.TRANSIENT:
                self._gate.served(started=started)
            if entry.state == "void":
                return
            if entry.state in ("in flight", "cleared"):
                self._arm(entry, now)
            elif entry.refusal is not None and (entry.refusal.kind in LASTING) is not (refusal.kind in LASTING):
                if refusal.kind in LASTING:
                    return
                entry.due = now
            wait, by_server = (
                (self._gate.due - now, False) if overloaded else self._pacing.after(refusal, entry.attempts)
            )
            if now + wait > entry.due:
                entry.due = now + wait
                entry.state = "overload" if overloaded else "retry-after" if by_server else "interval"
            entry.refusal = refusal

    def _left(self, entry: Entry, *, failed: bool) -> None:
        with self._lock:
            if entry.state == "in flight" or (failed and entry.state == "cleared"):
                now = self._now()
                self._arm(entry, now)
                entry.due = now + self._pacing.regular(entry.attempts)

    # ------------------------------------------------------------------ under the lock

    def _arm(self, entry: Entry, now: float) -> None:
        entry.state, entry.due, entry.since, entry.touched = "interval", now, now, self._marks
        entry.attempts += 1
        if entry.blocked_since is None:
            entry.blocked_since = now

    def _denied(self, key: Hashable, entry: Entry | None, now: float) -> Denied | None:
        own = None if entry is None else self._waiting(entry, now)
        pause = self._gate.due - now
        if pause <= _TICK or (own is not None and own.retry_in >= pause):
            return own
        refusal = self._gate.refusal if own is None or own.refusal is None else own.refusal
        return Denied(key, "overload", pause, refusal, 0.0 if own is None else own.blocked_for)

    def _waiting(self, entry: Entry, now: float) -> Denied | None:
        left = entry.due - now
        if entry.state in ("cleared", "void") or left <= _TICK:
            return None
        reason = cast("Reason", entry.state)  # the two other states have returned above
        if reason == "in flight":
            left = min(left, self._pacing.interval)
            if not self._in_flight(entry, now):
                reason = "interval"  # recorded when it was taken: an attempt nobody answered for is an attempt
        blocked_for = 0.0 if entry.blocked_since is None else now - entry.blocked_since
        return Denied(entry.key, reason, left, entry.refusal, blocked_for)

    @staticmethod
    def _in_flight(entry: Entry, now: float) -> bool:
        return entry.state == "in flight" and now < entry.since + RESERVATION

    def _drop_expired(self, now: float) -> None:
        # Looking at two for each one that may be added keeps the table within a small multiple of what is alive.
        queue = self._queue
        for _ in _TWICE:
            if not queue:
                return
            entry = queue.popleft()
            if entry.state != "void":
                if now > entry.due + self._memory:
                    self._remove(entry)
                else:
                    queue.append(entry)

    def _remove(self, entry: Entry) -> None:
        entry.state = "void"
        del self._entries[entry.key]

    def _now(self) -> float:
        now = self._clock() + self._skew
        if now < self._last:
            self._skew += self._last - now
            now = self._last
        self._last = now
        return now
