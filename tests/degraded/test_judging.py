from __future__ import annotations

import types
from collections.abc import Callable

import msgspec
import pytest

from informer import checks
from informer.degraded.judging import Judging
from informer.degraded.wrapper import DegradedListerWatcher
from informer.listerwatcher import ListOptions
from informer.objects import KubeObject
from informer.problems import Problem
from informer.resource import Resource
from tests.degraded.support import Scripted, bad

BAD = KubeObject.parse(b'{"metadata":{"name":"a"},"spec":{"drainTimeout":"1","size":"1K","count":"x"}}')


class Spec(msgspec.Struct):
    drainTimeout: str
    size: int
    count: int


class Widget(msgspec.Struct):
    spec: Spec


def decode(obj: KubeObject) -> Widget:
    return msgspec.json.decode(obj.raw, type=Widget)


def paths(*judges: object, **options: object) -> list[str]:
    return [problem.path_text for problem in Judging(judges, options.get("decode"))(BAD)[1]]


def test_decoder_adds_what_the_checks_have_not_named():
    assert paths(checks.duration("spec.drainTimeout"), decode=decode) == ["spec.drainTimeout", "spec.size"]
    assert paths(checks.duration("spec.drainTimeout"), checks.quantity("spec.size"), decode=decode) == [
        "spec.drainTimeout",
        "spec.size",
    ]


def test_what_lies_below_or_above_a_named_field_is_an_echo():
    def own(obj: KubeObject) -> list[Problem]:
        return [Problem(("spec",), "{}", "odd")]

    assert paths(own, decode=decode) == ["spec"]


def test_same_problem_twice_is_named_once():
    assert paths(checks.duration("spec.drainTimeout"), checks.duration("spec.drainTimeout")) == ["spec.drainTimeout"]


def test_good_object_is_the_very_same_without_decode():
    good = KubeObject.parse(b'{"metadata":{"name":"a"}}')
    value, problems = Judging([checks.duration("spec.drainTimeout")], None)(good)
    assert value is good
    assert not problems


@pytest.mark.parametrize("answer", [None, 7, ["text"], [None], "text"])
def test_check_that_answers_nonsense(answer):
    """When a check returns no problems but something else, that should be said and not be taken for good."""
    (problem,) = Judging([lambda obj: answer], None)(BAD)[1]
    assert problem.path == ()
    assert "test_check_that_answers_nonsense" in problem.reason


def mistaken(obj: KubeObject) -> object:
    return obj.nothing_of_that_name


def mistaken_deeper(obj: KubeObject) -> object:
    return mistaken(obj)


def in_the_library(obj: KubeObject) -> object:
    return obj["spec"]["nothing"]


def long_winded(obj: KubeObject) -> object:
    raise ValueError("x" * 5000)


@pytest.mark.parametrize(
    ("function", "where"),
    [(mistaken, mistaken), (mistaken_deeper, mistaken), (in_the_library, in_the_library), (long_winded, long_winded)],
)
def test_bug_of_the_program_says_where(function: Callable[[KubeObject], object], where: types.FunctionType) -> None:
    """When a decoder or a check raises what may be its own bug, the reason should name file and line, and stay short."""
    place = f"(raised at test_judging.py:{where.__code__.co_firstlineno + 1})"
    for judging in (Judging([], function), Judging([function], None)):
        (problem,) = judging(BAD)[1]
        assert problem.reason.endswith(place)
        assert len(problem.reason) <= 400


@pytest.mark.parametrize(
    "function",
    [decode, lambda obj: msgspec.json.decode(b"["), int],
    ids=["a field", "no field", "compiled code"],
)
def test_refusal_of_a_decoder_is_no_bug(function: Callable[[KubeObject], object]) -> None:
    """When a validating decoder refuses the object, or no line of Python did, no place should be named."""
    problems = Judging([], function)(BAD)[1]
    assert problems
    assert all("raised at" not in problem.reason for problem in problems)


async def test_bug_shows_nothing_of_a_sensitive_object(caplog: pytest.LogCaptureFixture) -> None:
    """When a decoder stumbles over a Secret, neither entry nor log should have its text."""

    def stumble(obj: KubeObject) -> object:
        raise ValueError(obj["spec"]["drainTimeout"])

    secrets = Resource("", "v1", "secrets", kind="Secret")
    source = DegradedListerWatcher(Scripted([bad("a", value="hunter2")], resource=secrets), decode=stumble)
    await source.list(ListOptions())
    assert len(caplog.records) == 1
    assert "hunter2" not in f"{caplog.text} {caplog.records[0].__dict__} {source.quarantine['team-a/a'].problems}"


def test_decode_that_returns_nothing() -> None:
    """When a `return` was forgotten, the object should be withheld, with the reason, and not be cached as None."""
    (problem,) = Judging([], lambda obj: None)(BAD)[1]
    assert str(problem) == "decode returned None; is a return missing?"
    assert paths(checks.duration("spec.drainTimeout"), decode=lambda obj: None) == ["spec.drainTimeout"]
    assert Judging([], lambda obj: 0)(BAD) == (0, []), "what is only falsy is a value"


def test_very_many_problems_are_counted():
    _, problems = Judging([lambda obj: (Problem(("spec", "l", i), "0", "no") for i in range(1000))], None)(BAD)
    assert len(problems) == 101
    assert problems[-1].reason == "and 900 more problems"


def test_checks_see_bytes_that_the_compiled_pass_cannot_read():
    raw = KubeObject(b'{"metadata":{"name":"a"},"spec":{"drainTimeout":NaN}}', "a")
    (problem,) = Judging([checks.duration("spec.drainTimeout")], None)(raw)[1]
    assert "not readable as JSON" in problem.reason
