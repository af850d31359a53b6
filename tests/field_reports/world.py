"""What all field reports share: the Widget resource and its rules, the wire's shorthand, and an informer that is watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
from attrs import Factory, define

from informer import (
    Added,
    ApiListerWatcher,
    Change,
    DegradedListerWatcher,
    InformerOptions,
    KubeObject,
    ListerWatcher,
    Quarantine,
    Quarantined,
    QuarantinedObject,
    Removed,
    Resource,
    SharedInformer,
    Updated,
    checks,
)
from informer.testing import FakeApiServer, RecordedRequest, faults, match
from informer.testing.faults import End, Fault, Script
from informer.testing.virtual import START

from .logs import Log

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
GADGETS = Resource("example.test", "v1", "gadgets", kind="Gadget")
TEAM = "team-a"


# ---------------------------------------------------------------- the validator


class Mode(StrEnum):
    AUTO = "Auto"
    MANUAL = "Manual"
    OFF = "Off"


class Count(int):
    """int32, not negative; as Go's decoders, it reads 3.0 and 1e9 as whole numbers."""


class Group(msgspec.Struct, frozen=True):
    name: str = ""
    tenant: str = ""


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """Types, enums and ranges; what only looks like a string is the business of `CHECKS`."""

    drain_timeout: Any = None
    size: Any = None
    limits: dict[str, Any] | None = None
    max_unavailable: Any = None
    mode: Mode | None = None
    tier: str = ""
    count: Count | None = None
    ports: list[int] | None = None
    groups: list[Group] | None = None
    ready_at: Any = None


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""


