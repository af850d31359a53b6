"""What a person or a program reads: tables, JSON and YAML, colours on a terminal only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from attrs import frozen

from informer import fixes
from informer.degraded.scan import ScanReport
from informer.problems import QuarantinedObject, excerpt
from informer.resource import Resource

_CODES = {"bad": "31", "good": "32", "changed": "33", "dim": "2", "head": "1"}


@frozen
class Style:
    """Colours, or none: a pipe, a file, `NO_COLOR` (no-color.org) and a dumb terminal get plain text."""

    colours: bool

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """The style that suits a stream."""
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        return cls(stream.isatty() and not plain)

    def __call__(self, role: str, text: str) -> str:
        """The text in the colour of its role."""
        return f"\x1b[{_CODES[role]}m{text}\x1b[0m" if self.colours and text else text


def count(number: int, one: str, many: str = "") -> str:
    """`1 object`, `2,000 objects`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def table(report: ScanReport, resource: Resource, where: str, style: Style) -> Iterable[str]:
    """The lines for a person: a row per problem, the commands, and a sentence that sums up."""
    if report.bad:
        rows = [row for entry in report.bad for row in _rows(entry, namespaced=resource.namespaced)]
        head = ("NAMESPACE",) * resource.namespaced + ("NAME", "FIELD", "VALUE", "REASON")
        yield from _columns(head, rows, style)
        yield ""
        commands = [command for entry in report.bad for command in entry.fix_commands()]
        if commands:
            yield style("head", "To mend them, put a value in place of each <...> and run:")
            yield from (f"  {command}" for command in commands)
        for entry in report.bad:
            if gap := fixes.gap(entry):
                yield f"  {excerpt(entry.key, 530)}: {gap}"
            if entry.terminating:
                yield f"  {excerpt(entry.key, 530)} is being deleted, and its finalizers wait for somebody who can read it"
        yield ""
    yield style("bad" if report.bad or report.unidentifiable else "good", summary(report, resource, where))


def summary(report: ScanReport, resource: Resource, where: str) -> str:
    """What was found, in one sentence."""
    found = f"{len(report.bad):,} of {count(report.checked, 'object')} of {resource} in {where} cannot be read as asked"
    if not report.bad:
        found = f"{count(report.checked, 'object')} of {resource} in {where}, none of them bad"
    if report.unidentifiable:
        found += f"; {count(report.unidentifiable, 'item')} without a usable key besides"
    return found


def as_dict(report: ScanReport, resource: Resource, namespace: str | None) -> dict[str, Any]:
    """The whole report for a program."""
    return {
        "resource": str(resource),
        "kind": resource.kind,
        "namespace": namespace,
        "checked": report.checked,
        "unidentifiable": report.unidentifiable,
        "bad": [_entry(entry) for entry in report.bad],
    }


def as_json(value: Any) -> str:
    """Indented JSON in ASCII."""
    return json.dumps(value, indent=2)


def as_yaml(*documents: Any) -> str:
    """YAML in ASCII, one document after the other."""
    import yaml  # noqa: PLC0415 - comes with kubernetes_asyncio; the other formats do without

    text: str = yaml.safe_dump_all(documents, sort_keys=False, width=1 << 16, explicit_start=len(documents) > 1)
    return text.rstrip("\n")


def _entry(entry: QuarantinedObject) -> dict[str, Any]:
    return {
        "namespace": entry.namespace,
        "name": entry.name,
        "uid": entry.uid,
        "resourceVersion": entry.resource_version,
        "terminating": entry.terminating,
        "problems": [
            {
                "field": problem.path_text,
                "path": list(problem.path),
                "value": problem.value,
                "reason": problem.reason,
                "expected": problem.expected,
            }
            for problem in entry.problems
        ],
        "commands": list(entry.fix_commands()),
        "note": fixes.gap(entry),
    }


def _rows(entry: QuarantinedObject, *, namespaced: bool) -> Iterable[Sequence[str]]:
    name = excerpt(entry.name, 260) + " (terminating)" * entry.terminating
    for problem in entry.problems:
        expected = f" (expected: {problem.expected})" if problem.expected else ""
        row = (name, excerpt(problem.path_text, 400) or "-", problem.value or "-", problem.reason + expected)
        yield (excerpt(entry.namespace, 260), *row) if namespaced else row


def _columns(head: Sequence[str], rows: Iterable[Sequence[str]], style: Style) -> Iterable[str]:
    whole = [head, *rows]
    widths = [max(len(row[number]) for row in whole) for number in range(len(head) - 1)]
    for number, row in enumerate(whole):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        line = "   ".join([*cells, row[-1]])
        yield style("head", line) if number == 0 else line
