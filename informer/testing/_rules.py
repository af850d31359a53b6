"""Which requests are hit by which fault, in which order."""

from __future__ import annotations

from collections.abc import Callable

from attrs import Factory, define, frozen

from informer.resource import Resource
from informer.testing._requests import RecordedRequest
from informer.testing.faults import Fault, Together


@frozen(kw_only=True)
class Match:
    """Which requests a rule is about; what is None is not looked at."""

    verb: str | None = None
    resource: Resource | None = None
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    when: Callable[[RecordedRequest], bool] | None = None

    def __call__(self, request: RecordedRequest) -> bool:
        """Whether the request is meant."""
        wanted, resource = self, self.resource
        return (
            (wanted.verb is None or wanted.verb == request.verb)
            and (
                resource is None
                or (resource.group, resource.version, resource.plural)
                == (request.group, request.version, request.plural)
            )
            and (wanted.namespace is None or wanted.namespace == request.namespace)
            and (wanted.name is None or wanted.name == request.name)
            and (wanted.subresource is None or wanted.subresource == request.subresource)
            and (wanted.when is None or wanted.when(request))
        )


def match(
    verb: str | None = None,
    resource: Resource | None = None,
    *,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
    when: Callable[[RecordedRequest], bool] | None = None,
) -> Match:
    """Which requests are meant: by verb (`list`, `watch`, `get`, `create` …), resource, namespace, name, or a predicate."""
    return Match(verb=verb, resource=resource, namespace=namespace, name=name, subresource=subresource, when=when)


@define(eq=False)
class Rule:
    """A fault in waiting. Returned by `Faults.add`.

    Attributes:
        hits: how many requests it has hit.
        left: how many more it will hit; None for no limit.
    """

    match: Match
    fault: Fault
    left: int | None
    hits: int = 0


@define(eq=False)
class Faults:
    """The rules in the order they were added; a request is hit by the first that matches and is not used up.

    So several calls of `add` for the same requests make a script: the first answer, the second, and so on, then normal life.
    """

    rules: list[Rule] = Factory(list)

    def add(self, match: Match, *faults: Fault, times: int | None = 1) -> Rule:
        """Hit the matching requests with these faults (together) so many times; `times=None` until it is removed."""
        rule = Rule(match, faults[0] if len(faults) == 1 else Together(*faults), times)
        self.rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Let the rule hit no more requests."""
        self.rules.remove(rule)

    def clear(self) -> None:
        """Back to normal life."""
        self.rules.clear()

    def take(self, request: RecordedRequest) -> Fault | None:
        """The fault that hits this request, counted."""
        for rule in self.rules:
            if rule.left != 0 and rule.match(request):
                rule.hits += 1
                rule.left = None if rule.left is None else rule.left - 1
                return rule.fault
        return None
