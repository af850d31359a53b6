"""tools/watch and the fake source: streams that go on, conditions that are waited for, and a fake that can be trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from informer import (
    Added,
    ApiError,
    ApiListerWatcher,
    Bookmark,
    Change,
    InformerError,
    Item,
    KubeObject,
    Removed,
    SharedInformer,
    Updated,
    WatchOptions,
)
from informer.testing import End, FakeApiServer, FakeListerWatcher, faults, match
from informer.testing.faults import Fault, Script

from .support import PODS, SILENCE, Scripted, following, line, page, pod, pods, settle, tree


@pytest.fixture
def source() -> FakeListerWatcher:
    return FakeListerWatcher(PODS)


# ---------------------------------------------------------------- RetryWatcher


def _status(code: int, reason: str = "") -> dict[str, object]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": "no"}


@pytest.mark.upstream(
    "tools/watch/retrywatcher_test.go: RetryWatcher (20), RetryWatcherToFinishWithUnreadEvents",
    verdict="different",
    reason="nothing ends it: 401 and 403 are retried with a growing delay, since a role or token may come back, and 410 leads to a LIST; upstream's stops",
)
@pytest.mark.parametrize(
    ("trouble", "lists"),
    [
        (faults.status_answer(500, "InternalError", "no"), 1),
        (faults.status_answer(504, "Timeout", "no"), 1),
        (faults.status_answer(403, "Forbidden", "no"), 1),
        (faults.status_answer(401, "Unauthorized", "no"), 1),
        (faults.status_answer(410, "Expired", "no"), 2),
        (faults.NoAnswer(), 1),
        (Script(End.RESET), 1),
        (Script(), 1),
        (Script(line("ERROR", _status(500, "InternalError"))), 1),
        (Script(line("ERROR", _status(504, "Timeout"))), 1),
        (Script(line("ERROR", _status(666))), 1),
        (Script(line("ERROR", tree("a", "1"))), 1),
        (Script(line("ODD", tree("a", "1"))), 1),
        (Script(line("ERROR", _status(410, "Gone"))), 2),
        (Script(line("BOOKMARK", {"kind": "Pod", "metadata": {}})), 1),
    ],
    ids=[
        "500",
        "504",
        "403",
        "401",
        "410",
        "no-answer",
        "reset",
        "empty",
        "in-500",
        "in-504",
        "in-666",
        "in-a-pod",
        "odd-type",
        "in-410",
        "odd-bookmark",
    ],
)
async def test_trouble_with_a_watch(server: FakeApiServer, trouble: Fault, lists: int) -> None:
    """When a watch meets trouble twice, a later one should go on from the last version, and nothing be told twice."""
    server.create(PODS, {"metadata": {"name": "before"}})
    server.faults.add(match("watch", PODS), trouble, times=2)
    async with (
        server.api_client() as api,
        following(ApiListerWatcher(api, PODS)) as (_, told),
    ):
        server.create(PODS, {"metadata": {"name": "during"}})
        await asyncio.sleep(120)
        server.create(PODS, {"metadata": {"name": "after"}})
        await asyncio.sleep(1)
        assert [text.split("@")[0] for text in told] == ["add before", "add during", "add after"]
        assert len(server.lists(PODS)) >= lists
        assert (len(server.lists(PODS)) > 1) == (lists > 1)
        assert server.open_watches(PODS) == 1


async def test_streams_that_close_again_and_again() -> None:
    """When streams bring one event each and close, all events should arrive once, whatever their versions look like."""
    versions = ["2", "5", "900", "31", "abc", "7"]
    source = Scripted(watches=[[pod(f"p{version}", version), 2.0] for version in versions])
    async with following(source) as (_, told):
        await asyncio.sleep(120)
    assert told == [f"add p{version}@{version}" for version in versions]
    assert source.versions("WATCH") == ["1", *versions]
    assert source.versions("LIST") == ["0"]


# ---------------------------------------------------------------- Until


async def until(informer: SharedInformer[KubeObject], *conditions: Callable[[Change[KubeObject]], bool]) -> list[str]:
    """What a user writes to wait for conditions, one after the other; each is first tried on the change before."""
    met: list[str] = []
    async with informer.changes() as changes:
        async for change in changes:
            while len(met) < len(conditions) and conditions[len(met)](change):
                met.append(type(change).__name__)
            if len(met) == len(conditions):
                break
    return met


def added(change: Change[KubeObject]) -> bool:
    return isinstance(change, Added)


def second(change: Change[KubeObject]) -> bool:
    return (
        isinstance(change, Added | Updated)
        and (change.object if isinstance(change, Added) else change.new)["spec"] == 2
    )


def removed(change: Change[KubeObject]) -> bool:
    return isinstance(change, Removed)


@pytest.mark.upstream(
    "tools/watch/until_test.go: Until (5), UntilWithSync (4)",
    verdict="different",
    reason="no function for it: `changes()` begins with what is there, and `asyncio.timeout` and a loop say the rest",
)
@pytest.mark.parametrize(
    "case", ["in order", "same change", "there already", "timeout", "error", "end", "never synced"]
)
async def test_waiting_for_conditions(source: FakeListerWatcher, case: str) -> None:
    """When a program waits for conditions by iterating over changes, each should be met in order, or time be up."""
    if case == "there already":
        source.create("a", 2)
    if case == "never synced":
        source.fail_lists(*[OSError("down")] * 100)
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    async with informer:
        match case:
            case "in order":
                waiting = asyncio.create_task(until(informer, added, second, removed))
                await informer.wait_for_sync(timeout=5)
                source.create("a", 1)
                source.update("a", 2)
                await settle()
                assert not waiting.done()
                source.delete("a")
                assert await waiting == ["Added", "Updated", "Removed"]
            case "same change":
                source.create("a", 2)
                assert await until(informer, added, second) == ["Added", "Added"]
            case "there already":
                await informer.wait_for_sync(timeout=5)
                assert await until(informer, second) == ["Added"]
            case "timeout" | "never synced":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(30):
                        await until(informer, added)
            case "error":
                source.create("a")
                with pytest.raises(ZeroDivisionError):
                    await until(informer, lambda _: bool(1 // 0))
            case "end":
                waiting = asyncio.create_task(until(informer, removed))
                await settle()
    if case == "end":
        assert await waiting == []
        with pytest.raises(InformerError):
            await until(informer, added)


@pytest.mark.upstream("tools/watch/informerwatcher_test.go: InformerWatcherDeletedFinalStateUnknown", verdict="same")
async def test_gone_during_an_outage() -> None:
    """When the watch has expired and the new list is empty, the stream should bring a deletion with the last known object."""
    expired = ApiError("gone", status=410, reason="Gone")
    source = Scripted([page("1", *pods("a")), page("10")], [[expired], [SILENCE]])
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    seen: list[Change[KubeObject]] = []
    async with informer, informer.changes() as changes:
        async for change in changes:
            seen.append(change)
            if len(seen) == 2:
                break
    [first, last] = seen
    assert isinstance(first, Added)
    assert last == Removed(first.object, True)
    assert last.object["metadata"]["resourceVersion"] == "1"


# ---------------------------------------------------------------- the fake


@pytest.mark.upstream("testing/fake_controller_source_test.go: RCNumber, ResetWatch", verdict="same")
async def test_the_fake_replays_and_forgets(source: FakeListerWatcher) -> None:
    """When the fake is watched from an old version, it should replay what came after it, and after a reset refuse it."""
    start = source.cluster.resource_version
    for name in ("a", "b", "c"):
        source.create(name)

    async def replay(version: str) -> list[str]:
        found: list[str] = []
        async with source.watch(WatchOptions(resource_version=version, timeout=1)) as events:
            async for event in events:
                assert isinstance(event, Item | Bookmark)
                found.append(event.resource_version)
        return found

    first = int(start) + 1
    assert await replay(start) == [str(first), str(first + 1), str(first + 2)]
    assert await replay(str(first)) == [str(first + 1), str(first + 2)]
    assert await replay(str(first + 2)) == []
    source.compact()
    with pytest.raises(ApiError) as refused:
        await replay(start)
    assert refused.value.expired
    assert await replay(str(first + 2)) == []
