"""The other side of a soak: a fake API server in a process of its own, with a steady load of writes and troubles on command.

`python -m tests.soak.server OBJECTS EVENTS_PER_SECOND BAD_PERCENT` prints its URL. Each line on standard input is the name of a
trouble (or `hush`, `go on`); the answer is one line when it is over.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from attrs import Factory, define

from informer import Resource
from informer.objects import make_key
from informer.testing import End, FakeApiServer, faults, match
from tests.faults.play import FAULTS, POISON

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
NAMESPACES = 20
PADDING = "x" * 600
OUTAGE = 3.0
ABSENT = 50
"""How many objects are away at any time, so that the number of those there stays the same."""


def digest(versions: Iterable[tuple[str, str]]) -> str:
    """Keys and versions in one word, for two processes to compare."""
    return hashlib.sha256(repr(sorted(versions)).encode()).hexdigest()


@define(eq=False)
class World:
    """The server, its objects, and who changes them.

    Attributes:
        hushed: no writes, so that both sides can be compared.
    """

    server: FakeApiServer
    count: int
    rate: float
    bad: float
    hushed: bool = False
    rng: random.Random = Factory(lambda: random.Random(1))
    _lives: int = 0
    _uids: dict[int, str] = Factory(dict)
    _absent: deque[int] = Factory(deque)

    def put(self, number: int) -> None:
        """A new object, or another state of the one that is there."""
        if number not in self._uids:
            self._lives += 1
            self._uids[number] = f"life-{self._lives}"
        uid, namespace, name = self._uids[number], f"team-{number % NAMESPACES}", f"w{number:06}"
        timeout = "1" if self.rng.random() * 100 < self.bad else f"{self.rng.randrange(1, 60)}m"

        def raw(version: str) -> bytes:
            metadata = {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "resourceVersion": version,
                "labels": {"shard": str(number % 10)},
                "annotations": {"padding": PADDING},
            }
            kind = {"apiVersion": "example.test/v1", "kind": "Widget"}
            return json.dumps({**kind, "metadata": metadata, "spec": {"timeout": timeout}}).encode()

        self.server.put_raw(WIDGETS, name, raw, namespace=namespace)

    def write(self) -> None:
        """One event: of twenty, one is a delete and one the create of what was deleted a while ago."""
        number = self.rng.randrange(self.count)
        if len(self._absent) > ABSENT:
            self.put(self._absent.popleft())
        elif number in self._uids and self.rng.random() < 0.05:
            del self._uids[number]
            self._absent.append(number)
            self.server.delete(WIDGETS, f"w{number:06}", namespace=f"team-{number % NAMESPACES}")
        elif number in self._uids:
            self.put(number)

    async def load(self) -> None:
        """So many writes each second, in twenty portions."""
        time = asyncio.get_running_loop().time
        due, begun = 0.0, time()
        while True:
            await asyncio.sleep(0.05)
            now = time()
            due, begun = due + (now - begun) * self.rate, now
            if self.hushed:
                due = 0.0
            while due >= 1:
                self.write()
                due -= 1

    # ------------------------------------------------------------------ troubles

    async def outage(self) -> None:
        """Every connection is cut, and none accepted for a while."""
        await self.server.stop()
        await asyncio.sleep(OUTAGE)
        await self.server.start()

    async def expire(self) -> None:
        """410 in the stream, and the history forgotten: one LIST."""
        self.server.compact()
        self.server.expire_watches()

    async def reset(self) -> None:
        """The connection is reset, and the next two attempts are refused as overload."""
        self.server.faults.add(match("watch", WIDGETS), FAULTS["503 html"], times=2)
        self.server.end_watches(end=End.RESET)

    async def stall(self) -> None:
        """The socket stays open and nothing comes any more: only missing bookmarks tell."""
        self.server.end_watches(end=End.STALL)

    async def throttle(self) -> None:
        """429 with a Retry-After of two seconds, three times."""
        answer = faults.status_answer(429, "TooManyRequests", "slow down", retry_after=2)
        self.server.faults.add(match("watch", WIDGETS), answer, times=3)
        self.server.end_watches()

    async def poison(self) -> None:
        """Bytes that are no event, so that an event may be lost: one LIST."""
        self.server.send_to_watches(POISON["garbage"])

    async def half_a_list(self) -> None:
        """A LIST that breaks off in the middle, and then one that succeeds."""
        self.server.faults.add(match("list", WIDGETS), FAULTS["half, then gone"])
        await self.expire()

    async def forbid(self) -> None:
        """403 for a while."""
        self.server.forbid(WIDGETS)
        self.server.end_watches()
        await asyncio.sleep(OUTAGE)
        self.server.allow(WIDGETS)

    async def replace(self) -> None:
        """Every hundredth object dies and is born again while no watch is open."""
        self.server.end_watches(end=End.DROP)
        for number in range(0, self.count, 100):
            if self._uids.pop(number, None) is not None:
                self.put(number)

    async def hush(self) -> str:
        self.hushed = True
        stored = self.server.table(WIDGETS)[0].table.objects.values()
        return digest((make_key(*one.key), str(one.version)) for one in stored)

    async def go_on(self) -> None:
        self.hushed = False
        # Its own memory is not what is measured, yet it must not slow down.
        self.server.compact(str(max(0, int(self.server.resource_version) - 10_000)))
        self.server.requests.clear()


# First what takes most memory, so that the warm-up of a short run has it.
TROUBLES = ("poison", "outage", "expire", "reset", "stall", "throttle", "half_a_list", "forbid", "replace")


async def main(count: int, rate: float, bad: float) -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    async with FakeApiServer(bookmark_period=2.0) as server:
        server.add_resource(WIDGETS, typed_items=True)
        world = World(server, count, rate, bad)
        for number in range(count):
            world.put(number)
        server.compact()
        print(server.url, flush=True)
        load = asyncio.create_task(world.load())
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            act: Callable[[], Awaitable[str | None]] = getattr(world, line.strip().replace(" ", "_"))
            print(await act() or "done", flush=True)
            if load.done():
                load.result()
        load.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
