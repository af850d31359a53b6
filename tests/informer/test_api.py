"""`informer.api`: LIST and WATCH over a kubernetes-asyncio client, against a real HTTP server."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from informer import api as api_module
from informer import listerwatcher
from informer.api import ApiListerWatcher
from informer.errors import ApiError, ItemTooLargeError, StreamBrokenError
from informer.listerwatcher import Bookmark, Deleted, Item, ListOptions, Page, WatchOptions, Withheld
from informer.objects import KubeObject
from informer.resource import Resource
from informer.testing import End, FakeApiServer, faults, match

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
CLUSTERS = Resource("example.test", "v1", "clusters", kind="Cluster", namespaced=False)
SECRETS = Resource("", "v1", "secrets", kind="Secret")
LIST = match("list", WIDGETS)
WATCH = match("watch", WIDGETS)
FROM_5 = WatchOptions(resource_version="5", timeout=300.0)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([WIDGETS, CLUSTERS, SECRETS]) as server:
        yield server


@pytest.fixture
async def api(server: FakeApiServer) -> AsyncIterator[Any]:
    async with server.api_client() as api:
        yield api


def obj(name: str | None, version: str = "7", *, more: str = "", spec: bytes = b"{}") -> bytes:
    named = f'"name":"{name}","namespace":"team-a",' if name is not None else ""
    head = f'{{"metadata":{{{named}"uid":"u-{name}","resourceVersion":"{version}"{more}}},"spec":'
    return head.encode() + spec + b"}"


def page(*items: bytes, kind: str = "WidgetList") -> bytes:
    head = f'{{"kind":"{kind}","apiVersion":"example.test/v1","metadata":{{"resourceVersion":"9"}},"items":['
    return head.encode() + b",".join(items) + b"]}"


def line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)


def status(code: int, reason: str, **more: Any) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "message": "no", "reason": reason, "code": code}
    return json.dumps(body | more).encode()


async def listed(server: FakeApiServer, api: Any, body: bytes, resource: Resource = WIDGETS) -> Page[KubeObject]:
    server.faults.add(match("list"), faults.Answer(200, body))
    return await ApiListerWatcher(api, resource).list(ListOptions())


async def watched(
    server: FakeApiServer, api: Any, *steps: Any, resource: Resource = WIDGETS, **options: Any
) -> list[Any]:
    """All events of one watch that plays these steps; an error raised at its end is the last element."""
    server.faults.add(match("watch"), faults.Script(*steps))
    events: list[Any] = []
    try:
        async with ApiListerWatcher(api, resource, **options).watch(FROM_5) as stream:
            async for event in stream:
                events.append(event)  # noqa: PERF401 - what came before an error counts
    except ApiError as error:
        events.append(error)
    return events


def short(events: list[Any]) -> list[Any]:
    """Events in a word each."""
    words: list[Any] = []
    for event in events:
        match event:
            case Bookmark(version, mark, unidentifiable):
                words.append(("bookmark", version, mark, unidentifiable))
            case ApiError():
                words.append(str(event))
            case _:
                words.append((type(event).__name__.lower(), event.key, event.resource_version))
    return words


# ---------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize(
    ("options", "query"),
    [
        (ListOptions(), {"limit": "500"}),
        (ListOptions(resource_version="0", limit=500), {"limit": "500", "resourceVersion": "0"}),
        (ListOptions(resource_version="40", limit=None), {"resourceVersion": "40"}),
        (ListOptions(resource_version="", limit=2), {"limit": "2", "resourceVersion": ""}),
        # A server refuses a version beside a token.
        (ListOptions(resource_version="40", limit=2, continue_token="t"), {"limit": "2", "continue": "t"}),
    ],
)
async def test_list_request(server: FakeApiServer, api: Any, options: ListOptions, query: dict[str, str]) -> None:
    """When a page is asked for, the request should say exactly that, and nothing of `resourceVersionMatch`."""
    server.faults.add(LIST, faults.Answer(200, page()))
    await ApiListerWatcher(api, WIDGETS, namespace="team-a", label_selector="a=b,c", field_selector="x=y").list(options)
    (request,) = server.lists(WIDGETS)
    assert request.query == query | {"labelSelector": "a=b,c", "fieldSelector": "x=y"}
    assert request.path == "/apis/example.test/v1/namespaces/team-a/widgets"


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (WatchOptions(resource_version="40", timeout=412.9), {"resourceVersion": "40", "timeoutSeconds": "412"}),
        (
            WatchOptions(resource_version="", timeout=300, send_initial_events=True),
            {
                "resourceVersion": "",
                "timeoutSeconds": "300",
                "sendInitialEvents": "true",
                "resourceVersionMatch": "NotOlderThan",
            },
        ),
    ],
)
async def test_watch_request(server: FakeApiServer, api: Any, options: WatchOptions, more: dict[str, str]) -> None:
    """When a watch is opened, it should ask for bookmarks, its time limit, and no compression."""
    server.faults.add(WATCH, faults.Script())
    async with ApiListerWatcher(api, WIDGETS).watch(options):
        pass
    (request,) = server.watches(WIDGETS)
    assert request.query == {"watch": "true", "allowWatchBookmarks": "true"} | more
    assert request.headers["accept-encoding"] == "identity"


async def test_authentication(server: FakeApiServer) -> None:
    """When the client has a token, both verbs should carry it."""
    server.tokens = {"t1"}
    async with server.api_client(token="t1") as api:
        source = ApiListerWatcher(api, WIDGETS)
        await source.list(ListOptions())
        async with source.watch(WatchOptions(resource_version="", timeout=10)):
            pass
    assert [request.status for request in server.requests] == [200, 200]


def test_arguments() -> None:
    """When arguments make no sense, they should be refused before any request."""
    with pytest.raises(ValueError, match="cluster-scoped"):
        ApiListerWatcher(None, CLUSTERS, namespace="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_object_bytes is 1023; objects need at least 1024"):
        ApiListerWatcher(None, WIDGETS, max_object_bytes=1023)  # type: ignore[arg-type]
    source = ApiListerWatcher(None, WIDGETS, namespace="")  # type: ignore[arg-type]
    assert repr(source) == "ApiListerWatcher('/apis/example.test/v1/widgets')"
    assert source.resource is WIDGETS


# ---------------------------------------------------------------------- LIST


async def test_pages(server: FakeApiServer, api: Any) -> None:
    """When a list comes in pages, each should carry its token and the objects' identity beside the value."""
    for name in "abc":
        server.create(WIDGETS, {"metadata": {"name": name, "namespace": "team-a", "labels": {"l": name}}})
    source = ApiListerWatcher(api, WIDGETS)
    first = await source.list(ListOptions(resource_version="", limit=2))
    second = await source.list(ListOptions(limit=2, continue_token=first.continue_token))
    assert [item.key for item in (*first.items, *second.items)] == ["team-a/a", "team-a/b", "team-a/c"]
    assert (first.resource_version, second.continue_token) == (server.resource_version, "")
    item = first.items[0]
    assert isinstance(item, Item)
    assert item.labels == {"l": "a"}
    assert item.object.to_dict() == {
        k: v for k, v in server.get(WIDGETS, "a", namespace="team-a").items() if k in item.object.to_dict()
    }
    assert item.uid == item.object.uid == server.get(WIDGETS, "a", namespace="team-a")["metadata"]["uid"]


