"""The bytes of bad objects within one budget: a finalizer's owner needs them, and a thousand of them must not fill memory."""

from __future__ import annotations

from attrs import define, field

from informer.problems import Content, QuarantinedObject


@define
class KeptBytes:
    """Keeps the newest content of each entry; over the limit, what is not terminating goes first, the oldest before the
    newest.

    Attributes:
        limit: bytes.
    """

    limit: int
    _total: int = field(default=0, init=False)
    # Insertion order is age. Objects that terminate are kept apart, so that finding a victim never searches.
    _contents: tuple[dict[str, Content], dict[str, Content]] = field(factory=lambda: ({}, {}), init=False)

    def get(self, key: str) -> bytes | None:
        """The bytes, while they are here."""
        content = self._contents[0].get(key) or self._contents[1].get(key)
        return content.raw if content is not None else None

    def keep(self, entry: QuarantinedObject) -> None:
        """Take the entry's bytes into the budget, in place of the earlier ones of its key."""
        content = entry.content
        self._forget(entry.key)
        if content.raw is None:
            return
        self._contents[entry.terminating][entry.key] = content
        self._total += len(content.raw)
        while self._total > self.limit:
            # For everybody who holds the entry: that is what makes the budget real, caches hold entries too.
            oldest = next(iter(self._contents[False] or self._contents[True]))
            self._contents_of(oldest).raw = None

    def release(self, key: str) -> None:
        """The entry is no longer here; whoever still holds it keeps the bytes."""
        self._forget(key)

    def _contents_of(self, key: str) -> Content:
        content = self._forget(key)
        assert content is not None
        return content

    def _forget(self, key: str) -> Content | None:
        for contents in self._contents:
            content = contents.pop(key, None)
            if content is not None:
                self._total -= len(content.raw or b"")
                return content
        return None
