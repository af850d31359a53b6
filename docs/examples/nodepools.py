"""An operator of NodePools that goes on when one of them cannot be read, and still cleans up after that one when it is deleted.

Five habits make it so:

* the checks say what it needs to be able to read, so that a bad pool is withheld and every other one is served;
* a quarantined pool is work too: it is never taken for a deleted one, and once it terminates its finalizer runs;
* the clean-up needs only what no bad field can spoil: name, uid and finalizers, which stand in the entry's metadata;
* a reconcile that fails is tried again later, and keeps nobody else waiting;
* a reconcile has a time limit: one call to a cloud that never answers would stop all pools, and no alert would tell, since the handler only
  puts keys into a queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from attrs import define, field
from kubernetes_asyncio.client import ApiClient, CustomObjectsApi

from informer import (
    Added,
    Change,
    InformerFactory,
    InformerOptions,
    KubeObject,
    NotFoundError,
    ObjectMeta,
    Quarantined,
    QuarantinedError,
    Removed,
    Resource,
    SharedInformer,
    Updated,
    checks,
)

log = logging.getLogger("nodepools")

NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")
CHECKS = [checks.duration("spec.nodeDrainTimeout"), checks.duration("spec.nodeVolumeDetachTimeout")]
FINALIZER = "example.test/machines"
RETRY = 30.0
PATIENCE = 120.0  # seconds for one reconcile


class Cloud(Protocol):
    """Where the machines are. Both calls may be repeated."""

    async def ensure(self, pool_uid: str, replicas: int, drain_timeout: str | None) -> None:
        """Bring the machines of a pool to this number."""

    async def release(self, pool_uid: str) -> None:
        """Remove the machines of a pool."""


@define
class Operator:
    """Reconciles pools one at a time, each again whenever it changes."""

    api: ApiClient
    cloud: Cloud
    options: InformerOptions = field(factory=InformerOptions)  # its registry is where the metrics go
    informers: list[SharedInformer[KubeObject]] = field(factory=list, init=False)  # for readiness() and liveness()
    _due: asyncio.Queue[str] = field(factory=asyncio.Queue, init=False)
    _waiting: set[str] = field(factory=set, init=False)

    async def run(self) -> None:
        """Until cancelled."""
        async with InformerFactory(self.api, options=self.options) as factory:
            pools = factory.informer(NODEPOOLS, checks=CHECKS)
            self.informers.append(pools)
            await factory.wait_for_sync(timeout=3600)  # it goes on asking; /readyz and InformerNotSynced say why
            pools.add_handler(on_change=self._note)
            while True:
                key = await self._due.get()
                self._waiting.discard(key)
                try:
                    async with asyncio.timeout(PATIENCE):
                        await self._reconcile(pools, key)
                except Exception:
                    log.exception("pool %s: trying again in %g s", key, RETRY)
                    asyncio.get_running_loop().call_later(RETRY, self._enqueue, key)

    def _note(self, change: Change[KubeObject]) -> None:
        match change:
            case Added(pool) | Updated(_, pool) | Removed(pool):
                self._enqueue(pool.key)
            case Quarantined(_, entry):
                self._enqueue(entry.key)

    def _enqueue(self, key: str) -> None:
        if key not in self._waiting:
            self._waiting.add(key)
            self._due.put_nowait(key)

    async def _reconcile(self, pools: SharedInformer[KubeObject], key: str) -> None:
        namespace, _, name = key.rpartition("/")
        try:
            pool = pools.lister.get(name, namespace=namespace)
        except QuarantinedError as error:
            # It exists. Nothing is done to it that would need the bad field, and nothing that would take it for absent.
            entry = error.entry
            if entry.terminating:
                await self._finish(namespace, name, entry.uid, entry.resource_version, entry.metadata)
            return
        except NotFoundError:
            return  # its finalizer has run before it could go
        if pool.metadata.deletion_timestamp is not None:
            await self._finish(namespace, name, pool.uid, pool.resource_version, pool.metadata)
            return
        if FINALIZER not in pool.metadata.finalizers:
            await self._set_finalizers(namespace, name, pool.resource_version, [*pool.metadata.finalizers, FINALIZER])
            return  # the change comes back as an update
        spec = pool["spec"]
        await self.cloud.ensure(pool.uid, spec.get("replicas", 0), spec.get("nodeDrainTimeout"))

    async def _finish(self, namespace: str, name: str, uid: str, version: str, metadata: ObjectMeta) -> None:
        if FINALIZER in metadata.finalizers:
            await self.cloud.release(uid)
            left = [other for other in metadata.finalizers if other != FINALIZER]
            await self._set_finalizers(namespace, name, version, left)
            log.info("pool %s/%s: machines released", namespace, name)

    async def _set_finalizers(self, namespace: str, name: str, version: str, finalizers: list[str]) -> None:
        # With the version it was decided by: somebody else's finalizer must not be lost. A conflict is tried again.
        patch = {"metadata": {"finalizers": finalizers, "resourceVersion": version}}
        write: Callable[..., Awaitable[object]] = CustomObjectsApi(self.api).patch_namespaced_custom_object
        where = (NODEPOOLS.group, NODEPOOLS.version, namespace, NODEPOOLS.plural, name)
        await write(*where, patch, _content_type="application/merge-patch+json")
