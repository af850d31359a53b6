"""Names that people bring along from client-go, answered with what the same thing is called here."""

from __future__ import annotations

from collections.abc import Mapping

# client-go's names, in lower case and without underscores.
INFORMER = {
    "hassynced": "`await informer.wait_for_sync()`, or `informer.health.synced`",
    "addeventhandler": "`informer.add_handler(on_add=…)`",
    "addindexers": "`informer.add_index(name, function)`",
    "indexer": "`informer.lister`",
    "getindexer": "`informer.lister`",
    "getstore": "`informer.lister`",
    "run": "`async with informer:`",
    "start": "`async with informer:`",
    "stop": "the end of `async with informer:`",
    "isstopped": "`await informer.stopped()`",
    "seterrorhandler": "`informer.health`",
    "setwatcherrorhandler": "`informer.health`",
    "settransform": "`decode` of a DegradedListerWatcher",
}
FACTORY = {
    "start": "`async with factory:`",
    "shutdown": "the end of `async with factory:`",
    "waitforcachesync": "`await factory.wait_for_sync()`",
    "forresource": "`factory.informer(resource)`",
    "informerfor": "`factory.informer(resource)`",
}
LISTER = {
    "getbykey": "`lister.get(key)`",
    "byindexers": "`lister.by_index(index, value)`",
    "byindex": "`lister.by_index(index, value)`",
    "keys": "`[obj.key for obj in lister.list()]`",
    "listkeys": "`[obj.key for obj in lister.list()]`",
    "items": "`lister.list()`",
    "values": "`lister.list()`",
    "pods": "`lister.list(namespace=…)` or `lister.get(name, namespace=…)`",
    "namespace": "`lister.list(namespace=…)` or `lister.get(name, namespace=…)`",
}


def unknown(thing: object, name: str, elsewhere: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that is not there; `elsewhere`: one of the tables above."""
    hint = elsewhere.get(name.replace("_", "").lower())
    said = f"{type(thing).__name__!r} object has no attribute {name!r}"
    return AttributeError(f"{said}; use {hint}" if hint else said, name=name, obj=thing)
