"""controller_test.go, wait_test.go and controller-runtime: the whole way from a server to a handler, and waiting for it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from informer import (
    Added,
    ApiError,
    ApiListerWatcher,
    Change,
    DegradedListerWatcher,
    InformerError,
    InformerFactory,
    KubeObject,
    NotFoundError,
    NotSyncedError,
    Removed,
    SharedInformer,
    SyncError,
    Updated,
)
from informer.testing import FakeApiServer, FakeListerWatcher, faults, match

from .support import NODES, PODS, SILENCE, Scripted, following, names, page, pod, pods, record, settle, tasks


@pytest.fixture
def source() -> FakeListerWatcher:
    return FakeListerWatcher(PODS)


@pytest.mark.upstream("controller_test.go: HammerController", verdict="same")
async def test_hammer(source: FakeListerWatcher) -> None:
    """When producers write at random while watches break and resyncs come, handler, store and server should end up equal."""
    randomly = random.Random(5)
    mirror: dict[str, str] = {}
    informer: SharedInformer[KubeObject] = SharedInformer(source)

    def follow(change: Change[KubeObject]) -> None:
        match change:
            case Added(obj):
                assert obj.key not in mirror
                mirror[obj.key] = obj.resource_version
            case Updated(old, new):
                assert mirror[old.key] == old.resource_version
                mirror[new.key] = new.resource_version
            case Removed(obj):
                del mirror[obj.key]

    informer.add_handler(on_change=follow)

    async def produce() -> None:
        for _ in range(100):
            name = f"p{randomly.randrange(20)}"
            known = f"default/{name}" in {obj.key for obj in stored()}
            match randomly.choice(["write", "write", "delete", "break", "miss"]):
                case "write":
                    source.update(name, randomly.random()) if known else source.create(name)
                case "delete" if known:
                    source.delete(name)
                case "break":
                    source.drop_watches(randomly.choice([None, ConnectionResetError(), ApiError("x", status=500)]))
                case "miss":
                    with source.cluster.drop_events():
                        source.update(name, 0) if known else source.create(name)
                    source.compact()
                    source.drop_watches()
            await asyncio.sleep(randomly.random())

    def stored() -> list[KubeObject]:
        return [KubeObject.parse(one.whole) for one in source.cluster.table(PODS)[0].table.objects.values()]

    assert not informer.health.synced
    async with informer:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(produce())
        await informer.wait_for_sync(timeout=60)
        await informer.relist()
        await settle()
        expected = {obj.key: obj.resource_version for obj in stored()}
        assert expected
        assert mirror == expected
        assert {obj.key: obj.resource_version for obj in informer.lister.list()} == expected


@pytest.mark.upstream("controller_test.go: Update", verdict="same")
async def test_updates_lead_forward(source: FakeListerWatcher) -> None:
    """When objects are changed in many orders, updates should lead from a state to a later one, and deletes arrive."""
    steps: Counter[tuple[str, str]] = Counter()
    deleted: list[str] = []
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    informer.add_handler(
        on_update=lambda old, new: steps.update([(old["spec"], new["spec"])]),
        on_delete=lambda last: deleted.append(last["spec"]),
    )
    async with informer:
        for number in range(10):
            name = f"p{number}"
            source.create(name, "from")
            if number % 2:
                await asyncio.sleep(0.01)
            source.update(name, "from")
            source.update(name, "to")
            source.update(name, "to")
            source.delete(name)
        await asyncio.sleep(1)
    assert set(steps) <= {("from", "from"), ("from", "to"), ("to", "to")}
    assert ("from", "to") in steps
    assert set(deleted) == {"to"}


@pytest.mark.upstream(
    "controller_test.go: PanicPropagated",
    verdict="different",
    reason="an Exception of a handler is its own failure, logged like a shared informer's; what is no Exception ends the informer and is raised plain from its `async with`",
)
async def test_crash_comes_out(source: FakeListerWatcher) -> None:
    """When a handler raises what is no Exception, the body should be cancelled and that be raised from it."""

    class Crash(BaseException):
        pass

    def crash(obj: KubeObject) -> None:
        raise Crash(obj.name)

    informer: SharedInformer[KubeObject] = SharedInformer(source)
    informer.add_handler(on_add=crash)
    source.create("a")
    with pytest.raises(Crash, match="a"):
        async with informer:
            await asyncio.sleep(3600)
    assert isinstance(await informer.stopped(), Crash)
    assert informer.health.state == "stopped"
    assert not tasks()


@pytest.mark.upstream("controller_test.go: TransformingInformerRace", verdict="same")
async def test_resync_decodes_nothing(source: FakeListerWatcher) -> None:
    """When resyncs come, cached objects should be told as they are, never decoded again."""
    for number in range(5):
        source.create(f"p{number}")
    decoded: Counter[str] = Counter()

    def decode(obj: KubeObject) -> str:
        decoded[obj.name] += 1
        return f"<{obj.name}>"

    async with following(DegradedListerWatcher(source, decode=decode), resync_period=1.0) as (_, told):
        await asyncio.sleep(20.5)
    assert set(decoded.values()) == {1}
    assert told.count("resync <p0>") == 20


@pytest.mark.upstream(
    "controller_test.go: DeletionHandlingObjectToName, DeletedObjectGetObjectName, DeletedObjectGetKey",
    verdict="different",
    reason="there are no tombstones to unwrap: `on_delete` always gets an object, and `Removed.final_state_unknown` says when it may be an old state",
)
async def test_deletions_have_an_object() -> None:
    """When an object is deleted before our eyes or behind our back, the handler should get an object with name and key."""
    source = FakeListerWatcher(PODS)
    seen: list[tuple[str, str, bool]] = []
    informer: SharedInformer[KubeObject] = SharedInformer(source)

    def note(change: Change[KubeObject]) -> None:
        if isinstance(change, Removed):
            seen.append((change.object.name, change.object.key, change.final_state_unknown))

    informer.add_handler(on_change=note)
    source.create("a")
    source.create("b")
    async with informer:
        await informer.wait_for_sync(timeout=5)
        source.delete("a")
        await settle()
        with source.cluster.drop_events():
            source.delete("b")
        await informer.relist()
        await settle()
    assert seen == [("a", "default/a", False), ("b", "default/b", True)]


@pytest.mark.upstream("controller_test.go: ReplaceEvents (6)", verdict="same")
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "ab", ["add a@1", "add b@1"]),
        ("ab", "", ["delete a@1 unknown", "delete b@1 unknown"]),
        (
            "abc",
            "BCd",
            ["delete a@1 unknown", "update b@1 to b@2", "update c@1 to c@2", "add d@1"],
        ),
    ],
    ids=["create", "delete all", "mixed"],
)
async def test_relist_and_what_a_handler_sees(before: str, after: str, expected: list[str]) -> None:
    """When a relist changes much, deletes should come first, and the store be final at the first call."""
    found = [pod(letter.lower(), "2" if letter.isupper() else "1") for letter in after]
    source = Scripted([page("1", *pods(*before)), page("9", *found)])
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    told = record(informer)
    stores: list[list[str]] = []
    informer.add_handler(on_change=lambda _: stores.append(names(informer)))
    async with informer:
        await informer.wait_for_sync(timeout=5)
        await settle()
        told.clear()
        stores.clear()
        await informer.relist()
        await settle()
    assert told == expected
    assert stores == [[item.object.name for item in found]] * len(expected)


@pytest.mark.upstream("controller_test.go: ResetWatch (2)", verdict="same")
async def test_break_with_lost_history(source: FakeListerWatcher) -> None:
    """When the watch breaks and history is lost, changes should arrive as updates and adds that are not initial."""
    source.create("pod1", 1)
    async with following(source) as (_, told):
        with source.cluster.drop_events():
            source.update("pod1", 2)
            source.create("pod2")
        source.compact()
        source.drop_watches(ApiError("too old", status=410, reason="Expired"))
        await asyncio.sleep(5)
        source.create("pod3")
        await settle()
    assert told == ["add pod1@2 initial", "update pod1@2 to pod1@3", "add pod2@4", "add pod3@5"]


@pytest.mark.upstream("controller_test.go: StoreResourceVersion", verdict="same")
@pytest.mark.upstream(
    "controller_test.go: StoreResourceVersionWithNonMetaTransform",
    verdict="stricter",
    reason="the version stands beside the value, so it moves on with every event, whatever the value is",
)
@pytest.mark.upstream("thread_safe_store_test.go: ThreadSafeStoreRV (4)", verdict="same")
@pytest.mark.parametrize("decoded", [False, True])
async def test_version_of_the_store(source: FakeListerWatcher, decoded: bool) -> None:
    """When objects are added, updated, deleted and listed, the store's version should be that of the last change."""
    used = DegradedListerWatcher(source, decode=lambda obj: len(obj.raw)) if decoded else source
    source.create("a")
    async with following(used) as (informer, _):

        async def at(version: str) -> None:
            await informer.wait_for_version(version, timeout=0.01)
            with pytest.raises(TimeoutError):
                await informer.wait_for_version(str(int(version) + 1), timeout=0.01)

        await at("2")
        source.create("b")
        await at("3")
        source.update("a", 1)
        await at("4")
        source.delete("a")
        await at("5")
        source.bookmark("6")
        await at("6")
        with source.cluster.drop_events():
            source.cluster.resource_version = "40"
            source.create("c")
        await informer.relist()
        await at("41")


