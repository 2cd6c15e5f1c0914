"""What the engine tests share: a tiny model on disk, and a server that misbehaves when told to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.engines.server import Server
from tests.engines.tiny import save_tiny

os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny") / "tiny-llama", sample_by_default=True)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


NEEDED = ("torch", "transformers", "tokenizers", "safetensors", "aiohttp")
MISSING = [name for name in NEEDED if find_spec(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out, and say so, what the extra `generate` is needed for where it is not installed."""
    for item in items:
        if MISSING and "tests/engines" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=f"the extra `generate` is not installed: {', '.join(MISSING)}"))
