from __future__ import annotations

import gc

import pytest

from informer import Added, Change, KubeObject, Quarantined, Removed, Updated

from .kit import bad, obj

OLD, NEW = obj("a", 1), obj("a", 2)
CHANGES: list[Change[KubeObject]] = [
    Added(NEW, True),
    Updated(OLD, NEW, False),
    Removed(OLD, False),
    Quarantined(OLD, bad(obj("a", 3)).entry),
]


@pytest.mark.parametrize("change", CHANGES[:3], ids=lambda change: type(change).__name__)
def test_the_collector_does_not_see_what_cannot_be_in_a_cycle(change: Change[KubeObject]):
    """When a relist makes tens of thousands of changes of KubeObjects, the cyclic collector should not count them."""
    assert not gc.is_tracked(change)


def test_the_collector_sees_what_may_be_in_a_cycle():
    """When a decoded object refers to its change, and nobody to either, the collector should free both."""

    class Decoded:
        change: object

    value = Decoded()
    value.change = Added(value, True)
    assert gc.is_tracked(value.change)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_is_a_value(change: Change[KubeObject]):
    """When a change is looked at, it should show its fields, match by position, and equal one with the same; not change."""
    match change:
        case Added(new, initial):
            assert (new, initial) == (NEW, True)
        case Updated(old, new, resync):
            assert (old, new, resync) == (OLD, NEW, False)
        case Removed(last, unknown):
            assert (last, unknown) == (OLD, False)
        case Quarantined(before, entry):
            assert (before, entry.key) == (OLD, "ns/a")
    fields = [getattr(change, name) for name in type(change).__match_args__]
    assert change == type(change)(*fields)
    assert repr(change).startswith(f"{type(change).__name__}({type(change).__match_args__[0]}=")
    with pytest.raises(AttributeError):
        setattr(change, type(change).__match_args__[0], None)
