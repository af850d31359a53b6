from __future__ import annotations

import pytest

from informer import ApiError, ApiListerWatcher, ListOptions, Resource, WatchOptions
from informer.testing import FakeApiServer

from .conftest import CLUSTERS, PODS, WIDGETS, Http, widget

PATH = "/apis/example.test/v1/widgets"


def names(body: dict) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_list_has_the_servers_shape(server: FakeApiServer, http: Http):
    """When objects are listed, it should send the list's kind and version, and items without kind and apiVersion."""
    created = server.create(WIDGETS, widget("a", tier="x"))
    status, body = await http("GET", PATH)
    assert status == 200
    assert body["kind"] == "WidgetList"
    assert body["apiVersion"] == "example.test/v1"
    assert body["metadata"] == {"resourceVersion": server.resource_version}
    del created["kind"], created["apiVersion"]
    assert body["items"] == [created]
    assert created["metadata"]["uid"]


async def test_items_may_carry_their_type(server: FakeApiServer, http: Http):
    """When a resource is served as custom resources are, its items should carry kind and apiVersion."""
    server.remove_resource(WIDGETS)
    server.add_resource(WIDGETS, typed_items=True)
    server.create(WIDGETS, widget("a"))
    _, body = await http("GET", PATH)
    assert body["items"][0]["kind"] == "Widget"
    assert body["items"][0]["apiVersion"] == "example.test/v1"


async def test_scopes(server: FakeApiServer, http: Http):
    """When a namespace is named, only its objects should come; cluster-scoped resources know none."""
    server.create(WIDGETS, widget("a"))
    server.create(WIDGETS, widget("b", namespace="team-b"))
    server.create(CLUSTERS, {"metadata": {"name": "c"}})
    assert names((await http("GET", PATH))[1]) == ["a", "b"]
    assert names((await http("GET", "/apis/example.test/v1/namespaces/team-b/widgets"))[1]) == ["b"]
    assert names((await http("GET", "/apis/example.test/v1/clusters"))[1]) == ["c"]
    status, body = await http("GET", "/apis/example.test/v1/namespaces/team-b/clusters")
    assert (status, body["reason"]) == (404, "NotFound")
    with pytest.raises(ValueError, match="cluster-scoped"):
        server.create(CLUSTERS, {"metadata": {"name": "c", "namespace": "x"}})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"labelSelector": "app=web"}, ["a", "c"]),
        ({"labelSelector": "app in (db),tier!=x"}, ["b"]),
        ({"labelSelector": "!app"}, ["d"]),
        ({"fieldSelector": "metadata.name=b"}, ["b"]),
        ({"fieldSelector": "metadata.namespace!=team-a"}, ["c"]),
        ({"fieldSelector": "spec.nodeName=n1", "labelSelector": "app=web"}, ["a"]),
    ],
)
async def test_selectors(server: FakeApiServer, http: Http, query: dict[str, str], expected: list[str]):
    """When selectors are given, it should list what they choose."""
    server.create(WIDGETS, widget("a", labels={"app": "web"}, nodeName="n1"))
    server.create(WIDGETS, widget("b", labels={"app": "db"}))
    server.create(WIDGETS, widget("c", namespace="team-b", labels={"app": "web"}))
    server.create(WIDGETS, widget("d", nodeName="n1"))
    _, body = await http("GET", PATH, **query)
    assert names(body) == expected


async def test_pages_come_from_one_snapshot(server: FakeApiServer, http: Http):
    """When objects change between pages, every page should show the state and version of the first."""
    for name in "abcde":
        server.create(WIDGETS, widget(name))
    version = server.resource_version
    _, one = await http("GET", PATH, limit="2")
    server.delete(WIDGETS, "c", namespace="team-a")
    server.create(WIDGETS, widget("cc"))
    server.patch(WIDGETS, "d", {"spec": {"new": True}}, namespace="team-a")
    _, two = await http("GET", PATH, limit="2", **{"continue": one["metadata"]["continue"]})
    _, three = await http("GET", PATH, limit="2", **{"continue": two["metadata"]["continue"]})
    assert [names(page) for page in (one, two, three)] == [["a", "b"], ["c", "d"], ["e"]]
    assert {page["metadata"]["resourceVersion"] for page in (one, two, three)} == {version}
    assert [page["metadata"].get("remainingItemCount") for page in (one, two, three)] == [3, 1, None]
    assert two["items"][1]["spec"] == {}
    assert "continue" not in three["metadata"]
    assert len(server.lists(WIDGETS)) == 3


