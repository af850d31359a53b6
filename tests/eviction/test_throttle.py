"""EvictionThrottle: gate the attempt, not the pass."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from eviction import Denied, EvictionThrottle, Permit, Refusal, RefusalKind

from .evicting import BLOCKED, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> EvictionThrottle:
    return EvictionThrottle(30, clock=clock)


def take(throttle: EvictionThrottle, key: Any) -> Permit:
    permit = throttle.acquire(key)
    assert permit, permit
    return permit


def block(throttle: EvictionThrottle, key: Any, refusal: Refusal = BLOCKED) -> None:
    with take(throttle, key) as permit:
        permit.refused(refusal)


def denied(throttle: EvictionThrottle, key: Any) -> Denied:
    answer = throttle.acquire(key)
    assert isinstance(answer, Denied)
    return answer


def refusal(kind: RefusalKind, retry_after: float | None = None) -> Refusal:
    return Refusal(kind, "text", retry_after=retry_after)


# ---------------------------------------------------------------- one key


def test_a_refused_key_is_denied_for_one_interval(throttle: EvictionThrottle, clock: Clock) -> None:
    """When an attempt was refused, it should deny the key until the interval has passed, and say when that is."""
    block(throttle, "n1")
    clock.advance(29.9)
    answer = denied(throttle, "n1")
    assert (answer.key, answer.reason, answer.refusal) == ("n1", "interval", BLOCKED)
    assert answer.retry_in == pytest.approx(0.1)
    clock.advance(0.1)
    take(throttle, "n1")


def test_elapsed_equal_to_the_interval_is_allowed(throttle: EvictionThrottle, clock: Clock) -> None:
    """When exactly one interval has passed, it should allow: a timer of 30 s must not miss by one tick."""
    block(throttle, "n1")
    clock.advance(30)
    assert throttle.peek("n1") is None
    assert throttle.acquire("n1")


@pytest.mark.parametrize("start", [0.1, 1000.3, 86399.7])
def test_many_small_steps_do_not_miss_the_interval_by_rounding(start: float) -> None:
    """When the clock got there in steps of 0.1 s, it should not be denied over the last bit of a float."""
    clock = Clock(start)
    throttle = EvictionThrottle(30, clock=clock)
    block(throttle, "n1")
    for _ in range(300):
        clock.advance(0.1)
    assert throttle.acquire("n1")


def test_success_clears_the_key(throttle: EvictionThrottle, clock: Clock) -> None:
    """When an attempt succeeds after refusals, it should forget them: time, text and count."""
    block(throttle, "n1")
    clock.advance(30)
    with take(throttle, "n1") as permit:
        permit.succeeded()
    assert throttle.peek("n1") is None
    assert throttle.snapshot() == []
    take(throttle, "n1")
    assert denied(throttle, "n1").refusal is None


def test_other_keys_are_not_slowed(throttle: EvictionThrottle) -> None:
    """When one node is blocked, it should not delay another."""
    block(throttle, "n1")
    for _ in range(3):
        with take(throttle, "n2") as permit:
            permit.succeeded()


@pytest.mark.parametrize("first", ["refused", "succeeded"])
def test_a_refusal_is_sticky_within_its_permit(throttle: EvictionThrottle, first: str) -> None:
    """When one pod of a batch is refused and another is not, it should arm the key in either order."""
    with take(throttle, "n1") as permit:
        answers: list[Callable[[], None]] = [lambda: permit.refused(BLOCKED), permit.succeeded]
        for answer in answers if first == "refused" else reversed(answers):
            answer()
    assert denied(throttle, "n1").refusal == BLOCKED


@pytest.mark.parametrize("error", [None, RuntimeError, asyncio.CancelledError, KeyboardInterrupt])
def test_an_unknown_outcome_stays_armed(throttle: EvictionThrottle, error: type[BaseException] | None) -> None:
    """When a permit is left unanswered, by an exception or by cancellation, it should stay armed for an interval."""

    def leave() -> None:
        with take(throttle, "n1"):
            if error is not None:
                raise error

    if error is None:
        leave()
    else:
        with pytest.raises(error):
            leave()
    assert denied(throttle, "n1").retry_in == 30


def test_an_exception_after_success_arms_the_key(throttle: EvictionThrottle) -> None:
    """When the batch fails after it had called itself a success, it should believe the exception."""

    def attempt() -> None:
        with take(throttle, "n1") as permit:
            permit.succeeded()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()
    assert denied(throttle, "n1").reason == "interval"


def test_the_refusal_is_remembered_on_gated_passes_and_during_the_next_attempt(
    throttle: EvictionThrottle, clock: Clock
) -> None:
    """When a condition is built between attempts or while one is in flight, it should still know the last refusal."""
    block(throttle, "n1")
    seen = []
    for _ in range(20):
        clock.advance(2)
        answer = throttle.acquire("n1")
        if answer:
            peeked = throttle.peek("n1")
            assert peeked is not None
            assert peeked.reason == "in flight"
            seen.append(peeked.refusal)
            answer.refused(BLOCKED)
        else:
            seen.append(answer.refusal)
    assert seen == [BLOCKED] * 20


def test_how_long_a_key_has_been_blocked_counts_from_the_first_refusal(
    throttle: EvictionThrottle, clock: Clock
) -> None:
    """When attempts are refused in a row, it should tell the time since the first of them."""
    for _ in range(3):
        block(throttle, "n1")
        clock.advance(30)
    block(throttle, "n1")
    assert denied(throttle, "n1").blocked_for == 90


def test_denied_is_false_and_not_none(throttle: EvictionThrottle) -> None:
    """When peek finds a block, it should return something that is false and yet not None."""
    block(throttle, "n1")
    found = throttle.peek("n1")
    assert found is not None
    assert not found
    assert bool(take(throttle, "n2")) is True


def test_a_recreated_node_is_tried_at_once(throttle: EvictionThrottle) -> None:
    """When a node comes back under its name with another uid, it should not inherit the block of its predecessor."""
    block(throttle, ("n1", "uid-a"))
    assert throttle.acquire(("n1", "uid-b"))
    assert not throttle.acquire(("n1", "uid-a"))


def test_a_new_process_tries_at_once(throttle: EvictionThrottle, clock: Clock) -> None:
    """When the state is lost in a restart, it should cost exactly one immediate attempt."""
    block(throttle, "n1")
    restarted = EvictionThrottle(30, clock=clock)
    block(restarted, "n1")
    assert not restarted.acquire("n1")


# ---------------------------------------------------------------- several at once, and late answers


async def test_fifty_tasks_get_one_permit(throttle: EvictionThrottle) -> None:
    """When fifty tasks ask for one node in the same instant, it should let exactly one through."""

    async def one() -> bool:
        await asyncio.sleep(0)
        answer = throttle.acquire("n1")
        if not answer:
            assert answer.reason == "in flight"
            assert answer.retry_in <= 30
            return False
        with answer as permit:
            await asyncio.sleep(1)
            permit.refused(BLOCKED)
        return True

    answers = await asyncio.gather(*(one() for _ in range(50)))
    assert sum(answers) == 1


def test_a_reservation_expires(throttle: EvictionThrottle, clock: Clock) -> None:
    """When nobody ever answers for a permit, it should hold its key for 120 s and no longer."""
    take(throttle, "n1")
    clock.advance(119)
    assert denied(throttle, "n1").reason == "in flight"
    clock.advance(1)
    take(throttle, "n1")


def test_an_expired_reservation_still_was_an_attempt(clock: Clock) -> None:
    """When the interval is longer than a reservation lives, it should count from the attempt nobody answered for."""
    throttle = EvictionThrottle(300, clock=clock)
    take(throttle, "n1")
    clock.advance(200)
    answer = denied(throttle, "n1")
    assert (answer.reason, answer.retry_in) == ("interval", 100)


@pytest.mark.parametrize("second", ["succeeded", "refused", "in flight"])
def test_a_late_refusal_changes_nothing(throttle: EvictionThrottle, clock: Clock, second: str) -> None:
    """When an old permit is answered after another was given out, it should not touch the key."""
    late = take(throttle, "n1")
    clock.advance(120)
    permit = take(throttle, "n1")
    if second == "succeeded":
        permit.succeeded()
    elif second == "refused":
        permit.refused(BLOCKED)
    before = throttle.peek("n1")
    clock.advance(1)
    late.refused(refusal(RefusalKind.BUDGET, 250))
    late.succeeded()
    late.__exit__(None, None, None)
    after = throttle.peek("n1")
    assert (before is None) is (after is None)
    if before is not None and after is not None:
        assert (after.reason, after.refusal) == (before.reason, before.refusal)
        assert after.retry_in <= before.retry_in


def test_a_late_answer_of_a_forgotten_key_does_not_bring_it_back(throttle: EvictionThrottle, clock: Clock) -> None:
    """When a key was forgotten after its reservation expired, it should let the late answer go nowhere."""
    late = take(throttle, "n1")
    clock.advance(120)
    throttle.forget("n1")
    late.refused(BLOCKED)
    assert throttle.peek("n1") is None
    assert throttle.snapshot() == []


def test_a_permit_may_take_its_success_back_but_not_after_another_permit(throttle: EvictionThrottle) -> None:
    """When a permit reports a refusal after its success, it should count only if nobody took the key meanwhile."""
    first = take(throttle, "n1")
    first.succeeded()
    second = take(throttle, "n1")
    second.succeeded()
    first.refused(BLOCKED)
    assert throttle.peek("n1") is None
    second.refused(BLOCKED)
    assert throttle.peek("n1") is not None


# ---------------------------------------------------------------- pruning


def test_prune_forgets_who_left(throttle: EvictionThrottle) -> None:
    """When a node left the cluster, it should be forgotten, and tried at once when it is back."""
    block(throttle, "n1")
    block(throttle, "n2")
    throttle.prune({"n1"}, mark=throttle.mark())
    assert [entry.key for entry in throttle.snapshot()] == ["n1"]
    assert throttle.acquire("n2")


PRUNE_STEPS = ("mark", "list", "acquire", "refuse", "prune")


@pytest.mark.parametrize("order", [o for o in itertools.permutations(PRUNE_STEPS) if o.index("mark") < o.index("list") < o.index("prune") and o.index("acquire") < o.index("refuse")], ids="-".join)  # fmt: skip
@pytest.mark.parametrize("known", [True, False], ids=["known before", "new"])
def test_prune_and_record_in_every_interleaving(clock: Clock, order: tuple[str, ...], known: bool) -> None:
    """When a node appears while the list is being made, it should never lose its entry; one that left never returns."""
    throttle = EvictionThrottle(30, clock=clock)
    block(throttle, "left")
    if known:
        block(throttle, "n1")
        clock.advance(30)
    exists = known
    mark = 0
    live: set[str] = set()
    permit: Permit | None = None
    for step in order:
        match step:
            case "mark":
                mark = throttle.mark()
            case "list":
                live = {"n1"} if exists else set()
            case "acquire":
                exists = True
                permit = take(throttle, "n1")
            case "refuse":
                assert permit is not None
                permit.refused(BLOCKED)
            case "prune":
                throttle.prune(live, mark=mark)
    assert throttle.peek("n1") is not None, "a fresh entry was lost"
    assert "left" not in [entry.key for entry in throttle.snapshot()]


def test_prune_and_forget_spare_what_is_in_flight(throttle: EvictionThrottle) -> None:
    """When an attempt is under way, it should keep its reservation whatever the list says."""
    permit = take(throttle, "n1")
    throttle.prune([], mark=throttle.mark())
    throttle.forget("n1")
    assert denied(throttle, "n1").reason == "in flight"
    permit.refused(BLOCKED)
    assert denied(throttle, "n1").reason == "interval"
    throttle.forget("n1")
    assert throttle.acquire("n1")


@pytest.mark.parametrize("live", [None, "n1", 5, iter(["n1"])])
def test_prune_refuses_what_is_no_collection(throttle: EvictionThrottle, live: Any) -> None:
    """When the listing failed and there is no list, it should say so instead of forgetting everybody."""
    block(throttle, "n1")
    with pytest.raises(TypeError, match="collection of keys"):
        throttle.prune(live, mark=throttle.mark())
    assert throttle.peek("n1") is not None


# ---------------------------------------------------------------- memory


def test_a_million_keys_without_prune_stay_bounded(clock: Clock) -> None:
    """When a million different nodes pass by and nobody prunes, it should only hold those of the last minutes."""
    throttle = EvictionThrottle(30, clock=clock)
    for number in range(1_000_000):
        throttle.acquire(number)
        clock.now += 0.01
    # 100 keys a second; one lives for 120 s as a reservation and 30 s as a memory, doubled by the pace of the sweep
    assert len(throttle._entries) < 40_000
    assert len(throttle._queue) < 40_000
    block(throttle, "still works")
    assert not throttle.acquire("still works")


def test_cleared_keys_drop_out_too(clock: Clock) -> None:
    """When every attempt succeeds, it should not keep the keys."""
    throttle = EvictionThrottle(30, clock=clock)
    for number in range(10_000):
        with take(throttle, number) as permit:
            permit.succeeded()
        clock.advance(1)
    assert len(throttle._entries) < 100
    assert len(throttle._queue) < 100


def test_one_key_asked_for_ever_does_not_grow(throttle: EvictionThrottle, clock: Clock) -> None:
    """When one node is tried again and again, it should stay one entry."""
    for _ in range(5_000):
        block(throttle, "n1")
        clock.advance(30)
    assert len(throttle._entries) == 1
    assert len(throttle._queue) <= 2


@pytest.mark.parametrize("number", [10_000, 45_000], ids=["ordinary", "right after the dict grew"])
def test_a_key_takes_at_most_250_bytes(number: int) -> None:
    """When many nodes are blocked, it should take no more than 250 bytes for each, wherever the dict's growth stands."""
    throttle = EvictionThrottle(30)
    keys = [f"node-{index}" for index in range(number)]
    gc.collect()
    tracemalloc.start()
    try:
        for key in keys:
            block(throttle, key)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / number <= 250


