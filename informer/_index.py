"""One index of the store: which objects have which value, and the way back for removal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from attrs import define, field

from informer.listerwatcher import Item

_log = logging.getLogger("informer.store")

T = TypeVar("T")


@define(eq=False)
class IndexData(Generic[T]):
    """The objects of a store by the values that a user's function has for them.

    Attributes:
        name: of the index, for log lines.
        values: the user's function.
        buckets: value to key to object.
        by_key: key to values.
        failed: key to the version whose failure was logged.
    """

    name: str
    values: Callable[[T], Iterable[str]]
    buckets: dict[str, dict[str, Item[T]]] = field(factory=dict)
    by_key: dict[str, tuple[str, ...]] = field(factory=dict)
    failed: dict[str, str] = field(factory=dict)

    def empty_copy(self) -> IndexData[T]:
        """The same index over nothing."""
        return IndexData(self.name, self.values, failed=self.failed)

    def put(self, item: Item[T]) -> None:
        """Enter an object under its values, and under no others."""
        key = item.key
        try:
            found = _strings(self.values(item.object))
        except Exception:  # noqa: BLE001 - a user's function may raise anything, and it is logged
            # Stored and unindexed: a bug in one index function must not take an object from every reader.
            logged = self.failed.get(key)
            self.drop(key)
            self.failed[key] = item.resource_version
            if logged != item.resource_version:
                _log.exception("index %r cannot be computed for %s; the object is under no key of it", self.name, key)
            return
        if self.failed:
            self.failed.pop(key, None)
        before = self.by_key.get(key, ())
        # The new places before the old ones are left: another thread must find an object where it was and still is.
        for value in found:
            self.buckets.setdefault(value, {})[key] = item
        for value in before:
            if value not in found:
                self._leave(value, key)
        if found:
            self.by_key[key] = found
        elif before:
            del self.by_key[key]

    def drop(self, key: str) -> None:
        """Remove an object."""
        for value in self.by_key.pop(key, ()):
            self._leave(value, key)
        self.failed.pop(key, None)

    def _leave(self, value: str, key: str) -> None:
        bucket = self.buckets.get(value)
        if bucket is not None and bucket.pop(key, None) is not None and not bucket:
            del self.buckets[value]  # an empty bucket goes too (kubernetes#84959)


def _strings(found: Iterable[str]) -> tuple[str, ...]:
    if isinstance(found, str):
        raise TypeError(f"an index function returns a list of strings, not the string {found!r:.200}")
    values = tuple(found)
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"an index function returns strings, not {values!r:.200}")
    return values
