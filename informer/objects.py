"""One Kubernetes object as the immutable bytes the server sent, decoded only where somebody looks.

Decoding every object of a large list makes Python's cyclic collector four fifths of the cost; bytes are invisible to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import force_setattr

from informer import _meta, _wire
from informer._meta import ObjectMeta, OwnerReference

__all__ = ["KubeObject", "ObjectMeta", "OwnerReference", "content_digest", "make_key", "same_content"]


# What stands elsewhere than people look for it, and what to write.
_ELSEWHERE = {
    "meta": "obj.metadata (labels, annotations, finalizers, …); name, namespace and uid are on the object itself",
    "body": "obj.to_dict()",
    "terminating": "obj.metadata.deletion_timestamp, which is None while nobody deletes it",
    "api_version": "obj['apiVersion']",
    "resourceVersion": "obj.resource_version",
} | {
    spelling: f"obj.metadata.{name}"
    for name, camel in zip(ObjectMeta.__struct_fields__, ObjectMeta.__struct_encode_fields__, strict=True)
    for spelling in (name, camel)
}


class KubeObject(Struct, gc=False, frozen=True, eq=False):
    """An object as stored: its JSON bytes and what identifies it. Equal when the bytes are equal.

    Attributes:
        raw: the JSON text as the server sent it. Built-in kinds carry no `kind` and `apiVersion` inside a LIST
            (kubernetes#3030); the resource knows them.
        name: `metadata.name`.
        namespace: `metadata.namespace`, empty when cluster-scoped.
        uid: `metadata.uid`.
        resource_version: `metadata.resourceVersion`, opaque.
    """

    raw: bytes
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    _metadata: ObjectMeta | None = None
    # The projection whose fields were found fine while the head was read, which spares a second pass over the bytes.
    _passed: object = None

    @classmethod
    def parse(cls, raw: bytes) -> Self:
        """Make an object from its JSON text, as a test or a tool needs it. O(size).

        Raises:
            ValueError: the text is not JSON, or has no usable name.
        """
        head = _meta.read_head(raw)
        if head is None or not head.name:
            raise ValueError(f"no Kubernetes object with a name in {len(raw)} bytes")  # which may be a Secret's
        return cls(raw, head.name, head.namespace, head.uid, head.resource_version)

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` when cluster-scoped, as in client-go. O(1)."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def metadata(self) -> ObjectMeta:
        """Labels, annotations, owner references, finalizers and dates; decoded at first use, O(size), and kept."""
        if self._metadata is None:
            force_setattr(self, "_metadata", _meta.read_metadata(self.raw))
        assert self._metadata is not None
        return self._metadata

    def to_dict(self) -> dict[str, Any]:
        """The whole object as a fresh tree each call, so no reader's change reaches another. O(size).

        Raises:
            ValueError: the bytes are not valid JSON.
        """
        value = _wire.decode_json(self.raw)
        if not isinstance(value, dict):
            raise ValueError(f"{self.key} is no JSON object")  # noqa: TRY004 - a fault of the bytes, not of a type
        return value

    def __getitem__(self, field: str) -> Any:
        """One top-level member, decoded afresh each time; the others are skipped. O(size).

        Raises:
            KeyError: the object has no such member.
            ValueError: the bytes are not valid JSON.
        """
        return _wire.decode_member(self.raw, field)

    def get(self, field: str, default: Any = None) -> Any:
        """As `obj[field]`, with a default where the member is absent. O(size)."""
        try:
            return self[field]
        except KeyError:
            return default

    if not TYPE_CHECKING:  # a type checker refuses such an attribute by itself, and would then no longer

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"a KubeObject has no attribute {name!r}; read {_ELSEWHERE[name]}"
                if name in _ELSEWHERE
                else f"a KubeObject has no attribute {name!r}; a member of the object is read as obj[{name!r}]"
            )

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, KubeObject) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:  # never the bytes: a Secret must not reach a log by way of a repr
        return f"KubeObject({self.key!r}, uid={self.uid!r}, resource_version={self.resource_version!r})"


def make_key(namespace: str, name: str) -> str:
    """The key under which caches know an object: `namespace/name`, or `name` when cluster-scoped."""
    return f"{namespace}/{name}" if namespace else name


# What a watch event of a built-in kind begins with and an item of a LIST does not (kubernetes#3030).
_TYPE_META = re.compile(rb'\{"kind":"[^"]*","apiVersion":"[^"]*",')


def same_content(one: bytes, other: bytes) -> bool:
    """True when both are the same object's text, whether it came in a LIST or by WATCH."""
    if len(one) == len(other):
        return one == other
    long, short = (one, other) if len(one) > len(other) else (other, one)
    prefix = _TYPE_META.match(long)
    return prefix is not None and len(long) - prefix.end() == len(short) - 1 and long.endswith(short[1:])


def content_digest(raw: bytes) -> int:
    """A hash of an object's text that is the same for a LIST and a WATCH, never 0, and good for this process only."""
    prefix = _TYPE_META.match(raw)
    return hash(raw[prefix.end() :] if prefix else raw[1:]) or 1
