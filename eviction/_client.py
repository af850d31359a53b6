"""One request through the caller's client, which is kubernetes-asyncio's `ApiClient` or the official package's `kubernetes.aio`.

The two differ in one thing only: the official client serialises a request before it takes it, and wraps the response.
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol

from eviction import _redirects

# What aiohttp says, each depending on how far it was, when a session is closed before a request has its connection. Whoever gives
# a client another certificate does so, and it is no bug then.
_CLOSED_UNDER_WAY = (AssertionError, AttributeError, RuntimeError)


class CallsApi(Protocol):
    """What is used of a client: `kubernetes_asyncio.client.ApiClient` or `kubernetes.aio.client.ApiClient`."""

    async def call_api(self, resource_path: str, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """Send one request; the aiohttp response comes back as it is."""


async def send(api_client: Any, method: str, path: str, *, timeout: float, **request: Any) -> Any:  # noqa: ASYNC109
    """The aiohttp response whatever its status, unread; it is the caller's to release or close. Only a redirect is none.

    Neither client repeats a POST: kubernetes-asyncio nothing at all, the official one what is safe to repeat
    (`configuration.retries`).

    Args:
        api_client: The client.
        method: `GET` or `POST`.
        path: From the server's root, its parts quoted.
        timeout: Seconds, handed to the client, which then closes the connection as well.
        request: `query_params`, `header_params`, `body`, as both clients name them.

    Raises:
        TypeError: The client is the official package's other one, which blocks.
        RedirectedError: The answer is a redirect, which is not followed.
        ConnectionResetError: The client got another session meanwhile.
    """
    request["auth_settings"] = ["BearerToken"]
    serialize = getattr(api_client, "param_serialize", None)
    if serialize is not None and not inspect.iscoroutinefunction(serialize):
        raise TypeError(
            f"{type(api_client).__module__}.{type(api_client).__qualname__} blocks the event loop; use"
            " kubernetes.aio.client.ApiClient of the same package, or kubernetes_asyncio.client.ApiClient"
        )
    session = getattr(api_client, "rest_client", None)
    try:
        with _redirects.refused(api_client):
            if serialize is not None:
                ready = await serialize(method, path, **request)
                response = (await api_client.call_api(*ready, _request_timeout=timeout)).response
            else:
                # The client would decode an error's body as strict UTF-8 and lose the refusal over a bad byte.
                response = await api_client.call_api(
                    path, method, **request, _preload_content=False, _request_timeout=timeout
                )
    except _CLOSED_UNDER_WAY as error:
        if getattr(api_client, "rest_client", None) is session:
            raise
        raise ConnectionResetError("the client's session was replaced while the request was under way") from error
    _redirects.require_direct(response)
    return response
