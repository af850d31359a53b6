"""What an object is judged by: `--check KIND:FIELD`, and the schema of a CRD."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from informer import _projection
from informer.api import CallsApi
from informer.cli.catalogue import document
from informer.cli.errors import CommandError, explain, one_line
from informer.degraded import checks
from informer.degraded.checks import Check, FieldCheck
from informer.degraded.schema import SchemaCheck
from informer.errors import ApiError
from informer.objects import KubeObject
from informer.problems import Problem
from informer.resource import Resource

_KINDS: Mapping[str, Callable[[str], FieldCheck]] = {
    "duration": checks.duration,
    "quantity": checks.quantity,
    "int-or-string": checks.int_or_string,
    "timestamp": checks.timestamp,
}


@frozen
class Asked:
    """One `--check`.

    Attributes:
        kind: `duration`, `quantity`, `int-or-string` or `timestamp`.
        check: the check of that field.
    """

    kind: str
    check: FieldCheck


def parse_check(text: str) -> Asked:
    """Read `duration:spec.nodeDrainTimeout`.

    Raises:
        argparse.ArgumentTypeError: it is no such text; the message shows the form.
    """
    kind, colon, path = text.partition(":")
    if not colon or kind not in _KINDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no check; write KIND:FIELD, such as duration:spec.nodeDrainTimeout; kinds are {', '.join(_KINDS)}"
        )
    try:
        return Asked(kind, _KINDS[kind](path))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def fetch_crd(api: CallsApi, resource: Resource, server: str) -> Mapping[str, Any]:
    """The CRD of a resource, from the server.

    Raises:
        CommandError: there is none, or it may not be read.
    """
    name = f"{resource.plural}.{resource.group}"
    if not resource.group:
        raise CommandError(f"{resource} is built in and has no CRD; use --check KIND:FIELD instead")
    try:
        return await document(api, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    except ApiError as error:
        if error.status == 404:
            raise CommandError(
                f"{server} has no CRD {name}: the resource is built in, or from an aggregated server; use --check KIND:FIELD"
            ) from None
        raise CommandError(f"{explain(error, server)}; or give the CRD as a file with --crd-file") from None


def read_crd(file: str) -> Mapping[str, Any]:
    """A CRD from a YAML or JSON file; of several documents, the one that is a CRD.

    Raises:
        CommandError: the file cannot be read, or holds none, or more than one.
    """
    import yaml  # noqa: PLC0415 - comes with kubernetes_asyncio

    try:
        with Path(file).open(encoding="utf-8") as stream:
            documents = list(yaml.load_all(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise CommandError(f"cannot read {one_line(file)}: {one_line(error)}; give a CRD as YAML or JSON") from None
    found = [one for one in documents if isinstance(one, dict) and one.get("kind") == "CustomResourceDefinition"]
    if len(found) != 1:
        raise CommandError(f"{one_line(file)} holds {len(found)} CustomResourceDefinitions; give a file with one")
    return found[0]


def by_schema(crd: Mapping[str, Any], resource: Resource) -> SchemaCheck:
    """The check by a CRD's schema.

    Raises:
        CommandError: it is the CRD of something else, or has no schema, or the extra is not installed.
    """
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    if (names.get("plural"), spec.get("group")) != (resource.plural, resource.group):
        name = one_line((crd.get("metadata") or {}).get("name", "of no name"))
        raise CommandError(f"the CRD {name} is not that of {resource}; give the CRD {resource.plural}.{resource.group}")
    try:
        return checks.schema(crd)
    except (ImportError, ValueError) as error:
        raise CommandError(one_line(error)) from None


@define
class Presence:
    """A check that finds nothing: it notes which fields occur at all, since a misspelt one would make everything look good."""

    _missing: list[FieldCheck] = field(converter=list)

    def __call__(self, obj: KubeObject, /) -> Iterator[Problem]:
        """Look for the fields that have not occurred yet."""
        if self._missing:
            self._missing = [check for check in self._missing if not any(_projection.find(obj.raw, check.steps))]
        yield from ()

    def never_seen(self) -> Sequence[str]:
        """The fields that no object had."""
        return [check.path for check in self._missing]


def all_checks(asked: Iterable[Asked], *more: Check) -> list[Check]:
    """Everything an object has to pass."""
    return [*(one.check for one in asked), *more]
