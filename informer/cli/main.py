"""Runs a command, and turns whatever happens into lines and an exit code."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from informer.cli.errors import CommandError, one_line
from informer.cli.parser import parse

OK, BAD, CANNOT_LOOK, PIPE_CLOSED, INTERRUPTED = 0, 1, 2, 141, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Wrong usage exits with 2, as argparse does."""
    verbose = False
    try:
        options = parse(None if arguments is None else list(arguments))
        verbose = options.verbose
        with _log(options):
            return asyncio.run(execute(options))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output, such as `head`, has enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - a bug of ours; users get a line, too
        if verbose:
            traceback.print_exc()
        return _fail(f"this is a bug, {type(error).__name__}: {one_line(error)}; -v shows where: please report it")


async def execute(options: argparse.Namespace) -> int:
    """Run the command on the running loop; returns the exit code. What users and servers can do ends as a line on stderr."""
    try:
        return await _run(options)
    except CommandError as error:
        return _fail(str(error))


async def _run(options: argparse.Namespace) -> int:
    match options.command:
        case "scan":
            from informer.cli.scan import run  # noqa: PLC0415 - each command loads what it needs
        case "watch":
            from informer.cli.watch import run  # noqa: PLC0415
        case _:
            from informer.cli.demo import run  # noqa: PLC0415
    return await run(options)


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return CANNOT_LOOK


@contextmanager
def _log(options: argparse.Namespace) -> Iterator[None]:
    """Who writes the log lines while a command runs. `scan` and `watch` say everything themselves, the demo shows them."""
    root = logging.getLogger()
    handler: logging.Handler = logging.NullHandler()
    if options.command == "demo" and not options.kubeconfig:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("         %(levelname)-8s %(message)s"))
    elif options.verbose:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
