"""The cache itself: one writer, any number of readers, also from other threads.

A reader takes one reference to the current state and reads it with single dictionary operations, which other threads
cannot interrupt; a relist builds a whole new state aside and swaps it in, so a reader sees all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from attrs import define, field
from msgspec import Struct

from informer._index import IndexData
from informer._slices import Slices
from informer.changes import Added, Change, Quarantined, Removed, Updated
from informer.listerwatcher import Deleted, Item, Withheld
from informer.objects import KubeObject, same_content

T = TypeVar("T")


class Note(Struct, Generic[T], gc=False, eq=False):
    """One change on its way to the handlers. A relist makes as many as objects changed, hence out of the collector's sight.

    `of_withheld`: the change ends the life of a withheld object, so only a handler that once saw it good may hear of it.
    """

    key: str
    change: Change[T]
    of_withheld: bool = False


@define(eq=False)
class Held(Generic[T]):
    """A withheld object, and the last good one of the same life that the store ever had."""

    withheld: Withheld
    last_good: Item[T] | None


@define(eq=False)
class News(Generic[T]):
    """What a complete list means for handlers.

    Attributes:
        notes: by the type of the change, in client-go's order for a relist, with quarantined ones between.
        first: what the first list of all has brought. These need no note: one for each of 100,000 objects would only give
            the cyclic collector something to look at.
        initial: this is that list.
    """

    initial: bool
    notes: dict[type, list[Note[T]]] = field(factory=lambda: {Removed: [], Quarantined: [], Updated: [], Added: []})
    first: list[Item[T]] = field(factory=list)


def namespace_of(key: str) -> str:
    """The namespace in `namespace/name`; empty for a cluster-scoped object."""
    namespace, slash, _ = key.partition("/")
    return namespace if slash else ""


@define(eq=False)
class State(Generic[T]):
    """Everything a reader may look at; replaced as a whole by a relist.

    `moves`: how often an object went from `items` to `held` or back. Who finds a key in neither looks again if one has.
    """

    items: dict[str, Item[T]] = field(factory=dict)
    held: dict[str, Held[T]] = field(factory=dict)
    namespaces: dict[str, dict[str, Item[T]]] = field(factory=dict)
    indexes: dict[str, IndexData[T]] = field(factory=dict)
    unidentifiable: int = 0
    moves: int = 0

    def put(self, item: Item[T]) -> None:
        """Store an object in place of an older one."""
        key = item.key
        self.items[key] = item
        namespace, slash, _ = key.partition("/")  # `namespace_of` without the call
        if not slash:
            namespace = ""
        bucket = self.namespaces.get(namespace)
        if bucket is None:
            bucket = self.namespaces[namespace] = {}
        bucket[key] = item
        for index in self.indexes.values():
            index.put(item)

    def drop(self, key: str) -> None:
        """Remove an object; nothing happens when there is none."""
        if self.items.pop(key, None) is None:
            return
        namespace = namespace_of(key)
        bucket = self.namespaces[namespace]
        del bucket[key]
        if not bucket:
            del self.namespaces[namespace]
        for index in self.indexes.values():
            index.drop(key)


class Indexer(Generic[T]):
    """client-go's Indexer: objects by key, by namespace and by any index, plus what is withheld."""

    def __init__(self) -> None:
        self.state: State[T] = State()

    def add_index(self, name: str, values: Callable[[T], Iterable[str]]) -> None:
        """Add an index and fill it. O(objects).

        Raises:
            ValueError: there is one of that name.
        """
        if name in self.state.indexes:
            raise ValueError(f"there is an index {name!r} already")
        data = IndexData(name, values)
        for item in self.state.items.values():
            data.put(item)
        self.state.indexes[name] = data

    def apply(self, event: Item[T] | Withheld | Deleted[T]) -> Sequence[Note[T]]:
        """Take in one event of a watch; the store is final when this returns. O(1) per index."""
        state, key = self.state, event.key
        old, held = state.items.get(key), state.held.get(key)
        notes = what_happened(old, held, event)
        if isinstance(event, Item):
            if notes or old is None:
                state.put(event)
            if held is not None:
                state.moves += 1
                del state.held[key]
        elif isinstance(event, Withheld):
            # In its new place before it leaves the old one, as above: to no thread is it absent for a moment.
            state.held[key] = Held(event, last_good(old, held, event))
            state.moves += 1
            state.drop(key)
        else:
            state.drop(key)
            if held is not None:
                del state.held[key]
        return notes


