"""Split JSON by its brackets alone, for bytes that a JSON parser refuses.

One item with `NaN` or a lone surrogate in it makes a parser refuse the page it stands in. Counting brackets outside of
strings still finds where each item begins and ends, so that one item cannot take its neighbours along.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

# A whole string, or one structural byte. The last alternative is a quote that opens a string nobody closes.
# Possessive, because the notes for going back would take 2 GB over a string of 16 million escapes.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|"', re.DOTALL)
_CLOSES = {ord("}"): ord("{"), ord("]"): ord("[")}


class ScanError(ValueError):
    """The brackets do not match, or the text is no object or list at all."""


def members(data: bytes | bytearray | memoryview) -> dict[str, memoryview]:
    """The members of one JSON object, undecoded. Of a name that stands twice, the last one counts.

    Raises:
        ScanError: the brackets do not match, or this is no object.
    """
    found: dict[str, memoryview] = {}
    for part in _parts(data, b"{"):
        name = _TOKEN.match(part)
        if name is None or name.group()[:1] != b'"':
            raise ScanError("a member of an object has no name")
        rest = _strip(part[name.end() :])
        if bytes(rest[:1]) != b":":
            raise ScanError("a member of an object has no value")
        found[_unescape(name.group())] = _strip(rest[1:])
    return found


def elements(data: bytes | bytearray | memoryview) -> list[memoryview]:
    """The elements of one JSON list, undecoded.

    Raises:
        ScanError: the brackets do not match, or this is no list.
    """
    return list(_parts(data, b"["))


def _parts(data: bytes | bytearray | memoryview, opener: bytes) -> Iterator[memoryview]:
    """The stretches between the commas of the outermost bracket, white space stripped."""
    view = memoryview(data)
    body = _strip(view)
    if bytes(body[:1]) != opener:
        raise ScanError(f"expected {opener.decode()!r} at the start")
    open_brackets = bytearray()
    start = 1
    end = 0
    for token in _TOKEN.finditer(body):
        first = body[token.start()]
        if first == ord('"'):
            if token.end() - token.start() == 1:
                raise ScanError(f"a string that begins at byte {token.start()} never ends")
        elif first in b"{[":
            open_brackets.append(first)
        elif first in b"}]":
            if not open_brackets or open_brackets.pop() != _CLOSES[first]:
                raise ScanError(f"a bracket at byte {token.start()} closes nothing")
            if not open_brackets:
                end = token.end()
                last = _strip(body[start : token.start()])
                if len(last):
                    yield last
                break
        elif first == ord(",") and len(open_brackets) == 1:
            yield _strip(body[start : token.start()])
            start = token.end()
    if not end or end != len(body):
        raise ScanError("the brackets do not match")


def _unescape(quoted: bytes) -> str:
    text = quoted.decode("utf-8", "replace")
    if "\\" in text:
        try:
            return str(json.loads(text, strict=False))
        except ValueError:
            pass  # an escape that JSON does not know: as it stands
    return text[1:-1]


def _strip(view: memoryview) -> memoryview:
    start, end = 0, len(view)
    while start < end and view[start] in b" \t\r\n":
        start += 1
    while end > start and view[end - 1] in b" \t\r\n":
        end -= 1
    return view[start:end]
