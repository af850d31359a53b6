"""One eviction, and one pass over a node: classifier, throttle, deadline and budgets tied together over an ApiClient."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from attrs import evolve, field, frozen

from eviction import _http
from eviction._client import CallsApi
from eviction._message import describe
from eviction._pacing import LASTING
from eviction._seconds import at_least
from eviction.deadline import Deadline
from eviction.pods import PodRef
from eviction.refusal import Refusal, RefusalKind, classify, classify_refusal
from eviction.requeue import Requeue
from eviction.throttle import Denied, EvictionThrottle, Permit

if TYPE_CHECKING:
    from eviction.budgets import BudgetIndex
    from eviction.metrics import EvictionMetrics


class Outcome(enum.StrEnum):
    """What became of one pod in one pass."""

    EVICTED = "evicted"
    """Accepted. The pod goes when its grace period is over."""
    GONE = "gone"
    """This life of the pod has ended; another pod of that name is none of this drain's business."""
    TERMINATING = "terminating"
    """It was on its way out already. Nothing was sent: wait for it."""
    REFUSED = "refused"
    """Not evicted; the refusal says why. For a transient one the outcome is unknown."""


@frozen
class EvictResult:
    """One pod's outcome. `refusal` is set exactly when the outcome is `REFUSED`."""

    pod: PodRef
    outcome: Outcome
    refusal: Refusal | None = None


@frozen
class NodeResult:
    """One pass over a node.

    Attributes:
        node: The key it was throttled by.
        requeue: When to come again, already clamped to the deadline. `DONE` when nothing is blocked: what is still
            terminating ends in an event of the pod, not at a time.
        results: What happened to each pod, sorted by namespace and name. Empty when nothing was sent.
        denied: The node was gated. After an expired deadline: what would gate it.
    """

    node: Hashable
    requeue: Requeue
    results: tuple[EvictResult, ...]
    denied: Denied | None

    @property
    def blocked(self) -> Mapping[PodRef, Refusal]:
        """The refused pods of this pass and why. An overloaded server is no reason to call a drain blocked: see the kind.

        O(pods).
        """
        return MappingProxyType({result.pod: result.refusal for result in self.results if result.refusal is not None})

    @property
    def message(self) -> str:
        """Who blocks the node, for a condition: sorted, and the same on gated passes as on the attempt before them.

        O(pods x log pods).
        """
        if self.denied is not None:
            return "" if self.denied.refusal is None else self.denied.refusal.message
        return describe(self.node, self.blocked)


async def evict(
    api_client: CallsApi,
    pod: PodRef,
    /,
    *,
    timeout: float = 30.0,  # noqa: ASYNC109 - the client gets it too, and closes the connection
    dry_run: bool = False,
    grace_period: int | None = None,
) -> EvictResult:
    """Ask the server once to evict this life of this pod.

    Sends the uid as a precondition (kubernetes#138555: the pod that came back under the name was evicted instead). Uses
    policy/v1, or policy/v1beta1 where only that is served. Never repeats the request by itself. O(1).

    Args:
        api_client: An ApiClient of kubernetes-asyncio, or of `kubernetes.aio`.
        pod: The pod; `PodRef.of` makes one.
        timeout: Seconds for the whole call. The server itself may take ten to win a conflict over the budget.
        dry_run: Let the server judge without doing. Uses up no headroom.
        grace_period: Seconds for the pod to end; its own when None.

    Returns:
        The outcome; a refusal is a value, not an exception. A timeout or a broken connection is `REFUSED` as transient.

    Raises:
        TypeError: The pod is no PodRef.
        ValueError: The timeout is not positive, or the grace period is negative.
    """
    if not isinstance(pod, PodRef):
        raise TypeError(f"evict takes a PodRef, not {type(pod).__name__}; PodRef.of(pod) makes one")
    if at_least(0.0, timeout, "timeout") == 0:
        raise ValueError("timeout must be more than zero")
    if grace_period is not None and grace_period < 0:
        raise ValueError(f"grace_period must not be negative, but is {grace_period!r}")
    if pod.terminating:
        return EvictResult(pod, Outcome.TERMINATING)
    refusal = await _refusal(api_client, pod, timeout, dry_run=dry_run, grace_period=grace_period)
    if refusal is None:
        return EvictResult(pod, Outcome.EVICTED)
    return EvictResult(pod, Outcome.REFUSED, refusal) if refusal.blocks else EvictResult(pod, Outcome.GONE)


async def _refusal(
    api_client: CallsApi, pod: PodRef, limit: float, *, dry_run: bool, grace_period: int | None
) -> Refusal | None:
    import asyncio  # noqa: PLC0415 - the plain modules of this package stay importable without it

    path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/eviction"
    query = [("dryRun", "All")] if dry_run else []

    async def post(version: str) -> Any:
        body = _http.eviction_body(version, pod.namespace, pod.name, pod.uid, grace_period)
        response = await _http.request(api_client, "POST", path, timeout=limit, query=query, body=body)
        return _http.answer_of(response)

    try:
        async with asyncio.timeout(limit):
            version = await _http.eviction_version(api_client, timeout=limit)
            answer = await post(version)
            if version == _http.V1 and _http.refuses_version(answer):
                answer = await post(_http.V1BETA1)
                if not _http.refuses_version(answer):
                    _http.remember_version(api_client, _http.V1BETA1)
    except TimeoutError:
        return Refusal(RefusalKind.TRANSIENT, f"no answer within {limit:g} s: the pod may or may not be on its way out")
    except Exception as exc:
        if not _http.no_answer(exc):
            raise
        return classify_refusal(exc)
    return None if answer.status is not None and 200 <= answer.status < 300 else classify(answer)


