"""How long each kind of refusal keeps a key waiting, and the one gate that an overloaded server closes for all keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define, frozen

from eviction._answer import MAX_RETRY_AFTER
from eviction.refusal import Refusal, RefusalKind

SHORT: Final = 10.0
"""Seconds for a state the cluster leaves by itself; what servers after 1.20 ask for with "still being processed"."""

OVERLOAD_MAX: Final = 30.0

LASTING: Final = frozenset({RefusalKind.SEVERAL_BUDGETS, RefusalKind.FORBIDDEN, RefusalKind.INVALID})
"""Refusals that only a person ends. Such a pod must not slow its siblings on the node, whom time helps."""

_SETTLING: Final = frozenset({RefusalKind.BUDGET_NOT_OBSERVED, RefusalKind.NAMESPACE_TERMINATING})


def asked(refusal: Refusal) -> float | None:
    """Seconds the server asked to wait, capped; None when it did not, or not sensibly."""
    wait = refusal.retry_after
    return min(wait, MAX_RETRY_AFTER) if wait is not None and wait > 0 else None


@frozen(kw_only=True)
class Pacing:
    """The curve of one throttle; see `EvictionThrottle` for what its figures mean.

    Raises:
        ValueError: The factor is so large that powers of it overflow.
    """

    interval: float
    factor: float
    max_interval: float
    jitter: float
    rng: Callable[[], float]

    def __attrs_post_init__(self) -> None:
        if self.factor > 100:
            raise ValueError(f"factor must be at most 100, not {self.factor!r}")

    @property
    def longest(self) -> float:
        """Seconds; an interval above `max_interval` is its own maximum."""
        return max(self.interval, self.max_interval)

    @property
    def memory(self) -> float:
        """Seconds that a key is remembered after its wait is over, so that its next refusal is not taken for its first."""
        return self.interval if self.factor == 1 else 2 * self.longest

    def regular(self, attempts: int) -> float:
        """Seconds to wait after so many refused attempts in a row. Jitter only adds."""
        growth = self.factor ** min(attempts - 1, 60)
        return min(self.interval * growth, self.longest) * (1 + self.jitter * self.rng())

    def after(self, refusal: Refusal, attempts: int) -> tuple[float, bool]:
        """Seconds to wait after this refusal, and whether the server's Retry-After decided them."""
        wish = asked(refusal)
        if wish is not None and refusal.kind is RefusalKind.BUDGET_NOT_OBSERVED:
            return wish, True  # the one case where the server's figure may be shorter than the interval
        own = self._own(refusal.kind, attempts)
        return (wish, True) if wish is not None and wish > own else (own, False)

    def _own(self, kind: RefusalKind, attempts: int) -> float:
        if kind in LASTING:
            return self.longest
        if kind in _SETTLING:
            return min(SHORT, self.interval)
        if kind is RefusalKind.TRANSIENT:
            return min(2.0 ** min(attempts - 1, 60), self.interval)
        return self.regular(attempts)


@define
class OverloadGate:
    """Closed while the server asks everybody for a pause. One gate, since every key's next call would meet the same server."""

    due: float = 0.0
    refusal: Refusal | None = None
    _armed_at: float = float("-inf")
    _streak: int = 0

    def close(self, refusal: Refusal, *, now: float, started: float) -> None:
        """An attempt begun at `started` met an overloaded server."""
        # Answers to calls from before the gate closed are the same news, not worse news.
        if started > self._armed_at:
            self._streak += 1
            self._armed_at = now
        wait = asked(refusal)
        if wait is None:
            wait = min(2.0 ** min(self._streak - 1, 60), OVERLOAD_MAX)
        self.due = max(self.due, now + wait)
        self.refusal = refusal

    def served(self, *, started: float) -> None:
        """An attempt begun at `started` was answered in earnest: the next overload begins anew with one second."""
        if started > self._armed_at:
            self._streak = 0