@pytest.mark.parametrize(
    "body",
    [
        page(),
        b'{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":null}',
        b'{"kind":"WidgetList","metadata":{"resourceVersion":"9"}}',
        # CRDs choose their listKind, so no other kind is judged.
        b'{"kind":"Bunch","metadata":{"resourceVersion":"9"},"items":[]}',
        b'{"metadata":{"resourceVersion":"9"},"items":[]}',
        b'{"kind":"Table","apiVersion":"example.test/v1","metadata":{"resourceVersion":"9"},"items":[]}',
    ],
)
async def test_empty_lists(server: FakeApiServer, api: Any, body: bytes) -> None:
    """When a list is empty in any way servers have, it should be empty and have its version."""
    assert await listed(server, api, body) == Page([], "9")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (status(500, "InternalError"), "500 InternalError: list widgets.v1.example.test: no"),
        (status(410, "Expired"), "410 Expired: "),
        (json.dumps(json.loads(status(429, "TooManyRequests")), indent=1).encode(), "429 TooManyRequests: "),
        (
            b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"rows":[{"cells":["hunter2"]}]}',
            "UnreadableAnswer: list widgets.v1.example.test: expected a list, got a Table",
        ),
        (
            b'{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1","metadata":{"resourceVersion":"9"},"items":[]}',
            "UnreadableAnswer: list widgets.v1.example.test: expected a list, got a Table",
        ),
        (b'{"kind":"Widget","metadata":{"name":"a"}}', "UnreadableAnswer: .*got a Widget without items"),
        (b"{}", "UnreadableAnswer: .*got an object without a kind without items"),
        (b"<html>502 Bad Gateway</html>", "UnreadableAnswer: .*no JSON list"),
        (b"", "UnreadableAnswer: .*no JSON list"),
        (b'{"kind":"WidgetList","items":[{"password":"hunter2"}', "UnreadableAnswer: .*no JSON list"),
        (b'{"kind":"WidgetList","items":{}}', "UnreadableAnswer: .*no JSON list"),
    ],
)
async def test_no_list(server: FakeApiServer, api: Any, body: bytes, message: str) -> None:
    """When an answer of 200 is no list, it should be refused for what it is, and never quoted at length."""
    with pytest.raises(ApiError, match=message) as caught:
        await listed(server, api, body)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("item", "log"),
    [
        (b"null", "index 1"),
        (b'{"spec":{}}', "index 1"),
        (b'{"metadata":{"name":42,"namespace":"team-a"}}', "index 1"),
        (b'{"metadata":{"name":"x","namespace":42}}', "index 1"),
        (b'{"metadata":{"name":""}}', "index 1"),
        (b'{"metadata":{"name":"a/b"}}', "index 1"),
        (b'{"metadata":{"name":"x","namespace":"a/b"}}', "index 1"),
        (b'{"metadata":null}', "index 1"),
        (b"[]", "index 1"),
        (b"NaN", "index 1"),
    ],
)
async def test_unidentifiable(
    server: FakeApiServer, api: Any, item: bytes, log: str, caplog: pytest.LogCaptureFixture
) -> None:
    """When an item has no usable key, it should be counted and logged by its index, the others unaffected."""
    got = await listed(server, api, page(obj("a"), item, obj("c")))
    assert [one.key for one in got.items] == ["team-a/a", "team-a/c"]
    assert got.unidentifiable == 1
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    assert f"widgets.v1.example.test: unidentifiable item at {log}" in caplog.text


