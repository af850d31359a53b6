"""A scripted source and short ways to make objects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from informer.listerwatcher import Item, ListOptions, Page, WatchOptions
from informer.objects import KubeObject
from informer.resource import Resource

WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")


def widget(
    name: str, version: str = "1", spec: object = None, *, uid: str = "", **metadata: object
) -> Item[KubeObject]:
    meta = {"name": name, "namespace": "team-a", "uid": uid or f"u-{name}", "resourceVersion": version, **metadata}
    obj = KubeObject.parse(json.dumps({"metadata": meta, "spec": {} if spec is None else spec}).encode())
    return Item(obj.key, obj.uid, obj.resource_version, obj.metadata.labels, obj)


def bad(name: str, version: str = "1", value: object = "1", *, uid: str = "", **metadata: object) -> Item[KubeObject]:
    return widget(name, version, {"drainTimeout": value}, uid=uid, **metadata)


class Scripted:
    """Answers LISTs and WATCHes from what a test puts in; an exception in a script is raised where it stands."""

    def __init__(self, *pages: object, events: object = (), resource: Resource = WIDGETS) -> None:
        self.pages = list(pages)
        self.events = events
        self.resource = resource
        self.calls: list[object] = []

    async def list(self, options: ListOptions) -> Page[KubeObject]:
        self.calls.append(options)
        page = self.pages.pop(0)
        if isinstance(page, BaseException):
            raise page
        return page if isinstance(page, Page) else Page(page, "100")

    @asynccontextmanager
    async def watch(self, options: WatchOptions) -> AsyncIterator[AsyncIterator[object]]:
        self.calls.append(options)

        async def stream() -> AsyncIterator[object]:
            script = self.events
            if hasattr(script, "__aiter__"):
                async for event in script:
                    yield event
                return
            for event in script:
                if isinstance(event, BaseException):
                    raise event
                yield event

        events = stream()
        try:
            yield events
        finally:
            await events.aclose()


async def receive(source: object, *, streaming: bool = False) -> list[object]:
    """Everything one watch brings."""
    async with source.watch(WatchOptions(resource_version="1", send_initial_events=streaming)) as events:
        return [event async for event in events]
