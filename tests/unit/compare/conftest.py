"""The terminal of the tests of commands on several cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from compare_cards import Terminal


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path, capsys)
