"""An informer under observation: what it asks, what its health says, and whether its handlers know what the server has."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from attrs import Factory, define

from informer import (
    ApiError,
    ApiListerWatcher,
    Change,
    KubeObject,
    ListerWatcher,
    ListOptions,
    Resource,
    SharedInformer,
)
from tests.informer.kit import Replay, short

PATIENCE = 90.0
"""Seconds: the longest backoff after a short outage is 26 s, and the limiter may add to it; the machine may be slow."""


class Counting:
    """An ApiClient of either package that counts what goes through it, and knows each answer's status.

    Attributes:
        requests: the verb and status of each answer.
        begun: how many LISTs and WATCHes, answered or not; further pages are part of their LIST.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._refuse = False
        self.requests: list[tuple[str, int]] = []
        self.begun: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:  # the official client's `param_serialize`, and what both are asked for
        return getattr(self._inner, name)

    async def call_api(self, *args: Any, **kwargs: Any) -> Any:
        if self._refuse:
            raise ConnectionRefusedError("the network is cut")
        # kubernetes-asyncio's takes path, verb and query; the official one verb and URL, which has the query in it.
        query = dict(kwargs.get("query_params") or parse_qsl(urlsplit(args[1]).query))
        verb = "watch" if "watch" in query else "list"
        self.begun[verb] += "continue" not in query
        response = await self._inner.call_api(*args, **kwargs)
        self.requests.append((verb, response.status))
        return response

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Every request is refused inside the block, before it is sent; an open watch goes on."""
        self._refuse = True
        try:
            yield
        finally:
            self._refuse = False

    @property
    def verbs(self) -> Counter[str]:
        return Counter(verb for verb, _ in self.requests)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(status for _, status in self.requests)


async def until(condition: Any, *, seconds: float = 20.0) -> None:
    """Real servers take real time; ask again until it is so."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the other side is another process
            await asyncio.sleep(0.02)


async def on_server(api: Any, resource: Resource) -> dict[str, dict[str, Any]]:
    """What the server has: the newest state, key by key."""
    source = ApiListerWatcher(api, resource)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                page = await source.list(ListOptions(limit=None))
                break
            except ApiError as error:
                if error.status not in {0, 404, 429, 500, 503}:  # a server that has just started serves not everything
                    raise
            await asyncio.sleep(0.2)
    return {item.key: item.object.to_dict() for item in page.items}  # type: ignore[union-attr]  # nothing is withheld


@define(eq=False, repr=False)
class Followed:
    """An informer and a handler that believes every call.

    Attributes:
        api: counts the informer's requests.
        states: what its health said, one entry per change.
        errors: what the handler was told that it could not believe.
    """

    informer: SharedInformer[KubeObject]
    api: Counting
    replay: Replay = Factory(Replay)
    states: list[str] = Factory(list)
    errors: list[str] = Factory(list)
    _began: float = Factory(lambda: asyncio.get_running_loop().time())

    def hear(self, change: Change[KubeObject]) -> None:
        try:
            self.replay(change)
        except AssertionError as error:
            self.errors.append(f"{short(change)}: {error}")

    @property
    def state(self) -> str:
        """What its health says now, noted down."""
        state = self.informer.health.state
        if not self.states or self.states[-1] != state:
            self.states.append(state)
        return state

    async def observe(self) -> None:
        while self.state:  # noqa: ASYNC110 - health is asked, it does not tell
            await asyncio.sleep(0.02)

    async def failing(self, why: str) -> None:
        """Wait until its health says that it fails, and why."""
        await until(lambda: self.state == "failing", seconds=PATIENCE)
        await until(lambda: why in str(self.informer.health.last_error), seconds=PATIENCE)
        assert self.informer.health.consecutive_failures > 0

    async def in_step(self, api: Any, *, seconds: float = PATIENCE) -> None:
        """Wait until it is live and has what the server has, then check that the handler knows just that."""
        resource = self.informer.resource
        there = await on_server(api, resource)
        versions = {key: obj["metadata"]["resourceVersion"] for key, obj in there.items()}
        try:
            await until(lambda: self.state == "live" and self.versions == versions, seconds=seconds)
        except TimeoutError:
            mine = self.versions
            wrong = sorted(key for key in mine.keys() | versions if mine.get(key) != versions.get(key))
            raise AssertionError(f"{len(wrong)} objects differ, e.g. {wrong[:3]}; {self.informer.health}") from None
        await until(lambda: not self.informer.backlog)
        stored = {obj.key: obj.to_dict() for obj in self.informer.lister.list()}
        assert stored == there
        assert {key: obj.raw for key, obj in self.replay.known.items()} == {
            obj.key: obj.raw for obj in self.informer.lister.list()
        }
        assert not self.errors, self.errors[:3]
        self.asked_little()

    @property
    def versions(self) -> dict[str, str]:
        return {obj.key: obj.resource_version for obj in self.informer.lister.list()}

    def asked_little(self) -> None:
        """No more requests than the limiter lets through, whatever happened."""
        lived = asyncio.get_running_loop().time() - self._began
        assert self.api.begun.total() <= 5 + lived / 6 + 1, f"{self.api.begun} in {lived:.0f} s"


@asynccontextmanager
async def followed(source: ListerWatcher[KubeObject], api: Counting, *, synced: bool = True) -> AsyncIterator[Followed]:
    """A running informer of this source, whose requests go through `api`."""
    async with SharedInformer(source) as informer:
        made = Followed(informer, api)
        informer.add_handler(on_change=made.hear)
        observer = asyncio.create_task(made.observe())
        try:
            if synced:
                await informer.wait_for_sync(timeout=PATIENCE)
            yield made
        finally:
            observer.cancel()
