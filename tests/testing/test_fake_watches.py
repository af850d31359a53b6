from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from informer.testing import End, FakeApiServer

from .conftest import CLUSTERS, WIDGETS, Http, event, events, widget


def loop_time() -> float:
    return asyncio.get_running_loop().time()


STREAM = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


async def test_events_after_a_version(server: FakeApiServer, http: Http):
    """When a watch begins at a version, it should bring exactly the later events, past and live, with whole objects."""
    server.create(WIDGETS, widget("a"))
    version = server.resource_version
    server.create(WIDGETS, widget("b"))
    server.create(CLUSTERS, {"metadata": {"name": "c"}})
    async with http.watch(resourceVersion=version, timeoutSeconds="10") as answer:
        kind, obj = await event(answer)
        assert (kind, obj) == ("ADDED", server.get(WIDGETS, "b", namespace="team-a"))
        assert obj["kind"] == "Widget"
        changed = server.patch(WIDGETS, "b", {"spec": {"x": 1}}, namespace="team-a")
        assert await event(answer) == ("MODIFIED", changed)
        server.delete(WIDGETS, "b", namespace="team-a")
        kind, obj = await event(answer)
        assert (kind, obj["spec"], obj["metadata"]["resourceVersion"]) == ("DELETED", {"x": 1}, server.resource_version)
        assert await event(answer) is None
    assert loop_time() == pytest.approx(1010)


@pytest.mark.parametrize("version", ["", "0"])
async def test_watch_from_nowhere(server: FakeApiServer, http: Http, version: str):
    """When no version is given, the present objects should come first, as ADDED."""
    server.create(WIDGETS, widget("a"))
    server.create(WIDGETS, widget("b"))
    async with http.watch(resourceVersion=version, timeoutSeconds="1") as answer:
        assert [(kind, name) for kind, name, _ in await events(answer)] == [("ADDED", "a"), ("ADDED", "b")]


async def test_selection_is_a_border(server: FakeApiServer, http: Http):
    """When objects cross the border of a selector, it should be ADDED on entry and DELETED, with its old state, on exit."""
    server.create(WIDGETS, widget("a", labels={"app": "db"}))
    async with http.watch(
        resourceVersion=server.resource_version, labelSelector="app=web", timeoutSeconds="9"
    ) as answer:
        for labels, spec in (
            ({"app": "db"}, 1),
            ({"app": "web"}, 2),
            ({"app": "web"}, 3),
            ({"app": "db"}, 4),
            ({"app": None}, 5),
        ):
            server.patch(WIDGETS, "a", {"metadata": {"labels": labels}, "spec": {"n": spec}}, namespace="team-a")
        left = str(int(server.resource_version) - 1)
        assert [(kind, obj["spec"]["n"]) for kind, obj in [await event(answer), await event(answer)]] == [
            ("ADDED", 2),
            ("MODIFIED", 3),
        ]
        kind, obj = await event(answer)
        assert (kind, obj["spec"]["n"], obj["metadata"]["labels"]) == ("DELETED", 3, {"app": "web"})
        assert obj["metadata"]["resourceVersion"] == left
        assert await event(answer) is None


async def test_namespace_and_fields(server: FakeApiServer, http: Http):
    """When a watch has a namespace and a field selector, only such objects should come."""
    path = "/apis/example.test/v1/namespaces/team-b/widgets"
    async with http.watch(path, resourceVersion="1", fieldSelector="metadata.name=b", timeoutSeconds="5") as answer:
        for namespace in ("team-a", "team-b"):
            for name in "abc":
                server.create(WIDGETS, widget(name, namespace=namespace))
        assert [(kind, name) for kind, name, _ in await events(answer)] == [("ADDED", "b")]


async def test_bookmarks(server: FakeApiServer, http: Http):
    """When bookmarks are allowed, one should come each period and one before the end, with the newest version of all."""
    server.watch_rules.bookmark_period = 60
    async with http.watch(resourceVersion="1", allowWatchBookmarks="true", timeoutSeconds="150") as answer:
        seen = []
        while (one := await event(answer)) is not None:
            assert set(one[1]) == {"kind", "apiVersion", "metadata"}
            seen.append((loop_time() - 1000, one[0], one[1]["metadata"]["resourceVersion"]))
            server.create(CLUSTERS, {"metadata": {"generateName": "c-"}})
        assert seen == [(60, "BOOKMARK", "1"), (120, "BOOKMARK", "2"), (148, "BOOKMARK", "3")]
    assert loop_time() == 1150


@pytest.mark.parametrize(("allowed", "period"), [("false", 10.0), ("true", None)])
async def test_no_bookmarks(server: FakeApiServer, http: Http, allowed: str, period: float | None):
    """When bookmarks are not allowed, or the server has none, none should come."""
    server.watch_rules.bookmark_period = period
    async with http.watch(resourceVersion="1", allowWatchBookmarks=allowed, timeoutSeconds="100") as answer:
        assert await events(answer) == []