# ---------------------------------------------------------------- waiting


@pytest.fixture
async def two_kinds(server: FakeApiServer) -> FakeApiServer:
    server.add_resource(NODES)
    return server


@pytest.mark.upstream(
    "wait_test.go: WaitFor (8)",
    verdict="different",
    reason="who is late stands in the error, with what the server answered last, instead of in log lines",
)
@pytest.mark.upstream("wait_test.go: SyncResult (3)", verdict="same")
async def test_waiting_for_several(two_kinds: FakeApiServer) -> None:
    """When some informers are synced and some not, waiting should name those that are not, in order, with the cause."""
    async with two_kinds.api_client() as api, InformerFactory(api) as factory:
        await factory.wait_for_sync(timeout=0)  # nothing to wait for
        two_kinds.faults.add(match("list", PODS), faults.status_answer(500, "InternalError", "no pods"), times=None)
        two_kinds.faults.add(match("list", NODES), faults.NoAnswer(), times=None)
        factory.informer(PODS, namespace="b")
        factory.informer(NODES)
        with pytest.raises(SyncError) as caught:
            await factory.wait_for_sync(timeout=1)
        nodes, _, pods = str(caught.value).partition("; ")
        assert nodes == "nodes.v1 is not synced: no answer from the server yet"
        assert pods.startswith("pods.v1 (ns=b) is not synced: 500 InternalError")
        assert pods.endswith("(waited 1 s)")
        assert isinstance(caught.value.__cause__, SyncError)
        two_kinds.faults.clear()
        await factory.wait_for_sync(timeout=120)
        async with asyncio.timeout(0):
            await factory.wait_for_sync(timeout=0)  # what is done already wins
        factory.informer(PODS, namespace="c")
        waiter = asyncio.create_task(factory.wait_for_sync())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter


