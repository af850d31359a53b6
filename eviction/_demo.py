"""Ten virtual minutes of a drain under three policies: what the API server sees, and who waits for whom.

The cluster is a few dicts and the clock a number; everything else is the library itself, `evict_node` included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from attrs import define, field, frozen

from eviction.budgets import BudgetIndex
from eviction.deadline import Deadline
from eviction.evict import NodeResult, Outcome, evict_node
from eviction.pods import PodRef
from eviction.requeue import PassResults, Requeue
from eviction.throttle import EvictionThrottle

MINUTES: Final = 10
CADENCE: Final = 2.0
INTERVAL: Final = 30.0
LIMIT: Final = 10.0
FREED_AT: Final = 407.0
EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
BLOCKED, IMPATIENT = "node-blocked", "node-impatient"
JOINS: Final = {BLOCKED: 0.0, IMPATIENT: 61.0} | {f"node-{number}": 53.0 * number + 8 for number in range(1, 10)}


@frozen
class Policy:
    """What a refusal does to the operator's pass."""

    name: str
    interval: float
    """Of the throttle; 0 is none."""
    pass_waits: bool = False
    """While anybody is blocked the whole pass comes back after 30 s."""


POLICIES: Final = (
    Policy("gate per node", INTERVAL),
    Policy("30 s for everybody", 0.0, pass_waits=True),
    Policy("no throttle", 0.0),
)


@frozen
class _Response:
    status: int
    body: bytes
    headers: dict[str, str] = field(factory=dict)

    async def read(self) -> bytes:
        return self.body

    def release(self) -> None: ...

    def close(self) -> None: ...


@define(eq=False)
class Cluster:
    """An API server as far as draining needs one: it knows pods and two budgets, and counts."""

    allowed: dict[str, int] = field(factory=lambda: {"db": 0, "cache": 0})
    gone: set[str] = field(factory=set)
    refused: int = 0

    async def call_api(self, resource_path: str, method: str, /, *_args: Any, **_kwargs: Any) -> _Response:
        """Discovery, and evictions by the budget the pod's name begins with."""
        if method == "GET":
            found = {"resources": [{"name": "pods/eviction", "group": "policy", "version": "v1"}]}
            return _Response(200, json.dumps(found).encode())
        pod = resource_path.split("/")[-2]
        budget = pod.split("-")[0]
        if self.allowed.get(budget, 1) == 0:
            self.refused += 1
            cause = {
                "reason": "DisruptionBudget",
                "message": f"The disruption budget {budget} needs 2 healthy pods and has 2 currently",
            }
            body = {"kind": "Status", "code": 429, "message": "Cannot evict pod.", "details": {"causes": [cause]}}
            return _Response(429, json.dumps(body).encode())
        self.gone.add(pod)
        return _Response(201, b"{}")


@define
class Report:
    """What one policy led to."""

    policy: Policy
    passes: int = 0
    refused: int = 0
    neighbour_wait: float = 0.0
    expiry_seen: float | None = None
    """Seconds into the drain with the limit of ten."""
    resumed: float | None = None
    """Seconds from the budget's headroom to the eviction."""
    lines: list[str] = field(factory=list)


def pods_of(node: str) -> list[PodRef]:
    """Each node holds one pod that matters and one that anybody may evict."""
    app = {BLOCKED: "db", IMPATIENT: "cache"}.get(node, "web")
    return [
        PodRef(f"{name}-{node}", "default", f"uid-{name}-{node}", labels={"app": name}, phase="Running", ready=True)
        for name in (app, "batch")
    ]


def budget(name: str, allowed: int) -> dict[str, Any]:
    """The budget as a watch would deliver it."""
    return {
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": name}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed},
    }


