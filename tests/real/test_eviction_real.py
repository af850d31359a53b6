"""Evictions against a real kube-apiserver with real budgets, whose status the tests write: it has no controllers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any

import pytest
from attrs import define

from eviction import (
    BudgetIndex,
    EvictionThrottle,
    EvictResult,
    NodeResult,
    Outcome,
    PodRef,
    Refusal,
    RefusalKind,
    Requeue,
    evict,
    evict_node,
)
from informer import ApiListerWatcher, KubeObject, Resource, SharedInformer
from tests.real.clusters import Cluster

pytestmark = pytest.mark.real

PODS = Resource("", "v1", "pods", kind="Pod")
BUDGETS = Resource("policy", "v1beta1", "poddisruptionbudgets", kind="PodDisruptionBudget")
K = RefusalKind


@define
class World:
    """A namespace of its own with pods and budgets in it."""

    cluster: Cluster
    namespace: str

    async def pod(self, name: str, app: str = "web", *, phase: str = "Running") -> PodRef:
        container = {"name": "c", "image": "example.test/none"}
        meta = {"name": name, "namespace": self.namespace, "labels": {"app": app}}
        await self.cluster.create(PODS, {"metadata": meta, "spec": {"containers": [container]}})
        ready = {"type": "Ready", "status": "True"}
        status = {"status": {"phase": phase, "conditions": [ready]}}
        made = await self.cluster.patch(PODS, name, status, namespace=self.namespace, subresource="status")
        return PodRef.of(made)

    async def budget(self, name: str, app: str = "web", *, allowed: int, observed: int = 1) -> None:
        meta = {"name": name, "namespace": self.namespace}
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": app}}}
        await self.cluster.create(BUDGETS, {"metadata": meta, "spec": spec})
        await self.allow(name, allowed, observed=observed)

    async def allow(self, name: str, allowed: int, *, observed: int = 1) -> None:
        status = {
            "observedGeneration": observed,
            "disruptionsAllowed": allowed,
            "currentHealthy": 2 + max(allowed, 0),
            "desiredHealthy": 2,
            "expectedPods": 2 + max(allowed, 0),
        }
        await self.cluster.patch(BUDGETS, name, {"status": status}, namespace=self.namespace, subresource="status")

    async def allowed(self, name: str) -> int:
        found = await self.cluster.get(BUDGETS, name, namespace=self.namespace)
        return int(found["status"].get("disruptionsAllowed", 0))

    async def names(self) -> list[str]:
        found = await self.cluster.request("GET", PODS.path(self.namespace))
        return sorted(one["metadata"]["name"] for one in found["items"])

    async def evict(self, pod: PodRef, **options: Any) -> EvictResult:
        return await evict(self.cluster.client, pod, **options)

    async def refusal(self, pod: PodRef) -> Refusal:
        result = await self.evict(pod)
        assert result.refusal is not None, result
        return result.refusal

    async def one_pass(self, node: Hashable, pods: list[PodRef], **options: Any) -> NodeResult:
        return await evict_node(self.cluster.client, node, pods, **options)

    async def evictions(self) -> int:
        """Eviction requests the server has answered in its life, by its own count."""
        text = await self.cluster.metrics()
        lines = [line for line in text.splitlines() if line.startswith("apiserver_request_total{")]
        counted = [line for line in lines if 'resource="pods"' in line and 'subresource="eviction"' in line]
        return sum(int(float(re.split(r"\s+", line)[-1])) for line in counted)


@pytest.fixture
async def world(core: Cluster) -> AsyncIterator[World]:
    made = World(core, await core.namespace())
    yield made
    for resource in (PODS, BUDGETS):
        await core.request("DELETE", resource.path(made.namespace) + "?gracePeriodSeconds=0")


async def test_a_refusal_is_told_from_real_bytes(world: World) -> None:
    """When a budget has no headroom, the real 429 should be a budget's, with its name, and nothing happen."""
    await world.budget("web", allowed=0)
    pod = await world.pod("web-0")
    refusal = await world.refusal(pod)
    assert (refusal.kind, refusal.budget, refusal.status, refusal.retry_after) == (K.BUDGET, "web", 429, None)
    assert "The disruption budget web needs 2 healthy pods and has 2 currently" in refusal.message
    assert await world.names() == ["web-0"]


async def test_headroom_lets_it_through_and_a_dry_run_costs_none(world: World) -> None:
    """When there is headroom for one, a dry run should not use it, the eviction should, and the next be refused."""
    await world.budget("web", allowed=1)
    first, second = await world.pod("web-0"), await world.pod("web-1")
    assert (await world.evict(first, dry_run=True)).outcome is Outcome.EVICTED
    assert (await world.names(), await world.allowed("web")) == (["web-0", "web-1"], 1)
    assert (await world.evict(first)).outcome is Outcome.EVICTED
    assert (await world.names(), await world.allowed("web")) == (["web-1"], 0)
    assert (await world.refusal(second)).kind is K.BUDGET
    assert (await world.evict(first)).outcome is Outcome.GONE


async def test_two_budgets_on_one_pod(world: World) -> None:
    """When two budgets select a pod, the real 500 should be known for what it is."""
    await world.budget("a", allowed=1)
    await world.budget("b", allowed=1)
    refusal = await world.refusal(await world.pod("web-0"))
    assert (refusal.kind, refusal.status) == (K.SEVERAL_BUDGETS, 500)


async def test_a_budget_not_yet_observed(world: World) -> None:
    """When the status is behind the spec, the real 429 of 1.20 should be told by its text, the only thing it has."""
    await world.budget("web", allowed=5, observed=0)
    refusal = await world.refusal(await world.pod("web-0"))
    assert (refusal.kind, refusal.budget, refusal.retry_after) == (K.BUDGET_NOT_OBSERVED, "web", None)