class Replacement(Generic[T]):
    """A complete list on its way into the store: pages are collected aside, then published together or not at all.

    Args:
        indexer: the store whose state it will replace.
        publish: what is done with the complete list and its resource version.
    """

    def __init__(self, indexer: Indexer[T], publish: Callable[[Replacement[T], str], Awaitable[None]]) -> None:
        self._indexer = indexer
        self._publish = publish
        self._found: dict[str, Item[T] | Withheld] = {}
        self.unidentifiable = 0

    def __len__(self) -> int:
        return len(self._found)

    def add(self, event: Item[T] | Withheld) -> None:
        """Take in one object. An unchanged one is kept as it is stored, so a relist does not double the memory."""
        key = event.key
        old = self._indexer.state.items.get(key)
        if old is not None and isinstance(event, Item) and not other_life(old.uid, event.uid) and unchanged(old, event):
            event = old
        self._found[key] = event

    def discard(self, key: str) -> None:
        """The object was deleted while the list was still coming (streaming lists)."""
        self._found.pop(key, None)

    async def publish(self, resource_version: str) -> None:
        """The list is complete."""
        await self._publish(self, resource_version)

    async def build(self, slices: Slices, *, initial: bool) -> tuple[State[T], News[T]]:
        """The new state, and what it means for handlers; built in slices while the old state still serves readers.

        What was collected is used up by it: to let go of 100,000 references at once takes milliseconds.
        """
        old, found = self._indexer.state, self._found
        new: State[T] = State(unidentifiable=self.unidentifiable)
        new.indexes = {name: index.empty_copy() for name, index in old.indexes.items()}
        news: News[T] = News(initial)
        for key in list(old.items) + list(old.held):
            if slices.due():
                await slices.breathe()
            if key not in found:
                for index in new.indexes.values():
                    index.failed.pop(key, None)
                gone = what_happened(old.items.get(key), old.held.get(key), Deleted(key, "", "", None))
                news.notes[Removed] += gone
        for key in list(found):
            if slices.due():
                await slices.breathe()
            event, before, held = found.pop(key), old.items.get(key), old.held.get(key)
            if isinstance(event, Item):
                new.put(event)
                if event is before:
                    continue
                if initial and before is None and held is None:
                    news.first.append(event)
                    continue
            else:
                new.held[key] = Held(event, last_good(before, held, event))
            for note in what_happened(before, held, event):
                news.notes[type(note.change)].append(note)
        while late := old.indexes.keys() - new.indexes.keys():  # added while this was being built
            for name in late:
                index = new.indexes[name] = old.indexes[name].empty_copy()
                for item in new.items.values():
                    if slices.due():
                        await slices.breathe()
                    index.put(item)
        return new, news


def what_happened(
    old: Item[T] | None, held: Held[T] | None, event: Item[T] | Withheld | Deleted[T]
) -> tuple[Note[T], ...]:
    """The table of what handlers are told, from what the store had under a key (an object, a withheld one, or nothing).

    Two lives of one key never become one update: kubernetes#133565.
    """
    key = event.key
    if old is not None:
        same_life = old.uid == event.uid or not other_life(old.uid, event.uid)
        if isinstance(event, Item) and same_life:
            # The version first: nearly every event of a watch has another one, and needs no call.
            if old.resource_version == event.resource_version and unchanged(old, event):
                return ()
            return (Note(key, Updated(old.object, event.object, False)),)
        if isinstance(event, Deleted):
            unknown = event.last is None or not same_life
            return (Note(key, Removed(old.object if event.last is None or unknown else event.last, unknown)),)
        if isinstance(event, Withheld) and same_life:
            return (Note(key, Quarantined(old.object, event.entry)),)
        return Note(key, Removed(old.object, True)), Note(key, _arrival(event))
    if held is None:
        return () if isinstance(event, Deleted) else (Note(key, _arrival(event)),)
    ended = isinstance(event, Deleted) or other_life(held.withheld.uid, event.uid)
    notes: tuple[Note[T], ...] = ()
    if ended and held.last_good is not None:
        notes = (Note(key, Removed(held.last_good.object, True), of_withheld=True),)
    if isinstance(event, Deleted) or not (ended or isinstance(event, Item) or _worth_telling(held.withheld, event)):
        return notes
    return (*notes, Note(key, _arrival(event)))


def last_good(old: Item[T] | None, held: Held[T] | None, event: Withheld) -> Item[T] | None:
    """The last good object of the life that is withheld now."""
    if old is not None:
        return None if other_life(old.uid, event.uid) else old
    return None if held is None or other_life(held.withheld.uid, event.uid) else held.last_good


def _arrival(event: Item[T] | Withheld) -> Change[T]:
    return Added(event.object, False) if isinstance(event, Item) else Quarantined(None, event.entry)


def other_life(one: str, other: str) -> bool:
    """Both uids are known, and they differ."""
    return bool(one and other and one != other)


def unchanged(old: Item[T], new: Item[T]) -> bool:
    """Same non-empty version and same content. Other content under the same version is a change: a CRD default, a
    repaired conversion webhook.
    """
    if not new.resource_version or old.resource_version != new.resource_version:
        return False
    one, other = old.object, new.object
    if isinstance(one, KubeObject) and isinstance(other, KubeObject):
        return same_content(one.raw, other.raw)
    if old.digest and new.digest:
        return old.digest == new.digest
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - a user's __eq__ that raises says nothing: take it for a change
        return False


def _worth_telling(before: Withheld, after: Withheld) -> bool:
    one, other = before.entry, after.entry
    return (
        one.problems != other.problems
        or one.metadata.deletion_timestamp != other.metadata.deletion_timestamp
        or tuple(one.metadata.finalizers) != tuple(other.metadata.finalizers)
    )
