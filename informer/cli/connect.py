"""From a kubeconfig, or from inside a pod, to a client: the same files, in the same order, as kubectl."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from informer.cli.errors import CommandError, one_line

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient, Configuration

_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@frozen
class Connection:
    """A client and what came with it.

    Attributes:
        api: closed by `connect`.
        server: the address, for messages: without a password that may stand in it.
        context: of the kubeconfig; None for a pod's own service account.
        namespace: the one that is meant when none is named.
        refresh: reads the credentials again, when the server did not accept them: a token may have been rotated, and an
            exec plugin may have a new one.
    """

    api: ApiClient
    server: str
    context: str | None
    namespace: str
    refresh: Callable[[], Awaitable[None]]

    @property
    def cluster(self) -> str:
        """Which cluster, as whom: what every answer of it is about."""
        return f"{self.server} ({f'context {one_line(self.context)}' if self.context else 'the account of this pod'})"


@asynccontextmanager
async def connect(kubeconfig: str | None, context: str | None) -> AsyncIterator[Connection]:
    """A client for the cluster that kubectl would talk to.

    Args:
        kubeconfig: this file alone; None for the files named in KUBECONFIG, then `~/.kube/config`, then the pod's own
            service account.
        context: of the kubeconfig; None for its current one.

    Raises:
        CommandError: there is no configuration, or it cannot be used.
    """
    from kubernetes_asyncio import client  # noqa: PLC0415 - 0.3 s and 72 MB that only those pay who connect

    settings = type.__call__(client.Configuration)  # a plain call would copy a default that others may have set
    files = _files(kubeconfig)
    if files:
        chosen, namespace = await _from_files(settings, files, context)
    elif os.environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        chosen, namespace = None, _from_pod(settings)
    else:
        named = os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise CommandError(f"there is no kubeconfig at {one_line(named)}; name one with --kubeconfig or KUBECONFIG")

    async def refresh() -> None:
        if files:
            await _from_files(settings, files, context)

    server = _address(settings.host)
    try:
        api = client.ApiClient(settings)
    except (OSError, ValueError) as error:  # certificates that cannot be read
        raise CommandError(
            f"cannot use the certificates for {server}: {one_line(error)}; check {_certificates(settings, files)}"
        ) from None
    try:
        yield Connection(api, server, chosen, namespace, refresh)
    finally:
        await api.close()


def _files(kubeconfig: str | None) -> Sequence[str]:
    if kubeconfig is not None:
        if not Path(kubeconfig).is_file():
            raise CommandError(f"there is no kubeconfig at {one_line(kubeconfig)}; check --kubeconfig")
        return [kubeconfig]
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    candidates = named or ["~/.kube/config"]
    # As kubectl: files that are not there are left out.
    return [part for part in candidates if Path(part).expanduser().is_file()]


async def _from_files(settings: Configuration, files: Sequence[str], context: str | None) -> tuple[str, str]:
    """Fill in the settings; returns the context and its namespace."""
    from kubernetes_asyncio import config  # noqa: PLC0415 - as above

    shown = one_line(os.pathsep.join(files))
    chosen = _choose_context(files, context)
    try:
        loader = await config.load_kube_config(
            os.pathsep.join(files), context=chosen, client_configuration=settings, persist_config=False
        )
        details: Any = loader.current_context
        return chosen, str(details["context"].get("namespace") or "default")
    except asyncio.CancelledError:
        raise
    except FileNotFoundError as error:  # of an exec plugin, mostly
        raise CommandError(
            f"context {one_line(chosen)} of {shown} needs {one_line(error.filename)}, which is not there; install it"
        ) from None
    except Exception as error:  # noqa: BLE001 - kubernetes_asyncio raises whatever it stumbles over in a file
        what = one_line(error) or type(error).__name__
        if isinstance(error, TypeError | AttributeError | LookupError | AssertionError):
            what = f"its parts are not of the usual form, or the context has no user ({what})"
        if isinstance(error, binascii.Error) and (damaged := _damaged(files, chosen)):
            what = f"{damaged}: {what}"
        raise CommandError(
            f"cannot use context {one_line(chosen)} of {shown}: {what}; mend the file or the login"
        ) from None


def _address(url: str) -> str:
    return one_line(re.sub(r"//[^/]*@", "//", url))


def _certificates(settings: Configuration, files: Sequence[str]) -> str:
    """Where the certificates that are in use come from."""
    if not files:
        return f"{one_line(settings.ssl_ca_cert)}, or give --kubeconfig"
    kinds = ["certificate-authority"] if settings.ssl_ca_cert else []
    kinds += ["client-certificate", "client-key"] if settings.cert_file else []
    return f"{', '.join(kinds)} (a file, or -data) of {one_line(os.pathsep.join(files))}"


def _damaged(files: Sequence[str], context: str) -> str | None:
    """The first field of a context that is no base64, and its file: the error of the decoder names neither."""
    contents = {file: _read(file) for file in files}
    chosen = next(part for content in contents.values() for part in _parts(content, "context", context))
    for file, content in contents.items():
        for kind in ("cluster", "user"):
            for part in _parts(content, kind, chosen.get(kind)):
                for field, value in part.items():
                    if str(field).endswith("-data") and not _is_base64(value):
                        return f"{one_line(field)} of {kind} {one_line(chosen[kind])} in {one_line(file)} is no base64"
    return None


def _parts(content: dict[str, Any], kind: str, name: object) -> Iterator[dict[str, Any]]:
    """The contexts, clusters or users of a name in one file, whatever else is in it."""
    entries = content.get(f"{kind}s")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            yield entry[kind]


def _is_base64(value: object) -> bool:
    try:
        base64.standard_b64decode(str(value))
    except ValueError:
        return False
    return True


def _choose_context(files: Sequence[str], context: str | None) -> str:
    """The context to use. kubectl takes the first file's current one, kubernetes_asyncio would take the last one's."""
    current, known = "", dict[str, None]()
    for file in files:
        content = _read(file)
        current = current or str(content.get("current-context") or "")
        entries = content.get("contexts") or []
        if isinstance(entries, list):
            known |= {str(entry["name"]): None for entry in entries if isinstance(entry, dict) and "name" in entry}
    chosen = context or current
    shown, choices = one_line(os.pathsep.join(files)), one_line(", ".join(known)) or "none"
    if not chosen:
        raise CommandError(f"{shown} has no current context; choose one with --context: {choices}")
    if chosen not in known:
        raise CommandError(f"{shown} has no context {one_line(chosen)}; choose one with --context: {choices}")
    return chosen


def _read(file: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - comes with kubernetes_asyncio

    try:
        content = yaml.safe_load(Path(file).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise CommandError(
            f"cannot read the kubeconfig {one_line(file)}: {one_line(error)}; mend or replace it"
        ) from None
    if not isinstance(content, dict):
        raise CommandError(f"{one_line(file)} is no kubeconfig: it holds no mapping; mend or replace it")
    return content


def _from_pod(settings: Configuration) -> str:
    """Fill in the settings from the service account; returns the pod's namespace."""
    from kubernetes_asyncio import config  # noqa: PLC0415 - as above

    load: Any = config.load_incluster_config  # untyped
    try:
        load(client_configuration=settings)
    except (config.ConfigException, OSError) as error:
        raise CommandError(
            f"cannot use the pod's service account: {one_line(error)}; mount its token, or give --kubeconfig"
        ) from None
    read_token: Any = settings.refresh_api_key_hook

    def hook(configuration: Configuration) -> None:
        read_token(configuration)
        configuration.api_key["BearerToken"] = configuration.api_key[
            "BearerToken"
        ].strip()  # some files end in a newline

    settings.refresh_api_key_hook = hook
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or "default"
    except OSError:
        return "default"
