"""The informer of the official `kubernetes` package (37 and later), which lists and watches in a thread."""

from __future__ import annotations

import asyncio
import threading
import urllib.request
from typing import Any

from kubernetes.client import ApiClient, Configuration, CoreV1Api
from kubernetes.informer import ADDED, MODIFIED, SharedInformer

from bench.measure import Heartbeat, begin
from bench.objects import FIRST_VERSION


async def measure(url: str, objects: int, events: int) -> dict[str, Any]:
    """Costs per object until handled, and per event. It has no paging."""
    listed, caught_up = threading.Event(), threading.Event()
    seen, last = [0], f"{FIRST_VERSION + objects + events}"

    def added(_: Any) -> None:
        seen[0] += 1
        if seen[0] == objects:
            listed.set()

    def modified(pod: Any) -> None:
        if pod.metadata.resource_version == last:
            caught_up.set()

    configuration = Configuration()
    configuration.host = url
    heartbeat = Heartbeat()
    beating = asyncio.create_task(heartbeat.beat())
    informer = SharedInformer(CoreV1Api(ApiClient(configuration)).list_pod_for_all_namespaces)
    informer.add_event_handler(ADDED, added)
    informer.add_event_handler(MODIFIED, modified)
    span = await begin(heartbeat)
    informer.start()
    await asyncio.to_thread(listed.wait)
    result = {"objects": span.costs(objects)}
    if events:
        await asyncio.sleep(0.5)
        span = await begin(heartbeat)
        await asyncio.to_thread(_get, f"{url}/go?k={events}")
        await asyncio.to_thread(caught_up.wait)
        result["events"] = span.costs(events)
    beating.cancel()
    informer.stop()
    return result


def _get(url: str) -> None:
    with urllib.request.urlopen(url) as response:  # noqa: S310 - the benchmark's own server
        response.read()
