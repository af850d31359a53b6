"""Mistakes that a type checker must catch: each line below is one, and its ignore is unused as soon as it is accepted.

Nothing here is ever run.
"""

from __future__ import annotations

from attrs import frozen
from kubernetes_asyncio.client import ApiClient

from eviction import (
    BudgetIndex,
    Deadline,
    EvictionThrottle,
    EvictResult,
    Outcome,
    PassResults,
    PodRef,
    Refusal,
    Requeue,
    evict,
    evict_node,
    soonest,
)
from informer import (
    ApiListerWatcher,
    CallsApi,
    Change,
    DegradedListerWatcher,
    Health,
    InformerFactory,
    InformerOptions,
    KubeObject,
    ListerWatcher,
    ListOptions,
    Quarantine,
    Quarantined,
    QuarantinedObject,
    Resource,
    SharedInformer,
    Updated,
    WatchOptions,
    checks,
)

PODS = Resource.parse("pods.v1")


@frozen
class Pod:
    name: str


def decode(obj: KubeObject) -> Pod:
    return Pod(obj.name)


def wants_objects(obj: KubeObject) -> None: ...


def forgets_that_old_may_be_missing(old: Pod, entry: QuarantinedObject) -> None: ...


def values(api: CallsApi) -> None:
    Resource("apps", "v1", "deployments", "Deployment")  # type: ignore[call-arg]  # kind is a keyword
    PODS.plural = "nodes"  # type: ignore[misc]  # values are frozen
    ListOptions("7")  # type: ignore[call-arg]  # options are keywords
    WatchOptions()  # type: ignore[call-arg]  # a watch begins somewhere
    InformerOptions(initial_list="watch")  # type: ignore[arg-type]
    ApiListerWatcher(api, "pods")  # type: ignore[arg-type]  # a Resource, not a name
    ApiListerWatcher(object(), PODS)  # type: ignore[arg-type]  # not a client


def sources(api: CallsApi) -> None:
    raw = ApiListerWatcher(api, PODS)
    typed: ListerWatcher[Pod] = raw  # type: ignore[assignment]  # KubeObjects are no Pods
    print(typed)
    DegradedListerWatcher(raw)  # type: ignore[call-overload]  # neither checks nor decode: nothing could be bad
    DegradedListerWatcher(raw, checks=checks.duration("spec.x"))  # type: ignore[call-overload]  # one check is no list
    decoded = DegradedListerWatcher(raw, decode=decode)
    DegradedListerWatcher(decoded, checks=[])  # type: ignore[arg-type]  # judges KubeObjects only
    objects: SharedInformer[KubeObject] = SharedInformer(decoded)  # type: ignore[arg-type]
    print(objects)


async def informers(api: ApiClient) -> None:
    async with InformerFactory(api) as factory:
        pods = factory.informer(PODS, decode=decode)
        pods.add_handler(on_add=wants_objects)  # type: ignore[arg-type]
        pods.add_handler(on_update=lambda new: None)  # type: ignore[arg-type, misc]  # old and new
        pods.add_handler(on_quarantined=forgets_that_old_may_be_missing)  # type: ignore[arg-type]
        pods.add_handler(wants_objects)  # type: ignore[call-arg, arg-type]  # which of the five?
        pods.add_index("name", lambda pod: pod.nmae)  # type: ignore[attr-defined]
        pods.add_index("ready", lambda pod: [True])  # type: ignore[list-item]  # values are strings
        pods.lister.get("team-a", "web")  # type: ignore[call-arg]  # the namespace is a keyword
        pods.lister.list("team-a")  # type: ignore[call-arg]
        await pods.wait_for_version("7")  # type: ignore[call-arg]  # never without a timeout
        health: Health = pods.health
        print(health.state == "dead")  # type: ignore[comparison-overlap]  # not one of the five states


def forgets_quarantined(change: Change[Pod]) -> str:  # type: ignore[return]  # two of the four are not handled
    match change:
        case Updated():
            return "updated"
        case Quarantined():
            return "bad"


def quarantine_is_read_only(quarantine: Quarantine, entry: QuarantinedObject) -> None:
    quarantine["team-a/web"] = entry  # type: ignore[index]
    entry.problems = ()  # type: ignore[misc]


async def evictions(api: CallsApi, pod: PodRef, throttle: EvictionThrottle, refusal: Refusal) -> None:
    permit = throttle.acquire("node-1")
    permit.succeeded()  # type: ignore[union-attr]  # it may be Denied
    with permit:  # type: ignore[union-attr]
        pass
    if not permit:
        permit.succeeded()  # type: ignore[attr-defined]
        return
    print(permit.retry_in)  # type: ignore[attr-defined]
    permit.refused(refusal.kind)  # type: ignore[arg-type]
    await evict(api, "team-a/web")  # type: ignore[arg-type]  # an eviction names one life of a pod
    await evict_node(api, "node-1", [pod])  # type: ignore[call-arg]  # never without a throttle
    BudgetIndex(throttle)  # type: ignore[call-arg]  # wake whom?


def wishes(deadline: Deadline, result: EvictResult) -> None:
    soonest(30)  # type: ignore[arg-type]  # Requeue.after(30)
    Requeue.after(None)  # type: ignore[arg-type]  # "never" is DONE
    Requeue.after(1) < Requeue.after(2)  # type: ignore[operator]  # noqa: B015  # which is less, DONE or NOW? use soonest
    deadline.clamp(30)  # type: ignore[arg-type]
    Deadline.since("2026-01-01", 600)  # type: ignore[arg-type]
    Deadline.since(None, 600, zero="never")  # type: ignore[arg-type]
    with PassResults().collect("node-1") as report:
        report(30)  # type: ignore[arg-type]
    if result.outcome is Outcome.REFUSED:
        print(result.refusal.message)  # type: ignore[union-attr]  # None for every other outcome
