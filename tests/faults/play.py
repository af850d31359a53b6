"""A play: one informer, one fake API server, and everything that can go wrong between them as single steps.

Steps take plain literals only, so that a schedule of them can be printed as a script and pasted into a test.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import re
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from typing import Any, Literal, TypeAlias
from unittest import mock

from attrs import Factory, define, field, frozen

from informer import (
    ApiListerWatcher,
    Change,
    DegradedListerWatcher,
    InformerOptions,
    KubeObject,
    ListerWatcher,
    QuarantineChange,
    Registration,
    Removed,
    SharedInformer,
    Transition,
)
from informer.testing import End, FakeApiServer, RecordedRequest, _lists, faults, match
from informer.testing._exchange import Send
from informer.testing._history import History, Key, Stored
from informer.testing._objects import Served
from informer.testing.faults import Exchange, Fault, Proceed
from tests.informer.kit import TIMEOUT_CHECK, WIDGETS, Replay, short
from tests.logs import keeping

Flavour: TypeAlias = Literal["good", "bad", "broken", "nameless", "lost"]
"""`bad`: a check refuses it. `broken`: its bytes are no JSON. `nameless`: it has no key. `lost`: nor a version, so that no watch
gets past it, and only a list that is newer does."""
Expiry: TypeAlias = Literal["http", "stream", "silent", "400"]
"""What a watch from a version that is too old gets: 410, 410 inside 200, an empty answer (kubernetes#104171), or 400."""

NAMESPACE = "default"
SLOWEST_RECOVERY = 1800.0
"""Seconds. A stalled watch is noticed after 630 at the worst; a capped Retry-After of 300 and a backoff of 60 may follow. That a
server was restored is noticed at the end of a whole watch, which may be the next one: 600 more."""


def _poison() -> dict[str, bytes]:
    def line(kind: str, obj: object) -> bytes:
        return json.dumps({"type": kind, "object": obj}).encode() + b"\n"

    nobody = {"metadata": {"resourceVersion": "1"}}
    return {
        "garbage": b"\xff\xfe{[\n",
        "html": b"<html>\n<body>502</body>\n</html>\n",
        "blank": b"\n\r\n\n",
        "no type": b'{"object":{}}\n',
        "unknown type": line("PATCHED", nobody),
        "bookmark of nothing": line("BOOKMARK", {"metadata": {}}),
        "error of nothing": line("ERROR", {}),
        "delete of nobody": line("DELETED", {"metadata": {}}),
        "neither key nor version": line("ADDED", {"metadata": {}}),
        "too deep": b'{"type":"ADDED","object":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
        "no end of line": b'{"type":"ADDED","object":{"metadata":{"name":"zz',
        "internal error": line("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError", "message": "no"}),
        "pretty status": json.dumps({"kind": "Status", "code": 503, "message": "wait"}, indent=2).encode() + b"\n",
    }


async def shrug(exchange: Exchange, _proceed: Proceed) -> None:
    """A bookmark, and the end: a watch that says "nothing new" again and again, which no backoff slows down."""
    version = exchange.request.query.get("resourceVersion") or "1"
    await exchange.start()
    await exchange.write(_bookmark(version))
    await exchange.finish(End.CLOSE)


async def bookmark_before_mark(exchange: Exchange, proceed: Proceed) -> None:
    """An ordinary bookmark in the middle of a streaming list."""
    if exchange.request.flag("sendInitialEvents"):
        await faults.Inject(_bookmark("1"), after_lines=1)(exchange, proceed)
    else:
        await proceed()


async def late_mark(exchange: Exchange, proceed: Proceed) -> None:
    """The mark of a streaming list comes behind the next change, which may be a delete."""
    held = False

    async def hold(data: bytes, send: Send) -> None:
        nonlocal held
        if b"initial-events-end" in data:
            held = True
            return
        await send(data)
        if held and (version := re.search(rb'"resourceVersion":"([0-9]+)"', data)):
            held = False
            await send(_bookmark(version[1].decode(), marked=True))

    exchange.filters.append(hold)
    await proceed()


def _bookmark(version: str, *, marked: bool = False) -> bytes:
    meta = {"resourceVersion": version, **({"annotations": {"k8s.io/initial-events-end": "true"}} if marked else {})}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode() + b"\n"


