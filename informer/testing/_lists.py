"""LIST: resource versions, pages cut from one snapshot, selectors, and what each combination is refused with."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

from attrs import frozen

from informer.resource import Resource
from informer.selectors import compile_field_selector, compile_label_selector
from informer.testing import _status
from informer.testing._history import History, Key, Stored
from informer.testing._objects import Served
from informer.testing._requests import RecordedRequest
from informer.testing._status import StatusError

Selection: TypeAlias = Callable[[Stored], bool]

_VERSION: Final = re.compile(r"[0-9]{1,19}")
_MATCHES: Final = ("Exact", "NotOlderThan")


# What built-in kinds can be selected by, besides name and namespace.
_SELECTABLE: Final[Mapping[tuple[str, str], Set[str]]] = {
    ("", "pods"): {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    },
    ("", "nodes"): {"spec.unschedulable"},
    ("", "namespaces"): {"status.phase"},
    ("", "secrets"): {"type"},
    ("", "services"): {"spec.clusterIP", "spec.type"},
    ("", "replicationcontrollers"): {"status.replicas"},
    ("", "events"): {
        *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion")),
        *("involvedObject.resourceVersion", "involvedObject.fieldPath"),
        *("reason", "reportingComponent", "source", "type"),
    },
    ("apps", "replicasets"): {"status.replicas"},
    ("batch", "jobs"): {"status.successful"},
}


def selection(served: Served, request: RecordedRequest) -> Selection:
    """Whether an object is in the namespace and under the selectors of a request; raises the server's 400."""
    namespace = request.namespace
    label_text, field_text = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    try:
        labels, fields = compile_label_selector(label_text), compile_field_selector(field_text)
    except ValueError as error:
        raise _status.bad_request(str(error)) from None
    _check_fields(served.resource, field_text)

    def selected(stored: Stored) -> bool:
        return (
            (not namespace or stored.key[0] == namespace)
            and (not label_text or labels(stored.labels))
            and (not field_text or fields(stored.tree))
        )

    return selected


def _check_fields(resource: Resource, selector: str) -> None:
    if "." in resource.group:
        return  # a custom resource can be selected by what its CRD declares, which is not known here
    more = _SELECTABLE.get((resource.group, resource.plural))
    for term in re.findall(r"(?:\\.|[^,\\])+", selector):
        path = re.split("[!=]", term, maxsplit=1)[0]
        if path in {"metadata.name", "metadata.namespace"}:
            continue
        if more is None:
            known = 'only "metadata.name", "metadata.namespace"'
            raise _status.bad_request(f'"{path}" is not a known field selector: {known}')
        if path not in more:
            raise _status.bad_request(f"field label not supported: {path}")


def read_version(text: str, prefix: str = "", code: int = 400, reason: str = "BadRequest") -> int:
    """A resource version from a URL; the empty one reads as 0."""
    if text and not _VERSION.fullmatch(text):
        problem = (
            f'{prefix}resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
        raise StatusError(code, reason, problem)
    return int(text or 0)


def list_page(history: History, served: Served, request: RecordedRequest) -> bytes:
    """The body that answers a LIST."""
    selected, limit = selection(served, request), _limit(request.query)
    _check(request.query)
    page = snapshot(history, served, request.query, limit)
    taken, token, left = page.cut(selected, limit)
    meta: dict[str, Any] = {"resourceVersion": str(page.version)}
    if token:
        meta["continue"] = token
        if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
            meta["remainingItemCount"] = left
    head = _status.to_bytes({"kind": f"{served.kind}List", "apiVersion": served.api_version, "metadata": meta})
    return head[:-1] + b',"items":[' + b",".join(stored.item for stored in taken) + b"]}"


@frozen
class Snapshot:
    """The objects at one version, from which pages are cut.

    Attributes:
        version: of the whole list.
        objects: all of them, unselected.
        after: where the page before ended.
        whole: answer everything, whatever the limit.
    """

    version: int
    objects: Mapping[Key, Stored]
    after: Key = ("", "")
    whole: bool = False

    def cut(self, selected: Selection, limit: int) -> tuple[Sequence[Stored], str, int]:
        """One page: its objects, the continue token (empty at the end), and how many are left."""
        keys = sorted(key for key, stored in self.objects.items() if key > self.after and selected(stored))
        taken = keys[:limit] if limit and not self.whole else keys
        left = len(keys) - len(taken)
        return [self.objects[key] for key in taken], _token(self.version, taken[-1]) if left else "", left


def snapshot(history: History, served: Served, query: Mapping[str, str], limit: int) -> Snapshot:
    """The state a LIST is answered from, by its version or continue token; raises the server's 400, 410 and 504."""
    now = Snapshot(history.version, served.table.objects)
    if token := query.get("continue"):
        if query.get("resourceVersion"):
            raise _status.bad_request("specifying resource version is not allowed when using continue")
        version, after = _read_token(token)
        if version == -1:  # the inconsistent remainder that a 410 offered
            return Snapshot(now.version, now.objects, after)
        if version < history.compacted:
            raise _status.continue_expired(_token(-1, after))
        return Snapshot(version, served.table.at(version), after)
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    version = read_version(text, "invalid resource version: ")
    if text in ("", "0"):
        # "0" is answered from the watch cache, which knows no pages.
        return Snapshot(now.version, now.objects, whole=text == "0")
    if version > history.version:
        raise _status.version_too_large(version, history.version)
    if match == "Exact" or (not match and limit):
        # A limit with a version means exactly that version, past the watch cache.
        if version < history.compacted:
            raise _status.list_expired()
        return Snapshot(version, served.table.at(version))
    return now


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "")
    if text and not re.fullmatch(r"-?[0-9]+", text):
        raise _status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(0, int(text or 0))


def _check(query: Mapping[str, str]) -> None:
    match, faults = query.get("resourceVersionMatch", ""), []
    path = "resourceVersionMatch"
    if match:
        if not query.get("resourceVersion"):
            faults.append((path, "Forbidden", "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if query.get("continue"):
            faults.append((path, "Forbidden", "resourceVersionMatch is forbidden when continue is provided"))
        if match not in _MATCHES:
            faults.append((path, "Unsupported value", f'"{match}": supported values: "Exact", "NotOlderThan"'))
        if match == "Exact" and query.get("resourceVersion") == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            faults.append((path, "Forbidden", text))
    if "sendInitialEvents" in query:
        faults.append(("sendInitialEvents", "Forbidden", "sendInitialEvents is forbidden for list"))
    if faults:
        raise _status.invalid_options(faults)


def _token(version: int, after: Key) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(after)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key]:
    try:
        value = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = value["start"].partition("/")
        return int(value["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _status.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
