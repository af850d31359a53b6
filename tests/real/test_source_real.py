"""`ApiListerWatcher` against every real API server there is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from informer import (
    ApiError,
    ApiListerWatcher,
    Bookmark,
    Deleted,
    Event,
    Item,
    KubeObject,
    ListOptions,
    Resource,
    WatchOptions,
)
from tests.real.clusters import NAMESPACES, NODEPOOLS, Cluster

pytestmark = pytest.mark.real


async def _fill(cluster: Cluster, widgets: Resource, namespace: str, count: int) -> Sequence[str]:
    """So many widgets, every other one with the label tier=gold; their resource versions."""
    versions = []
    for number in range(count):
        labels = {"tier": "gold" if number % 2 == 0 else "iron"}
        metadata = {"name": f"w{number}", "namespace": namespace, "labels": labels}
        made = await cluster.create(widgets, {"metadata": metadata, "spec": {"number": number}})
        versions.append(made["metadata"]["resourceVersion"])
    return versions


def _names(items: Sequence[object]) -> list[str]:
    return [item.object.name for item in items if isinstance(item, Item)]


async def test_list(cluster: Cluster) -> None:
    """When a collection is listed, it should give every object with its identity, its bytes and the list's version."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    versions = await _fill(cluster, widgets, namespace, 3)
    page = await ApiListerWatcher(cluster.client, widgets).list(ListOptions())
    items = [item for item in page.items if isinstance(item, Item)]
    assert [item.key for item in items] == [f"{namespace}/w{n}" for n in range(3)]
    assert [item.resource_version for item in items] == versions
    assert all(item.uid for item in items)
    assert items[0].labels == {"tier": "gold"}
    assert items[2].object["spec"] == {"number": 2}
    assert (page.continue_token, page.unidentifiable) == ("", 0)
    assert int(page.resource_version) >= int(versions[-1])


async def test_pages(cluster: Cluster) -> None:
    """When a list comes in pages, it should be one moment's list, each object once, with a token on all but the last."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await _fill(cluster, widgets, namespace, 5)
    source = ApiListerWatcher(cluster.client, widgets)
    pages = [await source.list(ListOptions(limit=2))]
    late = {"metadata": {"name": "w9", "namespace": namespace}, "spec": {}}
    await cluster.create(widgets, late)
    while token := pages[-1].continue_token:
        pages.append(await source.list(ListOptions(limit=2, continue_token=token)))
    assert [_names(page.items) for page in pages] == [["w0", "w1"], ["w2", "w3"], ["w4"]]
    assert len({page.resource_version for page in pages}) == 1


async def test_selectors(cluster: Cluster) -> None:
    """When a source has a namespace or selectors, it should list what they select."""
    widgets, namespace, other = await cluster.widgets(), await cluster.namespace(), await cluster.namespace()
    await _fill(cluster, widgets, namespace, 3)
    await _fill(cluster, widgets, other, 1)
    client = cluster.client
    sources = {
        "all": ApiListerWatcher(client, widgets),
        "namespace": ApiListerWatcher(client, widgets, namespace=namespace),
        "labels": ApiListerWatcher(client, widgets, namespace=namespace, label_selector="tier in (gold,tin),tier!=tin"),
        "fields": ApiListerWatcher(client, widgets, namespace=namespace, field_selector="metadata.name=w1"),
    }
    found = {name: len((await source.list(ListOptions())).items) for name, source in sources.items()}
    assert found == {"all": 4, "namespace": 3, "labels": 2, "fields": 1}


async def test_watch(cluster: Cluster) -> None:
    """When objects change, a watch should tell every change in order, from the version it began at."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    source = ApiListerWatcher(cluster.client, widgets, namespace=namespace, label_selector="tier=gold")
    start = (await source.list(ListOptions())).resource_version
    await _fill(cluster, widgets, namespace, 3)
    seen: list[tuple[str, str]] = []
    async with asyncio.timeout(30), source.watch(WatchOptions(resource_version=start, timeout=60)) as events:
        # The three creations happened before the watch was opened, but after the version it starts from.
        await cluster.patch(widgets, "w0", {"spec": {"number": 7}}, namespace=namespace)
        await cluster.patch(widgets, "w2", {"metadata": {"labels": {"tier": "iron"}}}, namespace=namespace)
        await cluster.delete(widgets, "w0", namespace=namespace)
        async for event in events:
            match event:
                case Item(object=KubeObject() as obj):
                    seen.append((obj.name, str(obj["spec"]["number"])))
                case Deleted(key=key, last=KubeObject() as last):
                    assert key == f"{namespace}/{last.name}"
                    seen.append((last.name, "deleted or left the selection"))
                case _:
                    continue
            if len(seen) == 5:
                break
    gone = "deleted or left the selection"
    assert seen == [("w0", "0"), ("w2", "2"), ("w0", "7"), ("w2", gone), ("w0", gone)]


