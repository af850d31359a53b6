"""When to look again: done, now, or after some seconds; and of many such wishes the earliest wins, whatever their order.

Works alone. Three parts of one pass report what each would like, and one of them fails:

>>> from eviction import PassResults, Requeue, soonest
>>> soonest(Requeue.after(30), None, Requeue.after(2))
Requeue(delay=2.0)
>>> results = PassResults()
>>> for node, delay in [("a", 30), ("b", 2), ("c", None)]:
...     with results.collect(node) as report:
...         report(Requeue.after(delay) if delay else 1 / 0)
>>> results.requeue, results.source, list(results.errors)
(Requeue(delay=2.0), 'b', ['c'])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, ClassVar

from attrs import field, frozen

from eviction._seconds import at_least, seconds

if TYPE_CHECKING:
    from eviction.deadline import Deadline


def _delay(value: float | None) -> float | None:
    return None if value is None else at_least(0.0, value, "Requeue.delay")


@frozen(order=False)
class Requeue:
    """A wish for the next pass. Three values that never mix: `DONE`, `NOW`, `after(seconds)`. All of it is O(1).

    controller-runtime writes "none" and "now" both as zero, and a computed delay that reached zero then loses its wake-up
    (metal3-io/baremetal-operator#3617). Here zero is always "now", and "none" is None.

    Attributes:
        delay: Seconds until the next pass; 0.0 is now, None is done.
        limit: Seconds to the running deadline this wish was clamped to, if any. `PassResults` needs it so that a floor
            does not push a wake-up past the deadline. No part of equality.
    """

    delay: float | None = field(converter=_delay)
    limit: float | None = field(default=None, kw_only=True, eq=False, repr=False)

    DONE: ClassVar[Requeue]
    NOW: ClassVar[Requeue]

    @classmethod
    def after(cls, delay: float | timedelta, /) -> Requeue:
        """Look again in so many seconds. Zero or less is `NOW`: the moment has come, which is no reason to forget it.

        Raises:
            ValueError: NaN, infinite, text or bool. "Never" is `DONE`.
        """
        wanted = seconds(delay, "the delay of Requeue.after")
        return cls(wanted) if wanted > 0 else cls.NOW

    @classmethod
    def from_result(cls, *, requeue_after: float, requeue: bool = False) -> Requeue:
        """controller-runtime's `Result{Requeue, RequeueAfter}`, where a zero `RequeueAfter` means none.

        A positive `requeue_after` wins over `requeue`, as there. Unlike there a negative one is `NOW` and not "none": it
        is always a computed delay that has passed.

        Raises:
            ValueError: As `after`.
        """
        wanted = seconds(requeue_after, "requeue_after")
        if wanted == 0:
            return cls.NOW if requeue else cls.DONE
        return cls.after(wanted)


Requeue.DONE = Requeue(None)
Requeue.NOW = Requeue(0.0)


def soonest(*items: Requeue | None) -> Requeue:
    """The earliest of the wishes; None and `DONE` are neutral. Commutative and associative. O(items).

    Raises:
        TypeError: An item is neither a Requeue nor None.
    """
    delay: float | None = None
    limit: float | None = None
    for item in items:
        if item is None:
            continue
        if not isinstance(item, Requeue):
            raise TypeError(
                f"soonest() takes Requeue values and None, not {item!r}; a number goes through Requeue.after"
            )
        delay = _lower(delay, item.delay)
        limit = _lower(limit, item.limit)
    return Requeue(delay, limit=limit)


def _lower(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class PassResults:
    """Collects what each part of a pass wishes, so that no part's exception hides another's interval.

    This is not a throttle. The earliest wish slows nobody down as long as anybody has work: a refused eviction is held
    back by `EvictionThrottle`.

    Args:
        floor: Shortest delay handed out, in seconds. It never pushes a wake-up past a running deadline; after an expired
            one it is what keeps a pass that always answers `NOW` from spinning.
        ceiling: Longest delay handed out, in seconds. `DONE` stays `DONE`.

    Raises:
        ValueError: A bound is negative or not finite, or the floor is above the ceiling.
    """

    def __init__(self, *, floor: float = 0.0, ceiling: float | None = None) -> None:
        self._floor = at_least(0.0, floor, "floor")
        self._ceiling = None if ceiling is None else at_least(0.0, ceiling, "ceiling")
        if self._ceiling is not None and self._floor > self._ceiling:
            raise ValueError(f"floor {self._floor:g} s is above ceiling {self._ceiling:g} s")
        self._wishes: list[tuple[Hashable, Requeue]] = []
        self._errors: dict[Hashable, list[Exception]] = {}

    def collect(self, source: Hashable, /) -> AbstractContextManager[Callable[[Requeue | None], None], bool]:
        """Run one part of the pass: report its wishes to the callable; an exception is kept, and the pass goes on.

        Wishes reported before the exception count. Cancellation, KeyboardInterrupt and every other BaseException are
        not kept but go on their way. O(1).
        """
        return _Part(self, source)

    def add(self, source: Hashable, requeue: Requeue | None, /, *, deadline: Deadline | None = None) -> None:
        """Add one wish, clamped to the deadline if one is given. O(1).

        Raises:
            TypeError: Neither a Requeue nor None.
        """
        wish = soonest(requeue)
        self._wishes.append((source, wish if deadline is None else deadline.clamp(wish)))

    @property
    def requeue(self) -> Requeue:
        """The earliest wish within the bounds; `DONE` when nobody wants anything. O(wishes)."""
        return self._bounded(soonest(*(wish for _, wish in self._wishes)))

    @property
    def source(self) -> Hashable | None:
        """Whose wish won; of equal ones the first by text, so that the order of the pass does not show. None: nobody's.

        O(wishes).
        """
        wanted = [(self._bounded(wish).delay, wish.delay, str(source), source) for source, wish in self._wishes]
        winners = [entry for entry in wanted if entry[0] is not None]
        return min(winners, key=lambda entry: entry[:3])[3] if winners else None

    @property
    def errors(self) -> Mapping[Hashable, Exception]:
        """What each part raised; several of one part as an ExceptionGroup. O(errors)."""
        return MappingProxyType({source: _as_one(source, errors) for source, errors in self._errors.items()})

    def raise_errors(self) -> None:
        """Raise what was kept, if anything. O(errors).

        Raises:
            ExceptionGroup: All exceptions of the pass, in the order they came.
        """
        if kept := [error for errors in self._errors.values() for error in errors]:
            raise ExceptionGroup(f"{len(self._errors)} part(s) of the pass failed", kept)

    def _bounded(self, wish: Requeue) -> Requeue:
        if wish.delay is None:
            return wish
        delay = max(wish.delay, self._floor)
        for bound in (self._ceiling, wish.limit):
            delay = delay if bound is None else min(delay, bound)
        return Requeue(delay, limit=wish.limit)


@frozen
class _Part:
    """A class and no generator, so that type checkers see that it may end an exception."""

    results: PassResults
    source: Hashable

    def __enter__(self) -> Callable[[Requeue | None], None]:
        return lambda requeue: self.results.add(self.source, requeue)

    def __exit__(self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None, /) -> bool:
        if not isinstance(e, Exception):
            return False
        self.results._errors.setdefault(self.source, []).append(e)  # noqa: SLF001 - one idea in two classes
        return True


def _as_one(source: Hashable, errors: list[Exception]) -> Exception:
    return errors[0] if len(errors) == 1 else ExceptionGroup(f"{source} failed {len(errors)} times", errors)
