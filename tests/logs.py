"""What a logger says, kept from pytest, which would format every traceback of a handler that always raises."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Keep(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def keeping(name: str) -> Iterator[list[logging.LogRecord]]:
    """The records of a logger inside the block, unformatted, and kept from pytest."""
    logger, keep = logging.getLogger(name), _Keep()
    logger.addHandler(keep)
    logger.propagate = False
    try:
        yield keep.records
    finally:
        logger.propagate = True
        logger.removeHandler(keep)
