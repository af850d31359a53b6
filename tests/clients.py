"""The two clients a user may bring: kubernetes-asyncio's, and `kubernetes.aio` of the official package.

Tests that take the `client` parameter run with both, and so do those in `tests/real`, see its conftest; with the official one
they are skipped where it is not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest

_MISSING = "the official package is not installed: pip install 'kubernetes>=37'"


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


CLIENTS = [
    pytest.param("kubernetes_asyncio", id="kubernetes_asyncio"),
    pytest.param(
        "kubernetes.aio", id="kubernetes", marks=pytest.mark.skipif(not _installed("kubernetes.aio"), reason=_MISSING)
    ),
]


def open_client(package: str, url: str, *, token: str | None = None, **settings: Any) -> Any:
    """An `ApiClient` of that package, to be used with `async with`."""
    module = importlib.import_module(f"{package}.client")
    configuration = module.Configuration(host=url)
    if token is not None:
        configuration.api_key = {"BearerToken": f"Bearer {token}"}
    for name, value in settings.items():
        setattr(configuration, name, value)
    return module.ApiClient(configuration)


async def open_configured(package: str, kubeconfig: str, context: str | None = None) -> Any:
    """As `open_client`, from a kubeconfig."""
    config = importlib.import_module(f"{package}.config")
    return await config.new_client_from_config(kubeconfig, context, persist_config=False)
