"""Children of tests: none is waited for without end, and Ctrl-C reaches them wherever the tests run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

SECONDS = 60.0  # of a machine that is busy with other things


@asynccontextmanager
async def within(process: asyncio.subprocess.Process, seconds: float = SECONDS) -> AsyncIterator[None]:
    """Talk to a child for so long at most. It does not outlive the block."""
    try:
        async with asyncio.timeout(seconds):
            yield
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def finished(process: asyncio.subprocess.Process, seconds: float = SECONDS) -> tuple[bytes, bytes]:
    """What a child has written until its end; empty where there is no pipe. One that does not end is killed, and fails."""
    async with within(process, seconds):
        return await process.communicate()


@contextmanager
def interruptible() -> Iterator[None]:
    """Who is started in here has SIGINT as at a terminal: shells have it ignored in what they start in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