async def test_end_of_a_watch(cluster: Cluster) -> None:
    """When a watch's time is over, it should end without an error, with a bookmark that has moved on."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    source = ApiListerWatcher(cluster.client, widgets, namespace=namespace, label_selector="tier=gold")
    start = (await source.list(ListOptions())).resource_version
    bookmarks: list[Bookmark] = []
    async with asyncio.timeout(40), source.watch(WatchOptions(resource_version=start, timeout=6)) as events:
        unseen = {"metadata": {"name": "unseen", "namespace": namespace, "labels": {"tier": "iron"}}, "spec": {}}
        made = await cluster.create(widgets, unseen)
        bookmarks += [event async for event in events if isinstance(event, Bookmark)]
    assert bookmarks, "the server sent no bookmark before the end"
    assert int(bookmarks[-1].resource_version) >= int(made["metadata"]["resourceVersion"])
    assert not bookmarks[-1].initial_events_end


async def _follow(source: ApiListerWatcher, options: WatchOptions) -> None:
    async with asyncio.timeout(30), source.watch(options) as events:
        async for _ in events:
            pass


async def test_too_old(cluster: Cluster) -> None:
    """When the version of a watch was compacted away, it should be an ApiError that says `expired`."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    server = cluster.realapi()
    await _fill(cluster, widgets, namespace, 2)
    await server.compact()
    # Version 1 is also older than the history that a server keeps in memory of a resource made a moment ago.
    source = ApiListerWatcher(cluster.client, widgets)
    with pytest.raises(ApiError) as caught:
        await _follow(source, WatchOptions(resource_version="1", timeout=60))
    assert caught.value.expired


async def test_expired_token(core: Cluster) -> None:
    """When the snapshot behind a continue token was compacted away, it should be an ApiError that says `expired`."""
    widgets, namespace = await core.widgets(), await core.namespace()
    server = core.realapi()
    await _fill(core, widgets, namespace, 4)
    source = ApiListerWatcher(core.client, widgets)
    page = await source.list(ListOptions(limit=2))
    await core.patch(widgets, "w3", {"spec": {"number": 9}}, namespace=namespace)
    await server.compact()
    with pytest.raises(ApiError) as caught:
        await source.list(ListOptions(limit=2, continue_token=page.continue_token))
    assert (caught.value.status, caught.value.expired) == (410, True)


async def test_not_served(cluster: Cluster) -> None:
    """When a resource is not served, it should be an ApiError of 404, for LIST and WATCH."""
    source = ApiListerWatcher(cluster.client, Resource("nobody.kube-informer.test", "v1", "things"))
    with pytest.raises(ApiError) as caught:
        await source.list(ListOptions())
    assert caught.value.status == 404
    with pytest.raises(ApiError) as caught:
        async with source.watch(WatchOptions(resource_version="1")):
            pass
    assert caught.value.status == 404


