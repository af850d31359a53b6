"""`informer.backoff`: how long to wait before the next request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer.backoff import RETRY_AFTER_CAP, Backoff, Limiter
from informer.testing.virtual import run


def test_growth() -> None:
    """When failures follow each other, the delays should double from 0.8 s to 30 s."""
    backoff = Backoff(rng=lambda: 0.0)
    assert [backoff.next() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_jitter() -> None:
    """When chance is at its highest, each delay should be nearly twice as long."""
    backoff = Backoff(rng=lambda: 0.75)
    assert [backoff.next() for _ in range(2)] == [pytest.approx(1.4), pytest.approx(2.8)]


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=2000).map(iter), st.data())
def test_bounds(chances: Iterator[float], data: st.DataObject) -> None:
    """When anything goes on for any time, each delay should lie within its bounds, and no count should overflow."""
    backoff = Backoff(rng=lambda: next(chances, 0.5))
    for step in range(data.draw(st.sampled_from([1, 5, 50, 1200]))):
        low = min(30.0, 0.8 * 2.0 ** min(step, 10))
        assert low <= backoff.next() <= 2 * low


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 1, exclude_max=True))
def test_any_retry_after(seconds: float, chance: float) -> None:
    """When a source hands on any number as Retry-After, the delay should stay finite, positive and bounded."""
    delay = Backoff(rng=lambda: chance).next(seconds)
    assert 0.8 <= delay <= RETRY_AFTER_CAP + 1


@pytest.mark.parametrize(("retry_after", "low"), [(7.0, 7.0), (0.1, 0.8), (0.0, 0.8), (299.0, 299.0), (86400.0, 300.0)])
def test_retry_after_is_a_floor(retry_after: float, low: float) -> None:
    """When the server asks to wait, the delay should be no shorter than that or our own, at most 5 min, and jittered."""
    assert Backoff(rng=lambda: 0.0).next(retry_after) == low
    assert Backoff(rng=lambda: 0.9).next(retry_after) > low


def test_cap_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """When Retry-After is cut short, a log line should say so; otherwise none."""
    with caplog.at_level(logging.DEBUG):
        Backoff().next(300.0)
        assert not caplog.records
        Backoff().next(86400.0)
    assert [record.getMessage() for record in caplog.records] == ["the server asks to wait 86400 s; waiting 300 s"]


@pytest.mark.parametrize(
    ("steps", "retry_after", "lived", "reset"),
    [
        (0, None, 9.9, False),
        (0, None, 10.0, True),
        (1, None, 9.9, False),
        (1, None, 10.0, True),
        # The last delay was longer than ten seconds, so a watch has to live longer than that.
        (6, None, 25.0, False),
        (6, None, 25.7, True),
        (8, None, 29.9, False),
        (8, None, 30.1, True),
        (1, 120.0, 60.0, False),
        (1, 120.0, 121.0, True),
    ],
)
def test_reset(steps: int, retry_after: float | None, lived: float, reset: bool) -> None:
    """When a watch lived at least 10 s and longer than its own last delay, the sequence should start again, else go on."""
    backoff = Backoff(rng=lambda: 0.0)
    for _ in range(steps):
        backoff.next(retry_after)
    assert backoff.survived(lived) is reset
    assert backoff.next() == (0.8 if reset else min(30.0, 0.8 * 2**steps))


def test_an_outage_has_about_one_attempt_a_minute() -> None:
    """When an outage lasts 30 min and no watch ever lives, there should be no more attempts than client-go before 0.36."""
    backoff = Backoff(rng=lambda: 0.5)
    time, attempts = 0.0, 0
    while time < 1800:
        time += backoff.next()
        backoff.survived(0.0)
        attempts += 1
    assert 40 <= attempts <= 50


# ---------------------------------------------------------------------- the limiter


async def test_burst_then_period() -> None:
    """When starts are asked for all the time, five should go at once and then one every 6 s."""
    limiter, time = Limiter(), asyncio.get_running_loop().time
    begin = time()
    starts = []
    for _ in range(9):
        await limiter.wait()
        starts.append(time() - begin)
    assert starts == [0, 0, 0, 0, 0, 6, 12, 18, 24]


async def test_credit_is_bounded() -> None:
    """When nothing was asked for an hour, there should be credit for one burst and no more."""
    limiter, time = Limiter(), asyncio.get_running_loop().time
    for _ in range(5):
        await limiter.wait()
    await asyncio.sleep(3600)
    begin = time()
    for _ in range(7):
        await limiter.wait()
    assert time() - begin == 12


async def test_waiting_together() -> None:
    """When several wait at once, they should be let go one after the other."""
    limiter, time = Limiter(burst=1), asyncio.get_running_loop().time
    begin = time()
    starts = []

    async def one() -> None:
        await limiter.wait()
        starts.append(time() - begin)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(one())
    assert starts == [0, 6, 12, 18]


@given(
    burst=st.integers(1, 6),
    period=st.floats(0.1, 20),
    pauses=st.lists(st.one_of(st.just(0.0), st.floats(0, 40)), max_size=30),
)
def test_never_more_than_promised(burst: int, period: float, pauses: list[float]) -> None:
    """When starts come in any rhythm, no stretch of time should see more than burst + elapsed/period of them."""

    async def main() -> None:
        limiter, time = Limiter(burst=burst, period=period), asyncio.get_running_loop().time
        starts: list[float] = []
        for pause in pauses:
            await asyncio.sleep(pause)
            asked = time()
            await limiter.wait()
            starts.append(time())
            # Nor does anybody wait without need.
            assert time() == pytest.approx(asked) or len(starts) > burst
        for first in range(len(starts)):
            for last in range(first, len(starts)):
                assert last - first + 1 <= burst + (starts[last] - starts[first]) / period + 1e-6

    run(main())
