"""What a client asked for: the request log, and how a URL path is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from attrs import define, field

from informer.resource import Resource

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})  # as Go reads a bool
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})


@define(eq=False)
class RecordedRequest:
    """One request as the server saw it.

    Attributes:
        method: HTTP method.
        path: URL path, decoded.
        query: URL parameters.
        headers: with lower-case names and without credentials.
        time: `loop.time()` when it arrived.
        body: the body's bytes.
        verb: `list`, `watch`, `get`, `create`, `update`, `patch`, `delete`, `deletecollection`, as RBAC calls it; empty
            for paths that name no resource.
        group: of the resource asked for; empty for other paths, and for the core group.
        version: of the resource.
        plural: of the resource.
        namespace: empty for all namespaces and cluster-scoped resources.
        name: the object's name, empty for a collection.
        subresource: such as `status` or `eviction`.
        status: HTTP status of the answer; None while (or if) there is none.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    time: float
    body: bytes = field(default=b"", repr=False)
    verb: str = ""
    group: str = ""
    version: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    status: int | None = None

    @classmethod
    def read(
        cls, method: str, raw_path: str, query: Mapping[str, str], headers: Mapping[str, str], time: float, body: bytes
    ) -> RecordedRequest:
        """Understand a request; paths that are none of the API's are recorded with an empty verb."""
        shown = {name.lower(): value for name, value in headers.items() if name.lower() not in _SECRET_HEADERS}
        record = cls(method, unquote(raw_path), dict(query), shown, time, body)
        parts = [unquote(part) for part in raw_path.strip("/").split("/")]
        if parts[0] == "api" and len(parts) > 2:
            record.version, rest = parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            record.group, record.version, rest = parts[1], parts[2], parts[3:]
        else:
            return record
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            record.namespace, rest = rest[1], rest[2:]
        record.plural, record.name, record.subresource = rest[0], "".join(rest[1:2]), "/".join(rest[2:])
        record.verb = record._verb()
        return record

    @property
    def wants_watch(self) -> bool:
        """Whether `watch` is set to anything Go takes for true."""
        return self.query.get("watch", "") in _TRUE

    def asks_for(self, resource: Resource) -> bool:
        """Whether this is a request for that resource or its objects."""
        return (self.group, self.version, self.plural) == (resource.group, resource.version, resource.plural)

    def flag(self, name: str) -> bool:
        """A boolean URL parameter."""
        return self.query.get(name, "") in _TRUE

    def _verb(self) -> str:
        if self.method in ("GET", "HEAD"):
            return "watch" if self.wants_watch else "get" if self.name else "list"
        if self.method == "DELETE" and not self.name:
            return "deletecollection"
        return _VERBS.get(self.method, self.method.lower())
