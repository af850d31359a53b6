"""Client certificates of real servers: one that expires under a running informer, one that nobody knows, and the page's way out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

from informer import ApiListerWatcher, SyncError
from tests.clients import open_configured
from tests.real.clusters import Cluster
from tests.real.test_access_real import ShortWatches
from tests.real.watching import Counting, followed
from tests.security.renewing import LOGGERS, renewing
from tests.security.secrets import Outlet, logging_into
from tests.security.tls import Authority, Issued

pytestmark = pytest.mark.real

SHORT = 12.0
"""Seconds that the first certificate lives: an informer has to be running by then."""


@frozen
class Home:
    """Where an administrator keeps a kubeconfig that names two files, and where a rotating program puts them."""

    kubeconfig: Path

    @classmethod
    def make(cls, directory: Path, cluster: Cluster) -> Home:
        directory.mkdir()
        server = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
        config = {
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"client-certificate": "user.crt", "client-key": "user.key"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        made = cls(directory / "kubeconfig")
        made.kubeconfig.write_text(json.dumps(config))
        return made

    def install(self, issued: Issued) -> None:
        (self.kubeconfig.parent / "user.crt").write_bytes(issued.cert.read_bytes())
        (self.kubeconfig.parent / "user.key").write_bytes(issued.key.read_bytes())

    def renewing(self, api: Any, package: str) -> Callable[[], Awaitable[None]]:
        renew = renewing(package, self.kubeconfig)
        return lambda: renew(api)


def authority_of(cluster: Cluster, directory: Path) -> Authority:
    """That of the server's clients, whose key the realapi script leaves beside its kubeconfig."""
    pki = cluster.kubeconfig.parent / "pki"
    root = Issued(pki / "ca.crt", pki / "ca.key")
    if not root.key.exists():
        pytest.skip(f"{root.key} is not there: nobody can issue certificates for that server")
    directory.mkdir()
    return Authority(root, directory)


async def test_a_certificate_that_expires(cluster: Cluster, package: str, tmp_path: Path) -> None:
    """When a certificate expires under running informers, who renews after a 401 should go on, and who does not say so, keep
    what it knows, and go on once the client was renewed: from the last version, without another LIST.
    """
    widgets, namespace = await cluster.widgets(), await cluster.namespace()
    for name in ("a", "b"):
        await cluster.create(widgets, {"metadata": {"name": name, "namespace": namespace}, "spec": {}})
    authority, home = authority_of(cluster, tmp_path / "authority"), Home.make(tmp_path / "home", cluster)
    second = authority.issue("second", subject="/O=system:masters")
    first = authority.issue("first", subject="/O=system:masters", seconds=SHORT)
    home.install(first)
    outlet = Outlet()
    with logging_into(outlet, *LOGGERS):
        async with (
            await open_configured(package, str(home.kubeconfig)) as one,
            await open_configured(package, str(home.kubeconfig)) as other,
        ):
            fresh, stale = Counting(one), Counting(other)
            watchful = ApiListerWatcher(fresh, widgets, on_unauthorized=home.renewing(one, package))
            async with (
                followed(ShortWatches(watchful), fresh) as seen,
                followed(ShortWatches(ApiListerWatcher(stale, widgets)), stale) as left_behind,
            ):
                home.install(second)
                await left_behind.failing("401 Unauthorized: watch widgets")
                await cluster.create(widgets, {"metadata": {"name": "c", "namespace": namespace}, "spec": {}})
                await seen.in_step(cluster.client)
                assert fresh.statuses[401] == 1
                outlet.take(left_behind.informer.health)
                assert {obj.name for obj in left_behind.informer.lister.list()} == {"a", "b"}, "still to be read"
                await home.renewing(other, package)()
                await left_behind.in_step(cluster.client)
                assert left_behind.states[-3:] == ["live", "failing", "live"]
                assert (fresh.verbs["list"], stale.verbs["list"]) == (1, 1)
    for issued in (first, second):
        assert not issued.leaks(outlet.texts)
    assert any("401 Unauthorized" in text and "in a row" in text and "\n" not in text for text in outlet.texts)


async def test_an_unknown_authority(cluster: Cluster, package: str, tmp_path: Path) -> None:
    """When a certificate is of an authority that the server does not know, it should be a 401, and not a broken connection."""
    widgets, home = await cluster.widgets(), Home.make(tmp_path / "home", cluster)
    home.install(await asyncio.to_thread(lambda: Authority.create(tmp_path / "unknown").issue("nobody")))
    async with await open_configured(package, str(home.kubeconfig)) as api:
        counted = Counting(api)
        async with followed(ApiListerWatcher(counted, widgets), counted, synced=False) as seen:
            with pytest.raises(SyncError, match="401 Unauthorized"):
                await seen.informer.wait_for_sync()
            home.install(authority_of(cluster, tmp_path / "authority").issue("known", subject="/O=system:masters"))
            await home.renewing(api, package)()
            await seen.in_step(cluster.client)
