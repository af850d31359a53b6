"""`watch`: follow a resource live, one line for each thing that happens."""

from __future__ import annotations

import argparse
import asyncio
import errno
import select
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, TextIO

from attrs import define, field

from informer.api import ApiListerWatcher
from informer.changes import Added, Change, Quarantined, Removed, Updated
from informer.cli import judges, render
from informer.cli.connect import Connection, connect
from informer.cli.discovery import resolve
from informer.cli.errors import CommandError, explain, one_line
from informer.cli.progress import Counting, progress
from informer.cli.scope import announce, emptiness, scope, where
from informer.degraded.checks import Check
from informer.degraded.quarantine import Quarantine, QuarantineChange, Transition
from informer.degraded.wrapper import DegradedListerWatcher
from informer.errors import ApiError, SyncError
from informer.health import Health
from informer.objects import KubeObject
from informer.problems import QuarantinedObject, excerpt
from informer.resource import Resource
from informer.shared import SharedInformer

_PERIOD = 0.5


async def run(options: argparse.Namespace) -> int:
    """Follow until interrupted, or for `--seconds`; returns the exit code.

    Raises:
        CommandError: it could not look.
    """
    async with connect(options.kubeconfig, options.context) as connection:
        try:
            resource = await resolve(connection.api, options.resource, verb="watch", server=connection.cluster)
            more: list[Check] = []
            if options.crd_schema or options.crd_file:
                crd = (
                    judges.read_crd(options.crd_file)
                    if options.crd_file
                    else await judges.fetch_crd(connection.api, resource, connection.cluster)
                )
                more.append(judges.by_schema(crd, resource))
        except ApiError as error:
            raise CommandError(explain(error, connection.cluster)) from None
        checks = judges.all_checks(options.check, *more)
        namespace = scope(options, connection, resource)
        return await follow(
            connection,
            resource,
            checks,
            namespace=namespace,
            named=bool(options.namespace),
            label_selector=options.selector,
            field_selector=options.field_selector,
            seconds=options.seconds,
        )


async def follow(
    connection: Connection,
    resource: Resource,
    checks: Sequence[Check],
    *,
    namespace: str | None = None,
    named: bool = True,
    label_selector: str = "",
    field_selector: str = "",
    seconds: float | None = None,
) -> int:
    """Print what happens to a resource; changes nothing.

    Raises:
        CommandError: the server refuses, and waiting will not mend it.
    """
    source = Counting(
        ApiListerWatcher(
            connection.api,
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            on_unauthorized=connection.refresh,
        )
    )
    quarantine = Quarantine()
    lines = Lines(render.Style.of(sys.stdout))
    watched = DegradedListerWatcher(source, checks=checks, quarantine=quarantine)
    async with SharedInformer(watched) as informer:

        async def changes() -> None:
            with quarantine.subscribe(lines.transition):
                await _until_synced(informer, source, connection)
                announce(connection, namespace)
                if not (len(informer.lister) or informer.health.quarantined):
                    empty = await emptiness(connection, namespace, named=named)
                    if empty:
                        print(f"note: {empty}", file=sys.stderr, flush=True)
                # No await from here until the stream is open: what comes in between would neither be counted nor told.
                size, bad = len(informer.lister), informer.health.quarantined
                print(
                    f"synced: {render.count(size, 'object')} of {resource} in {where(namespace)}, {bad} quarantined; following changes",
                    flush=True,
                )
                async with informer.changes() as stream:
                    async for change in stream:
                        lines.change(change)

        try:
            async with asyncio.timeout(seconds):
                await _first(changes(), _report_health(lambda: informer.health, lines), _until_nobody_reads(sys.stdout))
        except TimeoutError:
            pass
        health = informer.health
        if not health.synced:
            raise CommandError(
                f"{one_line(informer.laggard())} after {seconds:g} s; give it more time, or check the server"
            )
        print(
            f"{render.count(len(informer.lister), 'object')}, {health.quarantined} quarantined, health {health.state}"
        )
    return 0


