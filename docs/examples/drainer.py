"""A small operator that drains the nodes of several pools in one pass, as a reconciler would.

Five habits keep it polite and prompt:

* one throttle for the whole process, one key per node: a refused node is left alone for 30 s, the others are not;
* one deadline per drain, looked at before the gate: a limit shorter than the interval still ends in time;
* one result per pass: the earliest wish wins, and a pool that raises hides nobody else's;
* one condition per pool, written only when its text changes, and the text is the same on the passes between two attempts; what blocks is a
  WARNING, said again every ten minutes, since whoever is paged after an hour looks at the log of the last minutes;
* one index of the budgets, fed by an informer: what is sure to be refused is not asked for, and a budget that has headroom again wakes
  the next pass within a second instead of after the rest of 30.

A drain that its deadline ends is counted: the library's gauges forget its nodes, and an alert on them would end as if all were well.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from attrs import define, field, frozen
from prometheus_client import CollectorRegistry, Counter

from eviction import (
    BudgetIndex,
    CallsApi,
    Deadline,
    EvictionMetrics,
    EvictionThrottle,
    NodeResult,
    PassResults,
    PodRef,
    RefusalKind,
    Requeue,
    evict_node,
    soonest,
)
from informer import InformerFactory, InformerOptions, KubeObject, Resource, SharedInformer

log = logging.getLogger("drainer")

BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", kind="PodDisruptionBudget")  # v1beta1 before Kubernetes 1.21
CADENCE = 60.0  # seconds after which the pools are looked at in any case
REMIND = 600.0  # seconds after which a condition that blocks is logged again

# Says nothing about the pods, so it is no reason to call a drain blocked.
SERVER_TROUBLE = frozenset({RefusalKind.OVERLOADED, RefusalKind.TRANSIENT})


@frozen
class Pool:
    """What a custom resource would say: the nodes to drain, since when, and how long it may take."""

    name: str
    nodes: Mapping[str, Sequence[PodRef]]
    started_at: datetime
    timeout: float | None = None


@define
class Drainer:
    """Holds what lives longer than a pass. Losing it in a restart costs one attempt per blocked node."""

    api: CallsApi
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    registry: CollectorRegistry = field(factory=CollectorRegistry)  # of the informer, the evictions and the drains
    informers: list[SharedInformer[KubeObject]] = field(factory=list, init=False)  # for readiness() and liveness()
    throttle: EvictionThrottle = field(init=False)
    metrics: EvictionMetrics = field(init=False)
    timed_out: Counter = field(init=False)
    budgets: BudgetIndex = field(init=False)
    conditions: dict[str, str] = field(factory=dict)
    _said: dict[str, float] = field(factory=dict, init=False)
    _woken: asyncio.Event = field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self.throttle = EvictionThrottle(interval=30.0, clock=self.clock)
        self.metrics = EvictionMetrics(self.registry, throttle=self.throttle)
        self.timed_out = Counter("drains_timed_out", "Drains that their deadline ended.", registry=self.registry)
        self.budgets = BudgetIndex(self.throttle, wake=self._wake, metrics=self.metrics)

    async def run(self, pools: Callable[[], Sequence[Pool]]) -> None:
        """Pass after pass over what the pools are each time, until cancelled."""
        async with InformerFactory(self.api, options=InformerOptions(registry=self.registry)) as factory:
            budgets = factory.informer(BUDGETS)
            self.informers.append(budgets)
            index = self.budgets
            budgets.add_handler(
                on_add=index.set, on_update=index.set, on_delete=index.drop, on_quarantined=index.quarantined
            )
            await factory.wait_for_sync(timeout=3600)  # it goes on asking; /readyz and InformerNotSynced say why
            while True:
                self._woken.clear()  # before the pass: news that comes meanwhile is for the next one
                requeue = await self.one_pass(pools())
                wait = CADENCE if requeue.delay is None else min(requeue.delay, CADENCE)
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._woken.wait()

    def _wake(self, _node: Hashable) -> None:
        self._woken.set()

    async def one_pass(self, pools: Sequence[Pool]) -> Requeue:
        """Drain what can be drained now; the answer is when to call again."""
        mark = self.throttle.mark()
        results = PassResults(floor=2.0)
        for pool in pools:
            with results.collect(pool.name) as report:
                report(await self._drain(pool))
        self.throttle.prune({(node, pool.name) for pool in pools for node in pool.nodes}, mark=mark)
        for name, error in results.errors.items():
            log.error("pool %s: %s", name, error)
        log.debug("next pass: %s, because of %s", results.requeue, results.source)
        return results.requeue

    async def _drain(self, pool: Pool) -> Requeue:
        deadline = Deadline.since(pool.started_at, pool.timeout, now=self.now(), clock=self.clock)
        if deadline.expired:
            text = self.conditions.get(pool.name, "")
            if not text.startswith("TimedOut"):
                self.timed_out.inc()
                text = f"TimedOut, and before that {text or 'not looked at'}"
            self._set_condition(pool, text, logging.WARNING)
            return Requeue.DONE
        passes = [
            await evict_node(
                self.api,
                (node, pool.name),
                pods,
                throttle=self.throttle,
                deadline=deadline,
                budgets=self.budgets,
                metrics=self.metrics,
            )
            for node, pods in pool.nodes.items()
        ]
        if not any(_only_server_trouble(result) for result in passes):
            blocked = sorted(result.message for result in passes if result.message)
            if blocked:
                self._set_condition(pool, f"DrainBlocked: {'; '.join(blocked)}", logging.WARNING)
            else:
                self._set_condition(pool, "Draining")
        return soonest(*(result.requeue for result in passes))

    def _set_condition(self, pool: Pool, text: str, level: int = logging.INFO) -> None:
        changed = self.conditions.get(pool.name) != text
        if changed:
            self.conditions[pool.name] = text  # here a real operator patches the status
        if changed or (level > logging.INFO and self.clock() - self._said.get(pool.name, -REMIND) >= REMIND):
            self._said[pool.name] = self.clock()
            log.log(level, "pool %s: %s", pool.name, text)


def _only_server_trouble(result: NodeResult) -> bool:
    refusal = result.denied.refusal if result.denied is not None else None
    kinds = {refusal.kind} if refusal is not None else {one.kind for one in result.blocked.values()}
    return bool(kinds) and kinds <= SERVER_TROUBLE
