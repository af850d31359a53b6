"""`informer.resource`: names of resources and the paths that follow from them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer.resource import Resource, require_namespace

PARSED = [
    ("pods.v1", Resource("", "v1", "pods"), "/api/v1/pods"),
    ("deployments.v1.apps", Resource("apps", "v1", "deployments"), "/apis/apps/v1/deployments"),
    (
        "nodepools.v1beta1.hypershift.openshift.io",
        Resource("hypershift.openshift.io", "v1beta1", "nodepools"),
        "/apis/hypershift.openshift.io/v1beta1/nodepools",
    ),
    ("nodes.v1", Resource("", "v1", "nodes", namespaced=False), "/api/v1/nodes"),
    (
        "clusterroles.v1.rbac.authorization.k8s.io",
        Resource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False),
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ),
    # The same plural in another group is another resource.
    ("nodes.v1.example.test", Resource("example.test", "v1", "nodes"), "/apis/example.test/v1/nodes"),
]


@pytest.mark.parametrize(("text", "resource", "path"), PARSED, ids=[row[0] for row in PARSED])
def test_parse(text: str, resource: Resource, path: str) -> None:
    """When kubectl's full form is parsed, it should give the resource, its path, and the same text back."""
    assert Resource.parse(text) == resource
    assert Resource.parse(text).path() == path
    assert str(resource) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pods",
        ".v1",
        "pods.",
        "pods..v1",
        "deployments.apps",  # kubectl's short form: without a version this would silently be another resource
        "nodepools.hypershift.openshift.io",
        "pods.vone",
        "pods.v1 ",
        " pods.v1",
        "pods.v1.a/b",
        "po?ds.v1",
        "Pods.v1",
        "...v1",
    ],
)
def test_refused_texts(text: str) -> None:
    """When a text names no resource, it should be refused with the form that is wanted."""
    with pytest.raises(ValueError, match=r"plural\.version\.group|plain lower-case name"):
        Resource.parse(text)


@pytest.mark.parametrize("part", ["", ".", "..", "a/b", "a b", "ä", "a%2f", "a?b", "NodePools"])
def test_refused_parts(part: str) -> None:
    """When a part could not stand in a URL path, it should be refused and named."""
    with pytest.raises(ValueError, match="plural"):
        Resource("example.test", "v1", part)
    with pytest.raises(ValueError, match="version"):
        Resource("example.test", part, "widgets")
    if part:  # the core group is empty
        with pytest.raises(ValueError, match="group"):
            Resource(part, "v1", "widgets")


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "path"),
    [
        (Resource("", "v1", "pods"), None, None, "/api/v1/pods"),
        (Resource("", "v1", "pods"), "", None, "/api/v1/pods"),
        (Resource("", "v1", "pods"), "team-a", None, "/api/v1/namespaces/team-a/pods"),
        (Resource("", "v1", "pods"), "team-a", "web-0", "/api/v1/namespaces/team-a/pods/web-0"),
        (Resource("apps", "v1", "deployments"), "team-a", "a", "/apis/apps/v1/namespaces/team-a/deployments/a"),
        (Resource.parse("nodes.v1"), None, "node-1", "/api/v1/nodes/node-1"),
        (
            Resource.parse("clusterroles.v1.rbac.authorization.k8s.io"),
            None,
            "system:node",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
        ),
        (Resource("", "v1", "pods"), "0", None, "/api/v1/namespaces/0/pods"),
        (Resource("", "v1", "pods"), "a--b-1", None, "/api/v1/namespaces/a--b-1/pods"),
        (Resource("", "v1", "pods"), "n" * 63, None, f"/api/v1/namespaces/{'n' * 63}/pods"),
        (Resource("", "v1", "pods"), "a", "a/../b", "/api/v1/namespaces/a/pods/a%2F..%2Fb"),
        (Resource("", "v1", "pods"), "a", "b?watch=1", "/api/v1/namespaces/a/pods/b%3Fwatch%3D1"),
    ],
)
def test_path(resource: Resource, namespace: str | None, name: str | None, path: str) -> None:
    """When a path is asked for, it should name the scope, and no name should reach beyond its own segment."""
    assert resource.path(namespace, name) == path


@pytest.mark.parametrize("step", [".", ".."])
def test_path_steps(step: str) -> None:
    """When a name is a step of a path, it should be refused: `namespaces/../pods` would be all pods."""
    with pytest.raises(ValueError, match="no name"):
        Resource("", "v1", "pods").path(step)
    with pytest.raises(ValueError, match="no name"):
        Resource("", "v1", "pods").path("team-a", step)


NO_NAMESPACE = [
    "def*",
    "default,shop",
    "!shop",
    "shop ",
    "Shop",
    "a.b",
    "a_b",
    "-a",
    "a-",
    "a/../b",
    "ä",
    "a\n",
    "n" * 64,
]


@pytest.mark.parametrize("namespace", NO_NAMESPACE, ids=ascii)
def test_no_namespace(namespace: str) -> None:
    """When no namespace can have that name, it should be refused: the server would answer "no objects", for ever."""
    with pytest.raises(ValueError, match=re.escape(f"{namespace!r} is no name of one namespace")) as error:
        Resource("", "v1", "pods").path(namespace)
    assert "one informer each" in str(error.value)
    assert "docs/howto/namespaces.md" in str(error.value)


@pytest.mark.parametrize("namespace", [["a", "b"], [], ("a",), {"a"}, 1, 0, False, b"a"], ids=repr)
def test_several_namespaces(namespace: object) -> None:
    """When a namespace is no text, it should be refused, and say how several are followed."""
    with pytest.raises(TypeError, match=r"the name of one namespace, or None for all, not .* one informer each"):
        Resource("", "v1", "pods").path(namespace)  # type: ignore[arg-type]  # the mistake


@given(st.text(max_size=70) | st.from_regex(r"[a-z0-9-]{1,64}", fullmatch=True))
def test_namespaces_are_labels(namespace: str) -> None:
    """When a namespace is taken, it should be a label of RFC 1123, as the server has it, or nothing."""
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-")
    label = len(namespace) <= 63 and set(namespace) <= allowed and not set(namespace[:1] + namespace[-1:]) & {"-"}
    try:
        require_namespace(namespace)
    except ValueError:
        assert not label
    else:
        assert label


def test_namespace_of_a_cluster_scoped_resource() -> None:
    """When a cluster-scoped resource gets a namespace, it should say that this makes no sense."""
    with pytest.raises(ValueError, match=r"nodes\.v1 is cluster-scoped: a namespace \('team-a'\)"):
        Resource.parse("nodes.v1").path("team-a")


def test_kind_is_only_a_word() -> None:
    """When two resources differ in their kind alone, they should be equal."""
    one, other = Resource("", "v1", "pods", kind="Pod"), Resource("", "v1", "pods")
    assert one == other
    assert hash(one) == hash(other)
    assert one != Resource("", "v2", "pods")


@pytest.mark.parametrize(
    ("resource", "sensitive"),
    [
        (Resource("", "v1", "secrets"), True),
        (Resource("", "v1", "secrets", sensitive=False), True),
        (Resource.parse("secrets.v1"), True),
        (Resource("example.test", "v1", "secrets"), False),
        (Resource("example.test", "v1", "vaults", sensitive=True), True),
        (Resource("", "v1", "configmaps"), False),
    ],
)
def test_sensitive(resource: Resource, sensitive: bool) -> None:
    """When a resource holds core Secrets, it should be sensitive whatever a caller says."""
    assert resource.sensitive is sensitive
