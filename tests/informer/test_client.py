"""Both clients: what goes over the wire and what comes back should not depend on which one a user brings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from informer import (
    ApiError,
    ApiListerWatcher,
    InformerFactory,
    KubeObject,
    ListOptions,
    Resource,
    WatchOptions,
    checks,
)
from informer._client import refusal, require_usable, send
from informer.testing import End, FakeApiServer, faults, match
from tests.clients import CLIENTS, open_client

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
TRICKY = "env in (a,b),app!=x y,k=%2B+/&=ü"

pytestmark = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([WIDGETS]) as server:
        yield server


@pytest.fixture
async def api(client: str, server: FakeApiServer) -> AsyncIterator[Any]:
    async with open_client(client, server.url, token="t-1") as api:
        yield api


def answered(server: FakeApiServer) -> list[tuple[str, int | None]]:
    return [(one.verb, one.status) for one in server.requests]


async def test_an_informer(server: FakeApiServer, api: Any) -> None:
    """When an informer follows a resource, it should list it, hear of changes, and withhold what it cannot read."""
    for name, timeout in (("a", "10m"), ("b", "1")):
        server.create(WIDGETS, {"metadata": {"name": name}, "spec": {"timeout": timeout}})
    async with InformerFactory(api) as factory:
        widgets = factory.informer(WIDGETS, checks=[checks.duration("spec.timeout")])
        await factory.wait_for_sync(timeout=10)
        assert [one.name for one in widgets.lister.list()] == ["a"]
        made = server.patch(WIDGETS, "b", {"spec": {"timeout": "1m"}})
        await widgets.wait_for_version(made["metadata"]["resourceVersion"], timeout=10)
        assert widgets.lister.complete
    assert answered(server) == [("list", 200), ("watch", 200)]


async def test_what_is_asked_for(server: FakeApiServer, api: Any) -> None:
    """When selectors and tokens hold characters that mean something in a URL, the server should read them as they are."""
    server.tokens = {"t-1"}
    source = ApiListerWatcher(api, WIDGETS, namespace="team-a", label_selector=TRICKY, field_selector="metadata.name=a")
    server.faults.add(match(), faults.Answer(200, b'{"kind":"List","metadata":{"resourceVersion":"7"},"items":[]}'))
    await source.list(ListOptions(limit=2, continue_token="a+b/c=="))
    server.faults.add(match("watch"), faults.Script())
    async with source.watch(WatchOptions(resource_version="7", timeout=300)):
        pass
    listed, watched = server.requests
    assert {listed.status, watched.status} == {200}, "with the token"
    selectors = {"labelSelector": TRICKY, "fieldSelector": "metadata.name=a"}
    assert listed.query == selectors | {"limit": "2", "continue": "a+b/c=="}
    assert watched.query == selectors | {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }
    assert listed.path == watched.path == "/apis/example.test/v1/namespaces/team-a/widgets"
    for request in (listed, watched):
        assert request.headers["accept"] == "application/json"
        assert "python" in request.headers["user-agent"], "the client's own"
    assert watched.headers["accept-encoding"] == "identity"


async def test_an_expired_token(server: FakeApiServer, api: Any) -> None:
    """When the server takes the token no more, it should be a 401, the hook be asked, and the fresh token be sent."""
    server.tokens = {"t-2"}

    async def fetch() -> None:
        api.configuration.api_key["BearerToken"] = "Bearer t-2"

    source = ApiListerWatcher(api, WIDGETS, on_unauthorized=fetch)
    with pytest.raises(ApiError) as caught:
        await source.list(ListOptions())
    assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")
    assert (await source.list(ListOptions())).items == []


async def test_a_refresh_hook(server: FakeApiServer, api: Any) -> None:
    """When the client refreshes its token itself before each request, every request should carry the fresh one."""
    asked = 0

    async def refresh(configuration: Any) -> None:
        nonlocal asked
        asked += 1
        configuration.api_key["BearerToken"] = f"Bearer fresh-{asked}"

    api.configuration.refresh_api_key_hook = refresh
    for number in (1, 2):
        server.tokens = {f"fresh-{number}"}
        await ApiListerWatcher(api, WIDGETS).list(ListOptions())
    assert answered(server) == [("list", 200)] * 2


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        (faults.status_answer(403, "Forbidden", "no"), 403, "Forbidden"),
        (faults.status_answer(410, "Expired", "old"), 410, "Expired"),
        (faults.Answer(502, "<html>\xff</html>", content_type="text/html"), 502, ""),
        (faults.Cut(after_bytes=20, then=End.RESET), 0, "ConnectionError"),
        (faults.NoAnswer(), 0, "Timeout"),
    ],
    ids=["403", "410", "proxy", "reset", "silence"],
)
async def test_trouble(server: FakeApiServer, api: Any, fault: Any, status: int, reason: str) -> None:
    """When the server refuses or breaks off, the error should say the same through both clients."""
    server.create(WIDGETS, {"metadata": {"name": "a"}})
    server.faults.add(match("list"), fault)
    with pytest.raises(ApiError) as caught:
        await ApiListerWatcher(api, WIDGETS).list(ListOptions())
    assert (caught.value.status, caught.value.reason) == (status, reason)


async def test_a_watch_outlives_the_clients_own_limit(server: FakeApiServer, api: Any) -> None:
    """When a watch is silent for longer than the official client's default limit of five minutes, it should go on."""
    async with ApiListerWatcher(api, WIDGETS).watch(WatchOptions(resource_version="0", timeout=600)) as events:
        asyncio.get_running_loop().call_later(550, lambda: server.create(WIDGETS, {"metadata": {"name": "late"}}))
        found = [event async for event in events if isinstance(getattr(event, "object", None), KubeObject)]
    assert [item.key for item in found] == ["default/late"]  # type: ignore[union-attr]  # an Item, by the line above


