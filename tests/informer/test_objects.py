"""`informer.objects`: one object as immutable bytes."""

from __future__ import annotations

import copy
import gc
import json
import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from informer.objects import KubeObject, ObjectMeta, content_digest, make_key, same_content

POD = {
    "metadata": {"name": "a", "namespace": "team-a", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}},
    "spec": {"containers": [{"name": "c"}], "none": None, "zero": 0},
}


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def test_parse() -> None:
    """When an object is parsed, it should carry its identity and its bytes as they are."""
    raw = json.dumps(POD).encode()
    obj = KubeObject.parse(raw)
    assert (obj.name, obj.namespace, obj.uid, obj.resource_version) == ("a", "team-a", "u", "7")
    assert obj.raw is raw
    assert obj.key == "team-a/a"
    assert KubeObject.parse(b'{"metadata":{"name":"node-1"}}').key == "node-1"


@pytest.mark.parametrize(
    "raw",
    [b"", b"null", b"[]", b"{}", b'{"metadata":{}}', b'{"metadata":{"name":""}}', b'{"metadata":{"name":42}}', b"{"],
)
def test_no_object(raw: bytes) -> None:
    """When the text is no object with a name, it should be refused."""
    with pytest.raises(ValueError, match="no Kubernetes object with a name"):
        KubeObject.parse(raw)


def test_reads() -> None:
    """When a member is read, it should be decoded on demand, and nobody's change should reach another reader."""
    obj = KubeObject.parse(compact(POD))
    assert obj.to_dict() == POD
    obj.to_dict()["spec"]["zero"] = 1
    obj["spec"]["containers"].append("x")
    assert obj["spec"] == POD["spec"]
    assert obj.get("spec") == POD["spec"]
    assert obj.get("status") is None
    assert obj.get("status", 7) == 7
    with pytest.raises(KeyError, match="status"):
        obj["status"]


def test_broken_reads() -> None:
    """When the bytes are no valid JSON, reading should be a ValueError and the identity should still be there."""
    obj = KubeObject(b'{"metadata":{"name":"a","labels":{"x":"y"}},"spec":NaN}', "a")
    for read in (obj.to_dict, lambda: obj["spec"], lambda: obj.get("spec")):
        with pytest.raises(ValueError, match="not readable as JSON"):
            read()
    assert obj.metadata.labels == {"x": "y"}
    with pytest.raises(ValueError, match="team-a/a is no JSON object"):
        KubeObject(b"[]", "a", "team-a").to_dict()


def test_metadata_are_decoded_once() -> None:
    """When metadata are asked for twice, they should be the same value."""
    obj = KubeObject.parse(compact(POD))
    assert isinstance(obj.metadata, ObjectMeta)
    assert obj.metadata is obj.metadata
    assert obj.metadata.labels == {"x": "y"}


def test_immutable() -> None:
    """When somebody tries to change an object, it should refuse."""
    obj = KubeObject.parse(compact(POD))
    with pytest.raises(AttributeError):
        obj.name = "b"  # type: ignore[misc]


def test_equality() -> None:
    """When two objects have the same bytes, they should be equal and hash alike, whatever was read of them."""
    one, other = KubeObject.parse(compact(POD)), KubeObject.parse(compact(POD))
    assert one.metadata.labels
    assert one == other
    assert hash(one) == hash(other)
    assert one != KubeObject.parse(compact(POD | {"spec": {}}))
    assert one != one.raw


def test_repr_shows_no_content() -> None:
    """When an object is shown, it should be its identity and never a value."""
    obj = KubeObject.parse(compact(POD | {"data": {"password": "hunter2"}}))
    assert repr(obj) == "KubeObject('team-a/a', uid='u', resource_version='7')"


def test_the_collector_does_not_see_it() -> None:
    """When a cache holds very many objects, the cyclic collector should have nothing to visit."""
    obj = KubeObject.parse(compact(POD))
    assert not gc.is_tracked(obj)
    assert obj.metadata.labels
    assert not gc.is_tracked(obj)


@pytest.mark.parametrize(("namespace", "name", "key"), [("n", "a", "n/a"), ("", "a", "a")])
def test_make_key(namespace: str, name: str, key: str) -> None:
    """When a key is made, it should be client-go's."""
    assert make_key(namespace, name) == key


# ---------------------------------------------------------------------- LIST and WATCH forms of one object

NAMES = st.text(alphabet="abcXYZ./-é\u2028", min_size=1, max_size=8)
BODIES = st.dictionaries(
    st.sampled_from(["metadata", "spec", "status", "kind", "apiVersion", "data"]),
    st.one_of(NAMES, st.integers(), st.dictionaries(NAMES, NAMES, max_size=2)),
    max_size=4,
)


def typed(kind: str, version: str, body: dict[str, Any]) -> bytes:
    return compact(
        {"kind": kind, "apiVersion": version} | {k: v for k, v in body.items() if k not in ("kind", "apiVersion")}
    )


def untyped(body: dict[str, Any]) -> bytes:
    return compact({k: v for k, v in body.items() if k not in ("kind", "apiVersion")})


@given(NAMES, NAMES, BODIES)
def test_list_and_watch_form(kind: str, version: str, body: dict[str, Any]) -> None:
    """When a built-in object comes once in a LIST and once by WATCH, it should be the same content with one digest."""
    assume(set(body) - {"kind", "apiVersion"})
    one, other = typed(kind, version, body), untyped(body)
    assert same_content(one, other)
    assert same_content(other, one)
    assert content_digest(one) == content_digest(other) != 0


