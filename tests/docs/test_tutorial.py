"""The tutorial is true: its blocks are the program, the program does what the page says, and so do the commands."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from informer import InformerFactory, KubeObject, Resource
from informer.testing import FakeApiServer
from tests.docs.pages import DOCS, ROOT, blocks, program
from tests.processes import finished

EXAMPLE = DOCS / "examples" / "tutorial.py"
WEBSITES = Resource("example.test", "v1", "websites", kind="Website")
CONFIG_MAPS = Resource("", "v1", "configmaps", kind="ConfigMap")
*PROGRAM, TEST = blocks("tutorial")
BACK = r"has recovered and is no longer withheld"


@pytest.fixture
def _examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    yield
    sys.modules.pop("tutorial", None)


def website(name: str, refresh: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"domain": f"{name}.example", "refresh": refresh, **spec},
    }


def test_blocks() -> None:
    """When the blocks of the page stand one after the other, they should be the example."""
    docstring, _, rest = EXAMPLE.read_text().partition("\n\n")
    assert docstring.startswith('"""')
    assert rest == "\n\n".join(PROGRAM)


@pytest.mark.usefixtures("_examples")
def test_the_test_of_the_page() -> None:
    """When somebody copies the test at the end, it should pass."""
    namespace: dict[str, Any] = {}
    exec(compile(TEST, "docs/tutorial.md", "exec"), namespace)
    namespace["test_a_mended_website_gets_its_config_map"]()


@pytest.fixture
async def running(_examples: None) -> AsyncIterator[FakeApiServer]:
    """The page's two websites, and the operator at work."""
    from tutorial import run  # type: ignore[import-not-found]  # on the path by the fixture above

    async with FakeApiServer([WEBSITES, CONFIG_MAPS]) as server, server.api_client() as api:
        server.create(WEBSITES, website("shop", "10m"))
        server.create(WEBSITES, website("blog", "1"))
        task = asyncio.create_task(run(api))
        await server.wait_until(lambda: len(server.objects(CONFIG_MAPS)) == 1)
        yield server
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def names(server: FakeApiServer) -> list[str]:
    return [obj["metadata"]["name"] for obj in server.objects(CONFIG_MAPS)]


def writes(server: FakeApiServer) -> list[str]:
    return [request.verb for request in server.requests if request.verb in {"create", "patch", "delete"}]


@pytest.mark.usefixtures("_examples")
async def test_log(caplog: pytest.LogCaptureFixture) -> None:
    """When it starts, it should say what the page shows."""
    caplog.set_level(logging.INFO)
    from tutorial import run

    async with FakeApiServer([WEBSITES, CONFIG_MAPS]) as server, server.api_client() as api:
        server.create(WEBSITES, website("shop", "10m"))
        server.create(WEBSITES, website("blog", "1"))
        task = asyncio.create_task(run(api))
        await server.wait_until(lambda: len(server.objects(CONFIG_MAPS)) == 1)
        await asyncio.sleep(1)
        task.cancel()
    said = [
        f"{record.levelname} {record.name}: {record.getMessage()}"
        for record in caplog.records
        if record.name in {"websites", "informer.degraded"}
    ]
    assert said == blocks("tutorial", "text")[1].splitlines()


async def test_deleted_config_map_comes_back(running: FakeApiServer) -> None:
    """When somebody deletes the ConfigMap, the operator should write it again, and nothing else."""
    running.delete(CONFIG_MAPS, "shop-site", namespace="default")
    await running.wait_until(lambda: names(running) == ["shop-site"])
    await asyncio.sleep(100)
    assert writes(running) == ["create", "create"]


async def test_changed_website(running: FakeApiServer) -> None:
    """When a website changes, its ConfigMap should follow; its owner and label stay."""
    running.patch(WEBSITES, "shop", {"spec": {"domain": "new.example"}}, namespace="default")
    await running.wait_until(lambda: "new.example" in str(running.objects(CONFIG_MAPS)[0]["data"]))
    (metadata,) = [obj["metadata"] for obj in running.objects(CONFIG_MAPS)]
    assert metadata["ownerReferences"][0]["name"] == "shop"
    await asyncio.sleep(100)
    assert writes(running) == ["create", "patch"]


@pytest.mark.parametrize("change", [{"refresh": "1"}, {"domain": 7}, {"domain": None}])
async def test_turns_bad(running: FakeApiServer, change: dict[str, Any]) -> None:
    """When a good website turns bad, its ConfigMap should stay as it is, and even its deletion should not be answered."""
    before = running.objects(CONFIG_MAPS)
    running.patch(WEBSITES, "shop", {"spec": change}, namespace="default")
    await asyncio.sleep(100)
    assert running.objects(CONFIG_MAPS) == before
    assert writes(running) == ["create"]


