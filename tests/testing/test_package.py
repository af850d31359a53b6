from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import informer.testing


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import informer", ["informer.testing", "aiohttp", "kubernetes_asyncio"]),
        ("import informer.testing", ["aiohttp", "kubernetes_asyncio", "informer.testing.server"]),
        ("import informer.testing.virtual", ["aiohttp", "kubernetes_asyncio", "informer.testing.cluster"]),
        ("from informer.testing import FakeListerWatcher", ["kubernetes_asyncio"]),
        ("from informer.testing import FakeApiServer", ["kubernetes_asyncio"]),
    ],
)
def test_imports_are_lean(statement: str, absent: list[str]):
    """When a part is imported, it should not load what only other parts need."""
    code = f"{statement}; import sys; print([name for name in {absent!r} if name in sys.modules])"
    root = Path(informer.testing.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", informer.testing.__all__)
def test_every_name_is_there(name: str):
    """When a public name is asked for, it should be found, and documented unless it is an alias of a type."""
    assert name == "SubresourceHandler" or getattr(informer.testing, name).__doc__
    assert getattr(informer.testing, name) is not None


def test_unknown_names():
    """When a name does not exist, it should be an AttributeError as anywhere."""
    with pytest.raises(AttributeError, match="nope"):
        informer.testing.nope  # noqa: B018  # the access is what is tested