async def test_many_unidentifiable(server: FakeApiServer, api: Any, caplog: pytest.LogCaptureFixture) -> None:
    """When a whole page has no usable keys, it should count them all and name the first few, not fill the log."""
    got = await listed(server, api, page(*[b"null"] * 500, obj("a")))
    assert (got.unidentifiable, len(got.items)) == (500, 1)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 11
    assert errors[9].endswith("unidentifiable item at index 9: it has no usable key")
    assert errors[10].endswith("490 more items of this page have no usable key")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (obj("x", spec=b"NaN"), "not valid JSON"),
        (obj("x", spec=b'"\\ud800"'), "not valid JSON"),
        (obj("x", spec=b'"\xff"'), "invalid UTF-8: byte 0xff"),
        (obj("x", spec=b"[" * 100_000 + b"]" * 100_000), "nested too deeply"),
        (obj("x", spec=b'"\x01"'), "not valid JSON"),
        (obj("x", more=',"annotations":{"a":"\\ud800"}'), "not valid JSON"),
        (obj("x", more=',"generation":NaN'), "not valid JSON"),
    ],
    ids=["NaN", "surrogate", "UTF-8", "deep", "control character", "annotation", "generation"],
)
async def test_withheld_for_its_text(server: FakeApiServer, api: Any, item: bytes, reason: str) -> None:
    """When an item is no JSON text but its key can be read, it should be withheld with its identity, alone."""
    got = await listed(server, api, page(obj("a"), item, obj("c")))
    assert [type(one) for one in got.items] == [Item, Withheld, Item]
    held = got.items[1]
    assert isinstance(held, Withheld)
    assert (held.key, held.uid, held.resource_version) == ("team-a/x", "u-x", "7")
    assert held.entry.key == "team-a/x"
    assert reason in str(held.entry.problems[0])
    assert got.unidentifiable == 0
    # By WATCH it is the same.
    (event,) = await watched(server, api, line("MODIFIED", item.replace(b"\n", b"")))
    assert isinstance(event, Withheld)
    assert event.key == "team-a/x"


