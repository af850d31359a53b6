"""The kubectl command that mends a bad object, once a human has put a value in place of each placeholder.

The value is never guessed: `1` may have meant a second, a minute or an hour, and null may mean "for ever".
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from informer.problems import Problem, QuarantinedObject

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
# What can stand in a URL path and be pasted: the API server takes no other names.
_ADDRESS = re.compile(r"(?!-)[!-$&-.0-~]+")
# What a decoder, a schema or a check expects when it is no text: `int | null`, `array of length >= 1`, `a number up to 9`.
_TYPE = r"(?:an? )?(?:array|bool|boolean|float|int|integer|list|null|number|object)"
_NUMBER = r"-?[0-9][0-9.e+-]*"
_NO_TEXT = re.compile(
    rf"{_TYPE}(?: (?:\||or) {_TYPE})*(?:(?: of length)? [<>]?=? ?{_NUMBER}| that's a multiple of {_NUMBER})?"
    rf"|a number (?:from|up to) {_NUMBER}|a multiple of {_NUMBER}|at (?:least|most) [0-9]+ (?:items|members)"
)
_PERHAPS_NO_TEXT = re.compile(rf"\b{_TYPE}\b")
_BARE = re.compile(rf':"<({_NO_TEXT.pattern})>"')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def commands(entry: QuarantinedObject) -> tuple[str, ...]:
    """One command that patches all bad fields, and a second one for those under `.status`.

    A server may refuse a patch that leaves another field bad, hence one for all. A merge patch where every field is a plain
    object member; else a JSON patch (RFC 6902) that first tests the present values, since the positions in a list may have
    moved. A value that a JSON patch cannot carry unharmed through kubectl (long, hidden, beyond 64 bits, or with a
    surrogate pair, which kubectl's YAML reader refuses) is guarded by the resource version instead.

    Problems without a path get no command, nor do objects whose name no server would take; see `gap`.
    """
    if not _addressable(entry):
        return ()
    mended = _outermost(entry.problems)
    status = [problem for problem in mended if problem.path[0] == "status"]
    others = [problem for problem in mended if problem.path[0] != "status"]
    made = (_command(entry, others), _command(entry, status, "--subresource=status"))
    return tuple(command for command in made if command)


def gap(entry: QuarantinedObject) -> str:
    """Why no command covers some of the problems; empty when one does."""
    if not _addressable(entry):
        return "no fix command: no API server takes this name"
    pathless = sum(not problem.path for problem in entry.problems)
    if pathless:
        return f"no fix command for {pathless} of {len(entry.problems)} problems: the decoder does not tell the field"
    return "" if commands(entry) else "no fix command: no patch can carry these names and guard the present values"


def pointer(path: Iterable[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a path: `/spec/limits/example.test~1gpu`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _addressable(entry: QuarantinedObject) -> bool:
    return all(_ADDRESS.fullmatch(part) for part in entry.key.split("/")) and entry.key.count("/") <= 1


def _outermost(problems: Iterable[Problem]) -> Sequence[Problem]:
    """One problem per place; what lies inside another bad value is replaced together with it."""
    kept: dict[tuple[str | int, ...], Problem] = {}
    for problem in sorted(problems, key=lambda problem: len(problem.path)):
        if problem.path and not any(problem.path[:n] in kept for n in range(len(problem.path) + 1)):
            kept[problem.path] = problem
    return [problem for problem in problems if kept.get(problem.path) is problem]


def _command(entry: QuarantinedObject, problems: Sequence[Problem], *options: str) -> str | None:
    if not problems:
        return None
    in_list = any(isinstance(part, int) for problem in problems for part in problem.path)
    merges = all(_is_plain(problem) for problem in problems)
    if not merges and not in_list and any(_SURROGATE.search(_json(pointer(problem.path))) for problem in problems):
        merges = not any(problem.value.startswith("{") for problem in problems)  # kubectl takes this one as it is
    payload = _merge_patch(problems) if merges else _json_patch(entry, problems)
    if payload is None:
        return None
    resource = entry.resource
    words = ["kubectl", "patch", str(resource) if resource.group else resource.plural, entry.name]
    if resource.namespaced and entry.namespace:
        words += ["-n", entry.namespace]
    words += [*options, "--type=merge" if merges else "--type=json", "-p", payload]
    return shlex.join(words)


def _is_plain(problem: Problem) -> bool:
    # An object in the place of the bad value would be merged into, not replaced.
    names = all(isinstance(part, str) and _PLAIN_NAME.fullmatch(part) for part in problem.path)
    return names and not problem.value.startswith("{")


def _placeholder(problem: Problem) -> str:
    expected = problem.expected or "a valid value"
    unknown = not problem.expected or (_PERHAPS_NO_TEXT.search(expected) and not _NO_TEXT.fullmatch(expected))
    return f"<{expected}{', quoted only if it is text' if unknown else ''}>"


def _unquoted(patch: str) -> str:
    """Without the quotes around placeholders for what is no text: a number that is pasted there must stay a number.

    Pasted as it is, kubectl refuses such a merge patch; of a JSON patch, which it reads as YAML, it makes the same as before.
    """
    return _BARE.sub(r":<\1>", patch)


def _merge_patch(problems: Iterable[Problem]) -> str:
    patch: dict[str, Any] = {}
    for problem in problems:
        *parents, last = problem.path
        level = patch
        for part in parents:
            level = level.setdefault(str(part), {})
        level[str(last)] = _placeholder(problem)
    return _unquoted(_json(patch))


def _json_patch(entry: QuarantinedObject, problems: Sequence[Problem]) -> str | None:
    tests: dict[str, str] = {}
    changes = []
    for problem in problems:
        where = pointer(problem.path)
        if _SURROGATE.search(_json(where)):
            return None
        in_list = any(isinstance(part, int) for part in problem.path)
        if problem.value and _survives(problem.value):
            tests[where] = problem.value
        elif problem.value or in_list or entry.resource.sensitive:
            if not entry.resource_version:
                return None
            tests["/metadata/resourceVersion"] = _json(entry.resource_version)
        # "add" sets a member that may be missing; in a list it would insert.
        verb = "replace" if problem.value or isinstance(problem.path[-1], int) else "add"
        change = f'{{"op":"{verb}","path":{_json(where)},"value":{_json(_placeholder(problem))}}}'
        changes.append(_unquoted(change))
    guards = [f'{{"op":"test","path":{_json(where)},"value":{value}}}' for where, value in tests.items()]
    return f"[{','.join(guards + changes)}]"


def _survives(value: str) -> bool:
    """Whether a JSON text can be tested for: it means the same after kubectl has read it as YAML and written it as JSON, and
    the server can compare it.
    """
    if value[0] in "[{" and "null" in value:
        return False  # a server of 1.20 dies of comparing a list with null in it (its JSON patch library panics)
    try:
        json.loads(value, parse_constant=_refuse, parse_int=_whole, parse_float=_finite)
    except ValueError:
        return False
    return not _SURROGATE.search(value)


def _refuse(name: str) -> float:
    raise ValueError(name)


def _whole(digits: str) -> int:
    if len(digits) > 20 or not -(1 << 63) <= int(digits) < 1 << 63:
        raise ValueError(digits)
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if value in {float("inf"), float("-inf")}:
        raise ValueError(digits)
    return value


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f")
