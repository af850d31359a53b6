"""Where a decoder's exception says the fault is, without importing any decoder.

msgspec ends its message with a path, pydantic has `errors()`, cattrs hangs notes onto groups of exceptions. A path counts
only when it leads to something in the object: a caller may have decoded a part of it, and a fix command for the wrong field
would do harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from informer import _projection
from informer.problems import Path, Problem, excerpt

_MSGSPEC = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?(?P<path>\$.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.+)`")
_EXPECTED = re.compile(r"Expected (.+?)(?:, got `(.+)`)?")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")
_LIBRARY = __name__.partition(".")[0]
_BUG = 250  # characters of the text; with the place they stay within what a reason may have
_OPENINGS = {
    "null": b"n",
    "bool": b"tf",
    "int": b"-0123456789",
    "float": b"-0123456789",
    "str": b'"',
    "object": b"{",
    "array": b"[",
}


def problems_of(error: Exception, raw: bytes) -> list[Problem]:
    """What an exception of a decoder says about an object; at least one problem, without a path where none is told."""
    if isinstance(error, RecursionError):
        return [Problem((), "", "nested too deeply to be decoded")]
    try:
        found = list(_pydantic(error, raw) or _cattrs(error, raw, ()) or _msgspec(error, raw))
    except Exception:  # noqa: BLE001 - an exception that only looks like a decoder's must not hurt
        found = []
    if found:
        return found
    refused = type(error).__module__.startswith("msgspec")  # about the object as a whole, and nobody's bug
    return [Problem((), "", describe(error) if refused else describe_bug(error))]


def describe(error: BaseException) -> str:
    """An exception in one phrase."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody else's __str__
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_bug(error: BaseException) -> str:
    """An exception that may be a bug of the program as well as a fault of the object, with the place it came from."""
    text, place = describe(error), _place(error)
    return f"{excerpt(text, _BUG)} (raised at {place})" if place else text


def _place(error: BaseException) -> str:
    """File and line of the innermost frame that is not this library's; empty when there is none, as in compiled code."""
    place, step = "", error.__traceback__
    while step is not None:
        if str(step.tb_frame.f_globals.get("__name__")).partition(".")[0] != _LIBRARY:
            name = step.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
            place = f"{excerpt(name, 60)}:{step.tb_lineno}"
        step = step.tb_next
    return place


def _msgspec(error: Exception, raw: bytes) -> Iterator[Problem]:
    if not type(error).__module__.startswith("msgspec"):
        return
    match = _MSGSPEC.fullmatch(str(error))
    assert match is not None
    what, where = match["what"], match["path"] or "$"
    expectation = _EXPECTED.fullmatch(what)
    got = expectation[2] if expectation else None
    path = _concrete(raw, where, got or "")
    if path is None:
        return
    if missing := _MISSING.fullmatch(what):
        yield Problem((*path, missing[1]), "", "required and missing")
    elif path and "unknown field" not in what:
        expected = expectation[1].replace("`", "") if expectation else ""
        yield Problem(path, _text(_projection.value_at(raw, path)), what, expected)


def _concrete(raw: bytes, where: str, got: str) -> Path | None:
    """The one path in the object that msgspec can have meant: it writes `[...]` for any value of a map."""
    candidates: list[Path] = [()]
    certain: Path | None = None
    position = 1
    while position < len(where):
        step = _STEP.match(where, position)
        if step is None:
            return None
        position = step.end()
        name, index, wildcard = step.groups()
        if wildcard:
            certain = candidates[0] if certain is None and len(candidates) == 1 else certain
            candidates = [(*path, key) for path in candidates for key in _names(raw, path)]
        else:
            part = int(index) if index else name
            candidates = [(*path, part) for path in candidates if _projection.value_at(raw, (*path, part)) is not None]
    if len(candidates) > 1 and got in _OPENINGS:
        values = {path: _projection.value_at(raw, path) or b"" for path in candidates}
        alike = [path for path, value in values.items() if value[:1] in _OPENINGS[got] and value]
        candidates = alike if len(alike) == 1 else candidates
    return candidates[0] if len(candidates) == 1 else certain


def _names(raw: bytes, path: Path) -> Sequence[str]:
    value = _projection.value_at(raw, path) or b""
    return list(_projection.object_members(value)) if value.startswith(b"{") else []


def _pydantic(error: Exception, raw: bytes) -> list[Problem]:
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return []
    return [_pydantic_problem(detail, raw) for detail in errors()]


def _pydantic_problem(detail: Any, raw: bytes) -> Problem:
    reason = str(detail["msg"])
    *parents, last = detail["loc"] or [""]
    if detail.get("type") == "missing":
        holder = _projection.value_at(raw, parents)
        if holder is not None and holder.startswith(b"{"):
            return Problem((*parents, last), "", "required and missing")
    path: Path = ()
    for part in detail["loc"]:
        value = _projection.value_at(raw, (*path, part)) if type(part) in {int, str} else None
        if value is None:
            break
        path = (*path, part)
    # What follows a value without members names a branch of a union; after anything else the path is not one of this object.
    rest = len(path) < len(detail["loc"]) and (_projection.value_at(raw, path) or b"{").startswith((b"{", b"["))
    if rest or not path:
        return Problem((), "", f"{'.'.join(str(part) for part in detail['loc'])}: {reason}")
    return Problem(path, _text(_projection.value_at(raw, path)), reason)


def _cattrs(error: BaseException, raw: bytes, path: Path) -> list[Problem]:
    if not isinstance(error, BaseExceptionGroup):
        return []
    found = []
    for inner in error.exceptions:
        below = path
        for note in getattr(inner, "__notes__", ()):
            below = _below(note, raw, below)
        if isinstance(inner, BaseExceptionGroup):
            found += _cattrs(inner, raw, below)
        else:
            value = _projection.value_at(raw, below) if below != path else None
            found.append(Problem(below if value is not None else (), _text(value), describe(inner)))
    return found


def _below(note: object, raw: bytes, path: Path) -> Path:
    """The path that a note of cattrs adds: `index` of a list or map, or `name` of an attribute."""
    part = getattr(note, "index", None)
    if type(part) not in {int, str}:
        part = getattr(note, "name", None)
    if type(part) is str and _projection.value_at(raw, (*path, part)) is None:
        part = re.sub(r"_([a-z])", lambda letter: letter[1].upper(), part)  # Python's spelling of a Kubernetes field
    return (*path, part) if type(part) in {int, str} else path  # type: ignore[arg-type]  # just tested


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "backslashreplace")
