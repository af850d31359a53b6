"""The informer against real API servers: bad NodePools, outages, compaction, permissions."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from informer import (
    Added,
    ApiListerWatcher,
    Change,
    DegradedListerWatcher,
    InformerFactory,
    InformerOptions,
    KubeObject,
    ListerWatcher,
    ListOptions,
    Page,
    Quarantined,
    Removed,
    Resource,
    SharedInformer,
    SyncError,
    Updated,
    WatchOptions,
    checks,
)
from tests.processes import finished
from tests.real.clusters import Cluster, shared_files
from tests.real.watching import Counting, until

pytestmark = pytest.mark.real

DURATIONS = (checks.duration("spec.nodeDrainTimeout"), checks.duration("spec.nodeVolumeDetachTimeout"))
KUBECTL = Path(__file__).with_name("kubectl_over_http.py")


def node_pool(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterName": namespace,
            "replicas": 2,
            "management": {"upgradeType": "Replace"},
            "platform": {"type": "None"},
            "release": {"image": "registry.test/release:4.19"},
            **spec,
        },
    }


async def fleet(crd: Cluster, bad: Mapping[int, dict[str, Any]], *, count: int = 200) -> tuple[Resource, str]:
    """So many NodePools in five namespaces; returns the resource and the namespaces' common prefix."""
    resource = await crd.nodepools()
    prefix = await crd.namespace()
    await asyncio.gather(
        *(
            crd.create(
                resource, node_pool(f"pool-{n:03}", f"{prefix}-{n % 5}", **bad.get(n, {"nodeDrainTimeout": "10m"}))
            )
            for n in range(count)
        )
    )
    # The first LIST of an informer is answered from the watch cache, which may lag behind what was just written.
    source = ApiListerWatcher(crd.client, resource)
    async with asyncio.timeout(20):
        while len((await source.list(ListOptions(resource_version="0"))).items) < count:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)
    return resource, prefix


BAD = {
    17: {"nodeDrainTimeout": "1"},
    58: {"nodeVolumeDetachTimeout": "1d"},
    199: {"nodeDrainTimeout": "ten minutes", "nodeVolumeDetachTimeout": ""},
}


