"""Which cluster is meant: kubeconfigs as kubectl reads them, exec plugins, the pod's own account."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from informer.cli.connect import connect
from informer.cli.errors import CommandError
from informer.testing import FakeApiServer
from tests.cli.conftest import NODEPOOLS, Cli, pool


def config(
    path: Path, *contexts: str, current: str = "", server: str = "http://127.0.0.1:9", user: object = None
) -> Path:
    """A kubeconfig whose contexts, clusters and users have the same names, and namespaces `ns-NAME`."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"{server}/{name}"}} for name in contexts],
        "users": [{"name": name, "user": user or {"token": f"token-{name}"}} for name in contexts],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}} for name in contexts
        ],
        "current-context": current,
    }
    path.write_text(json.dumps(content))
    return path


def whole(server: str, *, user: object, cluster: dict[str, object] | None = None, **more: object) -> str:
    """A kubeconfig with one context `a`."""
    context = {"cluster": "x"} | ({"user": "u"} if user is not None else {})
    content: dict[str, object] = {
        "contexts": [{"name": "a", "context": context}],
        "current-context": "a",
        "users": [{"name": "u", "user": user}],
        "clusters": [{"name": "x", "cluster": {"server": server, **(cluster or {})}}],
    }
    return json.dumps(content | more)


async def reached(kubeconfig: str | None = None, context: str | None = None) -> tuple[str, str]:
    async with connect(kubeconfig, context) as connection:
        return connection.server.rpartition("/")[2], connection.namespace


async def failure(kubeconfig: str | None = None, context: str | None = None) -> str:
    with pytest.raises(CommandError) as error:
        await reached(kubeconfig, context)
    assert "\n" not in str(error.value)
    return str(error.value)


async def test_which_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When several places have a kubeconfig, the option should count before KUBECONFIG, and that before the home directory."""
    (tmp_path / ".kube").mkdir()
    config(tmp_path / ".kube" / "config", "home", current="home")
    one, two = config(tmp_path / "one", "env", current="env"), config(tmp_path / "two", "option", current="option")
    assert await reached() == ("home", "ns-home")
    monkeypatch.setenv("KUBECONFIG", str(one))
    assert await reached() == ("env", "ns-env")
    assert await reached(str(two)) == ("option", "ns-option")


async def test_several_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When KUBECONFIG names several files, they should be merged; the first current context counts, missing files do not."""
    files = [
        tmp_path / "missing",
        config(tmp_path / "none", "a"),
        config(tmp_path / "first", "b", current="b"),
        config(tmp_path / "second", "c", current="c"),
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([*map(str, files), ""]))
    assert await reached() == ("b", "ns-b")
    for name in "abc":
        assert await reached(context=name) == (name, f"ns-{name}")


async def test_namespace_of_the_context(server: FakeApiServer, cli: Cli, tmp_path: Path) -> None:
    """When no namespace is given, the context's should be looked into."""
    path = config(tmp_path / "k", "c", current="c", server=server.url)
    content = json.loads(path.read_text())
    content["clusters"][0]["cluster"]["server"] = server.url
    path.write_text(json.dumps(content))
    server.tokens = {"token-c"}
    server.create(NODEPOOLS, pool("here", "1", "ns-c"))
    server.create(NODEPOOLS, pool("there", "1", "default"))
    arguments = ("scan", "nodepools", "--kubeconfig", str(path), "--check", "duration:spec.nodeDrainTimeout")
    found = await cli(*arguments)
    assert "here" in found.out
    assert "there" not in found.out
    assert (await cli(*arguments, "-n", "default")).out.count("there") > 0


