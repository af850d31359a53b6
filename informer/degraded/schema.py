"""`checks.schema`: what a CRD's own schema would refuse, found in objects that are stored already.

The server judges an object when it is written, never when it is read. So a schema that becomes stricter leaves old objects as
they are, until the next write of the changed field fails, or a typed client cannot read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from informer.degraded import _structural
from informer.objects import KubeObject
from informer.problems import Problem

_EXPECTED: Mapping[str, Callable[[Any], str]] = {
    "enum": lambda value: f"one of {', '.join(json.dumps(one) for one in value[:10])}{', …' * (len(value) > 10)}",
    "maxItems": lambda value: f"at most {value} items",
    "maxLength": lambda value: f"at most {value} characters",
    "maxProperties": lambda value: f"at most {value} members",
    "maximum": lambda value: f"a number up to {value}",
    "minItems": lambda value: f"at least {value} items",
    "minLength": lambda value: f"at least {value} characters",
    "minProperties": lambda value: f"at least {value} members",
    "minimum": lambda value: f"a number from {value}",
    "multipleOf": lambda value: f"a multiple of {value}",
    "pattern": lambda value: f"a match of {value}",
    "format": lambda value: f"the format {value}",
    "type": str,
    _structural.INT_OR_STRING: lambda _: "integer or string",
}
_REASONS = {
    "maxItems": "too many items",
    "maxLength": "too long",
    "maxProperties": "too many members",
    "maximum": "too large",
    "minItems": "too few items",
    "minLength": "too short",
    "minProperties": "too few members",
    "minimum": "too small",
    "multipleOf": "not a multiple",
    "allOf": "does not fit all schemas of allOf",
    "anyOf": "fits no schema of anyOf",
    "oneOf": "does not fit exactly one schema of oneOf",
    "not": "fits the schema of not",
}


class SchemaCheck:
    """A check by a CRD's schema; what `checks.schema` returns. Each object is judged by the schema of its own version.

    Attributes:
        unjudged: constraints of the schema that are not judged here, as sentences: CEL rules, and what Python cannot
            express. An object without problems may still break those.
    """

    def __init__(self, crd: Mapping[str, Any]) -> None:
        translation = _structural.Translation()
        self._name, schemas = _read(crd)
        self._schemas = {version: _prepared(schema) for version, schema in schemas.items()}
        self._validators: dict[str, Any] = {}
        for version, schema in self._schemas.items():
            before = len(translation.unjudged)
            self._validators[version] = _structural.validator(translation(schema))
            translation.unjudged[before:] = [f"{version}: {text}" for text in translation.unjudged[before:]]
        self.unjudged: Sequence[str] = tuple(translation.unjudged)

    def __repr__(self) -> str:
        return f"checks.schema({self._name}: {', '.join(self._schemas)})"

    def __call__(self, obj: KubeObject, /) -> Iterable[Problem]:
        """What the server would say of the object if it were written now."""
        value = obj.to_dict()
        version = str(value.get("apiVersion", "")).rpartition("/")[2]
        schema = self._schemas.get(version) if version else next(iter(self._schemas.values()))
        if schema is None:
            known = ", ".join(self._schemas)
            reason = f"the CRD {self._name} has no such version"
            yield Problem(("apiVersion",), json.dumps(value["apiVersion"]), reason, f"one of {known}")
            return
        for name in ("apiVersion", "kind", "metadata"):  # the server judges these by rules of its own
            value.pop(name, None)
        _structural.as_judged(value, schema)
        validator = self._validators[version or next(iter(self._schemas))]
        for error in sorted(
            validator.iter_errors(value), key=lambda error: [str(part) for part in error.absolute_path]
        ):
            yield _problem(error)


def _problem(error: Any) -> Problem:
    word = str(error.validator)
    missing = error.instance is None and word in {"required", _structural.EMBEDDED}
    expected = _EXPECTED.get(word)
    return Problem(
        tuple(error.absolute_path),
        "" if missing else json.dumps(error.instance, separators=(",", ":")),
        _REASONS.get(word) or error.message,
        "" if expected is None else expected(error.validator_value),
    )


def _prepared(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The root schema without what the server judges by rules of its own."""
    own = {"apiVersion", "kind", "metadata"}
    properties = {name: part for name, part in (schema.get("properties") or {}).items() if name not in own}
    required = [name for name in schema.get("required") or () if name not in own]
    return {**schema, "properties": properties, "required": required}


def _read(crd: Mapping[str, Any]) -> tuple[str, dict[str, Mapping[str, Any]]]:
    """The name of a CRD, and its schemas by version, the storage version's first."""
    if not isinstance(crd, Mapping) or crd.get("kind", "CustomResourceDefinition") != "CustomResourceDefinition":
        kind = crd.get("kind") if isinstance(crd, Mapping) else type(crd).__name__
        raise ValueError(f"expected a CustomResourceDefinition, got {kind!s:.100}")
    name = str((crd.get("metadata") or {}).get("name") or "without a name")
    versions = (crd.get("spec") or {}).get("versions")
    if not isinstance(versions, list) or not versions:
        raise ValueError(f"CustomResourceDefinition {name} has no spec.versions; apiextensions.k8s.io/v1 is expected")
    schemas: dict[str, Mapping[str, Any]] = {}
    for version in sorted(versions, key=lambda version: not version.get("storage")):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not isinstance(schema, Mapping):
            text = f"version {version.get('name')} of CustomResourceDefinition {name} has no openAPIV3Schema"
            raise ValueError(text)  # noqa: TRY004 - a fault of the document, not of an argument
        schemas[str(version.get("name"))] = schema
    return name, schemas