async def _until_synced(informer: SharedInformer[KubeObject], source: Counting, connection: Connection) -> None:
    def text(seconds: float) -> str:
        return f"loading {source.resource}: {source.objects:,} objects, {seconds:.0f} s, from {connection.cluster}"

    async with progress(text, sys.stderr):
        try:
            await informer.wait_for_sync()
        except SyncError as error:
            cause = error.__cause__
            said = explain(cause, connection.cluster) if isinstance(cause, ApiError) else one_line(error)
            raise CommandError(said) from None


async def _first(*parts: Coroutine[Any, Any, None]) -> None:
    """Run until the first part ends; its error is the caller's. None of them may die unseen, as a lone task would."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _report_health(health: Callable[[], Health], lines: Lines) -> None:
    """Say when the state changes, or why it is bad. A snapshot twice a second is soon enough for a reader."""
    said = "starting", ""
    while True:
        now = health()
        # What stands before the colon is the kind of error: `403 Forbidden`, `ConnectionError`. The rest differs each time.
        kind = (now.last_error or "").partition(":")[0] if now.state == "failing" else ""
        if (now.state, kind) != said:
            said = now.state, kind
            lines.health(now)
        await asyncio.sleep(_PERIOD)


async def _until_nobody_reads(stream: TextIO) -> None:
    """Watch the pipe we print to: `head` has gone long before there is another line to print, as `tail -f` knows, too.

    Raises:
        BrokenPipeError: its other end is closed.
    """
    while True:
        if _is_closed(stream):
            raise BrokenPipeError(errno.EPIPE, "nobody reads the output any more")
        await asyncio.sleep(_PERIOD)


def _is_closed(stream: TextIO) -> bool:
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
    except (
        AttributeError,
        OSError,
        ValueError,
    ):  # no poll on Windows, no descriptor of the stream: the next line will tell
        return False


@define
class Lines:
    """Prints one line for each thing that happens, in the words of kubectl where it has any."""

    _style: render.Style
    _bad: set[str] = field(factory=set, init=False)
    _ended: set[str] = field(factory=set, init=False)

    def change(self, change: Change[KubeObject]) -> None:
        """What the cache tells its handlers."""
        match change:
            case Added(obj, initial):
                recovered = obj.key in self._bad
                self._bad.discard(obj.key)
                self._ended.discard(obj.key)
                if not initial or recovered:  # what was there from the beginning has been counted
                    self._say("good", "RECOVERED" if recovered else "ADDED", obj.key)
            case Updated(_, new):
                self._say("changed", "MODIFIED", new.key)
            case Removed(obj):
                if obj.key in self._ended:
                    self._ended.discard(obj.key)
                else:
                    self._say("changed", "DELETED", obj.key)
            case Quarantined(_, entry):
                self._quarantined(entry)

    def transition(self, change: QuarantineChange) -> None:
        """What only the quarantine knows: that an object has gone which nobody could ever read."""
        if change.transition is Transition.DELETED and change.entry.key in self._bad:
            self._bad.discard(change.entry.key)
            self._ended.add(change.entry.key)
            self._say("changed", "DELETED", change.entry.key, "it was quarantined")

    def health(self, health: Health) -> None:
        """The state has changed."""
        role = {"live": "good", "starting": "dim"}.get(health.state, "bad")
        why = one_line(health.last_error) if health.state == "failing" and health.last_error else ""
        self._say(role, "HEALTH", health.state, why)

    def _quarantined(self, entry: QuarantinedObject) -> None:
        self._bad.add(entry.key)
        state = f"{render.deletion(entry)}; " if entry.terminating else ""
        self._say("bad", "QUARANTINED", entry.key, state + entry.summary)
        for command in entry.fix_commands():
            print(f"         {self._style('dim', f'$ {command}')}", flush=True)

    def _say(self, role: str, label: str, what: str, more: str = "") -> None:
        now = datetime.now().astimezone().strftime("%H:%M:%S")
        text = f"{excerpt(what, 530)}" + (f"  {more}" if more else "")
        print(f"{now} {self._style(role, f'{label:11}')} {text}", flush=True)
