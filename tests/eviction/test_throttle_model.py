"""EvictionThrottle against a model: any order of any calls, by one task and by eight threads."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable

import pytest
from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from eviction import Denied, EvictionThrottle, Permit, Refusal, RefusalKind

from .evicting import BLOCKED, Clock

KEYS = st.sampled_from(["a", "b", "c"])
INTERVAL, RESERVATION = 30.0, 120.0


@define
class Slot:
    """What the model knows of one key: whose attempt counts, and until when it denies."""

    permit: object
    until: float
    in_flight: bool
    refused: bool = False
    touched: int = 0


class ThrottleMachine(RuleBasedStateMachine):
    """The rules of the design, written down a second time as plainly as possible."""

    permits = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.throttle = EvictionThrottle(INTERVAL, clock=self.clock)
        self.slots: dict[str, Slot] = {}
        self.moments = 0
        self.marks: list[tuple[int, int]] = []

    def _touch(self) -> int:
        self.moments += 1
        return self.moments

    def _denies(self, key: str) -> bool:
        slot = self.slots.get(key)
        return slot is not None and self.clock.now < slot.until

    @rule(target=permits, key=KEYS)
    def acquire(self, key: str) -> tuple[str, Permit | Denied]:
        answer = self.throttle.acquire(key)
        assert bool(answer) is not self._denies(key)
        if answer:
            self.slots[key] = Slot(answer, self.clock.now + RESERVATION, in_flight=True, touched=self._touch())
        else:
            assert 0 < answer.retry_in <= INTERVAL
        return key, answer

    def _current(self, asked: tuple[str, Permit | Denied]) -> Slot | None:
        key, answer = asked
        slot = self.slots.get(key)
        return slot if slot is not None and slot.permit is answer else None

    @rule(asked=permits)
    def refuse(self, asked: tuple[str, Permit | Denied]) -> None:
        if isinstance(asked[1], Permit):
            slot = self._current(asked)
            asked[1].refused(BLOCKED)
            if slot is not None and not slot.refused:
                slot.refused, slot.in_flight, slot.until = True, False, self.clock.now + INTERVAL
                slot.touched = self._touch()
            elif slot is not None:
                slot.until = max(slot.until, self.clock.now + INTERVAL)

    @rule(asked=permits)
    def succeed(self, asked: tuple[str, Permit | Denied]) -> None:
        if isinstance(asked[1], Permit):
            slot = self._current(asked)
            asked[1].succeeded()
            if slot is not None and slot.in_flight:
                slot.in_flight, slot.until, slot.touched = False, self.clock.now, self._touch()

    @rule(asked=consumes(permits))
    def leave(self, asked: tuple[str, Permit | Denied]) -> None:
        if isinstance(asked[1], Permit):
            slot = self._current(asked)
            with asked[1]:
                pass
            if slot is not None and slot.in_flight:
                slot.refused, slot.in_flight, slot.until = True, False, self.clock.now + INTERVAL
                slot.touched = self._touch()

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.throttle.forget(key)
        slot = self.slots.get(key)
        if slot is not None and not (slot.in_flight and self._denies(key)):
            del self.slots[key]

    @rule()
    def mark(self) -> None:
        self.marks.append((self.throttle.mark(), self.moments))

    @precondition(lambda self: self.marks)
    @rule(live=st.frozensets(KEYS), data=st.data())
    def prune(self, live: frozenset[str], data: st.DataObject) -> None:
        mark, moment = data.draw(st.sampled_from(self.marks))
        self.throttle.prune(live, mark=mark)
        for key, slot in list(self.slots.items()):
            if key not in live and slot.touched <= moment and not (slot.in_flight and self._denies(key)):
                del self.slots[key]

    @rule(seconds=st.sampled_from([0.0, 1.0, 15.0, 30.0, 120.0]))
    def advance(self, seconds: float) -> None:
        # Further than anything is remembered would make the model forget what the throttle may have dropped.
        self.clock.advance(seconds)
        for key in [key for key, slot in self.slots.items() if self.clock.now > slot.until + INTERVAL]:
            self.throttle.forget(key)
            del self.slots[key]

    @invariant()
    def everybody_agrees_who_waits(self) -> None:
        for key in "abc":
            assert (self.throttle.peek(key) is not None) is self._denies(key)
        assert [entry.key for entry in self.throttle.snapshot()] == [key for key in "abc" if self._denies(key)]


TestThrottleMachine = ThrottleMachine.TestCase
TestThrottleMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)


# ---------------------------------------------------------------- threads

SECONDS = float(os.environ.get("EVICTION_HAMMER_SECONDS", "1"))
SHORT = 0.02


@define
class Hammer:
    """Eight threads on one throttle, and what they must never see."""

    throttle: EvictionThrottle = field(factory=lambda: EvictionThrottle(SHORT))
    holders: dict[str, str | None] = field(factory=dict)
    armed_at: dict[str, float] = field(factory=dict)
    permits: int = 0
    faults: list[str] = field(factory=list)
    stop: threading.Event = field(factory=threading.Event)

    def attempt(self, rng: random.Random, key: str, *, steady: bool) -> None:
        """One attempt. A steady key is never pruned, forgotten, released or cleared, so its interval can be measured."""
        me = threading.current_thread().name
        asked = time.monotonic()
        answer = self.throttle.acquire(key)
        if not answer:
            if not 0 < answer.retry_in <= SHORT:
                self.faults.append(f"{key}: denied for {answer.retry_in}")
            return
        self.permits += 1
        if self.holders.get(key) is not None:
            self.faults.append(f"{key}: {me} got it while {self.holders[key]} held it")
        self.holders[key] = me
        # `asked` is from before the permit, so it can only be too early: no false alarm from a slow thread.
        if steady and time.monotonic() - self.armed_at.get(key, asked - 1) < SHORT:
            self.faults.append(f"{key}: taken {asked - self.armed_at[key]} s after a refusal")
        if rng.random() < 0.3:
            time.sleep(0)
        self.holders[key] = None
        self.armed_at[key] = time.monotonic()
        with answer as permit:
            if steady or rng.random() < 0.5:
                permit.refused(BLOCKED)
            else:
                permit.succeeded()

    def work(self, seed: int) -> None:
        rng = random.Random(seed)
        keys = [f"k{number}" for number in range(6)]
        others: list[Callable[[], object]] = [
            lambda: self.throttle.prune({"steady", *rng.sample(keys, 3)}, mark=self.throttle.mark()),
            lambda: self.throttle.release(rng.choice(keys), min_gap=0),
            lambda: self.throttle.forget(rng.choice(keys)),
            lambda: self.throttle.peek(rng.choice(keys)),
            self.throttle.snapshot,
        ]
        try:
            while not self.stop.is_set():
                self.attempt(rng, rng.choice(keys), steady=False)
                self.attempt(rng, "steady", steady=True)
                rng.choice(others)()
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}")


def test_eight_threads_keep_every_invariant() -> None:
    """When eight threads acquire, answer, prune, forget and release at once, no key should ever have two holders, and no
    refused key should be tried again before its interval has passed. EVICTION_HAMMER_SECONDS makes it longer."""
    hammer = Hammer()
    threads = [threading.Thread(target=hammer.work, args=(seed,), name=f"t{seed}") for seed in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    hammer.stop.set()
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()
    assert hammer.faults == []
    assert hammer.permits > 100
    assert len(hammer.throttle._entries) <= 7
    alive = [entry for entry in hammer.throttle._queue if entry.state != "void"]
    assert len(alive) == len(hammer.throttle._entries)
    assert len(hammer.throttle._queue) < 100
    assert all(hammer.throttle._entries[entry.key] is entry for entry in alive)


def test_a_broken_throttle_would_be_found() -> None:
    """When a throttle forgets its check, the hammer should notice: it is no test that cannot fail."""

    class Leaky(EvictionThrottle):
        def acquire(self, key: object, /) -> Permit | Denied:
            self.forget(key)
            return super().acquire(key)

    hammer = Hammer(throttle=Leaky(SHORT))
    rng = random.Random(0)
    for _ in range(3):
        hammer.attempt(rng, "steady", steady=True)
    assert hammer.faults
    assert Refusal(RefusalKind.BUDGET, "").blocks


@pytest.mark.parametrize("kind", list(RefusalKind))
def test_every_kind_is_paced(kind: RefusalKind) -> None:
    """When a new kind of refusal is added, it should not be forgotten by the pacing."""
    clock = Clock()
    throttle = EvictionThrottle(30, clock=clock)
    with throttle.acquire("n1") as permit:  # type: ignore[union-attr]  # a fresh throttle allows
        permit.refused(Refusal(kind, ""))
    denied = throttle.peek("n1")
    assert (denied is None) is (kind in (RefusalKind.GONE, RefusalKind.REPLACED))
