"""Writes dashboard.json, the Grafana dashboard of kube-informer: `python docs/observability/dashboard.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import field, frozen

SELECTED = '{resource=~"$resource"}'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, COLUMNS = 8, 8, 24


@frozen
class Panel:
    """One panel: pairs of expression and legend."""

    title: str
    queries: tuple[tuple[str, str], ...]
    text: str = ""
    unit: str = "short"
    kind: str = field(default="timeseries", kw_only=True)


@frozen
class Row:
    title: str
    panels: tuple[Panel, ...]


WHO = "{{resource}} {{informer}}"
ROWS = (
    Row(
        "Informers",
        (
            Panel(
                "Unreadable objects",
                ((f"sum(informer_quarantined_objects{SELECTED})", ""),),
                "Withheld until they are mended; the log has the commands.",
                kind="stat",
            ),
            Panel("Not synced", ((f"count(informer_synced{SELECTED} == 0) or vector(0)", ""),), kind="stat"),
            Panel("Not live", ((f"count(informer_live{SELECTED} == 0) or vector(0)", ""),), kind="stat"),
            Panel("Unreadable objects by resource", ((f"informer_quarantined_objects{SELECTED}", WHO),)),
            Panel("Objects", ((f"informer_objects{SELECTED}", WHO),)),
            Panel(
                "Since contact",
                ((f"informer_seconds_since_contact{SELECTED}", WHO),),
                "Beyond 630 s an informer is stale.",
                "s",
            ),
            Panel(
                "Requests",
                ((f"sum by (verb, outcome) (rate(informer_requests_total{SELECTED}[5m]))", "{{verb}} {{outcome}}"),),
                unit="reqps",
            ),
            Panel(
                "Changes",
                ((f"sum by (resource, type) (rate(informer_events_total{SELECTED}[5m]))", "{{resource}} {{type}}"),),
                unit="ops",
            ),
            Panel(
                "Unreadable objects received",
                ((f"rate(informer_decode_failures_total{SELECTED}[5m])", WHO),),
                "Each time one is received, also unchanged ones.",
                "ops",
            ),
            Panel(
                "Handler backlog",
                ((f"informer_handler_backlog{SELECTED}", WHO),),
                "Never back at 0: a handler hangs, or never catches up.",
            ),
            Panel(
                "Merged changes",
                ((f"rate(informer_merged_changes_total{SELECTED}[5m])", WHO),),
                "Spared to a handler that is more than max_backlog behind.",
                "ops",
            ),
        ),
    ),
    Row(
        "Evictions",
        (
            Panel(
                "Blocked nodes",
                (("sum(max_over_time(eviction_blocked_keys[5m]))", ""),),
                "Nodes that are asked about; the deadline of a drain takes them out, too.",
                kind="stat",
            ),
            Panel(
                "Oldest block", (("max(max_over_time(eviction_oldest_block_seconds[5m]))", ""),), unit="s", kind="stat"
            ),
            Panel("Attempts", (("sum by (result) (rate(eviction_attempts_total[5m]))", "{{result}}"),), unit="ops"),
            Panel(
                "Gated passes",
                (("sum by (reason) (rate(eviction_throttled_total[5m]))", "{{reason}}"),),
                "Passes over a node that asked the server nothing.",
                "ops",
            ),
            Panel(
                "Duration of a request",
                tuple(
                    (
                        f"histogram_quantile({q}, sum by (le) (rate(eviction_request_seconds_bucket[5m])))",
                        f"p{q * 100:g}",
                    )
                    for q in (0.5, 0.99)
                ),
                unit="s",
            ),
            Panel(
                "From headroom to done",
                (
                    (
                        "histogram_quantile(0.9, sum by (le) (rate(eviction_resume_latency_seconds_bucket[1h])))",
                        "p90",
                    ),
                ),
                unit="s",
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The whole dashboard, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in ROWS:
        panels.append(
            _place({"type": "row", "title": row.title, "collapsed": False, "panels": []}, panels, 0, y, COLUMNS, 1)
        )
        y += 1
        for number, panel in enumerate(row.panels):
            x = number * WIDTH % COLUMNS
            y += HEIGHT if number and x == 0 else 0
            panels.append(_place(_panel(panel), panels, x, y, WIDTH, HEIGHT))
        y += HEIGHT
    return {
        "uid": "kube-informer",
        "title": "kube-informer",
        "tags": ["kubernetes"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_DATASOURCE, _RESOURCE]},
        "annotations": {"list": []},
        "panels": panels,
    }


def _place(panel: dict[str, Any], before: list[dict[str, Any]], x: int, y: int, w: int, h: int) -> dict[str, Any]:
    return {"id": len(before) + 1, "gridPos": {"x": x, "y": y, "w": w, "h": h}, **panel}


def _panel(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
        for number, (expr, legend) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": targets,
    }


_DATASOURCE = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
_RESOURCE = {
    "name": "resource",
    "label": "Resource",
    "type": "query",
    "datasource": SOURCE,
    "query": "label_values(informer_synced, resource)",
    "refresh": 2,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
}


if __name__ == "__main__":
    Path(__file__).with_suffix(".json").write_text(json.dumps(dashboard(), indent=2) + "\n")
