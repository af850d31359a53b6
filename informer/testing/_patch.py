"""JSON merge patch (RFC 7396) and JSON patch (RFC 6902) on decoded objects."""

from __future__ import annotations

import copy
from typing import Any


class PatchError(ValueError):
    """The patch cannot be applied to this object: a failed test, a missing path."""


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with a merge patch applied; null removes a member, a list replaces a list."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(target: Any, operations: list[dict[str, Any]]) -> Any:
    """The target with all operations applied, or none.

    Raises:
        PatchError: an operation failed; names it.
    """
    document: Any = {"": copy.deepcopy(target)}  # the root as a member, so that the empty pointer needs no special case
    for operation in operations:
        try:
            _apply(document, operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise PatchError(f"{operation.get('op')} {operation.get('path')}: {error}") from None
    return document[""]


def _apply(document: Any, operation: dict[str, Any]) -> None:
    steps = _steps(operation["path"])
    match operation["op"]:
        case "add":
            _add(document, steps, copy.deepcopy(operation["value"]))
        case "remove":
            _pop(document, steps)
        case "replace":
            _pop(document, steps)
            _add(document, steps, copy.deepcopy(operation["value"]))
        case "move":
            _add(document, steps, _pop(document, _steps(operation["from"])))
        case "copy":
            _add(document, steps, copy.deepcopy(_get(document, _steps(operation["from"]))))
        case "test":
            if not _same(_get(document, steps), operation["value"]):
                raise PatchError("test failed: the value is another")
        case op:
            raise PatchError(f"unknown operation {op!r}")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise PatchError(f"the pointer {pointer!r} must begin with /")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]


def _index(step: str, size: int) -> int:
    if not step.isdecimal() or (len(step) > 1 and step[0] == "0") or int(step) >= size:
        raise PatchError(f"no index {step!r} in a list of {size}")
    return int(step)


def _get(document: Any, steps: list[str]) -> Any:
    for step in steps:
        document = document[_index(step, len(document))] if isinstance(document, list) else document[step]
    return document


def _add(document: Any, steps: list[str], value: Any) -> None:
    parent, last = _get(document, steps[:-1]), steps[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent) + 1), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise PatchError("the parent is neither object nor list")


def _pop(document: Any, steps: list[str]) -> Any:
    parent, last = _get(document, steps[:-1]), steps[-1]
    return parent.pop(_index(last, len(parent)) if isinstance(parent, list) else last)


def _same(one: Any, other: Any) -> bool:
    # JSON's true is not its 1, though Python's is.
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
