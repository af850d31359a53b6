from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import aiohttp
import pytest

from informer.resource import Resource
from informer.testing import End, FakeApiServer, StatusError, SubresourceCall, faults, match, run
from tests.processes import finished

from .conftest import CLUSTERS, PODS, WIDGETS, Http, event, widget

PATH = "/apis/example.test/v1/widgets"


async def test_requests_are_recorded(server: FakeApiServer, http: Http):
    """When requests come, each should be recorded with what it asked for, when, and how it was answered."""
    await asyncio.sleep(5)
    await http("GET", "/apis/example.test/v1/namespaces/team-a/widgets/a%20b", x="1")
    await http("POST", "/api/v1/namespaces/ns/pods/p/eviction", {"a": 1})
    await http("DELETE", "/apis/example.test/v1/clusters")
    await http("GET", "/version")
    await http("GET", "/api/v1/namespaces/ns")
    shown = [
        (r.method, r.verb, r.group, r.version, r.plural, r.namespace, r.name, r.subresource, r.status)
        for r in server.requests
    ]
    assert shown == [
        ("GET", "get", "example.test", "v1", "widgets", "team-a", "a b", "", 404),
        ("POST", "create", "", "v1", "pods", "ns", "p", "eviction", 404),
        ("DELETE", "deletecollection", "example.test", "v1", "clusters", "", "", "", 200),
        ("GET", "", "", "", "", "", "", "", 200),
        ("GET", "get", "", "v1", "namespaces", "", "ns", "", 404),
    ]
    assert server.requests[0].time == 1005
    assert server.requests[0].query == {"x": "1"}
    assert server.requests[1].body == b'{"a": 1}'


@pytest.mark.parametrize("value", ["1", "true", "True", "t"])
async def test_watch_is_a_go_bool(server: FakeApiServer, http: Http, value: str):
    """When watch is any of Go's spellings of true, it should be a watch."""
    async with http.session.get(PATH, params={"watch": value, "timeoutSeconds": "1"}) as answer:
        assert await answer.read() == b""
    assert (len(server.watches()), len(server.lists())) == (1, 0)
    assert (await http("GET", PATH, watch="false"))[1]["kind"] == "WidgetList"


async def test_credentials_are_not_recorded(server: FakeApiServer, http: Http):
    """When credentials are sent, they should appear nowhere in the log."""
    async with http.session.get(PATH, headers={"Authorization": "Bearer s3cret", "Cookie": "s3cret"}):
        pass
    assert "s3cret" not in repr(server.requests)
    assert "user-agent" in server.requests[0].headers


async def test_tokens(server: FakeApiServer, http: Http):
    """When tokens are set, others should get 401; an open watch should go on."""
    server.tokens = {"t1"}
    assert await http("GET", PATH) == (
        401,
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Unauthorized",
            "reason": "Unauthorized",
            "code": 401,
        },
    )
    async with (
        server.api_client(token="t1") as api,
        http.session.get(PATH, params={"watch": "1"}, headers={"Authorization": "Bearer t1"}) as watch,
    ):
        answer = await api.call_api(PATH, "GET", auth_settings=["BearerToken"], _preload_content=False)
        assert answer.status == 200
        answer.release()
        server.tokens = {"t2"}
        server.create(WIDGETS, widget("a"))
        assert (await event(watch))[0] == "ADDED"
        async with http.session.get(PATH, headers={"Authorization": "Bearer t1"}) as refused:
            assert refused.status == 401


async def test_forbidden(server: FakeApiServer, http: Http):
    """When a verb is forbidden, it should be the 403 of RBAC until it is allowed again."""
    server.forbid(WIDGETS, "list", "watch")
    status, body = await http("GET", PATH)
    assert (status, body["reason"], body["details"]) == (403, "Forbidden", {"group": "example.test", "kind": "widgets"})
    assert body["message"] == (
        'widgets.example.test is forbidden: User "system:serviceaccount:default:operator" cannot list resource "widgets" '
        'in API group "example.test" at the cluster scope'
    )
    async with http.watch() as answer:
        assert answer.status == 403
    status, _ = await http("POST", "/apis/example.test/v1/namespaces/team-a/widgets", widget("a"))
    assert status == 201
    server.allow(WIDGETS)
    assert (await http("GET", PATH))[0] == 200
    server.forbid(WIDGETS, namespace="team-a")
    status, body = await http("GET", "/apis/example.test/v1/namespaces/team-a/widgets/a")
    assert status == 403
    assert '"a" is forbidden' in body["message"]
    assert body["message"].endswith('in the namespace "team-a"')
    assert (await http("GET", PATH))[0] == 200


