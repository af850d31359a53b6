"""One line on a terminal that says that something is going on, and is gone when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TextIO

from attrs import define, field

from informer.cli import render
from informer.listerwatcher import Event, ListerWatcher, ListOptions, Page, WatchOptions
from informer.objects import KubeObject
from informer.resource import Resource

_PERIOD = 0.25


@define
class Counting:
    """Passes a source on and counts what its lists bring.

    Attributes:
        objects: how many the LIST under way has brought; a new LIST begins at 0.
    """

    _source: ListerWatcher[KubeObject]
    objects: int = field(default=0, init=False)

    @property
    def resource(self) -> Resource:
        """What is listed and watched."""
        return self._source.resource

    async def list(self, options: ListOptions, /) -> Page[KubeObject]:
        """One page of the source, counted."""
        if not options.continue_token:
            self.objects = 0
        page = await self._source.list(options)
        self.objects += len(page.items) + page.unidentifiable
        return page

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[KubeObject]]]:
        """The stream of the source."""
        return self._source.watch(options)


@asynccontextmanager
async def progress(text: Callable[[float], str], stream: TextIO) -> AsyncIterator[None]:
    """Show a text, made from the seconds so far, until the context is left. Only a terminal gets it, and never two lines."""
    if not stream.isatty():
        yield
        return
    clock = asyncio.get_running_loop().time
    began, columns = clock(), render.width(stream)

    async def tick() -> None:
        while True:
            stream.write(f"\r\x1b[K{text(clock() - began)[:columns]}")
            stream.flush()
            await asyncio.sleep(_PERIOD)

    ticking = asyncio.create_task(tick(), name="progress")
    try:
        yield
    finally:
        ticking.cancel()
        await asyncio.wait([ticking])
        stream.write("\r\x1b[K")
        stream.flush()
