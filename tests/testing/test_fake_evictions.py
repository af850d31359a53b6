"""The fake's `pods/eviction`: the real handler's judgement, in its order."""

from __future__ import annotations

from typing import Any

import pytest

from informer.testing import FakeApiServer, run
from informer.testing.eviction import BETA_BUDGETS, BUDGETS, PODS, FakeEvictions, budget

from .conftest import Http

PATH = "/api/v1/namespaces/default/pods/web-0/eviction"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0"}}


def add_pod(server: FakeApiServer, **status: Any) -> dict[str, Any]:
    status = {"phase": "Running"} | status
    return server.create(PODS, {"metadata": {"name": "web-0", "labels": {"app": "web"}}, "status": status})


@pytest.fixture
def evictions(server: FakeApiServer) -> FakeEvictions:
    for resource in (PODS, BUDGETS):
        if not any(one.resource == resource for one in server._served.values()):
            server.add_resource(resource)
    return FakeEvictions(server)


def unready(**more: Any) -> dict[str, Any]:
    made = budget("web", {"app": "web"}, allowed=0)
    made["spec"] |= more.pop("spec", {})
    made["status"] |= more
    return made


NOT_READY = [{"type": "Ready", "status": "False"}]
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any], int]] = {
    "no budget": ([], {}, 201),
    "headroom": ([budget("web", {"app": "web"}, allowed=1)], {}, 201),
    "no headroom": ([budget("web", {"app": "web"}, allowed=0)], {}, 429),
    "another pod's budget": ([budget("db", {"app": "db"}, allowed=0)], {}, 201),
    "two budgets": ([budget("a", {"app": "web"}, allowed=1), budget("b", {}, allowed=1)], {}, 500),
    "pending": ([budget("web", {"app": "web"}, allowed=0)], {"phase": "Pending"}, 201),
    "finished": ([budget("web", {"app": "web"}, allowed=0)], {"phase": "Succeeded"}, 201),
    "unready and needed": ([unready(currentHealthy=1, desiredHealthy=2)], {"conditions": NOT_READY}, 429),
    "unready and not needed": ([unready()], {"conditions": NOT_READY}, 201),
    "negative": ([budget("web", {"app": "web"}, allowed=-1)], {}, 403),
    "too many disrupted": ([unready(disruptedPods={str(n): "x" for n in range(2001)}, disruptionsAllowed=1)], {}, 403),
    "null selects none": ([{**budget("web", {}, allowed=0), "spec": {"selector": None}}], {}, 201),
    "expression": ([{**budget("web", {}, allowed=0), "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}}}], {}, 429),
}  # fmt: skip


@pytest.mark.parametrize(("budgets", "status", "code"), CASES.values(), ids=CASES)
async def test_judgement(
    server: FakeApiServer, http: Http, evictions: FakeEvictions, budgets: list[Any], status: Any, code: int
) -> None:
    """When a pod is to be evicted, its budgets should be judged as the real handler does."""
    for one in budgets:
        server.create(BUDGETS, one)
    add_pod(server, **status)
    got, body = await http("POST", PATH, EVICTION)
    assert got == code, body
    assert evictions.evicted == (["default/web-0"] if code == 201 else [])
    assert bool(server.objects(PODS)) is (code != 201)
    if code == 429:
        assert [one["reason"] for one in body["details"]["causes"]] == ["DisruptionBudget"]


async def test_headroom_is_used_up(server: FakeApiServer, http: Http, evictions: FakeEvictions) -> None:
    """When an eviction is granted, it should cost headroom, also for a replaced pod (409), but not for a dry run."""
    server.create(BUDGETS, budget("web", {"app": "web"}, allowed=2))
    add_pod(server)

    def allowed() -> int:
        return int(server.get(BUDGETS, "web")["status"]["disruptionsAllowed"])

    assert (await http("POST", PATH, EVICTION, dryRun="All"))[0] == 201
    assert (allowed(), evictions.evicted) == (2, [])
    other = {**EVICTION, "deleteOptions": {"preconditions": {"uid": "other"}}}
    code, body = await http("POST", PATH, other)
    assert (code, allowed()) == (409, 1)
    assert "UID in precondition: other" in body["message"]
    assert (await http("POST", PATH, EVICTION))[0] == 201
    assert allowed() == 0


async def test_the_budget_is_judged_before_the_uid(server: FakeApiServer, http: Http, evictions: FakeEvictions) -> None:
    """When a replaced pod's budget has no headroom, the answer should be 429 and not 409."""
    server.create(BUDGETS, budget("web", {"app": "web"}, allowed=0))
    add_pod(server)
    code, _ = await http("POST", PATH, {**EVICTION, "deleteOptions": {"preconditions": {"uid": "other"}}})
    assert code == 429


async def test_what_comes_before_the_budgets(server: FakeApiServer, http: Http, evictions: FakeEvictions) -> None:
    """When a namespace goes, a webhook denies, the server is overloaded or the body is wrong, each should be itself."""
    assert (await http("POST", PATH, EVICTION))[0] == 404
    add_pod(server)
    evictions.deny("not now", code=429)
    code, body = await http("POST", PATH, EVICTION)
    assert (code, body["message"]) == (429, 'admission webhook "evictions.example.test" denied the request: not now')
    evictions.allow()
    evictions.terminating.add("default")
    code, body = await http("POST", PATH, EVICTION)
    assert (code, body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    evictions.terminating.clear()
    evictions.overload()
    assert await http("POST", PATH, EVICTION) == (429, "Too many requests, please try again later.")
    wrongs: list[Any] = [None, [], {**EVICTION, "apiVersion": "policy/v2"}, {**EVICTION, "metadata": {"name": "x"}}]
    for wrong in wrongs:
        assert (await http("POST", PATH, wrong))[0] == 400
    assert (await http("GET", PATH))[0] in (404, 405)
    assert (await http("POST", PATH, EVICTION))[0] == 201


@pytest.mark.parametrize(("resource", "version", "retry"), [(BUDGETS, "v1", 10), (BETA_BUDGETS, "v1beta1", None)])
def test_versions(resource: Any, version: str, retry: int | None) -> None:
    """When the server is old, discovery, the accepted body and the missing Retry-After should be those of its time."""

    async def main() -> None:
        import aiohttp

        async with FakeApiServer([PODS, resource]) as server, aiohttp.ClientSession(server.url) as session:
            FakeEvictions(server, budgets=resource)
            http = Http(session)
            _, found = await http("GET", "/api/v1")
            entry = next(one for one in found["resources"] if one["name"] == "pods/eviction")
            assert (entry["group"], entry["version"], entry["kind"]) == ("policy", version, "Eviction")
            made = budget("web", {"app": "web"}, allowed=1)
            server.create(resource, {**made, "status": {"disruptionsAllowed": 1}})
            add_pod(server)
            assert (await http("POST", PATH, EVICTION))[0] == (429 if version == "v1" else 400)
            code, body = await http("POST", PATH, {**EVICTION, "apiVersion": "policy/v1beta1"})
            assert (code, body["details"].get("retryAfterSeconds")) == (429, retry)
            assert "still being processed" in body["details"]["causes"][0]["message"]

    run(main())
