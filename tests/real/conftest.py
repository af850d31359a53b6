"""Fixtures for tests against real API servers: those whose kubeconfigs INFORMER_TEST_KUBECONFIGS names.

Without it every test here is skipped, and says so. A server that is named and does not answer is a failure, not a skip.

Every test runs once with each client that a user may bring, unless `WITHOUT_A_CLIENT` says why not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest
from kubernetes_asyncio.client import ApiException
from kubernetes_asyncio.config import new_client_from_config

from tests.clients import CLIENTS
from tests.real.clusters import Cluster, cluster_of, kubeconfigs

_NONE_NAMED = "INFORMER_TEST_KUBECONFIGS names no kubeconfig of a real API server"

WITHOUT_A_CLIENT = {
    "test_cli_real.py": "the command line makes its own client",
    "test_rules_refuse_what_checks_find": "of the library only checks and the command line take part",
    "test_the_policy_lets_unchanged_values_pass": "of the library only the command line takes part",
    "test_every_word_of_a_schema": "of the library only checks take part",
}
"""The modules and tests that hand no client to the library, and why; they run once."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kubeconfig" in metafunc.fixturenames:
        files = kubeconfigs()
        if files:
            metafunc.parametrize("kubeconfig", files, ids=[file.parent.name for file in files])
        else:
            metafunc.parametrize("kubeconfig", [pytest.param(None, marks=pytest.mark.skip(reason=_NONE_NAMED))])
    names = {metafunc.definition.path.name, metafunc.function.__name__}
    if "package" in metafunc.fixturenames and not names & WITHOUT_A_CLIENT.keys():
        metafunc.parametrize("package", CLIENTS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.real)


@cache
def _serves_core(kubeconfig: Path) -> bool:
    async def ask() -> bool:
        async with await new_client_from_config(str(kubeconfig), persist_config=False) as client:
            try:
                await client.call_api("/api", "GET", auth_settings=["BearerToken"], _preload_content=True)
            except ApiException as error:
                if error.status == 404:
                    return False
                raise
            return True

    with asyncio.Runner() as runner:
        return runner.run(ask())


def _find(*, core: bool) -> Path:
    files = kubeconfigs()
    if not files:
        pytest.skip(_NONE_NAMED)
    for file in files:
        if _serves_core(file) is core:
            return file
    what = "serves core/v1" if core else "serves custom resources only"
    pytest.skip(f"no server of INFORMER_TEST_KUBECONFIGS {what}")


@pytest.fixture
def package() -> str:
    """Whose `ApiClient` is handed to the library."""
    return "kubernetes_asyncio"


@pytest.fixture
def core_kubeconfig() -> Path:
    """A server with core/v1: pods, RBAC, evictions."""
    return _find(core=True)


@pytest.fixture
def crd_kubeconfig() -> Path:
    """A server of custom resources alone, with streaming lists."""
    return _find(core=False)


@pytest.fixture
def serves_core(kubeconfig: Path) -> bool:
    """Whether the server of this test has core/v1."""
    return _serves_core(kubeconfig)


@pytest.fixture
async def cluster(kubeconfig: Path, serves_core: bool, package: str) -> AsyncIterator[Cluster]:
    """Each server in turn."""
    async with cluster_of(kubeconfig, core=serves_core, package=package) as made:
        yield made


@pytest.fixture
async def core(core_kubeconfig: Path, package: str) -> AsyncIterator[Cluster]:
    """The server with core/v1."""
    async with cluster_of(core_kubeconfig, core=True, package=package) as made:
        yield made


@pytest.fixture
async def crd(crd_kubeconfig: Path, package: str) -> AsyncIterator[Cluster]:
    """The server of custom resources."""
    async with cluster_of(crd_kubeconfig, core=False, package=package) as made:
        yield made
