"""F07: good, bad and good again by watch events, while versions cross a power of ten and stop being numbers."""

from __future__ import annotations

import pytest

from informer import QuarantinedError
from informer.testing.faults import Wait

from .world import EV, SILENT, L, W, World


async def test_f07_an_object_that_turns_bad_is_not_served_as_if_current(world: World) -> None:
    world.on_list(L("999998", [W("x", "999990", spec={"tier": "v1"})]))
    world.on_watch(
        [
            Wait(1),
            EV("MODIFIED", W("x", "999999", spec={"tier": "v2"})),
            Wait(1),
            EV("MODIFIED", W("x", "1000000", spec={"tier": ["v3"]})),
            Wait(1),
            EV("MODIFIED", W("x", "1000001", spec={"tier": "v4"})),
            Wait(1),
            EV("ADDED", W("y", "abc-7", spec={"tier": "q"})),
            Wait(1),
        ],
        SILENT,
    )
    async with world.follow() as follower:
        await world.until(1.5)
        assert follower.get("x").spec.tier == "v2"
        await world.until(2.5)
        assert follower.store == []
        with pytest.raises(QuarantinedError) as caught:
            follower.get("x")
        assert not isinstance(caught.value, KeyError)
        assert follower.bad == {"team-a/x": ["spec.tier"]}
        assert follower.calls == ["add x", "update x", "quarantined x"]
        assert follower.changes[-1].old.spec.tier == "v2"
        await world.until(3.5)
        assert follower.get("x").spec.tier == "v4"
        assert not follower.quarantine
        await world.until(6)
        assert follower.calls == ["add x", "update x", "quarantined x", "add x", "add y"]
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=999998", "WATCH rv=abc-7"]


async def test_f07_no_version_is_too_old_to_be_applied(world: World) -> None:
    world.on_list(L("1000000", [W("x", "1000000", spec={"tier": "v1"})]))
    world.on_watch(
        [
            EV("MODIFIED", W("x", "999", spec={"tier": "v2"})),
            EV("MODIFIED", W("x", "9", spec={"tier": "v3"})),
            EV("MODIFIED", W("x", "00x", spec={"tier": "v4"})),
            Wait(5),
        ],
        SILENT,
    )
    async with world.follow() as follower:
        await world.until(10)
        assert [change.new.spec.tier for change in follower.changes[1:]] == ["v2", "v3", "v4"]
        assert world.asked()[-1] == "WATCH rv=00x"
