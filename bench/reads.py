"""Costs per call of what needs no server: reads, growth, and the parts of `eviction`. Seconds are those of this thread."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import eviction
from bench.measure import resident
from bench.objects import name, namespace, template
from bench.ours import CHECKS, PODS
from informer import (
    Bookmark,
    DegradedListerWatcher,
    Event,
    Item,
    KubeObject,
    ListOptions,
    Page,
    SharedInformer,
    WatchOptions,
)


def per_call(call: Callable[[], object], *, seconds: float = 0.2) -> float:
    """Microseconds of the quickest of many rounds, since whatever disturbs a round only lengthens it."""
    rounds, best, end = 1, float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        began = time.thread_time()
        for _ in range(rounds):
            call()
        spent = time.thread_time() - began
        if spent < 0.002:
            rounds *= 4  # a clock tick must not decide
            continue
        best = min(best, spent / rounds)
    return best * 1e6


def pods(count: int) -> list[KubeObject]:
    """Objects as a source would have them."""
    return [KubeObject.parse(b"%b1%b" % template(number)) for number in range(count)]


class _Memory:
    """A source that has some objects in memory, and no news of them."""

    resource = PODS

    def __init__(self, objects: Sequence[KubeObject]) -> None:
        self._items = [Item(obj.key, obj.uid, "1", obj.metadata.labels, obj) for obj in objects]

    async def list(self, _: ListOptions, /) -> Page[KubeObject]:
        return Page(self._items, "1")

    @asynccontextmanager
    async def watch(self, _: WatchOptions, /) -> AsyncIterator[AsyncIterator[Event[KubeObject]]]:
        yield self._silence()

    async def _silence(self) -> AsyncIterator[Event[KubeObject]]:
        await asyncio.Event().wait()
        yield Bookmark("1")


async def reads(objects: int) -> dict[str, Any]:
    """One informer in memory and every way to read it."""
    source = _Memory(pods(objects))
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    informer.add_index("node", lambda obj: (f"{int(obj.name[-4:]) % 500}",))
    async with informer:
        await informer.wait_for_sync()
        lister, one, there, team = informer.lister, pods(1)[0], name(0), namespace(0)
        return {
            "get": per_call(lambda: lister.get(there, namespace=team)),
            "list of one namespace": per_call(lambda: lister.list(namespace=team)),
            "list of all": per_call(lister.list),
            "list by label selector": per_call(lambda: lister.list(label_selector="shard in (1,2),team!=7")),
            "by_index": per_call(lambda: lister.by_index("node", "7")),
            "metadata, first time": per_call(lambda: KubeObject(one.raw, one.name).metadata),
            "metadata, again": per_call(lambda: one.metadata),
            'object["spec"]': per_call(lambda: one["spec"]),
            "object.to_dict()": per_call(one.to_dict),
        }


async def quarantined(bad: int) -> dict[str, Any]:
    """An informer over `bad` objects that cannot be read and as many good ones: the first list."""
    spoilt = [KubeObject.parse((b"%b1%b" % template(number)).replace(b'"10m"', b'"1"')) for number in range(bad)]
    good = [KubeObject.parse(b"%b1%b" % template(number)) for number in range(bad, 2 * bad)]
    source = DegradedListerWatcher(_Memory([*spoilt, *good]), checks=CHECKS)
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    # What is said of each is made, and goes nowhere.
    logging.getLogger("informer").addHandler(logging.NullHandler())
    logging.getLogger("informer").propagate = False
    gc.collect()
    held, began = resident(), time.thread_time()
    async with informer:
        await informer.wait_for_sync()
        spent = time.thread_time() - began
        assert len(source.quarantine) == bad
        return {
            "cpu per object": spent / (2 * bad) * 1e6,
            "resident per object": (resident() - held) / (2 * bad),
            "withheld() per entry": per_call(informer.lister.withheld) / bad,
        }


def evictions(keys: int) -> dict[str, Any]:
    """The throttle with so many keys, all refused once; `soonest`; and reading one refusal."""
    now = 0.0
    throttle = eviction.EvictionThrottle(clock=lambda: now)
    refusal = eviction.Refusal(eviction.RefusalKind.BUDGET, "needs 2 healthy pods and has 2", "checkout")
    names = [f"node-{number}" for number in range(keys)]
    gc.collect()
    before = resident()
    acquired = refused = 0.0
    for start in range(0, keys, 100):  # in portions, so that the permits themselves weigh nothing
        began = time.thread_time()
        permits = [throttle.acquire(key) for key in names[start : start + 100]]
        between = time.thread_time()
        for permit in permits:
            assert isinstance(permit, eviction.Permit)
            permit.refused(refusal)
        refused += time.thread_time() - between
        acquired += between - began
    gc.collect()
    held = (resident() - before) / keys
    keys_in_turn = _cycle(names)
    denied = per_call(lambda: throttle.acquire(next(keys_in_turn)))
    mark, live = throttle.mark(), frozenset(names)
    began = time.thread_time()
    throttle.prune(live, mark=mark)
    pruned = time.thread_time() - began
    wishes = [eviction.Requeue.after(1 + number) for number in range(min(keys, 10_000))]
    return {
        "acquire, refused before": denied,
        "acquire, a new key": acquired / keys * 1e6,
        "refused()": refused / keys * 1e6,
        "bytes per key": held,
        "prune per key": pruned / keys * 1e6,
        "soonest per wish": per_call(lambda: eviction.soonest(*wishes)) / len(wishes),
        "classify_refusal": per_call(lambda: eviction.classify_refusal(_TooMany())),
    }


class _TooMany(Exception):  # noqa: N818 - stands for the exception of a client
    status = 429
    headers = {"Content-Type": "application/json"}  # noqa: RUF012
    body = (
        b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Cannot evict pod as it would violate the pod\'s '
        b'disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The '
        b'disruption budget checkout needs 2 healthy pods and has 2 currently"}]},"code":429}'
    )


def _cycle(names: list[str]) -> Iterator[str]:
    while True:
        yield from names


async def measure(what: str, count: int) -> dict[str, Any]:
    """One of the measurements above by name."""
    match what:
        case "reads":
            return await reads(count)
        case "quarantined":
            return await quarantined(count)
        case _:
            return evictions(count)
