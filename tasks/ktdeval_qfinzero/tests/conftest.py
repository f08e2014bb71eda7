"""The tiny dataset in a folder: one that nobody may change, and one for each test to change or
break.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.qfinzero.qfinzero_store_play import save_tiny


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "dataset"
    save_tiny(folder)
    return folder


@pytest.fixture
def tiny(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "dataset")
