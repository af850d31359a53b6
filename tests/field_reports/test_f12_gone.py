"""F12: 410 as an ERROR event inside an answer of 200."""

from __future__ import annotations

import itertools

import pytest

from informer.testing import faults

from .world import EV, SILENT, ST, L, W, World

GONE = EV("ERROR", ST(410, "Gone", "too old resource version: 500 (9000)"))


async def test_f12_a_gone_version_leads_to_one_new_list(world: World) -> None:
    world.on_list(L("500", [W("a", "400", spec={"tier": "old"})]), L("9001", [W("a", "8000"), W("b", "8001")]))
    world.on_watch([GONE], SILENT)
    async with world.follow() as follower:
        await world.until(30)
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=500", "LIST rv= limit=500", "WATCH rv=9001"]
        assert world.times("list")[1] < 0.5  # the first time at once
        assert follower.calls == ["add a", "update a", "add b"]
        assert len(follower.changes) == 3
        assert follower.store == ["a", "b"]
        assert follower.informer.health.state == "live"
        assert not follower.quarantine


async def test_f12_a_list_that_is_expired_itself_is_asked_again_without_version(world: World) -> None:
    expired = faults.Answer(410, ST(410, "Expired", "too old"))
    world.on_list(L("500", [W("a", "400")]), *[expired] * 3, L("9001", [W("a", "8000"), W("b", "8001")]))
    world.on_watch([GONE], SILENT)
    async with world.follow() as follower:
        await world.until(60)
        assert world.asked()[1:] == ["WATCH rv=500", *["LIST rv= limit=500"] * 4, "WATCH rv=9001"]
        gaps = [later - earlier for earlier, later in itertools.pairwise(world.times("list")[1:])]
        assert gaps[0] >= 0.8
        assert gaps[1] >= 1.6
        assert gaps[2] >= 3.2
        assert follower.store == ["a", "b"]


@pytest.mark.parametrize("shape", ["event", "status"])
async def test_f12_pairs_of_list_and_410_slow_down(world: World, shape: str) -> None:
    world.on_list(L("500", [W("a", "400")]), times=None)
    refusal = [GONE] if shape == "event" else faults.Answer(410, ST(410, "Expired", "too old"))
    world.on_watch(refusal, times=None)
    async with world.follow() as follower:
        await world.until(60)
        lists = world.times("list")
        assert 3 <= len(lists) <= 8
        gaps = [later - earlier for earlier, later in itertools.pairwise(lists)]
        assert gaps[-1] > gaps[1]
        queries = [one.query.get("resourceVersion", "") for one in world.server.lists()]
        assert queries == ["0"] + [""] * (len(lists) - 1)
        assert follower.calls == ["add a"]
        assert follower.store == ["a"]
