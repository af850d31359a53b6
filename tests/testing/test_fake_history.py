from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer.testing._history import History, Key, Stored
from informer.testing._patch import PatchError, json_patch, merge_patch

OPERATIONS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from([0, 1])), max_size=40)


def stored(key: Key, version: int) -> Stored:
    return Stored(key, version, b"%d" % version, b"%d" % version)


def play(operations: list[tuple[str, bool, int]]) -> tuple[History, list[list[dict[Key, Stored]]]]:
    """Plays puts and deletes on two tables; returns the states of both after each version."""
    history = History(version=0)
    tables = [history.table(), history.table()]
    states = [[{}, {}]]
    for name, put, which in operations:
        key, table = ("", name), tables[which]
        if put:
            history.put(table, key, lambda version, key=key: stored(key, version))
        elif key in table.objects:
            history.remove(table, key, lambda version, key=key: stored(key, version))
        else:
            continue
        states.append([dict(one.objects) for one in tables])
    return history, states


@given(OPERATIONS)
def test_every_version_can_be_seen_again(operations: list[tuple[str, bool, int]]):
    """When nothing is compacted, the state at each version should be what it was."""
    history, states = play(operations)
    assert history.version == len(states) - 1
    for version, state in enumerate(states):
        assert [table.at(version) for table in history.tables] == state


@given(OPERATIONS)
def test_log_leads_from_any_version_to_now(operations: list[tuple[str, bool, int]]):
    """When a client knows the state at a version, the later changes should lead it to the newest."""
    history, states = play(operations)
    for version, state in enumerate(states):
        for table, objects in zip(history.tables, state, strict=True):
            for change in table.since(version):
                assert change.version > version
                assert objects.get(change.key) is change.old
                if change.new is None:
                    del objects[change.key]
                else:
                    objects[change.key] = change.new
            assert objects == table.objects


@given(OPERATIONS, st.data())
def test_compaction_and_restore(operations: list[tuple[str, bool, int]], data: st.DataObject):
    """When history is compacted and restored, versions between should be as they were, and others refused."""
    history, states = play(operations)
    floor = data.draw(st.integers(0, history.version))
    history.compact(floor)
    for version in range(floor, history.version + 1):
        assert [table.at(version) for table in history.tables] == states[version]
    assert all(table.forgotten <= floor for table in history.tables)
    back = data.draw(st.integers(floor, history.version))
    with pytest.raises(ValueError, match="cannot restore"):
        history.restore(history.version + 1)
    history.restore(back)
    assert history.version == back
    assert [table.objects for table in history.tables] == states[back]
    with pytest.raises(ValueError, match="cannot compact"):
        history.compact(back + 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "~/"]), inner, max_size=3),
    max_leaves=8,
)


def without_null(value):
    if isinstance(value, dict):
        return {name: without_null(one) for name, one in value.items() if one is not None}
    return value


@given(JSON, JSON)
def test_merge_patch_law(target, patch):
    """When a patch is applied twice, it should be as once; and a patch of an empty target is the patch without nulls."""
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once
    assert merge_patch(None, patch) == without_null(patch)
    assert merge_patch(target, {}) == (target if isinstance(target, dict) else {})


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_examples(target, patch, expected):
    """When RFC 7396's examples are applied, the results should be the RFC's."""
    before = json.dumps(target)
    assert merge_patch(target, patch) == expected
    assert json.dumps(target) == before


@pytest.mark.parametrize(
    ("target", "steps", "expected"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["a"]}, [{"op": "add", "path": "/foo/0", "value": "b"}], {"foo": ["b", "a"]}),
        ({"foo": ["a"]}, [{"op": "add", "path": "/foo/1", "value": "b"}], {"foo": ["a", "b"]}),
        ({"foo": ["a"]}, [{"op": "add", "path": "/foo/-", "value": ["b"]}], {"foo": ["a", ["b"]]}),
        ({"foo": ["a", "b"]}, [{"op": "remove", "path": "/foo/0"}], {"foo": ["b"]}),
        ({"a": {"x": 1}}, [{"op": "move", "from": "/a/x", "path": "/b"}], {"a": {}, "b": 1}),
        (
            {"a": [1]},
            [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2}],
            {"a": [1], "b": [1, 2]},
        ),
        (
            {"a/b": 1, "m~n": 2},
            [{"op": "test", "path": "/a~1b", "value": 1}, {"op": "remove", "path": "/m~0n"}],
            {"a/b": 1},
        ),
        ({"a": 1}, [{"op": "replace", "path": "", "value": [1]}], [1]),
        ({"a": {"b": [1.0]}}, [{"op": "test", "path": "/a", "value": {"b": [1]}}], {"a": {"b": [1.0]}}),
    ],
)
def test_json_patch_examples(target, steps, expected):
    """When operations are applied, the result should be RFC 6902's, and the target stay as it was."""
    before = json.dumps(target)
    assert json_patch(target, steps) == expected
    assert json.dumps(target) == before


@pytest.mark.parametrize(
    "step",
    [
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/l/0", "value": 2},
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "remove", "path": "/l/-"},
        {"op": "remove", "path": "/l/2"},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "x", "value": 1},
        {"op": "add", "path": "/x"},
        {"op": "nope", "path": "/a"},
        {"path": "/a"},
        {"op": "copy", "from": "/x", "path": "/a"},
    ],
)
def test_json_patch_refusals(step):
    """When an operation cannot be applied, it should raise and leave the target as it was."""
    target = {"a": 1, "l": [1]}
    with pytest.raises(PatchError):
        json_patch(target, [{"op": "add", "path": "/l/-", "value": 9}, step])
    assert target == {"a": 1, "l": [1]}
