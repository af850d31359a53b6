from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from informer.testing import End, FakeApiServer, faults, match

from .conftest import CLUSTERS, WIDGETS, Http, event, events, widget

PATH = "/apis/example.test/v1/widgets"
GET_LIST = match("list", WIDGETS)
GET_WATCH = match("watch", WIDGETS)


def loop_time() -> float:
    return asyncio.get_running_loop().time()


async def test_rules_make_a_script(server: FakeApiServer, http: Http):
    """When rules are added one after the other, they should play in order and then leave the server alone."""
    server.faults.add(GET_LIST, faults.status_answer(429, "TooManyRequests", "slow down", retry_after=7))
    passed = server.faults.add(GET_LIST, faults.Pass())
    server.faults.add(GET_LIST, faults.Answer(503, "<html>", content_type="text/html"), times=2)
    assert [(await http("GET", PATH))[0] for _ in range(5)] == [429, 200, 503, 503, 200]
    assert passed.hits == 1
    assert [request.status for request in server.lists(WIDGETS)] == [429, 200, 503, 503, 200]


async def test_rules_can_be_taken_back(server: FakeApiServer, http: Http):
    """When a rule has no count, it should hold until it is removed or all are cleared."""
    rule = server.faults.add(match(), faults.Answer(500, "x", content_type="text/plain"), times=None)
    server.faults.add(match("get"), faults.Answer(501, "x", content_type="text/plain"), times=None)
    assert [(await http("GET", PATH))[0] for _ in range(3)] == [500] * 3
    server.faults.remove(rule)
    assert (await http("GET", f"{PATH}/a"))[0] == 501
    server.faults.clear()
    assert (await http("GET", PATH))[0] == 200
    assert rule.hits == 3


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        (match(), True),
        (match("list"), True),
        (match("watch"), False),
        (match("list", WIDGETS), True),
        (match("list", CLUSTERS), False),
        (match(namespace="team-a"), True),
        (match(namespace=""), False),
        (match(name="a"), False),
        (match(subresource=""), True),
        (match(when=lambda request: request.query.get("limit") == "5"), True),
        (match(when=lambda request: "continue" in request.query), False),
    ],
)
async def test_matching(server: FakeApiServer, http: Http, rule, hit: bool):
    """When a request comes, only rules that match all they name should hit it."""
    server.faults.add(rule, faults.Answer(418, "x", content_type="text/plain"))
    status, _ = await http("GET", "/apis/example.test/v1/namespaces/team-a/widgets", limit="5")
    assert (status == 418) is hit


async def test_status_answers(server: FakeApiServer, http: Http):
    """When a Status is played, it should have the server's shape, the header, and indentation on request."""
    answer = faults.status_answer(504, "Timeout", "late", causes=[{"message": "x"}], retry_after=3, pretty=True)
    server.faults.add(GET_LIST, answer)
    async with http.session.get(PATH) as got:
        text = await got.text()
    assert (got.status, got.headers["Retry-After"], got.content_type) == (504, "3", "application/json")
    assert text.count("\n") > 10
    assert json.loads(text) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "late",
        "reason": "Timeout",
        "details": {"causes": [{"message": "x"}], "retryAfterSeconds": 3},
        "code": 504,
    }


async def test_script(server: FakeApiServer, http: Http):
    """When a script is played, each step should come at its time, and a clean end should end it."""
    server.faults.add(GET_WATCH, faults.Script(b"one\n", faults.Wait(60), b"two\n", headers={"X-A": "b"}))
    async with http.watch() as answer:
        assert answer.headers["X-A"] == "b"
        assert (await answer.content.readline(), loop_time()) == (b"one\n", 1000)
        assert (await answer.content.readline(), loop_time()) == (b"two\n", 1060)
        assert await answer.content.readline() == b""


async def test_instant_clean_close(server: FakeApiServer, http: Http):
    """When an empty script is played, it should be 200, no bytes, a proper end."""
    server.faults.add(GET_WATCH, faults.Script())
    async with http.watch() as answer:
        assert (answer.status, await answer.read()) == (200, b"")


@pytest.mark.parametrize("end", [End.RESET, End.DROP])
async def test_torn_line(server: FakeApiServer, http: Http, end: End):
    """When a script ends in the middle of a line, the client should get the bytes and then an error."""
    server.faults.add(GET_WATCH, faults.Script(b'{"type":', faults.Wait(1), end))
    async with http.watch() as answer:
        assert await answer.content.readany() == b'{"type":'
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.readany()


async def test_half_a_body_then_silence(server: FakeApiServer, http: Http):
    """When a body stalls, nothing should come however long the client waits; the server forgets it when it leaves."""
    server.faults.add(GET_LIST, faults.Cut(after_bytes=10, then=End.STALL))
    async with http.session.get(PATH) as answer:
        assert await answer.content.readexactly(10) == b'{"kind":"W'
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(answer.content.read(1), 86_400)
    await server.wait_until(lambda: server.open_connections == 0)


@pytest.mark.parametrize(("end", "error"), [(End.RESET, OSError), (End.DROP, aiohttp.ServerDisconnectedError)])
async def test_no_answer_but_death(server: FakeApiServer, http: Http, end: End, error: type[Exception]):
    """When the server dies before any header, the client should see the connection break."""
    server.faults.add(GET_LIST, faults.NoAnswer(end), times=None)
    with pytest.raises(error):
        await http.session.get(PATH)


