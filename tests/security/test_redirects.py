"""A redirect is no answer and is not followed: nothing at its end becomes the cache, and nothing of a request reaches it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web
from attrs import Factory, define

from eviction import Outcome, PodRef, RefusalKind, evict
from informer import ApiError, ApiListerWatcher, ListOptions, Resource, SharedInformer, WatchOptions
from informer._client import send
from informer.testing import FakeApiServer, faults, match
from tests.clients import CLIENTS, open_client
from tests.security.tls import Authority, tls_front

PODS = Resource("", "v1", "pods", kind="Pod")
TOKEN, API_KEY, COOKIE, PROXY_AUTH = "tok3n-of-the-client", "k3y-in-a-header", "session=c00kie", "Basic cHJveHk6cHc="
EMPTY = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}'
HEADERS = {"X-Api-Key": API_KEY, "Cookie": COOKIE, "Proxy-Authorization": PROXY_AUTH}
CODES = [301, 302, 303, 307, 308]


@define
class Stranger:
    """A server that answers everybody, and writes down who came with what.

    Attributes:
        connections: for each, the subject of the client's certificate.
        requests: for each, all that was in it, as one text.
    """

    url: str = ""
    connections: list[Any] = Factory(list)
    requests: list[str] = Factory(list)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.requests.append(f"{request.method} {request.raw_path} {dict(request.headers)} {await request.text()}")
        return web.Response(body=EMPTY, content_type="application/json")

    @property
    def untouched(self) -> bool:
        return not self.connections and not self.requests


class _Listening(web.Server):
    def __init__(self, stranger: Stranger) -> None:
        super().__init__(stranger.answer)
        self.stranger = stranger

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.stranger.connections.append((transport.get_extra_info("peercert") or {}).get("subject"))


@asynccontextmanager
async def listening(context: ssl.SSLContext | None = None) -> AsyncIterator[Stranger]:
    """A stranger under another name than the API server's, which is 127.0.0.1."""
    stranger = Stranger()
    serving = _Listening(stranger)
    listener = await asyncio.get_running_loop().create_server(serving, "127.0.0.1", 0, ssl=context)
    stranger.url = f"{'https' if context else 'http'}://localhost:{listener.sockets[0].getsockname()[1]}"
    try:
        yield stranger
    finally:
        listener.close()
        await serving.shutdown(0)


@pytest.fixture
async def theirs() -> AsyncIterator[Stranger]:
    async with listening() as stranger:
        yield stranger


@pytest.fixture
async def ours() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([PODS]) as server:
        yield server


@asynccontextmanager
async def loaded(client: str, url: str, **settings: Any) -> AsyncIterator[Any]:
    """A client with a secret in each place where a user can put one."""
    async with open_client(client, url, token=TOKEN, **settings) as api:
        for name, value in HEADERS.items():
            api.set_default_header(name, value)
        yield api


def redirect(code: int, to: str) -> faults.Answer:
    return faults.Answer(code, "moved", headers={"Location": to})


async def ask_list(api: Any) -> None:
    await ApiListerWatcher(api, PODS).list(ListOptions())


async def ask_watch(api: Any) -> None:
    async with ApiListerWatcher(api, PODS).watch(WatchOptions(resource_version="1")) as events:
        async for _ in events:
            pass


ASK: dict[str, Callable[[Any], Awaitable[None]]] = {"list": ask_list, "watch": ask_watch}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("verb", ASK)
async def test_another_host(client: str, code: int, verb: str, ours: FakeApiServer, theirs: Stranger):
    """When a request is redirected to another host, it should be an error that names it, and nothing be sent there."""
    ours.faults.add(match(verb), redirect(code, f"{theirs.url}/login?state=s3cret"))
    async with loaded(client, ours.url) as api:
        with pytest.raises(ApiError) as refused:
            await ASK[verb](api)
    assert (refused.value.status, refused.value.reason) == (code, "Redirected")
    assert f"redirected to {theirs.url}; an API server never redirects" in str(refused.value)
    assert "`server` of the kubeconfig" in str(refused.value)
    assert theirs.untouched
    (asked,) = ours.requests
    assert asked.headers["x-api-key"] == API_KEY, "at home it was sent"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("code", CODES)
async def test_an_eviction(client: str, code: int, ours: FakeApiServer, theirs: Stranger):
    """When an eviction is redirected to a page that answers 200, it should be refused, and nothing be sent there."""
    ours.faults.add(match("create"), redirect(code, f"{theirs.url}/login"))
    async with loaded(client, ours.url) as api:
        result = await evict(api, PodRef("a", "default", "u"))
    assert result.outcome is Outcome.REFUSED
    assert result.refusal is not None
    assert (result.refusal.kind, result.refusal.status) == (RefusalKind.INVALID, code)
    assert f"redirected to {theirs.url}; an API server never redirects" in result.refusal.message
    assert theirs.untouched
    assert [one.verb for one in ours.requests].count("create") == 1


