"""`informer._wire`: bytes to items, without decoding them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import _meta, _wire
from informer._meta import Head
from informer._wire import WireError

# Each stands as `spec` of one object. The second word: does a strict JSON reader refuse the bytes of the whole page for it?
HOSTILE = {
    "NaN": b"NaN",
    "Infinity": b"[-Infinity]",
    "1e400": b"1e400",
    "a lone surrogate": b'"\\ud800"',
    "half a surrogate pair": b'"\\udc00x"',
    "invalid UTF-8": b'"\xff\xfe"',
    "a truncated character": b'"\xe6\x97"',
    "a line break in a string": b'"a\nb"',
    "a NUL in a string": b'"a\x00b"',
    "a 5,000-digit number": b"9" * 5000,
    "a number with a leading zero": b"007",
    "100,000 lists deep": b"[" * 100_000 + b"]" * 100_000,
    "100,000 objects deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a name twice": b'{"a":1,"a":2}',
    "a huge string": b'"' + b"x" * 2_000_000 + b'"',
    "an unknown escape": b'"\\q"',
    "an unknown word": b"undefined",
    "nothing": b"",
    "brackets in a string": b'"]}"',
    "null": b"null",
}
SPECS = pytest.mark.parametrize("spec", HOSTILE.values(), ids=HOSTILE)


def obj(name: str, spec: bytes = b"{}") -> bytes:
    return b'{"metadata":{"name":"%s","namespace":"team-a","uid":"u-%s","resourceVersion":"7"},"spec":%s}' % (
        name.encode(),
        name.encode(),
        spec,
    )


def page(*items: bytes) -> bytes:
    head = b'{"kind":"WidgetList","apiVersion":"example.test/v1","metadata":{"resourceVersion":"9","continue":"t"},"items":['
    return head + b",".join(items) + b"]}"


# ---------------------------------------------------------------------- lists


@pytest.mark.parametrize(
    ("body", "kind", "version", "token", "items"),
    [
        (page(), "WidgetList", "9", "t", []),
        (page(b'{"a": 1}', b"null", b"7"), "WidgetList", "9", "t", [b'{"a": 1}', b"null", b"7"]),
        (b'{"kind":"L","metadata":{"resourceVersion":"7"},"items":null}', "L", "7", "", []),
        (b'{"kind":"L","metadata":{"resourceVersion":"7"}}', "L", "7", "", None),
        (b'{"items":[]}', "", "", "", []),
        (b'{"kind":"L","metadata":null,"items":[]}', "L", "", "", []),
        (b'{"kind":"L","metadata":{"resourceVersion":null,"continue":null},"items":[]}', "L", "", "", []),
        (b'{"kind":"L","metadata":{"resourceVersion":7,"continue":1},"items":[1]}', "L", "", "", [b"1"]),
        (b'{"kind":7,"metadata":[],"items":[1]}', "", "", "", [b"1"]),
        (b'\n{ "items" : [ 1 , 2 ]\n, "kind" : "L" }\n', "L", "", "", [b"1", b"2"]),
        (b'{"kind":"L","items":[NaN,2],"metadata":{"resourceVersion":"7"}}', "L", "7", "", [b"NaN", b"2"]),
        (b'{"kind":"L","metadata":{"x":NaN},"items": null }', "L", "", "", []),
        (b'{"kind":"L","x":NaN}', "L", "", "", None),
    ],
)
def test_split_list(body: bytes, kind: str, version: str, token: str, items: list[bytes] | None) -> None:
    """When a list answer is split, it should give its head and its items' bytes, whichever way it was split."""
    for data in (body, bytearray(body)):
        got = _wire.split_list(data)
        assert (got.kind, got.resource_version, got.continue_token) == (kind, version, token)
        assert (None if got.items is None else [bytes(one) for one in got.items]) == items


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"[1]", b'"x"', b"<html></html>", b'{"items":[', b'{"items":[{]}', b'{"items":{}}', b"{}x"],
)
def test_no_list(body: bytes) -> None:
    """When the body is no JSON object or breaks off, it should be refused, without quoting what may be an object."""
    with pytest.raises(WireError, match="the answer is no JSON list"):
        _wire.split_list(body)


