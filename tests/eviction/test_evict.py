"""evict and evict_node over a CallsApi in memory; over HTTP in test_evict_http.py."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from attrs import frozen
from kubernetes_asyncio.client import ApiException

from eviction import (
    Deadline,
    EvictionThrottle,
    NodeResult,
    Outcome,
    PodRef,
    Refusal,
    RefusalKind,
    Requeue,
    evict,
    evict_node,
)
from eviction.evict import EvictResult

from .evicting import EVICTED, GONE, OVERLOAD, SEVERAL, Clock, FakeApi, Response, by_budget, pod, status

START = datetime(2026, 1, 1, tzinfo=UTC)
K = RefusalKind


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> EvictionThrottle:
    return EvictionThrottle(30, clock=clock)


def outcomes(result: NodeResult) -> dict[str, str]:
    return {one.pod.name: one.outcome if one.refusal is None else one.refusal.kind for one in result.results}


# ---------------------------------------------------------------- one pod


async def test_the_request(api: FakeApi) -> None:
    """When a pod is evicted, the request should carry its uid, a timeout, and be read by us and not by the client."""
    result = await evict(api, PodRef("web-0", "team-a", "U1"), timeout=7, grace_period=0)
    assert result == EvictResult(PodRef("web-0", "team-a", "U1"), Outcome.EVICTED)
    method, path, sent = api.calls[-1]
    assert (method, path) == ("POST", "/api/v1/namespaces/team-a/pods/web-0/eviction")
    assert sent["body"] == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-0", "namespace": "team-a"},
        "deleteOptions": {"preconditions": {"uid": "U1"}, "gracePeriodSeconds": 0},
    }
    assert (sent["_preload_content"], sent["_request_timeout"], sent["auth_settings"]) == (False, 7, ["BearerToken"])
    assert sent["query_params"] == []


async def test_a_dry_run_asks_without_doing(api: FakeApi) -> None:
    """When it is a dry run, the server should be told in the query, where admission sees it."""
    await evict(api, pod("web-0"), dry_run=True)
    assert api.calls[-1][2]["query_params"] == [("dryRun", "All")]


@pytest.mark.parametrize(
    ("answer", "outcome", "kind"),
    [
        (EVICTED, Outcome.EVICTED, None),
        (Response(200), Outcome.EVICTED, None),
        (GONE, Outcome.GONE, None),
        (status(409, "UID in precondition: a, UID in object meta: b"), Outcome.GONE, None),
        (by_budget(), Outcome.REFUSED, K.BUDGET),
        (SEVERAL, Outcome.REFUSED, K.SEVERAL_BUDGETS),
        (OVERLOAD, Outcome.REFUSED, K.OVERLOADED),
        (Response(404, b"no such path"), Outcome.REFUSED, K.INVALID),
        (TimeoutError(), Outcome.REFUSED, K.TRANSIENT),
        (aiohttp.ServerDisconnectedError(), Outcome.REFUSED, K.TRANSIENT),
        (ConnectionRefusedError(), Outcome.REFUSED, K.TRANSIENT),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), Outcome.REFUSED, K.TRANSIENT),
        (ApiException(status=403, reason="Forbidden"), Outcome.REFUSED, K.FORBIDDEN),
    ],
    ids=repr,
)
async def test_outcomes(api: FakeApi, answer: Any, outcome: Outcome, kind: RefusalKind | None) -> None:
    """When the server answers, or does not, it should be one of four outcomes, and never sent twice."""
    api.answers["web-0"] = answer
    result = await evict(api, pod("web-0"))
    assert result.outcome is outcome
    assert (None if result.refusal is None else result.refusal.kind) is kind
    assert len(api.evictions) == 1


async def test_a_terminating_pod_is_left_alone(api: FakeApi) -> None:
    """When a pod is on its way out, nothing should be sent."""
    assert (await evict(api, pod("web-0", terminating=True))).outcome is Outcome.TERMINATING
    assert api.calls == []


async def test_silence_ends_in_time(api: FakeApi) -> None:
    """When the server never answers, it should give up after the timeout and call the outcome unknown."""
    api.answers["web-0"] = lambda: asyncio.sleep(3600)
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await evict(api, pod("web-0"), timeout=20)
    assert loop.time() - began == 20
    assert result.refusal == Refusal(K.TRANSIENT, "no answer within 20 s: the pod may or may not be on its way out")


async def test_the_connection_is_given_back(api: FakeApi) -> None:
    """When an answer was read its connection should be released, and closed when reading it was cut off."""
    await evict(api, pod("web-0"))
    assert EVICTED.log.pop() == "release"

    class Stuck(Response):
        async def read(self) -> bytes:
            await asyncio.sleep(3600)
            return b""

    stuck = Stuck(201)
    api.answers["web-0"] = stuck
    await evict(api, pod("web-0"))
    assert stuck.log == ["close"]


async def test_cancellation_goes_through(api: FakeApi) -> None:
    """When the task is cancelled, evict should not make a result of it."""
    api.answers["web-0"] = lambda: asyncio.sleep(3600)
    task = asyncio.create_task(evict(api, pod("web-0")))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_bug_is_not_taken_for_bad_weather(api: FakeApi) -> None:
    """When our own code is wrong, it should be seen and not retried for ever as transient."""
    api.answers["web-0"] = KeyError("bug")
    with pytest.raises(KeyError):
        await evict(api, pod("web-0"))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"timeout": 0}, ValueError, "timeout"),
        ({"timeout": float("nan")}, ValueError, "timeout"),
        ({"grace_period": -1}, ValueError, "grace_period"),
    ],
)
async def test_bad_arguments(api: FakeApi, change: dict[str, Any], error: type[Exception], text: str) -> None:
    """When an argument makes no sense, it should be named before anything is sent."""
    with pytest.raises(error, match=text):
        await evict(api, pod("web-0"), **change)
    assert api.calls == []


async def test_only_a_podref_will_do(api: FakeApi) -> None:
    """When a pod of another type is passed, it should say how to make the right one."""
    with pytest.raises(TypeError, match=r"PodRef\.of"):
        await evict(api, {"metadata": {"name": "web-0"}})  # type: ignore[arg-type]  # the mistake under test


# ---------------------------------------------------------------- the version of Eviction


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_discovery_is_asked_once_per_client(version: str) -> None:
    """When a server speaks only policy/v1beta1, it should be known beforehand, so that no eviction is wasted on it."""
    api = FakeApi(version=version)
    for _ in range(3):
        await evict(api, pod("web-0"))
    assert {body["apiVersion"] for _, body in api.evictions} == {f"policy/{version}"}
    assert [method for method, _, _ in api.calls] == ["GET", "POST", "POST", "POST"]


async def test_without_discovery_the_refused_version_teaches() -> None:
    """When discovery is not to be had, a 400 that names the version should lead to the other one, and be remembered."""

    class Old(FakeApi):
        async def call_api(self, resource_path: str, method: str, /, *args: Any, **kwargs: Any) -> Any:
            if method == "GET":
                raise ConnectionResetError
            if kwargs["body"]["apiVersion"] == "policy/v1":
                self.evictions.append(("v1", kwargs["body"]))
                return status(400, "the API version in the data (policy/v1) does not match")
            return await super().call_api(resource_path, method, *args, **kwargs)

    api = Old()
    for _ in range(2):
        assert (await evict(api, pod("web-0"))).outcome is Outcome.EVICTED
    assert [name for name, _ in api.evictions] == ["v1", "web-0", "web-0"]


async def test_a_client_that_cannot_be_remembered() -> None:
    """When a client has no identity to remember it by, it should work all the same, without asking each time."""

    @frozen(eq=True, unsafe_hash=False)
    class Values:
        api: FakeApi
        call_api: Any

    inner = FakeApi()
    assert (await evict(Values(inner, inner.call_api), pod("web-0"))).outcome is Outcome.EVICTED
    assert [method for method, _, _ in inner.calls] == ["POST"]


# ---------------------------------------------------------------- one pass over a node


async def test_mixed_pods(api: FakeApi, throttle: EvictionThrottle) -> None:
    """When one pod of a node is refused, the others should be evicted in the same pass."""
    api.answers = {"b": by_budget(), "c": GONE}
    pods = [pod("d"), pod("c"), pod("b"), pod("a"), pod("e", terminating=True)]
    result = await evict_node(api, "n1", pods, throttle=throttle)
    assert outcomes(result) == {"a": "evicted", "b": "budget", "c": "gone", "d": "evicted", "e": "terminating"}
    assert [ref.name for ref in result.blocked] == ["b"]
    assert (result.denied, result.requeue) == (None, Requeue.after(30))
    assert result.message == "n1: 1 pod not evicted: default/b (disruption budget web allows no disruption)"


async def test_a_gated_pass_sends_nothing_and_says_the_same(
    api: FakeApi, throttle: EvictionThrottle, clock: Clock
) -> None:
    """When it is not the node's turn, nothing should be sent, and a condition should not change."""
    api.answers = {"a": by_budget(), "b": by_budget("db"), "c": OVERLOAD}
    pods = [pod("a"), pod("b"), pod("c")]
    first = await evict_node(api, ("n1", "uid"), pods, throttle=throttle)
    clock.advance(2)
    second = await evict_node(api, ("n1", "uid"), pods, throttle=throttle)
    assert second.message == first.message
    assert first.message.startswith("n1: 3 pods not evicted: default/a (")
    assert second.results == ()
    assert second.denied is not None
    assert (second.denied.reason, second.requeue) == ("interval", Requeue.after(28))
    assert len(api.evictions) == 3