async def test_server_limits_an_endless_watch(server: FakeApiServer, http: Http):
    """When a client sets no limit, the server should end the watch within its own."""
    async with http.watch(resourceVersion="1") as answer:
        assert await events(answer) == []
    assert 1800 <= loop_time() - 1000 <= 3600


async def test_expired_version(server: FakeApiServer, http: Http):
    """When the version is compacted, it should be 410, as HTTP status or inside the stream as set."""
    for name in "abc":
        server.create(WIDGETS, widget(name))
    server.compact()
    async with http.watch(resourceVersion="2") as answer:
        assert answer.status == 410
        status = await answer.json()
    assert (status["reason"], status["code"], status["message"]) == ("Expired", 410, "too old resource version: 2 (4)")
    server.watch_rules.expired_in_stream = True
    async with http.watch(resourceVersion="2") as answer:
        assert answer.status == 200
        assert await event(answer) == ("ERROR", status)
        assert await event(answer) is None
    async with http.watch(resourceVersion="4", timeoutSeconds="1") as answer:
        assert await events(answer) == []


async def test_resource_that_was_gone(server: FakeApiServer, http: Http):
    """When a resource is served again after it was removed, a watch from before that should be told that it is too old."""
    version = server.create(WIDGETS, widget("a"))["metadata"]["resourceVersion"]
    server.remove_resource(WIDGETS)
    server.add_resource(WIDGETS)
    async with http.watch(resourceVersion=version) as answer:
        kind, status = await event(answer)
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


async def test_open_watch_that_is_behind(server: FakeApiServer, http: Http):
    """When compaction takes what an open watch has not sent, it should end with ERROR; another resource's should go on."""
    async with (
        http.watch(resourceVersion="1", timeoutSeconds="9") as widgets,
        http.watch("/apis/example.test/v1/clusters", resourceVersion="1", timeoutSeconds="9") as clusters,
    ):
        server.create(WIDGETS, widget("a"))
        server.compact()
        kind, obj = await event(widgets)
        assert (kind, obj["code"], obj["reason"]) == ("ERROR", 410, "Expired")
        assert await event(widgets) is None
        server.create(CLUSTERS, {"metadata": {"name": "c"}})
        assert (await event(clusters))[0] == "ADDED"


async def test_streaming_list(server: FakeApiServer, http: Http):
    """When a streaming list is asked for, it should send all objects, the marked bookmark, and then live events."""
    server.create(WIDGETS, widget("a"))
    server.create(WIDGETS, widget("b"))
    async with http.watch(**STREAM, timeoutSeconds="1") as answer:
        assert [(await event(answer))[0] for _ in range(2)] == ["ADDED", "ADDED"]
        kind, obj = await event(answer)
        assert kind == "BOOKMARK"
        assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert obj["metadata"]["resourceVersion"] == server.resource_version
        server.delete(WIDGETS, "a", namespace="team-a")
        assert (await event(answer))[0] == "DELETED"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sendInitialEvents": "true"}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            {"resourceVersionMatch": "NotOlderThan"},
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
async def test_streaming_list_rules(http: Http, query: dict[str, str], message: str):
    """When the options of a streaming list do not fit together, it should be 422 with the reason."""
    async with http.watch(**query) as answer:
        assert answer.status == 422
        assert message in (await answer.json())["message"]


async def test_streaming_list_of_other_servers(server: FakeApiServer, http: Http):
    """When streaming lists are refused, it should be 422; when the marker is lost, none should come."""
    server.watch_rules.streaming_lists = "refused"
    async with http.watch(**STREAM) as answer:
        assert answer.status == 422
        assert (await answer.json())["details"]["causes"][0]["field"] == "sendInitialEvents"
    server.watch_rules.streaming_lists = "unmarked"
    server.create(WIDGETS, widget("a"))
    async with http.watch(**STREAM, timeoutSeconds="130") as answer:
        async for line in answer.content:
            assert b"initial-events-end" not in line


async def test_streaming_list_ahead_of_the_server(http: Http):
    """When a streaming list asks for a version ahead of the server, it should be the ERROR event with the cause."""
    async with http.watch(**STREAM, resourceVersion="999") as answer:
        kind, obj = await event(answer)
        assert (kind, obj["code"], obj["details"]["causes"][0]["reason"]) == ("ERROR", 504, "ResourceVersionTooLarge")
        assert await event(answer) is None


async def test_bad_version(http: Http):
    """When the version is no number, it should be the 500 that real servers give."""
    async with http.watch(resourceVersion="None") as answer:
        assert answer.status == 500
        assert 'Invalid value: "None"' in (await answer.json())["message"]


