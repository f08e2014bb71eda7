"""What tests of every folder may ask for."""

from __future__ import annotations

import pytest

from terminal import Terminal


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Commands, called in this process."""
    return Terminal(capsys)
