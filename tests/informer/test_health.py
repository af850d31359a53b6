from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from attrs.exceptions import FrozenInstanceError

from informer import ApiError, DegradedListerWatcher, Quarantine, Resource, SharedInformer
from informer.health import Pulse, state_of
from informer.testing import FakeListerWatcher

from .kit import TIMEOUT_CHECK, degraded, source

REFUSED = ApiError("come back later", status=503)


def loop_time() -> float:
    return asyncio.get_running_loop().time()


def pulse() -> Pulse:
    return Pulse(clock=loop_time, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), deadline=100.0)


@pytest.mark.parametrize(
    ("failing", "silence", "synced", "ended", "overfull", "state"),
    [
        (False, 0, False, False, False, "starting"),
        (False, 500, False, False, False, "starting"),
        (True, 0, False, False, False, "failing"),
        (False, 0, True, False, False, "live"),
        (False, 100, True, False, False, "live"),
        (False, 101, True, False, False, "stale"),
        (True, 101, True, False, False, "failing"),
        (False, 0, True, False, True, "failing"),
        (True, 101, True, True, True, "stopped"),
    ],
)
async def test_state(failing: bool, silence: float, synced: bool, ended: bool, overfull: bool, state: str):
    """When several things are wrong, the state should name the worst."""
    one = pulse()
    if failing:
        one.failed(REFUSED)
    await asyncio.sleep(silence)
    assert state_of(one, synced=synced, ended=ended, overfull=overfull) == state


async def test_pulse():
    """When requests fail and succeed, it should count, remember the last error, and measure the silence."""
    woken = []
    one = pulse()
    one.on_failure = lambda: woken.append(True)
    await asyncio.sleep(7)
    assert one.silence == 7
    one.failed(REFUSED)
    one.failed(REFUSED)
    assert (one.failures, one.failing, one.last_error, len(woken)) == (2, True, REFUSED, 2)
    assert one.last_error_at == datetime(2026, 1, 1, tzinfo=UTC)
    one.contact()
    assert (one.silence, one.failing, one.failures, one.last_error) == (0, False, 2, REFUSED)


@pytest.mark.parametrize(
    ("errors", "refusals"),
    [
        ([403, 403, 403], 3),
        ([401, 404, 403], 3),
        ([400, 405, 422], 3),
        ([503, 503, 403], 1),
        ([403, 403, 500], 0),
        ([403, 429, 403], 1),
        ([0], 0),
    ],
)
async def test_refusals(errors: list[int], refusals: int):
    """When refusals come that no waiting mends, only those in a row should count."""
    one = pulse()
    for status in errors:
        one.failed(ApiError("no", status=status) if status else OSError("no route"))
    assert one.refusals == refusals


# ---------------------------------------------------------------------- of a whole informer


async def test_a_life():
    """When an informer starts, fails, recovers and ends, its health should say so each time."""
    fake = source("a")
    fake.create("bad", {"timeout": "1"})
    informer = SharedInformer(degraded(fake))
    before = informer.health
    assert (before.state, before.synced, before.complete, before.last_error) == ("starting", False, False, None)
    assert before.seconds_since_contact == 0
    fake.fail_lists(REFUSED)
    async with informer:
        await asyncio.sleep(0.1)
        failing = informer.health
        assert (failing.state, failing.synced, failing.consecutive_failures) == ("failing", False, 1)
        assert failing.last_error == "503: come back later"
        assert failing.last_error_at is not None
        assert failing.last_error_at.tzinfo is UTC
        await informer.wait_for_sync(timeout=60)
        live = informer.health
        assert (live.state, live.synced, live.complete, live.quarantined) == ("live", True, False, 1)
        assert (live.consecutive_failures, live.last_error) == (0, "503: come back later")
        fake.update("bad", {"timeout": "1m"})
        await asyncio.sleep(10)
        assert (informer.health.complete, informer.health.quarantined) == (True, 0)
        assert informer.health.seconds_since_contact == pytest.approx(10, abs=0.1)
        fake.fail_watches(*[REFUSED] * 3)
        fake.drop_watches(REFUSED)
        await asyncio.sleep(0.1)
        assert informer.health.state == "failing"
        assert informer.health.synced
        assert informer.health.complete
        await asyncio.sleep(60)
        assert informer.health.state == "live"
    ended = informer.health
    assert (ended.state, ended.synced) == ("stopped", True)
    with pytest.raises(FrozenInstanceError):
        ended.state = "live"  # type: ignore[misc]


async def test_silence():
    """When nothing is heard for longer than any watch may live, it should be stale, and live again at the next sign."""

    class Deaf(FakeListerWatcher):
        """Its watches neither bring anything nor end."""

        def watch(self, options, /):
            return super().watch(type(options)(resource_version=options.resource_version, timeout=1e6))

    fake = Deaf(source("a").resource)
    async with SharedInformer(fake) as informer:
        await informer.wait_for_sync(timeout=10)
        await asyncio.sleep(600)
        assert informer.health.state == "live"
        await asyncio.sleep(100)
        assert informer.health.state == "stale"
        assert informer.health.seconds_since_contact == pytest.approx(700, abs=1)
        fake.create("b")
        await asyncio.sleep(1)
        assert informer.health.state == "live"


async def test_too_many_bad_objects():
    """When more objects turn bad than allowed while watching, it should be failing, go on, and be live again below."""
    fake = source("a", "b")
    quarantine = Quarantine(max_entries=1)
    async with SharedInformer(DegradedListerWatcher(fake, checks=[TIMEOUT_CHECK], quarantine=quarantine)) as informer:
        await informer.wait_for_sync(timeout=10)
        fake.update("a", {"timeout": "1"})
        fake.update("b", {"timeout": "1"})
        await asyncio.sleep(1)
        assert (informer.health.state, informer.health.quarantined) == ("failing", 2)
        assert fake.open_watches == 1
        fake.update("b", {"timeout": "1s"})
        await asyncio.sleep(1)
        assert informer.health.state == "live"
        assert informer.lister.get("b", namespace="default")["spec"] == {"timeout": "1s"}


async def test_a_secret_that_a_decoder_quotes():
    """When the resource is sensitive, the last error should not carry a foreign error's text."""
    fake = source(resource=Resource("", "v1", "secrets"))
    fake.fail_lists(ValueError("cannot decode 'hunter2'"))
    async with SharedInformer(fake) as informer:
        await asyncio.sleep(0.1)
        assert informer.health.last_error == "ValueError"
