"""What the library has logged."""

from __future__ import annotations

import logging

import pytest
from attrs import define


@define(eq=False)
class Log:
    """What the library has logged."""

    caplog: pytest.LogCaptureFixture

    @property
    def records(self) -> list[logging.LogRecord]:
        return self.caplog.records

    def at(self, level: int, text: str = "") -> list[logging.LogRecord]:
        """Records of at least this level that contain the text."""
        ours = [one for one in self.records if one.name.startswith("informer") and one.levelno >= level]
        return [one for one in ours if text in one.getMessage()]

    def errors(self, text: str = "") -> list[logging.LogRecord]:
        return self.at(logging.ERROR, text)

    def clear(self) -> None:
        self.caplog.clear()
