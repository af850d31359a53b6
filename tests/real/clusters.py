"""One real API server as the tests in this directory use it: plain requests, throw-away resources, stop and start."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from attrs import define, field, frozen
from kubernetes_asyncio.client import ApiClient, ApiException

from informer import Resource
from tests.clients import open_configured

CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", kind="CustomResourceDefinition", namespaced=False
)
NAMESPACES = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
NODEPOOLS = Resource("hypershift.openshift.io", "v1beta1", "nodepools", kind="NodePool")

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def kubeconfigs() -> list[Path]:
    """The files named in INFORMER_TEST_KUBECONFIGS, separated as in PATH."""
    named = os.environ.get("INFORMER_TEST_KUBECONFIGS", "")
    return [Path(part).resolve() for part in named.split(os.pathsep) if part]


def shared_files() -> Path:
    """Where the published CRD and the server's start script are; skips the test when nobody says."""
    named = os.environ.get("INFORMER_TEST_SHARED", "")
    if not named:
        pytest.skip("INFORMER_TEST_SHARED names no directory with the published CRD and the realapi script")
    return Path(named).resolve()


@define(eq=False)
class Cluster:
    """A server named in INFORMER_TEST_KUBECONFIGS: what a test asks of it itself, and the clients it hands to the library.

    What a test creates has a group or a namespace of its own, so tests do not disturb each other, nor a user's cluster.

    Attributes:
        package: whose clients are handed to the library. The test's own requests go through kubernetes-asyncio's always.
        client: one of them, with all rights.
    """

    kubeconfig: Path
    serves_core: bool
    package: str
    _admin: ApiClient
    client: Any
    _clients: list[Any] = field(factory=list, init=False)
    _made: list[tuple[Resource, str]] = field(factory=list, init=False)

    async def api_client(self, context: str | None = None) -> Any:
        """A client of its own, for another context or to be cut off; closed at the end of the test."""
        made = await open_configured(self.package, str(self.kubeconfig), context)
        self._clients.append(made)
        return made

    async def close(self) -> None:
        """Remove what was made, close the clients."""
        for resource, name in reversed(self._made):
            await self.delete(resource, name)
            if resource is CRDS:
                await self._gone(name)
        for made in (*self._clients, self.client, self._admin):
            await made.close()

    # ------------------------------------------------------------------ requests

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Any:
        """The decoded answer of one request.

        Raises:
            ApiException: the server refused.
        """
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if body is not None else {})
        return json.loads(await self._send(method, path, header_params=headers, body=body))

    async def metrics(self) -> str:
        """What the server counts of itself, as Prometheus reads it."""
        return await self._send("GET", "/metrics")

    async def _send(self, method: str, path: str, **request: Any) -> str:
        response = await self._admin.call_api(
            path, method, **request, auth_settings=["BearerToken"], _preload_content=False
        )
        text: str = (await response.read()).decode()
        if response.status >= 300:
            raise ApiException(status=response.status, reason=text)
        return text

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """POST; kind and apiVersion are filled in."""
        group_version = f"{resource.group}/{resource.version}" if resource.group else resource.version
        whole = {"apiVersion": group_version, "kind": resource.kind, **obj}
        made: dict[str, Any] = await self.request("POST", resource.path(obj["metadata"].get("namespace")), whole)
        return made

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        found: dict[str, Any] = await self.request("GET", resource.path(namespace, name))
        return found

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: object,
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> dict[str, Any]:
        """A JSON patch when it is a list, else a merge patch."""
        path = resource.path(namespace, name) + (f"/{subresource}" if subresource else "")
        made: dict[str, Any] = await self.request(
            "PATCH", path, patch, content_type=JSON_PATCH if isinstance(patch, list) else MERGE
        )
        return made

    async def delete(self, resource: Resource, name: str, *, namespace: str | None = None) -> None:
        """DELETE; it is fine when it is gone already."""
        try:
            await self.request("DELETE", resource.path(namespace, name))
        except ApiException as error:
            if error.status not in {404, 409}:
                raise

    # ------------------------------------------------------------------ throw-away things

    async def namespace(self) -> str:
        """A new namespace; on a server without core/v1 any name will do."""
        name = f"informer-test-{uuid.uuid4().hex[:10]}"
        if self.serves_core:
            await self.create(NAMESPACES, {"metadata": {"name": name}})
            self._made.append((NAMESPACES, name))
        return name

    async def widgets(self, *, schema: Mapping[str, Any] | None = None) -> Resource:
        """A new custom resource in a group of its own, served; any spec is accepted unless there is a schema of it."""
        resource = Resource(f"g{uuid.uuid4().hex[:10]}.kube-informer.test", "v1", "widgets", kind="Widget")
        crd = {
            "metadata": {"name": f"widgets.{resource.group}"},
            "spec": {
                "group": resource.group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": _widget_schema(schema)},
                    }
                ],
            },
        }
        await self._install(crd, resource)
        return resource

    async def nodepools(self) -> Resource:
        """The NodePool resource as published by HyperShift; a cluster that has it already keeps it."""
        published = shared_files() / "data" / "nodepools.crd.yaml"
        if not published.exists():
            pytest.skip(f"{published} is not there")
        try:
            await self.get(CRDS, f"{NODEPOOLS.plural}.{NODEPOOLS.group}")
        except ApiException as error:
            if error.status != 404:
                raise
            crd = yaml.load(published.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            try:
                await self._install(crd, NODEPOOLS)
            except ApiException as refusal:
                if refusal.status != 422:
                    raise
                await self._install(_without_empty_defaults(crd), NODEPOOLS)
        return NODEPOOLS

    async def _install(self, crd: Mapping[str, Any], resource: Resource) -> None:
        await self.create(CRDS, crd)
        self._made.append((CRDS, crd["metadata"]["name"]))
        await self._served(resource)

    async def discovered(self, resource: Resource) -> None:
        """Wait until the server also names the custom resource to who asks what there is: discovery follows in its own time."""
        await self._answers(f"/apis/{resource.group}")
        await self._answers(f"/apis/{resource.group}/{resource.version}")

    async def _served(self, resource: Resource) -> None:
        await self._answers(resource.path() + "?limit=1")

    async def _answers(self, path: str) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.request("GET", path)
                except ApiException as error:
                    if error.status not in {404, 429, 500, 503}:
                        raise
                    await asyncio.sleep(0.1)
                else:
                    return

    async def _gone(self, crd: str) -> None:
        # The server deletes the custom resources first; the next test may install a CRD of this name again.
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.get(CRDS, crd)
                except ApiException as error:
                    if error.status != 404:
                        raise
                    return
                await asyncio.sleep(0.1)

    # ------------------------------------------------------------------ trouble

    def realapi(self) -> RealApi:
        """Stop, start and compact this server; skips the test when it is not one of the realapi script."""
        directory = self.kubeconfig.parent
        script = shared_files() / "realapi" / "realapi"
        if not (directory / "etcd.port").exists():
            pytest.skip(f"{directory} is no realapi directory: that server can be neither stopped nor compacted")
        if not script.exists():
            pytest.skip(f"{script} is not there")
        return RealApi(script, directory, "core" if self.serves_core else "crd")


@asynccontextmanager
async def cluster_of(kubeconfig: Path, *, core: bool, package: str) -> AsyncIterator[Cluster]:
    """The server of this kubeconfig, for one test; what is made of it is removed afterwards."""
    clients = [await open_configured(one, str(kubeconfig)) for one in ("kubernetes_asyncio", package)]
    made = Cluster(kubeconfig, core, package, *clients)
    try:
        yield made
    finally:
        await made.close()


@frozen
class RealApi:
    """The start script of one server. `flags`: further ones, for the next start."""

    script: Path
    directory: Path
    kind: str
    flags: str = ""

    async def compact(self) -> None:
        """Forget every version but the newest, so that old watches and continue tokens get 410."""
        await self._run("compact")

    async def stop(self) -> None:
        await self._run("stop")

    async def start(self) -> None:
        """Start again on the same ports, with the same data."""
        await self._run("start", self.kind)

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """The server is stopped inside the block, and runs again after it."""
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    async def _run(self, *verb: str) -> None:
        server = yaml.safe_load((self.directory / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        settings = {
            "API_PORT": str(urlsplit(server).port),
            "ETCD_PORT": (self.directory / "etcd.port").read_text().strip(),
        }
        if self.flags:
            settings["SERVER_FLAGS"] = self.flags
        command = [str(self.script), *verb, str(self.directory)]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr}"


def _widget_schema(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "properties": {"spec": schema or anything, "status": anything}}


def _without_empty_defaults(schema: Any) -> Any:
    """Servers before 1.22 read `default: ""` as null and then refuse it as no string."""
    if isinstance(schema, list):
        return [_without_empty_defaults(part) for part in schema]
    if isinstance(schema, dict):
        return {name: _without_empty_defaults(part) for name, part in schema.items() if (name, part) != ("default", "")}
    return schema
