from __future__ import annotations

import asyncio
import itertools
import logging
import shlex
from datetime import UTC, datetime, timedelta

import pytest

from informer import checks
from informer.degraded.quarantine import Quarantine, Transition
from informer.degraded.wrapper import DegradedListerWatcher
from informer.errors import ContentNotKeptError
from informer.listerwatcher import Deleted, Item, ListOptions, WatchOptions
from informer.objects import KubeObject
from informer.problems import Problem
from informer.resource import Resource
from informer.testing.virtual import run
from tests.degraded.support import WIDGETS, Scripted, bad, widget

PROBLEM = Problem(("spec", "drainTimeout"), '"1"', "missing unit", "duration, e.g. 10m")
DYING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["f"]}


def claimed(**options: object) -> Quarantine:
    quarantine = Quarantine(**options)
    quarantine.claim(WIDGETS)
    return quarantine


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.ERROR) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


async def open_watch(quarantine: Quarantine, seconds: float, items: object = ()) -> None:
    """A watch that is open so long, and at once brings these."""

    async def events():
        for item in items:
            yield item
        await asyncio.sleep(seconds)

    source = DegradedListerWatcher(
        Scripted(events=events()), checks=[checks.duration("spec.drainTimeout")], quarantine=quarantine
    )
    async with source.watch(WatchOptions(resource_version="1")) as stream:
        async for _ in stream:
            pass


@pytest.mark.parametrize(
    "options",
    [
        {"remind_every": 0},
        {"remind_every": float("nan")},
        {"remind_every": float("inf")},
        {"max_entries": -1},
        {"max_bytes": -1},
    ],
)
def test_limits_that_cannot_be(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Quarantine(**options)


async def test_it_is_a_read_only_mapping():
    quarantine = claimed()
    assert not quarantine
    assert quarantine is not None
    entry = quarantine.record(bad("a"), [PROBLEM])
    assert dict(quarantine) == {"team-a/a": entry}
    assert "team-a/a" in quarantine
    assert quarantine.get("team-a/b") is None
    assert not hasattr(quarantine, "__setitem__")
    assert "1 objects" in repr(quarantine)


async def test_reading_while_it_changes():
    quarantine = claimed()
    for name in "abc":
        quarantine.record(bad(name), [PROBLEM])
    for key, entry in quarantine.items():
        assert entry in quarantine.values()
        quarantine.clear(key, Transition.DELETED)
    assert len(quarantine) == 0
    for name in "abc":
        quarantine.record(bad(name), [PROBLEM])
    for entry in quarantine.values():
        quarantine.clear(entry.key, Transition.DELETED)
    assert not dict(quarantine)


async def test_dates_are_aware_and_injectable():
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(9))
    quarantine = claimed(now=lambda: next(moments))
    entry = quarantine.record(bad("a"), [PROBLEM])
    later = quarantine.seen_again(entry)
    assert (later.first_seen, later.last_seen, later.times_seen) == (
        entry.first_seen,
        entry.first_seen + (later.last_seen - entry.first_seen),
        2,
    )
    assert later.last_seen > entry.last_seen
    assert Quarantine()._now().tzinfo is UTC


async def test_subscribers_hear_of_every_change_and_do_no_harm(caplog):
    quarantine = claimed()
    heard: list[str] = []

    def broken(change: object) -> None:
        raise ValueError("mine")

    with quarantine.subscribe(broken), quarantine.subscribe(lambda change: heard.append(change.transition)):
        quarantine.record(bad("a"), [PROBLEM])
        quarantine.record(bad("a", "2"), [PROBLEM])
        quarantine.record(bad("a", "3"), [])
        quarantine.clear("team-a/a", Transition.RECOVERED)
        quarantine.clear("team-a/a", Transition.RECOVERED)
    quarantine.record(bad("b"), [PROBLEM])
    assert heard == ["added", "changed", "recovered"]
    assert len([line for line in lines(caplog) if "a subscriber of the quarantine failed on added" in line]) == 1