async def test_discovery(server: FakeApiServer, http: Http):
    """When a client asks what there is, it should find the groups, versions and resources served."""
    assert (await http("GET", "/api"))[1]["versions"] == ["v1"]
    groups = (await http("GET", "/apis"))[1]["groups"]
    assert [group["name"] for group in groups] == ["example.test"]
    assert (await http("GET", "/apis/example.test"))[1]["preferredVersion"]["version"] == "v1"
    listed = (await http("GET", "/apis/example.test/v1"))[1]["resources"]
    assert {(one["name"], one["namespaced"], one["kind"]) for one in listed} == {
        ("widgets", True, "Widget"),
        ("widgets/status", True, "Widget"),
        ("clusters", False, "Cluster"),
        ("clusters/status", False, "Cluster"),
    }
    assert (await http("GET", "/api/v1"))[1]["groupVersion"] == "v1"
    assert (await http("GET", "/version"))[1]["gitVersion"] == "v1.34.0"
    assert await http("GET", "/readyz") == (200, "ok")
    assert (await http("GET", "/apis/nope.test/v1"))[0] == 404
    assert (await http("GET", "/nope"))[0] == 404


async def test_subresources(server: FakeApiServer, http: Http):
    """When a subresource has a handler, POSTs should reach it with the call, and its answers and refusals the client."""
    calls: list[SubresourceCall] = []

    async def evict(call: SubresourceCall) -> tuple[int, object]:
        calls.append(call)
        if call.name == "blocked":
            raise StatusError(429, "TooManyRequests", "no", headers={"Retry-After": "3"})
        call.server.delete(call.resource, call.name, namespace=call.namespace)
        return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    server.add_subresource(PODS, "eviction", evict)
    server.create(PODS, {"metadata": {"name": "p"}})
    path = "/api/v1/namespaces/default/pods"
    assert (await http("POST", f"{path}/p/eviction", {"x": 1}))[0] == 201
    assert (calls[0].name, calls[0].namespace, calls[0].body, calls[0].resource) == ("p", "default", {"x": 1}, PODS)
    assert server.objects(PODS) == []
    async with http.session.post(f"{path}/blocked/eviction") as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert calls[1].body is None
    assert (await http("POST", f"{path}/p/eviction", b"{"))[0] == 400
    assert (await http("GET", f"{path}/p/eviction"))[0] == 405
    assert (await http("POST", f"{path}/p/binding", {}))[0] == 404


async def test_removed_and_added_again(server: FakeApiServer, http: Http):
    """When a CRD is deleted, objects and watches should end and paths be 404; afterwards it begins a new life."""
    uid = server.create(WIDGETS, widget("a"))["metadata"]["uid"]
    async with http.watch(resourceVersion=server.resource_version) as answer:
        server.remove_resource(WIDGETS)
        assert (await event(answer))[0] == "DELETED"
        assert await event(answer) is None
    assert (await http("GET", PATH))[0] == 404
    server.add_resource(WIDGETS)
    assert server.create(WIDGETS, widget("a"))["metadata"]["uid"] != uid
    with pytest.raises(ValueError, match="already served"):
        server.add_resource(WIDGETS)


