"""F24 to F28: what people met in the field, and what should happen instead."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient

from eviction import (
    Deadline,
    EvictionThrottle,
    NodeResult,
    Outcome,
    PassResults,
    PodRef,
    RefusalKind,
    Requeue,
    evict_node,
    soonest,
)
from informer.testing import FakeApiServer, faults, match
from informer.testing.eviction import BUDGETS, PODS, FakeEvictions, budget

from .evicting import BUDGET_TEXT, SEVERAL_TEXT, Clock

START = datetime(2026, 1, 1, tzinfo=UTC)


def create(server: FakeApiServer, name: str, app: str) -> PodRef:
    made = {"metadata": {"name": name, "labels": {"app": app}}, "status": {"phase": "Running"}}
    return PodRef.of(server.create(PODS, made))


def posts(server: FakeApiServer, name: str = "") -> list[float]:
    return [one.time for one in server.requests if one.subresource == "eviction" and one.name.startswith(name)]


# ---------------------------------------------------------------- F24


async def test_f24_a_refused_node_is_tried_once_per_interval_and_nobody_else_waits(
    server: FakeApiServer, evictions: FakeEvictions, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When n1 is refused for 120 s, n2 is free, and n3 comes, leaves and comes back, each should be tried when it is due
    and the pass keep its 2 s, whatever the wall clock does."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    server.create(BUDGETS, budget("db", {"app": "db"}, allowed=0))
    throttle = EvictionThrottle(30, clock=loop.time)
    one, three = create(server, "db-1", "db"), create(server, "db-3", "db")
    sizes, evicted = set(), 0
    passes: list[float] = []
    real_time = time.time
    while (now := loop.time() - began) <= 120:
        passes.append(now)
        if now == 40:
            monkeypatch.setattr(time, "time", lambda: real_time() - 3600)
        nodes = {"n1": [one], "n2": [create(server, f"web-{now:g}", "web")]}
        if 50 <= now < 80 or now >= 85:
            nodes["n3"] = [three]
        mark = throttle.mark()
        throttle.prune(set(nodes), mark=mark)
        results = PassResults(floor=2.0)
        for node, pods in nodes.items():
            result = await evict_node(api, node, pods, throttle=throttle)
            results.add(node, result.requeue)
            evicted += sum(found.outcome is Outcome.EVICTED for found in result.results)
        sizes.add((len(throttle.snapshot()), len(nodes) - 1))
        results.add("cadence", Requeue.after(2.0))
        assert results.requeue == Requeue.after(2.0)
        await asyncio.sleep(2)
    assert [at - began for at in posts(server, "db-1")] == [0, 30, 60, 90, 120]
    assert [at - began for at in posts(server, "db-3")] == [50, 86, 116]
    assert evicted == len(passes) == 61, "n2 is never delayed"
    assert sizes == {(1, 1), (2, 2)}, "the map is as large as there are live blocked nodes"


async def test_f24_two_tasks_for_one_node_send_one_request(
    server: FakeApiServer, evictions: FakeEvictions, api: ApiClient
) -> None:
    """When two tasks ask for n1 in the same instant, exactly one should win; a new process should try at once."""
    server.create(BUDGETS, budget("db", {"app": "db"}, allowed=0))
    ref = create(server, "db-1", "db")
    throttle = EvictionThrottle(30)
    await asyncio.gather(*(evict_node(api, "n1", [ref], throttle=throttle) for _ in range(2)))
    assert len(posts(server)) == 1
    await evict_node(api, "n1", [ref], throttle=EvictionThrottle(30))
    assert len(posts(server)) == 2


# ---------------------------------------------------------------- F25

HALF, TWO, THIRTY = Requeue.after(0.5), Requeue.after(2), Requeue.after(30)
NONE = Requeue.from_result(requeue_after=0)


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ([None, NONE, THIRTY, TWO, TWO], TWO),
        ([None, NONE, THIRTY, TWO, TWO, Requeue.after(-1)], Requeue.NOW),
        ([HALF, THIRTY], HALF),
        ([], Requeue.DONE),
        ([None, NONE, Requeue.DONE], Requeue.DONE),
    ],
    ids=["a", "b", "c", "e empty", "e none"],
)
def test_f25_no_order_decides(wishes: list[Requeue | None], expected: Requeue) -> None:
    """When the parts of a pass report in any order, the earliest wish should win; "none" is never the smallest, and a
    moment that has passed is "now"."""
    for order in itertools.permutations(wishes):
        assert soonest(*order) == expected
        results = PassResults()
        for number, wish in enumerate(order):
            results.add(number, wish)
        assert results.requeue == expected


@pytest.mark.parametrize("order", list(itertools.permutations(["30", "2", "raise"])), ids="-".join)
def test_f25_an_exception_is_reported_and_hides_nothing(order: tuple[str, ...]) -> None:
    """When one part raises, the others' earliest wish should stand, and the exception be reported."""
    results = PassResults()
    for part in order:
        with results.collect(part) as report:
            report(Requeue.after(float(part)) if part != "raise" else 1 / 0)  # type: ignore[arg-type]  # it raises
    assert results.requeue == TWO
    assert list(results.errors) == ["raise"]


