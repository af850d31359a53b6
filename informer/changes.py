"""What can happen to an object from the point of view of a handler."""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from attrs import frozen

from informer.problems import QuarantinedObject

T_co = TypeVar("T_co", covariant=True)


@frozen
class Added(Generic[T_co]):
    """The object is new to this handler, or readable again. `initial`: it was there before the handler or the sync."""

    object: T_co
    initial: bool


@frozen
class Updated(Generic[T_co]):
    """The object changed. `resync`: it did not, but `resync_period` asks to look again (old is new)."""

    old: T_co
    new: T_co
    resync: bool


@frozen
class Removed(Generic[T_co]):
    """The object was deleted, or left the selection.

    `final_state_unknown`: nobody saw the last state, `object` is the last one known (client-go's
    DeletedFinalStateUnknown, without its separate type, which everybody forgets to unwrap).
    """

    object: T_co
    final_state_unknown: bool


@frozen
class Quarantined(Generic[T_co]):
    """The object exists but cannot be read; it is in no list until it is fixed. `old`: what was cached until now."""

    old: T_co | None
    entry: QuarantinedObject


Change: TypeAlias = Added[T_co] | Updated[T_co] | Removed[T_co] | Quarantined[T_co]
