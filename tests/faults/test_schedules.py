"""Random schedules of every fault the fake server knows: when they are over, everything must be as if they had not been.

A failing schedule is shrunk and printed as a function that plays it again. `INFORMER_FAULT_EXAMPLES` asks for more examples
than the ordinary tests can afford, and for other ones each time (`nox -s faults`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from informer.testing.virtual import run

from .play import FAULTS, POISON, Mode, Play, Step, opened, playing, script

EXAMPLES = int(os.environ.get("INFORMER_FAULT_EXAMPLES", "0"))

NAMES = st.sampled_from("aaabbbcdef")  # few and uneven, so that one object has a life of many changes
FLAVOURS = st.sampled_from(["good", "good", "good", "good", "bad", "bad", "broken", "nameless", "lost"])
KINDS = st.sampled_from(["plain", "slow", "raising", "hanging", "thread"])


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(*arguments).map(lambda values: Step(name, values))


HIT = step("hit", st.sampled_from(["list", "watch"]), st.sampled_from(sorted(FAULTS)), st.sampled_from([1, 2, 5, 30]))
WRITES = [
    step("put", NAMES, FLAVOURS),
    step("put", NAMES, FLAVOURS),
    step("replace", NAMES, FLAVOURS),
    step("recreate", NAMES, FLAVOURS),
    step("remove", NAMES),
    step("put", NAMES, FLAVOURS, st.just(True)),
    step("replace", NAMES, FLAVOURS, st.just(True)),
    step("remove", NAMES, st.just(True)),
    step("convert"),
]
TROUBLE = [
    step("stop"),
    step("start"),
    step("compact"),
    step("expire_watches"),
    step("end_watches", st.sampled_from(["CLOSE", "DROP", "RESET", "STALL"])),
    step("poison", st.sampled_from(sorted(POISON))),
    st.sampled_from([("list",), ("watch",), ("list", "watch")]).map(lambda verbs: Step("forbid", verbs)),
    step("allow"),
    step("lock_out"),
    step("let_in"),
    step("remove_resource"),
    step("add_resource"),
    step("restore", st.integers(0, 12)),
    step("streaming_lists", st.sampled_from(["marked", "unmarked", "refused"])),
    step("expiry", st.sampled_from(["http", "stream", "silent", "400"])),
    step("bookmarks", st.sampled_from([None, 5.0, 60.0])),
]
HANDLERS = [
    step("join", KINDS),
    step("leave", st.integers(0, 3)),
    step("hang"),
    step("release"),
    step("relist"),
]
WAIT = step("wait", st.sampled_from([0.0, 0.5, 0.5, 3.0, 20.0, 70.0, 700.0]))
GROUPS = [HIT, HIT, HIT, st.one_of(WRITES), st.one_of(WRITES), st.one_of(WRITES), st.one_of(TROUBLE), st.one_of(TROUBLE), st.one_of(HANDLERS), WAIT, WAIT, WAIT]  # fmt: skip
STEPS = st.sampled_from(GROUPS).flatmap(lambda group: group)  # a `one_of` of them would weigh all steps alike
# Half of them with an informer in step: without a pause, all that is written is in its first list.
SCHEDULES = st.builds(
    lambda ready, steps: [Step("wait", (0.5,)), *steps] if ready else steps,
    st.booleans(),
    st.lists(STEPS, min_size=3, max_size=25),
)
MODES = st.builds(
    Mode,
    initial_list=st.sampled_from(["list", "stream", "auto"]),
    degraded=st.booleans(),
    max_backlog=st.sampled_from([2, 10_000]),
    resync_period=st.sampled_from([None, None, 45.0]),
    page_size=st.sampled_from([1, 3, 500]),
    lagging=st.booleans(),
)

thorough = settings(
    max_examples=EXAMPLES or 60,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    print_blob=False,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


async def perform(mode: Mode, steps: Sequence[Step]) -> list[float]:
    async with playing(mode) as play:
        for one in steps:
            await getattr(play, one.name)(*one.arguments)
        await play.settle()
        return opened(play.server)


# Rare in random schedules: a resource that goes and comes back unseen, a restore that must be found out without help, a
# compaction between two pages, a handler that comes when there are bad objects already, a relist that fails.
# Versions that are too old, for a server that says so in odd ways or lists what is too old to be watched; an event that no
# watch gets past; what may happen between the objects of a streaming list and its mark.
# An object that goes bad and is mended, or goes while nobody looks; a life that nobody saw; bad objects on a later page; and what
# is merged for a handler that hangs: two lives of an object, a life that came and went, a good state before a bad one.
LATE = [Step("put", ("c", "bad")), Step("put", ("d", "broken")), Step("wait", (20.0,)), Step("join", ("slow",))]
UNSEEN = [Step("end_watches", ("STALL",)), Step("wait", (1.0,)), Step("remove_resource"), Step("wait", (700.0,))]
GONE_MEANWHILE = [Step("wait", (0.5,)), Step("stop"), Step("remove_resource")]
RESTORED = [Step("wait", (200.0,)), Step("put", ("c",)), Step("wait", (1.0,)), Step("restore", (2,))]
COMPACTED = [
    *(Step("put", (name,)) for name in "cdefgh"),
    Step("hit", ("list", "late", 4)),
    Step("wait", (60.0,)),
    Step("remove", ("h",)),
    Step("put", ("i",)),
    Step("compact"),
    Step("wait", (200.0,)),
]
OUTDATED = [Step("wait", (0.5,)), Step("stop"), Step("put", ("c",)), Step("compact")]
STALE = [Step("put", ("c",)), Step("compact"), Step("wait", (20.0,))]
LOST = [Step("wait", (0.5,)), Step("put", ("c", "lost"))]
EARLY = [
    Step("wait", (0.5,)),
    Step("hit", ("watch", "bookmark before the mark", 2)),
    Step("relist"),
    Step("wait", (20.0,)),
]
LATE_MARK = [Step("hit", ("watch", "late mark")), Step("wait", (0.5,)), Step("remove", ("a",))]
BAD_AND_GONE = [
    Step("wait", (0.5,)),
    Step("put", ("a", "bad")),
    Step("wait", (0.5,)),
    Step("stop"),
    Step("remove", ("a",)),
    Step("compact"),
]
BAD_AND_LISTED = [
    Step("wait", (0.5,)),
    Step("put", ("a", "bad")),
    Step("wait", (0.5,)),
    Step("join", ("raising",)),
    Step("relist"),
    Step("wait", (20.0,)),
    Step("remove", ("a",)),
]
MENDED = [Step("wait", (0.5,)), Step("put", ("a", "bad")), Step("wait", (0.5,)), Step("put", ("a",))]
PAGES = [Step("put", ("c", "bad")), Step("wait", (0.5,)), Step("relist"), Step("wait", (20.0,))]
MERGED = [
    Step("join", ("hanging",)),
    Step("wait", (0.5,)),
    Step("hang"),
    Step("put", ("d",)),
    Step("wait", (0.5,)),
    Step("recreate", ("a",)),
    Step("remove", ("a",)),
    Step("put", ("e",)),
    Step("put", ("e", "bad")),
    Step("recreate", ("b",)),
    Step("put", ("f",)),
    Step("wait", (0.5,)),
    Step("release"),
    Step("wait", (0.5,)),
    Step("remove", ("e",)),
]
ASKED = [Step("wait", (0.5,)), Step("hit", ("list", "500", 2)), Step("relist"), Step("wait", (20.0,))]
UNSEEN_LIFE = [Step("wait", (0.5,)), Step("replace", ("a", "good", True)), Step("remove", ("a",))]
TORN = [
    Step("wait", (0.5,)),
    Step("put", ("c",)),
    Step("wait", (0.5,)),
    Step("poison", ("garbage",)),
    Step("hit", ("watch", "cut after a line", 2)),
    Step("wait", (70.0,)),
]
UNMARKED = [
    *TORN[:4],
    Step("streaming_lists", ("unmarked",)),
    Step("hit", ("watch", "bookmark before the mark", 2)),
    Step("wait", (700.0,)),
]


@given(MODES, SCHEDULES)
@example(Mode(), LATE)
@example(Mode(), UNSEEN)
@example(Mode(), GONE_MEANWHILE)
@example(Mode(), RESTORED)
@example(Mode(initial_list="stream"), RESTORED)
@example(Mode(page_size=1), COMPACTED)
@example(Mode(), [Step("expiry", ("silent",)), *OUTDATED])
@example(Mode(), [Step("expiry", ("400",)), *OUTDATED])
@example(Mode(lagging=True), STALE)
@example(Mode(), LOST)
@example(Mode(initial_list="stream"), EARLY)
@example(Mode(initial_list="stream"), LATE_MARK)
@example(Mode(), BAD_AND_GONE)
@example(Mode(), BAD_AND_LISTED)
@example(Mode(), UNSEEN_LIFE)
@example(Mode(), MENDED)
@example(Mode(), ASKED)
@example(Mode(), [Step("wait", (0.5,)), Step("convert")])
@example(Mode(page_size=1), PAGES)
@example(Mode(max_backlog=2), MERGED)
@example(Mode(initial_list="stream", lagging=True), TORN)
@example(Mode(initial_list="stream", lagging=True), UNMARKED)
@thorough
def test_any_schedule(mode: Mode, steps: list[Step]) -> None:
    """When any faults have come in any order and are over, it should hold exactly what the server has, and have told every
    handler so, without a request too many and with nothing left behind.
    """
    try:
        run(perform(mode, steps))
    except BaseException as error:
        error.add_note(
            f"The schedule as a test (from tests.faults.play import Mode, playing):\n\n{script(mode, steps)}\n"
        )
        raise


@pytest.mark.parametrize("initial_list", ["list", "stream"])
async def test_every_fault(initial_list: Literal["list", "stream"]) -> None:
    """When every fault there is has come one after the other, more often than the limiter's burst, it should be as above."""
    steps = []
    for number, fault in enumerate(sorted(set(FAULTS) - {"deaf"})):
        name = "abcdefgh"[number % 8]
        steps += [Step("put", (name, ["good", "bad", "broken"][number % 3])), Step("hit", ("watch", fault, 8))]
        steps += [Step("join", (["plain", "slow", "raising", "hanging", "thread"][number % 5],))]
        steps += [Step("leave", (0,))] * (number > 5)
        steps += [
            Step("wait", (100.0,)),
            Step("hit", ("list", fault, 3)),
            Step("recreate", (name,)),
            Step("wait", (400.0,)),
        ]
    await perform(Mode(initial_list=initial_list), steps)


