"""`informer._http`: one GET over the caller's client, bounded in time, and lines of any length."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import _http
from informer.errors import ApiError, ItemTooLargeError
from informer.resource import Resource
from informer.testing import End, FakeApiServer, faults, match
from informer.testing.virtual import run

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
PATH = WIDGETS.path()
WHAT = "list widgets"


class Content:
    """The reading side of a response: chunks, then perhaps an error, then the end."""

    def __init__(self, chunks: Sequence[bytes], error: BaseException | None = None) -> None:
        self.chunks = [chunk for chunk in chunks if chunk]
        self.error = error

    async def readany(self) -> bytes:
        await asyncio.sleep(0)
        if self.chunks:
            return self.chunks.pop(0)
        if self.error is not None:
            raise self.error
        return b""

    async def read(self, _: int) -> bytes:
        return await self.readany()


class Response:
    def __init__(self, *chunks: bytes, error: BaseException | None = None) -> None:
        self.content = Content(chunks, error)


def lines_of(response: Any, limit: int = 1 << 20) -> _http.Lines:
    return _http.Lines(response, limit, "watch widgets")


async def each(reader: _http.Lines) -> AsyncIterator[bytes]:
    while await reader.more():
        for data, start, end in reader:
            yield data[start:end]


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(data[at : at + size])
        at += size
    return [*chunks, data[at:]]


# ---------------------------------------------------------------------- lines

LINE = st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")) | st.sampled_from(
    ["日本語 – ünï".encode(), "a\u2028b\u0085c".encode(), b"\r", b"", b"x\ry", b"\x0b\x0c\x1c"]
)


@given(st.lists(LINE, max_size=12), LINE, st.lists(st.integers(1, 9), max_size=40))
def test_any_chunks(lines: list[bytes], rest: bytes, sizes: list[int]) -> None:
    """When any lines come in any chunks, they should be those lines, split at 0x0A only, and the torn rest set apart."""
    data = b"".join(line + b"\n" for line in lines) + rest
    reader = lines_of(Response(*cut(data, sizes)))

    async def main() -> list[bytes]:
        return [line async for line in each(reader)]

    kept = [line for line in lines if line not in (b"", b"\r")]
    assert run(main()) == kept
    assert reader.fragment == rest
    assert reader.delivered == len(kept)


@given(st.lists(LINE, min_size=1, max_size=12), LINE, st.lists(st.integers(1, 9), max_size=40), st.data())
def test_any_rest(lines: list[bytes], torn: bytes, sizes: list[int], data: st.DataObject) -> None:
    """When a line turns out to be no event, it and all that follows should come as one body."""
    lines = [line for line in lines if line not in (b"", b"\r")] or [b"x"]
    at = data.draw(st.integers(0, len(lines) - 1))
    body = b"".join(line + b"\n" for line in lines) + torn
    reader = lines_of(Response(*cut(body, sizes)))

    async def main() -> bytes:
        async for line in each(reader):
            if reader.delivered == at + 1:
                return await reader.rest(line)
        raise AssertionError

    assert run(main()) == b"\n".join([*lines[at:], torn])


async def test_rest_is_bounded() -> None:
    """When a body that holds no events never ends, its beginning should be enough."""
    reader = lines_of(Response(b"<html>\n", *[b"x" * 1000] * 1000))
    async for line in each(reader):
        assert await reader.rest(line) == (b"<html>\n" + b"x" * 100_000)[: _http.ERROR_BYTES]
        break
    for error in (ApiError("reset"), ConnectionResetError("reset")):
        reader = lines_of(Response(b"{\n", b' "kind": "Status"}', error=error))
        async for line in each(reader):
            assert await reader.rest(line) == b'{\n "kind": "Status"}'
            break


async def test_linear_time() -> None:
    """When a line of 3 MiB comes in small chunks, it should take time and memory in proportion to it."""
    data = b"x" * (3 << 20) + b"\n"
    chunks = cut(data, [1024] * 3072)[::-1]

    class Fast:
        async def read(self, _: int) -> bytes:
            return chunks.pop() if chunks else b""

    response = Response()
    response.content = Fast()  # type: ignore[assignment]
    started = time.process_time()
    assert [len(line) async for line in each(lines_of(response, 4 << 20))] == [3 << 20]
    assert (
        time.process_time() - started < 1.0
    )  # the bound of the field report; quadratic work takes some ten times that


@pytest.mark.parametrize(
    ("chunks", "named"),
    [
        ([b'{"type":"ADDED","object":{"metadata":{"name":"big-one"},"x":"', *[b"x" * 500] * 50], "big-one"),
        ([b"x" * 2001 + b"\n"], ""),
        ([b"ok\n" + b"y" * 1500, b"y" * 501], ""),
        ([b"ok\n" + b'{"metadata":{"name":"z"}' + b"y" * 2000 + b"\nok\n"], "z"),
    ],
    ids=["growing", "in one chunk", "after another line", "between lines"],
)
async def test_too_large(chunks: list[bytes], named: str) -> None:
    """When a line is larger than allowed, it should be an error with the name where known, before all of it is in memory."""
    response = Response(*chunks)
    with pytest.raises(ItemTooLargeError, match="a line of more than 2000 bytes.*raise max_object_bytes") as caught:
        async for line in each(lines_of(response, 2000)):
            assert line == b"ok"
    assert named in str(caught.value)
    assert ("an object named" in str(caught.value)) == bool(named)


async def test_endless_line() -> None:
    """When a line never ends, memory should stay near the limit."""
    chunk = b"x" * 65536

    class Endless:
        async def read(self, _: int) -> bytes:
            return bytes(chunk)

    response = Response()
    response.content = Endless()  # type: ignore[assignment]
    tracemalloc.start()
    try:
        with pytest.raises(ItemTooLargeError):
            async for _ in each(lines_of(response, 8 << 20)):
                pass
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


async def test_lines_are_limited_to_exactly_the_limit() -> None:
    """When a line is exactly as large as allowed, it should come."""
    assert [len(x) async for x in each(lines_of(Response(b"x" * 1999, b"x\n", b"y" * 2000), 2000))] == [2000]


# ---------------------------------------------------------------------- what an answer says

STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "no",
    "reason": "Forbidden",
}
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, json.dumps(STATUS).encode(), "403 Forbidden: list widgets: no"),
        (403, json.dumps(STATUS, indent=2).encode(), "403 Forbidden: list widgets: no"),
        (
            429,
            b"Too many requests, please try again later.\n",
            "429 TooManyRequests: list widgets: Too many requests, please",
        ),
        (502, b"<html>\r\n<body>\x1b[31m502\x00</body>", "502: list widgets: <html> <body> [31m502 </body>"),
        (504, b"", "504 Timeout: list widgets: an empty answer"),
        (410, b"gone", "410 Expired: list widgets: gone"),
        (500, b"\xff\xfe", "500 InternalError: list widgets: \ufffd\ufffd"),
        (418, b"tea", "418: list widgets: tea"),
        (200, json.dumps(STATUS | {"code": 410}).encode(), "410 Forbidden: list widgets: no"),
        (200, json.dumps(STATUS).encode(), "500 Forbidden: list widgets: no"),
        (
            500,
            json.dumps(STATUS | {"reason": "", "message": ""}).encode(),
            "500 InternalError: list widgets: no message",
        ),
        (200, b"<html>hello", "UnreadableAnswer: list widgets"),
        (200, b'{"data":{"password":"hunter2"}}', "UnreadableAnswer: list widgets"),
        (200, b"", "UnreadableAnswer: list widgets"),
    ],
)
def test_status_error(status: int, body: bytes, expected: str) -> None:
    """When an answer is not the one hoped for, its code, reason and words should be passed on, in one printable line."""
    error = _http.status_error(WHAT, status, body, {})
    assert str(error).startswith(expected)
    assert str(error).isprintable()
    assert "hunter2" not in str(error)
    assert error.status == (0 if "Unreadable" in expected else int(expected[:3]))


def test_messages_are_bounded() -> None:
    """When a server says very much, it should be cut."""
    for body in (b"x" * 60_000, json.dumps(STATUS | {"message": "x " * 60_000}).encode()):
        assert len(str(_http.status_error(WHAT, 500, body, {}))) < 1100


@pytest.mark.parametrize(
    ("headers", "in_body", "seconds"),
    [
        ({}, None, None),
        ({"Retry-After": "7"}, None, 7),
        ({"Retry-After": " 7 "}, None, 7),
        ({"Retry-After": "7"}, 5, 7),
        ({"Retry-After": "5"}, 7, 7),
        ({}, 5, 5),
        ({"Retry-After": "86400"}, None, 86400),
        ({"Retry-After": "0"}, None, 0),
        # Against the response's own Date: our clock may be an hour off.
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT", "Date": DATE}, None, 90),
        ({"Retry-After": "Thu, 01 Jan 2026 01:01:30 +0100", "Date": DATE}, None, 90),
        ({"Retry-After": "Wed, 31 Dec 2025 23:59:00 GMT", "Date": DATE}, None, 0),
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT"}, None, None),
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT", "Date": "yesterday"}, None, None),
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:30 GMT", "Date": "nonsense"}, 5, 5),
        ({"Retry-After": "Thu, 01 Jan 2026 00:01:30 -0000", "Date": DATE}, None, None),
        ({"Retry-After": f"Thu, 01 Jan 2026 00:01:30 +{'9' * 30}", "Date": DATE}, None, None),
        ({"Retry-After": "soon"}, None, None),
        ({"Retry-After": "-5"}, None, None),
        ({"Retry-After": "1.5"}, None, None),
        ({"Retry-After": "٧"}, None, None),
        ({"Retry-After": "inf"}, None, None),
    ],
)
def test_retry_after(headers: Mapping[str, str], in_body: int | None, seconds: float | None) -> None:
    """When a server asks to wait, in seconds or until a date, in a header or in the body, the longest should count."""
    body = json.dumps(STATUS | ({"details": {"retryAfterSeconds": in_body}} if in_body else {})).encode()
    assert _http.status_error(WHAT, 429, body, headers).retry_after == seconds


def test_long_digits() -> None:
    """When Retry-After has thousands of digits, it should be a number and not an error."""
    error = _http.status_error(WHAT, 429, b"", {"Retry-After": "9" * 10_000})
    assert error.retry_after is not None
    assert error.retry_after > 1e6


def test_causes() -> None:
    """When a Status has causes, they should be passed on."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    body = json.dumps(STATUS | {"reason": "Timeout", "details": {"causes": [cause]}}).encode()
    assert _http.status_error(WHAT, 504, body, {}).version_too_large


