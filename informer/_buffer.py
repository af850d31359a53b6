"""What waits for one handler: in order, measured, and merged by key when there is too much of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from informer._slices import Slices
from informer.changes import Added, Change, Quarantined, Removed, Updated
from informer.errors import InformerError
from informer.listerwatcher import Item
from informer.store import News, Note, State

T = TypeVar("T")


# Changes after which a handler knows an object as withheld, or no longer.
_REMEMBERED = frozenset({Removed, Quarantined})


class _Synced:
    """Stands in a buffer behind the last initial object."""


_SYNCED = _Synced()


class _Pending(Struct, Generic[T], gc=False, eq=False):
    """A change that waits for its handler. `was_held`: the handler knew the key as withheld, after it once saw it good."""

    key: str
    change: Change[T]
    was_held: bool


class Buffer(Generic[T]):
    """The pending changes of one handler, in order; merged by key once there are more than `max_backlog` (or than what one
    list, which holds nothing to merge, has brought at once).

    Merging keeps what a handler needs to stay in step: at most one delete of the life it knows, then one add, update or
    quarantined of the newest life. Lives that began and ended while pending vanish. What merging leaves over is therefore at
    most one change for each object the handler knows and one for each that exists; it happens again when that has doubled.

    Args:
        max_backlog: how many may be pending before they are merged.
        on_merged: told how many changes a merge has saved.
    """

    def __init__(self, max_backlog: int, on_merged: Callable[[int], None] = lambda _: None) -> None:
        self._max = max_backlog
        self._on_merged = on_merged
        self._fold_at = max_backlog
        # An Item is an initial add, a Note a change of what the handler knows as good or not at all: neither needs more.
        self._queue: deque[Item[T] | Note[T] | _Pending[T] | _Synced] = deque()
        self._held: dict[str, T] = {}
        self._arrived = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._queue)

    def snapshot(self, state: State[T]) -> None:
        """The present state as the beginning: every object an initial add, then every withheld one."""
        self._queue.extend(state.items.values())
        self._queue.extend(
            _Pending(key, Quarantined(None, held.withheld.entry), was_held=False) for key, held in state.held.items()
        )
        self._begun()

    def _begun(self) -> None:
        """Everything initial is in the queue."""
        self._queue.append(_SYNCED)
        self._fold_at = max(self._max, 2 * len(self._queue))
        self._arrived.set()

    def put(self, notes: Sequence[Note[T]]) -> None:
        """Append what happened."""
        was_empty = not self._queue
        # Never below twice what the last fold left over, so that folds stay cheap; lower again once the handler catches up.
        if self._fold_at > self._max:
            self._fold_at = min(self._fold_at, max(self._max, 2 * len(self._queue)))
        if not self._held and len(notes) == 1 and type(notes[0].change) is Updated:  # as nearly always
            self._queue.append(notes[0])
        else:
            self._append(notes)
        if len(self._queue) > self._fold_at:
            self._fold()
        if was_empty:  # nobody waits while something is there
            self._arrived.set()

    def put_list(self, news: News[T]) -> None:
        """Append what a complete list means; of what needs no look, one copy of references, however many there are."""
        caught_up, knows_withheld = not self._queue, bool(self._held)
        for kind, notes in news.notes.items():
            if knows_withheld or kind in _REMEMBERED:
                self._append(notes)
            else:
                self._queue.extend(notes)
        if news.initial:
            self._queue.extend(news.first)
            self._begun()
        elif caught_up:  # one list has at most two changes of a key, a delete and one other: there is nothing to merge
            self._fold_at = max(self._max, 2 * len(self._queue))
        elif len(self._queue) > self._fold_at:
            self._fold()
        self._arrived.set()

    def _append(self, notes: Sequence[Note[T]]) -> None:
        for note in notes:
            key, change = note.key, note.change
            was_held = key in self._held
            if note.of_withheld and not was_held:
                continue  # this handler never saw it good, so it has nothing to forget
            if isinstance(change, Quarantined):
                if change.old is not None:
                    self._held[key] = change.old
            elif was_held:
                del self._held[key]
            self._queue.append(_Pending(key, change, was_held) if was_held else note)

    def close(self) -> None:
        """No more will come; who waits is woken."""
        self._closed = True
        self._arrived.set()

    async def wait(self) -> bool:
        """Return True once something is pending, False when the buffer is closed."""
        while not self._queue and not self._closed:
            self._arrived.clear()
            await self._arrived.wait()
        return not self._closed

    def take(self) -> Iterator[tuple[str, Change[T]] | None]:
        """What is pending, the oldest first, until nothing is, with what comes meanwhile; None ends the initial ones."""
        while self._queue:
            entry = self._queue.popleft()
            if type(entry) is Note:  # `isinstance` takes five times as long to say no to a Struct
                yield entry.key, entry.change
            elif isinstance(entry, Item):
                yield entry.key, Added(entry.object, True)
            elif isinstance(entry, _Synced):
                yield None
            else:
                yield entry.key, entry.change

    def _fold(self) -> None:
        # The order is that of the first change of each key, as in client-go's work queue: an object that changes all the
        # time must not go to the end again and again, and neither must the mark behind the initial ones.
        merged: dict[str, list[_Pending[T]]] = {}
        initial: int | None = None
        for entry in self._queue:
            if isinstance(entry, _Synced):
                initial = len(merged)
                continue
            if isinstance(entry, Item):
                entry = _Pending(entry.key, Added(entry.object, True), was_held=False)  # noqa: PLW2901 - unpacked
            elif isinstance(entry, Note):
                entry = _Pending(entry.key, entry.change, was_held=False)  # noqa: PLW2901 - the same in a longer form
            before = merged.get(entry.key)
            merged[entry.key] = [entry] if before is None else _merge(before, entry)
            last = merged[entry.key][-1:]
            if last and isinstance(last[0].change, Quarantined) and last[0].change.old is None and not last[0].was_held:
                self._held.pop(entry.key, None)  # the good state it had in between was merged away: never seen
        before_fold = len(self._queue)
        folded: list[Sequence[_Pending[T] | _Synced]] = [*merged.values()]
        if initial is not None:
            folded.insert(initial, [_SYNCED])
        self._queue = deque(entry for entries in folded for entry in entries)
        self._on_merged(before_fold - len(self._queue))
        self._fold_at = max(self._max, 2 * len(self._queue))


def _merge(before: list[_Pending[T]], later: _Pending[T]) -> list[_Pending[T]]:
    """One more change on top of the merged ones of the same key (none, one, or a delete and one)."""
    if not before:
        return [later] if not isinstance(later.change, Removed) else []
    last = before[-1]
    key, new = later.key, later.change
    if isinstance(last.change, Removed):
        return [*before, later]
    if isinstance(new, Removed):
        if len(before) == 2:
            return before[:1]  # the second life came and went
        if _handler_knows(last):
            return [_Pending(key, new, last.was_held)]
        return []
    if isinstance(new, Quarantined):
        old = last.change.old if isinstance(last.change, Updated | Quarantined) else None
        return [*before[:-1], _Pending(key, Quarantined(old, new.entry), last.was_held)]
    match last.change:
        case Added(_, initial):
            change: Change[T] = Added(new.new if isinstance(new, Updated) else new.object, initial)
        case Updated(old, _, resync):
            latest = new.new if isinstance(new, Updated) else new.object
            change = Updated(old, latest, resync and isinstance(new, Updated) and new.resync)
        case Quarantined(old, _):
            latest = new.new if isinstance(new, Updated) else new.object
            change = Added(latest, False) if old is None else Updated(old, latest, False)
    return [*before[:-1], _Pending(key, change, last.was_held)]


def _handler_knows(first: _Pending[T]) -> bool:
    """True when the handler saw a good object of this life before the pending ones began."""
    match first.change:
        case Updated():
            return True
        case Quarantined(old, _):
            return old is not None or first.was_held
        case _:
            return first.was_held


async def iterate(buffer: Buffer[T], failure: Callable[[], BaseException | None]) -> AsyncGenerator[Change[T], None]:
    """The changes in a buffer as they come, until it is closed.

    Raises:
        InformerError: the informer died of a bug while somebody listened; the cause is attached.
    """
    slices = Slices()
    while await buffer.wait():
        for entry in buffer.take():
            if entry is not None:
                yield entry[1]
                if slices.due():
                    await slices.breathe()
    cause = failure()
    if cause is not None:
        raise InformerError(f"the informer stopped: {cause}") from cause