@pytest.mark.upstream("controller-runtime: cache_test.go: cancel of GetInformer", verdict="same")
async def test_waiting_can_be_given_up(source: FakeListerWatcher) -> None:
    """When somebody stops waiting for the sync, that should go through, and the informer still get there."""
    source.fail_lists(OSError("down"))
    async with following(source, sync=False) as (informer, _):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await informer.wait_for_sync()
        waiter = asyncio.create_task(informer.wait_for_sync())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await informer.wait_for_sync(timeout=10)


@pytest.mark.upstream("controller-runtime: priorityqueue_test.go, controller_test.go: CacheSyncTimeout", verdict="same")
@pytest.mark.upstream("controller-runtime: priorityqueue_test.go, controller_test.go: start twice", verdict="same")
async def test_timeout_and_second_start(source: FakeListerWatcher) -> None:
    """When a cache does not sync in time, that should be an error; so should a second start."""
    source.fail_lists(*[ApiError("down", status=503)] * 100)
    async with following(source, sync=False) as (informer, _):
        with pytest.raises(SyncError, match="waited 120 s"):
            await informer.wait_for_sync(timeout=120)
        with pytest.raises(RuntimeError, match="started before"):
            async with informer:
                pass
    with pytest.raises(RuntimeError, match="started before"):
        await informer.__aenter__()


