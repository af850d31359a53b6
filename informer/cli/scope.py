"""Where a command looks: which cluster and which namespaces, in the words of its messages."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import quote

from informer.cli.catalogue import document
from informer.cli.connect import Connection
from informer.cli.errors import CommandError, one_line
from informer.errors import ApiError
from informer.resource import Resource, require_namespace


def scope(options: argparse.Namespace, connection: Connection, resource: Resource) -> str | None:
    """The namespace to look into; None for all. As kubectl: the context's, unless one is named, or all are.

    Raises:
        CommandError: the context's is none that could be.
    """
    if options.all_namespaces or not resource.namespaced:
        return None
    if options.namespace:
        return str(options.namespace)
    try:
        require_namespace(connection.namespace)
    except ValueError:
        impossible = f"the context's namespace is {one_line(connection.namespace)!r}, which no namespace can be called"
        raise CommandError(f"{impossible}; name one with -n, or -A for all of them") from None
    return connection.namespace


def where(namespace: str | None) -> str:
    """The scope in words."""
    return "the whole cluster" if namespace is None else f"namespace {one_line(namespace)}"


def announce(connection: Connection, namespace: str | None) -> None:
    """Say on stderr whose answer it is: "none of them bad" in another cluster is no answer."""
    print(f"looking at {where(namespace)} of {connection.cluster}", file=sys.stderr, flush=True)


async def emptiness(connection: Connection, namespace: str | None, *, named: bool) -> str | None:
    """What to say when nothing was found in a namespace: a misspelt one is empty, too. None when there is nothing to say.

    The server is asked whether the namespace exists; many users may not ask that, and some servers have no namespaces.

    Args:
        connection: the cluster.
        namespace: where nothing was found; None for all of them.
        named: it was named on the command line, and does not come from the context.
    """
    if namespace is None:
        return None
    exists = await _exists(connection, namespace)
    if exists is False:
        hint = "check its spelling" if named else "it is the context's; name another with -n, or -A for all of them"
        return f"{connection.cluster} has no {where(namespace)}; {hint}"
    if not named:
        return f"{where(namespace)} has none, and no namespace was named; -A looks into all of them"
    return None if exists else f"{where(namespace)} has none; is the namespace spelled right?"


async def _exists(connection: Connection, namespace: str) -> bool | None:
    try:
        await document(connection.api, f"/api/v1/namespaces/{quote(namespace, safe='')}")
    except ApiError as error:
        # A server without namespaces answers 404 to every path; only one that has them names the one it misses.
        return False if error.status == 404 and f'namespaces "{namespace}"' in error.message else None
    return True
