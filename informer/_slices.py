"""Long work on the event loop in short slices, with everybody else's turn in between.

slices = Slices()
for item in page:
    if slices.due():
        await slices.breathe()
    ...
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from attrs import define, field

# A little under the 5 ms that are promised, since the item that crosses the line is finished first.
_SECONDS = 0.0025


# Who lets others have a turn at this moment, on each loop.
_waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, set[Slices]] = WeakKeyDictionary()


@define(eq=False)
class Slices:
    """Says when a loop over many items has held the event loop long enough.

    This is the one place that measures work and not waiting, so it reads the processor's clock and not the loop's:
    a loop of virtual time stands still while something works.

    Attributes:
        seconds: how long a slice may last.
        every: how many items pass between two looks at the clock.
        clock: monotonic seconds.
    """

    seconds: float = _SECONDS
    every: int = 4
    clock: Callable[[], float] = time.perf_counter
    _left: int = field(init=False)
    _end: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._left = self.every
        self._end = -math.inf  # used up at the first look: what this turn has done before, nobody here knows

    def due(self) -> bool:
        """True when the slice is used up. About 60 ns."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self.every
        return self.clock() >= self._end

    async def breathe(self) -> None:
        """Let everybody else have a turn, then begin a new slice.

        Several who work on one loop share the time: a hundred busy handlers with a slice each would hold it for a second.
        """
        loop = asyncio.get_running_loop()
        waiting = _waiting.setdefault(loop, set())
        waiting.add(self)
        try:
            await asyncio.sleep(0)
        finally:
            waiting.discard(self)
        self._left = self.every
        self._end = self.clock() + self.seconds / (1 + len(waiting))
