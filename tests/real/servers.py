"""Real API servers that belong to the tests alone, which may therefore kill them, set back their etcd and change their flags."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import shutil
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from attrs import define, evolve

from informer import ApiListerWatcher, ListOptions, Resource
from tests.real.clusters import Cluster, RealApi, cluster_of, shared_files

OBJECTS_PER_WRITE = 100
"""etcd takes 128 operations in one transaction."""


@define(eq=False)
class OwnServer:
    """An API server and its etcd, in a directory of their own."""

    api: RealApi

    @property
    def directory(self) -> Path:
        return self.api.directory

    async def start(self, flags: str | None = None) -> None:
        """With these flags instead of those it had."""
        if flags is not None:
            self.api = evolve(self.api, flags=flags)
        await self.api.start()

    async def stop(self) -> None:
        await self.api.stop()

    def kill(self) -> None:
        """Both processes at once, as when the machine dies."""
        for process in ("apiserver", "etcd"):
            file = self.directory / f"{process}.pid"
            if file.exists():
                os.kill(int(file.read_text()), signal.SIGKILL)
                file.unlink()  # the script asks whether the process is there, and nobody may have reaped it yet

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        process = int((self.directory / "etcd.pid").read_text())
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def back_up(self) -> Path:
        """A copy of etcd's data directory, as a snapshot of the disk takes it."""
        copy = self.directory / "etcd.copy"
        with self._frozen():
            shutil.copytree(self.directory / "etcd", copy)
        return copy

    def restore(self, copy: Path) -> None:
        """Put the copy in the place of etcd's data; the server must be down."""
        shutil.rmtree(self.directory / "etcd")
        copy.rename(self.directory / "etcd")

    @asynccontextmanager
    async def cluster(self, package: str = "kubernetes_asyncio") -> AsyncIterator[Cluster]:
        """As the fixtures have it. What is made stays: the server goes with it."""
        file = self.directory / "kubeconfig"
        async with cluster_of(file, core=self.api.kind == "core", package=package) as made:
            try:
                yield made
            finally:
                made._made.clear()

    async def fill(self, cluster: Cluster, resource: Resource, namespace: str, count: int) -> None:
        """So many objects `w0000` …, written into etcd by the hundred: over HTTP they would take longer than the tests."""
        first = {"metadata": {"name": "w0000", "namespace": namespace}, "spec": {"n": 0}}
        made = await cluster.create(resource, first)
        await asyncio.to_thread(self._copy, made["metadata"]["uid"], f"{resource.group}/{resource.plural}", count)
        # Objects of one transaction share a version, which the API server never does: a LIST in their middle would lie.
        source = ApiListerWatcher(cluster.client, resource)
        async with asyncio.timeout(60):
            while len((await source.list(ListOptions(resource_version="0", limit=None))).items) < count:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)

    def _copy(self, uid: str, path: str, count: int) -> None:
        everything = {"key": _coded("\0"), "range_end": _coded("\0")}
        keys = [_plain(one["key"]) for one in self._etcd("range", {**everything, "keys_only": True})["kvs"]]
        (key,) = [one for one in keys if f"/{path}/" in one]
        value = _plain(self._etcd("range", {"key": _coded(key)})["kvs"][0]["value"])
        puts = []
        for number in range(1, count):
            other = value.replace(uid, str(uuid.uuid4())).replace('"w0000"', f'"w{number:04}"')
            puts.append({"request_put": {"key": _coded(key.replace("w0000", f"w{number:04}")), "value": _coded(other)}})
        for start in range(0, len(puts), OBJECTS_PER_WRITE):
            self._etcd("txn", {"success": puts[start : start + OBJECTS_PER_WRITE]})

    def _etcd(self, verb: str, body: dict[str, Any]) -> Any:
        port = (self.directory / "etcd.port").read_text().strip()
        url = f"http://127.0.0.1:{port}/v3/kv/{verb}"
        with urlopen(url, data=json.dumps(body).encode(), timeout=60) as answer:
            return json.load(answer)


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _plain(text: str) -> str:
    return base64.b64decode(text).decode()


def _free_ports() -> tuple[int, int]:
    """For the server, and the first of two for etcd; not from the range that outgoing connections take while it is down."""
    while True:
        port = random.randrange(20000, 30000, 4)
        with socket.socket() as first, socket.socket() as second, socket.socket() as third:
            try:
                for number, one in enumerate((first, second, third)):
                    one.bind(("127.0.0.1", port + number))
            except OSError:
                continue
        return port, port + 1


@contextmanager
def own_server(kind: str, directory: Path, flags: str = "") -> Iterator[OwnServer]:
    """A running server; it and its data are gone afterwards."""
    script = shared_files() / "realapi" / "realapi"
    api_port, etcd_port = _free_ports()
    directory.mkdir(parents=True, exist_ok=True)
    # The ports are read from where the script leaves them.
    (directory / "etcd.port").write_text(str(etcd_port))
    (directory / "kubeconfig").write_text(
        json.dumps({"clusters": [{"cluster": {"server": f"https://127.0.0.1:{api_port}"}}]})
    )
    server = OwnServer(RealApi(script, directory, kind, flags))
    try:
        asyncio.run(server.start())
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)
