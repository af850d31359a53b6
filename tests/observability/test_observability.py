"""Metrics page, alerts and dashboard are true: every metric and label in them exists, and every metric is described."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from eviction import EvictionMetrics, EvictionThrottle, Outcome, Refusal, RefusalKind
from informer import SharedInformer
from informer.backoff import Backoff
from informer.metrics import observe
from informer.resource import Resource
from informer.testing import FakeListerWatcher

DOCS = Path(__file__).parents[2] / "docs"
ALERTS = DOCS / "observability" / "alerts.yaml"
DASHBOARD = DOCS / "observability" / "dashboard.json"
WIDGETS = Resource("example.test", "v1", "widgets", kind="Widget")
COMMON = {"resource", "informer"}
PROMETHEUS = {"le", "job", "instance", "namespace", "pod"}
BASE = "https://docs.example/kube-informer/"


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


EVERY: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
]
RECORDED: dict[str, str] = {rule["record"]: rule["expr"] for rule in EVERY if "record" in rule}
RULES = [rule for rule in EVERY if "alert" in rule]


def in_full(expression: str) -> str:
    """With what is recorded in place of its name."""
    for name, meaning in RECORDED.items():
        expression = expression.replace(name, meaning)
    return expression


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert(rule: dict[str, Any]) -> None:
    """When an alert is read, it should ask for metrics and labels that exist, wait, and say what to do and where to read."""
    templates = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    check(in_full(rule["expr"]), extra=templates)
    for query in re.findall(r"`(.*?)`", rule["annotations"]["description"]):
        check(query)
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+m", rule["for"])
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    dropped = re.findall(r"\bwithout \(([^)]*)\)", in_full(rule["expr"]))
    assert templates.isdisjoint(name.strip() for group in dropped for name in group.split(","))
    assert " by (" not in in_full(rule["expr"]), "whoever is paged needs the labels of the pod"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_runbook(rule: dict[str, Any]) -> None:
    """When an alert names its page, the address should have the base that is to be replaced, a page and a heading of it."""
    address = rule["annotations"]["runbook_url"]
    page, _, heading = address.removeprefix(BASE).partition(".html#")
    assert address == f"{BASE}{page}.html#{heading}"
    assert re.search(rf"(?im)^#+ {heading.replace('-', ' ')}$", (DOCS / f"{page}.md").read_text())
    assert f"in place of {BASE.rstrip('/')}:" in ALERTS.read_text()


def test_alerts_cover() -> None:
    """When something goes wrong for long, there should be an alert: unreadable, stale, failing, behind, blocked."""
    text = " ".join(in_full(rule["expr"]) for rule in RULES)
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


def promtool(directory: Path, *command: str) -> None:
    """Run it beside a copy of the rules."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    (directory / ALERTS.name).write_text(ALERTS.read_text())
    environment = {**os.environ, "GOGC": "off"}  # it lives for a moment
    done = subprocess.run(
        [found, *command], cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.real_time
@pytest.mark.parametrize(
    "command", [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]], ids=["check", "test"]
)
def test_promtool(command: list[str], tmp_path: Path) -> None:
    """When Prometheus reads the rules, it should take them, and they should fire as their own tests say."""
    tests = Path(__file__).with_name("alerts_test.yaml")
    (tmp_path / tests.name).write_text(tests.read_text())
    promtool(tmp_path, *command)


@pytest.mark.real_time
def test_the_alert_of_a_drainer(tmp_path: Path) -> None:
    """When a drain's deadline ends it, the rule of the page about evictions should fire, and no longer than it says."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", (DOCS / "eviction.md").read_text(), re.MULTILINE | re.DOTALL)
    rules = {"groups": [{"name": "drainer", "rules": yaml.safe_load(block)}]}
    (tmp_path / "drainer.yaml").write_text(yaml.safe_dump(rules))
    expected = {
        "exp_labels": {"severity": "warning"},
        "exp_annotations": {
            **rules["groups"][0]["rules"][0]["annotations"],
            "summary": "1 drains were ended by their deadline in the last hour",
        },
    }
    alerts = [
        {"alertname": "DrainTimedOut", "eval_time": time, "exp_alerts": fired}
        for time, fired in (("9m", []), ("15m", [expected]), ("50m", [expected]), ("80m", []))
    ]
    counter = {"series": "drains_timed_out_total", "values": "0x10 1x100"}
    test = {"interval": "1m", "input_series": [counter], "alert_rule_test": alerts}
    text = yaml.safe_dump({"rule_files": ["drainer.yaml"], "evaluation_interval": "1m", "tests": [test]})
    (tmp_path / "generated.yaml").write_text(text)
    promtool(tmp_path, "test", "rules", "generated.yaml")


def test_gauges_of_a_blocked_node() -> None:
    """When a node's interval is over, the gauges should not have it until the next attempt, and then with its whole age."""
    time, registry = 0.0, CollectorRegistry()
    throttle = EvictionThrottle(interval=30, clock=lambda: time)
    EvictionMetrics(registry, throttle=throttle)
    seen = []
    for moment in (0, 29, 31, 60, 91):
        time = float(moment)
        if moment in {0, 60}:
            with throttle.acquire("node-1") as permit:  # type: ignore[union-attr]  # its turn has come
                permit.refused(Refusal(RefusalKind.BUDGET, "no headroom"))
        seen.append(
            [registry.get_sample_value(f"eviction_{name}") for name in ("blocked_keys", "oldest_block_seconds")]
        )
    assert seen == [[1, 0], [1, 29], [0, 0], [1, 60], [0, 0]]


