from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import pytest

from informer.resource import Resource
from informer.testing import FakeApiServer, StatusError, now

from .conftest import CLUSTERS, PODS, WIDGETS, Http, event, widget

PATH = "/apis/example.test/v1/namespaces/team-a/widgets"
MERGE, STEPS = "application/merge-patch+json", "application/json-patch+json"


async def test_create(server: FakeApiServer, http: Http):
    """When an object is posted, it should get identity, generation and time, lose its status, and answer 201."""
    await asyncio.sleep(90)
    status, body = await http("POST", PATH, widget("a", tier="x") | {"status": {"ready": True}})
    assert status == 201
    meta = body["metadata"]
    assert (meta["name"], meta["namespace"], meta["generation"]) == ("a", "team-a", 1)
    assert meta["creationTimestamp"] == now().strftime("%Y-%m-%dT%H:%M:%SZ") == "2026-01-01T00:01:30Z"
    assert len(meta["uid"]) == 36
    assert meta["resourceVersion"] == server.resource_version
    assert "status" not in body
    assert (await http("GET", f"{PATH}/a"))[1] == body == server.get(WIDGETS, "a", namespace="team-a")


async def test_python_side_keeps_status(server: FakeApiServer):
    """When a test creates or updates an object, it should be able to set its status in one go."""
    pod = server.create(PODS, {"metadata": {"name": "p"}, "status": {"phase": "Running"}})
    assert pod["status"] == {"phase": "Running"}
    pod = server.update(PODS, pod | {"status": {"phase": "Failed"}})
    assert pod["status"] == {"phase": "Failed"}
    assert server.patch(PODS, "p", {"status": {"phase": "Unknown"}})["status"] == {"phase": "Unknown"}


async def test_generated_names(server: FakeApiServer, http: Http):
    """When only generateName is given, each object should get a name of its own."""
    names = {
        (await http("POST", PATH, {**widget(""), "metadata": {"generateName": "w-"}}))[1]["metadata"]["name"]
        for _ in range(5)
    }
    assert len(names) == 5
    assert all(name.startswith("w-") and len(name) == 7 for name in names)


@pytest.mark.parametrize(
    ("body", "status", "reason", "message"),
    [
        (widget("a"), 409, "AlreadyExists", 'widgets.example.test "a" already exists'),
        (b"{bad", 400, "BadRequest", "the object provided is unrecognized (must be of type Widget)"),
        (b"[]", 400, "BadRequest", "it is no JSON object"),
        ({"metadata": {"name": "b"}}, 400, "BadRequest", "must be of type Widget"),
        (widget("b") | {"kind": "Gadget"}, 400, "BadRequest", "'Gadget'"),
        (widget(""), 422, "Invalid", "name or generateName is required"),
        (widget("a_B"), 422, "Invalid", 'metadata.name: Invalid value: "a_B"'),
        (widget("b", namespace="team-b"), 400, "BadRequest", "namespace of the provided object does not match"),
        (
            widget("b") | {"metadata": {"name": "b", "resourceVersion": "3"}},
            400,
            "BadRequest",
            "resourceVersion should not be set on objects to be created",
        ),
    ],
)
async def test_refused_creates(server: FakeApiServer, http: Http, body: object, status: int, reason: str, message: str):
    """When an object cannot be created, it should answer as a real server and store nothing."""
    server.create(WIDGETS, widget("a"))
    before = server.resource_version
    got, answer = await http("POST", PATH, body)
    assert (got, answer["kind"], answer["reason"], answer["code"]) == (status, "Status", reason, status)
    assert message in answer["message"]
    assert server.resource_version == before


