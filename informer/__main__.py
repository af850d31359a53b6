"""`python -m informer`: see `informer.cli`."""

from __future__ import annotations

import sys

from informer.cli.main import main as _main


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        return _main()
    except KeyboardInterrupt:  # before or after `_main` answers to it
        return 130


if __name__ == "__main__":
    sys.exit(main())
