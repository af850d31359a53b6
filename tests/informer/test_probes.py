"""`readiness` and `liveness`: what a kubelet is told, and what it is never told."""

from __future__ import annotations

import pytest
from attrs import frozen

from informer import ApiError, DegradedListerWatcher, Health, Resource, SharedInformer, checks, liveness, readiness
from informer.health import State
from informer.testing import FakeListerWatcher

PODS = Resource.parse("pods.v1")
WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")


@frozen
class Told:
    """An informer in a state of the table's choice."""

    health: Health
    resource: Resource = PODS
    name: str = ""


def told(state: State, *, synced: bool, error: str | None = None, quarantined: int = 0) -> Told:
    return Told(Health(state, synced, synced and not quarantined, quarantined, 0.0, error, None, 0))


@pytest.mark.parametrize(
    ("informer", "ready", "live", "line"),
    [
        (told("starting", synced=False), 503, 200, "pods.v1: starting, not synced\n"),
        (
            told("failing", synced=False, error="403 Forbidden: no"),
            503,
            200,
            "pods.v1: failing, not synced, last error: 403 Forbidden: no\n",
        ),
        (told("live", synced=True, error="over"), 200, 200, "pods.v1: live, synced\n"),
        (told("live", synced=True, quarantined=3), 200, 200, "pods.v1: live, synced, 3 withheld\n"),
        (told("stale", synced=True), 200, 200, "pods.v1: stale, synced\n"),
        (told("failing", synced=True, error="x"), 200, 200, "pods.v1: failing, synced, last error: x\n"),
        (told("stopped", synced=True), 200, 503, "pods.v1: stopped, synced\n"),
    ],
    ids=["starting", "refused", "live", "degraded", "stale", "failing", "stopped"],
)
def test_states(informer: Told, ready: int, live: int, line: str) -> None:
    """When an informer is in a state, ready should mean synced once, and live should mean not ended."""
    assert readiness(informer) == (ready, line)
    assert liveness(informer) == (live, line)


def test_several() -> None:
    """When one of several is not well, the answer should be no, with a line for each."""
    good, bad = told("live", synced=True), told("starting", synced=False)
    assert readiness(good, bad) == (503, "pods.v1: live, synced\npods.v1: starting, not synced\n")
    assert readiness(good, good)[0] == 200
    assert liveness(good, told("stopped", synced=True))[0] == 503


def test_one_resource_in_two_scopes() -> None:
    """When informers of one resource have names, the lines should tell them apart."""
    health = told("live", synced=True).health
    one, other = Told(health, name="pods.v1 (ns=a)"), Told(health, name="pods.v1 (ns=b)")
    assert readiness(one, other) == (200, "pods.v1 (ns=a): live, synced\npods.v1 (ns=b): live, synced\n")
    assert liveness(other) == (200, "pods.v1 (ns=b): live, synced\n")


def test_without_a_name() -> None:
    """When what is asked has no name at all, its resource should do."""

    @frozen
    class Nameless:
        health: Health = told("live", synced=True).health
        resource: Resource = WIDGETS

    assert readiness(Nameless()) == (200, "widgets.v1.example.test: live, synced\n")


def test_none() -> None:
    """When there is no informer, nothing should be called ready, and nothing dead."""
    assert readiness() == (503, "no informers\n")
    assert liveness() == (200, "no informers\n")


async def test_a_life() -> None:
    """When an informer starts against a failing server, syncs, loses it and ends, the probes should tell."""
    source = FakeListerWatcher(WIDGETS)
    source.create("a", {"timeout": "1"})
    source.fail_lists(ApiError("down", status=503), None)
    informer = SharedInformer(DegradedListerWatcher(source, checks=[checks.duration("spec.timeout")]))
    assert (readiness(informer)[0], liveness(informer)[0]) == (503, 200)
    async with informer:
        assert (readiness(informer)[0], liveness(informer)[0]) == (503, 200)
        await informer.wait_for_sync(timeout=60)
        assert readiness(informer) == (200, "widgets.v1.example.test: live, synced, 1 withheld\n")
        source.fail_watches(*[ApiError("down", status=503)] * 3)
        source.drop_watches(ApiError("gone"))
        assert (readiness(informer)[0], liveness(informer)[0]) == (200, 200)
    assert (readiness(informer)[0], liveness(informer)[0]) == (200, 503)
