"""`python -m informer scan`: what is found, in which form, and the exit code."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import shlex
import struct
import sys
import termios
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from informer import Resource
from informer.cli import render
from informer.degraded.scan import ScanReport
from informer.objects import ObjectMeta
from informer.problems import Problem, QuarantinedObject
from informer.testing import FakeApiServer, faults, match
from tests.cli.conftest import CRDS, NODEPOOLS, PODS, Cli, pool

CHECK = ("--check", "duration:spec.nodeDrainTimeout")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodepools.hypershift.openshift.io"},
    "spec": {
        "group": "hypershift.openshift.io",
        "scope": "Namespaced",
        "names": {"plural": "nodepools", "kind": "NodePool"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "nodeDrainTimeout": {"type": "string"},
                                    "replicas": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}

pytestmark = pytest.mark.usefixtures("kubeconfig")


async def test_clean(server: FakeApiServer, cli: Cli) -> None:
    """When nothing is bad, it should say how much it has looked at, and return 0."""
    server.create(NODEPOOLS, pool("a"))
    server.create(NODEPOOLS, pool("b", namespace="elsewhere"))
    found = await cli("scan", "nodepools", "-A", *CHECK)
    assert found.code == 0
    assert found.out == (
        "2 objects of nodepools.v1beta1.hypershift.openshift.io in the whole cluster, none of them bad by 1 check\n"
    )
    assert found.err == f"looking at the whole cluster of {server.url} (context fake)\n"


async def test_bad(server: FakeApiServer, cli: Cli) -> None:
    """When objects are bad, each should be listed with field, value, reason and command, and the code should be 1."""
    server.create(NODEPOOLS, pool("good"))
    server.create(NODEPOOLS, pool("bad", "1"))
    server.create(NODEPOOLS, pool("dying", "", finalizers=["a/b"]))
    server.delete(NODEPOOLS, "dying", namespace="clusters")
    found = await cli("scan", "nodepools", "-A", *CHECK)
    assert found.code == 1
    lines = found.out.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "FIELD", "VALUE", "REASON"]
    assert lines[1].split()[:4] == ["clusters", "bad", "spec.nodeDrainTimeout", '"1"']
    assert lines[1].endswith("not a duration: missing unit (expected: duration, e.g. 10m)")
    assert lines[2].startswith("clusters    dying (terminating)   spec.nodeDrainTimeout")
    commands = [shlex.split(line) for line in lines if line.startswith("  kubectl ")]
    assert [words[3] for words in commands] == ["bad", "dying"]
    assert "  clusters/dying is being deleted and waits for its finalizer a/b" in lines
    assert lines[-1] == (
        "2 of 3 objects of nodepools.v1beta1.hypershift.openshift.io in the whole cluster cannot be read as asked"
    )
    assert "\x1b" not in found.out


@pytest.mark.parametrize("output", ["json", "yaml"])
async def test_for_programs(server: FakeApiServer, cli: Cli, output: str) -> None:
    """When a program asks, it should get the whole report as JSON or YAML and nothing else on stdout."""
    server.create(NODEPOOLS, pool("good"))
    server.create(NODEPOOLS, pool("bad", "1", finalizers=["a/b", "c/d"]))
    found = await cli("scan", "nodepools", "-n", "clusters", *CHECK, "-o", output)
    assert found.err == ""
    report = json.loads(found.out) if output == "json" else yaml.safe_load(found.out)
    (bad,) = report.pop("bad")
    assert report == {
        "context": "fake",
        "server": server.url,
        "resource": "nodepools.v1beta1.hypershift.openshift.io",
        "kind": "NodePool",
        "namespace": "clusters",
        "checked": 2,
        "unidentifiable": 0,
    }
    assert (bad["namespace"], bad["name"], bad["terminating"], bad["note"]) == ("clusters", "bad", False, "")
    assert bad["finalizers"] == ["a/b", "c/d"]
    assert bad["uid"] == server.get(NODEPOOLS, "bad", namespace="clusters")["metadata"]["uid"]
    assert bad["problems"] == [
        {
            "field": "spec.nodeDrainTimeout",
            "path": ["spec", "nodeDrainTimeout"],
            "value": '"1"',
            "reason": "not a duration: missing unit",
            "expected": "duration, e.g. 10m",
        }
    ]
    assert shlex.split(bad["commands"][0])[:4] == [
        "kubectl",
        "patch",
        "nodepools.v1beta1.hypershift.openshift.io",
        "bad",
    ]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ((), ["in-default"]),
        (("-n", "clusters"), ["a", "b"]),
        (("-A",), ["a", "b", "in-default"]),
        (("-n", "clusters", "-l", "team=x"), ["b"]),
        (("-A", "--field-selector", "metadata.name=a"), ["a"]),
    ],
    ids=["context's namespace", "-n", "-A", "-l", "--field-selector"],
)
async def test_scope(server: FakeApiServer, cli: Cli, options: tuple[str, ...], names: list[str]) -> None:
    """When a scope is given, only what lies in it should be looked at."""
    server.create(NODEPOOLS, pool("a", "1"))
    server.create(NODEPOOLS, pool("b", "1", labels={"team": "x"}))
    server.create(NODEPOOLS, pool("in-default", "1", "default"))
    found = await cli("scan", "nodepools", *options, *CHECK, "-o", "json")
    assert sorted(bad["name"] for bad in json.loads(found.out)["bad"]) == names


UNNAMED = "namespace default has none, and no namespace was named; -A looks into all of them"
MISSING = "(context fake) has no namespace"


@pytest.mark.parametrize(
    ("options", "namespaces", "said"),
    [
        ((), "default", UNNAMED),
        ((), None, UNNAMED),
        ((), "", f"{MISSING} default; it is the context's; name another with -n, or -A for all of them"),
        (("-n", "default"), "default", ""),
        (("-n", "nonesuch"), "default", f"{MISSING} nonesuch; check its spelling"),
        (("-n", "nonesuch"), "forbidden", "namespace nonesuch has none; is the namespace spelled right?"),
        (("-n", "nonesuch"), None, "namespace nonesuch has none; is the namespace spelled right?"),
        (("-A",), "default", ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("command", ["scan", "watch"])
async def test_nothing_in_the_namespace(
    server: FakeApiServer, cli: Cli, command: str, options: tuple[str, ...], namespaces: str | None, said: str
) -> None:
    """When a namespace is empty, because it is another than was meant, "none of them bad" should not pass for an answer.

    namespaces: the one there is; or the user may not look; or, with None, the server has no such resource.
    """
    kind = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
    if namespaces is not None:
        server.add_resource(kind)
    if namespaces == "default":
        server.create(kind, {"metadata": {"name": "default"}})
    if namespaces == "forbidden":
        server.forbid(kind, "get")
    more = ("--seconds", "5") if command == "watch" else ()
    found = await cli(command, "nodepools", *options, *CHECK, *more)
    assert found.code == 0
    looking, *notes = found.err.splitlines()
    assert looking.startswith("looking at ")
    if said.startswith(MISSING):
        said = f"{server.url} {said}"
    assert notes == ([f"note: {said}"] if said else [])


async def test_cluster_scoped(server: FakeApiServer, cli: Cli) -> None:
    """When a resource is cluster-scoped, a namespace should be ignored, as kubectl ignores it."""
    found = await cli("scan", "nodes", "-n", "clusters", "--check", "quantity:status.capacity[*]", "-o", "json")
    assert (found.code, json.loads(found.out)["namespace"]) == (0, None)


async def test_unreadable_and_unidentifiable(server: FakeApiServer, cli: Cli) -> None:
    """When bytes are no text, or an item has no key, that should be found without any check."""
    server.put_raw(PODS, "a", b'{"metadata":{"name":"a","namespace":"default","uid":"u"},"spec":"\xff"}')
    server.put_raw(PODS, "b", b'{"metadata":null}')
    found = await cli("scan", "pods", "-A")
    assert found.code == 1
    assert "invalid UTF-8" in found.out
    assert "no fix command for 1 of 1 problems" in found.out
    assert "1 item without a usable key besides" in found.out
    assert "nothing was asked of the objects but that they are JSON" in found.err


async def test_only_unidentifiable(server: FakeApiServer, cli: Cli) -> None:
    """When the only trouble is an item without a key, it should not be called clean."""
    server.put_raw(PODS, "b", b'{"metadata":null}')
    found = await cli("scan", "pods", "-A")
    assert found.code == 1
    assert "none of them bad; 1 item without a usable key besides" in found.out


async def test_secret_values_stay_secret(server: FakeApiServer, cli: Cli) -> None:
    """When Secrets are scanned, no value should be printed."""
    secrets = Resource("", "v1", "secrets", kind="Secret")
    server.add_resource(secrets)
    server.create(secrets, {"metadata": {"name": "s"}, "data": {"timeout": "hunter2"}})
    for output in ("table", "json", "yaml"):
        found = await cli("scan", "secrets", "--check", "duration:data.timeout", "-o", output)
        assert found.code == 1
        assert "hunter2" not in found.out + found.err


async def test_a_misspelt_field(server: FakeApiServer, cli: Cli) -> None:
    """When no object has the field of a check, that should be said: a misspelt one would make everything look clean."""
    server.create(NODEPOOLS, pool("a", "1"))
    found = await cli("scan", "nodepools", "-A", "--check", "duration:spec.nodeDrainTimout", *CHECK)
    assert found.code == 1
    assert found.err.splitlines()[1:] == [
        "note: no object has a field spec.nodeDrainTimout; if that is a surprise, check its spelling"
    ]


async def test_many_pages(server: FakeApiServer, cli: Cli) -> None:
    """When the list comes in pages, all of them should be read, and a page that has expired should begin it anew."""
    for number in range(1200):
        server.create(NODEPOOLS, pool(f"p-{number}", "1" if number % 100 == 7 else "1h"))
    server.faults.add(
        match("list", NODEPOOLS, when=lambda request: "continue" in request.query),
        faults.status_answer(410, "Expired", "The provided continue parameter is too old"),
    )
    found = await cli("scan", "nodepools", "-A", *CHECK, "-o", "json")
    report = json.loads(found.out)
    assert (found.code, report["checked"], len(report["bad"])) == (1, 1200, 12)
    assert len(server.lists(NODEPOOLS)) == 2 + 3


async def test_schema_of_the_cluster(server: FakeApiServer, cli: Cli) -> None:
    """When the CRD of the cluster is the judge, what it refuses should be found, and what is not judged should be named."""
    server.create(CRDS, CRD)
    server.create(NODEPOOLS, {"metadata": {"name": "a"}, "spec": {"nodeDrainTimeout": 5, "replicas": "3"}})
    found = await cli("scan", "nodepools", "--crd-schema", "-o", "json")
    assert found.code == 1
    (bad,) = json.loads(found.out)["bad"]
    assert [problem["field"] for problem in bad["problems"]] == ["spec.nodeDrainTimeout", "spec.replicas"]
    assert found.err.startswith("note: 1 parts of the schema were not judged: v1beta1: spec.replicas: 1 CEL rule")


@pytest.mark.parametrize(
    ("arguments", "by"),
    [
        ((), ""),
        (CHECK, " by 1 check"),
        ((*CHECK, *CHECK), " by 2 checks"),
        (("--crd-schema",), " by the schema of the CRD"),
        ((*CHECK, "--crd-schema"), " by 1 check and the schema of the CRD"),
        (("--crd-file", "crd.yaml"), " by the schema in crd.yaml"),
    ],
    ids=str,
)
async def test_by_what(
    server: FakeApiServer,
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    by: str,
) -> None:
    """When nothing is bad, it should say by what: another judge may see it otherwise."""
    server.create(CRDS, CRD)
    server.create(NODEPOOLS, pool("a"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(CRD))
    found = await cli("scan", "nodepools", "-A", *arguments)
    assert (found.code, found.out.rpartition(", ")[2]) == (0, f"none of them bad{by}\n")


def entry(value: str, reason: str, *, expected: str = "", finalizers: tuple[str, ...] = ()) -> QuarantinedObject:
    now = datetime.now(UTC)
    return QuarantinedObject(
        resource=NODEPOOLS,
        key="clusters/pool-a",
        uid="u",
        resource_version="1",
        problems=(Problem(("spec", "nodeDrainTimeout"), value, reason, expected),),
        first_seen=now,
        last_seen=now,
        times_seen=1,
        metadata=ObjectMeta(finalizers=finalizers, deletion_timestamp=now if finalizers else None),
    )


REASON = "not a duration: unknown unit 'parsecs'; units are ns, us, ms, s, m, h"


@pytest.mark.parametrize("value", ['"1"', json.dumps("v" * 90)], ids=["short", "long"])
@pytest.mark.parametrize("columns", [None, 0, 20, 80, 100, 120, 200, 400])
def test_width(value: str, columns: int | None) -> None:
    """When the output is a terminal, rows should fit into it as far as they can, and names, fields and commands stay whole."""
    bad = entry(value, REASON, expected="duration, e.g. 10m")
    report = ScanReport(1, (bad,), 0)
    head, row, *rest = render.table(report, NODEPOOLS, "x", render.Style(False), columns=columns)
    cells = [cell.strip() for cell in row.split("   ") if cell.strip()]
    assert cells[:3] == ["clusters", "pool-a", "spec.nodeDrainTimeout"]
    assert f"  {bad.fix_commands()[0]}" in rest
    whole = cells[3:] == [value, f"{REASON} (expected: duration, e.g. 10m)"]
    assert whole is not any("Shortened to the width of the terminal" in line for line in rest)
    if columns is None or columns == 400:
        assert whole
    elif columns >= 80:
        assert max(len(head), len(row)) <= columns
        assert whole or row.endswith(("...", REASON))
    assert cells[-1].startswith("not a duration: u")


@pytest.mark.parametrize("command", ["scan", "watch"])
async def test_errors_name_the_cluster(server: FakeApiServer, cli: Cli, command: str) -> None:
    """When a cluster says no, the error should name it: it may be another than was meant."""
    cluster = f"{server.url} (context fake)"
    assert (await cli(command, "zebra")).error.startswith(f"{cluster} has no kind called zebra; ")
    assert (await cli(command, "zebras.v1.example.test")).error.startswith(f"{cluster} has no zebras in ")
    assert (await cli(command, "nodepools", "--crd-schema")).error.startswith(f"{cluster} has no CRD nodepools.")
    server.forbid(NODEPOOLS, "list")
    assert f", says {cluster}; ask for the right to list and watch" in (await cli(command, "nodepools")).err


async def test_narrow_terminal(server: FakeApiServer, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a terminal is narrow, the scan's table should fit into it, and reports for programs be whole all the same."""
    server.create(NODEPOOLS, pool("bad", "5 parsecs of a very long way"))
    monkeypatch.setattr(render, "width", lambda stream: 80 if stream is sys.stdout else None)
    _, row, shortened, *_ = (await cli("scan", "nodepools", "-A", *CHECK)).out.splitlines()
    assert (len(row), row[-3:]) == (80, "...")
    assert shortened.startswith("Shortened to the width")
    (bad,) = json.loads((await cli("scan", "nodepools", "-A", *CHECK, "-o", "json")).out)["bad"]
    assert bad["problems"][0]["reason"].endswith("units are ns, us, ms, s, m, h")


