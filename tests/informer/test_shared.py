from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable
from functools import partial

import pytest

from informer import (
    ApiError,
    ApiListerWatcher,
    InformerError,
    InformerOptions,
    KubeObject,
    SharedInformer,
    SyncError,
)
from informer.testing import FakeApiServer, FakeListerWatcher

from .kit import WIDGETS, Replay, by_spec, degraded, names, short, source

HOUR = 3600.0
FORBIDDEN = ApiError("widgets.example.test is forbidden", status=403, reason="Forbidden")
REFUSED = OSError("connection refused")


class Bug(Exception):
    pass


def bug_at(informer: SharedInformer, seconds: float) -> None:
    """Let an internal task of the informer die; it must have a resync period."""

    async def broken() -> None:
        raise Bug("died")

    informer._cache.resync = broken  # type: ignore[method-assign]
    informer._options = InformerOptions(resync_period=seconds)


def nothing_left() -> None:
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


# ---------------------------------------------------------------------- life


async def test_a_life():
    """When the body is left, everything should have ended: tasks, watches, requests."""
    fake = source("a")
    informer = SharedInformer(fake)
    async with informer as entered:
        assert entered is informer
        informer.add_handler(on_add=lambda _: asyncio.sleep(HOUR))
        await informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        assert fake.open_watches == 1
    nothing_left()
    assert fake.open_watches == 0
    calls = len(fake.calls)
    await asyncio.sleep(HOUR)
    assert len(fake.calls) == calls
    assert names(informer.lister.list()) == ["a"]


async def test_leaving_at_once():
    """When the body is left before anything has begun, it should be ended all the same."""
    informer = SharedInformer(source("a"))
    handler = informer.add_handler(on_add=print)
    async with informer:
        pass
    nothing_left()
    assert informer.health.state == "stopped"
    assert await informer.stopped() is None
    assert not handler.has_synced


@pytest.mark.parametrize("after", ["while running", "after the end"])
async def test_single_use(after: str):
    """When it is started a second time, it should raise, ask the server nothing more, and not disturb the first life."""
    fake = source("a")
    informer = SharedInformer(fake)
    async with informer:
        await informer.wait_for_sync(timeout=10)
        if after == "while running":
            for _ in range(5):
                with pytest.raises(RuntimeError, match=r"widgets.*started before"):
                    await informer.__aenter__()
            await asyncio.sleep(100)
            assert (fake.count("list"), fake.count("watch")) == (1, 1)
    if after == "after the end":
        with pytest.raises(RuntimeError, match="started before"):
            async with informer:
                pass
    nothing_left()


async def test_the_end_is_quick_in_a_backoff():
    """When the informer ends in the middle of a backoff, it should end at once and send nothing more."""
    fake = source()
    fake.fail_lists(*[REFUSED] * 50)
    async with SharedInformer(fake):
        await asyncio.sleep(300)
        before = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - before < 0.1
    nothing_left()


async def test_trouble_is_no_bug():
    """When lists and watches fail with anything at all, it should go on and recover by itself."""
    fake = source("a")
    troubles = [
        REFUSED,
        TimeoutError(),
        FORBIDDEN,
        ValueError("odd"),
        ApiError("gone", status=410),
        ConnectionResetError(),
    ]
    fake.fail_lists(*troubles)
    fake.fail_watches(*troubles)
    async with SharedInformer(fake) as informer:
        await informer.wait_for_sync(timeout=HOUR)
        await asyncio.sleep(HOUR)
        assert informer.health.state == "live"
        fake.create("b")
        await asyncio.sleep(1)
        assert names(informer.lister.list()) == ["a", "b"]


# ---------------------------------------------------------------------- a bug


async def test_a_bug():
    """When an internal task dies, the body should be cancelled, the plain exception raised, and the state be stopped."""
    fake = source("a")
    informer = SharedInformer(fake)
    bug_at(informer, 10)
    cleaned = []
    watcher = asyncio.create_task(informer.stopped())
    with pytest.raises(Bug) as caught:
        async with informer:
            informer.add_handler(on_add=lambda _: asyncio.sleep(HOUR))
            try:
                await asyncio.sleep(HOUR)
            finally:
                cleaned.append(asyncio.get_running_loop().time())
    assert cleaned == [1010]
    assert await watcher is caught.value
    assert await informer.stopped() is caught.value
    health = informer.health
    assert (health.state, health.last_error) == ("stopped", "Bug: died")
    assert health.last_error_at is not None
    assert fake.open_watches == 0
    nothing_left()


