"""Anything at all happens to a server, its objects and its clients; after each settling everything agrees again.

INFORMER_STATEFUL_EXAMPLES sets how many histories are tried, INFORMER_STATEFUL_STEPS how long each may be.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from informer import (
    Added,
    ApiListerWatcher,
    Change,
    DegradedListerWatcher,
    InformerOptions,
    KubeObject,
    ListerWatcher,
    Quarantined,
    Removed,
    SharedInformer,
    Updated,
)
from informer.handlers import Handler
from informer.objects import same_content
from informer.testing import End, FakeApiServer, VirtualTimeLoop

from .kit import TIMEOUT_CHECK, WIDGETS, Replay, short

T = TypeVar("T")

NAMES = st.sampled_from(["a", "b", "c", "d"])
SPACES = st.sampled_from(["n1", "n2"])
TIMEOUTS = st.sampled_from(["1m", "2m", "5m30s", "1", "", 5, None])
GOOD = ("1m", "2m", "5m30s", None)


@define
class Follower:
    """One handler that checks every call; what it objects to is kept, since an informer logs it and goes on."""

    slow: bool = False
    replay: Replay = field(factory=Replay)
    errors: list[BaseException] = field(factory=list)
    removed: bool = False
    handler: Handler[KubeObject] | None = None

    def hear(self, change: Change[KubeObject]) -> None:
        try:
            assert not self.removed, f"{short(change)} after the removal"
            self.replay(change)
        except AssertionError as error:
            self.errors.append(error)

    async def hear_slowly(self, change: Change[KubeObject]) -> None:
        self.hear(change)
        await asyncio.sleep(3)

    def join(self, informer: SharedInformer[KubeObject], *, split: bool = False) -> Follower:
        if split:
            self.handler = informer.add_handler(
                on_add=lambda new: self.hear(Added(new, False)),
                on_update=lambda old, new: self.hear(Updated(old, new, old is new)),
                on_delete=lambda last: self.hear(Removed(last, False)),
                on_quarantined=lambda old, entry: self.hear(Quarantined(old, entry)),
            )
        else:
            self.handler = informer.add_handler(on_change=self.hear_slowly if self.slow else self.hear)
        return self


class Histories(RuleBasedStateMachine):
    """A server with widgets, and an informer of it with handlers that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self.followers: list[Follower] = []
        self.leave = asyncio.Event()
        self.holder: asyncio.Task[None] | None = None

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize(
        judging=st.booleans(),
        mode=st.sampled_from(["list", "stream", "auto"]),
        bookmarks=st.sampled_from([None, 20.0]),
        objects=st.dictionaries(st.tuples(SPACES, NAMES), TIMEOUTS, max_size=6),
    )
    def begin(self, judging: bool, mode: Any, bookmarks: float | None, objects: dict[tuple[str, str], Any]) -> None:
        self.judging = judging
        self.server = FakeApiServer([WIDGETS], bookmark_period=bookmarks)
        for (namespace, name), timeout in objects.items():
            self.write(namespace, name, timeout)

        async def start() -> None:
            await self.server.start()
            self.client = self.server.api_client()
            plain = ApiListerWatcher(self.client, WIDGETS)
            self.degraded = DegradedListerWatcher(plain, checks=[TIMEOUT_CHECK]) if judging else None
            source: ListerWatcher[KubeObject] = plain if self.degraded is None else self.degraded
            self.informer = SharedInformer(source, options=InformerOptions(initial_list=mode, max_backlog=2))
            self.informer.add_index("timeout", lambda one: [str(one["spec"]["timeout"])])
            self.followers = [
                Follower().join(self.informer, split=True),
                Follower(slow=True).join(self.informer),
            ]
            self.holder = asyncio.create_task(self.hold())
            await asyncio.sleep(0)

        self.do(start())

    async def hold(self) -> None:
        async with self.informer:
            await self.leave.wait()

    # ------------------------------------------------------------------ what happens to objects

    def write(self, namespace: str, name: str, timeout: Any) -> None:
        """Create or change."""
        key, spec = {"name": name, "namespace": namespace}, {"timeout": timeout}
        if (namespace, name) in self.objects:
            obj = self.server.get(WIDGETS, name, namespace=namespace)
            self.server.update(WIDGETS, {**obj, "spec": spec})
        else:
            self.server.create(WIDGETS, {"metadata": key, "spec": spec})

    @property
    def objects(self) -> dict[tuple[str, str], Any]:
        return self.server.table(WIDGETS)[0].table.objects

    def remove(self, namespace: str, name: str) -> None:
        if (namespace, name) in self.objects:
            self.server.delete(WIDGETS, name, namespace=namespace)

    @rule(namespace=SPACES, name=NAMES, timeout=TIMEOUTS)
    def change(self, namespace: str, name: str, timeout: Any) -> None:
        self.write(namespace, name, timeout)

    @rule(namespace=SPACES, name=NAMES, timeouts=st.lists(TIMEOUTS, min_size=2, max_size=6))
    def change_often(self, namespace: str, name: str, timeouts: list[Any]) -> None:
        for timeout in timeouts:
            self.write(namespace, name, timeout)

    @rule(namespace=SPACES, name=NAMES)
    def delete(self, namespace: str, name: str) -> None:
        self.remove(namespace, name)

    @rule(namespace=SPACES, name=NAMES, timeout=TIMEOUTS)
    def recreate(self, namespace: str, name: str, timeout: Any) -> None:
        self.remove(namespace, name)
        self.write(namespace, name, timeout)

    @rule(
        namespace=SPACES,
        name=NAMES,
        timeout=TIMEOUTS,
        how=st.sampled_from(["change", "delete", "recreate"]),
        found_by=st.sampled_from(["relist", "expiry"]),
    )
    def change_unseen(self, namespace: str, name: str, timeout: Any, how: str, found_by: str) -> None:
        """No watch tells of it; only a complete list can."""

        async def missed() -> None:
            with self.server.drop_events():
                if how != "change":
                    self.remove(namespace, name)
                if how != "delete":
                    self.write(namespace, name, timeout)
            if found_by == "expiry":
                self.server.compact()
                self.server.expire_watches()
            async with asyncio.timeout(1000):
                await self.informer.relist()

        self.do(missed())

    # ------------------------------------------------------------------ what happens to the connection

    @rule(end=st.sampled_from([End.CLOSE, End.RESET, End.DROP]))
    def drop_watches(self, end: End) -> None:
        self.server.end_watches(end=end)

    @rule()
    def compact(self) -> None:
        self.server.compact()

    @rule()
    def expire(self) -> None:
        self.server.expire_watches()

    @rule(seconds=st.floats(0, 100))
    def outage(self, seconds: float) -> None:
        async def away() -> None:
            await self.server.stop()
            await asyncio.sleep(seconds)
            await self.server.start()

        self.do(away())

    @rule(seconds=st.sampled_from([0.0, 0.01, 1.0, 30.0, 400.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    # ------------------------------------------------------------------ what happens to handlers

    @precondition(lambda self: len(self.followers) < 6)
    @rule(slow=st.booleans(), split=st.booleans())
    def join(self, slow: bool, split: bool) -> None:
        async def late() -> None:
            self.followers.append(Follower(slow).join(self.informer, split=split and not slow))

        self.do(late())

    @precondition(lambda self: len(self.followers) > 2)
    @rule(number=st.integers(0, 5))
    def leave_early(self, number: int) -> None:
        follower = self.followers[number % len(self.followers)]
        assert follower.handler is not None
        self.do(follower.handler.remove())
        follower.removed = True
        follower.errors and self.fail(follower)
        self.followers.remove(follower)

    # ------------------------------------------------------------------ what must hold

    @rule()
    def settle(self) -> None:
        self.do(self.settled())
        self.compare()

    async def settled(self) -> None:
        """Wait until nothing is on its way any more; if that never comes, `compare` says what is wrong."""
        for turn in range(150):
            if any(follower.errors for follower in self.followers):
                return
            handlers = [follower.handler for follower in self.followers]
            if self.in_step() and all(handler and handler.has_synced and not handler.backlog for handler in handlers):
                return
            await asyncio.sleep(1 + turn // 10)

    def expected(self) -> tuple[dict[str, bytes], set[str]]:
        good, bad = {}, set()
        for (namespace, name), stored in self.objects.items():
            timeout = json.loads(stored.whole)["spec"]["timeout"]
            if self.judging and timeout not in GOOD:
                bad.add(f"{namespace}/{name}")
            else:
                good[f"{namespace}/{name}"] = stored.whole
        return good, bad

    def in_step(self) -> bool:
        state = self.informer._cache.indexer.state
        good, bad = self.expected()
        return (
            self.informer.health.synced
            and state.items.keys() == good.keys()
            and state.held.keys() == bad
            and all(same_content(item.object.raw, good[key]) for key, item in state.items.items())
            and all(
                same_content(held.withheld.entry.content.raw or b"", self.objects[tuple(key.split("/"))].whole)
                for key, held in state.held.items()
            )
        )

    def compare(self) -> None:
        good, bad = self.expected()
        state = self.informer._cache.indexer.state
        assert state.items.keys() == good.keys()
        assert state.held.keys() == bad
        assert self.in_step(), "the keys are right and some content is old"
        if self.degraded is not None:
            assert self.degraded.quarantine.keys() == bad
        lister, health = self.informer.lister, self.informer.health
        assert health.quarantined == len(bad)
        assert lister.complete == (not bad)
        stored = {key: item.object.raw for key, item in state.items.items()}
        for namespace in ("n1", "n2"):
            assert {one.key for one in lister.list(namespace=namespace)} == {
                key for key in good if key.startswith(f"{namespace}/")
            }
        for value in lister.index_values("timeout"):
            assert {one.key for one in lister.by_index("timeout", value)} == {
                key for key, item in state.items.items() if str(item.object["spec"]["timeout"]) == value
            }
        for follower in self.followers:
            if follower.errors:
                self.fail(follower)
            assert follower.handler is not None
            assert follower.handler.has_synced
            assert follower.handler.backlog == 0
            follower.replay.agrees(stored, bad)

    @staticmethod
    def fail(follower: Follower) -> None:
        raise AssertionError(f"a handler was told what cannot be: {follower.errors[0]}") from follower.errors[0]

    def teardown(self) -> None:
        try:
            if self.holder is not None:
                self.do(self.settled())
                self.compare()
        finally:
            self.do(self.end())
            self.runner.close()

    async def end(self) -> None:
        if self.holder is None:
            return
        self.leave.set()
        await self.holder
        await self.client.close()
        await self.server.stop()
        await asyncio.sleep(1)
        assert asyncio.all_tasks() == {asyncio.current_task()}


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=int(os.environ.get("INFORMER_STATEFUL_EXAMPLES", "25")),
    stateful_step_count=int(os.environ.get("INFORMER_STATEFUL_STEPS", "30")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
