"""What an object's metadata says, read from its bytes: fast where it is sound, and what can be saved of it where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from informer import _scan
from informer._wire import DECODE_ERRORS, loosely, text_of, texts_of


class OwnerReference(Struct, gc=False, frozen=True):
    """One entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Struct, gc=False, frozen=True, rename="camel"):
    """The part of an object's metadata that caches and controllers ask for. Absent and null read as empty.

    It is kept and handed to every reader, so nothing in it can be changed.
    """

    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "labels", MappingProxyType(self.labels))
        force_setattr(self, "annotations", MappingProxyType(self.annotations))

    if not TYPE_CHECKING:  # a type checker refuses such an attribute by itself, and would then no longer

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"ObjectMeta has no attribute {name!r}; read {_elsewhere(name)}")


def _elsewhere(name: str) -> str:
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    if snake in {"name", "namespace", "uid", "resource_version"}:
        return f"obj.{snake}"
    if snake in ObjectMeta.__struct_fields__:
        return f"obj.metadata.{snake}"
    first, *others = name.split("_")
    return f"obj['metadata'][{first + ''.join(word.title() for word in others)!r}]"


class Head(Struct, gc=False, rename="camel"):
    """What identifies an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = {}


class _WireHead(Struct, gc=False):
    metadata: Head


class _WireMeta(Struct, gc=False):
    metadata: ObjectMeta


_head = msgspec.json.Decoder(_WireHead).decode
_meta = msgspec.json.Decoder(_WireMeta).decode


def read_head(raw: bytes) -> Head | None:
    """The head of a sound object; None when it has to be looked at more closely (`salvage_head`)."""
    try:
        head: Head = _head(raw).metadata
    except DECODE_ERRORS:
        return None
    return head


def salvage_head(raw: bytes) -> Head:
    """What can still be read of a broken object's head; a field that cannot be read is empty.

    Without a readable namespace the name is worth nothing: it would be another object's key.
    """
    meta = _loose_metadata(raw)
    name, namespace, uid, version = (
        text_of(meta.get(field)) for field in ("name", "namespace", "uid", "resourceVersion")
    )
    if not namespace and meta.get("namespace") not in (None, ""):
        name = ""
    return Head(name, namespace, uid, version, texts_of(meta.get("labels")))


def read_metadata(raw: bytes) -> ObjectMeta:
    """The metadata of an object; members of a wrong type read as empty, since nobody but the server writes them."""
    try:
        meta: ObjectMeta = _meta(raw).metadata
    except DECODE_ERRORS:
        return _salvage_metadata(raw)
    return meta


def _salvage_metadata(raw: bytes) -> ObjectMeta:
    meta = _loose_metadata(raw)
    owners = meta.get("ownerReferences")
    finalizers = meta.get("finalizers")
    generation = meta.get("generation")
    return ObjectMeta(
        generation=generation if type(generation) is int else 0,
        creation_timestamp=text_of(meta.get("creationTimestamp")) or None,
        deletion_timestamp=text_of(meta.get("deletionTimestamp")) or None,
        labels=texts_of(meta.get("labels")),
        annotations=texts_of(meta.get("annotations")),
        finalizers=tuple(f for f in finalizers if isinstance(f, str)) if isinstance(finalizers, list) else (),
        owner_references=tuple(
            OwnerReference(
                text_of(o.get("kind")), text_of(o.get("name")), text_of(o.get("uid")), o.get("controller") is True
            )
            for o in (owners if isinstance(owners, list) else ())
            if isinstance(o, dict)
        ),
    )


def _loose_metadata(raw: bytes) -> dict[str, Any]:
    """The members of `metadata`, each read on its own: a broken annotation must not take the name along."""
    try:
        meta = _scan.members(raw).get("metadata")
        return {} if meta is None else {name: loosely(value) for name, value in _scan.members(meta).items()}
    except _scan.ScanError:
        return {}