async def test_impossible_namespace_of_the_context(server: FakeApiServer, cli: Cli, tmp_path: Path) -> None:
    """When the context's namespace cannot be one, one line should say so, unless another is named."""
    content = json.loads(server.kubeconfig(tmp_path / "k").read_text())
    content["contexts"][0]["context"]["namespace"] = "team*"
    (tmp_path / "k").write_text(json.dumps(content))
    asked = ("scan", "nodepools", "--check", "duration:spec.nodeDrainTimeout", "--kubeconfig", str(tmp_path / "k"))
    done = await cli(*asked)
    assert (done.code, done.out) == (2, "")
    assert "the context's namespace is 'team*', which no namespace can be called; name one with -n" in done.err
    assert (await cli(*asked, "-n", "team")).code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no kubeconfig: it holds no mapping"),
        ("a: [", "cannot read the kubeconfig"),
        ("\xff", "cannot read the kubeconfig"),
        ("{}", "has no current context; choose one with --context: none"),
        ('{"contexts":[{"name":"a"}]}', "has no current context; choose one with --context: a"),
        ('{"contexts":5,"current-context":"a"}', "has no context a"),
        ('{"contexts":[{"name":"a","context":{}}],"current-context":"a"}', "cannot use context a"),
        (whole("http://h", user=None, clusters=[]), "object with name x"),
        (whole("https://h", user={}, cluster={"certificate-authority": "/nope"}), "File does not exists"),
        (
            whole("https://h", user={}, cluster={"certificate-authority-data": "bm9wZQ=="}),
            "cannot use the certificates",
        ),
        (whole("https://h", user={"client-certificate-data": 5}), "cannot use context a"),
        (whole("https://h", user=None), "or the context has no user"),
    ],
    ids=[
        "empty",
        "broken",
        "binary",
        "nothing",
        "no current",
        "no list",
        "no cluster",
        "unknown cluster",
        "no CA",
        "bad CA",
        "bad user",
        "no user",
    ],
)
async def test_broken_files(tmp_path: Path, content: str, message: str) -> None:
    """When a kubeconfig is broken in any way, one line should say what is wrong with it."""
    path = tmp_path / "k"
    path.write_bytes(content.encode("latin-1"))
    assert message in await failure(str(path))


@pytest.mark.parametrize(
    ("where", "field", "kind", "name"),
    [
        ("cluster", "certificate-authority-data", "cluster", "x"),
        ("user", "client-certificate-data", "user", "u"),
        ("user", "client-key-data", "user", "u"),
    ],
)
async def test_damaged_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, field: str, kind: str, name: str
) -> None:
    """When data in a kubeconfig is cut off, the field and the file should be named, and nothing of the data."""
    whole_data = {"client-certificate-data": "bm9wZQ==", "client-key-data": "bm9wZQ=="}
    broken = {field: "c2VjcmV0XY"}
    user, cluster = (whole_data | broken, {}) if where == "user" else ({}, broken)
    path = tmp_path / "k"
    path.write_text(whole("https://h", user=user, cluster=dict(cluster)))
    other = config(tmp_path / "other", "b")
    monkeypatch.setenv("KUBECONFIG", f"{other}{os.pathsep}{path}")
    message = await failure()
    assert f"{field} of {kind} {name} in {path} is no base64: Incorrect padding" in message
    assert "c2Vj" not in message


async def test_no_certificate(tmp_path: Path) -> None:
    """When certificates cannot be used, the fields they may come from and the file should be named."""
    path = tmp_path / "k"
    path.write_text(whole("https://h", user={}, cluster={"certificate-authority-data": "bm9wZQ=="}))
    assert (await failure(str(path))).endswith(f"; check certificate-authority (a file, or -data) of {path}")


async def test_which_cluster(tmp_path: Path) -> None:
    """When messages name the cluster, they should name the context, too, and no password that stands in the address."""
    path = tmp_path / "k"
    path.write_text(whole("https://me:secret@h:6443/a", user={}))
    async with connect(str(path), None) as connection:
        assert (connection.context, connection.cluster) == ("a", "https://h:6443/a (context a)")


async def test_nothing_to_connect_to(tmp_path: Path) -> None:
    """When there is no configuration, or no such file or context, one line should say where it was looked for."""
    assert await failure() == "there is no kubeconfig at ~/.kube/config; name one with --kubeconfig or KUBECONFIG"
    assert await failure(str(tmp_path / "k")) == f"there is no kubeconfig at {tmp_path / 'k'}; check --kubeconfig"
    path = config(tmp_path / "k", "a", "b", current="a")
    assert await failure(str(path), "x") == f"{path} has no context x; choose one with --context: a, b"


