"""What the tests of this directory share: a clock to turn by hand, the server's answers, and a CallsApi in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import define, field, frozen

from eviction import PodRef, Refusal, RefusalKind

BUDGET_TEXT = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL_TEXT = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@define
class Clock:
    """A monotonic clock that stands still unless told otherwise."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@frozen
class Response:
    """The shape of aiohttp's response, as far as it is used."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)
    log: list[str] = field(factory=list)

    async def read(self) -> bytes:
        return self.body

    def release(self) -> None:
        self.log.append("release")

    def close(self) -> None:
        self.log.append("close")


def status(code: int, message: str = "", *, reason: str = "", details: Any = None, **headers: str) -> Response:
    """A `v1.Status` as an answer."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code}
    body |= {"reason": reason} if reason else {}
    body |= {"details": details} if details is not None else {}
    return Response(code, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


def by_budget(name: str = "web", cause: str = "needs 2 healthy pods and has 2 currently", **more: Any) -> Response:
    """429 with the cause DisruptionBudget."""
    causes = [{"reason": "DisruptionBudget", "message": f"The disruption budget {name} {cause}"}]
    return status(429, BUDGET_TEXT, reason="TooManyRequests", details={"causes": causes, **more})


EVICTED = Response(201, b'{"kind":"Status","status":"Success"}')
SEVERAL = status(500, SEVERAL_TEXT)
OVERLOAD = Response(429, b"Too many requests, please try again later.", {"Retry-After": "1"})
GONE = status(404, 'pods "web-0" not found', reason="NotFound", details={"name": "web-0", "kind": "pods"})

BLOCKED = Refusal(RefusalKind.BUDGET, "needs 2 healthy pods and has 2", "web", None, 429)

Answer: TypeAlias = Response | BaseException | Callable[[], Any]


@define(eq=False)
class FakeApi:
    """Answers each pod's evictions from a dict; 201 where nothing is said. Keeps every request."""

    answers: dict[str, Answer] = field(factory=dict)
    version: str = "v1"
    evictions: list[tuple[str, dict[str, Any]]] = field(factory=list)
    calls: list[tuple[str, str, dict[str, Any]]] = field(factory=list)

    async def call_api(self, resource_path: str, method: str, /, *args: Any, **kwargs: Any) -> Any:
        assert not args, "everything beside path and method goes by keyword"
        self.calls.append((method, resource_path, kwargs))
        if method == "GET":
            assert resource_path == "/api/v1"
            found = {"name": "pods/eviction", "kind": "Eviction", "group": "policy", "version": self.version}
            return Response(200, json.dumps({"resources": [{"name": "pods"}, found]}).encode())
        pod = resource_path.split("/")[6]
        self.evictions.append((pod, kwargs["body"]))
        answer = self.answers.get(pod, EVICTED)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Response):
            return answer
        made = answer()
        return await made if hasattr(made, "__await__") else made

    def count(self, pod: str) -> int:
        return sum(name == pod for name, _ in self.evictions)


def pod(name: str, uid: str = "", **more: Any) -> PodRef:
    return PodRef(name, "default", uid or f"uid-of-{name}", **more)
