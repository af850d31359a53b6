"""A redirect is no answer: nothing at its end becomes the cache, and another host gets no credentials."""

from __future__ import annotations

import asyncio

import pytest
from attrs import Factory, define

from informer import ApiError, ApiListerWatcher, ListOptions, Resource, SharedInformer, WatchOptions
from informer.testing import FakeApiServer, faults, match
from informer.testing.faults import Exchange, Proceed

PODS = Resource("", "v1", "pods", kind="Pod")
TOKEN = "tok3n-of-the-client"
POD = {"metadata": {"name": "theirs", "namespace": "default"}}


@define
class Seen:
    """A fault that only writes down what headers came, the credentials included."""

    requests: list[str] = Factory(list)

    async def __call__(self, exchange: Exchange, proceed: Proceed, /) -> None:
        self.requests.append(repr(exchange._http.headers))
        await proceed()


def redirect(code: int, to: str) -> faults.Answer:
    return faults.Answer(code, "moved", headers={"Location": to})


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_another_host(code: int, verb: str):
    """When a request is redirected to another host, it should be an error that names both, and the token stay at home."""
    async with FakeApiServer([PODS]) as ours, FakeApiServer([PODS]) as theirs, ours.api_client(token=TOKEN) as client:
        theirs.create(PODS, POD)
        target = theirs.url + PODS.path()
        at_ours, at_theirs = Seen(), Seen()
        to = redirect(code, f"{target}?watch=true" if verb == "watch" else target)
        ours.faults.add(match(verb), at_ours, to)
        theirs.faults.add(match(), at_theirs, times=None)
        source = ApiListerWatcher(client, PODS)
        with pytest.raises(ApiError) as refused:
            if verb == "list":
                await source.list(ListOptions())
            else:
                async with source.watch(WatchOptions(resource_version="1")):
                    pass
        assert (refused.value.status, refused.value.reason) == (code, "Redirected")
        assert theirs.url in str(refused.value)
        assert any(TOKEN in headers for headers in at_ours.requests)
        assert at_theirs.requests
        assert not any(word in headers for headers in at_theirs.requests for word in (TOKEN, "Authorization", "Cookie"))
        await theirs.wait_until(lambda: theirs.open_watches() == 0)


async def test_the_same_host():
    """When a request is redirected within its host, as a login page is, it should be an error as well."""
    async with FakeApiServer([PODS]) as server, server.api_client(token=TOKEN) as client:
        server.create(PODS, POD)
        server.faults.add(match("list"), redirect(302, PODS.path("default")))
        with pytest.raises(ApiError, match="302 Redirected: list pods.v1: redirected to http://127.0.0.1"):
            await ApiListerWatcher(client, PODS).list(ListOptions())


async def test_round_and_round():
    """When a redirect leads to itself, it should be one error, and no request more than the client's own limit."""
    async with FakeApiServer([PODS]) as server, server.api_client(token=TOKEN) as client:
        server.faults.add(match("list"), redirect(302, PODS.path()), times=None)
        with pytest.raises(ApiError) as refused:
            await ApiListerWatcher(client, PODS).list(ListOptions())
        assert len(server.requests) <= 11
        assert refused.value.__cause__ is None
        assert TOKEN not in repr(refused.value)


async def test_an_informer_stays_with_its_server():
    """When a server redirects everything for a while, nothing of the other host should reach the store, then or later."""
    async with FakeApiServer([PODS]) as ours, FakeApiServer([PODS]) as theirs, ours.api_client(token=TOKEN) as client:
        theirs.create(PODS, POD)
        ours.create(PODS, {"metadata": {"name": "ours", "namespace": "default"}})
        rule = ours.faults.add(match(), redirect(307, theirs.url + PODS.path()), times=None)
        async with SharedInformer(ApiListerWatcher(client, PODS)) as informer:
            await asyncio.sleep(60)
            assert informer.health.state == "failing"
            assert not informer.health.synced
            ours.faults.remove(rule)
            await informer.wait_for_sync(timeout=120)
            assert [pod.name for pod in informer.lister.list()] == ["ours"]
