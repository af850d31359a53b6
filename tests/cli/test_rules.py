"""Which rule is made of which check. What the rules do is seen on a real server, in `tests/real/test_rules_real.py`."""

from __future__ import annotations

from typing import Any

import pytest

from informer import Resource
from informer.cli import cel, rules
from informer.cli.errors import CommandError
from informer.cli.judges import parse_check

RESOURCE = Resource("example.test", "v1", "widgets", kind="Widget")
TEXT: dict[str, Any] = {"type": "string"}
EITHER: dict[str, Any] = {"x-kubernetes-int-or-string": True}


def crd(spec: dict[str, Any], **root: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, **root}}
    old = {"name": "v0", "schema": {"openAPIV3Schema": {}}}
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    return {"metadata": {"name": "widgets.example.test"}, "spec": {"versions": [old, version]}}


def make(spec: dict[str, Any], *checks: str, **root: Any) -> rules.Rules:
    return rules.make([parse_check(text) for text in checks], RESOURCE, crd(spec, **root))


PLACE = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties"


@pytest.mark.parametrize(
    ("spec", "check", "place", "rule"),
    [
        ({"a": TEXT}, "quantity:spec.a", "/a", "isQuantity(self)"),
        ({"a": {"type": "integer"}}, "int-or-string:spec.a", "/a", "self >= -2147483648 && self <= 2147483647"),
        ({"a": EITHER}, "quantity:spec.a", "/a", "(type(self) == string ? (isQuantity(self)) : (true))"),
        (
            {"a": EITHER},
            "int-or-string:spec.a",
            "/a",
            "(type(self) == string ? (true) : (self >= -2147483648 && self <= 2147483647))",
        ),
        ({"a": EITHER}, "duration:spec.a", "/a", None),
        (
            {"a": {"type": "array", "maxItems": 3, "items": TEXT}},
            "quantity:spec.a[*]",
            "/a/items",
            "isQuantity(self)",
        ),
        (
            {"a": {"type": "object", "maxProperties": 3, "additionalProperties": TEXT}},
            "quantity:spec.a[*]",
            "/a/additionalProperties",
            "isQuantity(self)",
        ),
        (
            {"a": {"type": "object", "additionalProperties": TEXT}},
            'quantity:spec.a["x/y"]',
            "/a",
            "(!('x/y' in self) || isQuantity(self['x/y']))",
        ),
        ({"a~/b": TEXT}, 'quantity:spec["a~/b"]', None, None),
    ],
    ids=str,
)
def test_rules_of_a_crd(spec: dict[str, Any], check: str, place: str | None, rule: str | None) -> None:
    """When a check is made a rule of the CRD, it should stand at the field, as deep in the schema as rules can stand."""
    if place is None:
        with pytest.raises(CommandError, match="CEL cannot name"):
            make(spec, check)
        return
    made = make(spec, check)
    assert made.patch[0] == {"op": "test", "path": "/spec/versions/1/name", "value": "v1"}
    last = made.patch[-1]
    assert (last["op"], last["path"]) == ("add", f"{PLACE}{place}/x-kubernetes-validations")
    if rule is not None:
        assert last["value"][0]["rule"] == rule


def test_length_inside_lists() -> None:
    """When a rule stands inside a list, its texts should get a length, for its cost; one that has a length keeps it."""
    made = make({"a": {"type": "array", "maxItems": 3, "items": TEXT}}, "duration:spec.a[*]")
    assert {"op": "add", "path": f"{PLACE}/a/items/maxLength", "value": 64} in made.patch
    made = make({"a": {"type": "array", "maxItems": 3, "items": TEXT | {"maxLength": 9}}}, "duration:spec.a[*]")
    assert not any("maxLength" in one["path"] for one in made.patch)


def test_rules_that_are_there() -> None:
    """When the field has rules already, the new one should be added to them; when it is one of them, there is nothing to do."""
    other = {"rule": "self != ''"}
    made = make({"a": TEXT | {"x-kubernetes-validations": [other]}}, "quantity:spec.a")
    assert made.patch[-1]["path"] == f"{PLACE}/a/x-kubernetes-validations/-"
    made = make({"a": TEXT | {"x-kubernetes-validations": [{"rule": "isQuantity(self)"}]}}, "quantity:spec.a")
    assert (made.patch, made.notes) == ((), ["spec.a has its rule in the CRD already"])
    assert make({"a": {"type": "number"}}, "quantity:spec.a").notes == [
        "spec.a needs no rule in the CRD: its schema allows nothing else"
    ]


def test_policy() -> None:
    """When a policy is made, it should pass what is absent, null or unchanged, and know about lists, maps and status."""
    made = make(
        {"a": {"type": "array", "items": {"type": "object", "properties": {"b": TEXT | {"nullable": True}}}}},
        "quantity:spec.a[*].b",
        "quantity:status.x",
        status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )
    listed, free = (one["expression"] for one in made.policy["spec"]["validations"])
    assert listed == (
        "(request.operation == 'UPDATE' && has(object.spec) && has(object.spec.a) && has(oldObject.spec) && "
        "has(oldObject.spec.a) && object.spec.a == oldObject.spec.a) || "
        "(!has(object.spec) || (!has(object.spec.a) || "
        "object.spec.a.all(i0, (!has(i0.b) || (dyn(i0.b) == null || isQuantity(i0.b))))))"
    )
    assert "type(object.status.x) == string" in free
    assert made.policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == ["widgets", "widgets/status"]


@pytest.mark.parametrize(
    ("spec", "check", "message"),
    [
        ({}, "duration:spec.a", "the schema has no field a: the server drops it"),
        ({"a": {"type": "integer"}}, "duration:spec.a", "the schema says integer, which no duration is"),
        ({"a": {"type": "object"}}, "quantity:spec.a", "the schema says object, which no quantity is"),
        ({"a": TEXT}, "duration:spec.a[*]", "does not say whether"),
    ],
)
def test_no_rule(spec: dict[str, Any], check: str, message: str) -> None:
    """When no rule can be made, the reason should be said."""
    with pytest.raises(CommandError, match=message):
        make(spec, check)


def test_other_version() -> None:
    """When the CRD does not have the version, that should be said."""
    with pytest.raises(CommandError, match="no schema of version v2"):
        rules.make([parse_check("duration:spec.a")], Resource("example.test", "v2", "widgets"), crd({}))


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("with-dash", "with__dash__dash"),
        ("with.dot", "with__dot__dot"),
        ("a/b", "a__slash__b"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
    ],
)
def test_names(name: str, escaped: str) -> None:
    """When a field's name is no identifier of CEL, it should be escaped as Kubernetes does it."""
    assert cel.escape(name) == escaped
