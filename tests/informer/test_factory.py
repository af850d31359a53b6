from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from informer import (
    ApiListerWatcher,
    DegradedListerWatcher,
    InformerError,
    InformerFactory,
    InformerOptions,
    KubeObject,
    Resource,
    SyncError,
    checks,
    readiness,
)
from informer.testing import FakeApiServer, faults, match

from .kit import CLUSTERS, PODS, TIMEOUT_CHECK, WIDGETS, names

HOUR = 3600.0


class Bug(Exception):
    pass


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([WIDGETS, CLUSTERS, PODS]) as server:
        yield server


@pytest.fixture
async def client(server: FakeApiServer):
    async with server.api_client() as client:
        yield client


async def nothing_left(server: FakeApiServer) -> None:
    gc.collect()
    await server.wait_until(lambda: server.open_watches() == 0)
    ours = [task for task in asyncio.all_tasks() if "RequestHandler" not in repr(task.get_coro())]
    assert ours == [asyncio.current_task()]


def widget(name: str, *, namespace: str = "team-a", labels: dict | None = None, **spec) -> dict:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "spec": spec}


async def test_one_informer_for_one_thing(server: FakeApiServer, client):
    """When the same thing is asked for again, in whatever words, it should be the same informer and no more requests."""
    server.create(WIDGETS, widget("a"))
    async with InformerFactory(client) as factory:
        one = factory.informer(WIDGETS)
        assert factory.informer(Resource.parse("widgets.v1.example.test")) is one
        assert factory.informer(WIDGETS, namespace="") is one
        assert factory.informer(WIDGETS, namespace=None, label_selector="", checks=[]) is one
        scoped = factory.informer(WIDGETS, namespace="team-a")
        selected = factory.informer(WIDGETS, label_selector="app=web")
        assert len({one, scoped, selected, factory.informer(WIDGETS, field_selector="metadata.name=a")}) == 4
        await factory.wait_for_sync(timeout=60)
        assert len(server.lists(WIDGETS)) == 4
        assert names(one.lister.list()) == ["a"]
        assert factory.informer(WIDGETS) is one
    await nothing_left(server)


def as_dict(obj: KubeObject) -> dict:
    return obj.to_dict()


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ({}, {"checks": [TIMEOUT_CHECK]}, "other checks;"),
        ({"checks": [TIMEOUT_CHECK]}, {}, "other checks;"),
        ({}, {"decode": as_dict}, "other decode;"),
        ({"decode": as_dict}, {"decode": lambda obj: obj}, "other decode;"),
        ({"decode": as_dict, "checks": [TIMEOUT_CHECK]}, {}, "other decode and checks;"),
    ],
)
async def test_another_way_to_judge(client, first: dict, second: dict, difference: str):
    """When the same thing is asked for with another decode or other checks, the error should name what differs."""
    async with InformerFactory(client) as factory:
        scope = {"namespace": "team-a", "label_selector": "app=web"}
        factory.informer(WIDGETS, **scope, **first)
        with pytest.raises(ValueError, match=difference) as caught:
            factory.informer(WIDGETS, **scope, **second)
        assert "widgets.v1.example.test (ns=team-a labels=app=web)" in str(caught.value)
        factory.informer(WIDGETS, **second)  # another scope


async def test_equal_checks_are_the_same(client):
    """When checks are made anew but say the same, it should be the same informer."""
    async with InformerFactory(client) as factory:
        one = factory.informer(WIDGETS, checks=[checks.duration("spec.timeout")])
        assert factory.informer(WIDGETS, checks=iter([checks.duration("spec.timeout")])) is one


async def test_scope_reaches_the_server(server: FakeApiServer, client):
    """When namespace and selectors are given, only such objects should be asked for and found."""
    server.create(WIDGETS, widget("a", labels={"app": "web"}))
    server.create(WIDGETS, widget("b"))
    server.create(WIDGETS, widget("c", namespace="team-b", labels={"app": "web"}))
    async with InformerFactory(client) as factory:
        informer = factory.informer(
            WIDGETS, namespace="team-a", label_selector="app=web", field_selector="metadata.name=a"
        )
        await factory.wait_for_sync(timeout=60)
        assert names(informer.lister.list()) == ["a"]
        (request,) = server.lists(WIDGETS)
        assert request.path == "/apis/example.test/v1/namespaces/team-a/widgets"
        assert request.query["labelSelector"] == "app=web"


