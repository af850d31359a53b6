"""The text formats that Kubernetes objects carry inside plain strings, exactly as Go reads them.

Each `…_problem` function says why a text is refused, or None when Go would read it. The `…_rule` functions do the same for
the raw JSON of a field and know which JSON types Go's decoders take for it.
"""

from __future__ import annotations

import re
from datetime import date

from informer import _wire
from informer.problems import readable

# Go's time.ParseDuration, unit by unit; both micro signs (U+00B5 and U+03BC) are units.
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")
_LIMIT = 1 << 63
_UNIT_LIST = "ns, us, ms, s, m, h"


class DurationError(ValueError):
    """The text is no Go duration; the message says why."""


def parse_duration(text: str) -> int:
    """Read a Go duration, such as `1h30m` or `-1.5h`, as whole nanoseconds.

    The arithmetic is Go's, including its one float: fractions of a unit are rounded as `time.ParseDuration` rounds them,
    and what does not fit into 63 bits is refused.

    Raises:
        DurationError: Go would refuse the text.
    """
    sign, rest = text[:1], text
    if sign in {"-", "+"}:
        rest = text[1:]
    if rest == "0":
        return 0
    if not rest:
        raise DurationError("it is empty")
    total, position = 0, 0
    while position < len(rest):
        match = _TERM.match(rest, position)
        assert match is not None  # the pattern matches everything, if only as nothing
        whole, fraction, unit = match.groups()
        if not whole and fraction in {None, "."}:
            raise DurationError(f"expected a digit at {_quoted(rest[position : position + 16])}")
        if not unit:
            raise DurationError("missing unit")
        if unit not in _UNITS:
            raise DurationError(f"unknown unit {_quoted(unit)}; units are {_UNIT_LIST}")
        total += _whole(whole) * _UNITS[unit] + _fraction(fraction, _UNITS[unit])
        if total > _LIMIT:
            raise DurationError("it is longer than 290 years")
        position = match.end()
    if sign == "-":
        return -total
    if total == _LIMIT:
        raise DurationError("it is longer than 290 years")
    return total


def _whole(digits: str) -> int:
    # Zeros are taken off first: Python refuses to read more than 4,300 digits, Go does not mind leading zeros.
    digits = digits.lstrip("0")
    if len(digits) > 19:
        raise DurationError("it is longer than 290 years")
    return int(digits or "0")


def _fraction(text: str | None, unit: int) -> int:
    value, scale = 0, 1.0
    for digit in (text or "")[1:]:
        if value > (_LIMIT - 1) // 10:
            break  # Go stops reading where one more digit could overflow
        longer = value * 10 + int(digit)
        if longer > _LIMIT:
            break
        value = longer
        scale *= 10
    return int(float(value) * (float(unit) / scale))


def duration_problem(text: str) -> str | None:
    """Why Go's `time.ParseDuration` refuses this text, or None."""
    try:
        parse_duration(text)
    except DurationError as error:
        return f"not a duration: {error}"
    return None


# What resource.ParseQuantity cuts a text into; every part may be empty, and what is left over is an error.
_QUANTITY = re.compile(r"[+-]?[0-9]*(?:\.[0-9]*)?([eEinumkKMGTP]*(?:[+-]?[0-9]*))")
_SUFFIXES = frozenset({"", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"})
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
_SUFFIX_LIST = "n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or an exponent such as e3"


def quantity_problem(text: str) -> str | None:
    """Why Kubernetes' `resource.ParseQuantity` refuses this text, or None."""
    if not text:
        return "not a quantity: it is empty"
    match = _QUANTITY.match(text)
    assert match is not None  # the pattern matches everything, if only as nothing
    suffix = match[1]
    if match.end() < len(text):
        return f"not a quantity: {_quoted(text[match.start(1) : match.start(1) + 16])} is no unit; units are {_SUFFIX_LIST}"
    if suffix in _SUFFIXES:
        return None
    if _EXPONENT.fullmatch(suffix):
        return None if _fits(suffix[1:], 64) else "not a quantity: the exponent is too large"
    return f"not a quantity: unknown unit {_quoted(suffix)}; units are {_SUFFIX_LIST}"


def _fits(digits: str, bits: int) -> bool:
    """Whether a decimal integer fits into a signed one of so many bits."""
    negative = digits.startswith("-")
    digits = digits.lstrip("+-").lstrip("0")
    limit = (1 << (bits - 1)) - (not negative)
    return len(digits) <= 20 and int(digits or "0") <= limit


_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:Z|[+-]([0-9]{2}):([0-9]{2}))"
)


