from __future__ import annotations

import asyncio
import functools
import json
import shlex
from contextlib import AbstractContextManager

import pytest
from attrs import evolve, frozen

from informer import ApiListerWatcher, checks
from informer._projection import Projection
from informer.degraded.quarantine import Quarantine, Transition
from informer.degraded.wrapper import DegradedListerWatcher
from informer.errors import ApiError, TooManyBadObjectsError
from informer.listerwatcher import Bookmark, Deleted, Item, ListOptions, Page, WatchOptions, Withheld
from informer.objects import KubeObject
from informer.problems import Problem
from informer.resource import Resource
from informer.testing import FakeApiServer, FakeListerWatcher
from tests.degraded.support import WIDGETS, Scripted, bad, receive, widget

DURATION = checks.duration("spec.drainTimeout")
FIRST = ListOptions()


def degraded(*pages: object, events: object = (), quarantine: Quarantine | None = None, **options: object):
    source = Scripted(*pages, events=events)
    if "decode" not in options:
        options.setdefault("checks", [DURATION])
    return DegradedListerWatcher(source, quarantine=quarantine, **options)


def shape(items: object) -> list[str]:
    return [("-" if isinstance(item, Withheld) else "+") + item.key.rpartition("/")[2] for item in items]


def told(quarantine: Quarantine) -> list[tuple[str, str]]:
    changes = Changes()
    changes.context = quarantine.subscribe(
        lambda c: changes.append((str(c.transition), c.entry.key.rpartition("/")[2]))
    )
    changes.context.__enter__()
    return changes


class Changes(list[tuple[str, str]]):
    """Keeps its subscription as long as itself."""

    context: AbstractContextManager[None]


async def test_list_withholds_the_bad_one_and_passes_the_others_as_they_came():
    """When one object of a page is bad, it should be withheld and the others be the very same objects."""
    good = [widget("a", spec={"drainTimeout": "10m"}), widget("c", spec={"drainTimeout": None})]
    source = degraded([good[0], bad("b", "92"), good[1]])
    page = await source.list(FIRST)
    assert shape(page.items) == ["+a", "-b", "+c"]
    assert page.items[0] is good[0]
    assert page.items[2] is good[1]
    (entry,) = source.quarantine.values()
    assert page.items[1] == Withheld("team-a/b", "u-b", "92", entry)
    assert page.items[1].entry is entry
    assert [(p.path, p.value) for p in entry.problems] == [(("spec", "drainTimeout"), '"1"')]
    assert entry.to_dict()["spec"] == {"drainTimeout": "1"}
    assert (entry.first_seen.tzinfo is not None, entry.times_seen, entry.terminating) == (True, 1, False)


async def test_page_passes_on_everything_else():
    page = await degraded(Page([widget("a")], "77", "more", 3)).list(FIRST)
    assert (page.resource_version, page.continue_token, page.unidentifiable) == ("77", "more", 3)


async def test_decoded_value_stands_in_the_item():
    source = degraded(
        [widget("a", labels={"x": "y"}), widget("b", spec=[])], decode=lambda obj: obj["spec"].get("n", 7)
    )
    page = await source.list(FIRST)
    item = page.items[0]
    assert (item.key, item.uid, item.resource_version, item.labels, item.object) == (
        "team-a/a",
        "u-a",
        "1",
        {"x": "y"},
        7,
    )
    assert shape(page.items) == ["+a", "-b"]
    assert "AttributeError" in source.quarantine["team-a/b"].summary


