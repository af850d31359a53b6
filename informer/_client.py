"""One request through the caller's client, which is kubernetes-asyncio's `ApiClient` or the official package's `kubernetes.aio`.

The two differ in one thing only: the official client serialises a request before it takes it, and wraps the response.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from informer import _redirects

AUTH = ("BearerToken",)
# What aiohttp says, each depending on how far it was, when a session is closed before a request has its connection. Whoever gives
# a client another certificate does so, and it is no bug then.
_CLOSED_UNDER_WAY = (AssertionError, AttributeError, RuntimeError)


def require_usable(api: Any) -> None:
    """Refuse a client that could never work at once, and not with its first request.

    Raises:
        TypeError: it blocks: the official package's other client.
        ValueError: it was made before a configuration was loaded, so it has no server.
    """
    serialize = getattr(api, "param_serialize", None)
    if serialize is not None and not inspect.iscoroutinefunction(serialize):
        raise TypeError(
            f"{type(api).__module__}.{type(api).__qualname__} blocks the event loop; use kubernetes.aio.client.ApiClient"
            " of the same package, or kubernetes_asyncio.client.ApiClient"
        )
    if getattr(getattr(api, "configuration", None), "host", None) == "":
        raise ValueError(
            "the ApiClient has no server: load a configuration first, such as `await kubernetes_asyncio.config.load_config()`,"
            " and make the ApiClient after that"
        )


async def send(
    api: Any,
    method: str,
    path: str,
    *,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    timeout: Any,  # noqa: ASYNC109 - handed to the client, which then closes the connection as well
    body: Any = None,
) -> Any:
    """The aiohttp response whatever its status, unread; it is the caller's to release or close. Only a redirect is none.

    Args:
        api: the client.
        method: `GET`, `POST` ….
        path: from the server's root, its parts quoted.
        query: plain text; the client quotes it.
        headers: beside those of the client.
        timeout: an `aiohttp.ClientTimeout`, or seconds for the whole request.
        body: what is sent as JSON.

    Raises:
        RedirectedError: the answer is a redirect, which is not followed.
        ConnectionResetError: the client got another session meanwhile.
    """
    request: dict[str, Any] = {
        "query_params": list(query.items()),
        "header_params": dict(headers),
        "body": body,
        "auth_settings": list(AUTH),
    }
    session = getattr(api, "rest_client", None)
    try:
        with _redirects.refused(api):
            if hasattr(api, "param_serialize"):
                ready = await api.param_serialize(method, path, **request)
                response = (await api.call_api(*ready, _request_timeout=timeout)).response
            else:
                response = await api.call_api(path, method, **request, _preload_content=False, _request_timeout=timeout)
    except _CLOSED_UNDER_WAY as error:
        if getattr(api, "rest_client", None) is session:
            raise
        raise ConnectionResetError("the client's session was replaced while the request was under way") from error
    _redirects.require_direct(response)
    return response


def refusal(error: BaseException) -> tuple[int, Mapping[str, str]] | None:
    """Status and headers, if this is an answer that a client raised instead of returning it; None for anything else.

    The official client does so after retries of its own, which `configuration.client_go_retries` switches on.
    """
    status = getattr(error, "status", None)
    return (status, getattr(error, "headers", None) or {}) if isinstance(status, int) and status else None
