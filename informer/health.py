"""How an informer is doing, as a frozen snapshot, and the few facts it is made from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Literal, TypeAlias

from attrs import define, field, frozen

from informer.errors import ApiError

State: TypeAlias = Literal["starting", "live", "stale", "failing", "stopped"]


# What a server answers to credentials, permissions, kinds and selectors that are wrong until somebody mends them.
_PERMANENT = frozenset({400, 401, 403, 404, 405, 422})


@frozen
class Health:
    """How an informer is doing at one moment.

    Readiness is `synced` (once is enough); liveness is `state != "stopped"`. Never tie liveness to `stale` or `failing`:
    restarting a pod heals no API server.

    Attributes:
        state: `starting` before the first sync, `live`, `stale` (silence longer than the watch deadline), `failing` (the
            latest request failed, or the quarantine is over its limit), `stopped`.
        synced: the first list is in the store; stays true.
        complete: synced, nothing withheld, no item without a usable key.
        quarantined: number of withheld objects.
        seconds_since_contact: age of the latest good answer, event or bookmark; since the start when there was none.
        last_error: the latest failure, None when there was none.
        last_error_at: when that was, UTC.
        consecutive_failures: failed requests since the last answer that proved the server healthy.
    """

    state: State
    synced: bool
    complete: bool
    quarantined: int
    seconds_since_contact: float
    last_error: str | None
    last_error_at: datetime | None
    consecutive_failures: int


@define
class Pulse:
    """What the reflector notes down for `Health`, and nothing that it decides by.

    Attributes:
        clock: the loop's clock, in seconds.
        now: the wall clock, as an aware datetime, for `last_error_at` only.
        deadline: seconds of silence after which a watch is dead.
        on_failure: called after each failure.
        refusals: failures in a row that no waiting mends (400, 401, 403, 404, 405, 422).
        cause: the bug that ended the informer.
    """

    clock: Callable[[], float]
    now: Callable[[], datetime]
    deadline: float
    on_failure: Callable[[], None] = lambda: None
    last_contact: float = field(init=False)
    failures: int = field(default=0, init=False)
    failing: bool = field(default=False, init=False)
    last_error: BaseException | None = field(default=None, init=False)
    last_error_at: datetime | None = field(default=None, init=False)
    refusals: int = field(default=0, init=False)
    cause: BaseException | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.last_contact = self.clock()

    def contact(self) -> float:
        """The server answered well just now; returns when that was."""
        self.last_contact = now = self.clock()
        self.failing = False
        return now

    def failed(self, error: BaseException) -> None:
        """A request failed."""
        self.failures += 1
        self.failing = True
        permanent = isinstance(error, ApiError) and error.status in _PERMANENT
        self.refusals = self.refusals + 1 if permanent else 0
        self.last_error = error
        self.last_error_at = self.now()
        self.on_failure()

    def died(self, error: BaseException) -> None:
        """A bug ended the informer."""
        self.cause = self.last_error = error
        self.last_error_at = self.now()

    @property
    def silence(self) -> float:
        """Seconds since the last contact."""
        return max(0.0, self.clock() - self.last_contact)

    @property
    def stale(self) -> bool:
        """Silent for longer than any watch may be."""
        return self.silence > self.deadline


def state_of(pulse: Pulse | None, *, synced: bool, ended: bool, overfull: bool) -> State:
    """The one word for it. `overfull`: more objects are bad than the quarantine allows."""
    if ended:
        return "stopped"
    if overfull or (pulse is not None and pulse.failing):
        return "failing"
    if not synced:
        return "starting"
    return "stale" if pulse is not None and pulse.stale else "live"
