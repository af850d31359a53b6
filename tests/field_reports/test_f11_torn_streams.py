"""F11: an error where events were expected, and a last line that is torn."""

from __future__ import annotations

import json
import logging

import pytest

from informer import ApiError, ApiListerWatcher, WatchOptions
from informer.testing import faults
from informer.testing.faults import End, Fault, Script

from .world import EV, SILENT, ST, WIDGETS, L, W, World, to_bytes

TORN = b'{"type":"MODIFIED","object":{"metadata":{"name":"a"'
ARRIVAL = EV("ADDED", W("a", "21"))


def pretty(body: object) -> bytes:
    return json.dumps(body, indent=2).encode()


FORBIDDEN = faults.Answer(403, ST(403, "Forbidden", "no"), pretty=True)
BUSY = pretty(ST(429, "TooManyRequests", "slow down", {"retryAfterSeconds": 5}))
COMPACT = to_bytes(json.loads(BUSY))
LINES = [line + b"\n" for line in BUSY.split(b"\n")]


@pytest.mark.parametrize(
    ("answer", "error", "pause"),
    [
        pytest.param(FORBIDDEN, "403 Forbidden", 0.8, id="(a) a refusal over ten lines"),
        pytest.param(Script(BUSY), "429 TooManyRequests", 5.0, id="(b) a refusal in an answer of 200"),
        pytest.param(Script(*LINES), "429 TooManyRequests", 5.0, id="(b) line by line"),
        pytest.param(Script(COMPACT), "429 TooManyRequests", 5.0, id="(b) in one line"),
        pytest.param(Script(COMPACT + b"\n"), "429 TooManyRequests", 5.0, id="(b) in one line that ends"),
        pytest.param(Script(*LINES, End.STALL), "429 TooManyRequests", 5.0, id="(b) and then silence"),
        pytest.param(
            Script(b"<html><body>502 Bad Gateway</body></html>", content_type="text/html"),
            "UnreadableAnswer: watch widgets.v1.example.test: ",
            0.8,
            id="(e) a page",
        ),
    ],
)
async def test_f11_a_refusal_is_one_error_whatever_its_shape(
    world: World, answer: Fault, error: str, pause: float
) -> None:
    world.on_list(L("20", [W("x", "1")]))
    world.on_watch(answer, SILENT)
    async with world.follow() as follower:
        await world.server.wait_until(lambda: len(world.times("watch")) == 2)
        health = follower.informer.health
        assert health.consecutive_failures == 1
        assert health.last_error is not None
        assert health.last_error.startswith(error)
        (record,) = world.log.at(logging.INFO)
        assert record.levelno == logging.WARNING
        assert not follower.quarantine
        assert follower.store == ["x"]
        assert follower.calls == ["add x"]
        assert world.asked()[2:] in (["WATCH rv=20"], ["LIST rv=20", "WATCH rv=20"])
        assert world.server.requests[2].time - world.server.requests[1].time >= pause


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [(FORBIDDEN, 403, "Forbidden"), (Script(BUSY), 429, "TooManyRequests"), (Script(*LINES), 429, "TooManyRequests")],
)
async def test_f11_the_error_has_code_and_reason(world: World, answer: Fault, status: int, reason: str) -> None:
    world.on_watch(answer)
    async with world.server.api_client() as api:

        async def watch() -> None:
            async with ApiListerWatcher(api, WIDGETS).watch(WatchOptions(resource_version="20")) as events:
                async for _ in events:
                    pass

        with pytest.raises(ApiError) as caught:
            await watch()
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert caught.value.retry_after == (5.0 if status == 429 else None)


@pytest.mark.parametrize("end", [End.RESET, End.CLOSE, End.DROP], ids=["(c) reset", "(d) close", "drop"])
async def test_f11_a_torn_last_line_is_as_if_never_sent(world: World, end: End) -> None:
    world.on_list(L("20", []))
    world.on_watch([ARRIVAL, faults.Wait(2), TORN, faults.Wait(1), end], SILENT)
    async with world.follow() as follower:
        await world.server.wait_until(lambda: len(world.times("watch")) == 2)
        await world.until(10)
        assert follower.store == ["a"]
        assert follower.get("a").metadata.resource_version == "21"
        assert follower.calls == ["add a"]
        assert not follower.quarantine
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=20", "WATCH rv=21"]
        assert len(world.log.at(logging.WARNING)) <= 1
