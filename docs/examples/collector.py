"""A collector of orphans: it removes machines whose NodePool is gone, and refuses to when it cannot know which are.

Deleting what has no owner is safe only for somebody who sees every owner:

* a cache with a withheld or unidentifiable object is not complete, and `require_complete=True` makes it say so;
* a cache that no longer follows its server may be behind, so it must be live;
* a cache is always a little behind, so a missing owner is looked up once more, at the server, before anything is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from attrs import frozen
from kubernetes_asyncio.client import ApiClient, ApiException, CustomObjectsApi

from informer import IncompleteError, KubeObject, Resource, SharedInformer

log = logging.getLogger("collector")

NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")


@frozen
class Machine:
    """A machine in a cloud, which carries the name of its owner."""

    id: str
    pool_namespace: str
    pool_name: str
    pool_uid: str


class Cloud(Protocol):
    """Where the machines are."""

    async def machines(self) -> Sequence[Machine]:
        """All of them."""

    async def remove(self, machine: Machine) -> None:
        """Remove one for good."""


async def collect(api: ApiClient, pools: SharedInformer[KubeObject], cloud: Cloud) -> Sequence[Machine]:
    """One pass; returns what was removed. Removes nothing while the cache is not complete or not live."""
    machines = (
        await cloud.machines()
    )  # before the owners: a machine that is younger than the look at them is not judged
    health = pools.health
    if health.state != "live":
        log.warning("nothing is collected: the cache of pools is %s (%s)", health.state, health.last_error)
        return []
    try:
        orphans = _without_owner(pools.lister.list(require_complete=True), machines)
    except IncompleteError as error:
        log.warning("nothing is collected: %s", error)
        return []
    removed = []
    for machine in orphans:
        if await _owner_exists(api, machine):
            continue
        await cloud.remove(machine)
        log.info("machine %s: removed, its pool %s/%s is gone", machine.id, machine.pool_namespace, machine.pool_name)
        removed.append(machine)
    return removed


def _without_owner(pools: Iterable[KubeObject], machines: Iterable[Machine]) -> Sequence[Machine]:
    alive = {pool.uid for pool in pools}
    return [machine for machine in machines if machine.pool_uid not in alive]


async def _owner_exists(api: ApiClient, machine: Machine) -> bool:
    try:
        pool: dict[str, Any] = await CustomObjectsApi(api).get_namespaced_custom_object(
            NODEPOOLS.group, NODEPOOLS.version, machine.pool_namespace, NODEPOOLS.plural, machine.pool_name
        )
    except ApiException as error:
        if error.status == 404:
            return False
        raise
    return bool(pool["metadata"]["uid"] == machine.pool_uid)