async def test_expired_token(server: FakeApiServer, http: Http):
    """When the snapshot of a token is compacted, it should answer 410 with a token for the inconsistent remainder."""
    for name in "abc":
        server.create(WIDGETS, widget(name))
    _, one = await http("GET", PATH, limit="1")
    server.create(WIDGETS, widget("bb"))
    server.compact()
    status, body = await http("GET", PATH, limit="1", **{"continue": one["metadata"]["continue"]})
    assert (status, body["code"], body["reason"]) == (410, 410, "Expired")
    assert body["message"].startswith("The provided continue parameter is too old to display a consistent list result.")
    _, rest = await http("GET", PATH, **{"continue": body["metadata"]["continue"]})
    assert names(rest) == ["b", "bb", "c"]
    assert rest["metadata"]["resourceVersion"] == server.resource_version


async def test_zero_knows_no_pages(server: FakeApiServer, http: Http):
    """When version 0 is asked for, the watch cache's answer should ignore the limit."""
    for name in "abc":
        server.create(WIDGETS, widget(name))
    _, body = await http("GET", PATH, resourceVersion="0", limit="1")
    assert names(body) == ["a", "b", "c"]
    assert "continue" not in body["metadata"]


async def test_versions_of_a_list(server: FakeApiServer, http: Http):
    """When a version is given, it should mean "not older", or exactly that one when asked so or with a limit."""
    server.create(WIDGETS, widget("a"))
    then = server.resource_version
    server.create(WIDGETS, widget("b"))
    answers = {
        "not older": await http("GET", PATH, resourceVersion=then),
        "not older, said": await http(
            "GET", PATH, resourceVersion=then, resourceVersionMatch="NotOlderThan", limit="5"
        ),
        "exact": await http("GET", PATH, resourceVersion=then, resourceVersionMatch="Exact"),
        "limit": await http("GET", PATH, resourceVersion=then, limit="5"),
    }
    assert {what: names(body) for what, (_, body) in answers.items()} == {
        "not older": ["a", "b"],
        "not older, said": ["a", "b"],
        "exact": ["a"],
        "limit": ["a"],
    }
    assert answers["exact"][1]["metadata"]["resourceVersion"] == then
    server.compact()
    status, body = await http("GET", PATH, resourceVersion=then, resourceVersionMatch="Exact")
    assert (status, body["reason"], body["message"]) == (
        410,
        "Expired",
        "The resourceVersion for the provided list is too old.",
    )
    assert (await http("GET", PATH, resourceVersion=then))[0] == 200


async def test_version_ahead_of_the_server(server: FakeApiServer, http: Http):
    """When the version is ahead, it should answer 504 with the cause that tells it from a plain timeout."""
    status, body = await http("GET", PATH, resourceVersion="999")
    assert status == 504
    assert body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Timeout: Too large resource version: 999, current: 1",
        "reason": "Timeout",
        "details": {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        "code": 504,
    }


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"resourceVersion": "None"}, 400, 'Invalid value: "None"'),
        ({"limit": "x"}, 400, 'parsing "x"'),
        ({"continue": "xyz"}, 400, "continue key is not valid"),
        ({"continue": "MQ"}, 400, "continue key is not valid"),
        ({"labelSelector": "a,,"}, 400, "label selector"),
        ({"fieldSelector": "a"}, 400, "field selector"),
        ({"resourceVersionMatch": "Exact"}, 422, "forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, 'forbidden for resourceVersion "0"'),
        ({"resourceVersionMatch": "Newest", "resourceVersion": "1"}, 422, "supported values"),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
    ],
)
async def test_refused_options(http: Http, query: dict[str, str], status: int, message: str):
    """When options make no sense, it should refuse them with the server's status and reason."""
    got, body = await http("GET", PATH, **query)
    assert got == status
    assert message in body["message"]
    assert body["reason"] == {400: "BadRequest", 422: "Invalid"}[status]