async def test_one_entry_names_every_bad_field():
    """When checks and decoder find different fields, one entry should name them all, each once."""

    def decode(obj: KubeObject) -> None:
        raise ValueError("drainTimeout or so")

    all_checks = [DURATION, checks.quantity("spec.size"), lambda obj: [Problem(("spec", "own"), "0", "mine")]]
    source = degraded([widget("a", spec={"drainTimeout": "x", "size": ""})], checks=all_checks, decode=decode)
    await source.list(FIRST)
    assert [p.path_text for p in source.quarantine["team-a/a"].problems] == [
        "spec.drainTimeout",
        "spec.size",
        "spec.own",
    ]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        KeyError("x"),
        RecursionError(),
        StopIteration(),
        AssertionError(),
        ExceptionGroup("x", [ValueError()]),
    ],
)
@pytest.mark.parametrize("role", ["decode", "checks"])
async def test_exception_is_a_problem_of_that_object(role, error):
    def judge(obj: KubeObject) -> list[Problem]:
        if obj.name == "b":
            raise error
        return []

    source = degraded([widget("a"), widget("b"), widget("c")], **{role: judge if role == "decode" else [judge]})
    assert shape((await source.list(FIRST)).items) == ["+a", "-b", "+c"]
    assert source.quarantine["team-a/b"].fix_commands() == ()


@pytest.mark.parametrize(
    "error",
    [MemoryError(), KeyboardInterrupt(), SystemExit(), asyncio.CancelledError()],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("role", ["decode", "checks"])
async def test_what_says_nothing_about_the_object_propagates(role, error):
    def judge(obj: KubeObject) -> list[Problem]:
        raise error

    source = degraded([widget("a")], **{role: judge if role == "decode" else [judge]})
    task = asyncio.ensure_future(_returned(source.list(FIRST)))
    assert await task is error
    assert len(source.quarantine) == 0


async def _returned(call: object) -> BaseException | None:
    try:
        await call
    except BaseException as error:
        return error
    return None


async def test_endless_nesting_is_the_objects_own_problem():
    def deep(obj: KubeObject) -> object:
        return deep(obj)

    source = degraded([widget("a"), widget("b")], decode=lambda obj: deep(obj) if obj.name == "a" else 1)
    assert shape((await source.list(FIRST)).items) == ["-a", "+b"]
    assert "nested too deeply" in source.quarantine["team-a/a"].summary


class _Callable:
    async def __call__(self, obj: KubeObject) -> int:
        return 1


async def _coroutine_function(obj: KubeObject) -> int:
    return 1


async def _generator(obj: KubeObject):
    yield Problem((), "", "")


@pytest.mark.parametrize(
    "function", [_coroutine_function, functools.partial(_coroutine_function), _Callable(), _generator, 7]
)
def test_coroutine_functions_are_refused(function):
    with pytest.raises(TypeError, match=r"plain function|callable"):
        DegradedListerWatcher(Scripted(), decode=function)
    with pytest.raises(TypeError, match=r"plain function|callable"):
        DegradedListerWatcher(Scripted(), checks=[function])


async def test_a_coroutine_in_disguise_is_refused_when_it_shows():
    def decode(obj: KubeObject) -> object:
        return _coroutine_function(obj)

    with pytest.raises(TypeError, match="team-a/a: it must be a plain function"):
        await degraded([widget("a")], decode=decode).list(FIRST)


def test_two_degraded_wrappers_over_each_other():
    with pytest.raises(TypeError, match="give one of them more checks"):
        DegradedListerWatcher(degraded(), checks=[])


def test_a_quarantine_belongs_to_one_wrapper():
    quarantine = Quarantine()
    assert degraded(quarantine=quarantine).quarantine is quarantine
    with pytest.raises(ValueError, match="already belongs"):
        degraded(quarantine=quarantine)


async def test_known_bad_is_not_judged_again():
    """When uid, version and bytes are those of the entry, it should stay bad without a second look."""
    looks: list[str] = []

    def decode(obj: KubeObject) -> None:
        looks.append(obj.resource_version)
        raise ValueError

    again = bad("b", "5")
    with_kind = Item(
        again.key,
        again.uid,
        "5",
        {},
        KubeObject(
            b'{"kind":"Widget","apiVersion":"example.test/v1",' + again.object.raw[1:], "b", "team-a", again.uid, "5"
        ),
    )
    repaired = Item(
        again.key,
        again.uid,
        "5",
        {},
        KubeObject(again.object.raw.replace(b'"1"', b'"2"'), "b", "team-a", again.uid, "5"),
    )
    source = degraded(
        [again], [again], [with_kind], [repaired], [bad("b", "6")], [bad("b", "")], [bad("b", "")], decode=decode
    )
    seen = []
    for _ in range(7):
        await source.list(FIRST)
        seen.append((len(looks), source.quarantine["team-a/b"].times_seen))
    assert seen == [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7)]


