"""What all conformance tests share: pods, a source that plays a script, and handlers that write down what they are told."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias

from informer import (
    Added,
    Bookmark,
    Change,
    Deleted,
    Event,
    InformerOptions,
    Item,
    KubeObject,
    ListerWatcher,
    ListOptions,
    Page,
    Quarantined,
    Removed,
    Resource,
    SharedInformer,
    StreamBrokenError,
    Updated,
    WatchOptions,
)
from informer._cache import Cache
from informer.backoff import Backoff, Limiter
from informer.health import Pulse
from informer.metrics import Recorder
from informer.reflector import Reflector

PODS = Resource("", "v1", "pods", kind="Pod")
NODES = Resource("", "v1", "nodes", kind="Node", namespaced=False)

# ---------------------------------------------------------------- objects


def tree(name: str, version: str, uid: str = "", *, namespace: str = "default", **top: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"u-{name}", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **top}


def pod(name: str, version: str, uid: str = "", **more: Any) -> Item[KubeObject]:
    obj = KubeObject.parse(json.dumps(tree(name, version, uid, **more)).encode())
    return Item(obj.key, obj.uid, obj.resource_version, obj.metadata.labels, obj)


def gone(name: str, version: str, uid: str = "") -> Deleted[KubeObject]:
    item = pod(name, version, uid)
    return Deleted(item.key, item.uid, version, item.object)


def page(version: str, *items: Item[KubeObject], token: str = "") -> Page[KubeObject]:
    return Page(items, version, token)


def pods(*names: str, version: str = "1") -> list[Item[KubeObject]]:
    return [pod(name, version) for name in names]


def line(kind: str, obj: Any) -> bytes:
    """One line of a watch on the wire."""
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def mark(version: str, value: str = "true") -> dict[str, Any]:
    """The object of the bookmark that ends a streaming list."""
    annotations = {"k8s.io/initial-events-end": value}
    return {"kind": "Pod", "metadata": {"resourceVersion": version, "annotations": annotations}}


def MARK(version: str) -> Bookmark:
    return Bookmark(version, initial_events_end=True)


# ---------------------------------------------------------------- a source with a script

BROKEN = StreamBrokenError("an event was lost")
"""Inside a watch: what only a LIST can mend, so a way to ask for one at the version reached."""


class Silence:
    """A step of a script: nothing more comes."""


SILENCE = Silence()

Step: TypeAlias = Event[KubeObject] | BaseException | float | Silence
ListAnswer: TypeAlias = Page[KubeObject] | BaseException | Callable[[], Awaitable[Page[KubeObject]]]
WatchAnswer: TypeAlias = BaseException | Sequence[Step]


class Scripted:
    """A source that answers as written down; the last LIST is answered again and again, further watches are silent.

    Args:
        lists: a page, an error, or an async function, for each LIST.
        watches: for each WATCH an error that refuses it, or its steps: events, errors, seconds, `SILENCE`.

    Attributes:
        asked: every request in words: LIST, WATCH or STREAM, and its options.
        calls: every request with its options and its time.
        opened, closed: how many streams.
    """

    resource = PODS

    def __init__(self, lists: Iterable[ListAnswer] = (), watches: Iterable[WatchAnswer] = ()) -> None:
        self._lists = deque(lists) or deque([page("1")])
        self._watches = deque(watches)
        self.asked: list[str] = []
        self.calls: list[tuple[ListOptions | WatchOptions, float]] = []
        self.opened = 0
        self.closed = 0

    def versions(self, verb: str) -> list[str]:
        """The versions asked for by LIST, WATCH or STREAM."""
        return [word[3:] for text in self.asked if text.startswith(verb) for word in text.split() if word[:3] == "rv="]

    @property
    def delays(self) -> list[float]:
        """Seconds between the requests."""
        times = [time for _, time in self.calls]
        return [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        words = ["LIST"]
        words += [] if options.resource_version is None else [f"rv={options.resource_version}"]
        words += [] if options.limit is None else [f"limit={options.limit}"]
        words += [f"continue={options.continue_token}"] if options.continue_token else []
        self._note(" ".join(words), options)
        await asyncio.sleep(0)
        answer = self._lists.popleft() if len(self._lists) > 1 else self._lists[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Page) else await answer()

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[KubeObject]]]:
        return self._watch(options)

    @asynccontextmanager
    async def _watch(self, options: WatchOptions) -> AsyncIterator[AsyncIterator[Event[KubeObject]]]:
        self._note(f"{'STREAM' if options.send_initial_events else 'WATCH'} rv={options.resource_version}", options)
        await asyncio.sleep(0)
        answer = self._watches.popleft() if self._watches else [SILENCE]
        if isinstance(answer, BaseException):
            raise answer
        self.opened += 1
        events = self._events(answer)
        try:
            yield events
        finally:
            self.closed += 1
            await events.aclose()

    async def _events(self, steps: Sequence[Step]) -> AsyncGenerator[Event[KubeObject], None]:
        for step in steps:
            if isinstance(step, Silence):
                await asyncio.Event().wait()
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif isinstance(step, BaseException):
                raise step
            else:
                yield step

    def _note(self, text: str, options: ListOptions | WatchOptions) -> None:
        self.asked.append(text)
        self.calls.append((options, asyncio.get_running_loop().time()))


# ---------------------------------------------------------------- who follows


def say(change: Change[Any]) -> str:
    """One change in a few words."""
    match change:
        case Added(obj, initial):
            return f"add {_name(obj)}{' initial' if initial else ''}"
        case Updated(old, new, resync):
            return f"resync {_name(new)}" if resync else f"update {_name(old)} to {_name(new)}"
        case Removed(obj, unknown):
            return f"delete {_name(obj)}{' unknown' if unknown else ''}"
        case Quarantined(_, entry):
            return f"quarantined {entry.name}"


def _name(obj: Any) -> str:
    return f"{obj.name}@{obj.resource_version}" if isinstance(obj, KubeObject) else str(obj)


def record(informer: SharedInformer[Any]) -> list[str]:
    """Add a handler that writes down what it is told."""
    told: list[str] = []
    informer.add_handler(on_change=lambda change: told.append(say(change)), name="recorder")
    return told


def names(informer: SharedInformer[KubeObject]) -> list[str]:
    return sorted(obj.name for obj in informer.lister.list())


def tasks() -> set[asyncio.Task[Any]]:
    """All tasks but this one."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def settle() -> None:
    """Let everything run that needs no time."""
    await asyncio.sleep(0.001)


@asynccontextmanager
async def following(
    source: ListerWatcher[Any], *, sync: bool = True, **options: Any
) -> AsyncIterator[tuple[SharedInformer[Any], list[str]]]:
    """An informer that runs, and what its handler is told."""
    informer: SharedInformer[Any] = SharedInformer(source, options=InformerOptions(**options))
    told = record(informer)
    async with informer:
        if sync:
            await informer.wait_for_sync(timeout=600)
            await settle()
        yield informer, told


@asynccontextmanager
async def reflecting(
    source: Scripted, *, backoff: Backoff | None = None, rng: Callable[[], float] = lambda: 0.0
) -> AsyncIterator[Cache[KubeObject]]:
    """A reflector alone, without jitter and without the limit on requests, so that delays can be told exactly."""
    cache: Cache[KubeObject] = Cache()
    loop = asyncio.get_running_loop()
    reflector = Reflector(
        source,
        cache,
        pulse=Pulse(clock=loop.time, now=lambda: datetime.now(UTC), deadline=1000),
        recorder=Recorder(),
        backoff=Backoff(rng=lambda: 0.0) if backoff is None else backoff,
        limiter=Limiter(burst=1_000_000),
        rng=rng,
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield cache
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
