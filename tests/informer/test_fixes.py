from __future__ import annotations

import json
import shlex
import subprocess
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informer import fixes
from informer.objects import KubeObject
from informer.problems import DURATION, QUANTITY, Problem, QuarantinedObject
from informer.problems import Path as FieldPath
from informer.resource import Resource
from tests import patches

NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")
NOW = datetime(2026, 11, 29, tzinfo=UTC)
DRAIN = Problem(("spec", "nodeDrainTimeout"), '"1"', "missing unit", DURATION)


def entry(
    *problems: Problem, resource: Resource = NODEPOOLS, key: str = "clusters/pool-a", version: str = "7"
) -> QuarantinedObject:
    meta = KubeObject(b'{"metadata":{"name":"x"}}', "x").metadata
    return QuarantinedObject(resource, key, "u1", version, problems, NOW, NOW, 1, meta)


def payload(command: str) -> object:
    words = shlex.split(command)
    return patches.read(words[words.index("-p") + 1])


def test_the_command_that_it_was_all_about():
    (command,) = entry(DRAIN).fix_commands()
    assert command == (
        "kubectl patch nodepools.v1beta1.hypershift.openshift.io pool-a -n clusters --type=merge"
        """ -p '{"spec":{"nodeDrainTimeout":"<duration, e.g. 10m>"}}'"""
    )


@pytest.mark.parametrize(
    ("resource", "key", "start"),
    [
        (
            Resource.parse("pods.v1"),
            "team-a/web-0",
            ["kubectl", "patch", "pods", "web-0", "-n", "team-a", "--type=merge"],
        ),
        (Resource.parse("nodes.v1"), "n1", ["kubectl", "patch", "nodes", "n1", "--type=merge"]),
        (
            Resource("example.test", "v1", "gadgets", namespaced=False),
            "g",
            ["kubectl", "patch", "gadgets.v1.example.test", "g", "--type=merge"],
        ),
        (
            Resource("example.test", "v1", "widgets"),
            "a/b",
            ["kubectl", "patch", "widgets.v1.example.test", "b", "-n", "a", "--type=merge"],
        ),
    ],
)
def test_how_the_object_is_addressed(resource, key, start):
    (command,) = entry(DRAIN, resource=resource, key=key).fix_commands()
    assert shlex.split(command)[: len(start)] == start


def test_one_command_mends_all_fields_and_a_second_one_those_of_the_status():
    status = Problem(("status", "lastSeen"), "0", "no string", "time")
    first, second = entry(status, DRAIN, Problem(("spec", "size"), '""', "empty", QUANTITY)).fix_commands()
    assert payload(first) == {"spec": {"nodeDrainTimeout": "<duration, e.g. 10m>", "size": "<quantity, e.g. 500m>"}}
    assert "--subresource=status" not in shlex.split(first)
    assert "--subresource=status" in shlex.split(second)
    assert payload(second) == {"status": {"lastSeen": "<time>"}}
    assert len(entry(status).fix_commands()) == 1


def guarded(path: str, value: object, new: object, op: str = "replace") -> list[dict[str, object]]:
    return [{"op": "test", "path": path, "value": value}, {"op": op, "path": path, "value": new}]


ANY = "<a valid value, quoted only if it is text>"
VERSION = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}


