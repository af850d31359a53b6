from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from informer.errors import ContentNotKeptError, InformerError, QuarantinedError
from informer.objects import KubeObject
from informer.problems import DURATION, Problem, QuarantinedObject, excerpt, path_text
from informer.resource import Resource

NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")
SECRETS = Resource.parse("secrets.v1")
NOW = datetime(2026, 11, 29, tzinfo=UTC)


def entry(*problems: Problem, resource: Resource = NODEPOOLS, raw: bytes | None = None) -> QuarantinedObject:
    raw = raw or b'{"metadata":{"name":"pool-a","namespace":"clusters","uid":"u1"}}'
    obj = KubeObject(raw, "pool-a", "clusters", "u1", "7")
    return QuarantinedObject(resource, obj.key, "u1", "7", problems, NOW, NOW, 1, obj.metadata, raw)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("spec", "groups", 1, "tenant"), "spec.groups[1].tenant"),
        (("spec", "limits", "example.test/gpu"), 'spec.limits["example.test/gpu"]'),
        (("spec", "a b", 0), 'spec["a b"][0]'),
        (("spec", "0"), 'spec["0"]'),
        (("spec", ""), 'spec[""]'),
        (("spec", 'x"\n\x7f\ud800é'), r'spec["x\"\n\u007f\ud800\u00e9"]'),
        ((), ""),
    ],
)
def test_path_text(path, text):
    assert path_text(path) == text
    assert Problem(path, "1", "r").path_text == text


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=300), st.integers(1, 200))
def test_excerpts_are_short_printable_ascii(text, limit):
    shown = excerpt(text, limit)
    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) < limit + 40


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(json_values, st.booleans())
def test_excerpt_of_a_json_text_that_fits_is_equal_json(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert json.loads(excerpt(text, 10_000)) == value


@pytest.mark.parametrize("text", ["0", "false", '""', "null", "[]", "{}", "true", "9007199254740993", "1e400", "NaN"])
def test_value_stays_exactly_what_it_was(text):
    problem = Problem(("spec", "x"), text, "bad")
    assert problem.value == text
    assert str(problem) == f"spec.x is {text}: bad"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r'"\u003cduration, e.g. 10m\u003e \u0026 \u0027"', '"<duration, e.g. 10m> & \'"'),
        (r'"\u003C"', '"<"'),
        (r'"\\u003c"', r'"\\u003c"'),
        (r'"\\\u003c"', r'"\\<"'),
        (r'"\u0022\u005c\u000a\u007f\u001b"', r'"\u0022\u005c\u000a\u007f\u001b"'),
        (r'"\u005cu003c"', r'"\u005cu003c"'),
        (r'"\u00e9\u202e\ud83d\ude00"', r'"\u00e9\u202e\ud83d\ude00"'),
        ('"' + r"\u003c" * 118 + '"', '"' + "<" * 118 + '"'),
    ],
    ids=["Go's", "capitals", "no escape", "after a backslash", "needed", "no new escape", "not ASCII", "fits now"],
)
def test_escapes_that_need_not_be(text: str, shown: str) -> None:
    """When a value comes with escapes for printable characters, as Go writes `<`, it should be shown as it was typed."""
    problem = Problem(("spec", "x"), text, "bad")
    assert problem.value == shown
    assert json.loads(problem.value) == json.loads(text)
    assert evolve(problem, reason="worse").value == shown


@given(st.text(alphabet='\\"u003c<&ab\x7fé', max_size=30).map(json.dumps))
def test_a_shown_value_is_equal_json(text: str) -> None:
    """When a value fits, what is shown should be an equal JSON text, whatever stands beside its escapes."""
    for written in (text, text.replace("<", "\\u003c").replace("&", "\\u0026")):
        shown = Problem((), written, "bad").value
        if len(written) <= 120:
            assert json.loads(shown) == json.loads(text)


def test_problem_shortens_and_cleans_whatever_a_check_writes():
    problem = Problem(["spec", "x"], "y" * 10_000, "a\nb\x1b[31m" + "z" * 10_000, "é" * 10_000)
    assert problem.path == ("spec", "x")
    for text in (problem.value, problem.reason, problem.expected, str(problem)):
        assert text.isascii()
        assert text.isprintable()
        assert len(text) < 2000


def test_summary_names_each_field_with_value_and_reason_in_one_line():
    bad = entry(Problem(("spec", "a"), '"1"', "missing unit", DURATION), Problem(("spec", "b"), "0", "no string"))
    assert bad.summary == 'spec.a is "1": missing unit (expected: duration, e.g. 10m); spec.b is 0: no string'
    assert "clusters/pool-a exists but is quarantined: spec.a" in str(QuarantinedError(bad))


def test_summary_of_very_many_problems_counts_the_rest():
    bad = entry(*(Problem(("spec", "l", i), "0", "no") for i in range(50)))
    assert bad.summary.endswith("; and 40 more")


