"""The page about logging is true: it has every logger of the code, and every field that a record is given."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from informer import DegradedListerWatcher, SharedInformer, checks
from informer.resource import Resource
from informer.testing import FakeListerWatcher

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logging.md").read_text()
SOURCES = [
    path
    for package in ("informer", "eviction")
    for path in sorted((ROOT / package).rglob("*.py"))
    if not {"testing", "cli"} & set(path.parts) and path.name != "_demo.py"
]
# A value that a user chooses; the module that logs with it does not know the name.
GIVEN = {"report.py": "informer.degraded"}


def table(title: str) -> list[list[str]]:
    """The cells of the table that begins with this column."""
    lines = PAGE[PAGE.index(f"| {title} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def literal(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def loggers(path: Path) -> Iterator[str]:
    """Names in `getLogger("…")`, `getLogger(__name__)` and `logger: str = "…"`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger":
            (argument,) = node.args
            if isinstance(argument, ast.Name) and argument.id == "__name__":
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts)
            elif name := literal(argument):
                yield name
        elif isinstance(node, ast.arguments):
            for argument, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
                if argument.arg == "logger" and (name := literal(default)):
                    yield name


def fields(path: Path) -> Iterator[str]:
    """The keys of every `extra=`, given in place or by a function of the module."""
    tree = ast.parse(path.read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg != "extra":
                continue
            value: ast.AST = keyword.value
            if isinstance(value, ast.Call):
                assert isinstance(value.func, ast.Name), f"{path.name}: {ast.unparse(value)}"
                value = functions[value.func.id]
            found = [key for part in ast.walk(value) if isinstance(part, ast.Dict) for key in part.keys]
            assert found, f"{path.name}: {ast.unparse(keyword.value)}"
            yield from filter(None, map(literal, found))


def test_loggers() -> None:
    """When the page is read, it should name each logger of the library and no other."""
    assert [row[0].strip("`") for row in table("logger")] != []
    assert {row[0].strip("`") for row in table("logger")} == {name for path in SOURCES for name in loggers(path)}


def test_fields() -> None:
    """When the page is read, it should name each field that a record is given, and which loggers give it."""
    given: dict[str, set[str]] = {}
    for path in SOURCES:
        names = set(fields(path))
        if names:
            (logger,) = set(loggers(path)) or {GIVEN[path.name]}
            for name in names:
                given.setdefault(name, set()).add(logger)
    assert {row[0].strip("`"): set(re.findall(r"`([\w.]+)`", row[1])) for row in table("field")} == given


def test_no_field_hides_a_records_own() -> None:
    """When a record is given a field, it should be none that logging itself uses, which would raise."""
    own = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
    assert own.isdisjoint(row[0].strip("`") for row in table("field"))


@pytest.mark.parametrize("word", ["first", "reminder", "recovered"])
async def test_words(word: str, caplog: pytest.LogCaptureFixture) -> None:
    """When an object is bad for a while and then mended, the records should have the words that the page names."""
    source = FakeListerWatcher(Resource("example.test", "v1", "widgets", kind="Widget"))
    source.create("a", {"timeout": "1"})
    import asyncio

    async with SharedInformer(DegradedListerWatcher(source, checks=[checks.duration("spec.timeout")])) as informer:
        await informer.wait_for_sync()
        await asyncio.sleep(400)
        source.update("a", {"timeout": "1m"})
        await asyncio.sleep(1)
    words = [getattr(record, "quarantine_event", None) for record in caplog.records]
    assert word in words
    assert f"`{word}`" in PAGE
