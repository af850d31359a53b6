"""The pytest plugin: its fixtures in a project that asks for them, and nothing at all in one that does not.

What the plugin does to a run is seen in this process; that it comes, and stays away, in processes as users start them.
"""

from __future__ import annotations

import re
import sys

import kubernetes_asyncio.client  # noqa: F401  # here, since what a run in this process imports first goes with that run
import pytest

import informer.testing.memory
import informer.testing.server
import informer.testing.virtual  # noqa: F401

pytest_plugins = ["pytester"]

ASK = 'pytest_plugins = ["informer.testing.pytest_plugin"]\n'
INI = "[pytest]\nasyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
RESOURCES = """
from informer import InformerFactory, Resource, SharedInformer
from informer.testing import VirtualTimeLoop
PODS = Resource.parse("pods.v1")
"""


@pytest.fixture
def project(request: pytest.FixtureRequest, pytester: pytest.Pytester) -> pytest.Pytester:
    """A project of somebody's, in the stricter mode of pytest-asyncio unless the test says otherwise."""
    pytester.makeini(INI.format(mode=getattr(request, "param", "strict")))
    return pytester


def outcome(project: pytest.Pytester, text: str, *arguments: str, conftest: str = ASK) -> pytest.RunResult:
    write(project, text, conftest)
    return project.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def write(project: pytest.Pytester, text: str, conftest: str) -> None:
    project.makeconftest(conftest)
    project.makepyfile("import asyncio\nimport pytest\nimport time\n" + RESOURCES + text)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("PYTHONPATH", str(request.config.rootpath))


@pytest.mark.parametrize("project", ["auto", "strict"], indirect=True)
def test_virtual_time(project: pytest.Pytester) -> None:
    """When a test asks for `virtual_loop`, hours should pass at once, for its fixtures as well."""
    outcome(
        project,
        """
import pytest_asyncio

@pytest_asyncio.fixture
async def slow(virtual_loop):
    await asyncio.sleep(3600)
    return asyncio.get_running_loop()

@pytest.mark.asyncio
async def test_it(virtual_loop, slow):
    assert slow is virtual_loop is asyncio.get_running_loop()
    await asyncio.sleep(3600)
    assert virtual_loop.time() == 1000 + 7200

@pytest.mark.asyncio
@pytest.mark.usefixtures("virtual_loop")
async def test_mark():
    await asyncio.sleep(3600)
""",
    ).assert_outcomes(passed=2)


def test_who_does_not_ask(project: pytest.Pytester) -> None:
    """When a test asks for nothing, it should run on the ordinary loop, under its own name."""
    result = outcome(
        project,
        """
@pytest.mark.asyncio
async def test_it():
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)

@pytest.mark.asyncio
async def test_other(virtual_loop):
    pass

@pytest.mark.parametrize("word", ["a"])
def test_plain(word):
    pass
""",
        "-v",
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*::test_it PASSED*", "*::test_other PASSED*", "*::test_plain[[]a] PASSED*"])


def test_server_and_client(project: pytest.Pytester) -> None:
    """When a test asks for server and client, an informer should follow the server, in virtual time or in real time."""
    outcome(
        project,
        """
async def follow(server, client):
    server.add_resource(PODS)
    server.create(PODS, {"metadata": {"name": "a"}})
    async with InformerFactory(client) as factory:
        pods = factory.informer(PODS)
        await factory.wait_for_sync(timeout=300)
        assert [pod.name for pod in pods.lister.list()] == ["a"]

@pytest.mark.asyncio
async def test_virtual(virtual_loop, fake_api_server, fake_api_client):
    await fake_api_server.stop()
    virtual_loop.call_later(20, lambda: asyncio.ensure_future(fake_api_server.start()))
    await follow(fake_api_server, fake_api_client)

@pytest.mark.asyncio
async def test_real(fake_api_server, fake_api_client):
    await follow(fake_api_server, fake_api_client)
""",
    ).assert_outcomes(passed=2)


def test_sources(project: pytest.Pytester) -> None:
    """When a test makes several sources, they should share their objects, and a next test should have new ones."""
    outcome(
        project,
        """
@pytest.mark.asyncio
async def test_scopes(virtual_loop, fake_source):
    everything, shop = fake_source(PODS), fake_source(PODS, namespace="shop")
    everything.create("a", namespace="shop")
    everything.create("b", namespace="other")
    async with SharedInformer(everything) as all_pods, SharedInformer(shop) as pods:
        await all_pods.wait_for_sync()
        await pods.wait_for_sync()
        assert (len(all_pods.lister), len(pods.lister)) == (2, 1)

@pytest.mark.asyncio
async def test_with_the_server(virtual_loop, fake_source, fake_api_server):
    source = fake_source(PODS, cluster=fake_api_server)
    source.create("a")
    assert fake_api_server.get(PODS, "a")["metadata"]["uid"]

def test_plain(fake_source):
    assert fake_source(PODS).cluster.objects(PODS) == []
""",
    ).assert_outcomes(passed=3)


def test_a_hook_of_the_projects_own(project: pytest.Pytester) -> None:
    """When the project chooses loops itself, it should have its way, and `virtual_loop` say why it cannot be had."""
    conftest = ASK + (
        "import asyncio\n"
        "def pytest_asyncio_loop_factories(config, item):\n"
        "    return {'mine': asyncio.SelectorEventLoop} if 'mine' in item.name else None\n"
    )
    result = outcome(
        project,
        """
@pytest.mark.asyncio
async def test_mine():
    assert type(asyncio.get_running_loop()) is asyncio.SelectorEventLoop

@pytest.mark.asyncio
async def test_mine_too(virtual_loop):
    pass

@pytest.mark.asyncio
async def test_other(virtual_loop):
    pass
""",
        conftest=conftest,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*virtual_loop: the test runs on another loop*"])


def test_the_documented_example(project: pytest.Pytester, request: pytest.FixtureRequest) -> None:
    """When somebody copies the example of the page about testing, it should pass."""
    page = (request.config.rootpath / "docs" / "testing.md").read_text()
    (text,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "half_an_hour" in block]
    project.makepyfile(text)
    project.makeconftest(re.findall(r"```python\n(pytest_plugins.*?)```", page, re.DOTALL)[0])
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_opt_in(project: pytest.Pytester) -> None:
    """When a project does not ask, the plugin should not be imported, and its fixtures not be there."""
    text = """
import sys

def test_it():
    assert "informer.testing.pytest_plugin" not in sys.modules

def test_fixture(fake_source):
    pass
"""
    write(project, text, conftest="")
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*fixture 'fake_source' not found*"])
    assert sys.modules.get("informer.testing.pytest_plugin") is None
