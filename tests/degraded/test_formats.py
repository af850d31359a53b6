from __future__ import annotations

import json
import re
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informer.degraded import formats

TABLE = json.loads((Path(__file__).parents[1] / "data" / "go_duration_table.json").read_text())
NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def parsed(text: str) -> int | None:
    try:
        return formats.parse_duration(text)
    except formats.DurationError:
        return None


def test_table_is_whole():
    assert len(TABLE) == 338
    assert sum(row["ok"] for row in TABLE) == 157


@pytest.mark.parametrize("row", TABLE, ids=lambda row: ascii(row["input"])[:40])
def test_duration_agrees_with_go(row):
    """When Go's own ParseDuration was asked, it should say the same, to the nanosecond."""
    assert parsed(row["input"]) == row["ns"]
    assert (formats.duration_problem(row["input"]) is None) == row["ok"]


@pytest.mark.parametrize("text", ["0", "300ms", "-1.5h", "+5s", "1h30m", ".5s", "5.s", "1µs", "1μs"])
def test_duration_accepts(text):
    assert formats.duration_rule(json.dumps(text).encode()) is None


@pytest.mark.parametrize(
    "raw", ['""', '"1"', '"1d"', '"1 h"', '"h"', '".s"', '"1e3s"', '"１m"', "1", "true", "[]", "{}", "null"]
)
def test_duration_refuses(raw):
    assert formats.duration_rule(raw.encode())


terms = st.tuples(st.integers(0, 10**6), st.text("0123456789", max_size=9), st.sampled_from(sorted(NANOSECONDS)))


@given(st.sampled_from(["", "-", "+"]), st.lists(terms, min_size=1, max_size=5))
def test_duration_arithmetic_is_exact_to_the_rounding_of_each_term(sign, parts):
    text = sign + "".join(f"{whole}.{fraction}{unit}" for whole, fraction, unit in parts)
    exact = sum(Fraction(f"{whole}.{fraction or 0}") * NANOSECONDS[unit] for whole, fraction, unit in parts)
    try:
        found = formats.parse_duration(text)
    except formats.DurationError:
        assert exact > 2**63 - 1 - len(parts), "only what does not fit is refused"
        return
    assert abs(abs(found) - exact) <= len(parts)
    assert (found <= 0) if sign == "-" else (found >= 0)


@given(st.text(st.sampled_from("0123456789.+-hmsnuµμ dK\n\x00１e"), max_size=12))
def test_duration_grammar_agrees_with_a_slow_reference(text):
    one = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|h|m|s)"
    good = re.fullmatch(rf"[+-]?(?:0|(?:{one})+)", text)
    assert (parsed(text) is not None) == bool(good)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "100m",
        "1Ki",
        "1k",
        "12e6",
        "1E3",
        "+5",
        "-1",
        ".5",
        "5.",
        "1.5Gi",
        "1e3",
        "2",
        "0.5",
        "1E",
        "1Ei",
        "1n",
        "1u",
        "1.G",
        "1e-3",
        "1E+3",
        "00012",
        "1e400",
        "9223372036854775808",
    ],
)
def test_quantity_accepts(text):
    assert formats.quantity_problem(text) is None
    assert formats.quantity_rule(json.dumps(text).encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        *["", "1gi", "1K", "1 Gi", "1.2.3", "0x10", "1Mib", "two", "1GB", ".07893E985.90504", " 1", "1 ", "aoeu"],
        *[
            "1.1.M",
            "1+1.0M",
            "0.1mi",
            "0.1am",
            ".5i",
            "1i",
            "-3.01i",
            "-3.01e-",
            "1e",
            "1Ee5",
            "+-1",
            "１",
            "1e9223372036854775808",
        ],
    ],
)
def test_quantity_refuses(text):
    assert formats.quantity_problem(text)