async def test_subscriber_that_unsubscribes_itself():
    quarantine = claimed()
    heard: list[object] = []
    context = quarantine.subscribe(lambda change: (heard.append(change), context.__exit__(None, None, None)))
    context.__enter__()
    quarantine.record(bad("a"), [PROBLEM])
    quarantine.record(bad("b"), [PROBLEM])
    assert len(heard) == 1


def test_coroutine_function_as_subscriber():
    async def callback(change: object) -> None: ...

    with pytest.raises(TypeError, match=r"plain function.*asyncio\.Queue"):
        Quarantine().subscribe(callback)


async def test_bytes_past_the_budget_go_oldest_first_and_terminating_last():
    quarantine = claimed(max_bytes=3 * 250)

    def sized(name: str, metadata: dict[str, object]) -> Item[KubeObject]:
        missing = 250 - len(bad(name, **metadata).object.raw)
        return bad(name, value="1" + "x" * missing, **metadata)

    states = []
    for name, metadata in (("a", DYING), ("b", {}), ("c", {}), ("d", {}), ("e", DYING), ("f", DYING), ("g", DYING)):
        quarantine.record(sized(name, metadata), [PROBLEM])
        states.append("".join(key[-1] for key, entry in quarantine.items() if _kept(entry)))
    assert states == ["a", "ab", "abc", "acd", "ade", "aef", "efg"]
    with pytest.raises(ContentNotKeptError, match="max_bytes"):
        quarantine["team-a/b"].to_dict()


def _kept(entry: object) -> bool:
    return entry.content.raw is not None


async def test_object_larger_than_the_whole_budget():
    quarantine = claimed(max_bytes=10)
    entry = quarantine.record(bad("a"), [PROBLEM])
    assert not _kept(entry)
    assert quarantine.known_bad(bad("a")) is None, "what cannot be compared is looked at again"


async def test_budget_is_given_back():
    size = len(bad("a").object.raw)
    quarantine = claimed(max_bytes=size)
    for _ in range(3):
        entry = quarantine.record(bad("a"), [PROBLEM])
        assert _kept(entry)
        quarantine.clear("team-a/a", Transition.DELETED)
        assert entry.to_dict(), "whoever still holds the entry can read it"


async def test_first_sight_names_everything_an_operator_needs(caplog):
    quarantine = Quarantine()
    await open_watch(quarantine, 1, [bad("b", "92")])
    (record,) = caplog.records
    (line,) = lines(caplog)
    assert record.name == "informer.degraded"
    for part in ("team-a/b", "spec.drainTimeout", '"1"', "missing unit", "Widget"):
        assert part in line
    command = line[line.index("kubectl") :]
    assert shlex.split(command) == shlex.split(quarantine["team-a/b"].fix_commands()[0])
    assert (record.resource, record.namespace, record.object_name, record.paths, record.terminating, record.quarantine_event) == (
        "widgets.v1.example.test", "team-a", "b", ("spec.drainTimeout",), False, "first",
    )  # fmt: skip


async def test_logger_name_is_a_parameter(caplog):
    await open_watch(Quarantine(logger="mine"), 1, [bad("b")])
    assert [record.name for record in caplog.records] == ["mine"]


async def test_reminders_keep_to_their_schedule_however_often_the_object_changes(caplog):
    """When an object is edited every ten seconds for an hour, it should be named once per interval."""

    async def events():
        for n in range(360):
            yield bad("b", str(n), "x" * n)
            await asyncio.sleep(10)

    source = DegradedListerWatcher(Scripted(events=events()), checks=[checks.duration("spec.drainTimeout")])
    times = _times(caplog)
    async with source.watch(WatchOptions(resource_version="1")) as stream:
        async for _ in stream:
            pass
    assert len(times) == len(lines(caplog)) == 12
    said = [record.getMessage() for record in caplog.records if hasattr(record, "object_name")]
    assert [" still cannot be read and is withheld: " in line for line in said] == [False, *[True] * 11]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 300


def _times(caplog: pytest.LogCaptureFixture) -> list[float]:
    """The loop's time of every record about one object."""
    times: list[float] = []

    def note(record: logging.LogRecord) -> bool:
        if hasattr(record, "object_name"):
            times.append(asyncio.get_running_loop().time())
        return True

    caplog.handler.addFilter(note)
    return times


