"""The exceptions users see, and what the API server's refusals mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from informer.problems import QuarantinedObject


class InformerError(Exception):
    """Base of everything this library raises on purpose, apart from ValueError and TypeError for misuse."""


class ApiError(InformerError):
    """The API server, or something before it, did not answer as asked.

    Attributes:
        status: HTTP status, or the code of a Status inside a stream; 0 when there was no answer at all.
        reason: the machine-readable reason, such as `Expired` or `Forbidden`; may be empty.
        message: what the server said, shortened.
        causes: `details.causes` of the Status.
        retry_after: seconds the server asks to wait, None when it does not.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: Sequence[Mapping[str, str]] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after

    def __str__(self) -> str:
        head = " ".join(part for part in (str(self.status) if self.status else "", self.reason) if part)
        return f"{head}: {self.message}" if head else self.message

    @property
    def expired(self) -> bool:
        """The resource version or the continue token is too old: 410, as a status or inside a stream."""
        return self.status == 410 or self.reason in {"Expired", "Gone"}

    @property
    def version_too_large(self) -> bool:
        """The version asked for is ahead of the server, in the three wordings servers have used since 1.17.

        A plain 504 (reason Timeout alone, or a proxy's page) is not that (kubernetes#91073, #107133).
        """
        wording = "Too large resource version"
        return any(
            cause.get("reason") == "ResourceVersionTooLarge" or wording in cause.get("message", "")
            for cause in self.causes
        ) or (self.status == 504 and wording in self.message)


class ItemTooLargeError(ApiError):
    """One object, or one line of a watch, is larger than `max_object_bytes`; the message has the key where known."""


class StreamBrokenError(ApiError):
    """The stream cannot be trusted any more: an event was lost or cannot be told from another. Only a LIST helps."""


class NotFoundError(InformerError, KeyError):
    """The cache has no such object, and the server had none at that version: absent, not unreadable."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return Exception.__str__(self)


class NotSyncedError(InformerError):
    """The cache was read before its first sync, when it would answer "not found" to everything."""


class IncompleteError(InformerError):
    """`require_complete=True`, and something in scope is withheld or cannot be identified.

    Attributes:
        keys: the withheld keys in scope; empty when the trouble is items without a usable key.
    """

    def __init__(self, message: str, keys: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.keys = keys


class QuarantinedError(InformerError):
    """The object exists on the server but cannot be read. Deliberately no KeyError: `except KeyError: delete()` must
    not take "unreadable" for "absent".

    Attributes:
        entry: what is wrong with it, and the commands that mend it.
    """

    def __init__(self, entry: QuarantinedObject) -> None:
        super().__init__(f"{entry.key} exists but is quarantined: {entry.summary}")
        self.entry = entry


class SyncError(InformerError):
    """Not synced in time; the message names each laggard and its last error."""


class ContentNotKeptError(InformerError):
    """The bytes of a quarantined object are not in memory, so `to_dict()` has nothing to read; ask the server."""

    def __init__(self, key: str, *, sensitive: bool) -> None:
        why = "its resource is sensitive" if sensitive else "the quarantine is over its max_bytes"
        super().__init__(f"the content of {key} was not kept: {why}; read the object from the API server")


class TooManyBadObjectsError(InformerError):
    """More objects are bad than `max_entries` allows, so the fault is probably ours and the LIST is refused.

    Attributes:
        count: how many are bad.
        limit: the quarantine's `max_entries`.
    """

    def __init__(self, count: int, limit: int) -> None:
        super().__init__(f"{count} objects are bad and max_entries is {limit}: check `decode` and `checks` first")
        self.count = count
        self.limit = limit
