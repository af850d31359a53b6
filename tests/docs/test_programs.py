"""Every program of the README and of the pages runs: each block of Python has a scenario here, or a test of its own elsewhere."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import importlib.util
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eviction import Deadline, EvictionThrottle, PodRef, Requeue
from informer import ApiListerWatcher, InformerFactory, Resource, SharedInformer
from informer.testing import FakeApiServer, VirtualTimeLoop
from informer.testing.eviction import BUDGETS, FakeEvictions, budget
from tests.docs.pages import DOCS, PAGES, README, ROOT, blocks, defined, program

PODS = Resource("", "v1", "pods", kind="Pod")
NODES = Resource("", "v1", "nodes", kind="Node", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", kind="Deployment")
NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")

# Programs that another module runs. The names are "page: function".
ELSEWHERE = {
    "README: main": "tests/test_readme.py",
    "README: drain_timeout": "tests/test_readme.py",
    "README: one_pass": "tests/test_readme.py",
    "tutorial: *": "tests/docs/test_tutorial.py",
    "howto/certificates: renew": "tests/security/renewing.py",
    "howto/from-client-go: work_until_sigterm": "tests/docs/test_tutorial.py",
    "howto/from-kopf: withdraw": "tests/docs/test_kopf.py",
    "howto/from-kopf: run": "tests/docs/test_kopf.py",
    "howto/from-kopf: seen": "tests/docs/test_kopf.py",
    "testing: pytest_plugins": "tests/testing/test_pytest_plugin.py",
    "testing: test_an_outage_of_half_an_hour": "tests/testing/test_pytest_plugin.py",
}


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[tuple[FakeApiServer, Any]]:
    """Three web pods on two nodes, of which one is a DaemonSet's, and nodes, NodePools and budgets without any."""
    async with FakeApiServer([PODS, NODES, DEPLOYMENTS, NODEPOOLS, BUDGETS]) as server, server.api_client() as api:
        for name, node, owner in (("web-1", "node-1", "ReplicaSet"), ("web-2", "node-2", "ReplicaSet")):
            server.create(PODS, pod(name, node, owner))
        server.create(PODS, pod("agent", "node-1", "DaemonSet"))
        yield server, api


def pod(name: str, node: object, owner: str = "ReplicaSet") -> dict[str, Any]:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": f"uid-of-{owner}"}]
    metadata = {"name": name, "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owners}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [{"name": "c", "image": f"img:{name}"}]}}


Scenario = Callable[[dict[str, Any]], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(*names: str) -> Callable[[Scenario], Scenario]:
    def register(function: Scenario) -> Scenario:
        SCENARIOS.update(dict.fromkeys(names, function))
        return function

    return register


@scenario("informer: main")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api):
        server.create(NODES, {"metadata": {"name": "node-1"}})
        await names["main"](api)


@scenario("informer: register")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api), InformerFactory(api) as factory:
        pods = factory.informer(PODS)
        names["register"](pods)
        await factory.wait_for_sync(timeout=10)
        server.patch(PODS, "web-1", {"metadata": {"labels": {"a": "b"}}}, namespace="shop")
        await heard(pods, server.delete(PODS, "web-1", namespace="shop"))


@scenario("degraded-mode: main")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api):
        metadata = {"name": "a", "namespace": "x", "finalizers": ["example.test/cloud"]}
        spec = {"clusterName": "demo", "nodeDrainTimeout": "1"}
        server.create(NODEPOOLS, {"metadata": metadata, "spec": spec})
        server.delete(NODEPOOLS, "a", namespace="x")
        await for_a_while(names["main"](api))


@scenario("observability: main")
async def _(names: dict[str, Any]) -> None:
    import aiohttp

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async with cluster() as (server, api), aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(path) as response:
                return response.status, await response.text()

        server.forbid(PODS, "list")
        program = asyncio.create_task(names["run"](api, port))
        await asyncio.sleep(10)
        status, text = await get("/readyz")
        assert (status, "not synced, last error: 403 Forbidden" in text) == (503, True)
        server.allow(PODS)
        await asyncio.sleep(100)
        for path in ("/readyz", "/livez"):
            assert await get(path) == (200, "pods.v1: live, synced\n")
        status, text = await get("/metrics")
        assert (status, 'informer_objects{informer="",resource="pods.v1"} 3.0' in text) == (200, True)
        program.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await program

    async def refused(_api: object) -> None:
        raise names["SyncError"]("pods.v1 is not synced: 403 Forbidden")

    names["run"] = refused
    names["config"] = SimpleNamespace(load_config=lambda: asyncio.sleep(0))
    with pytest.raises(SystemExit, match="is not synced: 403"):
        await names["main"]()