@pytest.mark.parametrize("value", [math.nan, math.inf, "5", True])
def test_f25_what_is_no_delay_is_refused_loudly(value: Any) -> None:
    """When a delay is NaN, infinite, text or bool, it should be refused; a microsecond and ten thousand hours are fine."""
    with pytest.raises(ValueError, match="delay"):
        Requeue.after(value)
    assert Requeue.after(timedelta(microseconds=1)) not in (Requeue.DONE, Requeue.NOW)
    assert Requeue.after(timedelta(hours=10_000)).delay == 36_000_000


# ---------------------------------------------------------------- F26


@pytest.mark.parametrize(
    ("at", "left", "expired"), [(0, 10.0, False), (9.9, 0.1, False), (10, 0.0, True), (15, 0.0, True)]
)
def test_f26_a_wish_of_30_s_under_a_limit_of_10_s(at: float, left: float, expired: bool) -> None:
    """When 30 s are wanted and the limit is 10 s, the wake-up should be at the limit, and never negative after it."""
    clock = Clock(0.0)
    deadline = Deadline.since(START, 10, now=START, clock=clock)
    clock.advance(at)
    assert deadline.clamp(THIRTY).delay == pytest.approx(left)
    assert deadline.expired is expired


@pytest.mark.parametrize(
    ("started", "timeout", "wish", "expected"),
    [
        (0.0, None, THIRTY, 30),
        (0.0, 0, THIRTY, 30),
        (0.0, 5, TWO, 2),
        (None, 10, THIRTY, 30),
        (30.0, 10, THIRTY, 10),
        (0.0, 10, Requeue.DONE, 10),
    ],
    ids=["c none", "c zero", "d", "e", "f", "g"],
)
def test_f26_the_other_cases(started: float | None, timeout: float | None, wish: Requeue, expected: float) -> None:
    """When there is no limit, no start, a start in the future or no wish, the wake-up should be the sensible one."""
    began = None if started is None else START + timedelta(seconds=started)
    assert Deadline.since(began, timeout, now=START, clock=Clock()).clamp(wish).delay == expected


async def test_f26_a_limit_of_two_hours_is_two_hours(server: FakeApiServer, api: ApiClient) -> None:
    """When every call hangs 100 s before its 429, the limit of 7200 s should be noticed within one interval of 7200 s:
    it is a point in time, not a number of tries."""
    FakeEvictions(server)
    server.create(BUDGETS, budget("db", {"app": "db"}, allowed=0))
    server.faults.add(match(subresource="eviction"), faults.Delay(100), times=None)
    loop = asyncio.get_running_loop()
    began = loop.time()
    throttle = EvictionThrottle(20, clock=loop.time)
    ref = create(server, "db-1", "db")
    deadline = Deadline.since(START, 7200, now=START, clock=loop.time)
    while not deadline.expired:
        result = await evict_node(api, "n1", [ref], throttle=throttle, deadline=deadline)
        await asyncio.sleep(result.requeue.delay or 0)
    assert loop.time() - began == pytest.approx(7200, abs=0.01)
    assert len(posts(server)) > 100


async def test_f26_a_call_in_flight_at_the_limit_is_cancelled(server: FakeApiServer, api: ApiClient) -> None:
    """When the answer would come after the limit, the pass should end at the limit and its connection be closed."""
    FakeEvictions(server)
    server.faults.add(match(subresource="eviction"), faults.Delay(25))
    loop = asyncio.get_running_loop()
    began = loop.time()
    deadline = Deadline.since(START, 10, now=START, clock=loop.time)
    ref = create(server, "web-1", "web")
    result = await evict_node(api, "n1", [ref], throttle=EvictionThrottle(30, clock=loop.time), deadline=deadline)
    assert loop.time() - began == pytest.approx(10, abs=0.01)
    assert (result.requeue, result.blocked[ref].kind) == (Requeue.NOW, RefusalKind.TRANSIENT)
    await server.wait_until(lambda: server.open_connections == 0)


# ---------------------------------------------------------------- F27


def bare(code: int, message: str) -> dict[str, Any]:
    return {"metadata": {}, "status": "Failure", "message": message, "code": code}


CAUSE = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2 currently"}
BY_CAUSE = {"kind": "Status", "apiVersion": "v1", **bare(429, BUDGET_TEXT), "details": {"causes": [CAUSE]}}
TWO_BUDGETS = {"kind": "Status", "apiVersion": "v1", **bare(500, SEVERAL_TEXT)}
MISSING = {"kind": "Status", **bare(404, 'pods "web-0" not found'), "details": {"name": "web-0", "kind": "pods"}}
TEXT = "text/plain; charset=utf-8"