# ---------------------------------------------------------------------- the request


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([WIDGETS]) as server:
        server.create(WIDGETS, {"metadata": {"name": "a"}})
        yield server


async def fetch(api: Any, *, first_byte: float = 30.0) -> bytes:
    async with _http.get(
        api, PATH, {"limit": "5"}, what=WHAT, first_byte=first_byte, headers={"X-Test": "1"}
    ) as response:
        return bytes(await _http.read_body(response))


async def test_get(server: FakeApiServer) -> None:
    """When the answer is 200, it should be readable, and its connection be used again."""
    async with server.api_client() as api:
        for _ in range(2):
            assert json.loads(await fetch(api))["kind"] == "WidgetList"
        assert server.open_connections == 1
    (first, _) = server.lists(WIDGETS)
    assert first.query == {"limit": "5"}
    assert first.headers["accept"] == "application/json"
    assert first.headers["x-test"] == "1"


@pytest.mark.parametrize("size", [0, 10, 100_000])
async def test_error_bodies(server: FakeApiServer, size: int) -> None:
    """When a refusal has a body of any size, it should be one error, and no half-read connection be used again."""
    server.faults.add(match("list"), faults.Answer(503, "x" * size, content_type="text/plain"))
    async with server.api_client() as api:
        with pytest.raises(ApiError, match="503 ServiceUnavailable: list widgets"):
            await fetch(api)
        assert json.loads(await fetch(api))["kind"] == "WidgetList"
        assert server.open_connections == 1


