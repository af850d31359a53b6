"""`informer.errors`: what the API server's refusals mean."""

from __future__ import annotations

import pytest

from informer import errors
from informer.errors import ApiError

TOO_LARGE = "Too large resource version"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ApiError("no", status=403, reason="Forbidden"), "403 Forbidden: no"),
        (ApiError("no", status=502), "502: no"),
        (ApiError("no", reason="Timeout"), "Timeout: no"),
        (ApiError("no"), "no"),
    ],
)
def test_text(error: ApiError, text: str) -> None:
    """When an error is shown, it should begin with what the server called it."""
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "expired"),
    [
        (ApiError("x", status=410, reason="Expired"), True),
        (ApiError("x", status=410, reason="Gone"), True),
        (ApiError("x", status=410), True),
        (ApiError("x", reason="Expired"), True),
        (ApiError("too old resource version: 1 (2)", status=500), False),
        (ApiError("x", status=404, reason="NotFound"), False),
        (ApiError("x"), False),
    ],
)
def test_expired(error: ApiError, expired: bool) -> None:
    """When a version is too old, its code or its reason should say so, and never the text alone."""
    assert error.expired is expired


@pytest.mark.parametrize(
    ("error", "too_large"),
    [
        # The three wordings since 1.17 (client-go's isTooLargeResourceVersionError).
        (
            ApiError("x", status=504, reason="Timeout", causes=[{"reason": "ResourceVersionTooLarge", "message": "x"}]),
            True,
        ),
        (ApiError("x", status=504, reason="Timeout", causes=[{"message": TOO_LARGE}]), True),
        (ApiError(f"Timeout: {TOO_LARGE}: 9, current: 8", status=504, reason="Timeout"), True),
        # In a stream the code may be missing.
        (ApiError("x", causes=[{"reason": "ResourceVersionTooLarge"}]), True),
        (ApiError("x", causes=[{"reason": "Other"}, {"reason": "ResourceVersionTooLarge"}]), True),
        (ApiError("Timeout", status=504, reason="Timeout"), False),
        (ApiError("<html>504 Gateway Time-out", status=504), False),
        (ApiError("x", status=504, causes=[{"reason": "Other"}]), False),
        (ApiError(f"nodes is forbidden: {TOO_LARGE}", status=403), False),
    ],
)
def test_version_too_large(error: ApiError, too_large: bool) -> None:
    """When a version is ahead of the server, all wordings should be known and a plain 504 should not be taken for it."""
    assert error.version_too_large is too_large


def test_families() -> None:
    """When code catches KeyError, it should catch "absent" and never "unreadable" or "not yet known"."""
    assert issubclass(errors.NotFoundError, KeyError)
    for kind in (errors.QuarantinedError, errors.NotSyncedError, errors.IncompleteError, errors.ApiError):
        assert not issubclass(kind, KeyError)
        assert issubclass(kind, errors.InformerError)
    assert str(errors.NotFoundError("no such thing")) == "no such thing"
