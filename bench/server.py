"""A list/watch server that serves prebuilt bytes as fast as a client reads: `python -m bench.server OBJECTS [--stream]`.

Prints its port. `GET /api/v1/pods` lists (with `limit` in pages), `?watch=true` holds until `GET /go?k=K` makes it stream K
MODIFIED events, one HTTP chunk each as the API server writes them. `sendInitialEvents` is answered only with `--stream`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from bench.objects import FIRST_VERSION, template

# Events in one write: large enough that the server never is what a client waits for.
_BATCH = 200
_KIND = b'"kind":"Pod","apiVersion":"v1",'


class Server:
    """Objects as bytes, and the watches that are open."""

    def __init__(self, objects: int, *, streaming: bool) -> None:
        self._parts = [template(number) for number in range(objects)]
        self._streaming = streaming
        self._watches: list[asyncio.StreamWriter] = []
        self._version = FIRST_VERSION + objects

    def _item(self, number: int) -> bytes:
        before, after = self._parts[number]
        return b"%b%d%b" % (before, FIRST_VERSION + number, after)

    def _event(self, kind: bytes, number: int, version: int) -> bytes:
        before, after = self._parts[number]
        line = b'{"type":"%b","object":{%b%b%d%b}\n' % (kind, _KIND, before[1:], version, after)
        return b"%x\r\n%b\r\n" % (len(line), line)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                url = urlsplit(request.split(b" ", 2)[1].decode())
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                await self._answer(writer, url.path, query)
                await writer.drain()
        if writer in self._watches:
            self._watches.remove(writer)
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, path: str, query: dict[str, str]) -> None:
        if path == "/go":
            _send(writer, 200, [b"{}"])
            await writer.drain()
            await self._burst(int(query["k"]))
        elif path != "/api/v1/pods":
            _send(writer, 404, [b'{"kind":"Status","code":404,"message":"no such path"}'])
        elif query.get("watch") not in {"1", "true", "True"}:
            await self._list(writer, query)
        elif query.get("sendInitialEvents") == "true" and not self._streaming:
            _send(writer, 422, [b'{"kind":"Status","code":422,"reason":"Invalid","message":"no streaming lists"}'])
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
            if query.get("sendInitialEvents") == "true":
                await self._initial(writer)
            self._watches.append(writer)

    async def _list(self, writer: asyncio.StreamWriter, query: dict[str, str]) -> None:
        start = int(query.get("continue", "0"))
        end = min(len(self._parts), start + int(query.get("limit") or len(self._parts)))
        more = b',"continue":"%d"' % end if end < len(self._parts) else b""
        opening = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%d"%b},"items":['
        body = [opening % (self._version, more)]
        for number in range(start, end):
            body += (self._item(number), b",")
        body[-1] = b"]}"
        _send(writer, 200, body)

    async def _initial(self, writer: asyncio.StreamWriter) -> None:
        numbers = range(len(self._parts))
        for batch in _batches(numbers):
            writer.write(b"".join(self._event(b"ADDED", number, FIRST_VERSION + number) for number in batch))
            await writer.drain()
        line = (
            b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d",'
            b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n' % self._version
        )
        writer.write(b"%x\r\n%b\r\n" % (len(line), line))

    async def _burst(self, events: int) -> None:
        # Each burst begins at the list's version, since each is for a client that has just listed.
        for batch in _batches(range(events)):
            data = b"".join(
                self._event(b"MODIFIED", number % len(self._parts), self._version + 1 + number) for number in batch
            )
            for writer in self._watches:
                writer.write(data)
                await writer.drain()


def _batches(numbers: range) -> Iterator[range]:
    return (numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH))


def _send(writer: asyncio.StreamWriter, status: int, body: list[bytes]) -> None:
    head = b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    writer.write(b"".join((head % (status, sum(map(len, body))), *body)))


async def main(objects: int, *, streaming: bool) -> None:
    """Serve on a free port of the loopback until killed."""
    server = Server(objects, streaming=streaming)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 20)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]), streaming="--stream" in sys.argv))
