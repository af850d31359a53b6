from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import AsyncIterator

import pytest

from informer import InformerError, InformerOptions, KubeObject, SharedInformer, SyncError
from informer.testing import FakeListerWatcher, VirtualTimeLoop, run

from .kit import Replay, degraded, names, short, source

HOUR = 3600.0


@pytest.fixture
def fake() -> FakeListerWatcher:
    return source("a", "b")


@pytest.fixture
async def informer(fake: FakeListerWatcher) -> AsyncIterator[SharedInformer[KubeObject]]:
    async with SharedInformer(degraded(fake)) as informer:
        await informer.wait_for_sync(timeout=10)
        yield informer


async def settle() -> None:
    await asyncio.sleep(1)


def record(calls: list):
    """Callbacks that note every call."""
    return {
        "on_add": lambda new: calls.append(("add", new.name)),
        "on_update": lambda old, new: calls.append(("update", old["spec"], new["spec"])),
        "on_delete": lambda last: calls.append(("delete", last.name)),
        "on_quarantined": lambda old, entry: calls.append(("quarantined", old and old.name, entry.key)),
    }


def as_coroutines(functions: dict):
    def wrap(function):
        async def call(*arguments):
            await asyncio.sleep(0)
            function(*arguments)

        return call

    return {name: wrap(function) for name, function in functions.items()}


FORMS = {
    "plain": lambda functions: functions,
    "coroutine functions": as_coroutines,
    "in a thread": lambda functions: {**functions, "in_thread": True},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_calls(informer: SharedInformer, fake: FakeListerWatcher, form):
    """When objects come, change, turn bad, recover and go, each function should be called in order, in every form."""
    calls: list = []
    handler = informer.add_handler(**form(record(calls)))
    await settle()
    fake.create("c", {"timeout": "5m"})
    fake.update("c", {"timeout": "6m"})
    fake.update("c", {"timeout": "6"})
    fake.update("c", {"timeout": "7m"})
    fake.delete("c")
    await settle()
    assert calls == [
        ("add", "a"),
        ("add", "b"),
        ("add", "c"),
        ("update", {"timeout": "5m"}, {"timeout": "6m"}),
        ("quarantined", "c", "default/c"),
        ("add", "c"),
        ("delete", "c"),
    ]
    assert handler.has_synced
    assert handler.backlog == 0


async def test_functions_are_optional(informer: SharedInformer, fake: FakeListerWatcher):
    """When a handler has only some functions, the other changes should pass it by; `on_change` hears all, after them."""
    adds, everything = [], []
    informer.add_handler(on_add=lambda new: adds.append(new.name))
    informer.add_handler(
        on_change=lambda change: everything.append(short(change)[0]), on_delete=lambda _: everything.append("first")
    )
    await settle()
    fake.update("a", {"timeout": "5"})
    fake.delete("b")
    await settle()
    assert adds == ["a", "b"]
    assert everything == ["add", "add", "quarantined", "first", "delete"]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({}, "at least one function"),
        ({"on_add": asyncio.sleep, "in_thread": True}, "in_thread"),
        ({"on_add": functools.partial(asyncio.sleep, 1), "in_thread": True}, "in_thread"),
    ],
)
async def test_refused(informer: SharedInformer, functions: dict, message: str):
    """When a handler has no function, or a coroutine function for a thread, it should be refused with TypeError."""
    with pytest.raises(TypeError, match=message):
        informer.add_handler(**functions)


async def test_callable_object_with_a_coroutine_function(informer: SharedInformer):
    """When an object's `__call__` is a coroutine function, it should be awaited, and refused for a thread."""
    calls = []

    class Callback:
        async def __call__(self, new: KubeObject) -> None:
            await asyncio.sleep(1)
            calls.append(new.name)

    with pytest.raises(TypeError, match="in_thread"):
        informer.add_handler(on_add=Callback(), in_thread=True)
    handler = informer.add_handler(on_add=Callback())
    assert handler.name == "Callback"
    await asyncio.sleep(5)
    assert calls == ["a", "b"]


async def test_a_thread_that_returns_a_coroutine(informer: SharedInformer):
    """When a function in a thread returns something to await, it should be awaited on the loop, not lost."""
    calls = []

    async def note(name: str) -> None:
        calls.append(name)

    informer.add_handler(on_add=lambda new: note(new.name), in_thread=True)
    await settle()
    assert calls == ["a", "b"]


