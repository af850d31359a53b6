"""One GET at a time over the caller's `ApiClient`: checked status, our own deadlines, lines of any length, errors as ApiError.

aiohttp is imported inside functions: it costs 0.1 s, and whoever has an `ApiClient` has paid for it already.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import Any

from informer import _client, _wire
from informer._redirects import RedirectedError
from informer.errors import ApiError, ItemTooLargeError

CONNECT_TIMEOUT = 10.0
"""Seconds for a free connection of the client's pool and for the TCP and TLS handshakes, together."""
ERROR_BYTES = 64 << 10
"""How much of an error body is read."""
_ERROR_SECONDS = 5.0
_MESSAGE_CHARACTERS = 1000
# Bytes of a stream taken at a time. All that has arrived may be megabytes, which to copy would hold the loop.
_BATCH = 64 << 10
_REASON_CHARACTERS = 100
PAGE_BYTES = 2 << 30
"""How large one page of a LIST may be, so that a body without an end does not fill memory until `LIST_TIMEOUT`. Generous on
purpose: a server may answer a list of 400,000 objects of 5 kB in one page."""


@contextmanager
def errors_as_api_error(what: str, seconds: float) -> Iterator[None]:
    """What the client raises becomes an ApiError that says what was asked for; `seconds` is for a TimeoutError's text."""
    import aiohttp  # noqa: PLC0415 - see the module's docstring

    try:
        yield
    except aiohttp.ServerTimeoutError as error:
        hint = "each open watch holds one of the client's connections, see connection_pool_maxsize"
        message = f"{what}: no connection within {CONNECT_TIMEOUT:g} s ({hint}): {_describe(error)}"
        raise ApiError(message, reason="Timeout") from error
    except TimeoutError as error:
        raise ApiError(f"{what}: no answer within {seconds:g} s", reason="Timeout") from error
    except aiohttp.ClientResponseError as error:
        # Not as the cause: it carries the request with its headers, the token among them, and shows them in its repr.
        raise ApiError(f"{what}: {_describe(error)}", reason="ConnectionError") from None
    except aiohttp.ClientPayloadError as error:  # its own text speaks of a 400 that nobody sent
        raise ApiError(f"{what}: the connection broke in the middle of the answer", reason="ConnectionError") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ApiError(f"{what}: {_describe(error)}", reason="ConnectionError") from error
    except ApiError:
        raise
    except RedirectedError as error:
        raise ApiError(f"{what}: {_one_line(str(error))}", status=error.status, reason="Redirected") from None
    except Exception as error:
        if (refused := _client.refusal(error)) is None:
            raise
        raise status_error(what, refused[0], b"", refused[1]) from error


@asynccontextmanager
async def get(
    api: Any,
    path: str,
    query: Mapping[str, str],
    *,
    what: str,
    first_byte: float,
    headers: Mapping[str, str],
    sensitive: bool = False,
) -> AsyncIterator[Any]:
    """A GET whose answer is 200. Leaving the context never leaves a half-read connection behind.

    A redirect is an error. An API server has none for a LIST or WATCH, so it is a proxy's login page or a takeover, and what
    stands at its end must not become the cache, nor get what the request carries.

    The deadlines are timers of our own: aiohttp's `sock_read` does not fire in every state of a connection.

    Raises:
        ApiError: any other status, no answer within `first_byte` seconds, or no connection.
    """
    import aiohttp  # noqa: PLC0415 - see the module's docstring

    limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
    headers = {"Accept": "application/json", **headers}
    with errors_as_api_error(what, first_byte):
        async with asyncio.timeout(first_byte):
            response = await _client.send(api, "GET", path, query=query, headers=headers, timeout=limits)
    try:
        _keep_alive(response)
        if response.status != 200:
            with errors_as_api_error(what, _ERROR_SECONDS):
                body = await _read_some(response)
            raise status_error(what, response.status, body, response.headers, sensitive=sensitive)
        yield response
    finally:
        # A connection may be used again only when its answer has been read to the end.
        if response.content.at_eof():
            response.release()
        else:
            response.close()


