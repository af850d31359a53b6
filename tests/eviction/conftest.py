"""A fake API server that serves pods and judges their evictions by budgets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kubernetes_asyncio.client import ApiClient

from informer.testing import FakeApiServer
from informer.testing.eviction import BUDGETS, PODS, FakeEvictions


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([PODS, BUDGETS], bookmark_period=None) as server:
        yield server


@pytest.fixture
def evictions(server: FakeApiServer) -> FakeEvictions:
    return FakeEvictions(server)


@pytest.fixture
async def api(server: FakeApiServer) -> AsyncIterator[ApiClient]:
    async with server.api_client() as client:
        yield client
