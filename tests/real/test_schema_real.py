"""`checks.schema` beside the real server: what the check finds in stored objects, and what the server says when it is asked."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from typing import Any

import pytest
import yaml
from kubernetes_asyncio.client import ApiException

from informer import ApiListerWatcher, KubeObject, Resource, checks, scan
from informer.problems import path_text
from tests.degraded.schema_cases import CASES, SPEC_SCHEMA
from tests.degraded.schema_cases import crd as crd_with
from tests.real.clusters import CRDS, NODEPOOLS, Cluster, shared_files

pytestmark = pytest.mark.real


async def verdict(cluster: Cluster, resource: Resource, namespace: str, spec: Any, name: str = "probe") -> list[str]:
    """The fields that the server refuses in a new object, asked without storing it."""
    body = {
        "apiVersion": f"{resource.group}/{resource.version}",
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    causes = await create_dry(cluster, resource, namespace, body)
    return [] if causes is None else refused_fields(causes)


async def create_dry(cluster: Cluster, resource: Resource, namespace: str, body: Any) -> list[dict[str, str]] | None:
    """The causes of a 422, None when the object is fine. Just after a CRD has changed the server may answer 503."""
    async with asyncio.timeout(30):
        while True:
            try:
                await cluster.request("POST", f"{resource.path(namespace)}?dryRun=All", body)
            except ApiException as error:
                if error.status != 503:
                    assert error.status == 422, error.reason
                    causes: list[dict[str, str]] = json.loads(error.reason or "")["details"]["causes"]
                    return causes
                await asyncio.sleep(0.1)
            else:
                return None


def refused_fields(causes: list[dict[str, str]]) -> list[str]:
    """The fields of a 422; some causes name theirs only in the text, and one only says that CEL rules were not run."""
    found = set()
    for cause in causes:
        if cause["field"] == "<nil>":
            named = re.search(r'"(spec[^"]*)" must|of type .* in (spec\S*)$', cause["message"])
            if named:
                found.add(named[1] or named[2])
        else:
            found.add(cause["field"])
    # An anyOf names the branches that failed beside itself.
    return sorted(
        field for field in found if not any(other != field and field.startswith(f"{other}.") for other in found)
    )


def judged(check: checks.Check, resource: Resource, spec: Any) -> list[str]:
    body = {"apiVersion": f"{resource.group}/{resource.version}", "metadata": {"name": "a"}, "spec": spec}
    return sorted({path_text(problem.path) for problem in check(KubeObject.parse(json.dumps(body).encode()))})


async def test_every_word_of_a_schema(crd: Cluster) -> None:
    """When a spec is put to the server and to the check, both should name the same fields, for every word and format."""
    resource = await crd.widgets(schema=SPEC_SCHEMA)
    check = checks.schema(crd_with({**SPEC_SCHEMA}))
    namespace = await crd.namespace()
    for spec, fields in CASES:
        said = await verdict(crd, resource, namespace, spec)
        assert (said, judged(check, resource, spec)) == (fields, fields), spec


def loosened(schema: Any) -> Any:
    """The schema without anything but types and structure: what an earlier, careless version of the CRD may have been."""
    words = {"properties", "items", "additionalProperties", "type", "x-kubernetes-int-or-string"}
    words |= {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"}
    made = {word: schema[word] for word in words if word in schema}
    if "properties" in made:
        made["properties"] = {name: loosened(part) for name, part in made["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(made.get(word), dict):
            made[word] = loosened(made[word])
    return made


def published() -> dict[str, Any]:
    file = shared_files() / "data" / "nodepools.crd.yaml"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    crd: dict[str, Any] = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return crd


GOOD = {
    "clusterName": "demo",
    "release": {"image": "quay.io/demo/release:1"},
    "platform": {"type": "None"},
    "management": {"upgradeType": "Replace"},
    "replicas": 2,
}
STORED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": ({}, []),
    "enum": ({"arch": "z80"}, ["spec.arch"]),
    "missing": ({"release": {}}, ["spec.release.image"]),
    "empty": ({"clusterName": ""}, ["spec.clusterName"]),
    "platform": ({"platform": {"type": "Moon"}}, ["spec.platform.type"]),
    "nested": (
        {"management": {"upgradeType": "Never"}, "taints": [{"key": "a", "effect": "Sometimes"}]},
        ["spec.management.upgradeType", "spec.taints[0].effect"],
    ),
}


async def test_objects_that_a_later_schema_rejects(crd: Cluster) -> None:
    """When objects are stored under a loose NodePool CRD and the published one comes, the check should find, before that,
    exactly those that the server refuses then when they are written anew; a write that changes none of it is let through.
    """
    strict = published()
    loose = copy.deepcopy(strict)
    for version in loose["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = loosened(version["schema"]["openAPIV3Schema"])
    await crd._install(loose, NODEPOOLS)
    namespace = await crd.namespace()
    specs = {name: {**GOOD, **change} for name, (change, _) in STORED.items()}
    for name, spec in specs.items():
        await crd.create(NODEPOOLS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    report = await scan(ApiListerWatcher(crd.client, NODEPOOLS), checks=[checks.schema(strict)])
    found = {entry.name: sorted(problem.path_text for problem in entry.problems) for entry in report.bad}
    assert found == {name: fields for name, (_, fields) in STORED.items() if fields}
    assert report.checked == len(STORED)

    tightened = [{"op": "replace", "path": "/spec/versions", "value": strict["spec"]["versions"]}]
    await crd.patch(CRDS, strict["metadata"]["name"], tightened)
    async with asyncio.timeout(30):  # the server takes the new schema up in its own time
        while not await verdict(crd, NODEPOOLS, namespace, specs["enum"]):  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(0.1)

    for name, spec in specs.items():
        assert await verdict(crd, NODEPOOLS, namespace, spec) == STORED[name][1], name
        # Ratcheting (KEP-4008, on since 1.30): what is stored already and not changed is not judged again.
        unchanged = await crd.get(NODEPOOLS, name, namespace=namespace)
        await crd.request("PUT", f"{NODEPOOLS.path(namespace, name)}?dryRun=All", unchanged)
    # ... and a change of a bad field to something else that is bad is refused.
    with pytest.raises(ApiException) as refused:
        await crd.patch(NODEPOOLS, "enum", {"spec": {"arch": "6502"}}, namespace=namespace)
    assert refused_fields(json.loads(refused.value.reason or "")["details"]["causes"]) == ["spec.arch"]
