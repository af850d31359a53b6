"""`python -m bench [--quick] [--out DIRECTORY]`: every measurement, a table, a JSON file and a plot."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import plot, report
from bench.rows import CHECKED, FLOOR, GROWTH, KEYS, LISTS, MAIN, QUARANTINED, READS, SIZES, UNCHECKED
from bench.runs import compare, once, shown

_JSON = "performance-results.json"


def main() -> None:
    """Read the options, measure, write."""
    options = _options()
    done = options.out / _JSON
    if options.redraw:
        _write(json.loads(done.read_text()), options.out)
        return
    runs = options.runs or (3 if options.quick else 5)
    results: dict[str, Any] = {"machine": _machine(), "runs": runs, "quick": options.quick}
    if options.resume and done.exists():
        results |= json.loads(done.read_text())
    events = options.events or (20_000 if options.quick else 100_000)
    biggest = 5_000 if options.quick else SIZES[-1]
    all_sizes = SIZES[:2] if options.quick else SIZES
    for name, rows, sizes, count, beside, times in (
        ("main", MAIN, all_sizes, events, FLOOR, runs),
        ("checks", (CHECKED,), all_sizes, events, UNCHECKED, 3 * runs),  # a difference as small as the noise of one run
        ("lists", LISTS, (biggest,), 0, FLOOR, runs),
        ("growth", GROWTH, (2_000 if options.quick else 10_000,), min(events, 20_000), FLOOR, runs),
    ):
        # What was left out gets another try.
        found = results[name] = [row for row in results.get(name, []) if row["runs"]]
        there = {(row["objects"], row["row"]) for row in found}
        places = {(objects, row.name): place for place, (objects, row) in enumerate(itertools.product(sizes, rows))}
        for objects, row in itertools.product(sizes, rows):
            if (objects, row.name) not in there:
                found.append(result := compare(row, objects, count, times, beside=beside))
                _say(shown(result))
                found.sort(key=lambda one: places[one["objects"], one["row"]])
                _save(results, options.out)
    for name, what, counts in (
        ("reads", "reads", READS),
        ("quarantined", "quarantined", QUARANTINED),
        ("eviction", "evictions", KEYS),
    ):
        some = counts[:-1] if options.quick else counts
        results[name] = {f"{count:,}": _calls(what, count, runs) for count in some}
        _say(f"{name}: done")
    results["import"] = statistics.median(once({"row": "import"})["import informer"] for _ in range(runs))
    results["machine"]["load_after"] = os.getloadavg()[0]
    _write(results, options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="What an informer costs: a table, a JSON file and a plot."
    )
    parser.add_argument("--quick", action="store_true", help="smaller and fewer runs: minutes instead of hours")
    parser.add_argument("--runs", type=int, help="runs of each row instead of 5 (3 with --quick)")
    parser.add_argument("--events", type=int, help="events instead of 100,000 (20,000 with --quick)")
    parser.add_argument("--resume", action="store_true", help="go on with the run that was broken off: keep its rows")
    parser.add_argument("--redraw", action="store_true", help="measure nothing: table and plot anew from the JSON file")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="where the files go: docs for the page")
    return parser.parse_args()


def _calls(what: str, count: int, runs: int) -> dict[str, float]:
    found = [once({"row": "calls", "what": what, "count": count}) for _ in range(min(runs, 3))]
    return {name: statistics.median(figures[name] for figures in found) for name in found[0]}


def _machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    models = [line.partition(": ")[2] for line in info.read_text().splitlines() if line.startswith("model name")]
    packages = ("kubernetes-asyncio", "aiohttp", "msgspec", "attrs")
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": ", ".join(f"{package} {version(package)}" for package in packages),
        "date": time.strftime("%Y-%m-%d"),
        "load_before": os.getloadavg()[0],
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _save(results: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / _JSON).write_text(json.dumps(results, indent=1) + "\n")


def _write(results: dict[str, Any], out: Path) -> None:
    _save(results, out)
    table = report.document(results)
    (out / "performance-table.txt").write_text(table)
    drawn = [row for row in results["main"] if row["objects"] == SIZES[1]]
    caption = (
        f"{SIZES[1]:,} objects; {results['machine']['processor']}, Python {results['machine']['python']},"
        f" {results['machine']['date']}"
    )
    (out / "performance.svg").write_text(plot.svg(drawn, caption))
    print(table)


if __name__ == "__main__":
    main()
