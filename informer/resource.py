"""Which kind of object is meant: group, version and plural, and the API path that follows from them."""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import quote

from attrs import field, frozen

# Kubernetes' own cluster-scoped resources, so that `Resource.parse("nodes.v1")` is right without asking a server.
_CLUSTER_SCOPED = frozenset(
    {
        ("", "namespaces"),
        ("", "nodes"),
        ("", "persistentvolumes"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("certificates.k8s.io", "certificatesigningrequests"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "ingressclasses"),
        ("node.k8s.io", "runtimeclasses"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("scheduling.k8s.io", "priorityclasses"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
    }
)

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")


def require_resource(value: object) -> None:
    """Refuse what is no Resource with what to write instead.

    Raises:
        TypeError: such as for a name.
    """
    if not isinstance(value, Resource):
        raise TypeError(f"a Resource is needed, not {value!r}; Resource.parse('pods.v1') makes one of a name")


def require_namespace(value: object) -> None:
    """Refuse what cannot be the name of one namespace; None and `""` stand for all.

    A server does not: it answers a LIST in `def*` with "no objects", and a cache would call that complete.

    Raises:
        ValueError: no label of RFC 1123, the only names that the API server gives to namespaces.
        TypeError: no text, such as a list of names.
    """
    several = "for several, make one informer each: factory.informer(…, namespace=one) (docs/howto/namespaces.md)"
    if value is not None and not isinstance(value, str):
        raise TypeError(f"namespace is the name of one namespace, or None for all, not {value!r:.200}; {several}")
    if value and not _LABEL.fullmatch(value):
        raise ValueError(
            f"namespace {value!r:.200} is no name of one namespace (lower-case letters, digits and '-', at most 63), "
            f"nor are there patterns; {several}"
        )


@frozen
class Resource:
    """A kind of object as the API server names it. All of it is O(1).

    Two resources are equal when the server serves them under the same path: `kind` is only a word for people.

    Attributes:
        group: API group, `""` for the core group.
        version: API version, such as `v1` or `v1beta1`.
        plural: the lower-case plural that stands in the path, such as `nodepools`.
        kind: the kind, such as `NodePool`; may stay empty, nothing depends on it.
        namespaced: False for cluster-scoped resources.
        sensitive: True when values must never leave the object (log, quarantine, metrics). Always true for core Secrets.

    Raises:
        ValueError: a part is empty or could not stand in a URL path.
    """

    group: str
    version: str
    plural: str
    kind: str = field(kw_only=True, default="", eq=False)
    namespaced: bool = field(kw_only=True, default=True)
    sensitive: bool = field(kw_only=True, default=False)

    def __attrs_post_init__(self) -> None:
        for part, text in (("group", self.group or "core"), ("version", self.version), ("plural", self.plural)):
            if text in {"", ".", ".."} or text != quote(text.lower(), safe=""):
                msg = f"{part} {text!r} of a Resource must be a plain lower-case name, such as 'nodepools'"
                raise ValueError(msg)
        if (self.group, self.plural) == ("", "secrets"):
            object.__setattr__(self, "sensitive", True)  # core Secrets stay sensitive whatever a caller says

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read kubectl's full form, `plural.version.group`; the core group is left out: `pods.v1`.

        Kubernetes' own cluster-scoped resources are recognised. For a cluster-scoped custom resource, use the
        constructor with `namespaced=False`; also for a version that is not named like `v1` or `v2beta1`, since here
        `deployments.apps` would be read as a version.

        Raises:
            ValueError: the text has no version; the message shows the form.
        """
        plural, _, rest = text.partition(".")
        version, _, group = rest.partition(".")
        if not plural or not _VERSION.fullmatch(version):
            msg = f"{text!r} does not name a resource; write plural.version.group, such as 'pods.v1' or 'deployments.v1.apps'"
            raise ValueError(msg)
        return cls(group, version, plural, namespaced=(group, plural) not in _CLUSTER_SCOPED)

    def __str__(self) -> str:
        return ".".join(part for part in (self.plural, self.version, self.group) if part)

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of the collection, or of one object when `name` is given.

        Without a namespace the path spans all namespaces, as does a cluster-scoped resource's.

        Raises:
            ValueError: a namespace for a cluster-scoped resource, or one that cannot be the name of a namespace.
            TypeError: a namespace that is no text.
        """
        require_namespace(namespace)
        if name in {".", ".."}:  # a URL library would take it for a step
            raise ValueError(f"{name!r} is no name of an object")
        if namespace and not self.namespaced:
            msg = f"{self} is cluster-scoped: a namespace ({namespace!r}) makes no sense here"
            raise ValueError(msg)
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=":"))
        return "/".join(parts)
