"""F13: the continue token expires in the middle, and the refusal offers another one."""

from __future__ import annotations

from informer.testing import faults

from .world import EV, SILENT, ST, L, W, World

EXPIRED = faults.Answer(
    410,
    ST(410, "Expired", "The provided continue parameter is too old", metadata={"continue": "t2-inconsistent"}),
)
FIRST = L("700", [W("a", "1"), W("b", "2")], "t1")
SECOND = L("700", [W("c", "3"), W("d", "4", spec={"drainTimeout": "1"})], "t2")


async def test_f13_pages_of_two_snapshots_are_never_mixed(world: World) -> None:
    fresh = [
        L("760", [W("a", "1"), W("c", "3")], "t3"),
        L("760", [W("d", "750", spec={"drainTimeout": "1m"}), W("e", "751")]),
    ]
    world.on_list(FIRST, SECOND, EXPIRED, *fresh)
    world.on_watch(SILENT)
    async with world.follow() as follower:
        assert follower.store == ["a", "c", "d", "e"]
        assert not follower.quarantine
        assert follower.calls == ["add a", "add c", "add d", "add e"]
        assert world.asked() == [
            "LIST rv=0 limit=500",
            "LIST limit=500 continue=t1",
            "LIST limit=500 continue=t2",
            "LIST rv= limit=500",
            "LIST limit=500 continue=t3",
            "WATCH rv=760",
        ]


async def test_f13_half_a_list_never_reaches_the_store(world: World) -> None:
    world.on_list(L("600", [W("a", "1"), W("b", "2")]), FIRST, faults.Delay(30), L("760", [W("a", "1")]))
    world.on_watch([EV("ERROR", ST(410, "Expired", "too old"))], SILENT)
    async with world.follow() as follower:
        await world.until(20)  # the second page is on its way
        assert follower.store == ["a", "b"]
        assert follower.calls == ["add a", "add b"]


async def test_f13_the_second_expiry_is_followed_by_one_request_without_pages(world: World) -> None:
    whole = L("780", [W("a", "1"), W("e", "751")])
    world.on_list(FIRST, SECOND, EXPIRED, FIRST, SECOND, EXPIRED, whole)
    world.on_watch(SILENT)
    async with world.follow() as follower:
        assert follower.store == ["a", "e"]
        assert world.asked()[-2:] == ["LIST rv=", "WATCH rv=780"]
        assert len(world.times("list")) == 7
        assert all("resourceVersion" not in one.query for one in world.server.lists() if "continue" in one.query)
        assert not follower.quarantine
