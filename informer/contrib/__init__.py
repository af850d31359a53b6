"""Optional parts that the library does not need and that need more of the cluster than reading, such as writing Events."""

from __future__ import annotations
