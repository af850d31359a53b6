from __future__ import annotations

from typing import Any

import pytest

from informer import InformerFactory, Lister, SharedInformer, _hints
from informer.testing import FakeApiServer, FakeListerWatcher
from tests.informer.kit import WIDGETS


def informer() -> SharedInformer[Any]:
    return SharedInformer(FakeListerWatcher(WIDGETS))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "has_synced",
            r"'SharedInformer' object has no attribute 'has_synced'; use `await informer\.wait_for_sync\(\)`",
        ),
        ("HasSynced", r"use `await informer\.wait_for_sync\(\)`"),
        ("add_event_handler", r"use `informer\.add_handler\(on_add=…\)`"),
        ("run", "use `async with informer:`"),
        ("nonsense", "'SharedInformer' object has no attribute 'nonsense'$"),
    ],
)
def test_names_of_client_go(name: str, hint: str) -> None:
    """When somebody asks for client-go's name of a thing, the error should say what it is called here."""
    with pytest.raises(AttributeError, match=hint):
        getattr(informer(), name)
    assert not hasattr(informer(), name)


def test_names_of_client_go_on_a_lister() -> None:
    """When a lister is read as client-go's, it should be the same."""
    with pytest.raises(AttributeError, match=r"use `lister\.get\(key\)`"):
        informer().lister.get_by_key  # type: ignore[attr-defined]  # noqa: B018 - which is the mistake


async def test_names_of_client_go_on_a_factory() -> None:
    """When a factory is started as client-go's, it should be the same."""
    async with FakeApiServer([WIDGETS]) as server, server.api_client() as api:
        with pytest.raises(AttributeError, match="use `async with factory:`"):
            InformerFactory(api).start()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "table"),
    [(SharedInformer, _hints.INFORMER), (InformerFactory, _hints.FACTORY), (Lister, _hints.LISTER)],
)
def test_hints_are_for_what_is_not_there(kind: type, table: dict[str, str]) -> None:
    """When a name is ours, it should need no hint, and what a hint names should exist."""
    ours = {name.replace("_", "").lower() for name in dir(kind) if not name.startswith("_")}
    assert not ours & table.keys() - {"byindex"}
