"""F05: an enum value newer than the client, edited again and again, and then deleted."""

from __future__ import annotations

import asyncio

from informer.testing.faults import Wait

from .world import EV, SILENT, L, W, World

REMIND_EVERY = 300.0


async def test_f05_a_bad_object_in_motion_costs_no_request_and_one_line(world: World) -> None:
    world.on_list(L("200", [W("ok", "150", "u1", {"mode": "Auto"}), W("new", "151", "u2", {"mode": "Adaptive"})]))
    edits = [
        step
        for version in range(201, 261)
        for step in (Wait(1), EV("MODIFIED", W("new", str(version), "u2", {"mode": "Adaptive", "tier": f"x{version}"})))
    ]
    gone = EV("DELETED", W("new", "261", "u2", {"mode": "Adaptive"}))
    world.on_watch([*edits, Wait(1), gone, Wait(5)])
    world.on_watch(SILENT, times=None)
    async with world.follow() as follower:
        assert follower.store == ["ok"]
        assert follower.bad == {"team-a/new": ["spec.mode"]}
        await world.until(60.5)
        entry = follower.entry("new")
        assert entry.resource_version == "260"
        assert entry.times_seen == 61
        assert len(world.log.errors()) == 1
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=200"]
        await world.until(70)
        assert not follower.quarantine
        assert follower.calls == ["quarantined new", "add ok"]
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=200", "WATCH rv=261"]
        assert follower.informer.lister.complete
        await asyncio.sleep(4 * REMIND_EVERY)
        assert len(world.log.errors()) == 1


async def test_f05_the_version_moves_on_over_a_bad_event_that_is_the_last(world: World) -> None:
    world.on_list(L("200", []))
    world.on_watch([Wait(1), EV("ADDED", W("new", "201", "u2", {"mode": "Adaptive"})), Wait(1)], SILENT)
    async with world.follow() as follower:
        await world.until(30)
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=200", "WATCH rv=201"]
        assert follower.entry("new").times_seen == 1


async def test_f05_edits_over_several_intervals_are_called_to_mind_once_per_interval(world: World) -> None:
    world.on_list(L("200", [W("new", "151", "u2", {"mode": "Adaptive"})]))
    edits = [
        step
        for version in range(201, 301)
        for step in (Wait(10), EV("MODIFIED", W("new", str(version), "u2", {"mode": "Adaptive"})))
    ]
    world.on_watch([*edits, Wait(100)])
    async with world.follow():
        await world.until(3.5 * REMIND_EVERY)
        assert len(world.log.errors("spec.mode")) == 4


async def test_f05_a_terminating_object_is_called_that(world: World) -> None:
    world.on_list(L("200", [W("new", "151", "u2", {"mode": "Adaptive"}, finalizers=["example.test/clean-up"])]))
    ending = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.test/clean-up"]}
    world.on_watch([Wait(5), EV("MODIFIED", W("new", "201", "u2", {"mode": "Adaptive"}, **ending)), Wait(60)])
    async with world.follow() as follower:
        assert not follower.entry("new").terminating
        assert not world.log.errors("terminating")
        await world.until(6)
        entry = follower.entry("new")
        assert entry.terminating
        assert len(world.log.errors()) == 2  # again at once, long before the interval is over
        assert world.log.errors("terminating")
        # Its owner hears of it again, and gets at what it needs to run the finalizer.
        assert follower.calls == ["quarantined new", "quarantined new"]
        assert entry.to_dict()["metadata"]["finalizers"] == ["example.test/clean-up"]
