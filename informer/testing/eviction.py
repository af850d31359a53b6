"""The subresource `pods/eviction` for a `FakeApiServer`: PodDisruptionBudgets judged in the order of the real handler.

    async with FakeApiServer([PODS, BUDGETS]) as server:
        evictions = FakeEvictions(server)
        server.create(BUDGETS, budget("web", {"app": "web"}, allowed=0))

There is no disruption controller: a test writes a budget's status, as it does against a bare API server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from attrs import Factory, define, field

from informer.resource import Resource
from informer.selectors import compile_label_selector
from informer.testing._rules import Rule, match
from informer.testing._status import StatusError, details, group_resource
from informer.testing.faults import Answer

if TYPE_CHECKING:
    from informer.testing._front import SubresourceCall
    from informer.testing.server import FakeApiServer

PODS: Final = Resource("", "v1", "pods", kind="Pod")
BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", kind="PodDisruptionBudget")
BETA_BUDGETS: Final = Resource("policy", "v1beta1", "poddisruptionbudgets", kind="PodDisruptionBudget")
"""For a server before 1.21; then Eviction is served as policy/v1beta1 too."""

_TOO_MANY: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_RETRY: Final = 10


@define(eq=False)
class FakeEvictions:
    """Serves evictions on a fake server from the moment it is made.

    Attributes:
        server: serves pods and budgets already.
        budgets: the resource the budgets are read from; its version is also that of the Eviction it understands.
        evicted: `namespace/name` of each pod evicted so far, oldest first; a dry run is not.
        terminating: namespaces that are being deleted: 403 with the cause NamespaceTerminating.
    """

    server: FakeApiServer
    budgets: Resource = BUDGETS
    evicted: list[str] = field(factory=list, init=False)
    terminating: set[str] = field(factory=set, init=False)
    _denials: list[tuple[StatusError, Callable[[Mapping[str, Any]], bool]]] = field(default=Factory(list), init=False)

    def __attrs_post_init__(self) -> None:
        self.server.add_subresource(PODS, "eviction", self)

    @property
    def discovery(self) -> Mapping[str, str]:
        """What `/api/v1` says about the subresource beside its name."""
        return {"group": "policy", "version": self.budgets.version, "kind": "Eviction"}

    def deny(
        self,
        message: str,
        *,
        code: int = 400,
        webhook: str = "evictions.example.test",
        when: Callable[[Mapping[str, Any]], bool] = lambda _pod: True,
    ) -> None:
        """Have an admission webhook deny evictions of the pods for which `when(pod)` is true, until `allow`."""
        text = f'admission webhook "{webhook}" denied the request: {message}'
        self._denials.append((StatusError(code, "", text), when))

    def allow(self) -> None:
        """Take back every `deny`."""
        self._denials.clear()

    def overload(self, *, times: int | None = 1, retry_after: int | None = 1) -> Rule:
        """Answer the next evictions as an overloaded server does: 429 in plain text, without a Status."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        text = "Too many requests, please try again later."
        answer = Answer(429, text, content_type="text/plain; charset=utf-8", headers=headers)
        return self.server.faults.add(match("create", PODS, subresource="eviction"), answer, times=times)

    async def __call__(self, call: SubresourceCall) -> tuple[int, Any]:
        """Judge one eviction, as `EvictionREST.Create` of kubernetes/kubernetes `registry/core/pod/storage` does."""
        body = self._check_body(call)
        dry_run = call.request.query.get("dryRun") == "All"
        if call.namespace in self.terminating:
            _namespace_terminating(call)
        pod = self.server.get(PODS, call.name, namespace=call.namespace)
        for refusal, when in self._denials:
            if when(pod):
                raise refusal
        if not _unprotected(pod):
            self._ask_budgets(pod, dry_run=dry_run)
        # Only now, so that a replaced pod uses its namesake's headroom up; seen on 1.20.
        options = body.get("deleteOptions") or {}
        wanted, uid = (options.get("preconditions") or {}).get("uid"), pod["metadata"]["uid"]
        if wanted is not None and wanted != uid:
            why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
            text = f'Operation cannot be fulfilled on pods "{call.name}": {why}'
            raise StatusError(409, "Conflict", text, details=details(PODS, call.name))
        if not dry_run:
            self.server.delete(PODS, call.name, namespace=call.namespace)
            self.evicted.append(f"{call.namespace}/{call.name}")
        return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _check_body(self, call: SubresourceCall) -> Mapping[str, Any]:
        body = call.body
        if not isinstance(body, Mapping):
            raise StatusError(400, "BadRequest", "the body is no Eviction")
        version = f"policy/{self.budgets.version}"
        understood = {version, "policy/v1beta1"}  # a newer server still reads the older one
        if body.get("apiVersion") not in understood:
            said = body.get("apiVersion")
            text = f"the API version in the data ({said}) does not match the expected API version ({version})"
            raise StatusError(400, "BadRequest", text)
        if (name := (body.get("metadata") or {}).get("name")) not in (None, call.name):
            text = f"name in URL does not match name in Eviction object: {name}"
            raise StatusError(400, "BadRequest", text)
        return body

    def _ask_budgets(self, pod: Mapping[str, Any], *, dry_run: bool) -> None:
        meta = pod["metadata"]
        stored = self.server.objects(self.budgets, namespace=meta["namespace"])
        found = [budget for budget in stored if _selects(budget, meta.get("labels") or {}, self.budgets.version)]
        if len(found) > 1:
            raise StatusError(500, "", _SEVERAL)
        if not found or _spares_unready(found[0], pod):
            return
        budget = found[0]
        name, status = budget["metadata"]["name"], budget.get("status") or {}
        allowed, disrupted = status.get("disruptionsAllowed", 0), status.get("disruptedPods") or {}
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            # 1.20 sends neither the header nor the detail.
            retry = None if self.budgets.version == "v1beta1" else _RETRY
            _too_many_requests(f"The disruption budget {name} is still being processed by the server.", retry)
        if allowed < 0:
            _forbidden(self.budgets, name, "pdb disruptions allowed is negative")
        if len(disrupted) > 2000:
            _forbidden(
                self.budgets, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
            )
        if allowed == 0:
            needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            _too_many_requests(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
        if not dry_run:
            change = {"disruptionsAllowed": allowed - 1, "disruptedPods": {meta["name"]: "2026-01-01T00:00:00Z"}}
            self.server.patch(self.budgets, name, {"status": change}, namespace=meta["namespace"])


def budget(
    name: str, match_labels: Mapping[str, str], *, allowed: int, healthy: int = 2, namespace: str = "default"
) -> dict[str, Any]:
    """A PodDisruptionBudget whose status has been observed: for `server.create(BUDGETS, ...)`."""
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minAvailable": healthy - allowed, "selector": {"matchLabels": dict(match_labels)}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": healthy - allowed,
            "expectedPods": healthy,
        },
    }