async def test_repaired_bytes_under_the_same_version_recover():
    """When the bytes change and the version does not (a repaired conversion webhook), it should judge again."""
    changed = widget("b", "5", {"drainTimeout": "1m"})
    source = degraded([bad("b", "5")], [changed])
    changes = told(source.quarantine)
    await source.list(FIRST)
    assert shape((await source.list(FIRST)).items) == ["+b"]
    assert changes == [("added", "b"), ("recovered", "b")]


async def test_watch_judges_each_event_alone():
    events = [
        widget("x", "2"),
        bad("x", "3"),
        Bookmark("4"),
        bad("x", "5", 7),
        widget("x", "6"),
        Deleted("team-a/x", "u-x", "7", widget("x", "7").object),
    ]
    source = degraded(events=events)
    changes = told(source.quarantine)
    found = await receive(source)
    assert [type(event) for event in found] == [Item, Withheld, Bookmark, Withheld, Item, Deleted]
    assert found[0] is events[0]
    assert found[2] is events[2]
    assert found[5] == events[5]
    assert changes == [("added", "x"), ("changed", "x"), ("recovered", "x")]
    assert found[3].entry.first_seen == found[1].entry.first_seen


async def test_sixty_edits_of_a_bad_object_cost_no_request():
    source = degraded(events=[bad("x", str(i), annotations={"n": str(i)}) for i in range(60)])
    changes = told(source.quarantine)
    found = await receive(source)
    assert [event.resource_version for event in found] == [str(i) for i in range(60)]
    assert source._delegate.calls == [WatchOptions(resource_version="1")]
    assert changes == [("added", "x")]
    assert source.quarantine["team-a/x"].times_seen == 60


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"deletionTimestamp": "2026-01-02T00:00:00Z"}),
        ({}, {"finalizers": ["f"]}),
    ],
)
async def test_what_a_finalizers_owner_needs_is_a_change(before, after):
    source = degraded(
        events=[bad("x", "1", **before), bad("x", "2", **after), bad("x", "3", labels={"a": "b"}, **after)]
    )
    changes = told(source.quarantine)
    await receive(source)
    assert changes == [("added", "x"), ("changed", "x")]
    assert source.quarantine["team-a/x"].metadata.labels == {"a": "b"}


async def test_deleted_is_never_judged_and_clears_the_entry():
    gone = bad("x", "3").object
    source = degraded(events=[bad("x", "2"), Deleted("team-a/x", "u-x", "3", gone)])
    changes = told(source.quarantine)
    found = await receive(source)
    assert found[1] == Deleted("team-a/x", "u-x", "3", gone)
    assert changes == [("added", "x"), ("deleted", "x")]
    assert len(source.quarantine) == 0


async def test_last_state_that_does_not_decode_is_none():
    def decode(obj: KubeObject) -> str:
        return str(obj["spec"]["tier"])

    events = [
        Deleted("team-a/x", "u-x", "3", widget("x", "3").object),
        Deleted("team-a/y", "u", "4", widget("y", "3", {"tier": 1}).object),
        Deleted("team-a/z", "u", "5", None),
    ]
    found = await receive(degraded(events=events, decode=decode))
    assert [event.last for event in found] == [None, "1", None]


