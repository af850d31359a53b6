"""Bytes to items without decoding the objects; the one place that knows msgspec's decoders.

A page or a watch line is split with `msgspec.Raw` (1.7 µs per object, `json.loads` takes 140), each item is copied so
that one survivor does not pin its page, and only the few members that identify an object are read. What msgspec does not
check in members it skips (UTF-8), or refuses for the whole page (`NaN`, lone surrogates, nesting), is handled here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from informer import _scan

T = TypeVar("T")

# Everything msgspec raises over bytes it does not like. RecursionError: nesting deeper than the interpreter's limit.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WireError(ValueError):
    """Bytes that are not what the Kubernetes API promises."""


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
    meta = loosely(found.get("metadata"))
    kind, api_version = (loosely(found.get(name)) for name in ("kind", "apiVersion"))
    version, token = (meta.get(name) if isinstance(meta, dict) else "" for name in ("resourceVersion", "continue"))
    return ListBody(text_of(kind), text_of(api_version), text_of(version), text_of(token), items)


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
        kind = loosely(found.get("type"))
        if not isinstance(kind, str) or "object" not in found:
            raise WireError("a line of the watch has no type and object") from None
        return kind, found["object"]
    return event.type, event.object


# How the API server begins the events that are nearly all of a stream.
_USUAL = (b'{"type":"MODIFIED","object":{', b'{"type":"ADDED","object":{')


def guess_object(data: bytes, start: int, end: int) -> bytes | None:
    """The object of an ADDED or MODIFIED event, if the line there looks as the API server writes it; None when it does not.

    Cut out by its place, which spares a pass over the bytes. It is the object if it decodes as one JSON text, which whoever
    wants it finds out anyway; if it does not, `split_event` tells what the line is.
    """
    if data.endswith(b"}}", start, end):
        for opening in _USUAL:
            if data.startswith(opening, start, end):
                return data[start + len(opening) - 1 : end - 1]
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
    value = loosely(body)
    if not isinstance(value, dict) or value.get("kind") != "Status":
        return None
    details = value.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    code, wait = value.get("code"), details.get("retryAfterSeconds")
    return Status(
        message=text_of(value.get("message")),
        reason=text_of(value.get("reason")),
        code=code if type(code) is int and 100 <= code <= 599 else 0,
        causes=tuple(texts_of(c) for c in (causes if isinstance(causes, list) else ()) if isinstance(c, dict)),
        retry_after=float(min(wait, _LONG_WAIT)) if type(wait) is int and wait > 0 else None,
    )


def excerpt(data: bytes | bytearray | memoryview, limit: int = 80) -> str:
    """The beginning of some bytes, printable and short, for a message."""
    shown = ascii(bytes(data[:limit]))[1:]
    return shown if len(data) <= limit else f"{shown}…"


_UNREADABLE = object()
_LONG_WAIT = 10**9


def loosely(raw: bytes | memoryview | None) -> Any:
    """The value, None when there is none, `_UNREADABLE` when it is no JSON."""
    if raw is None:
        return None
    try:
        return _any(raw)
    except DECODE_ERRORS:
        return _UNREADABLE


def text_of(value: object) -> str:
    return value if isinstance(value, str) else ""


def texts_of(value: object) -> dict[str, str]:
    items = value.items() if isinstance(value, dict) else ()
    return {name: text for name, text in items if isinstance(text, str)}
