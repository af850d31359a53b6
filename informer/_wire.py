"""Bytes to items without decoding the objects; the one place that knows msgspec's decoders.

A page or a watch line is split with `msgspec.Raw` (1.7 µs per object, `json.loads` takes 140), each item is copied so
that one survivor does not pin its page, and only the few members that identify an object are read. What msgspec does not
check in members it skips (UTF-8), or refuses for the whole page (`NaN`, lone surrogates, nesting), is handled here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import force_setattr

from informer import _scan

T = TypeVar("T")

# Everything msgspec raises over bytes it does not like. RecursionError: nesting deeper than the interpreter's limit.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WireError(ValueError):
    """Bytes that are not what the Kubernetes API promises."""


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


class Head(Struct, gc=False, rename="camel"):
    """What identifies an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = {}


class ListBody(Struct):
    """A list answer with its items undecoded; `items` is None when the body has no such member."""

    kind: str
    api_version: str
    resource_version: str
    continue_token: str
    items: list[Raw] | list[memoryview] | None


class Status(Struct, gc=False):
    """A `v1.Status` as far as it is well-formed."""

    message: str = ""
    reason: str = ""
    code: int = 0
    causes: tuple[Mapping[str, str], ...] = ()
    retry_after: float | None = None


class _WireHead(Struct, gc=False):
    metadata: Head


class _WireMeta(Struct, gc=False):
    metadata: ObjectMeta


class _ListMeta(Struct, gc=False, rename="camel"):
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(default=None, name="continue")


class _WireList(Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _ListMeta | None = None
    items: list[Raw] | UnsetType | None = UNSET


class _WireEvent(Struct, gc=False):
    type: str
    object: Raw


_head = msgspec.json.Decoder(_WireHead).decode
_meta = msgspec.json.Decoder(_WireMeta).decode
_list = msgspec.json.Decoder(_WireList).decode
_event = msgspec.json.Decoder(_WireEvent).decode
_any = msgspec.json.Decoder().decode
_raw_any = msgspec.json.Decoder(Raw).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode


def split_list(body: bytes | bytearray) -> ListBody:
    """Split a list answer into undecoded items.

    Raises:
        WireError: the body is no JSON object, or its brackets do not match.
    """
    try:
        page = _list(body)
    except DECODE_ERRORS:
        return _scan_list(body)
    meta = page.metadata or _ListMeta()
    items = None if page.items is UNSET else page.items or []
    return ListBody(page.kind, page.api_version, meta.resource_version or "", meta.continue_token or "", items)


def _scan_list(body: bytes | bytearray) -> ListBody:
    try:
        found = _scan.members(body)
        raw_items = found.get("items")
        items = None if raw_items is None else [] if bytes(raw_items) == b"null" else _scan.elements(raw_items)
    except _scan.ScanError as error:
        raise WireError(f"the answer is no JSON list: {error}") from None
    meta = _loosely(found.get("metadata"))
    kind, api_version = (_loosely(found.get(name)) for name in ("kind", "apiVersion"))
    version, token = (meta.get(name) if isinstance(meta, dict) else "" for name in ("resourceVersion", "continue"))
    return ListBody(_text(kind), _text(api_version), _text(version), _text(token), items)


def split_event(line: bytes) -> tuple[str, Raw | memoryview]:
    """Split one watch line into its type and its undecoded object.

    Raises:
        WireError: the line is no event: the stream cannot be trusted from here on.
    """
    try:
        event = _event(line)
    except DECODE_ERRORS:
        try:
            found = _scan.members(line)
        except _scan.ScanError as error:
            raise WireError(f"a line of the watch is no event: {error}") from None
        kind = _loosely(found.get("type"))
        if not isinstance(kind, str) or "object" not in found:
            raise WireError("a line of the watch has no type and object") from None
        return kind, found["object"]
    return event.type, event.object


# How the API server begins the events that are nearly all of a stream.
_USUAL = (b'{"type":"MODIFIED","object":{', b'{"type":"ADDED","object":{')


def guess_object(line: bytes) -> bytes | None:
    """The object of an ADDED or MODIFIED event, if the line looks as the API server writes it; None when it does not.

    Cut out by its place, which spares a pass over the bytes. It is the object if it decodes as one JSON text, which whoever
    wants it finds out anyway; if it does not, `split_event` tells what the line is.
    """
    if line.endswith(b"}}"):
        for opening in _USUAL:
            if line.startswith(opening):
                return line[len(opening) - 1 : -1]
    return None


def text_problem(raw: bytes) -> str | None:
    """Why these bytes are no JSON text in UTF-8, or None. msgspec does not look inside the strings it skips."""
    if raw.isascii():
        return None
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}"
    return None


