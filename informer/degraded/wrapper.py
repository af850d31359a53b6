"""A source that judges each object alone: a bad one is withheld and named, the others go their way."""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar, cast, overload

from attrs import define, field

from informer._slices import Slices
from informer.degraded.checks import Check
from informer.degraded.judging import Judging
from informer.degraded.quarantine import Quarantine, Transition
from informer.listerwatcher import (
    Bookmark,
    Deleted,
    Event,
    Item,
    ListerWatcher,
    ListOptions,
    Page,
    WatchOptions,
    Withheld,
)
from informer.objects import KubeObject, content_digest
from informer.resource import Resource

T_co = TypeVar("T_co", covariant=True)

_logger = logging.getLogger(__name__)

# How many unfinished LISTs and pages to be asked for again are remembered.
_UNFINISHED = 16


@define
class _Collection:
    """What one LIST, or the first part of a streaming list, has brought so far."""

    mark: int
    withheld: set[str] = field(factory=set)


class DegradedListerWatcher(Generic[T_co]):
    """Wraps a source of objects so that a bad one harms nobody but itself.

    Every object is judged alone, in LIST pages and in watch events alike: all `checks`, then `decode`. A good one is passed
    on decoded; a bad one goes into the quarantine and on as `Withheld`, so that a cache moves its version on and never
    takes it for deleted. It costs no request, and no error of the server or the network is ever taken for bad data.

    Deletions are applied without judging. What the source itself withholds, because its bytes cannot be read, is recorded
    too. `MemoryError` and what is no `Exception` pass through from `decode` and `checks`; a `RecursionError` is the object's.
    What names no cost is O(1).

    Args:
        delegate: where objects come from; not another degraded wrapper.
        decode: from the object to the value; synchronous. None passes the objects on as they are. An object for which it
            returns None is withheld, since a `return` is missing there, mostly.
        checks: see `informer.checks`.
        quarantine: of this wrapper alone; None makes one.

    Raises:
        TypeError: a degraded wrapper over another, or a coroutine function as `decode` or check.
        ValueError: the quarantine belongs to another wrapper.
    """

    @overload
    def __init__(
        self: DegradedListerWatcher[KubeObject],
        delegate: ListerWatcher[KubeObject],
        /,
        *,
        checks: Iterable[Check],
        quarantine: Quarantine | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        delegate: ListerWatcher[KubeObject],
        /,
        *,
        decode: Callable[[KubeObject], T_co],
        checks: Iterable[Check] = (),
        quarantine: Quarantine | None = None,
    ) -> None: ...
    def __init__(
        self,
        delegate: ListerWatcher[KubeObject],
        /,
        *,
        decode: Callable[[KubeObject], Any] | None = None,
        checks: Iterable[Check] = (),
        quarantine: Quarantine | None = None,
    ) -> None:
        if isinstance(delegate, DegradedListerWatcher):
            raise TypeError(
                "a DegradedListerWatcher over another would judge everything twice: give one of them more checks"
            )
        self._judging = Judging(checks, decode)
        self._delegate = self._reading(delegate)
        self._quarantine = Quarantine() if quarantine is None else quarantine
        self._bad = self._quarantine.claim(delegate.resource)
        self._unfinished: OrderedDict[str, _Collection] = OrderedDict()

    def _reading(self, delegate: ListerWatcher[KubeObject]) -> ListerWatcher[KubeObject]:
        """The source, looking at the checked fields in its own pass over the bytes if it can: `ApiListerWatcher.reading`."""
        # Asked of the class: a proxy that hands on every attribute must not be taken for what it stands before.
        reading = getattr(type(delegate), "reading", None)
        if self._judging.projection is None or reading is None:
            return delegate
        return cast("ListerWatcher[KubeObject]", reading(delegate, self._judging.projection))

    @property
    def resource(self) -> Resource:
        """What is listed and watched."""
        return self._delegate.resource

    @property
    def quarantine(self) -> Quarantine:
        """The bad objects."""
        return self._quarantine

    async def list(self, options: ListOptions, /) -> Page[T_co]:
        """One page, judged in slices of a few milliseconds. O(bytes).

        The last page of a LIST completes it: entries that it has not brought are gone. A LIST whose further pages are never
        asked for changes nothing about the others, and neither does one that begins in the middle.

        Raises:
            TooManyBadObjectsError: at the end of a LIST, more than `max_entries` objects are bad.
            ApiError, OSError, TimeoutError, aiohttp.ClientError: from the source.
        """
        if options.continue_token:
            collection = self._unfinished.get(options.continue_token)
        else:
            self._quarantine.speak()  # what an earlier LIST has found before it died
            collection = _Collection(self._quarantine.mark())
        try:
            page = await self._delegate.list(options)
            items = await self._judge_page(page, collection)
        except BaseException:
            self._quarantine.speak()
            raise
        if page.continue_token:
            if collection is not None:
                self._remember(page.continue_token, collection)
        else:
            self._complete(collection)
        return Page(items, page.resource_version, page.continue_token, page.unidentifiable)

    # `Any` here and below: that a settled object is its own value is more than a type checker can know.
    async def _judge_page(
        self, page: Page[Any], collection: _Collection | None
    ) -> builtins.list[Item[T_co] | Withheld]:
        slices = Slices()
        items: builtins.list[Item[T_co] | Withheld] = []
        settled, bad = self._judging.settled, self._bad
        for item in page.items:
            if slices.due():
                await slices.breathe()
            if type(item) is Item and item.object._passed is settled and item.key not in bad:  # noqa: SLF001 - left there for this reader
                items.append(item)  # nearly all: its source has looked, and nothing else is to be asked
                continue
            judged = self._judge(item)
            if collection is not None and isinstance(judged, Withheld):
                collection.withheld.add(judged.key)
            items.append(judged)
        return items

    def _remember(self, token: str, collection: _Collection) -> None:
        # By token, since several consumers may list at a time; a page may be asked for twice, so tokens are not used up.
        self._unfinished[token] = collection
        self._unfinished.move_to_end(token)
        while len(self._unfinished) > _UNFINISHED:
            self._unfinished.popitem(last=False)

    def _complete(self, collection: _Collection | None) -> None:
        if collection is not None:
            self._quarantine.clear_missing(collection.withheld, collection.mark)
        self._quarantine.speak()
        if collection is not None:
            self._quarantine.refuse_if_overfull()

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[T_co]]]:
        """An open stream, judged event by event, O(bytes) for each. While it is open, bad objects are called to mind in the log.

        Raises:
            TooManyBadObjectsError: at the end of a streaming list, more than `max_entries` objects are bad.
            ApiError, OSError, TimeoutError, aiohttp.ClientError: from the source.
        """
        return self._watch(options)

    @asynccontextmanager
    async def _watch(self, options: WatchOptions) -> AsyncGenerator[AsyncIterator[Event[T_co]], None]:
        collection = _Collection(self._quarantine.mark()) if options.send_initial_events else None
        async with self._delegate.watch(options) as events:
            self._quarantine.speak()
            reminders = asyncio.create_task(self._quarantine.remind(), name=f"reminders of bad {self.resource}")
            watching = asyncio.current_task()

            def ended(task: asyncio.Task[None]) -> None:
                # Where everything is cancelled, as at the end of `asyncio.run`, the watch is over as well.
                if not (task.cancelled() and watching is not None and (watching.cancelling() or watching.done())):
                    self._reminders_ended(task)

            reminders.add_done_callback(ended)
            stream = self._judge_events(events, collection)
            try:
                yield stream
            finally:
                reminders.remove_done_callback(ended)
                reminders.cancel()
                await asyncio.wait([reminders])
                await stream.aclose()
                self._quarantine.speak()

    def _reminders_ended(self, reminders: asyncio.Task[None]) -> None:
        error = None if reminders.cancelled() else reminders.exception()
        how = "were cancelled by somebody else" if error is None else "have failed"
        self._quarantine.silence(f"the reminders of bad {self.resource} {how}")
        _logger.error("%s; they begin again with the next watch", self._quarantine.silenced, exc_info=error)

    async def _judge_events(
        self, events: AsyncIterator[Event[Any]], collection: _Collection | None
    ) -> AsyncGenerator[Event[T_co], None]:
        settled, bad = self._judging.settled, self._bad
        async for event in events:  # one for each that is asked for: whoever asks for many has slices of its own
            if type(event) is Item and event.object._passed is settled and event.key not in bad:  # noqa: SLF001 - as above
                yield event
            elif isinstance(event, (Item, Withheld)):  # no union, which would be made anew for each event
                judged = self._judge(event)
                if isinstance(judged, Withheld):
                    if collection is None:
                        self._quarantine.speak()
                    else:  # the first part of a streaming list is spoken of as a whole, terminating objects first
                        collection.withheld.add(judged.key)
                yield judged
            elif isinstance(event, Deleted):
                yield self._deleted(event)
            else:
                if isinstance(event, Bookmark) and event.initial_events_end and collection is not None:
                    self._complete(collection)
                    collection = None
                yield event

    def _judge(self, item: Item[KubeObject] | Withheld) -> Item[T_co] | Withheld:
        quarantine = self._quarantine
        if isinstance(item, Withheld):
            return Withheld(item.key, item.uid, item.resource_version, quarantine.adopt(item.entry))
        suspect = item.key in self._bad
        if suspect and (known := quarantine.known_bad(item)) is not None:
            return Withheld(item.key, item.uid, item.resource_version, quarantine.seen_again(known))
        value, problems = self._judging(item.object)
        if problems:
            return Withheld(item.key, item.uid, item.resource_version, quarantine.record(item, problems))
        if suspect:
            quarantine.meet(item.key, item.uid)
            quarantine.clear(item.key, Transition.RECOVERED)
        if self._judging.decode is None:
            return cast("Item[T_co]", item)
        digest = content_digest(item.object.raw)  # tells an unchanged value on a relist, where T has no equality
        return Item(item.key, item.uid, item.resource_version, item.labels, cast("T_co", value), digest)

    def _deleted(self, event: Deleted[KubeObject]) -> Deleted[T_co]:
        entry = self._quarantine.get(event.key)
        if entry is not None and (not entry.uid or not event.uid or entry.uid == event.uid):
            self._quarantine.clear(event.key, Transition.DELETED)
        last: object = event.last
        if event.last is not None and self._judging.decode is not None:
            try:
                last = self._judging.decode(event.last)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001 - a deletion is applied whatever the last state was
                last = None
        return Deleted(event.key, event.uid, event.resource_version, cast("T_co | None", last))