async def test_stalled_error_body(server: FakeApiServer) -> None:
    """When a refusal's body never ends, its status should be told after a few seconds all the same."""
    server.faults.add(match("list"), faults.Script(b"slow", End.STALL, status=429, headers={"Retry-After": "7"}))
    begin = asyncio.get_running_loop().time()
    async with server.api_client() as api:
        with pytest.raises(ApiError, match="429 TooManyRequests: list widgets: slow") as caught:
            await fetch(api)
        await server.wait_until(lambda: server.open_connections == 0)
    assert caught.value.retry_after == 7
    assert asyncio.get_running_loop().time() - begin == pytest.approx(5, abs=1)


async def test_no_answer(server: FakeApiServer) -> None:
    """When not even headers come, it should give up after the first-byte limit and close the connection."""
    server.faults.add(match("list"), faults.NoAnswer())
    begin = asyncio.get_running_loop().time()
    async with server.api_client() as api:
        with pytest.raises(ApiError, match="Timeout: list widgets: no answer within 30 s"):
            await fetch(api)
        assert asyncio.get_running_loop().time() - begin == pytest.approx(30, abs=0.5)
        await server.wait_until(lambda: server.open_connections == 0)


@pytest.mark.parametrize("end", [End.RESET, End.DROP])
async def test_broken_before_the_answer(server: FakeApiServer, end: End) -> None:
    """When the connection breaks before the answer, it should be a connection error."""
    server.faults.add(match("list"), faults.NoAnswer(end), times=2)  # aiohttp itself sends a GET once more
    async with server.api_client() as api:
        with pytest.raises(ApiError, match="ConnectionError: list widgets: ") as caught:
            await fetch(api)
    assert caught.value.status == 0


