"""`bench`: that each row still runs and the figures come out; never what they are."""

from __future__ import annotations

import itertools
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import bench.__main__
from bench import plot, reads, report, runs, worker
from bench.objects import FIRST_VERSION, template
from bench.rows import FLOOR, GROWTH, LISTS, MAIN, SIZES, Row
from informer import KubeObject

OURS = [row for row in (*MAIN, *LISTS) if row.spec["row"] in {"floor", "informer", "kubernetes-asyncio"}]


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[bool, str]]:
    """A server of 30 objects for all rows, without and with streamed lists."""
    with ExitStack() as servers:
        yield {stream: servers.enter_context(runs.serving(30, stream=stream)) for stream in (False, True)}


@pytest.mark.parametrize("row", OURS, ids=lambda row: row.name)
def test_every_row_that_needs_no_other_program_runs(
    row: Row, urls: dict[bool, str], capsys: pytest.CaptureFixture[str]
):
    """When a row is measured over a few objects, it should give costs per object and per event.

    Without the process of its own that `bench` gives it, which the figures need and the test does not.
    """
    worker.main({**row.spec, "url": urls[row.spec.get("lists") == "streamed"], "objects": 30, "events": 40})
    figures = json.loads(capsys.readouterr().out)
    assert set(figures) == {"objects", "events"}
    assert all(costs["cpu_us"] > 0 for costs in figures.values())


def test_a_process_of_its_own(urls: dict[bool, str]):
    """When a row is measured as `bench` does it, its figures should come out of the process that did."""
    figures = runs.once(dict(MAIN[1].spec), url=urls[False], objects=30, events=40)
    assert set(figures) == {"objects", "events"}


@pytest.mark.parametrize("what", ["reads", "quarantined", "evictions"])
def test_costs_per_call(what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """When calls are measured, each should have a figure."""
    monkeypatch.setattr(reads, "per_call", partial(reads.per_call, seconds=0.0))
    log = logging.getLogger("informer")  # which a row changes, whose process usually ends with it
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    worker.main({"row": "calls", "what": what, "count": 5})
    figures = json.loads(capsys.readouterr().out)
    assert figures
    assert all(isinstance(value, float) for value in figures.values())


def test_a_row_that_fails_is_left_out_and_says_why():
    """When a row cannot be measured, the others should be, and it should say why."""
    broken = Row("broken", {"row": "informer", "decode": "no such decoder"})
    results = [runs.compare(row, 10, 0, 1) for row in (FLOOR, broken)]
    assert "x floor" in runs.shown(results[0])
    assert "no such decoder" in runs.shown(results[1])
    assert "x its neighbour" in runs.shown(runs.compare(MAIN[1], 10, 0, 1, beside=MAIN[2]))
    assert ("per_object" in results[0], results[0]["note"]) == (True, "")
    assert ("per_object" in results[1], "no such decoder" in results[1]["note"]) == (False, True)


def test_a_run_that_was_broken_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """When a run is broken off and resumed, the rows that it had should be kept, and the others be measured once."""
    measured: list[tuple[int, str, str]] = []
    patience = [20]

    def compare(row: Row, objects: int, events: int, runs: int, *, beside: Row) -> dict[str, Any]:
        if len(measured) == patience[0]:
            raise KeyboardInterrupt
        measured.append((objects, row.name, beside.name))
        return result(row.name, objects=objects, events=min(events, row.events))

    monkeypatch.setattr(bench.__main__, "compare", compare)
    monkeypatch.setattr(bench.__main__, "once", lambda spec: {"import informer": 90.0, "get": 0.5})
    monkeypatch.setattr(sys, "argv", ["bench", "--out", f"{tmp_path}", "--resume"])
    with pytest.raises(KeyboardInterrupt):
        bench.__main__.main()
    patience[0] = 1_000
    bench.__main__.main()
    wanted = {(objects, row.name, FLOOR.name) for objects in SIZES for row in MAIN}
    assert wanted <= set(measured)
    assert len(measured) == len(set(measured)) == (len(MAIN) + 1) * len(SIZES) + len(LISTS) + len(GROWTH)
    found = json.loads((tmp_path / "performance-results.json").read_text())
    kept = itertools.chain(*(found[part] for part in ("main", "checks", "lists", "growth")))
    assert [(row["objects"], row["row"]) for row in kept] == [(objects, name) for objects, name, _ in measured]


def test_objects_are_of_the_size_that_the_page_says():
    """When an object is made, it should be a readable pod of about 5 kB."""
    before, after = template(7)
    pod = KubeObject.parse(b"%b%d%b" % (before, FIRST_VERSION, after))
    assert 4_500 <= len(pod.raw) <= 5_500
    assert pod.resource_version == f"{FIRST_VERSION}"


def result(name: str, **more: Any) -> dict[str, Any]:
    costs = {"cpu_us": 12.5, "x_floor": 1.25, "resident": 6000.0, "peak": 6100.0, "stall_ms": 4.0, "turn_ms": 3.0}
    return {
        "row": name,
        "objects": 10,
        "events": 10,
        "runs": 1,
        "note": "",
        "per_object": costs,
        "per_event": costs,
    } | more


def test_report_and_plot():
    """When results are shown, there should be a line for each row, left out or not, and a well-formed plot."""
    left_out = {"row": "client-go, dynamic", "objects": 10, "events": 10, "runs": 0, "note": "not here"}
    rows = [result("floor: x"), result("KubeObject"), result("client-go, typed"), left_out]
    calls = {"10": {"get": 0.5}, "1,000": {"get": 0.5, "list": 9.0}}
    machine = {
        "processor": "P<&>", "cores": 2, "python": "3.11", "versions": "x 1", "date": "2026-01-01",
        "load_before": 0.1, "load_after": 0.2,
    }  # fmt: skip
    checks = [{**result("KubeObject, two duration checks"), "per_object": {"x_other": 1.07}}]
    results = {"machine": machine, "main": rows, "checks": checks, "lists": rows, "growth": rows, "import": 90.0}
    results |= {"reads": calls, "quarantined": calls, "eviction": calls}
    table = report.document(results)
    assert "left out: not here" in table
    assert "| 10 | 10 | 1.07 |" in table
    assert table.count("| 10 | KubeObject |") == 3
    widths = {line.count("|") for line in table.splitlines() if line.startswith("| 10 |") and "1.07" not in line}
    assert len(widths) == 1
    ET.fromstring(plot.svg(rows, "P<&>"))


def test_the_page_shows_what_was_measured():
    """When the page's table stands in the documentation, it should be what its JSON says."""
    docs = Path(__file__).parents[2] / "docs"
    results = json.loads((docs / "performance-results.json").read_text())
    assert report.document(results) == (docs / "performance-table.txt").read_text()
