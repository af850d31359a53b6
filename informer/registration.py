"""What a user holds of a handler once it is registered."""

from __future__ import annotations

from typing import Protocol


class Registration(Protocol):
    """A registered handler, as `add_handler` returns it (client-go's ResourceEventHandlerRegistration). All of it is O(1)."""

    @property
    def has_synced(self) -> bool:
        """Every object that was there at the beginning has been handled, and every withheld one."""
        ...

    @property
    def backlog(self) -> int:
        """Changes that wait for this handler, the one in progress included."""
        ...

    async def wait_for_sync(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as the informer's own
        """Return once `has_synced` is true.

        Args:
            timeout: seconds; None for any time.

        Raises:
            SyncError: not in time.
            InformerError: it was removed, or the informer ended, before.
        """
        ...

    async def remove(self) -> None:
        """Stop the handler; returns after its last call has returned. Pending changes are dropped. Safe to repeat.

        From inside the handler's own call it returns at once: that call is the last.
        """
        ...