@pytest.mark.parametrize("text", ["+", "-", ".", "Ki", "-.m"])
def test_quantity_without_digits_is_zero_to_go(text):
    """When the text has no digit, it should be accepted all the same: Go's ParseQuantity reads it as zero."""
    assert formats.quantity_problem(text) is None


@pytest.mark.parametrize(
    ("raw", "good"),
    [
        ("0.5", True),
        ("2", True),
        ("1e3", True),
        ('" 1Gi "', True),  # the decoder trims what the parser would refuse
        ('"\\u0031"', False),  # and never looks at escapes
        ("true", False),
        ("false", False),
        ("[]", False),
        ("{}", False),
        ('""', False),
        ('"\xff"', False),
    ],
)
def test_quantity_in_json(raw, good):
    assert (formats.quantity_rule(raw.encode("latin-1")) is None) is good


@given(st.text(st.sampled_from("0123456789.+-eEinumkKMGTP x"), max_size=8))
def test_every_quantity_of_the_published_pattern_is_accepted(text):
    pattern = r"(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?"
    if re.fullmatch(pattern, text):
        assert formats.quantity_problem(text) is None
    elif re.match(r"[+-]?[.]?[0-9]", text):  # beyond the pattern Go takes only numbers without digits, as zero
        assert formats.quantity_problem(text)


@pytest.mark.parametrize(
    ("raw", "good"),
    [
        ("1", True),
        ("-0", True),
        ("2147483647", True),
        ("-2147483648", True),
        ('"25%"', True),
        ('""', True),
        ("2147483648", False),
        ("-2147483649", False),
        ("9" * 5000, False),
        ("1.0", False),
        ("1e3", False),
        ("true", False),
        ("false", False),
        ("[]", False),
        ("{}", False),
        ('"\\ud800"', False),
    ],
    ids=lambda value: str(value)[:12],
)
def test_int_or_string(raw, good):
    assert (formats.int_or_string_rule(raw.encode()) is None) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2026-11-29T10:00:00Z", True),
        ("2026-11-29T10:00:00.1Z", True),
        ("2026-11-29T10:00:00.123456789Z", True),
        ("2026-11-29T10:00:00+05:30", True),
        ("2026-11-29T10:00:00-24:60", True),
        ("0000-02-29T00:00:00Z", True),
        ("2024-02-29T00:00:00Z", True),
        ("2026-11-29T10:00:00.1234567890Z", False),
        ("2026-02-29T00:00:00Z", False),
        ("2026-11-29t10:00:00Z", False),
        ("2026-11-29T10:00:00z", False),
        ("2026-11-29 10:00:00Z", False),
        ("2026-11-29T10:00:00", False),
        ("2026-11-29T10:00:00.Z", False),
        ("2026-11-29T24:00:00Z", False),
        ("2026-11-29T10:60:00Z", False),
        ("2026-11-29T10:00:60Z", False),
        ("2026-11-29T10:00:00+25:00", False),
        ("2026-13-01T00:00:00Z", False),
        ("2026-11-29T10:00:00Z\n", False),
        ("２026-11-29T10:00:00Z", False),
        ("", False),
        ("2026-11-29", False),
    ],
)
def test_timestamp(text, good):
    assert (formats.timestamp_problem(text) is None) is good
    assert (formats.timestamp_rule(json.dumps(text).encode()) is None) is good


@given(st.datetimes(timezones=st.timezones()))
def test_every_time_that_python_writes_is_a_timestamp(moment: datetime):
    text = moment.isoformat()
    if re.search(r"[+-]\d\d:\d\d$", text):  # offsets with seconds, of the time before time zones, are not RFC 3339
        assert formats.timestamp_problem(text) is None


@given(st.binary(max_size=30))
def test_rules_never_raise(raw):
    for rule in (formats.duration_rule, formats.quantity_rule, formats.int_or_string_rule, formats.timestamp_rule):
        reason = rule(raw)
        assert reason is None or (reason and len(reason) < 500)