def test_to_dict_is_the_untouched_object_fresh_each_time():
    bad = entry(raw=b'{"metadata":{"name":"pool-a","finalizers":["f"]},"spec":{"x":9007199254740993}}')
    first = bad.to_dict()
    assert first["spec"]["x"] == 9007199254740993
    first["spec"].clear()
    assert bad.to_dict()["spec"]


@pytest.mark.parametrize(
    ("spec", "read"),
    [
        (b"NaN", None),
        (rb'"\ud800"', "\ud800"),
        (b'"\xff\xfe"', "��"),
        (b'"a\tb"', "a\tb"),
        (b"1" * 5000, float("inf")),
        (b"-" + b"1" * 5000, float("-inf")),
    ],
    ids=["NaN", "lone surrogate", "no UTF-8", "control character", "5000 digits", "minus 5000 digits"],
)
def test_to_dict_reads_what_is_no_strict_json(spec, read):
    """When the bytes are no strict JSON, it should still give the finalizer's owner what can be read."""
    found = entry(raw=b'{"metadata":{"name":"pool-a"},"nan":NaN,"spec":%b}' % spec).to_dict()
    assert found["metadata"] == {"name": "pool-a"}
    assert found["spec"] == read or found["spec"] != found["spec"]


@pytest.mark.parametrize("raw", [b"{", b"[" * 100_000, b"[1]", b"\xff"])
def test_to_dict_of_nothing_readable_is_a_clear_error(raw):
    with pytest.raises(ValueError, match="clusters/pool-a"):
        entry(raw=raw).to_dict()


def test_to_dict_after_the_bytes_were_dropped_says_so():
    bad = evolve(entry(), raw=None)
    with pytest.raises(
        ContentNotKeptError, match="clusters/pool-a was not kept: the quarantine is over its max_bytes"
    ) as caught:
        bad.to_dict()
    assert isinstance(caught.value, InformerError)


def test_annotations_are_left_to_the_bytes():
    """When annotations are large, an entry should not keep them a second time beside the budget of the bytes."""
    raw = b'{"metadata":{"name":"pool-a","annotations":{"big":"x"},"labels":{"a":"b"}}}'
    obj = KubeObject.parse(raw)
    bad = QuarantinedObject(NODEPOOLS, "pool-a", "", "1", (), NOW, NOW, 1, obj.metadata, raw)
    assert (bad.metadata.annotations, bad.metadata.labels) == ({}, {"a": "b"})
    assert obj.metadata.annotations == {"big": "x"}, "the object's own metadata is not touched"
    assert bad.to_dict()["metadata"]["annotations"] == {"big": "x"}


def test_copies_of_an_entry_share_their_bytes():
    """When the quarantine drops bytes, they should be gone for everybody who holds an entry of the same content."""
    bad = entry()
    later = evolve(bad, times_seen=2)
    bad.content.raw = None
    with pytest.raises(ContentNotKeptError):
        later.to_dict()


def test_repr_has_neither_bytes_nor_values():
    bad = entry(
        Problem(("spec", "a"), '"planted"', "planted"),
        raw=b'{"metadata":{"name":"pool-a","deletionTimestamp":"x"},"spec":"planted"}',
    )
    assert (
        repr(bad)
        == "QuarantinedObject(nodepools.v1beta1.hypershift.openshift.io 'clusters/pool-a', 1 problems, terminating)"
    )
    assert "planted" not in repr(bad.content)


def test_nothing_of_a_sensitive_object_is_kept_but_metadata_and_paths():
    planted = "cGxhbnRlZA"
    raw = json.dumps(
        {
            "metadata": {
                "name": "pool-a",
                "namespace": "clusters",
                "labels": {"a": "b"},
                "finalizers": ["f"],
                "annotations": {"last-applied": planted},
            },
            "data": {"password": planted},
        }
    ).encode()
    bad = entry(
        Problem(("data", "password"), f'"{planted}"', f"cannot read {planted}", f"not {planted}"),
        Problem(("data", "wait"), f'"{planted}"', "no unit", DURATION),
        resource=SECRETS,
        raw=raw,
    )
    assert [(p.path_text, p.value, p.expected) for p in bad.problems] == [
        ("data.password", "", ""),
        ("data.wait", "", DURATION),
    ]
    assert (bad.metadata.labels, list(bad.metadata.finalizers)) == ({"a": "b"}, ["f"])
    with pytest.raises(ContentNotKeptError, match="sensitive") as caught:
        bad.to_dict()
    shown = [repr(bad), str(bad), bad.summary, str(caught.value), str(QuarantinedError(bad)), *bad.fix_commands()]
    shown += [str(getattr(bad, a.name)) for a in bad.__attrs_attrs__]
    shown += [str(evolve(bad, raw=raw).content.raw), str(evolve(bad, metadata=KubeObject.parse(raw).metadata).metadata)]
    assert not [text for text in shown if planted in text]
