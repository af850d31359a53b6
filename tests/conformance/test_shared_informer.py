"""shared_informer_test.go: handlers and indexes over the life of an informer."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref

import pytest
from attrs.exceptions import FrozenInstanceError

from informer import (
    ApiError,
    DegradedListerWatcher,
    InformerError,
    InformerOptions,
    KubeObject,
    SharedInformer,
    SyncError,
)
from informer.testing import FakeListerWatcher

from .support import PODS, following, names, record, settle, tasks


@pytest.fixture
def source() -> FakeListerWatcher:
    return FakeListerWatcher(PODS)


def ignore(_: object) -> None:
    """A handler's function that does nothing."""


# ---------------------------------------------------------------- indexes


@pytest.mark.upstream("shared_informer_test.go: Indexer", verdict="same")
@pytest.mark.upstream("index_test.go: GetIndexFuncValues, MultiIndexKeys", verdict="same")
async def test_indexes(source: FakeListerWatcher) -> None:
    """When indexes are added before the start and while it runs, both should hold what is there and follow changes."""
    source.create("a", {"n": [1, 2]}, labels={"team": "red"})
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    team = informer.add_index("team", lambda obj: [obj.metadata.labels["team"]])
    async with informer:
        await informer.wait_for_sync(timeout=5)
        source.create("b", {"n": [2, 3]}, labels={"team": "blue"})
        await settle()
        numbers = informer.add_index("numbers", lambda obj: map(str, obj["spec"]["n"]))
        assert [obj.name for obj in team["red"]] == ["a"]
        assert sorted(obj.name for obj in numbers["2"]) == ["a", "b"]
        assert sorted(team.values()) == ["blue", "red"]
        assert sorted(numbers.values()) == ["1", "2", "3"]
        source.update("a", {"n": [3]}, labels={"team": "blue"})
        source.delete("b")
        await settle()
        assert [*team.values()] == ["blue"]
        assert [*numbers.values()] == ["3"]
        assert [obj.name for obj in team["blue"]] == ["a"]
        assert team["red"] == []


# ---------------------------------------------------------------- resync


@pytest.mark.upstream(
    "shared_informer_test.go: ListenerResyncPeriods",
    verdict="different",
    reason="one period for all handlers of an informer: periods of their own are rounded to a common tick upstream, and whoever wants another rhythm has a timer and the lister",
)
@pytest.mark.upstream(
    "shared_informer_test.go: ResyncCheckPeriod",
    verdict="different",
    reason="handlers cannot ask for a period, so adding one never changes how often others are told; at least 1 s, as upstream",
)
async def test_resync_periods(source: FakeListerWatcher) -> None:
    """When several handlers follow, all should get the initial objects, and all resyncs at the same times."""
    source.create("a")
    source.create("b")
    start = asyncio.get_running_loop().time()
    seen: dict[str, list[tuple[str, float]]] = {"early": [], "late": []}

    def note(who: str) -> None:
        informer.add_handler(
            on_update=lambda _, new: seen[who].append((new.name, asyncio.get_running_loop().time() - start))
        )

    async with following(source, resync_period=2.0) as (informer, told):
        note("early")
        await asyncio.sleep(2.5)
        note("late")
        await asyncio.sleep(2)
    assert told[:2] == ["add a@2 initial", "add b@3 initial"]
    assert seen["early"] == [("a", 2.0), ("b", 2.0), ("a", 4.0), ("b", 4.0)]
    assert seen["late"] == [("a", 4.0), ("b", 4.0)]
    with pytest.raises(ValueError, match="at least 1 s"):
        InformerOptions(resync_period=0.5)


@pytest.mark.upstream("shared_informer_test.go: ListenerResyncPeriodsDelayed", verdict="same")
async def test_resync_while_a_handler_is_slow(source: FakeListerWatcher) -> None:
    """When a handler comes to its changes late, it should get the initial objects and the resyncs all the same."""
    source.create("a")
    informer: SharedInformer[KubeObject] = SharedInformer(source, options=InformerOptions(resync_period=1.0))
    slow: list[str] = []

    async def wait(obj: KubeObject) -> None:
        await asyncio.sleep(3.5)
        slow.append(f"add {obj.name}")

    informer.add_handler(on_add=wait, on_update=lambda _, new: slow.append(f"resync {new.name}"))
    fast = record(informer)
    async with informer:
        await asyncio.sleep(3.2)
        assert slow == []
        assert fast == ["add a@2 initial", *["resync a@2"] * 3]
        await asyncio.sleep(0.5)
        assert slow == ["add a", *["resync a"] * 3]


