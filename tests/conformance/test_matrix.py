"""The matrix itself: every row is answered, every answer is for a row, and the page says so."""

from __future__ import annotations

import pytest

from .generate import PAGE, page, problems
from .marks import Mark, Row, marks, read_marks, rows


def test_every_row_is_answered() -> None:
    """When rows and marks are compared, none should be left over on either side."""
    assert problems(rows(), marks()) == []


def test_the_page_is_up_to_date() -> None:
    """When rows or marks change, the page should be generated anew: python -m tests.conformance.generate --write."""
    assert PAGE.read_text() == page(rows(), marks())


def test_marks_are_what_pytest_sees(request: pytest.FixtureRequest) -> None:
    """When pytest has collected a marked test, the marks read from its source should be the same."""
    read = {(mark.test, mark.row, mark.verdict, mark.reason) for mark in marks()}
    collected = {
        (
            f"{item.path.name}::{item.name.partition('[')[0]}",
            mark.args[0],
            mark.kwargs["verdict"],
            mark.kwargs.get("reason", ""),
        )
        for item in request.session.items
        for mark in item.iter_markers("upstream")
    }
    assert collected <= read


ROW = Row("a_test.go", "One", "something", "")
NOT_HERE = Row("a_test.go", "Two", "something else", "no such feature")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([], "row 'a_test.go: One' has neither a test nor a reason"),
        ([Mark("a_test.go: One", "same", "", "t", True)], "is skipped or expected to fail"),
        ([Mark(ROW.id, "same", "", "t", False), Mark("b: Three", "same", "", "t", False)], "a row that does not exist"),
        ([Mark(ROW.id, "same", "", "t", False), Mark(NOT_HERE.id, "same", "", "t", False)], "is not applicable, and t"),
        ([Mark(ROW.id, "same", "", "t", False), Mark(ROW.id, "stricter", "x", "u", False)], "several verdicts: t, u"),
    ],
    ids=["no test", "skipped", "unknown row", "not applicable", "two verdicts"],
)
def test_what_is_wrong_is_said(answers: list[Mark], said: str) -> None:
    """When rows and marks do not fit, each misfit should be said."""
    [problem] = problems([ROW, NOT_HERE], answers)
    assert said in problem
    assert problems([ROW, NOT_HERE], [Mark(ROW.id, "same", "", "t", False)]) == []
    assert problems([ROW, ROW], [Mark(ROW.id, "same", "", "t", False)]) == ["row 'a_test.go: One' stands there 2 times"]


@pytest.mark.parametrize(
    ("decorator", "said"),
    [
        ("upstream(ROW, verdict='same')", "with literals"),
        ("upstream('a: b')", "with literals"),
        ("upstream", "with literals"),
        ("upstream('a: b', verdict='better', reason='x')", "the verdict is one of"),
        ("upstream('a: b', verdict='different')", "needs its reason"),
        ("upstream('a: b', verdict='same', reason='x')", "needs its reason"),
    ],
)
def test_bad_marks(decorator: str, said: str) -> None:
    """When a mark cannot be read or says too little, that should be an error that names the test."""
    with pytest.raises(ValueError, match=said) as caught:
        list(read_marks(f"@pytest.mark.{decorator}\ndef test_x(): ...", "f.py"))
    assert "f.py::test_x" in str(caught.value)


def test_good_marks() -> None:
    """When a test has marks, they should be read with everything they say."""
    source = (
        "@pytest.mark.skip\n@pytest.mark.upstream('a: b', verdict='stricter', reason='more')\nasync def test_x(): ..."
    )
    assert list(read_marks(source, "f.py")) == [Mark("a: b", "stricter", "more", "f.py::test_x", True)]
