"""What the bytes of one item are: an object with its identity, one withheld for its bytes, or nothing with a usable key."""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import frozen

from informer import _meta, _wire
from informer._projection import Projection
from informer.errors import ItemTooLargeError
from informer.listerwatcher import Item, Withheld
from informer.objects import KubeObject, make_key
from informer.problems import Problem, QuarantinedObject
from informer.resource import Resource


@frozen
class Identify:
    """Reads the head of an item, and nothing else unless the head or the text is doubtful.

    Attributes:
        resource: what the items are.
        max_object_bytes: the largest that is accepted.
        projection: fields to look at in the same pass; an object whose fields are fine carries this projection to its judge.
    """

    resource: Resource
    max_object_bytes: int
    projection: Projection | None = None

    def __call__(self, raw: bytes) -> Item[KubeObject] | Withheld | None:
        """A good object, one withheld for its text, or None for one without a usable key."""
        return self.sound(raw) or self._doubtful(raw)

    def sound(self, raw: bytes) -> Item[KubeObject] | None:
        """A good object; None when these bytes have to be looked at more closely."""
        passed = None
        if self.projection is None:
            head = _meta.read_head(raw)
        else:
            head, fine = self.projection.read_head(raw)
            passed = self.projection if fine else None
        if head is not None and len(raw) <= self.max_object_bytes and (raw.isascii() or not _wire.text_problem(raw)):
            name, namespace = head.name, head.namespace
            if name and "/" not in name and "/" not in namespace:
                return Item(
                    f"{namespace}/{name}" if namespace else name,
                    head.uid,
                    head.resource_version,
                    head.labels,
                    KubeObject(raw, name, namespace, head.uid, head.resource_version, None, passed),
                )
        return None

    def _doubtful(self, raw: bytes) -> Item[KubeObject] | Withheld | None:
        head = _meta.salvage_head(raw)
        if not usable(head):
            return None
        key = make_key(head.namespace, head.name)
        if len(raw) > self.max_object_bytes:
            raise ItemTooLargeError(
                f"{self.resource} {key} is {len(raw)} bytes large; max_object_bytes is {self.max_object_bytes}"
            )
        reason = _wire.text_problem(raw) or _wire.json_problem(raw)
        if reason is None:  # sound, but for metadata of a wrong type, such as `labels: null`
            obj = KubeObject(raw, head.name, head.namespace, head.uid, head.resource_version)
            return Item(key, head.uid, head.resource_version, head.labels, obj)
        now = datetime.now(UTC)
        problem = Problem((), "", reason, "a JSON text in UTF-8, as the API server writes it")
        entry = QuarantinedObject(
            resource=self.resource,
            key=key,
            uid=head.uid,
            resource_version=head.resource_version,
            problems=(problem,),
            first_seen=now,
            last_seen=now,
            times_seen=1,
            metadata=_meta.read_metadata(raw),
            raw=None if self.resource.sensitive else raw,
        )
        return Withheld(key, head.uid, head.resource_version, entry)


def usable(head: _meta.Head) -> bool:
    """True when the head makes a key that no other object can have."""
    return bool(head.name) and "/" not in head.name and "/" not in head.namespace
