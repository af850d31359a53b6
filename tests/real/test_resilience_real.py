"""What happens to real servers in the field: they die, change their flags, forget, and come back from an old backup.

The servers here belong to these tests alone. Recoveries take the real time of backoff and limiter.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest
from kubernetes_asyncio.client import ApiException

from informer import ApiListerWatcher, KubeObject, ListerWatcher, ListOptions, Page, Removed, Resource
from tests.real.clusters import CRDS, MERGE, Cluster
from tests.real.servers import OwnServer, own_server
from tests.real.watching import PATIENCE, Counting, Followed, followed, on_server, until

pytestmark = pytest.mark.real

MANY = 5000
WRITERS = 8
WITHOUT_CACHE = "--watch-cache=false"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    """A server of custom resources, killed and restored as the tests like."""
    if not os.environ.get("INFORMER_TEST_SHARED"):
        pytest.skip("INFORMER_TEST_SHARED names no directory with the realapi script")
    with own_server("crd", tmp_path_factory.mktemp("resilience") / "crd") as made:
        yield made


@pytest.fixture
async def cluster(server: OwnServer, package: str) -> AsyncIterator[Cluster]:
    async with server.cluster(package) as made:
        yield made


@asynccontextmanager
async def informer_of(cluster: Cluster, widgets: Resource) -> AsyncIterator[Followed]:
    """With a client of its own, as an operator has it."""
    api = Counting(await cluster.api_client())
    async with followed(ApiListerWatcher(api, widgets), api) as made:
        yield made


async def insist(cluster: Cluster, method: str, path: str, body: object = None, *, content_type: str = "") -> None:
    """Write for as long as it takes. What an attempt without an answer has done already is done."""
    name = path.rpartition("/")[2]
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await cluster.request(method, path, body, content_type=content_type or "application/json")
            except ApiException as error:
                if error.status == 409 or (method == "DELETE" and error.status == 404 and name in str(error.reason)):
                    return
                if error.status not in {404, 429, 500, 503, 504}:  # 404 of the whole resource: it has just started
                    raise
            except (aiohttp.ClientError, OSError):
                pass
            else:
                return
            await asyncio.sleep(0.2)


async def change(
    cluster: Cluster, widgets: Resource, namespace: str, numbers: Sequence[int], done: list[int], *, to: int = 1
) -> None:
    """Each of these objects: one of ten is deleted, one deleted and created, the others patched; a few at a time."""
    todo = iter(numbers)

    async def write() -> None:
        for number in todo:
            name = f"w{number:04}"
            path = widgets.path(namespace, name)
            if number % 10 < 2:
                await insist(cluster, "DELETE", path)
            if number % 10 == 1:
                obj = {
                    "apiVersion": f"{widgets.group}/v1",
                    "kind": "Widget",
                    "metadata": {"name": name},
                    "spec": {"n": to},
                }
                await insist(cluster, "POST", widgets.path(namespace), obj)
            elif number % 10:
                await insist(cluster, "PATCH", path, {"spec": {"n": to}}, content_type=MERGE)
            done.append(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(write())


async def started(server: OwnServer, flags: str) -> None:
    """The server with these flags: the test before may have left others."""
    if server.api.flags != flags:
        await server.stop()
        await server.start(flags)


async def test_killed(server: OwnServer, cluster: Cluster) -> None:
    """When a server is killed and restarted while 5,000 objects change, every change should arrive, at the cost of one
    watch, or of one LIST more.
    """
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await server.fill(cluster, widgets, namespace, MANY)
    async with informer_of(cluster, widgets) as seen:
        await until(lambda: len(seen.informer.lister) == MANY, seconds=PATIENCE)
        done: list[int] = []
        writing = asyncio.create_task(change(cluster, widgets, namespace, range(MANY), done))
        await until(lambda: len(done) > MANY / 3, seconds=PATIENCE)
        server.kill()
        await seen.failing("Connect")
        assert seen.informer.lister.get(f"w{MANY - 1:04}", namespace=namespace).uid, "it can still be read"
        await server.start()
        await writing
        await seen.in_step(cluster.client)
        assert len(seen.informer.lister) == MANY * 9 / 10
        assert seen.states[-3:] == ["live", "failing", "live"]
        assert seen.api.begun["list"] <= 2


async def test_crd_recreated(cluster: Cluster) -> None:
    """When a CRD is deleted and comes back, the objects should go and come as other lives, and health say why it waits."""
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    objects = [{"metadata": {"name": f"w{n}", "namespace": namespace}, "spec": {"n": n}} for n in range(20)]
    for body in objects:
        await cluster.create(widgets, body)
    async with informer_of(cluster, widgets) as seen:
        await until(lambda: len(seen.informer.lister) == 20)
        before = {obj.uid for obj in seen.informer.lister.list()}
        name = f"widgets.{widgets.group}"
        crd = await cluster.get(CRDS, name)
        await cluster.delete(CRDS, name)
        await cluster._gone(name)
        await seen.failing("404")
        assert seen.informer.health.synced
        await cluster._install({"metadata": {"name": name}, "spec": crd["spec"]}, widgets)
        for body in objects:
            await cluster.create(widgets, body)
        await seen.in_step(cluster.client)
        assert not before & {obj.uid for obj in seen.informer.lister.list()}
        assert {c.object.uid for c in seen.replay.calls if isinstance(c, Removed)} == before
        assert seen.states[-3:] == ["live", "failing", "live"]


async def test_restored(
    server: OwnServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When etcd comes back from an older copy of its data, it should find out although the server says nothing, and have
    what was undone undone.
    """
    monkeypatch.setattr("informer.reflector.WATCH_TIMEOUT", 8.0)
    monkeypatch.setattr("informer._course.DEAF", 7.0)  # only as long without a word makes it suspicious
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await server.fill(cluster, widgets, namespace, 300)
    async with informer_of(cluster, widgets) as seen:
        await until(lambda: len(seen.informer.lister) == 300)
        reflector = seen.informer._reflector
        assert reflector is not None
        writes = 0
        async with asyncio.timeout(PATIENCE):
            while not reflector._course._bookmarks:  # which come only to a watch that has brought something
                writes += 1
                await cluster.patch(widgets, "w0002", {"spec": {"n": writes}}, namespace=namespace)
                await asyncio.sleep(1)
        await seen.in_step(cluster.client)
        before = seen.versions
        copy = await asyncio.to_thread(server.back_up)
        await change(cluster, widgets, namespace, range(300), [])
        await seen.in_step(cluster.client)
        reached = int(reflector._course.version)
        # The next attempt when the server is all there: while it starts it may answer 404, which leads to a list as well.
        monkeypatch.setattr("informer.backoff.Backoff.next", lambda *_: 15.0)
        server.kill()
        await asyncio.to_thread(server.restore, copy)
        await seen.failing("Connect")
        await server.start()
        assert "404" not in caplog.text
        there = await on_server(cluster.client, widgets)
        assert {key: obj["metadata"]["resourceVersion"] for key, obj in there.items()} == before
        patched = await cluster.patch(widgets, "w0005", {"spec": {"n": 7}}, namespace=namespace)
        assert int(patched["metadata"]["resourceVersion"]) < reached, "the new versions have not caught up with the old"
        await seen.in_step(cluster.client)
        assert seen.informer.lister.get("w0005", namespace=namespace)["spec"]["n"] == 7
        assert "the server's version went back" in caplog.text
        assert seen.states[-3:] == ["live", "failing", "live"]


