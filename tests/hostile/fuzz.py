"""Coverage-guided fuzzing of everything that reads bytes: `nox -s fuzz -- -max_total_time=600`; no part of the ordinary tests.

atheris is Google's libFuzzer for Python; it is a wheel for Linux and some Pythons only, hence a session of its own.
"""

from __future__ import annotations

import logging
import sys

import atheris

with atheris.instrument_imports(include=["informer"]):
    from informer import _scan, _wire
    from informer.api import ApiListerWatcher
    from informer.errors import ApiError
    from informer.fixes import pointer
    from informer.listerwatcher import ListOptions, WatchOptions
    from informer.problems import excerpt

from informer.testing.virtual import VirtualTimeLoop
from tests.hostile.bytes import WIDGETS, Client

LOOP = VirtualTimeLoop()


async def _list(body: bytes) -> None:
    for one in (await ApiListerWatcher(Client(body), WIDGETS).list(ListOptions())).items:
        assert one.key


async def _watch(body: bytes) -> None:
    async with ApiListerWatcher(Client(body), WIDGETS).watch(WatchOptions(resource_version="1")) as events:
        async for _ in events:
            pass


async def _refusal(body: bytes) -> None:
    await ApiListerWatcher(Client(body, status=500), WIDGETS).list(ListOptions())


def _splits(body: bytes) -> None:
    """What msgspec splits, the bracket scanner must split in the same way: it takes over where msgspec refuses."""
    try:
        page = _wire._list(body)
    except _wire.DECODE_ERRORS:
        return
    if isinstance(page.items, list):
        try:
            body.decode()
            found = _scan.members(body)
            assert [bytes(one) for one in _scan.elements(found["items"])] == [bytes(one) for one in page.items]
        except UnicodeDecodeError:
            pass


def one_input(data: bytes) -> None:
    """The first byte says who reads the others."""
    if not data:
        return
    kind, body = data[0] % 5, data[1:]
    if kind == 4:
        text = body.decode("utf-8", "surrogateescape")
        assert excerpt(text).isprintable()
        assert excerpt(text).isascii()
        pointer([text])
        return
    if kind == 3:
        _splits(body)
        return
    try:
        LOOP.run_until_complete((_list, _watch, _refusal)[kind](body))
    except ApiError as error:
        text = str(error)
        assert text.isprintable(), text
        assert len(text) < 1300, text


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