# ---------------------------------------------------------------- start


@pytest.mark.upstream("shared_informer_test.go: SharedInformerInitializationRace", verdict="same")
async def test_handlers_added_during_the_start(source: FakeListerWatcher) -> None:
    """When a handler is added at any moment of the start, it should get each initial object once, and what comes later."""
    source.create("a")
    source.create("b")
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    recorders = [record(informer)]
    async with informer:
        for _ in range(30):
            recorders.append(record(informer))
            await asyncio.sleep(0)
        assert informer.health.synced
        source.create("c")
        await settle()
    assert {tuple(told) for told in recorders} == {("add a@2 initial", "add b@3 initial", "add c@4")}


@pytest.mark.upstream(
    "shared_informer_test.go: SharedInformerStartRace",
    verdict="different",
    reason="there are no setters: the configuration is one frozen value, given when the informer is made",
)
async def test_configuration_is_frozen(source: FakeListerWatcher) -> None:
    """When somebody tries to change the options, it should be an error; a running informer has no setter for them."""
    options = InformerOptions(max_backlog=5)
    async with following(source):
        with pytest.raises(FrozenInstanceError):
            options.max_backlog = 6  # type: ignore[misc]
    assert not [name for name in dir(SharedInformer) if name.startswith("set")]


@pytest.mark.upstream("shared_informer_test.go: StateSharedInformer", verdict="same")
async def test_states(source: FakeListerWatcher) -> None:
    """When an informer is made, started, synced and left, its health should say which of it."""
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    states = [informer.health.state]
    with pytest.raises(InformerError, match="was not started"):
        await informer.wait_for_sync(timeout=1)
    async with informer:
        states.append(informer.health.state)
        await informer.wait_for_sync(timeout=5)
        states.append(informer.health.state)
    states.append(informer.health.state)
    assert states == ["starting", "starting", "live", "stopped"]
    assert await informer.stopped() is None


# ---------------------------------------------------------------- troubles


@pytest.mark.upstream(
    "shared_informer_test.go: SharedInformerWatchDisruption",
    verdict="stricter",
    reason="an unchanged object is told to nobody on a relist, whether there is a resync period or not; upstream, without one, tells every handler of every unchanged object",
)
@pytest.mark.parametrize("resync_period", [None, 5.0])
async def test_changes_no_watch_told_of(source: FakeListerWatcher, resync_period: float | None) -> None:
    """When changes were missed, a relist should tell of what changed only; with resync, of everything at its time."""
    for name in ("pod1", "pod2"):
        source.create(name)
    async with following(source, resync_period=resync_period) as (_, told):
        told.clear()
        with source.cluster.drop_events():
            source.update("pod2", {"n": 2})
            source.create("pod3")
        source.compact()
        source.drop_watches()
        await asyncio.sleep(4)
        assert told == ["update pod2@3 to pod2@4", "add pod3@5"]
        told.clear()
        await asyncio.sleep(2)
        assert told == ([] if resync_period is None else ["resync pod1@2", "resync pod2@4", "resync pod3@5"])


@pytest.mark.upstream(
    "shared_informer_test.go: SharedInformerErrorHandling",
    verdict="different",
    reason="no error handler to install: `health` has the latest error, `wait_for_sync` raises with it, the log has it; it can be read at any time and stop nothing",
)
async def test_refused_list_is_reported(source: FakeListerWatcher, caplog: pytest.LogCaptureFixture) -> None:
    """When a LIST is refused, health, log and whoever waits for the sync should say so within a second."""
    source.fail_lists(*[ApiError("Access Denied", status=403, reason="Forbidden")] * 20)
    async with following(source, sync=False) as (informer, _):
        with pytest.raises(SyncError, match="Access Denied"):
            await informer.wait_for_sync(timeout=0.5)
        assert informer.health.state == "failing"
        assert "Access Denied" in (informer.health.last_error or "")
    assert "Access Denied" in caplog.text


@pytest.mark.upstream("shared_informer_test.go: SharedInformerTransformer", verdict="same")
@pytest.mark.upstream("controller_test.go: TransformingInformer", verdict="same")
async def test_handlers_see_decoded_objects(source: FakeListerWatcher) -> None:
    """When a decoder is given, adds, updates (with the old object), deletes and the store should show its values."""
    source.create("a", 1)

    def decode(obj: KubeObject) -> str:
        return f"{obj.name}={obj['spec']}"

    async with following(DegradedListerWatcher(source, decode=decode)) as (informer, told):
        source.create("b", 1)
        source.update("a", 2)
        source.delete("b")
        await settle()
        assert informer.lister.list() == ["a=2"]
    assert told == ["add a=1 initial", "add b=1", "update a=1 to a=2", "delete b=1"]


