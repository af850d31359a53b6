"""evict and evict_node through both clients a user may bring."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from eviction import EvictionThrottle, Outcome, PodRef, RefusalKind, evict, evict_node
from informer.testing import FakeApiServer, faults, match
from informer.testing.eviction import BUDGETS, PODS, FakeEvictions, budget
from tests.clients import CLIENTS, open_client

pytestmark = pytest.mark.parametrize("client", CLIENTS)
POST = match("create", PODS, subresource="eviction")


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([PODS, BUDGETS], bookmark_period=None) as server:
        FakeEvictions(server)
        yield server


@pytest.fixture
async def api(client: str, server: FakeApiServer) -> AsyncIterator[Any]:
    server.tokens = {"t-1"}
    async with open_client(client, server.url, token="t-1") as api:
        yield api


def create(server: FakeApiServer, name: str, app: str = "web") -> PodRef:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return PodRef.of(server.create(PODS, {"metadata": {"name": name, "labels": {"app": app}}, "status": status}))


def posts(server: FakeApiServer) -> list[Any]:
    return [json.loads(one.body) for one in server.requests if one.subresource == "eviction"]


async def test_a_pass_over_a_node(server: FakeApiServer, api: Any) -> None:
    """When one pod is protected and one is free, the free one should go, and the refusal be a budget's, with its name."""
    server.create(BUDGETS, budget("db", {"app": "db"}, allowed=0))
    pods = [create(server, "db-0", "db"), create(server, "web-0")]
    result = await evict_node(api, "n1", pods, throttle=EvictionThrottle(30))
    assert [one.outcome for one in result.results] == [Outcome.REFUSED, Outcome.EVICTED]
    (refusal,) = result.blocked.values()
    assert (refusal.kind, refusal.budget, refusal.status) == (RefusalKind.BUDGET, "db", 429)
    assert {body["deleteOptions"]["preconditions"]["uid"] for body in posts(server)} == {pod.uid for pod in pods}


async def test_a_dry_run(server: FakeApiServer, api: Any) -> None:
    """When it is a dry run, the server should hear so, and the pod stay."""
    pod = create(server, "web-0")
    assert (await evict(api, pod, dry_run=True)).outcome is Outcome.EVICTED
    assert server.get(PODS, "web-0")
    assert server.requests[-1].query == {"dryRun": "All"}


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (faults.Answer(503, "busy \xff", content_type="text/plain"), RefusalKind.OVERLOADED),
        (faults.Answer(429, b"Too many requests \xff", content_type="text/plain"), RefusalKind.OVERLOADED),
        (faults.status_answer(403, "Forbidden", "no"), RefusalKind.FORBIDDEN),
        (faults.NoAnswer(), RefusalKind.TRANSIENT),
    ],
    ids=["503", "429", "403", "silence"],
)
async def test_trouble_is_never_repeated(server: FakeApiServer, client: str, fault: Any, kind: RefusalKind) -> None:
    """When the server fails, and though the client is configured to retry, one eviction should be one request."""
    pod = create(server, "web-0")
    server.faults.add(POST, fault, times=None)
    async with open_client(client, server.url, retries=3, client_go_retries=True) as api:
        refusal = (await evict(api, pod, timeout=30)).refusal
    assert refusal is not None
    assert refusal.kind is kind
    assert len(posts(server)) == 1


async def test_a_server_that_is_not_there(client: str) -> None:
    """When nobody listens, it should be a transient refusal, not an exception of the client."""
    async with open_client(client, "http://127.0.0.1:9", retries=None) as api:
        refusal = (await evict(api, PodRef("web-0", "default", "u"), timeout=30)).refusal
    assert refusal is not None
    assert (refusal.kind, refusal.status) == (RefusalKind.TRANSIENT, None)


async def test_the_blocking_client(client: str) -> None:
    """When somebody brings the package's blocking client, it should be refused, with the name of the right one."""
    if client == "kubernetes_asyncio":

        class Blocking:
            def param_serialize(self) -> None: ...

        api: Any = Blocking()
    else:
        from kubernetes.client import ApiClient

        api = ApiClient()
    with pytest.raises(TypeError, match=r"blocks the event loop; use kubernetes\.aio"):
        await evict(api, PodRef("web-0", "default", "u"))