F27 = {
    "a": (faults.Answer(500, TWO_BUDGETS), RefusalKind.SEVERAL_BUDGETS, 300),
    "b": (faults.Answer(429, BY_CAUSE), RefusalKind.BUDGET, 30),
    "c": (faults.Answer(429, "Too many requests", content_type=TEXT, headers={"Retry-After": "1"}), RefusalKind.OVERLOADED, 1),
    "d": (faults.Answer(429, bare(429, BUDGET_TEXT)), RefusalKind.BUDGET, 30),
    "e": (faults.Answer(429, BY_CAUSE, headers={"Retry-After": "120"}), RefusalKind.BUDGET, 120),
    "f": (faults.Answer(503, "unavailable", content_type=TEXT), RefusalKind.OVERLOADED, 1),
    "g": (faults.Answer(404, MISSING), Outcome.GONE, None),
    "h 200": (faults.Answer(200, {"kind": "Status", "status": "Success"}), Outcome.EVICTED, None),
    "h 201": (faults.Answer(201, {"kind": "Status", "status": "Success"}), Outcome.EVICTED, None),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "kind", "wait"), F27.values(), ids=F27)
async def test_f27_each_answer_is_told_apart(
    server: FakeApiServer, api: ApiClient, answer: faults.Answer, kind: str, wait: float | None
) -> None:
    """When the server says 500 for two budgets, 429 for a budget or for load, or accepts, each should be taken for what it
    is: neither a success, nor an exception that ends the pass, nor a budget that is none."""
    server.faults.add(match(subresource="eviction"), answer)
    throttle = EvictionThrottle(30, clock=asyncio.get_running_loop().time)
    ref = PodRef("web-0", "default", "U1")
    result = await evict_node(api, "n1", [ref], throttle=throttle)
    found = result.results[0]
    assert (found.outcome if found.refusal is None else found.refusal.kind) == kind
    assert result.requeue == (Requeue.DONE if wait is None else Requeue.after(wait))
    if found.refusal is not None:
        assert "n1" in result.message
        assert "default/web-0" in result.message
        assert ("budget" in result.message) is ("budget" in kind)


async def test_f27_a_retry_after_beyond_the_limit_does_not_outlive_it(server: FakeApiServer, api: ApiClient) -> None:
    """When the server asks for 120 s and the drain has 50 s left, the wake-up should be at 50 s."""
    server.faults.add(match(subresource="eviction"), F27["e"][0])
    clock = asyncio.get_running_loop().time
    deadline = Deadline.since(START, 50, now=START, clock=clock)
    ref = PodRef("web-0", "default", "U1")
    result = await evict_node(api, "n1", [ref], throttle=EvictionThrottle(30, clock=clock), deadline=deadline)
    assert result.requeue == Requeue.after(50)


# ---------------------------------------------------------------- F28


async def test_f28_the_pod_with_that_name_is_another_pod_now(
    server: FakeApiServer, evictions: FakeEvictions, api: ApiClient
) -> None:
    """When web-0 of n1 was replaced by a web-0 on n2, the drain of n1 should be over, and the new pod left alone."""
    server.create(BUDGETS, budget("web", {"app": "web"}, allowed=0))
    throttle = EvictionThrottle(30, clock=asyncio.get_running_loop().time)
    old = create(server, "web-0", "web")

    async def one_pass() -> NodeResult:
        return await evict_node(api, "n1", [old], throttle=throttle)

    assert (await one_pass()).requeue == Requeue.after(30)
    server.delete(PODS, "web-0")
    new = create(server, "web-0", "web")
    server.patch(BUDGETS, "web", {"status": {"disruptionsAllowed": 1}})
    await asyncio.sleep(30)
    result = await one_pass()
    assert result.results[0].outcome is Outcome.GONE
    assert (result.requeue, throttle.peek("n1")) == (Requeue.DONE, None)
    assert server.get(PODS, "web-0")["metadata"]["uid"] == new.uid
    assert evictions.evicted == []
    assert b'"preconditions": {"uid": "' + old.uid.encode() in server.requests[-1].body


async def test_f28_a_terminating_pod_is_waited_for(
    server: FakeApiServer, evictions: FakeEvictions, api: ApiClient
) -> None:
    """When a pod has a deletion timestamp, it should not be evicted again."""
    server.create(PODS, {"metadata": {"name": "web-0", "finalizers": ["example.test/hold"]}})
    server.delete(PODS, "web-0")
    ref = PodRef.of(server.get(PODS, "web-0"))
    result = await evict_node(api, "n1", [ref], throttle=EvictionThrottle(30))
    assert result.results[0].outcome is Outcome.TERMINATING
    assert posts(server) == []
