"""What kubectl makes of the patch in a fix command, before a human has put values in place of the placeholders."""

from __future__ import annotations

import json
import re
from typing import Any

# A string, or a placeholder that stands without quotes where no text is expected.
_PIECE = re.compile(r'("(?:[^"\\]|\\.)*")|:(<[^"]*?>)(?=[,}])')


def read(patch: str) -> Any:
    """The patch, with every placeholder as a string.

    Raises:
        ValueError: it is no patch.
    """
    quoted = _PIECE.sub(lambda piece: piece[1] or f":{json.dumps(piece[2])}", patch)
    return json.loads(quoted, parse_constant=_no_constant)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
