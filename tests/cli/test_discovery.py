"""From a name to a resource, as kubectl does it."""

from __future__ import annotations

import pytest

from informer import Resource
from informer.cli.discovery import resolve
from informer.cli.errors import CommandError
from informer.errors import ApiError
from informer.testing import FakeApiServer, faults, match
from tests.cli.conftest import CRDS, NODEPOOLS, PODS

KARPENTER = Resource("karpenter.sh", "v1", "nodepools", kind="NodePool", namespaced=False)
METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", kind="PodMetrics")
OLD = Resource("batch", "v1beta1", "cronjobs", kind="CronJob")
NEW = Resource("batch", "v1", "jobs", kind="Job")

AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "apiVersion": "apidiscovery.k8s.io/v2",
    "items": [
        {
            "metadata": {"name": NODEPOOLS.group},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [
                        {
                            "resource": "nodepools",
                            "responseKind": {"group": NODEPOOLS.group, "version": version, "kind": "NodePool"},
                            "scope": "Namespaced",
                            "singularResource": "nodepool",
                            "shortNames": ["np"],
                            "verbs": ["get", "list", "watch"],
                        },
                        {"resource": "reviews", "responseKind": {"kind": "Review"}, "verbs": ["create"]},
                    ],
                }
                for version in ("v1beta1", "v1alpha1")
            ],
        },
        {"metadata": {"name": "down.example.test"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
    ],
}


def modern(server: FakeApiServer) -> None:
    """Answers as a server of 1.30 and newer does, with all groups in one document."""
    core = {"kind": "APIGroupDiscoveryList", "items": []}
    for path, body in (("/apis", AGGREGATED), ("/api", core)):
        wanted = match(when=lambda request, path=path: request.path == path)
        server.faults.add(wanted, faults.Answer(200, body), times=None)


@pytest.mark.parametrize(
    "name",
    [
        "nodepools",
        "nodepool",
        "NodePool",
        "NODEPOOLS",
        "nodepools.hypershift.openshift.io",
        "nodepool.hypershift.openshift.io",
        "nodepools.v1beta1.hypershift.openshift.io",
        "NodePool.v1beta1.hypershift.openshift.io",
    ],
)
async def test_names(server: FakeApiServer, name: str) -> None:
    """When a resource is called by any of its names, it should be found, with its kind and scope."""
    async with server.api_client() as api:
        found = await resolve(api, name)
    assert (found, found.kind, found.namespaced) == (NODEPOOLS, "NodePool", True)


async def test_cluster_scoped(server: FakeApiServer) -> None:
    """When a resource is cluster-scoped, the server's word should count."""
    async with server.api_client() as api:
        assert not (await resolve(api, "node")).namespaced
        assert await resolve(api, "pods.v1") == PODS


@pytest.mark.parametrize("name", ["np", "nodepools", "NodePool"])
async def test_aggregated(server: FakeApiServer, name: str) -> None:
    """When the server has one document for all groups, two requests should be enough, and short names be known."""
    modern(server)
    async with server.api_client() as api:
        assert await resolve(api, name) == NODEPOOLS
    assert [request.path for request in server.requests] == ["/api", "/apis"]
    assert "as=APIGroupDiscoveryList" in server.requests[0].headers["accept"]


async def test_full_name_costs_one_request(server: FakeApiServer) -> None:
    """When version and group are named, only their document should be asked for."""
    async with server.api_client() as api:
        await resolve(api, str(NODEPOOLS))
    assert [request.path for request in server.requests] == ["/apis/hypershift.openshift.io/v1beta1"]


async def test_ambiguous(server: FakeApiServer) -> None:
    """When two groups have the name, both should be named, and the choice left to the user."""
    server.add_resource(KARPENTER)
    async with server.api_client() as api:
        with pytest.raises(CommandError) as error:
            await resolve(api, "nodepools")
        assert str(error.value) == (
            "nodepools may be any of nodepools.v1.karpenter.sh, nodepools.v1beta1.hypershift.openshift.io; "
            "name one of them in full"
        )
        assert await resolve(api, "nodepools.karpenter.sh") == KARPENTER


async def test_the_core_group_comes_first(server: FakeApiServer) -> None:
    """When the core group has the name, another group should not make it ambiguous: most clusters have pods twice."""
    server.add_resource(METRICS)
    async with server.api_client() as api:
        assert await resolve(api, "pods") == PODS
        assert await resolve(api, "podmetrics") == METRICS


async def test_other_versions(server: FakeApiServer) -> None:
    """When only a version that is not preferred has the kind, it should be found there, with and without its group."""
    server.add_resource(OLD)
    server.add_resource(NEW)
    async with server.api_client() as api:
        assert await resolve(api, "cronjob") == OLD
        assert await resolve(api, "cronjobs.batch") == OLD
        assert await resolve(api, "jobs.batch") == NEW


