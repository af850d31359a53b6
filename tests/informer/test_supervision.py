"""Each internal task of an informer is killed, one at a time: nothing may stand still without a word."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from unittest import mock

import pytest

from informer import DegradedListerWatcher, InformerError, InformerFactory, InformerOptions, KubeObject, SharedInformer
from informer.testing import FakeApiServer

from .kit import TIMEOUT_CHECK, WIDGETS, names, source

HOUR = 3600.0


class Bug(Exception):
    pass


def bug(*_: Any, **__: Any) -> Any:
    raise Bug("died")


async def later_bug(*_: Any, **__: Any) -> Any:
    raise Bug("died")


def task_named(start: str) -> asyncio.Task[Any]:
    found = [task for task in asyncio.all_tasks() if task.get_name().startswith(start)]
    assert len(found) == 1, found
    return found[0]


class Rig:
    """An informer with one handler, its source, and the things that can happen to it."""

    def __init__(self, **handler: Any) -> None:
        self.fake = source("a")
        self.source = DegradedListerWatcher(self.fake, checks=[TIMEOUT_CHECK])
        self.informer = SharedInformer(self.source, options=InformerOptions(resync_period=600.0))
        self.told: list[str] = []
        handler.setdefault("on_change", lambda change: self.told.append(type(change).__name__))
        self.registration = self.informer.add_handler(name="rig", **handler)

    def change(self) -> None:
        self.fake.create(f"new-{len(self.fake.cluster.objects(WIDGETS))}")

    def fail(self) -> None:
        self.fake.drop_watches(OSError("broken"))

    def go_bad(self) -> None:
        self.fake.create("bad", {"timeout": "1"})


class FrozenError(AssertionError):
    """The informer went on for an hour as if nothing had happened."""


@asynccontextmanager
async def ending(informer: SharedInformer[Any]) -> AsyncIterator[Callable[[], BaseException]]:
    """The body is cancelled soon, with a plain exception; `stopped()`, `health` and `changes()` say the same."""
    told: list[BaseException] = []

    async def listen() -> None:
        async with informer.changes() as changes:
            async for _ in changes:
                pass

    with pytest.raises(Exception) as raised:
        async with informer:
            await informer.wait_for_sync(timeout=10)
            await asyncio.sleep(0.01)
            stopped = asyncio.create_task(informer.stopped())
            listener = asyncio.create_task(listen())
            await asyncio.sleep(0.01)
            yield lambda: told[0]
            await asyncio.sleep(HOUR)
            raise FrozenError(f"{informer.health}; {[task.get_name() for task in asyncio.all_tasks()]}")
    error = raised.value
    assert not isinstance(error, FrozenError | ExceptionGroup), error
    told.append(error)
    assert await stopped is error
    with pytest.raises((InformerError, Bug)):
        await listener
    health = informer.health
    assert health.state == "stopped"
    assert str(error) in (health.last_error or "")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


# What is broken, by what, and what comes upon it.
DEATHS: dict[str, tuple[str, Callable[..., Any], Callable[[Rig], object]]] = {
    "the store": ("informer.store.Indexer.apply", bug, Rig.change),
    "the store at a relist": ("informer.store.Replacement.build", later_bug, lambda rig: rig.informer.relist()),
    "the fan-out": ("informer.handlers.Fanout.put", bug, Rig.change),
    "a buffer being filled": ("informer._buffer.Buffer.put", bug, Rig.change),
    "a buffer being emptied": ("informer._buffer.Buffer.take", bug, Rig.change),
    "a handler's dispatch": ("informer.handlers.Callbacks.calls", bug, Rig.change),
    "the count of events": ("informer.metrics.Recorder.event", bug, Rig.change),
    "the count of requests": ("informer.metrics.Recorder.request", bug, Rig.fail),
    "the resync": ("informer._cache.Cache.resync", later_bug, lambda _: None),
    "the pulse": ("informer.health.Pulse.failed", bug, Rig.fail),
    "the course": ("informer._course.Course.refused", bug, Rig.fail),
    "the backoff": ("informer.backoff.Backoff.next", bug, Rig.fail),
    "the limiter": ("informer.backoff.Limiter.wait", later_bug, Rig.fail),
}


@pytest.mark.parametrize("part", DEATHS)
async def test_a_part_dies(part: str):
    """When a part of an informer raises what it never should, the body should end with just that, and all should say so."""
    where, how, then = DEATHS[part]
    rig, asked = Rig(), None
    with ExitStack() as stack:
        async with ending(rig.informer) as error:
            stack.enter_context(mock.patch(where, how))
            asked = then(rig)
            if asyncio.iscoroutine(asked):
                asked = asyncio.create_task(asked)
    assert isinstance(error(), Bug)
    if isinstance(asked, asyncio.Task):
        with pytest.raises(InformerError):
            await asked


TASKS = {
    "the informer's task": "informer widgets",
    "a handler's task": "handler rig",
    "the resync": "resync",
    "the reflector": "reflector",
    "the watch over handlers": "watch over handlers",
}


@pytest.mark.parametrize("task", TASKS)
async def test_a_task_is_cancelled_from_outside(task: str):
    """When somebody cancels a task of the informer, which is not his, the informer should fail visibly, not go on maimed."""
    rig = Rig()
    async with ending(rig.informer) as error:
        task_named(TASKS[task]).cancel()
    assert isinstance(error(), InformerError)
    assert "cancelled" in str(error())


async def test_everything_is_cancelled():
    """When a program ends by cancelling every task it has, that should be no failure, and the cancellation not be lost."""
    rig = Rig()

    async def main() -> None:
        async with rig.informer:
            await rig.informer.wait_for_sync(timeout=10)
            await asyncio.sleep(HOUR)

    running = asyncio.create_task(main())
    await asyncio.sleep(1)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:  # type: ignore[arg-type]  # a test runs in a task
        task.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert await rig.informer.stopped() is None
    assert rig.informer.health.state == "stopped"


async def test_a_plain_handler_cancels_its_own_task():
    """When a plain handler cancels the task it runs in, it should have failed like any other, and hear of the next change."""
    told: list[str] = []

    def cancelling(obj: KubeObject) -> None:
        told.append(obj.name)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    rig = Rig(on_change=None, on_add=cancelling)
    async with rig.informer:
        await rig.informer.wait_for_sync(timeout=10)
        for _ in range(3):
            await asyncio.sleep(1)
            rig.change()
        await asyncio.sleep(1)
        assert told == ["a", "new-1", "new-2", "new-3"]
        assert rig.registration.backlog == 0


async def test_a_source_is_cancelled_from_within():
    """When a request ends with a cancellation that nobody asked the informer for, as in a client that is closed under it,
    it should be tried again.
    """
    rig = Rig()
    async with rig.informer:
        await rig.informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        rig.fake.drop_watches(asyncio.CancelledError())  # type: ignore[arg-type]  # no Exception, which is the point
        await asyncio.sleep(0.01)
        assert rig.informer.health.state == "failing"
        rig.change()
        await asyncio.sleep(60)
        assert names(rig.informer.lister.list()) == ["a", "new-1"]
        assert rig.informer.health.state == "live"


async def test_the_reminders_die(caplog: pytest.LogCaptureFixture):
    """When the reminders of bad objects fail, that should be logged at once, health should say so, and they should go on."""
    rig = Rig()
    rig.go_bad()
    caplog.set_level(logging.INFO, logger="informer")
    async with rig.informer:
        await rig.informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        with mock.patch("informer.degraded.reminders.Schedule.next_any", bug):
            await asyncio.sleep(400)
            lines = [record for record in caplog.records if "reminders" in record.getMessage()]
            assert lines
            assert lines[0].exc_info is not None
            assert lines[0].exc_info[0] is Bug
            assert len(lines) < 10
            assert rig.informer.health.state == "failing"
            assert "reminders" in (rig.informer.health.last_error or "")
        caplog.clear()
        await asyncio.sleep(700)
        assert rig.informer.health.state == "live"
        assert [record for record in caplog.records if "bad still cannot be read" in record.getMessage()]


async def test_the_task_of_the_reminders_is_cancelled(caplog: pytest.LogCaptureFixture):
    """When somebody cancels the task of the reminders, the watch should not be held up, and the next one remind again."""
    rig = Rig()
    rig.go_bad()
    async with rig.informer:
        await rig.informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        caplog.clear()
        task_named("reminders").cancel()
        await asyncio.sleep(1)
        assert [record for record in caplog.records if "reminders" in record.getMessage()]
        rig.change()
        await asyncio.sleep(1300)
        assert names(rig.informer.lister.list()) == ["a", "new-2"]
        assert [record for record in caplog.records if "bad still cannot be read" in record.getMessage()]


async def test_everything_is_cancelled_the_reminders_first(caplog: pytest.LogCaptureFixture):
    """When all tasks are cancelled, as at the end of `asyncio.run`, nothing should be said of the reminders."""
    rig = Rig()

    async def program() -> None:
        async with rig.informer:
            await asyncio.sleep(HOUR)

    running = asyncio.create_task(program())
    await asyncio.sleep(1)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in sorted(tasks, key=lambda task: not task.get_name().startswith("reminders")):
        task.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert not caplog.records


async def test_the_thread_of_a_handler_is_gone():
    """When the thread of a handler takes no more calls, the informer should fail, since that handler would miss changes."""
    rig = Rig(in_thread=True)
    async with ending(rig.informer) as error:
        thread = rig.informer._cache.fanout.handlers[0]._thread
        assert thread is not None
        thread.shutdown(wait=False)
        rig.change()
    assert "shutdown" in str(error())


async def test_no_thread_can_be_started():
    """When the system has no thread left for a handler, the informer should fail."""
    rig = Rig()
    async with ending(rig.informer) as error:
        rig.informer.add_handler(on_change=print, in_thread=True)
        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            await asyncio.sleep(0.01)
    assert "can't start new thread" in str(error())


async def test_one_of_several_in_a_factory():
    """When a part of one informer of a factory dies, the factory's body should end with that, and every informer with it."""
    async with FakeApiServer([WIDGETS]) as server, server.api_client() as client:
        factory = InformerFactory(client, options=InformerOptions(resync_period=600.0))
        with pytest.raises(Bug):
            async with factory:
                dying = factory.informer(WIDGETS)
                other = factory.informer(WIDGETS, namespace="other")
                await factory.wait_for_sync(timeout=10)
                dying._cache.resync = later_bug  # type: ignore[method-assign]
                await asyncio.sleep(HOUR)
        assert isinstance(await dying.stopped(), Bug)
        assert await other.stopped() is None
        assert dying.health.state == other.health.state == "stopped"


async def test_one_of_several_is_cancelled():
    """When the task of one informer of a factory is cancelled from outside, the factory should end and say which."""
    async with FakeApiServer([WIDGETS]) as server, server.api_client() as client:
        factory = InformerFactory(client)
        with pytest.raises(InformerError, match=r"widgets.*cancelled"):
            async with factory:
                factory.informer(WIDGETS)
                await factory.wait_for_sync(timeout=10)
                task_named("informer widgets").cancel()
                await asyncio.sleep(HOUR)
