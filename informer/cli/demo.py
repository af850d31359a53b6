"""`demo`: the story on the embedded server, or a look at a real cluster that changes nothing."""

from __future__ import annotations

import argparse

from informer._demo import CHECKS, NODEPOOLS, demo
from informer.cli.connect import connect
from informer.cli.watch import follow
from informer.degraded import checks
from informer.degraded.checks import Check


async def run(options: argparse.Namespace) -> int:
    """Returns the exit code: 0 when everything was observed.

    Raises:
        CommandError: it could not look.
    """
    if not options.kubeconfig:
        return await demo(options.pace)
    resource = options.resource or NODEPOOLS
    judges: list[Check] = [checks.duration(path) for path in options.duration or ()]
    if not judges and resource == NODEPOOLS:
        judges = list(CHECKS)
    async with connect(options.kubeconfig, options.context) as connection:
        return await follow(connection, resource, judges, seconds=options.seconds)