@pytest.mark.upstream(
    "controller-runtime: priorityqueue_test.go, controller_test.go: sources added later, warmup", verdict="same"
)
@pytest.mark.upstream("controller-runtime: cache_test.go: not-started error", verdict="same")
async def test_informers_added_later(two_kinds: FakeApiServer) -> None:
    """When an informer is asked for while others run, it should start at once; before its sync, reads are errors."""
    two_kinds.create(NODES, {"metadata": {"name": "n"}})
    async with two_kinds.api_client() as api, InformerFactory(api) as factory:
        factory.informer(PODS)
        await factory.wait_for_sync(timeout=5)
        nodes = factory.informer(NODES)
        for read in (lambda: nodes.lister.get("n"), nodes.lister.list, lambda: len(nodes.lister)):
            with pytest.raises(NotSyncedError, match="wait_for_sync"):
                read()
        await factory.wait_for_sync(timeout=5)
        assert nodes.lister.get("n").name == "n"
    with pytest.raises(RuntimeError, match="has ended"):
        factory.informer(NODES, namespace=None)


# ---------------------------------------------------------------- scopes


@pytest.mark.upstream("controller-runtime: cache_test.go: namespaces", verdict="same")
@pytest.mark.upstream(
    "controller-runtime: cache_test.go: unknown namespace error",
    verdict="different",
    reason="an informer of one namespace answers for another one as client-go's does: there is nothing",
)
async def test_namespaces(server: FakeApiServer) -> None:
    """When informers follow one namespace or all, each should hold what is in it, and reads by namespace find it."""
    for namespace in ("red", "blue"):
        server.create(PODS, {"metadata": {"name": "a", "namespace": namespace}})
    async with server.api_client() as api, InformerFactory(api) as factory:
        everywhere, red = factory.informer(PODS), factory.informer(PODS, namespace="red")
        await factory.wait_for_sync(timeout=5)
        assert sorted(obj.key for obj in everywhere.lister.list()) == ["blue/a", "red/a"]
        assert [obj.key for obj in everywhere.lister.list(namespace="blue")] == ["blue/a"]
        assert [obj.key for obj in red.lister.list()] == ["red/a"]
        assert red.lister.list(namespace="blue") == []
        with pytest.raises(NotFoundError):
            red.lister.get("a", namespace="blue")
        assert sorted(request.path for request in server.lists(PODS)) == [
            "/api/v1/namespaces/red/pods",
            "/api/v1/pods",
        ]


@pytest.mark.upstream("controller-runtime: cache_test.go: selectors (table)", verdict="same")
@pytest.mark.upstream("dynamicinformer, metadatainformer: informer_test.go: filtered (6)", verdict="same")
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({"namespace": "red"}, ["red/a", "red/b", "red/later"]),
        ({"label_selector": "tier=gold"}, ["blue/a", "red/a"]),
        ({"label_selector": "tier in (gold,silver)"}, ["blue/a", "red/a", "red/b", "red/later"]),
        ({"field_selector": "metadata.name=a"}, ["blue/a", "red/a"]),
        ({"namespace": "red", "label_selector": "tier=gold"}, ["red/a"]),
        ({"namespace": "red", "field_selector": "metadata.name!=a"}, ["red/b", "red/later"]),
    ],
    ids=str,
)
async def test_filters(server: FakeApiServer, scope: dict[str, Any], expected: list[str]) -> None:
    """When an informer is narrowed, the server should be told in every request, and only matching objects arrive."""
    for namespace, name, tier in (("red", "a", "gold"), ("blue", "a", "gold"), ("red", "b", "silver")):
        server.create(PODS, {"metadata": {"name": name, "namespace": namespace, "labels": {"tier": tier}}})
    async with server.api_client() as api, InformerFactory(api) as factory:
        informer = factory.informer(PODS, **scope)
        await factory.wait_for_sync(timeout=5)
        server.create(PODS, {"metadata": {"name": "later", "namespace": "red", "labels": {"tier": "silver"}}})
        server.create(PODS, {"metadata": {"name": "c", "namespace": "blue", "labels": {"tier": "bronze"}}})
        await asyncio.sleep(0.1)
        found = {obj.key for obj in informer.lister.list()}
        wanted = set(expected)
        assert found == wanted
        for request in server.requests:
            assert request.query.get("labelSelector", "") == scope.get("label_selector", "")
            assert request.query.get("fieldSelector", "") == scope.get("field_selector", "")


