"""No request of ours follows a redirect: what it carries stays with its host, and what stands at the end is no answer.

aiohttp takes the client's own headers, its certificate and the body along, wherever it is sent. Neither client's `call_api` can
tell it not to, so the client's session gets one more trace, which aiohttp asks before it follows. It speaks up only in requests of
ours; others over the same session are as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.parse import urljoin, urlsplit

_ours: ContextVar[bool] = ContextVar("_ours", default=False)


class RedirectedError(Exception):
    """The answer is a redirect.

    Attributes:
        status: of the answer.
    """

    def __init__(self, status: int, target: str) -> None:
        super().__init__(
            f"redirected to {target}; an API server never redirects, so this is a proxy, a login page or a wrong address:"
            " make `server` of the kubeconfig (`host` of the Configuration) the API server's own"
        )
        self.status = status


@contextmanager
def refused(api: Any) -> Iterator[None]:
    """A redirect inside the block is an error before anything is sent to its target.

    An object that only passes `call_api` on has no session to be found, unless it passes `rest_client` on as well. There
    `require_direct` refuses what comes back, after the fact.

    Raises:
        RedirectedError: as said.
    """
    traces = getattr(_session(api), "trace_configs", None)
    # By identity: a new session, such as one made for a new certificate, has none yet.
    if isinstance(traces, list) and not any(trace is _trace() for trace in traces):
        traces.append(_trace())
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def require_direct(response: Any) -> None:
    """Refuse, and close, what was followed all the same.

    Raises:
        RedirectedError: the answer comes from where a redirect led.
    """
    if history := getattr(response, "history", ()):
        response.close()
        raise RedirectedError(history[0].status, _origin(str(response.url), ""))


def _session(api: Any) -> Any:
    """The aiohttp session. The official client makes it with the first request, which would be too late here.

    `_create_pool_manager` is there to be overridden, so calling it keeps what a user's subclass does. A client that has
    another way some day is seen to by `require_direct` in its first request, and by the trace from the second one on.
    """
    rest = getattr(api, "rest_client", None)
    session = getattr(rest, "pool_manager", None)
    if rest is not None and session is None and (make := getattr(rest, "_create_pool_manager", None)) is not None:
        session = rest.pool_manager = make()
    return session


@cache
def _trace() -> Any:
    import aiohttp  # noqa: PLC0415 - 0.1 s, and whoever has a client has paid for it already

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse)
    trace.freeze()
    return trace


async def _refuse(_session: Any, _context: Any, redirect: Any) -> None:
    if _ours.get():
        response = redirect.response
        location = response.headers.get("Location") or response.headers.get("URI") or ""
        response.close()  # older versions of aiohttp would leave it to the garbage collector
        raise RedirectedError(response.status, _origin(str(response.url), location))


def _origin(here: str, location: str) -> str:
    """Scheme, host and port: a path and a query may hold a login's secrets, as does what stands before the host."""
    try:
        parts = urlsplit(urljoin(here, location))
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