async def test_a_node_without_refusals_is_cleared(api: FakeApi, throttle: EvictionThrottle, clock: Clock) -> None:
    """When nothing is blocked any more, the key should be free and the pass done."""
    api.answers = {"a": by_budget()}
    await evict_node(api, "n1", [pod("a")], throttle=throttle)
    clock.advance(30)
    api.answers = {}
    result = await evict_node(api, "n1", [pod("a")], throttle=throttle)
    assert (result.requeue, result.message, dict(result.blocked)) == (Requeue.DONE, "", {})
    assert throttle.snapshot() == []


@pytest.mark.parametrize("pods", [[], [pod("a", terminating=True)]], ids=["empty", "only terminating"])
async def test_nothing_left_to_ask_for_clears_the_node(
    api: FakeApi, throttle: EvictionThrottle, pods: list[PodRef]
) -> None:
    """When the blocked pods went some other way, the node should not stay armed for what is no more."""
    api.answers = {"b": by_budget()}
    await evict_node(api, "n1", [pod("b")], throttle=throttle)
    result = await evict_node(api, "n1", pods, throttle=throttle)
    assert (result.requeue, len(result.results)) == (Requeue.DONE, len(pods))
    assert throttle.peek("n1") is None


async def test_the_deadline_shortens_the_wish(api: FakeApi, throttle: EvictionThrottle, clock: Clock) -> None:
    """When the limit is nearer than the interval, it should be the wake-up, also when nothing is blocked."""
    api.answers = {"a": by_budget()}
    deadline = Deadline.since(START, 10, now=START, clock=clock)
    for name in ("a", "free"):
        result = await evict_node(api, f"node-{name}", [pod(name)], throttle=throttle, deadline=deadline)
        assert result.requeue == Requeue.after(10)
    clock.advance(4)
    gated = await evict_node(api, "node-a", [pod("a")], throttle=throttle, deadline=deadline)
    assert gated.requeue == Requeue.after(6)


