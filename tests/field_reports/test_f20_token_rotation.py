"""F20: the token was rotated on disk."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from .world import WIDGETS, W, World

T1, T2, T3 = "first-token-5fb1", "second-token-77c0", "third-token-9d2e"


@define(eq=False)
class TokenFile:
    """How a program in a pod gets its token: a mounted file behind a symlink, read again each minute and after a 401."""

    path: Path
    read_at: float = -math.inf
    reads: int = 0

    def swap(self, token: str) -> None:
        """Replace the file as the kubelet does, in one step."""
        target = self.path.with_name(f"data-{token}")
        target.write_text(f"{token}\n")
        link = self.path.with_name("link")
        link.symlink_to(target)
        link.replace(self.path)

    def refresh(self, configuration: Any) -> None:
        now = asyncio.get_running_loop().time()
        if now - self.read_at >= 60:
            configuration.api_key["BearerToken"] = f"Bearer {self.path.read_text().strip()}"
            self.read_at = now
            self.reads += 1

    async def expire(self) -> None:
        """For `on_unauthorized`: the next request reads the file again."""
        self.read_at = -math.inf


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    file = TokenFile(tmp_path / "token")
    file.swap(T1)
    return file


def client(world: World, file: TokenFile) -> Any:
    from kubernetes_asyncio.client import ApiClient, Configuration

    configuration = Configuration(host=world.server.url)
    configuration.api_key["BearerToken"] = ""
    configuration.refresh_api_key_hook = file.refresh
    return ApiClient(configuration)


def assert_no_token_in(caplog: pytest.LogCaptureFixture) -> None:
    for record in caplog.records:
        said = f"{record.getMessage()} {record.exc_text or ''} {vars(record)!r}"
        assert not any(token in said for token in (T1, T2, T3))


@pytest.mark.parametrize("age", [30, 90], ids=["within a minute", "after a minute"])
async def test_f20_the_next_watch_goes_on_with_the_new_token(
    world: World, file: TokenFile, age: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = world.server
    server.tokens = {T1}
    server.create(WIDGETS, W("a", ""))
    async with world.follow(api=client(world, file), on_unauthorized=file.expire) as follower:
        await world.until(age)
        file.swap(T2)
        server.tokens = {T2}
        last = server.create(WIDGETS, W("b", ""))["metadata"]["resourceVersion"]
        await asyncio.sleep(1)
        assert follower.store == ["a", "b"]  # the open watch was not asked again
        server.end_watches()
        await asyncio.sleep(10)
        refused = [one for one in server.watches() if one.status == 401]
        assert len(refused) == (1 if age < 60 else 0)
        assert server.watches()[-1].status == 200
        assert world.asked()[2:] == [f"WATCH rv={last}"] * (2 if age < 60 else 1)
        server.create(WIDGETS, W("c", ""))
        await asyncio.sleep(1)
        assert follower.calls == ["add a", "add b", "add c"]
        assert follower.informer.health.state == "live"
        assert len(server.lists()) == 1
    assert_no_token_in(caplog)


async def test_f20_a_lasting_401_grows_the_delay_and_keeps_the_cache(
    world: World, file: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = world.server
    server.tokens = {T1}
    server.create(WIDGETS, W("a", ""))
    async with world.follow(api=client(world, file), on_unauthorized=file.expire) as follower:
        server.tokens = {T3}
        server.end_watches()
        await world.until(600)
        refused = [one.time for one in server.requests if one.status == 401]
        assert 10 <= len(refused) <= 24
        assert {one.verb for one in server.requests if one.status == 401} == {"watch"}
        gaps = [later - earlier for earlier, later in itertools.pairwise(refused)]
        assert all(gap >= min(30, 0.8 * 2**i) for i, gap in enumerate(gaps))
        assert file.reads <= len(refused) + 2  # never a loop of reading and asking
        health = follower.informer.health
        assert health.state == "failing"
        assert health.last_error is not None
        assert "401 Unauthorized" in health.last_error
        assert follower.store == ["a"]
        said = [one.getMessage() for one in world.log.at(logging.WARNING)]
        assert len(said) == 2 + (1 + len(refused)) // 10  # the end of the watch, the refusal at once, then sparsely
        assert all("401 Unauthorized" in text for text in said[1:])
        file.swap(T3)
        await asyncio.sleep(61)
        assert follower.informer.health.state == "live"
        assert len(server.lists()) == 1
    assert_no_token_in(caplog)


async def test_f20_a_token_that_no_header_can_carry_is_an_error_and_no_crash(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A line break at the end of a token, left in by the program, makes every request impossible."""
    caplog.set_level(logging.DEBUG)
    api = world.server.api_client(token=f"{T1}\n")
    async with world.follow(api=api, sync=False) as follower:
        await world.until(60)
        health = follower.informer.health
        assert health.state == "failing"
        assert health.last_error is not None
        assert 5 <= health.consecutive_failures <= 8
        assert not world.server.requests
    assert_no_token_in(caplog)