@pytest.mark.parametrize("client", CLIENTS)
async def test_what_is_asked_before_an_eviction(client: str, ours: FakeApiServer, theirs: Stranger):
    """When the question for the version of evictions is redirected, nothing should be sent there either."""
    ours.faults.add(match(), redirect(302, theirs.url))
    ours.faults.add(match("create"), faults.status_answer(429, "TooManyRequests", "later"))
    async with loaded(client, ours.url) as api:
        await evict(api, PodRef("a", "default", "u"))
    assert len(ours.requests) == 2
    assert theirs.untouched


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_an_event(client: str, method: str, ours: FakeApiServer, theirs: Stranger):
    """When a write is redirected, as that of an Event about a bad object, neither its body nor its headers should go on."""
    ours.faults.add(match(), redirect(307, theirs.url))
    async with loaded(client, ours.url) as api:
        with pytest.raises(Exception, match="redirected to"):
            await send(api, method, PODS.path("x"), query={}, headers={}, timeout=9, body={"note": "n"})
    assert theirs.untouched


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.create(tmp_path_factory.mktemp("redirects") / "authority")


@asynccontextmanager
async def certified(client: str, ours: FakeApiServer, authority: Authority) -> AsyncIterator[tuple[Any, Any, Any]]:
    """Another server, what stands before our own with TLS, and a client that has a certificate."""
    issued = authority.issue("user")
    async with (
        listening(authority.server_context(demand=False)) as theirs,
        tls_front(ours.url, authority.server_context()) as front,
        loaded(
            client,
            front.url,
            ssl_ca_cert=str(authority.root.cert),
            cert_file=str(issued.cert),
            key_file=str(issued.key),
        ) as api,
    ):
        yield theirs, front, api


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("verb", [*ASK, "evict"])
async def test_a_client_certificate(client: str, verb: str, ours: FakeApiServer, authority: Authority):
    """When a client has a certificate, it should be presented to its server, and to no other."""
    async with certified(client, ours, authority) as (theirs, front, api):
        ours.faults.add(match("create" if verb == "evict" else verb), redirect(307, theirs.url))
        if verb == "evict":
            result = await evict(api, PodRef("a", "default", "u"))
            assert "redirected to" in str(result.refusal)
        else:
            with pytest.raises(ApiError, match=f"redirected to {theirs.url}"):
                await ASK[verb](api)
    assert set(front.peers) == {"user"}
    assert theirs.untouched


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_stranger_sees_what_comes(client: str, ours: FakeApiServer, authority: Authority):
    """When the same client follows a redirect, for a request that is not ours, all of it should be seen: the tests can fail."""
    async with certified(client, ours, authority) as (theirs, _, api):
        await ask_list(api)  # from here on the session asks before it follows
        ours.faults.add(match("list"), redirect(307, theirs.url))
        path: tuple[str, str] = (PODS.path(), "GET")
        if client == "kubernetes_asyncio":
            response = await api.call_api(*path, auth_settings=["BearerToken"], _preload_content=False)
        else:
            response = (await api.call_api(*await api.param_serialize(*reversed(path)))).response
        assert (response.status, len(response.history)) == (200, 1)
        response.release()
    assert theirs.connections == [((("commonName", "user"),),)]
    assert API_KEY in theirs.requests[0]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "settings",
    [{"retries": 2}, {"retries": 2, "client_go_retries": True}, {"client_session_kwargs": {"trace_configs": []}}],
)
async def test_settings_of_the_official_client(client: str, settings: Any, ours: FakeApiServer, theirs: Stranger):
    """When the client repeats requests by itself or has traces of its own, nothing should be sent there all the same."""
    ours.faults.add(match("list"), redirect(302, theirs.url), times=None)
    async with loaded(client, ours.url, **settings) as api:
        with pytest.raises(ApiError, match="302 Redirected"):
            await ask_list(api)
    assert theirs.untouched


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_new_session(client: str, ours: FakeApiServer, theirs: Stranger):
    """When the client gets a new session, as for a new certificate, that one should be watched as well, once."""
    async with loaded(client, ours.url) as api:
        for _ in range(3):
            await ask_list(api)
            await evict(api, PodRef("a", "default", "u"))
        assert len(api.rest_client.pool_manager.trace_configs) == 2, "one of each package"
        old, api.rest_client = api.rest_client, type(api.rest_client)(api.configuration)
        await old.close()
        ours.faults.add(match("list"), redirect(302, theirs.url))
        with pytest.raises(ApiError, match="302 Redirected"):
            await ask_list(api)
    assert theirs.untouched


