"""A label selector as the API writes it in `spec.selector`, compiled into a test of a label map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from eviction._objects import member

Matches: TypeAlias = Callable[[Mapping[str, str]], bool]


def compile_selector(selector: Any) -> Matches:
    """The test for a `LabelSelector`. For policy/v1: `{}` selects every pod of the namespace, null none.

    Raises:
        ValueError: The selector is not one; the server lets such a budget select nothing.
    """
    if selector is None:
        return lambda _labels: False
    exact = _listed(selector, "matchLabels", Mapping, {})
    expressions = _listed(selector, "matchExpressions", list, [])
    tests = [_equals(key, value) for key, value in exact.items()]
    tests += [_expression(expression) for expression in expressions]
    return lambda labels: all(test(labels) for test in tests)


def _listed(selector: Any, name: str, kind: Any, default: Any) -> Any:
    value = member(selector, name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise ValueError(f"{name} of a selector is {type(value).__name__}")  # noqa: TRY004 - bad data, not a bad call
    return value


def _equals(key: Any, value: Any) -> Matches:
    if not isinstance(key, str) or not isinstance(value, str):
        raise ValueError(f"matchLabels maps texts, not {key!r} to {value!r}")  # noqa: TRY004 - bad data, not a bad call
    return lambda labels: labels.get(key) == value


def _expression(expression: Any) -> Matches:
    key, operator, values = (member(expression, name) for name in ("key", "operator", "values"))
    if not isinstance(key, str):
        raise ValueError(f"an expression of a selector has no key: {expression!r}")  # noqa: TRY004 - bad data, not a bad call
    if operator in ("In", "NotIn"):
        if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{operator} needs a list of texts, not {values!r}")
        wanted = frozenset(values)
        if operator == "In":
            return lambda labels: labels.get(key) in wanted
        return lambda labels: labels.get(key) not in wanted  # an absent label is not in the set
    if operator not in ("Exists", "DoesNotExist") or values:
        raise ValueError(f"an expression of a selector cannot be understood: {expression!r}")
    present = operator == "Exists"
    return lambda labels: (key in labels) is present
