"""One PodDisruptionBudget as far as the eviction endpoint's judgement can be foreseen from it."""

from __future__ import annotations

from typing import Any, Final, Literal, Self, TypeAlias

from attrs import define

from eviction._objects import identity, integer, member
from eviction._selector import Matches, compile_selector
from eviction.pods import PodRef

Verdict: TypeAlias = Literal["allowed", "blocked", "unknown"]

_UNPROTECTED: Final = frozenset({"Pending", "Succeeded", "Failed"})


@define
class Budget:
    """What a budget said when it was last seen, and what this process did about it since.

    Attributes:
        matches: The test of a pod's labels; None when the selector cannot be understood.
        allowed: `status.disruptionsAllowed`; None when the status does not fit the spec, or makes no sense.
        spares_unready: An unready pod goes whatever the headroom (AlwaysAllow, or enough healthy pods without it).
        confirmed: When this was last known to be true, on the throttle's clock: seen, or probed.
        mark: The throttle's mark when it was seen.
        granted: Keys released because of it since it was seen.
    """

    namespace: str
    name: str
    matches: Matches | None
    allowed: int | None
    spares_unready: bool
    confirmed: float
    mark: int
    granted: int = 0

    @classmethod
    def read(cls, budget: Any, *, now: float, mark: int) -> Self:
        """From a dict, a client's model or an informer's object.

        Raises:
            ValueError: It has no name or no namespace.
        """
        namespace, name, _ = identity(budget)
        if not namespace or not name:
            raise ValueError(f"a PodDisruptionBudget needs a namespace and a name, not {namespace!r} and {name!r}")
        status = member(budget, "status")
        healthy, desired = integer(member(status, "currentHealthy")), integer(member(status, "desiredHealthy"))
        enough = healthy is not None and desired is not None and healthy >= desired > 0
        always = member(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow"
        return cls(namespace, name, _selector(budget), _allowed(budget, status), always or enough, now, mark)

    @property
    def headroom(self) -> int:
        """Evictions that may be tried because of what it says."""
        return self.allowed or 0

    def selects(self, pod: PodRef) -> bool | None:
        """None when it cannot be told."""
        if self.matches is None or pod.labels is None:
            return None
        return self.matches(pod.labels)

    def verdict(self, pod: PodRef) -> Verdict:
        """About a pod that this budget alone selects."""
        if self.allowed is None:
            return "unknown"
        return "allowed" if self.allowed or self.spares(pod) else "blocked"

    def spares(self, pod: PodRef) -> bool:
        """The pod goes without using up headroom."""
        return pod.ready is False and self.spares_unready


def unprotected(pod: PodRef) -> bool:
    """The server asks no budget about this pod."""
    return pod.terminating or pod.phase in _UNPROTECTED


def _selector(budget: Any) -> Matches | None:
    selector = member(budget, "spec", "selector")
    try:
        matches = compile_selector(selector)
    except ValueError:
        return None
    # policy/v1beta1 and policy/v1 disagree about the empty selector, and 1.20 served only the former.
    if member(budget, "apiVersion") == "policy/v1beta1" and selector is not None and matches({}):
        return None
    return matches


def _allowed(budget: Any, status: Any) -> int | None:
    # A generation that was not observed makes the whole status worthless; zero is left out of the JSON.
    observed = integer(member(status, "observedGeneration")) or 0
    if observed < (integer(member(budget, "metadata", "generation")) or 0):
        return None
    allowed = integer(member(status, "disruptionsAllowed"))
    return allowed if allowed is not None and allowed >= 0 else None