async def test_the_uid_protects_the_pod_that_came_back(world: World) -> None:
    """When the pod of that name is another one now, the real 409 should end this drain, and the new pod stay."""
    old = await world.pod("web-0")
    await world.cluster.request("DELETE", PODS.path(world.namespace, "web-0") + "?gracePeriodSeconds=0")
    new = await world.pod("web-0")
    assert old.uid != new.uid
    assert (await world.evict(old)).outcome is Outcome.GONE
    assert await world.names() == ["web-0"]
    await world.budget("web", allowed=0)
    assert (await world.refusal(old)).kind is K.BUDGET, "the budget is judged before the uid"
    await world.allow("web", 1)
    assert (await world.evict(old)).outcome is Outcome.GONE
    assert await world.allowed("web") == 0, "and its headroom is used up even so"
    assert await world.names() == ["web-0"]


async def test_budgets_do_not_protect_pending_and_finished_pods(world: World) -> None:
    """When a pod is pending or finished, server and index should agree that no budget is asked."""
    await world.budget("web", allowed=0)
    index = BudgetIndex(EvictionThrottle(), wake=lambda _key: None)
    index.set(await world.cluster.get(BUDGETS, "web", namespace=world.namespace))
    for phase in ("Pending", "Succeeded", "Failed"):
        pod = await world.pod(f"web-{phase.lower()}", phase=phase)
        assert index.verdict(pod) == "allowed"
        assert (await world.evict(pod)).outcome is Outcome.EVICTED


async def test_rights(world: World) -> None:
    """When the client has no rights, the real 403 should be called forbidden and never a budget."""
    pod = await world.pod("web-0")
    viewer = await world.cluster.api_client("viewer-token")
    result = await evict(viewer, pod)
    assert result.refusal is not None
    assert (result.refusal.kind, result.refusal.status) == (K.FORBIDDEN, 403)


async def test_a_missing_pod_and_a_missing_namespace(world: World) -> None:
    """When pod or namespace do not exist, it should be gone; a path nobody serves should not."""
    assert (await world.evict(PodRef("none", world.namespace, "u"))).outcome is Outcome.GONE
    assert (await world.evict(PodRef("none", "no-such-namespace", "u"))).outcome is Outcome.GONE


async def test_a_namespace_that_goes(world: World) -> None:
    """When the namespace is being deleted, it should be told so and not be taken for a missing right."""
    pod = await world.pod("web-0")
    await world.cluster.request("DELETE", f"/api/v1/namespaces/{world.namespace}")
    assert (await world.refusal(pod)).kind is K.NAMESPACE_TERMINATING


async def test_mixed_pods_of_one_node(world: World) -> None:
    """When one pod is blocked and the others are not, the others should go in the same pass."""
    await world.budget("db", "db", allowed=0)
    pods = [await world.pod(f"web-{number}") for number in range(4)] + [await world.pod("db-0", "db")]
    result = await world.one_pass("n1", pods, throttle=EvictionThrottle(30))
    assert {one.pod.name: one.outcome for one in result.results} == {
        "db-0": "refused",
        **{f"web-{number}": "evicted" for number in range(4)},
    }
    assert await world.names() == ["db-0"]
    assert "db-0 (disruption budget db allows no disruption)" in result.message


async def test_a_throttled_minute_sends_at_most_three_evictions(world: World) -> None:
    """When a blocked node is passed every 2 s for a minute, the server itself should count no more than three calls."""
    await world.budget("web", allowed=0)
    pod = await world.pod("web-0")
    now = 0.0
    throttle = EvictionThrottle(30, clock=lambda: now)
    before = await world.evictions()
    messages = set()
    while now <= 60:
        messages.add((await world.one_pass("n1", [pod], throttle=throttle)).message)
        now += 2
    assert 2 <= await world.evictions() - before <= 3
    assert len(messages) == 1


async def test_headroom_resumes_the_drain_within_two_seconds(world: World) -> None:
    """When the budget's status gets headroom, a real informer should release the node and the next pass evict it within
    two seconds, while the throttle would have waited for thirty."""
    await world.budget("web", allowed=0)
    pod = await world.pod("web-0")
    woken: asyncio.Queue[Hashable] = asyncio.Queue()
    throttle = EvictionThrottle(30)
    index = BudgetIndex(throttle, wake=woken.put_nowait)
    options: Mapping[str, Any] = {"throttle": throttle, "budgets": index}
    source = ApiListerWatcher(world.cluster.client, BUDGETS, namespace=world.namespace)
    async with SharedInformer(source) as informer:
        result = await world.one_pass("n1", [pod], **options)
        assert result.blocked[pod].status == 429
        known = asyncio.Event()

        def learn(budget: KubeObject) -> None:
            index.set(budget)
            known.set()

        informer.add_handler(on_add=learn, on_update=index.set, on_delete=index.drop, on_quarantined=index.quarantined)
        await informer.wait_for_sync(timeout=10)
        await known.wait()
        assert index.verdict(pod) == "blocked"
        assert (await world.one_pass("n1", [pod], **options)).denied is not None
        freed = time.monotonic()
        await world.allow("web", 1)
        async with asyncio.timeout(10):
            assert await woken.get() == "n1"
            result = await world.one_pass("n1", [pod], **options)
            while result.requeue != Requeue.DONE:
                await asyncio.sleep(result.requeue.delay or 0)
                result = await world.one_pass("n1", [pod], **options)
        assert time.monotonic() - freed <= 2
    assert result.results[0].outcome is Outcome.EVICTED
    assert await world.names() == []