def _unprotected(pod: Mapping[str, Any]) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Pending", "Succeeded", "Failed") or bool(pod["metadata"].get("deletionTimestamp"))


def _spares_unready(budget: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return False
    if not conditions:
        return False  # a test that does not care about readiness
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or bool(healthy >= desired > 0)


def _selects(budget: Mapping[str, Any], labels: Mapping[str, str], version: str) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        key, values = one["key"], ",".join(one.get("values") or ())
        texts = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        if one.get("operator") not in texts:
            return False  # what cannot be understood selects nothing
        parts.append(texts[one["operator"]])
    # policy/v1 reads the empty selector as every pod, v1beta1 as none.
    return bool(parts or version != "v1beta1") and compile_label_selector(",".join(parts))(labels)


def _too_many_requests(cause: str, retry_after: int | None = None) -> NoReturn:
    more = {} if retry_after is None else {"retryAfterSeconds": retry_after}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    causes = [{"reason": "DisruptionBudget", "message": cause}]
    raise StatusError(429, "TooManyRequests", _TOO_MANY, details={"causes": causes, **more}, headers=headers)


def _forbidden(resource: Resource, name: str, why: str) -> NoReturn:
    text = f'{group_resource(resource)} "{name}" is forbidden: {why}'
    raise StatusError(403, "Forbidden", text, details=details(resource, name, kind="poddisruptionbudget"))


def _namespace_terminating(call: SubresourceCall) -> NoReturn:
    why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
    causes = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {call.namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    text = f'pods "{call.name}" is forbidden: {why}'
    raise StatusError(403, "Forbidden", text, details=details(PODS, call.name, causes=causes))
