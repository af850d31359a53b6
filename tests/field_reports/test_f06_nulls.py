"""F06: null where a list is expected, null inside a list, and items that nobody can name."""

from __future__ import annotations

from typing import Any

import pytest

from .world import EV, SILENT, ST, L, W, World


@pytest.mark.parametrize("absent", [False, True], ids=["items is null", "no items"])
async def test_f06_a_list_without_items_is_an_empty_one(world: World, absent: bool) -> None:
    body = {"kind": "WidgetList", "apiVersion": "example.test/v1", "metadata": {"resourceVersion": "7"}}
    world.on_list(body if absent else body | {"items": None})
    world.on_watch(SILENT)
    async with world.follow() as follower:
        assert follower.informer.health.synced
        assert follower.store == []
        assert follower.informer.lister.complete
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=7"]
        assert not world.log.at(30)


async def test_f06_null_items_make_a_list_whatever_its_kind_is_called(world: World) -> None:
    meta = {"resourceVersion": "7"}
    world.on_list({"kind": "Widgets", "apiVersion": "example.test/v1", "metadata": meta, "items": None})
    world.on_watch(SILENT)
    async with world.follow() as follower:
        assert follower.store == []
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=7"]


async def test_f06_an_answer_that_is_no_list_empties_no_store(world: World) -> None:
    gone = EV("ERROR", ST(410, "Expired", "too old"))
    world.on_list(L("7", [W("a", "1")]), W("a", "1"), L("9", [W("a", "1")]))
    world.on_watch([gone], SILENT)
    async with world.follow() as follower:
        await world.until(30)
        assert len(world.times("list")) == 3
        assert follower.calls == ["add a"]
        assert world.log.at(30, "expected a list, got a Widget")


async def test_f06_null_is_judged_where_it_stands(world: World) -> None:
    specs: dict[str, Any] = {"n1": {"ports": None}, "n2": {"ports": [80, None]}, "n3": {}}
    items: list[Any] = [W(name, "1", spec=spec) for name, spec in specs.items()]
    items += [W("n4", "1") | {"spec": None}, W("n5", "1"), None]
    del items[4]["spec"]
    items.append({"spec": {"tier": "without metadata"}})
    unnamed = W("x", "1")
    unnamed["metadata"]["name"] = 42
    items.append(unnamed)
    items.append({"metadata": None})
    world.on_list(L("7", items))
    async with world.follow() as follower:
        assert follower.store == ["n1", "n3", "n4", "n5"]
        assert follower.bad == {"team-a/n2": ["spec.ports[1]"]}
        assert follower.entry("n2").problems[0].value == "null"
        assert [call for call in follower.calls if call.startswith("add")] == ["add n1", "add n3", "add n4", "add n5"]
        said = sorted(record.getMessage() for record in world.log.errors("unidentifiable item at index"))
        assert [f"index {i}" in text for i, text in enumerate(said, start=5)] == [True] * 4
        assert len(said) == 4
        assert not follower.informer.lister.complete
        assert follower.informer.health.quarantined == 1
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=7"]
