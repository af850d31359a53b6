"""`scan --print-rules` beside the real server: what the printed rules refuse, let through, and accept."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiException

from informer import ApiListerWatcher, Resource, scan
from informer.cli.judges import parse_check
from informer.cli.main import main
from tests.real.clusters import CRDS, Cluster
from tests.real.test_schema_real import create_dry

pytestmark = pytest.mark.real

TEXT: dict[str, Any] = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "drainTimeout": TEXT,
        "waitTimeout": {"type": "string", "nullable": True},
        "ready-at": TEXT,
        "size": TEXT,
        "limits": {"type": "object", "maxProperties": 20, "additionalProperties": {"x-kubernetes-int-or-string": True}},
        "many": {"type": "array", "items": TEXT},
        "percent": {"x-kubernetes-int-or-string": True},
        "groups": {"type": "array", "maxItems": 50, "items": {"type": "object", "properties": {"timeout": TEXT}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def bounded(schema: Any) -> Any:
    """The schema with limits: the server estimates what rules at the root of a CRD may cost. It does not for policies."""
    if not isinstance(schema, dict):
        return schema
    limits = {"string": {"maxLength": 40}, "array": {"maxItems": 4}}.get(str(schema.get("type")), {})
    more = {"maxProperties": 4} if "additionalProperties" in schema else {}
    return {name: bounded(part) for name, part in schema.items()} | limits | more


CHECKS = [
    "duration:spec.drainTimeout",
    "duration:spec.waitTimeout",
    "timestamp:spec.ready-at",
    "quantity:spec.size",
    'quantity:spec.limits["example.test/gpu"]',
    "quantity:spec.limits[*]",
    "int-or-string:spec.percent",
    "duration:spec.groups[*].timeout",
    "duration:spec.free.timeout",
    "duration:spec.many[*]",
]
DURATIONS = ["10m", "1h30m", "-1.5h", "0", "+0", ".5s", "1.s", "5us", "5\u00b5s", "5\u03bcs", "2562047h47m16s"]
NO_DURATIONS = ["1", "", "1 m", "m", "1d", ".s", "1h ", "10m\n", "2562048h", "\u0661s", "0x1s", "-"]
SPECS: list[tuple[dict[str, Any], bool]] = [
    *[({"drainTimeout": text}, True) for text in DURATIONS],
    *[({"drainTimeout": text}, False) for text in NO_DURATIONS],
    ({}, True),
    ({"waitTimeout": None}, True),
    ({"waitTimeout": "1"}, False),
    ({"ready-at": "2026-01-31T12:00:00Z"}, True),
    ({"ready-at": "2026-01-31T12:00:00.123456789+01:00"}, True),
    ({"ready-at": "2026-02-30T12:00:00Z"}, False),
    ({"ready-at": "2026-01-31"}, False),
    ({"size": "1.5Gi"}, True),
    ({"size": "1.5 Gi"}, False),
    ({"limits": {"cpu": 1, "example.test/gpu": "2"}}, True),
    ({"limits": {"cpu": "a lot"}}, False),
    ({"limits": {"example.test/gpu": "two"}}, False),
    ({"percent": "25%"}, True),
    ({"percent": 2**31}, False),
    ({"groups": [{"timeout": "1m"}, {}]}, True),
    ({"groups": [{"timeout": "1m"}, {"timeout": "1"}]}, False),
]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    async def run(cluster: Cluster, resource: Resource, *checks: str) -> Any:
        await cluster.discovered(resource)
        arguments = ["scan", str(resource), "--kubeconfig", str(cluster.kubeconfig), "--print-rules", "-o", "json"]
        code = await asyncio.to_thread(main, [*arguments, *(word for check in checks for word in ("--check", check))])
        found = capsys.readouterr()
        assert code == 0, found.err
        return json.loads(found.out)

    return run


async def refused(cluster: Cluster, resource: Resource, namespace: str, spec: Any) -> bool:
    body = {"apiVersion": f"{resource.group}/v1", "kind": "Widget", "metadata": {"name": "probe"}, "spec": spec}
    return await create_dry(cluster, resource, namespace, body) is not None


async def in_force(cluster: Cluster, resource: Resource, namespace: str, bad: Any) -> None:
    async with asyncio.timeout(30):
        while not await refused(cluster, resource, namespace, bad):  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(0.1)


def found_bad(spec: Any) -> bool:
    from informer import KubeObject

    obj = KubeObject.parse(json.dumps({"metadata": {"name": "a"}, "spec": spec}).encode())
    return any(list(parse_check(text).check(obj)) for text in CHECKS)


@pytest.mark.parametrize("form", ["the CRD", "the policy"])
async def test_rules_refuse_what_checks_find(crd: Cluster, printed: Any, form: str) -> None:
    """When the printed rules are in force, the server should refuse exactly the objects that the checks would find.

    The policy's expressions are put to the test as rules at the root of the CRD, since this server knows no policies.
    """
    resource = await crd.widgets(schema=SCHEMA if form == "the CRD" else bounded(SCHEMA))
    namespace = await crd.namespace()
    name = f"widgets.{resource.group}"
    rules = await printed(crd, resource, *CHECKS)
    if form == "the CRD":
        patch = rules["patch"]
        assert rules["notes"] == [
            "no rule in the CRD for spec.free.timeout: the schema does not declare timeout, so only the policy can have a rule for it",
            "no rule in the CRD for spec.many[*]: spec.many has no maxItems or maxProperties, and the server refuses rules of unlimited cost; set a limit first, or use the policy",
        ]
    else:
        # What compares with the old object is tested below; the rest is the same language with another word for the object.
        texts = [one["expression"].partition(") || ")[2] for one in rules["policy"]["spec"]["validations"]]
        declared = [text.replace("object.", "self.") for text in texts if ".free" not in text]
        assert len(declared) == len(CHECKS) - 1
        place = "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations"
        patch = [{"op": "add", "path": place, "value": [{"rule": text} for text in declared]}]
    await crd.patch(CRDS, name, patch)
    await in_force(crd, resource, namespace, {"drainTimeout": "1"})
    for spec, good in SPECS:
        assert (await refused(crd, resource, namespace, spec), found_bad(spec)) == (not good, not good), spec


async def test_before_and_after_a_rule(crd: Cluster, printed: Any) -> None:
    """When the rule comes to a cluster with a bad object, the server should refuse new bad values, let that object be edited
    elsewhere (its rules look only at what changes: ratcheting, on since Kubernetes 1.30), and accept the fix.
    """
    resource = await crd.widgets(schema=SCHEMA)
    namespace = await crd.namespace()
    old = {"metadata": {"name": "old", "namespace": namespace}, "spec": {"drainTimeout": "1", "size": "1"}}
    await crd.create(resource, old)
    rules = await printed(crd, resource, "duration:spec.drainTimeout")
    await crd.patch(CRDS, f"widgets.{resource.group}", rules["patch"])
    await in_force(crd, resource, namespace, {"drainTimeout": "1"})

    async def edit(patch: dict[str, Any]) -> dict[str, Any]:
        return await crd.patch(resource, "old", patch, namespace=namespace)

    # A bad write is refused, with the field and a reason that helps.
    with pytest.raises(ApiException) as refusal:
        await crd.create(resource, {"metadata": {"name": "new", "namespace": namespace}, "spec": {"drainTimeout": "2"}})
    (cause,) = json.loads(refusal.value.reason or "")["details"]["causes"]
    assert cause["field"] == "spec.drainTimeout"
    assert "must be a duration, e.g. 10m" in cause["message"]
    with pytest.raises(ApiException):
        await edit({"spec": {"drainTimeout": "3"}})

    # Edits that leave the bad value alone go through: of the metadata, of a finalizer, and of a field beside it.
    await edit({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.test/f"]}})
    await edit({"metadata": {"finalizers": None}})
    assert (await edit({"spec": {"size": "2"}}))["spec"] == {"drainTimeout": "1", "size": "2"}
    report = await scan(
        ApiListerWatcher(crd.client, resource), checks=[parse_check("duration:spec.drainTimeout").check]
    )
    assert [entry.name for entry in report.bad] == ["old"]  # the rule does not find it; the scan does

    # The fix is what the scan says, with a value in it.
    words = shlex.split(report.bad[0].fix_commands()[0].replace("<duration, e.g. 10m>", "10m"))
    assert (await edit(json.loads(words[words.index("-p") + 1])))["spec"]["drainTimeout"] == "10m"
    with pytest.raises(ApiException):
        await edit({"spec": {"drainTimeout": "1"}})

    again = await printed(crd, resource, "duration:spec.drainTimeout")
    assert again["patch"] == []
    assert "has its rule in the CRD already" in again["notes"][0]


async def test_the_policy_lets_unchanged_values_pass(crd: Cluster, printed: Any) -> None:
    """When a policy sees an update of a bad object that leaves the field alone, its expression should hold: a policy does not
    ratchet by itself. Put to the test as a transition rule of the CRD, which has the same old and new object.
    """
    resource = await crd.widgets(schema=bounded(SCHEMA))
    namespace = await crd.namespace()
    spec = {"drainTimeout": "1", "groups": [{"timeout": "1"}]}
    await crd.create(resource, {"metadata": {"name": "old", "namespace": namespace}, "spec": spec})
    rules = await printed(crd, resource, "duration:spec.drainTimeout", "duration:spec.groups[*].timeout")
    expressions = [one["expression"] for one in rules["policy"]["spec"]["validations"]]
    assert all(text.startswith("(request.operation == 'UPDATE' && ") for text in expressions)
    texts = [text.replace("request.operation == 'UPDATE'", "true") for text in expressions]
    texts = [text.replace("oldObject", "oldSelf").replace("object", "self") for text in texts]
    place = "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations"
    await crd.patch(
        CRDS, f"widgets.{resource.group}", [{"op": "add", "path": place, "value": [{"rule": t} for t in texts]}]
    )

    async def edit(patch: dict[str, Any]) -> None:
        await crd.patch(resource, "old", patch, namespace=namespace)

    async def edit_is_refused() -> bool:
        try:
            await crd.request(
                "PATCH",
                f"{resource.path(namespace, 'old')}?dryRun=All",
                {"spec": {"drainTimeout": "2"}},
                content_type="application/merge-patch+json",
            )
        except ApiException:
            return True
        return False

    async with asyncio.timeout(30):
        while not await edit_is_refused():  # noqa: ASYNC110 - a server is asked
            await asyncio.sleep(0.1)
    await edit({"metadata": {"labels": {"a": "b"}}})
    await edit({"spec": {"size": "1"}})
    await edit({"spec": {"drainTimeout": "5m"}})
    with pytest.raises(ApiException):
        await edit({"spec": {"groups": [{"timeout": "2"}]}})