@pytest.mark.upstream("dynamicinformer, metadatainformer: informer_test.go: factory (3)", verdict="same")
async def test_factory(server: FakeApiServer) -> None:
    """When the same thing is asked for twice, it should be the same informer; adds, updates and deletes arrive."""
    async with server.api_client() as api, InformerFactory(api) as factory:
        informer = factory.informer(PODS)
        assert factory.informer(PODS) is informer
        assert factory.informer(PODS, namespace="red") is not informer
        told = record(informer)
        await factory.wait_for_sync(timeout=5)
        made = server.create(PODS, {"metadata": {"name": "a"}})
        server.patch(PODS, "a", {"spec": {"n": 1}})
        server.delete(PODS, "a")
        await asyncio.sleep(0.1)
        version = int(made["metadata"]["resourceVersion"])
        assert told == [f"add a@{version}", f"update a@{version} to a@{version + 1}", f"delete a@{version + 2}"]
        with pytest.raises(ValueError, match="other checks"):
            factory.informer(PODS, checks=[lambda _: ()])


@pytest.mark.upstream("dynamicinformer, metadatainformer: informer_test.go: streaming list, simple", verdict="same")
@pytest.mark.upstream(
    "dynamicinformer, metadatainformer: informer_test.go: streaming list, unsupported", verdict="same"
)
@pytest.mark.parametrize("served", ["unmarked", "marked", "refused"])
async def test_streaming_lists_of_a_server(server: FakeApiServer, served: str) -> None:
    """When a server streams an empty list, streams it without its mark, or refuses, the informer should be synced."""
    server.watch_rules.streaming_lists = served  # type: ignore[assignment]  # one of its literals
    async with (
        server.api_client() as api,
        following(ApiListerWatcher(api, PODS), initial_list="stream") as (informer, _),
    ):
        assert len(informer.lister) == 0
        assert len(server.lists(PODS)) == (0 if served == "marked" else 1)
        server.create(PODS, {"metadata": {"name": "a"}})
        await asyncio.sleep(0.1)
        assert names(informer) == ["a"]


@pytest.mark.upstream(
    "controller-runtime: cache_test.go: informer removed and re-created",
    verdict="different",
    reason="a single informer ends with its own `async with`, and a new one takes its place; those of a factory live as long as it does, so nobody reads a cache that somebody else has ended",
)
async def test_another_informer_after_the_end(source: FakeListerWatcher) -> None:
    """When an informer has ended, another one over the same source should begin with what is there then."""
    source.create("a")
    async with following(source) as (first, _):
        assert names(first) == ["a"]
    source.create("b")
    async with following(source) as (second, told):
        assert names(second) == ["a", "b"]
    assert len(told) == 2
    assert names(first) == ["a"]
    with pytest.raises(InformerError):
        await first.relist()


async def test_a_silent_script_stays_open() -> None:
    """When the script of a watch is silence, nothing should come and the stream stay open (the fake itself)."""
    source = Scripted(watches=[[SILENCE]])
    async with following(source):
        await asyncio.sleep(200)
        assert (source.opened, source.closed) == (1, 0)
