"""The verbs of one resource over HTTP: from a request's path and body to the store and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import define

from informer.testing import _status
from informer.testing._exchange import Exchange
from informer.testing._lists import list_page, selection
from informer.testing._objects import Objects, Served
from informer.testing._requests import RecordedRequest
from informer.testing._status import StatusError

_PATCHES = ("application/json-patch+json", "application/merge-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"


@define(eq=False)
class Handlers:
    """Answers everything but WATCH and foreign subresources."""

    objects: Objects

    async def handle(self, exchange: Exchange, served: Served) -> None:
        """Answer by verb; raises the refusal's StatusError."""
        request = exchange.request
        if request.subresource not in ("", "status") or (request.subresource and not served.has_status):
            raise _status.no_such_resource()
        key = (request.namespace, request.name)
        match request.verb:
            case "list":
                await exchange.answer(200, list_page(self.objects.history, served, request))
            case "get":
                await exchange.answer(200, served.get(key).whole)
            case "create" if not request.name:
                await exchange.answer(201, self._create(request, served))
            case "update" if request.name:
                await exchange.answer(200, self._update(request, served))
            case "patch" if request.name:
                await exchange.answer(200, self._patch(request, served))
            case "delete" if not request.subresource:
                await exchange.answer(200, self._delete(request, served))
            case "deletecollection":
                await exchange.answer(200, self._delete_collection(request, served))
            case _:
                raise _status.method_not_allowed()

    def _create(self, request: RecordedRequest, served: Served) -> bytes:
        obj = _object(request, served)
        if served.resource.namespaced and not request.namespace:
            raise _status.method_not_allowed()
        return self.objects.create(served, request.namespace, obj, dry_run=_dry_run(request)).whole

    def _update(self, request: RecordedRequest, served: Served) -> bytes:
        obj, key = _object(request, served), (request.namespace, request.name)
        served.get(key)
        if not served.built_in and not (obj.get("metadata") or {}).get("resourceVersion"):
            fault = ("metadata.resourceVersion", "Invalid value", "0: must be specified for an update")
            raise _status.invalid(served.resource, request.name, served.kind, [fault])
        return self.objects.update(served, key, obj, subresource=request.subresource, dry_run=_dry_run(request)).whole

    def _patch(self, request: RecordedRequest, served: Served) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind not in _PATCHES and not (kind == _STRATEGIC and served.built_in):
            accepted = ", ".join((*_PATCHES, *([_STRATEGIC] if served.built_in else [])))
            message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            raise StatusError(415, "UnsupportedMediaType", message)
        patch, key = _json(request.body, "error decoding patch"), (request.namespace, request.name)
        wanted = list if kind == _PATCHES[0] else dict
        if not isinstance(patch, wanted) or (wanted is list and not all(isinstance(step, dict) for step in patch)):
            raise _status.bad_request(
                f"error decoding patch: a {kind} must be a JSON {'list' if wanted is list else 'object'}"
            )
        return self.objects.patch(served, key, patch, subresource=request.subresource, dry_run=_dry_run(request)).whole

    def _delete(self, request: RecordedRequest, served: Served) -> Any:
        key, options = (request.namespace, request.name), _delete_options(request)
        uid = served.get(key).metadata.get("uid", "")
        dry_run = _dry_run(request) or bool(options.get("dryRun"))
        left = self.objects.delete(served, key, preconditions=options.get("preconditions"), dry_run=dry_run)
        if left is not None:
            return left.whole
        return _status.success(_status.details(served.resource, request.name, uid=uid))

    def _delete_collection(self, request: RecordedRequest, served: Served) -> bytes:
        selected = selection(served, request)
        page = list_page(self.objects.history, served, request)
        for key, stored in sorted(served.table.objects.items()):
            if selected(stored):
                self.objects.delete(served, key, dry_run=_dry_run(request))
        return page


def _dry_run(request: RecordedRequest) -> bool:
    return request.query.get("dryRun") == "All"


def _json(body: bytes, trouble: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise _status.bad_request(f"{trouble}: {error}") from None


def _object(request: RecordedRequest, served: Served) -> Mapping[str, Any]:
    trouble = f"the object provided is unrecognized (must be of type {served.kind})"
    obj = _json(request.body, f"{trouble}: couldn't get version/kind; json parse error")
    if not isinstance(obj, dict):
        raise _status.bad_request(f"{trouble}: it is no JSON object")
    found = (obj.get("kind"), obj.get("apiVersion"))
    if found != (served.kind, served.api_version) and not (served.built_in and found == (None, None)):
        raise _status.bad_request(
            f"{trouble}: it says kind {found[0]!r} and apiVersion {found[1]!r}, not {served.kind!r} and {served.api_version!r}"
        )
    return obj


def _delete_options(request: RecordedRequest) -> Mapping[str, Any]:
    options = _json(request.body, "error decoding DeleteOptions") if request.body else {}
    if not isinstance(options, dict):
        raise _status.bad_request("error decoding DeleteOptions: it is no JSON object")
    return options
