"""Answers without an end: each is cut off at a known size, whatever part of it never ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from unittest import mock

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration

from informer import (
    ApiError,
    ApiListerWatcher,
    DegradedListerWatcher,
    ItemTooLargeError,
    ListOptions,
    Quarantine,
    Resource,
    SharedInformer,
    WatchOptions,
    checks,
)
from informer.testing import FakeApiServer

PODS = Resource("", "v1", "pods", kind="Pod")
MIB = 1 << 20
ENOUGH = 64 * MIB
"""Bytes after which a client that still reads has no limit."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Endless:
    """A server that sends the beginning and then the same again and again, as long as somebody reads."""

    def __init__(self, begin: bytes, again: bytes) -> None:
        self.begin = begin
        self.again = again * (1 + 65536 // len(again))
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(self.begin)
            while self.sent < ENOUGH:
                writer.write(self.again)
                await writer.drain()
                self.sent += len(self.again)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def source(self, **options: int) -> AsyncIterator[ApiListerWatcher]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server, ApiClient(Configuration(host=f"http://{host}:{port}")) as client:
            yield ApiListerWatcher(client, PODS, **options)


def page(*items: object) -> bytes:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items}
    return json.dumps(body, separators=(",", ":")).encode()


POD = json.dumps({"metadata": {"name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1"}}).encode()

LISTS = {
    "white space": (OK + b"\r\n", b" "),
    "zeros": (OK + b"\r\n", b"\x00"),
    "a list without items": (OK + b'\r\n{"kind":"PodList","apiVersion":"v1","metadata":{', b'"x":"y",'),
    "items": (OK + b"\r\n" + page()[:-2], POD + b","),
    "one item": (OK + b"\r\n" + page()[:-2] + b'{"metadata":{"name":"', b"x"),
    "brackets": (OK + b"\r\n", b"["),
    "an error": (b"HTTP/1.1 500 Sorry\r\n\r\n", b"sorry "),
    "an error as a Status": (b'HTTP/1.1 403 Forbidden\r\n\r\n{"kind":"Status","message":"', b"sorry "),
    "a header": (OK + b"X-Long: ", b"x"),
    "headers": (OK, b"X-Many: yes\r\n"),
    "a status line": (b"HTTP/1.1 200 ", b"OK"),
}


@pytest.mark.parametrize("answer", LISTS)
async def test_a_list_without_end(answer: str):
    """When a LIST never ends, in whatever part, it should be an error after a bounded number of bytes."""
    endless = Endless(*LISTS[answer])
    with mock.patch("informer._http.PAGE_BYTES", 4 * MIB):
        async with endless.source() as source:
            with pytest.raises(ApiError) as refused:
                await source.list(ListOptions())
    assert endless.sent < 16 * MIB
    assert len(str(refused.value)) < 1200


@pytest.mark.parametrize(
    ("begin", "again"),
    [(OK + b'\r\n{"type":"ADDED","object":{"metadata":{"name":"big"},"x":"', b"x"), (OK + b"\r\n", b"x")],
    ids=["an object", "no event"],
)
async def test_a_line_without_end(begin: bytes, again: bytes):
    """When a line of a watch never ends, it should be an error near `max_object_bytes`."""
    endless = Endless(begin, again)
    async with endless.source(max_object_bytes=MIB) as source:
        with pytest.raises(ItemTooLargeError):
            async with source.watch(WatchOptions(resource_version="1")) as events:
                async for _ in events:
                    pass
    assert endless.sent < 16 * MIB


async def test_a_page_that_is_just_small_enough():
    """When a page is as large as it may be, it should be read."""
    body = page(*({"metadata": {"name": f"p{n}", "namespace": "b", "resourceVersion": "1"}} for n in range(100)))
    async with FakeApiServer([PODS]) as server, server.api_client() as client:
        from informer.testing import faults, match

        server.faults.add(match("list"), faults.Answer(200, body), times=2)
        source = ApiListerWatcher(client, PODS)
        with mock.patch("informer._http.PAGE_BYTES", len(body)):
            assert len((await source.list(ListOptions())).items) == 100
        with (
            mock.patch("informer._http.PAGE_BYTES", len(body) - 1),
            pytest.raises(ApiError, match=f"larger than {len(body) - 1} bytes"),
        ):
            await source.list(ListOptions())


async def test_the_quarantine_is_bounded():
    """When very many large objects are bad, again and again, the kept bytes should stay within the limit."""
    numbers: Iterator[int] = count()

    def large(version: str) -> bytes:
        n = next(numbers)
        meta = {"name": f"p{n % 50}", "namespace": "default", "uid": f"u{n}", "resourceVersion": version}
        return json.dumps({"metadata": meta, "spec": {"timeout": "1", "x": "y" * 20_000}}).encode()

    quarantine = Quarantine(max_bytes=200_000)
    async with FakeApiServer([PODS]) as server, server.api_client() as client:
        source = DegradedListerWatcher(
            ApiListerWatcher(client, PODS), checks=[checks.duration("spec.timeout")], quarantine=quarantine
        )
        async with SharedInformer(source) as informer:
            await informer.wait_for_sync(timeout=10)
            for n in range(300):
                server.put_raw(PODS, f"p{n % 50}", large)
                if n % 20 == 0:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(1)
            await informer.relist()
            assert len(quarantine) == len(informer.lister.withheld()) == 50
            held = [*quarantine.values(), *informer.lister.withheld()]
            kept = {id(entry.content): len(entry.content.raw or b"") for entry in held}
            assert 100_000 < sum(kept.values()) <= 200_000
