from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from informer.degraded.reminders import Schedule, Turn

KEYS = st.sampled_from([f"k{n}" for n in range(8)])


class Discipline(RuleBasedStateMachine):
    """Whatever happens to the objects: the budget holds, no life is named twice per interval without a reason, and what the
    log said last of an object is true, or will be put right."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule(100.0, lines=5)
        self.now = 1000.0
        self.present: dict[str, bool] = {}
        self.said: list[tuple[float, str]] = []
        self.allowed: dict[str, float] = {}
        self.word: dict[str, str] = {}
        self.held: dict[str, float] = {}
        self.dying: set[str] = set()

    @rule(seconds=st.sampled_from([0.0, 1.0, 19.0, 20.0, 50.0, 100.0, 1000.0]))
    def wait(self, seconds):
        self.now += seconds

    @rule(key=KEYS, terminating=st.booleans())
    def becomes_bad(self, key, terminating):
        if key not in self.present:
            self.says_what_was_held_back()
            self.held.pop(key, None)
            self.present[key] = terminating or key in self.dying
            self.schedule.news(key, "u", self.now, terminating=self.present[key])

    @rule(key=KEYS)
    def begins_to_terminate(self, key):
        if self.present.get(key) is False:
            self.present[key] = True
            self.dying.add(key)
            self.allowed[key] = float("-inf")
            self.schedule.news(key, "u", self.now, terminating=True, again=True)

    @rule(key=KEYS, gone=st.booleans())
    def is_mended(self, key, gone):
        if self.present.pop(key, None) is None:
            return
        when = self.schedule.end(key, "u", self.now, gone=gone)
        assert (when is None) is (self.word.get(key) != "bad"), "an end is told of what was told, and of nothing else"
        if when == self.now:
            self.word[key] = "over"
            self.allowed[key] = float("-inf")
        elif when is not None:
            assert self.now < when <= self.now + 100.0
            self.held[key] = when

    @rule()
    def says_what_was_held_back(self):
        for key in [key for key, when in self.held.items() if when <= self.now]:
            del self.held[key]
            self.word[key] = "over"

    @rule()
    def speaks(self):
        while (key := self.schedule.next_news(self.now)) is not None:
            self.say(key)

    @precondition(lambda self: self.present)
    @rule()
    def reminds(self):
        if (key := self.schedule.next_any(self.now)) is not None:
            waiting = [
                k for k, dying in self.present.items() if dying and self.allowed.get(k, float("-inf")) <= self.now
            ]
            assert self.present[key] or not waiting, "terminating ones go first"
            self.say(key)

    def say(self, key):
        assert key in self.present
        assert self.now >= self.allowed.get(key, float("-inf"))
        self.schedule.named(key, "u", self.now, terminating=self.present[key])
        self.word[key] = "bad"
        self.allowed[key] = self.now + 100.0
        self.said.append((self.now, key))

    @invariant()
    def budget_holds(self):
        assert sum(time > self.now - 100.0 for time, _ in self.said) <= 5

    @invariant()
    def the_last_word_is_true(self):
        for key in self.present:
            assert self.word.get(key) == "bad" or self.schedule._due[key].turn in {Turn.TERMINATING_NEWS, Turn.NEWS}
        for key, word in self.word.items():
            assert word == "over" or key in self.present or key in self.held

    @invariant()
    def flapping_is_bounded(self):
        lately = [key for time, key in self.said if time > self.now - 100.0]
        assert all(lately.count(key) <= 4 for key in lately), "first or reminder, twice bad again, begins to terminate"

    @invariant()
    def nothing_piles_up(self):
        assert sum(map(len, self.schedule._heaps.values())) <= 4 * (64 + 2 * 8 + 1)


Discipline.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestDiscipline = Discipline.TestCase


def test_reminders_are_spaced_and_nobody_is_left_out():
    schedule = Schedule(100.0, lines=10)
    for n in range(30):
        schedule.news(f"k{n}", "u", 0.0, terminating=False)
    said = []
    now = 0.0
    while now < 1000.0:
        while (key := schedule.next_news(now)) is not None and len(said) < 10:
            schedule.named(key, "u", now, terminating=False)
            said.append(key)
        if (key := schedule.next_any(now)) is not None:
            schedule.named(key, "u", now, terminating=False)
            said.append(key)
        now += schedule.spacing
    assert set(said) == {f"k{n}" for n in range(30)}
    assert max(said.count(key) for key in said) - min(said.count(key) for key in said) <= 1


def test_summary_only_while_there_are_more_objects_than_lines():
    schedule = Schedule(100.0, lines=2)
    for key in ("a", "b"):
        schedule.news(key, "u", 0.0, terminating=False)
    assert not schedule.summary_due(0.0)
    schedule.news("c", "u", 0.0, terminating=False)
    assert [schedule.summary_due(now) for now in (0.0, 50.0, 100.0, 199.0, 200.0)] == [True, False, True, False, True]
    schedule.end("c", "u", 999.0, gone=True)
    assert not schedule.summary_due(1000.0)


def test_flapping_does_not_grow_the_heaps():
    schedule = Schedule(100.0)
    schedule.news("a", "u", 0.0, terminating=False)
    schedule.named("a", "u", 0.0, terminating=False)
    for n in range(10_000):
        schedule.end("a", "u", n / 200, gone=False)
        schedule.news("a", "u", n / 200, terminating=False)
    assert sum(map(len, schedule._heaps.values())) < 200
