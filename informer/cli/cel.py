"""A check as a CEL expression: what the API server itself can refuse when an object is written.

The regular expressions decide nearly everything, and CEL's own parsers, which are Go's, the rest (a duration of 300 years, the
30th of February). The parsers alone would not do: what they cannot read is an error, and a rule that ends in an error also
refuses edits of an object that was bad before, which a rule that is false does not (seen on Kubernetes 1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from informer.degraded._structural import INT_OR_STRING

_DURATION = r"r'^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)([nu\x{b5}\x{3bc}m]?s|m|h))+)$'"
_TIMESTAMP = r"r'^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}([.][0-9]{1,9})?(Z|[-+][0-9]{2}:[0-9]{2})$'"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {".": "__dot__", "-": "__dash__", "/": "__slash__"}
_KEYWORDS = frozenset(
    {
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
    }
    | {"loop", "package", "namespace", "return", "var", "void", "while"}
)


class NoRuleError(ValueError):
    """No expression can be written for a check; the message says why."""


def expression(
    base: str, schema: Mapping[str, Any] | None, steps: Sequence[str | None], kind: str, *, typed: bool = False
) -> str:
    """The condition that holds when everything at a path is good, absent or null.

    Args:
        base: CEL for the value that the steps start from.
        schema: of that value; None when nobody declares it.
        steps: the way to the field; None is every item of a list, or every value of a map.
        kind: of the check: `duration`, `quantity`, `int-or-string`, `timestamp`.
        typed: only declared fields can be named, as inside a CRD; a policy sees all.

    Raises:
        NoRuleError: CEL cannot get there, or the schema says that the field is something else.
    """
    if not steps:
        return _leaf(base, schema, kind)
    step, rest = steps[0], steps[1:]
    if step is None:
        inner, variable, item = _each(base, schema)
        return f"{base}.all({variable}, {_unless_null(item, inner, expression(item, inner, rest, kind, typed=typed))})"
    inner, guard, member = _member(base, schema, step)
    if typed and inner is None:
        raise NoRuleError(f"the schema does not declare {step}, so only the policy can have a rule for it")
    return f"({guard} || {_unless_null(member, inner, expression(member, inner, rest, kind, typed=typed))})"


def descend(
    schema: Mapping[str, Any], steps: Sequence[str | None]
) -> tuple[Sequence[str], Mapping[str, Any], Sequence[str | None]]:
    """Follow a path down the schema as far as a rule can stand there.

    Returns:
        the way through the schema document, the schema at its end, and the steps that are left for the rule itself.
    """
    way: list[str] = []
    rest = list(steps)
    while rest:
        step = rest[0]
        if step is not None and step in (schema.get("properties") or {}):
            way += ["properties", step]
        elif step is None and isinstance(schema.get("items"), Mapping):
            way.append("items")
        elif step is None and isinstance(schema.get("additionalProperties"), Mapping):
            way.append("additionalProperties")
        else:
            break
        schema = _below(schema, step)
        del rest[0]
    return way, schema, rest


def _below(schema: Mapping[str, Any], step: str | None) -> Mapping[str, Any]:
    found = schema["properties"][step] if step is not None else schema.get("items") or schema["additionalProperties"]
    return found if isinstance(found, Mapping) else {}


def _each(base: str, schema: Mapping[str, Any] | None) -> tuple[Mapping[str, Any] | None, str, str]:
    variable = f"i{base.count('.all(') + len(re.findall(r'i[0-9]', base))}"
    if schema is not None and isinstance(schema.get("items"), Mapping):
        return schema["items"], variable, variable
    if schema is not None and isinstance(schema.get("additionalProperties"), Mapping):
        return schema["additionalProperties"], variable, f"{base}[{variable}]"
    raise NoRuleError("the schema does not say whether [*] stands for a list or a map there")


def _member(base: str, schema: Mapping[str, Any] | None, name: str) -> tuple[Mapping[str, Any] | None, str, str]:
    properties = (schema or {}).get("properties") or {}
    if name not in properties and isinstance((schema or {}).get("additionalProperties"), Mapping):
        key = _string(name)
        return (schema or {})["additionalProperties"], f"!({key} in {base})", f"{base}[{key}]"
    declared = properties.get(name)
    if declared is None and schema is not None and not schema.get("x-kubernetes-preserve-unknown-fields"):
        raise NoRuleError(f"the schema has no field {name}: the server drops it")
    member = f"{base}.{escape(name)}"
    return declared, f"!has({member})", member


def escape(name: str) -> str:
    """The name of a field as CEL writes it (Kubernetes documentation, "Validation rules", on escaping).

    Raises:
        NoRuleError: it cannot be written.
    """
    if name in _KEYWORDS:
        return f"__{name}__"
    escaped = "".join(_ESCAPES.get(character, character) for character in name.replace("__", "__underscores__"))
    if not _IDENTIFIER.fullmatch(escaped):
        raise NoRuleError(f"CEL cannot name the field {name!r}")
    return escaped


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    if not escaped.isascii() or not escaped.isprintable():
        raise NoRuleError(f"CEL cannot name the key {text!r}")
    return f"'{escaped}'"


def _unless_null(value: str, schema: Mapping[str, Any] | None, condition: str) -> str:
    """The condition, where null is good. A null that the schema does not allow is dropped before any rule is asked."""
    nullable = schema is None or schema.get("nullable")
    return f"(dyn({value}) == null || {condition})" if nullable else condition


def _leaf(value: str, schema: Mapping[str, Any] | None, kind: str) -> str:
    declared = "" if schema is None else str(schema.get("type") or "")
    if schema is not None and schema.get(INT_OR_STRING):
        declared = INT_OR_STRING
    text = {
        "duration": f"{value}.matches({_DURATION}) && duration({value}) == duration({value})",
        "quantity": f"isQuantity({value})",
        "timestamp": f"{value}.matches({_TIMESTAMP}) && timestamp({value}) == timestamp({value})",
        "int-or-string": "true",
    }[kind]
    number = {"quantity": "true", "int-or-string": f"{value} >= -2147483648 && {value} <= 2147483647"}.get(
        kind, "false"
    )
    match declared:
        case "string":
            return text
        case "integer":
            if number == "false":
                raise NoRuleError(f"the schema says integer, which no {kind} is")
            return number
        case "number" if kind == "quantity":
            return "true"
        case "" | "x-kubernetes-int-or-string":
            whole = number if kind == "int-or-string" or number != "true" else "true"
            return f"(type({value}) == string ? ({text}) : ({_other(value, declared, kind, whole)}))"
    raise NoRuleError(f"the schema says {declared}, which no {kind} is")


def _other(value: str, declared: str, kind: str, number: str) -> str:
    """What holds for a value that is no string."""
    if declared or number == "false":
        return number
    kinds = f"type({value}) == int" if kind == "int-or-string" else f"(type({value}) == int || type({value}) == double)"
    return kinds if number == "true" else f"{kinds} && {number}"