def json_problem(raw: bytes) -> str | None:
    """Why these bytes are no JSON text for a strict reader, or None. O(size): for bytes already under suspicion."""
    try:
        _raw_any(raw)
    except RecursionError:
        return "nested too deeply"
    except DECODE_ERRORS as error:
        return f"not valid JSON: {error}"
    return None


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
        _text(meta.get(field)) for field in ("name", "namespace", "uid", "resourceVersion")
    )
    if not namespace and meta.get("namespace") not in (None, ""):
        name = ""
    return Head(name, namespace, uid, version, _texts(meta.get("labels")))


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
        creation_timestamp=_text(meta.get("creationTimestamp")) or None,
        deletion_timestamp=_text(meta.get("deletionTimestamp")) or None,
        labels=_texts(meta.get("labels")),
        annotations=_texts(meta.get("annotations")),
        finalizers=tuple(f for f in finalizers if isinstance(f, str)) if isinstance(finalizers, list) else (),
        owner_references=tuple(
            OwnerReference(_text(o.get("kind")), _text(o.get("name")), _text(o.get("uid")), o.get("controller") is True)
            for o in (owners if isinstance(owners, list) else ())
            if isinstance(o, dict)
        ),
    )


def decode_json(raw: bytes) -> Any:
    """Decode a whole JSON text, strictly.

    Raises:
        ValueError: it is not valid JSON; the message names the byte.
    """
    try:
        return _any(raw)
    except DECODE_ERRORS as error:
        raise ValueError(f"not readable as JSON: {error}") from None


def decode_member(raw: bytes, name: str) -> Any:
    """Decode one member of an object and skip the others.

    Raises:
        KeyError: there is no such member.
        ValueError: the object or the member is not valid JSON.
    """
    try:
        member = _members(raw)[name]
    except DECODE_ERRORS as error:
        raise ValueError(f"not readable as JSON: {error}") from None
    return decode_json(bytes(member))


def read_status(body: bytes) -> Status | None:
    """The Status in these bytes, pretty-printed or not; None when they hold none."""
    value = _loosely(body)
    if not isinstance(value, dict) or value.get("kind") != "Status":
        return None
    details = value.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    code, wait = value.get("code"), details.get("retryAfterSeconds")
    return Status(
        message=_text(value.get("message")),
        reason=_text(value.get("reason")),
        code=code if type(code) is int and 100 <= code <= 599 else 0,
        causes=tuple(_texts(c) for c in (causes if isinstance(causes, list) else ()) if isinstance(c, dict)),
        retry_after=float(min(wait, _LONG_WAIT)) if type(wait) is int and wait > 0 else None,
    )


def excerpt(data: bytes | bytearray | memoryview, limit: int = 80) -> str:
    """The beginning of some bytes, printable and short, for a message."""
    shown = ascii(bytes(data[:limit]))[1:]
    return shown if len(data) <= limit else f"{shown}…"


def _loose_metadata(raw: bytes) -> dict[str, Any]:
    """The members of `metadata`, each read on its own: a broken annotation must not take the name along."""
    try:
        meta = _scan.members(raw).get("metadata")
        return {} if meta is None else {name: _loosely(value) for name, value in _scan.members(meta).items()}
    except _scan.ScanError:
        return {}


_UNREADABLE = object()
_LONG_WAIT = 10**9


def _loosely(raw: bytes | memoryview | None) -> Any:
    """The value, None when there is none, `_UNREADABLE` when it is no JSON."""
    if raw is None:
        return None
    try:
        return _any(raw)
    except DECODE_ERRORS:
        return _UNREADABLE


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> dict[str, str]:
    items = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in items if isinstance(text, str)}