async def test_memory_error_while_decoding_a_last_state_propagates():
    def decode(obj: KubeObject) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        await receive(degraded(events=[Deleted("team-a/x", "u-x", "3", widget("x").object)], decode=decode))


async def test_deletion_of_an_earlier_life_leaves_the_entry_of_the_next():
    source = degraded(events=[bad("x", "2", uid="B"), Deleted("team-a/x", "A", "1", None)])
    await receive(source)
    assert source.quarantine["team-a/x"].uid == "B"


@pytest.mark.parametrize(
    ("second", "end"), [(bad("x", "2", uid="B"), [("added", "x")]), (widget("x", "2", uid="B"), [])]
)
async def test_another_uid_is_another_life(second, end):
    """When the key comes with another uid, the first life should be deleted, never recovered or changed."""
    source = degraded(events=[bad("x", "1", uid="A"), second])
    changes = told(source.quarantine)
    await receive(source)
    assert changes == [("added", "x"), ("deleted", "x"), *end]


async def test_what_the_source_withholds_is_recorded_and_passed_on_with_the_recorded_entry():
    below = DegradedListerWatcher(Scripted([bad("x")]), checks=[DURATION])
    (withheld,) = (await below.list(FIRST)).items
    later = evolve(withheld, entry=evolve(withheld.entry, problems=(Problem((), "", "invalid UTF-8"),)))
    source = DegradedListerWatcher(Scripted([withheld], events=[later, later, widget("x", "9")]), checks=[DURATION])
    changes = told(source.quarantine)
    page = await source.list(FIRST)
    assert page.items[0].entry is source.quarantine["team-a/x"]
    found = await receive(source)
    assert [event.entry.times_seen for event in found[:2]] == [2, 3]
    assert changes == [("added", "x"), ("changed", "x"), ("recovered", "x")]


async def test_complete_relist_clears_what_it_has_not_brought():
    source = degraded([bad("k"), bad("m")], [bad("m"), widget("n")])
    changes = told(source.quarantine)
    await source.list(FIRST)
    await source.list(FIRST)
    assert changes == [("added", "k"), ("added", "m"), ("deleted", "k")]


def pages(*parts: object) -> list[Page]:
    """The pages of one LIST, chained by tokens."""
    return [Page(part, "100", f"t{i}" if i < len(parts) else "") for i, part in enumerate(parts, 1)]


async def test_only_the_last_page_completes_a_list():
    source = degraded([bad("k"), bad("m"), bad("z")], *pages([bad("k")], [widget("a")], [bad("m")]))
    await source.list(FIRST)
    for token, left in (("", {"k", "m", "z"}), ("t1", {"k", "m", "z"}), ("t2", {"k", "m"})):
        await source.list(ListOptions(continue_token=token))
        assert {key[-1] for key in source.quarantine} == left


async def test_probe_of_one_item_clears_nothing():
    """When a LIST of limit 1 is never continued, it should not take the others for deleted."""
    source = degraded([bad("k"), bad("m")], Page([widget("a")], "100", "more"), Page([bad("m")], "100", "more"))
    await source.list(FIRST)
    await source.list(ListOptions(limit=1))
    await source.list(ListOptions(limit=1))
    assert len(source.quarantine) == 2


async def test_relist_that_dies_half_way_clears_nothing_and_the_next_one_starts_afresh():
    source = degraded(
        [bad("k"), bad("m"), bad("z")],
        *pages([bad("k")], ApiError("x", status=410))[:1],
        ApiError("gone", status=410),
        *pages([bad("z")], [bad("m")]),
    )
    await source.list(FIRST)
    await source.list(FIRST)
    with pytest.raises(ApiError):
        await source.list(ListOptions(continue_token="t1"))
    assert len(source.quarantine) == 3
    await source.list(FIRST)
    await source.list(ListOptions(continue_token="t1"))
    assert {key[-1] for key in source.quarantine} == {"z", "m"}


