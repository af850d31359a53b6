"""Deadline: clamp a wake-up to the drain's limit."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eviction import Deadline, Requeue

from .evicting import Clock

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("start", [0.0, 1000.3, 1e6 + 0.1])
@pytest.mark.parametrize(
    ("timeout", "wish", "expected"),
    [
        (10, Requeue.after(30), 10.0),
        (10, Requeue.after(2), 2.0),
        (10, Requeue.DONE, 10.0),
        (10, Requeue.NOW, 0.0),
        (timedelta(seconds=10), Requeue.after(30), 10.0),
        (None, Requeue.after(30), 30.0),
        (None, Requeue.DONE, None),
        (0, Requeue.after(30), 30.0),
        (0, Requeue.DONE, None),
    ],
)
def test_clamp_only_shortens_and_exactly(start: float, timeout: Any, wish: Requeue, expected: float | None) -> None:
    """When a limit is nearer than the wish, the limit should be the wish, to the last bit, whatever the clock shows."""
    deadline = Deadline.since(START, timeout, now=START, clock=Clock(start))
    assert deadline.clamp(wish).delay == expected


@given(st.floats(0.001, 1e6), st.floats(0, 2e6), st.one_of(st.none(), st.floats(0, 1e6)))
def test_clamp_never_lengthens_and_is_never_negative(timeout: float, elapsed: float, wish: float | None) -> None:
    """When clamped at any moment, a wish should stay within what is left, and only "done" becomes a delay."""
    clock = Clock(0.0)
    deadline = Deadline.since(START, timeout, now=START, clock=clock)
    clock.advance(elapsed)
    requeue = Requeue.DONE if wish is None else Requeue.after(wish)
    delay = deadline.clamp(requeue).delay
    left = deadline.remaining()
    assert left is not None
    assert delay is not None
    assert 0 <= delay <= left <= timeout
    assert wish is None or delay <= wish
    assert deadline.expired is (left == 0)


def test_a_start_that_is_missing_runs_no_clock() -> None:
    """When the drain has not begun, it should have no limit yet, even an expired one."""
    for zero in ("unlimited", "expired"):
        deadline = Deadline.since(None, 0, zero=zero)
        assert (deadline.expired, deadline.remaining(), deadline.clamp(Requeue.DONE)) == (False, None, Requeue.DONE)


def test_a_start_in_the_future_leaves_at_most_the_whole_timeout() -> None:
    """When another writer's clock is ahead, it should not wait longer than the timeout."""
    deadline = Deadline.since(START + timedelta(seconds=30), 10, now=START, clock=Clock())
    assert deadline.remaining() == 10


def test_a_restart_recomputes_from_the_stored_start() -> None:
    """When a new process takes over in the middle, it should go on where the old one was."""
    deadline = Deadline.since(START, 7200, now=START + timedelta(seconds=7195), clock=Clock())
    assert deadline.remaining() == 5
    late = Deadline.since(START, 7200, now=START + timedelta(days=1), clock=Clock())
    assert (late.expired, late.remaining(), late.clamp(Requeue.after(30))) == (True, 0, Requeue.NOW)


@pytest.mark.parametrize("jump", [-86400, 86400])
def test_a_wall_clock_jump_does_not_move_a_deadline_that_exists(jump: float) -> None:
    """When the wall clock is set while the deadline runs, it should count on by the monotonic clock."""
    clock = Clock()
    deadline = Deadline.since(START, 10, now=START, clock=clock)
    clock.advance(4)
    assert deadline.remaining() == 6  # the wall clock is not asked again, so there is nothing to jump
    assert Deadline.since(START, 10, now=START + timedelta(seconds=jump), clock=clock).remaining() == (
        10 if jump < 0 else 0
    )


def test_a_clock_that_runs_backwards_leaves_no_more_than_there_was() -> None:
    """When a bad monotonic clock steps back, it should not give time away."""
    clock = Clock()
    deadline = Deadline.since(START, 10, now=START, clock=clock)
    clock.advance(-3600)
    assert deadline.remaining() == 10


def test_zero_is_a_choice() -> None:
    """When the timeout is zero, it should mean what the caller says it means."""
    assert not Deadline.since(START, 0, now=START).expired
    assert Deadline.since(START, 0, zero="expired", now=START).expired


def test_time_zones_do_not_matter() -> None:
    """When start and now are in zones of any kind, also across a DST change, it should compare moments."""
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 3, 29, 1, 59, tzinfo=berlin)
    after = datetime(2026, 3, 29, 3, 0, tzinfo=berlin)  # one minute later
    assert Deadline.since(before, 600, now=after, clock=Clock()).remaining() == 540
    other = START.astimezone(timezone(timedelta(hours=-7)))
    assert Deadline.since(other, 10, now=START, clock=Clock()).remaining() == 10


def test_the_earliest_of_several() -> None:
    """When there are several limits, the first to end should count, and none at all is no limit."""
    clock = Clock()
    ten, five, none = (Deadline.since(START, limit, now=START, clock=clock) for limit in (10, 5, None))
    assert Deadline.earliest(ten, none, five) == five
    assert Deadline.earliest(none, none).remaining() is None
    assert Deadline.earliest().clamp(Requeue.DONE) == Requeue.DONE


@pytest.mark.parametrize("timeout", [-1, math.nan, math.inf, True, "10s", timedelta(seconds=-1)])
def test_a_timeout_that_makes_no_sense_never_becomes_unlimited(timeout: Any) -> None:
    """When a timeout cannot be understood, it should be refused: silently unlimited is how drains run for ever."""
    with pytest.raises(ValueError, match="timeout"):
        Deadline.since(START, timeout)


def test_a_datetime_without_zone_is_refused() -> None:
    """When a moment has no time zone, it should be refused by name."""
    with pytest.raises(ValueError, match="started_at needs a time zone"):
        Deadline.since(datetime(2026, 1, 1), 10)  # noqa: DTZ001 - the mistake under test
    with pytest.raises(ValueError, match="now needs a time zone"):
        Deadline.since(START, 10, now=datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake under test
    with pytest.raises(ValueError, match="zero"):
        Deadline.since(START, 10, zero="never")  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize(
    "moment", [1796000000.0, 0, "2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC).date(), timedelta(1), True]
)
def test_what_is_no_datetime_is_refused(moment: object) -> None:
    """When a moment is a number or a text, the error should name it and say how a datetime is made of it."""
    with pytest.raises(TypeError, match=r"started_at is a datetime with a time zone, not .*datetime\.now\(UTC\)"):
        Deadline.since(moment, 60)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(TypeError, match=r"now is a datetime with a time zone, not .*datetime\.fromisoformat\(text\)"):
        Deadline.since(START, 60, now=moment)  # type: ignore[arg-type]  # the mistake under test


def test_the_real_clocks_are_the_default() -> None:
    """When no clock is given, it should use the present and the monotonic clock."""
    left = Deadline.since(datetime.now(UTC), 60).remaining()
    assert left is not None
    assert 59 < left <= 60
