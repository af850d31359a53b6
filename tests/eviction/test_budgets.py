"""BudgetIndex: know before asking, wake up when it changes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from kubernetes_asyncio.client import (
    V1LabelSelector,
    V1LabelSelectorRequirement,
    V1ObjectMeta,
    V1Pod,
    V1PodCondition,
    V1PodDisruptionBudget,
    V1PodDisruptionBudgetSpec,
    V1PodDisruptionBudgetStatus,
    V1PodStatus,
)

from eviction import BudgetIndex, EvictionThrottle, Outcome, PodRef, Refusal, RefusalKind, Requeue, evict_node

from .evicting import BLOCKED, Clock, FakeApi, by_budget

WEB = {"app": "web"}


def budget(
    name: str = "web", selector: Any = None, allowed: Any = 0, *, spec: Any = None, **status: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "generation": 3},
        "spec": {"selector": {"matchLabels": WEB} if selector is None else selector, **(spec or {})},
        "status": {"observedGeneration": 3, "disruptionsAllowed": allowed, **status},
    }


def pod(name: str = "web-0", labels: dict[str, str] | None = None, **more: Any) -> PodRef:
    facts: dict[str, Any] = {"phase": "Running", "ready": True} | more
    return PodRef(name, "default", f"uid-of-{name}", labels=WEB if labels is None else labels, **facts)


class World:
    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.throttle = EvictionThrottle(30, clock=self.clock)
        self.woken: list[Any] = []
        self.index = BudgetIndex(self.throttle, wake=self.woken.append, **options)

    def block(self, key: Any, ref: PodRef | None = None) -> None:
        with self.throttle.acquire(key) as permit:  # type: ignore[union-attr]  # the tests wait for their turn
            permit.refused(BLOCKED)
        self.index.waiting(key, ref or pod())

    def take_woken(self) -> list[Any]:
        woken, self.woken[:] = list(self.woken), []
        return woken


@pytest.fixture
def world() -> World:
    return World()


# ---------------------------------------------------------------- verdicts

VERDICTS: dict[str, tuple[list[dict[str, Any]], PodRef, str]] = {
    "no budget at all": ([], pod(), "allowed"),
    "no budget that selects it": ([budget(selector={"matchLabels": {"app": "db"}})], pod(), "allowed"),
    "headroom": ([budget(allowed=1)], pod(), "allowed"),
    "no headroom": ([budget()], pod(), "blocked"),
    "two budgets": ([budget(allowed=1), budget("other", allowed=1)], pod(), "blocked"),
    "the empty selector selects all": ([budget(selector={})], pod(labels={}), "blocked"),
    "null selects none": ([{**budget(), "spec": {"selector": None}}], pod(), "allowed"),
    "the empty selector of v1beta1 is doubtful": ([{**budget(selector={}), "apiVersion": "policy/v1beta1"}], pod(), "unknown"),
    "a status behind its spec": ([budget(observedGeneration=2)], pod(), "unknown"),
    "a status never written": ([{**budget(), "status": {}}], pod(), "unknown"),
    "no status": ([{key: value for key, value in budget().items() if key != "status"}], pod(), "unknown"),
    "a negative headroom": ([budget(allowed=-1)], pod(), "unknown"),
    "a headroom that is no number": ([budget(allowed="1")], pod(), "unknown"),
    "an unreadable selector": ([budget(selector={"matchLabels": ["x"]})], pod(), "unknown"),
    "an operator from the future": ([budget(selector={"matchExpressions": [{"key": "a", "operator": "Like"}]})], pod(), "unknown"),
    "an unreadable selector beside a good one": ([budget(), budget("x", selector={"matchLabels": {"a": 1}})], pod(), "unknown"),
    "a pod without known labels": ([budget()], PodRef("web-0", "default", "u"), "unknown"),
    "a pending pod": ([budget()], pod(phase="Pending"), "allowed"),
    "a finished pod": ([budget()], pod(phase="Succeeded"), "allowed"),
    "a terminating pod": ([budget()], pod(terminating=True), "allowed"),
    "a pending pod with two budgets": ([budget(), budget("other")], pod(phase="Pending"), "allowed"),
    "an unready pod": ([budget(currentHealthy=1, desiredHealthy=2)], pod(ready=False), "blocked"),
    "an unready pod that is not needed": ([budget(currentHealthy=2, desiredHealthy=2)], pod(ready=False), "allowed"),
    "an unready pod under AlwaysAllow": ([budget(spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"})], pod(ready=False), "allowed"),
    "a ready pod under AlwaysAllow": ([budget(spec={"unhealthyPodEvictionPolicy": "AlwaysAllow"})], pod(), "blocked"),
}  # fmt: skip


@pytest.mark.parametrize(("budgets", "ref", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_verdicts(world: World, budgets: list[dict[str, Any]], ref: PodRef, verdict: str) -> None:
    """When budgets are known, the verdict should be the server's, or "unknown" where that cannot be sure."""
    for one in budgets:
        world.index.set(one)
    assert world.index.verdict(ref) == verdict


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ({"operator": "In", "values": ["web", "db"]}, {"app": "db"}, {"app": "x"}),
        ({"operator": "NotIn", "values": ["web"]}, {}, {"app": "web"}),
        ({"operator": "Exists"}, {"app": ""}, {}),
        ({"operator": "DoesNotExist"}, {}, {"app": "x"}),
    ],
)
def test_selector_expressions(world: World, expression: Any, matching: Any, other: Any) -> None:
    """When a selector has expressions, they should mean what they mean to the server."""
    world.index.set(budget(selector={"matchExpressions": [{"key": "app", **expression}]}))
    assert world.index.verdict(pod(labels=matching)) == "blocked"
    assert world.index.verdict(pod(labels=other)) == "allowed"