class Widget(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: Spec | None = None

    @property
    def name(self) -> str:
        return self.metadata.name


def _count(kind: type, value: object) -> Count:
    assert kind is Count
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ValueError("Expected a whole number")
    if not 0 <= value < 2**31:
        raise ValueError("Expected a number from 0 to 2147483647")
    return Count(value)


_decoder = msgspec.json.Decoder(Widget, dec_hook=_count)


def decode_widget(obj: KubeObject) -> Widget:
    return _decoder.decode(obj.raw)


CHECKS = (
    checks.duration("spec.drainTimeout"),
    checks.quantity("spec.size"),
    checks.quantity("spec.limits[*]"),
    checks.int_or_string("spec.maxUnavailable"),
    checks.timestamp("spec.readyAt"),
)


# ---------------------------------------------------------------- the wire


def W(name: str, rv: str, uid: str = "", spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A widget."""
    metadata = {"name": name, "namespace": TEAM, "uid": uid or f"u-{name}", "resourceVersion": rv, **meta}
    return {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": metadata, "spec": spec or {}}


def L(rv: str, items: Sequence[Any] | None, cont: str = "") -> dict[str, Any]:
    """A list of widgets."""
    meta = {"resourceVersion": rv, "continue": cont}
    return {"apiVersion": "example.test/v1", "kind": "WidgetList", "metadata": meta, "items": items}


def ST(code: int, reason: str, message: str, details: Any = None, metadata: Any = None) -> dict[str, Any]:
    """A Status that says no."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}, "status": "Failure", "message": message}
    return body | ({"reason": reason} if reason else {}) | {"code": code, "details": details or {}}


def to_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def EV(kind: str, obj: Any) -> bytes:
    """One line of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + to_bytes(obj) + b"}\n"


SILENT = Script(End.STALL)
"""A watch that is open and brings nothing."""


# ---------------------------------------------------------------- who follows


def say(change: Change[Any]) -> str:
    """One change in a few words: what a handler was told."""
    match change:
        case Added(obj):
            return f"add {obj.name}"
        case Updated(_, new):
            return f"update {new.name}"
        case Removed(obj):
            return f"delete {obj.name}"
        case Quarantined(_, entry):
            return f"quarantined {entry.name}"


@define(eq=False)
class Follower:
    """An informer with a handler that writes everything down."""

    informer: SharedInformer[Any]
    quarantine: Quarantine
    source: DegradedListerWatcher[Any]
    calls: list[str] = Factory(list)
    changes: list[Any] = Factory(list)
    """As `Change`s."""

    def __attrs_post_init__(self) -> None:
        self.informer.add_handler(
            on_add=lambda new: self.calls.append(f"add {new.name}"),
            on_update=lambda _, new: self.calls.append(f"update {new.name}"),
            on_delete=lambda last: self.calls.append(f"delete {last.name}"),
            on_quarantined=lambda _, entry: self.calls.append(f"quarantined {entry.name}"),
            on_change=self.changes.append,
            name="recorder",
        )

    @property
    def store(self) -> list[str]:
        return sorted(obj.name for obj in self.informer.lister.list())

    def get(self, name: str) -> Any:
        return self.informer.lister.get(name, namespace=TEAM)

    @property
    def bad(self) -> dict[str, list[str]]:
        """The quarantine: key to the paths of its problems."""
        return {key: [problem.path_text for problem in entry.problems] for key, entry in self.quarantine.items()}

    def entry(self, name: str) -> QuarantinedObject:
        return self.quarantine[f"{TEAM}/{name}"]


@define(eq=False)
class World:
    """A fake API server with a script, and what can be seen from outside."""

    server: FakeApiServer
    log: Log

    # -- the script

    def on_list(self, *answers: Any, resource: Resource = WIDGETS, times: int | None = 1) -> None:
        """The next answers to LIST: bodies, or faults."""
        for one in answers:
            fault = one if callable(one) else faults.Answer(200, one if isinstance(one, bytes) else to_bytes(one))
            self.server.faults.add(match("list", resource), fault, times=times)

    def on_watch(self, *scripts: Fault | Iterable[Any], resource: Resource = WIDGETS, times: int | None = 1) -> None:
        """The next answers to WATCH: faults, or the steps of a script."""
        for one in scripts:
            self.server.faults.add(match("watch", resource), one if callable(one) else Script(*one), times=times)

    # -- what was seen

    def asked(self, resource: Resource | None = WIDGETS) -> list[str]:
        """Every request in order: LIST or WATCH and what tells one from the other; an absent version is left out."""
        return [_tell(one) for one in self.server.requests if resource is None or one.asks_for(resource)]

    def times(self, verb: str, resource: Resource = WIDGETS) -> list[float]:
        """When the requests came, from the start of the test."""
        found = self.server.lists(resource) if verb == "list" else self.server.watches(resource)
        return [one.time - START for one in found]

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time() - START

    async def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after the start of the test."""
        await asyncio.sleep(max(0.0, seconds - self.now))

    # -- the client

    @asynccontextmanager
    async def follow(
        self,
        resource: Resource = WIDGETS,
        *,
        decode: Callable[[KubeObject], Any] | None = decode_widget,
        quarantine: Quarantine | None = None,
        options: InformerOptions | None = None,
        api: ApiClient | None = None,
        max_object_bytes: int = 32 << 20,
        on_unauthorized: Callable[[], Awaitable[None]] | None = None,
        before: Callable[[Follower], object] = lambda _: None,
        sync: bool = True,
    ) -> AsyncIterator[Follower]:
        """Run a degraded informer of a resource; `before` it starts a test may add to it."""
        async with api or self.server.api_client() as client:
            raw: ListerWatcher[KubeObject] = ApiListerWatcher(
                client, resource, max_object_bytes=max_object_bytes, on_unauthorized=on_unauthorized
            )
            quarantine = Quarantine() if quarantine is None else quarantine
            source: DegradedListerWatcher[Any] = (
                DegradedListerWatcher(raw, checks=CHECKS, quarantine=quarantine)
                if decode is None
                else DegradedListerWatcher(raw, decode=decode, checks=CHECKS, quarantine=quarantine)
            )
            informer: SharedInformer[Any] = SharedInformer(source, options=options)
            follower = Follower(informer, quarantine, source)
            before(follower)
            async with informer:
                if sync:
                    await informer.wait_for_sync(timeout=60)
                    await asyncio.sleep(0.001)  # handlers run after the sync, in tasks of their own
                yield follower


def _tell(request: RecordedRequest) -> str:
    words = ["WATCH" if request.verb == "watch" else request.verb.upper()]
    words += [
        f"{short}={request.query[name]}"
        for short, name in (("rv", "resourceVersion"), ("limit", "limit"), ("continue", "continue"))
        if name in request.query
    ]
    return " ".join(words)
