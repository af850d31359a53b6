"""Does what `kubectl patch` does with the arguments it is given, over plain HTTP: kubectl's discovery needs a core API."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys

from kubernetes_asyncio.config import new_client_from_config

from informer import Resource


async def main() -> None:
    parser = argparse.ArgumentParser(prog="kubectl")
    parser.add_argument("verb", choices=["patch"])
    parser.add_argument("resource", type=Resource.parse)
    parser.add_argument("name")
    parser.add_argument("-n", "--namespace")
    parser.add_argument("--type", choices=["merge", "json"], required=True)
    parser.add_argument("-p", "--patch", type=json.loads, required=True)
    parser.add_argument("--subresource", choices=["status"])
    given = parser.parse_args()
    path = given.resource.path(given.namespace, given.name) + (f"/{given.subresource}" if given.subresource else "")
    async with await new_client_from_config(os.environ["KUBECONFIG"], persist_config=False) as client:
        response = await client.call_api(
            path,
            "PATCH",
            header_params={"Content-Type": f"application/{given.type}-patch+json"},
            body=given.patch,
            auth_settings=["BearerToken"],
            _preload_content=False,
        )
        print((await response.read()).decode())
        sys.exit(0 if response.status == 200 else 1)


asyncio.run(main())