@pytest.mark.parametrize("more", [',"labels":null', ',"labels":{"a":1}', ',"generation":"x"', ',"annotations":{"a":7}'])
async def test_odd_metadata(server: FakeApiServer, api: Any, more: str) -> None:
    """When metadata have members of a wrong type but the key can be read, the object should be an ordinary item."""
    (item,) = (await listed(server, api, page(obj("x", more=more)))).items
    assert isinstance(item, Item)
    assert (item.key, item.labels, item.object.metadata.labels) == ("team-a/x", {}, {})
    assert (await watched(server, api, line("ADDED", obj("x", more=more))))[0] == item


async def test_large_items(server: FakeApiServer, api: Any) -> None:
    """When an item is larger than allowed, it should be an error with its key; one that just fits is an item."""
    source = ApiListerWatcher(api, WIDGETS, max_object_bytes=2000)
    room = 2000 - len(obj("x", spec=b'""'))
    server.faults.add(LIST, faults.Answer(200, page(obj("x", spec=b'"' + b"x" * room + b'"'))))
    assert len((await source.list(ListOptions())).items) == 1
    server.faults.add(LIST, faults.Answer(200, page(obj("x", spec=b'"' + b"x" * (room + 1) + b'"'))))
    with pytest.raises(ItemTooLargeError, match="team-a/x is 2001 bytes large; max_object_bytes is 2000"):
        await source.list(ListOptions())


async def test_page_limits(server: FakeApiServer, api: Any) -> None:
    """When half a page comes and then nothing, it should give up after two minutes and close the connection."""
    server.faults.add(LIST, faults.Script(page()[:20], End.STALL))
    begin = asyncio.get_running_loop().time()
    with pytest.raises(ApiError, match=r"Timeout: list widgets\.v1\.example\.test: no answer within 120 s"):
        await ApiListerWatcher(api, WIDGETS).list(ListOptions())
    assert asyncio.get_running_loop().time() - begin == pytest.approx(120, abs=0.5)
    await server.wait_until(lambda: server.open_connections == 0)


async def test_slow_page(server: FakeApiServer, api: Any) -> None:
    """When a page begins after a minute, as slow servers do, it should be waited for; after 65 s it is given up."""
    server.faults.add(LIST, faults.Delay(64))
    assert (await ApiListerWatcher(api, WIDGETS).list(ListOptions())).items == []
    server.faults.add(LIST, faults.Delay(66))
    with pytest.raises(ApiError, match="no answer within 65 s"):
        await ApiListerWatcher(api, WIDGETS).list(ListOptions())


@pytest.mark.parametrize("end", [End.RESET, End.DROP])
async def test_broken_page(server: FakeApiServer, api: Any, end: End) -> None:
    """When a page breaks off, it should be a connection error, never half a page."""
    server.faults.add(LIST, faults.Script(page(obj("a"))[:-5], end))
    with pytest.raises(ApiError, match="ConnectionError: list"):
        await ApiListerWatcher(api, WIDGETS).list(ListOptions())


# ---------------------------------------------------------------------- WATCH