async def test_dropped_events_stay_unheard(server: FakeApiServer, http: Http):
    """When events are dropped, the change should be listed but never watched, live or later."""
    server.create(WIDGETS, widget("a"))
    async with http.watch(resourceVersion="1", timeoutSeconds="5") as answer:
        with server.drop_events():
            server.create(WIDGETS, widget("b"))
            server.delete(WIDGETS, "a", namespace="team-a")
        server.create(WIDGETS, widget("c"))
        assert [name for _, name, _ in await events(answer)] == ["a", "c"]
    async with http.watch(resourceVersion="1", timeoutSeconds="5") as answer:
        assert [name for _, name, _ in await events(answer)] == ["a", "c"]
    _, body = await http("GET", "/apis/example.test/v1/widgets")
    assert [item["metadata"]["name"] for item in body["items"]] == ["b", "c"]


async def test_restore_makes_later_watches_deaf(server: FakeApiServer, http: Http):
    """When etcd is restored, open watches should be cut, and one from a later version hear nothing until it is reached."""
    server.create(WIDGETS, widget("a", n=1))
    back = server.resource_version
    server.create(WIDGETS, widget("b"))
    server.patch(WIDGETS, "a", {"spec": {"n": 2}}, namespace="team-a")
    later = server.resource_version
    async with http.watch(resourceVersion=later) as answer:
        server.restore(back)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.readline()
    assert [obj["spec"] for obj in server.objects(WIDGETS)] == [{"n": 1}]
    assert server.resource_version == back
    async with http.watch(resourceVersion=later, allowWatchBookmarks="true", timeoutSeconds="200") as answer:
        server.create(WIDGETS, widget("c"))
        server.create(WIDGETS, widget("d"))
        server.create(WIDGETS, widget("e"))
        assert [name for kind, name, _ in await events(answer) if kind != "BOOKMARK"] == ["e"]


async def test_raw_objects_in_events(server: FakeApiServer, http: Http):
    """When raw bytes are stored, the event should carry them untouched, and a later repair should replace them."""
    async with http.watch(resourceVersion="1", timeoutSeconds="5") as answer:
        server.put_raw(WIDGETS, "a", b'{"metadata":{"name":"\xfe"}, "spec":01}', namespace="team-a")
        assert await answer.content.readline() == b'{"type":"ADDED","object":{"metadata":{"name":"\xfe"}, "spec":01}}\n'
        server.put_raw(WIDGETS, "a", lambda rv: json.dumps(widget("a") | {"v": rv}).encode(), namespace="team-a")
        assert (await event(answer))[0] == "MODIFIED"


async def test_orders_to_open_watches(server: FakeApiServer, http: Http):
    """When a test steers open watches, each should send, expire, or end as told, of the named resource only."""
    async with (
        http.watch(resourceVersion="1", timeoutSeconds="99") as one,
        http.watch("/apis/example.test/v1/clusters", resourceVersion="1", timeoutSeconds="99") as other,
    ):
        assert (server.open_watches(), server.open_watches(WIDGETS)) == (2, 1)
        server.send_to_watches(b"not json\n", WIDGETS)
        server.expire_watches(WIDGETS)
        assert await one.content.readline() == b"not json\n"
        kind, obj = await event(one)
        assert (kind, obj["code"]) == ("ERROR", 410)
        assert await event(one) is None
        await server.wait_until(lambda: server.open_watches() == 1)
        server.end_watches()
        assert await event(other) is None
    assert server.open_watches() == 0


@pytest.mark.parametrize("end", [End.DROP, End.RESET])
async def test_cut_watches(server: FakeApiServer, http: Http, end: End):
    """When a watch is cut, its client should see an error, not an end."""
    async with http.watch(resourceVersion="1") as answer:
        server.end_watches(end=end)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.readline()


async def test_stalled_watch(server: FakeApiServer, http: Http):
    """When a watch is stalled, nothing should come any more, though the connection stays; leaving it frees everything."""
    async with http.watch(resourceVersion="1", timeoutSeconds="10") as answer:
        server.end_watches(end=End.STALL)
        server.create(WIDGETS, widget("a"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(answer.content.readline(), 86_400)
        assert server.open_connections == 1
    await server.wait_until(lambda: server.open_connections == 0)


async def test_client_that_leaves(server: FakeApiServer, http: Http):
    """When a client closes its watch, the server should forget it at once."""
    async with http.watch(resourceVersion="1"):
        assert server.open_watches() == 1
    await server.wait_until(lambda: server.open_watches() == 0)
    assert loop_time() == 1000
    assert server.table(WIDGETS)[0].table.listeners == set()