async def read_body(response: Any, what: str = "GET") -> bytearray:
    """The whole body, in one buffer that grows: a list of chunks to join would need the memory twice.

    Raises:
        ApiError: more than `PAGE_BYTES`.
    """
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > PAGE_BYTES:
            raise ApiError(f"{what}: the answer is larger than {PAGE_BYTES} bytes", reason="UnreadableAnswer")
    return body


@contextmanager
def deadline(response: Any, seconds: float, what: str) -> Iterator[None]:
    """Whoever reads the response after so many seconds gets an ApiError, and the connection is closed."""

    def expire() -> None:
        message = f"{what}: the server did not end the watch; the connection seems dead after {seconds:.0f} s"
        response.content.set_exception(ApiError(message, reason="Timeout"))
        response.close()

    timer = asyncio.get_running_loop().call_later(seconds, expire)
    try:
        yield
    finally:
        timer.cancel()


class Lines:
    """The lines of a response, split at byte 0x0A only (U+2028 inside a string is no line break), in linear time.

    while await lines.more():
        for data, start, end in lines:
            ...

    Attributes:
        fragment: what stood after the last line break when the stream ended.
        delivered: how many lines have been handed out.
    """

    def __init__(self, response: Any, max_bytes: int, what: str) -> None:
        self._content = response.content
        self._max = max_bytes
        self._what = what
        self._parts: list[bytes] = []
        self._size = 0
        self._data = b""
        self._at = 0
        self.delivered = 0

    @property
    def fragment(self) -> bytes:
        return b"".join((*self._parts, self._data[self._at :]))

    async def more(self) -> bool:
        """Read until there is a whole line; False at the end of the stream.

        The beginning of a line is set aside, so that it is looked at once only, however long it gets.
        """
        while self._data.find(b"\n", self._at) < 0:
            if part := self._data[self._at :]:
                self._parts.append(part)
                self._size += len(part)
            self._data, self._at = b"", 0
            if self._size > self._max:
                raise self._too_large(self.fragment)
            self._data = await self._read()
            if not self._data:
                return False
        return True

    def __iter__(self) -> Iterator[tuple[bytes, int, int]]:
        """The whole lines that are there, each by its place: a line is `data[start:end]`, which most readers need not copy."""
        # Not `split`: at a single byte it looks at each byte by itself, which takes 4 µs for a line of 5 kB.
        while (end := self._data.find(b"\n", self._at)) >= 0:
            data, start = self._data, self._at
            self._at = end + 1
            if self._parts:
                data = b"".join((*self._parts, data[start:end]))
                start, end = 0, len(data)
                self._parts, self._size = [], 0
            if end - start > self._max:
                raise self._too_large(data[start:end])
            # Servers and proxies send empty lines to keep a stream alive.
            if end - start > 1 or data[start:end] not in (b"", b"\r"):
                self.delivered += 1
                yield data, start, end

    async def rest(self, line: bytes) -> bytes:
        """The line just handed out and what follows it, bounded in size and time: for a body that holds no events."""
        body = bytearray(b"\n".join((line, self.fragment)))
        try:
            async with asyncio.timeout(_ERROR_SECONDS):
                while len(body) < ERROR_BYTES and (chunk := await self._read()):
                    body += chunk
        except (TimeoutError, ApiError):
            pass  # what came before may say enough
        return bytes(body[:ERROR_BYTES])

    async def _read(self) -> bytes:
        with errors_as_api_error(self._what, 0):
            chunk: bytes = await self._content.read(_BATCH)
        return chunk

    def _too_large(self, line: bytes) -> ItemTooLargeError:
        # Inside `metadata`: any other name may be a value, such as one of a Secret. A quote in a string comes escaped.
        found = re.search(rb'"metadata":\{(?:"[^"\\{}]*":"[^"\\{}]*",)*"name":"([^"\\]{1,253})"', line[:ERROR_BYTES])
        name = f" (an object named {found[1].decode('utf-8', 'replace')!r})" if found else ""
        return ItemTooLargeError(f"{self._what}: a line of more than {self._max} bytes{name}; raise max_object_bytes")


