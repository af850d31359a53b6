"""What `acquire` answers, and the record behind it."""

from __future__ import annotations

from collections.abc import Hashable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from attrs import define, frozen
from msgspec import Struct

from eviction.refusal import Refusal

if TYPE_CHECKING:
    from eviction.throttle import EvictionThrottle

Reason: TypeAlias = Literal["interval", "in flight", "retry-after", "overload"]


class Entry(Struct, gc=False, eq=False):
    """One attempt of one key, and what is remembered of the attempts before it. Guarded by the throttle's lock.

    There is one for each key, out of the cyclic collector's sight, whose walks over a large table would be a third of what
    `acquire` costs. Nothing that it refers to refers back; a key that holds its own throttle would keep it alive for ever.

    `state` moves from "in flight" to a waiting reason or to "cleared", from "cleared" to a waiting reason (a permit may
    take its own success back), and from anything to "void" once the entry left the table; a void entry never returns.
    """

    key: Hashable
    state: Reason | Literal["cleared", "void"]
    due: float
    since: float  # of this state
    # How many marks there were then. A count of touches would be a number object of its own for each entry.
    touched: int
    attempts: int = 0  # refused in a row
    refusal: Refusal | None = None
    blocked_since: float | None = None


@define(eq=False, repr=False, weakref_slot=False)  # frozen would triple the cost of acquire; nothing public can be set
class Permit:
    """Leave to try the evictions of one key now. Always true. All of it is O(1).

    Use it as a context manager around the whole batch. Any refusal that still blocks keeps the key armed, whatever else is
    reported; leaving the block by an exception, or without an answer, does too: it was an attempt. A permit that is too
    late, because its reservation expired and another was given out, answers into the void.
    """

    _entry: Entry
    _throttle: EvictionThrottle
    _started: float

    @property
    def key(self) -> Hashable:
        """What it was asked for."""
        return self._entry.key

    def __repr__(self) -> str:
        return f"Permit(key={self.key!r})"

    def __bool__(self) -> Literal[True]:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None, /) -> None:
        self._throttle._left(self._entry, failed=et is not None)  # noqa: SLF001 - one idea in two classes

    def succeeded(self) -> None:
        """Nothing was refused: the key is free. Without effect after a refusal of the same permit."""
        self._throttle._succeeded(self._entry, self._started)  # noqa: SLF001

    def refused(self, refusal: Refusal, /) -> None:
        """One eviction of the batch was refused. Of several the longest wait counts, and the last one is remembered.

        A kind that only a person can end gives way to one that time can: its pod must not slow its siblings. "Gone" and
        "replaced" count as success.

        Raises:
            TypeError: Not a Refusal; an exception goes through `classify_refusal` first.
        """
        if not isinstance(refusal, Refusal):
            raise TypeError(f"Permit.refused takes a Refusal, not {refusal!r}; see classify_refusal")
        self._throttle._refused(self._entry, refusal, self._started)  # noqa: SLF001


@frozen
class Denied:
    """Not now. Always false, for `acquire`'s sake: test what `peek` returns with `is not None`.

    Attributes:
        key: Whose turn it is not.
        reason: "interval" (refused a short while ago), "in flight" (somebody is at it), "retry-after" (the server named a
            time), "overload" (the server asks everybody for a pause).
        retry_in: Seconds until asking again makes sense.
        refusal: The last refusal, so that a condition says the same on the passes between two attempts.
        blocked_for: Seconds since the first refusal in a row.
    """

    key: Hashable
    reason: Reason
    retry_in: float
    refusal: Refusal | None
    blocked_for: float = 0.0

    def __bool__(self) -> Literal[False]:
        return False