async def test_after_the_deadline_nothing_is_sent(api: FakeApi, throttle: EvictionThrottle, clock: Clock) -> None:
    """When the limit has passed, the gate should not be asked and nothing be sent: now it is the caller's decision."""
    api.answers = {"a": by_budget()}
    deadline = Deadline.since(START, 10, now=START, clock=clock)
    before = await evict_node(api, "n1", [pod("a")], throttle=throttle, deadline=deadline)
    clock.advance(10)
    result = await evict_node(api, "n1", [pod("a")], throttle=throttle, deadline=deadline)
    assert (result.requeue, result.results, result.message) == (Requeue.NOW, (), before.message)
    clock.advance(60)
    result = await evict_node(api, "n1", [pod("a")], throttle=throttle, deadline=deadline)
    assert (result.requeue, result.results, result.denied) == (Requeue.NOW, (), None)
    assert len(api.evictions) == 1, "not even when the gate is open"


async def test_a_call_in_flight_at_the_deadline_is_cut_off(api: FakeApi) -> None:
    """When an answer does not come before the limit, the pass should end at the limit, with the other answers kept."""
    loop = asyncio.get_running_loop()
    throttle = EvictionThrottle(30, clock=loop.time)
    api.answers = {"slow": lambda: asyncio.sleep(25), "busy": by_budget()}
    deadline = Deadline.since(START, 10, now=START, clock=loop.time)
    began = loop.time()
    result = await evict_node(api, "n1", [pod("slow"), pod("busy"), pod("fast")], throttle=throttle, deadline=deadline)
    assert loop.time() - began == 10
    assert result.requeue == Requeue.NOW
    assert outcomes(result) == {"busy": "budget", "fast": "evicted", "slow": "transient"}
    assert throttle.peek("n1") is not None