async def test_before_and_after(client):
    """When the factory was not entered, or has ended, asking should be refused; and entering it again."""
    factory = InformerFactory(client)
    with pytest.raises(RuntimeError, match="enter the factory"):
        factory.informer(WIDGETS)
    async with factory:
        informer = factory.informer(WIDGETS)
        with pytest.raises(RuntimeError, match="started before"):
            await informer.__aenter__()
    assert informer.health.state == "stopped"
    for resource in (WIDGETS, PODS):
        with pytest.raises(RuntimeError, match="has ended"):
            factory.informer(resource)
    with pytest.raises(RuntimeError, match="used before"):
        async with factory:
            pass
    gc.collect()


async def test_it_lives_as_long_as_the_factory(server: FakeApiServer, client):
    """When the one who asked for an informer has gone, it should live on for the next."""
    async with InformerFactory(client) as factory:

        async def ask() -> None:
            await factory.informer(WIDGETS).wait_for_sync(timeout=10)

        await asyncio.create_task(ask())
        server.create(WIDGETS, widget("a"))
        await asyncio.sleep(1)
        assert names(factory.informer(WIDGETS).lister.list()) == ["a"]


async def test_one_bug_ends_all(server: FakeApiServer, client):
    """When one informer dies of a bug, the body should be cancelled, all others end, and the plain bug be raised."""

    async def broken() -> None:
        raise Bug("died")

    with pytest.raises(Bug):
        async with InformerFactory(client, options=InformerOptions(resync_period=10)) as factory:
            pods = factory.informer(PODS)
            widgets = factory.informer(WIDGETS)
            widgets._cache.resync = broken  # type: ignore[method-assign]
            await factory.wait_for_sync(timeout=5)
            await asyncio.sleep(HOUR)
    assert pods.health.state == widgets.health.state == "stopped"
    assert await pods.stopped() is None
    assert isinstance(await widgets.stopped(), Bug)
    with pytest.raises(RuntimeError):
        factory.informer(CLUSTERS)
    await nothing_left(server)


async def test_own_exceptions_stay_plain(client):
    """When the body raises, exactly that should come out."""
    with pytest.raises(LookupError):
        async with InformerFactory(client) as factory:
            factory.informer(WIDGETS)
            raise LookupError


async def test_every_laggard_is_named(server: FakeApiServer, client):
    """When some informers cannot sync, the error should name each with its reason, and none that could."""
    server.forbid(WIDGETS, "list")
    server.faults.add(match("list", CLUSTERS), faults.NoAnswer(), times=None)
    async with InformerFactory(client) as factory:
        for resource in (PODS, WIDGETS, CLUSTERS):
            factory.informer(resource)
        before = asyncio.get_running_loop().time()
        with pytest.raises(SyncError) as caught:
            await factory.wait_for_sync(timeout=10)
        assert asyncio.get_running_loop().time() - before == pytest.approx(10)
        text = str(caught.value)
        assert "widgets.v1.example.test is not synced: 403 Forbidden" in text
        assert "clusters.v1.example.test is not synced: no answer" in text
        assert "pods" not in text
        assert "10 s" in text
        assert caught.value.__cause__ is not None


async def test_no_hope_for_one_is_no_hope_for_all(server: FakeApiServer, client):
    """When there is no timeout and one informer is refused for good, waiting should end, though another may still come."""
    server.forbid(WIDGETS, "list")
    server.faults.add(match("list", CLUSTERS), faults.Answer(503, "later"), times=None)
    async with InformerFactory(client) as factory:
        factory.informer(WIDGETS)
        factory.informer(CLUSTERS)
        with pytest.raises(SyncError, match=r"clusters.*503.*widgets.*403"):
            async with asyncio.timeout(HOUR):
                await factory.wait_for_sync()
        server.allow(WIDGETS)
        server.faults.clear()
        await factory.wait_for_sync(timeout=600)


async def test_nothing_to_wait_for(client):
    """When no informer was asked for, waiting should return at once."""
    async with InformerFactory(client) as factory:
        await factory.wait_for_sync()
        await factory.wait_for_sync(timeout=0)
        assert list(factory.quarantined()) == []


async def test_quarantined(server: FakeApiServer, client):
    """When objects of several informers are bad, all should be found in one place, in order."""
    for name in ("b", "a", "fine"):
        server.create(WIDGETS, widget(name, timeout="1m" if name == "fine" else "1"))
    server.create(CLUSTERS, {"metadata": {"name": "c"}, "spec": {"timeout": "2"}})
    async with InformerFactory(client) as factory:
        factory.informer(WIDGETS, checks=[TIMEOUT_CHECK])
        clusters = factory.informer(CLUSTERS, decode=lambda obj: 1 / (obj["spec"]["timeout"] != "2"))
        await factory.wait_for_sync(timeout=60)
        assert [(entry.resource.plural, entry.key) for entry in factory.quarantined()] == [
            ("clusters", "c"),
            ("widgets", "team-a/a"),
            ("widgets", "team-a/b"),
        ]
        assert not clusters.lister.complete


