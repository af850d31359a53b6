"""The tutorial is true: its blocks are the program, the program does what the page says, and so do the commands."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from informer import Resource
from informer.testing import FakeApiServer
from tests.docs.pages import DOCS, ROOT, blocks

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


@pytest.mark.real_time
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_commands(tmp_path: Path) -> None:
    """When somebody types what the page says, with the small cluster and kubectl, it should end as the page says."""
    _, cluster, create, scan, start, play = blocks("tutorial", "sh")
    (tmp_path / "docs").symlink_to(DOCS)
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
        out, _ = await (await shell(text)).communicate()
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
        assert await run(scan) == blocks("tutorial", "text")[0]
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
                await process.communicate()
