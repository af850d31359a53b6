"""F08: a broken conversion webhook makes LIST answer 500, and nobody's objects are to blame."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from informer import InformerFactory, SyncError
from informer.testing import faults

from .world import CHECKS, EV, GADGETS, SILENT, ST, WIDGETS, L, W, World, decode_widget

MESSAGE = (
    "conversion webhook for example.test/v1alpha1, Kind=Widget failed: Post "
    '"https://hook.sys.svc:443/convert?timeout=30s": no endpoints available for service "hook"'
)
REFUSAL = faults.Answer(500, ST(500, "InternalError", MESSAGE, {"causes": [{"message": "conversion webhook failed"}]}))


async def test_f08_the_cache_outlives_the_outage_and_nothing_is_quarantined(world: World) -> None:
    world.on_list(L("300", [W("a", "1")]), *[REFUSAL] * 5, L("340", [W("a", "1"), W("b", "2")]))
    world.on_watch([EV("ERROR", ST(410, "Expired", "too old"))], SILENT)
    world.server.create(GADGETS, W("g", ""))
    async with world.server.api_client() as api, InformerFactory(api) as factory:
        widgets = factory.informer(WIDGETS, decode=decode_widget, checks=CHECKS)
        gadgets = factory.informer(GADGETS)
        await factory.wait_for_sync(timeout=10)
        await world.server.wait_until(lambda: len(world.times("list")) == 6)

        # In the middle of the outage.
        assert [widget.name for widget in widgets.lister.list()] == ["a"]
        health = widgets.health
        assert health.state == "failing"
        assert health.synced
        assert health.seconds_since_contact > 10
        assert health.last_error is not None
        assert "500 InternalError" in health.last_error
        assert 'no endpoints available for service "hook"' in health.last_error
        assert health.last_error_at is not None
        assert health.consecutive_failures >= 4
        assert not factory.quarantined()
        said = world.log.at(0)
        assert any('no endpoints available for service "hook"' in record.getMessage() for record in said)
        assert not any("kubectl" in record.getMessage() for record in said)
        assert not world.log.errors()
        # The neighbour does not notice.
        world.server.create(GADGETS, W("h", ""))
        await asyncio.sleep(0.01)
        assert sorted(gadget.name for gadget in gadgets.lister.list()) == ["g", "h"]
        assert gadgets.health.state == "live"
        assert len(world.times("list", GADGETS)) == len(world.times("watch", GADGETS)) == 1

        await world.server.wait_until(lambda: len(world.times("watch")) == 2)
        await asyncio.sleep(0.01)
        assert sorted(widget.name for widget in widgets.lister.list()) == ["a", "b"]
        assert widgets.health.state == "live"
        assert widgets.health.consecutive_failures == 0

    lists = world.times("list")
    assert len(lists) == 7
    gaps = [later - earlier for earlier, later in itertools.pairwise(lists[1:])]
    for step, gap in enumerate(gaps):  # growing, jittered, capped
        assert 0.8 * 2**step <= gap <= 2 * min(30, 0.8 * 2**step) + 0.1
    jitter = [gap / (0.8 * 2**step) for step, gap in enumerate(gaps)]
    assert max(jitter) - min(jitter) > 0.1
    # It is asked for in the same format as ever.
    assert {request.headers["accept"] for request in world.server.lists(WIDGETS)} == {"application/json"}
    assert {request.path for request in world.server.requests} == {
        "/apis/example.test/v1/widgets",
        "/apis/example.test/v1/gadgets",
    }


async def test_f08_who_waits_for_all_is_told_which_one_is_missing_and_why(world: World) -> None:
    world.on_list(REFUSAL, times=None)
    async with world.server.api_client() as api, InformerFactory(api) as factory:
        factory.informer(WIDGETS, decode=decode_widget, checks=CHECKS)
        factory.informer(GADGETS)
        with pytest.raises(SyncError) as caught:
            await factory.wait_for_sync(timeout=20)
        assert "widgets.v1.example.test" in str(caught.value)
        assert "conversion webhook" in str(caught.value)
        assert "gadgets" not in str(caught.value)
        assert 20 <= world.now < 21


async def test_f08_the_delay_is_capped(world: World) -> None:
    world.on_list(REFUSAL, times=None)
    async with world.follow(sync=False):
        await world.until(1800)
        gaps = [later - earlier for earlier, later in itertools.pairwise(world.times("list"))]
        assert all(30 <= gap <= 60.1 for gap in gaps[6:])
        assert len(gaps) > 30
