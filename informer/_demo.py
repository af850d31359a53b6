"""The story of one NodePool that nobody can read, told in a few seconds against a real HTTP server in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from attrs import define, field

from informer import Added, Change, InformerFactory, QuarantinedObject, Removed, Resource, SharedInformer, checks
from informer.api import CallsApi
from informer.objects import KubeObject

NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")
CHECKS = (checks.duration("spec.nodeDrainTimeout"), checks.duration("spec.nodeVolumeDetachTimeout"))
EDITS = 200
_PATIENCE = 5.0  # seconds for anything that is expected to happen


class Server(Protocol):
    """What the story needs of `informer.testing.FakeApiServer`; the demo itself is told which server to use."""

    def create(self, resource: Resource, obj: dict[str, Any]) -> dict[str, Any]: ...
    def patch(self, resource: Resource, name: str, patch: dict[str, Any], *, namespace: str) -> dict[str, Any]: ...
    def delete(self, resource: Resource, name: str, *, namespace: str) -> None: ...
    def lists(self, resource: Resource) -> list[Any]: ...
    def watches(self, resource: Resource) -> list[Any]: ...


@define
class Story:
    """Prints what happens, and remembers what was really observed.

    Attributes:
        pace: seconds between two steps, for a reader.
        missing: what should have been observed and was not.
    """

    pace: float
    missing: list[str] = field(factory=list)
    _began: float = field(factory=time.monotonic)

    def say(self, text: str) -> None:
        """One line with the time."""
        print(f"[{time.monotonic() - self._began:5.1f}s] {text}", flush=True)  # noqa: T201 - the demo talks to a person

    async def step(self, text: str) -> None:
        """Announce what happens next, and leave time to read."""
        print(flush=True)  # noqa: T201
        self.say(text)
        await asyncio.sleep(self.pace)

    async def observe(self, text: str, happened: Callable[[], bool]) -> None:
        """Wait for a fact; it must come true."""
        end = time.monotonic() + _PATIENCE
        while not happened() and time.monotonic() < end:  # noqa: ASYNC110 - the facts lie in many places
            await asyncio.sleep(0.01)
        if happened():
            self.say(f"  ok       {text}")
        else:
            self.missing.append(text)
            self.say(f"  MISSING  {text}")


class _Records(logging.Handler):
    """Keeps the ERROR lines, to show that they were said."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def pool(name: str, namespace: str, timeout: str, **metadata: Any) -> dict[str, Any]:
    """A NodePool as the demo's fleet has it."""
    return {
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"clusterName": namespace, "replicas": 3, "nodeDrainTimeout": timeout},
    }


async def tell(server: Server, api: CallsApi, story: Story) -> None:
    """The whole story."""
    for number in range(60):
        namespace = f"clusters-{number % 3}"
        server.create(NODEPOOLS, pool(f"pool-{number:02}", namespace, "1" if number == 30 else "10m"))
    bad, bad_namespace = "pool-30", "clusters-0"
    seen: list[Change[KubeObject]] = []
    noticed: list[tuple[str, bool]] = []

    with _error_records() as records:
        async with InformerFactory(api) as factory:
            await story.step('60 NodePools are stored; clusters-0/pool-30 says nodeDrainTimeout: "1", without a unit')
            pools = factory.informer(NODEPOOLS, checks=CHECKS)
            pools.add_handler(on_change=seen.append, name="audit")
            owner = _Owner(server, story, noticed)
            pools.add_handler(on_quarantined=owner.on_quarantined, name="owner")
            await factory.wait_for_sync(timeout=_PATIENCE)
            await story.observe("synced with the 59 good ones", lambda: len(pools.lister) == 59)
            await story.observe(
                "one is quarantined, so the cache says that it is not complete", lambda: _one(factory, pools)
            )
            await story.observe(
                "an ERROR names the object, the field, the value and the command", lambda: _said(records)
            )
            await story.observe("and it follows the server with one watch", lambda: len(server.watches(NODEPOOLS)) == 1)
            if not factory.quarantined():
                return
            command = factory.quarantined()[0].fix_commands()[0]

            await story.step(f"somebody else edits the bad object {EDITS} times")
            before = _requests(server)
            for number in range(EDITS):
                server.patch(
                    NODEPOOLS, bad, {"metadata": {"annotations": {"edit": str(number)}}}, namespace=bad_namespace
                )
                await asyncio.sleep(0)
            await story.observe(
                f"all {EDITS} edits came through the one open watch",
                lambda: '"edit":"199"' in json.dumps(_dict(factory), separators=(",", ":")),
            )
            await story.observe("they cost 0 requests", lambda: _requests(server) == before)
            await story.observe("and no further ERROR line", lambda: len(records.lines) == 1)

            await story.step("an administrator runs the command from the log, with a real duration in it")
            story.say(f"  $ {command.replace('<duration, e.g. 10m>', '10m')}")
            await run_kubectl_patch(api, command.replace("<duration, e.g. 10m>", "10m"))
            await story.observe(
                "the object arrives as an add, by itself", lambda: _arrived(seen, f"{bad_namespace}/{bad}")
            )
            await story.observe("nothing is quarantined, the cache is complete", lambda: pools.lister.complete)

            await story.step(
                "another pool turns bad while it is cached, and is then deleted; its finalizer waits for its owner"
            )
            name, namespace = "pool-44", "clusters-2"
            server.patch(NODEPOOLS, name, {"metadata": {"finalizers": ["demo/cloud"]}}, namespace=namespace)
            server.patch(NODEPOOLS, name, {"spec": {"nodeDrainTimeout": "1 hour"}}, namespace=namespace)
            await story.observe(
                "its owner is told that it is unreadable, not that it is gone", lambda: len(noticed) == 1
            )
            server.delete(NODEPOOLS, name, namespace=namespace)
            await story.observe(
                "its owner is told that it is terminating, and cleans up",
                lambda: noticed[-1:] == [(f"{namespace}/{name}", True)],
            )
            await story.observe(
                "only now it is deleted, for every handler", lambda: _deleted(seen, f"{namespace}/{name}")
            )

            lists, watches = len(server.lists(NODEPOOLS)), len(server.watches(NODEPOOLS))
            await story.step(
                f"{lists} LIST, {watches} WATCH, {len(seen)} events, {len(factory.quarantined())} quarantined, "
                f"health {pools.health.state}"
            )
            await story.observe("one LIST and one WATCH in all", lambda: (lists, watches) == (1, 1))


