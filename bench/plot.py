"""The main figures as bars in SVG, on a logarithmic axis, written by hand: no library is worth two diagrams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

_WIDTH, _LABEL, _ROW, _TOP = 760, 250, 22, 34
_PANELS = (("per_object", "CPU µs per object until synced"), ("per_event", "CPU µs per event"))
_OURS, _OTHERS, _FLOOR = "#2563a8", "#9aa4b1", "#d5dae0"


def svg(rows: Sequence[dict[str, Any]], caption: str) -> str:
    """One panel per figure, one bar per row."""
    parts, y = [], 24
    for part, title in _PANELS:
        bars = [(row["row"], row[part]["cpu_us"]) for row in rows if part in row]
        if bars:
            parts += _panel(bars, title, y)
            y += _TOP + _ROW * len(bars) + 16
    parts.append(_text(8, y, caption, size=11, fill="#667"))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 12}" font-family="sans-serif">'
    paper = f'<rect width="{_WIDTH}" height="{y + 12}" fill="#fff"/>'
    return "\n".join([opening, paper, *parts, "</svg>", ""])


def _panel(bars: Sequence[tuple[str, float]], title: str, y: int) -> list[str]:
    low = 10 ** math.floor(math.log10(min(value for _, value in bars)))
    high = max(value for _, value in bars) * 1.1
    scale = (_WIDTH - _LABEL - 70) / math.log10(high / low)
    parts = [_text(8, y, f"{title} (logarithmic)", size=14, weight="bold")]
    y += _TOP - _ROW // 2
    for name, value in bars:
        length = max(2.0, math.log10(value / low) * scale)
        parts += [
            _text(_LABEL - 8, y + 5, name, anchor="end"),
            f'<rect x="{_LABEL}" y="{y - 8}" width="{length:.1f}" height="16" fill="{_colour(name)}"/>',
            _text(_LABEL + length + 6, y + 5, f"{value:,.1f}"),
        ]
        y += _ROW
    return parts


def _colour(name: str) -> str:
    if name.startswith("floor"):
        return _FLOOR
    return _OURS if name.startswith(("KubeObject", "decode")) else _OTHERS


def _text(
    x: float, y: float, text: str, *, size: int = 12, fill: str = "#223", anchor: str = "start", weight: str = "normal"
) -> str:
    style = f'font-size="{size}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(text)}</text>'
