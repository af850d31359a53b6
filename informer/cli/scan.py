"""`scan`: look once, and name every bad object."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from informer.api import ApiListerWatcher
from informer.cli import judges, render, rules
from informer.cli.connect import Connection, connect
from informer.cli.discovery import resolve
from informer.cli.errors import CommandError, explain, one_line
from informer.cli.progress import Counting, progress
from informer.cli.scope import announce, emptiness, scope, where
from informer.degraded.checks import Check
from informer.degraded.scan import ScanReport, scan
from informer.errors import ApiError
from informer.resource import Resource


async def run(options: argparse.Namespace) -> int:
    """Scan, or print the rules; returns the exit code: 0 clean, 1 bad objects.

    Raises:
        CommandError: it could not look.
    """
    async with connect(options.kubeconfig, options.context) as connection:
        try:
            resource = await resolve(connection.api, options.resource, server=connection.cluster)
            crd = await _crd(options, connection, resource)
            if options.print_rules:
                print(rules.text(options.check, resource, crd or {}, as_json=options.output == "json"))
                return 0
            return await _scan(options, connection, resource, crd)
        except ApiError as error:
            raise CommandError(explain(error, connection.cluster)) from None


async def _crd(options: argparse.Namespace, connection: Connection, resource: Resource) -> Mapping[str, Any] | None:
    if options.crd_file:
        return judges.read_crd(options.crd_file)
    if options.crd_schema or options.print_rules:
        return await judges.fetch_crd(connection.api, resource, connection.cluster)
    return None


async def _scan(
    options: argparse.Namespace, connection: Connection, resource: Resource, crd: Mapping[str, Any] | None
) -> int:
    namespace = scope(options, connection, resource)
    presence = judges.Presence(one.check for one in options.check)
    more: list[Check] = [presence]
    unjudged: Sequence[str] = ()
    if crd is not None:
        by_schema = judges.by_schema(crd, resource)
        more.append(by_schema)
        unjudged = [one for one in by_schema.unjudged if one.startswith(f"{resource.version}: ")]
    source = Counting(
        ApiListerWatcher(
            connection.api,
            resource,
            namespace=namespace,
            label_selector=options.selector,
            field_selector=options.field_selector,
            on_unauthorized=connection.refresh,
        )
    )

    def text(seconds: float) -> str:
        return f"reading {resource}: {source.objects:,} objects, {seconds:.0f} s, from {connection.cluster}"

    async with progress(text, sys.stderr):
        report = await scan(source, checks=judges.all_checks(options.check, *more))
    by = _judges(options)
    if options.output == "table":
        announce(connection, namespace)
        style, columns = render.Style.of(sys.stdout), render.width(sys.stdout)
        for line in render.table(report, resource, where(namespace), style, by=by, columns=columns):
            print(line)
    else:
        found = render.as_dict(report, resource, namespace, context=connection.context, server=connection.server)
        print(render.as_json(found) if options.output == "json" else render.as_yaml(found))
    notes = list(_notes(report, presence, unjudged, judged=bool(by)))
    if not (report.checked or report.unidentifiable):
        empty = await emptiness(connection, namespace, named=bool(options.namespace))
        notes[:0] = [empty] if empty else []
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 1 if report.bad or report.unidentifiable else 0


def _judges(options: argparse.Namespace) -> str:
    """What an object was judged by, in words: "none of them bad" holds for that alone."""
    by = [render.count(len(options.check), "check")] if options.check else []
    by += ["the schema of the CRD"] if options.crd_schema else []
    by += [f"the schema in {one_line(options.crd_file)}"] if options.crd_file else []
    return " and ".join(by)


def _notes(report: ScanReport, presence: judges.Presence, unjudged: Sequence[str], *, judged: bool) -> Sequence[str]:
    notes = []
    if not judged:
        notes.append("nothing was asked of the objects but that they are JSON; add --check KIND:FIELD or --crd-schema")
    elif report.checked:
        notes += [
            f"no object has a field {path}; if that is a surprise, check its spelling" for path in presence.never_seen()
        ]
    if unjudged:
        shown = "; ".join(unjudged[:3]) + f"; and {len(unjudged) - 3} more" * (len(unjudged) > 3)
        notes.append(f"{len(unjudged)} parts of the schema were not judged: {shown}")
    return notes
