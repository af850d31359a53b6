"""EvictionMetrics on a registry that is passed in."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from eviction import BudgetIndex, EvictionMetrics, EvictionThrottle, PodRef, evict_node

from .evicting import GONE, OVERLOAD, Clock, FakeApi, by_budget
from .test_budgets import budget
from .test_budgets import pod as labelled


async def test_what_a_pass_leaves_in_the_registry() -> None:
    """When passes are made, outcomes, gates, blocks, durations and resumes should be counted, without any name."""
    clock, registry = Clock(), CollectorRegistry()
    throttle = EvictionThrottle(30, clock=clock)
    metrics = EvictionMetrics(registry, throttle=throttle)
    index = BudgetIndex(throttle, wake=lambda _key: None, metrics=metrics)
    api = FakeApi({"web-0": by_budget(), "gone": GONE})
    index.set(budget(allowed=1))

    async def one_pass(*pods: PodRef) -> None:
        await evict_node(api, "node-1", pods, throttle=throttle, budgets=index, metrics=metrics)

    await one_pass(labelled("web-0"), labelled("gone", {}), labelled("free", {}), labelled("old", {}, terminating=True))
    for _ in range(4):
        clock.advance(2)
        await one_pass(labelled("web-0"))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("eviction_attempts_total", result="evicted") == 1
    assert value("eviction_attempts_total", result="gone") == 1
    assert value("eviction_attempts_total", result="budget") == 1
    assert value("eviction_throttled_total", reason="interval") == 4
    assert value("eviction_request_seconds_count") == 3
    assert value("eviction_blocked_keys") == 1
    assert value("eviction_oldest_block_seconds") == 8
    index.set(budget(allowed=1))
    clock.advance(0.75)
    api.answers = {}
    await one_pass(labelled("web-0"))
    assert value("eviction_resume_latency_seconds_sum") == 0.75
    assert value("eviction_blocked_keys") == 0
    assert value("eviction_oldest_block_seconds") == 0
    names = {label for family in registry.collect() for sample in family.samples for label in sample.labels.values()}
    assert not any("node" in name or "web" in name for name in names)


async def test_an_overload_is_counted_as_what_it_is() -> None:
    """When the server is overloaded, it should be seen as such, request and gate."""
    registry, throttle = CollectorRegistry(), EvictionThrottle(30, clock=Clock())
    metrics = EvictionMetrics(registry, throttle=throttle)
    api = FakeApi({"a": OVERLOAD})
    for node in ("n1", "n2"):
        await evict_node(api, node, [labelled("a")], throttle=throttle, metrics=metrics)
    assert registry.get_sample_value("eviction_attempts_total", {"result": "overloaded"}) == 1
    assert registry.get_sample_value("eviction_throttled_total", {"reason": "overload"}) == 1


def test_releases_without_a_resume_do_not_pile_up() -> None:
    """When released nodes never come back, what is kept for their latency should not grow."""
    clock = Clock()
    metrics = EvictionMetrics(CollectorRegistry(), throttle=EvictionThrottle(30, clock=clock))
    for number in range(10_000):
        metrics.released(number)
        clock.advance(1)
    assert len(metrics._released) <= 602


def test_two_on_one_registry_are_refused() -> None:
    """When a registry has the metrics already, it should say so."""
    registry, throttle = CollectorRegistry(), EvictionThrottle()
    EvictionMetrics(registry, throttle=throttle)
    with pytest.raises(ValueError, match="Duplicated"):
        EvictionMetrics(registry, throttle=throttle)