async def test_an_unmended_object_is_neither_forgotten_nor_repeated_per_watch(caplog):
    """When every watch ends after 30 s for 200 rounds, the lines should follow the interval and not the rounds."""
    items = [bad(f"w{n}", value="1d") for n in range(20)]
    rounds = [[]] * 200
    rounds[0] = items

    def events():
        return rounds.pop(0)

    class Rounds(Scripted):
        def watch(self, options):
            brought = events()

            async def stream():
                for item in brought:
                    yield item
                await asyncio.sleep(30)

            self.events = stream()
            return super().watch(options)

    source = DegradedListerWatcher(Rounds(), checks=[checks.duration("spec.drainTimeout")])
    for _ in range(200):
        async with source.watch(WatchOptions(resource_version="1")) as stream:
            async for _ in stream:
                pass
    assert 20 * 18 <= len(lines(caplog)) <= 20 * (6000 / 300) + 20


async def test_starting_to_terminate_is_said_at_once(caplog):
    quarantine = Quarantine()
    await open_watch(quarantine, 1, [bad("b"), bad("b", "2"), bad("b", "3", **DYING), bad("b", "4", **DYING)])
    assert ["terminating" in line for line in lines(caplog)] == [False, True]
    assert [record.terminating for record in caplog.records] == [False, True]


@pytest.mark.parametrize(
    ("finalizers", "words"),
    [
        (["example.test/a"], " is terminating, and its finalizers wait (example.test/a): it cannot be read"),
        ([f"f{n}" for n in range(9)], " is terminating, and its finalizers wait (f0, f1, f2, f3, f4 and 4 more): it"),
        ([], " is terminating: it cannot be read"),
    ],
)
async def test_line_names_the_finalizers_that_are_left(caplog, finalizers, words):
    """When an object waits for its finalizers, the line should tell whose they are: mending may free nothing."""
    await open_watch(Quarantine(), 1, [bad("b", **DYING | {"finalizers": finalizers})])
    (line,) = lines(caplog)
    assert line.startswith(f"Widget team-a/b{words}")


async def test_terminating_at_first_sight_is_said_once(caplog):
    await open_watch(Quarantine(), 1, [bad("b", **DYING), bad("b", "2", **DYING)])
    (line,) = lines(caplog)
    assert "terminating" in line


async def test_what_fell_due_during_an_outage_is_said_at_the_next_open_watch(caplog):
    source = DegradedListerWatcher(Scripted([bad("b")]), checks=[checks.duration("spec.drainTimeout")])
    await source.list(ListOptions())
    await asyncio.sleep(3600)
    assert len(lines(caplog)) == 1

    async def short():
        await asyncio.sleep(1)
        yield widget("other")

    source._delegate.events = short()
    async with source.watch(WatchOptions(resource_version="1")) as stream:
        async for _ in stream:
            pass
    assert [record.quarantine_event for record in caplog.records] == ["first", "reminder"]


async def test_list_speaks_of_terminating_objects_first_and_of_all_within_the_budget(caplog):
    """When a thousand objects are bad, a hundred should be named, terminating ones first, and the rest be counted."""
    items = [bad(f"w{n:03}") for n in range(990)] + [bad(f"dying{n}", **DYING) for n in range(10)]
    source = DegradedListerWatcher(Scripted(items, items), checks=[checks.duration("spec.drainTimeout")])
    await source.list(ListOptions())
    await source.list(ListOptions())
    found = lines(caplog)
    assert len(found) == 101
    assert all("team-a/dying" in line for line in found[:10])
    assert found[100].startswith(
        "1000 objects of widgets.v1.example.test cannot be read and are withheld, 10 of them terminating"
    )


async def test_every_one_of_many_gets_its_line_in_time_within_the_budget(caplog):
    quarantine = Quarantine(remind_every=100.0)
    times = _times(caplog)
    await open_watch(quarantine, 400, [bad(f"w{n:03}") for n in range(250)])
    named = {record.object_name for record in caplog.records if hasattr(record, "object_name")}
    assert len(named) == 250
    assert all(sum(start <= time < start + 100 for time in times) <= 100 for start in times)
    summaries = [record for record in caplog.records if getattr(record, "quarantine_event", "") == "summary"]
    assert 4 <= len(summaries) <= 5
    later = [time for time in times if time > times[0] + 100]
    assert max(b - a for a, b in itertools.pairwise(later)) >= 1, "spread over the interval"


