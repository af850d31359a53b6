"""The log lines about bad objects: each one record, one line, printable, under 4 KiB."""

from __future__ import annotations

import logging
from typing import Any

from attrs import frozen

from informer import fixes
from informer.problems import QuarantinedObject, excerpt
from informer.resource import Resource

_LINE = 3900
_KEY = 530  # a namespace of 253 characters, a slash, a name of 253
_SUMMARY = 1500
_FINALIZERS = 5
_FINALIZER = 100
_PATHS = 20


@frozen
class Report:
    """Writes to one logger.

    Besides the line, each record has the attributes `resource`, `namespace`, `object_name`, `uid`, `resource_version`,
    `paths`, `terminating`, `times_seen` and `quarantine_event`.
    """

    logger: logging.Logger

    def bad(self, entry: QuarantinedObject, *, first: bool) -> None:
        """An ERROR that says what is wrong with an object and which command helps."""
        state = f" {_terminating(entry)}: it" if entry.terminating else ""
        still = "" if first else " still"  # or a reminder would read like a second incident
        head = f"{_who(entry)}{state}{still} cannot be read and is withheld: {excerpt(entry.summary, _SUMMARY)}"
        line = f"{head}. {_help(entry, _LINE - len(head))}"
        self.logger.error("%s", line, extra=_extra(entry, "first" if first else "reminder"))

    def end(self, entry: QuarantinedObject, *, recovered: bool) -> None:
        """A WARNING, so that whoever saw the ERROR at the usual level sees its end too."""
        what = "has recovered and is no longer withheld" if recovered else "is gone: deleted or left the selection"
        self.logger.warning("%s %s", _who(entry), what, extra=_extra(entry, "recovered" if recovered else "deleted"))

    def summary(self, resource: Resource, count: int, terminating: int, lines: int) -> None:
        """An ERROR for those that have no line of their own this time."""
        self.logger.error(
            "%d objects of %s cannot be read and are withheld, %d of them terminating; at most %d are named per interval",
            count,
            resource,
            terminating,
            lines,
            extra={
                "resource": str(resource),
                "count": count,
                "terminating": terminating,
                "quarantine_event": "summary",
            },
        )


def _who(entry: QuarantinedObject) -> str:
    return f"{entry.resource.kind or entry.resource} {excerpt(entry.key, _KEY)}"


def _terminating(entry: QuarantinedObject) -> str:
    """That it is being deleted, and whom that waits for: not always this program, and then mending frees nothing."""
    names = [excerpt(name, _FINALIZER) for name in entry.metadata.finalizers]
    if not names:
        return "is terminating"
    more = f" and {len(names) - _FINALIZERS} more" if len(names) > _FINALIZERS else ""
    return f"is terminating, and its finalizers wait ({', '.join(names[:_FINALIZERS])}{more})"


def _help(entry: QuarantinedObject, room: int) -> str:
    gap = fixes.gap(entry)
    found = entry.fix_commands()
    text = " ".join([f"To fix it: {' ; '.join(found)}"] * bool(found) + [f"({gap})"] * bool(gap))
    return (
        text if len(text) <= room else "The command to fix it is too long for the log: see fix_commands() of the entry"
    )


def _extra(entry: QuarantinedObject, event: str) -> dict[str, Any]:
    return {
        "resource": str(entry.resource),
        "namespace": excerpt(entry.namespace, _KEY),
        "object_name": excerpt(entry.name, _KEY),
        "uid": excerpt(entry.uid),
        "resource_version": excerpt(entry.resource_version),
        "paths": tuple(excerpt(problem.path_text) for problem in entry.problems[:_PATHS]),
        "terminating": entry.terminating,
        "times_seen": entry.times_seen,
        "quarantine_event": event,
    }
