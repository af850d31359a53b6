"""The state behind a fake API server: resources, objects with the API's rules, versions and history, without any HTTP."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, TypeAlias

from informer.resource import Resource
from informer.selectors import compile_label_selector
from informer.testing._history import History, Key
from informer.testing._objects import Objects, Served, Validator
from informer.testing.virtual import now as loop_now

PathParts: TypeAlias = tuple[str, str, str]


class FakeCluster:
    """Objects in memory that behave as an API server's: what `FakeApiServer` serves over HTTP and `FakeListerWatcher` without.

    Args:
        resources: what exists; more with `add_resource`.
        now: the wall clock for timestamps; by default it moves with a virtual loop.
        seed: for uids and generated names, which repeat from run to run.
    """

    def __init__(
        self, resources: Iterable[Resource] = (), *, now: Callable[[], datetime] = loop_now, seed: int = 0
    ) -> None:
        self._random = random.Random(seed)
        self._history = History()
        self._objects = Objects(self._history, now, self._random)
        self._served: dict[PathParts, Served] = {}
        for resource in resources:
            self.add_resource(resource)

    # ------------------------------------------------------------------ resources

    def add_resource(
        self,
        resource: Resource,
        *,
        status: bool = True,
        typed_items: bool = False,
        validate: Validator | None = None,
    ) -> None:
        """Serve a resource, as installing its CRD does.

        Args:
            resource: what to serve; give its `kind`, or it is guessed from the plural.
            status: whether it has a status subresource.
            typed_items: whether items inside a LIST carry `kind` and `apiVersion`: custom resources' do, built-in kinds'
                do not (kubernetes#3030).
            validate: judges each new state that comes by API; yields (field path, what is wrong).
        """
        path = _path(resource)
        if path in self._served:
            raise ValueError(f"{resource} is already served")
        kind = resource.kind or resource.plural.removesuffix("s").capitalize()
        self._served[path] = Served(resource, self._history.table(), kind, status, typed_items, validate)

    def remove_resource(self, resource: Resource) -> None:
        """Stop serving a resource, as deleting its CRD does: its objects are deleted, and its paths are 404."""
        served = self._find(resource)
        for key in list(served.table.objects):
            self._objects.remove(served, key)
        del self._served[_path(resource)]

    # ------------------------------------------------------------------ objects, without HTTP

    def create(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object and return it as stored. Its namespace is `metadata.namespace`, or `default`; status is kept.

        Raises:
            StatusError: as the API would refuse it.
        """
        served = self._find(resource)
        namespace = (obj.get("metadata") or {}).get("namespace")
        return self._objects.create(served, self._key(served, "", namespace)[0], obj, keep_status=True).copy()

    def update(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Replace an object, status included. Only a `metadata.resourceVersion` inside is compared.

        Raises:
            StatusError: as the API would refuse it.
        """
        served, meta = self._find(resource), obj.get("metadata") or {}
        key = self._key(served, meta.get("name", ""), meta.get("namespace"))
        return self._objects.update(served, key, obj, keep_status=True).copy()

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | list[dict[str, Any]],
        *,
        namespace: str | None = None,
    ) -> dict[str, Any]:
        """Apply a merge patch (a dict) or a JSON patch (a list), also to the status.

        Raises:
            StatusError: as the API would refuse it.
        """
        served = self._find(resource)
        return self._objects.patch(served, self._key(served, name, namespace), patch, keep_status=True).copy()

    def delete(self, resource: Resource, name: str, *, namespace: str | None = None) -> None:
        """Delete an object; finalizers hold it as they do on a real server.

        Raises:
            StatusError: 404.
        """
        served = self._find(resource)
        self._objects.delete(served, self._key(served, name, namespace))

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        """One object.

        Raises:
            StatusError: 404.
        """
        served = self._find(resource)
        return served.get(self._key(served, name, namespace)).copy()

    def objects(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = ""
    ) -> list[dict[str, Any]]:
        """All objects, or those of a namespace and a label selector, sorted by key. Bytes that do not decode raise ValueError."""
        matches = compile_label_selector(label_selector)
        stored = sorted(self._find(resource).table.objects.items())
        return [one.copy() for key, one in stored if namespace in (None, key[0]) and matches(one.labels)]

    def put_raw(
        self, resource: Resource, name: str, raw: bytes | Callable[[str], bytes], *, namespace: str | None = None
    ) -> str:
        """Store bytes as they are, as an older server may have left them: no validation sees them, no field is set.

        Args:
            resource: where.
            name: the key under which to store them, whatever they say themselves.
            raw: the bytes (one line, since a watch sends lines); a callable gets the new resource version.
            namespace: `default` when not given.

        Returns:
            The new resource version.
        """
        served = self._find(resource)
        return str(self._objects.put_raw(served, self._key(served, name, namespace), raw).version)

    # ------------------------------------------------------------------ versions and history

    @property
    def resource_version(self) -> str:
        """The version of the newest write, over all resources."""
        return str(self._history.version)

    @resource_version.setter
    def resource_version(self, version: str) -> None:
        if int(version) < self._history.version:
            raise ValueError(f"the counter is at {self._history.version}; to go back, use restore()")
        self._history.version = int(version)

    def compact(self, version: str | None = None) -> None:
        """Forget all changes up to a version (default: the newest), as etcd's compaction does.

        Afterwards a LIST by an older exact version or continue token, and a WATCH from an older version, get 410 Expired; an
        open watch that has not sent what was forgotten gets the ERROR event.
        """
        self._history.compact(self._history.version if version is None else int(version))

    def restore(self, version: str) -> None:
        """Go back to an earlier version, counter and all, as after an etcd restore; open watches are cut off.

        A client that watches on from a later version hears nothing until the counter has caught up (kubernetes#107457).
        """
        self._history.restore(int(version))

    def drop_events(self) -> AbstractContextManager[None]:
        """Inside the block, changes are stored but no watch ever hears of them."""
        return self._history.silence()

    def table(self, resource: Resource) -> tuple[Served, History]:
        """The inside, for other fakes of this package: a resource's table and the history it is part of."""
        return self._find(resource), self._history

    def _find(self, resource: Resource) -> Served:
        try:
            return self._served[_path(resource)]
        except KeyError:
            raise LookupError(f"{resource} is not served; call add_resource() first") from None

    @staticmethod
    def _key(served: Served, name: str, namespace: str | None) -> Key:
        if served.resource.namespaced:
            return (namespace or "default", name)
        if namespace:
            raise ValueError(f"{served.resource} is cluster-scoped: a namespace ({namespace!r}) makes no sense here")
        return ("", name)


def _path(resource: Resource) -> PathParts:
    return (resource.group, resource.version, resource.plural)
