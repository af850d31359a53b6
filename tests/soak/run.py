"""The soak: one informer under a steady load and a trouble each minute must use the same memory, tasks and sockets for ever.

`python -m tests.soak.run --minutes 20` (or `nox -s soak`). Exit code 1 unless everything is flat within 5 % after a warm-up, in
which each trouble has come once, and the informer has exactly what the server has.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import math
import os
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import Factory, define, frozen
from kubernetes_asyncio.client import ApiClient, Configuration
from prometheus_client import CollectorRegistry

from informer import (
    ApiListerWatcher,
    Change,
    DegradedListerWatcher,
    InformerOptions,
    KubeObject,
    SharedInformer,
    checks,
)
from tests.informer.kit import Replay
from tests.soak.server import TROUBLES, WIDGETS, digest

FLAT = 0.05
CALM = 120.0
"""Seconds in which any trouble here must be over."""
_PATIENCE = 600.0
"""Seconds for an answer of the other side, which may be busy."""


@frozen
class Sample:
    """What is counted at one moment of calm. `blocks`: Python's own memory blocks, which know no fragmentation."""

    minute: float
    after: str
    rss: float
    blocks: int
    tasks: int
    sockets: int
    backlog: int
    objects: int
    withheld: int
    heard: int

    HEADER = "  minute  after        RSS MB    blocks  tasks  sockets  backlog  objects  withheld   changes"

    def __str__(self) -> str:
        return (
            f"{self.minute:8.1f}  {self.after:<11}{self.rss:8.1f}{self.blocks:10}{self.tasks:7}{self.sockets:9}{self.backlog:9}"
            f"{self.objects:9}{self.withheld:10}{self.heard:10}"
        )


@define(eq=False)
class Server:
    """The process of the other side."""

    process: asyncio.subprocess.Process
    url: str

    async def do(self, what: str) -> str:
        """Give an order and wait until it is carried out; `hush` says what the server has, as a digest."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what.encode() + b"\n")
        async with asyncio.timeout(_PATIENCE):
            answer = (await self.process.stdout.readline()).decode().strip()
        assert answer, f"the server died of {what}"
        return answer


@asynccontextmanager
async def serving(options: argparse.Namespace) -> AsyncIterator[Server]:
    """The other side runs inside the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.soak.server", str(options.objects), str(options.rate), str(options.bad),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_PATIENCE):
            url = (await process.stdout.readline()).decode().strip()
        yield Server(process, url)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@define(eq=False)
class Soak:
    """One informer with four kinds of handlers, and what is known of it."""

    informer: SharedInformer[KubeObject]
    server: Server
    replay: Replay = Factory(Replay)
    heard: int = 0
    wrong: list[str] = Factory(list)
    samples: list[Sample] = Factory(list)

    def hear(self, change: Change[KubeObject]) -> None:
        """Believes every call."""
        try:
            self.replay(change)
        except AssertionError as error:
            self.wrong.append(str(error)[:300])
        self.replay.calls.clear()
        self.heard += 1

    async def hear_later(self, _: Change[KubeObject]) -> None:
        await asyncio.sleep(0)

    def raise_sometimes(self, obj: KubeObject) -> None:
        if obj.name.endswith("7777"):
            raise LookupError(obj.name)

    async def come_and_go(self) -> None:
        """A late handler, and a late iteration, which hear of everything that is there and leave again."""
        seen = 0

        def count(_: object) -> None:
            nonlocal seen
            seen += 1

        registration = self.informer.add_handler(on_add=count)
        async with self.informer.changes() as changes:
            async for _ in changes:
                break
        while not registration.has_synced:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.05)
        await registration.remove()
        assert seen

    async def calm(self) -> None:
        """Wait until it is live and has heard of all there was; then compare with the server, which is quiet meanwhile."""
        there = await self.server.do("hush")
        deadline = asyncio.get_running_loop().time() + CALM
        while not (self.informer.health.state == "live" and not self.informer.backlog and self.digest() == there):
            if asyncio.get_running_loop().time() > deadline:
                self.wrong.append(f"it differs from the server after {CALM:.0f} s; {self.informer.health}")
                break
            await asyncio.sleep(0.5)
        known = {key: obj.resource_version for key, obj in self.replay.known.items()}
        if known != {obj.key: obj.resource_version for obj in self.informer.lister.list()}:
            self.wrong.append("the handler knows something else than the store")
        await self.server.do("go on")

    def digest(self) -> str:
        """What the store has, withheld objects included."""
        lister = self.informer.lister
        found = [(obj.key, obj.resource_version) for obj in lister.list()]
        return digest(found + [(entry.key, entry.resource_version) for entry in lister.withheld()])

    def sample(self, minute: float, after: str) -> Sample:
        """Count."""
        gc.collect()
        made = Sample(
            minute,
            after,
            _resident() / 1e6,
            sys.getallocatedblocks(),
            len(asyncio.all_tasks()),
            _sockets(),
            self.informer.backlog,
            self.informer.size,
            self.informer.health.quarantined,
            self.heard,
        )
        self.samples.append(made)
        print(made, flush=True)
        return made


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _sockets() -> int:
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of this very listing is gone
            found += str(file.readlink()).startswith("socket:")
    return found


