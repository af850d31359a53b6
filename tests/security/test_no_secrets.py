"""Tokens and the content of Secrets are planted everywhere; nothing that an informer lets out may have one in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from informer import (
    ApiError,
    ApiListerWatcher,
    DegradedListerWatcher,
    InformerOptions,
    KubeObject,
    ListOptions,
    Problem,
    QuarantinedError,
    Resource,
    SharedInformer,
    SyncError,
    checks,
    scan,
)
from informer.testing import End, FakeApiServer, faults, match
from informer.testing.faults import Fault, Script

from .secrets import ENCODED, PASSWORD, PLANTED, SECRETS, TOKEN, TOKENS, Outlet, logging_into, secret, to_bytes

LOGGERS = ("informer", "asyncio", "aiohttp", "kubernetes_asyncio")


def event(kind: str, obj: object) -> bytes:
    return to_bytes({"type": kind, "object": obj}) + b"\n"


def listing(*items: object) -> bytes:
    return to_bytes({"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": items})


def status(message: str, code: int = 500) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "message": message, "reason": "InternalError", "code": code}


GO = (
    "couldn't decode: v1.Secret.Data: decode base64: illegal base64 data at input byte 0, error found in #10 byte of ...|"
    f'"{PASSWORD}"}}|..., bigger context ...|{{"password":"{ENCODED}"|...'
)
WHOLE = to_bytes(secret("whole"))
DATA_FIRST = to_bytes({"data": {"name": PASSWORD, "password": ENCODED}, **secret("first")})

LISTS: dict[str, Fault] = {
    "not valid JSON": faults.Answer(200, b"[" + WHOLE),
    "cut in the middle": faults.Answer(200, listing(secret("a"))[:-60]),
    "one Secret": faults.Answer(200, WHOLE),
    "a Secret with NaN": faults.Answer(200, listing(secret("a", extra=float("nan")))),
    "a Secret without a name": faults.Answer(200, listing({**secret("a"), "metadata": {}})),
    "a Secret in a bad key": faults.Answer(200, listing({**secret("a"), "metadata": {"name": 5, "note": PASSWORD}})),
    "data that are no map": faults.Answer(200, listing(secret("a", data=PASSWORD))),
    "labels with a secret": faults.Answer(200, listing(secret("a", labels={"x": PASSWORD}))),
    "a page that says so": faults.Answer(502, f"upstream said {PASSWORD}", content_type="text/plain"),
    "a page with the request": faults.Answer(
        500, f"<pre>GET /\nAuthorization: Bearer {TOKEN}\nX: Basic {ENCODED}</pre>", content_type="text/html"
    ),
    "an echo in JSON": faults.Answer(400, {"headers": {"Authorization": f"Bearer {TOKEN}"}}),
    "what Go quotes": faults.Answer(500, status(GO)),
    "half an answer": Script(listing(secret("a"))[:200], End.RESET),
    "not the promised bytes": Script(WHOLE, End.DROP),
}
WATCHES: dict[str, Fault] = {
    "a broken line": Script(event("ADDED", secret("a"))[:-30] + b"\n"),
    "half a line": Script(event("ADDED", secret("a"))[:-30], End.CLOSE),
    "no event": Script(WHOLE + b"\n"),
    "a Secret as a type": Script(to_bytes({"type": {"a": PASSWORD}, "object": secret("a")}) + b"\n"),
    "a broken Secret": Script(event("ADDED", secret("a", extra=float("nan")))),
    "a Secret without a name": Script(event("MODIFIED", {**secret("a"), "metadata": {"resourceVersion": "9"}})),
    "a Secret without anything": Script(event("MODIFIED", {**secret("a"), "metadata": {}})),
    "a deleted one without a key": Script(event("DELETED", {**secret("a"), "metadata": {}})),
    "a deleted one that is broken": Script(event("DELETED", secret("a", extra=float("nan")))),
    "a bad Secret": Script(event("ADDED", secret("a"))),
    "a bad Secret, terminating": Script(event("ADDED", secret("a", spec={"timeout": 5, "x": PASSWORD}))),
    "an ERROR with what Go quotes": Script(event("ERROR", status(GO))),
    "an ERROR with a Secret": Script(event("ERROR", secret("a"))),
    "a very large Secret": Script(event("ADDED", secret("a", filler="x" * 5000))),
    "a very large Secret, data first": Script(
        b'{"type":"ADDED","object":' + DATA_FIRST[:-1] + b',"filler":"' + b"x" * 5000 + b'"}}\n', End.STALL
    ),
    "a page that says so": faults.Answer(502, f"upstream said {PASSWORD}", content_type="text/plain"),
}


class Strict(msgspec.Struct):
    """Refuses every planted Secret, and msgspec says why."""

    data: dict[str, int] = {}


def quoting(obj: KubeObject) -> object:
    """A decoder that quotes what it refuses, as pydantic and many others do."""
    raise ValueError(f"cannot use {obj.to_dict()!r}")


def own_check(obj: KubeObject) -> list[Problem]:
    return [Problem(("data", "password"), str(obj["data"]), f"{obj['data']} is weak", f"not {ENCODED}")]


JUDGES: dict[str, dict[str, Any]] = {
    "a ready-made check": {"checks": [checks.duration("spec.timeout")]},
    "a check over values": {"checks": [checks.quantity("data[*]")]},
    "a check of one's own": {"checks": [own_check]},
    "msgspec": {"decode": lambda obj: msgspec.json.decode(obj.raw, type=Strict)},
    "a decoder that quotes": {"decode": quoting},
}


async def follow(
    resource: Resource,
    outlet: Outlet,
    judge: dict[str, Any],
    prepare: Callable[[FakeApiServer], object],
    minutes: int = 10,
) -> None:
    """Run an informer over planted Secrets, and take all that comes out."""
    registry = CollectorRegistry()
    async with FakeApiServer([resource]) as server, server.api_client(token=TOKEN) as client:
        server.tokens = {TOKEN}
        server.put_raw(resource, "stored", lambda version: to_bytes(secret("stored", version)))
        prepare(server)
        raw = ApiListerWatcher(client, resource, max_object_bytes=4096)
        source: DegradedListerWatcher[Any] = DegradedListerWatcher(raw, **judge)
        informer = SharedInformer(source, options=InformerOptions(registry=registry))
        with logging_into(outlet, *LOGGERS), source.quarantine.subscribe(outlet.take):
            try:
                async with informer:
                    for _ in range(minutes // 5):
                        await asyncio.sleep(300)
                        outlet.take(informer, informer.health, raw, source, source.quarantine, informer.lister)
                        for entry in source.quarantine.values():
                            outlet.take(entry, entry.problems, entry.summary, entry.metadata, entry.content)
                            outlet.take(entry.fix_commands(), QuarantinedError(entry))
                            with pytest.raises(Exception) as refused:
                                entry.to_dict()
                            outlet.take(refused.value)
                        outlet.metrics(registry)
                        outlet.take(informer._pulse.last_error)  # type: ignore[union-attr]
                    with pytest.raises(Exception) as missing:
                        informer.lister.get("nobody")
                    outlet.take(missing.value)
            except SyncError as error:
                outlet.take(error)
        with pytest.raises(Exception) as unsynced:
            await informer.wait_for_sync(timeout=1)
            raise LookupError
        outlet.take(unsynced.value)


@pytest.mark.parametrize("resource", [SECRETS, TOKENS], ids=str)
@pytest.mark.parametrize("judge", JUDGES)
async def test_judging(judge: str, resource: Resource):
    """When every Secret is refused, whatever refuses it, nothing of its content should come out."""
    outlet = Outlet()
    await follow(resource, outlet, JUDGES[judge], lambda _: None)
    assert not outlet.leaks
    assert any("stored" in text and "cannot be read" in text for text in outlet.texts)  # it was named all the same


@pytest.mark.parametrize(("verb", "answers"), [("list", LISTS), ("watch", WATCHES)], ids=["list", "watch"])
async def test_answers(verb: str, answers: dict[str, Fault]):
    """When a request for Secrets is answered by anything, neither a Secret nor the client's token should come out."""
    outlet = Outlet()
    rules = []

    def prepare(server: FakeApiServer) -> None:
        # A list that is read ends the row of LISTs; what comes after a broken line or a relist comes in later ones.
        for answer in answers.values():
            rules.append(server.faults.add(match(verb), answer))
            if verb == "list":
                server.faults.add(match("watch"), faults.status_answer(410, "Expired", "list again"))

    await follow(SECRETS, outlet, {"checks": [checks.duration("spec.timeout")]}, prepare, minutes=60)
    assert not outlet.leaks
    assert [rule.hits for rule in rules] == [1] * len(answers)


