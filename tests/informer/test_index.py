"""What an index function may return, and what is said of one that returns something else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from informer._index import IndexData

from .kit import good, obj


def index(function: Callable[[Any], Any]) -> IndexData[Any]:
    return IndexData("size", function)


@pytest.mark.parametrize(
    ("found", "values"),
    [(["x", "y"], {"x", "y"}), (("x",), {"x"}), ({"x"}, {"x"}), (iter(["x"]), {"x"}), ([], set()), (None, set())],
    ids=["list", "tuple", "set", "iterator", "nothing", "None"],
)
def test_values(found: Any, values: set[str], caplog: pytest.LogCaptureFixture) -> None:
    """When a function returns strings, or None for none, the object should be under them, without a word."""
    data = index(lambda _: found)
    data.put(good(obj("a")))
    assert set(data.buckets) == values
    assert caplog.records == []


def test_none_takes_an_object_out() -> None:
    """When a function that had a value has none any more, the object should be under no value."""
    data = index(lambda one: ["x"] if one["spec"].get("on") else None)
    data.put(good(obj("a", 1, on=True)))
    data.put(good(obj("a", 2)))
    assert data.buckets == {}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"x": 1}, r"a list of strings, not a dict; .*write \[value\]"),
        ("x", r"a list of strings, not a string; write \[value\]"),
        ([600], r"a list of strings, and 600 is none; write str\("),
        (["x", None], "and None is none"),
        ([b"x"], "and a value of type bytes is none"),
    ],
    ids=["dict", "string", "number", "None inside", "bytes"],
)
def test_what_is_no_list_of_strings(found: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """When a function returns something else, the log should name the index and what to write, with one traceback for all."""
    data = index(lambda _: found)
    with caplog.at_level(logging.ERROR):
        for name in "abc":
            data.put(good(obj(name)))
    assert data.buckets == {}
    (record,) = caplog.records
    assert record.exc_info
    assert record.exc_info[0] is TypeError
    text = str(record.exc_info[1])
    assert text.startswith("the function of index 'size' returns ")
    with pytest.raises(TypeError, match=said):
        raise TypeError(text)


@pytest.mark.parametrize("wrapped", [lambda text: text, lambda text: {text: text}, lambda text: [text.encode()]])
def test_no_secret_is_quoted(wrapped: Callable[[str], Any], caplog: pytest.LogCaptureFixture) -> None:
    """When what is returned may come of a Secret, no text of it should stand in the log."""
    data = index(lambda _: wrapped("planted"))
    data.put(good(obj("a")))
    assert "returns a list of strings" in caplog.text
    assert "planted" not in "".join(line for line in caplog.text.splitlines() if line.startswith("TypeError"))


def test_any_mapping() -> None:
    """When a mapping that is no dict is returned, it should be refused as well: its values would be lost."""

    class Pairs(Mapping[str, int]):
        def __getitem__(self, key: str) -> int:
            return 1

        def __iter__(self) -> Any:
            return iter(["x"])

        def __len__(self) -> int:
            return 1

    data = index(lambda _: Pairs())
    data.put(good(obj("a")))
    assert data.buckets == {}
