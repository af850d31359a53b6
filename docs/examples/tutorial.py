"""An operator that keeps a ConfigMap for each Website; docs/tutorial.md builds it step by step."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import Any, NoReturn

from attrs import define, field, frozen
from attrs.validators import instance_of
from kubernetes_asyncio import config
from kubernetes_asyncio.client import ApiClient, CoreV1Api

from informer import (
    Index,
    InformerFactory,
    KubeObject,
    NotFoundError,
    QuarantinedError,
    QuarantinedObject,
    Resource,
    SharedInformer,
    checks,
)

WEBSITES = Resource("example.test", "v1", "websites", kind="Website")
CONFIG_MAPS = Resource.parse("configmaps.v1")
OURS = {"app.kubernetes.io/managed-by": "websites"}

log = logging.getLogger("websites")


@frozen
class Website:
    """What the operator needs to know of a website."""

    namespace: str
    name: str
    uid: str
    domain: str = field(validator=instance_of(str))
    refresh: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_object(cls, obj: KubeObject) -> Website:
        spec = obj["spec"]
        return cls(obj.namespace, obj.name, obj.uid, spec["domain"], spec.get("refresh", "10m"))


def config_map(website: Website) -> dict[str, Any]:
    owner = {"apiVersion": "example.test/v1", "kind": "Website", "name": website.name, "uid": website.uid}
    return {
        "metadata": {"name": f"{website.name}-site", "labels": OURS, "ownerReferences": [owner]},
        "data": {"site.conf": f"server_name {website.domain}; refresh {website.refresh};"},
    }


def website_of(obj: KubeObject) -> list[str]:
    """The key of the website that a ConfigMap belongs to."""
    return [f"{obj.namespace}/{owner.name}" for owner in obj.metadata.owner_references if owner.kind == "Website"]


class Pending:
    """Keys that need a look. A key that is noted twice is handed out once."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._news = asyncio.Event()

    def add(self, key: str) -> None:
        self._keys[key] = None
        self._news.set()

    async def take(self) -> str:
        while not self._keys:
            self._news.clear()
            await self._news.wait()
        key = next(iter(self._keys))
        del self._keys[key]
        return key


@define
class Operator:
    api: ApiClient
    websites: SharedInformer[Website]
    config_maps: SharedInformer[KubeObject]
    pending: Pending = field(factory=Pending)
    by_website: Index[KubeObject] = field(init=False)

    def register(self) -> None:
        self.by_website = self.config_maps.add_index("website", website_of)
        self.websites.add_handler(
            on_add=lambda website: self.pending.add(website.key),
            on_update=lambda _, website: self.pending.add(website.key),
            on_quarantined=self.unreadable,
        )
        self.config_maps.add_handler(on_update=lambda _, new: self.look(new), on_delete=self.look)

    def look(self, obj: KubeObject) -> None:
        for key in website_of(obj):
            self.pending.add(key)

    def unreadable(self, old: Website | None, entry: QuarantinedObject) -> None:
        log.info("%s is left as it is%s", entry.key, " and was fine before" if old else "")

    async def reconcile(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        try:
            website = self.websites.lister.get(name, namespace=namespace)
        except QuarantinedError:
            return  # it exists: whatever it has stays as it is until somebody mends it
        except NotFoundError:
            return  # it is gone, and the cluster deletes what it owned
        wanted = config_map(website)
        found = self.by_website[key]
        if found and found[0]["data"] == wanted["data"]:
            return
        core: Any = CoreV1Api(self.api)  # it takes dicts, too, and does not say so
        if found:
            made = await core.patch_namespaced_config_map(found[0].name, namespace, wanted)
        else:
            made = await core.create_namespaced_config_map(namespace, wanted)
        log.info("%s: wrote %s", key, made.metadata.name)
        await self.config_maps.wait_for_version(made.metadata.resource_version, timeout=10)

    async def work(self) -> NoReturn:
        while True:
            key = await self.pending.take()
            try:
                await self.reconcile(key)
            except Exception:
                log.exception("%s: trying again in 5 s", key)
                asyncio.get_running_loop().call_later(5, self.pending.add, key)


async def run(api: ApiClient) -> None:
    async with InformerFactory(api) as factory:
        websites = factory.informer(WEBSITES, decode=Website.from_object, checks=[checks.duration("spec.refresh")])
        labels = ",".join(f"{key}={value}" for key, value in OURS.items())
        config_maps = factory.informer(CONFIG_MAPS, label_selector=labels)
        await factory.wait_for_sync(timeout=60)
        log.info("%d websites, %d of them unreadable", len(websites.lister), websites.health.quarantined)
        operator = Operator(api, websites, config_maps)
        operator.register()
        await operator.work()


async def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)  # the kubelet's way to end a pod
    await config.load_config()  # ~/.kube/config, KUBECONFIG, or the service account of the pod
    async with ApiClient() as api:
        await run(api)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(main())