@pytest.mark.parametrize(
    ("problem", "patch"),
    [
        (Problem(("spec", "groups", 1, "tenant"), "0", "no", "str"), guarded("/spec/groups/1/tenant", 0, "<str>")),
        (Problem(("spec", "ports", 1), "null", "no", "int"), guarded("/spec/ports/1", None, "<int>")),
        (Problem(("spec", "limits", "example.test/gpu"), '"two"', "no", "q"), guarded("/spec/limits/example.test~1gpu", "two", "<q>")),
        (Problem(("spec", "a~b"), "false", "no"), guarded("/spec/a~0b", False, ANY)),
        (Problem(("spec", "groups"), '{"name":"g0"}', "no", "array"), guarded("/spec/groups", {"name": "g0"}, "<array>")),
        (Problem(("spec", "x/y"), "9007199254740993", "no"), guarded("/spec/x~1y", 9007199254740993, ANY)),
        (Problem(("spec", "x/y"), "", "missing"), [{"op": "add", "path": "/spec/x~1y", "value": ANY}]),
        (Problem(("spec", "x", 1, "y"), "", "missing"), [VERSION, {"op": "add", "path": "/spec/x/1/y", "value": ANY}]),
        (Problem(("spec", "x", 1), "", "?"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
        (Problem(("spec", "x", 1), '"' + "y" * 500 + '"', "long"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
        (Problem(("spec", "x", 1), "1" * 50, "big"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
        (Problem(("spec", "x", 1), "1e400", "big"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
        (Problem(("spec", "x", 1), '{"a":[null]}', "no"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
        (Problem(("spec", "x", 1), "NaN", "odd"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
        (Problem(("spec", "x", 1), '"\U0001f600"', "emoji"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
        (Problem(("spec", "x", 1), '"\ud800"', "odd"), [VERSION, {"op": "replace", "path": "/spec/x/1", "value": ANY}]),
    ],
)  # fmt: skip
def test_json_patch_where_a_merge_patch_would_do_harm(problem, patch):
    (command,) = entry(problem).fix_commands()
    assert "--type=json" in shlex.split(command)
    assert payload(command) == patch


NO_TEXT = [
    "int",
    "int | null",
    "int >= 0",
    "float <= 1.5",
    "int that's a multiple of 2",
    "array of length >= 1",
    "int | float",
    "bool",
    "object",
    "integer",
    "boolean",
    "number",
    "array",
    "an object",
    "a list or an object",
    "a number up to 10",
    "a number from -1",
    "a multiple of 0.5",
    "at most 5 items",
    "at least 1 members",
]


@pytest.mark.parametrize("value", [3, True, {"a": 1}, [1], 1.5, None], ids=repr)
@pytest.mark.parametrize("expected", NO_TEXT)
@pytest.mark.parametrize("path", [("spec", "replicas"), ("spec", "list", 0)], ids=["merge", "json"])
def test_what_is_pasted_for_no_text_stays_what_it_is(path: FieldPath, expected: str, value: object):
    """When no text may stand in a field, a number, object or list put in place of <...> should not become a text."""
    (command,) = entry(Problem(path, '"3"', "no", expected)).fix_commands()
    assert command.count(f"<{expected}>".replace("'", "'\"'\"'")) == 1
    filled = command.replace(f"<{expected}>".replace("'", "'\"'\"'"), json.dumps(value))
    words = shlex.split(filled)
    patch = json.loads(words[-1])
    assert (patch["spec"]["replicas"] if isinstance(patch, dict) else patch[-1]["value"]) == value
    assert payload(command) != patch  # as it is, the placeholder is no such value


@pytest.mark.parametrize(
    "expected",
    ["str", "string", "str | null", "int | str", "integer or string, e.g. 25%", "duration, e.g. 10m", "object name",
     "quantity, e.g. 500m", 'one of "A", "B"', "at most 5 characters", "int, or so", 'int","x":"y', "an int>", "number: 1"],
)  # fmt: skip
@pytest.mark.parametrize("path", [("spec", "size"), ("spec", "list", 0)], ids=["merge", "json"])
def test_what_is_pasted_where_text_may_stand(path: FieldPath, expected: str):
    """When text may stand in a field, the placeholder should be in quotes, and say so where a number may as well."""
    (command,) = entry(Problem(path, "0", "no", expected)).fix_commands()
    patch = json.loads(shlex.split(command)[-1])
    placeholder = patch["spec"]["size"] if isinstance(patch, dict) else patch[-1]["value"]
    assert placeholder.startswith(f"<{expected}")
    either = ("str | null", "int | str", "integer or string, e.g. 25%", "object name", "int, or so", 'int","x":"y', "an int>", "number: 1")  # fmt: skip
    assert placeholder.endswith(", quoted only if it is text>") is (expected in either)


def test_a_value_that_looks_like_a_placeholder():
    """When somebody has stored a placeholder as it was, the guard should still test for that text."""
    (command,) = entry(Problem(("spec", "list", 0), '"<int>"', "no", "int")).fix_commands()
    words = shlex.split(command)
    assert words[-1] == (
        '[{"op":"test","path":"/spec/list/0","value":"<int>"},{"op":"replace","path":"/spec/list/0","value":<int>}]'
    )


def test_a_name_that_looks_like_a_placeholder():
    """When a member's name looks like a placeholder, it should stay a name."""
    (command,) = entry(
        Problem(("spec", ':"<int>"'), "0", "no", "int"), Problem(("spec", "<int>"), "0", "no")
    ).fix_commands()
    assert [change["path"] for change in payload(command)[2:]] == ['/spec/:"<int>"', "/spec/<int>"]
    assert '"value":<int>}' in command


def test_a_name_beyond_what_kubectl_reads_in_yaml_goes_into_a_merge_patch():
    (command,) = entry(
        Problem(("spec", "limits", "\U0001f600"), "1", "odd"), Problem(("spec", "a/b"), "1", "odd")
    ).fix_commands()
    assert "--type=merge" in command
    assert payload(command) == {"spec": {"limits": {"\U0001f600": ANY}, "a/b": ANY}}


def test_exact_digits_reach_the_guard():
    (command,) = entry(Problem(("spec", "l", 0), "1.000000009e+09", "no")).fix_commands()
    assert '"value":1.000000009e+09}' in command


def test_in_one_json_patch_all_tests_come_before_all_changes():
    (command,) = entry(DRAIN, Problem(("spec", "groups", 0), "0", "no")).fix_commands()
    assert [(op["op"], op["path"]) for op in payload(command)] == [
        ("test", "/spec/nodeDrainTimeout"),
        ("test", "/spec/groups/0"),
        ("replace", "/spec/nodeDrainTimeout"),
        ("replace", "/spec/groups/0"),
    ]


def test_what_lies_inside_a_replaced_value_is_not_patched_as_well():
    (command,) = entry(
        Problem(("spec", "a", "b"), "1", "no"),
        Problem(("spec", "a"), '"x"', "no"),
        Problem(("spec", "a"), '"x"', "again"),
    ).fix_commands()
    assert payload(command) == {"spec": {"a": ANY}}


@pytest.mark.parametrize(
    ("problems", "key", "version", "says"),
    [
        ([Problem((), "", "ValueError")], "a/b", "7", "1 of 1 problems: the decoder does not tell"),
        ([DRAIN], "a/b\nc", "7", "no API server takes this name"),
        ([DRAIN], "a/--kubeconfig=x", "7", "no API server takes this name"),
        ([DRAIN], "a/b/c", "7", "no API server takes this name"),
        ([DRAIN], "a/\x00", "7", "no API server takes this name"),
        ([DRAIN], "a/b%20", "7", "no API server takes this name"),
        ([DRAIN], "a/é", "7", "no API server takes this name"),
        ([Problem(("spec", "x", 1), "NaN", "odd")], "a/b", "", "no patch can carry"),
        ([Problem(("spec", "\U0001f600", 1), "1", "odd")], "a/b", "7", "no patch can carry"),
        ([Problem(("spec", "\U0001f600"), "{}", "odd")], "a/b", "7", "no patch can carry"),
    ],
)
def test_no_command_and_it_says_why(problems, key, version, says):
    bad = entry(*problems, key=key, version=version)
    assert bad.fix_commands() == ()
    assert says in fixes.gap(bad)


def test_a_command_for_what_has_a_path_and_a_word_about_the_rest():
    bad = entry(DRAIN, Problem((), "", "ValueError"))
    assert len(bad.fix_commands()) == 1
    assert "1 of 2 problems" in fixes.gap(bad)
    assert fixes.gap(entry(DRAIN)) == ""


def test_a_sensitive_object_is_guarded_by_its_version():
    bad = entry(Problem(("data", "a.b"), '"planted"', "no", DURATION), resource=Resource.parse("secrets.v1"))
    assert payload(bad.fix_commands()[0]) == [
        VERSION,
        {"op": "add", "path": "/data/a.b", "value": "<duration, e.g. 10m>"},
    ]


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """A real shell in which `kubectl` writes down its arguments."""
    folder = tmp_path_factory.mktemp("bin")
    stub = folder / "kubectl"
    stub.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > "$OUT"\n')
    stub.chmod(0o755)

    def run(command: str) -> list[str]:
        out = folder / "argv"
        out.unlink(missing_ok=True)
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env={"PATH": f"{folder}:/usr/bin:/bin", "OUT": str(out)},
            capture_output=True,
            check=True,
            cwd=folder,
            timeout=60,
        )
        assert done.stdout == done.stderr == b""
        assert sorted(p.name for p in folder.iterdir()) == ["argv", "kubectl"]
        return out.read_bytes().decode().split("\0")[:-1]

    return run


NASTY = [
    "$(touch pwned)",
    "`touch pwned`",
    "'",
    '"\'"',
    "a\nb",
    "\x00",
    "\ud800",
    "\U0001f600",
    "!!",
    "\\",
    "; touch pwned",
    "\x7f",
    "\u2028",
    "é",
]
nasty = st.sampled_from(NASTY) | st.text(st.characters(codec=None, exclude_categories=()), max_size=6)


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_quoting_survives_a_real_shell(shell, text):
    value = json.dumps(text)
    for path in (("spec", text), ("spec", "l", 0), ("spec", "plain")):
        for command in entry(Problem(path, value, "no", text)).fix_commands():
            assert command.isascii()
            assert command.isprintable()
            assert shell(command) == shlex.split(command)[1:]
            patches.read(shell(command)[-1])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(nasty | st.integers(0, 9), min_size=1, max_size=3), nasty, nasty), min_size=1, max_size=3
    )
)
def test_any_command_reaches_kubectl_as_it_was_meant(shell, problems):
    made = [Problem(("spec", *path), json.dumps(value), "no", expected) for path, value, expected in problems]
    for command in entry(*made).fix_commands():
        assert command.isascii()
        assert command.isprintable()
        arguments = shell(command)
        assert arguments == shlex.split(command)[1:]
        assert arguments[:4] == ["patch", "nodepools.v1beta1.hypershift.openshift.io", "pool-a", "-n"]
        patches.read(arguments[-1])


@given(st.lists(st.text(max_size=5) | st.integers(0, 99), max_size=5))
def test_pointers_lead_back_to_the_path(path: list[str | int]):
    parts = fixes.pointer(path).split("/")[1:]
    assert [part.replace("~1", "/").replace("~0", "~") for part in parts] == [str(part) for part in path]


def at(tree: object, path: FieldPath) -> object:
    for part in path:
        tree = tree[part]
    return tree
