"""What the library has logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

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


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def keeping(name: str) -> Iterator[list[logging.LogRecord]]:
    """A logger's records, unformatted, and kept from pytest: it would keep every one as text and format every traceback."""
    logger, keep = logging.getLogger(name), _Keep()
    logger.addHandler(keep)
    logger.propagate = False
    try:
        yield keep.records
    finally:
        logger.propagate = True
        logger.removeHandler(keep)