@pytest.mark.parametrize(
    ("kind", "selector", "message"),
    [
        ("pods.v1", "spec.nodeName=n1,status.phase!=Failed,metadata.namespace=a", ""),
        ("pods.v1", r"metadata.name=a\,status.nope\=1", ""),
        ("pods.v1", r"metadata.name=a\\,status.nope=1", "field label not supported: status.nope"),
        ("pods.v1", "metadata.name=a,status.nope=1", "field label not supported: status.nope"),
        ("events.v1", "involvedObject.uid=1,type!=Normal", ""),
        ("configmaps.v1", "data.a==1", '"data.a" is not a known field selector: only "metadata.name"'),
        ("deployments.v1.apps", "spec.replicas=1", '"spec.replicas" is not a known field selector'),
        ("widgets.v1.example.test", "spec.nope=1", ""),
    ],
)
@pytest.mark.parametrize("watch", [False, True])
async def test_field_selectors_of_built_in_kinds(kind: str, selector: str, message: str, watch: bool):
    """When a built-in kind is not selected by such a field, it should refuse that; a CRD may declare any field."""
    resource = Resource.parse(kind)
    async with FakeApiServer([resource]) as server, server.api_client() as api:
        source = ApiListerWatcher(api, resource, field_selector=selector)
        try:
            if watch:
                async with source.watch(WatchOptions(resource_version="", timeout=1)):
                    pass
            else:
                await source.list(ListOptions())
        except ApiError as error:
            assert message
            assert error.status == 400
            assert message in str(error)
        else:
            assert not message


async def test_version_with_a_token(server: FakeApiServer, http: Http):
    """When a version comes with a continue token, it should be refused."""
    server.create(WIDGETS, widget("a"))
    server.create(WIDGETS, widget("b"))
    _, one = await http("GET", PATH, limit="1")
    status, body = await http("GET", PATH, resourceVersion="1", **{"continue": one["metadata"]["continue"]})
    assert (status, body["message"]) == (400, "specifying resource version is not allowed when using continue")


async def test_bytes_are_served_as_they_are(server: FakeApiServer, http: Http):
    """When bytes were stored raw, they should come back untouched, also what is no object at all."""
    version = server.put_raw(
        WIDGETS, "a", lambda rv: b'{"metadata":{"name":"a","resourceVersion":"%s"}, "spec":1e400}' % rv.encode()
    )
    server.put_raw(WIDGETS, "b", b"null")
    server.put_raw(WIDGETS, "c", b'{"metadata":{"name":"\xff"}}')
    async with http.session.get(PATH) as answer:
        body = await answer.read()
    expected = (
        b'[{"metadata":{"name":"a","resourceVersion":"'
        + version.encode()
        + b'"}, "spec":1e400},null,{"metadata":{"name":"\xff"}}]}'
    )
    assert body.endswith(expected)
    assert server.objects(WIDGETS, label_selector="x") == []


async def test_unknown_resources(server: FakeApiServer, http: Http):
    """When nobody serves the path, it should be the 404 Status of a missing resource."""
    status, body = await http("GET", "/apis/example.test/v1/gadgets")
    assert (status, body["code"], body["reason"]) == (404, 404, "NotFound")
    assert body["message"] == "the server could not find the requested resource"
    with pytest.raises(LookupError, match="add_resource"):
        server.create(PODS.parse("gadgets.v1"), {"metadata": {"name": "a"}})


async def test_core_group(server: FakeApiServer, http: Http):
    """When a resource is in the core group, it should be found under /api."""
    server.create(PODS, {"metadata": {"name": "p"}})
    status, body = await http("GET", "/api/v1/namespaces/default/pods/p")
    assert (status, body["kind"], body["apiVersion"]) == (200, "Pod", "v1")