@scenario("observability: as_leader")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api):
        server.add_resource(Resource("", "v1", "events", kind="Event"))
        metadata = {"name": "a", "namespace": "x"}
        server.create(NODEPOOLS, {"metadata": metadata, "spec": {"nodeDrainTimeout": "1"}})
        await names["as_leader"](api)


@scenario("performance: frozen")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (_server, api):
        informer = SharedInformer(ApiListerWatcher(api, PODS))
        try:
            await for_a_while(names["frozen"](informer))
            assert gc.get_freeze_count() > 0
        finally:
            gc.unfreeze()
        assert informer.health.synced


@scenario("eviction: drain")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api):
        evictions = FakeEvictions(server)
        server.create(BUDGETS, budget("web", {"app": "web"}, namespace="shop", allowed=1))
        node = [PodRef.of(one) for one in server.objects(PODS)]
        assert await names["drain"](api, "node-1", node[:1], Deadline()) == Requeue.DONE
        wish = await names["drain"](api, "node-2", node[1:2], Deadline())
        assert wish == Requeue.DONE
        assert (await names["drain"](api, "node-2", node[1:2], Deadline())).delay is not None
        assert len(evictions.evicted) == 1


@scenario("eviction: feed")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api), InformerFactory(api) as factory:
        server.create(BUDGETS, budget("web", {"app": "web"}, namespace="shop", allowed=0))
        index = names["feed"](factory, EvictionThrottle(), [])
        await factory.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        assert index.verdict(server.objects(PODS)[0]) == "blocked"


@scenario("testing: test_a_mended_pool_arrives", "howto/testing: test_outage")
async def _(names: dict[str, Any]) -> None:
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    # Such a test runs a loop of its own, so not in this one.
    raised: list[BaseException] = []

    def run() -> None:
        try:
            test()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not raised, raised


@scenario("testing: trouble")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api), InformerFactory(api) as factory:
        pods = factory.informer(PODS)
        await factory.wait_for_sync(timeout=10)
        names["trouble"](server)
        await asyncio.sleep(300)
        assert pods.health.state == "failing"


@scenario("testing: pytest_asyncio_loop_factories")
async def _(names: dict[str, Any]) -> None:
    assert names["pytest_asyncio_loop_factories"]() == {"virtual": VirtualTimeLoop}


@scenario("howto/testing: writes")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api):
        await api.call_api("/api/v1/namespaces/shop/pods", "POST", body=pod("new", "node-1"), _preload_content=False)
        await api.call_api("/api/v1/namespaces/shop/pods", "GET", _preload_content=False)
        assert names["writes"](server) == ["create /api/v1/namespaces/shop/pods"]


@scenario("howto/indexes: index_pods")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (_server, api), InformerFactory(api) as factory:
        pods = factory.informer(PODS)
        by_node, by_owner = names["index_pods"](pods)
        await factory.wait_for_sync(timeout=10)
        assert sorted(one.name for one in by_node["node-1"]) == ["agent", "web-1"]
        assert [one.name for one in by_owner["uid-of-DaemonSet"]] == ["agent"]
        assert [one.name for one in pods.lister.by_index("image", "img:web-2")] == ["web-2"]


@scenario("howto/namespaces: PodsOf")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api), InformerFactory(api) as factory:
        server.create(PODS, {"metadata": {"name": "far", "namespace": "other"}})
        pods = names["PodsOf"](factory, ["shop", "empty"])
        await factory.wait_for_sync(timeout=10)
        assert sorted(one.name for one in pods.list()) == ["agent", "web-1", "web-2"]
        assert pods.get("web-1", "shop").key == "shop/web-1"
        assert pods.complete


