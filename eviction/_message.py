"""The text of a condition: who holds a node up. Sorted and built from kinds, so that it changes only when the facts do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from eviction.pods import PodRef
from eviction.refusal import Refusal, RefusalKind

SHOWN: Final = 5

# The server's own text counts healthy pods and changes with each; a condition must not.
_TEXTS: Final[Mapping[RefusalKind, str]] = {
    RefusalKind.BUDGET: "disruption budget{budget} allows no disruption",
    RefusalKind.BUDGET_NOT_OBSERVED: "disruption budget{budget} is still being processed",
    RefusalKind.BUDGET_SYNC_FAILED: "disruption budget{budget} failed to sync",
    RefusalKind.SEVERAL_BUDGETS: "more than one disruption budget selects it",
    RefusalKind.OVERLOADED: "the API server is overloaded",
    RefusalKind.TRANSIENT: "no usable answer from the API server",
    RefusalKind.CONFLICT: "changed by somebody else at the same moment",
    RefusalKind.NAMESPACE_TERMINATING: "its namespace is being deleted",
}


def describe(node: Hashable, blocked: Mapping[PodRef, Refusal]) -> str:
    """One line about the blocked pods of a node; empty when there are none."""
    if not blocked:
        return ""
    lines = [f"{pod.key} ({reason(refusal)})" for pod, refusal in blocked.items()]
    lines.sort()
    more = f", and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    # A key such as (name, uid) is for the throttle; people know the node by its name.
    name = node[0] if isinstance(node, tuple) and node else node
    pods = "pod" if len(lines) == 1 else "pods"
    return f"{name}: {len(lines)} {pods} not evicted: {', '.join(lines[:SHOWN])}{more}"


def reason(refusal: Refusal) -> str:
    """Why one pod was refused; the server's own text where the kind says too little."""
    text = _TEXTS.get(refusal.kind)
    if text is None:
        return f"{refusal.kind}: {refusal.message}"
    return text.format(budget=f" {refusal.budget}" if refusal.budget else "")
