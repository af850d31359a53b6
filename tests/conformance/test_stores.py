"""The tests of client-go's stores, listers and names: what a reader may ask, and what he gets."""

from __future__ import annotations

import asyncio
import functools
import gc
import random
import sys

import pytest
from prometheus_client import CollectorRegistry

from informer import (
    DegradedListerWatcher,
    InformerOptions,
    Item,
    KubeObject,
    Lister,
    NotFoundError,
    Resource,
    SharedInformer,
)
from informer.objects import make_key
from informer.store import Indexer, namespace_of
from informer.testing import FakeListerWatcher

from .support import NODES, PODS, Scripted, following, gone, names, page, pod, pods, settle


@pytest.fixture
def source() -> FakeListerWatcher:
    return FakeListerWatcher(PODS)


# ---------------------------------------------------------------- the store and its indexes


@pytest.mark.upstream("store_test.go: Cache, CacheWithTransformer, Index", verdict="same")
@pytest.mark.parametrize("transformed", [False, True])
async def test_store(source: FakeListerWatcher, transformed: bool) -> None:
    """When objects are added, updated, deleted and replaced, get, list and index should follow."""

    def decode(obj: KubeObject) -> tuple[str, object]:
        return obj.name, obj["spec"]

    used = DegradedListerWatcher(source, decode=decode if transformed else lambda obj: (obj.name, obj["spec"]))
    informer: SharedInformer[tuple[str, object]] = SharedInformer(used)
    by_spec = informer.add_index("spec", lambda value: [str(value[1])])
    async with informer:
        source.create("foo", 1)
        source.create("a", 2)
        await informer.wait_for_sync(timeout=5)
        assert informer.lister.get("foo", namespace="default") == ("foo", 1)
        assert sorted(informer.lister.list()) == [("a", 2), ("foo", 1)]
        source.update("foo", 2)
        await settle()
        assert sorted(by_spec["2"]) == [("a", 2), ("foo", 2)]
        assert by_spec["1"] == []
        source.delete("foo")
        await settle()
        with pytest.raises(NotFoundError):
            informer.lister.get("foo", namespace="default")
        with source.cluster.drop_events():
            source.delete("a")
            source.create("b", 7)
        await informer.relist()
        assert informer.lister.list() == [("b", 7)]
        assert (by_spec["2"], by_spec["7"]) == ([], [("b", 7)])


@pytest.mark.upstream(
    "thread_safe_store_test.go: ThreadSafeStoreDeleteRemovesEmptySetsFromIndex, ThreadSafeStoreAddKeepsNonEmptySetPostDeleteFromIndex",
    verdict="same",
)
def test_empty_values_of_an_index() -> None:
    """When the last object of a value goes, the value should go; when another one stays, it should stay."""
    indexer: Indexer[KubeObject] = Indexer()
    indexer.add_index("one", lambda obj: ["same"])
    for number in range(5):
        indexer.apply(pod(f"p{number}", "1"))
    for number in range(5):
        assert [*indexer.state.indexes["one"].buckets] == ["same"]
        indexer.apply(gone(f"p{number}", "2"))
    assert indexer.state.indexes["one"].buckets == {}
    assert indexer.state.indexes["one"].by_key == {}
    assert indexer.state.namespaces == {}


@pytest.mark.upstream("thread_safe_store_test.go: ThreadSafeStoreIndexingFunctionsWithMultipleValues", verdict="same")
def test_several_values_of_one_object() -> None:
    """When objects have several values, with some twice, a look-up should find exactly those that have it now."""
    randomly = random.Random(3)
    indexer: Indexer[KubeObject] = Indexer()
    indexer.add_index("letters", lambda obj: obj["spec"]["letters"])
    expected: dict[str, list[str]] = {}
    for step in range(300):
        name = f"p{randomly.randrange(8)}"
        if randomly.random() < 0.3:
            indexer.apply(gone(name, str(step)))
            expected.pop(name, None)
        else:
            letters = randomly.choices("abcd", k=randomly.randrange(4))
            indexer.apply(pod(name, str(step), spec={"letters": letters}))
            expected[name] = letters
        buckets = indexer.state.indexes["letters"].buckets
        assert {value: {key.partition("/")[2] for key in found} for value, found in buckets.items()} == {
            letter: found for letter in "abcd" if (found := {name for name in expected if letter in expected[name]})
        }


# ---------------------------------------------------------------- listers


