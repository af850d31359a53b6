"""Both clients against real API servers: the same program, the same result, whichever `ApiClient` a user brings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from eviction import EvictionThrottle, Outcome, PodRef, RefusalKind, evict, evict_node
from informer import (
    ApiError,
    ApiListerWatcher,
    InformerFactory,
    ListOptions,
    Resource,
    StreamBrokenError,
    WatchOptions,
    checks,
)
from tests.clients import CLIENTS
from tests.real.clusters import NAMESPACES, Cluster
from tests.real.test_eviction_real import PODS, World

pytestmark = [pytest.mark.real, pytest.mark.parametrize("client", CLIENTS)]


async def _fill(cluster: Cluster, widgets: Resource, namespace: str) -> None:
    for name, team, timeout in (("a", "x", "10m"), ("b", "y", "1"), ("c", "x", "1h")):
        metadata = {"name": name, "namespace": namespace, "labels": {"team": team}}
        await cluster.create(widgets, {"metadata": metadata, "spec": {"timeout": timeout}})


async def test_an_informer(cluster: Cluster, client: str) -> None:
    """When an informer follows widgets, it should withhold the bad one and take it in once it is mended."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await _fill(cluster, widgets, namespace)
    api = await cluster.api_client(package=client)
    async with asyncio.timeout(60), InformerFactory(api) as factory:
        informer = factory.informer(widgets, namespace=namespace, checks=[checks.duration("spec.timeout")])
        await factory.wait_for_sync(timeout=30)
        assert sorted(one.name for one in informer.lister.list()) == ["a", "c"]
        assert [entry.key for entry in factory.quarantined()] == [f"{namespace}/b"]
        made = await cluster.patch(widgets, "b", {"spec": {"timeout": "1m"}}, namespace=namespace)
        await informer.wait_for_version(made["metadata"]["resourceVersion"], timeout=30)
        assert informer.lister.complete


async def test_selectors_and_pages(cluster: Cluster, client: str) -> None:
    """When a list is selected and paged, selector and continue token should arrive at the server as they are."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await _fill(cluster, widgets, namespace)
    api = await cluster.api_client(package=client)
    some = ApiListerWatcher(api, widgets, namespace=namespace, label_selector="team in (x,z),team!=z")
    assert [item.key for item in (await some.list(ListOptions())).items] == [f"{namespace}/a", f"{namespace}/c"]
    source = ApiListerWatcher(api, widgets, namespace=namespace)
    keys, token = [], ""
    while True:
        page = await source.list(ListOptions(limit=1, continue_token=token))
        keys += [item.key for item in page.items]
        if not (token := page.continue_token):
            break
    assert keys == [f"{namespace}/{name}" for name in "abc"]


async def test_an_expired_version(cluster: Cluster, client: str) -> None:
    """When a watch asks for a version from before a compaction, the error should say that it is too old."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    api = await cluster.api_client(package=client)
    server = cluster.realapi()
    version = (await ApiListerWatcher(api, widgets).list(ListOptions())).resource_version
    await _fill(cluster, widgets, namespace)
    await server.compact()
    source = ApiListerWatcher(api, widgets)
    with pytest.raises((ApiError, StreamBrokenError)) as caught:
        async with asyncio.timeout(60), source.watch(WatchOptions(resource_version="1", timeout=30)) as events:
            async for _ in events:
                pass
    assert caught.value.expired, (version, caught.value)


async def test_bearer_tokens(core: Cluster, client: str) -> None:
    """When the kubeconfig has a token instead of a certificate, it should be sent with every request, and a wrong one be a 401."""
    api: Any = await core.api_client("admin-token", package=client)
    source = ApiListerWatcher(api, NAMESPACES)
    assert (await source.list(ListOptions())).items
    api.configuration.api_key["BearerToken"] = "Bearer wrong"
    with pytest.raises(ApiError) as caught:
        await source.list(ListOptions())
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")


async def test_evictions(core: Cluster, client: str) -> None:
    """When a node has a protected and a free pod, the free one should go and the real refusal be understood."""
    world = World(core, await core.namespace())
    await world.budget("db", "db", allowed=0)
    pods = [await world.pod("db-0", "db"), await world.pod("web-0")]
    api = await core.api_client(package=client)
    try:
        assert (await evict(api, pods[1], dry_run=True)).outcome is Outcome.EVICTED
        result = await evict_node(api, "n1", pods, throttle=EvictionThrottle(30))
        assert [one.outcome for one in result.results] == [Outcome.REFUSED, Outcome.EVICTED]
        (refusal,) = result.blocked.values()
        assert (refusal.kind, refusal.budget, refusal.status) == (RefusalKind.BUDGET, "db", 429)
        assert (await evict(api, PodRef("none", world.namespace, "u"))).outcome is Outcome.GONE
        assert await world.names() == ["db-0"]
    finally:
        await core.request("DELETE", PODS.path(world.namespace) + "?gracePeriodSeconds=0")
