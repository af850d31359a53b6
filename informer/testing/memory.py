"""A `ListerWatcher` over objects in memory, for unit tests of whatever stands above the seam: no server, no sockets."""

from __future__ import annotations

import asyncio
import builtins
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeAlias

from attrs import Factory, define, frozen

from informer.errors import ApiError
from informer.listerwatcher import Bookmark, Deleted, Event, Item, ListOptions, Page, WatchOptions, Withheld
from informer.objects import KubeObject, make_key
from informer.resource import Resource, require_namespace
from informer.selectors import compile_field_selector, compile_label_selector
from informer.testing import _status
from informer.testing._history import Change, Stored
from informer.testing._lists import read_version, snapshot
from informer.testing._status import StatusError
from informer.testing.cluster import FakeCluster
from informer.testing.virtual import now as loop_now

Signal: TypeAlias = BaseException | Bookmark | Withheld | None
"""What a test sends into open watches: an error to raise, an event to deliver, or None for a clean end."""


@define(eq=False)
class _Watch:
    position: int
    signals: deque[Signal] = Factory(deque)
    news: asyncio.Event = Factory(asyncio.Event)

    def send(self, signal: Signal) -> None:
        self.signals.append(signal)
        self.news.set()


@frozen
class Call:
    """One call of `list` or `watch`, with its options and the loop's time."""

    verb: str
    options: ListOptions | WatchOptions
    time: float