def test_client_models_are_read_like_dicts(world: World) -> None:
    """When budgets and pods come as a client's models, they should be understood the same."""
    selector = V1LabelSelector(match_expressions=[V1LabelSelectorRequirement(key="app", operator="In", values=["web"])])
    world.index.set(
        V1PodDisruptionBudget(
            metadata=V1ObjectMeta(name="web", namespace="default", generation=3),
            spec=V1PodDisruptionBudgetSpec(selector=selector),
            status=V1PodDisruptionBudgetStatus(
                observed_generation=3, disruptions_allowed=0, current_healthy=1, desired_healthy=1, expected_pods=1
            ),
        )
    )
    metadata = V1ObjectMeta(name="web-0", namespace="default", uid="u", labels=WEB)
    ready = V1PodCondition(type="Ready", status="True")
    model = V1Pod(metadata=metadata, status=V1PodStatus(phase="Running", conditions=[ready]))
    assert world.index.verdict(model) == "blocked"
    assert PodRef.of(model) == PodRef("web-0", "default", "u")
    assert world.index.verdict(model.to_dict()) == "blocked"


@pytest.mark.parametrize(
    "namespace", ["def*", "default,shop", "!shop", "Shop", "a.b", "", "n" * 64, "a/../b"], ids=ascii
)
def test_pod_in_no_namespace(namespace: str) -> None:
    """When no namespace can have that name, it should be refused: the server's 404 would read as "the pod is gone"."""
    with pytest.raises(ValueError, match="which no namespace can be called"):
        PodRef("web-0", namespace, "u")


def test_pod_in_several_namespaces() -> None:
    """When a namespace is no text, it should be refused, and the pod named."""
    with pytest.raises(TypeError, match=r"the namespace of pod 'web-0' is the name of one namespace, not \['a', 'b'\]"):
        PodRef("web-0", ["a", "b"], "u")  # type: ignore[arg-type]  # the mistake under test


def test_pod_in_a_namespace() -> None:
    """When the server would take the name of a namespace, so should a reference."""
    for namespace in ("0", "a--b", "n" * 63):
        assert PodRef("web-0", namespace, "u").key == f"{namespace}/web-0"


