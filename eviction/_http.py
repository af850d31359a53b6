"""One request through the caller's ApiClient, and which version of Eviction its server speaks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from eviction import _client
from eviction._answer import Answer, of_response
from eviction._client import CallsApi
from eviction._redirects import RedirectedError

V1: Final = "policy/v1"
V1BETA1: Final = "policy/v1beta1"


async def request(
    api_client: CallsApi,
    method: str,
    path: str,
    *,
    timeout: float,  # noqa: ASYNC109 - handed to the client, which then closes the connection as well
    query: Sequence[tuple[str, str]] = (),
    body: Any = None,
) -> tuple[int, Any, bytes]:
    """Status, headers and body of one answer, whatever its status. Never sent twice: the client retries no POST.

    A redirect is not followed: of a POST a GET could become, and of a login page's 200 an eviction that never was.
    """
    try:
        response = await _client.send(
            api_client,
            method,
            path,
            timeout=timeout,
            query_params=list(query),
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=body,
        )
    except RedirectedError as redirect:
        return redirect.status, {}, str(redirect).encode()
    try:
        content: bytes = await response.read()
    except BaseException:
        response.close()
        raise
    response.release()
    return response.status, response.headers, content


_versions: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


async def eviction_version(api_client: CallsApi, *, timeout: float) -> str:  # noqa: ASYNC109 - as above
    """`policy/v1`, or `policy/v1beta1` where discovery says so (servers before 1.22). Asked once per client."""
    try:
        known = _versions.get(api_client)
    except TypeError:  # cannot be remembered by, so it is not worth a request each time
        return V1
    if known is None:
        try:
            status, _, body = await request(api_client, "GET", "/api/v1", timeout=timeout)
            known = _served(json.loads(body)) if status == 200 else V1
        except Exception:  # noqa: BLE001 - only a preparation: whatever is wrong, the eviction itself will say it
            return V1
        remember_version(api_client, known)
    return known


def remember_version(api_client: CallsApi, version: str) -> None:
    """Use this version for this client from now on."""
    try:
        _versions[api_client] = version
    except TypeError:
        return


def refuses_version(answer: Answer) -> bool:
    """The server answers 400 and names the version it does not know: nothing was done, another may be sent."""
    return answer.status == 400 and V1 in answer.message


def eviction_body(version: str, namespace: str, name: str, uid: str, grace_period: int | None) -> dict[str, Any]:
    """The Eviction to post. The uid keeps it from hitting another pod that came back under the same name."""
    options: dict[str, Any] = {"preconditions": {"uid": uid}}
    if grace_period is not None:
        options["gracePeriodSeconds"] = grace_period
    return {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options,
    }


def no_answer(exc: Exception) -> bool:
    """Whether an exception is the network's or the server's doing. Anything else is a bug and must be seen."""
    from aiohttp import ClientError  # noqa: PLC0415 - importing `eviction` must not cost the import of aiohttp

    return isinstance(exc, (OSError, ClientError, UnicodeDecodeError)) or isinstance(getattr(exc, "status", None), int)


def answer_of(response: tuple[int, Any, bytes]) -> Answer:
    """The answer, taken apart."""
    status, headers, body = response
    return of_response(status, headers, body, fallback=f"HTTP {status}")


def _served(discovery: Any) -> str:
    resources = discovery.get("resources") if isinstance(discovery, dict) else None
    for resource in resources if isinstance(resources, list) else ():
        if isinstance(resource, dict) and resource.get("name") == "pods/eviction":
            return V1BETA1 if resource.get("version") == "v1beta1" else V1
    return V1
