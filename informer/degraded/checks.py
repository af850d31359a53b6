"""Ready-made checks: one field, one rule about its JSON text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from attrs import field, frozen

from informer import _projection
from informer._projection import Steps
from informer.degraded import formats
from informer.degraded.schema import SchemaCheck
from informer.objects import KubeObject
from informer.problems import DURATION, INT_OR_STRING, QUANTITY, TIMESTAMP, Problem

__all__ = ["Check", "FieldCheck", "SchemaCheck", "duration", "int_or_string", "quantity", "schema", "timestamp"]


class Check(Protocol):
    """Judges one object: every problem it has, nothing when it is good. Synchronous and without side effects."""

    def __call__(self, obj: KubeObject, /) -> Iterable[Problem]:
        """The problems of this object."""
        ...


@frozen
class FieldCheck:
    """A rule for one field, or for every item or value below `[*]`.

    An absent field is no problem; a null one is when `nullable` is False. A null parent counts as absent, as Go's decoders
    count it. A parent of another type, such as a list where the path goes through an object, is a problem at the parent:
    the field could not be read by any typed decoder.

    Attributes:
        path: `spec.nodeDrainTimeout`; `[*]` for every item of a list or every value of a map: `spec.groups[*].tenant`,
            `spec.limits[*]`; a member whose name is not plain stands in brackets: `spec.limits["example.test/gpu"]`.
        rule: from the field's raw JSON (no white space around it) to the reason why it is refused, or None. It must say
            the same of the same bytes every time.
        expected: what would be accepted, for the report and the placeholder of a fix command.
        nullable: whether null is as good as absent.

    Raises:
        ValueError: the path cannot be read.
    """

    path: str
    rule: Callable[[bytes], str | None]
    expected: str
    nullable: bool = True
    steps: Steps = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "steps", parse_path(self.path))

    def judge(self, raw: bytes) -> str | None:
        """The rule, with null judged by `nullable`. O(bytes of the field)."""
        if raw == b"null":
            return None if self.nullable else "must not be null"
        return self.rule(raw)

    def __call__(self, obj: KubeObject, /) -> Iterable[Problem]:
        """Every problem of the field in this object. O(size).

        Raises:
            ValueError: the object's bytes are not valid JSON.
        """
        for found in _projection.find(obj.raw, self.steps):
            if found.wanted:
                yield Problem(found.path, _text(found.raw), f"not {found.wanted}", found.wanted)
            elif reason := self.judge(found.raw):
                yield Problem(found.path, _text(found.raw), reason, self.expected)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def as_checks(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Several checks as a tuple.

    Raises:
        TypeError: it is a single check.
    """
    if callable(checks):
        raise TypeError("`checks` are several, even if there is one: checks=[…]")
    return tuple(checks)


_STEP = re.compile(r'\[\*\]|\["((?:[^"\\]|\\.)+)"\]|(?:^|(?<=.)\.)([^.\[\]"*]+)')


def parse_path(text: str) -> Steps:
    """Read the path of a check; None stands for `[*]`.

    Raises:
        ValueError: it is not such a path.
    """
    steps: list[str | None] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            break
        quoted, plain = match.groups()
        steps.append(re.sub(r"\\(.)", r"\1", quoted) if quoted else plain)
        position = match.end()
    # A leading `$` is JSONPath's root. Taken for a field, it would find nothing, and every object good.
    if not steps or steps[0] is None or text.startswith("$") or position < len(text):
        raise ValueError(
            f"{text!r} is no path of a field; write it like spec.drainTimeout, spec.groups[*].tenant or"
            ' spec.limits["example.test/gpu"]'
        )
    return tuple(steps)


def duration(path: str, *, nullable: bool = True) -> FieldCheck:
    """The field is a Go duration in a string, as metav1.Duration reads it: `10m`, `1h30m`, never a bare `1`.

    Set `nullable=False` where the Go type is no pointer: there null is as bad as `""`.
    """
    return FieldCheck(path, formats.duration_rule, DURATION, nullable)


def quantity(path: str, *, nullable: bool = True) -> FieldCheck:
    """The field is a resource.Quantity: `500m`, `1.5Gi`, or a bare number."""
    return FieldCheck(path, formats.quantity_rule, QUANTITY, nullable)


def int_or_string(path: str, *, nullable: bool = True) -> FieldCheck:
    """The field is an intstr.IntOrString: a 32-bit integer or any string. `true` is neither."""
    return FieldCheck(path, formats.int_or_string_rule, INT_OR_STRING, nullable)


def timestamp(path: str, *, nullable: bool = True) -> FieldCheck:
    """The field is an RFC 3339 timestamp with up to nine digits of fraction, as metav1.Time and MicroTime read it."""
    return FieldCheck(path, formats.timestamp_rule, TIMESTAMP, nullable)


def schema(crd: Mapping[str, Any]) -> SchemaCheck:
    """The whole object is what a CRD's schema asks for: finds stored objects that a later schema would reject.

    Judged as the API server would judge the object if it were written anew: unknown fields are pruned and defaults filled in
    first. CEL rules are not run; `unjudged` of the result names them. It decodes each object and costs a millisecond for a
    large one: for scans rather than for busy informers.

    Args:
        crd: the CustomResourceDefinition (apiextensions.k8s.io/v1), as read from YAML or from a server.

    Raises:
        ImportError: the extra is not installed: `pip install 'kube-informer[schema]'`.
        ValueError: no CRD, or one without a schema.
    """
    return SchemaCheck(crd)
