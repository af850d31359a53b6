"""F09: characters cut in the middle, characters that look like line breaks, and bytes that are no characters."""

from __future__ import annotations

from informer.testing.faults import End, Wait

from .world import EV, SILENT, L, W, World

WORDS = "日本語 – ünï"
BREAKS = "one\u2028two\u0085three\nfour"
BINARY = (
    b'{"type":"ADDED","object":{"metadata":{"name":"bin","namespace":"team-a","uid":"u2","resourceVersion":"13"},'
    b'"spec":{"tier":"\xff\xfe"}}}\n'
)
NAMELESS = (
    b'{"type":"ADDED","object":{"metadata":{"name":"\xff","namespace":"team-a","resourceVersion":"15"},"spec":{}}}\n'
)


async def test_f09_text_arrives_as_it_was_sent_and_what_is_no_text_is_withheld(world: World) -> None:
    first = EV("ADDED", W("u", "11", "u1", {"tier": WORDS}))
    second = EV("ADDED", W("v", "12", "u1b", {"tier": BREAKS}))
    assert "\u2028".encode() in second
    assert "\u0085".encode() in second
    world.on_list(L("10", []))
    world.on_watch(
        [
            *[first[i : i + 1] for i in range(len(first))],
            second,
            BINARY,
            EV("ADDED", W("good", "14", "u3", {"tier": "q"})),
            b"\n",
            b"\r\n",
            Wait(5),
        ],
        SILENT,
    )
    async with world.follow() as follower:
        await world.until(2)
        assert follower.store == ["good", "u", "v"]
        assert follower.get("u").spec.tier == WORDS
        assert follower.get("v").spec.tier == BREAKS
        assert list(follower.quarantine) == ["team-a/bin"]
        (problem,) = follower.entry("bin").problems
        assert "UTF-8" in problem.reason
        assert follower.calls == ["add u", "add v", "quarantined bin", "add good"]
        assert len(world.log.errors()) == 1
        assert "\ufffd" not in world.log.errors()[0].getMessage()
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=10"]
        await world.until(10)
        assert world.asked()[2:] == ["WATCH rv=14"]
        assert follower.informer.health.state == "live"


async def test_f09_every_single_byte_in_a_packet_of_its_own(world: World) -> None:
    line = EV("ADDED", W("u", "11", "u1", {"tier": WORDS}))
    steps = [step for i in range(len(line)) for step in (line[i : i + 1], Wait(0.01))]
    world.on_list(L("10", []))
    world.on_watch([*steps, End.STALL])
    async with world.follow() as follower:
        await world.until(10)
        assert follower.get("u").spec.tier == WORDS
        assert len(world.server.requests) == 2


async def test_f09_without_a_key_it_is_counted_as_unidentifiable(world: World) -> None:
    world.on_list(L("10", []))
    world.on_watch([NAMELESS, EV("ADDED", W("good", "16"))], SILENT)
    async with world.follow() as follower:
        await world.until(5)
        assert follower.store == ["good"]
        assert not follower.quarantine
        assert len(world.log.errors("unidentifiable event")) == 1
        assert not follower.informer.lister.complete
        assert world.asked() == ["LIST rv=0 limit=500", "WATCH rv=10", "WATCH rv=16"]


async def test_f09_the_same_bytes_in_a_list_harm_only_themselves(world: World) -> None:
    item = BINARY.removeprefix(b'{"type":"ADDED","object":').removesuffix(b"}\n")
    body = (
        b'{"kind":"WidgetList","apiVersion":"example.test/v1","metadata":{"resourceVersion":"9"},"items":['
        + item
        + b","
        + EV("X", W("good", "1")).removeprefix(b'{"type":"X","object":').removesuffix(b"}\n")
        + b"]}"
    )
    world.on_list(body)
    async with world.follow() as follower:
        assert follower.store == ["good"]
        assert list(follower.quarantine) == ["team-a/bin"]


async def test_f09_bytes_that_are_no_text_are_found_where_no_decoder_looks(world: World) -> None:
    world.on_list(L("10", []))
    world.on_watch([BINARY, End.STALL])
    async with world.follow(decode=None) as follower:
        await world.until(1)
        assert follower.store == []
        assert list(follower.quarantine) == ["team-a/bin"]
        assert follower.calls == ["quarantined bin"]