@scenario("howto/namespaces: Visits")
async def _(names: dict[str, Any]) -> None:
    seen: list[str] = []
    async with cluster() as (server, api), asyncio.TaskGroup() as tasks:
        visits = names["Visits"](api, tasks, lambda one: seen.append(one.name))
        visits.begin("shop")
        await server.wait_until(lambda: server.open_watches(PODS) == 1)
        await asyncio.sleep(1)
        visits.end("shop")
        await server.wait_until(lambda: server.open_watches(PODS) == 0)
    assert sorted(seen) == ["agent", "web-1", "web-2"]


@scenario("howto/drains: one_pass")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api), InformerFactory(api) as factory:
        evictions = FakeEvictions(server)
        pods = factory.informer(PODS)
        by_node = pods.add_index("node", lambda one: [one["spec"]["nodeName"]])
        await factory.wait_for_sync(timeout=10)
        blocked = server.create(BUDGETS, budget("web", {"app": "web"}, namespace="shop", allowed=0))
        drains = {"node-1": Deadline(), "node-2": Deadline.since(None, None)}
        wish = await names["one_pass"](api, by_node, drains)
        assert wish.delay == pytest.approx(30, abs=1)
        assert evictions.evicted == []
        server.delete(BUDGETS, blocked["metadata"]["name"], namespace="shop")
        names["throttle"].release("node-1", min_gap=0)
        await names["one_pass"](api, by_node, drains)
        assert evictions.evicted == ["shop/web-1"]


@scenario("howto/finalizers: finish")
async def _(names: dict[str, Any]) -> None:
    released: list[str] = []

    async def release(uid: str) -> None:
        released.append(uid)

    async with cluster() as (server, api), InformerFactory(api) as factory:
        metadata = {"name": "a", "namespace": "x", "finalizers": ["other.test/x", names["FINALIZER"]]}
        made = server.create(NODEPOOLS, {"metadata": metadata, "spec": "nonsense"})
        pools = factory.informer(NODEPOOLS, decode=lambda obj: obj["spec"]["clusterName"])
        await factory.wait_for_sync(timeout=10)
        (entry,) = pools.lister.withheld()
        assert not await names["finish"](api, entry, release)
        server.delete(NODEPOOLS, "a", namespace="x")
        await asyncio.sleep(1)
        (entry,) = pools.lister.withheld()
        assert await names["finish"](api, entry, release)
        assert released == [made["metadata"]["uid"]]
        assert server.objects(NODEPOOLS)[0]["metadata"]["finalizers"] == ["other.test/x"]


@scenario("howto/from-client-go: controller")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api):
        server.create(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 3}})
        await names["controller"](api, {"shop/gone"})


@scenario("howto/from-client-go: lead")
async def _(names: dict[str, Any]) -> None:
    begun: list[str] = []

    def candidate(identity: str, error: Exception | None = None) -> asyncio.Task[None]:
        async def run() -> None:
            begun.append(identity)
            await asyncio.sleep(60)
            if error is not None:
                raise error

        return asyncio.create_task(names["lead"](api, identity, run))

    async with cluster() as (server, api):
        server.add_resource(Resource("coordination.k8s.io", "v1", "leases", kind="Lease"))
        first = candidate("a", LookupError("a bug"))
        await asyncio.sleep(1)
        second = candidate("b")
        await asyncio.sleep(50)
        assert begun == ["a"]
        assert server.objects(Resource.parse("leases.v1.coordination.k8s.io"))[0]["spec"]["holderIdentity"] == "a"
        with pytest.raises(ExceptionGroup) as raised:
            await first  # an error of what it leads ends it, and with it the renewals
        assert raised.group_contains(LookupError)
        second.cancel()


@scenario("howto/from-kopf: pods_of_nodes")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (_server, api):
        assert await names["pods_of_nodes"](api) == {"node-1": 2, "node-2": 1}


@scenario("howto/from-official: Caches")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, _api):
        caches = names["Caches"](server.api_client)
        await asyncio.to_thread(caches.start, 30)
        assert len(caches.pods) == 3
        await asyncio.to_thread(caches.stop)


@scenario(*(f"howto/typed: with_{kind}" for kind in ("attrs", "msgspec", "pydantic")))
async def _(names: dict[str, Any]) -> None:
    (with_them,) = [value for name, value in names.items() if name.startswith("with_")]
    await typed(with_them)