def test_an_informers_objects_are_read_like_dicts(world: World) -> None:
    """When budgets and pods are objects of the informer package, they should be understood without it being imported."""
    objects = pytest.importorskip("informer.objects")
    import json

    world.index.set(objects.KubeObject.parse(json.dumps(budget()).encode()))
    body: dict[str, Any] = {
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u", "labels": WEB, "deletionTimestamp": None},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
    }
    parsed = objects.KubeObject.parse(json.dumps(body).encode())
    assert world.index.verdict(parsed) == "blocked"
    ref = PodRef.of(parsed)
    assert (ref, ref.labels, ref.phase, ref.ready, ref.terminating) == (PodRef("web-0", "default", "u"), WEB, "Running", False, False)  # fmt: skip
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert PodRef.of(objects.KubeObject.parse(json.dumps(body).encode())).terminating


@pytest.mark.parametrize("missing", ["name", "namespace", "uid"])
def test_a_pod_without_identity_is_refused(missing: str) -> None:
    """When a pod lacks what an eviction needs, it should be named: without a uid the wrong pod could go."""
    metadata = {"name": "web-0", "namespace": "default", "uid": "u"}
    del metadata[missing]
    with pytest.raises(ValueError, match=f"no {missing}"):
        PodRef.of({"metadata": metadata})


def test_old_data_is_unknown(world: World) -> None:
    """When nothing was heard for long, a block should not be believed: the watch may be dead."""
    world.index.set(budget())
    world.clock.advance(300)
    assert world.index.verdict(pod()) == "blocked"
    world.clock.advance(1)
    assert world.index.verdict(pod()) == "unknown"
    world.index.set(budget())
    assert world.index.verdict(pod()) == "blocked"


def test_a_quarantined_budget_makes_its_namespace_unknown(world: World) -> None:
    """When a budget exists that cannot be read, nothing should be claimed about its namespace until it is mended."""

    class Entry:
        key = "default/broken"

    world.index.set(budget())
    world.index.quarantined(None, Entry())
    assert world.index.verdict(pod()) == "unknown"
    world.index.set(budget("broken", selector={"matchLabels": {"app": "x"}}))
    assert world.index.verdict(pod()) == "blocked"
    world.index.quarantined(None, Entry())
    world.index.drop(Entry())
    assert world.index.verdict(pod()) == "blocked"


def test_a_budget_without_a_name_is_refused(world: World) -> None:
    """When something is no budget, it should be refused by name and not become a block."""
    with pytest.raises(ValueError, match="needs a namespace and a name"):
        world.index.set({"metadata": {"name": "web"}})


# ---------------------------------------------------------------- waking up


def test_headroom_releases_the_waiting_key_and_wakes_it(world: World) -> None:
    """When the budget regains headroom, the key should be woken at once and allowed a second after its refusal."""
    world.index.set(budget())
    world.block("n1")
    world.clock.advance(7)
    world.index.set(budget(allowed=0), budget(allowed=1))
    assert world.take_woken() == ["n1"]
    assert world.throttle.acquire("n1")


def test_the_gap_keeps_a_flapping_budget_from_a_storm(world: World) -> None:
    """When the budget changes ten times a second, an attempt should still be a second away from its refusal."""
    world.index.set(budget())
    world.block("n1")
    for _ in range(9):
        world.clock.advance(0.1)
        world.index.set(budget(allowed=1))
        world.index.set(budget(allowed=0))
        assert not world.throttle.acquire("n1")
    world.clock.advance(0.1)
    assert world.throttle.acquire("n1")
    assert world.take_woken() == ["n1"]


def test_only_as_many_as_there_is_headroom_oldest_first(world: World) -> None:
    """When five nodes wait and the budget allows two, the two that waited longest should be woken, then the next two."""
    world.index.set(budget())
    for number in (3, 1, 5, 2, 4):
        world.block(f"n{number}")
        world.clock.advance(1)
    world.index.set(budget(allowed=2))
    assert world.take_woken() == ["n3", "n1"]
    world.index.set(budget(allowed=0))
    assert world.take_woken() == []
    world.index.set(budget(allowed=2))
    assert world.take_woken() == ["n5", "n2"]
    assert world.throttle.peek("n4") is not None


def test_other_budgets_wake_nobody(world: World) -> None:
    """When another budget has headroom, or the same one in another namespace, it should be none of this key's business."""
    world.index.set(budget())
    world.block("n1")
    world.index.set(budget("db", selector={"matchLabels": {"app": "db"}}, allowed=5))
    elsewhere = budget(allowed=5)
    elsewhere["metadata"]["namespace"] = "other"
    world.index.set(elsewhere)
    assert world.take_woken() == []


