"""The page for those on call is true: what it quotes is what the code says, and it knows every alert."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT, page, tables

SOURCE = "\n".join(
    file.read_text() for package in ("informer", "eviction") for file in sorted((ROOT / package).rglob("*.py"))
)
ROWS = tables(page("on-call"))
# Not literally in a message: HTTP statuses and names of exceptions, which come from elsewhere.
FOREIGN = {"401", "403", "404 NotFound", "429", "500", "503", "ConnectionError", "Timeout"}


def quoted() -> list[str]:
    found = [text for row in ROWS["From a log line"] for text in re.findall(r"`([^`]+)`", row[0])]
    found += re.findall(r"`(is not synced|in a row)`", page("on-call"))
    return [text for text in dict.fromkeys(found) if text not in FOREIGN]


@pytest.mark.parametrize("text", quoted())
def test_log_lines(text: str) -> None:
    """When the page quotes a part of a log line, some message of the code should have it."""
    pattern = r"[^\n]{0,9}".join(re.escape(part.strip()) for part in text.split("…"))
    assert re.search(pattern, SOURCE), text


@pytest.mark.parametrize("pattern", re.findall(r"grep -E '([^']*)'", page("on-call")))
def test_greps(pattern: str) -> None:
    """When the page greps the log for something, some message of the code should have each of its alternatives."""
    for one in re.split(r"\|(?![^(]*\))", pattern):
        assert re.search(one, SOURCE), one


def test_alerts() -> None:
    """When there is an alert, the page should say what to do, in the order of the rules."""
    rules = yaml.safe_load((DOCS / "observability" / "alerts.yaml").read_text())["groups"]
    alerts = [rule["alert"] for group in rules for rule in group["rules"] if "alert" in rule]
    named = [row[0] for row in ROWS["From an alert"] if not row[0].endswith("(not from these rules)")]
    assert named == alerts


def test_lines_per_interval() -> None:
    """When the page says how many objects are named, it should be the code's number."""
    from informer.degraded.reminders import LINES

    assert f"more than {LINES} are bad" in page("on-call")
