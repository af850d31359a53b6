from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import checks
from informer._projection import Projection
from informer.objects import KubeObject

META = b'{"metadata":{"name":"a","namespace":"team-a"},"spec":%b}'


def obj(spec: object) -> KubeObject:
    raw = spec if isinstance(spec, bytes) else json.dumps(spec).encode()
    return KubeObject.parse(META % raw)


def found(check: checks.FieldCheck, spec: object) -> list[tuple[str, str]]:
    return [(problem.path_text, problem.value) for problem in check(obj(spec))]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("spec.a.b", ("spec", "a", "b")),
        ("spec.groups[*].tenant", ("spec", "groups", None, "tenant")),
        ("spec.limits[*]", ("spec", "limits", None)),
        ("spec[*][*]", ("spec", None, None)),
        ('spec.limits["example.test/gpu"]', ("spec", "limits", "example.test/gpu")),
        (r'spec["a\"b"].c', ("spec", 'a"b', "c")),
        ('["spec"].a', ("spec", "a")),
    ],
)
def test_path(text, steps):
    assert checks.duration(text).steps == steps


@pytest.mark.parametrize(
    "text", ["", ".", "spec.", ".spec", "spec..a", "spec[0]", "spec[", "[*]", "spec.a[*", "spec a]", 'spec[""]']
)
def test_path_that_cannot_be_read(text):
    with pytest.raises(ValueError, match="no path of a field"):
        checks.duration(text)


@pytest.mark.parametrize(
    ("path", "spec", "problems"),
    [
        ("spec.drainTimeout", {"drainTimeout": "10m"}, []),
        ("spec.drainTimeout", {"drainTimeout": "1"}, [("spec.drainTimeout", '"1"')]),
        ("spec.drainTimeout", {"drainTimeout": None}, []),
        ("spec.drainTimeout", {}, []),
        ("spec.drainTimeout", None, []),
        ("spec.drainTimeout", {"drainTimeout": 0}, [("spec.drainTimeout", "0")]),
        ("spec.drainTimeout", {"drainTimeout": False}, [("spec.drainTimeout", "false")]),
        ("spec.drainTimeout", {"drainTimeout": ""}, [("spec.drainTimeout", '""')]),
        ("spec.drainTimeout", {"drainTimeout": []}, [("spec.drainTimeout", "[]")]),
        ("spec.drainTimeout", {"drainTimeout": {}}, [("spec.drainTimeout", "{}")]),
        ("spec.drainTimeout", [], [("spec", "[]")]),
        ("spec.drainTimeout", "x", [("spec", '"x"')]),
        ("spec.a.b.c", {"a": {"b": 1}}, [("spec.a.b", "1")]),
        ("spec.groups[*].wait", {"groups": [{"wait": "1m"}, {"wait": 0}, {}, None]}, [("spec.groups[1].wait", "0")]),
        ("spec.groups[*].wait", {"groups": {"x.y/z": {"wait": "1"}}}, [('spec.groups["x.y/z"].wait', '"1"')]),
        ("spec.groups[*].wait", {"groups": 7}, [("spec.groups", "7")]),
        ("spec.groups[*].wait", {"groups": [7]}, [("spec.groups[0]", "7")]),
        ("spec.groups[*].wait", {"groups": None}, []),
        ("spec.waits[*]", {"waits": ["1s", "1", None]}, [("spec.waits[1]", '"1"')]),
    ],
)
def test_duration_at_a_path(path, spec, problems):
    assert found(checks.duration(path), spec) == problems


def test_null_where_it_is_not_allowed():
    check = checks.duration("spec.drainTimeout", nullable=False)
    assert found(check, {"drainTimeout": None}) == [("spec.drainTimeout", "null")]
    assert found(check, {}) == []


SIZES = [checks.quantity("spec.size"), checks.quantity("spec.limits[*]"), checks.duration("spec.drainTimeout")]


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({"size": ""}, [("spec.size", '""')]),
        ({"size": ".07893E985.90504"}, [("spec.size", '".07893E985.90504"')]),
        ({"limits": {"cpu": "500m", "example.test/gpu": "two"}}, [('spec.limits["example.test/gpu"]', '"two"')]),
        ({"size": "1.5Gi", "limits": {"cpu": 2, "memory": "1e3"}}, []),
        ({"size": "1GB"}, [("spec.size", '"1GB"')]),
        ({"size": 0.5}, []),
        ({"size": True}, [("spec.size", "true")]),
        ({"limits": {"cpu": ""}, "drainTimeout": "x"}, [("spec.limits.cpu", '""'), ("spec.drainTimeout", '"x"')]),
    ],
)
def test_quantities_that_a_schema_pattern_lets_through(spec, problems):
    assert [one for check in SIZES for one in found(check, spec)] == problems
    assert Projection((c.steps, c.judge) for c in SIZES).passes(obj(spec).raw) is not bool(problems)


@pytest.mark.parametrize("text", [b"9007199254740993", b"2147483648", b"-0.0", b"1e400", b"1.000000009e+09"])
def test_value_is_shown_exactly_as_it_was_sent(text):
    assert found(checks.duration("spec.d"), b'{"d":%b}' % text) == [("spec.d", text.decode())]


