"""What is said about hostile objects: one printable line each, and commands that a real shell takes as they are meant."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from informer import (
    ApiListerWatcher,
    DegradedListerWatcher,
    KubeObject,
    Problem,
    QuarantinedObject,
    SharedInformer,
    WatchOptions,
    checks,
)
from informer.testing.virtual import run
from tests import patches
from tests.logs import keeping

from .bytes import NASTY, NASTY_TEXT, POISON, WIDGETS, Client, Response, item, page

said = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], database=None)  # fmt: skip


def strictly(obj: KubeObject) -> object:
    return msgspec.json.decode(obj.raw, type=Strict)


class Strict(msgspec.Struct):
    metadata: dict[str, object]
    spec: dict[str, int | dict[str, int]] = {}


def nasty(obj: KubeObject) -> list[Problem]:
    """A check of one's own, which takes its texts from the object."""
    value = obj.get("spec", {}).get("text") if isinstance(obj.get("spec"), dict) else None
    return [Problem(("spec", str(value)), json.dumps(value), f"{value} is wrong", f"not {value}")] if value else []


class Once(Client):
    """The list, and then watches that stay silent."""

    async def call_api(self, resource_path: str, method: str, /, *args: object, **kwargs: object) -> Response:
        response: Response = await super().call_api(resource_path, method, *args, **kwargs)
        if ("watch", "true") in kwargs["query_params"]:  # type: ignore[operator]
            await asyncio.sleep(3600)
        return response


async def follow(body: bytes) -> list[QuarantinedObject]:
    raw = ApiListerWatcher(Once(body), WIDGETS)
    source = DegradedListerWatcher(
        raw, decode=strictly, checks=[checks.duration("spec.timeout"), checks.quantity("spec.map[*]"), nasty]
    )
    async with SharedInformer(source) as informer:
        await asyncio.sleep(700)
        assert informer.health.synced
        assert informer.health.state in ("live", "failing")
        assert (informer.health.last_error or "").isprintable()
        return list(source.quarantine.values())


TREES = st.recursive(
    NASTY_TEXT | st.none() | st.booleans() | st.integers() | st.sampled_from([0.5, 10**30]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NASTY_TEXT, inner, max_size=2),
    max_leaves=4,
)
# Mostly such as a server takes, or there would be few commands to run.
NAMES = st.one_of(st.sampled_from(["web-0", "a.b.c", "x1"]), st.sampled_from(["b1", "b2", "b3", "b4"]), NASTY_TEXT)
SPACES = st.one_of(st.just("default"), st.just("team-a"), st.just("team-b"), NASTY_TEXT)
OBJECTS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": NAMES, "namespace": SPACES},
            optional={
                "labels": st.dictionaries(NASTY_TEXT, NASTY_TEXT, max_size=1),
                "uid": NASTY_TEXT,
                "resourceVersion": NASTY_TEXT,
                "finalizers": st.lists(NASTY_TEXT, max_size=1),
                "deletionTimestamp": st.just("2026-01-01T00:00:00Z") | NASTY_TEXT,
            },
        ),
        "spec": st.fixed_dictionaries(
            {}, optional={"timeout": TREES, "map": st.dictionaries(NASTY_TEXT, TREES, max_size=2), "text": NASTY_TEXT}
        ),
    }
)


class Shell:
    """A shell that knows one command, a kubectl that writes down what it is called with."""

    def __init__(self, directory: Path) -> None:
        self.work, self.bin, self.calls = directory / "work", directory / "bin", directory / "calls"
        self.work.mkdir()
        self.bin.mkdir()
        kubectl = self.bin / "kubectl"
        kubectl.write_text(
            f'#!/bin/sh\nprintf "%s\\0" "$@" >> {shlex.quote(str(self.calls))}\nprintf "\\n\\0" >> {self.calls}\n'
        )
        kubectl.chmod(0o755)
        (self.work / "a file").touch()  # for a `*` that is expanded

    def __call__(self, text: str) -> list[list[str]]:
        """Paste a line; returns the arguments of each kubectl that ran."""
        self.calls.write_bytes(b"")
        done = subprocess.run(
            ["/bin/sh"],
            input=text.encode() + b"\n",
            cwd=self.work,
            env={"PATH": str(self.bin), "HOME": "/nowhere"},
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), (text, done)
        assert [path.name for path in self.work.iterdir()] == ["a file"], text
        words = self.calls.read_bytes().decode().split("\0")
        calls: list[list[str]] = [[]]
        for word in words[:-1]:
            if word == "\n":
                calls.append([])
            else:
                calls[-1].append(word)
        return calls[:-1]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def pasted(line: str) -> str:
    """What a reader copies from a log line: all that follows the words `To fix it:`, up to a remark in brackets."""
    _, found, command = line.partition("To fix it: ")
    return command.partition(" (no fix command")[0] if found else ""