@define(eq=False)
class Operator:
    """A controller with one pass for the whole cluster, as many have."""

    policy: Policy
    now: float = 0.0
    cluster: Cluster = field(factory=Cluster)
    woken: list[Hashable] = field(factory=list)
    done: set[str] = field(factory=set)
    skipped: int = 0
    report: Report = field(init=False)
    throttle: EvictionThrottle = field(init=False)
    index: BudgetIndex = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.report = Report(self.policy)
        self.throttle = EvictionThrottle(self.policy.interval, clock=lambda: self.now)
        self.index = BudgetIndex(self.throttle, wake=self.woken.append)

    async def run(self) -> Report:
        """All passes of the ten minutes."""
        while self.now <= MINUTES * 60:
            requeue = await self._one_pass()
            assert requeue.delay
            self._sleep_until(self.now + requeue.delay)
        self._flush()
        self.report.refused = self.cluster.refused
        return self.report

    def _sleep_until(self, moment: float) -> None:
        """Time passes. The budget's news interrupts an operator that listens for it, and no other."""
        if self.now < FREED_AT <= moment:
            self.cluster.allowed["db"] = 1
            if self.policy.interval:
                self.now = FREED_AT
                self.index.set(budget("db", 1))
                self._say(f"budget db has headroom again; released and woken: {', '.join(map(str, self.woken))}")
        if self.woken:
            self.woken.clear()
        else:
            self.now = moment

    async def _one_pass(self) -> Requeue:
        self.report.passes += 1
        results = PassResults(floor=CADENCE)
        for node in sorted(JOINS):
            if JOINS[node] <= self.now and node not in self.done:
                with results.collect(node) as wish:
                    wish(await self._drain(node))
        results.raise_errors()
        if self.policy.pass_waits and results.source is not None:
            return Requeue.after(INTERVAL)
        results.add("cadence", Requeue.after(CADENCE))
        return results.requeue

    async def _drain(self, node: str) -> Requeue:
        started = EPOCH + timedelta(seconds=JOINS[node])
        limit = LIMIT if node == IMPATIENT else None
        wall = EPOCH + timedelta(seconds=self.now)
        deadline = Deadline.since(started, limit, now=wall, clock=lambda: self.now)
        if deadline.expired:
            self.done.add(node)
            self.report.expiry_seen = self.now - JOINS[node]
            self._say(f"{node}: its limit of {LIMIT:g} s is noticed {self.report.expiry_seen:g} s into the drain")
            return Requeue.DONE
        mark = self.throttle.mark()
        pods = [pod for pod in pods_of(node) if pod.name not in self.cluster.gone]
        result = await evict_node(self.cluster, node, pods, throttle=self.throttle, deadline=deadline)
        self._note(node, result)
        for pod in result.blocked:
            self.index.waiting(node, pod, since=mark)
        return result.requeue

    def _note(self, node: str, result: NodeResult) -> None:
        if result.denied is not None:
            self.skipped += 1
            return
        evicted = [one.pod.name for one in result.results if one.outcome is Outcome.EVICTED]
        said = [f"evicts {', '.join(evicted)}"] if evicted else []
        said += [f"refused {pod.name} ({refusal.kind} {refusal.budget})" for pod, refusal in result.blocked.items()]
        wait = f"; looks again in {result.requeue.delay:g} s" if result.requeue.delay else ""
        self._say(f"{node}: {'; '.join(said)}{wait}")
        if result.blocked:
            return
        self.done.add(node)
        if node == BLOCKED:
            self.report.resumed = self.now - FREED_AT
        else:
            self.report.neighbour_wait = max(self.report.neighbour_wait, self.now - JOINS[node])

    def _say(self, text: str) -> None:
        self._flush()
        self.report.lines.append(f"{self.now:7.2f} s  {text}")

    def _flush(self) -> None:
        if self.skipped:
            self.report.lines.append(f"{'...':>9}  {self.skipped} attempts skipped, without a request")
            self.skipped = 0


async def run() -> list[Report]:
    """The same ten minutes under each policy."""
    return [await Operator(policy).run() for policy in POLICIES]


def table(reports: list[Report]) -> list[str]:
    """The policies beside each other."""
    rows: list[tuple[str, Callable[[Report], Any]]] = [
        ("passes in ten minutes", lambda report: report.passes),
        ("refused requests", lambda report: report.refused),
        ("longest wait of a healthy neighbour", lambda report: _seconds(report.neighbour_wait)),
        (f"limit of {LIMIT:g} s noticed after", lambda report: _seconds(report.expiry_seen)),
        ("budget free until pod evicted", lambda report: _seconds(report.resumed)),
    ]
    lines = [f"{'':36}" + "".join(f"{report.policy.name:>20}" for report in reports)]
    lines += [f"{title:36}" + "".join(f"{value(report)!s:>20}" for report in reports) for title, value in rows]
    return lines


def doubts(reports: list[Report]) -> list[str]:
    """What was claimed and not observed; empty when the demo shows what it says."""
    gate, everybody, none = reports
    never = float("inf")
    claims = {
        "one refused request per interval, where an ungated pass sends fifteen": gate.refused * 10 < none.refused,
        "healthy neighbours wait one pass": gate.neighbour_wait <= CADENCE < everybody.neighbour_wait,
        "a limit shorter than the interval is noticed in time": (gate.expiry_seen or never) <= LIMIT + 0.01,
        "slowing everybody overshoots the limit": (everybody.expiry_seen or never) > LIMIT + CADENCE,
        "a drain resumes when its budget allows": (never if gate.resumed is None else gate.resumed) <= 1.0 + CADENCE,
        "slowing everybody resumes later": (everybody.resumed or never) > 1.0 + CADENCE,
        "the gate does not slow the pass": gate.passes >= none.passes,
    }
    return [claim for claim, held in claims.items() if not held]


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
