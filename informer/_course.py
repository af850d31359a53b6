"""Which request comes next: the table of list, watch and relist, as decisions without any input or output.

The reflector sends requests and reports here how they ended; each rule stands beside its reason.
"""

from __future__ import annotations

import enum
import logging
from typing import NamedTuple

from attrs import define, field

from informer.errors import ApiError, ItemTooLargeError, StreamBrokenError
from informer.listerwatcher import ListOptions

_log = logging.getLogger("informer.reflector")

PAGE_SIZE = 500
SHORT_WATCH = 1.0
"""Seconds; a watch that ended sooner and brought nothing was refused without a word."""
SHORT_WATCHES = 3
DEAF = 299.0
"""Seconds of watches in a row that brought nothing, not even a bookmark, after which the server's version is asked for: the whole
life of the shortest watch, or of several that were cut early."""


class Phase(enum.Enum):
    """A kind of request."""

    LIST = "list"
    STREAM = "stream"
    """A streaming list, which goes on as a watch."""
    WATCH = "watch"
    PROBE = "probe"
    """A LIST of one object, only for the server's version."""

    @property
    def verb(self) -> str:
        """What the server calls it."""
        return "watch" if self in {Phase.WATCH, Phase.STREAM} else "list"


class Next(NamedTuple):
    """What follows a request. With an `error`, the request counts as failed and a delay comes first."""

    phase: Phase
    error: Exception | None = None