async def test_refused_write(running: FakeApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """When a write is refused, it should be tried again."""
    running.forbid(CONFIG_MAPS, "create")
    running.patch(WEBSITES, "blog", {"spec": {"refresh": "1h"}}, namespace="default")
    await running.wait_until(lambda: writes(running).count("create") == 3)
    running.allow(CONFIG_MAPS)
    await running.wait_until(lambda: names(running) == ["blog-site", "shop-site"])
    assert any("trying again in 5 s" in record.getMessage() for record in caplog.records)


@pytest.fixture
def _sigterm() -> Iterator[None]:
    """What process 1 of a container does with a SIGTERM that it has no handler for: nothing."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_examples", "_sigterm")
@pytest.mark.parametrize("synced", [False, True])
async def test_sigterm(kubeconfig: Path, synced: bool) -> None:
    """When the kubelet ends the pod, the program should end at once, also while it waits for the sync."""
    from tutorial import main

    async with FakeApiServer([WEBSITES, CONFIG_MAPS]) as server:
        server.kubeconfig(str(kubeconfig))
        if not synced:
            server.forbid(CONFIG_MAPS, "list")
        task = asyncio.create_task(main())
        await server.wait_until(lambda: server.open_watches(WEBSITES) == 1)
        await asyncio.sleep(1)
        signal.raise_signal(signal.SIGTERM)
        done, _ = await asyncio.wait([task], timeout=1)
        assert done == {task}
        assert task.cancelled()
        await server.wait_until(lambda: server.open_watches(WEBSITES) == 0)


@pytest.mark.usefixtures("_sigterm")
async def test_sigterm_with_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the queue is what SIGTERM ends, looks that were begun and keys that wait should be finished first."""
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    names = program("howto/from-client-go", "work_until_sigterm")
    queue = names["WorkQueue"]()
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(10)
        seen.append(key)

    for key in ("a", "b", "c"):
        queue.add(key)
    queue.add_after("late", 60)
    asyncio.get_running_loop().call_later(5, signal.raise_signal, signal.SIGTERM)
    async with asyncio.timeout(25):
        await names["work_until_sigterm"](queue, reconcile, 2)
    assert sorted(seen) == ["a", "b", "c"]


@pytest.mark.real_time
async def test_what_becomes_of_handlers() -> None:
    """When a factory is left, a coroutine handler should be cancelled, a thread left alone, and what waits be dropped."""
    said: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    async def slow(obj: KubeObject) -> None:
        said.append(f"slow: {obj.name}")
        try:
            await asyncio.Event().wait()
        finally:
            said.append("slow: cancelled")

    def blocking(obj: KubeObject) -> None:
        said.append(f"thread: {obj.name}")
        begun.set()
        may_end.wait(30)
        said.append("thread: through")

    async with FakeApiServer([CONFIG_MAPS]) as server, server.api_client() as api:
        for name in ("a", "b"):
            server.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})
        async with InformerFactory(api) as factory:
            config_maps = factory.informer(CONFIG_MAPS)
            config_maps.add_handler(on_add=slow)
            config_maps.add_handler(on_add=blocking, in_thread=True)
            await factory.wait_for_sync(timeout=10)
            await asyncio.to_thread(begun.wait, 10)
        assert sorted(said) == ["slow: a", "slow: cancelled", "thread: a"]
        may_end.set()


@pytest.mark.real_time
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_commands(tmp_path: Path) -> None:
    """When somebody types what the page says, with the small cluster and kubectl, it should end as the page says."""
    _, cluster, create, scan, start, play, _ = blocks("tutorial", "sh")
    (tmp_path / "docs").symlink_to(DOCS)
    (tmp_path / "tutorial.py").symlink_to(EXAMPLE)
    (tmp_path / "python").symlink_to(sys.executable)
    kubeconfig = str(tmp_path / "kubeconfig")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "KUBECONFIG": kubeconfig}

    async def shell(text: str) -> asyncio.subprocess.Process:
        # exec, so that ending the shell ends the program
        text = f"exec {text}" if text.startswith("python") else f"set -e\n{text}"
        pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
        return await asyncio.create_subprocess_exec("sh", "-c", text, cwd=tmp_path, env=environment, **pipes)

    async def run(text: str) -> str:
        out, _ = await finished(await shell(text))
        return out.decode()

    async def until(process: asyncio.subprocess.Process, pattern: str) -> str:
        assert process.stdout is not None
        seen = ""
        async with asyncio.timeout(30):
            while not re.search(pattern, seen):
                line = await process.stdout.readline()
                assert line, seen
                seen += line.decode()
        return seen

    server = await shell(cluster)
    await until(server, "serving on")
    operator = None
    try:
        assert "website.example.test/blog created" in await run(create)
        assert await run(f"{scan.rstrip()} 2>/dev/null") == blocks("tutorial", "text")[0]
        operator = await shell(start)
        await until(operator, "wrote shop-site")
        await run(play)
        said = await until(operator, r"(?s)(blog: wrote.*|shop: wrote.*){2}")
        assert re.search(BACK, said)
        assert re.findall(r"(?m)^(\S+-site)", await run("kubectl get configmaps")) == ["blog-site", "shop-site"]
    finally:
        for process in (operator, server):
            if process is not None:
                process.terminate()
                await finished(process)
