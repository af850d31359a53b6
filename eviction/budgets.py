"""What PodDisruptionBudgets allow, known before asking; and who may wake up when one has headroom again.

Fed by whoever watches budgets. With an informer of the sister package, or anything with such handlers:

    index = BudgetIndex(throttle, wake=queue.put_nowait)
    informer.add_handler(on_add=index.set, on_update=index.set, on_delete=index.drop, on_quarantined=index.quarantined)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import define, field

from eviction._budget import Budget, Verdict, unprotected
from eviction._objects import identity, member
from eviction._seconds import at_least
from eviction.pods import PodRef
from eviction.refusal import Refusal, RefusalKind
from eviction.throttle import EvictionThrottle

if TYPE_CHECKING:
    from eviction.metrics import EvictionMetrics

__all__ = ["BudgetIndex"]

MIN_GAP: Final = 1.0
"""Seconds between a refusal and the attempt that a budget's news allows."""

Place: TypeAlias = tuple[str, str]
"""Namespace and name of a budget; an empty name for "some budget of this namespace"."""


@define
class _Waiter:
    """A key that is blocked by a budget, with the pods it is blocked for."""

    order: int
    armed: bool
    pods: dict[PodRef, None] = field(factory=dict)


class BudgetIndex:
    """Foresees refusals, and resumes a drain about a second after its budget has headroom instead of an interval later.

    Always advisory. The server's 429 stays the judge, "blocked" is only said while the data is fresh, and every
    `probe_every` seconds one request is let through all the same: a watch that died must not block a drain for ever.

    Safe to feed from another thread. `wake` is called without any lock held, in the thread that brought the news.

    Args:
        throttle: Whose keys are released; its clock is used.
        wake: Called with each released key: put it into the work queue.
        probe_every: Seconds after which unchanged data no longer counts as known.
        metrics: Where to note releases, for the resume latency.

    Raises:
        ValueError: `probe_every` is negative or not finite.
    """

    def __init__(
        self,
        throttle: EvictionThrottle,
        /,
        *,
        wake: Callable[[Hashable], object],
        probe_every: float = 300.0,
        metrics: EvictionMetrics | None = None,
    ) -> None:
        self._throttle = throttle
        self._wake = wake
        self._probe_every = at_least(0.0, probe_every, "probe_every")
        self._metrics = metrics
        self._lock = threading.Lock()
        self._budgets: dict[str, dict[str, Budget]] = {}
        self._withheld: dict[str, set[str]] = {}
        self._waiters: dict[Place, dict[Hashable, _Waiter]] = {}
        self._places: dict[Hashable, dict[Place, None]] = {}
        self._order = 0

    def set(self, budget: Any, updated: Any = None, /) -> None:
        """A budget is new or changed. Fits `on_add(new)` and `on_update(old, new)`.

        Releases as many waiting keys as the budget has headroom, oldest first. O(w log w) for w keys that wait for it.

        Raises:
            ValueError: It has no name or no namespace.
        """
        read = Budget.read(budget if updated is None else updated, now=self._throttle.now(), mark=self._throttle.mark())
        with self._lock:
            self._budgets.setdefault(read.namespace, {})[read.name] = read
            self._withheld.get(read.namespace, set()).discard(read.name)
            released = list(self._freed_by(read))
        self._release(released)

    def drop(self, budget: Any, /) -> None:
        """A budget is gone: whoever waited for it alone is released. Fits `on_delete(last)`. O(keys waiting for it)."""
        namespace, name = _place(budget)
        with self._lock:
            self._budgets.get(namespace, {}).pop(name, None)
            self._withheld.get(namespace, set()).discard(name)
            now = self._throttle.now()
            free = [
                key
                for key, waiter in self._waiters.get((namespace, name), {}).items()
                if any(self._judge(pod, now)[0] == "allowed" for pod in waiter.pods)
            ]
            for key in free:
                self._forget(key)
        self._release(free)

    def quarantined(self, old: Any, entry: Any, /) -> None:  # noqa: ARG002 - the signature of an informer's handler
        """A budget exists that cannot be read: nothing is known about its namespace. Fits `on_quarantined(old, entry)`. O(1).

        Until it is readable again or dropped. The informer does not report the end of one that was never readable; then
        `drop(entry)` does, and until then the server is asked as if there were no index.
        """
        namespace, name = _place(entry)
        with self._lock:
            self._budgets.get(namespace, {}).pop(name, None)
            self._withheld.setdefault(namespace, set()).add(name)

    def verdict(self, pod: Any, /) -> Verdict:
        """What the server would say about evicting the pod: a dict, a model, an informer's object or a `PodRef`.

        "unknown" where the status is behind the spec, the data is old, a selector or budget is unreadable, or the pod's
        labels are not known. O(budgets in the pod's namespace).

        Raises:
            ValueError: The pod has no name, namespace or uid.
        """
        ref = PodRef.of(pod)
        with self._lock:
            return self._judge(ref, self._throttle.now())[0]

    def waiting(self, key: Hashable, pod: Any, /, *, since: int | None = None) -> None:
        """The key is blocked by the budgets of this pod: release and wake it when they have headroom.

        O(budgets in the pod's namespace).

        Args:
            key: A key of the throttle.
            pod: As for `verdict`.
            since: `throttle.mark()` from before the attempt. Headroom that was announced while the attempt was under way
                counts; without the mark it is missed, and the key waits out its interval.
        """
        ref = PodRef.of(pod)
        with self._lock:
            selecting = self._selecting(ref)
            armed = self._throttle.peek(key) is not None
            for place in [(ref.namespace, budget.name) for budget in selecting] or [(ref.namespace, "")]:
                self._drop_stale(place)
                self._order += 1
                waiters = self._waiters.setdefault(place, {})
                waiters.setdefault(key, _Waiter(self._order, armed)).pods[ref] = None
                self._places.setdefault(key, {})[place] = None
            news = since is not None and any(self._take_grant(budget, ref, since) for budget in selecting)
            if news:
                self._forget(key)
        if news:
            self._release([key])

    def foresee(self, key: Hashable, pods: Iterable[PodRef], /) -> dict[PodRef, Refusal]:
        """The refusals the server need not be asked for, at the start of an attempt of the key.

        Of several pods under one budget only as many are left to try as it has headroom. O(pods x budgets in their namespaces).
        """
        known: dict[PodRef, Refusal] = {}
        left: dict[str, int] = {}
        with self._lock:
            self._forget(key)
            now = self._throttle.now()
            for pod in pods:
                verdict, budgets = self._judge(pod, now)
                if verdict == "unknown":
                    for budget in budgets:  # this request is the probe
                        budget.confirmed = now
                elif len(budgets) == 1 and not budgets[0].spares(pod):
                    budget = budgets[0]
                    place = f"{budget.namespace}/{budget.name}"
                    left[place] = left.get(place, budget.headroom) - 1
                    if left[place] < 0:
                        known[pod] = _foreseen(budgets)
                elif verdict == "blocked":
                    known[pod] = _foreseen(budgets)
        return known

    def forget(self, key: Hashable, /) -> None:
        """The key waits for nothing any more: its node left, or its drain is over. O(budgets it waits for)."""
        with self._lock:
            self._forget(key)

    # ------------------------------------------------------------------ under the lock

    def _selecting(self, pod: PodRef) -> list[Budget]:
        """The budgets that do, or may, select the pod."""
        return [budget for budget in self._budgets.get(pod.namespace, {}).values() if budget.selects(pod) is not False]

    def _judge(self, pod: PodRef, now: float) -> tuple[Verdict, list[Budget]]:
        if unprotected(pod):
            return "allowed", []
        budgets = self._selecting(pod)
        if self._withheld.get(pod.namespace) or any(budget.selects(pod) is None for budget in budgets):
            return "unknown", []
        verdict: Verdict = "allowed" if not budgets else "blocked"  # two budgets on one pod: always refused
        if len(budgets) == 1:
            verdict = budgets[0].verdict(pod)
        if verdict == "blocked" and any(now - budget.confirmed > self._probe_every for budget in budgets):
            return "unknown", budgets
        return verdict, budgets

    def _freed_by(self, budget: Budget) -> Iterator[Hashable]:
        """Take the waiting keys that this news frees, oldest first, within the budget's headroom."""
        now = self._throttle.now()
        own = self._waiters.get((budget.namespace, budget.name), {})
        unsure = self._waiters.get((budget.namespace, ""), {})
        waiting = [(waiter, key, True) for key, waiter in own.items()]
        waiting += [(waiter, key, False) for key, waiter in unsure.items()]
        for waiter, key, registered in sorted(waiting, key=lambda entry: entry[0].order):
            if waiter.armed and self._throttle.peek(key) is None:
                self._forget(key)  # its wait ended without us
            elif any(self._grants(budget, pod, now, registered=registered) for pod in waiter.pods):
                self._forget(key)
                yield key

    def _grants(self, budget: Budget, pod: PodRef, now: float, *, registered: bool) -> bool:
        selects = budget.selects(pod)
        if selects is False:  # where it once did, its change of mind frees the pod
            return registered and self._judge(pod, now)[0] == "allowed"
        if budget.granted >= budget.headroom or (selects and self._judge(pod, now)[0] != "allowed"):
            return False
        budget.granted += 1
        return True

    def _take_grant(self, budget: Budget, pod: PodRef, since: int) -> bool:
        return budget.mark > since and self._grants(budget, pod, self._throttle.now(), registered=True)

    def _drop_stale(self, place: Place) -> None:
        # One look per registration keeps nodes that left from piling up where a budget never changes.
        waiters = self._waiters.get(place, {})
        oldest = next(iter(waiters.items()), None)
        if oldest is not None and oldest[1].armed and self._throttle.peek(oldest[0]) is None:
            self._forget(oldest[0])

    def _forget(self, key: Hashable) -> None:
        for place in self._places.pop(key, ()):
            del self._waiters[place][key]
            if not self._waiters[place]:
                del self._waiters[place]

    # ------------------------------------------------------------------ without the lock

    def _release(self, keys: Iterable[Hashable]) -> None:
        for key in keys:
            self._throttle.release(key, min_gap=MIN_GAP)
            if self._metrics is not None:
                self._metrics.released(key)
            self._wake(key)


def _place(budget: Any) -> Place:
    namespace, name, _ = identity(budget)
    if not name:  # a quarantine entry has only a key
        key = member(budget, "key")
        namespace, _, name = key.rpartition("/") if isinstance(key, str) else ("", "", "")
    return namespace, name


def _foreseen(budgets: list[Budget]) -> Refusal:
    if len(budgets) > 1:
        names = ", ".join(sorted(budget.name for budget in budgets))
        return Refusal(RefusalKind.SEVERAL_BUDGETS, f"more than one disruption budget selects it: {names}; not asked")
    name = budgets[0].name
    return Refusal(
        RefusalKind.BUDGET, f"disruption budget {name} has no headroom; known from its status, not asked", name
    )