class FakeListerWatcher:
    """A source whose objects a test creates, changes and deletes, and whose server can fail.

    It follows the API server's rules for versions, pages, expiry and streaming lists. Unlike a server's, its watches end only
    at `WatchOptions.timeout`, or when the test says so.

    Args:
        resource: what it serves.
        namespace: the namespace it lists; None for all.
        label_selector: as in `ApiListerWatcher`.
        field_selector: as in `ApiListerWatcher`.
        bookmark_period: seconds between bookmarks; None for none.
        cluster: objects shared with other sources or a `FakeApiServer`; by default its own.

    Attributes:
        calls: every call so far.
        cluster: the objects, with all of `FakeCluster`'s methods.
        streaming_lists: False to refuse streaming lists with 422, as older servers do.
        withhold: gets each object and may return a `Withheld` in its place, as a wrapper below would.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        bookmark_period: float | None = None,
        cluster: FakeCluster | None = None,
        now: Callable[[], datetime] = loop_now,
    ) -> None:
        require_namespace(namespace)
        self._resource = resource
        self._namespace = namespace
        self._labels = compile_label_selector(label_selector)
        self._fields = compile_field_selector(field_selector)
        self._bookmark_period = bookmark_period
        self.cluster = FakeCluster([resource], now=now) if cluster is None else cluster
        self.calls: builtins.list[Call] = []
        self.streaming_lists = True
        self.withhold: Callable[[KubeObject], Withheld | None] = lambda _obj: None
        self._list_errors: deque[BaseException | None] = deque()
        self._watch_errors: deque[BaseException | None] = deque()
        self._open: set[_Watch] = set()

    # ------------------------------------------------------------------ the test's side

    def create(
        self, name: str, spec: Any = None, *, namespace: str = "default", labels: Mapping[str, str] | None = None
    ) -> KubeObject:
        """Create an object."""
        metadata: dict[str, Any] = {"name": name, "labels": dict(labels or {})}
        if self._resource.namespaced:
            metadata["namespace"] = namespace
        self.cluster.create(self._resource, {"metadata": metadata, "spec": {} if spec is None else spec})
        return self._now(name, namespace)

    def update(
        self, name: str, spec: Any, *, namespace: str = "default", labels: Mapping[str, str] | None = None
    ) -> KubeObject:
        """Give an object another spec, and other labels if given."""
        obj = self.cluster.get(self._resource, name, namespace=self._in(namespace))
        obj["spec"] = spec
        if labels is not None:
            obj["metadata"]["labels"] = dict(labels)
        self.cluster.update(self._resource, obj)
        return self._now(name, namespace)

    def delete(self, name: str, *, namespace: str = "default") -> None:
        """Delete an object."""
        self.cluster.delete(self._resource, name, namespace=self._in(namespace))

    def fail_lists(self, *errors: BaseException | None) -> None:
        """Let the next calls of `list` raise these, one each; None lets one through."""
        self._list_errors.extend(errors)

    def fail_watches(self, *errors: BaseException | None) -> None:
        """Let the next openings of a watch raise these, one each; None lets one through."""
        self._watch_errors.extend(errors)

    def drop_watches(self, signal: Signal = None) -> None:
        """End all open watches: cleanly, or by raising an error inside them."""
        for watch in self._open:
            watch.send(signal)

    def bookmark(self, resource_version: str | None = None) -> None:
        """Send a bookmark into all open watches, by default with the newest version."""
        for watch in self._open:
            watch.send(Bookmark(self.cluster.resource_version if resource_version is None else resource_version))

    def compact(self) -> None:
        """Forget the history: an older version is refused with 410, and an open watch that is behind raises it."""
        self.cluster.compact()

    def count(self, verb: str) -> int:
        """How many calls of `list` or `watch` there were."""
        return sum(call.verb == verb for call in self.calls)

    @property
    def open_watches(self) -> int:
        """Watches being read now."""
        return len(self._open)

    # ------------------------------------------------------------------ the seam

    @property
    def resource(self) -> Resource:
        """What is listed and watched."""
        return self._resource

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        """One page; raises `ApiError` as a server would, or the error the test has put in its way."""
        self._record("list", options)
        await asyncio.sleep(0)  # a real one never answers in the same breath
        if self._list_errors and (error := self._list_errors.popleft()):
            raise error
        served, history = self.cluster.table(self._resource)
        query = {"resourceVersion": options.resource_version or "", "continue": options.continue_token}
        try:
            page = snapshot(history, served, query, options.limit or 0)
        except StatusError as refusal:
            raise _as_api_error(refusal) from None
        taken, token, _ = page.cut(self._selected, options.limit or 0)
        objects = [self._item(stored) for stored in taken]
        good = [one for one in objects if one is not None]
        return Page(good, str(page.version), token, len(objects) - len(good))

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[KubeObject]]]:
        """An open stream; raises like `list`, when it is opened or while it is read."""
        return self._watch(options)

    @asynccontextmanager
    async def _watch(self, options: WatchOptions) -> AsyncIterator[AsyncIterator[Event[KubeObject]]]:
        self._record("watch", options)
        await asyncio.sleep(0)
        if self._watch_errors and (error := self._watch_errors.popleft()):
            raise error
        served, history = self.cluster.table(self._resource)
        try:
            version = read_version(options.resource_version)
            if options.send_initial_events and not self.streaming_lists:
                fault = ("sendInitialEvents", "Forbidden", "sendInitialEvents is forbidden for watch")
                raise _status.invalid_options([fault])
            if not options.send_initial_events and version and version < history.compacted:
                raise _status.watch_expired(version, history.compacted)
        except StatusError as refusal:
            raise _as_api_error(refusal) from None
        initial = options.send_initial_events or version == 0
        watch = _Watch(history.version if initial else version)
        present = [one for _, one in sorted(served.table.objects.items())] if initial else []
        self._open.add(watch)
        served.table.listeners.add(watch.news.set)
        events = self._events(watch, options, present)
        try:
            yield events
        finally:
            served.table.listeners.discard(watch.news.set)
            self._open.discard(watch)
            await events.aclose()

    async def _events(
        self, watch: _Watch, options: WatchOptions, present: builtins.list[Stored]
    ) -> AsyncGenerator[Event[KubeObject], None]:
        served, history = self.cluster.table(self._resource)
        time = asyncio.get_running_loop().time
        end = time() + options.timeout
        period = self._bookmark_period
        next_bookmark = end if period is None else time() + period
        for stored in present:
            if self._selected(stored) and (item := self._item(stored)):
                yield item
        if options.send_initial_events:
            yield Bookmark(str(watch.position), initial_events_end=True)
        while time() < end:
            watch.news.clear()
            if watch.position < served.table.forgotten:
                raise _as_api_error(_status.watch_expired(watch.position, history.compacted))
            for change in served.table.since(watch.position):
                watch.position = change.version
                if not change.silent and (event := self._event(change)):
                    yield event
            while watch.signals:
                signal = watch.signals.popleft()
                if signal is None:
                    return
                if isinstance(signal, BaseException):
                    raise signal
                yield signal
            if period is not None and time() >= next_bookmark:
                next_bookmark = time() + period
                watch.position = max(watch.position, history.version)
                yield Bookmark(str(watch.position))
            if not served.table.since(watch.position) and not watch.signals:
                try:
                    async with asyncio.timeout_at(min(end, next_bookmark)):
                        await watch.news.wait()
                except TimeoutError:
                    pass

    # ------------------------------------------------------------------ inside

    def _record(self, verb: str, options: ListOptions | WatchOptions) -> None:
        self.calls.append(Call(verb, options, asyncio.get_running_loop().time()))

    def _in(self, namespace: str) -> str | None:
        return namespace if self._resource.namespaced else None

    def _now(self, name: str, namespace: str) -> KubeObject:
        served, _ = self.cluster.table(self._resource)
        return KubeObject.parse(served.get((self._in(namespace) or "", name)).whole)

    def _selected(self, stored: Stored) -> bool:
        return self._namespace in (None, stored.key[0]) and self._labels(stored.labels) and self._fields(stored.tree)

    def _item(self, stored: Stored) -> Item[KubeObject] | Withheld | None:
        try:
            obj = KubeObject.parse(stored.whole)
        except ValueError:
            return None
        withheld = self.withhold(obj)
        return withheld or Item(obj.key, obj.uid, obj.resource_version, obj.metadata.labels, obj)

    def _event(self, change: Change) -> Event[KubeObject] | None:
        if change.new is not None and self._selected(change.new):
            return self._item(change.new)
        if change.old is None or not self._selected(change.old):
            return None
        last = change.last or change.old
        uid, key = str(last.metadata.get("uid", "")), make_key(*last.key)
        try:
            return Deleted(key, uid, str(change.version), KubeObject.parse(last.whole))
        except ValueError:
            return Deleted(key, uid, str(change.version), None)


def _as_api_error(refusal: StatusError) -> ApiError:
    details = refusal.body.get("details", {})
    return ApiError(
        refusal.body["message"],
        status=refusal.code,
        reason=refusal.reason,
        causes=details.get("causes", ()),
        retry_after=details.get("retryAfterSeconds"),
    )
