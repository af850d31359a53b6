"""Prometheus metrics on a registry that is passed in. Labels name the informer, never an object.

prometheus-client is imported only when there is a registry.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from informer.health import Health


class Observed(Protocol):
    """What the gauges are read from at each scrape."""

    @property
    def health(self) -> Health:
        """The snapshot."""
        ...

    @property
    def size(self) -> int:
        """Objects in the store."""
        ...

    @property
    def backlog(self) -> int:
        """The longest backlog of any handler."""
        ...


class Recorder:
    """Counts nothing; what an informer without a registry uses."""

    def request(self, verb: str, outcome: str) -> None:
        """One LIST or WATCH ended."""

    def event(self, kind: str, count: int = 1) -> None:
        """So many changes of a kind reached the store."""

    def undecodable(self, count: int = 1) -> None:
        """An object was judged bad, or had no usable key."""

    def merged(self, count: int) -> None:
        """So many changes were merged into others, since a handler was behind."""


@define(eq=False)
class _Counting(Recorder):
    families: _Families
    resource: str
    name: str
    _events: dict[str, Any] = field(factory=dict, init=False)

    def request(self, verb: str, outcome: str) -> None:
        self.families.requests.labels(self.resource, self.name, verb, outcome).inc()

    def event(self, kind: str, count: int = 1) -> None:
        counter = self._events.get(kind)
        if counter is None:  # to look it up takes longer than to count
            counter = self._events[kind] = self.families.events.labels(self.resource, self.name, kind)
        counter.inc(count)

    def undecodable(self, count: int = 1) -> None:
        self.families.undecodable.labels(self.resource, self.name).inc(count)

    def merged(self, count: int) -> None:
        self.families.merged.labels(self.resource, self.name).inc(count)


_LABELS = ("resource", "informer")
_GAUGES = (
    ("informer_objects", "Objects in the store."),
    ("informer_quarantined_objects", "Objects that exist on the server and cannot be read."),
    ("informer_seconds_since_contact", "Age of the latest good answer, event or bookmark."),
    ("informer_handler_backlog", "The longest queue of changes that wait for a handler."),
    ("informer_synced", "1 once the first list is in the store."),
    ("informer_live", "1 while the informer follows its server."),
)


@define(eq=False)
class _Families:
    """The metric families of one registry, and the collector of its gauges."""

    requests: Any
    events: Any
    undecodable: Any
    merged: Any
    informers: weakref.WeakKeyDictionary[Observed, tuple[str, str]] = field(factory=weakref.WeakKeyDictionary)

    def collect(self) -> Iterator[Any]:
        """Called by the registry at each scrape; an informer that is gone has no series."""
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - see the module's docstring

        rows: dict[tuple[str, str], tuple[float, ...]] = {}
        for reference in self.informers.keyrefs():  # in one step: a scrape is often another thread's
            informer = reference()
            labels = None if informer is None else self.informers.get(informer)
            if informer is None or labels is None:
                continue
            health = informer.health
            rows[labels] = (
                informer.size,
                health.quarantined,
                health.seconds_since_contact,
                informer.backlog,
                float(health.synced),
                float(health.state == "live"),
            )
        for number, (name, text) in enumerate(_GAUGES):
            family = GaugeMetricFamily(name, text, labels=_LABELS)
            for labels, row in rows.items():
                family.add_metric(labels, row[number])
            yield family


# One set of families for each registry, since a registry refuses the same name twice.
_known: weakref.WeakKeyDictionary[CollectorRegistry, _Families] = weakref.WeakKeyDictionary()


def observe(registry: CollectorRegistry | None, informer: Observed, resource: str, name: str) -> Recorder:
    """Publish an informer's metrics; returns where it counts.

    Args:
        registry: None for no metrics at all.
        informer: what the gauges are read from; held weakly.
        resource: the resource's full name.
        name: tells informers of one resource apart, such as by namespace or selector.
    """
    if registry is None:
        return Recorder()
    families = _known.get(registry)
    if families is None:
        families = _known[registry] = _make(registry)
    families.informers[informer] = (resource, name)
    return _Counting(families, resource, name)


def _make(registry: CollectorRegistry) -> _Families:
    from prometheus_client import Counter  # noqa: PLC0415 - see the module's docstring

    families = _Families(
        requests=Counter(
            "informer_requests", "Finished LIST and WATCH requests.", (*_LABELS, "verb", "outcome"), registry=registry
        ),
        events=Counter("informer_events", "Changes that reached the store.", (*_LABELS, "type"), registry=registry),
        undecodable=Counter(
            "informer_decode_failures", "Objects seen that could not be read, each time.", _LABELS, registry=registry
        ),
        merged=Counter(
            "informer_merged_changes",
            "Changes that a handler was spared, since it was more than max_backlog behind.",
            _LABELS,
            registry=registry,
        ),
    )
    registry.register(families)
    return families