class Counting:
    """A key that counts how often it is hashed and compared: the work of a lookup, without a stopwatch."""

    work = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        type(self).work += 1
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        type(self).work += 1
        return isinstance(other, Counting) and self.number == other.number


def test_acquire_costs_the_same_for_ten_keys_and_for_a_hundred_thousand() -> None:
    """When the table is large, it should look at no more keys than when it is small."""
    work = {}
    for size in (10, 100_000):
        throttle = EvictionThrottle(30, clock=Clock())
        for number in range(size):
            throttle.acquire(Counting(number))
        Counting.work = 0
        for number in range(size, size + 1000):
            throttle.acquire(Counting(number))
        work[size] = Counting.work
    assert work[100_000] <= work[10] * 1.2
    assert work[10] <= 6_000


# ---------------------------------------------------------------- time


@pytest.mark.parametrize("jump", [-86400.0, 86400.0, -3600.0, 3600.0])
def test_wall_clock_jumps_change_nothing(monkeypatch: pytest.MonkeyPatch, clock: Clock, jump: float) -> None:
    """When the wall clock is set by a day, it should deny exactly as long as before."""
    throttle = EvictionThrottle(30, clock=clock)
    block(throttle, "n1")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    clock.advance(29)
    assert denied(throttle, "n1").retry_in == 1
    clock.advance(1)
    assert throttle.acquire("n1")