@pytest.mark.upstream("listers_test.go, dynamiclister/lister_test.go: ListAll (3)", verdict="same")
def test_large_cache() -> None:
    """When a tenth of a large cache has a label, a selector should find that tenth, all, or none."""
    indexer: Indexer[int] = Indexer()
    for number in range(20_000):
        labels = {"tenth": "yes"} if number % 10 == 0 else {}
        indexer.apply(Item(f"ns/p{number}", f"u{number}", "1", labels, number))
    lister = Lister(indexer, PODS, lambda: True)
    assert sorted(lister.list(label_selector="tenth=yes")) == [*range(0, 20_000, 10)]
    assert sorted(lister.list()) == [*range(20_000)]
    assert lister.list(label_selector="tenth=no") == []
    assert lister.list(label_selector="tenth=yes,tenth!=yes") == []
    assert len(lister) == 20_000


@pytest.mark.upstream("listers_test.go, dynamiclister/lister_test.go: dynamiclister (4)", verdict="same")
@pytest.mark.parametrize("resource", [PODS, NODES], ids=str)
async def test_get_and_list(resource: Resource) -> None:
    """When namespaced or cluster-scoped objects are read by name or listed, what is missing should be an error."""
    source = FakeListerWatcher(resource)
    source.create("a", namespace="red")
    if resource.namespaced:
        source.create("a", namespace="blue")
    where = "red" if resource.namespaced else ""
    async with following(source) as (informer, _):
        lister = informer.lister
        assert lister.get("a", namespace=where).namespace == where
        assert [obj.namespace for obj in lister.list(namespace=where)] == [where]
        assert lister.list(namespace="green") == []
        for name, namespace in (("b", where), ("a", "green")):
            with pytest.raises(NotFoundError, match=f"no {resource}"):
                lister.get(name, namespace=namespace)
        assert issubclass(NotFoundError, KeyError)


@pytest.mark.upstream(
    "mutation_detector_test.go, mutation_cache_test.go: MutationDetector",
    verdict="stricter",
    reason="it is prevented, not detected: objects are immutable bytes, and each reader decodes a tree of his own; `metadata`, decoded once, is read-only",
)
@pytest.mark.upstream("controller-runtime: cache_test.go: deep copy unless disabled", verdict="same")
async def test_readers_cannot_reach_each_other(source: FakeListerWatcher) -> None:
    """When a reader changes what it got, no other reader should see it; the object itself cannot be changed."""
    source.create("a", {"n": [1]}, labels={"x": "y"})
    async with following(source) as (informer, _):
        first = informer.lister.get("a", namespace="default")
        first["spec"]["n"].append(2)
        first.to_dict()["spec"]["n"].clear()
        with pytest.raises(AttributeError):
            first.raw = b"{}"
        with pytest.raises(TypeError):
            first.metadata.labels["x"] = "z"
        assert first.metadata.finalizers == ()
        again = informer.lister.get("a", namespace="default")
        assert again is first
        assert again["spec"] == again.to_dict()["spec"] == {"n": [1]}


@pytest.mark.upstream(
    "mutation_detector_test.go, mutation_cache_test.go: OnAddOrUpdate, OnDelete, UpdateConcurrentDelete, UpdateConcurrentRecreate, OnDeleteClearsStaleMutation",
    verdict="different",
    reason="no overlay of one's own writes, which then has to be reconciled with the cache: `wait_for_version` waits until the cache itself has the write",
)
async def test_reading_ones_own_writes(source: FakeListerWatcher) -> None:
    """When a writer waits for the version of its write, it should read that state or a newer one, and no ghost."""
    async with following(source) as (informer, _):

        async def read(version: str) -> tuple[str, object] | None:
            await informer.wait_for_version(version, timeout=1)
            try:
                found = informer.lister.get("a", namespace="default")
            except NotFoundError:
                return None
            return found.uid, found["spec"]

        first = source.create("a", 1)
        assert await read(first.resource_version) == (first.uid, 1)
        source.update("a", 2)
        source.delete("a")
        second = source.create("a", 3)
        assert second.uid != first.uid
        assert await read(second.resource_version) == (second.uid, 3)
        written = source.update("a", 4)
        source.delete("a")
        assert await read(written.resource_version) is None


# ---------------------------------------------------------------- names


