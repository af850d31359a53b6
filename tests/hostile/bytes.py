"""Hostile bytes as hypothesis strategies, and a client in memory that answers with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, define
from hypothesis import strategies as st

from informer import Resource

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")

# Values that no JSON text may hold, or that readers stumble over; with its brackets and quotes in order, so that the item
# around it can be split off.
POISON = [
    b"NaN",
    b"-Infinity",
    b"9" * 5000,
    b"-" + b"1" * 20_000,
    b"1e400",
    b"0." + b"0" * 5000 + b"1",
    b"[" * 3000 + b"]" * 3000,
    b'{"a":' * 1500 + b"1" + b"}" * 1500,
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    b'"\x00\x01\x1b[31m"',
    b'"\\x41"',
    b'"\\u12"',
    b"tru",
    b"",
    b"01",
    b"+1",
    b"1 2",
    b"{1:2}",
    b'{"a":1,}',
    b"[,]",
    b"'a'",
    b'"' + b"a" * 300_000 + b'"',
    b'"\xe2\x80\xa8\xc2\x85"',
    b'{"metadata":{"name":"another"}}',
    b'[{"kind":"Status","message":"]}"}]',
    b'"\\"}]"',
    b'"\\\\"',
]
# Names and texts that a shell, a terminal or a log reader would act upon.
NASTY = [
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a\ntouch pwned\n",
    "a\r\ntouch pwned",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "--kubeconfig=/etc/passwd",
    "-n",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egnp.exe",
    "\u2028\u2029\x85",
    "\x00",
    "\ud800",
    "a b\tc",
    "~",
    "*",
    "{a,b}",
    "#",
    "!x",
    "%s%d{x}",
    "a" * 300,
    "é日本",
    "",
]
NASTY_TEXT = st.sampled_from(NASTY) | st.text(max_size=20)


def item(name: str, version: str = "7", *, poison: bytes | None = None, where: str = "spec") -> bytes:
    """An object on the wire; `poison` is the value of one of its members."""
    meta = f'"name":{json.dumps(name)},"namespace":"default","uid":"u","resourceVersion":"{version}"'.encode()
    if poison is None:
        return b'{"metadata":{' + meta + b'},"spec":{"timeout":"1m"}}'
    return {
        "spec": b'{"metadata":{' + meta + b'},"spec":{"timeout":"1m","x":' + poison + b"}}",
        "before": b'{"x":' + poison + b',"metadata":{' + meta + b"}}",
        "label": b'{"metadata":{"labels":{"x":' + poison + b"}," + meta + b"}}",
        "annotation": b'{"metadata":{' + meta + b',"annotations":{"x":' + poison + b"}}}",
        "name": b'{"metadata":{"namespace":"default","resourceVersion":"9","name":' + poison + b"}}",
        "version": b'{"metadata":{"name":"v","namespace":"default","resourceVersion":' + poison + b"}}",
        "metadata": b'{"metadata":' + poison + b"}",
        "twice": b'{"metadata":{"name":"other","x":' + poison + b'},"metadata":{' + meta + b"}}",
        "whole": poison,
    }[where]


PLACES = ["spec", "before", "label", "annotation", "name", "version", "metadata", "twice", "whole"]
HOSTILE_ITEM = st.builds(
    lambda name, poison, where: item(name, poison=poison, where=where),
    st.sampled_from(["h1", "h2", "h3"]),
    st.sampled_from(POISON),
    st.sampled_from(PLACES),
)


def page(items: Sequence[bytes], version: bytes = b'"5"') -> bytes:
    head = (
        b'{"kind":"WidgetList","apiVersion":"example.test/v1","metadata":{"resourceVersion":' + version + b'},"items":['
    )
    return head + b",".join(items) + b"]}"


@st.composite
def mutated(draw: st.DrawFn, whole: bytes) -> bytes:
    """A few bytes of a body taken away, doubled, or replaced."""
    body = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, max(0, len(body) - 1))), draw(st.integers(0, 12))
        piece = draw(
            st.binary(max_size=4) | st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\n", b"\xff"])
        )
        body[at : at + length] = piece * draw(st.integers(0, 3))
    return bytes(body)


@define(eq=False)
class Content:
    chunks: list[bytes]

    async def readany(self) -> bytes:
        await asyncio.sleep(0)
        return self.chunks.pop(0) if self.chunks else b""

    async def read(self, _: int) -> bytes:
        return await self.readany()

    def at_eof(self) -> bool:
        return not self.chunks

    def set_exception(self, error: BaseException) -> None:
        raise AssertionError(error)


@define(eq=False)
class Response:
    content: Content
    status: int = 200
    headers: Mapping[str, str] = Factory(dict)
    connection: None = None
    history: tuple[()] = ()

    def release(self) -> None:
        """The connection goes back to the pool."""

    def close(self) -> None:
        """The connection is closed."""


@define(eq=False)
class Client:
    """Answers every request with the same bytes, in chunks."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = Factory(dict)
    chunk: int = 1 << 20

    async def call_api(self, resource_path: str, method: str, /, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        chunks = [self.body[at : at + self.chunk] for at in range(0, len(self.body), self.chunk)]
        return Response(Content(chunks), self.status, self.headers)
