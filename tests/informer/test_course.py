"""`informer._course`: the table of list, watch and relist, row by row."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from informer._course import SHORT_WATCHES, Course, Next, Phase, is_decimal
from informer.errors import ApiError, InformerError, ItemTooLargeError, StreamBrokenError
from informer.listerwatcher import ListOptions

EXPIRED = ApiError("too old", status=410, reason="Expired")
EXPIRED_IN_STREAM = ApiError("too old", reason="Gone")
TOO_LARGE = ApiError("x", status=504, reason="Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
GONE_KIND = ApiError("the server could not find the requested resource", status=404, reason="NotFound")


def synced(version: str = "40", *, streaming: bool = False) -> Course:
    course = Course("widgets.v1.example.test", streaming=streaming)
    course.published(version)
    return course


def _paged(course: Course) -> None:
    course.paged = True
    course.published("40")


# ---------------------------------------------------------------------- what a LIST asks for


@pytest.mark.parametrize(
    ("lead_up", "expected"),
    [
        (lambda c: None, ListOptions(resource_version="0", limit=500)),
        (lambda c: c.published("40"), ListOptions(resource_version="40", limit=None)),
        (lambda c: (c.published("40"), c.advance("abc-7")), ListOptions(resource_version="abc-7", limit=None)),
        (_paged, ListOptions(resource_version="40", limit=500)),
        (lambda c: (c.published("40"), c.refused(Phase.WATCH, EXPIRED)), ListOptions(resource_version="", limit=500)),
        (lambda c: (c.published("40"), c.refused(Phase.LIST, TOO_LARGE)), ListOptions(resource_version="", limit=500)),
        (lambda c: (c.published("40"), c.refused(Phase.WATCH, GONE_KIND)), ListOptions(resource_version="", limit=500)),
        # Before the first sync `0` may be expired as well.
        (lambda c: c.refused(Phase.LIST, EXPIRED), ListOptions(resource_version="", limit=500)),
        (lambda c: c.refused(Phase.LIST, GONE_KIND), ListOptions(resource_version="", limit=500)),
        (lambda c: (c.refused(Phase.LIST, EXPIRED), c.published("50")), ListOptions(resource_version="50", limit=None)),
    ],
    ids=["first", "synced", "advanced", "paged", "expired", "too large", "404", "expired 0", "404 at first", "mended"],
)
def test_list_options(lead_up: Callable[[Course], object], expected: ListOptions) -> None:
    """When a complete LIST is due, it should ask for `0` before the first sync only, then "not older", or the newest."""
    course = Course("x")
    lead_up(course)
    assert course.list_options() == expected


def test_versions_never_go_back_to_nothing() -> None:
    """When an event or a list has no version, the last one should stay; any other text is taken as it is."""
    course = synced("40")
    for version, after in [("", "40"), ("39", "39"), ("abc-7", "abc-7"), ("", "abc-7"), ("0", "0")]:
        course.advance(version)
        assert course.version == after
    course.published("")
    assert course.version == "0"
    course.bookmarked("")
    assert course.version == "0"


# ---------------------------------------------------------------------- refusals

REFUSALS = [
    # (what was refused, how, what comes next, is there a delay, does the version stay)
    *[
        (Phase.WATCH, ApiError("x", status=status), Phase.WATCH, True, True)
        for status in (0, 401, 403, 405, 429, 500, 502, 503, 504)
    ],
    (Phase.WATCH, ApiError("x", status=504, reason="Timeout"), Phase.WATCH, True, True),
    (Phase.WATCH, OSError("refused"), Phase.WATCH, True, True),
    (Phase.WATCH, TimeoutError(), Phase.WATCH, True, True),
    (Phase.WATCH, ValueError("a strict decoder"), Phase.WATCH, True, True),
    (Phase.WATCH, ApiError("x", status=500, reason="StorageReadError"), Phase.LIST, True, True),
    (Phase.WATCH, EXPIRED, Phase.LIST, False, True),
    (Phase.WATCH, EXPIRED_IN_STREAM, Phase.LIST, False, True),
    (Phase.WATCH, TOO_LARGE, Phase.LIST, False, True),
    (Phase.WATCH, GONE_KIND, Phase.LIST, True, False),
    (Phase.WATCH, StreamBrokenError("x"), Phase.LIST, True, True),
    # The event cannot be skipped unseen.
    (Phase.WATCH, ItemTooLargeError("x"), Phase.LIST, True, True),
    # A version that is not even understood.
    (Phase.WATCH, ApiError("x", status=400), Phase.LIST, True, True),
    (Phase.WATCH, ApiError("x", status=422), Phase.LIST, True, True),
    *[
        (Phase.LIST, ApiError("x", status=status), Phase.LIST, True, True)
        for status in (0, 400, 401, 403, 422, 429, 500, 503, 504)
    ],
    (Phase.LIST, ItemTooLargeError("x"), Phase.LIST, True, True),
    (Phase.LIST, OSError("refused"), Phase.LIST, True, True),
    (Phase.LIST, EXPIRED, Phase.LIST, False, True),
    (Phase.LIST, TOO_LARGE, Phase.LIST, False, True),
    (Phase.LIST, GONE_KIND, Phase.LIST, True, False),
    (Phase.PROBE, ApiError("x", status=503), Phase.WATCH, True, True),
    (Phase.PROBE, ApiError("x", status=403), Phase.WATCH, True, True),
    (Phase.PROBE, GONE_KIND, Phase.LIST, True, False),
]


@pytest.mark.parametrize(("phase", "error", "after", "delayed", "kept"), REFUSALS)
def test_refused(phase: Phase, error: Exception, after: Phase, delayed: bool, kept: bool) -> None:
    """When a request is refused, only what a LIST can mend should lead to one, and only a lost kind should lose the version."""
    course = synced("40")
    assert course.refused(phase, error) == Next(after, error if delayed else None)
    assert course.version == ("40" if kept else "")
    assert course.synced
    not_understood = phase is Phase.WATCH and isinstance(error, ApiError) and error.status in (400, 422)
    assert course.newest == (not kept or not delayed or not_understood)


@pytest.mark.parametrize(
    ("error", "after", "delayed", "streams_later"),
    [
        *[(ApiError("x", status=status), Phase.LIST, False, False) for status in (400, 405, 422)],
        *[(ApiError("x", status=status), Phase.STREAM, True, True) for status in (0, 401, 429, 503, 504)],
        # Who may list but not watch must not be shut out, nor a server that trips over it; either can be mended later.
        *[(ApiError("x", status=status), Phase.LIST, True, True) for status in (403, 500, 501)],
        (OSError("refused"), Phase.STREAM, True, True),
        (EXPIRED, Phase.STREAM, False, True),
        (TOO_LARGE, Phase.STREAM, False, True),
        (GONE_KIND, Phase.STREAM, True, True),
        (StreamBrokenError("x"), Phase.STREAM, True, True),
    ],
)
def test_refused_streaming_list(error: Exception, after: Phase, delayed: bool, streams_later: bool) -> None:
    """When a streaming list is refused as such, it should LIST at once and remember; otherwise stream again."""
    course = Course("x", streaming=True)
    assert course.complete_list is Phase.STREAM
    assert course.refused(Phase.STREAM, error) == Next(after, error if delayed else None)
    assert course.streaming is streams_later


def test_410_at_once_only_the_first_time() -> None:
    """When 410 comes again before a watch was healthy, each further LIST should take a step of the backoff."""
    course = synced()
    assert course.refused(Phase.WATCH, EXPIRED).error is None
    course.published("50")
    assert course.refused(Phase.WATCH, EXPIRED).error is EXPIRED
    assert course.refused(Phase.LIST, TOO_LARGE).error is TOO_LARGE
    course.published("60")
    course.healthy()
    assert course.refused(Phase.WATCH, EXPIRED_IN_STREAM).error is None


# ---------------------------------------------------------------------- ends


def test_short_empty_watches() -> None:
    """When three watches in a row end at once and empty, it should LIST; before that WATCH again, each time with a delay."""
    course = synced()
    for _round in range(2):
        for after in (Phase.WATCH, Phase.WATCH, Phase.LIST):
            phase, error = course.watch_ended(0.05, delivered=False)
            assert phase is after
            assert isinstance(error, ApiError)
            assert error.reason == "ShortWatch"
    assert course.list_options().resource_version == ""


@pytest.mark.parametrize("trouble", ["short watches", "a broken event"])
def test_a_list_that_does_not_help(trouble: str) -> None:
    """When no watch gets past a version, it should LIST from there, and ask for the newest state if that led right back."""

    def stumble() -> Next:
        if trouble == "a broken event":
            return course.refused(Phase.WATCH, StreamBrokenError("x", reason="UnreadableEvent"))
        return [course.watch_ended(0.0, delivered=False) for _ in range(SHORT_WATCHES)][-1]

    course = synced()
    assert stumble().phase is Phase.LIST
    assert course.list_options().resource_version == "40"
    course.published("40")
    assert stumble().phase is Phase.LIST
    assert course.list_options().resource_version == ""
    course.published("41")
    assert stumble().phase is Phase.LIST
    assert course.list_options().resource_version == "41"


@pytest.mark.parametrize("healing", ["lived", "delivered", "list"])
def test_short_watches_are_counted_in_a_row(healing: str) -> None:
    """When something came, or a watch lived a second, or a list was published, counting should start anew."""
    course = synced()
    for _ in range(2):
        course.watch_ended(0.0, delivered=False)
    if healing == "list":
        course.published("41")
    else:
        lived, delivered = (1.0, False) if healing == "lived" else (0.0, True)
        assert course.watch_ended(lived, delivered=delivered) == Next(Phase.WATCH)
    for _ in range(2):
        assert course.watch_ended(0.99, delivered=False).phase is Phase.WATCH
    assert course.watch_ended(0.99, delivered=False).phase is Phase.LIST


@pytest.mark.parametrize(
    ("bookmarks_before", "watches", "after"),
    [
        pytest.param(True, [(300, False)], Phase.PROBE, id="a whole life"),
        pytest.param(True, [(300, True)], Phase.WATCH, id="something came"),
        pytest.param(True, [(60, False)], Phase.WATCH, id="cut early"),
        pytest.param(True, [(60, False)] * 5, Phase.PROBE, id="cut early again and again"),
        pytest.param(True, [(60, False)] * 4 + [(10, True), (60, False)], Phase.WATCH, id="something came in between"),
        pytest.param(False, [(300, False)], Phase.WATCH, id="1.20 sends no bookmark while nothing changes"),
    ],
)
def test_deaf_watches(bookmarks_before: bool, watches: list[tuple[float, bool]], after: Phase) -> None:
    """When watches were deaf for a whole life on a server that sends bookmarks, it should ask for the server's version.

    Whether the server ended them or a proxy broke them.
    """
    for ends in (
        lambda course, delivered: course.watch_ended(60.0, delivered=delivered),
        lambda course, _: broken(course),
    ):
        course = synced()
        if bookmarks_before:
            course.bookmarked("41")
        for lived, delivered in watches:
            course.watched(lived, delivered=delivered)
            last = ends(course, delivered)
        assert last.phase is after
        assert course.probed("41").phase is Phase.WATCH
        course.watched(60.0, delivered=False)
        assert ends(course, False).phase is Phase.WATCH


def broken(course: Course) -> Next:
    return course.refused(Phase.WATCH, ApiError("reset", reason="ConnectionError"))


@pytest.mark.parametrize(
    ("ours", "theirs", "restored"),
    [
        ("1000", "999", True),
        ("999", "1000", False),
        ("1000", "1000", False),
        ("1000", "abc", False),
        ("abc", "999", False),
        ("1000", "", False),
        ("1000", "0999", False),
        ("1000", "-5", False),
    ],
)
def test_probe(ours: str, theirs: str, restored: bool) -> None:
    """When the server's version is lower than ours, it was restored: all of the newest state should be listed."""
    course = synced(ours)
    assert course.probed(theirs) == Next(Phase.LIST if restored else Phase.WATCH)
    if restored:
        assert course.list_options() == ListOptions(resource_version="", limit=500)
    else:
        assert course.version == ours