EVENTS: list[tuple[str, tuple[Any, ...], list[Any]]] = [
    ("events", (line("ADDED", obj("a")), line("MODIFIED", obj("a", "8"))), [("item", "team-a/a", "7"), ("item", "team-a/a", "8")]),
    ("deleted", (line("DELETED", obj("a", "9")),), [("deleted", "team-a/a", "9")]),
    ("keep-alives", (b"\n", b"\r\n", line("ADDED", obj("a")), b"\n"), [("item", "team-a/a", "7")]),
    ("opaque version", (line("ADDED", obj("a", "abc-7")),), [("item", "team-a/a", "abc-7")]),
    ("unknown type", (line("SYNC", obj("a")), line("ADDED", obj("b"))), [("item", "team-a/b", "7")]),
    (
        "bookmarks",
        (line("BOOKMARK", b'{"kind":"Widget","metadata":{"resourceVersion":"12","creationTimestamp":null},"spec":{"x":null}}'),),
        [("bookmark", "12", False, 0)],
    ),
    (
        "marked bookmark",
        (line("BOOKMARK", b'{"metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"true"}}}'),),
        [("bookmark", "12", True, 0)],
    ),
    (
        "mark of another value",
        (line("BOOKMARK", b'{"metadata":{"resourceVersion":"12","annotations":{"k8s.io/initial-events-end":"false"}}}'),),
        [("bookmark", "12", False, 0)],
    ),
    ("bookmark without version", (line("BOOKMARK", b'{"metadata":{}}'), line("ADDED", obj("a"))), [("item", "team-a/a", "7")]),
    ("bookmark with an empty version", (line("BOOKMARK", b'{"metadata":{"resourceVersion":""}}'),), []),
    # A bad object moves the version on, whether its key can be read or not.
    ("unidentifiable", (line("ADDED", obj(None, "8")), line("ADDED", obj("b", "9"))), [("bookmark", "8", False, 1), ("item", "team-a/b", "9")]),
    ("a hostile neighbour", (line("ADDED", obj("x", "8", spec=b"NaN")), line("ADDED", obj("b", "9"))), [("withheld", "team-a/x", "8"), ("item", "team-a/b", "9")]),
    ("neither key nor version", (line("ADDED", b"null"),), ["UnreadableEvent: watch widgets.v1.example.test: ADDED of an object with neither key nor version"]),
    ("deleted without key", (line("DELETED", obj(None)),), ["UnreadableEvent: watch widgets.v1.example.test: DELETED of an object without a key"]),
    # Torn last lines are dropped.
    ("torn, closed", (line("ADDED", obj("a")), line("ADDED", obj("b"))[:-9]), [("item", "team-a/a", "7")]),
    ("whole, but without its line break", (line("ADDED", obj("a")), line("ADDED", obj("b"))[:-1]), [("item", "team-a/a", "7")]),
    # Errors in the stream.
    ("410", (line("ERROR", status(410, "Gone")),), ["410 Gone: watch widgets.v1.example.test: no"]),
    ("after an event", (line("ADDED", obj("a")), line("ERROR", status(500, "InternalError"))), [("item", "team-a/a", "7"), "500 InternalError: watch widgets.v1.example.test: no"]),
    ("bare Status", (status(403, "Forbidden") + b"\n",), ["403 Forbidden: watch widgets.v1.example.test: no"]),
    ("bare Status, no line break", (status(403, "Forbidden"),), ["403 Forbidden: watch widgets.v1.example.test: no"]),
    ("pretty Status", (json.dumps(json.loads(status(429, "TooManyRequests")), indent=2).encode() + b"\n",), ["429 TooManyRequests: watch widgets.v1.example.test: no"]),
    ("pretty Status in pieces", (*json.dumps(json.loads(status(429, "TooManyRequests")), indent=2).encode().splitlines(keepends=True),), ["429 TooManyRequests: watch widgets.v1.example.test: no"]),
    ("pretty Status after an event", (line("ADDED", obj("a")), json.dumps(json.loads(status(429, "TooManyRequests")), indent=2).encode()), [("item", "team-a/a", "7"), "429 TooManyRequests: watch widgets.v1.example.test: no"]),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), [row[1:] for row in EVENTS], ids=[row[0] for row in EVENTS])
async def test_events(server: FakeApiServer, api: Any, steps: tuple[Any, ...], expected: list[Any]) -> None:
    """When lines come by WATCH, each should be what the table says, in whatever chunks they come."""
    assert short(await watched(server, api, *steps)) == expected
    whole = b"".join(steps)
    assert short(await watched(server, api, *(whole[at : at + 3] for at in range(0, len(whole), 3)))) == expected


