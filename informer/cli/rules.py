"""`scan --print-rules`: what would refuse at write time what the checks find at read time, ready to be applied.

Two forms, since not everybody owns the CRD: rules inside its schema, and a ValidatingAdmissionPolicy beside it. Both let an
object pass that is bad already when its bad field is not changed: otherwise nobody could label it, or take its finalizer off.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from informer.cli import cel, render
from informer.cli.errors import CommandError
from informer.cli.judges import Asked
from informer.degraded._structural import INT_OR_STRING
from informer.fixes import pointer
from informer.resource import Resource

_RULES = "x-kubernetes-validations"
_LENGTH = 64  # longer than any duration, quantity or timestamp that somebody means


@frozen
class Rules:
    """The rules of some checks.

    Attributes:
        crd: the part of the CRD that changes, with everything on the way to it.
        patch: the same as a JSON patch of the CRD as it is now.
        policy: the ValidatingAdmissionPolicy.
        binding: what puts it in force.
        notes: checks without a rule of one form or the other, and why.
    """

    crd: Mapping[str, Any]
    patch: Sequence[Mapping[str, Any]]
    policy: Mapping[str, Any]
    binding: Mapping[str, Any]
    notes: Sequence[str]


def make(asked: Iterable[Asked], resource: Resource, crd: Mapping[str, Any]) -> Rules:
    """The rules for checks of a resource.

    Raises:
        CommandError: the CRD has no such version, or no check can be made a rule of.
    """
    number, schema = _schema(crd, resource)
    fragment: dict[str, Any] = {}
    additions: dict[tuple[str, ...], list[dict[str, str]]] = {}
    validations: list[dict[str, str]] = []
    notes: list[str] = []
    for one in asked:
        message = f"{one.check.path} must be a {one.check.expected}"
        way, node, rest = cel.descend(schema, one.check.steps)
        try:
            validations.append({"expression": _for_policy(one, schema), "message": message})
        except cel.NoRuleError as error:
            notes.append(f"no rule for {one.check.path}: {error}")
            continue
        if unbounded := _unbounded(schema, way):
            notes.append(
                f"no rule in the CRD for {one.check.path}: {unbounded} has no maxItems or maxProperties, and the server refuses "
                "rules of unlimited cost; set a limit first, or use the policy"
            )
            continue
        try:
            rule = cel.expression("self", node, rest, one.kind, typed=True)
        except cel.NoRuleError as error:
            notes.append(f"no rule in the CRD for {one.check.path}: {error}")
            continue
        if rule == "true":
            notes.append(f"{one.check.path} needs no rule in the CRD: its schema allows nothing else")
        elif any(known.get("rule") == rule for known in node.get(_RULES) or ()):
            notes.append(f"{one.check.path} has its rule in the CRD already")
        else:
            additions.setdefault(tuple(way), []).append({"rule": rule, "message": message})
    if not validations:
        raise CommandError("; ".join(notes))
    for way, rules in additions.items():
        place = fragment
        for step in way:
            place = place.setdefault(step, {})
        place |= _bound(way, _at(schema, way)) | {_RULES: rules}
    return Rules(
        _in_crd(crd, resource, fragment),
        _patch(number, resource, schema, additions),
        _policy(resource, validations),
        _binding(resource),
        notes,
    )


def text(asked: Iterable[Asked], resource: Resource, crd: Mapping[str, Any], *, as_json: bool = False) -> str:
    """The rules as YAML with comments that say what to do with each part, or as one JSON object.

    Raises:
        CommandError: as `make`.
    """
    rules = make(asked, resource, crd)
    if as_json:
        names = ("crd", "patch", "policy", "binding", "notes")
        return render.as_json({name: getattr(rules, name) for name in names})
    notes = [f"# Note: {note}." for note in rules.notes]
    first = []
    if rules.patch:
        name = crd["metadata"]["name"]
        command = shlex.join(["kubectl", "patch", "crd", name, "--type=json", "-p", json.dumps(rules.patch)])
        first = [
            "# 1. For whoever owns the CRD: rules in its schema. Kubernetes 1.25 and newer; from 1.30 on, an object that is bad",
            "#    already can still be edited elsewhere, on older servers it cannot. As a command:",
            f"#    {command}",
            "---",
            render.as_yaml(rules.crd),
        ]
    second = [
        "# 2. For everybody else: a policy beside the CRD. Kubernetes 1.30 and newer; kubectl apply -f takes these two.",
        render.as_yaml(rules.policy, rules.binding),
    ]
    return "\n".join([*notes, *first, *second])


def _for_policy(one: Asked, schema: Mapping[str, Any]) -> str:
    rule = cel.expression("object", schema, one.check.steps, one.kind)
    # A policy does not ratchet as a CRD's rules do, so it is told to.
    fixed = []
    for step in one.check.steps:
        if step is None:
            break
        try:
            fixed.append(cel.escape(step))
        except cel.NoRuleError:
            break
    places = ["".join(f".{step}" for step in fixed[: number + 1]) for number in range(len(fixed))]
    there = [f"has({base}{place})" for base in ("object", "oldObject") for place in places]
    same = f"object{places[-1]} == oldObject{places[-1]}"
    unchanged = " && ".join(["request.operation == 'UPDATE'", *there, same])
    return f"({unchanged}) || {rule}"


def _schema(crd: Mapping[str, Any], resource: Resource) -> tuple[int, Mapping[str, Any]]:
    versions = (crd.get("spec") or {}).get("versions") or []
    for number, version in enumerate(versions):
        if version.get("name") == resource.version:
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if isinstance(schema, Mapping):
                return number, schema
    raise CommandError(f"the CRD has no schema of version {resource.version}; give its v1 form with --crd-file")


def _unbounded(schema: Mapping[str, Any], way: Sequence[str]) -> str:
    """The first list or map on the way that has no limit, as a path; empty when there is none."""
    for number, word in enumerate(way):
        limit = {"items": "maxItems", "additionalProperties": "maxProperties"}.get(word)
        named = number > 0 and way[number - 1] == "properties"  # a field that is called `items`
        if limit and not named and limit not in _at(schema, way[:number]):
            return ".".join(step for step in way[:number] if step != "properties")
    return ""


def _at(schema: Mapping[str, Any], way: Iterable[str]) -> Mapping[str, Any]:
    for step in way:
        schema = schema[step]
    return schema


def _bound(way: Sequence[str], node: Mapping[str, Any]) -> dict[str, int]:
    """A length that is needed inside lists and maps: the server multiplies what a rule may cost there."""
    inside = "items" in way or "additionalProperties" in way
    text = node.get("type") == "string" or node.get(INT_OR_STRING)
    return {"maxLength": _LENGTH} if inside and text and "maxLength" not in node else {}


def _in_crd(crd: Mapping[str, Any], resource: Resource, fragment: Mapping[str, Any]) -> Mapping[str, Any]:
    version = {"name": resource.version, "schema": {"openAPIV3Schema": fragment}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": (crd.get("metadata") or {}).get("name")},
        "spec": {"versions": [version]},
    }


def _patch(
    number: int,
    resource: Resource,
    schema: Mapping[str, Any],
    additions: Mapping[tuple[str, ...], Sequence[Mapping[str, str]]],
) -> Sequence[Mapping[str, Any]]:
    if not additions:
        return ()
    root = ("spec", "versions", str(number))
    patch: list[Mapping[str, Any]] = [{"op": "test", "path": pointer((*root, "name")), "value": resource.version}]
    for way, rules in additions.items():
        place = (*root, "schema", "openAPIV3Schema", *way, _RULES)
        node = _at(schema, way)
        for word, value in _bound(way, node).items():
            patch.append({"op": "add", "path": pointer((*place[:-1], word)), "value": value})
        if node.get(_RULES):
            patch += [{"op": "add", "path": pointer((*place, "-")), "value": rule} for rule in rules]
        else:
            patch.append({"op": "add", "path": pointer(place), "value": list(rules)})
    return patch


def _policy(resource: Resource, validations: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
    status = any("object.status" in one["expression"] for one in validations)
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource.plural, *[f"{resource.plural}/status"] * status],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _name(resource)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": list(validations),
        },
    }


def _binding(resource: Resource) -> Mapping[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _name(resource)},
        "spec": {"policyName": _name(resource), "validationActions": ["Deny"]},
    }


def _name(resource: Resource) -> str:
    return f"readable-{resource.plural}.{resource.group}"
