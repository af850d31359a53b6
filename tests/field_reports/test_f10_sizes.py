"""F10: lines longer than the HTTP library's default, and one that never ends."""

from __future__ import annotations

import inspect
import time
import tracemalloc

from informer import ApiListerWatcher
from informer._http import Lines
from informer.testing.faults import End, Exchange, Proceed, Wait

from .world import EV, SILENT, L, W, World

KIB, MIB = 1 << 10, 1 << 20
SIZES = [60 * KIB, 64 * KIB + 1, 130 * KIB, 3 * MIB // 2, 3 * MIB]


def blob(name: str, version: str, size: int, **spec: object) -> bytes:
    return EV("ADDED", W(name, version, spec=dict(spec), annotations={"blob": "x" * size}))


def pieces(line: bytes, size: int = 16 * KIB) -> list[bytes]:
    return [line[i : i + size] for i in range(0, len(line), size)]


async def test_f10_long_lines_are_lines(world: World) -> None:
    lines = [blob(f"w{i}", str(11 + i), size) for i, size in enumerate(SIZES)]
    lines.append(blob("bad", "16", 2 * MIB, drainTimeout="1"))
    world.on_list(L("10", []))
    world.on_watch([*[piece for line in lines for piece in pieces(line)], End.STALL])
    async with world.follow() as follower:
        await world.until(10)
        assert follower.store == ["w0", "w1", "w2", "w3", "w4"]
        assert follower.bad == {"team-a/bad": ["spec.drainTimeout"]}
        (record,) = world.log.errors()
        assert len(record.getMessage().encode()) < 4 * KIB
        assert max(len(str(value)) for value in vars(record).values()) < 8 * KIB  # nor in the record's extras
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=10"]


async def test_f10_a_line_without_end_is_dropped_at_the_limit(world: World) -> None:
    limit, sent = 4 * MIB, 0
    chunk = b"x" * (64 * KIB)

    async def endless(exchange: Exchange, _proceed: Proceed) -> None:
        nonlocal sent
        await exchange.start()
        await exchange.write(b'{"type":"ADDED","object":{"metadata":{"name":"huge","namespace":"team-a"},"spec":"')
        while sent < 200 * MIB:
            await exchange.write(chunk)
            sent += len(chunk)
        raise AssertionError("the client has read 200 MiB of one line")

    world.on_list(L("10", [W("a", "1")]), L("50", [W("a", "1"), W("b", "2")]))
    world.on_watch(endless, SILENT)
    tracemalloc.start()
    try:
        async with world.follow(max_object_bytes=limit) as follower:
            await world.server.wait_until(lambda: len(world.times("list")) == 2)
            peak = tracemalloc.get_traced_memory()[1]
            (record,) = world.log.at(30)
            assert f"more than {limit} bytes" in record.getMessage()
            assert "huge" in record.getMessage()
            assert "max_object_bytes" in record.getMessage()
            assert len(record.getMessage()) < 1000
            await world.until(30)
            assert follower.store == ["a", "b"]
    finally:
        tracemalloc.stop()
    assert sent < limit + 24 * MIB  # the rest fills the kernel's buffers
    assert peak < 3 * limit
    # The event cannot be skipped unseen: a delay, and a LIST.
    assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=10", "LIST rv=10", "WATCH rv=50"]
    assert world.times("list")[1] - world.times("watch")[0] >= 0.8


async def test_f10_a_complete_line_over_the_limit_is_no_relist_loop(world: World) -> None:
    world.on_list(L("10", []), times=None)
    world.on_watch(pieces(blob("w", "11", 2 * MIB)), times=None)
    async with world.follow(max_object_bytes=1 * MIB):
        await world.until(300)
        assert len(world.times("list")) <= 16


def test_f10_the_limit_is_stated() -> None:
    default = inspect.signature(ApiListerWatcher).parameters["max_object_bytes"].default
    assert default == 32 * MIB
    assert default > 3 * MIB


async def test_f10_reading_is_linear() -> None:
    """12 MiB in chunks of 1 KiB: a search from the start at each chunk would look at 75 GB."""
    line = blob("w", "1", 12 * MIB)

    class Content:
        chunks = iter(pieces(line, KIB))

        async def read(self, _: int) -> bytes:
            return next(self.chunks, b"")

    class Response:
        content = Content()

    begin = time.process_time()
    lines = Lines(Response(), 32 * MIB, "watch")
    found = []
    while await lines.more():
        found += [data[start:end] for data, start, end in lines]
    assert time.process_time() - begin < 1.0
    assert found == [line[:-1]]


async def test_f10_a_line_in_many_packets_over_time(world: World) -> None:
    line = blob("w", "11", 64 * KIB)
    world.on_list(L("10", []))
    world.on_watch([step for piece in pieces(line) for step in (piece, Wait(20))], SILENT)
    async with world.follow() as follower:
        await world.until(110)
        assert follower.store == ["w"]
        assert len(world.times("list")) == 1
