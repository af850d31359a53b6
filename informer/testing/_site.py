"""The listening socket and its connections: started, stopped and started again on the same port."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from aiohttp import web
from attrs import Factory, define

from informer.testing._exchange import Ended, Exchange
from informer.testing._requests import RecordedRequest
from informer.testing._status import StatusError

_log = logging.getLogger("informer.testing")


class _Web(web.Server):
    """aiohttp's server, which also tells when connections come and go."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.open: dict[web.RequestHandler, asyncio.Transport] = {}
        self.tell: Callable[[], None] = lambda: None

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self.open[handler] = transport
        self.tell()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.open.pop(handler, None)
        self.tell()


@define(eq=False)
class Site:
    """Turns HTTP requests into exchanges, and ends whatever is open when it stops.

    Attributes:
        answer: answers one exchange, or raises `StatusError`.
        now: the wall clock for the Date header.
        requests: every request so far, oldest first.
        port: 0 before the first start; then kept.
    """

    answer: Callable[[Exchange], Awaitable[None]]
    now: Callable[[], datetime]
    host: str
    port: int
    requests: list[RecordedRequest] = Factory(list)
    _web: _Web | None = None
    _listener: asyncio.Server | None = None
    _handlers: set[asyncio.Task[None]] = Factory(set)
    _news: asyncio.Event = Factory(asyncio.Event)

    async def start(self) -> None:
        """Listen."""
        if self._listener is not None:
            raise RuntimeError("the server is already running")
        # A handler must end with its connection: watches and stalled answers would stay for ever.
        self._web = _Web(self._handle, handler_cancellation=True, access_log=None)
        self._web.tell = self.tell
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._web, self.host, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the listener and cut every connection, as a killed process does."""
        listener, server, self._listener, self._web = self._listener, self._web, None, None
        if listener is None or server is None:
            return
        listener.close()
        for transport in list(server.open.values()):
            transport.abort()
        while self._handlers:
            await asyncio.wait(set(self._handlers))
        await server.shutdown(0)
        await listener.wait_closed()

    @property
    def open_connections(self) -> int:
        """Connections that clients hold, idle ones included."""
        return len(self._web.open) if self._web else 0

    def tell(self) -> None:
        """Let `wait_until` look again."""
        self._news.set()

    async def wait_until(self, condition: Callable[[], bool], timeout: float) -> None:  # noqa: ASYNC109  # part of the message
        """Wait until the condition holds; it is asked whenever a connection, request or watch comes or goes."""
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            last = "".join(f"\n  {request}" for request in self.requests[-5:])
            raise TimeoutError(f"not in {timeout:g} s; the last requests were:{last or ' none'}") from None

    async def _handle(self, http: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            body = await http.content.read()
            time = asyncio.get_running_loop().time()
            record = RecordedRequest.read(http.method, http.rel_url.raw_path, http.query, http.headers, time, body)
            self.requests.append(record)
            self.tell()
            exchange = Exchange(record, self.now, http)
            await self._answer(exchange)
            return exchange.response
        finally:
            self._handlers.discard(task)
            self.tell()

    async def _answer(self, exchange: Exchange) -> None:
        try:
            try:
                await self.answer(exchange)
            except StatusError as error:
                await exchange.refuse(error)
            except (Ended, ConnectionError):
                raise
            except Exception as error:
                _log.exception("answering %s %s failed", exchange.request.method, exchange.request.path)
                if exchange.started:
                    raise
                message = f"Internal error occurred: {type(error).__name__}: {error}"
                await exchange.refuse(
                    StatusError(500, "InternalError", message, details={"causes": [{"message": str(error)}]})
                )
        except Ended as ended:
            await exchange.finish(ended.end)
        except ConnectionError:
            pass  # the client left in the middle of a write
