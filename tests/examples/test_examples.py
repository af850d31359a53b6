"""The example programs of the documentation, run against the embedded server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import define, field
from prometheus_client import CollectorRegistry

from eviction import PodRef
from informer import InformerFactory, InformerOptions, Resource, checks, readiness
from informer.testing import FakeApiServer, StatusError, faults, match, now
from informer.testing.eviction import BUDGETS, PODS, FakeEvictions, budget
from informer.testing.virtual import EPOCH

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where attrs looks annotations up
    spec.loader.exec_module(module)
    return module


@contextlib.asynccontextmanager
async def running(program: Any) -> AsyncIterator[None]:
    """A coroutine beside the test, which must not have ended by itself."""
    task = asyncio.create_task(program)
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([NODEPOOLS, PODS, BUDGETS], bookmark_period=None) as server:
        yield server


def pool(server: FakeApiServer, name: str, timeout: str = "10m", **metadata: Any) -> str:
    """A stored pool; returns its uid."""
    spec = {"replicas": 3, "nodeDrainTimeout": timeout}
    made = server.create(NODEPOOLS, {"metadata": {"name": name, "namespace": "clusters", **metadata}, "spec": spec})
    return str(made["metadata"]["uid"])


def finalizers(server: FakeApiServer, name: str) -> list[str] | None:
    try:
        found: list[str] = server.get(NODEPOOLS, name, namespace="clusters")["metadata"].get("finalizers", [])
    except StatusError:
        return None
    return found


# ---------------------------------------------------------------------- nodepools.py


@define
class Machines:
    """A cloud in memory, for both examples that have one."""

    pools: dict[str, tuple[int, str | None]] = field(factory=dict)
    released: list[str] = field(factory=list)
    left: list[Any] = field(factory=list)
    failures: int = 0
    hangs: str = ""

    async def ensure(self, pool_uid: str, replicas: int, drain_timeout: str | None) -> None:
        if pool_uid == self.hangs:
            await asyncio.Event().wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the cloud is away")
        self.pools[pool_uid] = (replicas, drain_timeout)

    async def release(self, pool_uid: str) -> None:
        self.pools.pop(pool_uid, None)
        self.released.append(pool_uid)

    async def machines(self) -> list[Any]:
        return list(self.left)

    async def remove(self, machine: Any) -> None:
        self.left.remove(machine)


async def test_a_bad_pool_from_the_start(server: FakeApiServer) -> None:
    """When a pool cannot be read, the operator should serve all others, leave this one alone, and take it in once mended."""
    cloud = Machines()
    good = [pool(server, f"pool-{number}") for number in range(5)]
    bad = pool(server, "bad", "1")
    async with server.api_client() as api, running(example("nodepools").Operator(api, cloud).run()):
        await asyncio.sleep(10)
        assert cloud.pools == dict.fromkeys(good, (3, "10m"))
        assert finalizers(server, "bad") == []
        server.patch(NODEPOOLS, "bad", {"spec": {"nodeDrainTimeout": "1h"}}, namespace="clusters")
        await asyncio.sleep(10)
        assert cloud.pools[bad] == (3, "1h")
    assert cloud.released == []


async def test_a_bad_pool_that_terminates(server: FakeApiServer) -> None:
    """When a pool turns bad and is then deleted, its finalizer should run without reading the bad field; others' stay."""
    cloud = Machines()
    uid = pool(server, "pool-a", finalizers=["example.test/other"])
    async with server.api_client() as api, running(example("nodepools").Operator(api, cloud).run()):
        await asyncio.sleep(10)
        assert finalizers(server, "pool-a") == ["example.test/other", "example.test/machines"]
        server.patch(NODEPOOLS, "pool-a", {"spec": {"nodeDrainTimeout": "1"}}, namespace="clusters")
        await asyncio.sleep(10)
        assert (cloud.released, set(cloud.pools)) == ([], {uid}), "unreadable is not deleted"
        server.delete(NODEPOOLS, "pool-a", namespace="clusters")
        await asyncio.sleep(10)
        assert cloud.released == [uid]
        assert finalizers(server, "pool-a") == ["example.test/other"]


@pytest.mark.parametrize("duration", ["10m", "1"], ids=["readable", "bad"])
async def test_a_pool_that_terminated_while_the_operator_was_away(server: FakeApiServer, duration: str) -> None:
    """When a pool is terminating as the operator starts, readable or not, it should be let go."""
    cloud = Machines()
    uid = pool(server, "pool-a", duration, finalizers=["example.test/machines"])
    server.delete(NODEPOOLS, "pool-a", namespace="clusters")
    async with server.api_client() as api, running(example("nodepools").Operator(api, cloud).run()):
        await asyncio.sleep(10)
    assert cloud.released == [uid]
    assert finalizers(server, "pool-a") is None


