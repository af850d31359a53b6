"""`python -m tests.conformance.generate`: docs/conformance.md out of the rows and the marks; `--write` to write it.

Without `--write` it only says whether the page is what it should be.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance.marks import Mark, Row, marks, rows

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
COMMAND = "python -m tests.conformance.generate --write"

_INTRODUCTION = """\
# Conformance with client-go

The tests of client-go's informers say what operators rely on. Each of them, or each family of them, is a row here: what it asks for, in our
own words, and our answer.

- **same**: it holds here too.
- **stricter**: it holds, and more.
- **different**: on purpose, with the reason.
- **not applicable**: there is nothing here that it could be asked of, with the reason.

Every other row has a test in `tests/conformance/` that carries its name; a row without one fails the build. DeltaFIFO's and RealFIFO's rows
are kept for what a handler or a reader may observe, since there is no queue between the reflector and the store. Rows that are about Go's
garbage collector or goroutines are kept for what they mean: no task, no stream and no reference is left.
"""


def problems(rows: Sequence[Row], marks: Sequence[Mark]) -> list[str]:
    """What is wrong: a row without an answer or with two, a mark for no row, a test that need not pass."""
    found = []
    ids = Counter(row.id for row in rows)
    found += [f"row {row!r} stands there {count} times" for row, count in ids.items() if count > 1]
    for mark in marks:
        if mark.row not in ids:
            found.append(f"{mark.test} is for a row that does not exist: {mark.row!r}")
        if mark.skipped:
            found.append(f"{mark.test} answers for {mark.row!r} and is skipped or expected to fail")
    for row in rows:
        answers = [mark for mark in marks if mark.row == row.id]
        if not answers and not row.not_applicable:
            found.append(f"row {row.id!r} has neither a test nor a reason why there is none")
        if answers and row.not_applicable:
            found.append(f"row {row.id!r} is not applicable, and {answers[0].test} is for it")
        if len({(mark.verdict, mark.reason) for mark in answers}) > 1:
            found.append(f"row {row.id!r} has several verdicts: {', '.join(mark.test for mark in answers)}")
    return found


def page(rows: Sequence[Row], marks: Sequence[Mark]) -> str:
    """The page."""
    return "\n".join(_lines(rows, marks)) + "\n"


def _lines(rows: Sequence[Row], marks: Sequence[Mark]) -> Iterator[str]:
    counts = Counter(_verdict(row, marks) for row in rows)
    tests = {mark.test for mark in marks}
    yield f"<!-- Generated: {COMMAND} -->"
    yield ""
    yield _INTRODUCTION
    yield f"{len(rows)} rows, {len(tests)} tests:"
    yield ""
    yield "| verdict | rows |"
    yield "|---|---|"
    for verdict in ("same", "stricter", "different", "not applicable"):
        yield f"| {verdict} | {counts[verdict]} |"
    for file, group in itertools.groupby(rows, key=lambda row: row.file):
        yield ""
        yield f"## {_cell(file)}"
        yield ""
        yield "| upstream | asks for | verdict | test |"
        yield "|---|---|---|---|"
        for row in group:
            answers = [mark for mark in marks if mark.row == row.id]
            verdict = _verdict(row, marks)
            reason = row.not_applicable or next((mark.reason for mark in answers), "")
            told = f"{verdict}: {reason}" if reason else verdict
            shown = ", ".join(f"`{mark.test.partition('::')[2]}`" for mark in answers)
            yield f"| {_cell(row.name)} | {_cell(row.holds)} | {_cell(told)} | {shown} |"


def _verdict(row: Row, marks: Sequence[Mark]) -> str:
    if row.not_applicable:
        return "not applicable"
    return next((mark.verdict for mark in marks if mark.row == row.id), "none")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def main() -> int:
    """Check or write the page; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition(";")[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    write = parser.parse_args().write
    all_rows, all_marks = rows(), marks()
    found = problems(all_rows, all_marks)
    text = page(all_rows, all_marks)
    if write and not found:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        found.append(f"docs/{PAGE.name} is not what rows and marks say; run {COMMAND}")
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