@define
class Course:
    """Where an informer stands between its requests.

    Attributes:
        name: the resource, for log lines.
        streaming: complete lists are streamed, not listed.
        version: the last version seen; empty before the first sync, and after the server disowned it.
        synced: a complete list has been published.
        newest: the next complete list must be the newest state, not "not older than `version`".
        paged: the first LIST came in pages, so the server has no watch cache for this, and later ones are paged too.
    """

    name: str
    streaming: bool = False
    version: str = field(default="", init=False)
    synced: bool = field(default=False, init=False)
    newest: bool = field(default=False, init=False)
    paged: bool = field(default=False, init=False)
    _expired: int = field(default=0, init=False)
    _short: int = field(default=0, init=False)
    _unmarked: int = field(default=0, init=False)
    _bookmarks: bool = field(default=False, init=False)
    _deaf: float = field(default=0.0, init=False)
    _stuck_at: str = field(default="", init=False)

    @property
    def complete_list(self) -> Phase:
        """How a complete list is asked for."""
        return Phase.STREAM if self.streaming else Phase.LIST

    def list_options(self) -> ListOptions:
        """The first request of a complete LIST.

        Version `0` (whatever is at hand) before the first sync only: a stale watch cache can bring deleted objects back
        (elastic/cloud-on-k8s#4956). After it the last one seen, without a limit, since a limit beside a version means
        "exactly that version" and goes past the watch cache. No version, with a limit, for the newest state.
        """
        if self.newest:
            return ListOptions(resource_version="", limit=PAGE_SIZE)
        if not self.synced:
            return ListOptions(resource_version="0", limit=PAGE_SIZE)
        return ListOptions(resource_version=self.version, limit=PAGE_SIZE if self.paged else None)

    def advance(self, version: str) -> None:
        """The sink is complete up to this version. Never back to nothing (kubernetes-client/python#819)."""
        if version:
            self.version = version

    def bookmarked(self, version: str) -> None:
        """The server sent a bookmark of its own accord."""
        self._bookmarks = True
        self.advance(version)

    def published(self, version: str) -> None:
        """A complete list reached the sink."""
        self.synced = True
        self.newest = False
        self._short = 0
        self._unmarked = 0
        self._deaf = 0.0
        self.advance(version)

    def healthy(self) -> None:
        """A watch lived long enough to say that the trouble is over."""
        self._expired = 0

    def refused(self, phase: Phase, error: Exception) -> Next:
        """What a failed request leads to. Only what a LIST can mend leads to one."""
        status = error.status if isinstance(error, ApiError) else 0
        if isinstance(error, ApiError) and (error.expired or error.version_too_large):
            # The first time at once; after that with a delay, since pairs of LIST and 410 are a loop as well.
            self.newest = True
            self._expired += 1
            return Next(self.complete_list, None if self._expired == 1 else error)
        if status == 404:
            # The kind is gone; when it comes back its versions start anew. The store stays as it is.
            self.newest = True
            self.version = ""
            return Next(self.complete_list, error)
        if phase is Phase.LIST:
            return Next(self.complete_list, error)
        if phase is Phase.STREAM:
            if status in {400, 405, 422}:
                self.stop_streaming(f"the server refuses streaming lists: {error}")
                return Next(Phase.LIST)
            # Who may list but not watch must not be shut out by the way of asking, nor a server that trips over it.
            return Next(Phase.LIST if status in {403, 500, 501} else self.complete_list, error)
        if isinstance(error, StreamBrokenError | ItemTooLargeError):
            return Next(self._past_this(), error)  # an event was lost, and from the same version it would be again
        if isinstance(error, ApiError) and error.reason == "StorageReadError":
            # An object that the server itself cannot read was deleted by force: only a LIST shows that it is gone.
            return Next(self.complete_list, error)
        if status in {400, 422}:
            self.newest = True  # our version is not even understood: asking again in the same way would help nobody
            return Next(self.complete_list, error)
        if phase is Phase.PROBE:
            self._deaf = 0.0  # it is worth one request: who may watch but not list must not be kept from watching by it
        # 401, 403, 429, 5xx, a plain 504, a broken connection: the version is still good, so WATCH from there. A LIST
        # costs an overloaded server most (kubernetes#97991), and a role that may list but not watch one a minute.
        return Next(self._following, error)

    @property
    def _following(self) -> Phase:
        """A WATCH from our version, unless it is time to ask whether the server still knows it.

        A server restored from a backup accepts our version, which lies in its future, and stays silent for hours
        (kubernetes#107457). One that never sends bookmarks is silent anyhow. Watches that a proxy cuts early count together.
        """
        return Phase.PROBE if self._bookmarks and self._deaf >= DEAF else Phase.WATCH

    def stream_ended_unmarked(self) -> None:
        """A streaming list was opened and ended, whatever the cause, before it was complete."""
        self._unmarked += 1
        if self._unmarked >= 2:
            self.stop_streaming("two streams ended before their list was complete")

    def stop_streaming(self, why: str) -> None:
        """LIST from now on: a server that accepts streaming lists but never ends them would keep us out for ever."""
        if self.streaming:
            _log.warning("%s: %s; using LIST from now on", self.name, why)
            self.streaming = False

    def watched(self, lived: float, *, delivered: bool) -> None:
        """A watch was open for so many seconds, however it ended; `delivered`: anything at all came, bookmarks included."""
        self._deaf = 0.0 if delivered else self._deaf + lived

    def watch_ended(self, lived: float, *, delivered: bool) -> Next:
        """What follows a watch that the server ended cleanly, besides `watched`."""
        if delivered or lived >= SHORT_WATCH:
            self._short = 0
            return Next(self._following)
        # A stale version need not be refused: some servers answer 200 and close, again and again (kubernetes#104171).
        self._short += 1
        error = ApiError(f"watch {self.name}: ended after {lived:.1f} s without an event", reason="ShortWatch")
        if self._short < SHORT_WATCHES:
            return Next(Phase.WATCH, error)
        self._short = 0
        return Next(self._past_this(), error)

    def _past_this(self) -> Phase:
        """A complete list, since no watch gets past our version. When the last one did not either, as a lagging watch cache
        may have answered it, the newest state is asked for.
        """
        if self.version == self._stuck_at:
            self.newest = True
        self._stuck_at = self.version
        return self.complete_list

    def probed(self, theirs: str) -> Next:
        """The server's newest version is known. A lower one than ours means that it was restored."""
        self._deaf = 0.0
        if is_decimal(theirs) and is_decimal(self.version) and int(theirs) < int(self.version):
            _log.warning("%s: the server's version went back from %s to %s", self.name, self.version, theirs)
            self.newest = True
            return Next(self.complete_list)
        return Next(Phase.WATCH)


def is_decimal(version: str) -> bool:
    """True for a version that may be ordered: a decimal without leading zeros (Kubernetes 1.35 made that official)."""
    return version.isascii() and version.isdigit() and version[0] != "0" and len(version) <= 1000
