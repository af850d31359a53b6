"""Every asynchronous test runs on a virtual-time loop, unless it is marked `real` or `real_time`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from informer.testing.virtual import VirtualTimeLoop


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("real_time") or item.get_closest_marker("real"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualTimeLoop}
