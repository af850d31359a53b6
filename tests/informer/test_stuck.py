from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from informer import KubeObject, SharedInformer
from informer.testing import FakeListerWatcher
from tests.informer.kit import WIDGETS


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "busy with one call" in record.getMessage()]


async def test_a_handler_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """When a handler does not come back, it should be named after a minute, then ever more rarely, with what waits for it."""
    caplog.set_level(logging.WARNING)
    gate = asyncio.Event()

    async def hang(obj: KubeObject) -> None:
        if obj.name == "b":
            await gate.wait()

    fake = FakeListerWatcher(WIDGETS)
    for name in "abc":
        fake.create(name)
    async with SharedInformer(fake) as informer:
        informer.add_handler(on_add=hang, name="slowpoke")
        informer.add_handler(on_add=print, name="fine")
        await asyncio.sleep(59)
        assert lines(caplog) == []
        await asyncio.sleep(62)
        said = "handler slowpoke has been busy with one call (Added of default/b) for 1 min, with a backlog of 3; it may be waiting"
        assert lines(caplog) == [f"widgets.v1.example.test: {said} for something without a time limit"]
        await asyncio.sleep(480)
        assert [line.split(" min")[0].rpartition(" ")[2] for line in lines(caplog)] == ["1", "2", "4", "8"]
        record = next(record for record in caplog.records if "busy with one call" in record.getMessage())
        assert (record.handler, record.change, record.key) == ("slowpoke", "Added", "default/b")  # type: ignore[attr-defined]
        gate.set()
        await asyncio.sleep(3600)
        assert len(lines(caplog)) == 4


async def test_a_handler_that_is_only_slow(caplog: pytest.LogCaptureFixture) -> None:
    """When each of many calls takes a while, nobody is stuck."""
    caplog.set_level(logging.WARNING)
    fake = FakeListerWatcher(WIDGETS)
    for number in range(20):
        fake.create(f"w-{number}")

    async def slow(_: KubeObject) -> None:
        await asyncio.sleep(50)

    async with SharedInformer(fake) as informer:
        handler = informer.add_handler(on_add=slow)
        await asyncio.sleep(900)
        assert handler.backlog > 0
    assert lines(caplog) == []


@pytest.mark.real_time
async def test_a_thread_that_hangs(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a handler hangs in its thread, it should be named as well."""
    monkeypatch.setattr("informer._stuck.PATIENCE", 0.01)
    gate = threading.Event()

    def hang(_: Any) -> None:
        gate.wait(10)

    fake = FakeListerWatcher(WIDGETS)
    fake.create("a")
    try:
        async with SharedInformer(fake) as informer:
            informer.add_handler(on_add=hang, in_thread=True)
            await asyncio.sleep(0.5)
            assert lines(caplog)
    finally:
        gate.set()
