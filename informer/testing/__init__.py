"""For your operator's tests: a fake API server, a fake source in memory, and an event loop with virtual time.

`FakeApiServer` answers over real HTTP and plays every kind of trouble (`faults`); `FakeListerWatcher` needs no sockets; on a
`VirtualTimeLoop` both make minutes of backoff pass in milliseconds. Nothing of this is imported by the library itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from informer.testing.virtual import DeadlockError, VirtualClock, VirtualTimeLoop, now, run

if TYPE_CHECKING:
    from informer.testing import faults
    from informer.testing._exchange import End
    from informer.testing._front import SubresourceCall, SubresourceHandler
    from informer.testing._requests import RecordedRequest
    from informer.testing._rules import Faults, Match, Rule, match
    from informer.testing._status import StatusError
    from informer.testing.cluster import FakeCluster
    from informer.testing.memory import FakeListerWatcher
    from informer.testing.server import FakeApiServer

__all__ = [
    "DeadlockError",
    "End",
    "FakeApiServer",
    "FakeCluster",
    "FakeListerWatcher",
    "Faults",
    "Match",
    "RecordedRequest",
    "Rule",
    "StatusError",
    "SubresourceCall",
    "SubresourceHandler",
    "VirtualClock",
    "VirtualTimeLoop",
    "faults",
    "match",
    "now",
    "run",
]

# The virtual loop alone is often all that is wanted, and it must not cost an import of aiohttp.
_LAZY: Final = {
    "End": "_exchange",
    "FakeApiServer": "server",
    "FakeCluster": "cluster",
    "FakeListerWatcher": "memory",
    "Faults": "_rules",
    "Match": "_rules",
    "RecordedRequest": "_requests",
    "Rule": "_rules",
    "StatusError": "_status",
    "SubresourceCall": "_front",
    "SubresourceHandler": "_front",
    "match": "_rules",
}


def __getattr__(name: str) -> Any:
    if name == "faults":
        return importlib.import_module("informer.testing.faults")
    if name in _LAZY:
        return getattr(importlib.import_module(f"informer.testing.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
