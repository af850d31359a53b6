from __future__ import annotations

import asyncio
import subprocess
import sys
import weakref

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from informer import ApiError, InformerOptions, SharedInformer
from informer.metrics import Recorder, observe

from .kit import degraded, source

WIDGETS = "widgets.v1.example.test"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def options(registry: CollectorRegistry, name: str = "", **more) -> InformerOptions:
    return InformerOptions(registry=registry, name=name, **more)


async def test_what_is_counted(registry: CollectorRegistry):
    """When an informer works on a registry, its gauges and counters should follow it."""

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"informer_{name}", {"resource": WIDGETS, "informer": "mine", **labels})

    fake = source("a", "b")
    fake.create("bad", {"timeout": "1"})
    fake.fail_lists(ApiError("later", status=503), TimeoutError())
    informer = SharedInformer(degraded(fake), options=options(registry, "mine"))
    async with informer:
        await asyncio.sleep(0.1)
        assert (value("synced"), value("live"), value("objects")) == (0, 0, 0)
        await informer.wait_for_sync(timeout=60)
        assert (value("synced"), value("live"), value("objects"), value("quarantined_objects")) == (1, 1, 2, 1)
        assert value("requests_total", verb="list", outcome="503") == 1
        assert value("requests_total", verb="list", outcome="timeout") == 1
        assert value("requests_total", verb="list", outcome="ok") == 1
        assert value("events_total", type="added") == 2
        assert value("events_total", type="quarantined") == 1
        assert value("decode_failures_total") == 1
        fake.update("a", {"n": 1})
        fake.update("a", {"timeout": "1"})
        fake.delete("b")
        await asyncio.sleep(5)
        assert value("events_total", type="updated") == 1
        assert value("events_total", type="quarantined") == 2
        assert value("events_total", type="removed") == 1
        assert value("decode_failures_total") == 2
        assert (value("objects"), value("quarantined_objects")) == (0, 2)
        assert value("seconds_since_contact") == pytest.approx(5, abs=0.1)
        fake.drop_watches()
        await asyncio.sleep(60)
        assert value("requests_total", verb="watch", outcome="ok") == 1
    assert value("live") == 0
    assert value("synced") == 1


async def test_backlog_and_merging(registry: CollectorRegistry):
    """When a handler is behind, its backlog should be seen, and so should the changes it is spared."""

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"informer_{name}", {"resource": WIDGETS, "informer": ""})

    fake = source("a", "b")
    informer = SharedInformer(fake, options=options(registry, max_backlog=5))
    informer.add_handler(on_add=lambda _: asyncio.sleep(100))  # there before the informer knows its registry
    async with informer:
        await informer.wait_for_sync(timeout=10)
        await asyncio.sleep(1)
        assert value("handler_backlog") == 3  # one in progress, one waiting, and the mark behind them
        assert not value("merged_changes_total")
        for number in range(20):
            fake.update("a", {"n": number})
        await asyncio.sleep(1)
        merged = value("merged_changes_total")
        assert merged
        assert value("handler_backlog") == 3 + 20 - merged
        assert value("handler_backlog") <= 7


async def test_two_informers_on_one_registry(registry: CollectorRegistry):
    """When two informers share a registry, each should have its own series."""
    async with (
        SharedInformer(source("a"), options=options(registry, "one")) as one,
        SharedInformer(source("a", "b"), options=options(registry, "two")) as two,
    ):
        await one.wait_for_sync(timeout=10)
        await two.wait_for_sync(timeout=10)
        for name, size in (("one", 1), ("two", 2)):
            labels = {"resource": WIDGETS, "informer": name}
            assert registry.get_sample_value("informer_objects", labels) == size
            assert registry.get_sample_value("informer_events_total", {**labels, "type": "added"}) == size
    text = generate_latest(registry).decode()
    assert text.count("# TYPE informer_objects gauge") == 1


async def test_an_informer_that_is_gone(registry: CollectorRegistry):
    """When an informer has ended and nobody holds it, its gauges should be gone, without waiting for the collector."""
    async with SharedInformer(degraded(source("a")), options=options(registry)) as informer:
        await informer.wait_for_sync(timeout=10)
        informer.add_handler(on_add=lambda _: None)
        assert "informer_objects{" in generate_latest(registry).decode()
    await asyncio.sleep(0)
    reference = weakref.ref(informer)
    del informer
    assert reference() is None
    assert "informer_objects{" not in generate_latest(registry).decode()


async def test_no_object_names_in_labels(registry: CollectorRegistry):
    """When metrics are exposed, no label should carry the name, namespace or content of an object."""
    fake = source()
    fake.create("tell-tale", {"timeout": "tell-tale-value"}, namespace="tell-tale-ns")
    fake.create("tell-tale-too", namespace="tell-tale-ns")
    fake.fail_lists(ApiError("tell-tale message", status=500, reason="InternalError"), ValueError("tell-tale error"))
    async with SharedInformer(degraded(fake), options=options(registry)) as informer:
        informer.add_handler(on_add=lambda _: None, name="tell-tale handler")
        await informer.wait_for_sync(timeout=60)
        text = generate_latest(registry).decode()
        assert "informer_objects{" in text
        assert "tell-tale" not in text


def test_a_registry_can_be_forgotten():
    """When a registry is dropped, nothing here should keep it alive."""

    class Observed:
        pass

    registry, observed = CollectorRegistry(), Observed()
    observe(registry, observed, WIDGETS, "")  # type: ignore[arg-type]
    reference = weakref.ref(registry)
    del registry
    assert reference() is None


def test_no_registry():
    """When there is no registry, nothing should be counted."""
    recorder = observe(None, object(), WIDGETS, "")  # type: ignore[arg-type]
    assert type(recorder) is Recorder
    recorder.request("list", "ok")
    recorder.event("added")
    recorder.undecodable()
    recorder.merged(1)


def test_no_import_without_a_registry():
    """When only `informer` is imported, prometheus_client should not be."""
    code = "import informer, sys; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
