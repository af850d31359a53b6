from __future__ import annotations

import pytest

from informer import checks
from informer.degraded import DegradedListerWatcher, ScanReport, scan
from informer.errors import ApiError
from informer.listerwatcher import Page
from informer.testing import FakeListerWatcher
from tests.degraded.support import WIDGETS, Scripted, bad, widget

CHECKS = [checks.duration("spec.drainTimeout")]
EXPIRED = ApiError("too old", status=410, reason="Expired")


async def test_scan_judges_every_page_and_says_nothing(caplog):
    source = Scripted(Page([widget("a"), bad("b")], "1", "t1", 1), Page([bad("c")], "1", "", 2))
    report = await scan(source, checks=iter(CHECKS))
    assert (report.checked, [entry.key for entry in report.bad], report.unidentifiable) == (
        3,
        ["team-a/b", "team-a/c"],
        3,
    )
    assert report.bad[0].fix_commands()
    assert report.bad[0].to_dict()["spec"] == {"drainTimeout": "1"}
    assert not caplog.records


async def test_scan_with_a_decoder():
    report = await scan(Scripted([widget("a", spec={"n": 1}), widget("b")]), decode=lambda obj: obj["spec"]["n"])
    assert [entry.key for entry in report.bad] == ["team-a/b"]


async def test_empty_collection():
    assert await scan(Scripted([])) == ScanReport(0, (), 0)


async def test_expired_token_begins_anew_and_counts_nothing_twice():
    source = Scripted(
        Page([bad("gone")], "1", "t1"), EXPIRED, Page([bad("b")], "2", "t1"), EXPIRED, [bad("b"), widget("c")]
    )
    report = await scan(source, checks=CHECKS)
    assert (report.checked, [entry.key for entry in report.bad]) == (2, ["team-a/b"])
    assert [(call.limit, call.continue_token) for call in source.calls] == [
        (500, ""),
        (500, "t1"),
        (500, ""),
        (500, "t1"),
        (None, ""),
    ]


@pytest.mark.parametrize("error", [ApiError("no", status=403), OSError("reset")])
async def test_trouble_of_the_server_is_raised(error):
    with pytest.raises(type(error)):
        await scan(Scripted(error), checks=CHECKS)


async def test_expired_without_pages_is_raised():
    with pytest.raises(ApiError, match="410"):
        await scan(Scripted(EXPIRED, EXPIRED, EXPIRED), checks=CHECKS)


async def test_degraded_source_is_refused():
    with pytest.raises(TypeError, match="give one of them more checks"):
        await scan(DegradedListerWatcher(Scripted([]), checks=CHECKS), checks=CHECKS)


async def test_scan_of_many_pages():
    fake = FakeListerWatcher(WIDGETS)
    for n in range(1100):
        fake.create(f"w{n}", {"drainTimeout": "1" if n % 100 == 0 else "1m"})
    report = await scan(fake, checks=CHECKS)
    assert (report.checked, len(report.bad), fake.count("list")) == (1100, 11, 3)