@SPECS
def test_neighbours_in_a_list(spec: bytes) -> None:
    """When one item of a page is hostile, its neighbours should come out as they are, and so should it."""
    items = [obj("a"), obj("bad", spec), obj("c")]
    got = _wire.split_list(page(*items)).items
    assert got is not None
    assert [bytes(one) for one in got] == items
    # It can be told apart by what it is called.
    assert _meta.salvage_head(bytes(got[1])) == Head("bad", "team-a", "u-bad", "7")


ANY_VALUE = st.recursive(
    st.one_of(
        st.sampled_from([value for name, value in HOSTILE.items() if len(value) < 10_000 and name != "nothing"]),
        st.text(max_size=8).map(lambda text: json.dumps(text).encode()),
        st.integers().map(lambda number: str(number).encode()),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: b"[" + b" ,".join(parts) + b"]"),
        st.lists(inner, max_size=3).map(lambda parts: b"{" + b",\n".join(b'"k":' + part for part in parts) + b"}"),
    ),
    max_leaves=6,
)


@given(st.lists(ANY_VALUE, max_size=4), st.integers(0, 4))
def test_any_page(values: list[bytes], at: int) -> None:
    """When several items of a page are hostile, every one should still stand where it stood."""
    values = [*values[:at], b'{"metadata":{"name":"good"}}', *values[at:]]
    got = _wire.split_list(page(*values)).items
    assert got is not None
    assert [bytes(one) for one in got] == values


# ---------------------------------------------------------------------- events


@SPECS
def test_hostile_event(spec: bytes) -> None:
    """When the object of an event is hostile, its type and its bytes should come out."""
    kind, raw = _wire.split_event(b'{"type":"MODIFIED","object":' + obj("bad", spec) + b"}")
    assert (kind, bytes(raw)) == ("MODIFIED", obj("bad", spec))


@pytest.mark.parametrize(
    ("line", "kind", "raw"),
    [
        (b'{"type":"ADDED","object":{}}', "ADDED", b"{}"),
        (b' {"object": {"a": 1} , "type": "ADDED"}\r', "ADDED", b'{"a": 1}'),
        (b'{"type":"SYNC","object":null,"more":1}', "SYNC", b"null"),
        (b'{"type":"ADDED","object":NaN}', "ADDED", b"NaN"),
    ],
)
def test_split_event(line: bytes, kind: str, raw: bytes) -> None:
    """When a line is an event, it should give type and object."""
    got = _wire.split_event(line)
    assert (got[0], bytes(got[1])) == (kind, raw)


OBJECT = b'{"metadata":{"name":"a"}}'


@pytest.mark.parametrize(
    ("line", "guess"),
    [
        (b'{"type":"MODIFIED","object":' + OBJECT + b"}", OBJECT),
        (b'{"type":"ADDED","object":' + OBJECT + b"}", OBJECT),
        (b'{"type":"DELETED","object":' + OBJECT + b"}", None),
        (b'{"type":"ADDED","object":' + OBJECT + b"}\r", None),
        (b'{"type": "ADDED","object":' + OBJECT + b"}", None),
        (b'{"object":' + OBJECT + b',"type":"ADDED"}', None),
        (b'{"type":"ADDED","object":null}', None),
    ],
)
def test_guess_object(line: bytes, guess: bytes | None) -> None:
    """When a line looks as the API server writes it, its object should be cut out; of any other nothing is guessed."""
    around = b"}}\n" + line + b"}}\n"
    assert _wire.guess_object(line, 0, len(line)) == guess
    assert _wire.guess_object(around, 3, 3 + len(line)) == guess


PIECES = [
    b'{"type":"ADDED","object":',
    b'{"type":"MODIFIED","object":',
    OBJECT,
    b"{}",
    b"{",
    b"}",
    b"}}",
    b',"x":',
    b'"',
    b" ",
    b"1",
]


