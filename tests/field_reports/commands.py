"""Fix commands as a shell and kubectl would read them."""

from __future__ import annotations

import shlex
from typing import Any

from attrs import define

from tests import patches


@define
class Command:
    """A kubectl command as a shell would read it."""

    words: list[str]
    kind: str
    payload: Any

    @classmethod
    def read(cls, text: str) -> Command:
        words = shlex.split(text)
        kind = next(word.removeprefix("--type=") for word in words if word.startswith("--type="))
        return cls(words, kind, patches.read(words[words.index("-p") + 1]))

    def with_value(self, value: Any) -> Any:
        """The patch once a human has put a value in place of its placeholder."""
        return _fill(self.payload, value)


def _fill(tree: Any, value: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _fill(below, value) for name, below in tree.items()}
    if isinstance(tree, list):
        return [_fill(below, value) for below in tree]
    return value if isinstance(tree, str) and tree.startswith("<") and tree.endswith(">") else tree