SCHEDULE = [
    Step("put", ("c", "bad")),
    Step("hit", ("watch", "429", 2)),
    Step("wait", (20.0,)),
    Step("stop"),
    Step("wait", (70.0,)),
    Step("start"),
    Step("join", ("slow",)),
    Step("restore", (1,)),
]


async def test_the_script_plays_the_same() -> None:
    """When a schedule is printed, the printed function should play the very same schedule when it is pasted."""
    times: list[list[float]] = []

    class Watched(Play):
        async def settle(self) -> None:
            await super().settle()
            times.append(opened(self.server))

    printed = script(Mode(initial_list="stream"), SCHEDULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.faults.play.Play", Watched)
        names: dict[str, Any] = {"Mode": Mode, "playing": playing}
        exec(printed, names)
        await names["test_replay"]()
        start = times[0][0]
        await perform(Mode(initial_list="stream"), SCHEDULE)
    assert [round(one - start, 3) for one in times[0]] == [round(one - times[1][0], 3) for one in times[1]]
    assert len(times[0]) > 5


def test_every_fault_is_used() -> None:
    """When a step is added to the play, the schedules should draw it."""
    methods = {name for name in vars(Play) if callable(getattr(Play, name)) and not name.startswith("_")} - {
        "settle",
        "forget",
        "hear_quarantine",
    }
    used = set()
    for strategy in [HIT, *WRITES, *TROUBLE, *HANDLERS, WAIT]:
        used.add(_first(strategy).name)
    assert methods == used


def _first(strategy: st.SearchStrategy[Step]) -> Step:
    found: list[Step] = []

    @given(strategy)
    @settings(max_examples=1, database=None, derandomize=True)
    def draw(value: Step) -> None:
        found.append(value)

    draw()
    return found[0]
