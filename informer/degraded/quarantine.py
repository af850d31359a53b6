"""The bad objects of one source: what is wrong with each, kept until it is mended or gone, and said loudly meanwhile."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Container, ItemsView, Iterator, Mapping, Sequence, ValuesView
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from enum import StrEnum

from attrs import evolve, frozen

from informer.degraded.kept import KeptBytes
from informer.degraded.reminders import LINES, Schedule
from informer.degraded.report import Report
from informer.errors import InformerError, TooManyBadObjectsError
from informer.listerwatcher import Item
from informer.objects import KubeObject, same_content
from informer.problems import Problem, QuarantinedObject
from informer.resource import Resource

__all__ = ["Quarantine", "QuarantineChange", "Transition"]


class Transition(StrEnum):
    """What happened to an entry. DELETED is "deleted or left the selection": a watch does not tell one from the other."""

    ADDED = "added"
    CHANGED = "changed"
    RECOVERED = "recovered"
    DELETED = "deleted"


@frozen
class QuarantineChange:
    """What a subscriber hears of."""

    transition: Transition
    entry: QuarantinedObject


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Quarantine(Mapping[str, QuarantinedObject]):
    """A read-only mapping from key to bad object. An empty one is falsy, as every mapping: test with `is None`, never `or`.

    It belongs to one `DegradedListerWatcher`, which fills it. It may be read from any thread. What names no cost is O(1).

    Args:
        remind_every: seconds between two ERROR lines about the same object, on the clock of the running loop.
        max_entries: more bad objects than this at the end of a complete LIST refuse that LIST; None for no limit.
        max_bytes: how much of bad objects is kept for `to_dict()`; past it the oldest that are not terminating lose theirs
            first.
        logger: name of the logger.
        now: an aware datetime, for `first_seen` and `last_seen`.

    Attributes:
        silenced: why the reminders do not work, None when they do.

    Raises:
        ValueError: a limit that cannot be.
    """

    def __init__(
        self,
        *,
        remind_every: float = 300.0,
        max_entries: int | None = None,
        max_bytes: int = 64 << 20,
        logger: str = "informer.degraded",
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        if not 0 < remind_every < float("inf"):
            raise ValueError(f"remind_every is {remind_every}; it must be a positive number of seconds")
        if max_entries is not None and max_entries < 0:
            raise ValueError(f"max_entries is {max_entries}; it must not be negative, or None for no limit")
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}; it must not be negative")
        self._max_entries = max_entries
        self._entries: dict[str, QuarantinedObject] = {}
        self._recorded_at: dict[str, int] = {}
        self._count = 0
        self._kept = KeptBytes(max_bytes)
        self._schedule = Schedule(remind_every)
        self._logger = logging.getLogger(logger)
        self._report = Report(self._logger)
        # The ends that the log has yet to be told, by key: when, the entry without its bytes, and whether it is well.
        self._held: dict[str, tuple[float, QuarantinedObject, bool]] = {}
        self._now = now
        self._callbacks: list[Callable[[QuarantineChange], object]] = []
        self.silenced: InformerError | None = None
        self._resource: Resource | None = None

    def __getitem__(self, key: str, /) -> QuarantinedObject:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    # Copies, so that another thread may read while objects come and go.
    def values(self) -> ValuesView[QuarantinedObject]:
        """The entries as they are now. O(entries), as `items` and iteration are; one entry by its key is O(1)."""
        return self._entries.copy().values()

    def items(self) -> ItemsView[str, QuarantinedObject]:
        """The keys and entries as they are now."""
        return self._entries.copy().items()

    def __contains__(self, key: object, /) -> bool:
        return key in self._entries

    def __repr__(self) -> str:
        return f"<Quarantine of {self._resource or 'nothing yet'}: {len(self)} objects>"

    @property
    def overfull(self) -> bool:
        """There are more entries than `max_entries`. Between two LISTs that makes health `failing` and stops nothing."""
        return self._max_entries is not None and len(self) > self._max_entries

    def subscribe(self, callback: Callable[[QuarantineChange], object], /) -> AbstractContextManager[None]:
        """Call back about every change while the context is open, at once and on the loop; it must not block.

        One that raises is logged and called again next time.

        Raises:
            TypeError: a coroutine function, which nobody would await.
        """
        if inspect.iscoroutinefunction(callback):
            raise TypeError(
                f"{callback!r} is a coroutine function and would never be awaited; subscribe a plain function, which may"
                " put the change into an asyncio.Queue"
            )
        return self._subscribed(callback)

    @contextmanager
    def _subscribed(self, callback: Callable[[QuarantineChange], object]) -> Iterator[None]:
        self._callbacks.append(callback)
        try:
            yield
        finally:
            self._callbacks.remove(callback)

    # What follows is for the wrapper that fills it.

    def claim(self, resource: Resource) -> Container[str]:
        """Become the quarantine of one wrapper, which gets the keys to look into at every object.

        Raises:
            ValueError: it is another's already.
        """
        if self._resource is not None:
            raise ValueError(
                f"this quarantine already belongs to a wrapper of {self._resource}; make one for each wrapper"
            )
        self._resource = resource
        return self._entries

    def known_bad(self, item: Item[KubeObject]) -> QuarantinedObject | None:
        """The entry of this very object, which needs no second look: same life, same version, same bytes."""
        entry = self._entries.get(item.key)
        if entry is None or (entry.uid, entry.resource_version) != (item.uid, item.resource_version):
            return None
        raw = self._kept.get(item.key)
        return entry if item.resource_version and raw is not None and same_content(raw, item.object.raw) else None

    def seen_again(self, entry: QuarantinedObject) -> QuarantinedObject:
        """Note that a known bad object came once more, unchanged."""
        again = evolve(entry, last_seen=self._now(), times_seen=entry.times_seen + 1)
        self._entries[entry.key] = again
        self._note(entry.key)
        return again

    def record(self, item: Item[KubeObject], problems: Sequence[Problem]) -> QuarantinedObject:
        """Take a bad object in, or note how it is bad now."""
        assert self._resource is not None
        stamp = self._now()
        fresh = QuarantinedObject(
            self._resource,
            item.key,
            item.uid,
            item.resource_version,
            tuple(problems),
            first_seen=stamp,
            last_seen=stamp,
            times_seen=1,
            metadata=item.object.metadata,
            raw=item.object.raw,
        )
        return self.adopt(fresh)

    def adopt(self, fresh: QuarantinedObject) -> QuarantinedObject:
        """As `record`, for an entry that the source made because it could not read the object at all."""
        key = fresh.key
        self.meet(key, fresh.uid)
        old = self._entries.get(key)
        now, stamp = self._time(), self._now()
        first, times = (old.first_seen, old.times_seen + 1) if old else (stamp, 1)
        entry = evolve(fresh, first_seen=first, last_seen=stamp, times_seen=times)
        self._entries[key] = entry
        self._note(key)
        self._kept.keep(entry)
        if old is None:
            self._end_held(now)
            self._held.pop(key, None)
            self._schedule.news(key, entry.uid, now, terminating=entry.terminating)
            self._tell(Transition.ADDED, entry)
        elif _differs(old, entry):
            if entry.terminating and not old.terminating:
                self._schedule.news(key, entry.uid, now, terminating=True, again=True)
            self._tell(Transition.CHANGED, entry)
        return entry

    def meet(self, key: str, uid: str) -> None:
        """An object of this key is there. If it is another life than the entry's, that one is gone."""
        entry = self._entries.get(key)
        if entry is not None and uid and entry.uid and uid != entry.uid:
            self.clear(key, Transition.DELETED)

    def clear(self, key: str, transition: Transition) -> None:
        """The object is good again, or gone; nothing happens when it is not here."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._recorded_at.pop(key, None)
        self._kept.release(key)
        now, recovered = self._time(), transition is Transition.RECOVERED
        when = self._schedule.end(key, entry.uid, now, gone=not recovered)
        if when is not None and when > now:
            self._held[key] = when, evolve(entry, raw=None), recovered
        elif when is not None:
            self._report.end(entry, recovered=recovered)
        self._tell(transition, entry)

    def mark(self) -> int:
        """Where the record stands now, for `clear_missing`."""
        return self._count

    def clear_missing(self, present: Collection[str], mark: int) -> None:
        """A complete list has not brought these entries, so their objects are gone. What was recorded after `mark` stays:
        the list may be older than what a watch has told since.
        """
        for key in tuple(self._entries):
            if key not in present and self._recorded_at[key] <= mark:
                self.clear(key, Transition.DELETED)

    def refuse_if_overfull(self) -> None:
        """Judge a complete LIST.

        Raises:
            TooManyBadObjectsError: more than `max_entries` objects are bad.
        """
        if self._max_entries is not None and self.overfull:
            raise TooManyBadObjectsError(len(self), self._max_entries)

    def speak(self) -> None:
        """Say what cannot wait: first sights, objects that have begun to terminate, ends that were held back long enough."""
        now = self._time()
        self._end_held(now)
        while (key := self._schedule.next_news(now)) is not None:
            self._name(key, now)
        self._summarise(now)

    async def remind(self) -> None:
        """Say again what has not been mended, for ever; the child task of an open watch."""
        while True:
            pause = self._schedule.interval
            try:
                now = self._time()
                self._end_held(now)
                if (key := self._schedule.next_any(now)) is not None:
                    self._name(key, now)
                self._summarise(now)
                self.silenced = None
                if self._entries or self._held:
                    pause = self._schedule.spacing
            except Exception as error:
                self.silence(f"the reminders of bad {self._resource} fail: {type(error).__name__}")
                self._logger.exception("%s; trying again", self.silenced)
            await asyncio.sleep(pause)

    def silence(self, why: str) -> None:
        """Nobody is reminded of bad objects until the next reminder that succeeds; `health` says so."""
        self.silenced = InformerError(why)

    def _name(self, key: str, now: float) -> None:
        entry = self._entries[key]
        first = not self._schedule.was_named(key)
        self._schedule.named(key, entry.uid, now, terminating=entry.terminating)
        self._report.bad(entry, first=first)

    def _end_held(self, now: float) -> None:
        if self._held:
            for key in [key for key, (when, _, _) in self._held.items() if when <= now]:
                _, entry, recovered = self._held.pop(key)
                self._report.end(entry, recovered=recovered)

    def _summarise(self, now: float) -> None:
        if self._schedule.summary_due(now):
            assert self._resource is not None
            terminating = sum(entry.terminating for entry in self._entries.values())
            self._report.summary(self._resource, len(self), terminating, LINES)

    def _note(self, key: str) -> None:
        self._count += 1
        self._recorded_at[key] = self._count

    def _tell(self, transition: Transition, entry: QuarantinedObject) -> None:
        for callback in tuple(self._callbacks):
            try:
                callback(QuarantineChange(transition, entry))
            except MemoryError:
                raise
            except Exception:
                self._logger.exception("a subscriber of the quarantine failed on %s of %r", transition, entry)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()


def _differs(old: QuarantinedObject, new: QuarantinedObject) -> bool:
    """Whether something changed that a reader acts on, and not only the version."""
    return (old.problems, old.metadata.deletion_timestamp, tuple(old.metadata.finalizers)) != (
        new.problems,
        new.metadata.deletion_timestamp,
        tuple(new.metadata.finalizers),
    )