@pytest.mark.parametrize(
    ("steps", "error", "kind"),
    [
        ((b"<html><body>502 Bad Gateway</body></html>\n",), "UnreadableAnswer", ApiError),
        ((b"<html><body>502 Bad Gateway</body></html>",), "UnreadableAnswer", ApiError),
        ((b"Bad Gateway\r\nsorry\r\n",), "UnreadableAnswer", ApiError),
        # An event that cannot be split is a lost event, be it the first one: from the same version it would come again.
        ((b'{"type":"ADDED","object":{"a":]}}\n',), "UnreadableEvent", StreamBrokenError),
        ((b'{"object":{"metadata":{}}}\n', line("ADDED", obj("a"))), "UnreadableEvent", StreamBrokenError),
        ((line("ADDED", obj("a")), b"garbage\n", line("ADDED", obj("b"))), "UnreadableEvent", StreamBrokenError),
        ((line("ERROR", b"{}"),), "", ApiError),
        ((line("ADDED", obj("a")), End.RESET), "ConnectionError", ApiError),
        ((line("ADDED", obj("a")), End.DROP), "ConnectionError", ApiError),
        ((line("ADDED", obj("a"))[:-20], End.RESET), "ConnectionError", ApiError),
    ],
)
async def test_broken_streams(
    server: FakeApiServer, api: Any, steps: tuple[Any, ...], error: str, kind: type[ApiError]
) -> None:
    """When a stream breaks, it should say how: what cannot be trusted any more is told from what may go on."""
    last = (await watched(server, api, *steps))[-1]
    assert type(last) is kind
    assert last.reason == error


async def test_retry_after_of_a_pretty_status(server: FakeApiServer, api: Any) -> None:
    """When a Status stands where events were expected, its Retry-After should count."""
    body = json.dumps(json.loads(status(429, "TooManyRequests", details={"retryAfterSeconds": 5})), indent=2).encode()
    (error,) = await watched(server, api, body)
    assert (error.status, error.retry_after) == (429, 5)


