"""The API server's refusals, in its own shapes: `v1.Status` bodies taken from Kubernetes 1.20 and 1.36 servers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from informer.resource import Resource

Json = Mapping[str, Any]

NO_SUCH_RESOURCE = "the server could not find the requested resource"
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the "
    "continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with "
    "the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time "
    "the first chunk was returned and now may show up in the list."
)


class StatusError(Exception):
    """A refusal with the `v1.Status` that says so. Raised by `FakeApiServer`'s Python methods, and by subresource handlers.

    Attributes:
        code: HTTP status.
        reason: machine-readable reason, such as `NotFound`; may be empty.
        body: the whole Status.
        headers: additional response headers, such as `Retry-After`.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        metadata: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.headers = dict(headers or {})
        self.body = status_body(code, reason, message, details=details, metadata=metadata)


def status_body(
    code: int, reason: str, message: str, *, details: Json | None = None, metadata: Json | None = None
) -> dict[str, Any]:
    """A failure's `v1.Status` as a dict; empty reason and absent details are left out, as Go does."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": dict(metadata or {}), "status": "Failure"}
    body["message"] = message
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = dict(details)
    body["code"] = code
    return body


def success(details: Json) -> dict[str, Any]:
    """The Status that answers a completed DELETE."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": dict(details)}


def group_resource(resource: Resource) -> str:
    """`widgets.example.test`, or `pods` in the core group: how messages name a resource."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def group_kind(resource: Resource, kind: str) -> str:
    """`Widget.example.test`: how messages of validation and preconditions name a resource."""
    return f"{kind}.{resource.group}" if resource.group else kind


def details(resource: Resource, name: str = "", *, kind: str = "", **more: Any) -> dict[str, Any]:
    """The details of a Status; `kind` stands for the plural, except in validation and preconditions."""
    parts = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {**{key: value for key, value in parts.items() if value}, **more}


def no_such_resource() -> StatusError:
    """404: nobody serves this path; a removed CRD looks like this."""
    return StatusError(404, "NotFound", NO_SUCH_RESOURCE, details={})


def method_not_allowed() -> StatusError:
    """405: the path exists, the verb does not."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def not_found(resource: Resource, name: str) -> StatusError:
    """404: no such object."""
    message = f'{group_resource(resource)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=details(resource, name))


def already_exists(resource: Resource, name: str) -> StatusError:
    """409: the name is taken."""
    message = f'{group_resource(resource)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=details(resource, name))


def conflict(resource: Resource, name: str, why: str = _MODIFIED, *, kind: str = "") -> StatusError:
    """409: the writer has seen an older object, or another life of it."""
    named = group_kind(resource, kind) if kind else group_resource(resource)
    message = f'Operation cannot be fulfilled on {named} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=details(resource, name, kind=kind))


def bad_request(message: str) -> StatusError:
    """400: the request itself makes no sense."""
    return StatusError(400, "BadRequest", message)


def invalid(resource: Resource, name: str, kind: str, faults: Sequence[tuple[str, str, str]]) -> StatusError:
    """422: validation failed. Each fault is (field path, kind of fault such as `Forbidden`, text)."""
    said = [f"{path}: {fault}: {text}" for path, fault, text in faults]
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    message = f'{group_kind(resource, kind)} "{name}" is invalid: {text}'
    causes = [
        {"reason": _FAULTS.get(fault, "FieldValueInvalid"), "message": f"{fault}: {text}", "field": path}
        for path, fault, text in faults
    ]
    return StatusError(422, "Invalid", message, details=details(resource, name, kind=kind, causes=causes))


_FAULTS = {
    "Forbidden": "FieldValueForbidden",
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
}
_LIST_OPTIONS = Resource("meta.k8s.io", "v1", "listoptions", kind="ListOptions")


def invalid_options(faults: Sequence[tuple[str, str, str]]) -> StatusError:
    """422: query parameters that exclude each other."""
    return invalid(_LIST_OPTIONS, "", "ListOptions", faults)


def unauthorized() -> StatusError:
    """401: the token is not (or no longer) good."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(
    resource: Resource, name: str, verb: str, namespace: str, user: str, subresource: str = ""
) -> StatusError:
    """403: RBAC says no."""
    named = f' "{name}"' if name else ""
    what = f"{resource.plural}/{subresource}" if subresource else resource.plural
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = (
        f'{group_resource(resource)}{named} is forbidden: User "{user}" cannot {verb} resource "{what}" '
        f'in API group "{resource.group}" {scope}'
    )
    return StatusError(403, "Forbidden", message, details=details(resource, name))


def watch_expired(version: int, oldest: int) -> StatusError:
    """410: the events after this version are forgotten."""
    return StatusError(410, "Expired", f"too old resource version: {version} ({oldest})")


def list_expired() -> StatusError:
    """410: the exact version asked for is forgotten."""
    return StatusError(410, "Expired", "The resourceVersion for the provided list is too old.")


def continue_expired(token: str) -> StatusError:
    """410: the snapshot behind a continue token is forgotten; carries a token for an inconsistent remainder."""
    return StatusError(410, "Expired", _CONTINUE_EXPIRED, metadata={"continue": token})


def version_too_large(version: int, current: int) -> StatusError:
    """504: the version asked for is ahead of this server."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        details={"causes": causes, "retryAfterSeconds": 1},
        headers={"Retry-After": "1"},
    )


def to_bytes(value: Any, *, pretty: bool = False) -> bytes:
    """JSON as a Go server writes it: compact, or indented by two spaces for a browser or curl."""
    if pretty:
        return json.dumps(value, indent=2).encode()
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate can only be written escaped
        return json.dumps(value, separators=(",", ":")).encode()
