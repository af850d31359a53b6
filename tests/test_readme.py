"""The README is true: its programs run, its log line is what is logged, its links and commands exist."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from eviction import Deadline, PodRef, RefusalKind, Requeue
from informer import Resource
from informer.testing import FakeApiServer, StatusError, SubresourceCall

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PODS = Resource.parse("pods.v1")
NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


PROGRAMS = blocks("python")


def program(name: str) -> dict[str, Any]:
    """The names that the block with this function defines."""
    (text,) = [text for text in PROGRAMS if f"def {name}(" in text]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(text, f"README.md: {name}", "exec", dont_inherit=True), namespace)
    return namespace


async def test_informer(capsys: pytest.CaptureFixture[str]) -> None:
    """When pods run on two nodes, the first program should count them by index and then print what changes."""
    async with FakeApiServer([PODS]) as server, server.api_client() as api:
        for name, node in (("web-1", "node-1"), ("web-2", "node-1"), ("web-3", "node-2")):
            metadata = {"name": name, "namespace": "shop", "labels": {"app": "web"}}
            server.create(PODS, {"metadata": metadata, "spec": {"nodeName": node}})
        server.create(PODS, {"metadata": {"name": "other", "namespace": "shop"}, "spec": {"nodeName": "node-1"}})
        running = asyncio.create_task(program("follow_pods")["follow_pods"](api))
        await server.wait_until(lambda: server.open_watches(PODS) == 1)
        server.delete(PODS, "web-3", namespace="shop")
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    first, *changes = capsys.readouterr().out.splitlines()
    assert first == "3 pods, 2 of them on node-1"
    assert [line.partition("(")[0] for line in changes] == ["Added"] * 3 + ["Removed"]


async def test_degraded_mode(caplog: pytest.LogCaptureFixture) -> None:
    """When a pool's duration has no unit, the second program should say so, and the log should say what the README says."""
    async with FakeApiServer([NODEPOOLS]) as server, server.api_client() as api:
        for name, timeout in (("pool-a", "1"), ("pool-b", "10m")):
            metadata = {"name": name, "namespace": "clusters"}
            server.create(NODEPOOLS, {"metadata": metadata, "spec": {"nodeDrainTimeout": timeout}})
        drain_timeout = program("drain_timeout")["drain_timeout"]
        with caplog.at_level(logging.ERROR, logger="informer"):
            bad = await drain_timeout(api, "clusters", "pool-a")
        good = await drain_timeout(api, "clusters", "pool-b")
    assert bad.startswith("unknown; ask somebody to run kubectl patch nodepools.")
    assert good == "10m"
    (line,) = {f"{record.levelname} {record.getMessage()}" for record in caplog.records}
    assert [line] == [text.strip() for text in blocks("text")]


def test_log_line_of_the_operators_page() -> None:
    """When operators read what the log says, it should be what the README says, which the test above compares."""
    assert blocks("text", (ROOT / "docs" / "degraded-mode.md").read_text())[0] == blocks("text")[0]


async def test_evictions() -> None:
    """When a budget refuses a node's pods, the third program should come back to it after the interval, not before."""
    refused: list[str] = []

    async def evict(call: SubresourceCall) -> tuple[int, Any]:
        if call.name != "blocked":
            return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        refused.append(call.name)
        message = "Cannot evict pod as it would violate the pod's disruption budget."
        causes = [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2"}]
        raise StatusError(429, "TooManyRequests", message, details={"causes": causes})

    names = program("one_pass")
    async with FakeApiServer([PODS]) as server, server.api_client() as api:
        server.add_subresource(PODS, "eviction", evict)
        nodes: dict[str, list[PodRef]] = {"node-1": [], "node-2": []}
        for node, name in (("node-1", "blocked"), ("node-2", "free")):
            nodes[node].append(PodRef.of(server.create(PODS, {"metadata": {"name": name, "namespace": "shop"}})))
        wishes: list[Requeue] = [await names["one_pass"](api, nodes, Deadline()) for _ in range(3)]
    assert refused == ["blocked"]
    (denied,) = names["throttle"].snapshot()
    assert (denied.key, denied.refusal.kind) == ("node-1", RefusalKind.BUDGET)
    assert all(wish.delay is not None and 0 < wish.delay <= 30 for wish in wishes)


def test_commands() -> None:
    """When somebody copies the two commands, each should be one line, and the second should be what CI runs."""
    demo, tests = blocks("sh")
    assert demo.rstrip("\n").endswith(".venv/bin/python -m informer demo")
    for command in (demo, tests):
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert tests.strip() in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", README))
def test_links(link: str) -> None:
    """When the README links to a file, it should be there."""
    assert (ROOT / link).exists()