class _Owner:
    """The controller that a bad pool belongs to: it works on the untouched object, without reading the bad field."""

    def __init__(self, server: Server, story: Story, noticed: list[tuple[str, bool]]) -> None:
        self._server = server
        self._story = story
        self._noticed = noticed

    def on_quarantined(self, _old: KubeObject | None, entry: QuarantinedObject) -> None:
        if entry.key == "clusters-0/pool-30":
            return
        self._noticed.append((entry.key, entry.terminating))
        if entry.terminating:
            meta = entry.to_dict()["metadata"]
            self._story.say(
                f"  owner    {entry.key} is terminating with {meta['finalizers']}; cloud resources released"
            )
            patch = {"metadata": {"finalizers": None}}
            self._server.patch(NODEPOOLS, meta["name"], patch, namespace=meta["namespace"])


async def run_kubectl_patch(api: CallsApi, command: str) -> None:
    """Do what `kubectl patch` would do with this command line, for a machine that has no kubectl."""
    words = shlex.split(command)
    if words[:2] != ["kubectl", "patch"]:
        raise ValueError(f"expected a kubectl patch command, got {command!r}")
    resource, name, options = Resource.parse(words[2]), words[3], words[4:]
    kind = next(word.partition("=")[2] for word in options if word.startswith("--type="))
    response = await api.call_api(
        resource.path(options[options.index("-n") + 1], name),
        "PATCH",
        header_params={"Content-Type": f"application/{'merge' if kind == 'merge' else 'json'}-patch+json"},
        body=json.loads(options[options.index("-p") + 1]),
        auth_settings=["BearerToken"],
        _preload_content=False,
    )
    if response.status != 200:
        raise RuntimeError(f"the server answered {response.status} to {command}")
    response.release()


def _one(factory: InformerFactory, pools: SharedInformer[KubeObject]) -> bool:
    return [entry.key for entry in factory.quarantined()] == ["clusters-0/pool-30"] and not pools.lister.complete


def _said(records: _Records) -> bool:
    parts = ("clusters-0/pool-30", "spec.nodeDrainTimeout", '"1"', "kubectl patch nodepools")
    return len(records.lines) == 1 and all(part in records.lines[0] for part in parts)


def _dict(factory: InformerFactory) -> dict[str, Any]:
    entries = factory.quarantined()
    return entries[0].to_dict() if entries else {}


def _requests(server: Server) -> int:
    return len(server.lists(NODEPOOLS)) + len(server.watches(NODEPOOLS))


def _arrived(seen: list[Change[KubeObject]], key: str) -> bool:
    return any(isinstance(change, Added) and change.object.key == key for change in seen)


def _deleted(seen: list[Change[KubeObject]], key: str) -> bool:
    return [change.object.key for change in seen if isinstance(change, Removed)] == [key]


@contextlib.contextmanager
def _error_records() -> Iterator[_Records]:
    records = _Records()
    log = logging.getLogger("informer.degraded")
    log.addHandler(records)
    try:
        yield records
    finally:
        log.removeHandler(records)


async def demo(pace: float) -> int:
    """Run the story on the embedded server; returns the exit code: 0 only when everything was observed."""
    from informer.testing import FakeApiServer  # noqa: PLC0415 - only the demo needs a server

    story = Story(pace)
    async with FakeApiServer([NODEPOOLS]) as server, server.api_client() as api:
        await tell(server, api, story)
    print()  # noqa: T201
    if story.missing:
        story.say(f"NOT observed: {'; '.join(story.missing)}")
        return 1
    story.say("every step above was observed, none was assumed")
    return 0