async def test_forbidden(core: Cluster) -> None:
    """When a user has no right, it should be an ApiError of 403 that names both, and no reason to fetch a new token."""
    fetched: list[str] = []

    async def fetch() -> None:
        fetched.append("token")

    source = ApiListerWatcher(await core.api_client("viewer-token"), NAMESPACES, on_unauthorized=fetch)
    with pytest.raises(ApiError, match=r'User "viewer" cannot list resource "namespaces"') as caught:
        await source.list(ListOptions())
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    with pytest.raises(ApiError, match=r'User "viewer" cannot watch resource "namespaces"') as caught:
        async with source.watch(WatchOptions(resource_version="1")):
            pass
    assert (caught.value.status, fetched) == (403, [])


async def test_unauthorized(core: Cluster) -> None:
    """When a token is wrong, it should be an ApiError of 401 after asking for a fresh one; with that one it goes on."""
    client = await core.api_client("admin-token")
    right = client.configuration.api_key["BearerToken"]
    client.configuration.api_key["BearerToken"] = "Bearer rotated-away"
    client.configuration.refresh_api_key_hook = None

    async def fetch() -> None:
        client.configuration.api_key["BearerToken"] = right

    source = ApiListerWatcher(client, NAMESPACES, on_unauthorized=fetch)
    with pytest.raises(ApiError) as caught:
        await source.list(ListOptions())
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")
    assert (await source.list(ListOptions())).items


async def _stream(cluster: Cluster, widgets: Resource, *, until: int, timeout: int) -> list[Event[KubeObject]]:  # noqa: ASYNC109
    """The first events of a streaming list, up to the mark or so many."""
    source = ApiListerWatcher(cluster.client, widgets)
    options = WatchOptions(resource_version="", timeout=timeout, send_initial_events=True)
    seen: list[Event[KubeObject]] = []
    async with asyncio.timeout(60), source.watch(options) as events:
        async for event in events:
            seen.append(event)
            if len(seen) == until or (isinstance(event, Bookmark) and event.initial_events_end):
                break
    return seen


async def test_streaming_list(crd: Cluster) -> None:
    """When a server streams lists, every object should come first, then one bookmark with the mark."""
    widgets, namespace = await crd.widgets(), await crd.namespace()
    versions = await _fill(crd, widgets, namespace, 3)
    *items, mark = await _stream(crd, widgets, until=100, timeout=60)
    assert sorted(_names(items)) == ["w0", "w1", "w2"]
    assert isinstance(mark, Bookmark)
    assert mark.initial_events_end
    assert int(mark.resource_version) >= int(versions[-1])


async def test_no_streaming_list(core: Cluster) -> None:
    """When a server is too old for streaming lists, it should refuse, or never send the mark: there is no false end."""
    widgets, namespace = await core.widgets(), await core.namespace()
    await _fill(core, widgets, namespace, 2)
    try:
        seen = await _stream(core, widgets, until=100, timeout=5)
    except ApiError as error:
        assert error.status in {400, 405, 422}
        return
    version = (await core.request("GET", "/version"))["minor"]
    marked = any(isinstance(event, Bookmark) and event.initial_events_end for event in seen)
    assert marked is (int(version.rstrip("+")) >= 32)


async def test_published_node_pools(cluster: Cluster) -> None:
    """When node pools of the published CRD are listed, a drain timeout without a unit should arrive as it was stored."""
    assert await cluster.nodepools() == NODEPOOLS
    namespace = await cluster.namespace()
    spec = {
        "clusterName": "demo",
        "management": {"upgradeType": "Replace"},
        "platform": {"type": "None"},
        "release": {"image": "quay.io/openshift-release-dev/ocp-release:4.17.0"},
        "replicas": 1,
        "nodeDrainTimeout": "1",
    }
    await cluster.create(NODEPOOLS, {"metadata": {"name": "pool-a", "namespace": namespace}, "spec": spec})
    page = await ApiListerWatcher(cluster.client, NODEPOOLS, namespace=namespace).list(ListOptions())
    (item,) = page.items
    assert isinstance(item, Item)
    assert item.object["spec"]["nodeDrainTimeout"] == "1"