@given(BODIES, BODIES)
def test_same_content_is_equality(one: dict[str, Any], other: dict[str, Any]) -> None:
    """When two objects of one form are compared, same content should mean equal bytes."""
    a, b = compact(one), compact(other)
    assert same_content(a, a)
    if "kind" not in one and "kind" not in other:
        assert same_content(a, b) == (a == b)


@given(NAMES, NAMES, BODIES, BODIES)
def test_different_content(kind: str, version: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    """When the contents differ, it should be seen in either form."""
    assume(untyped(one) != untyped(other))
    assert not same_content(typed(kind, version, one), untyped(other))
    assert content_digest(typed(kind, version, one)) != content_digest(untyped(other))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # Custom resources carry their type in both forms, in alphabetical order.
        (b'{"apiVersion":"v1","kind":"A","spec":1}', b'{"apiVersion":"v1","kind":"A","spec":1}', True),
        (b'{"apiVersion":"v1","kind":"A","spec":1}', b'{"spec":1}', False),
        (b'{"kind":"A","apiVersion":"v1","spec":1}', b'{"spec":1}', True),
        (b'{"kind":"A","apiVersion":"v1","spec":12}', b'{"spec":1}', False),
        (b'{"kind":"A","apiVersion":"v1","spec":1}', b'{"kind":"A","apiVersion":"v2","spec":1}', False),
        (b'{"kind":"A","apiVersion":"v1","spec":1}', b'{"kind":"AB","apiVersion":"v1","spec":1}', False),
        (b'{"spec":1}', b'{"spec": 1}', False),
        (b"{}", b"", False),
        (b"", b"", True),
    ],
)
def test_same_content(one: bytes, other: bytes, same: bool) -> None:
    """When two texts are compared, only the type that a WATCH of a built-in kind adds should be overlooked."""
    assert same_content(one, other) is same
    assert same_content(other, one) is same


def test_attribute_that_is_a_member() -> None:
    """When somebody writes `obj.spec`, as with other clients, the error should say how it is read here."""
    obj = KubeObject.parse(b'{"metadata": {"name": "a"}, "spec": {}}')
    with pytest.raises(AttributeError, match=r"no attribute 'spec'; a member of the object is read as obj\['spec'\]"):
        obj.spec  # type: ignore[attr-defined]  # noqa: B018 - the mistake
    assert not hasattr(obj, "spec")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("labels", "obj.metadata.labels"),
        ("annotations", "obj.metadata.annotations"),
        ("finalizers", "obj.metadata.finalizers"),
        ("owner_references", "obj.metadata.owner_references"),
        ("ownerReferences", "obj.metadata.owner_references"),
        ("deletionTimestamp", "obj.metadata.deletion_timestamp"),
        ("resourceVersion", "obj.resource_version"),
        ("terminating", "obj.metadata.deletion_timestamp"),
        ("body", "obj.to_dict()"),
        ("api_version", "obj['apiVersion']"),
    ],
)
def test_attribute_that_stands_elsewhere(name: str, hint: str) -> None:
    """When somebody writes `obj.labels`, the error should say where it is, and it should be there."""
    obj = KubeObject.parse(b'{"apiVersion": "v1", "metadata": {"name": "a"}}')
    with pytest.raises(AttributeError, match=re.escape(f"no attribute {name!r}; read {hint}")):
        getattr(obj, name)
    eval(hint, {"obj": obj})


def test_meta() -> None:
    """When somebody writes `obj.meta`, as with kopf, the error should say what is in the metadata and what is not."""
    obj = KubeObject.parse(b'{"metadata": {"name": "a"}}')
    with pytest.raises(
        AttributeError, match=r"read obj\.metadata .*; name, namespace and uid are on the object itself"
    ):
        obj.meta  # type: ignore[attr-defined]  # noqa: B018 - the mistake


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("name", "obj.name"),
        ("namespace", "obj.namespace"),
        ("uid", "obj.uid"),
        ("resource_version", "obj.resource_version"),
        ("resourceVersion", "obj.resource_version"),
        ("ownerReferences", "obj.metadata.owner_references"),
        ("deletionTimestamp", "obj.metadata.deletion_timestamp"),
        ("managed_fields", "obj['metadata']['managedFields']"),
        ("managedFields", "obj['metadata']['managedFields']"),
    ],
)
def test_attribute_that_is_not_in_the_metadata(name: str, hint: str) -> None:
    """When somebody writes `obj.metadata.name`, as with other clients, the error should say where it is."""
    obj = KubeObject.parse(b'{"metadata": {"name": "a", "managedFields": []}}')
    with pytest.raises(AttributeError, match=re.escape(f"ObjectMeta has no attribute {name!r}; read {hint}")):
        getattr(obj.metadata, name)
    assert not hasattr(obj.metadata, name)
    eval(hint, {"obj": obj})


def test_what_python_asks_for_itself() -> None:
    """When objects are copied, the attributes that Python tries should be no trouble."""
    obj = KubeObject.parse(b'{"metadata": {"name": "a", "labels": {"x": "y"}}}')
    assert obj.metadata.labels == {"x": "y"}
    assert copy.copy(obj.metadata) == obj.metadata
    assert copy.copy(obj) == obj
