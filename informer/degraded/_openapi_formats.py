"""The `format`s of a CRD's schema as the API server checks them (kube-openapi's strfmt), not as JSON Schema has them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from urllib.parse import urlsplit

from informer.degraded.formats import duration_problem

# Checked by the server and by nothing here; formats it does not know either are left out of both.
UNJUDGED = frozenset(
    {"bsonobjectid", "creditcard", "email", "hexcolor", "hostname", "isbn", "isbn10", "isbn13", "rgbcolor", "ssn"}
    | {"k8s-long-name", "k8s-short-name"}
)


def problem(name: str, value: object, kind: str) -> str | None:
    """Why a value is not of this format, or None: also for a format that nobody knows, and for a value of another type.

    Args:
        name: the format.
        value: what stands in the object.
        kind: the declared type, since the integer formats bound integers and the others strings.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        low, high = _RANGES.get(name, (None, None)) if kind in {"integer", "number"} else (None, None)
        if low is not None and high is not None and not low <= value <= high:
            return f"does not fit into {name}"
        return None
    # The server takes a format's name without its dashes.
    accepts = _STRINGS.get(name.replace("-", "")) if isinstance(value, str) else None
    return None if accepts is None or accepts(str(value)) else f"not of the format {name}"


_FLOAT = 3.4028234663852886e38
_RANGES: Mapping[str, tuple[float, float]] = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "float": (-_FLOAT, _FLOAT),
}
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.DOTALL)
_UNIT = re.compile(r"[0-9]+\s*([A-Za-zµ]+)", re.ASCII)
_UNITS = (
    *(("ns", "nano"), ("us", "µs", "micro"), ("ms", "milli"), ("s", "sec"), ("m", "min")),
    *(("h", "hr", "hour"), ("d", "day"), ("w", "wk", "week")),
)


def _date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or 2000, month, day)  # year 0 is a leap year and unknown to Python
    except ValueError:
        return False
    return True


def _date_time(text: str) -> bool:
    day, mark, time = text.lower().partition("t")
    match = _TIME.fullmatch(time)
    return bool(mark and match and _date(day)) and bool(match and match[1] <= "23" and max(match[2], match[3]) <= "59")


def _duration(text: str) -> bool:
    """A Go duration; or any text with a number and a unit in it, which may be a day or a week."""
    if duration_problem(text) is None:
        return True
    units = [unit.lower() for unit in _UNIT.findall(text)]
    return any(unit in names or unit.startswith(names[-1]) for unit in units for names in _UNITS)


def _byte(text: str) -> bool:
    return (
        re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", text)
        is not None
    )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    # The server's parser still takes leading zeros, and no zone.
    plain = re.sub(r"(?<![0-9A-Fa-f])0+(?=[0-9]+(\.|$))", "", text) if "." in text else text
    try:
        return None if "%" in text else ipaddress.ip_address(plain)
    except ValueError:
        return None


def _cidr(text: str) -> bool:
    host, slash, bits = text.partition("/")
    address = _address(host)
    return (
        bool(slash) and address is not None and bits.isascii() and bits.isdigit() and int(bits) <= address.max_prefixlen
    )


_MAC = re.compile(
    r"(?:[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}(?:(?:[0-9A-Fa-f]{2}\1){2}(?:(?:[0-9A-Fa-f]{2}\1){12})?)?[0-9A-Fa-f]{2})"
    r"|(?:[0-9A-Fa-f]{4}\.){2}(?:[0-9A-Fa-f]{4}\.(?:(?:[0-9A-Fa-f]{4}\.){6})?)?[0-9A-Fa-f]{4}"
)


def _uuid(version: str = "") -> Callable[[str], bool]:
    third = f"{version}[0-9a-f]{{3}}" if version else "[0-9a-f]{4}"
    fourth = "[89ab][0-9a-f]{3}" if version in {"4", "5"} else "[0-9a-f]{4}"
    pattern = re.compile(f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}", re.IGNORECASE | re.ASCII)
    return lambda text: pattern.fullmatch(text) is not None


def _uri(text: str) -> bool:
    """Absolute, or an absolute path (Go's url.ParseRequestURI)."""
    if re.search(r"[\x00-\x20\x7f]", text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for one that is no number
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


_STRINGS: Mapping[str, Callable[[str], bool]] = {
    "byte": _byte,
    "cidr": _cidr,
    "date": _date,
    "datetime": _date_time,
    "duration": _duration,
    "ipv4": lambda text: "." in text and _address(text) is not None,
    "ipv6": lambda text: ":" in text and _address(text) is not None,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