def status_error(
    what: str, http_status: int, body: bytes, headers: Mapping[str, str], *, sensitive: bool = False
) -> ApiError:
    """What an answer other than the one hoped for says: a Status in JSON, or any text; of `sensitive` ones no such text."""
    status = _wire.read_status(body)
    waits = [wait for wait in (_retry_after(headers), status.retry_after if status else None) if wait is not None]
    retry_after = max(waits, default=None)
    if status is None and http_status == 200:
        # It may be a piece of anything, an object's content included: only enough of it to recognise a proxy's page.
        shown = _wire.excerpt(body, 40) if body.lstrip()[:1] == b"<" else f"{len(body)} bytes that are no JSON"
        return ApiError(f"{what}: unreadable answer: {shown}", reason="UnreadableAnswer", retry_after=retry_after)
    if status is None:
        text = (
            f"{len(body)} bytes that are no Status"
            if sensitive
            else _one_line(body.decode("utf-8", "replace")) or "an empty answer"
        )
        reason = _REASONS.get(http_status, "")
        return ApiError(f"{what}: {text}", status=http_status, reason=reason, retry_after=retry_after)
    return from_status(what, status, http_status=http_status, retry_after=retry_after, sensitive=sensitive)


def from_status(
    what: str,
    status: _wire.Status,
    *,
    http_status: int = 200,
    retry_after: float | None = None,
    sensitive: bool = False,
) -> ApiError:
    """A Status as an exception; inside an answer of 200 its own code counts."""
    code = http_status if http_status != 200 else status.code or 500
    message = _QUOTED.sub("(not shown: the resource is sensitive)", status.message) if sensitive else status.message
    return ApiError(
        f"{what}: {_one_line(message) or 'no message'}",
        status=code,
        reason=_one_line(status.reason)[:_REASON_CHARACTERS] or _REASONS.get(code, ""),
        causes=status.causes,
        retry_after=retry_after if retry_after is not None else status.retry_after,
    )


# Reasons the API server gives, for answers that come without one: from proxies, and 429 as plain text.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, or an HTTP date, which is read against the response's own Date: our clock may differ."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        seconds = (parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, seconds)


async def _read_some(response: Any) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_ERROR_SECONDS):
            while len(body) < ERROR_BYTES and (chunk := await response.content.readany()):
                body += chunk
    except TimeoutError:
        pass
    return bytes(body[:ERROR_BYTES])


def _keep_alive(response: Any) -> None:
    """Let the kernel notice a peer that vanished (half-open connections behind proxies, kubernetes#65012)."""
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        return
    with suppress(OSError):  # the connection may be gone already, or be no TCP
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):  # not every platform has all three
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# What Go's JSON decoders quote of the bytes they cannot read.
_QUOTED = re.compile(r"error found in #\d+ byte of .*|parsing \d+ .*|invalid character .*", re.DOTALL)
# Credentials that a proxy or an exception may repeat: in a URL, or as the value of a header.
_CREDENTIALS = re.compile(
    r"(?<=://)[^/@\s]+(?=@)|(?<=\bbearer )\s*[^\s\"',;<>]+|(?<=\bbasic )\s*[A-Za-z0-9+/=]{8,}", re.IGNORECASE
)


def _describe(error: BaseException) -> str:
    text = _one_line(str(error))
    reset = getattr(error, "os_error", None)
    if isinstance(reset, OSError) and not reset.strerror:
        # aiohttp writes "[None]" for a connection that ends in the middle of the handshake.
        text = f"{text.removesuffix(' [None]')} [{_describe(reset)}]"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _one_line(text: str) -> str:
    """Printable, one line, bounded: what a server says ends up in log lines."""
    clean = "".join(c if c.isprintable() else " " for c in text[: _MESSAGE_CHARACTERS + 1])
    clean = _CREDENTIALS.sub("***", " ".join(clean.split()))
    return clean if len(text) <= _MESSAGE_CHARACTERS else f"{clean[:_MESSAGE_CHARACTERS]}…"
