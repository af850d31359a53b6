"""The few documents that clients such as kubectl read first: API groups, resources and the server's version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from informer.testing._objects import Served

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def document(path: str, served: Iterable[Served], git_version: str) -> Mapping[str, Any] | str | None:
    """What stands at this path, or None when nothing does; text for the health checks."""
    known = list(served)
    match path.strip("/").split("/"):
        case ["healthz" | "livez" | "readyz"]:
            return "ok"
        case ["version"]:
            major, minor = git_version.removeprefix("v").split(".")[:2]
            return {"major": major, "minor": minor, "gitVersion": git_version, "platform": "linux/amd64"}
        case ["api"]:
            return {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = sorted({one.resource.group for one in known} - {""})
            listed = [_group(group, known) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if _versions(group, known):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, known)}
        case ["api", version] if version in _versions("", known) or version == "v1":
            return _resources("", version, known)
        case ["apis", group, version] if version in _versions(group, known):
            return _resources(group, version, known)
    return None


def _versions(group: str, known: list[Served]) -> list[str]:
    return sorted({one.resource.version for one in known if one.resource.group == group})


def _group(group: str, known: list[Served]) -> dict[str, Any]:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in _versions(group, known)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str, known: list[Served]) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    for one in known:
        resource = one.resource
        if (resource.group, resource.version) != (group, version):
            continue
        base = {"singularName": "", "namespaced": resource.namespaced, "kind": one.kind}
        entries.append({"name": resource.plural, **base, "singularName": one.kind.lower(), "verbs": list(_VERBS)})
        if one.has_status:
            entries.append({"name": f"{resource.plural}/status", **base, "verbs": ["get", "patch", "update"]})
        for name, handler in one.subresources.items():
            # A subresource may be of another kind than its parent, as Eviction of policy/v1 is: then its handler says so.
            other = getattr(handler, "discovery", {})
            entries.append({"name": f"{resource.plural}/{name}", **base, "verbs": ["create"], **other})
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}
