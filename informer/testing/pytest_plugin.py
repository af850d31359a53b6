"""Fixtures for pytest and pytest-asyncio: an event loop with virtual time, a fake API server, and fake sources.

Nothing happens until a project asks for it in its top-level `conftest.py`:

    pytest_plugins = ["informer.testing.pytest_plugin"]

and then nothing happens to a test that asks for none of these fixtures.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import pytest_asyncio

from informer.resource import Resource
from informer.testing.cluster import FakeCluster
from informer.testing.memory import FakeListerWatcher
from informer.testing.server import FakeApiServer
from informer.testing.virtual import VirtualTimeLoop

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

VIRTUAL = "virtual_loop"


class MakesSources(Protocol):
    """What `fake_source` is."""

    def __call__(self, resource: Resource, /, **options: Any) -> FakeListerWatcher:
        """A source of this resource; the options are `FakeListerWatcher`'s."""
        ...


# Last, so that a project's own hook decides for the tests it has something to say about.
@pytest.hookimpl(trylast=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of each asynchronous test: a virtual one where the test asks for it."""
    if VIRTUAL in getattr(item, "fixturenames", ()):
        return {"virtual": VirtualTimeLoop}
    return {"asyncio": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def virtual_loop() -> VirtualTimeLoop:
    """The loop the test runs on, whose clock jumps. For a whole module: `pytestmark = pytest.mark.usefixtures("virtual_loop")`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        pytest.fail(
            "virtual_loop: the test runs on another loop, because it is requested too late (getfixturevalue), the loop is"
            " shared by several tests (loop_scope), or another pytest_asyncio_loop_factories hook chose it"
        )
    return loop


@pytest_asyncio.fixture
async def fake_api_server() -> AsyncIterator[FakeApiServer]:
    """A running `FakeApiServer` that serves nothing yet: `fake_api_server.add_resource(…)`. Its objects go with the test."""
    async with FakeApiServer() as server:
        yield server


@pytest_asyncio.fixture
async def fake_api_client(fake_api_server: FakeApiServer) -> AsyncIterator[ApiClient]:
    """A kubernetes-asyncio `ApiClient` for `fake_api_server`."""
    async with fake_api_server.api_client() as client:
        yield client


@pytest.fixture
def fake_source() -> MakesSources:
    """Makes sources in memory, `fake_source(PODS, namespace="shop")`, for what stands above the seam.

    Those of one test share their objects, so that two scopes of one resource see the same ones; `cluster=fake_api_server`
    shares the server's instead.
    """
    shared = FakeCluster()

    def make(resource: Resource, /, **options: Any) -> FakeListerWatcher:
        cluster: FakeCluster = options.setdefault("cluster", shared)
        try:
            cluster.table(resource)
        except LookupError:
            cluster.add_resource(resource)
        return FakeListerWatcher(resource, **options)

    return make
