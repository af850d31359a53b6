"""Kubernetes informers for asyncio that survive objects they cannot read.

Bytes come in, each object is judged on its own, good ones reach a cache and its handlers, bad ones reach a quarantine that
says so until they are fixed. Everything public stands in `__all__`; `informer.testing` is for tests of what is built on it.
"""

from __future__ import annotations

from informer.api import ApiListerWatcher, CallsApi
from informer.changes import Added, Change, Quarantined, Removed, Updated
from informer.degraded import checks
from informer.degraded.checks import Check, FieldCheck
from informer.degraded.quarantine import Quarantine, QuarantineChange, Transition
from informer.degraded.scan import ScanReport, scan
from informer.degraded.wrapper import DegradedListerWatcher
from informer.errors import (
    ApiError,
    IncompleteError,
    InformerError,
    ItemTooLargeError,
    NotFoundError,
    NotSyncedError,
    QuarantinedError,
    StreamBrokenError,
    SyncError,
    TooManyBadObjectsError,
)
from informer.factory import InformerFactory
from informer.health import Health
from informer.lister import Index, Lister
from informer.listerwatcher import (
    Bookmark,
    Deleted,
    Event,
    Item,
    ListerWatcher,
    ListOptions,
    Page,
    WatchOptions,
    Withheld,
)
from informer.objects import KubeObject, ObjectMeta, OwnerReference
from informer.options import InformerOptions
from informer.probes import liveness, readiness
from informer.problems import Path, Problem, QuarantinedObject
from informer.registration import Registration
from informer.resource import Resource
from informer.shared import SharedInformer

__all__ = [
    "Added",
    "ApiError",
    "ApiListerWatcher",
    "Bookmark",
    "CallsApi",
    "Change",
    "Check",
    "DegradedListerWatcher",
    "Deleted",
    "Event",
    "FieldCheck",
    "Health",
    "IncompleteError",
    "Index",
    "InformerError",
    "InformerFactory",
    "InformerOptions",
    "Item",
    "ItemTooLargeError",
    "KubeObject",
    "ListOptions",
    "Lister",
    "ListerWatcher",
    "NotFoundError",
    "NotSyncedError",
    "ObjectMeta",
    "OwnerReference",
    "Page",
    "Path",
    "Problem",
    "Quarantine",
    "QuarantineChange",
    "Quarantined",
    "QuarantinedError",
    "QuarantinedObject",
    "Registration",
    "Removed",
    "Resource",
    "ScanReport",
    "SharedInformer",
    "StreamBrokenError",
    "SyncError",
    "TooManyBadObjectsError",
    "Transition",
    "Updated",
    "WatchOptions",
    "Withheld",
    "checks",
    "liveness",
    "readiness",
    "scan",
]