async def test_the_outlet_sees_a_leak():
    """When the very same happens with a resource that is not sensitive, the value should come out: the test can fail."""
    plain = Resource("example.test", "v1", "tokens", kind="Token")
    outlet = Outlet()
    async with FakeApiServer([plain]) as server, server.api_client() as client:
        server.put_raw(plain, "stored", lambda version: to_bytes(secret("stored", version)))
        with logging_into(outlet, *LOGGERS):
            found = await scan(ApiListerWatcher(client, plain), checks=[checks.duration("spec.timeout")])
    outlet.take(found.bad[0].summary)
    assert outlet.leaks


def test_values():
    """When an object is shown or cannot be used, its content should not be in the text."""
    outlet = Outlet()
    raw = to_bytes(secret("a"))
    obj = KubeObject.parse(raw)
    outlet.take(obj, obj.metadata.labels)
    for bad in (raw[:-5], b'{"data":{"password":"' + PASSWORD.encode() + b'"}}', PASSWORD.encode()):
        with pytest.raises(ValueError, match="no Kubernetes object") as error:
            KubeObject.parse(bad)
        outlet.take(error.value)
    broken = KubeObject(raw[:-5] + b"\xff", "a")
    for use in (broken.to_dict, lambda: broken["data"], lambda: obj[TOKEN + "x"[:0] or "nothing"]):
        with pytest.raises((ValueError, KeyError)) as failed:
            use()
        if not isinstance(failed.value, KeyError):  # which only repeats what was asked for
            outlet.take(failed.value)
    assert not outlet.leaks