@pytest.mark.parametrize(
    "news",
    [
        budget(allowed=5, observedGeneration=2),
        budget(allowed=-1),
        {**budget(), "status": {}},
    ],
    ids=["stale", "negative", "no status"],
)
def test_doubtful_news_wakes_nobody(world: World, news: dict[str, Any]) -> None:
    """When the status does not belong to the spec, its headroom should not be believed."""
    world.index.set(budget())
    world.block("n1")
    world.index.set(news)
    assert world.take_woken() == []


def test_a_dropped_budget_frees_who_waited_for_it_alone(world: World) -> None:
    """When a budget is deleted, its waiting keys should be woken, unless another budget still holds them."""
    world.index.set(budget())
    world.index.set(budget("other"))
    world.block("n1")
    world.index.drop(budget("other"))
    assert world.take_woken() == []
    world.index.drop(budget())
    assert world.take_woken() == ["n1"]


def test_a_changed_selector_frees_who_is_no_longer_selected(world: World) -> None:
    """When a budget no longer selects the pod, the key should be woken whatever the headroom."""
    world.index.set(budget())
    world.block("n1")
    world.index.set(budget(selector={"matchLabels": {"app": "other"}}))
    assert world.take_woken() == ["n1"]


def test_a_key_waits_before_its_budget_is_known(world: World) -> None:
    """When the refusal is faster than the watch, the budget that appears later should wake the key all the same."""
    world.block("n1")
    world.index.set(budget())
    assert world.take_woken() == []
    world.index.set(budget(allowed=1))
    assert world.take_woken() == ["n1"]


def test_a_pod_without_labels_waits_for_any_budget_of_its_namespace(world: World) -> None:
    """When it is not known who blocks, any headroom in the namespace should be worth an attempt."""
    world.index.set(budget())
    world.block("n1", PodRef("web-0", "default", "u"))
    world.index.set(budget(allowed=1))
    assert world.take_woken() == ["n1"]


def test_headroom_during_the_attempt_is_not_missed(world: World) -> None:
    """When the budget's news arrives while the refusal is still on its way, the key should not wait out its interval."""
    world.index.set(budget())
    permit = world.throttle.acquire("n1")
    assert permit
    mark = world.throttle.mark()
    world.index.set(budget(allowed=1))
    permit.refused(BLOCKED)
    world.index.waiting("n1", pod(), since=mark)
    assert world.take_woken() == ["n1"]
    denied = world.throttle.peek("n1")
    assert denied is not None
    assert denied.retry_in == 1


def test_headroom_from_before_the_attempt_is_no_news(world: World) -> None:
    """When the index believes in headroom that the server has just denied, it should not try again every second."""
    world.index.set(budget(allowed=1))
    permit = world.throttle.acquire("n1")
    assert permit
    mark = world.throttle.mark()
    permit.refused(BLOCKED)
    world.index.waiting("n1", pod(), since=mark)
    assert world.take_woken() == []


def test_headroom_is_granted_once_for_each_news(world: World) -> None:
    """When three attempts are under way while one place gets free, only one of them should be released."""
    world.index.set(budget())
    permits = [world.throttle.acquire(number) for number in range(3)]
    mark = world.throttle.mark()
    world.index.set(budget(allowed=1))
    for number, permit in enumerate(permits):
        assert permit
        permit.refused(BLOCKED)
        world.index.waiting(number, pod(), since=mark)
    assert world.take_woken() == [0]


@pytest.mark.parametrize("ended", ["forget", "success", "interval over"])
def test_who_no_longer_waits_takes_nobodys_place(world: World, ended: str) -> None:
    """When an older key's wait has ended without the budget, the headroom should go to the next."""
    world.index.set(budget())
    world.block("n1")
    if ended == "forget":
        world.index.forget("n1")
    else:
        world.clock.advance(30)
    if ended == "success":
        with world.throttle.acquire("n1") as permit:  # type: ignore[union-attr]  # its interval is over
            permit.succeeded()
    world.block("n2")
    world.index.set(budget(allowed=1))
    assert world.take_woken() == ["n2"]


