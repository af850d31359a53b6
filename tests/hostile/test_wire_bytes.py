"""Whatever bytes come instead of lists, watch lines, refusals and headers: documented errors, and no neighbour lost."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from informer import (
    ApiError,
    ApiListerWatcher,
    Bookmark,
    Deleted,
    Event,
    Item,
    KubeObject,
    ListOptions,
    Page,
    WatchOptions,
    Withheld,
)
from informer.testing.virtual import run

from .bytes import HOSTILE_ITEM, PLACES, POISON, WIDGETS, Client, item, mutated, page

hostile = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
GOOD = [item(f"g{n}") for n in range(3)]
GOOD_NAMES = ["g0", "g1", "g2"]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="informer")


def listed(body: bytes, **client: object) -> Page[KubeObject]:
    async def main() -> Page[KubeObject]:
        return await ApiListerWatcher(Client(body, **client), WIDGETS).list(ListOptions())  # type: ignore[arg-type]

    return run(main())


def watched(
    body: bytes, *, chunk: int = 1 << 20, size: int = 32 << 20
) -> tuple[list[Event[KubeObject]], ApiError | None]:
    """The events until the stream ends, and how it does."""
    found: list[Event[KubeObject]] = []

    async def main() -> None:
        source = ApiListerWatcher(Client(body, chunk=chunk), WIDGETS, max_object_bytes=size)
        async with source.watch(WatchOptions(resource_version="1")) as events:
            async for event in events:
                found.append(event)  # noqa: PERF401 - kept when the stream raises

    try:
        run(main())
    except ApiError as error:
        return found, error
    return found, None


def good_names(found: Sequence[object]) -> list[str]:
    return [one.object.name for one in found if isinstance(one, Item) and one.object.name.startswith("g")]


def sane(error: ApiError) -> None:
    """One printable line of bounded length, with a status that is one."""
    text = str(error)
    assert text.isprintable(), text
    assert len(text) < 1300
    assert error.status == 0 or 100 <= error.status <= 599
    assert error.retry_after is None or 0 <= error.retry_after <= 10**9
    repr(error)


# ---------------------------------------------------------------- lists


@given(st.lists(HOSTILE_ITEM, min_size=1, max_size=3), st.permutations(range(6)))
@hostile
def test_neighbours_in_a_list(items: list[bytes], order: list[int]):
    """When some items of a list are hostile but have their brackets in order, the others should all be there."""
    mixed = [*GOOD, *items]
    body = page([mixed[n] for n in order if n < len(mixed)])
    found = listed(body)
    assert sorted(good_names(found.items)) == GOOD_NAMES
    there = [one for one in items if one]
    assert len(found.items) + found.unidentifiable >= len(GOOD) + len(there)
    assert found.resource_version == "5"


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("poison", POISON, ids=lambda poison: ascii(poison[:12]))
def test_each_poison(poison: bytes, where: str):
    """When an item has any poison in any place, it should be an object, be withheld or be counted, alone."""
    bad = item("h", poison=poison, where=where)
    found = listed(page([GOOD[0], bad, GOOD[1]]))
    assert good_names(found.items) == ["g0", "g1"]
    others = [one for one in found.items if not (isinstance(one, Item) and one.object.name.startswith("g"))]
    assert len(others) + found.unidentifiable == (1 if bad or where != "whole" else others == [])
    for one in others:
        if isinstance(one, Withheld):
            assert one.entry.problems
            str(one.entry.problems[0])
        else:
            try:
                one.object.to_dict()
            except ValueError as error:
                assert len(str(error)) < 500
    events, error = watched(
        b'{"type":"ADDED","object":' + bad + b"}\n" + b'{"type":"ADDED","object":' + GOOD[0] + b"}\n"
    )
    if error is None:
        assert good_names(events)[-1:] == ["g0"]
    else:
        sane(error)


@given(mutated(page(GOOD)) | st.binary(max_size=60))
@example(page(GOOD)[:-3])
@example(b"[]")
@example(b"null")
@example(b'{"items":{}}')
@example(page(GOOD, b"5"))
@example(page(GOOD, b"null"))
@hostile
def test_any_list(body: bytes):
    """When a LIST is answered by any bytes, it should be a page of usable items, or an ApiError in one line."""
    try:
        found = listed(body)
    except ApiError as error:
        sane(error)
        return
    assert isinstance(found.resource_version, str)
    assert isinstance(found.continue_token, str)
    for one in found.items:
        assert one.key
        assert isinstance(one, Item | Withheld)
        assert isinstance(one.uid, str)
        assert isinstance(one.resource_version, str)


# ---------------------------------------------------------------- watches


def line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"


@given(
    st.lists(HOSTILE_ITEM, min_size=1, max_size=4),
    st.integers(1, 4000),
    st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
)
@hostile
def test_neighbours_in_a_watch(items: list[bytes], chunk: int, kind: str):
    """When some lines of a watch are hostile, what came before should be there; what comes after too, unless the stream is
    given up with an error, which leads to a LIST.
    """
    begin, end = line("ADDED", GOOD[0]), line("ADDED", GOOD[1])
    body = begin + b"".join(line(kind, one.replace(b"\n", b"")) for one in items) + end
    events, error = watched(body, chunk=max(chunk, len(body) // 500))
    assert good_names(events)[:1] == ["g0"]
    if error is None:
        assert good_names(events)[-1:] == ["g1"]
    else:
        sane(error)
        assert "g1" not in good_names(events)
    for event in events:
        assert isinstance(event, Item | Withheld | Deleted | Bookmark)
        assert event.resource_version or not isinstance(event, Bookmark)


@given(
    mutated(
        line("ADDED", GOOD[0]) + line("BOOKMARK", b'{"metadata":{"resourceVersion":"9"}}') + line("DELETED", GOOD[1])
    )
    | st.binary(max_size=80),
    st.integers(1, 50),
)
@example(b'{"type":"ERROR","object":{"kind":"Status","code":' + b"9" * 400 + b"}}\n", 50)
@example(b'{"type":"ERROR","object":{"kind":"Status","code":-7}}\n', 50)
@example(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":5}}}\n', 50)
@hostile
def test_any_stream(body: bytes, chunk: int):
    """When a WATCH is answered by any bytes in any chunks, it should be events and an end, or an ApiError in one line."""
    events, error = watched(body, chunk=chunk)
    if error is not None:
        sane(error)
    for event in events:
        assert isinstance(event, Item | Withheld | Deleted | Bookmark)


def test_a_line_too_large_among_others():
    """When one line is too large, what came before it should be there, and the error should have the name."""
    body = (
        line("ADDED", GOOD[0]) + line("ADDED", item("huge", poison=b'"' + b"x" * 5000 + b'"')) + line("ADDED", GOOD[1])
    )
    events, error = watched(body, size=2048)
    assert good_names(events) == ["g0"]
    assert error is not None
    assert "'huge'" in str(error)


# ---------------------------------------------------------------- refusals and headers

STATUS = {
    "kind": "Status",
    "message": "no",
    "reason": "Forbidden",
    "code": 403,
    "details": {"retryAfterSeconds": 3, "causes": [{"reason": "a", "message": "b"}]},
}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ANY_STATUS = st.fixed_dictionaries(
    {"kind": st.just("Status")},
    optional={
        "message": ANY_JSON,
        "reason": ANY_JSON,
        "code": ANY_JSON | st.integers(10**18, 10**30),
        "details": ANY_JSON,
    }
    | {"details": st.fixed_dictionaries({"retryAfterSeconds": ANY_JSON, "causes": ANY_JSON})},
).map(lambda value: json.dumps(value).encode())
HEADER = st.text(st.characters(max_codepoint=255), max_size=20) | st.sampled_from(
    [
        "9" * 50,
        "-1",
        "1.5",
        "Wed, 21 Oct 2015 07:28:00 GMT",
        "Wed, 99 Oct 99999 07:28:00 +9999",
        "inf",
        "nan",
        "٣",
        "0x10",
    ]
)


@given(
    st.integers(100, 599).filter(lambda status: status != 200),
    mutated(json.dumps(STATUS).encode()) | st.binary(max_size=60) | ANY_STATUS,
    st.dictionaries(st.sampled_from(["Retry-After", "Date", "Content-Type"]), HEADER),
)
@example(429, b'{"kind":"Status","details":{"retryAfterSeconds":' + b"9" * 400 + b"}}", {})
@example(500, b'{"kind":"Status","message":"a\\u001b[31m\\u202e\\nb","reason":"' + b"R" * 5000 + b'"}', {})
@example(500, b"\x1b]0;owned\x07\r\nfake log line", {})
@example(500, b"[" * 100_000, {})
@hostile
def test_any_refusal(status: int, body: bytes, headers: dict[str, str]):
    """When a request is refused by any status, body and headers, it should be an ApiError with that status, in one line."""
    with pytest.raises(ApiError) as refused:
        listed(body, status=status, headers=headers)
    sane(refused.value)
    assert refused.value.status == status
    assert isinstance(refused.value.reason, str)
    assert refused.value.expired in (True, False)
    assert refused.value.version_too_large in (True, False)