def test_unmarked_streams(caplog: pytest.LogCaptureFixture) -> None:
    """When two streaming lists end without the mark, it should use LIST for good and say so once."""
    course = Course("widgets", streaming=True)
    course.stream_ended_unmarked()
    assert course.streaming
    course.stream_ended_unmarked()
    course.stream_ended_unmarked()
    course.published("5")
    assert course.complete_list is Phase.LIST
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "widgets: two streams ended before their list was complete" in caplog.text


def test_a_marked_stream_forgives() -> None:
    """When a streaming list was complete between two that were not, it should go on streaming."""
    course = Course("widgets", streaming=True)
    course.stream_ended_unmarked()
    course.published("5")
    course.stream_ended_unmarked()
    assert course.complete_list is Phase.STREAM


@pytest.mark.parametrize(
    ("phase", "verb"), [(Phase.LIST, "list"), (Phase.PROBE, "list"), (Phase.WATCH, "watch"), (Phase.STREAM, "watch")]
)
def test_verbs(phase: Phase, verb: str) -> None:
    """When a phase is counted, it should be under the server's verb."""
    assert phase.verb == verb


@pytest.mark.parametrize(
    ("version", "decimal"),
    [
        ("1", True),
        ("999999", True),
        ("1" * 1000, True),
        ("", False),
        ("0", False),
        ("007", False),
        ("-1", False),
        ("+1", False),
        ("1.0", False),
        (" 1", False),
        ("1\n", False),
        ("abc-7", False),
        ("١٢", False),
        ("²", False),
        ("1_0", False),
        ("1" * 1001, False),
    ],
)
def test_decimals(version: str, decimal: bool) -> None:
    """When a version is to be ordered, it should be a plain decimal."""
    assert is_decimal(version) is decimal


def test_errors_are_ours() -> None:
    """When a watch was short, the error should be one of ours, so that it is logged without a traceback."""
    assert isinstance(synced().watch_ended(0.0, delivered=False).error, InformerError)
