"""A CRD's structural schema as JSON Schema, and the state in which the API server would judge an object by it.

Two things differ from plain JSON Schema (Kubernetes documentation, "Specifying a structural schema"): before it validates,
the server prunes unknown fields and nulls and fills in defaults; and it has words of its own, `nullable` and `x-kubernetes-…`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from attrs import define, field

from informer.degraded import _openapi_formats

Schema: TypeAlias = Mapping[str, Any]

INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
LIST_TYPE = "x-kubernetes-list-type"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_RULES = "x-kubernetes-validations"
_TYPE_META = ("apiVersion", "kind", "metadata")
# JSON Schema's words that a structural schema may use. Others (`$ref`, `uniqueItems` …) are refused by the server.
_PLAIN = (
    *("enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "maxItems", "maxLength", "maxProperties"),
    *("minimum", "minItems", "minLength", "minProperties", "multipleOf", "nullable", "pattern", "required", "type"),
    *(INT_OR_STRING, EMBEDDED, LIST_TYPE, "x-kubernetes-list-map-keys"),
)


@define
class Translation:
    """Turns structural schemas into JSON Schema; remembers what it could not carry over.

    Attributes:
        unjudged: constraints of the schema that nothing here judges, as sentences.
    """

    unjudged: list[str] = field(factory=list)

    def __call__(self, schema: Any, where: str = "") -> dict[str, Any]:
        """The JSON Schema of one place.

        Raises:
            ValueError: no schema; the message says where.
        """
        if not isinstance(schema, Mapping):
            text = f"the schema at {where or 'its root'} is {type(schema).__name__}, not an object"
            raise ValueError(text)  # noqa: TRY004 - a fault of the document, not of an argument
        made: dict[str, Any] = {word: schema[word] for word in _PLAIN if word in schema}
        self._note(schema, made, where)
        if "properties" in schema:
            parts = schema["properties"].items()
            made["properties"] = {name: self(part, f"{where}.{name}".strip(".")) for name, part in parts}
        for word in ("items", "not"):
            if word in schema:
                made[word] = self(schema[word], f"{where}[*]" if word == "items" else where)
        if isinstance(schema.get("additionalProperties"), Mapping):
            made["additionalProperties"] = self(schema["additionalProperties"], f"{where}[*]")
        for word in ("allOf", "anyOf", "oneOf"):
            if word in schema:
                made[word] = [self(part, where) for part in schema[word]]
        return made

    def _note(self, schema: Schema, made: dict[str, Any], where: str) -> None:
        rules = len(schema.get(_RULES, ()))
        if rules:
            self.unjudged.append(f"{where or 'the root'}: {rules} CEL rule{'s' * (rules > 1)} ({_RULES})")
        if "pattern" in made:
            try:
                re2_pattern(made["pattern"])
            except ValueError as error:
                self.unjudged.append(f"{where}: pattern {made.pop('pattern')!r}: {error}")
        if "format" in made and made["format"] in _openapi_formats.UNJUDGED:
            self.unjudged.append(f"{where}: format {made.pop('format')!r}")


def as_judged(value: Any, schema: Schema) -> None:
    """Prune and default in place, as the server does when it reads an object from its store.

    Unknown fields go, unless they are preserved; nulls of object members go where they are not nullable, also the unknown
    ones' (so an object with nothing but nulls may end below `minProperties`); members that are absent get their defaults.
    """
    if isinstance(value, MutableMapping):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        kept = _TYPE_META if schema.get(EMBEDDED) else ()
        for name in list(value):
            member = properties.get(name, others if isinstance(others, Mapping) else None)
            if member is None:
                if not schema.get(_PRESERVE) and others is not True and name not in kept:
                    del value[name]
            elif value[name] is None and not member.get("nullable"):
                del value[name]
        for name, member in properties.items():
            if name not in value and member.get("default") is not None:
                value[name] = copy.deepcopy(member["default"])
        for name, inner in value.items():
            member = properties.get(name, others)
            if isinstance(member, Mapping):
                as_judged(inner, member)
    elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for item in value:
            as_judged(item, schema["items"])


def re2_pattern(pattern: str) -> re.Pattern[str]:
    r"""A pattern of Go's regexp package as Python's.

    Only what means something else in Python is rewritten: `$` is the very end of the text, `\s` knows no vertical tab,
    classes such as `\d` are ASCII.

    Raises:
        ValueError: it uses what Python's `re` does not know, such as `\pL` or `[[:alpha:]]`.
    """
    parts: list[str] = []
    inside, position = False, 0  # inside a character class
    while position < len(pattern):
        piece = pattern[position : position + (2 if pattern[position] == "\\" else 1)]
        if not inside and piece == "[":
            piece = next(opening for opening in ("[^]", "[]", "[^", "[") if pattern.startswith(opening, position))
            parts.append({"[^]": r"[^\]", "[]": r"[\]"}.get(piece, piece))
            inside = True
        elif inside:
            if pattern.startswith("[:", position) or piece == r"\S":
                raise ValueError("Python has no such character class")
            parts.append({"[": r"\[", r"\s": r" \t\n\f\r"}.get(piece, piece))
            inside = piece != "]"
        else:
            parts.append({"$": r"\Z", r"\z": r"\Z", r"\s": r"[ \t\n\f\r]", r"\S": r"[^ \t\n\f\r]"}.get(piece, piece))
        position += len(piece)
    try:
        return re.compile("".join(parts), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"Python cannot read it: {error}") from None


def validator(schema: Schema) -> Any:
    """What judges values by a translated schema: a validator of the library `jsonschema`.

    Raises:
        ImportError: the library is not installed.
    """
    try:
        library = import_module("jsonschema")
    except ImportError as error:
        raise ImportError(
            "checks.schema needs the library jsonschema: pip install 'kube-informer[schema]'", name="jsonschema"
        ) from error
    invalid = library.exceptions.ValidationError
    extended = library.validators.extend(
        library.Draft4Validator,
        {
            "enum": partial(_enum, invalid),
            "format": partial(_format, invalid),
            "pattern": partial(_pattern, invalid),
            "required": partial(_required, invalid),
            "type": partial(_type, invalid),
            EMBEDDED: partial(_embedded, invalid),
            INT_OR_STRING: partial(_int_or_string, invalid),
            LIST_TYPE: partial(_list_type, invalid),
        },
    )
    return extended(schema)


# What follows are keywords in the form that jsonschema wants: (validator, the keyword's value, the instance, the schema).


def _type(invalid: Any, _: Any, wanted: str, value: Any, schema: Schema) -> Iterator[Any]:
    if value is None and schema.get("nullable"):
        return
    if not _is_a(wanted, value):
        yield invalid(f"{json_type(value)}, not {_article(wanted)}")


def _int_or_string(invalid: Any, _: Any, wanted: bool, value: Any, schema: Schema) -> Iterator[Any]:
    nullable = value is None and schema.get("nullable")
    if wanted and not nullable and not _is_a("integer", value) and not isinstance(value, str):
        yield invalid(f"{json_type(value)}, neither an integer nor a string")


def _enum(invalid: Any, _: Any, values: list[Any], value: Any, _schema: Schema) -> Iterator[Any]:
    if not any(_same(value, one) for one in values):
        yield invalid("not one of the allowed values")


def _required(invalid: Any, _: Any, names: list[str], value: Any, _schema: Schema) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for name in names:
            if name not in value:
                yield invalid("required, and missing", path=(name,), instance=None)


def _pattern(invalid: Any, _: Any, pattern: str, value: Any, _schema: Schema) -> Iterator[Any]:
    if isinstance(value, str) and not re2_pattern(pattern).search(value):
        yield invalid("does not match the pattern")


def _format(invalid: Any, _: Any, name: str, value: Any, schema: Schema) -> Iterator[Any]:
    if reason := _openapi_formats.problem(name, value, schema.get("type", "")):
        yield invalid(reason)


def _list_type(invalid: Any, _: Any, kind: str, value: Any, schema: Schema) -> Iterator[Any]:
    if kind not in {"set", "map"} or not isinstance(value, list):
        return
    keys = schema.get("x-kubernetes-list-map-keys", ()) if kind == "map" else ()
    seen: set[str] = set()
    for number, item in enumerate(value):
        if kind == "map" and not isinstance(item, Mapping):
            continue  # of the wrong type, which `items` says
        identity = repr(_ordered({key: item.get(key) for key in keys} if kind == "map" else item))
        if identity in seen:
            yield invalid(f"the same {'keys' if kind == 'map' else 'item'} twice", path=(number,), instance=item)
        seen.add(identity)


_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?")


def _embedded(invalid: Any, _: Any, wanted: bool, value: Any, _schema: Schema) -> Iterator[Any]:
    if not wanted or not isinstance(value, Mapping):
        return
    for name in ("apiVersion", "kind"):
        text = value.get(name)
        if text is None:
            yield invalid("required of an embedded resource, and missing", path=(name,), instance=None)
        elif not isinstance(text, str) or not text or (name == "kind" and not _KIND.fullmatch(text)):
            yield invalid("not usable for an embedded resource", path=(name,), instance=text)
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        yield invalid(f"{json_type(metadata)}, not an object", path=("metadata",), instance=metadata)


def json_type(value: object) -> str:
    """`a string`, `null`, … for a sentence."""
    names = {str: "a string", bool: "a boolean", list: "a list", dict: "an object", type(None): "null"}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "an integer" if isinstance(value, int) else "a number"
    return names[type(value)]


def _article(wanted: str) -> str:
    return {"array": "a list", "integer": "an integer", "object": "an object"}.get(wanted, f"a {wanted}")


def _is_a(wanted: str, value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return wanted == "boolean" and value is not None
    match wanted:
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
        case "number":
            return isinstance(value, int | float)
        case "integer":  # the server holds integers in 64 bits, and 1.0 for 1
            return isinstance(value, int | float) and value == int(value) and -(1 << 63) <= value < 1 << 63
    return False


def _same(one: object, other: object) -> bool:
    return repr(_ordered(one)) == repr(_ordered(other))


def _ordered(value: Any) -> Any:
    """Equal JSON values as texts that are equal: members sorted, 1.0 as 1; `True` and `1` differ."""
    if isinstance(value, Mapping):
        return sorted((name, _ordered(member)) for name, member in value.items())
    if isinstance(value, list):
        return [_ordered(item) for item in value], "list"
    return int(value) if isinstance(value, float) and value.is_integer() else value
