"""The command line, `python -m informer`: look at a cluster once (`scan`), follow it (`watch`), or see the `demo`."""

from __future__ import annotations
