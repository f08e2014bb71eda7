"""The help of the top is kept as a file, and every command of before is still reached."""

from __future__ import annotations

import pytest

from support.docs.public_api import HELP, help_text

pytestmark = pytest.mark.slow


def test_the_help_is_that_of_the_snapshot() -> None:
    assert help_text() == HELP.read_text("utf-8"), "renew it by `make public-api`, and look at it"


def test_the_help_fits_one_screen() -> None:
    top, _, _leaves = help_text().partition("Commands that run something:")
    lines = top.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