@pytest.mark.upstream(
    "shared_informer_test.go: EventPanics (2)",
    verdict="stricter",
    reason="without a pause of a second, and the handler still becomes synced (kubernetes#129024)",
)
@pytest.mark.parametrize("count", [1, 5], ids=["simple", "many"])
async def test_handler_that_raises(source: FakeListerWatcher, caplog: pytest.LogCaptureFixture, count: int) -> None:
    """When a handler raises, each failure should be logged under its name, and it and the others go on."""
    for number in range(count):
        source.create(f"p{number}")
    informer: SharedInformer[KubeObject] = SharedInformer(source)

    def explode(obj: KubeObject) -> None:
        raise ValueError(obj.name)

    fragile = informer.add_handler(on_add=explode, name="fragile")
    told = record(informer)
    async with informer:
        await informer.wait_for_sync(timeout=5)
        await settle()
        assert fragile.has_synced
        assert len(told) == count
        source.create("later")
        await settle()
        assert len(told) == count + 1
        assert informer.health.state == "live"
    records = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(records) == count + 1
    assert all("fragile" in one.getMessage() and one.exc_info for one in records)


# ---------------------------------------------------------------- handlers come and go


@pytest.mark.upstream("shared_informer_test.go: SharedInformerRemoveHandler", verdict="same")
@pytest.mark.upstream("shared_informer_test.go: RemoveWhileActive", verdict="same")
@pytest.mark.upstream("shared_informer_test.go: SharedInformerRemovingRemoved", verdict="same")
async def test_removed_handler_is_told_nothing_more(source: FakeListerWatcher) -> None:
    """When a handler is removed, even twice, it should be told nothing more, while the others are."""
    async with following(source) as (informer, told):
        mine: list[str] = []
        registration = informer.add_handler(on_add=lambda obj: mine.append(obj.name))
        source.create("a")
        await settle()
        await registration.remove()
        await registration.remove()
        source.create("b")
        await settle()
        assert mine == ["a"]
        assert told == ["add a@2", "add b@3"]


@pytest.mark.upstream("shared_informer_test.go: SharedInformerMultipleRegistration", verdict="same")
async def test_one_function_registered_twice(source: FakeListerWatcher) -> None:
    """When one function is registered twice, it should be called twice, and once after one removal."""
    async with following(source) as (informer, _):
        mine: list[str] = []

        def note(obj: KubeObject) -> None:
            mine.append(obj.name)

        first, second = informer.add_handler(on_add=note), informer.add_handler(on_add=note)
        assert first is not second
        source.create("a")
        await settle()
        assert mine == ["a", "a"]
        await first.remove()
        source.create("b")
        await settle()
        assert mine == ["a", "a", "b"]


@pytest.mark.upstream("shared_informer_test.go: SharedInformerHandlerAbuse", verdict="same")
async def test_handlers_come_and_go_while_events_flow(source: FakeListerWatcher) -> None:
    """When handlers are added and removed all the time while events flow, a steady one should miss nothing."""
    stop = asyncio.Event()

    async def come_and_go(informer: SharedInformer[KubeObject]) -> None:
        while not stop.is_set():
            registration = informer.add_handler(on_add=ignore, on_update=lambda _, new: None)
            await asyncio.sleep(0.01)
            await registration.remove()

    async with following(source) as (informer, told):
        source.create("a", 0)
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(come_and_go(informer))
            for number in range(1, 501):
                source.update("a", number)
                await asyncio.sleep(0.001)
            stop.set()
        await settle()
        assert len(told) == 501
        assert [int(text.rpartition("@")[2]) for text in told] == [*range(2, 503)]
        assert len(informer._cache.fanout._buffers) == 1  # nobody who went is still collected for
    assert not tasks()


@pytest.mark.upstream("shared_informer_test.go: AddOnStoppedSharedInformer", verdict="same")
@pytest.mark.upstream("shared_informer_test.go: RemoveOnStoppedSharedInformer", verdict="same")
async def test_after_the_end(source: FakeListerWatcher) -> None:
    """When the informer has ended, adding a handler should be an error that says so, and removing one none."""
    async with following(source) as (informer, _):
        registration = informer.add_handler(on_add=ignore)
    with pytest.raises(InformerError, match="has ended"):
        informer.add_handler(on_add=ignore)
    await registration.remove()


