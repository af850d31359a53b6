"""`InformerFactory`: one informer for each thing that is asked for, all with one lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from attrs import evolve, frozen

from informer import _client, _hints
from informer._lifetime import Lifetime
from informer.api import ApiListerWatcher, CallsApi
from informer.degraded.checks import Check, as_checks
from informer.degraded.quarantine import Quarantine
from informer.degraded.wrapper import DegradedListerWatcher
from informer.errors import SyncError
from informer.listerwatcher import ListerWatcher
from informer.objects import KubeObject
from informer.options import InformerOptions
from informer.problems import QuarantinedObject
from informer.resource import Resource, require_namespace, require_resource
from informer.shared import SharedInformer

T = TypeVar("T")


@frozen
class _Scope:
    resource: Resource
    namespace: str
    label_selector: str
    field_selector: str

    def __str__(self) -> str:
        parts = (("ns", self.namespace), ("labels", self.label_selector), ("fields", self.field_selector))
        return " ".join(f"{name}={text}" for name, text in parts if text)


@frozen
class _Judging:
    decode: Callable[[KubeObject], object] | None
    checks: tuple[Check, ...]


def _require_texts(**selectors: object) -> None:
    for name, value in selectors.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is text as in kubectl, such as 'app=web,tier!=cache', not {value!r}")


class InformerFactory:
    """Informers that share a client, options and a lifetime: half a cache is not a mode, so a bug in one ends all.

    An informer starts when it is asked for, and lives as long as the factory. Every one is in degraded mode: a bad object
    is quarantined, whether a check, `decode` or its bytes give it away. What names no cost is O(1).

    Args:
        api_client: an `ApiClient` of `kubernetes_asyncio` or of `kubernetes.aio`; it stays the caller's to close.
        options: for every informer.
        wrap: put around the source of every informer, below the degraded mode: such as a filter of one's own.

    Raises:
        TypeError: the client is the official package's other one, which blocks.
        ValueError: the client has no server, since no configuration was loaded before it was made.
    """

    def __init__(
        self,
        api_client: CallsApi,
        /,
        *,
        options: InformerOptions | None = None,
        wrap: Callable[[ListerWatcher[KubeObject]], ListerWatcher[KubeObject]] | None = None,
    ) -> None:
        _client.require_usable(api_client)
        self._api = api_client
        self._options = InformerOptions() if options is None else options
        self._wrap = wrap
        self._lifetime: Lifetime | None = None
        self._ended = False
        self._informers: dict[_Scope, tuple[_Judging, SharedInformer[Any], DegradedListerWatcher[Any]]] = {}

    if not TYPE_CHECKING:  # a type checker refuses such an attribute by itself, and would then no longer

        def __getattr__(self, name: str) -> Any:
            raise _hints.unknown(self, name, _hints.FACTORY)

    async def __aenter__(self) -> Self:
        """Begin.

        Raises:
            RuntimeError: it was entered before.
        """
        if self._lifetime is not None:
            raise RuntimeError("this InformerFactory was used before; make a new one")
        self._lifetime = Lifetime()
        await self._lifetime.enter()
        return self

    async def __aexit__(
        self, et: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None, /
    ) -> None:
        """End all informers, within a second; raises what ended one of them when that was a bug."""
        assert self._lifetime is not None
        self._ended = True
        await self._lifetime.exit(et, e, tb)

    @overload
    def informer(
        self,
        resource: Resource,
        /,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        checks: Iterable[Check] = (),
    ) -> SharedInformer[KubeObject]: ...
    @overload
    def informer(
        self,
        resource: Resource,
        /,
        *,
        decode: Callable[[KubeObject], T],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        checks: Iterable[Check] = (),
    ) -> SharedInformer[T]: ...
    def informer(
        self,
        resource: Resource,
        /,
        *,
        decode: Callable[[KubeObject], Any] | None = None,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        checks: Iterable[Check] = (),
    ) -> SharedInformer[Any]:
        """The running informer of a resource in a scope; asked for again, it is the same one.

        Args:
            resource: what to follow.
            decode: makes the value that is stored; what it raises quarantines that object. Without it, `KubeObject`.
            namespace: only this one; None for all. For several, ask for one informer each.
            label_selector: as in `kubectl -l`.
            field_selector: as in `kubectl --field-selector`.
            checks: judge each object first, such as `checks.duration("spec.nodeDrainTimeout")`.

        Raises:
            RuntimeError: the factory was not entered, or has ended.
            ValueError: the same scope was asked for with another `decode` or other `checks`; a namespace that cannot be.
            TypeError: no Resource, a namespace or selector that is no text, a single check instead of several.
        """
        if self._lifetime is None:
            raise RuntimeError("enter the factory first: async with InformerFactory(api) as factory")
        if self._ended:
            raise RuntimeError("this InformerFactory has ended, and its informers with it; make a new one")
        require_resource(resource)
        require_namespace(namespace)
        _require_texts(label_selector=label_selector, field_selector=field_selector)
        scope = _Scope(resource, namespace or "", label_selector, field_selector)
        judging = _Judging(decode, as_checks(checks))
        known = self._informers.get(scope)
        if known is not None:
            different = [name for name in ("decode", "checks") if getattr(known[0], name) != getattr(judging, name)]
            if different:
                raise ValueError(
                    f"there is an informer of {resource} ({str(scope) or 'everything'}) with other {' and '.join(different)}; "
                    "use the same, or another factory"
                )
            return known[1]
        source: ListerWatcher[KubeObject] = ApiListerWatcher(
            self._api, resource, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        )
        if self._wrap is not None:
            source = self._wrap(source)
        degraded: DegradedListerWatcher[Any]
        if decode is None:
            degraded = DegradedListerWatcher(source, checks=judging.checks)
        else:
            degraded = DegradedListerWatcher(source, decode=decode, checks=judging.checks)
        options = evolve(self._options, name=f"{self._options.name} {scope}".strip())
        informer: SharedInformer[Any] = SharedInformer(degraded, options=options)
        informer.start_in(self._lifetime)
        self._informers[scope] = (judging, informer, degraded)
        return informer

    async def wait_for_sync(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - part of the error's text
        """Return once every informer asked for so far is synced. O(informers).

        Args:
            timeout: seconds, for all together; None as in `SharedInformer.wait_for_sync`: one without hope is enough.

        Raises:
            SyncError: names every informer that is not synced, and its last error.
        """
        # Only those that are not: what is done already wins over any timeout.
        informers = [informer for _, informer, _ in self._informers.values() if not informer.health.synced]
        waits = [asyncio.create_task(informer.wait_for_sync(timeout=timeout)) for informer in informers]
        if not waits:
            return
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for wait in waits:
                wait.cancel()
            results = await asyncio.gather(*waits, return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        late = sorted(informer.laggard() for informer in informers if not informer.health.synced)
        if failures and late:
            raise SyncError("; ".join(late) + ("" if timeout is None else f" (waited {timeout:g} s)")) from failures[0]

    def quarantined(self) -> Sequence[QuarantinedObject]:
        """Every object that cannot be read, over all informers, ordered by resource and key. O(n log n)."""
        entries = [entry for _, _, source in self._informers.values() for entry in source.quarantine.values()]
        return sorted(entries, key=lambda entry: (str(entry.resource), entry.key))

    def quarantines(self) -> Sequence[Quarantine]:
        """The quarantine of every informer asked for so far, such as to subscribe to it. O(informers)."""
        return [source.quarantine for _, _, source in self._informers.values()]