async def test_page_asked_for_twice_still_completes():
    first, second = pages([bad("k")], [bad("m")])
    source = degraded([bad("k"), bad("m"), bad("z")], first, OSError("reset"), second)
    await source.list(FIRST)
    await source.list(FIRST)
    with pytest.raises(OSError, match="reset"):
        await source.list(ListOptions(continue_token="t1"))
    await source.list(ListOptions(continue_token="t1"))
    assert {key[-1] for key in source.quarantine} == {"k", "m"}


async def test_page_of_an_unknown_list_clears_nothing():
    source = degraded([bad("k")], [widget("a")])
    await source.list(FIRST)
    await source.list(ListOptions(continue_token="who knows"))
    assert len(source.quarantine) == 1


async def test_two_consumers_listing_at_a_time_do_not_mix():
    answers = [Page([bad("k")], "1", "A1"), Page([bad("m")], "1", "B1"), Page([bad("m")], "1", ""), Page([], "2", "")]
    source = degraded([bad("k"), bad("m"), bad("z")], *answers, [])
    await source.list(FIRST)
    await source.list(FIRST)
    await source.list(FIRST)
    await source.list(ListOptions(continue_token="A1"))
    assert {key[-1] for key in source.quarantine} == {"k", "m"}
    await source.list(ListOptions(continue_token="B1"))
    assert {key[-1] for key in source.quarantine} == {"m"}, "seen by this list, while k was seen before it began"
    await source.list(FIRST)
    assert not source.quarantine


async def test_list_is_not_believed_about_what_a_watch_has_told_since_it_began():
    """When another consumer's watch reports a bad object while a LIST is under way, the older LIST should not clear it."""
    source = degraded(*pages([], []), events=[bad("new", "101")])
    await source.list(FIRST)
    await receive(source)
    await source.list(ListOptions(continue_token="t1"))
    assert set(source.quarantine) == {"team-a/new"}


async def test_remembered_lists_are_bounded():
    source = degraded(*(Page([bad("k")], "1", f"t{i}") for i in range(100)))
    for _ in range(100):
        await source.list(FIRST)
    assert len(source._unfinished) == 16


async def test_streaming_list_clears_at_the_marked_bookmark():
    events = [
        bad("m", "5"),
        Bookmark("6"),
        widget("a"),
        Bookmark("7", initial_events_end=True),
        bad("z", "8"),
        Bookmark("9"),
    ]
    source = degraded([bad("k"), bad("m")], events=events)
    await source.list(FIRST)
    changes = told(source.quarantine)
    await receive(source, streaming=True)
    assert changes == [("deleted", "k"), ("added", "z")]


async def test_streaming_list_that_breaks_before_the_mark_clears_nothing():
    source = degraded([bad("k")], events=[widget("a"), Bookmark("6"), OSError("reset")])
    await source.list(FIRST)
    with pytest.raises(OSError, match="reset"):
        await receive(source, streaming=True)
    assert len(source.quarantine) == 1


async def test_marked_bookmark_of_a_plain_watch_clears_nothing():
    source = degraded([bad("k")], events=[Bookmark("7", initial_events_end=True)])
    await source.list(FIRST)
    await receive(source)
    assert len(source.quarantine) == 1


@pytest.mark.parametrize(
    "error",
    [
        ApiError("down", status=500),
        OSError("reset"),
        TimeoutError(),
        ApiError("old", status=410),
        ApiError("decode failed", status=500),
    ],
)
async def test_trouble_of_the_server_is_never_taken_for_bad_data(error):
    source = degraded(error, events=[error])
    with pytest.raises(type(error)):
        await source.list(FIRST)
    with pytest.raises(type(error)):
        await receive(source)
    assert len(source.quarantine) == 0
    assert len(source._delegate.calls) == 2


