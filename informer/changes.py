"""What can happen to an object from the point of view of a handler.

These are made once or twice for each event, so they are Structs: a fifth of the time of a frozen attrs class, and out of the cyclic
collector's sight while what they refer to is (a `KubeObject`).
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from informer.problems import QuarantinedObject

T_co = TypeVar("T_co", covariant=True)


class Added(Struct, Generic[T_co], frozen=True):
    """The object is new to this handler, or readable again. `initial`: it was there before the handler or the sync."""

    object: T_co
    initial: bool


class Updated(Struct, Generic[T_co], frozen=True):
    """The object changed. `resync`: it did not, but `resync_period` asks to look again (old is new)."""

    old: T_co
    new: T_co
    resync: bool


class Removed(Struct, Generic[T_co], frozen=True):
    """The object was deleted, or left the selection.

    `final_state_unknown`: nobody saw the last state, `object` is the last one known (client-go's
    DeletedFinalStateUnknown, without its separate type, which everybody forgets to unwrap).
    """

    object: T_co
    final_state_unknown: bool


class Quarantined(Struct, Generic[T_co], frozen=True):
    """The object exists but cannot be read; it is in no list until it is fixed. `old`: what was cached until now."""

    old: T_co | None
    entry: QuarantinedObject


Change: TypeAlias = Added[T_co] | Updated[T_co] | Removed[T_co] | Quarantined[T_co]
