"""A client certificate that is refused, and the program of the page about it, which gives a running client another one."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import TraceConfig
from attrs import define, evolve

from eviction import Outcome, PodRef, RefusalKind, evict
from eviction._client import send
from informer import ApiError, ApiListerWatcher, ListOptions, SharedInformer
from informer.testing import FakeApiServer, faults, match
from informer.testing.eviction import BUDGETS, PODS, FakeEvictions
from tests.clients import CLIENTS, open_configured
from tests.security.renewing import LOGGERS, renewing
from tests.security.secrets import Outlet, logging_into
from tests.security.tls import Authority, Issued, TlsFront, tls_front

pytestmark = pytest.mark.parametrize("client", CLIENTS)


@define
class World:
    """A server behind TLS, a user's files, and the authorities of yesterday and of tomorrow."""

    server: FakeApiServer
    front: TlsFront
    old: Authority
    new: Authority
    kubeconfig: Path

    def install(self, issued: Issued) -> None:
        """Put a certificate where the kubeconfig says."""
        (self.kubeconfig.parent / "user.crt").write_bytes(issued.cert.read_bytes())
        (self.kubeconfig.parent / "user.key").write_bytes(issued.key.read_bytes())

    def embed(self, issued: Issued) -> None:
        """Put a certificate into the kubeconfig itself."""
        config = json.loads(self.kubeconfig.read_text())
        cert, key = (base64.b64encode(file.read_bytes()).decode() for file in (issued.cert, issued.key))
        config["users"][0]["user"] = {"client-certificate-data": cert, "client-key-data": key}
        self.kubeconfig.write_text(json.dumps(config))

    async def demand_new(self, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        """From now on a certificate of the new authority is needed."""
        context = self.old.server_context(trusts=self.new)
        context.maximum_version = version
        await self.front.demand(context)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    directory = tmp_path_factory.mktemp("authorities")
    return Authority.create(directory / "old"), Authority.create(directory / "new")


@pytest.fixture
async def world(authorities: tuple[Authority, Authority], tmp_path: Path) -> AsyncIterator[World]:
    old, new = authorities
    async with FakeApiServer([PODS, BUDGETS]) as server, tls_front(server.url, old.server_context()) as front:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": front.url, "certificate-authority": str(old.root.cert)}}],
            "users": [{"name": "u", "user": {"client-certificate": "user.crt", "client-key": "user.key"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        made = World(server, front, old, new, tmp_path / "kubeconfig")
        FakeEvictions(server)
        server.create(PODS, {"metadata": {"name": "a"}})
        yield made


def names(informer: SharedInformer[Any]) -> list[str]:
    return sorted(pod.name for pod in informer.lister.list())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
async def test_refused_by_the_handshake(world: World, client: str, version: ssl.TLSVersion):
    """When a server takes a certificate no more, an informer should say so, wait, and go on once the client was renewed."""
    first, second = world.old.issue("first"), world.new.issue("second")
    world.install(first)
    renew = renewing(client, world.kubeconfig)
    asked: list[str] = []

    async def ask() -> None:
        asked.append("on_unauthorized")

    outlet = Outlet()
    async with await open_configured(client, str(world.kubeconfig)) as api:
        with logging_into(outlet, *LOGGERS):
            async with SharedInformer(ApiListerWatcher(api, PODS, on_unauthorized=ask)) as informer:
                await informer.wait_for_sync(timeout=60)
                assert set(world.front.peers) == {"first"}
                await world.demand_new(version)
                await asyncio.sleep(120)
                health = informer.health
                assert health.state == "failing"
                assert "ConnectionError" in str(health.last_error)
                assert "None" not in str(health.last_error)
                assert 3 <= health.consecutive_failures <= 20, "by its backoff"
                outlet.take(health, health.last_error, informer)
                world.install(second)
                refused = health.consecutive_failures
                await asyncio.sleep(120)
                assert informer.health.consecutive_failures > refused, "new files alone change nothing"
                assert names(informer) == ["a"], "what was known can still be read"
                await renew(api)
                world.server.create(PODS, {"metadata": {"name": "b"}})
                await asyncio.sleep(60)
                assert informer.health.state == "live"
                assert names(informer) == ["a", "b"]
                assert set(world.front.peers) == {"first", "second"}
                assert len(world.server.lists()) == 1
    assert not asked
    assert not first.leaks(outlet.texts)
    assert not second.leaks(outlet.texts)
    said = [text for text in outlet.texts if "in a row" in text and "\n" not in text]
    assert any("ConnectionError" in text for text in said), outlet.texts


@asynccontextmanager
async def refusing(context: ssl.SSLContext, port: int) -> AsyncIterator[None]:
    """A server whose every handshake fails, with the alert that says why: asyncio's would close the connection without one."""
    loop = asyncio.get_running_loop()

    async def serve() -> None:
        while True:
            plain, _ = await loop.sock_accept(listener)
            await asyncio.to_thread(shake_hands, plain)

    def shake_hands(plain: socket.socket) -> None:
        with plain:
            plain.setblocking(True)
            with suppress(ssl.SSLError):
                context.wrap_socket(plain, server_side=True).close()

    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.setblocking(False)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(serve())
            yield
            serving.cancel()


async def test_expired(world: World, client: str):
    """When a certificate has expired, an informer should name what TLS says about it, and start once there is another."""
    world.install(world.old.issue("late", seconds=-60.0))
    context = world.old.server_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # here the client reads the alert before it sends a request
    async with (
        await open_configured(client, str(world.kubeconfig)) as api,
        SharedInformer(ApiListerWatcher(api, PODS)) as informer,
    ):
        await world.front.stop()
        async with refusing(context, world.front.port):
            await asyncio.sleep(60)
            assert informer.health.state == "failing"
            assert "alert certificate expired" in str(informer.health.last_error)
        await world.front.start()
        world.install(world.old.issue("fresh"))
        await renewing(client, world.kubeconfig)(api)
        await informer.wait_for_sync(timeout=120)
        assert set(world.front.peers) == {"fresh"}


async def test_renewed_after_a_401(world: World, client: str):
    """When the server answers 401, `on_unauthorized` may renew the client, and the next attempt should have the new one."""
    world.install(world.old.issue("first"))
    renew = renewing(client, world.kubeconfig)
    async with await open_configured(client, str(world.kubeconfig)) as api:
        source = ApiListerWatcher(api, PODS, on_unauthorized=lambda: renew(api))
        async with SharedInformer(source) as informer, SharedInformer(source) as other:
            for one in (informer, other):
                await one.wait_for_sync(timeout=60)
            world.install(world.old.issue("second"))
            world.server.faults.add(match(), faults.status_answer(401, "Unauthorized", "who are you?"), times=2)
            world.server.end_watches()
            await asyncio.sleep(120)
            world.server.create(PODS, {"metadata": {"name": "b"}})
            await asyncio.sleep(60)
            assert (informer.health.state, other.health.state) == ("live", "live")
            assert names(informer) == names(other) == ["a", "b"]
            assert world.front.peers[-1] == "second"
            assert {one.health.consecutive_failures for one in (informer, other)} == {0}
            assert len(world.server.lists()) == 2, "one each, from the beginning"


@pytest.mark.parametrize("put", [World.install, World.embed])
async def test_renewed_in_time(world: World, client: str, put: Callable[[World, Issued], None]):
    """When a client is renewed before anything is refused, the open watch should go on with the new one, and nothing be lost."""
    put(world, world.old.issue("first"))
    async with await open_configured(client, str(world.kubeconfig)) as api:
        async with SharedInformer(ApiListerWatcher(api, PODS)) as informer:
            await informer.wait_for_sync(timeout=60)
            put(world, world.old.issue("second"))
            await renewing(client, world.kubeconfig)(api)
            world.server.create(PODS, {"metadata": {"name": "b"}})
            await asyncio.sleep(60)
            assert informer.health.state == "live"
            assert names(informer) == ["a", "b"]
            assert (world.front.peers[0], world.front.peers[-1]) == ("first", "second")
            assert len(world.server.lists()) == 1


@asynccontextmanager
async def one_on_its_way(api: Any) -> AsyncIterator[Callable[[Coroutine[Any, Any, Any]], Awaitable[asyncio.Task[Any]]]]:
    """Begins a request that waits just before its connection until the block is left."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hold(*_: Any) -> None:
        reached.set()
        await go_on.wait()

    trace = TraceConfig()
    trace.on_request_start.append(hold)
    trace.freeze()
    api.rest_client.pool_manager.trace_configs.append(trace)

    async def begin(request: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(request)
        await reached.wait()
        return task

    yield begin
    go_on.set()


async def test_renewed_while_a_list_is_on_its_way(world: World, client: str):
    """When a client is renewed before a LIST has its connection, it should be a broken connection, which is tried again."""
    world.install(world.old.issue("first"))
    async with await open_configured(client, str(world.kubeconfig)) as api:
        source = ApiListerWatcher(api, PODS)
        await source.list(ListOptions())
        async with one_on_its_way(api) as begin:
            task = await begin(source.list(ListOptions()))
            await renewing(client, world.kubeconfig)(api)
        with pytest.raises(ApiError, match="ConnectionError: .* session was replaced"):
            await task
        await source.list(ListOptions())


async def test_renewed_while_an_eviction_is_on_its_way(world: World, client: str):
    """When a client is renewed before an eviction has its connection, it should be refused as transient, and nobody be evicted."""
    world.install(world.old.issue("first"))
    pod = PodRef.of(world.server.get(PODS, "a"))
    async with await open_configured(client, str(world.kubeconfig)) as api:
        await evict(api, pod, dry_run=True)  # which asks for the version of evictions, once
        async with one_on_its_way(api) as begin:
            task = await begin(evict(api, pod))
            await renewing(client, world.kubeconfig)(api)
        result = await task
        assert result.outcome is Outcome.REFUSED
        assert (result.refusal.kind, result.refusal.status) == (RefusalKind.TRANSIENT, None)
        assert "session was replaced" in result.refusal.message
        assert (await evict(api, pod)).outcome is Outcome.EVICTED


async def test_an_error_of_the_clients_own(world: World, client: str):
    """When a client raises such an error by itself, with the session it had, it should stay what it is: a bug."""
    world.install(world.old.issue("first"))

    async def raises(*_: Any) -> None:
        raise AssertionError("a bug of the user's trace")

    trace = TraceConfig()
    trace.on_request_start.append(raises)
    trace.freeze()
    async with await open_configured(client, str(world.kubeconfig)) as api:
        await ApiListerWatcher(api, PODS).list(ListOptions())
        api.rest_client.pool_manager.trace_configs.append(trace)
        with pytest.raises(AssertionError, match="a bug of the user's trace"):
            await ApiListerWatcher(api, PODS).list(ListOptions())
        with pytest.raises(AssertionError, match="a bug of the user's trace"):
            await send(api, "POST", "/", timeout=9)


async def test_files_that_do_not_fit(world: World, client: str):
    """When a file is only half replaced, renewing should be an error, and the client go on with what it has."""
    first, second = world.old.issue("first"), world.old.issue("second")
    world.install(first)
    async with await open_configured(client, str(world.kubeconfig)) as api:
        source = ApiListerWatcher(api, PODS)
        await source.list(ListOptions())
        world.install(evolve(second, key=first.key))
        before = api.rest_client
        with pytest.raises(ssl.SSLError) as refused:
            await renewing(client, world.kubeconfig)(api)
        assert api.rest_client is before
        await source.list(ListOptions())
        outlet = Outlet()
        outlet.take(refused.value)
        assert not first.leaks(outlet.texts)
    assert set(world.front.peers) == {"first"}