async def test_too_many_bad_objects_refuse_the_complete_list_only():
    quarantine = Quarantine(max_entries=1)
    source = degraded(
        *pages([bad("a"), bad("b")], []),
        [bad("a")],
        [bad("a")],
        events=[bad("b", "2"), bad("c", "3")],
        quarantine=quarantine,
    )
    await source.list(FIRST)
    with pytest.raises(TooManyBadObjectsError, match="2 objects are bad and max_entries is 1") as caught:
        await source.list(ListOptions(continue_token="t1"))
    assert (caught.value.count, caught.value.limit) == (2, 1)
    await source.list(FIRST)
    assert not quarantine.overfull
    await receive(source)
    assert quarantine.overfull
    await source.list(FIRST)
    assert not quarantine.overfull


async def test_too_many_bad_objects_refuse_a_streaming_list_too():
    source = degraded(
        events=[bad("a"), bad("b"), Bookmark("7", initial_events_end=True)], quarantine=Quarantine(max_entries=1)
    )
    with pytest.raises(TooManyBadObjectsError):
        await receive(source, streaming=True)


async def test_long_pages_let_others_have_a_turn(monkeypatch):
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def slow(obj: KubeObject) -> int:
        clock.append(clock[-1] + 0.001)
        return 1

    clock = [0.0]
    monkeypatch.setattr(
        "informer.degraded.wrapper.Slices",
        functools.partial(__import__("informer._slices", fromlist=["Slices"]).Slices, clock=lambda: clock[-1]),
    )
    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    before = turns
    await degraded([widget(f"w{i}") for i in range(100)], decode=slow).list(FIRST)
    task.cancel()
    assert turns - before >= 20


async def test_leaving_the_watch_leaves_nothing_behind():
    async def endless():
        n = 0
        while True:
            n += 1
            yield bad("x", str(n))

    source = degraded(events=endless())
    before = asyncio.all_tasks()
    async with source.watch(WatchOptions(resource_version="1")) as events:
        await anext(events)
        assert len(asyncio.all_tasks()) == len(before) + 1
    assert asyncio.all_tasks() == before
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_cancelled_watch_ends_at_once_and_says_cancelled():
    async def silent():
        await asyncio.Event().wait()
        yield

    before = asyncio.all_tasks()
    task = asyncio.create_task(receive(degraded(events=silent())))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == before


async def test_error_of_the_body_comes_out_as_it_is():
    with pytest.raises(ApiError, match="410"):
        async with degraded(events=[]).watch(WatchOptions(resource_version="1")):
            raise ApiError("gone", status=410)


async def test_the_fix_command_heals_and_the_object_comes_in_by_itself():
    """When the command's placeholders are filled in and it is run, the object should come out of the quarantine by a watch."""
    fake = FakeListerWatcher(WIDGETS)
    fake.create(
        "a", {"limits": {"example.test/gpu": "two"}, "groups": [{"wait": "1m"}, {"wait": 0}], "drainTimeout": "1"}
    )
    all_checks = [DURATION, checks.quantity("spec.limits[*]"), checks.duration("spec.groups[*].wait")]
    source = DegradedListerWatcher(fake, checks=all_checks)
    page = await source.list(FIRST)
    (command,) = source.quarantine["default/a"].fix_commands()
    filled = command.replace("<duration, e.g. 10m>", "10m").replace("<quantity, e.g. 500m>", "2")
    words = shlex.split(filled)
    async with source.watch(WatchOptions(resource_version=page.resource_version)) as events:
        fake.cluster.patch(WIDGETS, words[3], json.loads(words[-1]), namespace=words[5])
        healed = await anext(events)
    assert isinstance(healed, Item)
    assert healed.object.to_dict()["spec"] == {
        "limits": {"example.test/gpu": "2"},
        "groups": [{"wait": "1m"}, {"wait": "10m"}],
        "drainTimeout": "10m",
    }
    assert len(source.quarantine) == 0
    assert (fake.count("list"), fake.count("watch")) == (1, 1)


