"""The page of limits is true: every number on it is the one in the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import eviction
from eviction import EvictionThrottle, _answer, _pacing, budgets, throttle
from informer import (
    ApiListerWatcher,
    InformerOptions,
    Quarantine,
    SharedInformer,
    _course,
    _http,
    _silence,
    _slices,
    api,
    backoff,
    health,
    listerwatcher,
    problems,
    reflector,
    shared,
)
from informer.contrib import events
from informer.degraded import judging, reminders, report
from informer.testing import FakeListerWatcher, run
from tests.docs.pages import page, tables
from tests.informer.kit import PODS

OPTIONS = InformerOptions()
DELAYS = backoff.Backoff(rng=lambda: 0.0)
LIMITER = backoff.Limiter()
MIB = 1 << 20


def default(function: Callable[..., Any], name: str) -> Any:
    return inspect.signature(function).parameters[name].default


def proof_of_health() -> float:
    """The shortest life of a first watch, in whole seconds, that starts the delays again."""
    return next(seconds for seconds in range(1000) if backoff.Backoff().survived(seconds))


def silence() -> float:
    """The `deadline` of an informer's pulse, which decides about `stale`."""

    async def look() -> float:
        async with SharedInformer(FakeListerWatcher(PODS)) as informer:
            assert informer._pulse is not None
            return informer._pulse.deadline

    return run(look())


def overload() -> tuple[float, float]:
    """The first and the longest pause of a server that names none."""
    gate = _pacing.OverloadGate()
    refusal = eviction.Refusal(eviction.RefusalKind.OVERLOADED, "")
    pauses, now = [], 0.0
    for _ in range(20):
        gate.close(refusal, now=now, started=now)
        pauses.append(gate.due - now)
        now = gate.due
    return pauses[0], max(pauses)


EXPECTED: dict[str, dict[str, str]] = {
    "Asking the server": {
        "objects in a page of a LIST": f"{_course.PAGE_SIZE}",
        "delay after a failure": f"{DELAYS.base:g} s doubling to {DELAYS.cap:g} s, each plus a random 0-100 % of itself",
        "the delay starts again": f"after a watch that lived {proof_of_health():g} s, and longer than the delay before it",
        "Retry-After of the server": f"a floor under the delay, at most {backoff.RETRY_AFTER_CAP:g} s",
        "starts of a LIST or WATCH, per informer": f"{LIMITER.burst} at once, then one every {LIMITER.period:g} s",
        "connecting": f"{_http.CONNECT_TIMEOUT:g} s",
        "first byte of a LIST": f"{api.LIST_FIRST_BYTE:g} s",
        "a whole page of a LIST": f"{api.LIST_TIMEOUT:g} s",
        "first byte of a WATCH": f"{api.WATCH_FIRST_BYTE:g} s",
        "length of a WATCH": f"{reflector.WATCH_TIMEOUT:g} to {2 * reflector.WATCH_TIMEOUT:g} s, at random",
        "a WATCH is dead": f"{listerwatcher.WATCH_GRACE:g} s after its length",
        "silence of a WATCH": f"{_silence.BOOKMARKS} bookmarks missed in a row, "
        f"once {_silence.BOOKMARKS} came at a steady pace",
        "a WATCH that is too short": f"ended within {_course.SHORT_WATCH:g} s, empty; "
        f"{_course.SHORT_WATCHES} in a row lead to a LIST",
        "a streaming list without its mark": f'{reflector.MARK_SILENCE["stream"]:g} s of silence with `"stream"`, '
        f'{reflector.MARK_SILENCE["auto"]:g} s with `"auto"`',
        "one object, one line of a watch": f"{default(ApiListerWatcher, 'max_object_bytes') // MIB} MiB",
        "a page": f"{_http.PAGE_BYTES // (1 << 30)} GiB",
        "the cache calls itself `stale`": f"after {silence():g} s of silence",
        "`wait_for_sync` without a timeout gives up": f"after {shared._HOPELESS} refusals in a row "
        f"({', '.join(map(str, sorted(health._PERMANENT)))})",
    },
    "Handlers": {
        "changes that wait for a handler, before they are merged by key": f"{OPTIONS.max_backlog}",
        "resync": "never" if OPTIONS.resync_period is None else f"{OPTIONS.resync_period}",
        "work on the event loop without a break": f"{1000 * _slices._SECONDS:g} ms",
    },
    "Bad objects": {
        "between two log lines about one object": f"{default(Quarantine, 'remind_every'):g} s",
        "objects named in that time": f"{reminders.LINES}",
        "bad objects that refuse a LIST": "no limit" if default(Quarantine, "max_entries") is None else "one",
        "bytes of bad objects that are kept": f"{default(Quarantine, 'max_bytes') // MIB} MiB",
        "problems kept of one object": f"{judging._MOST}",
        "characters shown of a bad value": f"{problems._VALUE_LIMIT}",
        "length of a log line": f"under {report._LINE} characters",
        "paths in a log record": f"{report._PATHS}",
        "between two Events about one object": f"{events._SPACING:g} s",
        "an Event is counted up again": f"after {default(events.EventReporter, 'repeat_every'):g} s",
    },
    "Evictions": {
        "between a refusal and the next attempt on that node": f"{default(EvictionThrottle, 'interval'):g} s",
        "growth of that interval": f"{default(EvictionThrottle, 'factor'):g} (none), "
        f"at most {default(EvictionThrottle, 'max_interval'):g} s",
        "Retry-After of the server": f"at most {_answer.MAX_RETRY_AFTER:g} s",
        "overload without a Retry-After": "{:g} s doubling to {:g} s".format(*overload()),
        "a permit that nobody answers": f"{throttle.RESERVATION:g} s",
        "one eviction request": f"{default(eviction.evict, 'timeout'):g} s",
        "eviction requests at a time, per node": f"{default(eviction.evict_node, 'concurrency')}",
        "between a refusal and the attempt that a budget's news allows": f"{budgets.MIN_GAP:g} s",
    },
}


@pytest.mark.parametrize("title", EXPECTED)
def test_values(title: str) -> None:
    """When the page names a limit, it should be the code's."""
    rows = tables(page("limits"))[title]
    assert {row[0]: row[1] for row in rows} == EXPECTED[title]


def test_every_table() -> None:
    """When the page has a table, it should be compared."""
    assert tables(page("limits")).keys() == EXPECTED.keys()


def test_pool() -> None:
    """When the page names the size of the client's pool, it should be the client's."""
    from kubernetes_asyncio.client import Configuration

    assert f"{Configuration().connection_pool_maxsize} by default" in page("limits")


def test_resync_floor() -> None:
    """When a resync period is under the limit the page names, it should be refused."""
    assert "`InformerOptions(resync_period=…)`, at least 1 s" in page("limits")
    InformerOptions(resync_period=1.0)
    with pytest.raises(ValueError, match="at least 1 s"):
        InformerOptions(resync_period=0.99)
