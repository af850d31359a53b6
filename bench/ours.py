"""The informer of this project, with one handler, over the benchmark's server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import attrs
import msgspec
from kubernetes_asyncio.client import ApiClient, Configuration

from bench.measure import Heartbeat, begin
from bench.objects import FIRST_VERSION
from informer import (
    ApiListerWatcher,
    DegradedListerWatcher,
    InformerOptions,
    KubeObject,
    ListerWatcher,
    ListOptions,
    Page,
    Resource,
    SharedInformer,
    checks,
)

PODS = Resource("", "v1", "pods", kind="Pod")
CHECKS = (checks.duration("spec.nodeDrainTimeout"), checks.duration("spec.nodeVolumeDetachTimeout"))


class _Container(msgspec.Struct, gc=False):
    name: str
    image: str = ""


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""
    containers: list[_Container] = []


class _Status(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class TypedPod(msgspec.Struct, gc=False):
    """What a controller needs of a pod, as msgspec types."""

    metadata: _Metadata
    spec: _Spec
    status: _Status


@attrs.define
class _AttrsContainer:
    name: str
    image: str = ""


@attrs.define
class _AttrsSpec:
    nodeName: str = ""  # noqa: N815 - msgspec fills attrs classes by their own names
    containers: list[_AttrsContainer] = attrs.field(factory=list)


@attrs.define
class _AttrsStatus:
    phase: str = ""
    podIP: str = ""  # noqa: N815 - msgspec fills attrs classes by their own names


@attrs.define
class _AttrsMetadata:
    name: str
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - msgspec fills attrs classes by their own names


@attrs.define
class AttrsPod:
    """The same as attrs classes, which msgspec can fill."""

    metadata: _AttrsMetadata
    spec: _AttrsSpec
    status: _AttrsStatus


def _msgspec_decoder(_: ApiClient) -> Callable[[KubeObject], object]:
    decode = msgspec.json.Decoder(TypedPod).decode
    return lambda obj: decode(obj.raw)


def _attrs_decoder(_: ApiClient) -> Callable[[KubeObject], object]:
    decode = msgspec.json.Decoder(AttrsPod).decode
    return lambda obj: decode(obj.raw)


def _model_decoder(api: ApiClient) -> Callable[[KubeObject], object]:
    return lambda obj: api._ApiClient__deserialize(obj.to_dict(), "V1Pod")  # type: ignore[attr-defined]  # noqa: SLF001 - the public one wants a response


DECODERS = {"msgspec": _msgspec_decoder, "attrs": _attrs_decoder, "V1Pod": _model_decoder}


class _Unpaged:
    """A source that asks for everything in one answer, whatever the reflector prefers."""

    def __init__(self, source: ListerWatcher[KubeObject]) -> None:
        self.resource, self.watch, self._list = source.resource, source.watch, source.list

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        return await self._list(attrs.evolve(options, limit=None))


async def measure(
    url: str,
    objects: int,
    events: int,
    *,
    checked: bool = False,
    decode: str = "",
    lists: Literal["paged", "unpaged", "streamed"] = "paged",
    handlers: int = 1,
    indexes: int = 0,
) -> dict[str, Any]:
    """Costs per object until synced and handled, and per event until the last handler has heard of it."""
    loop = asyncio.get_running_loop()
    handled, caught_up = loop.create_future(), loop.create_future()
    last = f"{FIRST_VERSION + objects + events}"
    async with ApiClient(Configuration(host=url)) as api:
        source: Any = ApiListerWatcher(api, PODS)
        if lists == "unpaged":
            source = _Unpaged(source)
        if decode:
            source = DegradedListerWatcher(source, decode=DECODERS[decode](api), checks=CHECKS if checked else ())
        elif checked:
            source = DegradedListerWatcher(source, checks=CHECKS)
        streaming: Literal["list", "stream"] = "stream" if lists == "streamed" else "list"
        informer: SharedInformer[Any] = SharedInformer(source, options=InformerOptions(initial_list=streaming))
        seen = [0]

        def added(_: Any) -> None:
            seen[0] += 1
            if seen[0] == objects:
                handled.set_result(None)

        def updated(_: Any, new: Any) -> None:
            if _version(new) == last:
                caught_up.set_result(None)

        for number in range(handlers - 1):
            informer.add_handler(on_change=lambda _: None, name=f"bystander {number}")
        for number in range(indexes):
            informer.add_index(f"index {number}", _by_hash(10 + number))
        informer.add_handler(on_add=added, on_update=updated)
        heartbeat = Heartbeat()
        beating = asyncio.create_task(heartbeat.beat())
        await asyncio.sleep(0.05)
        span = await begin(heartbeat)
        async with informer:
            await informer.wait_for_sync()
            await handled
            result = {"objects": span.costs(objects)}
            if events:
                await asyncio.sleep(0.3)
                span = await begin(heartbeat)
                await api.call_api("/go", "GET", query_params=[("k", f"{events}")], _preload_content=False)
                await caught_up
                result["events"] = span.costs(events)
        beating.cancel()
    return result


def _by_hash(buckets: int) -> Callable[[Any], tuple[str]]:
    return lambda obj: (f"{hash(obj.name) % buckets}",)


def _version(obj: Any) -> str:
    if isinstance(obj, KubeObject):
        return obj.resource_version
    meta = obj.metadata
    version: str = meta.resource_version if hasattr(meta, "resource_version") else meta.resourceVersion
    return version