@pytest.mark.parametrize(
    "said",
    [
        f"proxy: Authorization: Bearer {TOKEN}",
        f"bearer  {TOKEN}, go away",
        f'{{"authorization": "Bearer {TOKEN}"}}',
        f"cannot reach https://user:{PASSWORD}@proxy.test:3128/",
        f"basic {ENCODED}",
    ],
)
@pytest.mark.parametrize("code", [401, 403, 407, 500, 503])
async def test_credentials_that_are_repeated(said: str, code: int):
    """When a proxy repeats the client's credentials in its answer, they should not come out with it."""
    outlet = Outlet()
    resource = Resource("", "v1", "pods", kind="Pod")
    async with FakeApiServer([resource]) as server, server.api_client(token=TOKEN) as client:
        for body, kind in ((said, "text/plain"), (status(said, code), "application/json")):
            server.faults.add(match("list"), faults.Answer(code, body, content_type=kind))
            with pytest.raises(ApiError) as refused:
                await ApiListerWatcher(client, resource).list(ListOptions())
            outlet.take(refused.value)
            assert "***" in str(refused.value)
    assert not outlet.leaks


def test_what_is_planted():
    """When a secret is planted, all its spellings should be looked for."""
    texts = to_bytes(secret("a")).decode()
    assert all(planted in texts for planted in PLANTED if planted != TOKEN)
