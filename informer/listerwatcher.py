"""The seam that everybody can wrap or fake: one page of a LIST, one stream of a WATCH, and what comes out of them.

Identity stands beside the value, so T needs no metadata of its own and an unreadable object still has a key.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, Protocol, TypeAlias, TypeVar

from attrs import field, frozen
from msgspec import Struct

from informer.problems import QuarantinedObject
from informer.resource import Resource

T_co = TypeVar("T_co", covariant=True)

WATCH_GRACE = 30.0
"""Seconds a watch may last beyond its `timeoutSeconds` before it counts as dead."""


class Item(Struct, Generic[T_co], gc=False, frozen=True):
    """One good object as the source saw it: identity beside the decoded value.

    Attributes:
        key: `namespace/name`, or `name` when cluster-scoped.
        uid: the object's life; two objects of one key with different uids are two lives.
        resource_version: opaque; compared for equality only.
        labels: for label selectors of a lister.
        object: the value, as decoded.
        digest: a hash of the bytes `object` was decoded from (`objects.content_digest`), 0 when unknown; tells an
            unchanged object on a relist where `object` itself cannot be compared.
    """

    key: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    object: T_co
    digest: int = 0


@frozen
class Withheld:
    """One bad object: present on the server, kept from the cache. Carries its entry, so any wrapper may stand above."""

    key: str
    uid: str
    resource_version: str
    entry: QuarantinedObject


@frozen
class Deleted(Generic[T_co]):
    """The server deleted the object, or it left the selection. `last` is None when its final state does not decode."""

    key: str
    uid: str
    resource_version: str
    last: T_co | None


@frozen
class Bookmark:
    """How far the stream has come without anything to report.

    Attributes:
        resource_version: where the stream is now.
        initial_events_end: the mark that ends a streaming list.
        unidentifiable: set instead of a bookmark of the server's for an event whose object has a version and no usable
            key: it cannot be withheld under a key, yet the cache is incomplete from here on.
    """

    resource_version: str
    initial_events_end: bool = False
    unidentifiable: int = 0


# What a watch yields. ADDED and MODIFIED are both an Item: the store decides which it is. ERROR is raised as ApiError.
Event: TypeAlias = Item[T_co] | Withheld | Deleted[T_co] | Bookmark


@frozen
class Page(Generic[T_co]):
    """One page of a LIST.

    Attributes:
        items: good and withheld objects, in the server's order.
        resource_version: the version of the whole list.
        continue_token: non-empty when there are more pages.
        unidentifiable: how many items had no usable key.
    """

    items: Sequence[Item[T_co] | Withheld]
    resource_version: str
    continue_token: str = ""
    unidentifiable: int = 0


@frozen(kw_only=True)
class ListOptions:
    """What one LIST request asks for.

    Attributes:
        resource_version: None or `""` for the newest state, `"0"` for anything the server has at hand, else "not older".
        limit: page size; None asks for everything at once.
        continue_token: the next page; never sent together with a resource version (the server refuses that).
    """

    resource_version: str | None = None
    limit: int | None = field(default=500)
    continue_token: str = ""

    @limit.validator
    def _positive(self, _: object, value: int | None) -> None:
        if value is not None and value < 1:
            raise ValueError(f"limit is {value}; it must be at least 1, or None for no limit")


@frozen(kw_only=True)
class WatchOptions:
    """What one WATCH request asks for.

    Attributes:
        resource_version: where to begin; what happened up to it is known.
        timeout: seconds after which the server is asked to end the stream (`timeoutSeconds`).
        send_initial_events: a streaming list: all objects first, then the marked bookmark, then changes (KEP-3157).
    """

    resource_version: str
    timeout: float = 300.0
    send_initial_events: bool = False


class ListerWatcher(Protocol[T_co]):
    """Where objects come from. Stateless between calls: nobody enters or exits a source; what must live, lives inside
    the context of `watch()`.
    """

    @property
    def resource(self) -> Resource:
        """What is listed and watched."""
        ...

    async def list(self, options: ListOptions, /) -> Page[T_co]:
        """One page.

        Raises:
            ApiError: the server refused.
            OSError, TimeoutError, aiohttp.ClientError: there was no (whole) answer.
        """
        ...

    def watch(self, options: WatchOptions, /) -> AbstractAsyncContextManager[AsyncIterator[Event[T_co]]]:
        """An open stream; leaving the context closes the connection. Raises as `list` does, and on an ERROR event."""
        ...


Items: TypeAlias = builtins.list[Item[T_co] | Withheld]
