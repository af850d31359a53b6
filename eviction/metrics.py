"""Prometheus metrics of evictions, on a registry that is passed in; no node and no pod is ever a label.

A label per node outlives the node (openshift/machine-config-operator#3689), and one per error text never ends.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from eviction.throttle import EvictionThrottle

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# Beyond this many seconds after its release a success is no longer its consequence.
_FORGOTTEN: Final = 600.0


class EvictionMetrics:
    """Counts what `evict_node` does. Pass it there, and to `BudgetIndex` for the resume latency.

    `eviction_attempts_total{result}`: requests by outcome or kind of refusal. `eviction_throttled_total{reason}`: gated
    passes. `eviction_blocked_keys`, `eviction_oldest_block_seconds`: read from the throttle at each scrape.
    `eviction_request_seconds`, `eviction_resume_latency_seconds`: histograms; the latter counts from the release of a key by
    a budget to the pass after which nothing blocks it. To count is O(1), a scrape O(n log n) of the keys.

    Args:
        registry: The prometheus registry.
        throttle: Whose keys the gauges describe; its clock is used.

    Raises:
        ValueError: The registry has such metrics already.
    """

    def __init__(self, registry: CollectorRegistry, /, *, throttle: EvictionThrottle) -> None:
        from prometheus_client import Counter, Histogram  # noqa: PLC0415 - only who wants metrics pays for the import

        self._throttle = throttle
        self._lock = threading.Lock()
        self._released: OrderedDict[Hashable, float] = OrderedDict()
        self._attempts = Counter(
            "eviction_attempts",
            "Eviction requests by outcome, or by the kind of their refusal.",
            ["result"],
            registry=registry,
        )
        self._throttled = Counter(
            "eviction_throttled", "Passes over a node that were not due, by the reason.", ["reason"], registry=registry
        )
        self._seconds = Histogram("eviction_request_seconds", "Duration of one eviction request.", registry=registry)
        self._resumed = Histogram(
            "eviction_resume_latency_seconds",
            "From a budget's headroom to the pass that left nothing blocked.",
            buckets=(0.5, 1, 2, 5, 10, 30, 60, 300),
            registry=registry,
        )
        registry.register(_Gauges(throttle))

    def attempted(self, result: str, seconds: float) -> None:
        """One request was answered, or not: an `Outcome` or a `RefusalKind`."""
        self._attempts.labels(str(result)).inc()
        self._seconds.observe(seconds)

    def throttled(self, reason: str) -> None:
        """One pass was not due."""
        self._throttled.labels(reason).inc()

    def released(self, key: Hashable) -> None:
        """A budget's news released the key."""
        now = self._throttle.now()
        with self._lock:
            self._released[key] = now
            self._released.move_to_end(key)
            while now - next(iter(self._released.values())) > _FORGOTTEN:
                self._released.popitem(last=False)

    def passed(self, key: Hashable, *, blocked: bool) -> None:
        """An attempt of the key ended."""
        with self._lock:
            since = self._released.get(key) if blocked else self._released.pop(key, None)
        if since is not None and not blocked:
            self._resumed.observe(self._throttle.now() - since)


@frozen(eq=False)
class _Gauges:
    """Read at each scrape, so that they are right after a restart and for nodes that left."""

    throttle: EvictionThrottle

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - as above

        blocked = [denied for denied in self.throttle.snapshot() if denied.refusal is not None]
        oldest = max((denied.blocked_for for denied in blocked), default=0.0)
        yield GaugeMetricFamily("eviction_blocked_keys", "Keys whose last attempt was refused.", value=len(blocked))
        yield GaugeMetricFamily("eviction_oldest_block_seconds", "Longest time a key has been refused.", value=oldest)
