"""What reading a card may cost: no library of figures that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"pandas", "scipy", "pyarrow", "statsmodels"}
LIST_IMPORTED = "import sys; print(*sys.modules)"


@pytest.mark.parametrize("module", ["ktdeval.cards.card", "ktdeval.cards.check"])
def test_reading_and_checking_a_card_import_no_heavy_library(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}; {LIST_IMPORTED}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert module in imported
    assert not HEAVY & imported


def test_the_public_names_of_cards_import_no_heavy_library() -> None:
    script = "import ktdeval.cards as cards\nfor name in cards.__all__: getattr(cards, name)\n"
    done = subprocess.run(
        [sys.executable, "-c", script + LIST_IMPORTED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert "ktdeval.cards.check" in imported
    assert not HEAVY & imported
