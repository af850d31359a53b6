"""A controller's program against the public surface: it must pass mypy --strict, with the inferred types asserted.

Nothing here is ever run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import assert_never, assert_type

from attrs import frozen

from eviction import Deadline, EvictionThrottle, PassResults, PodRef, Requeue, classify_refusal, evict, evict_node
from informer import (
    Added,
    ApiListerWatcher,
    Bookmark,
    CallsApi,
    Change,
    DegradedListerWatcher,
    Deleted,
    Event,
    InformerFactory,
    Item,
    KubeObject,
    ListerWatcher,
    ListOptions,
    NotFoundError,
    Page,
    Quarantine,
    QuarantineChange,
    Quarantined,
    QuarantinedError,
    QuarantinedObject,
    Removed,
    Resource,
    SharedInformer,
    Updated,
    WatchOptions,
    Withheld,
    checks,
)

NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")
DURATIONS = [checks.duration("spec.nodeDrainTimeout"), checks.duration("spec.nodeVolumeDetachTimeout")]


@frozen
class NodePool:
    name: str
    cluster: str

    @classmethod
    def from_object(cls, obj: KubeObject) -> NodePool:
        return cls(obj.name, obj["spec"]["clusterName"])


async def added(pool: NodePool) -> None: ...


def any_object(_: object) -> None: ...  # a handler for a base type is accepted


def quarantined(old: NodePool | None, entry: QuarantinedObject) -> None:
    print(old, entry.key, entry.fix_commands())


def on_quarantine(change: QuarantineChange) -> None: ...


def follow(change: Change[NodePool]) -> str:
    match change:
        case Added(pool, initial):
            return f"{pool.name} {initial}"
        case Updated(old, new):
            return f"{old.name} {new.name}"
        case Removed(pool, unknown):
            return f"{pool.name} {unknown}"
        case Quarantined(_, entry):
            return entry.key
        case other:
            assert_never(other)


class NamesOnly:
    """A wrapper of one's own: five lines of body."""

    def __init__(self, inner: ListerWatcher[KubeObject]) -> None:
        self._inner = inner

    @property
    def resource(self) -> Resource:
        return self._inner.resource

    async def list(self, options: ListOptions, /) -> Page[str]:
        page = await self._inner.list(options)
        return Page([self._map(item) for item in page.items], page.resource_version, page.continue_token)

    @staticmethod
    def _map(item: Item[KubeObject] | Withheld) -> Item[str] | Withheld:
        if isinstance(item, Withheld):
            return item
        return Item(item.key, item.uid, item.resource_version, item.labels, item.object.name)

    @asynccontextmanager
    async def _watch(self, options: WatchOptions) -> AsyncIterator[AsyncIterator[Event[str]]]:
        async with self._inner.watch(options) as events:

            async def mapped() -> AsyncIterator[Event[str]]:
                async for event in events:
                    match event:
                        case Item() | Withheld():
                            yield self._map(event)
                        case Deleted(key, uid, version, last):
                            yield Deleted(key, uid, version, last.name if last else None)
                        case Bookmark():
                            yield event

            yield mapped()

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[str]]]:
        return self._watch(options)


async def main(api: CallsApi) -> None:
    async with InformerFactory(api) as factory:
        pools = factory.informer(NODEPOOLS, decode=NodePool.from_object, checks=DURATIONS)
        assert_type(pools, SharedInformer[NodePool])
        clusters = pools.add_index("cluster", lambda pool: [pool.cluster])
        pools.add_handler(
            on_add=added, on_update=lambda old, new: None, on_delete=any_object, on_quarantined=quarantined
        )
        pools.add_handler(on_change=follow)
        raw = factory.informer(Resource.parse("pods.v1"))
        assert_type(raw, SharedInformer[KubeObject])
        await factory.wait_for_sync(timeout=30)
        try:
            assert_type(pools.lister.get("pool-a", namespace="clusters"), NodePool)
        except QuarantinedError as error:
            print(error.entry.problems)
        except NotFoundError:
            pass
        for pool in clusters["demo"]:
            assert_type(pool, NodePool)
        async with pools.changes() as changes:
            async for change in changes:
                follow(change)

    quarantine = Quarantine(remind_every=60.0)
    source = DegradedListerWatcher(ApiListerWatcher(api, NODEPOOLS), checks=DURATIONS, quarantine=quarantine)
    assert_type(source, DegradedListerWatcher[KubeObject])
    typed = DegradedListerWatcher(ApiListerWatcher(api, NODEPOOLS), decode=NodePool.from_object, checks=DURATIONS)
    assert_type(typed, DegradedListerWatcher[NodePool])
    with quarantine.subscribe(on_quarantine):
        async with (
            SharedInformer(source) as informer,
            SharedInformer(typed) as other,
            SharedInformer(NamesOnly(ApiListerWatcher(api, NODEPOOLS))) as names,
        ):
            assert_type(informer, SharedInformer[KubeObject])
            assert_type(other, SharedInformer[NodePool])
            assert_type(names, SharedInformer[str])


throttle = EvictionThrottle(interval=30.0)


async def one_pass(api: CallsApi, nodes: dict[str, list[PodRef]], started: datetime | None) -> Requeue:
    results = PassResults()
    deadline = Deadline.since(started, 600)
    for node, pods in nodes.items():
        with results.collect(node) as report:  # an exception is kept, the next node goes on
            report((await evict_node(api, node, pods, throttle=throttle, deadline=deadline)).requeue)
    results.raise_errors()
    return results.requeue


async def by_hand(api: CallsApi, node: str, pods: list[PodRef], deadline: Deadline) -> Requeue:
    permit = throttle.acquire(node)
    if not permit:
        return deadline.clamp(Requeue.after(permit.retry_in))
    with permit:  # left by an exception or unanswered: stays armed
        for pod in pods:
            result = await evict(api, pod)
            if result.refusal is not None:
                permit.refused(result.refusal)
        permit.succeeded()
    return deadline.clamp(Requeue.DONE)


def what_was_it(error: Exception) -> str:
    return classify_refusal(error).kind.value