async def test_nothing_of_a_secret_leaks(caplog):
    """When a Secret is bad, its values should stand in no log, repr, exception or command."""
    planted = "cGxhbnRlZA=="
    secrets = Resource.parse("secrets.v1")

    def decode(obj: KubeObject) -> None:
        raise ValueError(f"bad value {obj['data']}")

    def own(obj: KubeObject) -> list[Problem]:
        return [Problem(("data", "password"), json.dumps(obj["data"]["password"]), f"is {planted}", f"not {planted}")]

    raw = json.dumps(
        {
            "metadata": {
                "name": "s",
                "namespace": "n",
                "uid": "u",
                "resourceVersion": "1",
                "annotations": {"applied": planted},
            },
            "data": {"password": planted},
        }
    ).encode()
    obj = KubeObject.parse(raw)
    item = Item(obj.key, obj.uid, obj.resource_version, {}, obj)
    source = DegradedListerWatcher(
        Scripted([item], [item], events=[item], resource=secrets),
        decode=decode,
        checks=[own, checks.duration("data.password")],
        quarantine=Quarantine(max_entries=0),
    )
    seen: list[object] = []
    with source.quarantine.subscribe(seen.append), caplog.at_level(0):
        with pytest.raises(TooManyBadObjectsError) as caught:
            await source.list(FIRST)
        seen += await receive(source)
    entry = source.quarantine["n/s"]
    with pytest.raises(Exception, match="sensitive") as refused:
        entry.to_dict()
    texts = [
        repr(seen),
        str(seen),
        repr(source.quarantine),
        str(caught.value),
        str(refused.value),
        entry.summary,
        *entry.fix_commands(),
    ]
    texts += [str(record.__dict__) + record.getMessage() for record in caplog.records]
    assert len(caplog.records) == 1
    assert not [text for text in texts if planted in text]
    assert entry.problems[0].path_text == "data.password"


@frozen
class _Other:
    resource_version: str


class Proxy:
    """Hands on every attribute, and hides one object."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def list(self, options: ListOptions) -> Page[KubeObject]:
        page = await self._inner.list(options)
        return evolve(page, items=[item for item in page.items if not item.key.endswith("/hidden")])


@pytest.mark.parametrize("proxied", [False, True])
async def test_real_source_looks_at_the_fields_while_it_reads_the_head(proxied, monkeypatch):
    """When the source can read the checked fields in its own pass, good objects should not be passed over again."""
    passes: list[bytes] = []
    original = Projection.passes
    monkeypatch.setattr(Projection, "passes", lambda self, raw: passes.append(raw) or original(self, raw))
    async with FakeApiServer([WIDGETS]) as server, server.api_client() as api:
        for name, spec in (("a", {"drainTimeout": "1m"}), ("b", {"drainTimeout": "1"}), ("c", {}), ("hidden", {})):
            server.create(WIDGETS, {"metadata": {"name": name, "namespace": "team-a"}, "spec": spec})
        source = ApiListerWatcher(api, WIDGETS)
        judged = DegradedListerWatcher(Proxy(source) if proxied else source, checks=[DURATION])
        page = await judged.list(FIRST)
        assert shape(page.items) == (["+a", "-b", "+c"] if proxied else ["+a", "-b", "+c", "+hidden"])
        assert len(passes) == (3 if proxied else 1)
        assert source._identify.projection is None, "another wrapper over the same source has other checks"
        async with judged.watch(WatchOptions(resource_version=page.resource_version)) as events:
            server.update(WIDGETS, server.get(WIDGETS, "b", namespace="team-a") | {"spec": {"drainTimeout": "5m"}})
            assert shape([await anext(events)]) == ["+b"]
        assert len(passes) == (4 if proxied else 1)


async def test_unknown_events_pass():
    """When a source of one's own yields something else, it should pass unchanged."""
    event = _Other("5")
    assert await receive(degraded(events=[event])) == [event]


def test_transitions_are_words():
    assert [str(t) for t in Transition] == ["added", "changed", "recovered", "deleted"]
