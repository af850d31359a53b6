"""`python -m eviction demo`: ten virtual minutes of a drain, and what a throttle per node is worth."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from eviction import _demo


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 only when the demo observed what it claims."""
    parser = argparse.ArgumentParser(prog="python -m eviction", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="ten virtual minutes under three policies; needs no server")
    parser.parse_args(argv)
    reports = asyncio.run(_demo.run())
    print(
        f"A pass every {_demo.CADENCE:g} s. {_demo.BLOCKED} is blocked by budget db until {_demo.FREED_AT:g} s; "
        f"{_demo.IMPATIENT} may take {_demo.LIMIT:g} s.\nWith one gate of {_demo.INTERVAL:g} s per node:\n"
    )
    print("\n".join(reports[0].lines), "\n")
    print("\n".join(_demo.table(reports)))
    doubts = _demo.doubts(reports)
    for doubt in doubts:
        print(f"not observed: {doubt}", file=sys.stderr)
    return 1 if doubts else 0


if __name__ == "__main__":
    sys.exit(main())
