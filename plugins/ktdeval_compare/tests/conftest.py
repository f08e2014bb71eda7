"""Terminal fixture for the tests of commands on several cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.figures.compare_cards import CardTerminal


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CardTerminal:
    return CardTerminal(tmp_path, capsys)