async def test_wrap_stands_below_the_degraded_mode(server: FakeApiServer, client):
    """When `wrap` is given, it should get the plain source of every informer, and what it passes on should be judged."""
    server.create(WIDGETS, widget("a", timeout="1"))
    wrapped = []

    def wrap(source):
        wrapped.append(source)
        return source

    async with InformerFactory(client, wrap=wrap) as factory:
        informer = factory.informer(WIDGETS, checks=[TIMEOUT_CHECK])
        factory.informer(WIDGETS, checks=[TIMEOUT_CHECK])
        factory.informer(PODS)
        await factory.wait_for_sync(timeout=60)
        assert [type(source) for source in wrapped] == [ApiListerWatcher, ApiListerWatcher]
        assert [source.resource for source in wrapped] == [WIDGETS, PODS]
        assert informer.health.quarantined == 1
    async with InformerFactory(client, wrap=lambda source: DegradedListerWatcher(source, checks=[])) as factory:
        with pytest.raises(TypeError, match="over another"):
            factory.informer(WIDGETS)


async def test_metrics_tell_scopes_apart(client):
    """When informers differ in scope only, their metrics should not fall together."""
    registry = CollectorRegistry()
    options = InformerOptions(registry=registry, name="mine")
    async with InformerFactory(client, options=options) as factory:
        factory.informer(WIDGETS)
        factory.informer(WIDGETS, namespace="team-a")
        await factory.wait_for_sync(timeout=60)
        (family,) = [family for family in registry.collect() if family.name == "informer_synced"]
        assert {(s.labels["informer"], s.value) for s in family.samples} == {("mine", 1), ("mine ns=team-a", 1)}


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_logs_and_probes_tell_scopes_apart(
    server: FakeApiServer, client, stream: bool, caplog: pytest.LogCaptureFixture
):
    """When informers differ in scope only, every text about one of them should say which one."""
    server.faults.add(match("list"), faults.status_answer(500, "InternalError", "no"), times=None)
    server.faults.add(match("watch"), faults.status_answer(500, "InternalError", "no"), times=None)
    options = InformerOptions(initial_list="stream" if stream else "list")
    async with InformerFactory(client, options=options) as factory:
        informers = [
            factory.informer(WIDGETS),
            factory.informer(WIDGETS, namespace="team-a", label_selector="app=web"),
            factory.informer(WIDGETS, namespace="team-b", field_selector="metadata.name=a"),
        ]
        own = [
            "widgets.v1.example.test",
            "widgets.v1.example.test (ns=team-a labels=app=web)",
            "widgets.v1.example.test (ns=team-b fields=metadata.name=a)",
        ]
        with pytest.raises(SyncError) as caught:
            await factory.wait_for_sync(timeout=20)
        for name in own:
            assert f"{name} is not synced: 500 InternalError" in str(caught.value)
        assert [informer.name for informer in informers] == own
        assert [repr(informer) for informer in informers] == [f"SharedInformer({name}, failing)" for name in own]
        assert readiness(*informers)[1].splitlines() == [
            f"{informer.name}: failing, not synced, last error: {informer.health.last_error}" for informer in informers
        ]
        warnings = [record for record in caplog.records if record.name == "informer.reflector"]
        for name in own:
            assert any(record.getMessage().startswith(f"{name}: 500 InternalError") for record in warnings)
        assert {record.resource for record in warnings if hasattr(record, "resource")} == {own[0]}
        caplog.clear()
        server.faults.clear()
        await factory.wait_for_sync(timeout=100)
        for name in own:
            assert any(record.getMessage().startswith(f"{name}: the server answers again") for record in caplog.records)
        assert repr(informers[1]) == f"SharedInformer({own[1]}, live)"
    assert repr(informers[1]) == f"SharedInformer({own[1]}, stopped)"


async def test_waiting_after_the_end(server: FakeApiServer, client):
    """When the factory ends before the sync, who waits should hear that it has ended."""
    server.forbid(WIDGETS, "list")
    async with InformerFactory(client) as factory:
        factory.informer(WIDGETS)
        waiting = asyncio.create_task(factory.wait_for_sync(timeout=HOUR))
        await asyncio.sleep(0.1)
    with pytest.raises(InformerError, match="widgets"):
        await waiting
