"""One object before its judges: all checks first, so that every bad field is named, then the decoder."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence

from informer._projection import Projection
from informer.degraded import complaints
from informer.degraded.checks import Check, FieldCheck, as_checks
from informer.objects import KubeObject
from informer.problems import Problem

# More than this of one object are counted, not kept: a map of 100,000 bad values is one bad object.
_MOST = 100

_NEVER = object()


class Judging:
    """The checks and the decoder of one resource.

    Args:
        checks: all are run. `FieldCheck`s are compiled into one pass over the bytes.
        decode: from the object to the value that is cached; None leaves the object as it is.

    Attributes:
        projection: the fields that a source can look at while it reads the head.
        settled: the mark (`KubeObject._passed`) of an object that has nothing left to be judged, and is its own value.

    Raises:
        TypeError: a coroutine function, or no callable at all.
    """

    def __init__(self, checks: Iterable[Check], decode: Callable[[KubeObject], object] | None) -> None:
        self._checks = as_checks(checks)
        self.decode = decode
        for check in self._checks:
            _refuse_coroutine_function(check, "check")
        if decode is not None:
            _refuse_coroutine_function(decode, "decode")
        compiled = [check for check in self._checks if isinstance(check, FieldCheck)]
        self.projection = Projection((check.steps, check.judge) for check in compiled) if compiled else None
        self._own = tuple(check for check in self._checks if not isinstance(check, FieldCheck))
        self.settled = self.projection if not self._own and decode is None else _NEVER

    def _passed(self, obj: KubeObject) -> bool:
        return self.projection is None or obj._passed is self.projection  # noqa: SLF001 - left there for this reader

    def __call__(self, obj: KubeObject) -> tuple[object, Sequence[Problem]]:
        """The decoded value, and the problems that make it void.

        Raises:
            MemoryError: and every other BaseException that says nothing about the object, as it came.
            TypeError: `decode` returned a coroutine.
        """
        problems: list[Problem] = []
        if self._passed(obj) or (self.projection is not None and self.projection.passes(obj.raw)):
            for check in self._own:
                problems += _run(check, obj)
        else:
            for check in self._checks:
                problems += _run(check, obj)
        value: object = obj
        if self.decode is not None:
            try:
                value = self.decode(obj)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a decoder raises is about this one object
                _merge(problems, complaints.problems_of(error, obj.raw))
            else:
                if isinstance(value, Coroutine):
                    value.close()
                    raise TypeError(f"decode returned a coroutine for {obj.key}: it must be a plain function")
                if value is None:  # a cache of None, and an AttributeError in every handler, would be the end of it
                    _merge(problems, [Problem((), "", "decode returned None; is a return missing?")])
        return value, _bounded(problems) if problems else problems


def _run(check: Check, obj: KubeObject) -> Sequence[Problem]:
    try:
        found = list(check(obj))
    except MemoryError:
        raise
    except RecursionError:
        return [Problem((), "", f"nested too deeply for {_name(check)}")]
    except Exception as error:  # noqa: BLE001 - whatever a check raises is about this one object
        return [Problem((), "", f"{_name(check)} raised {complaints.describe_bug(error)}")]
    if all(isinstance(problem, Problem) for problem in found):
        return found
    return [Problem((), "", f"{_name(check)} must return problems and returned something else")]


def _merge(problems: list[Problem], more: Iterable[Problem]) -> None:
    """Add what the decoder found beyond the checks. What has no path is only an echo of a field already named."""
    named = [problem.path for problem in problems]
    for problem in more:
        echo = any(problem.path[: len(path)] == path or path[: len(problem.path)] == problem.path for path in named)
        if not echo:
            problems.append(problem)


def _bounded(problems: Sequence[Problem]) -> Sequence[Problem]:
    different = list(dict.fromkeys(problems))
    if len(different) <= _MOST:
        return different
    return [*different[:_MOST], Problem((), "", f"and {len(different) - _MOST} more problems")]


def _refuse_coroutine_function(function: Callable[..., object], role: str) -> None:
    if not callable(function):
        raise TypeError(f"{role} must be callable, not {function!r}")
    call = type(function).__call__ if not inspect.isroutine(function) else function
    if any(test(f) for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction) for f in (function, call)):
        raise TypeError(
            f"{role} {_name(function)} is a coroutine function; objects are judged synchronously: make it a plain function,"
            " and look up what it awaits beforehand"
        )


def _name(function: object) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__
