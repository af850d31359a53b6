"""A Kubernetes API server in your test process: real HTTP, any resource, and every kind of trouble on request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from informer.resource import Resource
from informer.testing import _status
from informer.testing._exchange import End, Exchange
from informer.testing._front import Front, SubresourceHandler
from informer.testing._requests import RecordedRequest
from informer.testing._rules import Faults
from informer.testing._site import Site
from informer.testing._watches import OpenWatch, WatchRules, WatchServer
from informer.testing.cluster import FakeCluster
from informer.testing.virtual import now as loop_now

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient


class FakeApiServer(FakeCluster):
    """An API server with its store, its log of changes and its watches, without etcd, controllers and admission.

    Use it as `async with FakeApiServer(resources=[...]) as server:`, or `start()` and `stop()` it; what is stored outlives a
    stop. It lives on the running loop and takes its time from there, so that on a virtual-time loop minutes cost nothing.
    Objects are created and changed over HTTP or, without a round trip, with the methods of `FakeCluster`.

    What it leaves out: namespaces need not exist, defaults are not filled in, server-side apply answers 415, and a
    strategic merge patch (built-in kinds) is applied as a merge patch.

    Args:
        resources: what to serve; more with `add_resource`.
        host: address to listen on.
        port: 0 for any free one; the port is kept over stop and start.
        bookmark_period: seconds between bookmarks of a watch that allows them; None for none.
        now: the wall clock for timestamps and the Date header; by default it moves with a virtual loop.
        seed: for uids and generated names, which repeat from run to run.
        git_version: what `/version` says.

    Attributes:
        requests: every request so far, oldest first.
        faults: what shall go wrong; see `informer.testing.faults`.
        watch_rules: how watches behave: bookmarks, streaming lists, expiry.
    """

    def __init__(
        self,
        resources: Iterable[Resource] = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        bookmark_period: float | None = 60.0,
        now: Callable[[], datetime] = loop_now,
        seed: int = 0,
        git_version: str = "v1.34.0",
    ) -> None:
        super().__init__(resources, now=now, seed=seed)
        self.faults = Faults()
        self.watch_rules = WatchRules(bookmark_period=bookmark_period)
        self._site = Site(self._answer, now, host, port)
        self.requests: list[RecordedRequest] = self._site.requests
        self._watches = WatchServer(self._history, self.watch_rules, self._random, self._site.tell)
        self._front = Front(self, self._served, self._objects, self._watches, self.faults, git_version)

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Listen; again on the same port after a `stop`."""
        await self._site.start()

    async def stop(self) -> None:
        """Cut all connections and refuse new ones. The data stay."""
        await self._site.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://{self._site.host}:{self._site.port}"

    def api_client(self, *, token: str | None = None) -> ApiClient:
        """A new kubernetes-asyncio client for this server, to be used with `async with`."""
        from kubernetes_asyncio.client import ApiClient, Configuration  # noqa: PLC0415  # 0.3 s and 72 MB

        configuration = Configuration(host=self.url)
        if token is not None:
            configuration.api_key = {"BearerToken": f"Bearer {token}"}
        return ApiClient(configuration)

    def kubeconfig(self, path: str | Path, *, token: str | None = None) -> Path:
        """Write a kubeconfig (as JSON, which is YAML) for kubectl and other programs; returns its path."""
        user = {} if token is None else {"token": token}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": user}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
        path = Path(path)
        path.write_text(json.dumps(config, indent=2))
        return path

    # ------------------------------------------------------------------ clients

    def lists(self, resource: Resource | None = None) -> list[RecordedRequest]:
        """The LIST requests so far, each page counted."""
        return self._asked("list", resource)

    def watches(self, resource: Resource | None = None) -> list[RecordedRequest]:
        """The WATCH requests so far."""
        return self._asked("watch", resource)

    @property
    def open_connections(self) -> int:
        """Connections that clients hold, idle ones included."""
        return self._site.open_connections

    def open_watches(self, resource: Resource | None = None) -> int:
        """Watches being served now."""
        return len(self._open(resource))

    async def wait_until(self, condition: Callable[[], bool], *, timeout: float = 60.0) -> None:  # noqa: ASYNC109  # part of the message
        """Wait until a condition over this server holds; it is asked again with each request, answer and watch.

        Raises:
            TimeoutError: not in so many seconds of the loop's time; shows the last requests.
        """
        await self._site.wait_until(condition, timeout)

    def send_to_watches(self, data: bytes, resource: Resource | None = None) -> None:
        """Send foreign bytes, such as a poisoned line, to all open watches (of a resource)."""
        for watch in self._open(resource):
            watch.order(self._history.version, data)

    def end_watches(self, resource: Resource | None = None, *, end: End = End.CLOSE) -> None:
        """End all open watches (of a resource): properly, cut off, reset, or silent with the socket open."""
        for watch in self._open(resource):
            watch.order(self._history.version, end)

    def expire_watches(self, resource: Resource | None = None) -> None:
        """End all open watches (of a resource) with an ERROR event 410 Expired."""
        for watch in self._open(resource):
            body = _status.watch_expired(watch.position, self._history.version).body
            watch.order(self._history.version, b'{"type":"ERROR","object":' + _status.to_bytes(body) + b"}\n")
            watch.order(self._history.version, End.CLOSE)

    # ------------------------------------------------------------------ who may do what

    @property
    def tokens(self) -> set[str] | None:
        """The bearer tokens that are let in; None lets everybody in. Open watches are not asked again."""
        return self._front.tokens

    @tokens.setter
    def tokens(self, tokens: set[str] | None) -> None:
        self._front.tokens = tokens

    def forbid(self, resource: Resource, *verbs: str, namespace: str | None = None) -> None:
        """Answer 403 to these verbs (none: to all), in a namespace or everywhere, until `allow`."""
        self._front.forbid(resource, verbs, namespace)

    def allow(self, resource: Resource) -> None:
        """Take back every `forbid` of a resource."""
        self._front.allow(resource)

    def add_subresource(self, resource: Resource, name: str, handler: SubresourceHandler) -> None:
        """Serve POSTs to a subresource, such as `eviction` of pods."""
        self._find(resource).subresources[name] = handler

    def remove_resource(self, resource: Resource) -> None:
        """Stop serving a resource, as deleting its CRD does: its objects are deleted, its watches end, its paths are 404."""
        super().remove_resource(resource)
        self.end_watches(resource)

    def restore(self, version: str) -> None:
        """Go back to an earlier version, counter and all, as after an etcd restore; open watches are cut off.

        A client that watches on from a later version hears nothing until the counter has caught up (kubernetes#107457).
        """
        super().restore(version)
        self.end_watches(end=End.DROP)

    async def _answer(self, exchange: Exchange) -> None:
        await self._front.answer(exchange)

    def _asked(self, verb: str, resource: Resource | None) -> list[RecordedRequest]:
        return [one for one in self.requests if one.verb == verb and (resource is None or one.asks_for(resource))]

    def _open(self, resource: Resource | None) -> list[OpenWatch]:
        return [one for one in self._watches.open if resource is None or one.request.asks_for(resource)]
