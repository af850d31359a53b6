"""What kinds a server has, read from its discovery documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field, frozen

from informer import _http, _wire
from informer.api import CallsApi
from informer.errors import ApiError
from informer.resource import Resource

_SECONDS = 30.0
_AT_ONCE = 10
# One document for all groups, from servers of 1.30 and newer (KEP-3352); others answer with their list of groups.
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@frozen
class Kind:
    """One kind in one version, as discovery names it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    verbs: frozenset[str] = frozenset()

    def is_called(self, name: str) -> bool:
        """Whether this is its full name, in lower case: plural, singular or kind."""
        return name in {self.plural, self.singular, self.kind.lower()}

    @property
    def full_name(self) -> str:
        """`plural.version.group`."""
        return ".".join(part for part in (self.plural, self.version, self.group) if part)

    def resource(self) -> Resource:
        """The resource of this kind.

        Raises:
            ValueError: the server names it in a way that cannot be asked for.
        """
        return Resource(self.group, self.version, self.plural, kind=self.kind, namespaced=self.namespaced)


@define
class Catalogue:
    """Asks for documents as they are needed.

    Attributes:
        failures: groups that did not answer, such as one whose aggregated API server is down; the others still count.
    """

    _api: CallsApi
    failures: dict[str, ApiError] = field(factory=dict)
    _parts: list[Sequence[Kind]] = field(factory=list, init=False)
    _whole: bool = field(default=False, init=False)

    async def kinds(self, group: str, version: str) -> Sequence[Kind]:
        """The kinds of one version of a group; empty when the server has no such.

        Raises:
            ApiError: any other answer than a list or 404.
        """
        try:
            found = await document(self._api, f"{_root(group)}/{version}")
        except ApiError as error:
            if error.status == 404:
                return ()
            raise
        return [kind for entry in _objects(found, "resources") if (kind := _classic(group, version, entry)) is not None]

    async def versions(self, group: str) -> Sequence[str]:
        """The versions of a group, the preferred one first; empty when the server has no such group.

        Raises:
            ApiError: any other answer than a list or 404.
        """
        try:
            found = await document(self._api, _root(group))
        except ApiError as error:
            if error.status == 404:
                return ()
            raise
        return _versions(found) if group else _texts(found, "versions")

    async def everything(self) -> AsyncIterator[Sequence[Kind]]:
        """All kinds: first those of every group's preferred version, then the others. Asked once, then remembered.

        Raises:
            ApiError: the server has no documents at all.
        """
        for part in self._parts:
            yield part
        if not self._whole:
            async for part in self._asked(len(self._parts)):
                self._parts.append(part)
                yield part
            self._whole = True

    async def _asked(self, skip: int) -> AsyncIterator[Sequence[Kind]]:
        if skip == 0 and (modern := await self._aggregated()) is not None:
            for part in modern:
                yield part
            return
        groups = await self._groups()
        for number in range(skip, 2):
            some = slice(1) if number == 0 else slice(1, None)
            yield await self._of({group: versions[some] for group, versions in groups.items()})

    async def _aggregated(self) -> tuple[Sequence[Kind], Sequence[Kind]] | None:
        preferred: list[Kind] = []
        others: list[Kind] = []
        for root in ("/api", "/apis"):
            try:
                found = await document(self._api, root, accept=_AGGREGATED)
            except ApiError as error:
                if error.status in {404, 406}:
                    return None
                raise
            if found.get("kind") != "APIGroupDiscoveryList":
                return None
            for group in _objects(found, "items"):
                name = str((group.get("metadata") or {}).get("name") or "")
                for number, version in enumerate(_objects(group, "versions")):
                    if version.get("freshness") == "Stale":
                        self.failures[name] = ApiError("its API server does not answer", status=503)
                    (others if number else preferred).extend(_modern(name, version))
        return preferred, others

    async def _groups(self) -> Mapping[str, Sequence[str]]:
        groups: dict[str, Sequence[str]] = {}
        if core := await self.versions(""):
            groups[""] = core
        try:
            found = await document(self._api, "/apis")
        except ApiError as error:
            if error.status != 404:
                raise
            # A server of custom resources alone (an apiextensions-apiserver) keeps no list of groups; its CRDs are one.
            for group in sorted(
                {_text(crd.get("spec"), "group") for crd in _objects(await document(self._api, _CRDS), "items")}
            ):
                groups[group] = await self.versions(group)
            groups["apiextensions.k8s.io"] = ("v1",)
            return groups
        return groups | {_text(group, "name"): _versions(group) for group in _objects(found, "groups")}

    async def _of(self, groups: Mapping[str, Sequence[str]]) -> Sequence[Kind]:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(group: str, version: str) -> Sequence[Kind]:
            async with limit:
                try:
                    return await self.kinds(group, version)
                except ApiError as error:
                    self.failures[group] = error
                    return ()

        asked = [ask(group, version) for group, versions in groups.items() for version in versions]
        return [kind for kinds in await asyncio.gather(*asked) for kind in kinds]


async def document(api: CallsApi, path: str, *, accept: str = "application/json") -> Mapping[str, Any]:
    """One JSON object of the server's.

    Raises:
        ApiError: another status than 200, or no JSON object.
    """
    what = f"get {path}"
    async with _got(api, path, what, accept) as response:
        with _http.errors_as_api_error(what, _SECONDS):
            async with asyncio.timeout(_SECONDS):
                body = bytes(await _http.read_body(response))
    try:
        found = _wire.decode_json(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _http.status_error(what, 200, body[: _http.ERROR_BYTES], {})
    return found


@asynccontextmanager
async def _got(api: CallsApi, path: str, what: str, accept: str) -> AsyncIterator[Any]:
    async with _http.get(api, path, {}, what=what, first_byte=_SECONDS, headers={"Accept": accept}) as response:
        yield response


def _root(group: str) -> str:
    return f"/apis/{group}" if group else "/api"


def _classic(group: str, version: str, entry: Mapping[str, Any]) -> Kind | None:
    plural = _text(entry, "name")
    if not plural or "/" in plural:  # a subresource
        return None
    return Kind(
        group,
        version,
        plural,
        _text(entry, "kind"),
        bool(entry.get("namespaced")),
        _text(entry, "singularName"),
        tuple(_texts(entry, "shortNames")),
        frozenset(_texts(entry, "verbs")),
    )


def _modern(group: str, version: Mapping[str, Any]) -> Iterator[Kind]:
    for entry in _objects(version, "resources"):
        yield Kind(
            group,
            _text(version, "version"),
            _text(entry, "resource"),
            _text(entry.get("responseKind"), "kind"),
            entry.get("scope") == "Namespaced",
            _text(entry, "singularResource"),
            tuple(_texts(entry, "shortNames")),
            frozenset(_texts(entry, "verbs")),
        )


def _versions(group: Mapping[str, Any]) -> Sequence[str]:
    preferred = _text(group.get("preferredVersion"), "version")
    named = [_text(version, "version") for version in _objects(group, "versions")]
    return sorted((name for name in named if name), key=lambda name: name != preferred)


# The documents come from a server, so nothing about their form is taken for granted.


def _objects(found: Any, name: str) -> Iterable[Mapping[str, Any]]:
    entries = found.get(name) if isinstance(found, Mapping) else None
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _texts(found: Mapping[str, Any], name: str) -> Sequence[str]:
    entries = found.get(name)
    return [entry for entry in entries if isinstance(entry, str)] if isinstance(entries, list) else []


def _text(found: Any, name: str) -> str:
    text = found.get(name) if isinstance(found, Mapping) else None
    return text if isinstance(text, str) else ""