async def test_stop_and_start_again(server: FakeApiServer, http: Http):
    """When the server stops, connections should break and be refused; started again, port and data should be the same."""
    server.create(WIDGETS, widget("a"))
    url = server.url
    async with http.watch(resourceVersion=server.resource_version) as answer:
        await server.stop()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.readline()
    assert (server.open_watches(), server.open_connections) == (0, 0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await http("GET", PATH)
    await server.start()
    assert server.url == url
    with pytest.raises(RuntimeError, match="already running"):
        await server.start()
    assert (await http("GET", PATH))[1]["items"][0]["metadata"]["name"] == "a"


async def test_two_servers_side_by_side():
    """When two servers run, each should have its own port and objects."""
    async with FakeApiServer([WIDGETS]) as one, FakeApiServer([WIDGETS]) as two:
        one.create(WIDGETS, widget("a"))
        assert one.url != two.url
        assert two.objects(WIDGETS) == []


@pytest.mark.parametrize(
    "fault", [faults.NoAnswer(), faults.Script(b"x", End.STALL), faults.Delay(1e6), faults.Drip(0.001), faults.Pass()]
)
def test_closing_leaves_nothing(fault: faults.Fault):
    """When the server is closed in the middle of anything, no task should be left, and no time be needed."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout()) as session:
            async with FakeApiServer([WIDGETS]) as server:
                server.faults.add(match("watch"), fault)
                request = asyncio.create_task(session.get(server.url + PATH, params={"watch": "1"}))
                await server.wait_until(lambda: len(server.requests) == 1)
            assert loop.time() == 1000
            await asyncio.wait([request])
            if request.exception() is None:
                request.result().close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


async def test_wait_until_tells_what_was_asked(server: FakeApiServer, http: Http):
    """When the awaited condition does not come true, the error should show the last requests."""
    await http("GET", "/version")
    with pytest.raises(TimeoutError, match="/version"):
        await server.wait_until(lambda: False, timeout=5)
    assert asyncio.get_running_loop().time() == 1005


async def test_dates_move_with_the_loop(server: FakeApiServer, http: Http):
    """When virtual time passes, the Date header should move with it."""
    await asyncio.sleep(3600)
    async with http.session.get(PATH) as answer:
        assert answer.headers["Date"] == "Thu, 01 Jan 2026 01:00:00 GMT"


async def test_kubeconfig(server: FakeApiServer, tmp_path: Path):
    """When a kubeconfig is written, kubernetes-asyncio should find server and token in it."""
    from kubernetes_asyncio import client, config

    server.tokens = {"t1"}
    path = server.kubeconfig(tmp_path / "kubeconfig", token="t1")
    configuration = client.Configuration()
    await config.load_kube_config(str(path), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        assert (await client.CoreV1Api(api).list_pod_for_all_namespaces()).items == []


@pytest.mark.real_time
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_kubectl_works(server: FakeApiServer, tmp_path: Path):
    """When kubectl is pointed at the server, get, patch and delete should work."""
    server.create(WIDGETS, widget("a", n=1))
    server.put_raw(WIDGETS, "b", json.dumps(widget("b", n="bad")).encode(), namespace="team-a")
    config = server.kubeconfig(tmp_path / "config")

    async def kubectl(*args: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl", f"--kubeconfig={config}", f"--cache-dir={tmp_path}", "-n", "team-a", *args,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await finished(process)
        assert process.returncode == 0, err.decode()
        return out.decode()

    assert "a" in await kubectl("get", "widgets.v1.example.test")
    assert json.loads(await kubectl("get", "widgets", "-o", "json"))["items"][0]["spec"] == {"n": 1}
    await kubectl("patch", "widgets.v1.example.test", "b", "--type=merge", "-p", '{"spec":{"n":2}}')
    await kubectl(
        "patch", "widgets.v1.example.test", "a", "--type=json", "-p", '[{"op":"replace","path":"/spec/n","value":3}]'
    )
    assert [obj["spec"]["n"] for obj in server.objects(WIDGETS)] == [3, 2]
    await kubectl("delete", "widget", "a", "--wait=false")
    assert [obj["metadata"]["name"] for obj in server.objects(WIDGETS)] == ["b"]


async def test_guessed_kind(http: Http, server: FakeApiServer):
    """When a resource has no kind, one should be guessed from its plural."""
    server.add_resource(Resource("", "v1", "nodes", namespaced=False))
    assert server.create(Resource("", "v1", "nodes", namespaced=False), {"metadata": {"name": "n"}})["kind"] == "Node"
    assert CLUSTERS.kind == "Cluster"
