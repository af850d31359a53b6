"""A fake API server with a script for every field report."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import AsyncIterator

import pytest

from informer.testing import FakeApiServer

from .logs import Log
from .world import GADGETS, WIDGETS, World


@pytest.fixture(autouse=True)
def _same_jitter() -> None:
    """Delays are random; a test that counts requests must see the same ones every time."""
    random.seed(20)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    caplog.set_level(logging.DEBUG, logger="informer")
    return Log(caplog)


@pytest.fixture
async def world(log: Log, caplog: pytest.LogCaptureFixture) -> AsyncIterator[World]:
    async with FakeApiServer(bookmark_period=None) as server:
        server.add_resource(WIDGETS, typed_items=True)
        server.add_resource(GADGETS, typed_items=True)
        yield World(server, log)
    # Whatever a report is about: no task is left behind, and none died unseen.
    await asyncio.sleep(1)
    gc.collect()
    assert not [
        one.getMessage()
        for one in caplog.get_records("call") + caplog.records
        if one.name == "asyncio" and one.levelno >= logging.WARNING
    ]
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
