"""Every task over every window: as many steps as the market has sessions, and cards that validate and verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accept_runs import MASKS, MODES, card, evaluate, ledgers, synthetic, verify
from ktdeval.market.calendar import window_rows

STEPS = {"W1": 43, "W2": 43, "W3": 43, "W4": 43, "W5": 40, "W6": 44, "W7": 46, "W8": 50, "W9": 50, "W10": 43}


@pytest.mark.parametrize("mode", MODES)
def test_all_windows_run_and_verify(mode: str, tmp_path: Path) -> None:
    market = synthetic()
    for mask in MASKS:
        task = f"{mask}_{mode}"
        folder = evaluate(tmp_path / mask, "builtin/momentum", [task], "--windows", "W*")
        found = {}
        for spec, ledger in ledgers(folder):
            found[spec.window.name] = len(ledger.steps)
            days = market.days[(market.days >= np.datetime64(spec.window.first)) & (market.days <= np.datetime64(spec.window.last))]
            assert [step.filled_on for step in ledger.steps] == [str(day) for day in days]
            orders = sum(len(step.orders) for step in ledger.steps)
            assert (orders == 0) == (mode == "memory_only"), "a model that needs data holds where there is none"
            assert {step.provenance for step in ledger.steps} == {"model"}
        assert found == STEPS
        made = card(folder, task)
        assert {window["name"]: window["days"] for window in made["windows"]} == found
        assert made["coverage"]["episodes_finished"] == made["coverage"]["episodes_planned"] == len(STEPS)
        assert "limited" not in made["labels"]
        assert "synthetic" in made["labels"]
        verify(folder.path)


def test_the_default_window_is_the_long_one(tmp_path: Path) -> None:
    """Whole runs of it: tests/accept/test_accept_numbers.py."""
    folder = evaluate(tmp_path / "run", "builtin/momentum", ["blinded_open_research"], "--limit", "2")
    ((spec, _),) = ledgers(folder)
    start, stop = window_rows(synthetic().days, spec.window.first, spec.window.last)
    assert (spec.window.name, stop - start) == ("long", 548)
    verify(folder.path)
