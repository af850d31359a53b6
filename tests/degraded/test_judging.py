from __future__ import annotations

import msgspec
import pytest

from informer import checks
from informer.degraded.judging import Judging
from informer.objects import KubeObject
from informer.problems import Problem

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


def test_very_many_problems_are_counted():
    _, problems = Judging([lambda obj: (Problem(("spec", "l", i), "0", "no") for i in range(1000))], None)(BAD)
    assert len(problems) == 101
    assert problems[-1].reason == "and 900 more problems"


def test_checks_see_bytes_that_the_compiled_pass_cannot_read():
    raw = KubeObject(b'{"metadata":{"name":"a"},"spec":{"drainTimeout":NaN}}', "a")
    (problem,) = Judging([checks.duration("spec.drainTimeout")], None)(raw)[1]
    assert "not readable as JSON" in problem.reason
