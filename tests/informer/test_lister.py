from __future__ import annotations

import asyncio

import pytest

from informer import (
    IncompleteError,
    InformerError,
    KubeObject,
    NotFoundError,
    NotSyncedError,
    QuarantinedError,
    Resource,
    SharedInformer,
)
from informer.lister import Index, Lister

from .kit import CLUSTERS, WIDGETS, Bench, bad, by_spec, good, names, obj, source

READS = {
    "get": lambda lister: lister.get("a", namespace="ns"),
    "list": lambda lister: lister.list(),
    "list of a namespace": lambda lister: lister.list(namespace="ns", label_selector="app=web"),
    "by_index": lambda lister: lister.by_index("tag", "x"),
    "index_values": lambda lister: lister.index_values("tag"),
    "withheld": lambda lister: lister.withheld(),
    "len": len,
    "index[...]": lambda lister: Index(lister, "tag")["x"],
    "index.values": lambda lister: Index(lister, "tag").values(),
}


def lister_of(bench: Bench, resource: Resource = WIDGETS) -> Lister[KubeObject]:
    return Lister(bench.cache.indexer, resource, lambda: bench.cache.synced)


async def filled() -> tuple[Bench, Lister[KubeObject]]:
    """Two namespaces, one with a bad object."""
    bench = Bench()
    bench.cache.indexer.add_index("tag", by_spec("tags"))
    await bench.relist(
        good(obj("a", namespace="n1", labels={"app": "web"}, tags=["x", "y"])),
        good(obj("b", namespace="n1", labels={"app": "db"}, tags=["y"])),
        good(obj("a", namespace="n2", labels={"app": "web"})),
        bad(obj("broken", namespace="n2", labels={"app": "db"})),
    )
    return bench, lister_of(bench)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
async def test_before_the_sync(read):
    """When the cache is not synced, every read should raise NotSyncedError and name the resource; after it, none."""
    bench = Bench()
    bench.cache.indexer.add_index("tag", by_spec("tags"))
    lister = lister_of(bench)
    assert not lister.complete
    with pytest.raises(NotSyncedError, match="widgets"):
        read(lister)
    await bench.relist(good(obj("a", tags=["x"])))
    read(lister)


async def test_get():
    """When an object is there, get should return the stored one; when absent or unreadable, say which."""
    bench, lister = await filled()
    assert lister.get("a", namespace="n1") is bench.cache.indexer.state.items["n1/a"].object
    with pytest.raises(NotFoundError, match="n1/none") as absent:
        lister.get("none", namespace="n1")
    assert isinstance(absent.value, KeyError)
    with pytest.raises(QuarantinedError, match=r"n2/broken.*spec\.timeout") as unreadable:
        lister.get("broken", namespace="n2")
    assert not isinstance(unreadable.value, KeyError)
    assert not isinstance(unreadable.value, NotFoundError)
    assert isinstance(unreadable.value, InformerError)
    assert unreadable.value.entry is lister.withheld()[0]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({}, ["a", "a", "b"]),
        ({"namespace": None}, ["a", "a", "b"]),
        ({"namespace": ""}, ["a", "a", "b"]),
        ({"namespace": "n1"}, ["a", "b"]),
        ({"namespace": "n"}, []),
        ({"label_selector": "app=web"}, ["a", "a"]),
        ({"namespace": "n1", "label_selector": "app!=web"}, ["b"]),
        ({"label_selector": "app in (db, other)"}, ["b"]),
    ],
)
async def test_list(scope: dict, found: list[str]):
    """When a namespace or a selector is given, list should return the objects in it."""
    _, lister = await filled()
    assert names(lister.list(**scope)) == found
    assert not isinstance(lister.list(**scope), tuple)


@pytest.mark.parametrize(
    ("scope", "keys"),
    [
        ({}, ["n2/broken"]),
        ({"namespace": ""}, ["n2/broken"]),
        ({"namespace": "n1"}, []),
        ({"namespace": "n2"}, ["n2/broken"]),
        ({"label_selector": "app=db"}, ["n2/broken"]),
        ({"label_selector": "app=web"}, []),
        ({"namespace": "n1", "label_selector": "app=db"}, []),
    ],
)
async def test_incomplete(scope: dict, keys: list[str]):
    """When something in scope is withheld, it should be named by `withheld`, and refuse `require_complete`."""
    _, lister = await filled()
    assert [entry.key for entry in lister.withheld(**scope)] == keys
    if keys:
        with pytest.raises(IncompleteError, match="n2/broken") as caught:
            lister.list(**scope, require_complete=True)
        assert caught.value.keys == keys
    else:
        assert lister.list(**scope, require_complete=True) == lister.list(**scope)


async def test_many_withheld():
    """When many objects are withheld, the message should stay short and the keys be complete."""
    bench = Bench()
    await bench.relist(*(bad(obj(f"b{n}")) for n in range(1000)))
    with pytest.raises(IncompleteError, match="1000 objects") as caught:
        lister_of(bench).list(require_complete=True)
    assert len(str(caught.value)) < 200
    assert len(caught.value.keys) == 1000


