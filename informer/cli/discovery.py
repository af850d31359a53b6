"""From what people type (`np`, `NodePool`, `nodepools.hypershift.openshift.io`) to a resource, by asking the server."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from informer.api import CallsApi
from informer.cli.catalogue import Catalogue, Kind
from informer.cli.errors import CommandError, one_line
from informer.resource import Resource

_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?")


async def resolve(api: CallsApi, text: str, *, verb: str = "list", server: str = "the server") -> Resource:
    """The resource that this server has under a name, by the rules of kubectl.

    The name is a plural, a singular, a kind in any case, or a short name; full names count before short ones. It may be
    followed by a group, or by a version and a group. Without a version it is the group's preferred one. Without a group, the
    core group counts before all others (metrics.k8s.io has `pods`, too); between others we do not guess, as kubectl does.

    Args:
        api: the client.
        text: what was typed.
        verb: what must be possible, `list` or `watch`.
        server: how messages name it.

    Raises:
        CommandError: there is nothing of that name, or more than one thing, or it cannot be listed.
        ApiError: the server refused to tell.
    """
    if not _NAME.fullmatch(text):
        raise CommandError(
            f"{one_line(text)!r} is no name of a resource; try nodepools, or nodepools.v1beta1.example.com"
        )
    name, _, rest = text.lower().partition(".")
    catalogue = Catalogue(api)
    if rest:
        kinds = await _in_group(catalogue, name, rest)
        missing = f"{server} has no {name} in {rest}"
    else:
        kinds = await _anywhere(catalogue, name)
        missing = f"{server} has no kind called {name}"
    if not kinds:
        raise CommandError(f"{missing}{_unasked(catalogue)}; {await _suggestion(catalogue, name)}")
    return _only(kinds, text, verb)


def _named(kinds: Sequence[Kind], name: str) -> Sequence[Kind]:
    return [kind for kind in kinds if kind.is_called(name)] or [kind for kind in kinds if name in kind.short_names]


async def _in_group(catalogue: Catalogue, name: str, rest: str) -> Sequence[Kind]:
    version, _, group = rest.partition(".")
    if _VERSION.fullmatch(version) and (found := _named(await catalogue.kinds(group, version), name)):
        return found
    for version in await catalogue.versions(rest):
        if found := _named(await catalogue.kinds(rest, version), name):
            return found
    return ()


async def _anywhere(catalogue: Catalogue, name: str) -> Sequence[Kind]:
    async for kinds in catalogue.everything():
        found = _named(kinds, name)
        if found:
            return [kind for kind in found if not kind.group] or found
    return ()


def _only(kinds: Sequence[Kind], text: str, verb: str) -> Resource:
    able = [kind for kind in kinds if verb in kind.verbs] or kinds
    first = able[0]
    if len({(kind.group, kind.plural) for kind in able}) > 1:
        names = ", ".join(sorted(one_line(kind.full_name) for kind in able))
        raise CommandError(f"{text} may be any of {names}; name one of them in full")
    if verb not in first.verbs:
        raise CommandError(
            f"{first.full_name} cannot be used here: the server has no {verb} for it; choose another kind"
        )
    try:
        return first.resource()
    except ValueError as error:
        raise CommandError(f"{text} cannot be asked for: {one_line(error)}; choose another kind") from None


def _unasked(catalogue: Catalogue) -> str:
    if not catalogue.failures:
        return ""
    groups = ", ".join(one_line(group or "core") for group in sorted(catalogue.failures))
    return f" (and these groups did not answer: {groups})"


async def _suggestion(catalogue: Catalogue, name: str) -> str:
    known: dict[str, str] = {}
    async for kinds in catalogue.everything():
        for kind in kinds:
            for word in (kind.plural, kind.singular, kind.kind.lower(), *kind.short_names):
                known.setdefault(word, kind.full_name)
    exact = [known[name]] if name in known else []
    close = exact or [known[word] for word in difflib.get_close_matches(name, known, n=3, cutoff=0.75)]
    names = ", ".join(one_line(full) for full in dict.fromkeys(close))
    return f"did you mean {names}?" if names else "kubectl api-resources lists what it has"