async def test_in_thread_is_one_thread_of_its_own(informer: SharedInformer, fake: FakeListerWatcher):
    """When a handler runs in a thread, it should be one and the same for all its calls, and not the loop's."""
    threads = []
    handler = informer.add_handler(on_change=lambda _: threads.append(threading.current_thread()), in_thread=True)
    await settle()
    fake.create("c")
    await settle()
    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()
    await handler.remove()
    threads[0].join(10)
    assert not threads[0].is_alive()


# ---------------------------------------------------------------------- handlers that fail


def raising(error: BaseException):
    def function(new: KubeObject) -> None:
        if new.name == "a":
            raise error

    return function


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        StopIteration(),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        ExceptionGroup("g", [ValueError()]),
    ],
)
async def test_raising(
    informer: SharedInformer, fake: FakeListerWatcher, form, error, caplog: pytest.LogCaptureFixture
):
    """When a handler raises, it should be logged with traceback, change and key, and it and the others should go on."""
    calls, others = [], []

    def on_add(new: KubeObject) -> None:
        calls.append(new.name)
        raising(error)(new)

    informer.add_handler(**form({"on_add": on_add}), name="unlucky")
    informer.add_handler(on_add=lambda new: others.append(new.name))
    with caplog.at_level(logging.ERROR):
        await settle()
        fake.create("c")
        await settle()
    assert calls == others == ["a", "b", "c"]
    (log,) = caplog.records
    assert (log.handler, log.change, log.key) == ("unlucky", "Added", "default/a")
    assert "unlucky" in log.getMessage()
    assert "Added of default/a" in log.getMessage()
    assert log.exc_info
    assert informer.health.state == "live"


async def test_cancelling_itself(informer: SharedInformer, fake: FakeListerWatcher):
    """When a handler cancels the task it runs in, it should be an ordinary failure: it is called for the next change."""
    calls = []

    async def on_add(new: KubeObject) -> None:
        calls.append(new.name)
        if new.name == "a":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)

    informer.add_handler(on_add=on_add)
    await settle()
    fake.create("c")
    await settle()
    assert calls == ["a", "b", "c"]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_not_an_ordinary_failure(form, error: BaseException, caplog: pytest.LogCaptureFixture):
    """When a handler raises SystemExit or KeyboardInterrupt, it should end the program and not be logged and passed over."""

    async def main() -> None:
        async with SharedInformer(source("a")) as informer:
            informer.add_handler(**form({"on_add": raising(error)}))
            informer.add_handler(on_add=lambda _: asyncio.sleep(HOUR))
            await asyncio.sleep(HOUR)

    with pytest.raises(type(error)):
        run(main())
    assert not [log for log in caplog.records if "failed on" in log.getMessage()]


class Fatal(BaseException):
    pass


async def test_base_exception(fake: FakeListerWatcher):
    """When a handler raises what is no Exception, the informer should end with it, though other handlers are in a call."""
    started = []

    async def hang(_: KubeObject) -> None:
        started.append(True)
        await asyncio.sleep(HOUR)

    informer = SharedInformer(fake)
    with pytest.raises(Fatal):
        async with informer:
            informer.add_handler(on_add=hang)
            informer.add_handler(on_update=lambda *_: (_ for _ in ()).throw(Fatal()))
            await settle()
            assert started
            fake.update("a", {"n": 1})
            await asyncio.sleep(HOUR)
    assert asyncio.get_running_loop().time() < 1100
    assert informer.health.state == "stopped"


# ---------------------------------------------------------------------- handlers that hang


