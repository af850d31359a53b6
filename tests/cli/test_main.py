"""The program as a user starts it: exit codes, streams, interrupts, and nothing loaded that is not needed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from informer.cli import main as module
from informer.cli.main import main
from informer.testing import FakeApiServer
from tests.cli.conftest import NODEPOOLS, pool
from tests.processes import finished, interruptible, within

ROOT = Path(__file__).parent.parent.parent
CHECK = ("--check", "duration:spec.nodeDrainTimeout")


def looking(server: FakeApiServer) -> str:
    return f"looking at the whole cluster of {server.url} (context fake)\n"


async def start(*arguments: str, **more: object) -> asyncio.subprocess.Process:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    with interruptible():
        return await asyncio.create_subprocess_exec(sys.executable, "-m", "informer", *arguments, cwd=ROOT, **pipes)


@pytest.mark.real_time
async def test_in_a_process_of_its_own(server: FakeApiServer, tmp_path: Path) -> None:
    """When it runs as a program, the codes should be 0, 1 and 2, and errors be one line on stderr."""
    path = str(server.kubeconfig(tmp_path / "k"))
    server.create(NODEPOOLS, pool("a"))
    results = []
    for arguments in ((), ("--context", "nope"), ()):
        process = await start("scan", "nodepools", "-A", *CHECK, "--kubeconfig", path, *arguments)
        out, err = await finished(process)
        results.append((process.returncode, out.count(b"\n"), err.count(b"\n")))
        server.put_raw(NODEPOOLS, "b", b'{"metadata":{"name":"b","namespace":"x"},"spec":{"nodeDrainTimeout":1}}')
    assert results[:2] == [(0, 1, 1), (2, 0, 1)]
    assert results[2][0] == 1


@pytest.mark.real_time
@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background"])
async def test_interrupt(server: FakeApiServer, tmp_path: Path, handler: Any, request: pytest.FixtureRequest) -> None:
    """When a watch is interrupted, it should end at once with 130 and without a word, wherever the tests run."""
    request.addfinalizer(partial(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, handler)))
    process = await start("watch", "nodepools", "-A", "--kubeconfig", str(server.kubeconfig(tmp_path / "k")))
    assert process.stdout is not None
    async with within(process):
        assert (await process.stdout.readline()).startswith(b"synced: 0 objects")
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (130, looking(server))
    await server.wait_until(lambda: server.open_connections == 0)


@pytest.mark.real_time
async def test_interrupts_are_ignored(server: FakeApiServer, tmp_path: Path) -> None:
    """When whoever starts it has interrupts ignored, as `nohup` and shells do, it should leave them so, and end by SIGTERM."""
    command = f'trap "" INT; exec {sys.executable} -m informer watch nodepools --kubeconfig "$0"'
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", command, str(server.kubeconfig(tmp_path / "k"))), cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    async with within(process):
        await process.stdout.readline()
        process.send_signal(signal.SIGINT)
        server.create(NODEPOOLS, pool("a", namespace="default"))
        while b"ADDED" not in await process.stdout.readline():
            pass
        process.terminate()
        await process.communicate()
    assert process.returncode == -signal.SIGTERM


@pytest.mark.real_time
async def test_closed_pipe(server: FakeApiServer, tmp_path: Path) -> None:
    """When whoever reads the output goes away, as `head` does, it should end as other programs do then."""
    for number in range(1000):
        server.create(NODEPOOLS, pool(f"p-{number}", "1"))
    path = str(server.kubeconfig(tmp_path / "k"))
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "informer", "scan", "nodepools", "-A", *CHECK, "--kubeconfig", path),
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    os.close(reading)
    _, err = await finished(process)
    assert (process.returncode, err.decode()) == (141, looking(server))


@pytest.mark.real_time
async def test_closed_pipe_of_a_watch(server: FakeApiServer, tmp_path: Path) -> None:
    """When whoever reads a watch goes away and nothing happens in the cluster, it should end all the same."""
    reading, writing = os.pipe()
    process = await start(
        "watch", "nodepools", "-A", "--kubeconfig", str(server.kubeconfig(tmp_path / "k")), stdout=writing
    )
    os.close(writing)
    async with within(process):
        said = b""
        while said.count(b"\n") < 2:  # "synced" and "live" in either order: then there is nothing more to say
            said += await asyncio.to_thread(os.read, reading, 1000)
        os.close(reading)
        _, err = await process.communicate()
    assert (process.returncode, err.decode()) == (141, looking(server))


@pytest.mark.real_time
async def test_main_in_a_thread(server: FakeApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When main is called by a program, it should return the code and leave logging as it was."""
    import logging

    before = list(logging.getLogger().handlers)
    arguments = ["scan", "nodepools", "--kubeconfig", str(server.kubeconfig(tmp_path / "k")), *CHECK]
    assert await asyncio.to_thread(main, arguments) == 0
    assert "0 objects" in capsys.readouterr().out
    assert logging.getLogger().handlers == before


def test_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """When the demo runs, it should end with 0 and say that everything was observed."""
    assert main(["demo", "--pace", "0"]) == 0
    assert "every step above was observed, none was assumed" in capsys.readouterr().out


@pytest.mark.parametrize("verbose", [False, True])
def test_a_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verbose: bool) -> None:
    """When there is a bug in here, users should get a line and the code 2; the traceback is there for those who ask."""

    async def broken(_: object) -> int:
        raise LookupError("oops")

    monkeypatch.setattr(module, "_run", broken)
    assert main(["scan", "pods", *["-v"] * verbose]) == 2
    err = capsys.readouterr().err
    assert err.endswith("error: this is a bug, LookupError: oops; -v shows where: please report it\n")
    assert ("Traceback" in err) is verbose


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """When help is asked for, it should name the exit codes and show an example."""
    for arguments in (["--help"], ["scan", "--help"], ["watch", "--help"], ["demo", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
    out = capsys.readouterr().out
    assert "0 clean, 1 bad objects found, 2 could not look" in out
    assert "scan nodepools -A --check duration:spec.nodeDrainTimeout" in out


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import informer", "informer.cli"),
        ("import informer.__main__", "kubernetes_asyncio"),
        ("import informer", "yaml"),
    ],
)
def test_what_is_loaded(statement: str, forbidden: str) -> None:
    """When the library is imported, the command line should not be; when the program starts, the client should not be yet."""
    program = f"import sys; {statement}; sys.exit({forbidden!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, timeout=60).returncode == 0
