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
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from attrs import define

from informer import _client, _http, _wire
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
# The Event is refused and not its writer: the namespace is gone or ends, a name that cannot be.
_ITS_OWN_FAULT = frozenset({400, 404, 409, 413, 422})
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
    retry: float = _FIRST_RETRY


class EventReporter:
    """Writes Events about the bad objects of quarantines while its context is open.

    One Event per life of an object, under a stable name: it is counted up, not written again, when the object changes, when
    it is time to say it again, and after a restart. Nothing is written when the object is mended or gone; the Event then
    fades as every Event does. Of a sensitive resource's objects it shows no values, as no entry does.

    A failure to write is logged once for each kind of failure, and tried again later; it disturbs nothing else.

    It needs the verbs `create`, `get` and `patch` for `events` (core/v1) in the namespaces of the objects, and in `default`
    for cluster-scoped ones. `kubectl describe` looks for core/v1 Events by name, kind and uid, so the `Resource` needs its
    kind.

    Args:
        api_client: as for `ApiListerWatcher`.
        quarantines: whose objects to report, such as `*factory.quarantines()`.
        component: who reports; `kubectl describe` shows it as "From".
        instance: which of its replicas, such as the pod's name.
        repeat_every: seconds after which an Event about an object that is still bad is counted up; less than an hour, or the
            server forgets it in between.
        pace: seconds between two Events.
        logger: name of the logger.
        now: the wall clock, as an aware datetime.

    Raises:
        ValueError: a duration that cannot be, or no component.
        TypeError: a client that blocks.
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
        _client.require_usable(api_client)
        if not component:
            raise ValueError("component is empty; say who reports, such as the operator's name")
        if not _SPACING <= repeat_every < _SERVER_TTL:
            raise ValueError(
                f"repeat_every is {repeat_every}; it must be at least {_SPACING:g} s and less than an hour"
            )
        if not 0 < pace < float("inf"):
            raise ValueError(f"pace is {pace}; it must be a positive number of seconds")
        self._api = api_client
        self._quarantines = quarantines
        self._component = component
        self._instance = instance
        self._repeat_every = repeat_every
        self._pace = pace
        self._logger = logging.getLogger(logger)
        self._now = now
        self._cases: dict[tuple[Resource, str], _Case] = {}
        self._news = asyncio.Event()
        self._retry = _FIRST_RETRY
        self._said: set[str] = set()
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

    def _on_change(self, change: QuarantineChange) -> None:
        if change.transition in {Transition.RECOVERED, Transition.DELETED}:
            self._cases.pop((change.entry.resource, change.entry.key), None)
        else:
            self._report(change.entry)

    def _report(self, entry: QuarantinedObject) -> None:
        now = asyncio.get_running_loop().time()
        case = self._cases.setdefault((entry.resource, entry.key), _Case(entry, now))
        case.entry = entry
        if case.written_at > float("-inf"):  # else it is due as it is, or waits after a failure
            case.due = min(case.due, max(now, case.written_at + _SPACING))
        self._news.set()

    # ------------------------------------------------------------------ writing

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            case = min(self._cases.values(), key=lambda case: case.due, default=None)
            if case is not None and case.due <= loop.time():
                await asyncio.sleep(await self._try(case))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if case is None else case.due):
                    await self._news.wait()

    async def _try(self, case: _Case) -> float:
        """Write one Event; returns how long to leave the server alone after it."""
        now = asyncio.get_running_loop().time()
        try:
            await self._write(case)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not hurt what the program is there for
            self._complain(error)
            case.due, case.retry = now + case.retry, min(2 * case.retry, _LAST_RETRY)
            if isinstance(error, ApiError) and error.status in _ITS_OWN_FAULT:
                return self._pace
            pause, self._retry = self._retry, min(2 * self._retry, _LAST_RETRY)
            return max(pause, min(getattr(error, "retry_after", None) or 0.0, _LAST_RETRY))
        self._retry = case.retry = _FIRST_RETRY
        case.written_at, case.due = now, now + self._repeat_every
        return self._pace

    def _complain(self, error: Exception) -> None:
        kind = f"{error.status} {error.reason}" if isinstance(error, ApiError) else type(error).__name__
        if kind not in self._said:
            self._said.add(kind)
            text = str(error) if isinstance(error, ApiError) else kind
            self._logger.warning(
                "an Event about a bad object cannot be written; trying again, saying it once: %s", text
            )

    async def _write(self, case: _Case) -> None:
        entry = case.entry
        namespace, name = entry.namespace or "default", self._name(entry)
        new = self._event(entry, namespace, name)
        if not case.count:  # a new case, or a new process
            if await self._send("POST", _EVENTS.path(namespace), new, unless=409):
                case.count = 1
                return
            known = await self._send("GET", _EVENTS.path(namespace, name), None, unless=404)
            case.count = _count(known)
        patch = {"count": case.count + 1, "message": new["message"], "lastTimestamp": new["lastTimestamp"]}
        if await self._send("PATCH", _EVENTS.path(namespace, name), patch, unless=404):
            case.count += 1
        else:  # the server has forgotten it
            await self._send("POST", _EVENTS.path(namespace), new, unless=409)
            case.count = 1

    async def _send(self, method: str, path: str, body: Any, *, unless: int) -> Any:
        """The object the server answers with; None for that one status."""
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"Accept": "application/json", "Content-Type": f"application/{kind}"}
        what = f"{method} events"
        with _http.errors_as_api_error(what, _TIMEOUT):
            async with asyncio.timeout(_TIMEOUT):
                response = await _client.send(
                    self._api, method, path, query={}, headers=headers, timeout=_TIMEOUT, body=body
                )
                content = await response.read()  # to the end, or the connection is closed
        if response.status == unless:
            return None
        if not 200 <= response.status < 300:
            raise _http.status_error(what, response.status, content[: _http.ERROR_BYTES], response.headers)
        return _wire.decode_json(content)

    def _name(self, entry: QuarantinedObject) -> str:
        """The same for the same life of an object and the same component, so that a restart finds its Event again."""
        digest = hashlib.sha256("\0".join((str(entry.resource), entry.key, entry.uid, self._component)).encode())
        slug = re.sub(r"[^a-z0-9-]+", "-", entry.name.lower()).strip("-")[:200].rstrip("-")
        return f"{slug or entry.resource.plural}.{digest.hexdigest()[:16]}"

    def _event(self, entry: QuarantinedObject, namespace: str, name: str) -> dict[str, Any]:
        resource = entry.resource
        involved = {
            "apiVersion": f"{resource.group}/{resource.version}" if resource.group else resource.version,
            "kind": resource.kind,
            "name": entry.name,
            "namespace": entry.namespace,
            "uid": entry.uid,
            "resourceVersion": entry.resource_version,
        }
        stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": "Warning",
            "reason": REASON,
            "message": self._message(entry),
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": self._component, **({"host": self._instance} if self._instance else {})},
        }

    def _message(self, entry: QuarantinedObject) -> str:
        text = f"cannot be read and is withheld: {entry.summary}"
        commands = " ; ".join(entry.fix_commands())
        whole = f"{text}. To fix it: {commands}" if commands else text
        return whole if len(whole) <= _MESSAGE else excerpt(text, _MESSAGE - 30)


def _count(event: Any) -> int:
    count = event.get("count") if isinstance(event, dict) else None
    return count if type(count) is int and count > 0 else 1