@asynccontextmanager
async def stub_kubectl(cluster: Cluster, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """An environment whose `kubectl` sends the patch over HTTP: the real one cannot talk to a server without core/v1."""
    stub = tmp_path / "kubectl"
    stub.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{KUBECTL}" "$@"\n')
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    yield {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.kubeconfig),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


async def run_in_shell(command: str, environment: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_shell(
        command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await finished(process)
    assert process.returncode == 0, f"{command}\n{output.decode()}"


def filled_in(command: str) -> str:
    """What an administrator makes of the command: a real value for each placeholder."""
    done = re.sub(r"<duration, e\.g\. 10m>", "15m", command)
    assert done != command
    return done


@pytest.mark.parametrize("initial_list", ["list", "stream"])
async def test_bad_node_pools(
    crd: Cluster, tmp_path: Path, initial_list: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """When 3 of 200 NodePools are bad, it should sync with 197, name the 3, and take each in once its command has run."""
    resource, prefix = await fleet(crd, BAD)
    api = Counting(crd.client)
    changes: list[Change[KubeObject]] = []
    async with InformerFactory(api, options=InformerOptions(initial_list=initial_list)) as factory:
        pools = factory.informer(resource, checks=DURATIONS)
        pools.add_handler(on_change=changes.append)
        await factory.wait_for_sync(timeout=30)
        assert len(pools.lister) == 197
        found = {
            (entry.key, problem.path, problem.value) for entry in factory.quarantined() for problem in entry.problems
        }
        assert found == {
            (f"{prefix}-2/pool-017", ("spec", "nodeDrainTimeout"), '"1"'),
            (f"{prefix}-3/pool-058", ("spec", "nodeVolumeDetachTimeout"), '"1d"'),
            (f"{prefix}-4/pool-199", ("spec", "nodeDrainTimeout"), '"ten minutes"'),
            (f"{prefix}-4/pool-199", ("spec", "nodeVolumeDetachTimeout"), '""'),
        }
        commands = {entry.key: entry.fix_commands() for entry in factory.quarantined()}
        errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) == 3
        async with stub_kubectl(crd, tmp_path) as environment:
            for key, (command,) in commands.items():
                assert sum(command in line for line in errors) == 1, "the log has the very command"
                await run_in_shell(filled_in(command), environment)
                await until(
                    lambda key=key: any(isinstance(c, Added) and not c.initial and c.object.key == key for c in changes)
                )
        assert len(pools.lister) == 200
        assert pools.lister.complete
        assert not factory.quarantined()
        healed = pools.lister.get("pool-199", namespace=f"{prefix}-4")["spec"]
        assert (healed["nodeDrainTimeout"], healed["nodeVolumeDetachTimeout"]) == ("15m", "15m")
        assert api.verbs == ({"list": 1, "watch": 1} if initial_list == "list" else {"watch": 1})
        assert not any(isinstance(change, Removed) for change in changes)


async def test_kubectl_heals(core: Cluster, tmp_path: Path) -> None:
    """When kubectl itself runs the printed command, it should heal the object, below a list and in a map as well."""
    widgets, namespace = await core.widgets(), await core.namespace()
    await core.create(widgets, {"metadata": {"name": "w", "namespace": namespace}, "spec": {"drainTimeout": "1"}})
    deep = {"groups": [{"size": "1Gi"}, {"size": "1GB"}], "limits": {"example.test/gpu": "two", "cpu": "1"}}
    await core.create(widgets, {"metadata": {"name": "deep", "namespace": namespace}, "spec": deep})
    judged = (
        checks.duration("spec.drainTimeout"),
        checks.quantity("spec.groups[*].size"),
        checks.quantity("spec.limits[*]"),
    )
    environment = {**os.environ, "KUBECONFIG": str(core.kubeconfig)}
    async with InformerFactory(core.client) as factory:
        informer = factory.informer(widgets, checks=judged)
        await factory.wait_for_sync(timeout=30)
        assert len(factory.quarantined()) == 2
        for entry in factory.quarantined():
            for command in entry.fix_commands():
                done = re.sub(r"<duration[^>]*>", "10m", re.sub(r"<quantity[^>]*>", "2Gi", command))
                await run_in_shell(done, environment)
        await until(lambda: informer.lister.complete)
        spec = informer.lister.get("deep", namespace=namespace)["spec"]
        assert spec == {
            "groups": [{"size": "1Gi"}, {"size": "2Gi"}],
            "limits": {"example.test/gpu": "2Gi", "cpu": "1"},
        }


async def test_beside_client_go(crd: Cluster) -> None:
    """When one NodePool does not decode, client-go should never sync, while this informer is live on the same server."""
    peer = shared_files() / "peers" / "peer"
    if not peer.exists():
        pytest.skip(f"{peer} is not there")
    resource, prefix = await fleet(crd, {3: {"nodeDrainTimeout": "1"}}, count=20)
    process = await asyncio.create_subprocess_exec(
        str(peer), "client-go-nodepools", "-kubeconfig", str(crd.kubeconfig), "-secs", "12",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    async with InformerFactory(crd.client) as factory:
        pools = factory.informer(resource, checks=DURATIONS)
        await factory.wait_for_sync(timeout=10)
        output, _ = await finished(process)
        assert pools.health.state == "live"
        assert {o.key for o in pools.lister.list()} == {f"{prefix}-{n % 5}/pool-{n:03}" for n in range(20) if n != 3}
    text = output.decode()
    assert "missing unit in duration" in text, text
    assert re.search(r"synced[=: ]+false|not synced|never synced", text, re.IGNORECASE), text


async def test_forbidden(core: Cluster) -> None:
    """When a role may not list, wait_for_sync should say so with the server's reason, in time."""
    viewer = await core.api_client("viewer-token")
    async with SharedInformer(ApiListerWatcher(viewer, Resource.parse("pods.v1"))) as informer:
        with pytest.raises(SyncError, match=r"403 Forbidden: list pods\.v1: .*viewer.*cannot list"):
            await informer.wait_for_sync(timeout=3)
        health = informer.health
        assert (health.state, health.synced) == ("failing", False)
        assert "403 Forbidden" in str(health.last_error)
        with pytest.raises(SyncError, match="403 Forbidden"):  # without a timeout: no hope, no hang
            async with asyncio.timeout(60):
                await informer.wait_for_sync()


async def test_token_context(core: Cluster) -> None:
    """When a context has a token instead of a certificate, the informer should work with it."""
    widgets, namespace = await core.widgets(), await core.namespace()
    await core.create(widgets, {"metadata": {"name": "w", "namespace": namespace}, "spec": {}})
    async with SharedInformer(ApiListerWatcher(await core.api_client("admin-token"), widgets)) as informer:
        await informer.wait_for_sync(timeout=30)
        assert [obj.key for obj in informer.lister.list()] == [f"{namespace}/w"]


class SmallPages:
    """Lists in pages of two from etcd itself, and lets something happen behind the first page."""

    def __init__(self, inner: ListerWatcher[KubeObject], between: Any) -> None:
        self._inner = inner
        self._between = between
        self.pages: list[tuple[str, int | None]] = []

    @property
    def resource(self) -> Resource:
        return self._inner.resource

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        limit = None if options.limit is None else 2
        version = None if options.continue_token else ""
        self.pages.append(((options.continue_token and "more") or "first", limit))
        page = await self._inner.list(
            ListOptions(resource_version=version, limit=limit, continue_token=options.continue_token)
        )
        if page.continue_token:
            await self._between()
        return page

    def watch(self, options: WatchOptions, /) -> Any:
        return self._inner.watch(options)


async def test_compaction_while_listing(core: Cluster) -> None:
    """When etcd is compacted between the pages of a LIST, it should list again and have every object once."""
    realapi = core.realapi()
    widgets, namespace = await core.widgets(), await core.namespace()
    for number in range(5):
        await core.create(widgets, {"metadata": {"name": f"w{number}", "namespace": namespace}, "spec": {}})
    changed = 0

    async def compact() -> None:
        nonlocal changed
        changed += 1
        body = {"metadata": {"name": f"late{changed}", "namespace": namespace}, "spec": {}}
        await core.create(widgets, body)
        await realapi.compact()

    source = SmallPages(ApiListerWatcher(core.client, widgets), compact)
    changes: list[Change[KubeObject]] = []
    async with SharedInformer(source) as informer:
        informer.add_handler(on_change=changes.append)
        await informer.wait_for_sync(timeout=60)
        names = {obj.name for obj in informer.lister.list()}
        assert names == {f"w{n}" for n in range(5)} | {f"late{n + 1}" for n in range(changed)}
        await until(lambda: len(changes) == len(names))
        assert all(isinstance(change, Added) for change in changes)
    assert source.pages[-1] == ("first", None), "the second expired token leads to one list without pages"


async def test_outage(core: Cluster) -> None:
    """When the server restarts and forgets old versions meanwhile, handlers should get what they missed, nothing else."""
    realapi = core.realapi()
    widgets, namespace = await core.widgets(), await core.namespace()
    for name in ("stays", "changes", "goes"):
        await core.create(widgets, {"metadata": {"name": name, "namespace": namespace}, "spec": {"n": 1}})
    api = Counting(await core.api_client())
    changes: list[Change[KubeObject]] = []
    source = DegradedListerWatcher(ApiListerWatcher(api, widgets), checks=[checks.duration("spec.drainTimeout")])
    async with SharedInformer(source) as informer:
        informer.add_handler(on_change=changes.append)
        await informer.wait_for_sync(timeout=30)
        await until(lambda: api.verbs["watch"] == 1 and len(changes) == 3)
        changes.clear()
        with api.cut_off():
            async with realapi.down():
                await until(lambda: informer.health.state == "failing")
                assert informer.lister.get("goes", namespace=namespace).uid, "the last known state can still be read"
            await core.patch(widgets, "changes", {"spec": {"n": 2}}, namespace=namespace)
            await core.delete(widgets, "goes", namespace=namespace)
            await core.create(widgets, {"metadata": {"name": "new", "namespace": namespace}, "spec": {"n": 1}})
            await realapi.compact()
            async with realapi.down():
                pass
        await until(lambda: informer.health.state == "live" and len(changes) >= 3, seconds=90)
        told = {(type(change), _name(change)) for change in changes}
        assert told == {(Removed, "goes"), (Updated, "changes"), (Added, "new")}
        assert {obj.name for obj in informer.lister.list()} == {"stays", "changes", "new"}
        assert api.verbs["list"] == 2, "the old version is refused as expired, which costs one LIST"


def _name(change: Change[KubeObject]) -> str:
    match change:
        case Added(obj) | Removed(obj):
            return obj.name
        case Updated(_, new):
            return new.name
        case Quarantined(_, entry):
            return entry.key


async def test_watch_survives_compaction(cluster: Cluster) -> None:
    """When etcd is compacted during a watch, the open watch should go on, with no second LIST."""
    realapi = cluster.realapi()
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    api = Counting(cluster.client)
    async with SharedInformer(ApiListerWatcher(api, widgets)) as informer:
        await informer.wait_for_sync(timeout=30)
        for number in range(3):
            made = await cluster.create(
                widgets, {"metadata": {"name": f"w{number}", "namespace": namespace}, "spec": {}}
            )
            await realapi.compact()
            await informer.wait_for_version(made["metadata"]["resourceVersion"], timeout=10)
        assert len(informer.lister) == 3
        assert api.verbs == {"list": 1, "watch": 1}
        assert informer.health.state == "live"
