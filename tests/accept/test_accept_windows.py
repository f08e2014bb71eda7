"""Every task over every window: as many steps as the market has sessions, and cards that validate and verify."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accept_runs import MODES, TASKS, card, evaluate, ledgers, synthetic, verify

STEPS = {"W1": 43, "W2": 43, "W3": 43, "W4": 43, "W5": 40, "W6": 44, "W7": 46, "W8": 50, "W9": 50, "W10": 43}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_all_windows_run_and_verify(mode: str, tmp_path: Path) -> None:
    market = synthetic()
    tasks = [task for task in TASKS if task.endswith(mode)]
    folder = evaluate(tmp_path / "run", "builtin/momentum", tasks, "--windows", "W*")
    found: dict[str, dict[str, int]] = {task: {} for task in tasks}
    for spec, ledger in ledgers(folder):
        found[spec.task][spec.window.name] = len(ledger.steps)
        days = market.days[(market.days >= np.datetime64(spec.window.first)) & (market.days <= np.datetime64(spec.window.last))]
        assert [step.filled_on for step in ledger.steps] == [str(day) for day in days]
        orders = sum(len(step.orders) for step in ledger.steps)
        assert (orders == 0) == (mode == "memory_only"), "a model that needs data holds where there is none"
        assert {step.provenance for step in ledger.steps} == {"model"}
    assert found == dict.fromkeys(tasks, STEPS)
    for task in tasks:
        made = card(folder, task)
        assert {window["name"]: window["days"] for window in made["windows"]} == STEPS
        assert made["coverage"]["episodes_finished"] == made["coverage"]["episodes_planned"] == len(STEPS)
        assert "limited" not in made["labels"]
        assert "synthetic" in made["labels"]
    verify(folder.path)


@pytest.mark.slow
def test_the_default_window_is_the_long_one(tmp_path: Path) -> None:
    folder = evaluate(tmp_path / "run", "builtin/momentum", ["blinded_open_research"])
    ((spec, ledger),) = ledgers(folder)
    assert (spec.window.name, len(ledger.steps)) == ("long", 548)
    verify(folder.path)
