from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from informer.degraded.complaints import problems_of


class Group(msgspec.Struct):
    name: str
    tenant: str


class Spec(msgspec.Struct, rename="camel"):
    groups: list[Group] = []
    ports: list[int] | None = None
    limits: dict[str, str] = {}
    nested: dict[str, list[dict[str, int]]] = {}
    count: int = 0
    drain_timeout: str | None = None


class Widget(msgspec.Struct):
    spec: Spec


def msgspec_problems(spec: str) -> list[tuple[Any, ...]]:
    raw = f'{{"metadata":{{"name":"a"}},"spec":{spec}}}'.encode()
    with pytest.raises(msgspec.MsgspecError) as caught:
        msgspec.json.decode(raw, type=Widget)
    return [(p.path_text, p.value, p.expected) for p in problems_of(caught.value, raw)]


@pytest.mark.parametrize(
    ("spec", "path", "value", "expected"),
    [
        ('{"groups":[{"name":"g0","tenant":"7"},{"name":"g1","tenant":0}]}', "spec.groups[1].tenant", "0", "str"),
        ('{"groups":{"name":"g0"}}', "spec.groups", '{"name":"g0"}', "array"),
        ('{"ports":[80,null]}', "spec.ports[1]", "null", "int"),
        ('{"count":3.5}', "spec.count", "3.5", "int"),
        ('{"count":false}', "spec.count", "false", "int"),
        ('{"drainTimeout":""}' .replace('""', "0"), "spec.drainTimeout", "0", "str | null"),
        ('{"groups":[{"name":"g0"}]}', "spec.groups[0].tenant", "", ""),
        ('{"limits":{"a":"1","b.c/d":2}}', 'spec.limits["b.c/d"]', "2", "str"),
        ('{"limits":{"only":null}}', "spec.limits.only", "null", "str"),
        ('{"limits":{"a":1,"b":2}}', "spec.limits", '{"a":1,"b":2}', "str"),
        ('{"nested":{"a":[{"x":1}],"b":[{"x":1},{"y":"2"}]}}', "spec.nested.b[1].y", '"2"', "int"),
        ("7", "spec", "7", "object"),
    ],
)  # fmt: skip
def test_msgspec_tells_the_path(spec, path, value, expected):
    assert msgspec_problems(spec) == [(path, value, expected)]


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":{}}'])
def test_field_missing_at_the_top(raw):
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(raw, type=Widget)
    (problem,) = problems_of(caught.value, raw)
    assert (problem.path, problem.value, problem.reason) == (("spec",), "", "required and missing")


def test_msgspec_path_of_a_part_is_not_taken_for_one_of_the_object():
    """When a caller has decoded only a part, a path that leads nowhere should not become a fix command."""
    raw = b'{"spec":{"count":"x"}}'
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"count": "x"}, Spec)
    (problem,) = problems_of(caught.value, raw)
    assert problem.path == ()
    assert "Expected `int`, got `str`" in problem.reason


def test_unknown_field_has_no_command_since_no_value_would_help():
    class Strict(msgspec.Struct, forbid_unknown_fields=True):
        a: int = 0

    raw = b'{"b":1}'
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(raw, type=Strict)
    assert [p.path for p in problems_of(caught.value, raw)] == [()]


class PydanticLike(ValueError):
    def __init__(self, *errors: dict[str, Any]) -> None:
        super().__init__("2 validation errors")
        self._errors = list(errors)

    def errors(self) -> list[dict[str, Any]]:
        return self._errors


RAW = json.dumps({"spec": {"a": 0, "l": [1, {"x": None}], "m": {"k/1": "v"}, "drainTimeout": "1"}}).encode()


@pytest.mark.parametrize(
    ("detail", "path", "value"),
    [
        ({"loc": ("spec", "a"), "msg": "not a string", "type": "string_type"}, ("spec", "a"), "0"),
        ({"loc": ("spec", "l", 1, "x"), "msg": "none", "type": "string_type"}, ("spec", "l", 1, "x"), "null"),
        ({"loc": ("spec", "m", "k/1"), "msg": "bad", "type": "int"}, ("spec", "m", "k/1"), '"v"'),
        ({"loc": ("spec", "a", "int-or-str", "int"), "msg": "bad", "type": "int"}, ("spec", "a"), "0"),
        ({"loc": ("spec", "b"), "msg": "Field required", "type": "missing"}, ("spec", "b"), ""),
        ({"loc": ("spec", "nowhere"), "msg": "bad", "type": "int"}, (), ""),
        ({"loc": ("a",), "msg": "bad", "type": "int"}, (), ""),
        ({"loc": (), "msg": "bad", "type": "value_error"}, (), ""),
    ],
)
def test_pydantic_tells_the_path(detail, path, value):
    (problem,) = problems_of(PydanticLike(detail), RAW)
    assert (problem.path, problem.value) == (path, value)


def test_pydantic_names_all_at_once():
    found = problems_of(
        PydanticLike({"loc": ("spec", "a"), "msg": "x", "type": "t"}, {"loc": ("spec", "l"), "msg": "y", "type": "t"}),
        RAW,
    )
    assert [p.path_text for p in found] == ["spec.a", "spec.l"]


class Note(str):  # noqa: SLOT000 - it has attributes, as that of cattrs has
    """What cattrs hangs onto an exception: a text with `name` or `index`."""

    def __new__(cls, **attributes: object) -> Note:
        note = super().__new__(cls, "Structuring …")
        note.__dict__.update(attributes)
        return note


def noted(error: Exception, **attributes: object) -> Exception:
    error.__notes__ = [Note(**attributes)]
    return error


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ExceptionGroup("W", [noted(ExceptionGroup("S", [noted(ValueError("no"), name="a")]), name="spec")]), [(("spec", "a"), "0")]),
        (ExceptionGroup("W", [noted(ExceptionGroup("S", [noted(ValueError("no"), name="drain_timeout")]), name="spec")]), [(("spec", "drainTimeout"), '"1"')]),
        (
            ExceptionGroup("W", [noted(ExceptionGroup("S", [noted(ExceptionGroup("L", [noted(TypeError("no"), index=0)]), name="l"), noted(ValueError("no"), name="a")]), name="spec")]),
            [(("spec", "l", 0), "1"), (("spec", "a"), "0")],
        ),
        (ExceptionGroup("W", [noted(ExceptionGroup("M", [noted(ExceptionGroup("", [noted(ValueError("no"), index="k/1")]), name="m")]), name="spec")]), [(("spec", "m", "k/1"), '"v"')]),
        (ExceptionGroup("W", [noted(ValueError("no"), name="nowhere")]), [((), "")]),
        (ExceptionGroup("W", [ValueError("no")]), [((), "")]),
    ],
)  # fmt: skip
def test_cattrs_tells_the_path(error, found):
    assert [(p.path, p.value) for p in problems_of(error, RAW)] == found


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Liar(Exception):
    def errors(self) -> object:
        return [{"nothing": "of the kind"}]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyError("spec"), "KeyError: 'spec'"),
        (ValueError(), "ValueError"),
        (RecursionError("maximum"), "nested too deeply to be decoded"),
        (Unprintable(), "Unprintable"),
        (Liar(), "Liar"),
    ],
)
def test_any_other_exception_is_one_problem_without_a_path(error, reason):
    (problem,) = problems_of(error, RAW)
    assert (problem.path, problem.value, problem.reason) == ((), "", reason)
