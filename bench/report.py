"""The results as one table in Markdown, for a terminal and for the documentation alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

TYPED = "client-go, typed"
_PARTS = ("per_object", "per_event")


def document(results: dict[str, Any]) -> str:
    """Everything that was measured."""
    where = results["machine"]
    lines = [
        f"{where['processor']}, {where['cores']} cores; Python {where['python']}; {where['versions']}.",
        f"Load average at the start {where['load_before']:.1f}, at the end {where['load_after']:.1f}; {where['date']}.",
        "",
        "### Objects and events",
        "",
        *_main(results["main"]),
        "",
        "### The two duration checks by themselves",
        "",
        *_checks(results["checks"]),
        "",
        "### Ways to list",
        "",
        *_main(results["lists"]),
        "",
        "### Handlers and indexes",
        "",
        *_main(results["growth"]),
        "",
        "### Reads, µs per call by number of objects",
        "",
        *_by_count(results["reads"]),
        "",
        "### Quarantined objects, beside as many good ones",
        "",
        *_by_count(results["quarantined"]),
        "",
        "### Eviction, µs by number of keys",
        "",
        *_by_count(results["eviction"]),
        "",
        f"`import informer`: {results['import']:.0f} ms CPU.",
        "",
    ]
    return "\n".join(lines)


def _main(rows: Sequence[dict[str, Any]]) -> list[str]:
    heads = (
        "objects", "row", "µs/object", "x floor", "x client-go", "bytes/object", "peak bytes/object", "stall, ms",
        "longest turn, ms", "events", "µs/event", "x floor", "x client-go",
    )  # fmt: skip
    lines = [_line(heads), _line(["--:", "---", *["--:"] * (len(heads) - 2)])]
    peers = {row["objects"]: row for row in rows if row["row"] == TYPED and "per_object" in row}
    for row in rows:
        if "per_object" not in row:
            lines.append(_line([row["objects"], row["row"], f"left out: {row['note']}", *[""] * (len(heads) - 3)]))
            continue
        peer = peers.get(row["objects"], {})
        cells: list[object] = [row["objects"], row["row"]]
        for part in _PARTS:
            costs, beside = row.get(part, {}), peer.get(part, {})
            cells += [_number(costs.get("cpu_us")), _number(costs.get("x_floor"), 2), _ratio(costs, beside)]
            if part == "per_object":
                cells += [_number(costs.get(key), digits) for key, digits in _MEMORY]
                cells.append(row["events"] or "")
        lines.append(_line(cells))
    return lines


def _checks(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Each run of the row with checks had one without just before it."""
    lines = [_line(("objects", "events", "per object, x without", "per event, x without")), _line(["--:"] * 4)]
    ratios = [(row, *(_number(row.get(part, {}).get("x_other"), 2) for part in _PARTS)) for row in rows]
    return lines + [_line((row["objects"], row["events"], *found)) for row, *found in ratios]


_MEMORY = (("resident", 0), ("peak", 0), ("stall_ms", 1), ("turn_ms", 1))


def _ratio(costs: dict[str, float], beside: dict[str, float]) -> str:
    # By way of the floor, which ran just before each: other programs may have slowed down one of the two and not the other.
    return _number(costs["x_floor"] / beside["x_floor"], 2) if "x_floor" in costs and "x_floor" in beside else ""


def _by_count(results: dict[str, dict[str, float]]) -> list[str]:
    counts = list(results)
    names = list(dict.fromkeys(name for figures in results.values() for name in figures))
    lines = [_line(["", *counts]), _line(["---", *["--:"] * len(counts)])]
    return lines + [_line([name, *(_number(results[count].get(name), 2) for count in counts)]) for name in names]


def _number(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(f'{cell}' for cell in cells)} |"