async def test_statuses_have_the_servers_shape(server: FakeApiServer, http: Http):
    """When requests are refused, each Status should be exactly a real server's."""
    server.create(WIDGETS, widget("a"))
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    found = {"group": "example.test", "kind": "widgets"}
    assert await http("GET", f"{PATH}/nope") == (
        404,
        head
        | {
            "message": 'widgets.example.test "nope" not found',
            "reason": "NotFound",
            "details": {"name": "nope"} | found,
            "code": 404,
        },
    )
    assert await http("POST", PATH, widget("a")) == (
        409,
        head
        | {
            "message": 'widgets.example.test "a" already exists',
            "reason": "AlreadyExists",
            "details": {"name": "a"} | found,
            "code": 409,
        },
    )
    modified = "the object has been modified; please apply your changes to the latest version and try again"
    assert await http("PUT", f"{PATH}/a", widget("a") | {"metadata": {"name": "a", "resourceVersion": "1"}}) == (
        409,
        head
        | {
            "message": f'Operation cannot be fulfilled on widgets.example.test "a": {modified}',
            "reason": "Conflict",
            "details": {"name": "a"} | found,
            "code": 409,
        },
    )
    server.create(PODS, {"metadata": {"name": "p"}})
    assert (await http("GET", "/api/v1/namespaces/default/pods/q"))[1]["details"] == {"name": "q", "kind": "pods"}


