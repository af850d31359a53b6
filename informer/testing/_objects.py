"""What the API server does to an object on its way into storage: identity, versions, generation, finalizers, status.

The rules and the wording of refusals are those of Kubernetes 1.36 (custom resources) and 1.20 (built-in kinds).
"""

from __future__ import annotations

import copy
import json
import random
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from attrs import Factory, define, field

from informer.resource import Resource
from informer.testing import _patch, _status
from informer.testing._history import History, Key, Stored, Table
from informer.testing._status import StatusError

Object: TypeAlias = dict[str, Any]
Validator: TypeAlias = Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
"""Judges a new state of an object; yields (field path, what is wrong with it)."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_BAD_NAME: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NOT_SPEC: Final = ("kind", "apiVersion", "metadata", "status")
_SERVER_SET: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


@define(eq=False)
class Served:
    """One resource as the server serves it: its words, its rules and its table."""

    resource: Resource
    table: Table
    kind: str
    has_status: bool = True
    typed_items: bool = False
    validate: Validator | None = None
    subresources: dict[str, Callable[[Any], Awaitable[Any]]] = Factory(dict)

    @property
    def api_version(self) -> str:
        """`example.test/v1`, or `v1` in the core group."""
        return f"{self.resource.group}/{self.resource.version}" if self.resource.group else self.resource.version

    @property
    def built_in(self) -> bool:
        """Whether this is one of Kubernetes' own groups, which treat a few requests more leniently."""
        return "." not in self.resource.group or self.resource.group.endswith(".k8s.io")

    def get(self, key: Key) -> Stored:
        """The current version; raises the server's 404."""
        try:
            return self.table.objects[key]
        except KeyError:
            raise _status.not_found(self.resource, key[1]) from None

    def stored(self, key: Key, version: int, obj: Mapping[str, Any]) -> Stored:
        """An object with this version, as bytes."""
        body = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        body["metadata"] = {**body["metadata"], "resourceVersion": str(version)}
        item = _status.to_bytes(body)
        whole = _status.to_bytes({"kind": self.kind, "apiVersion": self.api_version})[:-1] + b"," + item[1:]
        return Stored(key, version, whole if self.typed_items else item, whole)


