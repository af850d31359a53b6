"""What is wrong with one object, as values that are safe to log: short, printable, and never a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from informer import _wire, fixes
from informer.errors import ContentNotKeptError
from informer.objects import ObjectMeta
from informer.resource import Resource

Path: TypeAlias = tuple[str | int, ...]

_VALUE_LIMIT = 120
_REASON_LIMIT = 400
_SHOWN = 10
# Go writes `<`, `>` and `&` as escapes. The last alternative takes a pair of backslashes, after which nothing is escaped.
_ESCAPE = re.compile(r"\\(?:u00([2-7][0-9a-fA-F])|.)", re.DOTALL)
_DECODED = 6 * _VALUE_LIMIT  # longer ones do not fit even if they are nothing but escapes
_HIDDEN = "the value is refused (not shown: the resource is sensitive)"

# What the ready-made checks expect. They are constants, so even a sensitive object may show them.
DURATION = "duration, e.g. 10m"
QUANTITY = "quantity, e.g. 500m"
INT_OR_STRING = "integer or string, e.g. 25%"
TIMESTAMP = "RFC 3339 timestamp, e.g. 2030-01-31T12:00:00Z"
_HARMLESS = frozenset({DURATION, QUANTITY, INT_OR_STRING, TIMESTAMP})


def excerpt(text: str, limit: int = _VALUE_LIMIT) -> str:
    """Somebody else's text as one short line of printable ASCII; a JSON text that fits stays an equal JSON text.

    Characters beyond ASCII come as JSON escapes: they may turn the reading direction or look like others.
    """
    head = text[:limit]
    if not (head.isascii() and head.isprintable()):
        head = "".join(c if " " <= c <= "~" else json.dumps(c).strip('"') for c in head).replace("\x7f", "\\u007f")
    if len(text) <= limit and len(head) <= limit:
        return head
    return f"{head[:limit]}... ({len(text)} characters)"


def _path(parts: Iterable[str | int]) -> Path:
    return tuple(parts)


def readable(text: str) -> str:
    """A JSON text whose escapes of printable ASCII are the characters themselves, as far as they can be; a long one as it is."""
    return _ESCAPE.sub(_readable, text) if len(text) <= _DECODED else text


def _short_value(text: str) -> str:
    return excerpt(readable(text))


def _readable(escape: re.Match[str]) -> str:
    """The character of a JSON escape that need not be one; the text stays an equal JSON text."""
    character = chr(int(escape[1], 16)) if escape[1] else ""
    return character if character.isprintable() and character not in {"", '"', "\\"} else escape[0]


def _short_reason(text: str) -> str:
    return excerpt(text, _REASON_LIMIT)


@frozen
class Problem:
    """One offending field. What names no cost is O(1).

    The texts are made short and printable here, whoever wrote them, so they can stand in a log line as they are.

    Attributes:
        path: where, such as `("spec", "groups", 1, "tenant")`; empty when the decoder does not tell.
        value: the offending value as JSON text, never dropped for being falsy; shortened when long, and then no JSON any
            more. Empty when there is none: the field is missing, or its resource is sensitive.
        reason: why it is refused.
        expected: what would be accepted, as a few words that can stand for a value: `duration, e.g. 10m`.
    """

    path: Path = field(converter=_path)
    value: str = field(converter=_short_value)
    reason: str = field(converter=_short_reason)
    expected: str = field(default="", converter=_short_reason)

    @property
    def path_text(self) -> str:
        """The path as people write it: `spec.groups[1].tenant`, `spec.limits["example.test/gpu"]`."""
        return path_text(self.path)

    def __str__(self) -> str:
        shown = self.path_text + (f" is {self.value}" if self.value else "")
        text = f"{excerpt(shown, _REASON_LIMIT)}: {self.reason}" if shown else self.reason
        return f"{text} (expected: {self.expected})" if self.expected else text


_PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


def path_text(path: Path) -> str:
    """The text form of a path; names that are not plain stand in brackets, as JSON."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_NAME.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]".replace("\x7f", "\\u007f")
    return text


@define(eq=False)
class Content:
    """The bytes of an object in one place, so that dropping them drops them for everybody who holds the entry."""

    raw: bytes | None

    def __repr__(self) -> str:
        return f"<{len(self.raw or b'')} bytes>"