@pytest.mark.parametrize("resource", [SECRETS])
@pytest.mark.parametrize(
    "steps",
    [
        (b'{"object":{"data":{"password":"hunter2"}}}\n',),
        (b'{"type":"ADDED","object":{"data":{"password":"hunter2"},]}}\n',),
        (line("ERROR", b'{"data":{"password":"hunter2"}}'),),
        (line("ADDED", b'{"data":{"password":"hunter2"}}'),),
        (line("DELETED", b'{"data":{"password":"hunter2"}}'),),
        (b'{"password":"hunter2"}',),
    ],
)
async def test_no_secret_in_an_error(
    server: FakeApiServer, api: Any, resource: Resource, steps: tuple[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """When a line of Secrets cannot be read, no value should reach an error or a log."""
    for event in await watched(server, api, *steps, resource=resource):
        assert "hunter2" not in str(event)
    assert "hunter2" not in caplog.text


async def test_deleted_without_a_sound_final_state(server: FakeApiServer, api: Any) -> None:
    """When the final state is no JSON text, the delete should still happen, without it."""
    sound, broken, latin = await watched(
        server,
        api,
        line("DELETED", obj("a", "8")),
        line("DELETED", obj("b", "9", spec=b"NaN")),
        line("DELETED", obj("c", "10", spec=b'"\xff"')),
    )
    assert isinstance(sound, Deleted)
    assert sound.last == KubeObject.parse(obj("a", "8"))
    assert (broken, latin) == (Deleted("team-a/b", "u-b", "9", None), Deleted("team-a/c", "u-c", "10", None))


async def test_text_is_kept(server: FakeApiServer, api: Any) -> None:
    """When text comes in single bytes and holds what looks like line breaks, it should arrive as it was sent."""
    text = "日本語 – ünï \u2028 \u0085 \\n"
    sent = line("ADDED", obj("a", spec=f'{{"tier":"{text}"}}'.encode()))
    (event,) = await watched(server, api, *(bytes([byte]) for byte in sent))
    assert event.object["spec"]["tier"] == text.replace("\\n", "\n")


@pytest.mark.parametrize("size", [60 << 10, (64 << 10) + 1, 130 << 10, 3 << 20])
async def test_long_lines(server: FakeApiServer, api: Any, size: int) -> None:
    """When a line is longer than the HTTP library's buffers, it should arrive."""
    sent = line("ADDED", obj("a", spec=b'"' + b"x" * size + b'"'))
    (event,) = await watched(server, api, *(sent[at : at + 16384] for at in range(0, len(sent), 16384)))
    assert len(event.object["spec"]) == size


async def test_line_limit(server: FakeApiServer, api: Any) -> None:
    """When a line is longer than allowed, it should be an error with the name."""
    (error,) = await watched(
        server, api, line("ADDED", obj("big", spec=b'"' + b"x" * 2000 + b'"')), max_object_bytes=2000
    )
    assert isinstance(error, ItemTooLargeError)
    assert "big" in str(error)


async def test_warnings(server: FakeApiServer, api: Any, caplog: pytest.LogCaptureFixture) -> None:
    """When something odd is ignored, a log line should say so, and a quiet stream should say nothing."""
    await watched(server, api, line("ADDED", obj("a")))
    assert not caplog.records
    await watched(server, api, line("SYNC" * 50, obj("a")), line("BOOKMARK", b"{}"), line("ADDED", obj(None, "8")))
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.WARNING, logging.ERROR]
    assert all(len(record.getMessage()) < 200 for record in caplog.records)


async def test_watch_headers_limit(server: FakeApiServer, api: Any) -> None:
    """When a watch is not opened within 30 s, it should be given up."""
    server.faults.add(WATCH, faults.NoAnswer())
    begin = asyncio.get_running_loop().time()
    with pytest.raises(ApiError, match="no answer within 30 s"):
        async with ApiListerWatcher(api, WIDGETS).watch(FROM_5):
            pass
    assert asyncio.get_running_loop().time() - begin == pytest.approx(30, abs=0.5)


async def test_watch_deadline(server: FakeApiServer, api: Any) -> None:
    """When a watch goes silent, it should end 30 s after its time limit at the latest, with its connection closed."""
    begin = asyncio.get_running_loop().time()
    *_, error = await watched(server, api, line("ADDED", obj("a")), End.STALL)
    assert "Timeout: watch widgets.v1.example.test: the server did not end the watch" in str(error)
    assert asyncio.get_running_loop().time() - begin == pytest.approx(330, abs=0.5)
    await server.wait_until(lambda: server.open_connections == 0)


async def test_quiet_watch(server: FakeApiServer, api: Any, caplog: pytest.LogCaptureFixture) -> None:
    """When a watch lives its whole life in silence, its end should be clean and not worth a log line."""
    server.watch_rules.bookmark_period = None
    with caplog.at_level(logging.INFO, logger="informer"):
        async with ApiListerWatcher(api, WIDGETS).watch(
            WatchOptions(resource_version=server.resource_version)
        ) as events:
            assert [event async for event in events if not isinstance(event, Bookmark)] == []
    assert not caplog.records


# ---------------------------------------------------------------------- 401


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_unauthorized(server: FakeApiServer, verb: str) -> None:
    """When a request is refused with 401, the callback should be awaited once, before the error goes on."""
    server.tokens = {"t2"}
    calls: list[str] = []

    async with server.api_client(token="t1") as api:

        async def renew() -> None:
            await asyncio.sleep(1)
            api.configuration.api_key["BearerToken"] = "Bearer t2"
            calls.append("renewed")

        source = ApiListerWatcher(api, WIDGETS, on_unauthorized=renew)
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await _request(source, verb)
        assert calls == ["renewed"]
        await _request(source, verb)
        server.forbid(WIDGETS)
        with pytest.raises(ApiError, match="403 Forbidden"):
            await _request(source, verb)
    assert calls == ["renewed"]


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_unauthorized_and_no_new_token(
    server: FakeApiServer, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    """When the callback itself fails, that should be logged and the server's 401 should go on."""
    server.tokens = {"t2"}

    async def renew() -> None:
        raise FileNotFoundError("/var/run/token")

    async with server.api_client(token="t1") as api:
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await _request(ApiListerWatcher(api, WIDGETS, on_unauthorized=renew), verb)
    assert "on_unauthorized failed" in caplog.text
    assert "t1" not in caplog.text


async def _request(source: ApiListerWatcher, verb: str) -> None:
    if verb == "list":
        await source.list(ListOptions())
    else:
        async with source.watch(WatchOptions(resource_version="", timeout=5)):
            pass


# ---------------------------------------------------------------------- cancelling


def our_tasks() -> set[asyncio.Task[Any]]:
    """All tasks but those of the server's end of a connection."""
    return {task for task in asyncio.all_tasks() if "RequestHandler" not in str(task.get_coro())}


async def _one_list(source: ApiListerWatcher) -> None:
    await source.list(ListOptions())


async def _one_watch(source: ApiListerWatcher) -> None:
    async with source.watch(WatchOptions(resource_version="0")) as events:
        async for _ in events:
            pass


async def _watch_and_work(source: ApiListerWatcher) -> None:
    async with source.watch(WatchOptions(resource_version="0")) as events:
        async for _ in events:
            await asyncio.sleep(1000)


SEEN = -1  # stands for as many turns of the loop as it takes until the server has the request


@pytest.mark.parametrize("use", [_one_list, _one_watch, _watch_and_work])
@pytest.mark.parametrize(
    "fault", [None, faults.NoAnswer(), faults.Script(b'{"type"', End.STALL)], ids=["well", "mute", "half"]
)
async def test_cancelling(
    server: FakeApiServer, use: Callable[[ApiListerWatcher], Awaitable[None]], fault: Any
) -> None:
    """When a request is cancelled at any point, it should end within a second and leave no task and no socket."""
    for name in "abc":
        server.create(WIDGETS, {"metadata": {"name": name}})
    if fault is not None:
        server.faults.add(match(), fault, times=None)
    loop = asyncio.get_running_loop()
    outcomes = set()
    async with server.api_client() as api:
        ours = our_tasks()
        for turns in (*range(60), 100, 200, SEEN):
            server.requests.clear()
            task = asyncio.ensure_future(use(ApiListerWatcher(api, WIDGETS)))
            for _ in range(turns):
                await asyncio.sleep(0)
            while turns == SEEN and not server.requests:  # noqa: ASYNC110 - turns are what is counted here; an answer takes one more
                await asyncio.sleep(0)
            if turns == 200 and use is _one_list and fault is None:
                await asyncio.wait([task])  # after the request: how many turns it takes is the kernel's affair
            begin = loop.time()
            task.cancel()
            await asyncio.wait([task], timeout=1.0)
            assert task.done(), turns
            assert loop.time() - begin < 1.0, turns
            outcomes.add((task.cancelled(), len(server.requests) > 0))
            await asyncio.sleep(0.5)
            assert our_tasks() <= ours, turns
            assert server.open_watches() == 0, turns
            if not task.cancelled():
                task.result()
            elif server.requests or (False, True) not in outcomes:  # else a whole list has left an idle connection
                await server.wait_until(lambda: server.open_connections == 0, timeout=1.0)
        # The client is as good as new.
        server.faults.clear()
        await _one_list(ApiListerWatcher(api, WIDGETS))
    # The turns did reach from before the request to after it.
    assert {(True, False), (True, True)} <= outcomes
    assert ((False, True) in outcomes) == (use is _one_list and fault is None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()


async def test_leaving_halfway(server: FakeApiServer, api: Any) -> None:
    """When a watch is left between two events, its connection should be closed and its generator with it."""
    for name in "abc":
        server.create(WIDGETS, {"metadata": {"name": name}})
    before = our_tasks()
    async with ApiListerWatcher(api, WIDGETS).watch(WatchOptions(resource_version="0")) as events:
        first = await anext(events)
        assert isinstance(first, Item)
    with pytest.raises(StopAsyncIteration):
        await anext(events)
    await server.wait_until(lambda: server.open_connections == 0, timeout=1.0)
    assert our_tasks() <= before


def test_constants() -> None:
    """When timeouts are looked up, they should be the design's."""
    limits = (
        api_module.LIST_TIMEOUT,
        api_module.LIST_FIRST_BYTE,
        api_module.WATCH_FIRST_BYTE,
        listerwatcher.WATCH_GRACE,
    )
    assert limits == (120, 65, 30, 30)
