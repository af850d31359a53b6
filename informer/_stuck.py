"""A handler that does not come back is called by name: no exception, metric or probe would say which one it is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from informer.handlers import Fanout, Handler

_log = logging.getLogger("informer.handlers")

PATIENCE = 60.0
"""Seconds that one call may take before it is spoken of."""


async def watch_over(fanout: Fanout[Any], name: str) -> None:
    """Name each handler that has been busy with one call for a minute, then after two, four and so on until it returns.

    A look once a minute instead of a timer for each call, which would cost as much as the call.
    """
    busy: dict[Handler[Any], tuple[object, int]] = {}
    while True:
        await asyncio.sleep(PATIENCE)
        now: dict[Handler[Any], tuple[object, int]] = {}
        for handler in fanout.handlers:
            call = handler.call
            if call is None:
                continue
            before, minutes = busy.get(handler, (None, 0))
            minutes = minutes + 1 if before is call else 0
            now[handler] = (call, minutes)
            if minutes and not minutes & (minutes - 1):
                key, change = call
                _log.warning(
                    "%s: handler %s has been busy with one call (%s of %s) for %d min, with a backlog of %d; it may be"
                    " waiting for something without a time limit",
                    name,
                    handler.name,
                    type(change).__name__,
                    key,
                    minutes,
                    handler.backlog,
                    extra={"handler": handler.name, "change": type(change).__name__, "key": key},
                )
        busy = now
