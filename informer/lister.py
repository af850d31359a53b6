"""Reading the cache: by key, by namespace, by label, by index. Never a request, and safe from any thread."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from informer import _hints
from informer.errors import IncompleteError, NotFoundError, NotSyncedError, QuarantinedError
from informer.listerwatcher import Item
from informer.objects import make_key
from informer.problems import QuarantinedObject
from informer.resource import Resource
from informer.selectors import compile_label_selector
from informer.store import Indexer, State

T = TypeVar("T")


class Lister(Generic[T]):
    """The read side of one informer.

    Every read answers from one state. Before the first sync every read raises NotSyncedError, since an empty cache would
    answer "not found" to everything. A withheld object is neither returned nor absent: reading it by name raises
    QuarantinedError.
    """

    def __init__(self, indexer: Indexer[T], resource: Resource, synced: Callable[[], bool]) -> None:
        self._indexer = indexer
        self._resource = resource
        self._synced = synced

    def _state(self) -> State[T]:
        if not self._synced():
            raise NotSyncedError(f"{self._resource} is not synced yet; await wait_for_sync() before reading")
        return self._indexer.state

    @property
    def complete(self) -> bool:
        """Synced, nothing withheld, and no item without a usable key: what is not found here does not exist. O(1)."""
        state = self._indexer.state
        return self._synced() and not state.held and not state.unidentifiable

    def get(self, name: str, *, namespace: str = "") -> T:
        """One object. O(1).

        Args:
            name: its name, or its key without a `namespace`: `get(obj.key)` is client-go's `GetByKey`.
            namespace: empty when cluster-scoped.

        Raises:
            NotFoundError: there is none (a KeyError).
            QuarantinedError: it exists and cannot be read (no KeyError: absent and unreadable are different facts).
            NotSyncedError: before the first sync.
        """
        state = self._state()
        key = make_key(namespace, name)
        moves = -1
        while (
            moves != state.moves
        ):  # in another thread, it may have moved from one place to the other between two looks
            moves = state.moves
            item = state.items.get(key)
            if item is not None:
                return item.object
            held = state.held.get(key)
            if held is not None:
                raise QuarantinedError(held.withheld.entry)
        hint = "; it is namespaced: say get(name, namespace=…)" if self._resource.namespaced and "/" not in key else ""
        raise NotFoundError(f"no {self._resource} {key!r} in the cache{hint}")

    def list(
        self, *, namespace: str | None = None, label_selector: str = "", require_complete: bool = False
    ) -> Sequence[T]:
        """All objects in scope, in no particular order. O(objects in the namespace); no copy of the objects.

        Args:
            namespace: only this one; None for all, and so is "", as in client-go.
            label_selector: as in `kubectl -l`.
            require_complete: refuse to answer while something in scope is withheld or cannot be identified.

        Raises:
            IncompleteError: with `require_complete`, naming the withheld keys in scope.
            NotSyncedError: before the first sync.
            ValueError: the selector is none.
        """
        state = self._state()
        if require_complete:
            _require_complete(state, [entry.key for entry in _withheld(state, namespace, label_selector)])
        items = _in_namespace(state, namespace)
        if require_complete:  # once more, since in another thread one may have left the items meanwhile
            _require_complete(state, [entry.key for entry in _withheld(state, namespace, label_selector)])
        if label_selector:
            matches = compile_label_selector(label_selector)
            return [item.object for item in items if matches(item.labels)]
        return [item.object for item in items]

    def by_index(self, index: str, value: str, /, *, require_complete: bool = False) -> Sequence[T]:
        """The objects that an index has under a value. O(found).

        Nobody knows under which values a withheld object belongs, so with `require_complete` any withheld object counts.

        Raises:
            KeyError: there is no index of that name.
            TypeError: the value is no string, so that no object can be under it.
            IncompleteError, NotSyncedError: as `list`.
        """
        state = self._state()
        if not isinstance(value, str):
            raise TypeError(
                f"the values of index {index!r} are strings, not {value!r:.200}; write str(…) here and there"
            )
        if index not in state.indexes:
            raise _no_index(index, state)
        if require_complete:
            _require_complete(state, [*state.held])
        bucket = state.indexes[index].buckets.get(value)
        found = [] if bucket is None else [*bucket.values()]
        if require_complete:
            _require_complete(state, [*state.held])  # as in `list`
        return [item.object for item in found]

    def index_values(self, index: str, /) -> Collection[str]:
        """The values under which an index has objects. O(values).

        Raises:
            KeyError: there is no index of that name.
            NotSyncedError: before the first sync.
        """
        state = self._state()
        if index not in state.indexes:
            raise _no_index(index, state)
        return [*state.indexes[index].buckets]

    def withheld(self, *, namespace: str | None = None, label_selector: str = "") -> Sequence[QuarantinedObject]:
        """What exists in scope and cannot be read, with what is wrong with it. O(withheld).

        Raises:
            NotSyncedError: before the first sync.
        """
        return _withheld(self._state(), namespace, label_selector)

    if not TYPE_CHECKING:  # a type checker refuses such an attribute by itself, and would then no longer

        def __getattr__(self, name: str) -> Any:
            raise _hints.unknown(self, name, _hints.LISTER)

    def __len__(self) -> int:
        """How many objects are in the cache. O(1).

        Raises:
            NotSyncedError: before the first sync.
        """
        return len(self._state().items)

    def __bool__(self) -> bool:  # a lister of an empty cache is still a lister
        return True


class Index(Generic[T]):
    """One index of an informer: `index["value"]` are the objects it has there."""

    def __init__(self, lister: Lister[T], name: str) -> None:
        self._lister = lister
        self._name = name

    def __getitem__(self, value: str, /) -> Sequence[T]:
        """The objects under a value; empty when there are none. O(found).

        Raises:
            TypeError: the value is no string.
            NotSyncedError: before the first sync.
        """
        return self._lister.by_index(self._name, value)

    def values(self) -> Collection[str]:
        """All values under which there are objects. O(values)."""
        return self._lister.index_values(self._name)

    __iter__ = None  # indexing by number would make an endless iteration of this


def _no_index(index: str, state: State[T]) -> KeyError:
    return KeyError(f"no index {index!r}; there are {sorted(state.indexes)}")


def _in_namespace(state: State[T], namespace: str | None) -> builtins.list[Item[T]]:
    # Taken as a list in one step: the writer may be at work in another thread.
    if not namespace:
        return [*state.items.values()]
    bucket = state.namespaces.get(namespace)
    return [] if bucket is None else [*bucket.values()]


def _withheld(state: State[T], namespace: str | None, label_selector: str) -> builtins.list[QuarantinedObject]:
    entries = [held.withheld.entry for held in [*state.held.values()]]
    if namespace:
        entries = [entry for entry in entries if entry.key.startswith(f"{namespace}/")]
    if label_selector:
        matches = compile_label_selector(label_selector)
        entries = [entry for entry in entries if matches(entry.metadata.labels)]
    return entries


def _require_complete(state: State[T], withheld: builtins.list[str]) -> None:
    if withheld:
        shown = ", ".join(withheld[:5]) + (", …" if len(withheld) > 5 else "")
        raise IncompleteError(f"{len(withheld)} objects in scope cannot be read: {shown}", withheld)
    if state.unidentifiable:
        raise IncompleteError(f"{state.unidentifiable} objects have no usable key and may be in scope")
