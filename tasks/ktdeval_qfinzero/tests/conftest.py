"""The tiny dataset in a folder: one that nobody may change, and one for each test to change or
break; and a server.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qfinzero_store_play import save_tiny

if TYPE_CHECKING:
    from support.qfinzero.qfinzero_server import Served


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "dataset"
    save_tiny(folder)
    return folder


@pytest.fixture
def tiny(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "dataset")


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A server of the whole catalogue, or as the module has in `SERVED`."""
    from ktdeval_qfinzero.catalogue import catalogue
    from support.qfinzero.qfinzero_server import serving

    with serving(**{"catalogue": catalogue(), **getattr(request.module, "SERVED", {})}) as server:
        yield server
