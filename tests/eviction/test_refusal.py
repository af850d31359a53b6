"""classify_refusal: what did the server say no to?"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
from email.utils import format_datetime
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes_asyncio.client import ApiException

from eviction import Refusal, RefusalKind, classify_refusal
from eviction.refusal import classify

from .evicting import BUDGET_TEXT, GONE, OVERLOAD, SEVERAL, Response, by_budget, status

K = RefusalKind


def raised(response: Response) -> ApiException:
    """What kubernetes-asyncio makes of an answer."""

    class Http:
        status, reason, data = response.status, "Reason", response.body

        @staticmethod
        def getheaders() -> Any:
            return response.headers

    http: Any = Http()
    return ApiException(http_resp=http)


def cause(reason: str, message: str = "") -> dict[str, Any]:
    return {"causes": [{"reason": reason, "message": message}]}


STORAGE = "storage is (re)initializing"
WEBHOOK = 'admission webhook "evictions.kubevirt.io" denied the request: evacuating the VM'
VERSION = "the API version in the data (policy/v1) does not match the expected API version (policy/v1beta1)"
OLD_STYLE = Response(
    429, json.dumps({"metadata": {}, "status": "Failure", "message": BUDGET_TEXT, "code": 429}).encode()
)
UID_NEW = "Precondition failed: UID in precondition: U1, UID in object meta: U2"
UID_OLD = "the UID in the precondition (U1) does not match the UID in record (U2)"
TERMINATING = "unable to create new content in namespace x because it is being terminated"

TABLE = {
    "a budget without headroom": (by_budget(), K.BUDGET, "web"),
    "a budget, with a pause only a proxy asked for": (
        Response(429, by_budget().body, {"Retry-After": "120"}),
        K.BUDGET,
        "web",
    ),
    "a budget not observed yet": (by_budget(cause="is still being processed by the server.", retryAfterSeconds=10), K.BUDGET_NOT_OBSERVED, "web"),
    "a budget not observed yet, as 1.20 says it": (by_budget(cause="is still being processed by the server."), K.BUDGET_NOT_OBSERVED, "web"),
    "a budget whose controller asks for a pause": (by_budget(retryAfterSeconds=10), K.BUDGET_NOT_OBSERVED, "web"),
    "a budget that failed to sync": (by_budget(cause="does not allow evicting pods currently because it failed sync: x"), K.BUDGET_SYNC_FAILED, "web"),
    "a budget, before causes existed": (OLD_STYLE, K.BUDGET, None),
    "overload in plain text": (OVERLOAD, K.OVERLOADED, None),
    "overload without a body": (Response(429), K.OVERLOADED, None),
    "overload as a JSON text": (Response(429, b'"busy"'), K.OVERLOADED, None),
    "storage that starts": (status(429, STORAGE, details={"retryAfterSeconds": 1}), K.OVERLOADED, None),
    "unavailable": (status(503, "apiserver is shutting down"), K.OVERLOADED, None),
    "a Status without causes": (status(429, "slow down, please"), K.WEBHOOK_WAIT, None),
    "a webhook's own 429": (status(429, "Eviction triggered evacuation of VMI ns/vm"), K.WEBHOOK_WAIT, None),
    "a webhook's denial with 400": (status(400, WEBHOOK), K.WEBHOOK_WAIT, None),
    "a webhook's denial with 403": (status(403, WEBHOOK, reason="Forbidden"), K.WEBHOOK_WAIT, None),
    "a webhook's denial with 500": (status(500, WEBHOOK), K.WEBHOOK_WAIT, None),
    "a webhook's denial with 404": (status(404, WEBHOOK, details={"kind": "pods"}), K.WEBHOOK_WAIT, None),
    "two budgets": (SEVERAL, K.SEVERAL_BUDGETS, None),
    "a webhook that broke": (status(500, 'failed calling webhook "x": EOF', reason="InternalError"), K.TRANSIENT, None),
    "a gateway": (Response(502, b"<html>bad gateway</html>"), K.TRANSIENT, None),
    "conflicts over the budget": (status(504, "couldn't update PodDisruptionBudget", details={"retryAfterSeconds": 10}), K.TRANSIENT, None),
    "a request timeout": (Response(408), K.TRANSIENT, None),
    "a pod that is gone": (GONE, K.GONE, None),
    "a namespace that is gone": (status(404, "", details={"kind": "namespaces"}), K.GONE, None),
    "a path nobody serves": (status(404, "the server could not find the requested resource", details={}), K.INVALID, None),
    "a 404 from a proxy": (Response(404, b"404 page not found"), K.INVALID, None),
    "another pod of that name": (status(409, UID_NEW, reason="Conflict"), K.REPLACED, None),
    "another pod of that name, older text": (status(409, UID_OLD, reason="Conflict"), K.REPLACED, None),
    "another version of the pod": (status(409, "Precondition failed: ResourceVersion in precondition: 1"), K.CONFLICT, None),
    "a namespace that goes": (status(403, TERMINATING, details=cause("NamespaceTerminating")), K.NAMESPACE_TERMINATING, None),
    "a namespace that goes, without causes": (status(403, TERMINATING), K.NAMESPACE_TERMINATING, None),
    "no right to": (status(403, 'pods "web-0" is forbidden: User "x" cannot create', reason="Forbidden"), K.FORBIDDEN, None),
    "a budget in a bad state": (status(403, "", details={"kind": "poddisruptionbudget", **cause("DisruptionBudgetNegativeAllowedDisruptions")}), K.FORBIDDEN, None),
    "no credentials": (status(401, "Unauthorized"), K.FORBIDDEN, None),
    "a version nobody speaks": (status(400, VERSION), K.INVALID, None),
    "an object that makes no sense": (status(422, "Invalid"), K.INVALID, None),
    "a method that does not exist": (status(405, ""), K.INVALID, None),
}  # fmt: skip


@pytest.mark.parametrize(("response", "kind", "budget"), TABLE.values(), ids=TABLE)
def test_each_answer_has_its_kind(response: Response, kind: RefusalKind, budget: str | None) -> None:
    """When the server answers, it should be told by code and causes, and by text only where nothing else exists."""
    refusal = classify_refusal(raised(response))
    assert (refusal.kind, refusal.budget, refusal.status) == (kind, budget, response.status)


def test_every_kind_stands_in_the_table() -> None:
    """When a kind is added, the table above should know it."""
    assert {kind for _, kind, _ in TABLE.values()} == set(RefusalKind)


@pytest.mark.parametrize("form", ["bytes", "text", "tree", "bytearray"])
def test_the_body_may_have_any_form(form: str) -> None:
    """When a client hands the body over as bytes, text or decoded, it should make no difference."""
    error = raised(by_budget())
    body: Any = error.body
    error.body = {"bytes": body, "text": body.decode(), "tree": json.loads(body), "bytearray": bytearray(body)}[form]
    refusal = classify_refusal(error)
    assert refusal.kind is K.BUDGET
    assert refusal.message == f"{BUDGET_TEXT} The disruption budget web needs 2 healthy pods and has 2 currently"


def test_a_message_is_one_short_printable_line() -> None:
    """When the server's text is long, or has line breaks and surrogates, it should still fit into a log and a condition."""
    text = "a\nb\x1b[31m\ud800" + "x" * 100_000
    refusal = classify_refusal(raised(status(400, text)))
    assert refusal.message.startswith("a b [31m?xx")
    assert refusal.message.isprintable()
    assert len(refusal.message) == 1024
    refusal.message.encode()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", None),
        ("-5", None),
        ("99999999999999999999", 300),
        ("9" * 5000, None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("٣", None),
        ("Thu, 01 Jan 2026 00:00:42 GMT", 42),
        ("Wed, 31 Dec 2025 00:00:00 GMT", None),
        ("Fri, 01 Jan 2027 00:00:00 GMT", 300),
        ("Thu, 99 Jan 2026 00:00:42 GMT", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["Retry-After", "retry-after", "RETRY-AFTER"])
def test_retry_after(name: str, header: str, seconds: float | None) -> None:
    """When there is a Retry-After of any spelling, it should be a sane number of seconds, or none; dates count from the
    answer's own date."""
    headers = {name: header, "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    assert classify_refusal(raised(Response(429, b"", headers))).retry_after == seconds


def test_retry_after_as_a_date_without_a_date() -> None:
    """When the answer has no date of its own, ours should do."""
    at = format_datetime(dt.datetime.fromtimestamp(time.time() + 100, dt.UTC), usegmt=True)
    wait = classify_refusal(raised(Response(503, b"", {"Retry-After": at}))).retry_after
    assert wait is not None
    assert 95 < wait <= 100


@pytest.mark.parametrize(
    ("header", "body", "expected"), [("5", 10, 10), ("20", 10, 20), (None, 10, 10), (None, -1, None)]
)
def test_the_larger_of_header_and_detail_counts(header: str | None, body: int, expected: float | None) -> None:
    """When a proxy drops or changes the header, the Status should still be heard."""
    answer = status(503, "x", details={"retryAfterSeconds": body})
    headers = {} if header is None else {"Retry-After": header}
    assert classify_refusal(raised(Response(503, answer.body, headers))).retry_after == expected


# ---------------------------------------------------------------- what else a client raises


def test_a_body_that_is_not_utf8() -> None:
    """When kubernetes-asyncio trips over an error body that is no UTF-8, the refusal behind it should still be read."""
    body = by_budget().body.replace(b"healthy", b"health\xff")
    try:
        try:
            raise raised(Response(429, body, {"Retry-After": "7"}))
        except ApiException as error:
            (error.body or b"").decode("utf-8")  # what the client does
            raise
    except UnicodeDecodeError as error:
        refusal = classify_refusal(error)
    assert (refusal.kind, refusal.budget, refusal.status, refusal.retry_after) == (K.BUDGET, "web", 429, 7)


def test_a_decode_error_without_the_exception_behind_it() -> None:
    """When only the bytes are left, the code inside them should do."""
    error = UnicodeDecodeError("utf-8", by_budget().body + b"\xff", 0, 1, "x")
    assert classify_refusal(error).kind is K.TRANSIENT
    error = UnicodeDecodeError("utf-8", SEVERAL.body, 0, 1, "x")
    assert classify_refusal(error).kind is K.SEVERAL_BUDGETS


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(104, "reset"),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientPayloadError("cut"),
        asyncio.IncompleteReadError(b"", 5),
        ApiException(status=0, reason="none"),
        ApiException(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
        RuntimeError("?"),
        BaseExceptionGroup("g", [KeyboardInterrupt()]),
    ],
    ids=repr,
)
def test_no_answer_is_transient(error: BaseException) -> None:
    """When there is no answer to read, the outcome should be called unknown, with the error's name."""
    refusal = classify_refusal(error)
    assert refusal.kind is K.TRANSIENT
    assert type(error).__name__ in refusal.message or refusal.message == "\ufffd"


class StatusModel:
    """lightkube's decoded Status."""

    code, message = 429, BUDGET_TEXT

    class details:
        class _Cause:
            reason, message = "DisruptionBudget", "The disruption budget web needs 2 healthy pods"

        causes, retryAfterSeconds = [_Cause], None


class Carrier(Exception):
    """An exception with whatever attributes a client gives it."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__ |= attributes


class HttpResponse:
    """httpx's, as lightkube and kr8s carry it."""

    def __init__(self, response: Response) -> None:
        self.status_code, self.headers, self.content = response.status, response.headers, response.body


SISTERS = {
    "kubernetes (sync)": Carrier(status=429, body=by_budget().body, headers={"X": "y"}, reason="Too Many Requests"),
    "kubernetes.aio": Carrier(status=429, body=by_budget().body.decode(), headers=[("X", "y")]),
    "lightkube": Carrier(status=StatusModel, response=None),
    "kr8s": Carrier(status="429 Too Many Requests", response=HttpResponse(by_budget())),
    "httpx": Carrier(response=HttpResponse(by_budget())),
}


@pytest.mark.parametrize("error", SISTERS.values(), ids=SISTERS)
def test_sister_clients(error: Exception) -> None:
    """When another client raised, its shape should be understood by duck typing."""
    refusal = classify_refusal(error)
    assert (refusal.kind, refusal.budget, refusal.status) == (K.BUDGET, "web", 429)


# ---------------------------------------------------------------- never raises


class Nasty:
    """Attributes, mappings and texts that fail when touched."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("str")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["kind", "message", "details", "causes", "reason", "code", "retryAfterSeconds", "x"]), inner
        )
    ),
    max_leaves=20,
)
BODIES = st.one_of(
    st.none(), st.binary(max_size=200), st.text(max_size=50), JSON, JSON.map(json.dumps), st.builds(Nasty)
)
HEADERS = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(["Retry-After", "date", "x"]), st.text(max_size=30) | st.binary(max_size=9)),
    st.lists(st.tuples(st.text(max_size=12), st.text(max_size=9))),
    st.lists(st.integers()),
    st.integers(),
    st.builds(Nasty),
)
STATUSES = st.one_of(st.none(), st.integers(-5, 999), st.text(max_size=5), JSON, st.builds(Nasty))


@settings(max_examples=400, deadline=None)
@given(STATUSES, HEADERS, BODIES, st.booleans())
def test_whatever_comes_it_never_raises(code: Any, headers: Any, body: Any, nested: bool) -> None:
    """When bytes, headers and status are random, it should still answer with a refusal fit for logs and timers."""
    carried = {"status": code, "headers": headers, "body": body, "reason": body}
    error = Carrier(response=type("R", (), carried)) if nested else Carrier(**carried)
    refusal = classify_refusal(error)
    assert isinstance(refusal, Refusal)
    assert refusal.kind in RefusalKind
    assert isinstance(refusal.message, str)
    refusal.message.encode()
    assert len(refusal.message) <= 1024
    assert refusal.retry_after is None or 0 < refusal.retry_after <= 300
    assert refusal.budget is None or isinstance(refusal.budget, str)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(TABLE)), st.data())
def test_a_cut_or_flipped_body_never_raises(name: str, data: st.DataObject) -> None:
    """When a real answer is cut off or has a bad byte, it should still be classified."""
    response = TABLE[name][0]
    at = data.draw(st.integers(0, len(response.body)))
    flipped = response.body[:at] + data.draw(st.binary(max_size=2)) + response.body[at + 1 :]
    for body in (response.body[:at], flipped):
        assert classify_refusal(raised(Response(response.status, body, response.headers))).status == response.status


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a":' * 50_000, b'{"code":' + b"9" * 10_000 + b"}", b"\xff" * 2_000_000]
)
def test_absurd_bodies(body: bytes) -> None:
    """When a body is nested or long beyond reason, it should not take the program down."""
    assert classify_refusal(raised(Response(429, body))).kind in (K.OVERLOADED, K.WEBHOOK_WAIT)


def test_nothing_of_a_header_reaches_the_message() -> None:
    """When headers carry secrets, no message should."""
    error = raised(Response(429, b"", {"Set-Cookie": "secret", "Authorization": "secret"}))
    assert "secret" not in classify_refusal(error).message


def test_classify_takes_what_the_package_read_itself() -> None:
    """When evict has read an answer, it should be judged by the same rules."""
    from eviction._answer import of_response

    assert classify(of_response(429, OVERLOAD.headers, OVERLOAD.body)) == classify_refusal(raised(OVERLOAD))