POISON = _poison()
HALF = b'{"kind":"WidgetList","apiVersion":"example.test/v1","metadata":{"resourceVersion":"5"},"items":[{"metad'
FAULTS: dict[str, Fault] = {
    "429": faults.status_answer(429, "TooManyRequests", "slow down", retry_after=7),
    "429 for an hour": faults.status_answer(429, "TooManyRequests", "slow down", retry_after=3600),
    "500": faults.status_answer(500, "InternalError", "no"),
    "503 html": faults.Answer(503, "<html>down</html>", content_type="text/html"),
    "504": faults.status_answer(504, "Timeout", "too slow", pretty=True),
    "400": faults.status_answer(400, "BadRequest", "what?"),
    "401": faults.status_answer(401, "Unauthorized", "who?"),
    "403": faults.status_answer(403, "Forbidden", "no"),
    "404": faults.Answer(404, "404 page not found", content_type="text/plain"),
    "410": faults.status_answer(410, "Expired", "too old"),
    "422": faults.status_answer(422, "Invalid", "no"),
    "200 html": faults.Answer(200, "<html>log in</html>", content_type="text/html"),
    "200 status": faults.Answer(200, {"kind": "Status", "code": 500, "message": "no"}, pretty=True),
    "200 empty": faults.Script(),
    "a bookmark and the end": shrug,
    "half, then silence": faults.Script(HALF, End.STALL),
    "half, then gone": faults.Script(HALF, End.DROP),
    "no answer": faults.NoAnswer(),
    "no answer, reset": faults.NoAnswer(End.RESET),
    "no answer, gone": faults.NoAnswer(End.DROP),
    "cut to nothing": faults.Cut(after_bytes=0, then=End.CLOSE),
    "cut and closed": faults.Cut(after_bytes=150, then=End.CLOSE),
    "cut and reset": faults.Cut(after_bytes=300, then=End.RESET),
    "cut and silent": faults.Cut(after_bytes=100, then=End.STALL),
    "cut after a line": faults.Cut(after_lines=1, then=End.DROP),
    "drip": faults.Drip(400, 64),
    "small chunks": faults.Drip(None, 7),
    "garbage first": faults.Inject(POISON["garbage"]),
    "garbage after a line": faults.Inject(POISON["garbage"], after_lines=1),
    "late": faults.Delay(45.0),
    "too late": faults.Delay(70.0),
    "deaf": faults.DropEvents(),
    "bookmark before the mark": bookmark_before_mark,
    "late mark": late_mark,
}


@frozen(kw_only=True)
class Mode:
    """How the informer of a play is set up; `lagging`: lists come from a watch cache, see `Lag`."""

    initial_list: Literal["list", "stream", "auto"] = "list"
    degraded: bool = True
    max_backlog: int = 10_000
    resync_period: float | None = None
    page_size: int = 3
    lagging: bool = False


