"""One measurement in a fresh process: `python -m bench.worker '{"row": "floor", "url": ..., "objects": 10000, ...}'`."""

from __future__ import annotations

import importlib
import json
import sys

from bench.measure import run

# Imported only when asked for: what a row does not need must not weigh on it.
ROWS = {"floor": "bench.floor", "informer": "bench.ours", "kubernetes-asyncio": "bench.theirs"}


def main(spec: dict[str, object]) -> None:
    """Measure and print one line of JSON."""
    module = importlib.import_module(ROWS[str(spec.pop("row"))])
    print(json.dumps(run(module.measure(**spec))))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