@pytest.mark.upstream("shared_informer_test.go: AddWhileActive", verdict="same")
@pytest.mark.upstream(
    "synctrack_test.go, lazy_test.go: BasicLogic (12), AsyncLocking, SingleFileCounting, SingleFile", verdict="same"
)
@pytest.mark.upstream(
    "controller-runtime: priorityqueue_test.go, controller_test.go: no Reconcile before every handler has processed the initial list",
    verdict="same",
)
async def test_late_handler(source: FakeListerWatcher) -> None:
    """When a handler is added late, it should be synced once its calls for what was there have returned, and no sooner."""
    source.create("pod1")
    async with following(source) as (informer, _):
        gate, told = asyncio.Event(), list[str]()

        async def on_add(obj: KubeObject) -> None:
            await gate.wait()
            told.append(obj.name)

        registration = informer.add_handler(on_add=on_add)
        source.create("pod2")
        await settle()
        assert (registration.has_synced, registration.backlog, told) == (
            False,
            3,
            [],
        )  # the end of the initial ones waits too
        gate.set()
        await settle()
        assert (registration.has_synced, registration.backlog, told) == (True, 0, ["pod1", "pod2"])


@pytest.mark.upstream("shared_informer_test.go: SharedInformerShutdown (3)", verdict="same")
@pytest.mark.parametrize("when", ["before the start", "after the sync", "never started"])
async def test_no_task_is_left(source: FakeListerWatcher, when: str) -> None:
    """When an informer with a handler ends, or never begins, no task should be left."""
    source.create("a")
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    if when != "after the sync":
        informer.add_handler(on_add=ignore)
    if when != "never started":
        async with informer:
            await informer.wait_for_sync(timeout=5)
            if when == "after the sync":
                informer.add_handler(on_add=ignore)
            await settle()
            assert len(tasks()) == 4  # the informer's, the reflector's, the handler's and the one that watches over it
    assert not tasks()


@pytest.mark.upstream(
    "shared_informer_test.go: RemoveEventHandler_AsynchronousPanic",
    verdict="different",
    reason="`remove()` always waits for the running call: what a handler uses can be closed after it",
)
@pytest.mark.upstream("shared_informer_test.go: RemoveEventHandler_SynchronousShutdown", verdict="same")
@pytest.mark.parametrize("fails", [False, True])
async def test_removal_while_a_call_runs(source: FakeListerWatcher, fails: bool) -> None:
    """When a handler is removed while its call runs, the removal should return after the call, and no other call come."""
    events: list[str] = []

    async def slow(obj: KubeObject) -> None:
        events.append(f"begin {obj.name}")
        await asyncio.sleep(5)
        events.append(f"end {obj.name}")
        if fails:
            raise ValueError("no")

    async with following(source) as (informer, told):
        registration = informer.add_handler(on_add=slow)
        source.create("a")
        source.create("b")
        await asyncio.sleep(1)
        await registration.remove()
        events.append("removed")
        source.create("c")
        await asyncio.sleep(60)
        assert len(told) == 3
    assert events == ["begin a", "end a", "removed"]


@pytest.mark.upstream("shared_informer_test.go: ShutDownEventHandler_Lifecycles (3)", verdict="same")
@pytest.mark.parametrize("when", ["never started", "added early", "added late"])
async def test_removal_returns(source: FakeListerWatcher, when: str) -> None:
    """When a handler is removed at any time of its life, that should return at once when it is idle."""
    source.create("a")
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    early = informer.add_handler(on_add=ignore)
    start = asyncio.get_running_loop().time()
    if when == "never started":
        await early.remove()
    else:
        async with informer:
            await informer.wait_for_sync(timeout=5)
            registration = early if when == "added early" else informer.add_handler(on_add=ignore)
            await settle()
            await registration.remove()
            assert names(informer) == ["a"]
    assert asyncio.get_running_loop().time() - start < 0.01


@pytest.mark.upstream("util/workqueue: *_test.go: queue: GarbageCollection", verdict="same")
async def test_what_was_handled_is_referenced_by_nobody() -> None:
    """When an object was deleted, its handler is done and the next change has come, nothing should refer to it any more."""

    class Value:
        name = "value"

    source = FakeListerWatcher(PODS)
    source.create("a")
    async with following(DegradedListerWatcher(source, decode=lambda _: Value())) as (informer, told):
        value = weakref.ref(informer.lister.get("a", namespace="default"))
        assert value() is not None
        source.update("a", 2)
        await settle()
        second = weakref.ref(informer.lister.get("a", namespace="default"))
        source.delete("a")
        source.create("b")  # the latest change may still stand in a frame that waits for the next
        await settle()
        gc.collect()
        assert len(told) == 4
        assert value() is None
        assert second() is None