@pytest.mark.parametrize("back", [1.0, 3600.0, 1e9])
def test_a_clock_that_runs_backwards_denies_no_longer_than_one_interval(
    throttle: EvictionThrottle, clock: Clock, back: float
) -> None:
    """When a bad monotonic clock steps back, it should wait at most one interval from there."""
    block(throttle, "n1")
    clock.advance(-back)
    assert denied(throttle, "n1").retry_in <= 30
    clock.advance(30)
    assert throttle.acquire("n1")


# ---------------------------------------------------------------- pacing


@pytest.mark.parametrize(
    ("refused", "wait", "reason"),
    [
        (refusal(RefusalKind.BUDGET), 30, "interval"),
        (refusal(RefusalKind.BUDGET, 120), 120, "retry-after"),
        (refusal(RefusalKind.BUDGET, 5), 30, "interval"),
        (refusal(RefusalKind.BUDGET, 10_000), 300, "retry-after"),
        (refusal(RefusalKind.BUDGET, math.inf), 300, "retry-after"),
        (refusal(RefusalKind.BUDGET, math.nan), 30, "interval"),
        (refusal(RefusalKind.BUDGET, -5), 30, "interval"),
        (refusal(RefusalKind.BUDGET_SYNC_FAILED), 30, "interval"),
        (refusal(RefusalKind.BUDGET_NOT_OBSERVED), 10, "interval"),
        (refusal(RefusalKind.BUDGET_NOT_OBSERVED, 4), 4, "retry-after"),
        (refusal(RefusalKind.WEBHOOK_WAIT), 30, "interval"),
        (refusal(RefusalKind.CONFLICT), 30, "interval"),
        (refusal(RefusalKind.NAMESPACE_TERMINATING), 10, "interval"),
        (refusal(RefusalKind.TRANSIENT), 1, "interval"),
        (refusal(RefusalKind.TRANSIENT, 10), 10, "retry-after"),
        (refusal(RefusalKind.SEVERAL_BUDGETS), 300, "interval"),
        (refusal(RefusalKind.FORBIDDEN), 300, "interval"),
        (refusal(RefusalKind.INVALID), 300, "interval"),
    ],
    ids=lambda value: f"{value.kind}, retry after {value.retry_after}" if isinstance(value, Refusal) else str(value),
)
def test_each_kind_has_its_pace(throttle: EvictionThrottle, refused: Refusal, wait: float, reason: str) -> None:
    """When an attempt is refused, it should wait as long as the kind asks for, and never less than the server does."""
    block(throttle, "n1", refused)
    answer = denied(throttle, "n1")
    assert (answer.retry_in, answer.reason) == (wait, reason)
    assert throttle.acquire("n2"), "it arms its own key alone"


