"""The package as a whole: what importing costs, what its documentation shows, the demo and the worked example."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

import eviction
from eviction import PodRef, Requeue, _demo
from eviction.__main__ import main

from .evicting import OVERLOAD, Clock, FakeApi, by_budget

ROOT = Path(eviction.__file__).parents[1]
FOREIGN = ("kubernetes_asyncio", "asyncio", "informer", "aiohttp", "prometheus_client")


@pytest.mark.parametrize(
    "module", ["eviction", "eviction.throttle", "eviction.requeue", "eviction.deadline", "eviction.refusal"]
)
def test_importing_it_imports_nothing_heavy(module: str) -> None:
    """When a controller takes one of the plain modules, it should get no client, no event loop and no informer."""
    code = f"import sys, {module}; print([name for name in {FOREIGN!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_it_never_imports_informer() -> None:
    """When the source is read, no module of it should import the other package, not even inside a function."""
    for file in (ROOT / "eviction").glob("*.py"):
        text = file.read_text()
        assert "from informer" not in text, file
        assert "import informer" not in text, file


@pytest.mark.parametrize("name", ["throttle", "requeue", "deadline", "refusal"])
def test_the_ten_lines_of_each_module_work(name: str) -> None:
    """When the example in a module's docstring is run, it should do what it shows."""
    result = doctest.testmod(importlib.import_module(f"eviction.{name}"))
    assert result.attempted >= 4
    assert result.failed == 0


def test_all_names_what_is_public() -> None:
    """When everything is imported, each public name should be there, sorted, and documented."""
    assert sorted(eviction.__all__) == list(eviction.__all__)
    for name in eviction.__all__:
        assert getattr(eviction, name).__doc__, name


def test_the_reason_for_memory_stands_in_the_class() -> None:
    """When somebody wants to persist the throttle, its docstring should tell why not and what losing it costs."""
    text = eviction.EvictionThrottle.__doc__ or ""
    for word in ("in memory", "Losing it", "one immediate attempt", "annotation"):
        assert word in text


# ---------------------------------------------------------------- the demo


def test_the_demo_shows_what_it_claims(capsys: pytest.CaptureFixture[str]) -> None:
    """When the demo runs, it should show attempts, skips, a release and the three policies, and exit with 0."""
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    for shown in ("gate per node", "30 s for everybody", "no throttle", "refused db-", "skipped", "released and woken", "is noticed"):  # fmt: skip
        assert shown in text


async def test_the_demo_notices_when_a_claim_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the throttle does not throttle, the demo should say which claim was not observed."""
    broken = (_demo.Policy("gate per node", 1.0), *_demo.POLICIES[1:])
    monkeypatch.setattr(_demo, "POLICIES", broken)
    assert any("one refused request per interval" in doubt for doubt in _demo.doubts(await _demo.run()))


def test_a_failed_claim_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """When a claim was not observed, the exit status should not be 0."""
    monkeypatch.setattr(_demo, "doubts", lambda _reports: ["something"])
    assert main(["demo"]) == 1
    assert "not observed: something" in capsys.readouterr().err


# ---------------------------------------------------------------- the worked example


@pytest.fixture(scope="module")
def drainer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("drainer", ROOT / "docs/examples/drainer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["drainer"] = module
    spec.loader.exec_module(module)
    return module


START = datetime(2026, 1, 1, tzinfo=UTC)


async def test_the_worked_example(drainer: ModuleType) -> None:
    """When several pools drain in one process, a blocked one should slow nobody, end in time, and keep its condition."""
    clock = Clock(0.0)
    api = FakeApi({"db-0": by_budget("db"), "cache-0": by_budget("cache")})
    operator = drainer.Drainer(api, clock=clock, now=lambda: START + timedelta(seconds=clock.now))
    writes: dict[str, list[tuple[float, str]]] = {}
    passes = 0

    def ref(name: str) -> PodRef:
        return PodRef(name, "default", f"uid-{name}")

    class Broken:
        name = "broken"

        @property
        def nodes(self) -> dict[str, list[PodRef]]:
            return {}

        @property
        def started_at(self) -> datetime:
            raise LookupError("no such field")

    free = drainer.Pool("free", {"n3": [ref("web-0")]}, START)
    pools = [
        drainer.Pool("blocked", {"n1": [ref("db-0")], "n2": [ref("web-9")]}, START),
        Broken(),
        drainer.Pool("hurried", {"n4": [ref("cache-0")]}, START, 10.0),
    ]
    while clock.now <= 130:
        if clock.now == 40:
            pools.append(free)
        api.answers["db-0"] = OVERLOAD if 61 <= clock.now < 95 else by_budget("db")
        passes += 1
        requeue: Requeue = await operator.one_pass(pools)
        for pool, text in operator.conditions.items():
            history = writes.setdefault(pool, [])
            if not history or history[-1][1] != text:
                history.append((clock.now, text))
        assert requeue.delay is not None
        clock.advance(min(requeue.delay, 2.0))
    cache = "DrainBlocked: n4: 1 pod not evicted: default/cache-0 (disruption budget cache allows no disruption)"
    assert writes == {
        "blocked": [(0, "DrainBlocked: n1: 1 pod not evicted: default/db-0 (disruption budget db allows no disruption)")],
        "hurried": [(0, cache), (10, f"TimedOut, and before that {cache}")],
        "free": [(40, "Draining")],
    }  # fmt: skip
    assert passes == 66, "one every 2 s, whoever is blocked"
    # at 0, 30, 60, 90 and, since an overload is over sooner, 92, 94, 96; then an interval later
    assert api.count("db-0") == 8
    assert api.count("cache-0") == 1
