"""Every asynchronous test runs on a virtual-time loop, unless it is marked `real` or `real_time`.

Property tests take the same examples each time in CI, so that a change is judged by what it changes; elsewhere they explore.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Mapping

import hypothesis
import pytest

from informer.testing.virtual import VirtualTimeLoop

# Each client, in this process or a child, would read the certificates of 140 public authorities, in 50 ms. No test talks to a
# server of theirs; those of `real` take their authority from a kubeconfig.
os.environ.update(SSL_CERT_FILE=os.devnull, SSL_CERT_DIR=os.devnull)

# No deadline: how long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "explore")


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("real_time") or item.get_closest_marker("real"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualTimeLoop}


@pytest.fixture(autouse=True, scope="module")
def _cheap_collections() -> None:
    """Many tests collect garbage, to see what is left; what was there before, above all imported modules, is left out of it."""
    gc.collect()
    gc.freeze()