@pytest.mark.parametrize("kind", [RefusalKind.GONE, RefusalKind.REPLACED])
def test_a_pod_that_is_gone_does_not_arm(throttle: EvictionThrottle, kind: RefusalKind) -> None:
    """When the pod turned out to be gone or replaced, it should be a success."""
    block(throttle, "n1", refusal(kind))
    assert throttle.acquire("n1")


def test_transient_trouble_waits_longer_each_time_up_to_the_interval(throttle: EvictionThrottle, clock: Clock) -> None:
    """When the server keeps failing, it should double the wait, and stop at the interval."""
    waits = []
    for _ in range(7):
        block(throttle, "n1", refusal(RefusalKind.TRANSIENT))
        waits.append(denied(throttle, "n1").retry_in)
        clock.advance(waits[-1])
    assert waits == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize("order", [1, -1])
def test_what_only_a_person_can_end_does_not_slow_its_siblings(throttle: EvictionThrottle, order: int) -> None:
    """When one pod of a node is misconfigured and another waits for its budget, it should come back for the other."""
    with take(throttle, "n1") as permit:
        for kind in [RefusalKind.SEVERAL_BUDGETS, RefusalKind.BUDGET][::order]:
            permit.refused(refusal(kind))
    answer = denied(throttle, "n1")
    assert answer.retry_in == 30
    assert answer.refusal is not None
    assert answer.refusal.kind is RefusalKind.BUDGET