async def test_connection_refused() -> None:
    """When nobody listens, it should be a connection error that names the request."""
    async with FakeApiServer([WIDGETS]) as server:
        await server.stop()
        async with server.api_client() as api:
            with pytest.raises(ApiError, match="ConnectionError: list widgets: ClientConnectorError"):
                await fetch(api)


async def test_no_free_connection(server: FakeApiServer) -> None:
    """When the client's pool is used up, it should fail after the connect limit and say that there was no connection."""
    async with server.api_client() as api:
        api.rest_client.pool_manager.connector._limit = 1
        async with _http.get(api, PATH, {"watch": "1"}, what="watch", first_byte=30, headers={}):
            begin = asyncio.get_running_loop().time()
            with pytest.raises(ApiError, match="Timeout: list widgets: no connection within 10 s"):
                await fetch(api)
            assert asyncio.get_running_loop().time() - begin == pytest.approx(10, abs=0.5)


async def test_keepalive(server: FakeApiServer) -> None:
    """When a connection is open, the kernel should be asked to look after it."""
    async with (
        server.api_client() as api,
        _http.get(api, PATH, {"watch": "1"}, what="watch", first_byte=30, headers={}) as response,
    ):
        sock = response.connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


async def test_deadline(server: FakeApiServer) -> None:
    """When the deadline of a stream is over, whoever reads should get an error and the server should see the end."""
    server.faults.add(match("watch"), faults.Script(b"one\n", End.STALL))
    async with (
        server.api_client() as api,
        _http.get(api, PATH, {"watch": "1"}, what="watch", first_byte=30, headers={}) as response,
    ):
        got = []
        begin = asyncio.get_running_loop().time()
        with pytest.raises(ApiError, match="Timeout: watch widgets: the server did not end the watch"):
            with _http.deadline(response, 330, "watch widgets"):
                async for line in each(lines_of(response)):
                    got.append(line)  # noqa: PERF401 - what came before the error counts
        assert got == [b"one"]
        assert asyncio.get_running_loop().time() - begin == pytest.approx(330, abs=0.5)
        await server.wait_until(lambda: server.open_connections == 0)


async def test_deadline_in_time(server: FakeApiServer) -> None:
    """When a stream ends before its deadline, nothing should be left of it."""
    server.faults.add(match("watch"), faults.Script(b"one\n", faults.Wait(100)))
    async with server.api_client() as api:
        async with _http.get(api, PATH, {"watch": "1"}, what="watch", first_byte=30, headers={}) as response:
            with _http.deadline(response, 330, "watch widgets"):
                assert [line async for line in each(lines_of(response))] == [b"one"]
        await asyncio.sleep(1000)
        assert json.loads(await fetch(api))["kind"] == "WidgetList"