async def test_no_connection_is_left_behind(server: FakeApiServer, api: Any) -> None:
    """When requests end in every way, no connection should stay with an answer half read."""
    server.create(WIDGETS, {"metadata": {"name": "a"}})
    source = ApiListerWatcher(api, WIDGETS)
    async with source.watch(WatchOptions(resource_version="0", timeout=300)) as events:
        await anext(events)
    server.faults.add(match("list"), faults.Answer(500, b"x" * 100_000))
    with pytest.raises(ApiError):
        await source.list(ListOptions())
    assert len((await source.list(ListOptions())).items) == 1
    await server.wait_until(lambda: server.open_connections <= 1)


async def test_the_client_retries_by_itself(client: str, server: FakeApiServer) -> None:
    """When the official client was told to honour Retry-After itself, what it raises in the end should be the refusal."""
    answer = faults.status_answer(429, "TooManyRequests", "slow down", retry_after=1)
    server.faults.add(match("list"), answer, times=None)
    async with open_client(client, server.url, retries=2, client_go_retries=True) as api:
        with pytest.raises(ApiError) as caught:
            await ApiListerWatcher(api, WIDGETS).list(ListOptions())
    assert (caught.value.status, caught.value.retry_after) == (429, 1.0)


async def test_a_post_is_sent_once(client: str, server: FakeApiServer) -> None:
    """When the client is configured to retry and the server fails, a POST should be sent once all the same."""
    server.faults.add(match(), faults.Answer(503, "busy"), times=None)
    async with open_client(client, server.url, retries=3) as api:
        body: dict[str, Any] = {"metadata": {"name": "a"}}
        response = await send(
            api, "POST", WIDGETS.path("x"), query={"dryRun": "All"}, headers={}, timeout=30, body=body
        )
        assert (response.status, await response.read()) == (503, b"busy")
    (request,) = server.requests
    assert (request.verb, request.query) == ("create", {"dryRun": "All"})
    assert json.loads(request.body) == body


async def test_the_blocking_client(client: str) -> None:
    """When somebody brings the package's blocking client, it should be refused at once, with the name of the right one."""
    if client == "kubernetes_asyncio":

        class Blocking:
            def param_serialize(self) -> None: ...

        api: Any = Blocking()
    else:
        from kubernetes.client import ApiClient

        api = ApiClient()
    for make in (lambda: ApiListerWatcher(api, WIDGETS), lambda: InformerFactory(api), lambda: require_usable(api)):
        with pytest.raises(TypeError, match=r"blocks the event loop; use kubernetes\.aio"):
            make()


def test_what_is_no_refusal(client: str) -> None:
    """When an exception has no status, it should stay what it is: a bug of the client's is no answer of the server's."""
    assert refusal(ValueError("x")) is None
    assert refusal(ApiError("no connection")) is None


async def test_no_configuration(client: str) -> None:
    """When a client was made before a configuration was loaded, it should be refused at once, with what to do."""
    async with open_client(client, "") as api:
        for take in (InformerFactory, lambda api: ApiListerWatcher(api, WIDGETS)):
            with pytest.raises(ValueError, match=r"has no server: load a configuration first"):
                take(api)