def test_the_longest_wait_of_a_batch_counts(throttle: EvictionThrottle) -> None:
    """When the pods of a batch are refused differently, it should respect the one that asks for most."""
    with take(throttle, "n1") as permit:
        permit.refused(refusal(RefusalKind.BUDGET, 120))
        permit.refused(refusal(RefusalKind.BUDGET_NOT_OBSERVED, 4))
    assert denied(throttle, "n1").retry_in == 120


def test_growth_and_jitter(clock: Clock) -> None:
    """When asked to grow, it should multiply the interval per refusal, stop at the maximum, and only add jitter."""
    throttle = EvictionThrottle(10, factor=3, max_interval=50, jitter=0.5, clock=clock, rng=lambda: 1.0)
    waits = []
    for _ in range(4):
        block(throttle, "n1")
        waits.append(denied(throttle, "n1").retry_in)
        clock.advance(waits[-1] + 5)  # the next pass is a little late, and must not take it for a first refusal
    assert waits == pytest.approx([15, 45, 75, 75])


# ---------------------------------------------------------------- overload


def test_an_overload_gates_every_key(throttle: EvictionThrottle, clock: Clock) -> None:
    """When the server is overloaded, it should let nobody through until the time it named."""
    block(throttle, "n1", refusal(RefusalKind.OVERLOADED, 5))
    answer = denied(throttle, "n2")
    assert (answer.reason, answer.retry_in) == ("overload", 5)
    clock.advance(5)
    assert throttle.acquire("n1")
    assert throttle.acquire("n2")


def test_an_overload_without_a_time_waits_one_second_doubling_to_thirty(
    throttle: EvictionThrottle, clock: Clock
) -> None:
    """When the server names no time, it should back off by itself, and begin anew once it was served."""
    waits = []
    for number in range(7):
        block(throttle, f"n{number}", refusal(RefusalKind.OVERLOADED))
        waits.append(denied(throttle, "other").retry_in)
        clock.advance(waits[-1])
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    clock.advance(1)
    with take(throttle, "fine") as permit:
        permit.succeeded()
    clock.advance(1)
    block(throttle, "n1", refusal(RefusalKind.OVERLOADED))
    assert denied(throttle, "other").retry_in == 1


def test_twenty_answers_of_one_burst_are_one_overload(throttle: EvictionThrottle, clock: Clock) -> None:
    """When all calls in flight meet the same overload, it should not take each for an escalation."""
    permits = [take(throttle, number) for number in range(20)]
    for permit in permits:
        permit.refused(refusal(RefusalKind.OVERLOADED))
    assert denied(throttle, "other").retry_in == 1


