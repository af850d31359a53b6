from __future__ import annotations

import asyncio

from informer._slices import Slices


async def test_looks_at_the_clock_only_now_and_then():
    """When `every` is 4, it should ask the clock at every fourth item."""
    looks: list[float] = []

    def clock() -> float:
        looks.append(0.0)
        return 0.0

    slices = Slices(every=4, clock=clock)
    await slices.breathe()
    looks.clear()
    assert not any(slices.due() for _ in range(40))
    assert len(looks) == 10


async def test_is_due_once_the_time_is_used_up_and_begins_anew_after_a_breath():
    """When the seconds of a slice have passed, it should be due, and after a breath have as many again."""
    now = [0.0]
    slices = Slices(0.004, every=2, clock=lambda: now[0])
    await slices.breathe()
    now[0] = 0.003
    assert [slices.due(), slices.due()] == [False, False]
    now[0] = 0.004
    assert [slices.due(), slices.due()] == [False, True]
    others: list[int] = []
    asyncio.get_running_loop().call_soon(others.append, 1)
    await slices.breathe()
    assert others == [1]
    assert [slices.due(), slices.due()] == [False, False]
    now[0] = 0.008
    assert [slices.due(), slices.due()] == [False, True]


def test_first_slice_is_used_up_at_its_first_look():
    """When one piece of sliced work follows another in the same turn, the two should not add up to twice the time."""
    slices = Slices(0.004, every=2, clock=lambda: 5.0)
    assert [slices.due(), slices.due()] == [False, True]


async def test_shares_its_time_with_others_who_work_on_the_same_loop():
    lengths: list[float] = []

    async def work() -> None:
        now = [0.0]
        slices = Slices(0.004, every=1, clock=lambda: now[0])
        for _ in range(3):
            await slices.breathe()
        while not slices.due():
            now[0] += 0.0001
        lengths.append(now[0])
        await slices.breathe()

    await work()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(work())
    alone, *together = lengths
    assert alone >= 0.0039
    assert together[0] <= 0.0011