async def test_one_record_when_it_recovers(caplog):
    await open_watch(Quarantine(), 1, [bad("b"), widget("b", "2"), widget("b", "3")])
    (line,) = lines(caplog, logging.WARNING)
    assert line == "Widget team-a/b has recovered and is no longer withheld"


async def test_gone_is_not_recovered(caplog):
    source = DegradedListerWatcher(Scripted([bad("b")], []), checks=[checks.duration("spec.drainTimeout")])
    await source.list(ListOptions())
    await source.list(ListOptions())
    (line,) = lines(caplog, logging.WARNING)
    assert line == "Widget team-a/b is gone: deleted or left the selection"
    await asyncio.sleep(1000)
    assert len(lines(caplog)) == 1


async def test_object_that_turns_good_and_bad_again_and_again_does_not_flood_the_log(caplog):
    flapping = [item for n in range(100) for item in (bad("b", f"{n}a"), widget("b", f"{n}b"))]
    await open_watch(Quarantine(), 1000, [*flapping, bad("b", "last")])
    assert events(caplog) == ["first", "recovered", "first", *["reminder"] * 3]


BAD, GOOD, GONE = bad("b"), widget("b"), Deleted("team-a/b", "u-b", "9", None)


@pytest.mark.parametrize(
    ("course", "at_once", "later"),
    [
        ([BAD, GOOD, BAD], ["first", "recovered", "first"], ["reminder"]),
        ([BAD, GOOD, BAD, GOOD], ["first", "recovered", "first"], ["recovered"]),
        ([BAD, GOOD, BAD, GOOD, BAD], ["first", "recovered", "first"], ["reminder"]),
        ([BAD, GOOD, BAD, GONE], ["first", "recovered", "first", "deleted"], []),
        ([BAD, GOOD, BAD, GOOD, BAD, GONE], ["first", "recovered", "first", "deleted"], []),
        ([BAD, GONE, BAD, GONE, BAD, GONE], ["first", "deleted", "first", "deleted", "first"], ["deleted"]),
        ([BAD, GONE, BAD, GONE, BAD, GONE, BAD], ["first", "deleted", "first", "deleted", "first"], ["reminder"]),
        ([BAD, GOOD, BAD, GOOD, bad("b", uid="next")], ["first", "recovered", "first", "first"], ["reminder"]),
        ([BAD, GOOD, BAD, GOOD, bad("b", uid="next"), widget("b", uid="next")],
         ["first", "recovered", "first", "first", "recovered"], []),
    ],
)  # fmt: skip
async def test_the_last_word_about_an_object_is_true(caplog, course, at_once, later):
    """When an object turns good, bad or goes again and again, the log should never end with the contrary."""
    quarantine = Quarantine()
    watch = asyncio.create_task(open_watch(quarantine, 500, course))
    await asyncio.sleep(1)
    assert events(caplog) == at_once
    assert all(entry.content.raw is None for _, entry, _ in quarantine._held.values()), "no bytes past the budget"
    await asyncio.sleep(400)
    assert not watch.done()
    assert events(caplog) == [*at_once, *later]
    await watch
    assert events(caplog) == [*at_once, *later]


async def test_an_end_that_was_held_back_is_said_in_time(caplog):
    """When no object is bad any more, the end of one should be said one interval after its last line, and not later."""
    told: list[str] = []

    async def course():
        await asyncio.sleep(100)
        for item in (BAD, GOOD, BAD, GOOD):
            yield item
        await asyncio.sleep(305)
        told.extend(events(caplog))

    source = DegradedListerWatcher(Scripted(events=course()), checks=[checks.duration("spec.drainTimeout")])
    async with source.watch(WatchOptions(resource_version="1")) as stream:
        async for _ in stream:
            pass
    assert told == ["first", "recovered", "first", "recovered"]


