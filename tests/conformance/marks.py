"""Which test answers for which upstream row: read from the source of the tests, so that it does not depend on what is run."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

HERE = Path(__file__).parent
VERDICTS = ("same", "stricter", "different")


@frozen
class Row:
    """One test, or family of tests, of client-go or controller-runtime."""

    file: str
    name: str
    holds: str
    not_applicable: str

    @property
    def id(self) -> str:
        return f"{self.file}: {self.name}"


@frozen
class Mark:
    """A test that answers for a row. `skipped`: it is marked as one that need not run or pass."""

    row: str
    verdict: str
    reason: str
    test: str
    skipped: bool


def rows() -> list[Row]:
    """All rows, in upstream's order."""
    found = []
    for file in tomllib.loads((HERE / "rows.toml").read_text())["file"]:
        for name, holds, *reason in file["rows"]:
            found.append(Row(file["name"], name, holds, reason[0] if reason else file.get("not_applicable", "")))
    return found


def marks() -> list[Mark]:
    """All marks, in the order in which they stand."""
    return [mark for path in sorted(HERE.glob("test_*.py")) for mark in read_marks(path.read_text(), path.name)]


def read_marks(source: str, file: str) -> Iterator[Mark]:
    """The marks in one module.

    Raises:
        ValueError: one is not written as literals, or has no verdict that counts.
    """
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            kinds = [_kind(decorator) for decorator in function.decorator_list]
            skipped = not {"skip", "skipif", "xfail"}.isdisjoint(kinds)
            for kind, decorator in zip(kinds, function.decorator_list, strict=True):
                if kind == "upstream":
                    yield _mark(decorator, f"{file}::{function.name}", skipped)


def _kind(decorator: ast.expr) -> str:
    text = ast.unparse(decorator)
    return text.removeprefix("pytest.mark.").partition("(")[0] if text.startswith("pytest.mark.") else ""


def _mark(decorator: ast.expr, test: str, skipped: bool) -> Mark:
    try:
        assert isinstance(decorator, ast.Call)
        [row] = [ast.literal_eval(argument) for argument in decorator.args]
        options = {str(one.arg): ast.literal_eval(one.value) for one in decorator.keywords}
        mark = Mark(row, options.pop("verdict"), options.pop("reason", ""), test, skipped)
    except (AssertionError, KeyError, ValueError) as error:
        raise ValueError(f"{test}: write @pytest.mark.upstream(row, verdict=…, reason=…) with literals") from error
    if options or mark.verdict not in VERDICTS:
        raise ValueError(f"{test}: the verdict is one of {', '.join(VERDICTS)}")
    if (mark.verdict == "same") == bool(mark.reason):
        raise ValueError(f"{test}: a verdict other than `same` needs its reason, and `same` has none")
    return mark
