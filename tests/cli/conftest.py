"""The command line in the test's own process and loop, on the fake API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from attrs import frozen

from informer import Resource
from informer.cli.main import execute
from informer.cli.parser import parse
from informer.testing import FakeApiServer

NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")
PODS = Resource("", "v1", "pods", kind="Pod")
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)


@frozen
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of an error."""
        assert self.code == 2, (self.out, self.err)
        assert self.out == ""
        assert self.err.startswith("error: ")
        assert self.err.count("\n") == 1, self.err
        return self.err.removeprefix("error: ").rstrip("\n")

    @property
    def json(self) -> object:
        return json.loads(self.out)


Cli = Callable[..., Awaitable[Outcome]]


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When the developer's machine has a kubeconfig, no test should find it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    """NodePools, pods and CRDs."""
    async with FakeApiServer([NODEPOOLS, PODS, CRDS]) as running:
        running.add_resource(Resource("", "v1", "nodes", kind="Node", namespaced=False))
        yield running


@pytest.fixture
def kubeconfig(server: FakeApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A kubeconfig for the server, and the one that is found without options."""
    path = server.kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command line and returns what it left behind."""

    async def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        try:
            code = await execute(parse(list(arguments)))
        except SystemExit as end:  # wrong usage
            assert isinstance(end.code, int)
            code = end.code
        found = capsys.readouterr()
        return Outcome(code, found.out, found.err)

    return run


def pool(name: str, timeout: object = "10m", namespace: str = "clusters", **metadata: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": {"nodeDrainTimeout": timeout}}