async def evict_node(
    api_client: CallsApi,
    node: Hashable,
    pods: Iterable[PodRef],
    /,
    *,
    throttle: EvictionThrottle,
    deadline: Deadline | None = None,
    budgets: BudgetIndex | None = None,
    concurrency: int = 5,
    metrics: EvictionMetrics | None = None,
) -> NodeResult:
    """One pass over a node: try every pod once if the node's turn has come, and say when to come again.

    Nothing is waited for between attempts, so a blocked pod holds no slot. A call that is in flight when the deadline
    passes is cancelled. After the deadline nothing is sent any more: what happens then is the caller's decision. One request
    and O(log pods) for each pod.

    Args:
        api_client: An ApiClient of kubernetes-asyncio, or of `kubernetes.aio`.
        node: The key for the throttle; `(name, uid)` for a node that may come back under its name.
        pods: The pods of the node that have to go.
        throttle: Shared by all passes.
        deadline: When the drain has to be over.
        budgets: Answers for the server where it is sure of a refusal, and releases the node when a budget has headroom again.
        concurrency: Requests at a time.
        metrics: Where to count.

    Raises:
        ValueError: `concurrency` is less than one.
        TypeError: Something in `pods` is no PodRef.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency!r}")
    deadline = Deadline() if deadline is None else deadline
    every = sorted(set(pods), key=lambda pod: (pod.namespace, pod.name, pod.uid))
    if deadline.expired:
        return NodeResult(node, Requeue.NOW, (), throttle.peek(node))
    if all(pod.terminating for pod in every):
        throttle.forget(node)
        if budgets is not None:
            budgets.forget(node)
        done = tuple(EvictResult(pod, Outcome.TERMINATING) for pod in every)
        return NodeResult(node, deadline.clamp(Requeue.DONE), done, None)
    permit = throttle.acquire(node)
    if not permit:
        if metrics is not None:
            metrics.throttled(permit.reason)
        return NodeResult(node, deadline.clamp(Requeue.after(permit.retry_in)), (), permit)
    with permit:
        mark = throttle.mark()
        known = {} if budgets is None else budgets.foresee(node, every)
        batch = _Batch(
            api_client, concurrency, metrics, {pod: _refused(pod, refusal) for pod, refusal in known.items()}
        )
        await batch.run([pod for pod in every if pod not in known], deadline)
        results = tuple(batch.results[pod] for pod in every)
        blocked = NodeResult(node, Requeue.DONE, results, None).blocked
        _answer(permit, node, blocked)
    if budgets is not None:
        for pod, refusal in blocked.items():
            if refusal.kind in _BUDGETS:
                budgets.waiting(node, pod, since=mark)
    if metrics is not None:
        metrics.passed(node, blocked=bool(blocked))
    requeue = Requeue.DONE if not blocked else Requeue.after(_wait(throttle.peek(node)))
    return NodeResult(node, deadline.clamp(requeue), results, None)


_BUDGETS = frozenset(
    {
        RefusalKind.BUDGET,
        RefusalKind.BUDGET_NOT_OBSERVED,
        RefusalKind.BUDGET_SYNC_FAILED,
        RefusalKind.SEVERAL_BUDGETS,
    }
)


def _wait(denied: Denied | None) -> float:
    return 1.0 if denied is None else denied.retry_in  # None: a throttle of interval 0. "Now" would spin.


def _refused(pod: PodRef, refusal: Refusal) -> EvictResult:
    return EvictResult(pod, Outcome.REFUSED, refusal)


def _answer(permit: Permit, node: Hashable, blocked: Mapping[PodRef, Refusal]) -> None:
    if not blocked:
        permit.succeeded()
        return
    for refusal in blocked.values():
        permit.refused(refusal)
    # Remembered is one refusal with the whole node's text, so that gated passes say the same as this one.
    rank = list(RefusalKind)
    main = min(
        blocked.values(), key=lambda refusal: (refusal.kind in LASTING, rank.index(refusal.kind), str(refusal.budget))
    )
    permit.refused(evolve(main, message=describe(node, blocked)))


@frozen
class _Batch:
    """The requests of one pass."""

    api_client: CallsApi
    concurrency: int
    metrics: EvictionMetrics | None
    results: dict[PodRef, EvictResult] = field(factory=dict)

    async def run(self, pods: Iterable[PodRef], deadline: Deadline) -> None:
        """Try each pod once; whatever has no answer when the deadline passes is cut off."""
        import asyncio  # noqa: PLC0415 - as above

        slots = asyncio.Semaphore(self.concurrency)

        async def one(pod: PodRef) -> None:
            async with slots:
                began = asyncio.get_running_loop().time()
                result = self.results[pod] = await evict(self.api_client, pod)
                if self.metrics is not None and result.outcome is not Outcome.TERMINATING:
                    kind = result.outcome if result.refusal is None else result.refusal.kind
                    self.metrics.attempted(kind, asyncio.get_running_loop().time() - began)

        pods = list(pods)
        try:
            async with asyncio.timeout(deadline.remaining()) as limit, asyncio.TaskGroup() as group:
                for pod in pods:
                    group.create_task(one(pod))
        except TimeoutError:
            if not limit.expired():
                raise
            text = "cut off by the drain's deadline: the pod may or may not be on its way out"
            for pod in pods:
                self.results.setdefault(pod, _refused(pod, Refusal(RefusalKind.TRANSIENT, text)))
