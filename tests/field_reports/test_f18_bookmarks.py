"""F18: bookmarks are hollow."""

from __future__ import annotations

import logging

from informer.testing.faults import End, Wait

from .world import EV, SILENT, L, W, World

HOLLOW = {
    "kind": "Widget",
    "apiVersion": "example.test/v1",
    "metadata": {"resourceVersion": "12746", "creationTimestamp": None},
    "spec": {"template": {"spec": {"containers": None}}, "drainTimeout": "", "count": -1},
    "status": {},
}


async def test_f18_a_bookmark_moves_the_version_and_nothing_else(world: World) -> None:
    world.on_list(L("100", [W("a", "1")]))
    world.on_watch([EV("BOOKMARK", HOLLOW), Wait(1), End.RESET], SILENT)
    async with world.follow() as follower:
        await world.until(10)
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=100", "WATCH rv=12746"]
        assert follower.store == ["a"]
        assert follower.calls == ["add a"]
        assert not follower.quarantine
        assert not world.log.errors()
        await follower.informer.wait_for_version("12746", timeout=0.1)


async def test_f18_a_bookmark_without_version_is_ignored_with_a_warning(world: World) -> None:
    hollow = [{"kind": "Widget", "metadata": meta} for meta in ({}, {"resourceVersion": ""}, {"resourceVersion": None})]
    world.on_list(L("100", [W("a", "1")]))
    world.on_watch([*[EV("BOOKMARK", one) for one in [*hollow, {"kind": "Widget"}]], Wait(5)], SILENT)
    async with world.follow() as follower:
        await world.until(4)
        assert len(world.log.at(logging.WARNING, "bookmark")) == 4
        assert not world.log.errors()
        await world.until(30)
        assert world.asked()[-1] == "WATCH rv=100"
        assert follower.calls == ["add a"]


async def test_f18_an_unknown_event_type_is_logged_and_moves_nothing(world: World) -> None:
    world.on_list(L("100", [W("a", "1")]))
    world.on_watch([EV("SYNC", W("b", "999")), Wait(5)], SILENT)
    async with world.follow() as follower:
        await world.until(4)
        (record,) = world.log.at(logging.WARNING)
        assert "SYNC" in record.getMessage()
        assert follower.store == ["a"]
        await world.until(30)
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=100", "WATCH rv=100"]
        assert follower.calls == ["add a"]