@frozen
class Step:
    """One call of a method of `Play`."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"await play.{self.name}({', '.join(map(repr, self.arguments))})"


def script(mode: Mode, steps: Sequence[Step]) -> str:
    """A schedule as a function to be pasted into a test module beside `from tests.faults.play import Mode, playing`."""
    body = [f"    async with playing({mode!r}) as play:", *(f"        {step}" for step in steps)]
    return "\n".join(["async def test_replay() -> None:", *body, "        await play.settle()"])


@define(eq=False)
class Listener:
    """A handler that believes every call, and may be slow, raise, or hang while it is told to."""

    kind: Literal["plain", "slow", "raising", "hanging", "thread"]
    play: Play
    replay: Replay = Factory(Replay)
    deletes: Counter[str] = Factory(Counter)
    errors: list[str] = Factory(list)
    registration: Registration | None = None
    left: bool = False

    def join(self) -> None:
        call: Callable[[Change[KubeObject]], object] = {
            "plain": self.hear,
            "thread": self.hear,
            "slow": self.hear_slowly,
            "raising": self.hear_and_raise,
            "hanging": self.hear_and_hang,
        }[self.kind]
        self.registration = self.play.informer.add_handler(
            on_change=call, name=self.kind, in_thread=self.kind == "thread"
        )

    @property
    def backlog(self) -> int:
        assert self.registration is not None
        return self.registration.backlog

    def hear(self, change: Change[KubeObject]) -> None:
        try:
            assert not self.left, "a call after remove() has returned"
            self.replay(change)
            if isinstance(change, Removed):
                uid = change.object.uid
                self.deletes[uid] += 1
                assert self.deletes[uid] <= self.play.departures[uid], f"a delete of {uid}, which never left the server"
        except AssertionError as error:
            self.errors.append(f"{self.kind}: {short(change)}: {error}")

    async def hear_slowly(self, change: Change[KubeObject]) -> None:
        await asyncio.sleep(1)
        self.hear(change)

    def hear_and_raise(self, change: Change[KubeObject]) -> None:
        self.hear(change)
        raise LookupError("a handler of this kind always raises")

    async def hear_and_hang(self, change: Change[KubeObject]) -> None:
        await self.play.free.wait()
        self.hear(change)


@define(eq=False)
class Lag:
    """A watch cache that never catches up: each LIST that need not be the newest state gets the oldest that it may be.

    To be called in place of `_lists.snapshot`.
    """

    past: dict[int, Mapping[Key, Stored]] = Factory(dict)

    def note(self, server: FakeApiServer) -> None:
        """The server has changed, perhaps back to an earlier version."""
        served, history = server.table(WIDGETS)
        self.past = {version: objects for version, objects in self.past.items() if version < history.version}
        self.past[history.version] = dict(served.table.objects)

    def __call__(self, history: History, served: Served, query: Mapping[str, str], limit: int) -> _lists.Snapshot:
        version = query.get("resourceVersion", "")
        if not version or (version != "0" and limit) or int(version) > history.version:
            return _SNAPSHOT(history, served, query, limit)
        at = max(int(version), min(self.past))
        return _lists.Snapshot(at, self.past[max(one for one in self.past if one <= at)], whole=True)


_SNAPSHOT = _lists.snapshot


def _slot(name: str, flavour: Flavour) -> str:
    """Where an object is stored: one without a name must not hide another that has it."""
    return f"nameless-{name}" if flavour in ("nameless", "lost") else name


@define(eq=False)
class Play:
    """What the steps of a schedule are called on.

    Attributes:
        departures: how often each life has left the server: deleted, overwritten by another life, undone by a restore, or
            gone with its resource. No handler may hear of more deletes of a life than these.
        blind: the server has done what no client can notice from its watch alone.
        restored: it has gone back in time, which a client may or may not notice; see `_may_stay_blind`.
    """

    mode: Mode
    server: FakeApiServer
    informer: SharedInformer[KubeObject]
    source: ListerWatcher[KubeObject]
    departures: Counter[str] = Factory(Counter)
    blind: bool = False
    restored: bool = False
    listeners: list[Listener] = Factory(list)
    free: asyncio.Event = Factory(asyncio.Event)
    asked: list[asyncio.Task[None]] = Factory(list)
    lag: Lag = Factory(Lag)
    _expiry: Expiry = field(default="http", init=False)
    _present: frozenset[str] = field(default=frozenset(), init=False)
    _lives: int = field(default=0, init=False)
    _conversions: int = field(default=0, init=False)
    _cleared: Counter[str] = field(factory=Counter, init=False)
    _errors: list[str] = field(factory=list, init=False)
    _serving: bool = field(default=True, init=False)
    _running: bool = field(default=True, init=False)

    # ------------------------------------------------------------------ objects

    async def put(self, name: str, flavour: Flavour = "good", silent: bool = False) -> None:
        """Create an object, or change the one that is there."""
        self._put(name, flavour, self._uid(_slot(name, flavour)), silent=silent)

    async def replace(self, name: str, flavour: Flavour = "good", silent: bool = False) -> None:
        """Another life in the place of the one that is there, as a client sees it that missed the delete."""
        self._put(name, flavour, None, silent=silent)

    async def recreate(self, name: str, flavour: Flavour = "good") -> None:
        """Delete and create."""
        await self.remove(name)
        self._put(name, flavour, None)

    async def remove(self, name: str, silent: bool = False) -> None:
        """Delete an object."""
        if self._serving and self._stored(name) is not None:
            self.blind |= silent
            with self.server.drop_events() if silent else nullcontext():
                self.server.delete(WIDGETS, name, namespace=NAMESPACE)
            self._look()

    def _put(self, name: str, flavour: Flavour, uid: str | None, *, silent: bool = False) -> None:
        if not self._serving:
            return
        name = _slot(name, flavour)
        if uid is None:
            self._lives += 1
            uid = f"{name}-{self._lives}"

        def raw(version: str) -> bytes:
            meta = {"name": name, "namespace": NAMESPACE, "uid": uid, "resourceVersion": version}
            if flavour in ("nameless", "lost"):
                del meta["name"]
            if flavour == "lost":
                del meta["resourceVersion"]
            spec = {"timeout": "1" if flavour == "bad" else "1m", "size": float("nan") if flavour == "broken" else 1}
            obj = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": meta, "spec": spec}
            return json.dumps(obj, separators=(",", ":")).encode()

        self.blind |= silent
        with self.server.drop_events() if silent else nullcontext():
            self.server.put_raw(WIDGETS, name, raw, namespace=NAMESPACE)
        self._look()

    def _stored(self, name: str) -> Any:
        return self.server.table(WIDGETS)[0].table.objects.get((NAMESPACE, name))

    def _uid(self, name: str) -> str | None:
        stored = self._stored(name) if self._serving else None
        return None if stored is None else stored.metadata["uid"]

    def _look(self) -> None:
        stored = self.server.table(WIDGETS)[0].table.objects.values() if self._serving else ()
        present = frozenset(one.metadata["uid"] for one in stored)
        self.departures.update(self._present - present)
        self._present = present
        if self._serving:
            self.lag.note(self.server)
        else:
            self.lag.past.clear()

    # ------------------------------------------------------------------ the server

    async def convert(self) -> None:
        """Other content under the same versions, of which no watch tells: a default in the CRD, another conversion."""
        if self._serving:
            self.blind = True
            self._conversions += 1
            text = b'"converted":%d,"timeout":' % self._conversions
            objects = self.server.table(WIDGETS)[0].table.objects
            for key, one in objects.items():
                item, whole = (re.sub(rb'("converted":[0-9]+,)?"timeout":', text, raw) for raw in (one.item, one.whole))
                objects[key] = Stored(key, one.version, item, whole)
            self._look()

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def hit(self, verb: str, fault: str, times: int = 1) -> None:
        """Let the next requests be hit by a fault, and see to it that there are some."""
        self.blind |= fault == "deaf"
        self.server.faults.add(match(verb, WIDGETS), FAULTS[fault], times=times)
        if verb == "watch":
            self.server.end_watches()
        else:
            self.server.expire_watches()

    async def stop(self) -> None:
        """Connection refused."""
        await self.server.stop()
        self._running = False

    async def start(self) -> None:
        """The same port again."""
        if not self._running:
            await self.server.start()
            self._running = True

    async def compact(self) -> None:
        """Forget the history."""
        self.server.compact()

    async def expire_watches(self) -> None:
        """410 in the stream."""
        self.server.expire_watches()

    async def end_watches(self, end: str) -> None:
        """CLOSE, DROP, RESET or STALL."""
        self.server.end_watches(end=End[end])

    async def poison(self, kind: str) -> None:
        """Foreign bytes into the open watches."""
        self.server.send_to_watches(POISON[kind])

    async def forbid(self, *verbs: str) -> None:
        """403."""
        self.server.forbid(WIDGETS, *verbs)

    async def allow(self) -> None:
        """No 403 any more."""
        self.server.allow(WIDGETS)

    async def lock_out(self) -> None:
        """401."""
        self.server.tokens = {"another"}

    async def let_in(self) -> None:
        """No 401 any more."""
        self.server.tokens = None

    async def remove_resource(self) -> None:
        """The CRD is deleted, and its objects with it."""
        if self._serving:
            self.server.remove_resource(WIDGETS)
            self._serving = False
            self._look()

    async def add_resource(self) -> None:
        """The CRD is back."""
        if not self._serving:
            self.server.add_resource(WIDGETS, typed_items=True)
            self._serving = True
            self._look()

    async def restore(self, back: int) -> None:
        """From a backup that is so many writes old."""
        _, history = self.server.table(WIDGETS) if self._serving else (None, None)
        if history is not None:
            self.restored = True
            self.server.restore(str(max(history.compacted, history.version - back)))
            self._look()

    async def streaming_lists(self, kind: Literal["marked", "unmarked", "refused"]) -> None:
        """How the server answers streaming lists from now on."""
        self.server.watch_rules.streaming_lists = kind

    async def expiry(self, kind: Expiry) -> None:
        """What it answers to a version that is too old, from now on and also after all faults."""
        self._expiry = kind
        self.server.watch_rules.expired_in_stream = kind == "stream"

    def _expire_oddly(self) -> None:
        async def answer(exchange: Exchange, proceed: Proceed) -> None:
            await FAULTS["400" if self._expiry == "400" else "200 empty"](exchange, proceed)

        def too_old(request: RecordedRequest) -> bool:
            odd = self._expiry in ("silent", "400") and self._serving and not request.flag("sendInitialEvents")
            _, history = self.server.table(WIDGETS) if odd else (None, None)
            return history is not None and 0 < int(request.query["resourceVersion"] or 0) < history.compacted

        self.server.faults.clear()
        self.server.faults.add(match("watch", WIDGETS, when=too_old), answer, times=None)

    async def bookmarks(self, period: float | None) -> None:
        """How often it sends bookmarks."""
        self.server.watch_rules.bookmark_period = period

    # ------------------------------------------------------------------ handlers

    async def join(self, kind: Literal["plain", "slow", "raising", "hanging", "thread"]) -> None:
        """One more handler, however late."""
        listener = Listener(kind, self)
        listener.join()
        self.listeners.append(listener)

    async def leave(self, number: int) -> None:
        """One of the later handlers leaves."""
        later = self.listeners[1:]
        if later:
            listener = later[number % len(later)]
            assert listener.registration is not None
            if listener.kind == "hanging":
                self.free.set()
            await listener.registration.remove()
            listener.left = True
            self.listeners.remove(listener)
            assert not listener.errors, listener.errors

    async def hang(self) -> None:
        """From now on calls of the hanging handlers do not return."""
        self.free.clear()

    async def release(self) -> None:
        """They return again."""
        self.free.set()

    async def relist(self) -> None:
        """A user asks for a relist and waits for it."""
        self.asked.append(asyncio.create_task(self.informer.relist()))

    # ------------------------------------------------------------------ the end

    def hear_quarantine(self, change: QuarantineChange) -> None:
        """No object leaves the quarantine as deleted that has not left the server."""
        if change.transition is Transition.DELETED:
            uid = change.entry.uid
            self._cleared[uid] += 1
            if self._cleared[uid] > self.departures[uid]:
                self._errors.append(f"the quarantine says that {uid} is deleted, which never left the server")

    def forget(self) -> None:
        """Hold the informer no more."""
        self.listeners.clear()
        self.asked.clear()
        del self.informer, self.source

    async def settle(self) -> None:
        """End all faults, and check what must hold after them."""
        await self.start()
        await self.allow()
        await self.let_in()
        await self.add_resource()
        await self.streaming_lists("marked")
        await self.bookmarks(60.0)
        self._expire_oddly()
        self.free.set()
        if self.blind or self._may_stay_blind():
            # What cannot be noticed is asked for. A watch that a fault made deaf stays so until it ends.
            await asyncio.sleep(700)
            async with asyncio.timeout(SLOWEST_RECOVERY):
                await self.informer.relist()
        await self._in_step("after the faults")
        await self.put("heartbeat")
        await self._in_step("with a change after all that")
        self._check_handlers()
        self._check_requests()
        self._check_size()
        for asked in self.asked:
            assert asked.done(), "a relist that was asked for never came"
            await asked

    def _may_stay_blind(self) -> bool:
        """After a restore, what was written since may have overtaken the version that the informer asks from: then it has
        missed the writes between, and nothing tells it. As long as its version lies ahead of the server's it must find out,
        if it can know that this server sends bookmarks.
        """
        reflector, cache = self.informer._reflector, self.informer._cache
        assert reflector is not None
        ahead = cache.synced and int(cache.version or 0) > int(self.server.resource_version)
        return self.restored and not (ahead and reflector._course._bookmarks)

    async def _in_step(self, when: str) -> None:
        """The store becomes what the server has, and the handlers hear all of it, in bounded time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SLOWEST_RECOVERY):
                while self._difference() or any(one.backlog for one in self.listeners):  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(5)
        assert not self._difference(), f"{when}: {self._difference()}; {self.informer.health}"
        assert not [one.kind for one in self.listeners if one.backlog]

    def _truth(self) -> tuple[dict[str, bytes], set[str], int]:
        good: dict[str, bytes] = {}
        bad: set[str] = set()
        nameless = 0
        for (namespace, name), stored in self.server.table(WIDGETS)[0].table.objects.items():
            key, spec = f"{namespace}/{name}", stored.tree["spec"]
            if "name" not in stored.metadata:
                nameless += 1
            elif spec["size"] != 1 or (self.mode.degraded and spec["timeout"] == "1"):
                bad.add(key)
            else:
                good[key] = stored.item
        return good, bad, nameless

    def _difference(self) -> str:
        if not self.informer.health.synced:
            return f"not synced: {self.informer.health}"
        lister, (good, bad, nameless) = self.informer.lister, self._truth()
        store = {one.key: one.raw for one in lister.list()}
        wrong = {key for key in store.keys() | good.keys() if store.get(key) != good.get(key)}
        held = {entry.key for entry in lister.withheld()}
        found = []
        if self.informer.health.state != "live":
            found.append(f"health is {self.informer.health.state}")
        if wrong:
            found.append(f"the store is wrong about {sorted(wrong)}")
        if held != bad:
            found.append(f"withheld are {sorted(held)} instead of {sorted(bad)}")
        if isinstance(self.source, DegradedListerWatcher) and set(self.source.quarantine) != bad:
            found.append(f"the quarantine is {sorted(self.source.quarantine)} instead of {sorted(bad)}")
        if lister.complete != (not bad and not nameless):
            found.append(f"complete is {lister.complete} with {len(bad)} bad and {nameless} nameless objects")
        return "; ".join(found)

    def _check_handlers(self) -> None:
        good, bad, _ = self._truth()
        assert not self._errors, self._errors
        for listener in self.listeners:
            assert not listener.errors, listener.errors
            listener.replay.agrees(good, bad)
            assert listener.registration is not None
            assert listener.registration.has_synced

    def _check_requests(self) -> None:
        times = opened(self.server)
        for first in range(len(times)):
            for last in range(first + 5, len(times)):
                count, seconds = last - first + 1, times[last] - times[first]
                assert count <= 5 + (seconds + 0.5) / 6.0, f"{count} requests in {seconds:.1f} s: {times}"

    def _check_size(self) -> None:
        handlers = len(self.listeners)
        ours = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(("informer", "handler", "remind"))]  # fmt: skip
        resync = self.mode.resync_period is not None
        allowed = 1 + handlers + resync + self.mode.degraded
        assert len(ours) <= allowed, ours
        assert self.server.open_connections <= 2, "connections were left open"
        cache = self.informer._cache
        assert not cache._waiting
        assert len(cache.fanout.handlers) == len(cache.fanout._buffers) == handlers
        assert all(not len(handler.buffer) for handler in cache.fanout.handlers)