def timestamp_problem(text: str) -> str | None:
    """Why this text is no RFC 3339 timestamp, or None.

    As Go's `time.RFC3339` has it: `T` and `Z` in upper case, no leap second, an offset of up to 24:60; up to nine digits
    of fraction, which is all a Go time holds.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return "not an RFC 3339 timestamp"
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, offset_hours, offset_minutes = match.groups()[6:]
    try:
        date(year or 2000, month, day)  # year 0 is a leap year and unknown to Python
    except ValueError:
        return "not an RFC 3339 timestamp: there is no such day"
    if hour > 23 or minute > 59 or second > 59 or int(offset_hours or 0) > 24 or int(offset_minutes or 0) > 60:
        return "not an RFC 3339 timestamp: there is no such time of day"
    if fraction and len(fraction) > 9:
        return "more than nine digits of fraction"
    return None


def duration_rule(raw: bytes) -> str | None:
    """As metav1.Duration: a JSON string that holds a Go duration. A bare number is refused, as Go refuses it."""
    text, wrong_type = _string(raw)
    return wrong_type or duration_problem(text)


def timestamp_rule(raw: bytes) -> str | None:
    """As metav1.Time and metav1.MicroTime: a JSON string that holds an RFC 3339 timestamp."""
    text, wrong_type = _string(raw)
    return wrong_type or timestamp_problem(text)


def quantity_rule(raw: bytes) -> str | None:
    """As resource.Quantity: a JSON string or a bare number.

    Its decoder takes off quotes and white space and never looks at JSON escapes; neither does this.
    """
    kind = _json_type(raw)
    if kind not in {"a string", "a number"}:
        return f"{kind}, not a quantity"
    try:
        text = (raw[1:-1] if kind == "a string" else raw).decode()
    except UnicodeDecodeError:
        return "invalid UTF-8"
    return quantity_problem(text.strip())


_INTEGER = re.compile(rb"-?[0-9]+")


def int_or_string_rule(raw: bytes) -> str | None:
    """As intstr.IntOrString: a JSON string, or a whole number of 32 bits. `true` is neither."""
    kind = _json_type(raw)
    if kind == "a string":
        return _string(raw)[1]
    if kind != "a number":
        return f"{kind}, neither an integer nor a string"
    if not _INTEGER.fullmatch(raw):
        return "not a whole number"
    return None if _fits(raw.decode(), 32) else "does not fit into 32 bits"


def _string(raw: bytes) -> tuple[str, str | None]:
    """The text of a JSON string, or why there is none."""
    kind = _json_type(raw)
    if kind != "a string":
        return "", f"{kind}, not a string"
    try:
        return str(_wire.decode_json(raw)), None
    except ValueError as error:
        return "", str(error)


def _json_type(raw: bytes) -> str:
    names = {b'"': "a string", b"{": "an object", b"[": "a list", b"t": "a boolean", b"f": "a boolean"}
    if raw[:4] == b"null":
        return "null"
    return names.get(raw[:1]) or ("a number" if raw[:1] in b"-0123456789" and raw else "no JSON value")


def _quoted(text: str) -> str:
    """Someone else's text inside a reason: short, ASCII, in quotes."""
    text = readable(text)
    short = ascii(text[:16])
    return f"{short}..." if len(text) > 16 else short