def verdict(samples: list[Sample], rate: float) -> list[str]:
    """What grew: the median over the last round of troubles against that over the later half of the first, the warm-up.

    Of a run that is too short for two rounds, its two halves.
    """
    warm = min(len(TROUBLES), len(samples) // 2)
    if warm < len(TROUBLES):
        print(f"a short run: {len(samples)} troubles, and each of {len(TROUBLES)} should come twice")
    if not warm:
        return ["nothing to compare"]
    before, after = samples[warm // 2 : warm], samples[-warm:]
    grown = []
    for name in ("rss", "blocks", "tasks", "sockets"):
        was, now = (statistics.median(getattr(one, name) for one in some) for some in (before, after))
        print(f"{name}: {was:.1f} at the end of the warm-up, {now:.1f} at the end ({now / was - 1:+.1%})")
        if now > was * (1 + FLAT):
            grown.append(name)
    if max(one.backlog for one in after) > math.ceil(rate):
        grown.append("backlog")
    return grown


async def soak(options: argparse.Namespace) -> int:
    """Run; the exit code."""
    time = asyncio.get_running_loop().time
    async with serving(options) as server, ApiClient(Configuration(host=server.url)) as api:
        source = DegradedListerWatcher(ApiListerWatcher(api, WIDGETS), checks=[checks.duration("spec.timeout")])
        async with SharedInformer(source, options=InformerOptions(registry=CollectorRegistry())) as informer:
            run = Soak(informer, server)
            informer.add_index("shard", lambda obj: [obj.metadata.labels["shard"]])
            informer.add_handler(on_change=run.hear)
            informer.add_handler(on_change=run.hear_later)
            informer.add_handler(on_update=lambda _, new: run.raise_sometimes(new), in_thread=True)
            await informer.wait_for_sync(timeout=CALM)
            begun, number = time(), 0
            print(Sample.HEADER)
            while informer.backlog:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.1)
            run.sample(0, "the start")
            while time() < begun + options.minutes * 60:
                trouble = TROUBLES[number % len(TROUBLES)]
                number += 1
                due = begun + number * options.every
                await asyncio.sleep(2)
                await server.do(trouble)
                await run.come_and_go()
                await asyncio.sleep(max(0.0, due - 12 - time()))  # the longest recovery here takes about 30 s
                await run.calm()
                await asyncio.sleep(max(2.0, due - time()))
                run.sample((time() - begun) / 60, trouble)
            grown = verdict(run.samples[1:], options.rate)
    for complaint in run.wrong[:10]:
        print(f"wrong: {complaint}")
    print(f"grown: {', '.join(grown) or 'nothing'}; wrong: {len(run.wrong) or 'nothing'}")
    return 1 if grown or run.wrong else 0


def main(arguments: Any = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=200.0, help="events per second")
    parser.add_argument("--bad", type=float, default=1.0, help="per cent of the writes that the check refuses")
    parser.add_argument("--every", type=float, default=60.0, help="seconds from one trouble to the next")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.CRITICAL)  # troubles are logged at length; here only figures count
    return asyncio.run(soak(options))


if __name__ == "__main__":
    sys.exit(main())
