"""Ten virtual minutes of whole drains: what the server sees, and who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from attrs import define, field

from eviction import Deadline, EvictionThrottle, NodeResult, Outcome, PassResults, PodRef, Requeue, evict_node

from .evicting import EVICTED, FakeApi, Response, by_budget, pod

CADENCE = 2.0
START = datetime(2026, 1, 1, tzinfo=UTC)


@define
class Operator:
    """One pass for the whole cluster, every two seconds or as soon as somebody asks for it."""

    api: FakeApi
    nodes: dict[str, list[PodRef]]
    throttle: EvictionThrottle
    limits: dict[str, Deadline] = field(factory=dict)
    passes: int = 0
    history: list[tuple[float, str, NodeResult]] = field(factory=list)
    expired: dict[str, float] = field(factory=dict)

    async def run(self, seconds: float, *, at: Callable[[float], None] = lambda _now: None) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (now := loop.time() - began) < seconds:
            at(now)
            self.passes += 1
            results = PassResults(floor=CADENCE)
            for node, pods in list(self.nodes.items()):
                deadline = self.limits.get(node, Deadline())
                if deadline.expired:
                    self.expired.setdefault(node, loop.time() - began)
                    continue
                result = await evict_node(self.api, node, pods, throttle=self.throttle, deadline=deadline)
                self.history.append((loop.time() - began, node, result))
                gone = {one.pod for one in result.results if one.outcome is Outcome.EVICTED}
                self.nodes[node] = [one for one in pods if one not in gone]
                results.add(node, result.requeue)
            results.add("cadence", Requeue.after(CADENCE))
            assert results.requeue.delay is not None
            await asyncio.sleep(results.requeue.delay)

    def batches(self, node: str) -> list[float]:
        return [now for now, name, result in self.history if name == node and result.denied is None]


def throttle() -> EvictionThrottle:
    return EvictionThrottle(30, clock=asyncio.get_running_loop().time)


def blocked_pods(count: int, answers: dict[str, Response]) -> list[PodRef]:
    pods = [pod(f"db-{number}") for number in range(count)]
    answers |= {one.name: by_budget("db") for one in pods}
    return pods


async def test_ten_minutes_of_one_blocked_node() -> None:
    """When a node with twenty pods is blocked for ten minutes and the pass comes every 2 s, it should be tried at most 21
    times while all 300 passes run, and say the same in each of them."""
    api = FakeApi()
    operator = Operator(api, {"n1": blocked_pods(20, api.answers)}, throttle())  # type: ignore[arg-type]  # answers are responses
    await operator.run(600)
    assert operator.passes == 300
    assert operator.batches("n1") == [30.0 * number for number in range(20)]
    assert len(api.evictions) == 20 * 20
    assert len({result.message for _, _, result in operator.history}) == 1


@pytest.mark.parametrize("latency", [0.0, 0.7], ids=["at once", "answers take 0.7 s"])
async def test_a_healthy_neighbour_is_as_fast_as_without_the_blocked_node(latency: float) -> None:
    """When a neighbour's pods appear while another node is blocked, they should go as soon as if it were not."""

    async def slow() -> Response:
        await asyncio.sleep(latency)
        return EVICTED

    async def waits(*, blocked: bool) -> list[float]:
        api = FakeApi()
        nodes = {"n1": blocked_pods(20, api.answers)} if blocked else {}  # type: ignore[arg-type]  # as above
        operator = Operator(api, nodes, throttle())
        arrivals = [31.0 * number + 0.5 for number in range(15)]
        came: dict[str, float] = {}

        def arrive(now: float) -> None:
            while arrivals and arrivals[0] <= now:
                name = f"web-{len(arrivals)}"
                came[name] = now
                api.answers[name] = slow
                operator.nodes[f"node-of-{name}"] = [pod(name)]
                arrivals.pop(0)

        await operator.run(600, at=arrive)
        went = {
            one.pod.name: now
            for now, _, result in operator.history
            for one in result.results
            if one.outcome is Outcome.EVICTED
        }
        return [went[name] - since for name, since in came.items()]  # fmt: skip

    alone, beside = await waits(blocked=False), await waits(blocked=True)
    assert len(alone) == len(beside) == 15
    assert beside == pytest.approx(alone)


async def test_a_limit_shorter_than_the_interval_is_noticed_in_time() -> None:
    """When a drain may take 10 s and the throttle waits 30 s, its end should be seen at 10 s, not at 30 s."""
    api = FakeApi()
    operator = Operator(api, {"n1": blocked_pods(1, api.answers)}, throttle())  # type: ignore[arg-type]  # as above
    loop = asyncio.get_running_loop()
    operator.limits["n1"] = Deadline.since(START, 9, now=START, clock=loop.time)  # between two passes
    await operator.run(60)
    assert operator.expired["n1"] == pytest.approx(9, abs=0.01)
    assert len(api.evictions) == 1


async def test_one_refused_pod_does_not_hold_up_its_siblings() -> None:
    """When one of twenty pods is refused, the other nineteen should go in the very first pass."""
    api = FakeApi()
    pods = blocked_pods(1, api.answers) + [pod(f"web-{number}") for number in range(19)]  # type: ignore[arg-type]  # as above
    operator = Operator(api, {"n1": pods}, throttle())
    await operator.run(1)
    first = operator.history[0][2]
    assert sum(one.outcome is Outcome.EVICTED for one in first.results) == 19
    assert [one.name for one in first.blocked] == ["db-0"]


async def test_a_restart_costs_one_attempt() -> None:
    """When the operator restarts in the middle of an interval, it should try once and then keep to its interval again."""
    api = FakeApi()
    pods = blocked_pods(1, api.answers)  # type: ignore[arg-type]  # as above
    before, after = Operator(api, {"n1": list(pods)}, throttle()), Operator(api, {"n1": list(pods)}, throttle())
    await before.run(45)
    await after.run(45)
    assert (len(before.batches("n1")), after.batches("n1")) == (2, [0.0, 30.0])
