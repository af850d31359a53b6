"""A cluster for the tutorial that needs nothing but Python: it serves websites and ConfigMaps until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib

from informer import Resource
from informer.testing import FakeApiServer

WEBSITES = Resource("example.test", "v1", "websites", kind="Website")
CONFIG_MAPS = Resource("", "v1", "configmaps", kind="ConfigMap")


async def main() -> None:
    async with FakeApiServer([WEBSITES, CONFIG_MAPS]) as server:
        print(f"serving on {server.url}; export KUBECONFIG={server.kubeconfig('kubeconfig').absolute()}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
