"""What is measured: the rows of the table, the ways to list, and how things grow."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen


@frozen
class Row:
    """One line of the table.

    Attributes:
        name: as shown.
        spec: what `bench.worker` is given beside the server; for `client-go` its mode.
        events: the most events that it is asked to bear, where 100,000 would take hours; the cost is per event anyway.
    """

    name: str
    spec: dict[str, Any] = field(factory=dict)
    events: int = 1_000_000


FLOOR = Row("floor: receive, split, keep", {"row": "floor", "limit": 500})
UNCHECKED = Row("KubeObject", {"row": "informer"})
CHECKED = Row("KubeObject, two duration checks", {"row": "informer", "checked": True})

MAIN = (
    FLOOR,
    UNCHECKED,
    CHECKED,
    Row("decode: msgspec types", {"row": "informer", "decode": "msgspec"}),
    Row("decode: attrs types", {"row": "informer", "decode": "attrs"}),
    Row("decode: V1Pod", {"row": "informer", "decode": "V1Pod"}, 5_000),
    Row("client-go, typed", {"row": "client-go", "mode": "typed"}),
    Row("client-go, dynamic", {"row": "client-go", "mode": "dynamic"}, 20_000),
    Row("kubernetes-asyncio, list and Watch", {"row": "kubernetes-asyncio", "limit": 500}, 5_000),
    Row("kubernetes, its informer", {"row": "kubernetes"}, 5_000),
)

SIZES = (1_000, 10_000, 50_000, 100_000)

LISTS = tuple(
    Row(f"checked, {way}", {"row": "informer", "checked": True, "lists": way})
    for way in ("paged", "unpaged", "streamed")
)

GROWTH = (
    *(Row(f"{count} handlers", {"row": "informer", "handlers": count}) for count in (1, 10, 100)),
    *(Row(f"{count} indexes", {"row": "informer", "indexes": count}) for count in (0, 1, 5)),
)

READS = (10, 1_000, 10_000, 100_000)
QUARANTINED = (1, 100, 1_000, 10_000)
KEYS = (10, 1_000, 100_000, 1_000_000)
