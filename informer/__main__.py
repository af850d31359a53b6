"""`python -m informer`: see `informer.cli`."""

from __future__ import annotations

import sys

from informer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
