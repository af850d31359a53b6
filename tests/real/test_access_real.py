"""Who may ask, and how much at once: permissions withdrawn, tokens and certificates rotated, a server that is overloaded."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from informer import (
    ApiListerWatcher,
    Event,
    KubeObject,
    ListerWatcher,
    ListOptions,
    Page,
    Resource,
    SyncError,
    WatchOptions,
)
from informer._client import send
from tests.real.clusters import Cluster
from tests.real.servers import OwnServer, own_server
from tests.real.watching import PATIENCE, Counting, followed

pytestmark = pytest.mark.real

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "clusterroles", kind="ClusterRole", namespaced=False)
BINDINGS = Resource(RBAC, "v1", "clusterrolebindings", kind="ClusterRoleBinding", namespaced=False)
FLOW = "flowcontrol.apiserver.k8s.io"
LEVELS = Resource(FLOW, "v1beta1", "prioritylevelconfigurations", kind="PriorityLevelConfiguration", namespaced=False)
SCHEMAS = Resource(FLOW, "v1beta1", "flowschemas", kind="FlowSchema", namespaced=False)
VIEWER = {"kind": "User", "name": "viewer", "apiGroup": RBAC}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    """A server with core/v1, whose tokens and certificates the tests change."""
    if not os.environ.get("INFORMER_TEST_SHARED"):
        pytest.skip("INFORMER_TEST_SHARED names no directory with the realapi script")
    # So few that the smallest share of them is one request at a time.
    flags = "--max-requests-inflight=20 --max-mutating-requests-inflight=10"
    with own_server("core", tmp_path_factory.mktemp("access") / "core", flags) as made:
        yield made


@pytest.fixture
async def cluster(server: OwnServer, package: str) -> AsyncIterator[Cluster]:
    async with server.cluster(package) as made:
        yield made


class ShortWatches:
    """Asks for watches of a few seconds: a permission is asked for when a watch is opened, and only then."""

    def __init__(self, inner: ListerWatcher[KubeObject]) -> None:
        self._inner = inner
        self.resource = inner.resource

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        return await self._inner.list(options)

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[KubeObject]]]:
        return self._inner.watch(evolve(options, timeout=6.0))


async def grant(cluster: Cluster, widgets: Resource) -> str:
    """Let the viewer read the widgets; returns the name of the role and of its binding."""
    name = f"read-{widgets.group}"
    rules = [{"apiGroups": [widgets.group], "resources": [widgets.plural], "verbs": ["list", "watch"]}]
    await cluster.create(ROLES, {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    await cluster.create(BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [VIEWER]})
    return name


async def put(cluster: Cluster, widgets: Resource, namespace: str, *names: str) -> None:
    for name in names:
        await cluster.create(widgets, {"metadata": {"name": name, "namespace": namespace}, "spec": {}})


async def test_permission_withdrawn_and_granted(cluster: Cluster) -> None:
    """When a role is withdrawn and granted again, health should name the refusal, the store stay, and no LIST be needed."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await put(cluster, widgets, namespace, "a", "b")
    api = Counting(await cluster.api_client("viewer-token"))
    async with followed(ShortWatches(ApiListerWatcher(api, widgets)), api, synced=False) as seen:
        with pytest.raises(SyncError, match="403 Forbidden"):
            await seen.informer.wait_for_sync(timeout=2)
        assert seen.states[-1:] == ["failing"]
        role = await grant(cluster, widgets)
        await seen.in_step(cluster.client)
        lists = api.verbs["list"]
        await cluster.delete(BINDINGS, role)
        await cluster.delete(ROLES, role)
        await seen.failing("403 Forbidden: watch widgets")
        assert seen.informer.health.synced
        await cluster.delete(widgets, "a", namespace=namespace)
        await put(cluster, widgets, namespace, "c")
        assert {obj.name for obj in seen.informer.lister.list()} == {"a", "b"}, "what was known can still be read"
        await grant(cluster, widgets)
        await seen.in_step(cluster.client)
        assert seen.states[-3:] == ["live", "failing", "live"]
        assert api.verbs["list"] == lists