async def test_concurrency_is_bounded(api: FakeApi, throttle: EvictionThrottle) -> None:
    """When a node has many pods, no more requests than allowed should be under way, and all should be tried."""
    running, most = 0, 0

    async def slow() -> Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return EVICTED

    pods = [pod(f"p{number}") for number in range(20)]
    api.answers = {one.name: slow for one in pods}
    began = asyncio.get_running_loop().time()
    result = await evict_node(api, "n1", pods, throttle=throttle, concurrency=4)
    assert (most, len(result.results)) == (4, 20)
    assert asyncio.get_running_loop().time() - began == 5
    with pytest.raises(ValueError, match="concurrency"):
        await evict_node(api, "n2", pods, throttle=throttle, concurrency=0)


@pytest.mark.parametrize("how", ["cancelled", "bug"])
async def test_a_pass_that_breaks_off_leaves_the_node_armed(api: FakeApi, throttle: EvictionThrottle, how: str) -> None:
    """When a pass is cancelled or fails in the middle, it was an attempt: the next one waits its turn."""
    api.answers = {"a": KeyError("bug") if how == "bug" else lambda: asyncio.sleep(3600)}
    task = asyncio.create_task(evict_node(api, "n1", [pod("a")], throttle=throttle))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises((asyncio.CancelledError, ExceptionGroup)):
        await task
    denied = throttle.peek("n1")
    assert denied is not None
    assert (denied.reason, denied.retry_in) == ("interval", 30)


async def test_two_passes_at_once_send_one_batch(api: FakeApi, throttle: EvictionThrottle) -> None:
    """When two reconcilers come to one node in the same instant, one should evict and the other be told."""
    results = await asyncio.gather(*(evict_node(api, "n1", [pod("a"), pod("b")], throttle=throttle) for _ in range(2)))
    assert sorted(result.denied is None for result in results) == [False, True]
    assert len(api.evictions) == 2


async def test_a_misconfigured_pod_does_not_slow_the_node(api: FakeApi, throttle: EvictionThrottle) -> None:
    """When one pod has two budgets and another waits for its own, the node should come back for the latter."""
    api.answers = {"a": SEVERAL, "b": by_budget()}
    both = await evict_node(api, "n1", [pod("a"), pod("b")], throttle=throttle)
    alone = await evict_node(api, "n2", [pod("a")], throttle=throttle)
    assert (both.requeue, alone.requeue) == (Requeue.after(30), Requeue.after(300))
    assert "default/a (more than one disruption budget selects it)" in both.message


async def test_with_the_throttle_off_a_blocked_node_does_not_spin(api: FakeApi, clock: Clock) -> None:
    """When the throttle is off, a blocked pass should still not ask for "now"."""
    api.answers = {"a": by_budget()}
    result = await evict_node(api, "n1", [pod("a")], throttle=EvictionThrottle(0, clock=clock))
    assert result.requeue == Requeue.after(1)


def test_the_condition_text_is_short_and_stable() -> None:
    """When many pods are blocked, the text should be sorted and cut, and not change with the server's counts."""
    names = [f"web-{number}" for number in range(8)]
    texts = set()
    for healthy in (2, 3):
        refusal = Refusal(K.BUDGET, f"needs 2 healthy pods and has {healthy}", "web")
        for order in (names, names[::-1]):
            results = tuple(EvictResult(pod(name), Outcome.REFUSED, refusal) for name in order)
            texts.add(NodeResult("n1", Requeue.DONE, results, None).message)
    assert len(texts) == 1
    text = texts.pop()
    assert text.endswith("default/web-4 (disruption budget web allows no disruption), and 3 more")
    webhook = EvictResult(pod("vm"), Outcome.REFUSED, Refusal(K.WEBHOOK_WAIT, "evacuating"))
    assert "webhook-wait: evacuating" in NodeResult("n1", Requeue.DONE, (webhook,), None).message
