"""Requeue, soonest and PassResults: the earliest wake-up wins, whatever the order."""

from __future__ import annotations

import asyncio
import itertools
import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eviction import Deadline, PassResults, Requeue, soonest

from .evicting import Clock

REQUEUES = st.one_of(st.none(), st.just(Requeue.DONE), st.just(Requeue.NOW), st.floats(1e-6, 1e9).map(Requeue.after))


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (30, 30.0),
        (0.5, 0.5),
        (timedelta(microseconds=1), 1e-6),
        (timedelta(hours=10_000), 36_000_000.0),
        (0, 0.0),
        (-0.0, 0.0),
        (-1, 0.0),
        (timedelta(seconds=-5), 0.0),
    ],
)
def test_after(delay: Any, expected: float) -> None:
    """When a delay is positive it should stay what it is; at zero or below the moment has come, and is not forgotten."""
    assert Requeue.after(delay).delay == expected
    assert (Requeue.after(delay) == Requeue.NOW) is (expected == 0)
    assert Requeue.after(delay) != Requeue.DONE


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "5", "", True, False, None, b"1", [], 10**400])
def test_what_is_no_delay_is_refused(value: Any) -> None:
    """When something is no finite number of seconds, it should be refused loudly, wherever it comes in."""
    with pytest.raises(ValueError, match="finite number of seconds"):
        Requeue.after(value)
    with pytest.raises(ValueError, match="finite number of seconds"):
        Requeue.from_result(requeue_after=value)
    if value is not None:
        with pytest.raises(ValueError, match=r"Requeue\.delay"):
            Requeue(value)


@pytest.mark.parametrize(
    ("requeue_after", "requeue", "expected"),
    [
        (0, False, Requeue.DONE),
        (0, True, Requeue.NOW),
        (30, False, Requeue.after(30)),
        (30, True, Requeue.after(30)),
        (-1, False, Requeue.NOW),
    ],
)
def test_controller_runtimes_reading(requeue_after: float, requeue: bool, expected: Requeue) -> None:
    """When a controller-runtime Result comes in, zero should mean none; a passed moment is not lost as it is there."""
    assert Requeue.from_result(requeue_after=requeue_after, requeue=requeue) == expected


def test_requeues_have_no_order_and_no_negative_delay() -> None:
    """When somebody sorts or builds them by hand, None and 0 should not end up compared."""
    with pytest.raises(TypeError):
        Requeue.NOW < Requeue.DONE  # type: ignore[operator]  # noqa: B015 - the mistake under test
    with pytest.raises(ValueError, match="at least 0"):
        Requeue(-1.0)


@given(st.lists(REQUEUES, max_size=6), st.randoms(use_true_random=False))
def test_soonest_does_not_depend_on_order(items: list[Requeue | None], rng: Any) -> None:
    """When wishes come in any order, nested in any way, the earliest should win."""
    shuffled = list(items)
    rng.shuffle(shuffled)
    expected = soonest(*items)
    assert soonest(*shuffled) == expected
    for cut in range(len(items) + 1):
        assert soonest(soonest(*items[:cut]), soonest(*items[cut:])) == expected
    delays = [item.delay for item in items if item is not None and item.delay is not None]
    assert expected.delay == (min(delays) if delays else None)


def test_all_permutations_of_six_results() -> None:
    """When six results come in each of their 720 orders, the answer and who is named for it should be the same."""
    wishes = {"a": Requeue.after(30), "b": Requeue.after(2), "c": Requeue.after(2), "d": None, "e": Requeue.DONE, "f": Requeue.after(9)}  # fmt: skip
    seen = set()
    for order in itertools.permutations(wishes):
        results = PassResults()
        for source in order:
            results.add(source, wishes[source])
        seen.add((results.requeue, results.source, soonest(*(wishes[source] for source in order))))
    assert seen == {(Requeue.after(2), "b", Requeue.after(2))}


@pytest.mark.parametrize("items", [(), (None,), (None, Requeue.DONE)])
def test_nothing_wanted_is_done(items: tuple[Requeue | None, ...]) -> None:
    """When nobody wants anything, it should be done."""
    assert soonest(*items) == Requeue.DONE
    results = PassResults()
    for item in items:
        results.add("x", item)
    assert (results.requeue, results.source) == (Requeue.DONE, None)


@pytest.mark.parametrize("value", [30, "x", 0])
def test_numbers_are_not_taken_for_requeues(value: Any) -> None:
    """When a bare number is passed, it should be refused: whether 0 means now or never cannot be guessed."""
    with pytest.raises(TypeError, match=r"Requeue\.after"):
        soonest(Requeue.NOW, value)
    with pytest.raises(TypeError, match=r"Requeue\.after"):
        PassResults().add("x", value)


def test_soonest_is_linear() -> None:
    """When ten thousand results come, it should look at each delay a fixed number of times."""
    looks = 0

    class Looked(Requeue):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "delay"
            return super().__getattribute__(name)

    work = []
    for size in (1_000, 10_000):
        looks = 0
        soonest(*[Looked(float(number)) for number in range(size)])
        work.append(looks)
    assert work[1] == 10 * work[0]


# ---------------------------------------------------------------- PassResults


