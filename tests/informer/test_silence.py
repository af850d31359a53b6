"""`informer._silence`: how long a watch may stay silent, and how to get out of it."""

from __future__ import annotations

import asyncio

import pytest

from informer._silence import Silence


async def _live(bookmarks: list[float], events: list[float] = (), *, until: float = 2000.0) -> tuple[float, Silence]:  # type: ignore[assignment]
    """Live through bookmarks and events at these times; returns when it ended, and how."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    news = sorted([(time, "bookmark") for time in bookmarks] + [(time, "event") for time in events])
    async with Silence() as silence:
        for time, what in news:
            await asyncio.sleep(begin + time - loop.time())
            silence.last_heard = asyncio.get_running_loop().time()
            if what == "bookmark":
                silence.bookmark()
        await asyncio.sleep(begin + until - loop.time())
    return loop.time() - begin, silence


@pytest.mark.parametrize(
    ("bookmarks", "events", "ends"),
    [
        ([], [], None),
        ([60, 120], [], None),  # two are no pace
        ([60, 120, 180], [], 390),  # three and a half paces after the last
        ([60, 120, 180, 240, 300], [], 510),
        ([60, 120, 180], [200], 410),  # anything heard counts
        ([60, 120, 180], [389], 599),
        ([60, 125, 180], [], 180 + 3.5 * 65),  # about steady
        ([60, 120, 400], [], None),  # not steady
        ([60, 400, 460, 520], [], 730),  # steady later
        ([60, 60.2, 60.4], [], None),  # a burst is no pace
        ([60, 120, 180, 240, 440], [], 650),  # what was learnt is kept
    ],
)
async def test_pace(bookmarks: list[float], events: list[float], ends: float | None) -> None:
    """When three bookmarks came at a steady pace, missing three should end it; otherwise any silence is allowed."""
    lived, silence = await _live(bookmarks, events)
    assert lived == pytest.approx(2000 if ends is None else ends)
    assert silence.expired == (ends is not None)
    assert not silence.interrupted


async def test_late_bookmarks_do_not_end_it() -> None:
    """When two bookmarks are missing and the third comes, it should go on."""
    lived, silence = await _live([60, 120, 180, 360, 540, 700], until=800)
    assert lived == pytest.approx(800)
    assert not silence.expired


async def test_allow() -> None:
    """When a limit is set from outside, silence should be measured from what was heard last, and None should lift it."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with Silence() as silence:
        silence.allow(60)
        await asyncio.sleep(50)
        silence.last_heard = asyncio.get_running_loop().time()
        await asyncio.sleep(500)
    assert loop.time() - begin == 110
    assert (silence.expired, silence.limit) == (True, 60)
    async with Silence() as silence:
        silence.allow(60)
        silence.allow(None)
        await asyncio.sleep(500)
    assert not silence.expired


async def test_interrupt() -> None:
    """When it is interrupted, the body should end at once, as often as it is asked for."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with Silence() as silence:
        loop.call_later(5, silence.interrupt)
        loop.call_later(5, silence.interrupt)
        await asyncio.sleep(500)
    assert loop.time() - begin == 5
    assert (silence.interrupted, silence.expired) == (True, False)


async def test_errors_pass() -> None:
    """When the body raises, it should come out as it is, a TimeoutError of its own included."""
    for error in (ValueError("x"), TimeoutError("mine")):
        with pytest.raises(type(error), match=str(error)):
            async with Silence() as silence:
                silence.allow(10)
                raise error


async def test_cancellation_passes() -> None:
    """When the task is cancelled from outside, even in the moment of an interrupt, it should stay cancelled."""

    async def body(silences: list[Silence]) -> None:
        async with Silence() as silence:
            silences.append(silence)
            await asyncio.sleep(500)

    for interrupt in (False, True):
        silences: list[Silence] = []
        task = asyncio.create_task(body(silences))
        await asyncio.sleep(1)
        if interrupt:
            silences[0].interrupt()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_no_timer_is_left() -> None:
    """When the body has ended, nothing should happen any more."""
    async with Silence() as silence:
        silence.allow(10)
    await asyncio.sleep(100)
    assert not silence.expired