@pytest.mark.parametrize("columns", [80, 300, 0])
def test_terminal(columns: int) -> None:
    """When it writes to a terminal, its width should count; one that does not tell has none."""
    reader, writer = pty.openpty()
    try:
        fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with open(writer, "w", closefd=False) as stream:
            assert render.width(stream) == (columns or None)
        assert render.width(io.StringIO()) is None
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    ("finalizers", "said"),
    [
        ((), "is being deleted"),
        (("a/b",), "is being deleted and waits for its finalizer a/b"),
        (("a/b", "c/d"), "is being deleted and waits for its finalizers a/b, c/d"),
        (tuple("abcdefg"), "is being deleted and waits for its finalizers a, b, c, d, e and 2 more"),
        (("\x1b[31m",), "is being deleted and waits for its finalizer \\u001b[31m"),
    ],
    ids=["none", "one", "two", "many", "escape"],
)
def test_finalizers(finalizers: tuple[str, ...], said: str) -> None:
    """When a bad object is being deleted, whoever has a finalizer on it should be named: it need not be this program."""
    assert render.deletion(entry("1", "bad", finalizers=finalizers)) == said


async def test_schema_in_a_file(server: FakeApiServer, cli: Cli, tmp_path: Path) -> None:
    """When the CRD is a file, such as the next version's, the cluster's own should not be asked for."""
    server.create(NODEPOOLS, {"metadata": {"name": "a"}, "spec": {"nodeDrainTimeout": 5}})
    file = tmp_path / "crd.yaml"
    file.write_text(f"kind: Other\n---\n{yaml.safe_dump(CRD)}")
    found = await cli("scan", "nodepools", "--crd-file", str(file))
    assert found.code == 1
    assert "an integer, not a string" in found.out
    assert server.lists(CRDS) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        ("a: [", "cannot read"),
        ("kind: Pod", "holds 0 CustomResourceDefinitions; give a file with one"),
        (yaml.safe_dump({**CRD, "spec": {"names": {"plural": "x"}}}), "is not that of nodepools.v1beta1"),
        (
            yaml.safe_dump({**CRD, "spec": {**CRD["spec"], "versions": []}}),
            "has no spec.versions",
        ),
    ],
    ids=["missing", "broken", "no CRD", "another CRD", "no versions"],
)
async def test_no_schema_in_a_file(cli: Cli, tmp_path: Path, content: str | None, message: str) -> None:
    """When the file is no CRD of the resource, one line should say so."""
    file = tmp_path / "crd.yaml"
    if content is not None:
        file.write_text(content)
    assert message in (await cli("scan", "nodepools", "--crd-file", str(file))).error


