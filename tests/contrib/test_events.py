"""`EventReporter`: one Event per bad object, counted up, never in anybody's way."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import frozen

from informer import DegradedListerWatcher, InformerFactory, Quarantine, Resource, SharedInformer, checks
from informer.contrib.events import EventReporter
from informer.testing import FakeApiServer, FakeListerWatcher, faults, match, now
from tests.clients import CLIENTS, open_client

EVENTS = Resource("", "v1", "events", kind="Event")
WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
NODES = Resource("", "v1", "nodes", kind="Node", namespaced=False)
SECRETS = Resource("", "v1", "secrets", kind="Secret")
CHECKS = [checks.duration("spec.timeout")]


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer([EVENTS, WIDGETS, NODES, SECRETS], bookmark_period=None) as server:
        yield server


@frozen
class Bench:
    """A source in memory with a quarantine, and a reporter that writes to the server."""

    server: FakeApiServer
    source: FakeListerWatcher
    reporter: EventReporter

    def bad(self, name: str, value: str = "1") -> None:
        if any(one["metadata"]["name"] == name for one in self.source.cluster.objects(self.source.resource)):
            self.source.update(name, {"timeout": value})
        else:
            self.source.create(name, {"timeout": value})

    def events(self) -> list[dict[str, Any]]:
        return self.server.objects(EVENTS)

    async def settle(self, seconds: float = 5) -> None:
        await asyncio.sleep(seconds)

    def writes(self) -> list[str]:
        return [f"{one.verb} {one.status}" for one in self.server.requests]


@asynccontextmanager
async def bench(server: FakeApiServer, resource: Resource = WIDGETS, **options: Any) -> AsyncIterator[Bench]:
    source, quarantine = FakeListerWatcher(resource), Quarantine(now=now)
    degraded = DegradedListerWatcher(source, checks=CHECKS, quarantine=quarantine)
    async with server.api_client() as api, SharedInformer(degraded):
        async with EventReporter(api, quarantine, component="widgets", now=now, **options) as reporter:
            yield Bench(server, source, reporter)


async def test_one_bad_object(server: FakeApiServer) -> None:
    """When an object cannot be read, one Warning about it should say what the log says, where kubectl describe looks."""
    async with bench(server, instance="widgets-0") as world:
        world.bad("a")
        await world.settle()
        (event,) = world.events()
    assert event["involvedObject"].pop("uid")
    assert event["involvedObject"].pop("resourceVersion")
    assert event["involvedObject"] == {
        "apiVersion": "example.test/v1",
        "kind": "Widget",
        "name": "a",
        "namespace": "default",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "Unreadable", 1)
    assert event["source"] == {"component": "widgets", "host": "widgets-0"}
    assert event["message"] == (
        'cannot be read and is withheld: spec.timeout is "1": not a duration: missing unit (expected: duration, e.g. 10m).'
        " To fix it: kubectl patch widgets.v1.example.test a -n default --type=merge -p "
        '\'{"spec":{"timeout":"<duration, e.g. 10m>"}}\''
    )
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["metadata"]["name"].startswith("a.")
    assert world.writes() == ["create 201"]


async def test_it_changes_and_stays(server: FakeApiServer) -> None:
    """When a bad object changes a lot and is never mended, the same Event should count up: once a minute at most, and each
    half hour, before the server forgets it."""
    async with bench(server) as world:
        for number in range(1, 40):
            world.bad("a", str(number))
            await world.settle(1)
        assert [event["count"] for event in world.events()] == [1]
        await world.settle(60)
        (event,) = world.events()
        assert (event["count"], 'is "39"' in event["message"]) == (2, True)
        await world.settle(4 * 1800)
        (event,) = world.events()
        assert event["count"] == 6
        assert event["lastTimestamp"] > event["firstTimestamp"]
    assert world.writes() == ["create 201"] + ["patch 200"] * 5


@pytest.mark.parametrize("end", ["mended", "deleted"])
async def test_it_is_mended_or_gone(server: FakeApiServer, end: str) -> None:
    """When an object is mended or gone, nothing more should be said about it."""
    async with bench(server) as world:
        world.bad("a")
        await world.settle()
        if end == "mended":
            world.source.update("a", {"timeout": "10m"})
        else:
            world.source.delete("a")
        await world.settle(3 * 3600)
        assert len(world.writes()) == 1
        if end == "deleted":
            world.bad("a")  # another life
            await world.settle()
            assert len({event["involvedObject"]["uid"] for event in world.events()}) == 2


async def test_a_restart(server: FakeApiServer) -> None:
    """When the process comes back, it should find its Event by name and count it up."""
    async with server.api_client() as api:
        for count in (1, 2, 3):
            source, quarantine = FakeListerWatcher(WIDGETS), Quarantine()
            source.create("a", {"timeout": "1"})
            degraded = DegradedListerWatcher(source, checks=CHECKS, quarantine=quarantine)
            async with SharedInformer(degraded) as informer:
                await informer.wait_for_sync()
                async with EventReporter(api, quarantine, component="widgets"):
                    await asyncio.sleep(5)
            assert [event["count"] for event in server.objects(EVENTS)] == [count]


async def test_the_server_forgets(server: FakeApiServer) -> None:
    """When the server has dropped the Event meanwhile, it should be written anew."""
    async with bench(server) as world:
        world.bad("a")
        await world.settle()
        server.delete(EVENTS, world.events()[0]["metadata"]["name"])
        await world.settle(1800)
        assert [event["count"] for event in world.events()] == [1]
        await world.settle(1800)
        assert [event["count"] for event in world.events()] == [2]
    assert world.writes() == ["create 201", "patch 404", "create 201", "patch 200"]


async def test_pace(server: FakeApiServer) -> None:
    """When hundreds turn bad at once, their Events should come one a second, and each only once."""
    async with bench(server) as world:
        for number in range(100):
            world.bad(f"w{number}")
        await world.settle(50.5)
        assert 49 <= len(world.events()) <= 52
        await world.settle(60)
        assert len(world.events()) == 100
    times = [one.time for one in server.requests]
    assert min(b - a for a, b in itertools.pairwise(times)) >= 0.99


async def test_a_cluster_scoped_object(server: FakeApiServer) -> None:
    """When the object has no namespace, its Event should be in `default`, and name none for it."""
    async with bench(server, NODES) as world:
        world.source.create("n1", {"timeout": "1"})
        await world.settle()
        (event,) = world.events()
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"]["apiVersion"] == "v1"
    assert "namespace" not in event["involvedObject"]


async def test_a_sensitive_object(server: FakeApiServer) -> None:
    """When the resource is sensitive, no value of the object should be in the Event."""
    async with bench(server, SECRETS) as world:
        world.bad("a", "hunter2")
        await world.settle()
        (event,) = world.events()
    assert "spec.timeout" in event["message"]
    assert "hunter2" not in json.dumps(event)


async def test_odd_names_and_long_messages(server: FakeApiServer) -> None:
    """When names and messages are longer or odder than an Event allows, the Event should fit all the same."""
    async with bench(server) as world:
        name = "system:x_Y" + "z" * 240
        for odd, timeout in ((name, "1" * 5000), ("...", "1")):
            metadata = {"name": odd, "namespace": "default", "uid": f"uid-{odd}"}
            body = {"metadata": metadata, "spec": {"timeout": timeout}}
            world.source.cluster.put_raw(
                WIDGETS, odd, lambda version, body=body: json.dumps(_versioned(body, version)).encode()
            )
        await world.settle()
        events = {event["involvedObject"]["name"]: event for event in world.events()}
    assert events[name]["metadata"]["name"].startswith("system-x-yz")
    assert events["..."]["metadata"]["name"].startswith("widgets.")
    for event in events.values():
        assert len(event["metadata"]["name"]) <= 253
        assert len(event["message"].encode()) <= 1024


def _versioned(body: dict[str, Any], version: str) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (faults.status_answer(403, "Forbidden", "no rights"), "403 Forbidden"),
        (faults.status_answer(429, "TooManyRequests", "slow", retry_after=60), "429 TooManyRequests"),
        (faults.Answer(500, "<html>"), "500 InternalError"),
        (faults.NoAnswer(), "Timeout"),
        (faults.Answer(201, "no json"), "ValueError"),
    ],
    ids=["403", "429", "500", "silence", "nonsense"],
)
async def test_it_cannot_write(server: FakeApiServer, caplog: pytest.LogCaptureFixture, fault: Any, said: str) -> None:
    """When Events cannot be written, it should say so once, ask ever more rarely, and go on once they can be."""
    server.faults.add(match("create", EVENTS), fault, times=None)
    async with bench(server) as world:
        world.bad("a")
        world.bad("b")
        await world.settle(3600)
        assert world.events() == []
        lines = [record.getMessage() for record in caplog.records if record.name == "informer.events"]
        assert len(lines) == 1
        assert said in lines[0]
        assert len(world.writes()) <= 15
        server.faults.clear()
        await world.settle(1300)
        assert len(world.events()) == 2


async def test_a_second_outage(server: FakeApiServer) -> None:
    """When a second outage follows a first one, it should be waited for as briefly as the first was at its beginning."""
    away = faults.status_answer(503, "ServiceUnavailable", "away")
    server.faults.add(match("create", EVENTS), away, times=4)
    async with bench(server) as world:
        world.bad("a")
        await world.settle(200)
        assert len(world.events()) == 1
        server.faults.add(match("create", EVENTS), away)
        world.bad("b")
        await world.settle(15)
        assert len(world.events()) == 2


async def test_one_namespace_is_gone(server: FakeApiServer) -> None:
    """When one object's Event is refused for its own sake, the others should not wait for it."""
    server.faults.add(match("create", EVENTS, namespace="gone"), faults.status_answer(404, "NotFound", "x"), times=None)
    async with bench(server) as world:
        world.source.create("a", {"timeout": "1"}, namespace="gone")
        await world.settle(1)
        for number in range(5):
            world.bad(f"w{number}")
        await world.settle(10)
        assert len(world.events()) == 5


