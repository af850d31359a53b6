"""A pod as far as evicting it needs to know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol, Self

from attrs import field, frozen

from eviction._objects import identity, labels, member

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class PodLike(Protocol):
    """Anything that names a pod and the life of it; an informer's object fits as it is."""

    @property
    def name(self) -> str:
        """`metadata.name`."""

    @property
    def namespace(self) -> str:
        """`metadata.namespace`."""

    @property
    def uid(self) -> str:
        """`metadata.uid`."""


@frozen
class PodRef:
    """One life of one pod. Equal by identity; what a `BudgetIndex` looks at comes along and is no part of it. All is O(1), but
    for `of` from an informer's object, which is read: O(size).

    Attributes:
        name: `metadata.name`.
        namespace: `metadata.namespace`.
        uid: `metadata.uid`; the pod that comes back under the same name has another.
        terminating: It has a deletion timestamp.
        labels: For matching budgets; None when unknown.
        phase: `status.phase`; empty when unknown. Budgets do not protect pods that are pending or finished.
        ready: Whether its Ready condition is true; None when unknown.

    Raises:
        ValueError: No namespace can have that name. A server would answer 404, which reads as "the pod is gone".
        TypeError: The namespace is no text.
    """

    name: str
    namespace: str = field()
    uid: str
    terminating: bool = False
    labels: Mapping[str, str] | None = field(default=None, kw_only=True, eq=False, repr=False)
    phase: str = field(default="", kw_only=True, eq=False, repr=False)
    ready: bool | None = field(default=None, kw_only=True, eq=False, repr=False)

    @namespace.validator
    def _one_namespace(self, _: object, value: object) -> None:
        if not isinstance(value, str):
            raise TypeError(f"the namespace of pod {self.name!r:.300} is the name of one namespace, not {value!r:.200}")
        if not _LABEL.fullmatch(value):
            raise ValueError(
                f"the namespace of pod {self.name!r:.300} is {value!r:.200}, which no namespace can be called"
            )

    @classmethod
    def of(cls, pod: Any, /) -> Self:
        """From a dict, a client's `V1Pod`, an informer's object, or anything with a name, a namespace and a uid.

        Raises:
            ValueError: One of the three is missing, or no namespace can have that name. Without a uid the wrong pod could
                be evicted.
        """
        if isinstance(pod, cls):
            return pod
        namespace, name, uid = identity(pod)
        for what, value in (("name", name), ("namespace", namespace), ("uid", uid)):
            if not value:
                raise ValueError(f"the pod {namespace}/{name} has no {what}: PodRef.of needs name, namespace and uid")
        phase = member(pod, "status", "phase")
        return cls(
            name,
            namespace,
            uid,
            member(pod, "metadata", "deletionTimestamp") is not None,
            labels=labels(pod),
            phase=phase if isinstance(phase, str) else "",
            ready=_ready(pod),
        )

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def _ready(pod: Any) -> bool | None:
    conditions = member(pod, "status", "conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if member(condition, "type") == "Ready":
            return bool(member(condition, "status") == "True")
    return None if member(pod, "status") is None else False
