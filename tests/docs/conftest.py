from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where `load_config` looks. It read KUBECONFIG when it was imported."""
    file = tmp_path / "kubeconfig"
    for module in (config, config.kube_config):
        monkeypatch.setattr(module, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    yield file
    Configuration.set_default(None)
