"""client-go beside us, where its benchmark program is there: `peer client-go-bench` in one of the directories of PEERS.

INFORMER_BENCH_PEERS names a directory with the program `peer`; INFORMER_TEST_SHARED one that has it under `peers/`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any


def find() -> Path | None:
    """The program, or None."""
    shared = os.environ.get("INFORMER_TEST_SHARED")
    places = [os.environ.get("INFORMER_BENCH_PEERS"), f"{shared}/peers" if shared else None]
    found = [Path(place) / "peer" for place in places if place]
    return next((path for path in found if path.exists()), None)


def client_go(peer: Path, mode: str, url: str, objects: int, events: int, *, seconds: float) -> dict[str, Any]:
    """Run client-go once; the figures have the form of `measure.Span.costs`."""
    go = ["-events", f"{events}", "-go", f"{url}/go?k={events}"] if events else []
    command = [f"{peer}", "client-go-bench", "-server", url, "-mode", mode, *go]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)  # noqa: S603
    listed, *watched = re.findall(r"^.*(?:mode|events)=.*$", done.stdout + done.stderr, re.MULTILINE)
    first = _figures(listed)
    result = {
        "objects": {
            "cpu_us": first["cpu"] / objects * 1e6,
            "seconds": first["handlers_s"],
            "resident": first["rss_per_obj"],
            "peak": (first["peak_rss_MB"] - first["rss0_MB"]) * 1e6 / objects,
        }
    }
    if watched:
        second = _figures(watched[0])
        result["events"] = {"cpu_us": second["cpu_us_per_event"], "seconds": second["wall_s"]}
    return result


def _figures(line: str) -> dict[str, float]:
    return {key: float(value) for key, value in re.findall(r"(\w+)=([0-9.]+)(?=\s|$)", line)}
