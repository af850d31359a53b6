"""What a CRD's schema would refuse; the same table is put to a real server in `tests/real/test_schema_real.py`."""

from __future__ import annotations

import copy
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import FieldCheck, KubeObject, ScanReport, checks, scan
from informer.degraded import _openapi_formats, _structural
from informer.listerwatcher import Page
from tests.degraded.schema_cases import CASES, SPEC_SCHEMA, crd
from tests.degraded.support import Scripted, widget

TEXT = {"type": "string"}


def obj(spec: object, *, version: str = "v1", **more: object) -> KubeObject:
    body = {"apiVersion": f"example.test/{version}", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec, **more}
    return KubeObject.parse(json.dumps(body).encode())


def fields(check: checks.Check, spec: object) -> list[str]:
    return sorted({problem.path_text for problem in check(obj(spec))})


EVERYTHING = checks.schema(crd(SPEC_SCHEMA))


@pytest.mark.parametrize(("spec", "expected"), CASES, ids=[json.dumps(spec) for spec, _ in CASES])
def test_fields(spec: object, expected: list[str]) -> None:
    """When a spec is judged, the fields that the server would refuse should be named, and no others."""
    assert fields(EVERYTHING, spec) == expected


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (TEXT, 5, "spec.f is 5: an integer, not a string (expected: string)"),
        ({"type": "integer"}, 1.5, "spec.f is 1.5: a number, not an integer (expected: integer)"),
        (TEXT | {"enum": ["a", "b"]}, "c", 'spec.f is "c": not one of the allowed values (expected: one of "a", "b")'),
        (TEXT | {"maxLength": 2}, "abc", 'spec.f is "abc": too long (expected: at most 2 characters)'),
        (TEXT | {"pattern": "^a$"}, "b", 'spec.f is "b": does not match the pattern (expected: a match of ^a$)'),
        (TEXT | {"format": "date"}, "b", 'spec.f is "b": not of the format date (expected: the format date)'),
        ({"type": "integer", "minimum": 3}, 2, "spec.f is 2: too small (expected: a number from 3)"),
        ({"type": "integer", "format": "int32"}, 1 << 31, "spec.f is 2147483648: does not fit into int32"),
        ({"type": "boolean"}, 0, "spec.f is 0: an integer, not a boolean (expected: boolean)"),
        (
            {"type": "object", "required": ["a"], "properties": {"a": TEXT}},
            {},
            "spec.f.a: required, and missing",
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "a"],
            'spec.f[1] is "a": the same item twice',
        ),
    ],
)
def test_words(schema: dict[str, object], value: object, text: str) -> None:
    """When a value is refused, the problem should say what is wrong and what would be accepted."""
    check = checks.schema(crd({"type": "object", "properties": {"f": schema}}))
    (problem,) = check(obj({"f": value}))
    assert str(problem).startswith(text)


def test_it_changes_nothing() -> None:
    """When an object is judged, defaults should be filled in and unknown fields pruned in a copy only."""
    judged = obj({"unknown": 1, "req": "a"})
    before, schema = judged.raw, crd(SPEC_SCHEMA)
    check = checks.schema(schema)
    assert list(check(judged)) == list(check(judged)) == []
    assert judged.raw == before
    assert schema == crd(SPEC_SCHEMA)


def test_metadata_is_not_its_business() -> None:
    """When the schema constrains metadata, apiVersion or kind, nothing should be reported: the server has rules for these."""
    made = crd(SPEC_SCHEMA)
    root = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["required"] = ["metadata", "spec", "kind"]
    root["properties"]["metadata"] = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 0}}}
    check = checks.schema(made)
    assert list(check(obj({"req": "a"}))) == []
    assert [problem.path_text for problem in check(KubeObject.parse(b'{"metadata":{"name":"a"}}'))] == ["spec"]


def test_versions() -> None:
    """When a CRD has several versions, each object should be judged by its own; without one, by the stored one."""
    made = crd({"type": "object", "properties": {"f": TEXT}})
    other = crd({"type": "object", "properties": {"f": {"type": "integer"}}}, version="v2")["spec"]["versions"][0]
    made["spec"]["versions"] = [other | {"storage": False}, *made["spec"]["versions"]]
    check = checks.schema(made)
    assert [problem.reason for problem in check(obj({"f": 1}))] == ["an integer, not a string"]
    assert list(check(obj({"f": 1}, version="v2"))) == []
    (problem,) = check(obj({"f": 1}, version="v3"))
    assert (problem.path_text, problem.expected) == ("apiVersion", "one of v1, v2")
    bare = KubeObject.parse(b'{"metadata":{"name":"a"},"spec":{"f":1}}')  # as built-in kinds come in a LIST
    assert [problem.path_text for problem in check(bare)] == ["spec.f"]