@pytest.mark.parametrize(
    ("then", "said"),
    [([BAD], ["recovered", "first"]), ([GOOD], ["recovered"]), ([], ["recovered"])],
    ids=["bad", "good", "gone"],
)
async def test_an_end_that_was_held_back_is_said_by_the_next_request(caplog, then, said):
    """When no watch was open as an end fell due, it should be said before anything else is."""
    source = DegradedListerWatcher(Scripted(*[[BAD], [GOOD]] * 2, then), checks=[checks.duration("spec.drainTimeout")])
    for _ in range(4):
        await source.list(ListOptions())
    assert events(caplog) == ["first", "recovered", "first"]
    await asyncio.sleep(1000)
    await source.list(ListOptions())
    assert events(caplog) == ["first", "recovered", "first", *said]


async def test_reminders_of_an_object_that_flaps_tell_the_next_round(caplog):
    """When a reminder is due, an object that still flaps should be followed for one more round."""

    async def flapping():
        for n in range(1200):
            yield bad("b", f"{n}a")
            await asyncio.sleep(0.5)
            yield widget("b", f"{n}b")
            await asyncio.sleep(0.5)

    source = DegradedListerWatcher(Scripted(events=flapping()), checks=[checks.duration("spec.drainTimeout")])
    async with source.watch(WatchOptions(resource_version="1")) as stream:
        async for _ in stream:
            pass
    assert 2 * 4 - 1 <= len(lines(caplog)) <= 2 * 4
    assert 2 * 4 - 1 <= len(lines(caplog, logging.WARNING)) <= 2 * 4


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.quarantine_event for record in caplog.records]


async def test_log_lines_are_short_single_and_printable(caplog):
    hostile = KubeObject(bad("b").object.raw, "b\n\x1b[31m" + "n" * 5000, "team\u202ea", "u\n", "7\r")
    item = Item(hostile.key, hostile.uid, hostile.resource_version, {}, hostile)
    wide = bad("wide", value="x" * (2 << 20), annotations={"a": "y" * (2 << 20)})
    finalizers = ["example.test/\n" + "f" * 5000] * 50
    many = widget(
        "many",
        deletionTimestamp="2026-01-01T00:00:00Z",
        finalizers=finalizers,
        spec={"drainTimeout": {f"k{n}\n": n for n in range(5000)}},
    )
    source = DegradedListerWatcher(Scripted([item, wide, many]), checks=[checks.duration("spec.drainTimeout[*]")])
    await source.list(ListOptions())
    assert len(lines(caplog)) == 3
    for record in caplog.records:
        assert len(record.getMessage()) < 4096
        assert record.getMessage().isascii()
        assert record.getMessage().isprintable()
        assert len(str(record.__dict__)) < 20_000
    assert len(source.quarantine["team-a/many"].problems) == 101
    assert ["too long for the log" in line for line in lines(caplog) if "team-a/many" in line] == [True]


async def test_without_a_path_the_line_says_that_there_is_no_command(caplog):
    source = DegradedListerWatcher(Scripted([widget("b")]), decode=lambda obj: obj["spec"]["missing"])
    await source.list(ListOptions())
    (line,) = lines(caplog)
    assert "no fix command for 1 of 1 problems: the decoder does not tell the field" in line
    assert "kubectl" not in line


async def test_list_that_dies_half_way_has_still_said_what_it_saw(caplog):
    from informer.listerwatcher import Page

    source = DegradedListerWatcher(
        Scripted(Page([bad("b")], "1", "t1"), OSError("reset")), checks=[checks.duration("spec.drainTimeout")]
    )
    await source.list(ListOptions())
    with pytest.raises(OSError, match="reset"):
        await source.list(ListOptions(continue_token="t1"))
    assert len(lines(caplog)) == 1


def test_resource_without_kind_is_named_by_its_plural(caplog):
    async def main() -> None:
        source = DegradedListerWatcher(
            Scripted([bad("b")], resource=Resource("example.test", "v1", "widgets")),
            checks=[checks.duration("spec.drainTimeout")],
        )
        await source.list(ListOptions())

    run(main())
    assert lines(caplog)[0].startswith("widgets.v1.example.test team-a/b cannot be read")
