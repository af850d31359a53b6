"""The page's program that gives a running client another certificate, for either client."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.docs.pages import program

LOGGERS = ("informer", "asyncio", "aiohttp", "kubernetes_asyncio", "kubernetes")
"""All that may say something about a certificate."""


def renewing(client: str, kubeconfig: Path) -> Callable[[Any], Awaitable[None]]:
    """The page's program, with the names of this client's package."""
    names = program("howto/certificates", "renew")
    for name, module in (("RESTClientObject", "client.rest"), ("load_kube_config", "config")):
        names[name] = getattr(importlib.import_module(f"{client}.{module}"), name)

    async def renew(api: Any) -> None:
        await names["renew"](api, str(kubeconfig))

    return renew
