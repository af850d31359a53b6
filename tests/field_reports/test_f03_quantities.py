"""F03: quantities that a CRD's pattern lets through and a typed client does not."""

from __future__ import annotations

from typing import Any

import pytest

from informer import checks

from .commands import Command
from .world import WIDGETS, L, W, World, to_bytes

SPECS: dict[str, dict[str, Any]] = {
    "q1": {"size": ""},
    "q2": {"size": ".07893E985.90504"},
    "q3": {"limits": {"cpu": "500m", "example.test/gpu": "two"}},
    "q4": {"size": "1.5Gi", "limits": {"cpu": 2, "memory": "1e3"}},
    "q5": {"size": "1GB"},
    "q6": {"size": 0.5},
    "q7": {"size": True},
    "q8": {"limits": {"cpu": ""}, "drainTimeout": "x"},
}


async def test_f03_only_the_objects_with_a_bad_quantity_are_withheld(world: World) -> None:
    world.on_list(L("9", [W(name, "1", spec=spec) for name, spec in SPECS.items()]))
    async with world.follow() as follower:
        assert follower.store == ["q4", "q6"]
        assert follower.bad == {
            "team-a/q1": ["spec.size"],
            "team-a/q2": ["spec.size"],
            "team-a/q3": ['spec.limits["example.test/gpu"]'],
            "team-a/q5": ["spec.size"],
            "team-a/q7": ["spec.size"],
            "team-a/q8": ["spec.drainTimeout", "spec.limits.cpu"],
        }
        assert follower.entry("q3").problems[0].path == ("spec", "limits", "example.test/gpu")
        assert [problem.value for problem in follower.entry("q8").problems] == ['"x"', '""']
        assert len(follower.entry("q8").fix_commands()) == 1
        assert follower.entry("q7").problems[0].value == "true"
        (q8,) = world.log.errors("team-a/q8 ")
        assert "spec.drainTimeout" in q8.getMessage()
        assert "spec.limits.cpu" in q8.getMessage()


async def test_f03_the_fix_of_a_map_entry_changes_only_that_entry(world: World) -> None:
    world.server.create(WIDGETS, {"metadata": {"name": "q3", "namespace": "team-a"}, "spec": SPECS["q3"]})
    async with world.follow() as follower:
        (command,) = follower.entry("q3").fix_commands()
        fix = Command.read(command)
        assert fix.words[:6] == ["kubectl", "patch", "widgets.v1.example.test", "q3", "-n", "team-a"]
        assert fix.kind == "json"
        assert {step["path"] for step in fix.payload} == {"/spec/limits/example.test~1gpu"}
        before = world.server.get(WIDGETS, "q3", namespace="team-a")["spec"]
        world.server.patch(WIDGETS, "q3", fix.with_value("2"), namespace="team-a")
        after = world.server.get(WIDGETS, "q3", namespace="team-a")["spec"]
        assert after == {"limits": before["limits"] | {"example.test/gpu": "2"}}
        await world.until(1)
        assert follower.calls == ["quarantined q3", "add q3"]


GOOD = ["0", "100m", "1Ki", "1k", "12e6", "1E3", "+5", "-1", ".5", "5.", 2, 0.5]
BAD = ["", "1gi", "1K", "1 Gi", "1.2.3", "0x10", "1Mib", True, [], {}]


@pytest.mark.parametrize("value", GOOD, ids=ascii)
def test_f03_table_good(value: object) -> None:
    assert checks.quantity("x").rule(to_bytes(value)) is None


@pytest.mark.parametrize("value", BAD, ids=ascii)
def test_f03_table_bad(value: object) -> None:
    assert checks.quantity("x").rule(to_bytes(value))
