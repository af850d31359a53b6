"""F19: 429 on LIST and on WATCH."""

from __future__ import annotations

import itertools
import logging

from informer.testing import faults

from .world import EV, GADGETS, SILENT, ST, WIDGETS, L, W, World

PLAIN = faults.Answer(
    429, "Too many requests, please try again later.", content_type="text/plain", headers={"Retry-After": "7"}
)
BODY_ONLY = faults.Answer(429, ST(429, "TooManyRequests", "storage is (re)initializing", {"retryAfterSeconds": 1}))
WATCH_BUSY = faults.Answer(429, ST(429, "TooManyRequests", "busy"), headers={"Retry-After": "1"})


async def test_f19_retry_after_is_a_floor_and_the_version_is_kept(world: World) -> None:
    world.on_list(PLAIN, BODY_ONLY, L("50", [W("a", "1")]))
    world.on_watch(*[WATCH_BUSY] * 5, SILENT)
    async with world.follow(sync=False) as follower:
        for number in (2, 3):
            await world.server.wait_until(lambda n=number: len(world.times("list")) == n)  # type: ignore[misc]  # n is bound
            health = follower.informer.health
            assert not health.synced
        await world.until(1000)
        health = follower.informer.health
        assert health.synced
        assert follower.store == ["a"]
    lists, watches = world.times("list"), world.times("watch")
    assert 7 <= lists[1] - lists[0] < 15
    assert 1.6 <= lists[2] - lists[1] < 10  # the client's own second delay is longer than the server's second
    assert world.asked()[3:9] == ["WATCH rv=50"] * 6
    assert len(lists) == 3
    gaps = [later - earlier for earlier, later in itertools.pairwise(watches[:6])]
    assert all(gap >= 1 for gap in gaps)
    assert gaps[-1] > gaps[0]
    assert all(later >= floor for later, floor in zip(gaps, (3.2, 6.4, 12.8, 25.6, 30.0), strict=True))


async def test_f19_429_as_an_event_keeps_the_version_too(world: World) -> None:
    world.on_list(L("50", [W("a", "1")]))
    busy = EV("ERROR", ST(429, "TooManyRequests", "busy", {"retryAfterSeconds": 3}))
    world.on_watch([busy], [EV("ADDED", W("b", "51")), busy], SILENT)
    async with world.follow() as follower:
        await world.until(30)
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=50", "WATCH rv=50", "WATCH rv=51"]
        first, second, third = world.times("watch")
        assert second - first >= 3
        assert third - second >= 3
        assert follower.store == ["a", "b"]
        assert follower.calls == ["add a", "add b"]


async def test_f19_two_clients_do_not_come_in_step(world: World) -> None:
    for resource in (WIDGETS, GADGETS):
        world.on_list(*[PLAIN] * 8, resource=resource)
    async with world.follow(sync=False), world.follow(GADGETS, sync=False):
        await world.until(300)
        one, other = world.times("list"), world.times("list", GADGETS)
        assert len(one) >= 8
        assert len(other) >= 8
        assert all(abs(a - b) > 0.001 for a, b in zip(one[1:8], other[1:8], strict=True))


async def test_f19_a_retry_after_of_a_day_is_shortened_and_said(world: World) -> None:
    day = faults.Answer(429, "later", content_type="text/plain", headers={"Retry-After": "86400"})
    world.on_list(day, L("50", [W("a", "1")]))
    async with world.follow(sync=False) as follower:
        await world.until(299)
        assert len(world.times("list")) == 1
        assert world.log.at(logging.WARNING, "86400 s")
        await world.until(310)
        assert follower.store == ["a"]
        assert 300 <= world.times("list")[1] <= 302
