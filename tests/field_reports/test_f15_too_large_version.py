"""F15: the server is behind the client's version, and nothing of that kind changes for hours."""

from __future__ import annotations

import pytest

from informer.testing import faults, match
from informer.testing.faults import End, Script

from .world import SILENT, ST, WIDGETS, L, W, World

OLD = "363787743"
TEXT = f"Timeout: Too large resource version: {OLD}, current: 363780000"


def too_large(cause: dict[str, str]) -> faults.Answer:
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return faults.Answer(504, ST(504, "Timeout", TEXT, details), headers={"Retry-After": "1"})


@pytest.mark.parametrize(
    "cause",
    [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},
        {"message": "Too large resource version"},
    ],
    ids=["with a reason", "older servers"],
)
async def test_f15_the_version_is_dropped_and_a_smaller_one_accepted(world: World, cause: dict[str, str]) -> None:
    world.on_list(L(OLD, [W("a", "1"), W("b", "2")]))
    world.on_watch(Script(End.RESET))
    old = match(resource=WIDGETS, when=lambda request: request.query.get("resourceVersion") == OLD)
    world.server.faults.add(old, too_large(cause), times=None)
    world.on_list(L("363780100", [W("a", "1")]))
    world.on_watch(SILENT)
    async with world.follow() as follower:
        await world.until(60)
        asked = world.asked()
        assert asked[:2] == ["LIST rv=0 limit=500", f"WATCH rv={OLD}"]
        assert asked[-2:] == ["LIST rv= limit=500", "WATCH rv=363780100"]
        assert 1 <= sum(OLD in one for one in asked[2:]) <= 2
        assert not any("rv=0" in one for one in asked[1:])
        assert follower.store == ["a"]
        assert follower.calls == ["add a", "add b", "delete b"]
        assert follower.informer.health.state == "live"


@pytest.mark.parametrize(
    "answer",
    [
        faults.Answer(504, "<html><body>504 Gateway Time-out</body></html>", content_type="text/html"),
        faults.Answer(504, ST(504, "Timeout", "request did not complete within the allotted timeout")),
    ],
    ids=["a proxy's page", "reason Timeout alone"],
)
async def test_f15_a_plain_504_drops_nothing(world: World, answer: faults.Answer) -> None:
    world.on_list(L(OLD, [W("a", "1")]))
    world.on_watch(*[answer] * 4, SILENT)
    async with world.follow() as follower:
        await world.until(60)
        assert world.asked() == ["LIST rv=0 limit=500", *[f"WATCH rv={OLD}"] * 5]
        gaps = [b - a for a, b in zip(world.times("watch"), world.times("watch")[1:], strict=False)]
        assert all(gap >= 0.8 * 2**i for i, gap in enumerate(gaps))
        assert follower.store == ["a"]