async def test_other_flags(server: OwnServer, cluster: Cluster) -> None:
    """When a server comes back without its watch cache, an informer should go on, and a new one be complete, page by page."""
    await started(server, "")
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await server.fill(cluster, widgets, namespace, 1200)
    async with informer_of(cluster, widgets) as seen:
        await until(lambda: len(seen.informer.lister) == 1200, seconds=PATIENCE)
        await server.stop()
        await seen.failing("Connect")
        await server.start(WITHOUT_CACHE)
        await change(cluster, widgets, namespace, range(200), [])
        async with informer_of(cluster, widgets) as fresh:
            await fresh.in_step(cluster.client)
            assert fresh.api.verbs["list"] == 3
        await seen.in_step(cluster.client)
        assert seen.states[-3:] == ["live", "failing", "live"]
        assert seen.api.begun["list"] <= 2


class SlowPages:
    """Takes its time between the pages of a LIST, so that they are not done within a second."""

    def __init__(self, inner: ListerWatcher[KubeObject]) -> None:
        self._inner = inner
        self.resource = inner.resource
        self.watch = inner.watch

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        page = await self._inner.list(options)
        await asyncio.sleep(0.4 if page.continue_token else 0)
        return page


async def test_compacted_every_second(server: OwnServer, cluster: Cluster) -> None:
    """When etcd is compacted every second under a load of writes, an open watch should go on, and a LIST in pages end."""
    await started(server, WITHOUT_CACHE)  # pages come from etcd itself then
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    await server.fill(cluster, widgets, namespace, MANY)

    async def compact() -> None:
        while True:
            await change(
                cluster, widgets, namespace, [12], [], to=time.monotonic_ns()
            )  # there must be something to forget
            await server.api.compact()
            await asyncio.sleep(1)

    async def write() -> None:
        for to in range(1, 1000):
            await change(cluster, widgets, namespace, range(2, 10), [], to=to)
            await asyncio.sleep(0.1)

    async with informer_of(cluster, widgets) as seen:
        trouble = [asyncio.create_task(one) for one in (compact(), write())]
        try:
            api = Counting(await cluster.api_client())
            async with followed(SlowPages(ApiListerWatcher(api, widgets)), api) as fresh:
                assert len(fresh.informer.lister) == MANY
                assert api.statuses[410] >= 1, "its continue tokens did expire"
                assert api.begun["list"] <= 3
        finally:
            for one in trouble:
                one.cancel()
            ended = await asyncio.gather(*trouble, return_exceptions=True)
        assert [type(one) for one in ended] == [asyncio.CancelledError] * 2, ended
        await seen.in_step(cluster.client)
        assert seen.states[seen.states.index("live") :] == ["live"]
        assert seen.api.verbs["watch"] == 1