async def test_a_cloud_that_fails(server: FakeApiServer) -> None:
    """When reconciling one pool fails, it should be tried again, and the operator live on."""
    cloud = Machines(failures=2)
    uid = pool(server, "pool-a")
    async with server.api_client() as api, running(example("nodepools").Operator(api, cloud).run()):
        await asyncio.sleep(100)
    assert cloud.pools == {uid: (3, "10m")}


async def test_a_cloud_that_hangs(server: FakeApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """When a call for one pool never returns, it should be given up and tried again, and all others be served."""
    first = pool(server, "pool-a")
    cloud = Machines(hangs=first)
    nodepools = example("nodepools")
    async with server.api_client() as api, running(nodepools.Operator(api, cloud).run()):
        await asyncio.sleep(10)
        second = pool(server, "pool-b")
        await asyncio.sleep(nodepools.PATIENCE)
        assert set(cloud.pools) == {second}
        assert "pool clusters/pool-a: trying again in 30 s" in caplog.text
        cloud.hangs = ""
        await asyncio.sleep(nodepools.RETRY + nodepools.PATIENCE)
    assert set(cloud.pools) == {first, second}


async def test_an_operator_that_is_watched(server: FakeApiServer) -> None:
    """When the operator is given options, its metrics should be on their registry, and the probes see its informer."""
    registry = CollectorRegistry()
    pool(server, "bad", "1")
    async with server.api_client() as api:
        operator = example("nodepools").Operator(api, Machines(), InformerOptions(registry=registry))
        async with running(operator.run()):
            await asyncio.sleep(10)
            status, text = readiness(*operator.informers)
            assert (status, text.endswith("live, synced, 1 withheld\n")) == (200, True)
            labels = {"resource": str(NODEPOOLS), "informer": ""}
            assert registry.get_sample_value("informer_quarantined_objects", labels) == 1


# ---------------------------------------------------------------------- collector.py


@pytest.fixture(scope="module")
def collector() -> ModuleType:
    return example("collector")


async def test_orphans(server: FakeApiServer, collector: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    """When an owner cannot be read, nothing should be removed; when all can be read, exactly the orphans should."""
    caplog.set_level(logging.WARNING, "collector")
    owned, unreadable = pool(server, "pool-a"), pool(server, "bad", "1")
    cloud = Machines(
        left=[
            collector.Machine("m-owned", "clusters", "pool-a", owned),
            collector.Machine("m-bad", "clusters", "bad", unreadable),
            collector.Machine("m-orphan", "clusters", "gone", "uid-gone"),
            collector.Machine("m-older-life", "clusters", "pool-a", "uid-before"),
        ]
    )
    async with server.api_client() as api, InformerFactory(api) as factory:
        pools = factory.informer(NODEPOOLS, checks=[checks.duration("spec.nodeDrainTimeout")])
        await factory.wait_for_sync(timeout=10)
        assert not pools.lister.complete
        assert await collector.collect(api, pools, cloud) == []
        assert len(cloud.left) == 4
        assert "1 objects in scope cannot be read: clusters/bad" in caplog.text
        made = server.patch(NODEPOOLS, "bad", {"spec": {"nodeDrainTimeout": "1m"}}, namespace="clusters")
        await pools.wait_for_version(made["metadata"]["resourceVersion"], timeout=10)
        removed = await collector.collect(api, pools, cloud)
    assert [machine.id for machine in removed] == ["m-orphan", "m-older-life"]
    assert [machine.id for machine in cloud.left] == ["m-owned", "m-bad"]


async def test_an_object_without_a_key(server: FakeApiServer, collector: ModuleType) -> None:
    """When an owner cannot even be identified, nothing should be removed."""
    pool(server, "pool-a")
    server.put_raw(NODEPOOLS, "nameless", lambda version: b'{"metadata":{"resourceVersion":"%s"}}' % version.encode())
    cloud = Machines(left=[collector.Machine("m", "clusters", "gone", "uid-gone")])
    async with server.api_client() as api, InformerFactory(api) as factory:
        pools = factory.informer(NODEPOOLS)
        await factory.wait_for_sync(timeout=10)
        assert (pools.lister.complete, len(pools.lister.withheld())) == (False, 0)
        assert await collector.collect(api, pools, cloud) == []
    assert len(cloud.left) == 1


async def test_a_cache_that_is_behind(server: FakeApiServer, collector: ModuleType) -> None:
    """When the cache has not heard of a new owner, the server should be asked before its machine is removed."""
    async with server.api_client() as api, InformerFactory(api) as factory:
        pools = factory.informer(NODEPOOLS)
        await factory.wait_for_sync(timeout=10)
        await server.wait_until(lambda: server.open_watches(NODEPOOLS) == 1)
        with server.drop_events():
            uid = pool(server, "new")
        cloud = Machines(left=[collector.Machine("m", "clusters", "new", uid)])
        assert await collector.collect(api, pools, cloud) == []
        server.faults.add(match("get", NODEPOOLS), faults.status_answer(503, "ServiceUnavailable", "away"))
        with pytest.raises(Exception, match="503"):
            await collector.collect(api, pools, cloud)
        server.faults.add(
            match("watch", NODEPOOLS), faults.status_answer(503, "ServiceUnavailable", "away"), times=None
        )
        server.end_watches(NODEPOOLS)
        await asyncio.sleep(5)
        assert pools.health.state == "failing"
        asked = len(server.requests)
        assert await collector.collect(api, pools, cloud) == []
        assert not [one for one in server.requests[asked:] if one.verb == "get"], "a cache that is not live asks nobody"
    assert len(cloud.left) == 1


# ---------------------------------------------------------------------- drainer.py


async def test_a_drain_that_is_woken(server: FakeApiServer) -> None:
    """When a budget blocks a node and then has headroom, the drain should go on within two seconds, with one request each."""
    drainer = example("drainer")
    evictions = FakeEvictions(server)
    server.create(BUDGETS, budget("db", {"app": "db"}, allowed=0))
    pods = [
        PodRef.of(
            server.create(
                PODS,
                {
                    "metadata": {"name": name, "labels": {"app": name.partition("-")[0]}},
                    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
                },
            )
        )
        for name in ("db-0", "web-0")
    ]

    def pools() -> list[Any]:
        left = [one for one in pods if one.key not in evictions.evicted]
        return [drainer.Pool("pool-a", {"n1": left}, EPOCH, 3600.0)] if left else []

    def posts() -> int:
        return sum(one.subresource == "eviction" for one in server.requests)

    loop = asyncio.get_running_loop()
    async with server.api_client() as api:
        operator = drainer.Drainer(api, clock=loop.time, now=now)
        async with running(operator.run(pools)):
            await asyncio.sleep(45)
            assert evictions.evicted == ["default/web-0"]
            assert posts() == 1, "the index knew that db-0 would be refused"
            assert "db-0" in operator.conditions["pool-a"]
            server.patch(BUDGETS, "db", {"status": {"disruptionsAllowed": 1}})
            await asyncio.sleep(2)
            assert evictions.evicted == ["default/web-0", "default/db-0"]
            assert posts() == 2


async def test_a_drain_that_its_deadline_ends(server: FakeApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """When a budget blocks for long, a WARNING should say so at once and every ten minutes; at the deadline it is counted once."""
    caplog.set_level(logging.INFO, "drainer")
    drainer = example("drainer")
    evictions = FakeEvictions(server)
    server.create(BUDGETS, budget("db", {"app": "db"}, allowed=0))
    metadata = {"name": "db-0", "labels": {"app": "db"}}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    pod = PodRef.of(server.create(PODS, {"metadata": metadata, "status": status}))
    began = now()

    def said() -> list[tuple[str, str]]:
        found = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "drainer"]
        caplog.clear()
        return found

    async with server.api_client() as api:
        operator = drainer.Drainer(api, clock=asyncio.get_running_loop().time, now=now)
        value = operator.registry.get_sample_value
        async with running(operator.run(lambda: [drainer.Pool("pool-a", {"n1": [pod]}, began, 1500.0)])):
            await asyncio.sleep(1450)
            blocked = "DrainBlocked: n1: 1 pod not evicted: default/db-0 (disruption budget db allows no disruption)"
            assert said() == [("WARNING", f"pool pool-a: {blocked}")] * 3
            assert value("eviction_blocked_keys") == 1
            assert value("eviction_oldest_block_seconds") == pytest.approx(1450, abs=30)
            assert value("drains_timed_out_total") == 0
            assert value("eviction_attempts_total", {"result": "budget"}) == 4, "the index foresees nine of ten passes"
            assert value("informer_synced", {"resource": str(BUDGETS), "informer": ""}) == 1
            assert readiness(*operator.informers)[0] == 200
            await asyncio.sleep(1100)
            assert said() == [("WARNING", f"pool pool-a: TimedOut, and before that {blocked}")] * 2
            assert value("drains_timed_out_total") == 1
            assert value("eviction_blocked_keys") == value("eviction_oldest_block_seconds") == 0
    assert evictions.evicted == []