def _content(raw: bytes | Content | None) -> Content:
    return raw if isinstance(raw, Content) else Content(raw)


@frozen(repr=False)
class QuarantinedObject:
    """An object that exists on the server and cannot be used. What names no cost is O(1).

    For a sensitive resource only metadata and the paths of the problems are kept; whoever makes an entry cannot do
    otherwise. Annotations are never kept here: they may be large, and kubectl quotes the whole object in one of them;
    `to_dict()` has them.

    Attributes:
        resource: what it is one of.
        key: `namespace/name`, or `name` when cluster-scoped.
        uid: its life.
        resource_version: the version that was judged last.
        problems: every bad field.
        first_seen: when this life was first found bad; aware.
        last_seen: when it was last seen, bad as before or in a new way; aware.
        times_seen: how often it was received since then.
        metadata: labels, finalizers, owner references and dates; no annotations.
    """

    resource: Resource
    key: str
    uid: str
    resource_version: str
    problems: tuple[Problem, ...]
    first_seen: datetime
    last_seen: datetime
    times_seen: int
    metadata: ObjectMeta
    _raw: Content = field(default=None, converter=_content, eq=False)  # init argument `raw`, the bytes

    def __attrs_post_init__(self) -> None:
        if self.metadata.annotations:
            object.__setattr__(self, "metadata", _without_annotations(self.metadata))
        if self.resource.sensitive:
            object.__setattr__(self, "problems", tuple(_without_value(problem) for problem in self.problems))
            object.__setattr__(self, "_raw", Content(None))

    @property
    def terminating(self) -> bool:
        """It has a deletion timestamp: its finalizers wait for somebody."""
        return self.metadata.deletion_timestamp is not None

    @property
    def content(self) -> Content:
        """Where the bytes are, for the quarantine that counts them."""
        return self._raw

    @property
    def namespace(self) -> str:
        """The namespace, empty when cluster-scoped."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The name without the namespace."""
        return self.key.rpartition("/")[2]

    @property
    def summary(self) -> str:
        """Every problem in one line: field, value, reason, what is expected. O(problems)."""
        shown = [str(problem) for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            shown.append(f"and {len(self.problems) - _SHOWN} more")
        return "; ".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """The untouched object, as a fresh tree each call: a controller must still run its finalizer. O(size).

        Bytes that are no strict JSON (`NaN`, lone surrogates, invalid UTF-8) are read as far as Python's own decoder goes,
        with U+FFFD for what is no character.

        Raises:
            ContentNotKeptError: the bytes were dropped to stay within `max_bytes`, or the resource is sensitive.
            ValueError: nothing can be read of it.
        """
        raw = self._raw.raw
        if raw is None:
            raise ContentNotKeptError(self.key, sensitive=self.resource.sensitive)
        try:
            value = _wire.decode_json(raw)
        except ValueError:
            value = self._tolerantly(raw)
        if not isinstance(value, dict):
            raise ValueError(f"{self.key} is no JSON object")  # noqa: TRY004 - a fault of the bytes, not of a type
        return value

    def _tolerantly(self, raw: bytes) -> object:
        try:
            return json.loads(raw.decode("utf-8", "replace"), strict=False, parse_int=_any_integer)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.key} is not readable as JSON: {error}") from None

    def fix_commands(self) -> tuple[str, ...]:
        """The commands that help once their placeholders are filled in; see `informer.fixes`. O(size)."""
        return fixes.commands(self)

    def __repr__(self) -> str:  # never a value: an entry must not carry one into a log by way of a repr
        state = ", terminating" if self.terminating else ""
        return f"QuarantinedObject({self.resource} {excerpt(self.key)!r}, {len(self.problems)} problems{state})"


def _without_annotations(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        generation=meta.generation,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=meta.labels,
        finalizers=meta.finalizers,
        owner_references=meta.owner_references,
    )


def _without_value(problem: Problem) -> Problem:
    return evolve(problem, value="", reason=_HIDDEN, expected=problem.expected if problem.expected in _HARMLESS else "")


def _any_integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 4300 else float(digits)  # the longest integer that Python reads
