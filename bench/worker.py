"""One measurement in a fresh process: `python -m bench.worker '{"row": "floor", "url": ..., "objects": 10000, ...}'`."""

from __future__ import annotations

import importlib
import json
import sys
import time

from bench.measure import run

# Imported only when asked for: what a row does not need must not weigh on it.
ROWS = {
    "floor": "bench.floor",
    "informer": "bench.ours",
    "kubernetes-asyncio": "bench.theirs",
    "kubernetes": "bench.official",
    "calls": "bench.reads",
}


def main(spec: dict[str, object]) -> None:
    """Measure and print one line of JSON."""
    row = str(spec.pop("row"))
    if row == "import":
        began = time.process_time()
        importlib.import_module("informer")
        result = {"import informer": (time.process_time() - began) * 1e3}
    else:
        result = run(importlib.import_module(ROWS[row]).measure(**spec))
    print(json.dumps(result))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
