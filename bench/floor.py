"""The floor: what the server's bytes cost a Python process that only receives, splits and keeps them.

No store, no handler, no error is handled. An informer's own figure divided by this one says what its logic costs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgspec

from bench.measure import Heartbeat, begin


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    version: str = msgspec.field(default="", name="resourceVersion")
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw]


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_read_list = msgspec.json.Decoder(_List).decode
_read_event = msgspec.json.Decoder(_Event).decode
_read_object = msgspec.json.Decoder(_Object).decode


async def measure(url: str, objects: int, events: int, *, limit: int | None = None) -> dict[str, Any]:
    """Costs per object of a LIST (in pages of `limit`), and per event of a WATCH."""
    kept: dict[str, tuple[_Meta, bytes]] = {}

    def keep(item: msgspec.Raw) -> None:
        raw = bytes(item)
        meta = _read_object(raw).metadata
        kept[f"{meta.namespace}/{meta.name}"] = meta, raw

    heartbeat = Heartbeat()
    beating = asyncio.create_task(heartbeat.beat())
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, read_bufsize=2 << 20) as http:
        span = await begin(heartbeat)
        query, version = ({"limit": f"{limit}"} if limit else {}), ""
        while True:
            async with http.get(f"{url}/api/v1/pods", params=query) as response:
                body = await response.read()
            page = _read_list(body)
            for item in page.items:
                keep(item)
            version = page.metadata.version
            if not page.metadata.token:
                break
            query["continue"] = page.metadata.token
        del body, page, item
        result = {"objects": span.costs(objects)}
        assert len(kept) == objects
        if events:
            async with http.get(f"{url}/api/v1/pods", params={"watch": "1", "resourceVersion": version}) as response:
                await asyncio.sleep(0.3)
                span = await begin(heartbeat)
                async with http.get(f"{url}/go", params={"k": f"{events}"}):
                    pass
                for _ in range(events):
                    event = _read_event(await response.content.readline())
                    keep(event.object)
                result["events"] = span.costs(events)
    beating.cancel()
    return result
