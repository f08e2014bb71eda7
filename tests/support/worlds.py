"""The worlds of tests, each built once.

What a whole session shares is to be read; who changes it asks for the copy of its own.

Any test run imports this module: what builds a world is imported when the world is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktdeval.registry import Plugins, load_plugins

if TYPE_CHECKING:
    from support.providers.stub_provider import Stub


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    """The installed plugins."""
    return load_plugins()


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A provider without faults, of this test alone."""
    from support.providers.stub_provider import running_stub

    with running_stub() as running:
        yield running


# -- markets and folders


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small market, stored: to be read."""
    from support.runs.run_support import store_market

    return store_market(tmp_path_factory.mktemp("data") / "market")


@pytest.fixture
def own_market(market: Path, tmp_path: Path) -> Path:
    """A copy of the small market, to be changed."""
    return Path(shutil.copytree(market, tmp_path / "market"))