@given(st.sampled_from(PIECES[:2]), st.lists(st.sampled_from(PIECES), max_size=6))
def test_any_guess(opening: bytes, pieces: list[bytes]) -> None:
    """When a guessed object can be read, it should be what splitting the line gives."""
    line = b"".join((opening, *pieces))
    guess = _wire.guess_object(line, 0, len(line))
    if guess is not None and _meta.read_head(guess) is not None:
        kind, raw = _wire.split_event(line)
        assert (kind.encode() in opening, bytes(raw)) == (True, guess)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"<html>",
        b"{}",
        b'{"type":"ADDED"}',
        b'{"object":{}}',
        b'{"type":7,"object":{}}',
        b'{"type":"\xff","object":{}}',
        b'{"type":"ADDED","object":{"secret":"hunter2"',
        b'{"kind":"Status","code":500,"message":"x"}',
        b"[]",
    ],
)
def test_no_event(line: bytes) -> None:
    """When a line is no event, it should be refused, without quoting what may be an object."""
    with pytest.raises(WireError, match="a line of the watch") as caught:
        _wire.split_event(line)
    assert "hunter2" not in str(caught.value)


# ---------------------------------------------------------------------- text, single members, Status


@pytest.mark.parametrize(
    ("raw", "text", "strict"),
    [
        (b'{"a":"x"}', None, None),
        ('{"a":"日本語 \u2028 é"}'.encode(), None, None),
        (b'{"a":"\xff"}', "invalid UTF-8: byte 0xff at offset 6", None),
        (b'{"a":NaN}', None, "not valid JSON"),
        (b'{"a":"\\ud800"}', None, "not valid JSON"),
        (b"[" * 100_000 + b"]" * 100_000, None, "nested too deeply"),
    ],
    ids=["ASCII", "UTF-8", "invalid UTF-8", "NaN", "lone surrogate", "deep"],
)
def test_problems_of_text(raw: bytes, text: str | None, strict: str | None) -> None:
    """When bytes are no JSON text, it should say why."""
    assert _wire.text_problem(raw) == text
    assert (_wire.json_problem(raw) or "").startswith(strict or "")
    assert (_wire.json_problem(raw) is None) == (strict is None)


@SPECS
def test_decoding_hostile_bytes(spec: bytes) -> None:
    """When a hostile object is decoded, it should give a value or a ValueError, never a crash; its metadata stay readable."""
    raw = obj("bad", spec)
    for decode in (_wire.decode_json, lambda one: _wire.decode_member(one, "spec")):
        try:
            decode(raw)
        except ValueError as error:
            assert len(str(error)) < 300
    try:
        assert _wire.decode_member(raw, "metadata")["name"] == "bad"
    except ValueError:
        assert _wire.json_problem(raw)


def test_decode_member() -> None:
    """When one member is asked for, the others should not be decoded; an absent one is a KeyError."""
    assert _wire.decode_member(b'{"a":1e400,"b":[1]}', "b") == [1]
    with pytest.raises(KeyError):
        _wire.decode_member(b"{}", "a")
    with pytest.raises(ValueError, match="not readable as JSON"):
        _wire.decode_member(b"[]", "a")


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"kind": "Status", "message": "m", "reason": "Forbidden", "code": 403},
            _wire.Status("m", "Forbidden", 403),
        ),
        (
            {
                "kind": "Status",
                "details": {"retryAfterSeconds": 5, "causes": [{"reason": "R", "message": "M", "x": 1}, 7]},
            },
            _wire.Status(causes=({"reason": "R", "message": "M"},), retry_after=5.0),
        ),
        ({"kind": "Status", "message": None, "reason": 7, "code": "500", "details": None}, _wire.Status()),
        ({"kind": "Status", "details": {"retryAfterSeconds": 0, "causes": {}}}, _wire.Status()),
        ({"kind": "Status", "details": {"retryAfterSeconds": True}}, _wire.Status()),
        ({"kind": "Pod", "message": "m"}, None),
        ([], None),
    ],
)
def test_read_status(body: Any, expected: _wire.Status | None, indent: int | None) -> None:
    """When a body is a Status, pretty-printed or not, it should be read as far as it is well-formed."""
    assert _wire.read_status(json.dumps(body, indent=indent).encode()) == expected


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"\xff", b"null"])
def test_no_status(body: bytes) -> None:
    """When a body is no JSON object, it should be no Status."""
    assert _wire.read_status(body) is None


def test_excerpt() -> None:
    """When bytes are shown, it should be printable ASCII, short, and show that something was left out."""
    assert _wire.excerpt(b"a\nb\xff\x1b") == "'a\\nb\\xff\\x1b'"
    assert len(_wire.excerpt(b"x" * 1000)) < 100
    assert _wire.excerpt(memoryview(b"x" * 1000)).endswith("…")
