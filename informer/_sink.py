"""Where a reflector puts what it learns, as protocols; `_cache` is the real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from informer.listerwatcher import Bookmark, Deleted, Item, Withheld

T_contra = TypeVar("T_contra", contravariant=True)


class SinkError(BaseException):
    """A sink raised, see `__cause__`. No Exception: a bug is not to be taken for a source's fault and tried again."""


@contextmanager
def sinking() -> Iterator[None]:
    """What is raised inside is a bug of the sink."""
    try:
        yield
    except Exception as error:
        raise SinkError from error


class Collected(Protocol[T_contra]):
    """A complete list while it is still coming; see `store.Replacement`."""

    unidentifiable: int

    def add(self, event: Item[T_contra] | Withheld, /) -> None:
        """One object of the list."""
        ...

    def discard(self, key: str, /) -> None:
        """One that is gone again before the list is complete."""
        ...

    async def publish(self, resource_version: str, /) -> None:
        """The list is complete: everybody sees all of it from now on."""
        ...


class Sink(Protocol[T_contra]):
    """Where a reflector puts what it learns."""

    def collect(self) -> Collected[T_contra]:
        """Begin a complete list."""
        ...

    def apply(self, event: Item[T_contra] | Withheld | Deleted[T_contra], /) -> None:
        """Take in one change."""
        ...

    def bookmark(self, bookmark: Bookmark, /) -> None:
        """Nothing changed up to this version."""
        ...