def test_what_is_not_judged_is_named() -> None:
    """When a schema has CEL rules, or patterns and formats that nothing here can judge, they should be named, not hidden."""
    rule = {"rule": "self.size() > 1"}
    check = checks.schema(
        crd(
            {
                "type": "object",
                "x-kubernetes-validations": [rule, rule],
                "properties": {
                    "a": TEXT | {"pattern": r"^\pL$"},
                    "b": TEXT | {"format": "hostname"},
                    "c": {"type": "array", "items": TEXT | {"pattern": "[[:alpha:]]"}},
                },
            }
        )
    )
    assert list(check(obj({"a": "", "b": "", "c": [""]}))) == []
    named = [text.partition(":")[2].strip() for text in check.unjudged]
    assert named[0] == "spec: 2 CEL rules (x-kubernetes-validations)"
    assert [text.partition(":")[0] for text in named] == ["spec", "spec.a", "spec.b", "spec.c[*]"]
    assert EVERYTHING.unjudged == ()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Pod"}, "expected a CustomResourceDefinition, got Pod"),
        ([], "expected a CustomResourceDefinition, got list"),
        ({"metadata": {"name": "x"}, "spec": {"version": "v1"}}, "x has no spec.versions"),
        ({"metadata": {"name": "x"}, "spec": {"versions": [{"name": "v1"}]}}, "version v1 .* has no openAPIV3Schema"),
        (crd({"type": "object", "properties": {"a": 5}}), "the schema at spec.a is int"),
    ],
    ids=["another kind", "a list", "v1beta1", "no schema", "a broken schema"],
)
def test_no_crd(document: object, message: str) -> None:
    """When what is given is no CRD with a schema, the error should say what is wrong with it."""
    with pytest.raises(ValueError, match=message):
        checks.schema(document)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """When jsonschema is not installed, the error should say how to install it."""
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(ImportError, match=r"pip install 'kube-informer\[schema\]'"):
        checks.schema(crd(SPEC_SCHEMA))


async def test_in_a_scan() -> None:
    """When a scan uses it beside other checks, every bad object should be named with all its problems."""
    page = Page([widget("good", spec={"req": "a"}), widget("bad", spec={"dur": "1", "i": "x"})], "1")
    more: list[checks.Check] = [EVERYTHING, checks.duration("spec.dur")]
    report: ScanReport = await scan(Scripted(page), checks=more)
    assert isinstance(more[1], FieldCheck)
    (entry,) = report.bad
    assert entry.name == "bad"
    assert {problem.path_text for problem in entry.problems} == {"spec.req", "spec.dur", "spec.i"}
    assert "kubectl patch" in entry.fix_commands()[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abreq"), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*SPEC_SCHEMA["properties"], "unknown"]), JSON, max_size=6))
def test_any_object_is_judged(spec: dict[str, object]) -> None:
    """When a field holds anything that JSON can hold, it should be judged without an exception, and always the same way."""
    first = list(EVERYTHING(obj(spec)))
    assert first == list(EVERYTHING(obj(copy.deepcopy(spec))))
    assert not [problem for problem in first if problem.path[:1] != ("spec",)]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a\n", False),
        ("a$", "ba", True),
        (r"^[$]$", "$", True),
        (r"^\$$", "$", True),
        (r"^\d+$", "12", True),
        (r"^\d+$", "٣", False),
        (r"^[\s\d]+$", "1 2\f", True),
        (r"^[\s\d]+$", "\v", False),
        (r"^[]a]$", "]", True),
        (r"^[^]a]$", "]", False),
        (r"^[a[]$", "[", True),
        (r"^(?:a|b)\z", "b", True),
    ],
)
def test_patterns(pattern: str, text: str, matches: bool) -> None:
    """When a pattern of Go's means something else in Python, it should be read as Go reads it."""
    assert bool(_structural.re2_pattern(pattern).search(text)) is matches


@pytest.mark.parametrize("pattern", [r"\pL", "[[:alpha:]]", r"[\S]", "(", r"\Qa\E", "a(?i)b"])
def test_patterns_beyond_python(pattern: str) -> None:
    """When Python has no such pattern, it should be refused rather than misread."""
    with pytest.raises(ValueError, match="Python"):
        _structural.re2_pattern(pattern)


@given(
    st.text(max_size=30),
    st.sampled_from(["date", "date-time", "duration", "byte", "ipv4", "cidr", "mac", "uri", "uuid"]),
)
def test_formats_take_any_text(text: str, name: str) -> None:
    """When a text is anything at all, a format should answer, not raise."""
    assert _openapi_formats.problem(name, text, "string") in {None, f"not of the format {name}"}
