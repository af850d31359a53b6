"""The sink of a reflector: the store first, then the handlers, then whoever waits for a version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from informer._course import is_decimal
from informer._slices import Slices
from informer.changes import Added, Quarantined, Removed, Updated
from informer.handlers import Fanout
from informer.listerwatcher import Bookmark, Deleted, Item, Withheld
from informer.metrics import Recorder
from informer.store import Indexer, Note, Replacement

T = TypeVar("T")

# What the metrics call a change.
_KINDS: Mapping[type, str] = {Added: "added", Updated: "updated", Removed: "removed", Quarantined: "quarantined"}

# Objects that are let go of between two looks at the clock.
_LET_GO = 100


class Cache(Generic[T]):
    """One store and the handlers that follow it. Everything here happens in the reflector's task, so in one order.

    Attributes:
        synced: a complete list was published; stays true.
        ended: nothing will change any more.
        version: the resource version up to which the store is complete.
    """

    def __init__(self) -> None:
        self.indexer: Indexer[T] = Indexer()
        self.fanout: Fanout[T] = Fanout()
        self.recorder = Recorder()
        self.synced = False
        self.ended = False
        self.version = ""
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    # ------------------------------------------------------------------ what a reflector tells

    def collect(self) -> Replacement[T]:
        """Begin a complete list."""
        return Replacement(self.indexer, self._publish)

    async def _publish(self, collected: Replacement[T], resource_version: str) -> None:
        """Build the new state in slices; the swap and the news of it are one step for everybody else."""
        state, news = await collected.build(Slices(), initial=not self.synced)
        replaced = [*self.indexer.state.items.values()]
        self.indexer.state = state
        self.synced = True
        self.fanout.put_list(news)
        for kind, notes in news.notes.items():
            count = len(notes) + (len(news.first) if kind is Added else 0)
            if count:
                self.recorder.event(_KINDS[kind], count)
        self.recorder.undecodable(len(state.held) + state.unidentifiable)
        self._advance(resource_version)
        slices = Slices(every=1)
        while replaced:  # to let go of 100,000 objects at once takes tens of milliseconds
            del replaced[-_LET_GO:]
            if slices.due():
                await slices.breathe()

    def apply(self, event: Item[T] | Withheld | Deleted[T], /) -> None:
        """Take in one change."""
        notes = self.indexer.apply(event)
        if notes:
            self.fanout.put(notes)
            for note in notes:
                self.recorder.event(_KINDS[type(note.change)])
        if isinstance(event, Withheld):
            self.recorder.undecodable()
        self._advance(event.resource_version)

    def bookmark(self, bookmark: Bookmark, /) -> None:
        """Nothing that can be stored happened up to this version."""
        if bookmark.unidentifiable:
            self.indexer.state.unidentifiable += bookmark.unidentifiable
            self.recorder.undecodable(bookmark.unidentifiable)
        self._advance(bookmark.resource_version)

    def _advance(self, version: str) -> None:
        if version:
            self.version = version
        if self._waiting:
            self.wake()

    # ------------------------------------------------------------------ the rest

    def merged(self, count: int) -> None:
        """A handler is behind, and so many of its changes were merged into others."""
        self.recorder.merged(count)

    async def resync(self) -> None:
        """Tell every handler of every object again (client-go's resync; it asks the server nothing)."""
        slices = Slices()
        for key, item in [*self.indexer.state.items.items()]:
            current = self.indexer.state.items.get(key)
            if current is item:
                self.fanout.put((Note(key, Updated(item.object, item.object, True)),))
            if slices.due():
                await slices.breathe()

    def reached(self, version: int) -> bool:
        """True when the store is at least at that version."""
        return is_decimal(self.version) and int(self.version) >= version

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds; it is looked at whenever something happens here."""
        if condition():
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, done)
        self._waiting.append(entry)
        try:
            await done
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def wake(self) -> None:
        """Look at all conditions again."""
        for condition, done in [*self._waiting]:
            if not done.done() and condition():
                done.set_result(None)

    @property
    def ending(self) -> bool:
        """The end has begun: no more changes come in."""
        return self.ended or self.fanout.ending.under_way

    def end(self) -> None:
        """Nothing will change any more."""
        self.ended = True
        self.fanout.stop()
        self.wake()
