"""Reading Kubernetes objects in whatever shape a program holds them: dicts, client models, or an informer's objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def member(holder: Any, *path: str) -> Any:
    """The member at a path of camelCase names, or None where it is absent.

    Each step reads a mapping's key, an attribute, or an item of an informer's object; client models spell the same names
    in snake_case.
    """
    for name in path:
        holder = _step(holder, name)
        if holder is None:
            return None
    return holder


def _step(holder: Any, name: str) -> Any:
    snake = _CAMEL.sub("_", name).lower()
    if isinstance(holder, Mapping):
        return holder.get(name, holder.get(snake))
    for attribute in (name, snake):
        if (value := getattr(holder, attribute, None)) is not None and not callable(value):
            return value
    if hasattr(type(holder), "__getitem__") and not isinstance(holder, (str, bytes, list, tuple)):
        try:
            return holder[name]
        except (KeyError, TypeError):
            return None
    return None


def identity(holder: Any) -> tuple[str, str, str]:
    """Namespace, name and uid, empty where absent: from `metadata`, or beside it on an informer's object."""
    return tuple(
        _text(member(holder, "metadata", name)) or _text(member(holder, name)) for name in ("namespace", "name", "uid")
    )  # type: ignore[return-value]  # three names, three texts


def labels(holder: Any) -> Mapping[str, str] | None:
    """The labels; empty when the object has metadata without labels, None when it has no metadata to tell."""
    metadata = member(holder, "metadata")
    if metadata is None:
        return None
    found = member(metadata, "labels")
    return found if isinstance(found, Mapping) else {}


def integer(value: Any) -> int | None:
    """The value if it is a whole number; None for everything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
