"""`python -m informer watch`: what is printed while things happen."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from informer.cli import render
from informer.cli.main import execute
from informer.cli.parser import parse
from informer.cli.progress import progress
from informer.cli.render import Style
from informer.testing import FakeApiServer, faults, match
from tests.cli.conftest import NODEPOOLS, Cli, pool

CHECK = ("--check", "duration:spec.nodeDrainTimeout")

pytestmark = pytest.mark.usefixtures("kubeconfig")


class Screen:
    """What a running watch has printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], server: FakeApiServer) -> None:
        self._capsys = capsys
        self._server = server

    async def lines(self) -> list[str]:
        """New lines, without the time of day."""
        await asyncio.sleep(1)  # of the virtual clock
        return [line[9:] if line[2:3] == ":" else line for line in self._capsys.readouterr().out.splitlines()]


@asynccontextmanager
async def watching(server: FakeApiServer, capsys: pytest.CaptureFixture[str], *options: str) -> AsyncIterator[Screen]:
    arguments = ["watch", "nodepools", "-n", "clusters", *CHECK, "--seconds", "3000", *options]
    task = asyncio.create_task(execute(parse(arguments)))
    await server.wait_until(lambda: server.open_watches(NODEPOOLS) == 1)
    try:
        yield Screen(capsys, server)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_story_of_an_object(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """When objects come, change, turn bad, are mended and go, each step should be one line."""
    server.create(NODEPOOLS, pool("old"))
    server.create(NODEPOOLS, pool("bad", "1"))
    async with watching(server, capsys) as screen:
        first = await screen.lines()
        assert first[0] == (
            "synced: 1 object of nodepools.v1beta1.hypershift.openshift.io in namespace clusters, 1 quarantined; "
            "following changes"
        )
        assert first[1].startswith('QUARANTINED clusters/bad  spec.nodeDrainTimeout is "1": not a duration')
        assert first[2].strip().startswith("$ kubectl patch nodepools")
        assert first[3:] == ["HEALTH      live"]

        server.create(NODEPOOLS, pool("new"))
        assert await screen.lines() == ["ADDED       clusters/new"]
        server.patch(NODEPOOLS, "new", {"spec": {"replicas": 2}}, namespace="clusters")
        assert await screen.lines() == ["MODIFIED    clusters/new"]
        server.delete(NODEPOOLS, "new", namespace="clusters")
        assert await screen.lines() == ["DELETED     clusters/new"]
        server.patch(NODEPOOLS, "bad", {"spec": {"nodeDrainTimeout": "10m"}}, namespace="clusters")
        assert await screen.lines() == ["RECOVERED   clusters/bad"]
        server.patch(NODEPOOLS, "old", {"spec": {"nodeDrainTimeout": "x"}}, namespace="clusters")
        assert [line.split()[:2] for line in await screen.lines()] == [
            ["QUARANTINED", "clusters/old"],
            ["$", "kubectl"],
        ]


@pytest.mark.parametrize("once_good", [False, True])
async def test_a_bad_object_goes(server: FakeApiServer, capsys: pytest.CaptureFixture[str], once_good: bool) -> None:
    """When a bad object is deleted, that should be said once, whether or not it could ever be read."""
    server.create(NODEPOOLS, pool("a", "1m" if once_good else "1", finalizers=["x/y"]))
    async with watching(server, capsys) as screen:
        server.patch(NODEPOOLS, "a", {"spec": {"nodeDrainTimeout": "1"}}, namespace="clusters")
        await screen.lines()
        server.delete(NODEPOOLS, "a", namespace="clusters")
        (line, _) = await screen.lines()
        assert line.startswith(
            "QUARANTINED clusters/a  is being deleted and waits for its finalizer x/y; spec.nodeDrainTimeout"
        )
        server.patch(NODEPOOLS, "a", {"metadata": {"finalizers": None}}, namespace="clusters")
        assert await screen.lines() == ["DELETED     clusters/a  it was quarantined"]
        server.create(NODEPOOLS, pool("a"))
        assert await screen.lines() == ["ADDED       clusters/a"]
        server.delete(NODEPOOLS, "a", namespace="clusters")
        assert await screen.lines() == ["DELETED     clusters/a"]


async def test_health(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """When the server goes away and comes back, the state of the connection should be said, with the reason."""
    async with watching(server, capsys) as screen:
        await screen.lines()
        await server.stop()
        await asyncio.sleep(60)
        (line,) = await screen.lines()
        assert line.startswith("HEALTH      failing  ")
        assert "watch nodepools" in line
        await server.start()
        await asyncio.sleep(60)
        assert await screen.lines() == ["HEALTH      live"]


async def test_another_cause(server: FakeApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    """When an outage goes on for another reason, that should be said, once; a permission is another team's than a network."""
    async with watching(server, capsys) as screen:
        await screen.lines()
        await server.stop()
        await asyncio.sleep(200)
        (line,) = await screen.lines()
        assert line.startswith("HEALTH      failing  ConnectionError")
        server.forbid(NODEPOOLS)
        await server.start()
        await asyncio.sleep(200)
        (line,) = await screen.lines()
        assert line.startswith("HEALTH      failing  403 Forbidden: ")
        server.allow(NODEPOOLS)
        await asyncio.sleep(200)
        assert await screen.lines() == ["HEALTH      live"]


async def test_token_is_read_again(server: FakeApiServer, capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    """When the token in the kubeconfig was rotated, the watch should go on with the new one."""
    import os
    from pathlib import Path

    path = Path(os.environ["KUBECONFIG"])
    server.kubeconfig(path, token="t1")
    server.tokens = {"t1"}
    async with watching(server, capsys) as screen:
        await screen.lines()
        server.kubeconfig(path, token="t2")
        server.tokens = {"t2"}
        server.end_watches(NODEPOOLS)
        await asyncio.sleep(60)
        server.create(NODEPOOLS, pool("a"))
        assert "ADDED       clusters/a" in await screen.lines()


async def test_it_ends(server: FakeApiServer, cli: Cli) -> None:
    """When the time is over, a last line should sum up, and the code be 0."""
    server.create(NODEPOOLS, pool("a"))
    found = await cli("watch", "nodepools", "-A", "--seconds", "10")
    assert found.code == 0
    assert found.out.splitlines()[-1] == "1 object, 0 quarantined, health live"


async def test_it_cannot_begin(server: FakeApiServer, cli: Cli) -> None:
    """When the server refuses the list for good, one line should say why; when it is only late, that."""
    server.forbid(NODEPOOLS, "list")
    found = await cli("watch", "nodepools")
    assert found.code == 2
    assert found.err.startswith("error: 403 Forbidden: list nodepools")
    assert found.err.count("\n") == 1
    server.allow(NODEPOOLS)
    server.faults.add(match("list", NODEPOOLS), faults.NoAnswer(), times=None)
    found = await cli("watch", "nodepools", "--seconds", "5")
    assert found.code == 2
    assert "no answer from the server yet after 5 s; give it more time" in found.err


async def test_demo_on_a_cluster(server: FakeApiServer, cli: Cli, kubeconfig: object) -> None:
    """When the demo is given a kubeconfig, it should follow that cluster and change nothing."""
    server.create(NODEPOOLS, pool("bad", "1"))
    server.create(NODEPOOLS, pool("good", "1m", "other"))
    found = await cli("demo", "--kubeconfig", str(kubeconfig), "--seconds", "3")
    assert found.code == 0
    assert "QUARANTINED clusters/bad" in found.out
    assert "1 object, 1 quarantined, health live" in found.out
    assert {request.method for request in server.requests} == {"GET"}
    found = await cli(
        "demo", "--kubeconfig", str(kubeconfig), "--resource", "pods.v1", "--duration", "a", "--seconds", "3"
    )
    assert found.code == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_progress_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the line is longer than the terminal is wide, it should be cut: only one line can be taken back."""
    monkeypatch.setattr(render, "width", lambda _: 7)
    stream = Terminal()
    async with progress(lambda _: "loading a lot", stream):
        await asyncio.sleep(0.1)
    assert stream.getvalue().split("\r\x1b[K") == ["", "loading", ""]


async def test_progress() -> None:
    """When loading takes its time, a terminal should see one line that moves and is gone at the end; a pipe sees nothing."""
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        async with progress(lambda seconds: f"loading, {seconds:.1f} s", stream):
            await asyncio.sleep(0.6)
        written = stream.getvalue().split("\r\x1b[K")
        assert written == (["", "loading, 0.0 s", "loading, 0.2 s", "loading, 0.5 s", ""] if shown else [""])


@pytest.mark.parametrize(
    ("stream", "variables", "colours"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
    ],
    ids=["terminal", "pipe", "NO_COLOR", "dumb"],
)
def test_colours(
    stream: io.StringIO, variables: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the output is no terminal that wants colours, there should be none."""
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    style = Style.of(stream)
    assert style.colours is colours
    assert ("\x1b[" in style("bad", "text")) is colours
