"""Health of informers as answers to a kubelet's probes: a status and a text, for whatever serves HTTP in your program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from informer.health import Health
from informer.resource import Resource


class Probed(Protocol):
    """What a probe asks: a `SharedInformer`, or anything that tells its resource and health; a `name` is shown if it has one."""

    @property
    def resource(self) -> Resource:
        """What it follows."""
        ...

    @property
    def health(self) -> Health:
        """The snapshot."""
        ...


def readiness(*informers: Probed) -> tuple[int, str]:
    """200 once every informer has synced, and for ever after; 503 until then. The text has a line for each. O(informers).

    A cache that was filled once serves its readers through any outage, so a server that fails makes no pod unready.
    Objects that cannot be read do not either: the others are served. Without any informer it is 503: a probe that asks
    nobody knows nothing.
    """
    return _answer(informers, [informer.health.synced for informer in informers] or [False])


def liveness(*informers: Probed) -> tuple[int, str]:
    """200 as long as no informer has ended; 503 then. The text has a line for each. O(informers).

    Never 503 for `stale` or `failing`: restarting a pod heals no API server, and every restart lists everything again.
    """
    return _answer(informers, [informer.health.state != "stopped" for informer in informers])


def _answer(informers: Sequence[Probed], fine: Sequence[bool]) -> tuple[int, str]:
    lines = [_line(informer) for informer in informers] or ["no informers"]
    return (200 if all(fine) else 503), "".join(f"{line}\n" for line in lines)


def _line(informer: Probed) -> str:
    health = informer.health
    facts = [health.state, "synced" if health.synced else "not synced"]
    facts += [f"{health.quarantined} withheld"] if health.quarantined else []
    facts += [f"last error: {health.last_error}"] if health.last_error and health.state != "live" else []
    return f"{getattr(informer, 'name', '') or informer.resource}: {', '.join(facts)}"