@pytest.mark.parametrize("form", ["coroutine", "thread"])
async def test_hanging(fake: FakeListerWatcher, form: str):
    """When a handler hangs, nobody else should wait: not the store, not the other handlers, and not the end."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.wait_for_threads = False
    release, calls, others = threading.Event(), [], []

    async def hang(new: KubeObject) -> None:
        calls.append(new.name)
        await asyncio.sleep(HOUR)

    def hang_in_thread(new: KubeObject) -> None:
        calls.append(new.name)
        release.wait(30)

    try:
        async with SharedInformer(fake, options=InformerOptions(max_backlog=10)) as informer:
            if form == "thread":
                hanging = informer.add_handler(on_add=hang_in_thread, in_thread=True)
            else:
                hanging = informer.add_handler(on_add=hang)
            informer.add_handler(on_update=lambda _old, new: others.append(new["spec"]["n"]))
            await settle()
            for number in range(500):
                fake.update("a", {"n": number})
                await asyncio.sleep(0.1)
            assert others == list(range(500))
            assert informer.lister.get("a", namespace="default")["spec"] == {"n": 499}
            assert calls == ["a"]
            assert not hanging.has_synced
            assert 1 <= hanging.backlog <= 20
            assert informer.backlog == hanging.backlog
            left = loop.time()
        assert loop.time() - left < 1
    finally:
        release.set()


@pytest.mark.parametrize("how", ["swallows", "raises another"])
async def test_cancellation_by_the_end_is_not_swallowed(fake: FakeListerWatcher, how: str):
    """When a handler catches the cancellation by the end, or raises something else instead, the informer should end."""
    calls = []

    async def stubborn(new: KubeObject) -> None:
        calls.append(new.name)
        try:
            await asyncio.sleep(HOUR)
        except asyncio.CancelledError:
            if how == "raises another":
                raise ValueError("cleaning up failed") from None

    async with SharedInformer(fake) as informer:
        informer.add_handler(on_add=stubborn)
        await settle()
    assert calls == ["a"]
    assert informer.health.state == "stopped"


# ---------------------------------------------------------------------- removal


@pytest.mark.parametrize("form", ["coroutine", "thread"])
async def test_remove_waits_for_the_last_call(informer: SharedInformer, fake: FakeListerWatcher, form: str):
    """When a handler is removed, it should return after the running call, which is the last."""
    calls, begun, go_on = [], asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def on_add(new: KubeObject) -> None:
        begun.set()
        await asyncio.sleep(10)
        calls.append(new.name)

    def in_thread(new: KubeObject) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(30)
        calls.append(new.name)

    if form == "thread":
        handler = informer.add_handler(on_add=in_thread, on_change=lambda _: calls.append("more"), in_thread=True)
    else:
        handler = informer.add_handler(on_add=on_add, on_change=lambda _: calls.append("more"))
    await begun.wait()
    removing = [asyncio.create_task(handler.remove()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in removing)
    assert calls == []
    go_on.set()
    await asyncio.gather(*removing)
    assert calls == ["a"]
    fake.create("c")
    await settle()
    assert calls == ["a"]
    await handler.remove()
    assert informer.backlog == 0


async def test_remove_from_inside(informer: SharedInformer, fake: FakeListerWatcher):
    """When a handler removes itself in a call, it should return at once, and that call is the last."""
    calls = []

    async def on_add(new: KubeObject) -> None:
        calls.append(new.name)
        await handler.remove()
        calls.append("removed")

    handler = informer.add_handler(on_add=on_add, on_change=lambda _: calls.append("more"))
    await settle()
    fake.create("c")
    await settle()
    assert calls == ["a", "removed"]


async def test_remove_before_start(fake: FakeListerWatcher):
    """When a handler is removed before the informer starts, it should never be called."""
    calls: list = []
    informer = SharedInformer(fake)
    handler = informer.add_handler(**record(calls))
    await handler.remove()
    async with informer:
        await settle()
    assert calls == []


async def test_remove_an_idle_one_ends_its_task(informer: SharedInformer):
    """When an idle handler is removed, its task should be gone."""
    handler = informer.add_handler(on_add=print, name="idle-one")
    await settle()
    assert any(task.get_name() == "handler idle-one" for task in asyncio.all_tasks())
    await handler.remove()
    assert not any(task.get_name() == "handler idle-one" for task in asyncio.all_tasks())


# ---------------------------------------------------------------------- joining


@pytest.mark.parametrize("when", ["before the start", "before the sync", "after the sync"])
async def test_joining(when: str):
    """When a handler joins, at any time, it should hear of every object once, as initial, then of the bad ones, and then
    be synced.
    """
    fake = source("a", "b")
    fake.create("bad", {"timeout": "1"})
    told: list = []
    handler = None

    async def on_change(change) -> None:
        assert handler is not None
        assert not handler.has_synced
        told.append(short(change)[0])
        await asyncio.sleep(5)

    informer = SharedInformer(degraded(fake))
    if when == "before the start":
        handler = informer.add_handler(on_change=on_change)
    async with informer:
        if when == "before the sync":
            handler = informer.add_handler(on_change=on_change)
        await informer.wait_for_sync(timeout=10)
        if when == "after the sync":
            handler = informer.add_handler(on_change=on_change)
        assert handler is not None
        assert not handler.has_synced
        await asyncio.sleep(12)
        assert not handler.has_synced
        await asyncio.sleep(10)
        assert handler.has_synced
        assert sorted(told) == ["add", "add", "quarantined"]
        if when == "after the sync":
            assert told == ["add", "add", "quarantined"]


async def test_joining_an_empty_cache():
    """When there is nothing, a handler should be synced without a call."""
    async with SharedInformer(source()) as informer:
        early = informer.add_handler(on_add=print)
        await informer.wait_for_sync(timeout=10)
        late = informer.add_handler(on_add=print)
        await settle()
        assert early.has_synced
        assert late.has_synced


async def test_no_gap_and_no_duplicate(fake: FakeListerWatcher):
    """When handlers join while everything changes, each should be told of every object exactly once, and of every change."""
    replays = []
    async with SharedInformer(degraded(fake)) as informer:
        for number in range(60):
            replays.append(Replay())
            informer.add_handler(on_change=replays[-1])
            if number % 3:
                fake.create(f"o{number}", {"timeout": "1" if number % 5 == 0 else "1m"})
            fake.update("a", {"n": number})
            if number % 7 == 0:
                fake.delete("b")
                fake.create("b")
            for _ in range(number % 4):
                await asyncio.sleep(0)
        await settle()
        state = informer._cache.indexer.state
        for replay in replays:
            replay.agrees({key: item.object.raw for key, item in state.items.items()}, set(state.held))


async def test_after_the_end(fake: FakeListerWatcher):
    """When the informer has ended, a handler should be refused."""
    async with SharedInformer(fake) as informer:
        pass
    with pytest.raises(InformerError, match="ended"):
        informer.add_handler(on_add=print)


async def test_handlers_read_the_new_store(informer: SharedInformer, fake: FakeListerWatcher):
    """When a handler is called, it should find the store at least as new as the change."""
    seen = []
    informer.add_handler(
        on_delete=lambda last: seen.append(last.name in names(informer.lister.list())),
        on_update=lambda _old, new: seen.append(
            informer.lister.get("a", namespace="default").resource_version == new.resource_version
        ),
    )
    await settle()
    fake.update("a", {"n": 1})
    fake.delete("b")
    await settle()
    assert seen == [True, False]


def test_names():
    """When no name is given, a handler should be named after its first function."""
    informer = SharedInformer(source())
    assert informer.add_handler(on_add=print).name == "print"
    assert informer.add_handler(on_add=print, name="mine").name == "mine"
    assert informer.add_handler(on_change=functools.partial(print, 1)).name == "partial"


# ---------------------------------------------------------------------- waiting for the initial objects


async def test_waiting_for_a_handler() -> None:
    """When a handler has heard of all that was there, and not before, waiting for it should return."""
    fake = source()
    for name in "abc":
        fake.create(name)
    heard: list[str] = []

    async def slow(obj: KubeObject) -> None:
        await asyncio.sleep(10)
        heard.append(obj.name)

    async with SharedInformer(fake) as informer:
        registration = informer.add_handler(on_add=slow, name="slow")
        with pytest.raises(
            SyncError, match=r"handler slow has not heard of every initial object; 3 wait \(waited 15 s\)"
        ):
            await registration.wait_for_sync(timeout=15)
        await registration.wait_for_sync()
        assert heard == ["a", "b", "c"]
        await registration.wait_for_sync(timeout=0)


@pytest.mark.parametrize("how", ["removed", "the informer ends"])
async def test_waiting_for_a_handler_in_vain(how: str) -> None:
    """When a handler will never hear of all, whoever waits for it should be told, not left hanging."""
    fake = source()
    fake.create("a")
    gate = asyncio.Event()
    async with SharedInformer(fake) as informer:
        registration = informer.add_handler(on_add=lambda _: gate.wait())
        waiting = asyncio.create_task(registration.wait_for_sync())
        await asyncio.sleep(1)
        assert not waiting.done()
        if how == "removed":
            asyncio.get_running_loop().call_later(1, gate.set)
            await registration.remove()
    with pytest.raises(InformerError, match="was removed, or its informer has ended"):
        await waiting
