"""What a process has used: CPU seconds, resident bytes, and how long its event loop was held."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

BEAT = 0.010
"""Seconds between two heartbeats."""


def cpu() -> float:
    """User and system seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident() -> int:
    """Bytes in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """The most bytes in memory since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def forget_peak() -> None:
    """Let the kernel's high-water mark begin at what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


class Loop(asyncio.SelectorEventLoop):
    """The default loop, which notes the CPU time of its longest turn.

    A heartbeat's lateness also counts the time in which other programs had the processor; this does not.

    Attributes:
        longest: CPU seconds.
    """

    longest = 0.0

    def _run_once(self) -> None:
        before = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # private, and the one place where a turn can be measured
        self.longest = max(self.longest, time.thread_time() - before)


class Heartbeat:
    """How late a timer of 10 ms comes at the worst.

    Attributes:
        latest: seconds.
    """

    def __init__(self) -> None:
        self.latest = 0.0

    async def beat(self) -> None:
        """Run until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + BEAT
            await asyncio.sleep(BEAT)
            self.latest = max(self.latest, clock() - due)


class Span:
    """The costs of one part of a run, from its creation on; see `begin`."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat, self._loop = heartbeat, asyncio.get_running_loop()
        heartbeat.latest = 0.0
        if isinstance(self._loop, Loop):
            self._loop.longest = 0.0
        self._resident, self._began, self._cpu = resident(), time.perf_counter(), cpu()

    def costs(self, count: int) -> dict[str, float]:
        """What was used since, per thing that was done."""
        used, seconds, held, most = cpu() - self._cpu, time.perf_counter() - self._began, resident(), peak()
        return {
            "cpu_us": used / count * 1e6,
            "seconds": seconds,
            "resident": (held - self._resident) / count,
            "peak": (most - self._resident) / count,
            "stall_ms": self._heartbeat.latest * 1e3,
            "turn_ms": getattr(self._loop, "longest", 0.0) * 1e3,
        }


async def begin(heartbeat: Heartbeat) -> Span:
    """Start to measure, in a turn of the loop that has done nothing else."""
    gc.collect()
    forget_peak()
    await asyncio.sleep(2 * BEAT)
    return Span(heartbeat)


def run(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Run on the measuring loop."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(work)