async def test_unidentifiable():
    """When an item had no usable key, it may be in any scope: nothing is complete, until a list without such."""
    bench = Bench()
    bench.cache.indexer.add_index("tag", by_spec("tags"))
    lister = lister_of(bench)
    await bench.relist(good(obj("a")), unidentifiable=2)
    assert not lister.complete
    with pytest.raises(IncompleteError, match="2 ") as caught:
        lister.list(namespace="other", require_complete=True)
    assert caught.value.keys == ()
    with pytest.raises(IncompleteError):
        lister.by_index("tag", "x", require_complete=True)
    assert names(lister.list()) == ["a"]
    await bench.relist(good(obj("a")))
    assert lister.complete


async def test_index():
    """When an index is read, it should return the objects under a value, [] for none, and never a withheld one."""
    bench, lister = await filled()
    index = Index(lister, "tag")
    assert names(index["y"]) == ["a", "b"]
    assert list(index["none"]) == []
    assert sorted(index.values()) == ["x", "y"]
    assert names(lister.by_index("tag", "x")) == ["a"]
    with pytest.raises(KeyError, match="no index 'tags'.*'tag'"):
        lister.by_index("tags", "x")
    for read in (lister.index_values, Index(lister, "tags").__getitem__):
        with pytest.raises(KeyError, match="no index 'tags'.*'tag'"):
            read("tags")
    with pytest.raises(IncompleteError) as caught:
        lister.by_index("tag", "none", require_complete=True)
    assert caught.value.keys == ["n2/broken"]
    bench.cache.apply(bad(obj("a", 2, namespace="n1")))
    assert names(index["y"]) == ["b"]
    assert sorted(index.values()) == ["y"]
    with pytest.raises(TypeError):
        iter(index)  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [600, None, b"x", ("x",)])
async def test_index_value_that_is_no_string(value):
    """When an index is asked for what is no string, it should say so: "nobody has it" would be a wrong answer."""
    _, lister = await filled()
    for read in (lambda: lister.by_index("tag", value), lambda: Index(lister, "tag")[value]):
        with pytest.raises(TypeError, match=r"the values of index 'tag' are strings, not .*; write str\("):
            read()


async def test_a_key_is_as_good_as_a_name():
    """When an object's key is given, as for client-go's GetByKey, it should be the same as name and namespace."""
    bench, lister = await filled()
    for one in lister.list():
        assert lister.get(one.key) is lister.get(one.name, namespace=one.namespace)
    with pytest.raises(QuarantinedError):
        lister.get("n2/broken")
    with pytest.raises(NotFoundError, match="'n2/none'"):
        lister.get("n2/none")
    assert "obj.key" in (lister.get.__doc__ or "")
    await bench.relist(good(obj("alone", namespace="")))
    assert lister.get("alone").key == "alone"


async def test_complete():
    """When nothing is withheld, the cache is complete; a bad object ends that, and its repair or deletion restores it."""
    bench = Bench()
    lister = lister_of(bench)
    await bench.relist(good(obj("a")))
    assert lister.complete
    bench.cache.apply(bad(obj("a", 2)))
    assert not lister.complete
    bench.cache.apply(good(obj("a", 3)))
    assert lister.complete


async def test_cluster_scoped():
    """When objects have no namespace, they should be found by name alone, and withheld ones be seen in every scope."""
    bench = Bench()
    lister = lister_of(bench, CLUSTERS)
    await bench.relist(good(obj("a", namespace="")), bad(obj("b", namespace="")))
    assert lister.get("a").name == "a"
    assert names(lister.list(namespace="")) == ["a"]
    with pytest.raises(IncompleteError):
        lister.list(namespace="", require_complete=True)
    with pytest.raises(QuarantinedError):
        lister.get("b")


async def test_bad_selector():
    """When the selector is none, it should be refused and not match everything."""
    _, lister = await filled()
    with pytest.raises(ValueError, match="=="):
        lister.list(label_selector="a==b==c")


async def test_truth_and_length():
    """When the cache is empty, its lister should still be true."""
    bench = Bench()
    lister = lister_of(bench)
    assert lister
    await bench.relist()
    assert lister
    assert len(lister) == 0
    bench.cache.apply(good(obj("a")))
    assert len(lister) == 1


async def test_a_list_is_a_snapshot():
    """When the store changes later, a list that was returned should not."""
    bench, lister = await filled()
    before = lister.list()
    bench.cache.apply(good(obj("new")))
    assert len(before) == 3
    before.clear()  # type: ignore[attr-defined]
    assert len(lister) == 4


async def test_from_another_thread():
    """When a thread reads, it should get what the loop sees."""
    async with SharedInformer(source("a", "b")) as informer:
        await informer.wait_for_sync(timeout=10)
        assert names(await asyncio.to_thread(informer.lister.list)) == ["a", "b"]
        assert (await asyncio.to_thread(lambda: informer.health)).state == "live"