@define(eq=False)
class Objects:
    """Creates, updates, patches and deletes objects as the API server would."""

    history: History
    now: Callable[[], datetime]
    random: random.Random = field(factory=lambda: random.Random(0))  # names and uids repeat from run to run

    def create(
        self,
        served: Served,
        namespace: str,
        obj: Mapping[str, Any],
        *,
        keep_status: bool = False,
        dry_run: bool = False,
    ) -> Stored:
        """POST. A status given by an HTTP client is dropped, as for every kind with a status subresource."""
        new = copy.deepcopy(dict(obj))
        meta = new["metadata"] = dict(new.get("metadata") or {})
        name = meta.get("name") or ""
        if not name and meta.get("generateName"):
            name = meta["generateName"] + "".join(self.random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        self._check_new(served, namespace, name, meta)
        if (namespace, name) in served.table.objects:
            raise _status.already_exists(served.resource, name)
        if served.has_status and not keep_status:
            new.pop("status", None)
        meta["name"] = name
        if namespace:
            meta["namespace"] = namespace
        meta["uid"] = str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        meta["creationTimestamp"] = self._timestamp()
        meta["generation"] = 1
        self._validate(served, name, new)
        return self._put(served, (namespace, name), new, dry_run=dry_run)

    def update(
        self,
        served: Served,
        key: Key,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        keep_status: bool = False,
        dry_run: bool = False,
    ) -> Stored:
        """PUT, of the object or of its status. Without a change, nothing is written and the version stays."""
        old = served.get(key)
        before = old.copy()
        meta = dict(obj.get("metadata") or {})
        self._check_update(served, old, before, meta)
        if subresource == "status":
            new = {**before, "status": copy.deepcopy(obj.get("status"))}
            if new["status"] is None:
                del new["status"]
        else:
            new = copy.deepcopy({**obj, "metadata": meta})
            if served.has_status and not keep_status:
                new.pop("status", None)
                new |= {"status": before["status"]} if "status" in before else {}
        self._carry_over(before, new)
        self._check_finalizers(served, key[1], before, new)
        if _content(new) == _content(before):
            return old
        self._validate(served, key[1], new)
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self._remove(served, key, new, dry_run=dry_run)
        return self._put(served, key, new, dry_run=dry_run)

    def patch(
        self,
        served: Served,
        key: Key,
        patch: Mapping[str, Any] | list[dict[str, Any]],
        *,
        subresource: str = "",
        keep_status: bool = False,
        dry_run: bool = False,
    ) -> Stored:
        """PATCH: a dict is a merge patch, a list a JSON patch. A resource version inside is compared like a PUT's."""
        before = served.get(key).copy()
        if isinstance(patch, list):
            try:
                after = _patch.json_patch(before, patch)
            except _patch.PatchError:
                message = "the server rejected our request due to an error in our request"
                raise StatusError(422, "Invalid", message, details={}) from None
        else:
            after = _patch.merge_patch(before, patch)
        return self.update(served, key, after, subresource=subresource, keep_status=keep_status, dry_run=dry_run)

    def delete(
        self, served: Served, key: Key, *, preconditions: Mapping[str, str] | None = None, dry_run: bool = False
    ) -> Stored | None:
        """DELETE. Returns the object while finalizers hold it, None when it is gone."""
        old = served.get(key)
        self._check_preconditions(served, old, preconditions or {})
        if not old.metadata.get("finalizers"):
            self._remove(served, key, old.tree, dry_run=dry_run)
            return None
        if old.metadata.get("deletionTimestamp"):
            return old
        new = old.copy()
        new["metadata"] |= {"deletionTimestamp": self._timestamp(), "deletionGracePeriodSeconds": 0}
        new["metadata"]["generation"] = new["metadata"].get("generation", 0) + 1
        return self._put(served, key, new, dry_run=dry_run)

    def remove(self, served: Served, key: Key) -> None:
        """Delete an object at once, finalizers or not."""
        self._remove(served, key, served.get(key).tree, dry_run=False)

    def put_raw(self, served: Served, key: Key, raw: bytes | Callable[[str], bytes]) -> Stored:
        """Store bytes that no validation has seen; a callable gets the new resource version."""

        def make(version: int) -> Stored:
            data = raw(str(version)) if callable(raw) else raw
            return Stored(key, version, data, data)

        return self.history.put(served.table, key, make)

    def _timestamp(self) -> str:
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def _put(self, served: Served, key: Key, new: Mapping[str, Any], *, dry_run: bool) -> Stored:
        if dry_run:
            return served.stored(key, self.history.version, new)
        return self.history.put(served.table, key, lambda version: served.stored(key, version, new))

    def _remove(self, served: Served, key: Key, new: Mapping[str, Any], *, dry_run: bool) -> Stored:
        before = served.table.objects[key]

        def last(version: int) -> Stored:
            if isinstance(new.get("metadata"), dict):
                return served.stored(key, version, new)
            return Stored(key, version, before.item, before.whole)  # bytes put raw, which nobody can give a version

        if not dry_run:
            self.history.remove(served.table, key, last)
        return last(before.version)

    @staticmethod
    def _check_new(served: Served, namespace: str, name: str, meta: Mapping[str, Any]) -> None:
        if not name:
            fault = ("metadata.name", "Required value", "name or generateName is required")
            raise _status.invalid(served.resource, "", served.kind, [fault])
        if not _NAME.fullmatch(name) or len(name) > 253:
            fault = ("metadata.name", "Invalid value", f"{json.dumps(name)}: {_BAD_NAME}")
            raise _status.invalid(served.resource, name, served.kind, [fault])
        if meta.get("resourceVersion"):
            raise _status.bad_request("resourceVersion should not be set on objects to be created")
        if meta.get("namespace", namespace) != namespace:
            message = "the namespace of the provided object does not match the namespace sent on the request"
            raise _status.bad_request(message)

    @staticmethod
    def _check_update(served: Served, old: Stored, before: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
        name, uid = old.key[1], before["metadata"].get("uid", "")
        if meta.get("name", name) != name:
            message = f"the name of the object ({meta['name']}) does not match the name on the URL ({name})"
            raise _status.bad_request(message)
        if meta.get("uid", uid) not in ("", uid):
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {uid}"
            raise _status.conflict(served.resource, name, why)
        if meta.get("resourceVersion") and meta["resourceVersion"] != before["metadata"].get("resourceVersion"):
            raise _status.conflict(served.resource, name)

    @staticmethod
    def _check_preconditions(served: Served, old: Stored, preconditions: Mapping[str, str]) -> None:
        for name, word, risk in (
            ("uid", "UID", "deleted and then recreated"),
            ("resourceVersion", "ResourceVersion", "modified"),
        ):
            wanted, found = preconditions.get(name), old.metadata.get(name, "")
            if wanted is not None and wanted != found:
                why = f"the {word} in the precondition ({wanted}) does not match the {word} in record ({found}). The object might have been {risk}"
                raise _status.conflict(served.resource, old.key[1], why, kind=served.kind)

    @staticmethod
    def _check_finalizers(served: Served, name: str, before: Object, new: Object) -> None:
        if not before["metadata"].get("deletionTimestamp"):
            return
        known = before["metadata"].get("finalizers") or []
        if added := [entry for entry in new["metadata"].get("finalizers") or [] if entry not in known]:
            listed = "[]string{" + ", ".join(json.dumps(entry) for entry in added) + "}"
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
            raise _status.invalid(served.resource, name, served.kind, [("metadata.finalizers", "Forbidden", text)])

    @staticmethod
    def _carry_over(before: Object, new: Object) -> None:
        """Nobody but the server writes these fields."""
        meta = new["metadata"]
        for name in _SERVER_SET:
            meta.pop(name, None)
        new["metadata"] = {name: before["metadata"][name] for name in _SERVER_SET if name in before["metadata"]} | meta
        changed = _spec(new) != _spec(before)
        new["metadata"]["generation"] = before["metadata"].get("generation", 0) + changed

    @staticmethod
    def _validate(served: Served, name: str, new: Object) -> None:
        if served.validate and (faults := [(path, "Invalid value", text) for path, text in served.validate(new)]):
            raise _status.invalid(served.resource, name, served.kind, faults)


def _spec(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in _NOT_SPEC}


def _content(obj: Object) -> Object:
    meta = {
        name: value
        for name, value in obj["metadata"].items()
        if name != "resourceVersion" and value not in ([], {}, None)
    }
    return {**obj, "metadata": meta, "kind": None, "apiVersion": None}