async def test_the_server_is_away(server: FakeApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """When nobody answers, the program should live on and end at once when asked."""
    async with bench(server) as world:
        await server.stop()
        world.bad("a")
        await world.settle(60)
        await server.start()
        await world.settle(600)
        assert len(world.events()) == 1
    assert "ConnectionError" in caplog.text


async def test_it_ends_in_the_middle_of_a_request(server: FakeApiServer) -> None:
    """When the context is left while a request is under way, it should end at once and leave no connection."""
    server.faults.add(match("create", EVENTS), faults.NoAnswer())
    async with bench(server) as world:
        world.bad("a")
        await server.wait_until(lambda: len(server.requests) == 1)
        before = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - before < 1
    await server.wait_until(lambda: server.open_connections == 0)


@pytest.mark.parametrize("client", CLIENTS)
async def test_with_a_factory(server: FakeApiServer, client: str) -> None:
    """When a factory has made the quarantines, its objects should be reported as well, bad before and bad later."""
    server.create(WIDGETS, {"metadata": {"name": "early"}, "spec": {"timeout": "1"}})
    async with open_client(client, server.url) as api, InformerFactory(api) as factory:
        factory.informer(WIDGETS, checks=CHECKS)
        await factory.wait_for_sync(timeout=10)
        async with EventReporter(api, *factory.quarantines(), component="widgets"):
            server.create(WIDGETS, {"metadata": {"name": "late"}, "spec": {"timeout": "1"}})
            await asyncio.sleep(10)
            server.patch(WIDGETS, "late", {"spec": {"timeout": "2"}})
            await asyncio.sleep(100)
    counts = {event["involvedObject"]["name"]: event["count"] for event in server.objects(EVENTS)}
    assert counts == {"early": 1, "late": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"component": ""}, "component is empty"),
        ({"component": "x", "repeat_every": 3600.0}, "less than an hour"),
        ({"component": "x", "repeat_every": 1.0}, "at least 60 s"),
        ({"component": "x", "pace": 0.0}, "pace is 0"),
        ({"component": "x", "pace": float("nan")}, "pace is nan"),
    ],
    ids=["no component", "too rarely", "too often", "no pace", "NaN"],
)
async def test_what_cannot_be(server: FakeApiServer, options: dict[str, Any], message: str) -> None:
    """When a setting makes no sense, it should be refused, with the reason."""
    async with server.api_client() as api:
        with pytest.raises(ValueError, match=message):
            EventReporter(api, **options)


async def test_twice(server: FakeApiServer) -> None:
    """When one is entered again, it should be refused."""
    async with bench(server) as world:
        with pytest.raises(RuntimeError, match="make a new one"):
            await world.reporter.__aenter__()


def test_opt_in() -> None:
    """When the library is imported, the part that writes should not be."""
    import subprocess
    import sys

    program = "import informer, sys; sys.exit('informer.contrib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
    assert logging.getLogger("informer.events").handlers == []
