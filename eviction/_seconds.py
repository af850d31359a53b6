"""One reading of "so many seconds" for the whole package: a finite number or a timedelta, nothing that merely looks like one."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any


def seconds(value: Any, what: str) -> float:
    """The value in seconds.

    Raises:
        ValueError: Not a finite number and not a timedelta. `True` and `"5"` are refused too: each stands for a mistake
            that would otherwise become a delay of one second, or a comparison that fails much later.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _finite(value):
        raise ValueError(f"{what} must be a finite number of seconds or a timedelta, not {value!r}")
    return float(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def at_least(limit: float, value: Any, what: str) -> float:
    """As `seconds`, and not below the limit.

    Raises:
        ValueError: As `seconds`, or too small.
    """
    number = seconds(value, what)
    if number < limit:
        raise ValueError(f"{what} must be at least {limit:g}, not {value!r}")
    return number