async def test_no_schema_in_the_cluster(cli: Cli) -> None:
    """When a resource has no CRD, one line should say so and name the other way."""
    assert "has no CRD; use --check" in (await cli("scan", "pods", "--crd-schema")).error
    assert "has no CRD nodepools" in (await cli("scan", "nodepools", "--crd-schema")).error


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (faults.status_answer(403, "Forbidden", "nodepools is forbidden"), "403 Forbidden: list nodepools"),
        (faults.status_answer(401, "Unauthorized", "Unauthorized"), "log in again"),
        (faults.status_answer(503, "ServiceUnavailable", "starting"), "try again in a minute"),
        (faults.status_answer(500, "InternalError", "etcd is gone"), "etcd is gone"),
        (faults.Answer(200, "<html>Log in</html>", content_type="text/html"), "really a Kubernetes API server"),
        (faults.Answer(200, b"\x1b[31m not json \x00"), "no JSON list"),
        (faults.Answer(200, {"kind": "Status", "status": "Failure", "code": 500, "message": "x"}), "500"),
        (faults.NoAnswer(), "cannot reach"),
        (faults.Cut(after_bytes=5), "cannot reach"),
    ],
    ids=["403", "401", "503", "500", "login page", "bytes", "a Status with 200", "silence", "cut off"],
)
async def test_refused(server: FakeApiServer, cli: Cli, fault: faults.Fault, message: str) -> None:
    """When the server refuses the list, or answers nonsense, or nothing, one line should say so, with the next step."""
    server.create(NODEPOOLS, pool("a"))
    server.faults.add(match("list", NODEPOOLS), fault, times=None)
    error = (await cli("scan", "nodepools", "-A", *CHECK)).error
    assert message in error
    assert error.isprintable()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required"),
        (("scan",), "RESOURCE"),
        (("scan", "nodepools", "--check", "duration"), "no check; write KIND:FIELD"),
        (("scan", "nodepools", "--check", "time:spec.a"), "kinds are duration, quantity, int-or-string, timestamp"),
        (("scan", "nodepools", "--check", "duration:spec..a"), "no path of a field"),
        (("scan", "nodepools", "-A", "-n", "a"), "not allowed with"),
        (("scan", "nodepools", "-n", ""), "needs the name of a namespace"),
        (("scan", "nodepools", "-n", "def*"), "needs the name of one namespace, not 'def*'; -A is for all of them"),
        (("watch", "nodepools", "-n", "a,b"), "needs the name of one namespace, not 'a,b'"),
        (("scan", "nodepools", "-o", "xml"), "invalid choice"),
        (("scan", "nodepools", "--print-rules"), "needs at least one --check"),
        (("scan", "nodepools", "--crd-schema", "--crd-file", "x"), "not allowed with"),
        (("watch", "nodepools", "--seconds", "nan"), "must be a number of seconds"),
        (("demo", "--resource", "nodepools"), "does not name a resource"),
        (("fly",), "invalid choice"),
    ],
    ids=str,
)
async def test_usage(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    """When the arguments are wrong, one line should say what is wrong, and the code should be 2."""
    assert message in (await cli(*arguments)).error


async def test_print_rules(server: FakeApiServer, cli: Cli) -> None:
    """When rules are printed, they should be YAML that can be applied: for the CRD, and as a policy; nothing is scanned."""
    server.create(CRDS, CRD)
    found = await cli("scan", "nodepools", *CHECK, "--print-rules")
    assert (found.code, found.err, server.lists(NODEPOOLS)) == (0, "", [])
    crd, policy, binding = yaml.safe_load_all(found.out)
    field = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    (rule,) = field["nodeDrainTimeout"]["x-kubernetes-validations"]
    assert rule["message"] == "spec.nodeDrainTimeout must be a duration, e.g. 10m"
    assert rule["rule"].endswith("&& duration(self) == duration(self)")
    command = next(line for line in found.out.splitlines() if "kubectl patch crd" in line)
    words = shlex.split(command.lstrip("# "))
    patch = json.loads(words[words.index("-p") + 1])
    assert patch[0] == {"op": "test", "path": "/spec/versions/0/name", "value": "v1beta1"}
    assert patch[1]["value"] == [rule]
    assert (policy["kind"], policy["apiVersion"]) == (
        "ValidatingAdmissionPolicy",
        "admissionregistration.k8s.io/v1",
    )
    assert policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == ["nodepools"]
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


async def test_no_rules(server: FakeApiServer, cli: Cli) -> None:
    """When no check can be a rule, one line should say why."""
    server.create(CRDS, CRD)
    arguments = ("scan", "nodepools", "--print-rules", "--check")
    assert "the schema has no field x: the server drops it" in (await cli(*arguments, "duration:spec.x")).error
    assert "which no duration is" in (await cli(*arguments, "duration:spec.replicas")).error
