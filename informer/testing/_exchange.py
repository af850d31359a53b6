"""One request and its answer on the wire, where faults can change, delay and cut what is written."""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, NoReturn, TypeAlias

from aiohttp import web
from attrs import Factory, define

from informer.testing._requests import RecordedRequest
from informer.testing._status import StatusError, to_bytes

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
Filter: TypeAlias = Callable[[bytes, Send], Awaitable[None]]
"""Gets each piece of a body and passes on what it likes."""


class End(enum.Enum):
    """How an answer ends."""

    CLOSE = "close"
    """Properly: the last chunk is sent."""
    DROP = "drop"
    """The connection is closed (FIN) in the middle of the body."""
    RESET = "reset"
    """The connection is reset (RST), as by a crash or a firewall."""
    STALL = "stall"
    """Nothing more is ever sent, and the socket stays open."""


class Ended(Exception):  # noqa: N818  # it carries no error, it leaves the answer's code
    """Raised while writing when a fault has ended the answer."""

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


@define(eq=False)
class Exchange:
    """One request being answered. Faults and subresource handlers get it.

    Attributes:
        request: what was asked for.
        now: the server's wall clock.
        filters: what each piece of the body goes through, outermost last.
    """

    request: RecordedRequest
    now: Callable[[], datetime]
    _http: web.BaseRequest
    filters: list[Filter] = Factory(list)
    _response: web.StreamResponse | None = None

    @property
    def started(self) -> bool:
        """Whether headers were sent."""
        return self._response is not None

    @property
    def bearer_token(self) -> str:
        """The token the client showed; kept out of the request log."""
        kind, _, token = self._http.headers.get("Authorization", "").partition(" ")
        return token if kind == "Bearer" else ""

    async def start(
        self,
        status: int = 200,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        """Send the headers. Without a length, and always when a filter may change it, the body is chunked."""
        self.request.status = status
        response = web.StreamResponse(status=status)
        response.headers["Content-Type"] = content_type
        response.headers["Cache-Control"] = "no-cache, private"
        response.headers["Date"] = format_datetime(self.now().astimezone(UTC), usegmt=True)
        response.headers.update(headers or {})
        if length is None or self.filters:
            response.enable_chunked_encoding()
        else:
            response.content_length = length
        self._response = response
        await response.prepare(self._http)

    async def write(self, data: bytes) -> None:
        """Send a piece of the body, through the filters."""
        send: Send = self._send
        for one in self.filters:
            send = _through(one, send)
        await send(data)

    async def answer(
        self,
        status: int,
        body: Any,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a whole answer; what is neither bytes nor text goes out as JSON, indented for a client that asks for it."""
        if isinstance(body, str):
            body = body.encode()
        if not isinstance(body, bytes):
            body = to_bytes(body, pretty=self.request.flag("pretty"))
        await self.start(status, content_type=content_type, headers=headers, length=len(body))
        await self.write(body)
        await self.finish(End.CLOSE)

    async def refuse(self, error: StatusError) -> None:
        """Send a refusal's Status."""
        await self.answer(error.code, error.body, headers=error.headers)

    async def finish(self, end: End) -> None:
        """End the answer. Returns only from `CLOSE`: the other ways last until the connection is gone."""
        if end is End.CLOSE:
            if self._response is not None:
                await self._response.write_eof()
            return
        transport = self._http.transport
        if transport is not None and end is End.RESET:
            # A linger of zero seconds turns the close into a reset.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        elif transport is not None and end is End.DROP:
            transport.close()
        await _for_ever()

    async def _send(self, data: bytes) -> None:
        assert self._response is not None, "start() comes before write()"
        if data:
            await self._response.write(data)

    @property
    def response(self) -> web.StreamResponse:
        """What the HTTP server is told was sent."""
        return web.Response(status=500, text="the handler sent nothing") if self._response is None else self._response


def _through(one: Filter, send: Send) -> Send:
    async def sender(data: bytes) -> None:
        await one(data, send)

    return sender


async def _for_ever() -> NoReturn:
    # A closed connection, or the server's stop, cancels the handler.
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")
