"""The body of a LIST's answer becomes a page of identified items.

To split a list properly takes a pass over all of it, which costs a third of what an object costs and holds the event loop for as
long as a large answer takes. So the items of a list that looks as the API server writes it are cut at what looks like the seams
between them, while they are looked at, and each has to prove itself. Any other list is split by a JSON decoder.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator

from attrs import frozen

from informer import _http, _wire
from informer._identify import Identify
from informer._slices import Slices
from informer.errors import ApiError
from informer.listerwatcher import Items, Page
from informer.objects import KubeObject
from informer.resource import Resource

_log = logging.getLogger("informer.api")

_NAMED = 10
"""How many unidentifiable items of one page get a log line each."""
_ITEMS = b'"items":['
# How far into the answer its items begin: behind its kind, its version and its `continue` token.
_HEAD_BYTES = 16 << 10
# An item up to its metadata. In a custom resource kind and version stand first, and tell it from an entry of managedFields.
_OPENING = re.compile(rb'\{(?:"(?:apiVersion|kind)":"[^"\\]*",)*"metadata":\{')


@frozen
class Guess:
    """A list whose items nobody has read.

    Attributes:
        head: the list with no items.
        pieces: what should be its items, cut out one by one. If each turns out to be one JSON text, then they are the items,
            since they and the commas between them are all that stands in the list. If one does not, the guess was wrong.
    """

    head: _wire.ListBody
    pieces: Iterator[bytes]


def guess(body: bytearray) -> Guess | None:
    """The list in a body that looks as the API server writes it; None for any other."""
    start = body.find(_ITEMS, 0, _HEAD_BYTES)
    end = len(body)
    while end and body[end - 1] in b"\r\n ":
        end -= 1
    if start < 0 or not body.endswith(b"]}", start, end):
        return None
    start += len(_ITEMS)
    opening = _OPENING.match(body, start)
    if opening is None:
        return None
    try:
        head = _wire.split_list(body[:start] + b"]}")
    except _wire.WireError:
        return None
    return Guess(head, _pieces(body, start, end - 2, b"}," + opening[0]))


def _pieces(body: bytearray, start: int, end: int, seam: bytes) -> Iterator[bytes]:
    with memoryview(body) as view:
        while (found := body.find(seam, start, end)) >= 0:
            yield bytes(view[start : found + 1])
            start = found + 2
        yield bytes(view[start:end])


async def read_page(body: bytearray, identify: Identify) -> Page[KubeObject]:
    """The page in these bytes, in slices of a few milliseconds.

    Raises:
        ApiError: it is no list.
    """
    slices = Slices()
    if (guessed := guess(body)) is not None:
        require_list(guessed.head, body, identify.resource)
        if (page := await _identified(guessed.head, guessed.pieces, identify, slices, sure=False)) is not None:
            return page
    try:
        found = _wire.split_list(body)
    except _wire.WireError as error:
        raise ApiError(f"list {identify.resource}: {error}", reason="UnreadableAnswer") from None
    require_list(found, body, identify.resource)
    page = await _identified(found, map(bytes, found.items or ()), identify, slices, sure=True)
    assert page is not None
    return page


def require_list(page: _wire.ListBody, body: bytearray, resource: Resource) -> None:
    """Refuse any other answer that came with a 200.

    Raises:
        ApiError: what it is instead; a Status as what it says.
    """
    if page.kind == "Status":
        answer = bytes(body[: _http.ERROR_BYTES])
        raise _http.status_error(f"list {resource}", 200, answer, {}, sensitive=resource.sensitive)
    table = page.kind == "Table" and page.api_version.startswith("meta.k8s.io/")
    if table or (page.items is None and not page.kind.endswith("List")):
        what = f"a {page.kind:.100}" if page.kind else "an object without a kind"
        raise ApiError(
            f"list {resource}: expected a list, got {what}{'' if table else ' without items'}",
            reason="UnreadableAnswer",
        )


async def _identified(
    page: _wire.ListBody, texts: Iterable[bytes], identify: Identify, slices: Slices, *, sure: bool
) -> Page[KubeObject] | None:
    """The page with these items; None when one that is not `sure` is no JSON text."""
    items: Items[KubeObject] = []
    unidentifiable: list[int] = []
    for number, raw in enumerate(texts):
        if slices.due():
            await slices.breathe()
        found = identify.sound(raw)
        if found is not None:
            items.append(found)
            continue
        if not sure and _wire.json_problem(raw):
            return None
        doubtful = identify(raw)
        if doubtful is None:
            unidentifiable.append(number)
        else:
            items.append(doubtful)
    for number in unidentifiable[:_NAMED]:
        _log.error("%s: unidentifiable item at index %d: it has no usable key", identify.resource, number)
    if len(unidentifiable) > _NAMED:
        more = len(unidentifiable) - _NAMED
        _log.error("%s: %d more items of this page have no usable key", identify.resource, more)
    return Page(items, page.resource_version, page.continue_token, len(unidentifiable))
