"""F16: deletes that happened while nobody listened, also of bad objects."""

from __future__ import annotations

import asyncio

from informer import Removed

from .world import EV, SILENT, ST, Follower, L, W, World

REMIND_EVERY = 300.0


async def test_f16_a_relist_finds_out_who_is_gone(world: World) -> None:
    bad = {"drainTimeout": "1"}
    world.on_list(L("10", [W("a", "1"), W("b", "2", spec={"tier": "t"}), W("k", "3", spec=bad), W("m", "4", spec=bad)]))
    world.on_list(L("30", [W("a", "1"), W("m", "4", spec=bad), W("n", "20")]))
    world.on_watch([EV("ERROR", ST(410, "Expired", "too old"))])
    world.on_watch(SILENT, times=None)
    seen: list[tuple[list[str], list[str]]] = []

    def prepare(follower: Follower) -> None:
        informer = follower.informer
        tiers = informer.add_index("tier", lambda widget: [widget.spec.tier] if widget.spec.tier else [])
        informer.add_handler(
            on_delete=lambda _: seen.append(([one.name for one in tiers["t"]], follower.store)), name="index reader"
        )

    async with world.follow(before=prepare) as follower:
        await world.until(10)
        assert world.asked()[2] == "LIST rv= limit=500"
        first, second = follower.calls[:4], follower.calls[4:]
        assert first == ["quarantined k", "quarantined m", "add a", "add b"]
        assert second == ["delete b", "add n"]
        (gone,) = [change for change in follower.changes if isinstance(change, Removed)]
        assert gone.final_state_unknown
        assert gone.object.spec.tier == "t"
        assert seen == [([], ["a", "n"])]  # store and index were final before the handler ran
        assert list(follower.quarantine) == ["team-a/m"]
        assert len(world.log.errors("team-a/k ")) == 1
        assert len(world.log.errors("team-a/m ")) == 1
        assert follower.entry("m").times_seen == 2
        await asyncio.sleep(3.5 * REMIND_EVERY)
        assert len(world.log.errors("team-a/k ")) == 1
        assert len(world.log.errors("team-a/m ")) >= 3
