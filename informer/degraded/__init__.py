"""Start, skip the bad object entirely, change nothing, say so loudly, and take it in by itself once it is fixed."""

from __future__ import annotations

from informer.degraded.checks import Check, FieldCheck
from informer.degraded.quarantine import Quarantine, QuarantineChange, Transition
from informer.degraded.scan import ScanReport, scan
from informer.degraded.wrapper import DegradedListerWatcher

__all__ = [
    "Check",
    "DegradedListerWatcher",
    "FieldCheck",
    "Quarantine",
    "QuarantineChange",
    "ScanReport",
    "Transition",
    "scan",
]