WAITS: dict[str, Callable[[SharedInformer], object]] = {
    "wait_for_version": lambda informer: informer.wait_for_version("99999", timeout=HOUR),
    "relist": lambda informer: informer.relist(),
    "wait_for_sync": lambda informer: informer.wait_for_sync(timeout=HOUR),
    "wait_for_sync without a timeout": lambda informer: informer.wait_for_sync(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("end", ["bug", "the body is left"])
async def test_the_end_wakes_whoever_waits(wait, end: str):
    """When the informer ends, by a bug or not, everybody who waits for it should get an InformerError with the cause."""
    fake = source()
    fake.fail_lists(*[REFUSED] * 100)
    informer = SharedInformer(fake)
    if end == "bug":
        bug_at(informer, 10)
    waiting = None
    try:
        async with informer:
            waiting = asyncio.create_task(wait(informer))
            await asyncio.sleep(20 if end == "bug" else 5)
    except Bug:
        pass
    assert waiting is not None
    with pytest.raises(InformerError) as caught:
        await waiting
    if end == "bug" and "synced" in str(caught.value):
        assert "Bug: died" in str(caught.value)
    with pytest.raises(InformerError):
        await wait(informer)
    nothing_left()


async def test_waiting_for_the_sync_in_the_body_when_a_bug_comes():
    """When the body waits for the sync and an internal task dies, the bug should come out, not the SyncError."""
    fake = source()
    fake.fail_lists(*[REFUSED] * 100)
    informer = SharedInformer(fake)
    bug_at(informer, 10)
    with pytest.raises(Bug):
        async with informer:
            await informer.wait_for_sync()
    nothing_left()


async def test_own_exceptions_stay_plain():
    """When the body raises, exactly that should come out, also in a TaskGroup and beside a bug that never happens."""
    with pytest.raises(LookupError):
        async with SharedInformer(source("a")) as informer:
            await informer.wait_for_sync(timeout=10)
            raise LookupError("mine")
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup(), SharedInformer(source("a")):
            raise LookupError("mine")
    assert [type(error) for error in caught.value.exceptions] == [LookupError]
    nothing_left()


async def test_a_timeout_around():
    """When a timeout around the informer fires, it should end and TimeoutError come out."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(50), SharedInformer(source("a")):
            await asyncio.sleep(HOUR)
    nothing_left()


async def test_cancelled_from_outside():
    """When the task of the body is cancelled, the informer should end and the cancellation go on."""
    informer = SharedInformer(source("a"))

    async def main() -> None:
        async with informer:
            await asyncio.sleep(HOUR)

    task = asyncio.create_task(main())
    await asyncio.sleep(5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert informer.health.state == "stopped"
    assert await informer.stopped() is None
    nothing_left()


# ---------------------------------------------------------------------- waiting for the sync


async def test_sync_in_time():
    """When the first list comes, waiting should return, for everybody, also later and after the end."""
    fake = source("a")
    fake.fail_lists(REFUSED, REFUSED)
    async with SharedInformer(fake) as informer:
        await asyncio.gather(*(informer.wait_for_sync(timeout=60) for _ in range(3)))
        await informer.wait_for_sync(timeout=0)
        await informer.wait_for_sync()
    await informer.wait_for_sync(timeout=1)


async def test_sync_not_in_time():
    """When the server refuses, waiting should end in time and say with what."""
    fake = source("a")
    fake.fail_lists(*[FORBIDDEN] * 5)
    async with SharedInformer(fake) as informer:
        before = asyncio.get_running_loop().time()
        with pytest.raises(
            SyncError, match=r"widgets.*403 Forbidden: widgets\.example\.test is forbidden.*waited 10 s"
        ) as caught:
            await informer.wait_for_sync(timeout=10)
        assert asyncio.get_running_loop().time() - before == 10
        assert caught.value.__cause__ is FORBIDDEN
        await informer.wait_for_sync(timeout=600)  # it has gone on trying


async def test_sync_without_an_answer():
    """When nothing came yet, waiting should say so."""

    class Silent(FakeListerWatcher):
        async def list(self, options, /):
            await asyncio.sleep(HOUR)
            raise AssertionError

    async with SharedInformer(Silent(WIDGETS)) as informer:
        with pytest.raises(SyncError, match="no answer from the server yet"):
            await informer.wait_for_sync(timeout=5)


async def test_sync_over_http():
    """When a real server refuses a LIST, the error should say status, reason, verb and resource."""
    async with FakeApiServer([WIDGETS]) as server, server.api_client() as client:
        server.forbid(WIDGETS, "list")
        async with SharedInformer(ApiListerWatcher(client, WIDGETS)) as informer:
            with pytest.raises(SyncError, match=r"403 Forbidden.*list.*widgets"):
                await informer.wait_for_sync(timeout=10)
            with pytest.raises(SyncError, match="403 Forbidden"):
                await informer.wait_for_sync()
            server.allow(WIDGETS)
            await informer.wait_for_sync(timeout=600)
    nothing_left()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 422])
async def test_without_a_timeout_refusals_end_the_hope(status: int):
    """When nothing but waiting is wanted and three refusals in a row come that it cannot mend, it should raise."""
    fake = source("a")
    fake.fail_lists(REFUSED, REFUSED, *[ApiError("no", status=status)] * 4)
    async with SharedInformer(fake) as informer:
        with pytest.raises(SyncError, match=str(status)):
            await informer.wait_for_sync()
        assert fake.count("list") == 5
        await informer.wait_for_sync(timeout=600)


async def test_without_a_timeout_one_refusal_among_failures_is_nothing():
    """When a refusal comes among failures that pass, as from a server that is starting, it should go on waiting."""
    fake = source("a")
    fake.fail_lists(REFUSED, REFUSED, REFUSED, FORBIDDEN, FORBIDDEN, REFUSED, FORBIDDEN)
    async with SharedInformer(fake) as informer:
        await informer.wait_for_sync()


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
async def test_not_started(wait):
    """When it was never started, waiting should raise at once, since it would never end."""
    with pytest.raises(InformerError, match=r"widgets.* not (started|running)"):
        await wait(SharedInformer(source()))


# ---------------------------------------------------------------------- versions, relist, resync


async def test_wait_for_version():
    """When a version is awaited, it should return as soon as the store has it, by event, list or bookmark."""
    fake = source("a")
    async with SharedInformer(fake) as informer:
        waiting = asyncio.create_task(informer.wait_for_version(fake.cluster.resource_version, timeout=10))
        await waiting
        mine = fake.update("a", {"n": 1})
        await informer.wait_for_version(mine.resource_version, timeout=10)
        assert informer.lister.get("a", namespace="default")["spec"] == {"n": 1}
        fake.cluster.resource_version = str(int(mine.resource_version) + 5)
        beyond = str(int(mine.resource_version) + 3)
        waiting = asyncio.create_task(informer.wait_for_version(beyond, timeout=100))
        await asyncio.sleep(10)
        assert not waiting.done()
        fake.bookmark()
        await waiting


async def test_wait_for_version_in_vain():
    """When the version does not come, it should raise TimeoutError with both versions; ValueError for one without order."""
    fake = source("a")
    async with SharedInformer(fake) as informer:
        await informer.wait_for_sync(timeout=10)
        at = fake.cluster.resource_version
        with pytest.raises(TimeoutError, match=f"widgets.*at version {at}, not yet at 99999.*7 s"):
            await informer.wait_for_version("99999", timeout=7)
        for version in ("", "abc", "-1", "1.0", "٣", "007"):
            with pytest.raises(ValueError, match=re.escape(repr(version))):
                await informer.wait_for_version(version, timeout=1)


async def test_relist():
    """When a relist is asked for, it should return with the newest state in the store, and tell what was missed."""
    fake = source("a", "b")
    replay, told = Replay(), []
    async with SharedInformer(fake) as informer:
        informer.add_handler(on_change=replay)
        informer.add_handler(on_change=lambda change: told.append(short(change)[0]))
        await informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        with fake.cluster.drop_events():
            fake.update("a", {"n": 1})
            fake.delete("b")
            fake.create("c")
        await asyncio.sleep(100)
        assert names(informer.lister.list()) == ["a", "b"]
        stored = informer.lister.get("a", namespace="default")
        await asyncio.gather(informer.relist(), informer.relist())
        assert names(informer.lister.list()) == ["a", "c"]
        assert informer.lister.get("a", namespace="default") is not stored
        await asyncio.sleep(1)
        assert told == ["add", "add", "delete", "update", "add"]
        assert fake.count("list") <= 3
        stored = informer.lister.get("a", namespace="default")
        await informer.relist()
        assert informer.lister.get("a", namespace="default") is stored
        fake.create("d")
        await asyncio.sleep(10)
        assert replay.known.keys() == {"default/a", "default/c", "default/d"}


async def test_resync():
    """When a resync period is set, every handler should be told of every object again, flagged, without any request."""
    fake = source("a")
    fake.create("bad", {"timeout": "1"})
    told: list = []
    async with SharedInformer(degraded(fake), options=InformerOptions(resync_period=60)) as informer:
        informer.add_handler(on_change=lambda change: told.append(short(change)))
        await informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        told.clear()
        calls = len(fake.calls)
        await asyncio.sleep(125)
        assert [entry[0] for entry in told] == ["update", "update"]
        assert all(entry[-1] == "resync" and entry[1] == entry[2] for entry in told)
        assert len(fake.calls) == calls
        changed = fake.update("a", {"n": 1})
        await asyncio.sleep(1)
        assert told[-1][2:] == (f"a {changed.resource_version}",)


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("", "widgets.v1.example.test"),
        ("ns=a", "widgets.v1.example.test (ns=a)"),
        ("a\nb", r"widgets.v1.example.test (a\nb)"),
        ("x" * 500, f"widgets.v1.example.test ({'x' * 120}... (500 characters))"),
    ],
    ids=["none", "scope", "two lines", "long"],
)
async def test_name(given: str, name: str):
    """When an informer has a name of its own, texts about it should have it beside the resource, in one bounded line."""
    informer = SharedInformer(source("a"), options=InformerOptions(name=given))
    assert informer.name == name
    assert repr(informer) == f"SharedInformer({name}, starting)"
    with pytest.raises(InformerError, match=re.escape(f"the informer of {name} was not started")):
        await informer.wait_for_sync(timeout=1)
    async with informer:
        await informer.wait_for_sync(timeout=10)
        assert repr(informer) == f"SharedInformer({name}, live)"
        assert f"informer {name}" in {task.get_name() for task in asyncio.all_tasks()}
        with pytest.raises(TimeoutError, match=re.escape(f"{name} is at version")):
            await informer.wait_for_version("999999", timeout=1)
    with pytest.raises(InformerError, match=re.escape(f"the informer of {name} is not running")):
        await informer.relist()
    with pytest.raises(RuntimeError, match=re.escape(f"the informer of {name} was started before")):
        await informer.__aenter__()
    with pytest.raises(InformerError, match=re.escape(f"the informer of {name} has ended")):
        informer.add_handler(on_add=print)


# ---------------------------------------------------------------------- indexes and changes


async def test_index():
    """When an index is added before the start or while running, it should be complete; its function must be plain."""
    fake = source()
    fake.create("a", {"tags": ["x"]})
    informer = SharedInformer(fake)
    early = informer.add_index("early", by_spec("tags"))
    async with informer:
        await informer.wait_for_sync(timeout=10)
        late = informer.add_index("late", by_spec("tags"))
        assert names(early["x"]) == names(late["x"]) == ["a"]
        fake.update("a", {"tags": ["y"]})
        await asyncio.sleep(1)
        assert list(early["x"]) == list(late["x"]) == []
        assert names(informer.lister.by_index("late", "y")) == ["a"]

    async def values(_: KubeObject) -> list[str]:
        return []

    with pytest.raises(TypeError, match="'coroutine'"):
        informer.add_index("coroutine", values)  # type: ignore[arg-type]


@pytest.mark.parametrize("when", ["before the start", "before the sync", "late"])
async def test_changes(when: str):
    """When changes are iterated, every object should come first as initial, then each change, and then the end."""
    fake = source("a")
    informer = SharedInformer(fake)
    told: list = []

    async def follow() -> None:
        async with informer.changes() as changes:
            told.extend([short(change)[:2] + short(change)[3:] async for change in changes])

    task = asyncio.create_task(follow())
    if when == "before the start":
        await asyncio.sleep(1)
    async with informer:
        if when == "late":
            task.cancel()
            await informer.wait_for_sync(timeout=10)
            task = asyncio.create_task(follow())
        await informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        fake.create("b")
        fake.delete("b")
        await asyncio.sleep(1)
    await task
    assert [word for word, *_ in told] == ["add", "add", "delete"]
    nothing_left()


async def test_initial_flag_of_changes():
    """When objects were there at the beginning, their adds should be flagged, and later ones not."""
    fake = source("a")
    async with SharedInformer(fake) as informer:
        await informer.wait_for_sync(timeout=10)
        async with informer.changes() as changes:
            first = await anext(changes)
            fake.create("b")
            second = await anext(changes)
            assert (first.initial, second.initial) == (True, False)


async def test_changes_and_a_bug():
    """When a bug ends the informer, who iterates in another task should get an InformerError with the cause."""
    informer = SharedInformer(source("a"))
    bug_at(informer, 10)

    async def follow() -> None:
        async with informer.changes() as changes:
            async for _ in changes:
                pass

    task = asyncio.create_task(follow())
    with pytest.raises(Bug):
        async with informer:
            await asyncio.sleep(HOUR)
    with pytest.raises(InformerError, match="died") as caught:
        await task
    assert isinstance(caught.value.__cause__, Bug)
    with pytest.raises(InformerError, match="ended"):
        async with informer.changes():
            pass
    nothing_left()


async def test_leaving_changes_early():
    """When iterating stops early, nothing should be left: no buffer that grows, no generator, no one who waits."""
    fake = source("a", "b")
    async with SharedInformer(fake) as informer:
        await informer.wait_for_sync(timeout=10)
        async with informer.changes() as changes:
            async for _ in changes:
                break
        assert informer._cache.fanout._buffers == []
        assert [change async for change in changes] == []

        async with informer.changes() as changes:
            await anext(changes)
            await anext(changes)
            waiting = asyncio.create_task(anext(changes, None))
            await asyncio.sleep(1)
        assert await waiting is None


async def test_a_slow_reader_of_changes():
    """When a reader of changes is slow, its backlog should be merged by key and it should stay in step."""
    fake = source("a")
    replay = Replay()
    async with SharedInformer(fake, options=InformerOptions(max_backlog=3)) as informer:
        await informer.wait_for_sync(timeout=10)
        async with informer.changes() as changes:
            for number in range(50):
                fake.update("a", {"n": number})
                await asyncio.sleep(0.01)
            async with asyncio.timeout(10):
                async for change in changes:
                    replay(change)
                    if replay.known["default/a"]["spec"] == {"n": 49}:
                        break
        assert len(replay.calls) <= 4


# ---------------------------------------------------------------------- handlers and life together


async def test_a_relist_while_handlers_work():
    """When a relist interrupts the watch at whatever step of a handler, the handler should go on."""
    gate = asyncio.Event()
    heard: dict[int, list[str]] = {}

    async def hear(steps: int, obj: KubeObject) -> None:
        await gate.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        heard.setdefault(steps, []).append(obj.name)

    fake = source("a")
    async with SharedInformer(fake) as informer:
        for steps in range(8):
            informer.add_handler(on_add=partial(hear, steps), name=f"{steps} steps")
        await asyncio.sleep(1)
        asyncio.get_running_loop().call_later(1, gate.set)
        for _ in range(8):
            asyncio.get_running_loop().call_later(1, lambda: asyncio.ensure_future(informer.relist()))
        await asyncio.sleep(5)
        fake.create("b")
        await asyncio.sleep(5)
    assert heard == {steps: ["a", "b"] for steps in range(8)}


async def test_adding_a_handler_while_ending():
    """When a handler adds another while the informer ends, that should be refused and not left hanging."""
    refused = []

    async def last_words(_: KubeObject) -> None:
        try:
            await asyncio.sleep(HOUR)
        finally:
            try:
                informer.add_handler(on_add=print)
            except InformerError as error:
                refused.append(error)
            try:
                await informer.relist()
            except InformerError as error:
                refused.append(error)

    async with SharedInformer(source("a")) as informer:
        informer.add_handler(on_add=last_words)
        await asyncio.sleep(1)
    assert len(refused) == 2
    nothing_left()


async def test_an_outage_of_half_an_hour():
    """When a server is away for 30 minutes, the cache should be kept, health say so, and it recover alone."""
    async with FakeApiServer([WIDGETS]) as server, server.api_client() as client:
        server.create(WIDGETS, {"metadata": {"name": "a"}})
        async with SharedInformer(ApiListerWatcher(client, WIDGETS)) as informer:
            await informer.wait_for_sync(timeout=10)
            await server.wait_until(lambda: server.open_watches(WIDGETS) == 1)
            await server.stop()
            await asyncio.sleep(1800)
            assert informer.health.state == "failing"
            assert names(informer.lister.list()) == ["a"]
            server.create(WIDGETS, {"metadata": {"name": "b"}})
            await server.start()
            await asyncio.sleep(70)
            assert informer.health.state == "live"
            assert names(informer.lister.list()) == ["a", "b"]
    nothing_left()
