"""Runs each measurement in a process of its own, in turn with the floor, and takes medians and ratios."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import peers
from bench.rows import FLOOR, Row

ROOT = Path(__file__).parent.parent
SECONDS = 600.0
"""For one run; a peer that needs longer is left out."""

Figures = dict[str, dict[str, float]]


class LeftOutError(Exception):
    """A row cannot be measured here; the text says why."""


@contextmanager
def serving(objects: int, *, stream: bool = False) -> Iterator[str]:
    """The benchmark's server as a process of its own; gives its URL."""
    command = [sys.executable, "-m", "bench.server", f"{objects}", *(["--stream"] if stream else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def once(spec: dict[str, Any], **more: Any) -> Any:
    """One run of `bench.worker`.

    Raises:
        LeftOutError: it failed or took too long.
    """
    python = (
        os.environ.get("INFORMER_BENCH_KUBERNETES", sys.executable) if spec["row"] == "kubernetes" else sys.executable
    )
    command = [python, "-m", "bench.worker", json.dumps({**spec, **more})]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=True)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise LeftOutError(f"took more than {SECONDS:.0f} s") from None
    except subprocess.CalledProcessError as error:
        raise LeftOutError((error.stderr.strip().splitlines() or ["failed"])[-1]) from None
    return json.loads(done.stdout.splitlines()[-1])


def _run(row: Row, url: str, objects: int, events: int) -> Figures:
    if row.spec["row"] != "client-go":
        found: Figures = once(row.spec, url=url, objects=objects, events=events)
        return found
    peer = peers.find()
    if peer is None:
        raise LeftOutError("no client-go-bench here; see INFORMER_BENCH_PEERS")
    try:
        return peers.client_go(peer, row.spec["mode"], url, objects, events, seconds=SECONDS)
    except (subprocess.SubprocessError, ValueError, KeyError, OSError) as error:
        raise LeftOutError(f"client-go-bench: {type(error).__name__}") from None


def compare(row: Row, objects: int, events: int, runs: int, *, beside: Row = FLOOR) -> dict[str, Any]:
    """Measure this row `runs` times; each run has a run of another row, usually the floor, just before it."""
    few = min(events, row.events)
    mine: list[Figures] = []
    other: list[Figures] = []
    note = ""
    with serving(objects, stream=row.spec.get("lists") == "streamed") as url:
        try:
            for _ in range(runs):
                other.append(_run(beside, url, objects, few))
                mine.append(other[-1] if row is beside else _run(row, url, objects, few))
        except LeftOutError as reason:
            note = f"{reason}"
    result = {"row": row.name, "objects": objects, "events": few, "runs": len(mine), "note": note}
    return result | (_summary(mine, other, "x_floor" if beside is FLOOR else "x_other") if mine else {})


def _summary(mine: list[Figures], other: list[Figures], ratio: str) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for part in mine[0]:
        medians = {key: statistics.median(run[part][key] for run in mine) for key in mine[0][part]}
        ratios = [one[part]["cpu_us"] / two[part]["cpu_us"] for one, two in zip(mine, other, strict=False)]
        summary[f"per_{part.removesuffix('s')}"] = medians | {ratio: statistics.median(ratios)}
    return summary


def shown(result: dict[str, Any]) -> str:
    """The two figures that matter, on one line."""
    if result["note"]:
        return f"{result['objects']:>7} objects  {result['row']}: {result['note']}"
    parts = [f"{result[part]['cpu_us']:.1f} µs {part} ({_against(result[part])})" for part in _PARTS if part in result]
    return f"{result['objects']:>7} objects  {result['row']}: {', '.join(parts)}"


def _against(costs: dict[str, float]) -> str:
    return f"{costs['x_floor']:.2f} x floor" if "x_floor" in costs else f"{costs['x_other']:.2f} x its neighbour"


_PARTS = ("per_object", "per_event")
