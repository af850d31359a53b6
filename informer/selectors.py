"""Label and field selectors, compiled once per text to a plain `matches(...)` function.

The grammar is the API server's own (apimachinery's `labels.Parse` and `fields.ParseSelector`), so a selector means the same
to the cache, to the fake server and to the real one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

LabelMatcher: TypeAlias = Callable[[Mapping[str, str]], bool]
FieldMatcher: TypeAlias = Callable[[Mapping[str, Any]], bool]

_TOKEN: Final = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))")
_NAME: Final = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


@lru_cache(maxsize=256)
def compile_label_selector(text: str, /) -> LabelMatcher:
    """A function telling whether labels match a label selector; the empty selector matches everything.

    Equality (`a=b`, `a==b`, `a!=b`), sets (`a in (x,y)`, `a notin (x)`), existence (`a`, `!a`) and integers (`a>1`, `a<9`),
    joined by commas. As on the server, `!=` and `notin` also match objects without the label.

    Raises:
        ValueError: The text is no label selector; names the text and the place.
    """
    tests = tuple(_Labels(text).requirements())
    if len(tests) == 1:
        return tests[0]
    return lambda labels: all(test(labels) for test in tests)


@lru_cache(maxsize=256)
def compile_field_selector(text: str, /) -> FieldMatcher:
    r"""A function telling whether an object's dict matches a field selector; the empty selector matches everything.

    `metadata.name=x`, `==` and `!=`, joined by commas; `\,`, `\=` and `\\` stand for the plain character in a value. Any
    dotted path is accepted, and a missing field counts as the empty string, as on the server. (A real server accepts few
    paths besides `metadata.name` and `metadata.namespace`.)

    Raises:
        ValueError: The text is no field selector; names the text and the term.
    """
    tests = tuple(_field_test(text, term) for term in re.findall(r"(?:\\.|[^,\\]|\\\Z)+", text, re.DOTALL))
    return lambda obj: all(test(obj) for test in tests)


class _Labels:
    """A parser of one label selector: one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        at = 0
        while found := _TOKEN.match(text, at):
            self.tokens.append(found[1] or found[2])
            at = found.end()
        self.tokens.append("")

    def requirements(self) -> Iterator[LabelMatcher]:
        if self.tokens == [""]:
            return
        yield self.requirement()
        while self.tokens[0]:
            self.expect(",")
            yield self.requirement()

    def requirement(self) -> LabelMatcher:
        if self.tokens[0] == "!":
            self.tokens.pop(0)
            absent = self.key()
            return lambda labels: absent not in labels
        key = self.key()
        match self.tokens[0]:
            case "" | ",":
                return lambda labels: key in labels
            case "=" | "==":
                self.tokens.pop(0)
                wanted = self.value()
                return lambda labels: labels.get(key) == wanted
            case "!=":
                self.tokens.pop(0)
                unwanted = self.value()
                return lambda labels: labels.get(key) != unwanted
            case "in":
                self.tokens.pop(0)
                chosen = self.values()
                return lambda labels: labels.get(key) in chosen
            case "notin":
                self.tokens.pop(0)
                barred = self.values()
                return lambda labels: labels.get(key) not in barred
            case ">" | "<" as operator:
                self.tokens.pop(0)
                return self.integer(key, operator)
        raise self.error(f"expected an operator after {key!r}, found {self.tokens[0]!r}")

    def integer(self, key: str, operator: str) -> LabelMatcher:
        bound = self.value()
        if not _INTEGER.fullmatch(bound):
            raise self.error(f"{operator} needs an integer, found {bound!r}")
        limit, sign = int(bound), 1 if operator == ">" else -1

        def matches(labels: Mapping[str, str]) -> bool:
            value = labels.get(key, "")
            return bool(_INTEGER.fullmatch(value)) and sign * (int(value) - limit) > 0

        return matches

    def key(self) -> str:
        # "in" and "notin" are words only where an operator stands.
        key = self.tokens.pop(0)
        prefix, slash, name = key.rpartition("/")
        if (
            not _NAME.fullmatch(name)
            or len(name) > 63
            or (slash and (not _PREFIX.fullmatch(prefix) or len(prefix) > 253))
        ):
            raise self.error(f"expected a label key, found {key!r}" if key else "expected a label key at the end")
        return key

    def value(self) -> str:
        if self.tokens[0] in ("", ","):
            return ""
        return self.label_value(self.tokens.pop(0))

    def values(self) -> frozenset[str]:
        self.expect("(")
        found, current = set[str](), ""
        while self.tokens[0] not in ("", ")"):
            if self.tokens[0] == ",":
                self.tokens.pop(0)
                found.add(current)
                current = ""
            elif current:
                break
            else:
                current = self.label_value(self.tokens.pop(0))
        self.expect(")")
        return frozenset(found | {current})

    def label_value(self, value: str) -> str:
        if not _NAME.fullmatch(value) or len(value) > 63:
            raise self.error(f"expected a label value, found {value!r}")
        return value

    def expect(self, token: str) -> None:
        if self.tokens[0] != token:
            raise self.error(f"expected {token!r}, found {self.tokens[0]!r}")
        self.tokens.pop(0)

    def error(self, reason: str) -> ValueError:
        return ValueError(f"label selector {self.text!r}: {reason}")


def _field_test(text: str, term: str) -> FieldMatcher:
    found = re.fullmatch(r"([^=!\\]+?)(==|!=|=)((?:\\[\\,=]|[^\\,=])*)", term, re.DOTALL)
    if found is None:
        raise ValueError(f"field selector {text!r}: expected path=value, path==value or path!=value, found {term!r}")
    path, operator, escaped = found.groups()
    value = re.sub(r"\\(.)", r"\1", escaped)
    steps, equal = path.split("."), operator != "!="
    return lambda obj: (_text_at(obj, steps) == value) is equal


def _text_at(obj: Any, steps: list[str]) -> str:
    for step in steps:
        obj = obj.get(step) if isinstance(obj, Mapping) else None
    if obj is None or isinstance(obj, Mapping | list):
        return ""
    return str(obj).lower() if isinstance(obj, bool) else str(obj)
