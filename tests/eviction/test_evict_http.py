"""evict, evict_node and BudgetIndex against the fake API server, fed by a real informer."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

import pytest
from kubernetes_asyncio.client import ApiClient

from eviction import BudgetIndex, Deadline, EvictionThrottle, Outcome, PodRef, RefusalKind, Requeue, evict, evict_node
from informer import ApiListerWatcher, InformerFactory, KubeObject, SharedInformer
from informer.testing import FakeApiServer, faults, match
from informer.testing.eviction import BETA_BUDGETS, BUDGETS, PODS, FakeEvictions, budget

K = RefusalKind


def create(server: FakeApiServer, name: str, app: str = "web") -> PodRef:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return PodRef.of(server.create(PODS, {"metadata": {"name": name, "labels": {"app": app}}, "status": status}))


def posts(server: FakeApiServer) -> int:
    return sum(one.subresource == "eviction" for one in server.requests)


async def test_an_eviction(server: FakeApiServer, evictions: FakeEvictions, api: ApiClient) -> None:
    """When nothing forbids it, the pod should go; a dry run and another life of the pod leave it."""
    ref = create(server, "web-0")
    assert (await evict(api, ref, dry_run=True)).outcome is Outcome.EVICTED
    assert (await evict(api, PodRef("web-0", "default", "other"))).outcome is Outcome.GONE
    assert evictions.evicted == []
    assert (await evict(api, ref)).outcome is Outcome.EVICTED
    assert evictions.evicted == ["default/web-0"]
    assert (await evict(api, ref)).outcome is Outcome.GONE


async def test_every_refusal_over_real_http(server: FakeApiServer, evictions: FakeEvictions, api: ApiClient) -> None:
    """When the server refuses for any of its reasons, the kind should be told from the bytes that came."""
    server.create(BUDGETS, budget("full", {"app": "full"}, allowed=0))
    server.create(BUDGETS, budget("stale", {"app": "stale"}, allowed=1))
    server.patch(BUDGETS, "stale", {"spec": {"minAvailable": 9}})
    server.create(BUDGETS, budget("one", {"app": "two"}, allowed=1))
    server.create(BUDGETS, budget("two", {"app": "two"}, allowed=1))
    server.create(BUDGETS, budget("odd", {"app": "odd"}, allowed=-1))
    evictions.deny("evacuating", when=lambda pod: pod["metadata"]["labels"]["app"] == "vm")
    kinds = {}
    for app in ("full", "stale", "two", "odd", "vm"):
        result = await evict(api, create(server, app, app))
        assert result.refusal is not None
        kinds[app] = (result.refusal.kind, result.refusal.budget, result.refusal.retry_after)
    assert kinds == {
        "full": (K.BUDGET, "full", None),
        "stale": (K.BUDGET_NOT_OBSERVED, "stale", 10),
        "two": (K.SEVERAL_BUDGETS, None, None),
        "odd": (K.FORBIDDEN, None, None),
        "vm": (K.WEBHOOK_WAIT, None, None),
    }
    ref = create(server, "web-0")
    evictions.overload(retry_after=3)
    evictions.terminating.add("default")
    found = [(await evict(api, ref)).refusal for _ in range(2)]
    assert [(one.kind, one.retry_after) for one in found if one] == [(K.OVERLOADED, 3), (K.NAMESPACE_TERMINATING, None)]
    assert evictions.evicted == []


async def test_an_old_server_is_spoken_to_in_its_version() -> None:
    """When only policy/v1beta1 is served, no request should be wasted, and "not observed" is told without Retry-After."""
    async with FakeApiServer([PODS, BETA_BUDGETS], bookmark_period=None) as server, server.api_client() as api:
        evictions = FakeEvictions(server, budgets=BETA_BUDGETS)
        made = budget("web", {"app": "web"}, allowed=0)
        server.create(BETA_BUDGETS, {**made, "status": {"disruptionsAllowed": 0}})
        result = await evict(api, create(server, "web-0"))
        assert result.refusal is not None
        assert (result.refusal.kind, result.refusal.retry_after) == (K.BUDGET_NOT_OBSERVED, None)
        assert (await evict(api, create(server, "db-0", "db"))).outcome is Outcome.EVICTED
        assert [one.status for one in server.requests] == [200, 429, 201]
        assert evictions.evicted == ["default/db-0"]


async def test_bytes_that_are_no_utf8(server: FakeApiServer, evictions: FakeEvictions, api: ApiClient) -> None:
    """When the refusal has a byte that is no UTF-8, which the client trips over, it should still be read."""
    body = b'{"kind":"Status","message":"\xff","details":{"causes":[{"reason":"DisruptionBudget","message":"\xfe"}]}}'
    server.faults.add(match(subresource="eviction"), faults.Answer(429, body))
    result = await evict(api, create(server, "web-0"))
    assert result.refusal is not None
    assert result.refusal.kind is K.BUDGET


@pytest.mark.parametrize("then", [faults.End.DROP, faults.End.RESET, faults.End.STALL], ids=str)
async def test_a_broken_connection_is_tried_once(
    server: FakeApiServer, evictions: FakeEvictions, api: ApiClient, then: faults.End
) -> None:
    """When the connection breaks before the answer, the request should not be repeated: the pod may be gone already."""
    server.faults.add(match(subresource="eviction"), faults.NoAnswer(then), times=None)
    result = await evict(api, create(server, "web-0"), timeout=5)
    assert result.refusal is not None
    assert result.refusal.kind is K.TRANSIENT
    assert posts(server) == 1


async def test_a_budgets_headroom_resumes_the_drain_in_about_a_second(
    server: FakeApiServer, evictions: FakeEvictions, api: ApiClient
) -> None:
    """When an informer tells the index that the budget has headroom again, the blocked node should be woken, and be
    evicted within two seconds while the throttle would have waited thirty."""
    loop = asyncio.get_running_loop()
    server.create(BUDGETS, budget("web", {"app": "web"}, allowed=0))
    ref = create(server, "web-0")
    woken: asyncio.Queue[Hashable] = asyncio.Queue()
    throttle = EvictionThrottle(30, clock=loop.time)
    index = BudgetIndex(throttle, wake=woken.put_nowait)
    async with SharedInformer(ApiListerWatcher(api, BUDGETS)) as informer:
        # The refusal comes first: an index that knows of the block would not even ask.
        result = await evict_node(api, "n1", [ref], throttle=throttle, budgets=index)
        assert (result.blocked[ref].kind, result.requeue) == (K.BUDGET, Requeue.after(30))
        informer.add_handler(
            on_add=index.set, on_update=index.set, on_delete=index.drop, on_quarantined=index.quarantined
        )
        await informer.wait_for_sync(timeout=10)
        await asyncio.sleep(5)
        assert index.verdict(ref) == "blocked"
        freed = loop.time()
        server.patch(BUDGETS, "web", {"status": {"disruptionsAllowed": 1}})
        async with asyncio.timeout(10):
            assert await woken.get() == "n1"
        result = await evict_node(api, "n1", [ref], throttle=throttle, budgets=index)
        while result.requeue.delay:
            await asyncio.sleep(result.requeue.delay)
            result = await evict_node(api, "n1", [ref], throttle=throttle, budgets=index)
        assert evictions.evicted == ["default/web-0"]
        assert loop.time() - freed <= 2
    assert posts(server) == 2


async def test_ten_nodes_share_one_budget_without_a_storm(
    server: FakeApiServer, evictions: FakeEvictions, api: ApiClient
) -> None:
    """When ten nodes wait for one budget that frees one place every five seconds, each place should be worth about one
    request, and all ten drains be over within the minute."""
    loop = asyncio.get_running_loop()
    server.create(BUDGETS, budget("web", {"app": "web"}, allowed=0))
    refs = {f"n{number}": create(server, f"web-{number}") for number in range(10)}
    throttle = EvictionThrottle(30, clock=loop.time)
    wakes = {node: asyncio.Event() for node in refs}
    index = BudgetIndex(throttle, wake=lambda node: wakes[str(node)].set())
    deadline = Deadline()

    async def drain(node: str) -> None:
        while True:
            wakes[node].clear()
            result = await evict_node(api, node, [refs[node]], throttle=throttle, deadline=deadline, budgets=index)
            if result.requeue.delay is None:
                return
            try:
                async with asyncio.timeout(result.requeue.delay):
                    await wakes[node].wait()
            except TimeoutError:
                continue
            # woken: the gap since the refusal may still be running, then the next pass says how long

    async with InformerFactory(api) as factory:
        informer: SharedInformer[KubeObject] = factory.informer(BUDGETS)
        informer.add_handler(on_add=index.set, on_update=index.set, on_delete=index.drop)
        await factory.wait_for_sync(timeout=10)
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            for node in refs:
                group.create_task(drain(node))
            for _ in range(10):
                await asyncio.sleep(5)
                server.patch(BUDGETS, "web", {"status": {"disruptionsAllowed": 1}})
        assert loop.time() - began <= 60
    assert len(evictions.evicted) == 10
    assert posts(server) <= 20
