"""The commands and their options."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from informer.cli.judges import parse_check
from informer.resource import Resource, require_namespace

_CODES = "exit codes: 0 clean, 1 bad objects found, 2 could not look, 130 interrupted"
_SCAN = """examples:
  python -m informer scan nodepools -A --check duration:spec.nodeDrainTimeout
  python -m informer scan nodepools -A --crd-file new-version.yaml -o json
  python -m informer scan np --check duration:spec.nodeDrainTimeout --print-rules"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is for `--help`."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        print(f"error: {' '.join(message.split())}; see {self.prog} --help", file=sys.stderr)
        sys.exit(2)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = _Parser(
        prog="python -m informer", description="Find Kubernetes objects that cannot be read, and follow others."
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="scan | watch | demo")
    raw = argparse.RawDescriptionHelpFormatter
    scan = commands.add_parser(
        "scan",
        help="read a cluster once and list every bad object",
        description="Read a cluster once and list every bad object with field, value, reason and the command that mends it.",
        epilog=f"{_SCAN}\n\n{_CODES}",
        formatter_class=raw,
    )
    _target(scan)
    scan.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    scan.add_argument(
        "--print-rules",
        action="store_true",
        help="do not scan: print the CEL rules (for the CRD, and as a ValidatingAdmissionPolicy) that would refuse at write "
        "time what each --check finds at read time",
    )
    watch = commands.add_parser(
        "watch",
        help="follow a resource live",
        description="Follow a resource: changes, objects that turn bad or recover, and the health of the connection.",
        epilog=_CODES,
        formatter_class=raw,
    )
    _target(watch)
    watch.add_argument("--seconds", type=float, metavar="N", help="stop after so many seconds (default: Ctrl-C)")
    demo = commands.add_parser("demo", help="watch an informer live through a bad object")
    demo.add_argument(
        "--pace", type=float, default=0.7, metavar="N", help="seconds between two steps (default: %(default)s)"
    )
    demo.add_argument("--kubeconfig", metavar="FILE", help="follow a real cluster instead, read-only")
    demo.add_argument("--context", help="context of the kubeconfig")
    demo.add_argument("--resource", type=_resource, metavar="PLURAL.VERSION.GROUP", help="with --kubeconfig")
    demo.add_argument(
        "--duration", action="append", metavar="FIELD", help="a field that must be a Go duration; repeatable"
    )
    demo.add_argument("--seconds", type=float, help="with --kubeconfig: stop after so many seconds (default: Ctrl-C)")
    for command in (scan, watch, demo):
        command.add_argument("-v", "--verbose", action="store_true", help="also show the library's own log on stderr")
    return whole


def _target(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "resource", metavar="RESOURCE", help="as kubectl takes it: nodepools, np, nodepools.v1beta1.example.com"
    )
    command.add_argument(
        "--check",
        action="append",
        type=parse_check,
        default=[],
        metavar="KIND:FIELD",
        help="a field that must be readable; KIND is duration, quantity, int-or-string or timestamp, FIELD such as "
        "spec.nodeDrainTimeout or spec.groups[*].tenant; repeatable",
    )
    schemas = command.add_mutually_exclusive_group()
    schemas.add_argument("--crd-schema", action="store_true", help="judge by the schema of the CRD in the cluster")
    schemas.add_argument(
        "--crd-file", metavar="FILE", help="judge by the schema of a CRD in a file, such as the next version's"
    )
    scope = command.add_mutually_exclusive_group()
    scope.add_argument("-A", "--all-namespaces", action="store_true")
    scope.add_argument("-n", "--namespace", metavar="NS", help="default: the context's namespace")
    command.add_argument("-l", "--selector", default="", metavar="LABELS", help="such as app=web,tier!=cache")
    command.add_argument("--field-selector", default="", metavar="FIELDS", help="such as metadata.name=a")
    command.add_argument(
        "--kubeconfig", metavar="FILE", help="default: KUBECONFIG, ~/.kube/config, or the pod's account"
    )
    command.add_argument("--context", help="of the kubeconfig; default: its current one")


def _resource(text: str) -> Resource:
    try:
        return Resource.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the arguments; what contradicts itself ends with exit code 2."""
    whole = parser()
    options = whole.parse_args(arguments)
    if getattr(options, "print_rules", False):
        if not options.check:
            whole.error("--print-rules needs at least one --check to make a rule of")
        if options.output == "table":
            options.output = "yaml"
    if getattr(options, "namespace", None) == "":
        whole.error("-n needs the name of a namespace; -A is for all of them")
    try:
        require_namespace(getattr(options, "namespace", None))
    except ValueError:
        whole.error(f"-n needs the name of one namespace, not {options.namespace!r}; -A is for all of them")
    for name in ("seconds", "pace"):
        value = getattr(options, name, None)
        if value is not None and not 0 <= value < float("inf"):
            whole.error(f"--{name} must be a number of seconds, not {value}")
    return options
