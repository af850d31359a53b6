"""An HTTP answer taken apart without trust: status, Status body and Retry-After, from any client's exception or raw parts."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from attrs import field, frozen

MAX_RETRY_AFTER: Final = 300.0
"""Seconds. A proxy's "come back in a week" must not stop a drain for a week."""

MAX_MESSAGE: Final = 1024
MAX_BODY: Final = 1 << 20


@frozen
class Answer:
    """What is left of an answer after everything doubtful was dropped."""

    status: int | None = None
    message: str = ""
    is_status: bool = False
    """The body was a JSON object. Overload is answered in plain text."""
    causes: Mapping[str, str] = field(factory=dict)
    """`details.causes`: reason to message."""
    details_kind: str = ""
    retry_after: float | None = None
    retry_in_body: bool = False
    """`details.retryAfterSeconds` is positive: the server itself, and no proxy, asks for a pause."""


def of_response(status: int, headers: Any, body: Any, fallback: str = "") -> Answer:
    """Take an answer apart. Never raises.

    Args:
        status: The HTTP status.
        headers: Any mapping, or pairs, or None.
        body: bytes, str, a decoded object, or None.
        fallback: The message when the body has none.
    """
    text, tree = _decode(body)
    is_status = tree is not None
    details = _get(tree, "details")
    causes: dict[str, str] = {}
    listed = _get(details, "causes")
    for cause in listed if isinstance(listed, (list, tuple)) else ():
        reason = _get(cause, "reason")
        if isinstance(reason, str) and reason:
            causes[reason] = (
                f"{causes[reason]} {_text(_get(cause, 'message'))}"
                if reason in causes
                else _text(_get(cause, "message"))
            )
    code = status or _integer(_get(tree, "code"))
    kind = _get(details, "kind")
    in_body = _integer(_get(details, "retryAfterSeconds")) or 0
    message = _text(_get(tree, "message")) if is_status else text
    waits = [wait for wait in (_retry_header(headers), _capped(in_body)) if wait is not None]
    return Answer(
        status=code or None,
        message=_one_line(" ".join(filter(None, (message, *causes.values()))) or fallback),
        is_status=is_status,
        causes=causes,
        details_kind=kind if isinstance(kind, str) else "",
        retry_after=max(waits, default=None),
        retry_in_body=in_body > 0,
    )


def of_exception(exc: BaseException) -> Answer:
    """Take apart what a client raised. Never raises."""
    # kubernetes-asyncio loses the ApiException while it decodes its body; Python keeps it as the context.
    source = exc
    if isinstance(exc, UnicodeDecodeError) and _status(exc.__context__) is not None:
        assert exc.__context__ is not None
        source = exc.__context__
    response = _get(source, "response")
    body = _first(source, ("body", "data"), response, ("content", "data", "text"))
    if body is None:
        body = exc.object if isinstance(exc, UnicodeDecodeError) else _status_model(source)
    headers = _first(source, ("headers",), response, ("headers",))
    return of_response(_status(source) or 0, headers, body, fallback=_describe(source))


def _status(exc: BaseException | None) -> int | None:
    response = _get(exc, "response")
    model = _get(exc, "status")
    for holder, name in (
        (exc, "status"),
        (exc, "status_code"),
        (exc, "code"),
        (response, "status"),
        (response, "status_code"),
        (model, "code"),
    ):
        if (number := _integer(_get(holder, name))) is not None:
            return number
    return None


def _status_model(exc: BaseException) -> Any:
    """Clients such as lightkube and kr8s keep the decoded Status where others keep the number."""
    model = _get(exc, "status")
    return model if model is not None and _integer(model) is None and not isinstance(model, (str, bytes)) else None


def _first(one: Any, names: tuple[str, ...], other: Any, others: tuple[str, ...]) -> Any:
    for holder, name in (*((one, name) for name in names), *((other, name) for name in others)):
        value = _get(holder, name)
        if value is not None and not callable(value):
            return value
    return None


def _decode(body: Any) -> tuple[str, Any]:
    """The body as text and, when it is a JSON object, as a tree. A model of another client is its own tree."""
    if body is None:
        return "", None
    if isinstance(body, (bytes, bytearray, memoryview)):
        body = bytes(body[:MAX_BODY]).decode("utf-8", errors="replace")
    if not isinstance(body, str):
        return ("", None) if isinstance(body, (int, float, list, tuple)) else ("", body)
    # ValueError: not JSON, or a number of absurd length. RecursionError: absurd nesting.
    tree = _quietly(lambda: json.loads(body))
    return body, tree if isinstance(tree, dict) else None


def _retry_header(headers: Any) -> float | None:
    found: dict[str, str] = {}
    pairs = _quietly(lambda: list(headers.items()) if hasattr(headers, "items") else list(headers or ()))
    for pair in pairs or ():
        if isinstance(pair, (tuple, list)) and len(pair) == 2:
            found.setdefault(_text(pair[0]).lower(), _text(pair[1]).strip())
    value = found.get("retry-after", "")
    number = _integer(value) if value.isascii() else None
    if number is not None:
        return _capped(number)
    date = _timestamp(value)
    if date is None:
        return None
    # Against the answer's own date, where there is one: the two clocks need not agree.
    sent = _timestamp(found.get("date", ""))
    return _capped(date - (time.time() if sent is None else sent))


def _timestamp(text: str) -> float | None:
    return _quietly(lambda: parsedate_to_datetime(text).timestamp()) if text else None


def _capped(wait: float) -> float | None:
    return float(min(wait, MAX_RETRY_AFTER)) if wait > 0 else None


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    number = _quietly(lambda: int(value))
    # int subclasses such as http.HTTPStatus come out plain
    return None if number is None else int(number)


def _get(holder: Any, name: str) -> Any:
    if holder is None:
        return None
    if isinstance(holder, Mapping):
        return _quietly(lambda: holder.get(name))
    return _quietly(lambda: getattr(holder, name, None))


def _describe(exc: BaseException) -> str:
    reason = _get(exc, "reason")
    said = reason if isinstance(reason, str) else _quietly(lambda: str(exc)) if _status(exc) is None else ""
    return f"{type(exc).__name__}: {said}" if said else type(exc).__name__


def _text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    """Fit for a log line and a condition: no control characters, no lone surrogates, bounded."""
    plain = text[: MAX_MESSAGE * 4].encode("utf-8", errors="replace").decode("utf-8")
    line = " ".join("".join(char if char.isprintable() else " " for char in plain).split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 1] + "…"


def _quietly(read: Callable[[], Any]) -> Any:
    """None when reading fails: somebody else's property, mapping or `__str__` may do anything."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - a classifier that raises would hide the refusal it was asked about
        return None
