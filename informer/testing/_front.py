"""The way of a request into the server: faults first, then who it is, what it may, and who answers it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import Factory, define, frozen

from informer.resource import Resource
from informer.testing import _discovery, _status
from informer.testing._exchange import Exchange
from informer.testing._handlers import Handlers
from informer.testing._objects import Objects, Served
from informer.testing._requests import RecordedRequest
from informer.testing._rules import Faults
from informer.testing._watches import WatchServer

if TYPE_CHECKING:
    from informer.testing.server import FakeApiServer

USER = "system:serviceaccount:default:operator"


@frozen
class SubresourceCall:
    """What the handler of a subresource gets, such as the one for `pods/eviction`.

    Attributes:
        server: to read and change objects.
        resource: the parent resource.
        namespace: empty when cluster-scoped.
        name: the parent object's name.
        body: the decoded body, None when there is none.
        request: everything else that was asked.
    """

    server: FakeApiServer
    resource: Resource
    namespace: str
    name: str
    body: Any
    request: RecordedRequest


SubresourceHandler: TypeAlias = Callable[[SubresourceCall], Awaitable[tuple[int, Any]]]
"""Answers with HTTP status and JSON body, or raises `StatusError`."""


@frozen
class _Denial:
    resource: Resource
    verbs: tuple[str, ...]
    namespace: str | None

    def __call__(self, request: RecordedRequest) -> bool:
        return (
            request.asks_for(self.resource)
            and (not self.verbs or request.verb in self.verbs)
            and self.namespace in (None, request.namespace)
        )


@define(eq=False)
class Front:
    """Answers every request, or raises the `StatusError` that does."""

    server: FakeApiServer
    served: Mapping[tuple[str, str, str], Served]
    objects: Objects
    watches: WatchServer
    faults: Faults
    git_version: str
    tokens: set[str] | None = None
    denials: list[_Denial] = Factory(list)

    async def answer(self, exchange: Exchange) -> None:
        """Answer, unless a fault does."""
        fault = self.faults.take(exchange.request)
        if fault is None:
            await self._serve(exchange)
        else:
            await fault(exchange, lambda: self._serve(exchange))

    def forbid(self, resource: Resource, verbs: tuple[str, ...], namespace: str | None) -> None:
        """Refuse these verbs (none: all of them) from now on."""
        self.denials.append(_Denial(resource, verbs, namespace))

    def allow(self, resource: Resource) -> None:
        """Take every refusal for a resource back."""
        self.denials = [denial for denial in self.denials if denial.resource != resource]

    async def _serve(self, exchange: Exchange) -> None:
        request = exchange.request
        if self.tokens is not None and exchange.bearer_token not in self.tokens:
            raise _status.unauthorized()
        if not request.verb:
            await self._discover(exchange)
            return
        served = self.served.get((request.group, request.version, request.plural))
        if served is None or (request.namespace and not served.resource.namespaced):
            raise _status.no_such_resource()
        if any(denial(request) for denial in self.denials):
            raise _status.forbidden(
                served.resource, request.name, request.verb, request.namespace, USER, request.subresource
            )
        if handler := served.subresources.get(request.subresource):
            await self._call(handler, exchange, served)
        elif request.verb == "watch":
            await self.watches.serve(exchange, served)
        else:
            await Handlers(self.objects).handle(exchange, served)

    async def _discover(self, exchange: Exchange) -> None:
        found = _discovery.document(exchange.request.path, self.served.values(), self.git_version)
        if found is None:
            raise _status.no_such_resource()
        await exchange.answer(200, found, content_type="text/plain" if isinstance(found, str) else "application/json")

    async def _call(self, handler: SubresourceHandler, exchange: Exchange, served: Served) -> None:
        request = exchange.request
        if request.method != "POST":
            raise _status.method_not_allowed()
        try:
            body = json.loads(request.body) if request.body else None
        except ValueError as error:
            raise _status.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
        call = SubresourceCall(self.server, served.resource, request.namespace, request.name, body, request)
        code, answer = await handler(call)
        await exchange.answer(code, answer)