@scenario("howto/typed: trimmed")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (server, api), InformerFactory(api) as factory:
        fields = [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}}]
        made = server.create(
            PODS, {"metadata": {"name": "fat", "namespace": "shop", "managedFields": fields}, "spec": {}}
        )
        pods = names["trimmed"](factory)
        await factory.wait_for_sync(timeout=10)
        thin = pods.lister.get("fat", namespace="shop")
        assert b"kubelet" in str(made["metadata"]).encode()
        assert b"managedFields" not in thin.raw
        assert (thin.uid, thin.resource_version) == (made["metadata"]["uid"], made["metadata"]["resourceVersion"])
        assert len(pods.lister) == 4


@scenario("howto/typed: with_models")
async def _(names: dict[str, Any]) -> None:
    async with cluster() as (_server, api):
        models = names["Models"](api)
        await typed(lambda factory: names["with_models"](factory, models), refused=[])


async def typed(make: Callable[[InformerFactory], SharedInformer[Any]], *, refused: list[str] | None = None) -> None:
    """Good pods arrive as the type; the one with a number for its node does not, and asking twice gives the same informer."""
    async with cluster() as (server, api), InformerFactory(api) as factory:
        server.create(PODS, pod("bad", 7))
        server.create(PODS, pod("worse", []))
        pods = make(factory)
        assert make(factory) is pods
        await factory.wait_for_sync(timeout=10)
        one = pods.lister.get("web-1", namespace="shop")
        assert "node-1" in {getattr(one, "node", ""), getattr(getattr(one, "spec", None), "node_name", "")}
        expected = ["bad", "worse"] if refused is None else refused
        assert sorted(entry.name for entry in pods.lister.withheld()) == expected


async def for_a_while(coroutine: Any) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            await coroutine


async def heard(_informer: object, _: object) -> None:
    await asyncio.sleep(1)


def programs() -> list[str]:
    return [f"{name}: {defined(text)}" for name in PAGES for text in blocks(name)]


def elsewhere(name: str) -> bool:
    return name in ELSEWHERE or f"{name.partition(':')[0]}: *" in ELSEWHERE


def test_every_block_has_a_scenario() -> None:
    """When a page has a block of Python, a test should run it; and what is registered should exist."""
    every = programs()
    assert [name for name in every if not elsewhere(name) and name not in SCENARIOS] == []
    assert SCENARIOS.keys() - set(every) == set()
    for name, file in ELSEWHERE.items():
        assert name.endswith("*") or name in every, name
        assert name.partition(": ")[0] in (ROOT / file).read_text(), f"{file} does not read the page"


@pytest.mark.parametrize("name", sorted(SCENARIOS))
async def test_program(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """When somebody copies a program of a page, it should do what the page says, and its handlers should not raise."""
    if "pydantic" in name:
        pytest.importorskip("pydantic")
    where, _, function = name.partition(": ")
    await SCENARIOS[name](program(where, function))
    assert [record.getMessage() for record in caplog.records if record.name == "informer.handlers"] == []


@pytest.mark.real_time
def test_programs_are_typed(tmp_path: Path) -> None:
    """When mypy --strict reads the programs of the README and of the pages, it should accept every one."""
    for name in PAGES:
        if name == "tutorial":  # one program, and its test
            *parts, test = blocks(name)
            (tmp_path / "tutorial.py").write_text("\n\n".join(parts))
            (tmp_path / "test_tutorial.py").write_text(test)
            continue
        for number, text in enumerate(blocks(name)):
            if "import kopf" in text and importlib.util.find_spec("kopf") is None:
                continue
            (tmp_path / f"{name.replace('-', '_').replace('/', '_')}_{number}.py").write_text(text)
    files = [str(file) for file in sorted(tmp_path.glob("*.py"))]
    command = [sys.executable, "-m", "mypy", "--strict", *files]
    environment = {"MYPYPATH": f"{tmp_path}:{DOCS / 'examples'}", "PATH": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_names() -> None:
    """When a block defines nothing, it could not be called: each defines a function or class of its own name."""
    every = programs()
    assert not [name for name in every if name.endswith(": ") and not elsewhere(name)]
    assert len(set(every)) == len(every)
    for name in PAGES:
        for text in blocks(name):
            ast.parse(text)
    assert README in PAGES
