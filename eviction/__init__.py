"""Evictions that do not hammer the API server: throttle the attempt and not the pass, clamp to the deadline, wake up in time.

`EvictionThrottle`, `Requeue`, `Deadline` and `classify_refusal` each work alone and need no Kubernetes client;
`evict_node` ties them together.
"""

from __future__ import annotations

from eviction._client import CallsApi
from eviction.budgets import BudgetIndex
from eviction.deadline import Deadline
from eviction.evict import EvictResult, NodeResult, Outcome, evict, evict_node
from eviction.metrics import EvictionMetrics
from eviction.pods import PodLike, PodRef
from eviction.refusal import Refusal, RefusalKind, classify_refusal
from eviction.requeue import PassResults, Requeue, soonest
from eviction.throttle import Denied, EvictionThrottle, Permit

__all__ = [
    "BudgetIndex",
    "CallsApi",
    "Deadline",
    "Denied",
    "EvictResult",
    "EvictionMetrics",
    "EvictionThrottle",
    "NodeResult",
    "Outcome",
    "PassResults",
    "Permit",
    "PodLike",
    "PodRef",
    "Refusal",
    "RefusalKind",
    "Requeue",
    "classify_refusal",
    "evict",
    "evict_node",
    "soonest",
]
