"""The startup look by itself: which objects would be withheld, for a preflight or a CI job."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import frozen

from informer.degraded.checks import Check
from informer.degraded.quarantine import Quarantine
from informer.degraded.wrapper import DegradedListerWatcher
from informer.errors import ApiError
from informer.listerwatcher import ListerWatcher, ListOptions
from informer.objects import KubeObject
from informer.problems import QuarantinedObject

# In pages; once more when a page has expired; then without pages, since compaction may be faster than the pages are.
_LIMITS = (500, 500, None)


@frozen
class ScanReport:
    """What a scan has found.

    Attributes:
        checked: how many objects were judged, bad ones included.
        bad: the bad ones, with what is wrong and the commands that help.
        unidentifiable: how many items had no usable key.
    """

    checked: int
    bad: tuple[QuarantinedObject, ...]
    unidentifiable: int


class _Silent(Quarantine):
    """The report is the result; whoever scans decides how loud it is."""

    def speak(self) -> None:
        """Say nothing."""


async def scan(
    source: ListerWatcher[KubeObject],
    *,
    checks: Iterable[Check] = (),
    decode: Callable[[KubeObject], object] | None = None,
) -> ScanReport:
    """List once, judge everything, change nothing, log nothing. The pages are of one moment: a LIST whose token expires
    in the middle is begun anew. O(objects).

    Raises:
        TypeError: the source is degraded already, or a coroutine function.
        ApiError, OSError, TimeoutError, aiohttp.ClientError: from the source.
    """
    judges = tuple(checks)
    for limit in _LIMITS:
        quarantine = _Silent()
        judged = _judge(source, judges, decode, quarantine)
        try:
            checked, unidentifiable = await _count(judged, limit)
        except ApiError as error:
            if not error.expired or limit is None:
                raise
        else:
            return ScanReport(checked, tuple(quarantine.values()), unidentifiable)
    raise AssertionError("the last limit either returns or raises")


def _judge(
    source: ListerWatcher[KubeObject],
    checks: Iterable[Check],
    decode: Callable[[KubeObject], object] | None,
    quarantine: Quarantine,
) -> ListerWatcher[object]:
    if decode is None:
        return DegradedListerWatcher(source, checks=checks, quarantine=quarantine)
    return DegradedListerWatcher(source, decode=decode, checks=checks, quarantine=quarantine)


async def _count(source: ListerWatcher[object], limit: int | None) -> tuple[int, int]:
    checked, unidentifiable, token = 0, 0, ""
    while True:
        page = await source.list(ListOptions(limit=limit, continue_token=token))
        checked += len(page.items)
        unidentifiable += page.unidentifiable
        token = page.continue_token
        if not token:
            return checked, unidentifiable
