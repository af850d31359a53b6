"""`python -m informer`: the demo, on the embedded server or read-only against a real cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence

from informer import (
    Added,
    Change,
    FieldCheck,
    InformerError,
    InformerFactory,
    Quarantined,
    Removed,
    Resource,
    Updated,
    checks,
)
from informer._demo import CHECKS, NODEPOOLS, demo
from informer.objects import KubeObject


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m informer", description="Kubernetes informers that survive bad objects."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("demo", help="watch an informer live through a bad object")
    shown.add_argument("--pace", type=float, default=0.7, help="seconds between two steps (default: %(default)s)")
    shown.add_argument("--kubeconfig", metavar="FILE", help="follow a real cluster instead, read-only")
    shown.add_argument("--context", help="context of the kubeconfig")
    shown.add_argument("--resource", type=Resource.parse, default=NODEPOOLS, metavar="PLURAL.VERSION.GROUP")
    shown.add_argument(
        "--duration", action="append", metavar="FIELD", help="a field that must be a Go duration; may be repeated"
    )
    shown.add_argument("--seconds", type=float, help="with --kubeconfig: stop after so many seconds (default: Ctrl-C)")
    return parser


async def _follow(arguments: argparse.Namespace) -> int:
    """Follow a real cluster: print what comes, change nothing."""
    from kubernetes_asyncio import client, config  # noqa: PLC0415 - 0.3 s that the embedded demo need not pay first

    settings = client.Configuration()
    try:
        await config.load_kube_config(arguments.kubeconfig, arguments.context, settings)
    except (config.ConfigException, OSError) as error:
        print(f"cannot use the kubeconfig {arguments.kubeconfig}: {error}", file=sys.stderr)
        return 2
    fields: list[FieldCheck] = [checks.duration(path) for path in arguments.duration or ()]
    if not fields and arguments.resource == NODEPOOLS:
        fields = list(CHECKS)
    async with client.ApiClient(settings) as api, InformerFactory(api) as factory:
        informer = factory.informer(arguments.resource, checks=fields)
        try:
            await informer.wait_for_sync(timeout=30)
        except InformerError as error:
            print(f"{error}", file=sys.stderr)
            return 2
        bad = len(factory.quarantined())
        print(f"synced: {len(informer.lister)} objects, {bad} quarantined; following changes", flush=True)
        try:
            async with asyncio.timeout(arguments.seconds), informer.changes() as changes:
                async for change in changes:
                    _print_change(change)
        except TimeoutError:
            pass
        health = informer.health
        print(f"{len(informer.lister)} objects, {health.quarantined} quarantined, health {health.state}")
    return 0


def _print_change(change: Change[KubeObject]) -> None:
    match change:
        case Added(_, True):
            return  # there from the beginning, and counted already
        case Added(obj) | Removed(obj):
            key = obj.key
        case Updated(_, new):
            key = new.key
        case Quarantined(_, entry):
            key = entry.key
    print(f"{type(change).__name__.lower():12} {key}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="         %(levelname)-8s %(message)s", stream=sys.stdout)
    try:
        return asyncio.run(_follow(options) if options.kubeconfig else demo(options.pace))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
