"""A Warning Event on each object that cannot be read, so that `kubectl describe` says what the log says.

It writes to the cluster, which nothing else of this library does. Ask for it, give it the right to, and run it once: in
the leader.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from attrs import define, field

from informer import _client, _http
from informer.api import CallsApi
from informer.degraded.quarantine import Quarantine, QuarantineChange, Transition
from informer.errors import ApiError
from informer.problems import QuarantinedObject, excerpt
from informer.resource import Resource

__all__ = ["EventReporter"]

REASON = "Unreadable"
"""The Event's `reason`."""

_EVENTS = Resource("", "v1", "events", kind="Event")
_MESSAGE = 1000  # characters; the API server refuses more than 1024 bytes in an Event of the newer kind
_TIMEOUT = 10.0
_SPACING = 60.0  # seconds between two Events about one object, however often it changes
_FIRST_RETRY, _LAST_RETRY = 10.0, 600.0
_SERVER_TTL = 3600.0  # after so many seconds without an update the API server forgets an Event


def _utc_now() -> datetime:
    return datetime.now(UTC)


@define
class _Case:
    """One bad object, and what was written about it."""

    entry: QuarantinedObject
    due: float
    written_at: float = float("-inf")
    count: int = 0
    first: str = ""


class EventReporter:
    """Writes Events about the bad objects of quarantines while its context is open.

    One Event per life of an object, under a stable name: it is counted up, not written again, when the object changes, when
    it is time to say it again, and after a restart. Nothing is written when the object is mended or gone; the Event then
    fades as every Event does. What an object of a sensitive resource holds is never in it, as it is in no entry.

    A failure to write is logged once, and tried again later; it disturbs nothing else.

    It needs the verbs `create`, `get` and `patch` for `events` (core/v1) in the namespaces of the objects, and in `default`
    for cluster-scoped ones. `kubectl describe` looks for core/v1 Events by name, kind and uid in every version.

    Args:
        api_client: as for `ApiListerWatcher`.
        quarantines: whose objects to report. With an `InformerFactory`, which makes its own, hand `on_quarantined`,
            `on_resolved` to `add_handler` instead.
        component: who reports; `kubectl describe` shows it as "From".
        instance: which of its replicas, such as the pod's name.
        repeat_every: seconds after which an Event about an object that is still bad is counted up; less than an hour, or the
            server forgets it in between.
        pace: seconds between two requests.
        logger: name of the logger.
        now: the wall clock, as an aware datetime.

    Raises:
        ValueError: a duration that cannot be, or no component.
    """

    def __init__(
        self,
        api_client: CallsApi,
        *quarantines: Quarantine,
        component: str,
        instance: str = "",
        repeat_every: float = 1800.0,
        pace: float = 1.0,
        logger: str = "informer.events",
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        _client.require_async(api_client)
        if not component:
            raise ValueError("component is empty; say who reports, such as the operator's name")
        if not _SPACING <= repeat_every < _SERVER_TTL:
            raise ValueError(f"repeat_every is {repeat_every}; it must be at least {_SPACING:g} s and less than an hour")
        if not 0 < pace < float("inf"):
            raise ValueError(f"pace is {pace}; it must be a positive number of seconds")
        self._api = api_client
        self._quarantines = quarantines
        self._source = {"component": component, **({"host": instance} if instance else {})}
        self._repeat_every = repeat_every
        self._pace = pace
        self._logger = logging.getLogger(logger)
        self._now = now
        self._cases: dict[tuple[Resource, str], _Case] = {}
        self._news = asyncio.Event()
        self._failing = False
        self._retry = _FIRST_RETRY
        self._subscriptions = ExitStack()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin, with the objects that are bad already.

        Raises:
            RuntimeError: it was entered before.
        """
        if self._task is not None:
            raise RuntimeError("this EventReporter was used before; make a new one")
        for quarantine in self._quarantines:
            self._subscriptions.enter_context(quarantine.subscribe(self._on_change))
            for entry in quarantine.values():
                self._report(entry)
        self._task = asyncio.create_task(self._run(), name="event reporter")
        return self

    async def __aexit__(
        self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """End at once; what was not written is not written."""
        assert self._task is not None
        self._subscriptions.close()
        self._task.cancel()
        await asyncio.wait([self._task])

    def on_quarantined(self, _old: object, entry: QuarantinedObject, /) -> None:
        """An object cannot be read. Fits `add_handler(on_quarantined=…)`."""
        self._report(entry)

    def _on_change(self, change: QuarantineChange) -> None:
        if change.transition in {Transition.RECOVERED, Transition.DELETED}:
            self._cases.pop(_key(change.entry), None)
        else:
            self._report(change.entry)

    def _report(self, entry: QuarantinedObject) -> None:
        now = asyncio.get_running_loop().time()
        case = self._cases.get(_key(entry))
        if case is None or case.entry.uid != entry.uid:
            self._cases[_key(entry)] = _Case(entry, now)
        else:
            case.entry, case.due = entry, min(case.due, max(now, case.written_at + _SPACING))
        self._news.set()

    # ------------------------------------------------------------------ writing

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            case = min(self._cases.values(), key=lambda case: case.due, default=None)
            wait = None if case is None else case.due - loop.time()
            if case is None or (wait is not None and wait > 0):
                try:
                    async with asyncio.timeout(wait):
                        await self._news.wait()
                except TimeoutError:
                    pass
                continue
            await asyncio.sleep(await self._try(case))

    async def _try(self, case: _Case) -> float:
        """Write one Event; returns how long to leave the server alone after it."""
        try:
            await self._write(case)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not hurt what the program is there for
            if not self._failing:
                text = f"Events about bad objects cannot be written, it is tried again: {_text(error)}"
                self._logger.warning("%s", text, exc_info=None if isinstance(error, ApiError) else error)
            self._failing = True
            pause = max(self._retry, getattr(error, "retry_after", None) or 0.0)
            self._retry = min(2 * self._retry, _LAST_RETRY)
            return pause
        if self._failing:
            self._logger.warning("Events about bad objects are written again")
        self._failing, self._retry = False, _FIRST_RETRY
        now = asyncio.get_running_loop().time()
        case.written_at, case.due = now, now + self._repeat_every
        return self._pace

    async def _write(self, case: _Case) -> None:
        entry = case.entry
        namespace = entry.namespace or "default"
        name = self._name(entry)
        stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if not case.count:  # a new case, or a new process
            created = await self._send("POST", _EVENTS.path(namespace), self._event(entry, namespace, name, stamp), {409})
            if created is not None:
                case.count = 1
                return
            known = await self._send("GET", _EVENTS.path(namespace, name), None, {404})
            case.count = _count(known)
        case.count += 1
        patch = {"count": case.count, "lastTimestamp": stamp, "message": _message(entry)}
        patch["involvedObject"] = {"resourceVersion": entry.resource_version}
        if await self._send("PATCH", _EVENTS.path(namespace, name), patch, {404}) is None:
            case.count = 0  # the server has forgotten it
            await self._send("POST", _EVENTS.path(namespace), self._event(entry, namespace, name, stamp), set())
            case.count = 1

    async def _send(self, method: str, path: str, body: Any, absent: set[int]) -> Any:
        raise NotImplementedError

    def _name(self, entry: QuarantinedObject) -> str:
        raise NotImplementedError

    def _event(self, entry: QuarantinedObject, namespace: str, name: str, stamp: str) -> dict[str, Any]:
        raise NotImplementedError