def test_an_overload_does_not_hide_the_remembered_refusal(throttle: EvictionThrottle, clock: Clock) -> None:
    """When a blocked key is gated by an overload, it should still tell its own refusal, or the condition flaps."""
    block(throttle, "n1")
    clock.advance(29)
    block(throttle, "n2", refusal(RefusalKind.OVERLOADED, 20))
    answer = denied(throttle, "n1")
    assert (answer.reason, answer.retry_in, answer.refusal) == ("overload", 20, BLOCKED)


# ---------------------------------------------------------------- release


def test_release_allows_the_next_attempt_after_the_gap(throttle: EvictionThrottle, clock: Clock) -> None:
    """When the reason to wait is gone, it should shorten the wait, though not below the gap since the refusal."""
    block(throttle, "n1")
    throttle.release("n1")
    assert denied(throttle, "n1").retry_in == 1
    clock.advance(1)
    assert throttle.acquire("n1")


def test_release_never_lengthens(throttle: EvictionThrottle, clock: Clock) -> None:
    """When the gap is longer than what is left, it should leave the wait as it is."""
    block(throttle, "n1")
    clock.advance(29)
    throttle.release("n1", min_gap=60)
    assert denied(throttle, "n1").retry_in == 1


@pytest.mark.parametrize("refused", [refusal(RefusalKind.BUDGET, 60), refusal(RefusalKind.OVERLOADED, 60)])
def test_release_does_not_overrule_the_server(throttle: EvictionThrottle, clock: Clock, refused: Refusal) -> None:
    """When the server itself asked for the wait, it should not be cut short by a budget's news."""
    block(throttle, "n1", refused)
    clock.advance(10)
    throttle.release("n1")
    assert denied(throttle, "n1").retry_in == 50


def test_release_of_an_attempt_in_flight_or_an_unknown_key_does_nothing(throttle: EvictionThrottle) -> None:
    """When there is nothing to shorten, it should do nothing."""
    throttle.release("nobody")
    take(throttle, "n1")
    throttle.release("n1", min_gap=0)
    assert denied(throttle, "n1").reason == "in flight"


# ---------------------------------------------------------------- off, and bad input


def test_interval_zero_is_off(clock: Clock) -> None:
    """When it is turned off explicitly, it should allow everything and store nothing."""
    throttle = EvictionThrottle(0, clock=clock)
    for _ in range(3):
        block(throttle, "n1")
        block(throttle, "n2", refusal(RefusalKind.OVERLOADED, 60))
    assert throttle.peek("n1") is None
    assert throttle.snapshot() == []


@pytest.mark.parametrize("value", [-1, -0.001, math.nan, math.inf, -math.inf, True, False, "30", None, 10**400])
@pytest.mark.parametrize("name", ["interval", "factor", "max_interval", "jitter"])
def test_bad_figures_are_refused_by_name(name: str, value: Any) -> None:
    """When a parameter makes no sense, it should be refused at construction, by name."""
    with pytest.raises(ValueError, match=name):
        EvictionThrottle(**{name: value})


def test_the_default_is_safe() -> None:
    """When nothing is configured, it should throttle: a zero default has made whole fleets hot-loop."""
    throttle = EvictionThrottle()
    block(throttle, "n1")
    assert 29 < denied(throttle, "n1").retry_in <= 30


def test_wrong_arguments_are_named(throttle: EvictionThrottle) -> None:
    """When something else than a refusal or a key is given, it should say what it wants, and go on working."""
    with pytest.raises(TypeError, match="classify_refusal"):
        take(throttle, "n1").refused(ValueError("429"))  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(TypeError, match="unhashable"):
        throttle.acquire(["n1"])  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(ValueError, match="min_gap"):
        throttle.release("n1", min_gap=-1)
    with pytest.raises(ValueError, match="factor"):
        EvictionThrottle(factor=1e6)
    assert throttle.acquire("n2")


def test_the_snapshot_is_sorted(throttle: EvictionThrottle) -> None:
    """When keys of any kind are blocked, it should list them in an order that does not depend on hashes."""
    for key in ["n3", ("n1", "uid"), "n2", 7]:
        block(throttle, key)
    assert [str(entry.key) for entry in throttle.snapshot()] == sorted(["n3", "('n1', 'uid')", "n2", "7"])