async def test_no_answer_at_all(server: FakeApiServer, http: Http):
    """When nothing is answered, the client should wait for its own deadline, and the request be recorded without status."""
    server.faults.add(GET_LIST, faults.NoAnswer())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(http.session.get(PATH), 65)
    assert loop_time() == 1065
    assert server.lists(WIDGETS)[0].status is None


@pytest.mark.parametrize("then", list(End))
async def test_cut_after_events(server: FakeApiServer, http: Http, then: End):
    """When a watch is cut after two events, exactly two should arrive, and then the chosen end."""
    for name in "abc":
        server.create(WIDGETS, widget(name))
    server.faults.add(GET_WATCH, faults.Cut(after_lines=2, then=then))
    async with http.watch(resourceVersion="1", timeoutSeconds="30") as answer:
        assert [(await event(answer))[1]["metadata"]["name"] for _ in range(2)] == ["a", "b"]
        match then:
            case End.CLOSE:
                assert await event(answer) is None
            case End.STALL:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(event(answer), 600)
            case _:
                with pytest.raises(aiohttp.ClientPayloadError):
                    await event(answer)


async def test_cut_in_the_middle_of_an_event(server: FakeApiServer, http: Http):
    """When a watch is cut by bytes and closed properly, the last line should be torn."""
    server.create(WIDGETS, widget("a"))
    server.faults.add(GET_WATCH, faults.Cut(after_bytes=30, then=End.CLOSE))
    async with http.watch(resourceVersion="1") as answer:
        assert await answer.read() == b'{"type":"ADDED","object":{"kin'


async def test_slow_drip(server: FakeApiServer, http: Http):
    """When a body drips, it should arrive whole, byte by byte, at the set pace."""
    server.create(WIDGETS, widget("a", tier="日本語"))
    _, expected = await http("GET", PATH)
    server.faults.add(GET_LIST, faults.Drip(bytes_per_second=10))
    began = loop_time()
    async with http.session.get(PATH) as answer:
        pieces = [piece async for piece in answer.content.iter_any()]
    body = b"".join(pieces)
    assert json.loads(body) == expected
    assert len(pieces) == len(body)
    assert loop_time() - began == pytest.approx(len(body) / 10)


async def test_chunks_of_a_size(server: FakeApiServer, http: Http):
    """When only chunks are asked for, the body should come in such chunks without waiting."""
    server.faults.add(GET_LIST, faults.Drip(chunk=7))
    async with http.session.get(PATH) as answer:
        chunks = [piece async for piece, _ in answer.content.iter_chunks()]
    assert json.loads(b"".join(chunks))["items"] == []
    assert loop_time() == 1000


async def test_poison(server: FakeApiServer, http: Http):
    """When bytes are injected, they should stand exactly behind the chosen line, the rest untouched."""
    for name in "ab":
        server.create(WIDGETS, widget(name))
    server.faults.add(GET_WATCH, faults.Inject(b"\xff\xfe\n", after_lines=1))
    server.faults.add(GET_WATCH, faults.Inject(b"first\n"))
    async with http.watch(resourceVersion="1", timeoutSeconds="1") as answer:
        assert [line[:5] async for line in answer.content] == [b'{"typ', b"\xff\xfe\n", b'{"typ']
    async with http.watch(resourceVersion="1", timeoutSeconds="1") as answer:
        assert [line[:5] async for line in answer.content] == [b"first", b'{"typ', b'{"typ']


async def test_lost_events(server: FakeApiServer, http: Http):
    """When events are dropped on the wire, only the chosen lines should be missing."""
    for name in "abc":
        server.create(WIDGETS, widget(name))
    server.faults.add(GET_WATCH, faults.DropEvents(lambda line: b'"name":"b"' in line))
    async with http.watch(resourceVersion="1", timeoutSeconds="1") as answer:
        assert [name for _, name, _ in await events(answer)] == ["a", "c"]


async def test_delay(server: FakeApiServer, http: Http):
    """When an answer is delayed, it should be the proper one, later."""
    server.faults.add(GET_LIST, faults.Delay(30))
    assert (await http("GET", PATH))[0] == 200
    assert loop_time() == 1030


async def test_faults_together(server: FakeApiServer, http: Http):
    """When faults are combined, each should have its effect; the first is nearest to the client."""
    for name in "abc":
        server.create(WIDGETS, widget(name))
    server.faults.add(
        GET_WATCH,
        faults.Delay(5),
        faults.DropEvents(lambda line: b'"name":"a"' in line),
        faults.Cut(after_lines=2, then=End.CLOSE),
    )
    async with http.watch(resourceVersion="1") as answer:
        assert [name for _, name, _ in await events(answer)] == ["b"]
    assert loop_time() == 1005


async def test_any_function_is_a_fault(server: FakeApiServer, http: Http):
    """When a test brings its own function, it should be able to look, answer and proceed."""
    seen = []

    async def mine(exchange: faults.Exchange, proceed) -> None:
        seen.append(exchange.request.verb)
        await asyncio.sleep(1)
        await proceed()
        seen.append(exchange.request.status)

    server.faults.add(GET_LIST, mine)
    assert (await http("GET", PATH))[0] == 200
    assert seen == ["list", 200]


async def test_a_bug_in_a_fault_is_visible(server: FakeApiServer, http: Http, caplog: pytest.LogCaptureFixture):
    """When a fault raises, the client should get a 500 that names it, and the log its traceback."""

    async def broken(_exchange, _proceed) -> None:
        raise LookupError("oops")

    server.faults.add(GET_LIST, broken)
    status, body = await http("GET", PATH)
    assert (status, body["reason"]) == (500, "InternalError")
    assert "oops" in body["message"]
    assert "LookupError" in caplog.text
