"""One complete LIST: all pages of one snapshot, even when etcd is compacted faster than they can be fetched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from attrs import evolve

from informer._course import PAGE_SIZE
from informer._sink import Collected, Sink, sinking
from informer._slices import Slices
from informer.backoff import Limiter
from informer.errors import ApiError
from informer.listerwatcher import ListerWatcher, ListOptions, Page

_log = logging.getLogger("informer.reflector")

T = TypeVar("T")


class _TokenExpiredError(Exception):
    """The snapshot behind a continue token is gone."""


async def complete_list(
    source: ListerWatcher[T],
    sink: Sink[T],
    first: ListOptions,
    limiter: Limiter,
    page_came: Callable[[Page[T]], None],
) -> tuple[Collected[T], str]:
    """Fetch all pages of one snapshot; returns what they hold, and the snapshot's version.

    When a token's snapshot was compacted away, pages of two snapshots must not be mixed: deletes between them would be lost.
    So all of it again, the second time in one answer, or a compaction every second would starve us.

    Args:
        source: where to ask.
        sink: what the list is for.
        first: the first request.
        limiter: passed before each further start; the pages of a running LIST do not pass it.
        page_came: called for each page.

    Raises:
        ApiError: or whatever else the source raises.
    """
    for options in (first, evolve(first, resource_version="", limit=PAGE_SIZE)):
        collected = sink.collect()
        try:
            return collected, await _pages(source, collected, options, page_came)
        except _TokenExpiredError as error:
            _log.info("%s: listing again from the start: %s", source.resource, error)
        await limiter.wait()
    collected = sink.collect()
    return collected, await _pages(source, collected, evolve(first, resource_version="", limit=None), page_came)


async def _pages(
    source: ListerWatcher[T], collected: Collected[T], options: ListOptions, page_came: Callable[[Page[T]], None]
) -> str:
    slices = Slices()
    version = None
    while True:
        try:
            page = await source.list(options)
        except ApiError as error:
            if error.expired and options.continue_token and options.limit is not None:
                raise _TokenExpiredError(str(error)) from error
            raise
        page_came(page)
        version = page.resource_version if version is None else version
        with sinking():
            collected.unidentifiable += page.unidentifiable
            for event in page.items:
                collected.add(event)
                if slices.due():
                    await slices.breathe()
        if not page.continue_token:
            return version
        options = ListOptions(limit=options.limit, continue_token=page.continue_token)
