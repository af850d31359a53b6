from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer import ApiError, KubeObject, Resource, Withheld, _lists, _wire
from informer._identify import Identify
from informer.listerwatcher import Page
from informer.testing import run
from tests.informer.test_wire import HOSTILE

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
IDENTIFY = Identify(WIDGETS, 1 << 20)


def custom(name: str, **members: Any) -> bytes:
    metadata = {"name": name, "namespace": "team-a", "resourceVersion": "7", "uid": f"u-{name}"}
    whole = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": metadata, **members}
    return json.dumps(whole, separators=(",", ":")).encode()


def builtin(name: str, **members: Any) -> bytes:
    return b'{"metadata":{' + custom(name, **members).partition(b'"metadata":{')[2]


def body(*items: bytes, after: bytes = b"\n") -> bytearray:
    head = b'{"kind":"WidgetList","apiVersion":"example.test/v1","metadata":{"resourceVersion":"9","continue":"t"},'
    return bytearray(head + b'"items":[' + b",".join(items) + b"]}" + after)


def read(text: bytearray) -> Page[KubeObject]:
    return run(_lists.read_page(text, IDENTIFY))


def pieces(text: bytearray) -> list[bytes] | None:
    found = _lists.guess(text)
    return None if found is None else list(found.pieces)


NESTED = {"spec": {"templates": [{"metadata": {"name": "x"}}, {"metadata": {"name": "y"}}]}}
MANAGED = {
    "managed": [{"apiVersion": "example.test/v1", "manager": "a"}, {"apiVersion": "example.test/v1", "kind": "b"}]
}


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([custom("a")], id="one"),
        pytest.param([custom("a"), custom("b", spec={"x": 1}), custom("c")], id="custom resources"),
        pytest.param([builtin("a"), builtin("b"), builtin("c")], id="a built-in kind"),
        pytest.param([custom("a", **MANAGED), custom("b", **MANAGED)], id="entries that begin as an item does"),
        pytest.param([custom("a", spec={"text": '},{"metadata":{'}), custom("b")], id="a seam inside a string"),
        pytest.param([builtin("a", status={"x": '"items":[{'}), builtin("b")], id="another list inside a string"),
    ],
)
def test_guess(items: list[bytes]) -> None:
    """When a list looks as the API server writes it, it should be cut into its items without a pass over it."""
    found = _lists.guess(body(*items))
    assert found is not None
    assert (found.head.kind, found.head.resource_version, found.head.continue_token) == ("WidgetList", "9", "t")
    assert found.head.items == []
    assert list(found.pieces) == items


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(body(), id="no items"),
        pytest.param(body(b'{"name":"a"}'), id="items without metadata"),
        pytest.param(body(b'{ "metadata":{"name":"a"}}'), id="white space"),
        pytest.param(bytearray(body(builtin("a"))[:-2]), id="broken off"),
        pytest.param(bytearray(b'{"items":[' + builtin("a") + b'],"kind":"L"}'), id="the items first"),
        pytest.param(bytearray(b'{"metadata":{"x":{"items":[' + builtin("a") + b"]}"), id="a list of something else"),
        pytest.param(
            bytearray(b'{"kind":"L",' + b" " * 20_000 + b'"items":[' + builtin("a") + b"]}"), id="a long head"
        ),
        pytest.param(bytearray(b""), id="nothing"),
    ],
)
def test_no_guess(text: bytearray) -> None:
    """When a body looks in any way different, nothing should be guessed."""
    assert pieces(text) is None


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([builtin("a", **NESTED), builtin("b", **NESTED)], id="a list inside that looks the same"),
        pytest.param([builtin("a"), custom("b")], id="an item that begins otherwise"),
        pytest.param([builtin("a"), b'{ "metadata":{"name":"b"}}', builtin("c")], id="white space in between"),
        pytest.param([builtin("a"), b"null", builtin("c")], id="an item that is no object"),
        pytest.param([builtin("a"), builtin("b"), b'{"metadata":{"name":"c"},"x":NaN}'], id="no JSON"),
    ],
)
def test_wrong_guess(items: list[bytes]) -> None:
    """When the seams are not where they seem to be, the page should be what splitting it properly gives."""
    text = body(*items)
    assert pieces(text) != items or b"NaN" in text
    expected = [found for item in items if (found := IDENTIFY(item)) is not None]
    page = read(text)
    assert [item.key for item in page.items] == [item.key for item in expected]
    assert [type(item) for item in page.items] == [type(item) for item in expected]
    assert page.unidentifiable == len(items) - len(expected)


VALUES = [*(value for value in HOSTILE.values() if len(value) < 10_000), b"[" * 5_000 + b"]" * 5_000]
ITEM = st.sampled_from(
    [
        *(custom("a"), builtin("b"), builtin("c", **NESTED), custom("d", **MANAGED)),
        *(b'{"metadata":{"name":"%d"},"spec":%s}' % (number, value) for number, value in enumerate(VALUES)),
        *(b"null", b"{}", b'{"metadata":{}}', b"[]", b'{"metadata":{"name":"x","labels":null}}'),
    ]
)


@given(st.lists(ITEM, max_size=5), st.sampled_from([b"", b"\n", b" ", b"\r\n"]))
def test_any_page(items: list[bytes], after: bytes) -> None:
    """When any items come together, the page should be the same as if it had been split properly."""
    text = body(*items, after=after)
    expected = [IDENTIFY(bytes(item)) for item in _wire.split_list(text).items or ()]
    page = read(text)
    kept = [item for item in expected if item is not None]
    assert [(item.key, item.uid, item.resource_version) for item in page.items] == [
        (item.key, item.uid, item.resource_version) for item in kept
    ]
    assert [isinstance(item, Withheld) for item in page.items] == [isinstance(item, Withheld) for item in kept]
    assert page.unidentifiable == len(expected) - len(kept)
    assert (page.resource_version, page.continue_token) == ("9", "t")


@given(
    st.lists(st.sampled_from([custom("a"), b"{", b"}", b",", b"},", b'{"metadata":{', b"]}", b'"', b"1"]), max_size=8)
)
def test_any_bytes(parts: list[bytes]) -> None:
    """When the bytes are no list, they should be refused, however much they look like one."""
    text = body(b"".join(parts))
    try:
        expected = _wire.split_list(text)
    except _wire.WireError:
        with pytest.raises(ApiError, match="no JSON list"):
            read(text)
    else:
        assert len(read(text).items) + read(text).unidentifiable == len(expected.items or ())


def test_memory_of_a_large_page() -> None:
    """When a large page is read, nothing as large as the page should be made beside its items."""
    text = body(*(builtin(f"p{n}", spec={"filler": "x" * 10_000}) for n in range(200)))
    tracemalloc.start()
    try:
        page = read(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(page.items) == 200
    assert peak < 1.2 * len(text)


def test_a_status_for_a_list() -> None:
    """When an answer of 200 is a Status that looks like a list, it should be the error it tells of."""
    text = bytearray(b'{"kind":"Status","code":403,"message":"no","items":[' + builtin("a") + b"]}")
    with pytest.raises(ApiError, match="no") as caught:
        read(text)
    assert caught.value.status == 403
