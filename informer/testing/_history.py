"""What etcd is to a real server: one counter for everything, the current objects, and the log of changes until compaction."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from attrs import Factory, define, field, frozen

Key: TypeAlias = tuple[str, str]
"""Namespace (empty when cluster-scoped) and name."""


@define(eq=False)
class Stored:
    """One version of one object.

    Attributes:
        key: where it is stored, whatever the bytes say.
        version: the counter's value at this write.
        item: the bytes inside a LIST.
        whole: the bytes in a GET and in a watch event, which carry `kind` and `apiVersion` (kubernetes#3030).
    """

    key: Key
    version: int
    item: bytes
    whole: bytes
    _tree: dict[str, Any] | None = None

    @property
    def tree(self) -> Mapping[str, Any]:
        """The decoded object, for reading only; empty when the bytes are no JSON object."""
        if self._tree is None:
            try:
                tree = json.loads(self.whole)
            except ValueError:
                tree = None
            self._tree = tree if isinstance(tree, dict) else {}
        return self._tree

    def copy(self) -> dict[str, Any]:
        """The decoded object, for changing."""
        tree = json.loads(self.whole)
        if not isinstance(tree, dict):
            raise TypeError(f"{self.key} is stored as {type(tree).__name__}, not as an object")
        return tree

    @property
    def metadata(self) -> Mapping[str, Any]:
        """`metadata`, empty when it is missing or of another type."""
        metadata = self.tree.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`, empty when missing or of another type."""
        labels = self.metadata.get("labels")
        return labels if isinstance(labels, dict) else {}


@frozen
class Change:
    """One step of one object. `last` is a deleted object's final state, with the version of its deletion."""

    version: int
    key: Key
    old: Stored | None
    new: Stored | None
    last: Stored | None = None
    silent: bool = False


@define(eq=False)
class Table:
    """The objects of one resource, their log, and who wants to hear of changes.

    Attributes:
        forgotten: the newest change that is not in the log any more, or was made before there was this table.
    """

    objects: dict[Key, Stored] = Factory(dict)
    log: list[Change] = Factory(list)
    forgotten: int = 0
    listeners: set[Callable[[], object]] = Factory(set)

    def since(self, version: int) -> Sequence[Change]:
        """The changes after this version, oldest first."""
        return self.log[bisect.bisect_right(self.log, version, key=lambda change: change.version) :]

    def after(self, version: int) -> Change | None:
        """The first change after this version."""
        at = bisect.bisect_right(self.log, version, key=lambda change: change.version)
        return self.log[at] if at < len(self.log) else None

    def at(self, version: int) -> dict[Key, Stored]:
        """The objects as they were at this version: the log undone from its end."""
        objects = dict(self.objects)
        for change in reversed(self.since(version)):
            if change.old is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.old
        return objects


@define(eq=False)
class History:
    """All tables and the one counter over them.

    Attributes:
        version: the counter; the resource version of the newest write.
        compacted: changes up to this version are forgotten.
    """

    version: int = 1
    compacted: int = 0
    tables: list[Table] = Factory(list)
    _silent: int = field(default=0, init=False)

    def table(self) -> Table:
        """A new, empty table. It knows of nothing before it: a resource that was served earlier left its log behind."""
        table = Table(forgotten=self.version if self.version > 1 else 0)
        self.tables.append(table)
        return table

    def put(self, table: Table, key: Key, make: Callable[[int], Stored]) -> Stored:
        """Store what `make` returns for the next version."""
        self.version += 1
        stored = make(self.version)
        self._log(table, Change(self.version, key, table.objects.get(key), stored, silent=self._silent > 0))
        table.objects[key] = stored
        return stored

    def remove(self, table: Table, key: Key, make: Callable[[int], Stored]) -> Stored:
        """Delete an object; `make` returns its final state, bearing the deletion's version."""
        self.version += 1
        last = make(self.version)
        old = table.objects.pop(key)
        self._log(table, Change(self.version, key, old, None, last, silent=self._silent > 0))
        return last

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Inside the block, changes are stored and no watch hears of them, now or later."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    def compact(self, version: int) -> None:
        """Forget all changes up to this version."""
        if not 0 <= version <= self.version:
            raise ValueError(f"cannot compact to {version}: the newest version is {self.version}")
        self.compacted = max(self.compacted, version)
        for table in self.tables:
            kept = list(table.since(self.compacted))
            if gone := len(table.log) - len(kept):
                table.forgotten = table.log[gone - 1].version
            table.log = kept
            _tell(table)

    def restore(self, version: int) -> None:
        """Go back to an earlier version, counter and all, as a restored etcd backup does; what came later never was."""
        if not self.compacted <= version <= self.version:
            raise ValueError(f"cannot restore {version}: known are {self.compacted} to {self.version}")
        for table in self.tables:
            table.objects = table.at(version)
            del table.log[len(table.log) - len(table.since(version)) :]
        self.version = version

    def _log(self, table: Table, change: Change) -> None:
        table.log.append(change)
        _tell(table)


def _tell(table: Table) -> None:
    for listener in list(table.listeners):
        listener()
