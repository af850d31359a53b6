"""The real source: LIST and WATCH over the caller's `ApiClient`, status checked and every wait bounded.

Only `call_api` is used, since it alone applies the client's authentication, proxy and TLS settings and still hands out the
raw response. The clients' own `watch` checks no status, reconnects without a pause and decodes every object.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Protocol, Self

from informer import _client, _http, _lists, _meta, _wire
from informer._identify import Identify, usable
from informer._projection import Projection
from informer.errors import ApiError, StreamBrokenError
from informer.listerwatcher import (
    WATCH_GRACE,
    Bookmark,
    Deleted,
    Event,
    ListOptions,
    Page,
    WatchOptions,
)
from informer.objects import KubeObject, make_key
from informer.resource import Resource, require_resource

_log = logging.getLogger("informer.api")

LIST_TIMEOUT = 120.0
"""Seconds for a whole page."""
LIST_FIRST_BYTE = 65.0
"""Seconds until the answer begins; the API server's own limit for a LIST is 60."""
WATCH_FIRST_BYTE = 30.0
"""Seconds until a watch is open."""

_MARK = "k8s.io/initial-events-end"


class CallsApi(Protocol):
    """What is used of a client: `kubernetes_asyncio.client.ApiClient` or `kubernetes.aio.client.ApiClient`."""

    async def call_api(self, resource_path: str, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """Send one request with the client's own authentication, proxy and TLS settings."""
        ...


class ApiListerWatcher:
    """A `ListerWatcher[KubeObject]` over an `ApiClient`, kubernetes-asyncio's or the official package's.

    Items are split without decoding them. One whose bytes are no JSON text but whose key can be read is withheld; its
    neighbours are not affected. What names no cost is O(1).

    Args:
        api_client: the caller's client, of `kubernetes_asyncio` or of `kubernetes.aio`; it stays the caller's to close. Each
            open watch holds one of its connections (`connection_pool_maxsize`, 100 by default).
        resource: what to list and watch.
        namespace: only this namespace; None for all.
        label_selector: as in `kubectl -l`.
        field_selector: as in `kubectl --field-selector`.
        max_object_bytes: the largest object, or line of a watch, that is read. A larger one is an error with its key.
        on_unauthorized: awaited after each 401, to fetch a fresh token, before the error goes on (kubernetes tokens are
            rotated on disk; an open watch is not affected).

    Raises:
        ValueError: a namespace for a cluster-scoped resource or one that no namespace can have, `max_object_bytes` below
            1 KiB, or a client without a server.
        TypeError: the client is the official package's other one, which blocks; several namespaces at once.
    """

    def __init__(
        self,
        api_client: CallsApi,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        max_object_bytes: int = 32 << 20,
        on_unauthorized: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        if max_object_bytes < 1024:
            raise ValueError(f"max_object_bytes is {max_object_bytes}; objects need at least 1024")
        _client.require_usable(api_client)
        require_resource(resource)
        self._api = api_client
        self._resource = resource
        self._path = resource.path(namespace)
        self._selectors = {
            name: text for name, text in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if text
        }
        self._max_object_bytes = max_object_bytes
        self._on_unauthorized = on_unauthorized
        self._identify = Identify(resource, max_object_bytes)

    def reading(self, projection: Projection) -> Self:
        """The same source, which looks at a few fields of each object while it reads the head.

        A pass over an object costs about the same whatever it looks for. An object whose fields are fine carries
        a note for its judge, who need not pass over it again.
        """
        twin = copy.copy(self)
        twin._identify = Identify(self._resource, self._max_object_bytes, projection)  # noqa: SLF001 - its own twin
        return twin

    @property
    def resource(self) -> Resource:
        """What is listed and watched."""
        return self._resource

    def __repr__(self) -> str:
        return f"ApiListerWatcher({self._path!r})"

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        """One page. O(bytes), in slices of a few milliseconds.

        Raises:
            ApiError: the server refused, did not answer in time, or answered something that is no list.
        """
        query = dict(self._selectors)
        if options.limit is not None:
            query["limit"] = str(options.limit)
        if options.continue_token:
            query["continue"] = options.continue_token  # alone: the server refuses a resource version beside it
        elif options.resource_version is not None:
            query["resourceVersion"] = options.resource_version
        with _http.errors_as_api_error(f"list {self._resource}", LIST_TIMEOUT):
            async with asyncio.timeout(LIST_TIMEOUT), self._get("list", query, first_byte=LIST_FIRST_BYTE) as response:
                body = await _http.read_body(response, f"list {self._resource}")
        return await _lists.read_page(body, self._identify)

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[KubeObject]]]:
        """An open stream of changes after `options.resource_version`. O(bytes) for each.

        Raises:
            ApiError: the server refused, the connection broke or went dead, or the stream reported an error.
        """
        return self._watch(options)

    @asynccontextmanager
    async def _watch(self, options: WatchOptions) -> AsyncIterator[AsyncIterator[Event[KubeObject]]]:
        query = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": options.resource_version,
            "timeoutSeconds": str(int(options.timeout)),
        }
        if options.send_initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        # No compression: a compressing hop holds back small events until its buffer is full.
        headers = {"Accept-Encoding": "identity"}
        async with self._get("watch", query, first_byte=WATCH_FIRST_BYTE, headers=headers) as response:
            with _http.deadline(response, options.timeout + WATCH_GRACE, f"watch {self._resource}"):
                async with aclosing(self._events(response)) as events:
                    yield events

    async def _events(self, response: Any) -> AsyncGenerator[Event[KubeObject], None]:
        lines = _http.Lines(response, self._max_object_bytes, f"watch {self._resource}")
        while await lines.more():
            for data, start, end in lines:
                guess = _wire.guess_object(data, start, end)
                if guess is not None and (item := self._identify.sound(guess)) is not None:
                    yield item
                elif (event := await self._unusual(data[start:end], lines, response)) is not None:
                    yield event
        rest = lines.fragment
        if _wire.read_status(rest) is not None or (rest and not lines.delivered and not _like_json(rest)):
            raise self._refusal(response, rest)

    async def _unusual(self, line: bytes, lines: _http.Lines, response: Any) -> Event[KubeObject] | None:
        """Any event; None for one to be ignored."""
        what = f"watch {self._resource}"
        try:
            kind, raw = _wire.split_event(line)
        except _wire.WireError as error:
            # Not an event: most often the pretty-printed Status of a server or a proxy, spread over many lines.
            body = await lines.rest(line)
            if _wire.read_status(body) is not None or (lines.delivered == 1 and not _like_json(body)):
                raise self._refusal(response, body) from None
            raise StreamBrokenError(f"{what}: {error}", reason="UnreadableEvent") from None
        return self._event(kind, bytes(raw))

    def _refusal(self, response: Any, body: bytes) -> ApiError:
        what, sensitive = f"watch {self._resource}", self._resource.sensitive
        return _http.status_error(what, response.status, body, response.headers, sensitive=sensitive)

    def _event(self, kind: str, raw: bytes) -> Event[KubeObject] | None:
        match kind:
            case "ADDED" | "MODIFIED":
                found = self._identify(raw)
                if found is not None:
                    return found
                version = _meta.salvage_head(raw).resource_version
                if not version:
                    raise StreamBrokenError(
                        f"watch {self._resource}: {kind} of an object with neither key nor version",
                        reason="UnreadableEvent",
                    )
                _log.error("%s: unidentifiable event at version %s: it has no usable key", self._resource, version)
                return Bookmark(version, unidentifiable=1)
            case "DELETED":
                return self._deleted(raw)
            case "BOOKMARK":
                return self._bookmark(raw)
            case "ERROR":
                status = _wire.read_status(raw)
                if status is None:
                    raise ApiError(f"watch {self._resource}: an ERROR event without a Status", status=500)
                raise _http.from_status(f"watch {self._resource}", status, sensitive=self._resource.sensitive)
            case _:
                _log.warning("%s: ignoring a watch event of the unknown type %.40r", self._resource, kind)
                return None

    def _deleted(self, raw: bytes) -> Deleted[KubeObject]:
        head = _meta.read_head(raw)
        sound = head is not None and _wire.text_problem(raw) is None
        head = head or _meta.salvage_head(raw)
        if not usable(head):
            raise StreamBrokenError(
                f"watch {self._resource}: DELETED of an object without a key", reason="UnreadableEvent"
            )
        last = KubeObject(raw, head.name, head.namespace, head.uid, head.resource_version) if sound else None
        return Deleted(make_key(head.namespace, head.name), head.uid, head.resource_version, last)

    def _bookmark(self, raw: bytes) -> Bookmark | None:
        version = _meta.salvage_head(raw).resource_version
        if not version:
            _log.warning("%s: ignoring a bookmark without a resource version", self._resource)
            return None
        return Bookmark(version, _meta.read_metadata(raw).annotations.get(_MARK) == "true")

    @asynccontextmanager
    async def _get(
        self,
        verb: str,
        query: Mapping[str, str],
        *,
        first_byte: float,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Any]:
        what = f"{verb} {self._resource}"
        try:
            async with _http.get(
                self._api,
                self._path,
                query,
                what=what,
                first_byte=first_byte,
                headers=headers or {},
                sensitive=self._resource.sensitive,
            ) as response:
                yield response
        except ApiError as error:
            if error.status == 401 and self._on_unauthorized is not None:
                try:
                    await self._on_unauthorized()
                except Exception:  # noqa: BLE001 - the server's answer says more than why there is no new token
                    _log.exception("%s: on_unauthorized failed", what)
            raise


def _like_json(body: bytes) -> bool:
    return body.lstrip()[:1] == b"{"
