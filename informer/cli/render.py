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

_GAP = "   "
_VALUE, _REASON = 12, 20  # the least a column gets; in a narrower terminal the lines wrap
_FINALIZERS = 5
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


def width(stream: TextIO) -> int | None:
    """How many characters a line of a terminal has; None for what is no terminal, or does not tell."""
    try:
        return (os.get_terminal_size(stream.fileno()).columns or None) if stream.isatty() else None
    except (OSError, ValueError):  # a stream without a descriptor
        return None


def table(
    report: ScanReport, resource: Resource, where: str, style: Style, *, by: str = "", columns: int | None = None
) -> Iterable[str]:
    """The lines for a person: a row per problem, the commands, and a sentence that sums up.

    Args:
        report: what was found.
        resource: of what.
        where: in which scope.
        style: colours or none.
        by: what judged, in words.
        columns: how wide the rows may be; None for as wide as they are. Commands are always whole.
    """
    if report.bad:
        rows = [row for entry in report.bad for row in _rows(entry, namespaced=resource.namespaced)]
        head = ("NAMESPACE",) * resource.namespaced + ("NAME", "FIELD", "VALUE", "REASON")
        fitted = _fitted(head, rows, columns)
        yield from _columns(head, fitted, style)
        if fitted != rows:
            yield style("dim", "Shortened to the width of the terminal; -o json, -o yaml and a pipe have it whole.")
        yield ""
        commands = [command for entry in report.bad for command in entry.fix_commands()]
        if commands:
            yield style("head", "To mend them, put a value in place of each <...> and run:")
            yield from (f"  {command}" for command in commands)
        for entry in report.bad:
            if gap := fixes.gap(entry):
                yield f"  {excerpt(entry.key, 530)}: {gap}"
            if entry.terminating:
                yield f"  {excerpt(entry.key, 530)} {deletion(entry)}"
        yield ""
    yield style("bad" if report.bad or report.unidentifiable else "good", summary(report, resource, where, by))


def deletion(entry: QuarantinedObject) -> str:
    """What a terminating object waits for. Its finalizers are named: they tell whose turn it is, which need not be ours."""
    finalizers = entry.metadata.finalizers or ()
    if not finalizers:
        return "is being deleted"
    named = ", ".join(excerpt(finalizer) for finalizer in finalizers[:_FINALIZERS])
    more = f" and {len(finalizers) - _FINALIZERS} more" if len(finalizers) > _FINALIZERS else ""
    return f"is being deleted and waits for its {count(len(finalizers), 'finalizer').partition(' ')[2]} {named}{more}"


def summary(report: ScanReport, resource: Resource, where: str, by: str = "") -> str:
    """What was found, in one sentence."""
    found = f"{len(report.bad):,} of {count(report.checked, 'object')} of {resource} in {where} cannot be read as asked"
    if not report.bad:
        found = (
            f"{count(report.checked, 'object')} of {resource} in {where}, none of them bad{f' by {by}' if by else ''}"
        )
    if report.unidentifiable:
        found += f"; {count(report.unidentifiable, 'item')} without a usable key besides"
    return found


def as_dict(
    report: ScanReport, resource: Resource, namespace: str | None, *, context: str | None, server: str
) -> dict[str, Any]:
    """The whole report for a program."""
    return {
        "context": context,
        "server": server,
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
        "finalizers": list(entry.metadata.finalizers or ()),
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


def _fitted(head: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> Sequence[Sequence[str]]:
    """Rows whose reasons and values are cut to the width.

    Names and fields are needed whole. What is expected goes first: the command says it, too.
    """
    widest = [max(len(row[number]) for row in (head, *rows)) for number in range(len(head))]
    if columns is None or sum(widest) + len(_GAP) * (len(head) - 1) <= columns:
        return rows
    room = columns - sum(size + len(_GAP) for size in widest[:-2]) - len(_GAP)
    needed = max(len(_without_expected(row[-1])) for row in rows)
    value = min(widest[-2], max(room - needed, room // 3, _VALUE))
    reason = max(room - value, _REASON)
    return [(*row[:-2], _cut(row[-2], value), _cut_reason(row[-1], reason)) for row in rows]


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 3]}..."


def _cut_reason(text: str, size: int) -> str:
    return text if len(text) <= size else _cut(_without_expected(text), size)


def _without_expected(reason: str) -> str:
    return reason.rpartition(" (expected: ")[0] or reason


def _columns(head: Sequence[str], rows: Iterable[Sequence[str]], style: Style) -> Iterable[str]:
    whole = [head, *rows]
    widths = [max(len(row[number]) for row in whole) for number in range(len(head) - 1)]
    for number, row in enumerate(whole):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        line = _GAP.join([*cells, row[-1]])
        yield style("head", line) if number == 0 else line
