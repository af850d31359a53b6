"""F17: the peer vanishes without a word, and the process must not look healthy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable

import pytest

from informer import ApiListerWatcher, DegradedListerWatcher, SharedInformer
from informer.testing import faults, match
from informer.testing.faults import End, Script

from .world import CHECKS, WIDGETS, L, W, World, decode_widget, to_bytes

GRACE = 30.0
HALF = to_bytes(L("50", [W("a", "1"), W("b", "2")]))[:150]


async def test_f17_a_a_watch_that_falls_silent_is_given_up_in_time(world: World) -> None:
    server = world.server
    server.create(WIDGETS, W("a", ""))
    server.faults.add(match("watch", WIDGETS), faults.Cut(after_lines=1, then=End.STALL))
    async with world.follow() as follower:
        server.create(WIDGETS, W("b", ""))
        await world.until(1)
        assert follower.store == ["a", "b"]
        server.create(WIDGETS, W("c", ""))
        (watch,) = server.watches()
        deadline = float(watch.query["timeoutSeconds"]) + GRACE
        opened = world.times("watch")[0]

        await world.until(opened + deadline - 2)
        assert follower.store == ["a", "b"]
        assert server.open_connections == 1
        # How old the cache is can be told at any time.
        assert follower.informer.health.seconds_since_contact == pytest.approx(deadline - 2, abs=2)
        await world.until(opened + deadline + 0.7)
        health = follower.informer.health
        assert health.state == "failing"
        assert health.synced
        assert health.last_error is not None
        assert "dead" in health.last_error
        assert server.open_connections == 0  # the server has seen the end
        assert len(world.times("watch")) == 1

        await world.until(opened + deadline + 5)
        assert follower.store == ["a", "b", "c"]
        assert follower.calls == ["add a", "add b", "add c"]
        assert follower.informer.health.state == "live"
        seen_last = server.get(WIDGETS, "b", namespace="team-a")["metadata"]["resourceVersion"]
        assert world.asked()[1:] == [world.asked()[1], f"WATCH rv={seen_last}"]
        assert world.times("watch")[1] - opened - deadline >= 0.8
        assert ["answers again" in one.getMessage() for one in world.log.at(logging.WARNING)] == [False, True]


async def test_f17_the_time_limit_of_watches_is_minutes_and_random(world: World) -> None:
    async with world.follow():
        await world.until(7200)
        limits = [int(one.query["timeoutSeconds"]) for one in world.server.watches()]
        assert len(limits) >= 12
        assert all(300 <= limit <= 600 for limit in limits)
        assert len(set(limits)) > len(limits) / 2
        assert not world.log.at(logging.DEBUG + 1)  # quiet but alive is nothing to speak of


@pytest.mark.parametrize(("verb", "limit"), [("list", 65.0), ("watch", 30.0)])
async def test_f17_b_no_answer_at_all(world: World, verb: str, limit: float) -> None:
    world.server.create(WIDGETS, W("a", ""))
    world.server.faults.add(match(verb, WIDGETS), faults.NoAnswer())
    async with world.follow(sync=False) as follower:
        await world.until(limit - 1)
        assert len(world.times(verb)) == 1
        await world.until(limit + 0.7)
        health = follower.informer.health
        assert health.state == "failing"
        assert health.last_error is not None
        assert f"no answer within {limit:g} s" in health.last_error
        assert world.server.open_connections == 0
        await world.until(limit + 5)
        assert follower.store == ["a"]
        first, second = world.times(verb)
        assert second - first >= limit + 0.8
        assert len(world.times("list")) == (2 if verb == "list" else 1)
        assert follower.informer.health.state == "live"


async def test_f17_b_no_connection_either(world: World) -> None:
    """A host that is gone answers no handshake: here, a listener whose queue is full."""
    with socket.socket() as deaf, contextlib.ExitStack() as others:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(3):
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(deaf.getsockname())
        api = world.server.api_client()
        api.configuration.host = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        async with world.follow(api=api, sync=False) as follower:
            await world.until(9)
            assert follower.informer.health.last_error is None
            await world.until(10.5)
            health = follower.informer.health
            assert health.state == "failing"
            assert health.last_error is not None
            assert "no connection within 10 s" in health.last_error


async def test_f17_c_half_a_list(world: World) -> None:
    world.server.create(WIDGETS, W("a", ""))
    world.on_list(faults.Pass(), Script(HALF, End.STALL))
    async with world.follow() as follower:
        await world.until(5)
        relist = asyncio.create_task(follower.informer.relist())
        await world.until(120)
        assert not relist.done()
        assert follower.store == ["a"]
        world.server.create(WIDGETS, W("b", ""))
        await world.until(125.5)  # 120 s for a page
        assert follower.informer.health.state == "failing"
        await relist
        assert world.now < 130
        assert len(world.times("list")) == 3
        assert follower.store == ["a", "b"]
        assert not follower.quarantine


SILENCES: dict[str, tuple[Callable[[World], object], int]] = {
    "a": (lambda world: world.on_watch(Script(b"\n", End.STALL)), 0),
    "b, watch": (lambda world: world.on_watch(faults.NoAnswer()), 0),
    "b, list": (lambda world: world.on_list(faults.NoAnswer()), 0),
    "c": (lambda world: world.on_list(Script(HALF, End.STALL)), 0),
    # The refusal was read to its end, so its connection waits in the client's pool for the next request.
    "in backoff": (lambda world: world.on_list(faults.status_answer(500, "InternalError", "no"), times=None), 1),
}


@pytest.mark.parametrize(("silence", "pooled"), SILENCES.values(), ids=SILENCES)
async def test_f17_cancelling_is_prompt_and_leaves_no_socket(
    world: World, silence: Callable[[World], object], pooled: int
) -> None:
    silence(world)
    async with world.server.api_client() as api:
        source = DegradedListerWatcher(ApiListerWatcher(api, WIDGETS), decode=decode_widget, checks=CHECKS)

        async def follow() -> None:
            async with SharedInformer(source):
                await asyncio.Event().wait()

        task = asyncio.create_task(follow())
        await world.until(20)
        assert world.server.open_connections == 1
        begin = world.now
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert world.now - begin < 1
        await asyncio.sleep(0.1)
        assert world.server.open_connections == pooled
        # One task is the test, and the server has one for each connection.
        assert len(asyncio.all_tasks()) == 1 + pooled
        asked = len(world.server.requests)
        await asyncio.sleep(1000)
        assert len(world.server.requests) == asked