def test_an_exception_hides_nobodys_interval() -> None:
    """When one part of the pass raises, the others' wishes should count, and so should its own from before."""
    results = PassResults()
    with results.collect("a") as report:
        report(Requeue.after(30))
    with results.collect("b") as report:
        report(Requeue.after(5))
        raise ValueError("b is broken")
    with results.collect("c") as report:
        report(Requeue.after(9))
    assert (results.requeue, results.source) == (Requeue.after(5), "b")
    assert str(results.errors["b"]) == "b is broken"
    with pytest.raises(ExceptionGroup) as caught:
        results.raise_errors()
    assert [str(error) for error in caught.value.exceptions] == ["b is broken"]


def test_several_exceptions_of_one_part_are_all_kept() -> None:
    """When a part raises twice, neither should be lost."""
    results = PassResults()
    for text in ("one", "two"):
        with results.collect("a"):
            raise ValueError(text)
    error = results.errors["a"]
    assert isinstance(error, ExceptionGroup)
    assert [str(one) for one in error.exceptions] == ["one", "two"]
    with pytest.raises(ExceptionGroup) as caught:
        results.raise_errors()
    assert len(caught.value.exceptions) == 2


def test_no_errors_raise_nothing() -> None:
    """When nothing went wrong, it should not raise."""
    PassResults().raise_errors()


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_cancellation_is_never_swallowed(error: type[BaseException]) -> None:
    """When the task is cancelled inside a part, it should go on being cancelled, and the wish is kept all the same."""
    results = PassResults()

    def part() -> None:
        with results.collect("a") as report:
            report(Requeue.NOW)
            raise error

    with pytest.raises(error):
        part()
    assert (dict(results.errors), results.requeue) == ({}, Requeue.NOW)


async def test_a_cancelled_pass_ends() -> None:
    """When a pass hangs in one part and its task is cancelled, it should end there."""

    async def one_pass() -> None:
        results = PassResults()
        for source in "ab":
            with results.collect(source):
                await asyncio.sleep(3600)

    task = asyncio.create_task(one_pass())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("wish", "floor", "ceiling", "left", "expected"),
    [
        (Requeue.NOW, 2, None, None, Requeue.after(2)),
        (Requeue.after(90), 0, 60, None, Requeue.after(60)),
        (Requeue.DONE, 2, 60, None, Requeue.DONE),
        (Requeue.after(30), 0, None, 10, Requeue.after(10)),
        (Requeue.after(2), 5, None, 3, Requeue.after(3)),
        (Requeue.NOW, 5, None, 3, Requeue.after(3)),
        (Requeue.DONE, 5, None, 3, Requeue.after(3)),
        (Requeue.after(9), 2, None, 0, Requeue.after(2)),
        (Requeue.NOW, 0, None, 0, Requeue.NOW),
    ],
)
@pytest.mark.parametrize("by", ["add", "report"])
def test_bounds(
    wish: Requeue, floor: float, ceiling: float | None, left: float | None, expected: Requeue, by: str
) -> None:
    """When there are bounds, a floor should hold, except that it never pushes past a running deadline; after an expired
    one it is what keeps the pass from spinning. It makes no difference who clamped, or in which call."""
    deadline = None
    if left is not None:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        deadline = Deadline.since(start, left, zero="expired", now=start, clock=Clock())
    results = PassResults(floor=floor, ceiling=ceiling)
    if by == "add":
        results.add("a", wish, deadline=deadline)
    else:
        with results.collect("a") as report:
            report(wish if deadline is None else deadline.clamp(wish))
    results.add("z", Requeue.after(1000))
    if expected != Requeue.DONE:
        assert (results.requeue, results.source) == (expected, "a")


@pytest.mark.parametrize("bounds", [{"floor": -1}, {"floor": math.nan}, {"ceiling": True}, {"floor": 5, "ceiling": 2}])
def test_bad_bounds_are_named(bounds: dict[str, Any]) -> None:
    """When a bound makes no sense, it should be refused by name."""
    with pytest.raises(ValueError, match=r"floor|ceiling"):
        PassResults(**bounds)


SCRIPT = """
from eviction import *
clock = lambda: 0.0
wishes = {f"pool-{number}": Requeue.after(2 + number % 3) for number in range(20)}
results = PassResults()
for source in set(wishes):
    results.add(source, wishes[source])
throttle = EvictionThrottle(30, clock=clock)
for key in {f"node-{number}" for number in range(20)}:
    with throttle.acquire(key) as permit:
        permit.refused(Refusal(RefusalKind.BUDGET, key))
pods = {PodRef(f"web-{number}", "default", f"u{number}") for number in range(9)}
blocked = tuple(EvictResult(pod, Outcome.REFUSED, Refusal(RefusalKind.BUDGET, "x", "web")) for pod in pods)
print(results.requeue, results.source, [entry.key for entry in throttle.snapshot()])
print(NodeResult("n1", Requeue.DONE, blocked, None).message)
"""


def test_nothing_depends_on_the_hash_seed() -> None:
    """When Python hashes texts differently, results, winner, snapshot and condition text should be the same."""
    seen = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "42")
    }
    assert len(seen) == 1
    assert "pool-0 " in seen.pop()
