"""`informer._scan`: finding where items begin and end by brackets alone."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import _scan
from informer._scan import ScanError, elements, members

TEXT = st.text(alphabet=st.one_of(st.sampled_from('{}[],:"\\ \n\u2028é'), st.characters(exclude_categories=["Cs"])))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
SPACE = st.text(alphabet=" \t\r\n", max_size=3)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """The JSON text of a value with white space wherever it is allowed, and either way of escaping."""

    def space() -> str:
        return draw(SPACE)

    if isinstance(value, dict):
        inner = ",".join(
            f"{space()}{draw(written(name))}{space()}:{space()}{draw(written(one))}{space()}"
            for name, one in value.items()
        )
        return "{" + (inner or space()) + "}"
    if isinstance(value, list):
        return "[" + (",".join(f"{space()}{draw(written(one))}{space()}" for one in value) or space()) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@given(st.data(), st.dictionaries(TEXT, VALUES, max_size=5), SPACE)
def test_members_of_valid_json(data: st.DataObject, value: dict[str, Any], around: str) -> None:
    """When an object is valid JSON, its members should be those of a real parser."""
    text = around + data.draw(written(value)) + around
    assert {name: json.loads(bytes(raw)) for name, raw in members(text.encode()).items()} == value


@given(st.data(), st.lists(VALUES, max_size=5), SPACE)
def test_elements_of_valid_json(data: st.DataObject, value: list[Any], around: str) -> None:
    """When a list is valid JSON, its elements should be those of a real parser."""
    text = around + data.draw(written(value)) + around
    assert [json.loads(bytes(raw)) for raw in elements(text.encode())] == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[],:"\\a1 ', max_size=30).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    """When the bytes are anything at all, it should return or raise ScanError, and nothing else."""
    for look in (members, elements):
        try:
            look(data)
        except ScanError as error:
            assert str(error)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_kinds_of_buffers(make: Any) -> None:
    """When the data come as any kind of buffer, it should give views that agree."""
    assert [bytes(one) for one in elements(make(b'[1, {"a": [2]}, "]"]'))] == [b"1", b'{"a": [2]}', b'"]"']


HOSTILE = {
    "NaN": b"NaN",
    "an infinite number": b"1e400",
    "a lone surrogate": b'"\\ud800"',
    "invalid UTF-8": b'"\xff\xfe"',
    "a line break in a string": b'"a\nb"',
    "a NUL": b'"\x00"',
    "an unknown escape": b'"\\q"',
    "brackets in a string": b'"}]{["',
    "a quote in a string": b'"\\"}"',
    "a backslash at the end": b'"\\\\"',
    "deep nesting": b"[" * 100_000 + b"]" * 100_000,
    "mixed deep nesting": b'{"a":[' * 50_000 + b"]}" * 50_000,
    "garbage words": b"undefined",
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_neighbours_of_hostile_values(value: bytes) -> None:
    """When one value is no valid JSON, it should come out as it is, and its neighbours with it."""
    assert [bytes(one) for one in elements(b"[1," + value + b",3]")] == [b"1", value, b"3"]
    found = members(b'{"a":1,"b":' + value + b',"c":3}')
    assert {name: bytes(one) for name, one in found.items()} == {"a": b"1", "b": value, "c": b"3"}


@pytest.mark.parametrize(
    ("look", "data"),
    [
        (elements, b""),
        (elements, b"  "),
        (elements, b"{}"),
        (elements, b"1"),
        (elements, b"["),
        (elements, b"[1"),
        (elements, b"[1]]"),
        (elements, b"[1] x"),
        (elements, b"[[1]"),
        (elements, b"[(1})]"),
        (elements, b'["abc]'),
        (elements, b'["abc\\"]'),
        (members, b"[]"),
        (members, b"{"),
        (members, b'{"a"}'),
        (members, b'{"a" 1}'),
        (members, b"{a:1}"),
        (members, b"{1:1}"),
        (members, b'{"a":1,,"b":2}'),
        (members, b'{"a":1]'),
        (members, b'{"a'),
    ],
)
def test_refused(look: Any, data: bytes) -> None:
    """When the brackets do not match, or this is something else, it should say so."""
    with pytest.raises(ScanError):
        look(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a":1,"a":2}', {"a": b"2"}),
        (b'{"\\u006eame":"x"}', {"name": b'"x"'}),
        (b'{"na\\/me":1}', {"na/me": b"1"}),
        (b'{"\\q":1}', {"\\q": b"1"}),
        (b'{"\xff":1,"name":2}', {"\ufffd": b"1", "name": b"2"}),
        (b'{"a"' + b" " * 500 + b":\t1}", {"a": b"1"}),
        (b'{"a":}', {"a": b""}),
    ],
)
def test_names(data: bytes, expected: dict[str, bytes]) -> None:
    """When a name is unusual, it should be read as a parser reads it, and the last of two should count."""
    assert {name: bytes(raw) for name, raw in members(data).items()} == expected


@pytest.mark.parametrize("closed", [True, False])
def test_long_strings(closed: bool) -> None:
    """When a string has a million escapes, it should take memory and time in proportion to it and not many times more."""
    data = b'["' + b"\\n" * 1_000_000 + (b'"]' if closed else b"")
    tracemalloc.start()
    started = time.process_time()
    try:
        if closed:
            assert len(elements(data)) == 1
        else:
            with pytest.raises(ScanError):
                elements(data)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(data)
        # A wide bound: only quadratic work could cross it.
        assert time.process_time() - started < 10
    finally:
        tracemalloc.stop()


def test_views_pin_no_copy() -> None:
    """When a page is scanned, its elements should be views of it, not copies."""
    page = bytearray(b'[{"a":1},{"b":2}]')
    first, _ = elements(page)
    page[2:5] = b'"z"'
    assert bytes(first) == b'{"z":1}'
    assert isinstance(_scan.members(first)["z"], memoryview)
