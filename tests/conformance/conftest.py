"""What a conformance test carries: the upstream test it answers for, and how we answer."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from informer.testing import FakeApiServer

from .support import PODS


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "upstream(row, *, verdict, reason=''): the row of rows.toml that this test is for, and our verdict"
    )


@pytest.fixture(autouse=True)
def _same_jitter() -> None:
    """Delays are random; a test that counts requests must see the same ones every time."""
    random.seed(20)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([PODS], bookmark_period=None) as server:
        yield server
