"""Every asynchronous test runs on a virtual-time loop, unless it is marked `real` or `real_time`.

Property tests take the same examples each time in CI, so that a change is judged by what it changes; elsewhere they explore.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

import hypothesis
import pytest

from informer.testing.virtual import VirtualTimeLoop

# Each client reads the certificates of the public authorities, 140 of them in 50 ms, and no test talks to a server of theirs.
os.environ.setdefault("SSL_CERT_FILE", os.devnull)
os.environ.setdefault("SSL_CERT_DIR", os.devnull)

# No deadline: how long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "explore")


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("real_time") or item.get_closest_marker("real"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualTimeLoop}
