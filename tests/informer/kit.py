"""What the tests of the store and of what stands on it share: objects, events, and a handler that checks what it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import define, field

from informer import (
    Added,
    Change,
    DegradedListerWatcher,
    Deleted,
    FieldCheck,
    Item,
    KubeObject,
    Problem,
    Quarantined,
    QuarantinedObject,
    Removed,
    Resource,
    Updated,
    Withheld,
    checks,
)
from informer._buffer import Buffer
from informer._cache import Cache
from informer.objects import make_key
from informer.testing import FakeListerWatcher

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
CLUSTERS = Resource("example.test", "v1", "clusters", kind="Cluster", namespaced=False)
PODS = Resource("", "v1", "pods", kind="Pod")
TIMEOUT_CHECK: FieldCheck = checks.duration("spec.timeout")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def obj(name: str, version: int | str = 1, uid: str | None = None, *, namespace: str = "ns", **spec: Any) -> KubeObject:
    """A widget; its uid is made of its name unless one is given."""
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= {"uid": f"uid-{name}" if uid is None else uid, "resourceVersion": str(version)}
    for special in ("labels", "finalizers", "deletionTimestamp"):
        if special in spec:
            metadata[special] = spec.pop(special)
    return KubeObject.parse(json.dumps({"metadata": metadata, "spec": spec}).encode())


def good(one: KubeObject) -> Item[KubeObject]:
    return Item(one.key, one.uid, one.resource_version, one.metadata.labels, one)


def bad(one: KubeObject, *problems: Problem) -> Withheld:
    problems = problems or (Problem(("spec", "timeout"), '"1"', "missing unit"),)
    entry = QuarantinedObject(
        WIDGETS, one.key, one.uid, one.resource_version, problems, EPOCH, EPOCH, 1, one.metadata, one.raw
    )
    return Withheld(one.key, one.uid, one.resource_version, entry)


def gone(one: KubeObject, version: int | str = 99, *, last: bool = True) -> Deleted[KubeObject]:
    return Deleted(one.key, one.uid, str(version), one if last else None)


def short(change: Change[KubeObject]) -> tuple[object, ...]:
    """A change as (word, "name version", flags)."""

    def name(one: KubeObject | None) -> str | None:
        return None if one is None else f"{one.name} {one.resource_version}"

    match change:
        case Added(new, initial):
            return ("add", name(new), *(["initial"] if initial else []))
        case Updated(old, new, resync):
            return ("update", name(old), name(new), *(["resync"] if resync else []))
        case Removed(last, unknown):
            return ("delete", name(last), *(["unknown"] if unknown else []))
        case Quarantined(old, entry):
            return ("quarantined", name(old), f"{entry.key.rpartition('/')[2]} {entry.resource_version}")


def drain(buffer: Buffer[KubeObject]) -> list[Change[KubeObject]]:
    """All that is pending, without the mark that ends the initial objects."""
    return [entry[1] for entry in buffer.take() if entry is not None]


class Bench:
    """A cache without a reflector: the test tells it what a reflector would."""

    def __init__(self, max_backlog: int = 10_000) -> None:
        self.cache: Cache[KubeObject] = Cache()
        self._max_backlog = max_backlog
        self._version = 1000
        self.buffer = self.join()

    def join(self) -> Buffer[KubeObject]:
        """One more handler's buffer; a late one begins with what is there."""
        buffer: Buffer[KubeObject] = Buffer(self._max_backlog)
        if self.cache.synced:
            buffer.snapshot(self.cache.indexer.state)
        self.cache.fanout.attach(buffer)
        return buffer

    async def relist(self, *present: Item[KubeObject] | Withheld, unidentifiable: int = 0) -> None:
        self._version += 1
        collected = self.cache.collect()
        collected.unidentifiable = unidentifiable
        for event in present:
            collected.add(event)
        await collected.publish(str(self._version))

    def told(self, buffer: Buffer[KubeObject] | None = None) -> list[tuple[object, ...]]:
        return [short(change) for change in drain(self.buffer if buffer is None else buffer)]

    @property
    def names(self) -> list[str]:
        return sorted(f"{item.object.name} {item.resource_version}" for item in self.cache.indexer.state.items.values())

    @property
    def held(self) -> list[str]:
        return sorted(
            f"{key.rpartition('/')[2]} {held.withheld.resource_version}"
            for key, held in self.cache.indexer.state.held.items()
        )


@define
class Replay:
    """What a handler that believes every call knows; each call is checked against it.

    Attributes:
        known: key to the object it last heard of.
        held: key to (entry, whether it ever saw this life good).
        calls: every change.
    """

    known: dict[str, KubeObject] = field(factory=dict)
    held: dict[str, tuple[QuarantinedObject, bool]] = field(factory=dict)
    calls: list[Change[KubeObject]] = field(factory=list)

    def __call__(self, change: Change[KubeObject]) -> None:
        self.calls.append(change)
        match change:
            case Added(new):
                assert new.key not in self.known, f"{short(change)}: it is known already"
                self.held.pop(new.key, None)
                self.known[new.key] = new
            case Updated(old, new, resync):
                assert self.known.get(new.key) is old, f"{short(change)}: not what was known, {self.known.get(new.key)}"
                assert old.uid == new.uid, "one update across two lives"
                assert (old is new) == resync
                self.known[new.key] = new
            case Removed(last):
                before = self.known.pop(last.key, None)
                if before is None:
                    assert last.key in self.held, f"{short(change)}: it was never there"
                    assert self.held.pop(last.key)[1], f"{short(change)}: this handler never saw it good"
                else:
                    assert before.uid == last.uid, "the delete of another life"
            case Quarantined(old, entry):
                assert self.known.get(entry.key) is old, f"{short(change)}: known is {self.known.get(entry.key)}"
                self.known.pop(entry.key, None)
                _, seen = self.held.get(entry.key, (None, False))
                self.held[entry.key] = (entry, seen or old is not None)

    def agrees(self, good: dict[str, bytes], bad: set[str]) -> None:
        """It knows exactly the good objects, and every bad one. One that it never saw good may have left unsaid."""
        assert {key: one.raw for key, one in self.known.items()} == good
        assert bad <= self.held.keys()
        assert {key for key, (_, seen) in self.held.items() if seen} <= bad


def source(*names: str, resource: Resource = WIDGETS, **options: Any) -> FakeListerWatcher:
    """A source in memory with these objects."""
    fake = FakeListerWatcher(resource, **options)
    for name in names:
        fake.create(name)
    return fake


def degraded(fake: FakeListerWatcher) -> DegradedListerWatcher[KubeObject]:
    return DegradedListerWatcher(fake, checks=[TIMEOUT_CHECK])


def names(objects: Sequence[KubeObject]) -> list[str]:
    return sorted(one.name for one in objects)


def key(name: str, namespace: str = "default") -> str:
    return make_key(namespace, name)


def by_spec(member: str) -> Callable[[KubeObject], list[str]]:
    """An index function: the list of strings in a member of spec."""

    def values(one: KubeObject) -> list[str]:
        found: list[str] = one["spec"].get(member, [])
        return found

    return values