def test_values_stay_short_and_printable():
    huge = obj({"d": "x" * (2 << 20)})
    number = obj(b'{"d":%b}' % (b"1" * 5000))
    odd = obj({"d": "\u202e\x00\n\U0001f600"})
    values = [problem.value for o in (huge, number, odd) for problem in checks.duration("spec.d")(o)]
    assert [len(value) < 200 and value.isascii() and value.isprintable() for value in values] == [True] * 3
    assert json.loads(values[2]) == "\u202e\x00\n\U0001f600"
    assert values[1].startswith("1111")
    assert "5000" in values[1]


def test_field_checks_compare_by_what_they_check():
    assert checks.duration("spec.a") == checks.duration("spec.a")
    assert checks.duration("spec.a") != checks.duration("spec.b")
    assert checks.duration("spec.a") != checks.timestamp("spec.a")


def test_a_rule_of_ones_own():
    check = checks.FieldCheck("spec.mode", lambda raw: None if raw == b'"Auto"' else "no mode", "Auto")
    assert [str(problem) for problem in check(obj({"mode": "x"}))] == ['spec.mode is "x": no mode (expected: Auto)']


PATHS = [
    "spec.a",
    "spec.b.c",
    "spec.b",
    "spec.l[*]",
    "spec.l[*].d",
    "spec.l",
    "spec.l.x",
    "spec.b[*][*]",
    "spec[*]",
    "metadata.x",
    "status.t",
]
RULES = [checks.duration, checks.quantity, checks.int_or_string, checks.timestamp]
some_checks = st.lists(
    st.builds(
        lambda rule, path, n: rule(path, nullable=n), st.sampled_from(RULES), st.sampled_from(PATHS), st.booleans()
    ),
    max_size=5,
)
leaves = st.sampled_from([None, "1m", "1", 0, 1, True, "", "2026-01-01T00:00:00Z", 1.5, [], {}])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdlxt"), inner, max_size=4),
    max_leaves=8,
)


@given(some_checks, values, values)
def test_the_compiled_pass_never_calls_a_bad_object_good(all_checks, spec, status):
    """When any check finds a problem, the one pass over the bytes should not let the object through."""
    raw = json.dumps({"metadata": {"name": "a", "x": "1"}, "spec": spec, "status": status}).encode()
    one = KubeObject.parse(raw)
    bad = any(list(check(one)) for check in all_checks)
    projection = Projection((check.steps, check.judge) for check in all_checks)
    assert not (bad and projection.passes(raw))
    head, passed = projection.read_head(raw)
    assert head is not None
    assert head.name == "a"
    assert passed == projection.passes(raw)


def test_the_compiled_pass_lets_good_objects_through():
    """When all fields are fine or absent, it should not send the object the slow way."""
    some = [
        checks.duration("spec.a"),
        checks.duration("spec.b.c"),
        checks.quantity("spec.l[*]"),
        checks.quantity("spec.g[*].q"),
    ]
    projection = Projection((check.steps, check.judge) for check in some)
    for spec in (
        {},
        {"a": "1m"},
        {"a": None, "b": {"c": "1s"}},
        {"l": ["1", 2]},
        {"l": {"x": "1"}},
        {"g": [{"q": "1"}, {}]},
        {"b": {}},
    ):
        assert projection.passes(obj(spec).raw), spec
    assert projection.passes(b'{"metadata":{"name":"a"}}')


def test_what_is_remembered_stays_bounded():
    projection = Projection([(("spec", "a"), lambda raw: None)])
    for i in range(1000):
        assert projection.passes(b'{"spec":{"a":%d}}' % i)
    (tree,) = projection._trees
    assert len(tree.root.below["spec"].below["a"].accepted) <= 256
    assert len(tree._accepted) <= 256
    assert projection.passes(b'{"spec":{"a":"%s"}}' % (b"a" * 1000))
    assert max(map(len, tree._accepted)) < 1000


@pytest.mark.parametrize(
    "spec",
    [
        {"a": 2, "b": 1},
        {"a": 1, "b": 1},
        {"a": 2, "b": 2},
        {"a": 2},
        {"b": 1},
        {"a": 12},
        {"b": 12},
        {"a": "1", "b": 2},
        {"a": "1\0", "b": 2},
        {"a": [1, 2]},
        {"a": 1, "b": 2, "c": {"d": 2}},
    ],
)
def test_values_that_were_fine_together_are_no_pass_for_others(spec: dict[str, Any]):
    """When values were accepted together, it should refuse the same ones at other places, as if it had seen none."""
    rules = {("a",): b"1", ("b",): b"2", ("c", "d"): b"1"}
    projection = Projection(
        (steps, lambda raw, good=good: None if raw == good else "bad") for steps, good in rules.items()
    )
    for known in ({"a": 1, "b": 2, "c": {"d": 1}}, {"a": 1}, {"b": 2}, {}, {"a": 1, "b": 2}, {"c": {}}):
        for _ in range(2):
            assert projection.passes(json.dumps(known, separators=(",", ":")).encode())
    assert not projection.passes(json.dumps(spec, separators=(",", ":")).encode())