def test_a_node_that_was_pruned_takes_nobodys_place(world: World) -> None:
    """When a waiting node left the cluster, the headroom should go to the next that waits."""
    world.index.set(budget())
    world.block("n1")
    world.block("n2")
    world.throttle.prune({"n2"}, mark=world.throttle.mark())
    world.index.set(budget(allowed=1))
    assert world.take_woken() == ["n2"]


def test_nodes_that_left_do_not_pile_up(world: World) -> None:
    """When nodes come, are refused and leave for ever, and the budget never changes, the index should not grow."""
    world.index.set(budget())
    for number in range(500):
        world.block(number)
        world.clock.advance(31)
    assert sum(len(waiters) for waiters in world.index._waiters.values()) <= 2
    assert len(world.index._places) <= 2


def test_wake_may_call_back_and_news_may_come_from_threads(world: World) -> None:
    """When wake uses the index, and another thread brings the news, nothing should deadlock."""
    seen: list[str] = []
    index = BudgetIndex(world.throttle, wake=lambda _key: seen.append(index.verdict(pod())))
    index.set(budget())
    with world.throttle.acquire("n1") as permit:  # type: ignore[union-attr]  # nobody else is there
        permit.refused(BLOCKED)
    index.waiting("n1", pod())
    thread = threading.Thread(target=index.set, args=(budget(allowed=1),), daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert seen == ["allowed"]


# ---------------------------------------------------------------- with evict_node


async def test_a_sure_refusal_is_not_asked_for(world: World) -> None:
    """When the index is sure, the server should not be asked, and the node be armed as if it had been."""
    api = FakeApi()
    world.index.set(budget())
    result = await evict_node(api, "n1", [pod("web-0"), pod("free", {})], throttle=world.throttle, budgets=world.index)
    assert [name for name, _ in api.evictions] == ["free"]
    assert result.blocked[pod("web-0")] == Refusal(
        RefusalKind.BUDGET, "disruption budget web has no headroom; known from its status, not asked", "web"
    )
    assert result.requeue == Requeue.after(30)
    world.index.set(budget(allowed=1))
    assert world.take_woken() == ["n1"]


async def test_two_budgets_are_known_without_asking(world: World) -> None:
    """When two budgets select a pod, the misconfiguration should be told with both names and without a request."""
    api = FakeApi()
    world.index.set(budget("b", allowed=9))
    world.index.set(budget("a", allowed=9))
    result = await evict_node(api, "n1", [pod()], throttle=world.throttle, budgets=world.index)
    assert api.evictions == []
    assert result.blocked[pod()].kind is RefusalKind.SEVERAL_BUDGETS
    assert "a, b" in result.blocked[pod()].message
    world.index.drop(budget("a"))
    assert world.take_woken() == ["n1"]


async def test_no_more_are_tried_than_there_is_headroom(world: World) -> None:
    """When a budget allows two and ten of its pods are on the node, two should be tried and the others wait for news."""
    api = FakeApi()
    world.index.set(budget(allowed=2))
    pods = [pod(f"web-{number}") for number in range(10)]
    result = await evict_node(api, "n1", pods, throttle=world.throttle, budgets=world.index)
    assert len(api.evictions) == 2
    assert len(result.blocked) == 8


async def test_a_probe_is_sent_now_and_then(world: World) -> None:
    """When the index says blocked for ever, one request every five minutes should still ask the server itself."""
    api = FakeApi({"web-0": by_budget()})
    world.index.set(budget())
    for _ in range(60 * 60 // 30):
        await evict_node(api, "n1", [pod()], throttle=world.throttle, budgets=world.index)
        world.clock.advance(30)
    assert 10 <= len(api.evictions) <= 12
    api.answers = {}
    results = []
    for _ in range(12):
        results.append(await evict_node(api, "n1", [pod()], throttle=world.throttle, budgets=world.index))
        world.clock.advance(30)
    assert any(one.outcome is Outcome.EVICTED for result in results for one in result.results), "the watch was dead"
