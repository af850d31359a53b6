"""Certificates of an authority of the tests' own, and TLS in front of a server that speaks plain HTTP."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import Factory, define, frozen

# `openssl ca`, since `openssl x509` knows whole days only.
_CONFIG = """
[ca]
default_ca = tests
[tests]
database = {directory}/index.txt
new_certs_dir = {directory}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = policy
[policy]
organizationName = optional
commonName = supplied
"""


@frozen
class Issued:
    """A certificate and its key, as files."""

    cert: Path
    key: Path

    def leaks(self, texts: list[str]) -> list[str]:
        """Which of the texts hold a line of the key."""
        secrets = [line for line in self.key.read_text().splitlines() if line and "-----" not in line]
        return [text for text in texts if any(secret in text for secret in secrets)]


@frozen
class Authority:
    """Issues certificates; `directory` is where they are put."""

    root: Issued
    directory: Path

    @classmethod
    def create(cls, directory: Path) -> Authority:
        """A new authority in a new directory; skips the test where there is no openssl."""
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed, and makes the certificates of this test")
        directory.mkdir()
        root = Issued(directory / "ca.crt", directory / "ca.key")
        _run("openssl ecparam -name prime256v1 -genkey -noout -out ca.key", directory)
        usage = "keyUsage=critical,keyCertSign,cRLSign"
        _run(
            f"openssl req -x509 -new -key ca.key -days 2 -subj /CN={directory.name} -addext {usage} -out ca.crt",
            directory,
        )
        return cls(root, directory)

    def issue(self, name: str, *, subject: str = "", names: str = "", seconds: float = 86400.0) -> Issued:
        """A certificate that is valid for so many seconds from now: a server's if it has `names`, else a client's.

        Negative: it expired so long ago.
        """
        made = Issued(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        (self.directory / "openssl.cnf").write_text(_CONFIG.format(directory=self.directory))
        (self.directory / "index.txt").touch()
        usage = "serverAuth" if names else "clientAuth"
        extensions = f"extendedKeyUsage={usage}\nauthorityKeyIdentifier=keyid\n"
        (self.directory / "extensions").write_text(extensions + (f"subjectAltName={names}\n" if names else ""))
        now = datetime.now(UTC)
        start, end = (f"{now + timedelta(seconds=by):%Y%m%d%H%M%SZ}" for by in (-86400.0, seconds))
        _run(f"openssl ecparam -name prime256v1 -genkey -noout -out {name}.key", self.directory)
        _run(f"openssl req -new -key {name}.key -subj {subject}/CN={name} -out {name}.csr", self.directory)
        _run(
            f"openssl ca -batch -notext -config openssl.cnf -cert {self.root.cert} -keyfile {self.root.key} -startdate {start}"
            f" -enddate {end} -extfile extensions -in {name}.csr -out {name}.crt",
            self.directory,
        )
        return made

    def server_context(self, *, trusts: Authority | None = None, demand: bool = True) -> ssl.SSLContext:
        """For a server on this machine, which asks for a client's certificate, of this authority or of another."""
        issued = self.issue("server", names="DNS:localhost,IP:127.0.0.1")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=(trusts or self).root.cert)
        context.load_cert_chain(issued.cert, issued.key)
        context.verify_mode = ssl.CERT_REQUIRED if demand else ssl.CERT_OPTIONAL
        return context


def _run(command: str, directory: Path) -> None:
    done = subprocess.run(
        command.split(),
        cwd=directory,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"


@define(eq=False)
class TlsFront:
    """Takes TLS off and passes the bytes on to a server without it.

    Attributes:
        peers: the name in each client certificate that a connection came with, or None where there was none.
    """

    backend: str
    context: ssl.SSLContext
    port: int = 0
    peers: list[str | None] = Factory(list)
    _listener: asyncio.Server | None = None
    _open: set[asyncio.Task[Any]] = Factory(set)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.context)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut every connection, and listen no more."""
        assert self._listener is not None
        self._listener.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(set(self._open))
        await self._listener.wait_closed()

    async def demand(self, context: ssl.SSLContext) -> None:
        """Cut every connection, and ask for other certificates from now on."""
        await self.stop()
        self.context = context
        await self.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            self.peers.append(_common_name(writer.get_extra_info("peercert")))
            inner_reader, inner_writer = await asyncio.open_connection(
                "127.0.0.1", int(self.backend.rpartition(":")[2])
            )
            ways = [
                asyncio.create_task(_pass_on(reader, inner_writer)),
                asyncio.create_task(_pass_on(inner_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                inner_writer.transport.abort()
        except asyncio.CancelledError:
            pass  # by `stop`: asyncio would report a cancelled handler as an error
        finally:
            writer.transport.abort()
            self._open.discard(task)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


def _common_name(cert: Any) -> str | None:
    names = {field: value for part in (cert or {}).get("subject", ()) for field, value in part}
    return names.get("commonName")


@asynccontextmanager
async def tls_front(backend: str, context: ssl.SSLContext) -> AsyncIterator[TlsFront]:
    """A front that runs inside the block."""
    front = TlsFront(backend, context)
    await front.start()
    try:
        yield front
    finally:
        await front.stop()
