"""The programs for kopf run with kopf, beside an informer and before one, and what kopf leaves behind can be taken off."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shlex
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from informer import InformerFactory, Resource, checks
from informer.testing import FakeApiServer
from tests.docs.pages import DOCS, blocks, program

PAGE = "howto/from-kopf"
PODS = Resource("", "v1", "pods", kind="Pod")
NAMESPACES = Resource(
    "", "v1", "namespaces", kind="Namespace", namespaced=False
)  # kopf looks for them before anything else
WEBSITES = Resource("example.test", "v1", "websites", kind="Website")
KOPFS = "kopf.zalando.org/KopfFinalizerMarker"


@define
class Cloud:
    """Says "not yet" as often as it is told to."""

    refusals: int = 0
    said: list[tuple[float, str]] = field(factory=list)

    async def publish(self, _uid: str, domain: str) -> bool:
        self.said.append((asyncio.get_running_loop().time(), domain))
        self.refusals -= 1
        return self.refusals < 0

    async def withdraw(self, uid: str) -> None:
        self.said.append((asyncio.get_running_loop().time(), f"withdrawn {uid}"))

    def words(self) -> list[str]:
        return [what for _, what in self.said]


@pytest.fixture(autouse=True)
def _workqueue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's program finds the example beside it."""
    monkeypatch.syspath_prepend(DOCS / "examples")


@define
class Kopf:
    """kopf, with a registry for the decorators of one program. Imported late, since that takes longer than any test here."""

    module: Any
    registry: Any

    @contextlib.asynccontextmanager
    async def operator(self, server: FakeApiServer, **memo: Any) -> AsyncIterator[None]:
        """At work, and in the end told to stop, as SIGTERM does."""
        kopf = self.module

        @kopf.on.login(registry=self.registry)
        async def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=server.url)

        stop = asyncio.Event()
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        how = {"settings": settings, "memo": kopf.Memo(**memo), "stop_flag": stop, "clusterwide": True}
        running = asyncio.create_task(kopf.operator(registry=self.registry, **how))
        try:
            yield
            assert not running.done(), running
        finally:
            stop.set()
            async with asyncio.timeout(60):
                await running


@pytest.fixture
def kopf() -> Iterator[Kopf]:
    module = pytest.importorskip("kopf", reason="kopf is not installed; pyproject's group `peers` has it")
    before = module.get_default_registry()
    registry = module.OperatorRegistry()
    module.set_default_registry(registry)
    yield Kopf(module, registry)
    module.set_default_registry(before)


def finalizers(server: FakeApiServer) -> list[str]:
    (site,) = server.objects(WEBSITES)
    return list(site["metadata"].get("finalizers", []))