@given(st.lists(OBJECTS, min_size=1, max_size=4))
@said
def test_log_lines_and_commands(shell: Shell, objects: list[object]):
    """When objects have hostile names, keys and values, every log line should be one printable line, and its commands run in
    a shell as kubectl with exactly the arguments that are meant, and nothing else.
    """
    items = [json.dumps(one).encode() for one in objects]
    with keeping("informer") as records:
        entries = run(follow(page(items)))
    lines = [record.getMessage() for record in records]
    for record, line in zip(records, lines, strict=True):
        assert line.isprintable(), line
        assert len(line.encode()) < 4096
        assert record.exc_info is None
    commands = [command for entry in entries for command in entry.fix_commands()]
    for command in commands:
        assert command.isascii(), command
        assert command.isprintable(), command
    script = "\n".join([*commands, *filter(None, map(pasted, lines))])
    calls = shell(script)
    expected = [shlex.split(command)[1:] for command in commands]
    assert calls[: len(commands)] == expected
    assert all(call in expected for call in calls[len(commands) :])  # those of the log are the same ones
    for words in calls:
        assert words[0] == "patch"
        assert words[1] == "widgets.v1.example.test"
        patches.read(words[words.index("-p") + 1])


def test_each_nasty_text(shell: Shell):
    """When a nasty text is a key, a value, a label or a finalizer of an object with a good name, it should have a command."""
    for n, text in enumerate(NASTY):
        meta = {"name": f"w{n}", "namespace": "default", "uid": f"u{n}", "resourceVersion": "7", "finalizers": [text]}
        spec = {"timeout": text, "map": {text: "no quantity"}}
        body = page([json.dumps({"metadata": meta | {"labels": {"x": text}}, "spec": spec}).encode()])
        with keeping("informer") as records:
            (entry,) = run(follow(body))
        lines = [record.getMessage() for record in records]
        assert all(line.isprintable() and len(line.encode()) < 4096 for line in lines), text
        commands = entry.fix_commands()
        if text != "\ud800":  # bytes that are no JSON text: no field to name
            assert commands, text
        assert shell("\n".join(commands)) == [shlex.split(command)[1:] for command in commands]


@pytest.mark.parametrize("poison", POISON, ids=lambda poison: ascii(poison[:12]))
def test_poison_is_named(poison: bytes, shell: Shell):
    """When an object has bytes that are no JSON, there should be one line about it, and its neighbour be live."""
    with keeping("informer") as records:
        entries = run(follow(page([item("h", poison=poison), b'{"metadata":{"name":"good"},"spec":{}}'])))
    lines = [record.getMessage() for record in records]
    assert all(line.isprintable() and len(line.encode()) < 4096 for line in lines)
    assert [entry.name for entry in entries] == ["h"]
    assert any("default/h cannot be read" in line for line in lines)
    for line in lines:
        if command := pasted(line):
            shell(command)
    try:
        entries[0].to_dict()
    except ValueError as error:
        assert len(str(error)) < 500


def test_the_shell_sees_an_attack(shell: Shell):
    """When a line is not safe to paste, the shell of these tests should tell."""
    with pytest.raises(AssertionError):
        shell("kubectl patch x; touch pwned")
    with pytest.raises(AssertionError):
        shell("echo $(kubectl)")
    assert shell("kubectl patch 'a b' \"$(:)\"") == [["patch", "a b", ""]]


def test_the_options_of_a_watch():
    """When a version is hostile, it should stay one parameter of the request."""
    options = WatchOptions(resource_version="1&watch=false\r\nX: y")
    seen: list[object] = []

    class Recording(Client):
        async def call_api(self, resource_path: str, method: str, /, *args: object, **kwargs: object) -> Response:
            seen.append(kwargs["query_params"])
            response: Response = await super().call_api(resource_path, method)
            return response

    async def main() -> None:
        async with ApiListerWatcher(Recording(b""), WIDGETS).watch(options) as events:
            async for _ in events:
                pass

    logging.getLogger("informer")
    run(main())
    assert ("resourceVersion", "1&watch=false\r\nX: y") in seen[0]  # type: ignore[operator]
