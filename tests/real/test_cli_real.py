"""The command line against real servers: discovery, credentials, a scan and a watch."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest
from attrs import frozen

from informer.cli.discovery import resolve
from informer.cli.errors import CommandError
from informer.cli.main import execute
from informer.cli.parser import parse
from tests.real.clusters import CRDS, Cluster

pytestmark = pytest.mark.real


@frozen
class Outcome:
    code: int
    out: str
    err: str


async def run(cluster: Cluster, capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    capsys.readouterr()
    code = await execute(parse([*arguments, "--kubeconfig", str(cluster.kubeconfig)]))
    found = capsys.readouterr()
    return Outcome(code, found.out, found.err)


async def test_names_of_a_custom_resource(cluster: Cluster) -> None:
    """When a CRD is installed, every name that kubectl takes for it should lead to it, on servers old and new."""
    resource = await cluster.widgets()
    full = f"widgets.{resource.group}"
    short = f"w{resource.group[1:9]}"
    names = [{"op": "add", "path": "/spec/names/shortNames", "value": [short]}]
    await cluster.patch(CRDS, full, names)
    async with asyncio.timeout(30):
        while True:
            try:
                assert await resolve(cluster.client, short) == resource
            except CommandError:
                await asyncio.sleep(0.2)  # discovery follows a CRD in its own time
            else:
                break
    for name in (full, f"widget.{resource.group}", f"Widget.{resource.group}", f"widgets.v1.{resource.group}"):
        found = await resolve(cluster.client, name)
        assert (found, found.kind, found.namespaced) == (resource, "Widget", True)
    assert (await resolve(cluster.client, "crd")).namespaced is False
    with pytest.raises(CommandError, match=f"no widgets in x.{resource.group}"):
        await resolve(cluster.client, f"widgets.x.{resource.group}")


async def test_names_of_built_in_kinds(core: Cluster) -> None:
    """When a kind is built in, its plural, singular, kind and short name should lead to it."""
    expected = {
        "po": "pods.v1",
        "Pod": "pods.v1",
        "no": "nodes.v1",
        "deploy": "deployments.v1.apps",
        "events": "events.v1",
    }
    expected |= {"deployments.apps": "deployments.v1.apps", "pdb": "poddisruptionbudgets.v1beta1.policy"}
    for name, full in expected.items():
        assert str(await resolve(core.client, name)) == full
    with pytest.raises(
        CommandError, match="may be any of ingresses.v1.networking.k8s.io, ingresses.v1beta1.extensions"
    ):
        await resolve(core.client, "ing")


async def test_scan(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """When a real cluster holds a bad object, the scan should find it, and its command should mend it."""
    resource = await cluster.widgets()
    await cluster.discovered(resource)
    namespace = await cluster.namespace()
    for name, timeout in (("good", "10m"), ("bad", "1")):
        spec = {"drainTimeout": timeout, "size": 5}
        await cluster.create(resource, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    arguments = ("scan", str(resource), "-n", namespace, "--check", "duration:spec.drainTimeout", "-o", "json")
    found = await run(cluster, capsys, *arguments)
    assert (found.code, found.err) == (1, "")
    (bad,) = json.loads(found.out)["bad"]
    words = shlex.split(bad["commands"][0].replace("<duration, e.g. 10m>", "10m"))
    await cluster.patch(resource, words[3], json.loads(words[words.index("-p") + 1]), namespace=namespace)
    found = await run(cluster, capsys, *arguments)
    assert (found.code, json.loads(found.out)["checked"]) == (0, 2)


async def test_scan_of_node_pools(crd: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """When the published NodePool CRD is in the cluster, its schema should be usable as it is, and rules be made for it."""
    pytest.importorskip("jsonschema")
    await crd.discovered(await crd.nodepools())
    arguments = ("scan", "nodepools.hypershift.openshift.io", "-A", "--check", "duration:spec.nodeDrainTimeout")
    found = await run(crd, capsys, *arguments, "--crd-schema")
    assert found.code == 0
    assert "CEL rules (x-kubernetes-validations)" in found.err
    found = await run(crd, capsys, *arguments, "--print-rules")
    assert found.code == 0
    command = next(line for line in found.out.splitlines() if "kubectl patch crd" in line)
    words = shlex.split(command.lstrip("# "))
    patched = await crd.patch(CRDS, words[3], json.loads(words[words.index("-p") + 1]))
    assert patched["metadata"]["name"] == "nodepools.hypershift.openshift.io"


async def test_credentials(core: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """When the user has a token, no rights, or an exec plugin, that is what the server should see."""
    assert (await run(core, capsys, "scan", "pods", "--context", "admin-token")).code == 0
    refused = await run(core, capsys, "scan", "pods", "-A", "--context", "viewer-token")
    assert refused.code == 2
    assert refused.err.startswith("error: 403 Forbidden: list pods.v1: ")
    assert refused.err.count("\n") == 1
    import yaml

    content = yaml.safe_load(core.kubeconfig.read_text())
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "admin-token"}}
    script = f"print({json.dumps(json.dumps(answer))})"
    content["users"].append(
        {"name": "plugin", "user": {"exec": {"apiVersion": version, "command": sys.executable, "args": ["-c", script]}}}
    )
    content["contexts"].append({"name": "plugin", "context": {"cluster": "real", "user": "plugin"}})
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    capsys.readouterr()
    assert await execute(parse(["scan", "po", "--kubeconfig", str(file), "--context", "plugin"])) == 0


async def test_watch(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """When a real cluster changes, the watch should say so line by line."""
    resource = await cluster.widgets()
    await cluster.discovered(resource)
    namespace = await cluster.namespace()
    arguments = ["watch", str(resource), "-n", namespace, "--check", "duration:spec.drainTimeout"]
    task = asyncio.create_task(execute(parse([*arguments, "--kubeconfig", str(cluster.kubeconfig)])))
    seen = ""

    async def until(text: str) -> None:
        nonlocal seen
        async with asyncio.timeout(30):
            while text not in seen:
                await asyncio.sleep(0.05)
                seen += capsys.readouterr().out

    try:
        await until("synced: 0 objects")
        obj = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"drainTimeout": "1m"}}
        await cluster.create(resource, obj)
        await until(f"ADDED       {namespace}/a")
        await cluster.patch(resource, "a", {"spec": {"drainTimeout": "1"}}, namespace=namespace)
        await until(f"QUARANTINED {namespace}/a")
        await cluster.patch(resource, "a", {"spec": {"drainTimeout": "2m"}}, namespace=namespace)
        await until(f"RECOVERED   {namespace}/a")
        await cluster.delete(resource, "a", namespace=namespace)
        await until(f"DELETED     {namespace}/a")
    finally:
        task.cancel()
        await asyncio.wait([task])
