from __future__ import annotations

import json
from typing import Any

import pytest

from informer import _meta
from informer._meta import Head, ObjectMeta, OwnerReference

HEADS = [
    (
        b'{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"y"}}',
        Head("a", "n", "u", "7", {"x": "y"}),
    ),
    (b'{"name":"a"}', Head("a")),
    (b'{"name":"a","namespace":null}', Head("a")),
    (b'{"name":"a","labels":null}', Head("a")),
    (b'{"name":"a","labels":{"x":1,"y":"z"}}', Head("a", labels={"y": "z"})),
    (b'{"name":"a","uid":7,"resourceVersion":null}', Head("a")),
    (b'{"name":42}', Head()),
    (b'{"name":null}', Head()),
    # Under the bare name it would be another object.
    (b'{"name":"a","namespace":42,"resourceVersion":"7"}', Head(resource_version="7")),
    (b'{"name":"a","namespace":"\xff","resourceVersion":"7"}', Head(resource_version="7")),
    (b'{"name":"a\xff","resourceVersion":"7"}', Head(resource_version="7")),
    (b'{"name":"\\ud800","resourceVersion":"7"}', Head(resource_version="7")),
    # A broken neighbour in the metadata does not take the name along.
    (b'{"name":"a","resourceVersion":"7","annotations":{"x":"\\ud800"}}', Head("a", resource_version="7")),
    (b'{"annotations":{"x":"\xff"},"name":"a"}', Head("a")),
    (b'{"generation":NaN,"name":"a"}', Head("a")),
    (b'{"generation":' + b"9" * 5000 + b',"name":"a"}', Head("a")),
    (b"null", Head()),
    (b"[]", Head()),
    (b'"name"', Head()),
]


@pytest.mark.parametrize(("meta", "head"), HEADS)
def test_salvage_head(meta: bytes, head: Head) -> None:
    """When metadata are broken, it should read what can be read, and give no name where the key would be wrong."""
    assert _meta.salvage_head(b'{"metadata":' + meta + b',"spec":NaN}') == head


@pytest.mark.parametrize(("meta", "head"), HEADS)
def test_read_head_agrees(meta: bytes, head: Head) -> None:
    """When the fast reading gives a head at all, it should be the careful one's."""
    fast = _meta.read_head(b'{"metadata":' + meta + b"}")
    assert fast is None or fast == head


@pytest.mark.parametrize("raw", [b"", b"null", b"7", b"[]", b"{}", b'{"metadata":', b"NaN", b'{"spec":{}}'])
def test_no_head(raw: bytes) -> None:
    """When there are no metadata, there should be an empty head and no error."""
    assert _meta.read_head(raw) is None
    assert _meta.salvage_head(raw) == Head()
    assert _meta.read_metadata(raw) == ObjectMeta()


META: dict[str, Any] = {
    "generation": 3,
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-02T00:00:00Z",
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "finalizers": ["x/y"],
    "ownerReferences": [{"kind": "K", "name": "n", "uid": "u", "controller": True, "apiVersion": "v1"}],
}
PARSED_META = ObjectMeta(
    3,
    META["creationTimestamp"],
    META["deletionTimestamp"],
    {"a": "b"},
    {"c": "d"},
    ("x/y",),
    (OwnerReference("K", "n", "u", controller=True),),
)


def _as_tuples(meta: ObjectMeta) -> tuple[Any, ...]:
    return (
        meta.generation,
        meta.creation_timestamp,
        meta.deletion_timestamp,
        meta.labels,
        meta.annotations,
        tuple(meta.finalizers),
        tuple(meta.owner_references),
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        ({"labels": None}, {"labels": {}}),
        ({"annotations": [1]}, {"annotations": {}}),
        ({"annotations": {"c": "d", "e": 1}}, {}),
        ({"finalizers": None}, {"finalizers": ()}),
        ({"finalizers": ["x/y", 1]}, {}),
        ({"generation": "3"}, {"generation": 0}),
        ({"generation": True}, {"generation": 0}),
        ({"creationTimestamp": None}, {"creation_timestamp": None}),
        ({"deletionTimestamp": 7}, {"deletion_timestamp": None}),
        ({"ownerReferences": {}}, {"owner_references": ()}),
        ({"ownerReferences": [7, {"kind": 1, "controller": "yes"}]}, {"owner_references": (OwnerReference(),)}),
        ({"ownerReferences": [{"kind": "K", "name": "n", "uid": "u", "controller": True}]}, {}),
    ],
    ids=lambda value: json.dumps(value, default=str),
)
def test_metadata(change: dict[str, Any], expected: dict[str, Any]) -> None:
    """When members of the metadata have a wrong type, they should read as empty and the others as they are."""
    raw = json.dumps({"metadata": META | change}).encode()
    fields = dict(zip(ObjectMeta.__struct_fields__, _as_tuples(PARSED_META), strict=True)) | expected
    assert _as_tuples(_meta.read_metadata(raw)) == tuple(fields.values())


def test_metadata_beside_a_hostile_annotation() -> None:
    """When one annotation is no JSON, it should cost the annotations and not the finalizers."""
    raw = b'{"metadata":{"annotations":{"a":"\\ud800"},"finalizers":["x"],"labels":{"a":"b"},"generation":2}}'
    meta = _meta.read_metadata(raw)
    assert (list(meta.finalizers), meta.labels, meta.annotations, meta.generation) == (["x"], {"a": "b"}, {}, 2)
