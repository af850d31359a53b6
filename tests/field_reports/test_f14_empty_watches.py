"""F14: 200 with an empty body, at once, again and again."""

from __future__ import annotations

import itertools

from informer.testing.faults import Wait

from .world import WIDGETS, L, W, World


async def test_f14_short_empty_watches_slow_down_and_lead_to_a_list(world: World) -> None:
    world.on_list(L("40", [W("a", "1")]), times=None)
    world.on_watch([Wait(0.05)], times=None)
    async with world.follow() as follower:
        await world.until(30)
        watches = world.times("watch")
        assert 3 <= len(watches) <= 10
        asked = world.asked()
        assert asked[:4] == ["LIST rv=0 limit=500", *["WATCH rv=40"] * 3]
        assert asked[4] == "LIST rv=40"  # it does not insist
        gaps = [later - earlier for earlier, later in itertools.pairwise(watches)]
        assert gaps[1] > gaps[0] >= 0.8
        assert follower.store == ["a"]
        assert follower.calls == ["add a"]
        await world.until(3600)
        assert len(world.server.requests) <= 3600 / 30 + 20


async def test_f14_a_watch_that_lived_and_brought_nothing_is_no_reason_to_list(world: World) -> None:
    world.on_list(L("40", [W("a", "1")]))
    world.on_watch([Wait(300)], times=None)
    async with world.follow():
        await world.until(3000)
        asked = world.asked()
        assert asked[0] == "LIST rv=0 limit=500"
        assert set(asked[1:]) == {"WATCH rv=40"}
        assert 9 <= len(asked) - 1 <= 11
        assert not world.log.at(30)


async def test_f14_the_probe_for_a_restored_server_is_no_relist(world: World) -> None:
    world.server.watch_rules.bookmark_period = 60
    world.server.create(WIDGETS, W("a", ""))
    version = world.server.resource_version
    async with world.follow() as follower:
        await world.until(120)
        world.server.watch_rules.bookmark_period = None
        world.server.end_watches()
        await world.until(1000)
        asked = world.asked()
        assert asked[:3] == ["LIST rv=0 limit=500", *[f"WATCH rv={version}"] * 2]
        assert asked[3] == "LIST rv= limit=1"
        assert asked[4] == f"WATCH rv={version}"
        assert follower.calls == ["add a"]