def opened(server: FakeApiServer) -> list[float]:
    """When requests came that the limiter has to let through: the start of each LIST, the opening of each WATCH.

    aiohttp sends a GET once more, at once, when its connection was reset before an answer came. Nothing of ours can ask it
    not to, so such a pair counts as the one request that it is for us.
    """
    times: list[float] = []
    before = None
    for one in server.requests:
        if one.verb not in ("list", "watch") or "continue" in one.query:
            before = None
            continue
        again = (
            before is not None and (before.status, before.query) == (None, one.query) and one.time - before.time < 0.1
        )
        before = None if again else one
        if not again:
            times.append(one.time)
    return times


@asynccontextmanager
async def playing(mode: Mode) -> AsyncIterator[Play]:
    """A running informer with one plain handler, on a server with two objects. Everything is closed and gone afterwards."""
    random.seed(7)
    async with AsyncExitStack() as stack:
        stack.enter_context(mock.patch("informer._course.PAGE_SIZE", mode.page_size))
        stack.enter_context(mock.patch("informer._paging.PAGE_SIZE", mode.page_size))
        stack.enter_context(keeping("informer"))
        complaints = stack.enter_context(keeping("asyncio"))
        server = await stack.enter_async_context(FakeApiServer())
        server.add_resource(WIDGETS, typed_items=True)
        # Versions in a row of one length, as a cluster of some age has them.
        server.resource_version = "1000"
        async with server.api_client() as client:
            source: ListerWatcher[KubeObject] = ApiListerWatcher(client, WIDGETS)
            if mode.degraded:
                source = DegradedListerWatcher(source, checks=[TIMEOUT_CHECK])
            options = InformerOptions(
                initial_list=mode.initial_list, max_backlog=mode.max_backlog, resync_period=mode.resync_period
            )
            informer = SharedInformer(source, options=options)
            play = Play(mode, server, informer, source)
            if mode.lagging:
                stack.enter_context(mock.patch("informer.testing._lists.snapshot", play.lag))
            play._expire_oddly()
            play.free.set()
            if isinstance(source, DegradedListerWatcher):
                stack.enter_context(source.quarantine.subscribe(play.hear_quarantine))
            await play.put("a")
            await play.put("b")
            await play.join("plain")
            async with informer:
                yield play
            assert informer.health.state == "stopped"
        gone = weakref.ref(informer)
        play.forget()
        del informer, source
        await server.stop()
        await asyncio.sleep(0.001)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        gc.collect()
        assert gone() is None, "something still holds the informer"
        said = [one.getMessage() for one in complaints if one.levelno >= logging.WARNING]
        assert not said, said
