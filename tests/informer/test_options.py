from __future__ import annotations

import pytest

from informer import InformerOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_list": "watch"}, "'watch'.*'list', 'stream' or 'auto'"),
        ({"resync_period": 0}, "resync_period is 0.*None for never"),
        ({"resync_period": -1.0}, "resync_period"),
        ({"resync_period": float("nan")}, "resync_period"),
        ({"max_backlog": 0}, "max_backlog is 0.*at least 1"),
    ],
)
def test_refused(options: dict, message: str):
    """When an option makes no sense, it should be refused with its name, its value and what would do."""
    with pytest.raises(ValueError, match=message):
        InformerOptions(**options)


def test_defaults():
    """When nothing is given, it should suit a controller: a paged list, no resync, no metrics."""
    options = InformerOptions()
    assert (options.initial_list, options.resync_period, options.registry) == ("list", None, None)
