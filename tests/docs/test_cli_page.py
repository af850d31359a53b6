"""The page about the command line is true: its commands run as they stand there, against an API server in this process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import yaml
from attrs import frozen

from informer import Resource
from informer.cli.main import execute
from informer.cli.parser import parse
from informer.testing import FakeApiServer
from tests.docs.pages import ROOT, blocks, page, tables
from tests.processes import finished, within

pytestmark = pytest.mark.real_time

CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")
SCAN, GATE, WATCH, RULES = blocks("cli", "sh")
SCANNED, WATCHED = blocks("cli", "text")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodepools.hypershift.openshift.io"},
    "spec": {
        "group": "hypershift.openshift.io",
        "names": {"kind": "NodePool", "plural": "nodepools"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"nodeDrainTimeout": {"type": "string", "pattern": "[a-z]$"}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


@frozen
class Shell:
    """A shell in which `python` is this one, and the cluster is the fake one.

    What is of the shell or of the process is run by `run`; what only has to be true of the command, by `command` in this process.
    """

    server: FakeApiServer
    directory: Path
    environment: Mapping[str, str]
    output: pytest.CaptureFixture[str]

    async def command(self, line: str) -> tuple[int, str]:
        """One simple command; its exit code and output."""
        python, m, module, *arguments = shlex.split(line)
        assert (python, m, module) == ("python", "-m", "informer")
        self.output.readouterr()
        code = await execute(parse(arguments))
        return code, self.output.readouterr().out

    async def start(self, text: str) -> asyncio.subprocess.Process:
        pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
        return await asyncio.create_subprocess_exec(
            "sh", "-c", text, cwd=self.directory, env=self.environment, start_new_session=True, **pipes
        )

    async def run(self, text: str) -> tuple[int | None, str, str]:
        process = await self.start(text)
        out, err = await finished(process)
        return process.returncode, out.decode(), err.decode()


@pytest.fixture
async def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Shell]:
    """The page's 60 pools, of which pool-a is bad."""
    async with FakeApiServer([NODEPOOLS, CRDS]) as server:
        server.create(CRDS, CRD)
        for number in range(60):
            name, timeout = ("pool-a", "1") if number == 0 else (f"pool-{number}", "10m")
            metadata = {"name": name, "namespace": "clusters"}
            server.create(NODEPOOLS, {"metadata": metadata, "spec": {"nodeDrainTimeout": timeout}})
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        environment = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "KUBECONFIG": kubeconfig}
        monkeypatch.setenv("KUBECONFIG", kubeconfig)
        yield Shell(server, tmp_path, environment, capsys)


async def test_scan(shell: Shell) -> None:
    """When there is one bad pool of 60, the scan should print what the page shows, and end with 1."""
    code, out, err = await shell.run(SCAN)
    assert (code, out) == (1, SCANNED)
    assert err == f"looking at the whole cluster of {shell.server.url} (context fake)\n"


async def test_exit_codes(shell: Shell) -> None:
    """When it is clean, bad or impossible, the codes should be those of the page's table."""
    codes = {row[0]: row[1] for row in tables(page("cli"))["Scan"]}
    assert (await shell.command(SCAN))[0] == 1
    assert codes["1"].startswith("bad objects were found")
    assert (await shell.command(f"{SCAN.strip()} --context nowhere"))[0] == 2
    assert codes["2"].startswith("it could not look")
    shell.server.patch(NODEPOOLS, "pool-a", {"spec": {"nodeDrainTimeout": "1h"}}, namespace="clusters")
    assert (await shell.command(SCAN))[0] == 0
    assert codes["0"].startswith("clean")


async def test_gate(shell: Shell) -> None:
    """When a pipeline runs the gate, it should leave a report, and stop there."""
    pytest.importorskip("jsonschema")
    (shell.directory / "new").mkdir()
    (shell.directory / "new" / "nodepools.crd.yaml").write_text(json.dumps(CRD))
    code, out, _ = await shell.run(f"{GATE.strip()}; echo went on")
    assert (code, out) == (1, "")
    report = json.loads((shell.directory / "report.json").read_text())
    assert "pool-a" in json.dumps(report)
    shell.server.patch(NODEPOOLS, "pool-a", {"spec": {"nodeDrainTimeout": "1h"}}, namespace="clusters")
    assert (await shell.run(f"{GATE.strip()}; echo went on"))[:2] == (0, "went on\n")


async def test_watch(shell: Shell) -> None:
    """When a pool is mended under a watch, it should print what the page shows, but for the time."""
    process = await shell.start(f"exec {WATCH.strip()}")
    assert process.stdout is not None
    async with within(process):
        said = [(await process.stdout.readline()).decode() for _ in range(4)]
        shell.server.patch(NODEPOOLS, "pool-a", {"spec": {"nodeDrainTimeout": "1h"}}, namespace="clusters")
        said.append((await process.stdout.readline()).decode())
        process.terminate()
        await process.communicate()

    def timeless(text: str) -> list[str]:
        text = re.sub(r"^\d\d:\d\d:\d\d", "00:00:00", text, flags=re.MULTILINE)
        return [re.sub(r" -p '.*", "", line) for line in text.splitlines()]

    shown = timeless(WATCHED)[:5]
    assert sorted(timeless("".join(said))) == sorted(shown)


async def test_rules(shell: Shell) -> None:
    """When it prints rules, they should be YAML in two parts, with a policy."""
    code, out = await shell.command(RULES)
    assert code == 0
    kinds = [part.get("kind") for part in yaml.safe_load_all(out) if part]
    assert "ValidatingAdmissionPolicy" in kinds
    assert "ValidatingAdmissionPolicyBinding" in kinds


def test_commands_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """When the table names a command, `--help` should know it."""
    for row in tables(page("cli"))["The command line"]:
        with pytest.raises(SystemExit) as end:
            parse([row[0].strip("`").split()[0], "--help"])
        assert end.value.code == 0
    assert "usage" in capsys.readouterr().out


async def test_page_for_those_on_call(shell: Shell) -> None:
    """When somebody on call scans as their page says, both commands should find the bad pool."""
    pytest.importorskip("jsonschema")
    lines = [line for block in blocks("on-call", "sh") for line in block.splitlines() if " informer scan " in line]
    assert len(lines) == 2
    for line in lines:
        code, out = await shell.command(line)
        assert code == 1
        assert "pool-a" in out