async def test_both_at_once(
    kopf: Kopf, kubeconfig: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """When kopf runs with caches in a task of their own, its handlers should see them, and kopf end at once and in order."""
    program(PAGE, "seen")
    caplog.set_level(logging.INFO)
    loop = asyncio.get_running_loop()
    async with FakeApiServer([PODS, NAMESPACES]) as server:
        server.kubeconfig(str(kubeconfig))
        server.create(PODS, {"metadata": {"name": "a", "namespace": "x"}, "spec": {"nodeName": "node-1"}})
        async with kopf.operator(server):
            await server.wait_until(lambda: server.open_watches(PODS) == 2)  # kopf's, and the informer's
            await asyncio.sleep(1)
            ending = loop.time()
        assert loop.time() - ending < 1
        assert server.open_watches(PODS) == 0
        assert {request.verb for request in server.requests} & {"create", "update", "patch", "delete"} == set()
    assert "a runs beside ['a']" in capsys.readouterr().out
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "Activity 'end' succeeded." in [record.getMessage() for record in caplog.records]


async def test_caches_that_cannot_sync(kopf: Kopf, kubeconfig: Path, caplog: pytest.LogCaptureFixture) -> None:
    """When the caches do not become ready, kopf should say why, and still be able to end."""
    program(PAGE, "seen")
    async with FakeApiServer([PODS, NAMESPACES]) as server:
        server.kubeconfig(str(kubeconfig))
        server.forbid(PODS, "list")
        async with kopf.operator(server):
            await asyncio.sleep(70)
    assert "Activity 'start' failed with an exception and will try again in 60 seconds: pods.v1" in caplog.text


async def test_before_and_after(kopf: Kopf) -> None:
    """When an operator moves from kopf to an informer, it should do the same, and objects go once kopf's finalizer is off."""
    program(PAGE, "withdraw")
    after = program(PAGE, "run")
    loop = asyncio.get_running_loop()
    async with FakeApiServer([WEBSITES, NAMESPACES]) as server, server.api_client() as api:
        made = server.create(
            WEBSITES, {"metadata": {"name": "shop", "namespace": "default"}, "spec": {"domain": "shop.example"}}
        )
        with_kopf = Cloud()
        async with kopf.operator(server, cloud=with_kopf):
            await server.wait_until(lambda: finalizers(server) == [KOPFS] and len(with_kopf.said) > 0)
            await asyncio.sleep(1)
        assert with_kopf.words() == ["shop.example"]

        without = Cloud(refusals=1)
        begun = loop.time()
        running = asyncio.create_task(after["run"](api, without))
        await asyncio.sleep(3700)
        assert [round(when - begun) for when, _ in without.said] == [0, 10, 3600]
        assert finalizers(server) == [KOPFS, after["FINALIZER"]]

        server.delete(WEBSITES, "shop", namespace="default")
        await server.wait_until(lambda: finalizers(server) == [KOPFS])
        assert without.words() == ["shop.example"] * 3 + [f"withdrawn {made['metadata']['uid']}"]
        assert await patch(api) == 200
        assert server.objects(WEBSITES) == []  # nothing held it any more
        assert not running.done()
        running.cancel()


async def patch(api: Any) -> int:
    """Send what the command of the page sends; the status of the answer."""
    (command,) = blocks(PAGE, "sh")
    *words, flag, text = shlex.split(command)
    assert words == ["kubectl", "patch", "website", "shop", "-n", "default", "--type=json"]
    assert flag == "-p"
    path = "/apis/example.test/v1/namespaces/default/websites/shop"
    headers = {"Content-Type": "application/json-patch+json"}
    answer = await api.call_api(path, "PATCH", body=json.loads(text), header_params=headers, _preload_content=False)
    status: int = answer.status
    return status


async def test_another_finalizer_first() -> None:
    """When the first finalizer is somebody else's, the command should be refused, and take nothing off."""
    async with FakeApiServer([WEBSITES]) as server, server.api_client() as api:
        annotations = {"kopf.zalando.org/last-handled-configuration": "{}"}
        metadata = {"name": "shop", "namespace": "default", "finalizers": ["other.test/x", KOPFS]}
        server.create(WEBSITES, {"metadata": {**metadata, "annotations": annotations}, "spec": {}})
        assert await patch(api) == 422
        assert finalizers(server) == ["other.test/x", KOPFS]


async def test_refused_write() -> None:
    """When the finalizer cannot be set, nothing should be announced; the queue tries until it can."""
    after = program(PAGE, "run")
    cloud = Cloud()
    async with FakeApiServer([WEBSITES]) as server, server.api_client() as api:
        server.create(WEBSITES, {"metadata": {"name": "shop", "namespace": "default"}, "spec": {"domain": "a"}})
        server.forbid(WEBSITES, "patch")
        running = asyncio.create_task(after["run"](api, cloud))
        await asyncio.sleep(20)
        assert cloud.said == []
        server.allow(WEBSITES)
        await asyncio.sleep(60)
        assert cloud.words() == ["a"]
        assert not running.done()
        running.cancel()


async def test_stale_write() -> None:
    """When somebody has changed the object since, the new list of finalizers should be refused."""
    after = program(PAGE, "run")
    async with FakeApiServer([WEBSITES]) as server, server.api_client() as api, InformerFactory(api) as factory:
        server.create(WEBSITES, {"metadata": {"name": "shop", "namespace": "default"}, "spec": {"domain": "a"}})
        websites = factory.informer(WEBSITES)
        await factory.wait_for_sync(timeout=10)
        subject = after["Operator"](api, websites, Cloud())
        old = websites.lister.get("shop", namespace="default")
        server.patch(WEBSITES, "shop", {"metadata": {"finalizers": ["other.test/x"]}}, namespace="default")
        with pytest.raises(Exception, match=r"\(409\)"):
            await subject.set_finalizers(old, [after["FINALIZER"]])
        assert finalizers(server) == ["other.test/x"]


async def test_unreadable() -> None:
    """When a website turns unreadable, its announcement should stay; when it is deleted then, it should be withdrawn."""
    after = program(PAGE, "run")
    cloud = Cloud()
    async with FakeApiServer([WEBSITES]) as server, server.api_client() as api, InformerFactory(api) as factory:
        server.create(WEBSITES, {"metadata": {"name": "shop", "namespace": "default"}, "spec": {"domain": "a"}})
        websites = factory.informer(WEBSITES, checks=[checks.duration("spec.refresh")])
        await factory.wait_for_sync(timeout=10)
        subject = after["Operator"](api, websites, cloud)
        working = asyncio.create_task(after["work"](subject.queue, subject.reconcile))
        await asyncio.sleep(5)
        server.patch(WEBSITES, "shop", {"spec": {"domain": "b", "refresh": "1"}}, namespace="default")
        await asyncio.sleep(5)
        assert websites.health.quarantined == 1
        assert cloud.words() == ["a"]
        server.delete(WEBSITES, "shop", namespace="default")
        await server.wait_until(lambda: server.objects(WEBSITES) == [])
        assert [word.partition(" ")[0] for word in cloud.words()] == ["a", "withdrawn"]
        working.cancel()
