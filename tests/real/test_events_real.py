"""Events about bad objects on a real API server, and what `kubectl describe` shows of them."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import uuid
from typing import Any

import pytest

from informer import InformerFactory, Resource, checks
from informer.contrib.events import EventReporter
from tests.real.clusters import Cluster

pytestmark = pytest.mark.real

EVENTS = Resource("", "v1", "events", kind="Event")
CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", kind="PriorityClass", namespaced=False)


async def _describe(cluster: Cluster, kind: str, name: str, *more: str) -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    command = [kubectl, f"--kubeconfig={cluster.kubeconfig}", "describe", kind, name, *more]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _events(cluster: Cluster, namespace: str, count: int, *, uid: str = "") -> list[dict[str, Any]]:
    path = EVENTS.path(namespace) + (f"?fieldSelector=involvedObject.uid={uid}" if uid else "")
    async with asyncio.timeout(30):
        while True:
            found: list[dict[str, Any]] = (await cluster.request("GET", path))["items"]
            if sum(event["count"] for event in found) >= count:
                return found
            await asyncio.sleep(0.1)


async def test_kubectl_describe(core: Cluster) -> None:
    """When an object cannot be read, `kubectl describe` should show why; after a restart the same Event counts up."""
    widgets, namespace = await core.widgets(), await core.namespace()
    metadata = {"name": "bad", "namespace": namespace}
    await core.create(widgets, {"metadata": metadata, "spec": {"timeout": "1"}})
    await core.create(widgets, {"metadata": {**metadata, "name": "good"}, "spec": {"timeout": "10m"}})
    for starts in (1, 2):
        async with asyncio.timeout(60), InformerFactory(core.client) as factory:
            factory.informer(widgets, namespace=namespace, checks=[checks.duration("spec.timeout")])
            await factory.wait_for_sync(timeout=30)
            async with EventReporter(core.client, *factory.quarantines(), component="widgets", instance="widgets-0"):
                (event,) = await _events(core, namespace, starts)
        assert event["count"] == starts
    kind = f"{widgets.plural}.{widgets.version}.{widgets.group}"
    text = await _describe(core, kind, "bad", "-n", namespace)
    (line,) = [line for line in text.splitlines() if "Unreadable" in line]
    assert line.split()[:2] == ["Warning", "Unreadable"]
    assert "(x2 over" in line
    assert "widgets" in line
    assert 'spec.timeout is "1"' in line
    assert f"kubectl patch {kind} bad -n {namespace}" in line
    assert "Unreadable" not in await _describe(core, kind, "good", "-n", namespace)


async def test_a_cluster_scoped_object(core: Cluster) -> None:
    """When the object has no namespace, `kubectl describe` should find its Event all the same."""
    name = f"informer-test-{uuid.uuid4().hex[:10]}"
    check = checks.duration("metadata.labels.informer-test")
    metadata = {"name": name, "labels": {"informer-test": "1"}}
    made = await core.create(CLASSES, {"metadata": metadata, "value": 1})
    try:
        async with asyncio.timeout(60), InformerFactory(core.client) as factory:
            factory.informer(CLASSES, label_selector="informer-test", checks=[check])
            await factory.wait_for_sync(timeout=30)
            async with EventReporter(core.client, *factory.quarantines(), component="widgets"):
                await _events(core, "default", 1, uid=made["metadata"]["uid"])
        (line,) = [line for line in (await _describe(core, "priorityclass", name)).splitlines() if "Unreadable" in line]
        assert "metadata.labels" in line
    finally:
        await core.delete(CLASSES, name)


async def test_no_rights(core: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """When the client may not write Events, the real 403 should be logged once, with the right that is missing."""
    widgets, namespace = await core.widgets(), await core.namespace()
    await core.create(widgets, {"metadata": {"name": "bad", "namespace": namespace}, "spec": {"timeout": "1"}})
    viewer = await core.api_client("viewer-token")
    async with asyncio.timeout(60), InformerFactory(core.client) as factory:
        factory.informer(widgets, namespace=namespace, checks=[checks.duration("spec.timeout")])
        await factory.wait_for_sync(timeout=30)
        async with EventReporter(viewer, *factory.quarantines(), component="widgets"):
            async with asyncio.timeout(30):
                while not caplog.records or caplog.records[-1].name != "informer.events":  # noqa: ASYNC110 - a log tells nobody
                    await asyncio.sleep(0.1)
    assert 'cannot create resource "events"' in caplog.records[-1].getMessage()
