"""F01: a drain timeout without a unit, and what the duration rule takes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from informer import checks
from informer.testing.faults import End, Wait

from .commands import Command
from .world import EV, WIDGETS, L, W, World, to_bytes


def bare(name: str, rv: str, timeout: object) -> dict[str, Any]:
    """An item as built-in kinds have it in a LIST: without kind and apiVersion."""
    meta = {"name": name, "namespace": "team-a", "uid": f"u-{name}", "resourceVersion": rv}
    return {"metadata": meta, "spec": {"drainTimeout": timeout}}


async def test_f01_a_duration_without_unit_takes_out_one_object_and_not_the_list(world: World) -> None:
    world.on_list(L("100", [bare("a", "91", "10m"), bare("b", "92", "1"), bare("c", "93", None)]))
    world.on_watch([Wait(60), EV("MODIFIED", W("b", "105", spec={"drainTimeout": "1m"})), End.STALL])
    async with world.follow() as follower:
        assert follower.informer.health.synced
        assert world.now < 1
        assert follower.store == ["a", "c"]
        assert follower.bad == {"team-a/b": ["spec.drainTimeout"]}
        assert follower.entry("b").problems[0].value == '"1"'
        assert follower.calls == ["quarantined b", "add a", "add c"]
        assert not follower.informer.lister.complete

        (record,) = world.log.errors()
        text = record.getMessage()
        (command,) = follower.entry("b").fix_commands()
        for part in ("Widget", "team-a/b", "spec.drainTimeout", '"1"', command):
            assert part in text
        fix = Command.read(command)
        assert fix.words[:6] == ["kubectl", "patch", "widgets.v1.example.test", "b", "-n", "team-a"]
        (placeholder,) = fix.payload["spec"].values()
        assert fix.payload == {"spec": {"drainTimeout": placeholder}}
        assert checks.duration("x").rule(to_bytes(placeholder)) is not None  # pasted blindly, it is refused
        assert placeholder.startswith("<")

        await world.until(59)
        assert "team-a/b" in follower.quarantine
        follower.calls.clear()
        await world.until(61)
        assert follower.calls == ["add b"]
        assert follower.store == ["a", "b", "c"]
        assert not follower.quarantine
        (recovered,) = world.log.at(logging.WARNING, "recovered")
        assert "team-a/b" in recovered.getMessage()
        assert len(world.log.errors()) == 1
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=100"]


async def test_f01_the_fix_command_with_a_value_in_it_heals_the_object(world: World) -> None:
    world.server.create(WIDGETS, W("b", "", spec={"drainTimeout": "1", "tier": "kept"}) | {"metadata": {"name": "b"}})
    async with world.follow() as follower:
        (command,) = follower.quarantine["default/b"].fix_commands()
        fix = Command.read(command)
        assert fix.kind == "merge"
        world.server.patch(WIDGETS, "b", fix.with_value("1h"))
        await world.until(1)
        assert follower.calls == ["quarantined b", "add b"]
        assert world.server.get(WIDGETS, "b")["spec"] == {"drainTimeout": "1h", "tier": "kept"}


GOOD = ["0", "300ms", "-1.5h", "+5s", "1h30m", ".5s", "5.s", "1\u00b5s", "1\u03bcs"]
BAD = ["", "1", "1d", "1 h", "h", ".s", "1e3s", "\uff11m", 1, True, []]


async def test_f01_the_duration_rule_reads_what_go_reads(world: World) -> None:
    good = [W(f"good-{i}", "1", spec={"drainTimeout": value}) for i, value in enumerate(GOOD)]
    bad = [W(f"bad-{i}", "1", spec={"drainTimeout": value}) for i, value in enumerate(BAD)]
    world.on_list(L("9", [*good, *bad]))
    async with world.follow() as follower:
        assert follower.store == [f"good-{i}" for i in range(len(GOOD))]
        assert follower.bad == {f"team-a/bad-{i}": ["spec.drainTimeout"] for i in range(len(BAD))}
        assert follower.entry("bad-8").problems[0].value == "1"
        assert follower.entry("bad-9").problems[0].value == "true"
        assert follower.entry("bad-10").problems[0].value == "[]"


@pytest.mark.parametrize("value", GOOD, ids=ascii)
def test_f01_table_good(value: str) -> None:
    assert checks.duration("x").rule(to_bytes(value)) is None


@pytest.mark.parametrize("value", BAD, ids=ascii)
def test_f01_table_bad(value: object) -> None:
    assert checks.duration("x").rule(to_bytes(value))