async def test_a_group_that_does_not_answer(server: FakeApiServer) -> None:
    """When one group's server is down, the others should be usable, and its silence be said when nothing is found."""
    server.add_resource(METRICS)
    down = match(when=lambda request: request.path == "/apis/metrics.k8s.io/v1beta1")
    server.faults.add(down, faults.status_answer(503, "ServiceUnavailable", "down"), times=None)
    async with server.api_client() as api:
        assert await resolve(api, "nodepools") == NODEPOOLS
        with pytest.raises(CommandError, match=r"no kind called podmetrics \(and these groups did not answer: metrics"):
            await resolve(api, "podmetrics")


async def test_a_server_of_custom_resources(server: FakeApiServer) -> None:
    """When a server has no list of groups, its CRDs should be one."""
    server.create(CRDS, {"metadata": {"name": "nodepools.hypershift.openshift.io"}, "spec": {"group": NODEPOOLS.group}})
    nothing = match(when=lambda request: request.path in {"/api", "/apis"})
    server.faults.add(nothing, faults.Answer(404, "404 page not found", content_type="text/plain"), times=None)
    async with server.api_client() as api:
        assert await resolve(api, "nodepool") == NODEPOOLS
        assert (await resolve(api, "customresourcedefinitions")).plural == "customresourcedefinitions"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "nodepolls",
            "the server has no kind called nodepolls; did you mean nodepools.v1beta1.hypershift.openshift.io?",
        ),
        ("zebra", "the server has no kind called zebra; kubectl api-resources lists what it has"),
        (
            "nodepools.example.com",
            "no nodepools in example.com; did you mean nodepools.v1beta1.hypershift.openshift.io?",
        ),
        ("nodepools.v9.hypershift.openshift.io", "did you mean nodepools.v1beta1.hypershift.openshift.io?"),
        ("pods/log", "is no name of a resource"),
        ("../secrets", "is no name of a resource"),
        ("", "is no name of a resource"),
    ],
)
async def test_unknown(server: FakeApiServer, name: str, message: str) -> None:
    """When there is nothing of that name, the error should help."""
    async with server.api_client() as api:
        with pytest.raises(CommandError) as error:
            await resolve(api, name)
    assert message in str(error.value)


async def test_what_cannot_be_listed(server: FakeApiServer) -> None:
    """When a kind has no list, it should be refused before it is tried."""
    modern(server)
    async with server.api_client() as api:
        with pytest.raises(CommandError, match="the server has no list for it"):
            await resolve(api, "reviews")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"groups": 5},
        {"groups": [5, {"name": None, "versions": {}}]},
        {"kind": "APIGroupDiscoveryList", "items": [5]},
    ],
    ids=str,
)
async def test_nonsense(server: FakeApiServer, body: object) -> None:
    """When discovery documents are nonsense, nothing should be found; it is no crash."""
    server.faults.add(
        match(when=lambda request: request.path in {"/api", "/apis"}), faults.Answer(200, body), times=None
    )
    async with server.api_client() as api:
        with pytest.raises(CommandError, match="no kind called zebra"):
            await resolve(api, "zebra")


@pytest.mark.parametrize("code", [401, 403, 500])
async def test_refused(server: FakeApiServer, code: int) -> None:
    """When the server does not tell, its answer should be the error, not "unknown resource"."""
    server.faults.add(match(), faults.status_answer(code, "Reason", "no"), times=None)
    async with server.api_client() as api:
        for name in ("nodepools", "nodepools.hypershift.openshift.io", str(NODEPOOLS)):
            with pytest.raises(ApiError) as error:
                await resolve(api, name)
            assert error.value.status == code


async def test_the_preferred_version(server: FakeApiServer) -> None:
    """When a group has several versions, its preferred one should be taken, wherever it stands in the list."""
    later = Resource("batch", "v2", "jobs", kind="Job")
    server.add_resource(NEW)
    server.add_resource(later)
    versions = [{"groupVersion": f"batch/{name}", "version": name} for name in ("v1", "v2")]
    group = {"name": "batch", "versions": versions, "preferredVersion": versions[1]}
    for path, body in (("/apis/batch", group), ("/apis", {"kind": "APIGroupList", "groups": [group]})):
        wanted = match(when=lambda request, path=path: request.path == path)
        server.faults.add(wanted, faults.Answer(200, body), times=None)
    async with server.api_client() as api:
        assert await resolve(api, "jobs.batch") == later
        assert await resolve(api, "jobs") == later
        assert await resolve(api, "jobs.v1.batch") == NEW
