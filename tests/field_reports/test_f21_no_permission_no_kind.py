"""F21: permission withdrawn; a CRD deleted and created again."""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from informer import InformerFactory, SyncError
from informer.testing import faults, match
from informer.testing.faults import End, Exchange, Proceed

from .world import CHECKS, EV, ST, WIDGETS, Follower, L, W, World, decode_widget, to_bytes

ROUNDS = 50
NO_SUCH_KIND = faults.Answer(404, ST(404, "NotFound", "the server could not find the requested resource"))


async def test_f21_a_waiting_for_the_sync_says_what_is_forbidden(world: World) -> None:
    world.server.create(WIDGETS, W("a", ""))
    world.server.forbid(WIDGETS, "list")
    async with world.server.api_client() as api, InformerFactory(api) as factory:
        informer = factory.informer(WIDGETS, decode=decode_widget, checks=CHECKS)
        for waiting in (informer, factory):
            begin = world.now
            with pytest.raises(SyncError) as caught:
                await waiting.wait_for_sync(timeout=10)
            assert world.now - begin == pytest.approx(10, abs=0.1)
            assert "403 Forbidden: list widgets" in str(caught.value)
        # Without a time limit it gives up on what no waiting mends.
        with pytest.raises(SyncError, match="403 Forbidden: list widgets"):
            await factory.wait_for_sync()
        await world.until(120)
        assert informer.health.state == "failing"
        world.server.allow(WIDGETS)
        await informer.wait_for_sync(timeout=61)
        assert [widget.name for widget in informer.lister.list()] == ["a"]
        gaps = [later - earlier for earlier, later in itertools.pairwise(world.times("list"))]
        assert all(gap >= min(30, 0.8 * 2**i) for i, gap in enumerate(gaps))


@define(eq=False)
class Kind:
    """A kind that comes and goes, each time with small versions and other uids."""

    exists: bool = True
    life: int = 0
    farewell: bool = True
    _gone: asyncio.Event = field(factory=asyncio.Event)

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        if not self.exists:
            await NO_SUCH_KIND(exchange, proceed)
        elif exchange.request.verb == "list":
            await exchange.answer(200, to_bytes(L("5", [self.obj("a"), self.obj("b")])))
        else:
            await exchange.start()
            await self._gone.wait()
            if self.farewell:
                await exchange.write(EV("DELETED", self.obj("a", "6")) + EV("DELETED", self.obj("b", "7")))
            await exchange.finish(End.CLOSE)

    def obj(self, name: str, version: str = "4") -> dict[str, Any]:
        return W(name, version, f"u-{name}-{self.life}")

    def leave(self, *, farewell: bool) -> None:
        self.exists, self.farewell = False, farewell
        self._gone.set()

    def come_back(self) -> None:
        self.exists, self.life, self._gone = True, self.life + 1, asyncio.Event()


def resources(follower: Follower) -> tuple[int, int, int]:
    return (
        len(asyncio.all_tasks()),
        len([*Path("/proc/self/fd").iterdir()]),
        len(follower.informer._cache.fanout.handlers),
    )


async def test_f21_b_a_kind_that_comes_back_is_a_new_life_and_nothing_piles_up(world: World) -> None:
    kind = Kind()
    world.server.faults.add(match(resource=WIDGETS), kind, times=None)
    async with world.follow() as follower:
        used = []
        for number in range(ROUNDS):
            farewell = number % 2 == 0
            outage = 600 if number % 10 < 2 else 40  # ten minutes each time would show nothing more, and cost seconds
            world.log.clear()
            follower.calls.clear()
            await asyncio.sleep(120)  # a healthy watch, so that the delays start anew
            used.append(resources(follower))
            world.server.requests.clear()
            kind.leave(farewell=farewell)
            await asyncio.sleep(1)
            warnings = world.log.at(logging.WARNING)
            assert len(warnings) == 1  # the first failure at once
            assert "404" in warnings[0].getMessage()
            await asyncio.sleep(outage - 1)
            health = follower.informer.health
            assert (health.state, health.synced) == ("failing", True)
            # What the server said is gone is gone; otherwise the store is kept.
            assert follower.store == ([] if farewell else ["a", "b"])
            asked = world.server.requests
            assert (10 if outage == 600 else 4) <= len(asked) <= 20
            assert len(world.log.at(logging.WARNING)) <= 1 + len(asked) // 10
            gaps = [later.time - earlier.time for earlier, later in itertools.pairwise(asked[1:])]
            assert all(min(30, 0.8 * 2**i) <= gap <= 61 for i, gap in enumerate(gaps))
            after_404 = world.asked()[2:]
            assert set(after_404) == {"LIST rv= limit=500"}
            kind.come_back()
            await world.server.wait_until(lambda: world.server.requests[-1].verb == "watch", timeout=61)
            await asyncio.sleep(0.1)
            assert world.asked()[-2:] == ["LIST rv= limit=500", "WATCH rv=5"]
            assert follower.calls == ["delete a", "delete b", "add a", "add b"]
            assert follower.get("a").metadata.uid == f"u-a-{kind.life}"
            health = follower.informer.health
            assert (health.state, health.consecutive_failures) == ("live", 0)
        assert used[-1] == used[1]
        assert world.server.open_connections == 1
