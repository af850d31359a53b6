"""A fake server, a plain HTTP client for it, and the resources they speak of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from attrs import define

from informer.resource import Resource
from informer.testing import FakeApiServer

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
CLUSTERS = Resource("example.test", "v1", "clusters", kind="Cluster", namespaced=False)
PODS = Resource("", "v1", "pods", kind="Pod")


def widget(name: str, *, namespace: str = "team-a", labels: dict[str, str] | None = None, **spec: object) -> dict:
    meta: dict[str, object] = {"name": name, "namespace": namespace}
    if labels:
        meta["labels"] = labels
    return {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": meta, "spec": spec}


@define
class Http:
    """Raw requests, so that nothing is hidden by a client library."""

    session: aiohttp.ClientSession

    async def __call__(
        self, method: str, path: str, body: object = None, *, kind: str = "application/json", **query: str
    ):
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": kind} if data is not None else {}
        async with self.session.request(method, path, data=data, params=query, headers=headers) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text.decode()

    def watch(self, path: str = "/apis/example.test/v1/widgets", **query: str):
        return self.session.get(path, params={"watch": "true", **query})


async def event(answer: aiohttp.ClientResponse) -> tuple[str, dict] | None:
    """The next event of a watch; None at its end."""
    line = await answer.content.readline()
    if not line:
        return None
    value = json.loads(line)
    return value["type"], value["object"]


async def events(answer: aiohttp.ClientResponse) -> list[tuple[str, str, str]]:
    """All events until the end: type, name, resource version."""
    found = []
    while (one := await event(answer)) is not None:
        meta = one[1]["metadata"]
        found.append((one[0], meta.get("name", ""), meta.get("resourceVersion", "")))
    return found


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([WIDGETS, CLUSTERS, PODS]) as server:
        yield server


@pytest.fixture
async def http(server: FakeApiServer) -> AsyncIterator[Http]:
    # No timeouts: what never ends must be seen as a deadlock or by the test's own limit.
    async with aiohttp.ClientSession(server.url, timeout=aiohttp.ClientTimeout()) as session:
        yield Http(session)
