"""What somebody new gets wrong, by habit from other libraries, should be said at once and with what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from informer import (
    ApiListerWatcher,
    DegradedListerWatcher,
    InformerFactory,
    NotFoundError,
    Resource,
    SharedInformer,
    checks,
)
from informer.testing import FakeApiServer, FakeListerWatcher
from tests.informer.kit import CLUSTERS, PODS

TIMEOUT = checks.duration("spec.timeout")

ASKED = {
    "a name": (lambda factory: factory.informer("pods.v1"), r"a Resource is needed, not 'pods.v1'; Resource.parse\("),
    "labels as a dict": (
        lambda factory: factory.informer(PODS, label_selector={"app": "web"}),
        "label_selector is text as in kubectl",
    ),
    "fields as a list": (
        lambda factory: factory.informer(PODS, field_selector=["a=b"]),
        "field_selector is text as in kubectl",
    ),
    "namespaces as a list": (lambda factory: factory.informer(PODS, namespace=["a", "b"]), "one informer each"),
    "no namespaces": (lambda factory: factory.informer(PODS, namespace=[]), "one informer each"),
    "one check": (lambda factory: factory.informer(PODS, checks=TIMEOUT), r"checks=\[…\]"),
}


@pytest.mark.parametrize("mistake", ASKED)
async def test_asking_a_factory(mistake: str) -> None:
    """When a factory is asked in another library's way, it should say how it is asked."""
    ask, said = ASKED[mistake]
    async with FakeApiServer([PODS]) as server, server.api_client() as api, InformerFactory(api) as factory:
        with pytest.raises(TypeError, match=said):
            ask(factory)


@pytest.mark.parametrize("pattern", ["def*", "default,shop", "!shop"])
async def test_a_pattern_of_namespaces(pattern: str) -> None:
    """When a namespace is a pattern, as in kopf, no source should take it: it would be complete with no objects."""
    async with FakeApiServer([PODS]) as server, server.api_client() as api, InformerFactory(api) as factory:
        for ask in (
            lambda: factory.informer(PODS, namespace=pattern),
            lambda: ApiListerWatcher(api, PODS, namespace=pattern),
            lambda: FakeListerWatcher(PODS, namespace=pattern),
        ):
            with pytest.raises(ValueError, match=r"no name of one namespace .* patterns.*docs/howto/namespaces\.md"):
                ask()
        assert server.requests == []


async def test_the_long_form() -> None:
    """When a source or a wrapper is made by hand, the same mistakes should get the same answers."""
    async with FakeApiServer([PODS]) as server, server.api_client() as api:
        with pytest.raises(TypeError, match=r"Resource.parse\("):
            ApiListerWatcher(api, "pods.v1")  # type: ignore[arg-type]  # the mistake
        with pytest.raises(TypeError, match=r"checks=\[…\]"):
            DegradedListerWatcher(ApiListerWatcher(api, PODS), checks=TIMEOUT)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("path", ["$", "$.spec.timeout", '$["spec"]', ".spec.timeout"])
def test_json_path(path: str) -> None:
    """When a path is written as JSONPath, it should be refused: a field called `$` would find nothing, and all be good."""
    with pytest.raises(ValueError, match="is no path of a field; write it like spec.drainTimeout"):
        checks.duration(path)


def test_a_dollar_further_on() -> None:
    """When a field's own name begins with `$`, as `$ref` does, it should be found."""
    assert checks.duration("spec.$ref").path == "spec.$ref"


def kopf_style(name: str, namespace: str, **_: Any) -> None: ...
def only_keywords(*, obj: Any) -> None: ...
def nothing() -> None: ...
async def three(one: Any, two: Any, more: Any) -> None: ...


FITTING: dict[str, Callable[..., Any]] = {
    "on_add": lambda obj: None,
    "on_update": lambda old, new, more=1: None,
    "on_delete": [].append,
    "on_change": print,
    "on_quarantined": functools.partial(lambda factor, old, entry: None, 2),
}


@pytest.mark.parametrize("what", FITTING)
@pytest.mark.parametrize("function", [only_keywords, nothing, three])
async def test_handler_that_cannot_be_called(what: str, function: Callable[..., Any]) -> None:
    """When a function cannot take what a handler is called with, it should be refused before the first change."""
    async with SharedInformer(FakeListerWatcher(PODS)) as informer:
        informer.add_handler(**{what: FITTING[what]})  # type: ignore[arg-type]  # one of five
        with pytest.raises(TypeError, match=rf"{what} is called with \d positional argument.* does not take that"):
            informer.add_handler(**{what: function})  # type: ignore[arg-type]  # the mistake


async def test_kopf_style() -> None:
    """When a handler wants kopf's keywords, the error should show what it is called with."""
    async with SharedInformer(FakeListerWatcher(PODS)) as informer:
        with pytest.raises(TypeError, match=r"on_add is called with 1 positional argument, and kopf_style\("):
            informer.add_handler(on_add=kopf_style)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize(
    ("resource", "namespace", "hint"), [(PODS, "", True), (PODS, "shop", False), (CLUSTERS, "", False)]
)
async def test_forgotten_namespace(resource: Resource, namespace: str, hint: bool) -> None:
    """When a namespaced object is asked for without a namespace, "not found" should say what was forgotten."""
    async with SharedInformer(FakeListerWatcher(resource)) as informer:
        await informer.wait_for_sync(timeout=5)
        with pytest.raises(NotFoundError) as error:
            informer.lister.get("web", namespace=namespace)
    assert ("it is namespaced" in str(error.value)) is hint
