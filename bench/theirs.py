"""What a Python program has without an informer: kubernetes-asyncio's typed LIST and its own `Watch`, and a dictionary."""

from __future__ import annotations

import asyncio
from typing import Any

from kubernetes_asyncio import watch
from kubernetes_asyncio.client import ApiClient, Configuration, CoreV1Api

from bench.measure import Heartbeat, begin


async def measure(url: str, objects: int, events: int, *, limit: int | None = None) -> dict[str, Any]:
    """Costs per object of listing (in pages of `limit`), and per event of watching."""
    kept: dict[str, Any] = {}
    heartbeat = Heartbeat()
    beating = asyncio.create_task(heartbeat.beat())
    async with ApiClient(Configuration(host=url)) as api:
        pods = CoreV1Api(api)
        query: dict[str, Any] = {"limit": limit} if limit else {}
        span = await begin(heartbeat)
        while True:
            page = await pods.list_pod_for_all_namespaces(**query)
            kept.update((f"{pod.metadata.namespace}/{pod.metadata.name}", pod) for pod in page.items)
            query["_continue"] = token = page.metadata._continue  # noqa: SLF001 - `continue` is a keyword
            version = page.metadata.resource_version
            if not token:
                break
        del page
        result = {"objects": span.costs(objects)}
        assert len(kept) == objects
        if events:
            span = await begin(heartbeat)
            burst = asyncio.create_task(_burst(url, events))
            async with watch.Watch() as watching:
                left = events
                async for event in watching.stream(pods.list_pod_for_all_namespaces, resource_version=version):
                    pod = event["object"]
                    kept[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod
                    left -= 1
                    if not left:
                        break
            await burst
            result["events"] = span.costs(events)
    beating.cancel()
    return result


async def _burst(url: str, events: int) -> None:
    await asyncio.sleep(0.3)  # until the watch is open
    async with ApiClient(Configuration(host=url)) as other:
        await other.call_api("/go", "GET", query_params=[("k", f"{events}")], _preload_content=False)