def rotate(directory: Path, token: str) -> None:
    """Another token for the administrator, and another key and certificate for the server, of the same authority."""
    pki = directory / "pki"
    tokens = (pki / "tokens.csv").read_text().splitlines()
    kept = [line for line in tokens if line.split(",")[1] != "admin"]
    (pki / "tokens.csv").write_text("\n".join([f'{token},admin,1,"system:masters"', *kept]) + "\n")
    (pki / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    for command in (
        "openssl ecparam -name prime256v1 -genkey -noout -out server.key",
        "openssl req -new -key server.key -subj /CN=kube-apiserver -out server.csr",
        "openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile names -out server.crt",
    ):
        subprocess.run(command.split(), cwd=pki, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)


def admin_token(directory: Path) -> str:
    """The one that the server accepts of the administrator."""
    tokens = (directory / "pki" / "tokens.csv").read_text().splitlines()
    (line,) = [line for line in tokens if line.split(",")[1] == "admin"]
    return line.partition(",")[0]


async def test_rotated(server: OwnServer, cluster: Cluster) -> None:
    """When a server is killed and comes back with another certificate and other tokens, who fetches the new token should go
    on, and who has only the old one say so and keep what it knows.
    """
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await put(cluster, widgets, namespace, "a", "b")
    client, old = await cluster.api_client("admin-token"), await cluster.api_client("admin-token")
    for one in (client, old):
        one.configuration.refresh_api_key_hook = None  # which would read the kubeconfig
        one.configuration.api_key["BearerToken"] = f"Bearer {admin_token(server.directory)}"
    fetched: list[str] = []

    async def fetch() -> None:
        fetched.append(admin_token(server.directory))
        client.configuration.api_key["BearerToken"] = f"Bearer {fetched[-1]}"

    new = f"token-{uuid.uuid4().hex}"
    fresh, stale = Counting(client), Counting(old)
    async with (
        followed(ApiListerWatcher(fresh, widgets, on_unauthorized=fetch), fresh) as seen,
        followed(ApiListerWatcher(stale, widgets), stale) as left_behind,
    ):
        await seen.in_step(cluster.client)
        server.kill()
        await asyncio.to_thread(rotate, server.directory, new)
        await seen.failing("Connect")
        await server.start()
        await cluster.delete(widgets, "a", namespace=namespace)
        await put(cluster, widgets, namespace, "c")
        await seen.in_step(cluster.client)
        assert fetched == [new] * fresh.statuses[401]
        assert fresh.statuses[401] == 1
        assert seen.states[-3:] == ["live", "failing", "live"]
        await left_behind.failing("401 Unauthorized")
        assert {obj.name for obj in left_behind.informer.lister.list()} == {"a", "b"}
        left_behind.asked_little()


LEVEL: dict[str, Any] = {
    "metadata": {"name": "narrow"},
    "spec": {"type": "Limited", "limited": {"assuredConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}},
}
FLOW_SCHEMA: dict[str, Any] = {
    "metadata": {"name": "viewer"},
    "spec": {
        "priorityLevelConfiguration": {"name": "narrow"},
        "matchingPrecedence": 2,
        "rules": [
            {
                "subjects": [{"kind": "User", "user": {"name": "viewer"}}],
                "resourceRules": [{"verbs": ["list"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
            }
        ],
    },
}
FLOW_SCHEMA["spec"]["rules"][0]["resourceRules"][0]["clusterScope"] = True


async def hold(client: Any, resource: Resource) -> Any:
    """Ask for a LIST that no socket's buffers hold, and read nothing of it: the server is busy with it meanwhile."""
    return await send(
        client, "GET", resource.path(), query={}, headers={"Accept-Encoding": "identity"}, timeout=PATIENCE
    )


async def test_overloaded(cluster: Cluster) -> None:
    """When a server refuses a user's LISTs with 429, a running informer should not notice, a new one say so, wait and sync."""
    widgets, heavy, namespace = await cluster.widgets(), await cluster.widgets(), await cluster.namespace()
    await put(cluster, widgets, namespace, "a", "b")
    for number in range(16):
        meta = {"name": f"heavy{number}", "namespace": namespace}
        await cluster.create(heavy, {"metadata": meta, "spec": {"padding": "x" * 1_000_000}})
    await grant(cluster, widgets)
    await grant(cluster, heavy)
    api = Counting(await cluster.api_client("viewer-token"))
    async with followed(ApiListerWatcher(api, widgets), api, synced=False) as running:
        await running.in_step(cluster.client)
        await cluster.create(LEVELS, LEVEL)
        await cluster.create(SCHEMAS, FLOW_SCHEMA)
        crowd = await cluster.api_client("viewer-token")
        held: list[Any] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while not held or held[-1].status == 200:  # until the level exists, and is full
                    held.append(await hold(crowd, heavy))
                    await asyncio.sleep(0.2)
            assert held[-1].status == 429
            again = Counting(await cluster.api_client("viewer-token"))
            async with followed(ApiListerWatcher(again, widgets), again, synced=False) as late:
                await late.failing("429 TooManyRequests: list widgets")
                assert not late.informer.health.synced
                await put(cluster, widgets, namespace, "c")
                for response in held:
                    response.close()
                await late.in_step(cluster.client)
                assert late.states == ["starting", "failing", "live"]
        finally:
            for response in held:
                response.close()
            await cluster.delete(SCHEMAS, FLOW_SCHEMA["metadata"]["name"])
            await cluster.delete(LEVELS, LEVEL["metadata"]["name"])
        await running.in_step(cluster.client)
        assert running.states[running.states.index("live") :] == ["live"]
