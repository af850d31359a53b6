"""Metrics page, alerts and dashboard are true: every metric and label in them exists, and every metric is described."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from eviction import EvictionMetrics, EvictionThrottle, Outcome, RefusalKind
from informer import SharedInformer
from informer.metrics import observe
from informer.resource import Resource
from informer.testing import FakeListerWatcher

DOCS = Path(__file__).parents[2] / "docs"
ALERTS = DOCS / "observability" / "alerts.yaml"
DASHBOARD = DOCS / "observability" / "dashboard.json"
WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
COMMON = {"resource", "informer"}
PROMETHEUS = {"le", "job", "instance"}


def families() -> dict[str, tuple[str, str, frozenset[str]]]:
    """Name on the wire to type, help and labels, as a registry exposes them after everything was counted once."""
    registry = CollectorRegistry()
    informer = SharedInformer(FakeListerWatcher(WIDGETS))
    recorder = observe(registry, informer, str(WIDGETS), "all")
    recorder.request("list", "ok")
    recorder.event("added")
    recorder.undecodable()
    recorder.merged(1)
    throttle = EvictionThrottle()
    counted = EvictionMetrics(registry, throttle=throttle)
    counted.attempted(Outcome.EVICTED, 0.1)
    counted.throttled("interval")
    found = {}
    for family in registry.collect():
        samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
        labels = frozenset(label for sample in samples for label in sample.labels) - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = (family.type, family.documentation, labels)
    return found


FAMILIES = families()


def rows(text: str) -> dict[str, tuple[str, frozenset[str], str]]:
    """The rows of the page's tables: name to type, labels and text."""
    found = {}
    for name, kind, labels, words in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| (.*?) \|$", text, re.MULTILINE):
        found[name] = (kind, frozenset(re.findall(r"`(\w+)`", labels)), words)
    return found


def test_the_page() -> None:
    """When the page of metrics is read, it should have each metric, with its type, its labels and its own words."""
    expected = {
        name: (kind, labels - COMMON if name.startswith("informer") else labels, words)
        for name, (kind, words, labels) in FAMILIES.items()
    }
    assert rows((DOCS / "metrics.md").read_text()) == expected
    assert len(expected) == 16


def test_labels_of_informers() -> None:
    """When the page says that all metrics of informers share two labels, it should be so."""
    for name, (_, _, labels) in FAMILIES.items():
        assert labels.issuperset(COMMON) is name.startswith("informer"), name


def names(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:informer|eviction)_\w+", expression))


def labels(expression: str) -> set[str]:
    matchers = re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", expression)
    groups = [part for group in re.findall(r"\bby \(([^)]*)\)", expression) for part in group.split(",")]
    return {part.strip() for part in [*matchers, *groups]}


def check(expression: str, *, extra: set[str] = frozenset()) -> None:  # type: ignore[assignment]  # a constant default
    known: set[str] = set()
    assert names(expression), expression
    for name in names(expression):
        family = re.sub(r"_(bucket|sum|count)$", "", name) if name not in FAMILIES else name
        assert family in FAMILIES, f"{name} does not exist"
        assert (FAMILIES[family][0] == "histogram") is (family != name), f"{name} is a {FAMILIES[family][0]}"
        known |= FAMILIES[family][2]
        if FAMILIES[family][0] == "counter":
            assert re.search(rf"\b(rate|increase)\({name}", expression), (
                f"{name} is a counter: only its rate means something"
            )
    assert labels(expression) | extra <= known | PROMETHEUS, expression


RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert(rule: dict[str, Any]) -> None:
    """When an alert is read, it should ask for metrics and labels that exist, wait, and say what to do and where to read."""
    templates = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    check(rule["expr"], extra=templates)
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+m", rule["for"])
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    assert (DOCS / rule["annotations"]["runbook"]).exists()
    grouped = re.search(r"\bby \(([^)]*)\)", rule["expr"])
    assert grouped is None or templates <= labels(rule["expr"]), "a label that the expression drops"


def test_alerts_cover() -> None:
    """When something goes wrong for long, there should be an alert: unreadable, stale, failing, behind, blocked."""
    text = " ".join(rule["expr"] for rule in RULES)
    assert names(text) >= {
        "informer_quarantined_objects",
        "informer_seconds_since_contact",
        "informer_live",
        "informer_synced",
        "informer_handler_backlog",
        "eviction_oldest_block_seconds",
    }
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("result", re.findall(r"result=~\"([^\"]*)\"", ALERTS.read_text())[0].split("|"))
def test_results_in_alerts(result: str) -> None:
    """When an alert names a kind of refusal, it should be one."""
    assert result in {*RefusalKind}


def test_staleness() -> None:
    """When an alert and the pages name the seconds after which an informer is stale, they should be the informer's."""
    from informer.listerwatcher import WATCH_GRACE
    from informer.reflector import WATCH_TIMEOUT

    stale = f"{2 * WATCH_TIMEOUT + WATCH_GRACE:g}"
    assert f"informer_seconds_since_contact > {stale}" in ALERTS.read_text()
    assert f"beyond {stale} s" in (DOCS / "metrics.md").read_text()
    assert f"Beyond {stale} s" in DASHBOARD.read_text()


@pytest.mark.real_time
@pytest.mark.parametrize(
    "command", [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]], ids=["check", "test"]
)
def test_promtool(command: list[str], tmp_path: Path) -> None:
    """When Prometheus reads the rules, it should take them, and they should fire as their own tests say."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    for file in (ALERTS, Path(__file__).with_name("alerts_test.yaml")):
        (tmp_path / file.name).write_text(file.read_text())
    done = subprocess.run([promtool, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_is_generated() -> None:
    """When the script that writes the dashboard runs, it should write what is there."""
    path = DASHBOARD.with_suffix(".py")
    spec = importlib.util.spec_from_file_location("dashboard", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert json.loads(DASHBOARD.read_text()) == module.dashboard(), f"run python {path}"


def test_dashboard() -> None:
    """When Grafana reads the dashboard, its panels should not overlap, and ask for metrics and labels that exist."""
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    variables = {"$" + variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert max(x for x, _ in cells) < 24
        assert taken.isdisjoint(cells), panel["title"]
        taken |= cells
        for target in panel.get("targets", []):
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            check(target["expr"], extra=legend)
            assert set(re.findall(r"\$\w+", target["expr"])) <= variables
    shown = names(" ".join(target["expr"] for panel in panels for target in panel.get("targets", [])))
    assert {re.sub(r"_bucket$", "", name) for name in shown} == set(FAMILIES), "every metric has a panel"
