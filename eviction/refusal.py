"""What did the server say no to? One answer of the eviction endpoint as a kind with a message, whatever bytes it was.

Works alone. A 429 about a budget, and one that only says the server is busy:

>>> from eviction import classify_refusal
>>> class ApiException(Exception):
...     status, headers, body = 429, {"Retry-After": "1"}, b"Too many requests, please try again later."
>>> classify_refusal(ApiException())
Refusal(kind=<RefusalKind.OVERLOADED: 'overloaded'>, message='Too many requests, please try again later.', budget=None, \
retry_after=1.0, status=429)
>>> ApiException.body = '{"kind": "Status", "details": {"causes": [{"reason": "DisruptionBudget", "message": "..."}]}}'
>>> classify_refusal(ApiException()).kind
<RefusalKind.BUDGET: 'budget'>
"""

from __future__ import annotations

import enum
import re
from typing import Final

from attrs import frozen

from eviction import _answer
from eviction._answer import Answer


class RefusalKind(enum.StrEnum):
    """Why an eviction did not happen, in the classes that need different handling."""

    BUDGET = "budget"
    """A PodDisruptionBudget has no headroom. The ordinary case."""
    BUDGET_NOT_OBSERVED = "budget-not-observed"
    """The disruption controller has not caught up with the budget's last change."""
    BUDGET_SYNC_FAILED = "budget-sync-failed"
    """The disruption controller cannot compute the budget: an administrator has to look."""
    SEVERAL_BUDGETS = "several-budgets"
    """Two budgets select the pod, which the endpoint does not support. Only a change of configuration helps."""
    OVERLOADED = "overloaded"
    """The server asks everybody for a pause. Says nothing about the pod, and must not be reported as a blocked drain."""
    WEBHOOK_WAIT = "webhook-wait"
    """Somebody's admission webhook holds the pod back, often while it evacuates it (KubeVirt)."""
    TRANSIENT = "transient"
    """No usable answer: a broken connection, a timeout, a 5xx. The pod may or may not be on its way out."""
    GONE = "gone"
    """The pod or its namespace does not exist any more."""
    REPLACED = "replaced"
    """The pod of that name is another pod now."""
    CONFLICT = "conflict"
    """Somebody else changed the pod at the same moment."""
    NAMESPACE_TERMINATING = "namespace-terminating"
    """The namespace is being deleted, and the pod with it."""
    FORBIDDEN = "forbidden"
    """Not allowed to: RBAC, credentials, or a budget in a state the server refuses to work with."""
    INVALID = "invalid"
    """The server does not understand the request, or there is nothing at this address."""


_OVER = frozenset({RefusalKind.GONE, RefusalKind.REPLACED})


@frozen
class Refusal:
    """One refused eviction. All of it is O(1).

    Attributes:
        kind: What it was about.
        message: The server's text, in one line, shortened.
        budget: Name of the PodDisruptionBudget, where the server named one.
        retry_after: Seconds the server asked to wait, at most 300; None when it did not.
        status: The HTTP status; None when there was no answer.
    """

    kind: RefusalKind
    message: str
    budget: str | None = None
    retry_after: float | None = None
    status: int | None = None

    @property
    def blocks(self) -> bool:
        """False when nothing is left to evict: the pod is gone or replaced, and the drain of it is over."""
        return self.kind not in _OVER


def classify_refusal(exc: BaseException, /) -> Refusal:
    """Read the refusal out of what a Kubernetes client raised. Never raises, whatever the bytes and headers. O(size).

    Made for kubernetes-asyncio's `ApiException`; other clients' exceptions work when they carry a status, a body and headers
    under any of the usual names. Also takes what is raised *instead* of one: a `UnicodeDecodeError` (kubernetes-asyncio
    decodes error bodies as strict UTF-8), a timeout, a broken connection.

    Decides by status and `details.causes`; by the server's English only where it sends nothing else. Sources: the eviction
    handler in kubernetes/kubernetes `pkg/registry/core/pod/storage/eviction.go`; kubernetes#106286 on how hard the cases are
    to tell apart.
    """
    return classify(_answer.of_exception(exc))


# The server's own sentences, where neither status nor causes tell: not a contract, so each miss must land in a safe kind.
_NOT_OBSERVED: Final = re.compile(r"still being processed", re.IGNORECASE)
_SYNC_FAILED: Final = re.compile(r"failed sync", re.IGNORECASE)
_SEVERAL: Final = re.compile(r"more than one PodDisruptionBudget", re.IGNORECASE)
_VIOLATES: Final = re.compile(r"violate the pod's disruption budget", re.IGNORECASE)
_STORAGE: Final = re.compile(r"storage is \(re\)initializing", re.IGNORECASE)
_WEBHOOK: Final = re.compile(r"admission webhook .*denied the request", re.IGNORECASE | re.DOTALL)
_OTHER_UID: Final = re.compile(r"\buid\b.*precondition|precondition.*\buid\b", re.IGNORECASE | re.DOTALL)
_TERMINATING: Final = re.compile(r"namespace .*(is being terminated|terminating)", re.IGNORECASE | re.DOTALL)
_BUDGET_NAME: Final = re.compile(r"disruption budget (\S+)")


def classify(answer: Answer) -> Refusal:
    """The refusal in an answer that was already taken apart. Never raises."""
    budget = None
    if cause := answer.causes.get("DisruptionBudget"):
        named = _BUDGET_NAME.search(cause)
        budget = named.group(1) if named else None
    return Refusal(_kind(answer), answer.message, budget, answer.retry_after, answer.status)


def _kind(answer: Answer) -> RefusalKind:
    status = answer.status
    if not answer.causes and _WEBHOOK.search(answer.message):
        return RefusalKind.WEBHOOK_WAIT  # a webhook picks its own code; 400 when it picks none
    if status == 429:
        return _too_many_requests(answer)
    if status == 503:
        return RefusalKind.OVERLOADED
    if status == 500 and _SEVERAL.search(answer.message):
        return RefusalKind.SEVERAL_BUDGETS  # a bare Status: no reason, no details
    if status == 404:
        # A wrong path or a missing API is a 404 as well, and a drain must never finish because of one.
        return RefusalKind.GONE if answer.details_kind in ("pods", "namespaces") else RefusalKind.INVALID
    if status == 409:
        return RefusalKind.REPLACED if _OTHER_UID.search(answer.message) else RefusalKind.CONFLICT
    if status in (401, 403):
        if "NamespaceTerminating" in answer.causes or (not answer.causes and _TERMINATING.search(answer.message)):
            return RefusalKind.NAMESPACE_TERMINATING
        return RefusalKind.FORBIDDEN
    if status is not None and 300 <= status < 500 and status != 408:
        return RefusalKind.INVALID
    return RefusalKind.TRANSIENT


def _too_many_requests(answer: Answer) -> RefusalKind:
    cause = answer.causes.get("DisruptionBudget")
    if cause is not None:
        text = f"{answer.message} {cause}"
        if _SYNC_FAILED.search(text):
            return RefusalKind.BUDGET_SYNC_FAILED
        # 1.20 sends "not observed" without any Retry-After: only the text tells.
        return (
            RefusalKind.BUDGET_NOT_OBSERVED
            if answer.retry_in_body or _NOT_OBSERVED.search(text)
            else RefusalKind.BUDGET
        )
    if not answer.is_status or _STORAGE.search(answer.message):
        return RefusalKind.OVERLOADED  # priority and fairness answers in plain text
    if not answer.causes and _VIOLATES.search(answer.message):
        return RefusalKind.BUDGET  # servers before causes existed
    return RefusalKind.WEBHOOK_WAIT
