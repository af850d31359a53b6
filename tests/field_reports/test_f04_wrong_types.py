"""F04: values stored before a schema change: numbers for strings, negatives, wrong containers, odd integers."""

from __future__ import annotations

import json

import pytest

from .commands import Command
from .world import WIDGETS, L, W, World, to_bytes

SPECS = [
    '{"groups":[{"name":"g0","tenant":"7"},{"name":"g1","tenant":0}]}',
    '{"count":-5}',
    '{"groups":{"name":"g0"}}',
    '{"count":1.000000009e+09}',
    '{"count":9007199254740993}',
    '{"count":2147483648}',
    '{"count":3.0}',
    '{"count":3.5}',
    '{"count":1e400}',
    '{"count":"3"}',
    '{"count":NaN}',
]


def body() -> bytes:
    """The list with the numbers exactly as they are written above."""
    items = [
        to_bytes(W(f"w{i}", "1", spec={"spec": "here"})).replace(b'{"spec":"here"}', spec.encode())
        for i, spec in enumerate(SPECS)
    ]
    return to_bytes(L("50", ["items"])).replace(b'"items"]', b",".join(items) + b"]")


async def test_f04_each_wrong_type_is_named_and_blocks_nobody(world: World) -> None:
    world.on_list(body())
    async with world.follow() as follower:
        assert follower.store == ["w3", "w6"]
        assert follower.get("w3").spec.count == 1_000_000_009
        assert follower.get("w6").spec.count == 3
        assert follower.bad == {
            "team-a/w0": ["spec.groups[1].tenant"],
            "team-a/w1": ["spec.count"],
            "team-a/w2": ["spec.groups"],
            "team-a/w4": ["spec.count"],
            "team-a/w5": ["spec.count"],
            "team-a/w7": ["spec.count"],
            "team-a/w8": ["spec.count"],
            "team-a/w9": ["spec.count"],
            "team-a/w10": [""],  # NaN is no JSON at all, so nobody can say where
        }
        values = {name: follower.entry(name).problems[0].value for name in ("w0", "w1", "w4", "w5", "w7", "w8", "w9")}
        assert values == {
            "w0": "0",
            "w1": "-5",
            "w4": "9007199254740993",
            "w5": "2147483648",
            "w7": "3.5",
            "w8": "1e400",
            "w9": '"3"',
        }
        (record,) = world.log.errors("team-a/w0 ")
        assert "spec.groups[1].tenant is 0" in record.getMessage()


async def test_f04_below_a_list_the_fix_is_a_json_patch(world: World) -> None:
    spec = json.loads(SPECS[0])
    world.server.create(WIDGETS, {"metadata": {"name": "w0", "namespace": "team-a"}, "spec": spec})
    async with world.follow() as follower:
        (command,) = follower.entry("w0").fix_commands()
        fix = Command.read(command)
        assert fix.kind == "json"
        assert {step["path"] for step in fix.payload} == {"/spec/groups/1/tenant"}
        world.server.patch(WIDGETS, "w0", fix.with_value("0"), namespace="team-a")
        groups = world.server.get(WIDGETS, "w0", namespace="team-a")["spec"]["groups"]
        assert groups == [{"name": "g0", "tenant": "7"}, {"name": "g1", "tenant": "0"}]
        await world.until(1)
        assert follower.store == ["w0"]


@pytest.mark.parametrize("index", [1, 2, 4, 5, 7, 8, 9])
async def test_f04_whatever_the_number_the_library_writes_valid_json(world: World, index: int) -> None:
    world.on_list(body())
    async with world.follow() as follower:
        (command,) = follower.entry(f"w{index}").fix_commands()
        payload = Command.read(command).payload  # refuses NaN and Infinity
        assert json.dumps(payload, allow_nan=False)
        problem = follower.entry(f"w{index}").problems[0]
        json.loads(problem.value)


async def test_f04_nan_gets_no_command_and_the_log_says_why(world: World) -> None:
    world.on_list(body())
    async with world.follow() as follower:
        entry = follower.entry("w10")
        assert entry.fix_commands() == ()
        assert "JSON" in entry.problems[0].reason
        (record,) = world.log.errors("team-a/w10 ")
        assert "no fix command" in record.getMessage()
        assert entry.to_dict()["metadata"]["name"] == "w10"