async def test_nobody_there(cli: Cli, tmp_path: Path) -> None:
    """When nobody listens at the server's address, one line should name it."""
    path = config(tmp_path / "k", "a", current="a", server="http://127.0.0.1:1")
    error = (await cli("scan", "pods", "--kubeconfig", str(path))).error
    assert "cannot reach http://127.0.0.1:1/a" in error


def plugin(tmp_path: Path, body: str) -> dict[str, object]:
    script = tmp_path / "plugin.py"
    script.write_text(f"import json, os, sys\n{body}")
    execution = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}
    return {"exec": {**execution, "env": [{"name": "SECRET", "value": "t1"}]}}


GOOD = """
status = {"token": os.environ["SECRET"]}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


@pytest.mark.real_time
async def test_exec_plugin(server: FakeApiServer, cli: Cli, tmp_path: Path) -> None:
    """When the user is an exec plugin, its token should be used."""
    server.tokens = {"t1"}
    path = server.kubeconfig(tmp_path / "k")
    content = json.loads(path.read_text())
    content["users"][0]["user"] = plugin(tmp_path, GOOD)
    path.write_text(json.dumps(content))
    assert (await cli("scan", "nodepools", "--kubeconfig", str(path))).code == 0
    server.tokens = {"t2"}
    assert "log in again" in (await cli("scan", "nodepools", "--kubeconfig", str(path))).error


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('please log in')", "exec: process returned 1. please log in; mend the file or the login"),
        ("print('no json')", "exec: failed to decode process output"),
        ("print('{}')", "missing key"),
        ("print(5)", "cannot use context"),
    ],
)
async def test_exec_plugin_that_fails(tmp_path: Path, body: str, message: str) -> None:
    """When the plugin fails, one line should say what it said."""
    assert message in await failure(str(config(tmp_path / "k", "a", current="a", user=plugin(tmp_path, body))))


@pytest.mark.real_time
async def test_exec_plugin_that_is_not_there(tmp_path: Path) -> None:
    """When the plugin is not installed, one line should name it."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    path = config(tmp_path / "k", "a", current="a", user=user)
    assert "needs no-such-plugin, which is not there; install it" in await failure(str(path))


async def test_refresh(tmp_path: Path) -> None:
    """When credentials are read again, the client should use the new ones."""
    path = config(tmp_path / "k", "a", current="a")
    async with connect(str(path), None) as connection:
        assert connection.api.configuration.api_key["BearerToken"] == "Bearer token-a"
        path.write_text(path.read_text().replace("token-a", "token-b"))
        await connection.refresh()
        assert connection.api.configuration.api_key["BearerToken"] == "Bearer token-b"


async def test_in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When there is no kubeconfig and this is a pod, its account should be used: token, certificate, namespace."""
    from kubernetes_asyncio.config import incluster_config

    from informer.cli import connect as module

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca"))
    monkeypatch.setattr(module, "_POD_NAMESPACE", tmp_path / "namespace")
    assert "Service token file does not exist.; mount its token, or give --kubeconfig" in await failure()
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "ca").write_text("no certificate")
    assert "cannot use the certificates for https://10.0.0.1:443" in await failure()
    import ssl

    monkeypatch.setattr(ssl, "create_default_context", lambda **_: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    async with connect(None, None) as connection:
        assert (connection.server, connection.namespace) == ("https://10.0.0.1:443", "default")
        settings = connection.api.configuration
        assert await settings.get_api_key_with_prefix("BearerToken") == "Bearer secret"
    (tmp_path / "namespace").write_text("mine\n")
    async with connect(None, None) as connection:
        assert connection.namespace == "mine"
        assert connection.cluster == "https://10.0.0.1:443 (the account of this pod)"
    assert "there is no kubeconfig" in await failure(context="a")  # a context has no meaning here