@pytest.mark.upstream(
    "identity_test.go, event_handler_name_test.go, object-names_test.go: NewInformerName (5), WithResource (4), Release",
    verdict="different",
    reason="a name is no claim and never refused: informers of the same resource and name share a series; what one publishes goes with it",
)
async def test_names_in_metrics(source: FakeListerWatcher) -> None:
    """When two informers of one resource have names, their metrics should be told apart, and go with the informer."""
    registry = CollectorRegistry()

    def objects() -> dict[str, float]:
        [family] = [family for family in registry.collect() if family.name == "informer_objects"]
        return {sample.labels["informer"]: sample.value for sample in family.samples}

    async def follow_both() -> None:
        empty = FakeListerWatcher(PODS)
        async with following(source, registry=registry, name="one"), following(empty, registry=registry, name="two"):
            assert objects() == {"one": 1.0, "two": 0.0}

    source.create("a")
    await follow_both()
    gc.collect()
    await asyncio.sleep(0)
    assert objects() == {}


def module_level(_: object) -> None: ...


class Controller:
    def method(self, _: object) -> None: ...

    def __call__(self, _: object) -> None: ...


@pytest.mark.upstream(
    "identity_test.go, event_handler_name_test.go, object-names_test.go: event_handler_name (10)", verdict="same"
)
@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (module_level, "", "module_level"),
        (Controller().method, "", "Controller.method"),
        (Controller(), "", "Controller"),
        (functools.partial(module_level), "", "partial"),
        (lambda _: None, "", "<lambda>"),
        (module_level, "mine", "mine"),
    ],
    ids=["function", "method", "object", "partial", "lambda", "given"],
)
def test_handler_names(source: FakeListerWatcher, function: object, given: str, expected: str) -> None:
    """When a handler is any kind of callable, it should have a readable name, and a given one goes first."""
    informer: SharedInformer[KubeObject] = SharedInformer(source)
    assert informer.add_handler(on_add=function, name=given).name == expected  # type: ignore[arg-type]


@pytest.mark.upstream(
    "identity_test.go, event_handler_name_test.go, object-names_test.go: object-names", verdict="same"
)
@pytest.mark.parametrize(("namespace", "name", "key"), [("ns", "n", "ns/n"), ("", "n", "n")])
async def test_object_names(namespace: str, name: str, key: str) -> None:
    """When namespace and name are joined to a key, it should lead back to them."""
    assert make_key(namespace, name) == key
    assert namespace_of(key) == namespace
    assert KubeObject(b"{}", name, namespace).key == key


@pytest.mark.upstream(
    "typed_test.go: typed callbacks and stores (9)",
    verdict="different",
    reason="one generic API, so there is no untyped layer to convert to, and no filtering handler: a filter is an `if` in the handler, or a selector",
)
async def test_typed_objects(source: FakeListerWatcher) -> None:
    """When objects have a type, any subset of callbacks should get it, and deletions too; none at all is an error."""

    class Size(int):
        pass

    def decode(obj: KubeObject) -> Size:
        return Size(obj["spec"])

    informer: SharedInformer[Size] = SharedInformer(DegradedListerWatcher(source, decode=decode))
    sizes = informer.add_index("size", lambda size: [str(int(size))])
    added: list[Size] = []
    deleted: list[Size] = []
    informer.add_handler(on_add=added.append)
    informer.add_handler(on_delete=deleted.append)
    with pytest.raises(TypeError, match="at least one function"):
        informer.add_handler()
    async with informer:
        source.create("a", 1)
        source.create("b", 2)
        await informer.wait_for_sync(timeout=5)
        source.delete("a")
        with source.cluster.drop_events():
            source.delete("b")
        await informer.relist()
        await settle()
        assert sizes["1"] == []
    assert added == [1, 2]
    assert deleted == [1, 2]
    assert {type(size) for size in added + deleted} == {Size}


async def test_options_need_no_metrics(source: FakeListerWatcher) -> None:
    """When there is no registry, nothing should be published anywhere."""
    assert InformerOptions().registry is None
    async with following(source) as (informer, _):
        assert names(informer) == []
    assert "prometheus_client" in sys.modules  # imported by this module, and yet:
    from prometheus_client import REGISTRY

    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("informer")]


async def test_page_of_a_script_is_repeated() -> None:
    """When a script has one page, every LIST should get it (the fake itself)."""
    async with following(Scripted([page("1", *pods("a"))])) as (informer, _):
        await informer.relist()
        assert names(informer) == ["a"]
