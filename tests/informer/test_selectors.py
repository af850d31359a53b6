from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer.selectors import compile_field_selector, compile_label_selector

LABELS = {"app": "web", "tier": "", "example.test/zone": "a", "replicas": "12", "in": "x"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("  ", True),
        ("app", True),
        ("!app", False),
        ("! app", False),
        ("missing", False),
        ("!missing", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=db", False),
        ("app!=web", False),
        ("app!=db", True),
        ("missing!=db", True),
        ("missing=", False),
        ("tier=", True),
        ("tier!=", False),
        ("app in (web,db)", True),
        ("app in(web)", True),
        ("app in ( db , cache )", False),
        ("missing in (a)", False),
        ("app notin (db)", True),
        ("app notin (db,web)", False),
        ("missing notin (a)", True),
        ("tier in ()", True),
        ("tier in (a,)", True),
        ("app in ()", False),
        ("example.test/zone=a", True),
        ("example.test/zone in (a),app=web,!missing", True),
        ("example.test/zone in (a),app=web,!app", False),
        ("replicas>11", True),
        ("replicas>12", False),
        ("replicas<13", True),
        ("replicas<12", False),
        ("app>1", False),
        ("missing<1", False),
        ("in=x", True),
        ("in in (x)", True),
        ("app=in", False),
        ("app in (in,notin,web)", True),
    ],
)
def test_label_selectors(text: str, expected: bool):
    """When labels are matched, it should agree with the API server's rules."""
    assert compile_label_selector(text)(LABELS) is expected


@pytest.mark.parametrize(
    "text",
    [
        "app=web,",
        ",app",
        "app in web",
        "app in (web",
        "app in (web db)",
        "app web",
        "app=web db",
        "app===web",
        "app=!web",
        "=web",
        "!",
        "!!app",
        "app in",
        "app>x",
        "app>",
        "-app=web",
        "app=-web",
        "a/b/c=d",
        "/b=c",
        "UPPER/b=c",
        "app=" + "x" * 64,
        "x" * 64,
        "app=(web)",
        "app)",
        "app=wéb",
        "app=web\n,=",
    ],
)
def test_bad_label_selectors(text: str):
    """When the text is no label selector, it should raise ValueError naming it."""
    with pytest.raises(ValueError) as caught:
        compile_label_selector(text)
    assert repr(text) in str(caught.value)


@given(
    wanted=st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), st.sampled_from(["", "a", "b"]), max_size=4
    ),
    labels=st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True), st.sampled_from(["", "a", "b"]), max_size=4
    ),
    there=st.booleans(),
)
def test_equality_is_a_subset_test(wanted: dict[str, str], labels: dict[str, str], there: bool):
    """When only equalities are joined, it should match exactly the supersets, in every spelling."""
    labels = labels | wanted if there else labels
    expected = wanted.items() <= labels.items()
    assert compile_label_selector(",".join(f"{k}={v}" for k, v in wanted.items()))(labels) is expected
    assert compile_label_selector(" , ".join(f"{k} in ({v})" for k, v in wanted.items()))(labels) is expected
    if wanted:
        unwanted = all(labels.get(k) != v for k, v in wanted.items())
        assert compile_label_selector(",".join(f"{k}!={v}" for k, v in wanted.items()))(labels) is unwanted
        assert compile_label_selector(",".join(f"{k} notin ({v})" for k, v in wanted.items()))(labels) is unwanted


@given(st.text(alphabet="ab=!(),<> in\\./", max_size=20))
def test_any_text_is_judged(text: str):
    """When any text is given, it should compile or raise ValueError, nothing else."""
    for compiler in (compile_label_selector, compile_field_selector):
        with contextlib.suppress(ValueError):
            assert isinstance(compiler(text)({"a": "b"}), bool)


def test_compiled_once():
    """When the same text comes again, it should return the same function."""
    assert compile_label_selector("app=web") is compile_label_selector("app=web")


OBJECT = {
    "metadata": {"name": "x", "namespace": "team-a"},
    "spec": {"nodeName": "n,1=a\\b", "on": True, "count": 3, "list": []},
    "status": None,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metadata.name=x", True),
        ("metadata.name==x", True),
        ("metadata.name!=x", False),
        ("metadata.name=x,metadata.namespace!=team-b", True),
        ("metadata.name=x,metadata.namespace=team-b", False),
        ("metadata.name=x,,", True),
        (r"spec.nodeName=n\,1\=a\\b", True),
        ("spec.on=true", True),
        ("spec.count=3", True),
        ("spec.list=", True),
        ("status.phase=", True),
        ("status.phase!=Running", True),
        ("metadata.name.deeper=x", False),
    ],
)
def test_field_selectors(text: str, expected: bool):
    """When an object is matched, it should compare text at the dotted path, a missing field being empty."""
    assert compile_field_selector(text)(OBJECT) is expected


@pytest.mark.parametrize("text", ["metadata.name", "=x", "a=b=c", r"a=\x", "a=b\\", "a<b", "a!b"])
def test_bad_field_selectors(text: str):
    """When the text is no field selector, it should raise ValueError naming it."""
    with pytest.raises(ValueError) as caught:
        compile_field_selector(text)
    assert repr(text) in str(caught.value)
