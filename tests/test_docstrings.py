"""What the docstrings promise their readers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import eviction
import informer


def public_operations() -> Iterator[tuple[str, str]]:
    """Every public function, and the methods and properties of every public class, besides those that users write themselves."""
    for package in (informer, eviction):
        for name in package.__all__:
            found = getattr(package, name)
            if inspect.isfunction(found):
                yield name, found.__doc__ or ""
            if not inspect.isclass(found) or issubclass(found, BaseException) or getattr(found, "_is_protocol", False):
                continue
            for operation, value in vars(found).items():
                function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
                if not operation.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{operation}", f"{found.__doc__}{function.__doc__}"


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in public_operations()])
def test_every_operation_says_what_it_costs(text: str) -> None:
    """When somebody reads what a public operation does, its docstring or that of its class should say what it costs."""
    assert "O(" in text