async def test_update(server: FakeApiServer, http: Http):
    """When an object is put, spec changes should raise the generation and metadata changes should not; status must stay."""
    created = server.create(WIDGETS, widget("a", n=1) | {"status": {"ready": True}})
    body = created | {"spec": {"n": 2}, "status": {"ready": False}}
    status, one = await http("PUT", f"{PATH}/a", body)
    assert (status, one["spec"], one["status"], one["metadata"]["generation"]) == (200, {"n": 2}, {"ready": True}, 2)
    labelled = {
        **one,
        "metadata": one["metadata"] | {"labels": {"x": "y"}, "uid": created["metadata"]["uid"], "generation": 77},
    }
    _, two = await http("PUT", f"{PATH}/a", labelled)
    assert (two["metadata"]["labels"], two["metadata"]["generation"]) == ({"x": "y"}, 2)
    assert int(two["metadata"]["resourceVersion"]) == int(one["metadata"]["resourceVersion"]) + 1
    assert two["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_update_without_change_writes_nothing(server: FakeApiServer, http: Http):
    """When a put or patch changes nothing, the version should stay and no event be sent."""
    created = server.create(WIDGETS, widget("a", n=1))
    async with http.watch(resourceVersion=server.resource_version, timeoutSeconds="3") as answer:
        assert await http("PUT", f"{PATH}/a", created) == (200, created)
        assert await http("PATCH", f"{PATH}/a", {"spec": {"n": 1}}, kind=MERGE) == (200, created)
        assert await event(answer) is None


@pytest.mark.parametrize(
    ("meta", "status", "message"),
    [
        ({"name": "b"}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        ({"name": "a"}, 422, "metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        ({"name": "a", "resourceVersion": "1"}, 409, "the object has been modified"),
        ({"name": "a", "resourceVersion": "2", "uid": "other"}, 409, "Precondition failed: UID in precondition: other"),
    ],
)
async def test_refused_updates(server: FakeApiServer, http: Http, meta: dict[str, str], status: int, message: str):
    """When an update is stale or meant for something else, it should be refused."""
    server.create(WIDGETS, widget("a"))
    if status == 400:
        meta = meta | {"resourceVersion": "2"}
    got, answer = await http("PUT", f"{PATH}/a", widget("a") | {"metadata": meta})
    assert got == status
    assert message in answer["message"]


async def test_built_in_kinds_update_unconditionally(server: FakeApiServer, http: Http):
    """When a built-in kind is put without a version, it should be accepted."""
    server.create(PODS, {"metadata": {"name": "p"}})
    status, body = await http("PUT", "/api/v1/namespaces/default/pods/p", {"metadata": {"name": "p"}, "spec": {"x": 1}})
    assert (status, body["spec"]) == (200, {"x": 1})


@pytest.mark.parametrize(
    ("kind", "patch", "spec"),
    [
        (MERGE, {"spec": {"a": None, "b": {"d": 4}}}, {"b": {"c": 1, "d": 4}, "l": [1, 2]}),
        (MERGE, {"spec": {"l": [3]}}, {"a": 1, "b": {"c": 1}, "l": [3]}),
        (
            STEPS,
            [{"op": "test", "path": "/spec/a", "value": 1}, {"op": "replace", "path": "/spec/a", "value": 2}],
            {"a": 2, "b": {"c": 1}, "l": [1, 2]},
        ),
        (
            STEPS,
            [{"op": "add", "path": "/spec/l/-", "value": 9}, {"op": "remove", "path": "/spec/l/0"}],
            {"a": 1, "b": {"c": 1}, "l": [2, 9]},
        ),
        (STEPS, [{"op": "move", "from": "/spec/b/c", "path": "/spec/x~1y"}], {"a": 1, "b": {}, "l": [1, 2], "x/y": 1}),
    ],
)
async def test_patches(server: FakeApiServer, http: Http, kind: str, patch: object, spec: dict):
    """When a patch is sent, it should change what it says and nothing else."""
    server.create(WIDGETS, widget("a", a=1, b={"c": 1}, l=[1, 2]))
    status, body = await http("PATCH", f"{PATH}/a", patch, kind=kind)
    assert (status, body["spec"], body["metadata"]["generation"]) == (200, spec, 2)


@pytest.mark.parametrize(
    ("kind", "patch", "status", "message"),
    [
        (
            STEPS,
            [{"op": "test", "path": "/spec/a", "value": True}],
            422,
            "the server rejected our request due to an error in our request",
        ),
        (STEPS, [{"op": "remove", "path": "/spec/nope"}], 422, "the server rejected our request"),
        (STEPS, [{"op": "replace", "path": "/spec/nope", "value": 1}], 422, "the server rejected our request"),
        (STEPS, {"op": 1}, 400, "error decoding patch"),
        (MERGE, [], 400, "error decoding patch"),
        (MERGE, b"{bad", 400, "error decoding patch"),
        (
            "text/plain",
            {},
            415,
            "accepted media types include: application/json-patch+json, application/merge-patch+json",
        ),
        ("application/strategic-merge-patch+json", {}, 415, "accepted media types"),
        (MERGE, {"metadata": {"resourceVersion": "1"}}, 409, "the object has been modified"),
        (MERGE, {"metadata": {"name": "b"}}, 400, "does not match the name on the URL"),
    ],
)
async def test_refused_patches(server: FakeApiServer, http: Http, kind: str, patch: object, status: int, message: str):
    """When a patch cannot be read or applied, it should be refused and nothing change."""
    created = server.create(WIDGETS, widget("a", a=1))
    got, answer = await http("PATCH", f"{PATH}/a", patch, kind=kind)
    assert got == status
    assert message in answer["message"]
    assert server.get(WIDGETS, "a", namespace="team-a") == created


async def test_status_subresource(server: FakeApiServer, http: Http):
    """When the status is written, only it should change; and the main path should not touch it."""
    created = server.create(WIDGETS, widget("a", n=1))
    body = created | {"status": {"ready": True}, "spec": {"n": 9}}
    status, one = await http("PUT", f"{PATH}/a/status", body)
    assert (status, one["status"], one["spec"], one["metadata"]["generation"]) == (200, {"ready": True}, {"n": 1}, 1)
    _, two = await http("PATCH", f"{PATH}/a/status", {"status": {"ready": None, "n": 1}, "spec": {"n": 9}}, kind=MERGE)
    assert (two["status"], two["spec"]) == ({"n": 1}, {"n": 1})
    _, three = await http("PATCH", f"{PATH}/a", {"status": {"n": 2}, "spec": {"n": 2}}, kind=MERGE)
    assert (three["status"], three["spec"]) == ({"n": 1}, {"n": 2})
    assert (await http("GET", f"{PATH}/a/status"))[1] == three
    assert (await http("GET", f"{PATH}/a/scale"))[0] == 404


async def test_resource_without_status(server: FakeApiServer, http: Http):
    """When a resource has no status subresource, status should be a field like any other."""
    gadgets = Resource("example.test", "v1", "gadgets")
    server.add_resource(gadgets, status=False)
    body = {"apiVersion": "example.test/v1", "kind": "Gadget", "metadata": {"name": "g"}, "status": {"x": 1}}
    _, created = await http("POST", "/apis/example.test/v1/namespaces/d/gadgets", body)
    assert created["status"] == {"x": 1}
    assert (await http("GET", "/apis/example.test/v1/namespaces/d/gadgets/g/status"))[0] == 404


async def test_delete(server: FakeApiServer, http: Http):
    """When an object without finalizers is deleted, it should be gone, with the Status a real server gives."""
    uid = server.create(WIDGETS, widget("a"))["metadata"]["uid"]
    assert await http("DELETE", f"{PATH}/a") == (
        200,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": "a", "group": "example.test", "kind": "widgets", "uid": uid},
        },
    )
    assert (await http("DELETE", f"{PATH}/a"))[0] == 404


async def test_finalizers(server: FakeApiServer, http: Http):
    """When finalizers hold an object, it should stay terminating until the last is removed, then be deleted."""
    created = server.create(
        WIDGETS, {**widget("a"), "metadata": {"name": "a", "namespace": "team-a", "finalizers": ["x/f", "x/g"]}}
    )
    async with http.watch(resourceVersion=server.resource_version, timeoutSeconds="100") as answer:
        await asyncio.sleep(60)
        status, one = await http("DELETE", f"{PATH}/a")
        assert (status, one["metadata"]["deletionTimestamp"]) == (200, "2026-01-01T00:01:00Z")
        assert (one["metadata"]["deletionGracePeriodSeconds"], one["metadata"]["generation"]) == (0, 2)
        assert (await http("DELETE", f"{PATH}/a"))[1] == one
        status, refused = await http("PATCH", f"{PATH}/a", {"metadata": {"finalizers": ["x/f", "x/new"]}}, kind=MERGE)
        assert status == 422
        assert (
            'no new finalizers can be added if the object is being deleted, found new finalizers []string{"x/new"}'
            in refused["message"]
        )
        await http("PATCH", f"{PATH}/a", {"metadata": {"finalizers": ["x/g"], "deletionTimestamp": None}}, kind=MERGE)
        await http("PATCH", f"{PATH}/a", {"metadata": {"finalizers": None}}, kind=MERGE)
        seen = [await event(answer) for _ in range(3)]
        assert [kind for kind, _ in seen] == ["MODIFIED", "MODIFIED", "DELETED"]
        assert seen[1][1]["metadata"]["deletionTimestamp"] == one["metadata"]["deletionTimestamp"]
        assert {obj["metadata"]["uid"] for _, obj in seen} == {created["metadata"]["uid"]}
        assert await event(answer) is None
    assert server.objects(WIDGETS) == []


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_preconditions(server: FakeApiServer, http: Http, field: str):
    """When a precondition names another life or version, the delete should be a 409 that says so."""
    created = server.create(WIDGETS, widget("a"))
    status, body = await http("DELETE", f"{PATH}/a", {"preconditions": {field: "7"}})
    assert (status, body["reason"], body["details"]["kind"]) == (409, "Conflict", "Widget")
    assert "in the precondition (7) does not match" in body["message"]
    assert f"in record ({created['metadata'][field]})" in body["message"]
    assert (await http("DELETE", f"{PATH}/a", {"preconditions": {field: created["metadata"][field]}}))[0] == 200


async def test_delete_collection(server: FakeApiServer, http: Http):
    """When a collection is deleted, only the selected objects of the namespace should go."""
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        server.create(WIDGETS, widget(name, labels=labels))
    server.create(WIDGETS, widget("d", namespace="team-b", labels={"x": "1"}))
    assert (await http("DELETE", PATH, labelSelector="x=1"))[0] == 200
    assert [obj["metadata"]["name"] for obj in server.objects(WIDGETS)] == ["b", "d"]


async def test_dry_run(server: FakeApiServer, http: Http):
    """When it is a dry run, it should be judged and answered but not stored."""
    server.create(WIDGETS, widget("a", n=1))
    before = server.resource_version
    assert (await http("POST", PATH, widget("b"), dryRun="All"))[0] == 201
    assert (await http("POST", PATH, widget("a"), dryRun="All"))[0] == 409
    assert (await http("PATCH", f"{PATH}/a", {"spec": {"n": 2}}, kind=MERGE, dryRun="All"))[1]["spec"] == {"n": 2}
    assert (await http("DELETE", f"{PATH}/a", dryRun="All"))[0] == 200
    assert server.resource_version == before
    assert server.get(WIDGETS, "a", namespace="team-a")["spec"] == {"n": 1}


async def test_validation(server: FakeApiServer, http: Http):
    """When the resource has a validator, bad states should be 422 by every way but put_raw."""
    gadgets = Resource("example.test", "v1", "gadgets", kind="Gadget")
    server.add_resource(gadgets, validate=lambda obj: [("spec.n", "must be small")] if obj["spec"]["n"] > 9 else [])
    obj = {"apiVersion": "example.test/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"n": 1}}
    server.create(gadgets, obj)
    path = "/apis/example.test/v1/namespaces/default/gadgets"
    status, body = await http("PATCH", f"{path}/g", {"spec": {"n": 10}}, kind=MERGE)
    assert (status, body["reason"]) == (422, "Invalid")
    assert body["message"] == 'Gadget.example.test "g" is invalid: spec.n: Invalid value: must be small'
    assert body["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": "Invalid value: must be small", "field": "spec.n"}
    ]
    with pytest.raises(StatusError, match="must be small"):
        server.create(gadgets, obj | {"metadata": {"name": "h"}, "spec": {"n": 10}})
    server.put_raw(gadgets, "h", json.dumps(obj | {"metadata": {"name": "h"}, "spec": {"n": 10}}).encode())
    assert (await http("PATCH", f"{path}/h", {"spec": {"n": 2}}, kind=MERGE))[1]["spec"] == {"n": 2}


async def test_wrong_methods(server: FakeApiServer, http: Http):
    """When the verb does not fit the path, it should be 405."""
    server.create(WIDGETS, widget("a"))
    for method, path in (
        ("POST", f"{PATH}/a"),
        ("PUT", PATH),
        ("PATCH", PATH),
        ("POST", "/apis/example.test/v1/widgets"),
    ):
        status, body = await http(method, path, widget("b"))
        assert (method, status, body["reason"]) == (method, 405, "MethodNotAllowed")


async def test_one_counter(server: FakeApiServer):
    """When different resources are written, all versions should come from one counter that a test can set forward."""
    versions = [
        server.create(WIDGETS, widget("a"))["metadata"]["resourceVersion"],
        server.create(CLUSTERS, {"metadata": {"name": "c"}})["metadata"]["resourceVersion"],
    ]
    server.resource_version = "999999"
    versions.append(server.patch(WIDGETS, "a", {"spec": {"n": 1}}, namespace="team-a")["metadata"]["resourceVersion"])
    assert versions == ["2", "3", "1000000"]
    with pytest.raises(ValueError, match="restore"):
        server.resource_version = "5"


async def test_a_kubernetes_client_can_work(server: FakeApiServer):
    """When kubernetes-asyncio's own client is used, typed and custom objects should go the whole way."""
    from kubernetes_asyncio import client, watch

    async with server.api_client() as api:
        core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
        made = await core.create_namespaced_pod(
            "ns", client.V1Pod(metadata=client.V1ObjectMeta(name="p", labels={"x": "y"}))
        )
        assert made.metadata.creation_timestamp - now() < timedelta(seconds=1)
        assert (await core.list_pod_for_all_namespaces(label_selector="x=y")).items[0].metadata.uid == made.metadata.uid
        patched = await core.patch_namespaced_pod("p", "ns", {"metadata": {"labels": {"x": "z"}}})
        assert patched.metadata.labels == {"x": "z"}
        args = ("example.test", "v1", "team-a", "widgets")
        await custom.create_namespaced_custom_object(*args, widget("a", n=1))
        await custom.patch_namespaced_custom_object(*args, "a", {"spec": {"n": 2}}, _content_type=MERGE)
        with pytest.raises(client.ApiException) as caught:
            await custom.get_namespaced_custom_object(*args, "b")
        assert (caught.value.status, json.loads(caught.value.body)["reason"]) == (404, "NotFound")
        async with watch.Watch() as stream:
            seen = [one async for one in stream.stream(core.list_namespaced_pod, "ns", timeout_seconds=5)]
        assert [(one["type"], one["object"].metadata.name) for one in seen] == [("ADDED", "p")]
        await core.delete_namespaced_pod("p", "ns")
    assert server.objects(PODS) == []
    assert server.get(WIDGETS, "a", namespace="team-a")["spec"] == {"n": 2}
