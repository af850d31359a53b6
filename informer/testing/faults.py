"""Everything that goes wrong between a client and its API server, as small parts that can be combined.

A fault is an async callable that gets the exchange and a function that goes on with the proper answer. The classes here
cover the incidents known from issue trackers; any function of that shape will do. All waiting is on the loop's clock.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from attrs import field, frozen

from informer.testing import _status
from informer.testing._exchange import End, Ended, Exchange, Send

__all__ = [
    "Answer",
    "Cut",
    "Delay",
    "Drip",
    "DropEvents",
    "End",
    "Exchange",
    "Fault",
    "Inject",
    "NoAnswer",
    "Pass",
    "Script",
    "Together",
    "Wait",
    "status_answer",
]

Proceed: TypeAlias = Callable[[], Awaitable[None]]


class Fault(Protocol):
    """What a fault is: it answers itself, or changes the exchange and proceeds."""

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        """Play the fault once."""


@frozen
class Pass:
    """No fault: lets a request through, so that the next one can be hit."""

    async def __call__(self, _exchange: Exchange, proceed: Proceed, /) -> None:
        """Play it."""
        await proceed()


@frozen
class Delay:
    """The proper answer, so many seconds late."""

    seconds: float

    async def __call__(self, _exchange: Exchange, proceed: Proceed, /) -> None:
        """Play it."""
        await asyncio.sleep(self.seconds)
        await proceed()


@frozen
class Answer:
    """A whole answer of your own: an overloaded proxy's text, a login page, a Status.

    Attributes:
        status: HTTP status.
        body: bytes, text, or what is to be JSON.
        content_type: the Content-Type header.
        headers: further headers, such as Retry-After.
        pretty: indent the JSON, as servers do for some clients (kube-rs/kube#1986).
    """

    status: int = 200
    body: Any = b""
    content_type: str = field(kw_only=True, default="application/json")
    headers: Mapping[str, str] = field(kw_only=True, factory=dict)
    pretty: bool = field(kw_only=True, default=False)

    async def __call__(self, exchange: Exchange, _proceed: Proceed, /) -> None:
        """Play it."""
        body = self.body
        if not isinstance(body, bytes | str):
            body = _status.to_bytes(body, pretty=self.pretty)
        await exchange.answer(self.status, body, content_type=self.content_type, headers=self.headers)


def status_answer(
    code: int,
    reason: str,
    message: str,
    *,
    causes: Sequence[Mapping[str, str]] = (),
    retry_after: int | None = None,
    pretty: bool = False,
) -> Answer:
    """A refusal shaped as the API server's: a Status, with `Retry-After` also as a header."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = [dict(cause) for cause in causes]
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    body = _status.status_body(code, reason, message, details=details or None)
    return Answer(code, body, headers=headers, pretty=pretty)


@frozen
class Wait:
    """In a script: so many seconds of silence."""

    seconds: float


@frozen(init=False)
class Script:
    """An answer written step by step: bytes (each one a chunk), `Wait(seconds)`, and at last an `End`; without one, CLOSE.

    `Script()` is the clean end of an empty body (kubernetes#104171); `Script(half, End.STALL)` half a body, then silence.
    """

    steps: tuple[bytes | Wait | End, ...]
    status: int
    content_type: str
    headers: Mapping[str, str]

    def __init__(
        self,
        *steps: bytes | Wait | End,
        status: int = 200,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.__attrs_init__(steps, status, content_type, headers or {})

    async def __call__(self, exchange: Exchange, _proceed: Proceed, /) -> None:
        """Play it."""
        await exchange.start(self.status, content_type=self.content_type, headers=self.headers)
        for step in self.steps:
            match step:
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case End():
                    raise Ended(step)
                case _:
                    await exchange.write(step)
        await exchange.finish(End.CLOSE)


@frozen
class NoAnswer:
    """The connection was accepted and the request read, but not even headers come back.

    Attributes:
        end: `STALL` for silence, `RESET` or `DROP` for a server that died.
    """

    end: End = End.STALL

    async def __call__(self, _exchange: Exchange, _proceed: Proceed, /) -> None:
        """Play it."""
        raise Ended(self.end)


def _lines(data: bytes) -> list[bytes]:
    # Not splitlines(), which would also cut at a carriage return.
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


@frozen(kw_only=True)
class Cut:
    """The proper answer, cut off after so many bytes or complete lines of its body.

    Attributes:
        after_bytes: how many bytes pass.
        after_lines: how many lines pass; of a watch, how many events.
        then: how it ends.
    """

    after_bytes: int | None = None
    after_lines: int | None = None
    then: End = End.RESET

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        """Play it."""
        count_bytes, count_lines = 0, 0

        async def cut(data: bytes, send: Send) -> None:
            nonlocal count_bytes, count_lines
            kept = data
            if self.after_lines is not None:
                lines = _lines(data)
                kept = b"".join(lines[: self.after_lines - count_lines])
                count_lines += data.count(b"\n")
            if self.after_bytes is not None:
                kept = kept[: max(0, self.after_bytes - count_bytes)]
                count_bytes += len(kept)
            await send(kept)
            if (
                len(kept) < len(data)
                or (self.after_lines is not None and count_lines >= self.after_lines)
                or (self.after_bytes is not None and count_bytes >= self.after_bytes)
            ):
                raise Ended(self.then)

        exchange.filters.append(cut)
        await proceed()


@frozen
class Drip:
    """The proper answer, slowly and in small chunks.

    Attributes:
        bytes_per_second: the pace; None for no waiting, when only the chunks matter.
        chunk: bytes in each HTTP chunk.
    """

    bytes_per_second: float | None = None
    chunk: int = 1

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        """Play it."""

        async def drip(data: bytes, send: Send) -> None:
            for at in range(0, len(data), self.chunk):
                piece = data[at : at + self.chunk]
                if self.bytes_per_second:
                    await asyncio.sleep(len(piece) / self.bytes_per_second)
                await send(piece)

        exchange.filters.append(drip)
        await proceed()


@frozen
class Inject:
    """The proper answer, with foreign bytes put in after so many of its lines (0: at its beginning)."""

    data: bytes
    after_lines: int = field(kw_only=True, default=0)

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        """Play it."""
        lines, done = 0, False

        async def inject(data: bytes, send: Send) -> None:
            nonlocal lines, done
            if not done and lines >= self.after_lines:
                done = True
                await send(self.data)
            await send(data)
            lines += data.count(b"\n")
            if not done and lines >= self.after_lines:
                done = True
                await send(self.data)

        exchange.filters.append(inject)
        await proceed()


@frozen
class DropEvents:
    """The proper watch, without the lines the predicate chooses; by default without any."""

    when: Callable[[bytes], bool] = lambda _line: True

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        """Play it."""

        async def drop(data: bytes, send: Send) -> None:
            await send(b"".join(line for line in _lines(data) if not self.when(line)))

        exchange.filters.append(drop)
        await proceed()


@frozen(init=False)
class Together:
    """Several faults at once; the first is nearest to the client."""

    faults: tuple[Fault, ...]

    def __init__(self, *faults: Fault) -> None:
        self.__attrs_init__(faults)

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        """Play it."""

        async def rest() -> None:
            await Together(*self.faults[1:])(exchange, proceed)

        await (self.faults[0](exchange, rest) if self.faults else proceed())
