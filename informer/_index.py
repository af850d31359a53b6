"""One index of the store: which objects have which value, and the way back for removal."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from attrs import define, field

from informer.listerwatcher import Item

_log = logging.getLogger("informer.store")

T = TypeVar("T")

_MILESTONES = frozenset(10**digits for digits in range(1, 19))


@define(eq=False)
class IndexData(Generic[T]):
    """The objects of a store by the values that a user's function has for them.

    Attributes:
        name: of the index, for log lines.
        values: the user's function.
        buckets: value to key to object.
        by_key: key to values.
        failed: key to the version whose failure was counted.
        raised: exception type to the number of objects it was raised for, once per version.
    """

    name: str
    values: Callable[[T], Iterable[str]]
    buckets: dict[str, dict[str, Item[T]]] = field(factory=dict)
    by_key: dict[str, tuple[str, ...]] = field(factory=dict)
    failed: dict[str, str] = field(factory=dict)
    raised: Counter[type[Exception]] = field(factory=Counter)

    def empty_copy(self) -> IndexData[T]:
        """The same index over nothing."""
        return IndexData(self.name, self.values, failed=self.failed, raised=self.raised)

    def put(self, item: Item[T]) -> None:
        """Enter an object under its values, and under no others."""
        key = item.key
        try:
            found = _strings(self.name, self.values(item.object))
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything, and it is logged
            # Stored and unindexed: a bug in one index function must not take an object from every reader.
            logged = self.failed.get(key)
            self.drop(key)
            self.failed[key] = item.resource_version
            if logged != item.resource_version:
                self._complain(key, error)
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

    def _complain(self, key: str, error: Exception) -> None:
        """With its traceback the first time, then the tenth, hundredth and so on: a bug has it for every object."""
        self.raised[type(error)] += 1
        times = self.raised[type(error)]
        if times == 1:
            _log.error(
                "index %r cannot be computed for %s; the object is under no key of it", self.name, key, exc_info=error
            )
        elif times in _MILESTONES:
            _log.error(
                "index %r cannot be computed: %s for %d objects or versions so far, %s the last; they are under no key of it",
                self.name,
                type(error).__name__,
                times,
                key,
            )

    def _leave(self, value: str, key: str) -> None:
        bucket = self.buckets.get(value)
        if bucket is not None and bucket.pop(key, None) is not None and not bucket:
            del self.buckets[value]  # an empty bucket goes too (kubernetes#84959)


def _strings(index: str, found: Any) -> tuple[str, ...]:
    """What a function has returned, as values; None, a Python function's "nothing", as none.

    Raises:
        TypeError: something else. No text is quoted: it is logged, and may be a Secret's.
    """
    if found is None:
        return ()
    wanted = f"the function of index {index!r} returns a list of strings"
    if isinstance(found, str):
        raise TypeError(f"{wanted}, not a string; write [value]")
    if isinstance(found, Mapping):  # kopf's {value: result}, whose results would be lost
        raise TypeError(f"{wanted}, not a dict; an object is found as a whole, so write [value]")
    values = tuple(found)
    for value in values:
        if not isinstance(value, str):
            shown = repr(value) if isinstance(value, int | float | None) else f"a value of type {type(value).__name__}"
            raise TypeError(f"{wanted}, and {shown} is none; write str(…)")
    return values