SCRAPE, BEGIN, END = 30, 600, 2 * 3600


def failures(latency: float, retry_after: float | None = None, *, minutes: float = 110) -> list[float]:
    """When the requests of an outage fail, in seconds: at the informer's own pace, each after `latency`."""
    backoff, time, times = Backoff(rng=random.Random(1).random), float(BEGIN), []
    while (time := time + latency) < BEGIN + 60 * minutes:
        times.append(time)
        time += backoff.next(retry_after)
    return times


def series(name: str, value: Callable[[int], float | str], **more: str) -> dict[str, str]:
    """What Prometheus has scraped."""
    labels = ", ".join(f'{label}="{word}"' for label, word in {"resource": "w", "informer": "all", **more}.items())
    return {"series": f"{name}{{{labels}}}", "values": " ".join(str(value(time)) for time in range(0, END, SCRAPE))}


def scraped(times: Sequence[float], live: Callable[[int], bool], outcomes: Sequence[str]) -> list[dict[str, str]]:
    """An informer whose requests failed at these times, each outcome in its turn, and which was live at those."""

    def failed(outcome: str) -> Callable[[int], float | str]:
        own = times[outcomes.index(outcome) :: len(outcomes)]
        return lambda time: sum(one <= time for one in own) or "_"  # there is no series before the first

    def silent(time: int) -> float:
        return time - max(one for one in range(0, time + 1, SCRAPE) if live(one))

    return [
        series("informer_synced", lambda _: 1),
        series("informer_live", lambda time: int(live(time))),
        series("informer_seconds_since_contact", silent),
        *(series("informer_requests_total", failed(outcome), verb="watch", outcome=outcome) for outcome in outcomes),
    ]


def fires(directory: Path, input_series: list[dict[str, str]], expected: set[str]) -> None:
    """Which alerts have fired at any time, and only these."""
    expression = {
        "expr": 'count(count_over_time(ALERTS{alertstate="firing"}[2h])) by (alertname)',
        "eval_time": f"{END // 60}m",
        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)],
    }
    test = {"interval": f"{SCRAPE}s", "input_series": input_series, "promql_expr_test": [expression]}
    text = yaml.safe_dump({"rule_files": [ALERTS.name], "evaluation_interval": "30s", "tests": [test]})
    (directory / "generated.yaml").write_text(text)
    promtool(directory, "test", "rules", "generated.yaml")


@pytest.mark.real_time
@pytest.mark.parametrize("outcomes", [["503"], ["503", "ConnectionError"]], ids=" and ".join)
@pytest.mark.parametrize("retry_after", [None, 60.0], ids=lambda seconds: f"Retry-After {seconds}")
@pytest.mark.parametrize("latency", [0, 10], ids=lambda seconds: f"{seconds} s each")
def test_requests_that_fail(latency: float, retry_after: float | None, outcomes: list[str], tmp_path: Path) -> None:
    """When requests fail for long, at whatever pace, exactly one alert should fire: another one if it is live at times."""
    times = failures(latency, retry_after)
    fires(tmp_path, scraped(times, lambda time: time < BEGIN, outcomes), {"InformerFailing"})
    seldom = scraped(times, lambda time: time < BEGIN or time % 300 == 0, outcomes)
    fires(tmp_path, seldom, {"InformerRequestsRefused"})


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (1, set()),
        (5, set()),
        (9, set()),
        (11.5, {"InformerFailing"}),
        (15, {"InformerFailing"}),
        (40, {"InformerFailing"}),
    ],
)
@pytest.mark.parametrize("latency", [0, 10], ids=lambda seconds: f"{seconds} s each")
def test_an_outage_that_ends(latency: float, minutes: float, expected: set[str], tmp_path: Path) -> None:
    """When an outage ends, nothing should fire after it, and nothing at all for a short one."""
    times = failures(latency, minutes=minutes)
    fires(tmp_path, scraped(times, lambda time: not BEGIN <= time < BEGIN + 60 * minutes, ["503"]), expected)


@pytest.mark.real_time
@pytest.mark.parametrize("period", [240, 600, 3600])
def test_hiccups(period: int, tmp_path: Path) -> None:
    """When a watch is cut now and then, for ever, no alert should fire."""
    times = [float(time) for time in range(BEGIN, END, period)]
    fires(tmp_path, scraped(times, lambda _: True, ["ConnectionError"]), set())


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
