"""Planted secrets, and everything that an informer lets out, to look for them in it."""

from __future__ import annotations

import base64
import io
import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import Factory, define

from informer import Resource

SECRETS = Resource("", "v1", "secrets", kind="Secret")
TOKENS = Resource("example.test", "v1", "tokens", kind="Token", sensitive=True)

TOKEN = "tok3n-of-the-client"
PASSWORD = "hunter2-hunter2"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()
PLANTED = (TOKEN, PASSWORD, ENCODED)


def secret(name: str, version: str = "5", **more: Any) -> dict[str, Any]:
    """A Secret with a secret wherever its author can put one."""
    last = "kubectl.kubernetes.io/last-applied-configuration"
    return {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"u-{name}",
            "resourceVersion": version,
            "annotations": {last: json.dumps({"data": {"password": ENCODED}}), "note": PASSWORD},
        },
        "data": {"password": ENCODED, "user": ENCODED},  # the paths of problems may come out: no secret as a name
        "stringData": {"password": PASSWORD},
        "spec": {"timeout": PASSWORD},
        **more,
    }


def to_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@define
class Outlet:
    """Everything that came out: log records with their tracebacks and extras, exceptions, texts of values."""

    texts: list[str] = Factory(list)

    def take(self, *values: object) -> None:
        for value in values:
            self.texts += [str(value), repr(value)]
            if isinstance(value, BaseException):
                self._exception(value)

    def _exception(self, error: BaseException) -> None:
        self.texts.append("".join(traceback.format_exception(error)))
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        self.texts += [repr(error.args), repr({k: v for k, v in vars(error).items() if not k.startswith("__")})]
        if cause is not None:
            self.take(cause)

    def record(self, record: logging.LogRecord) -> None:
        self.texts += [logging.Formatter().format(record), repr(record.args)]
        standard = vars(logging.makeLogRecord({}))
        self.texts += [repr(value) for name, value in vars(record).items() if name not in standard]
        if record.exc_info and record.exc_info[1] is not None:
            self._exception(record.exc_info[1])

    def metrics(self, registry: Any) -> None:
        from prometheus_client import generate_latest

        self.texts.append(generate_latest(registry).decode())

    @property
    def leaks(self) -> list[str]:
        return [text[:2000] for text in self.texts if any(planted in text for planted in PLANTED)]


class _Into(logging.Handler):
    def __init__(self, outlet: Outlet) -> None:
        super().__init__(logging.DEBUG)
        self.outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        self.outlet.record(record)


@contextmanager
def logging_into(outlet: Outlet, *names: str) -> Iterator[None]:
    """Take whatever these loggers say, at every level."""
    handler = _Into(outlet)
    before: Mapping[str, int] = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).setLevel(level)


def shown(error: BaseException) -> str:
    """A traceback as a program would print it."""
    out = io.StringIO()
    traceback.print_exception(error, file=out)
    return out.getvalue()