class Passing:
    """A user's own object around a client, which has nothing but `call_api`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def call_api(self, *args: Any, **kwargs: Any) -> Any:
        return await self._inner.call_api(*args, **kwargs)


class PassingMore(Passing):
    @property
    def rest_client(self) -> Any:
        return self._inner.rest_client


async def test_a_wrapped_client(ours: FakeApiServer, theirs: Stranger):
    """When a client is wrapped, the answer should be refused at least; with `rest_client` nothing should be sent there."""
    ours.faults.add(match(), redirect(302, theirs.url), times=None)
    pod = PodRef("a", "default", "u")
    async with loaded("kubernetes_asyncio", ours.url) as api:
        with pytest.raises(ApiError, match=f"302 Redirected: list pods.v1: redirected to {theirs.url}"):
            await ask_list(PassingMore(api))
        assert (await evict(PassingMore(api), pod)).outcome is Outcome.REFUSED
        assert theirs.untouched
    async with loaded("kubernetes_asyncio", ours.url) as api:
        with pytest.raises(ApiError, match=f"302 Redirected: list pods.v1: redirected to {theirs.url}"):
            await ask_list(Passing(api))
        assert (await evict(Passing(api), pod)).outcome is Outcome.REFUSED
        assert not theirs.untouched


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/login?token=s3cret", "http://127.0.0.1:"),
        ("//evil.test/s3cret", "http://evil.test;"),
        ("https://user:s3cret@evil.test:8443/x", "https://evil.test:8443;"),
        ("http://[s3cret", "an address that cannot be read"),
        ("ftp://evil.test/s3cret", "ftp://evil.test;"),
        ("", "http://127.0.0.1:"),
    ],
)
async def test_where_to(location: str, shown: str, ours: FakeApiServer):
    """When a redirect leads anywhere, within its host as well, the error should name scheme, host and port, and no more."""
    ours.create(PODS, {"metadata": {"name": "a"}})
    ours.faults.add(match("list"), redirect(302, location))
    async with loaded("kubernetes_asyncio", ours.url) as api:
        with pytest.raises(ApiError) as refused:
            await ask_list(api)
    assert f"302 Redirected: list pods.v1: redirected to {shown}" in str(refused.value)
    assert "s3cret" not in repr((refused.value, refused.value.__cause__))
    assert TOKEN not in repr(refused.value)
    assert refused.value.__suppress_context__
    assert len(ours.requests) == 1


async def test_no_connection_is_left_behind(ours: FakeApiServer):
    """When redirects with long pages are refused, their connections should be closed."""
    page = faults.Answer(302, b"x" * 10_000_000, headers={"Location": "/login"})
    ours.faults.add(match("list"), page, times=3)
    async with loaded("kubernetes_asyncio", ours.url) as api:
        for _ in range(3):
            with pytest.raises(ApiError):
                await ask_list(api)
        await ours.wait_until(lambda: ours.open_connections == 0)


async def test_other_requests_of_the_client(ours: FakeApiServer):
    """When a program uses the session for itself, redirects should be followed there as before."""
    ours.create(PODS, {"metadata": {"name": "a"}})
    async with loaded("kubernetes_asyncio", ours.url) as api:
        await ask_list(api)
        await evict(api, PodRef("a", "default", "u"))
        session: ClientSession = api.rest_client.pool_manager
        ours.faults.add(match("list"), redirect(302, PODS.path("default")))
        async with session.get(ours.url + PODS.path()) as response:
            assert (response.status, len(response.history)) == (200, 1)


async def test_an_informer_stays_with_its_server(ours: FakeApiServer):
    """When a server redirects everything for a while, nothing of the other host should reach the store, then or later."""
    async with FakeApiServer([PODS]) as theirs, ours.api_client(token=TOKEN) as client:
        theirs.create(PODS, {"metadata": {"name": "theirs", "namespace": "default"}})
        ours.create(PODS, {"metadata": {"name": "ours", "namespace": "default"}})
        rule = ours.faults.add(match(), redirect(307, theirs.url + PODS.path()), times=None)
        async with SharedInformer(ApiListerWatcher(client, PODS)) as informer:
            await asyncio.sleep(60)
            assert informer.health.state == "failing"
            assert not informer.health.synced
            ours.faults.remove(rule)
            await informer.wait_for_sync(timeout=120)
            assert [pod.name for pod in informer.lister.list()] == ["ours"]
        assert not theirs.requests
