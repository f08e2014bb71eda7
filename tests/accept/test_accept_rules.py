"""The rule-based baselines of InvestorBench in whole runs on the twin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.market import MarketSnapshot
from ktdeval.runner.store import RunFolder
from ktdeval_investorbench.params import TwinParams
from ktdeval_investorbench.twin import make_twin
from ktdeval_models.params import rules
from ktdeval_models.technical import RULES, Bars, turn_of_month

SIDES = {"BUY": 1, "SELL": -1, "HOLD": 0}


def decisions(run: Path) -> pd.Series:
    """Side of each day that was decided on, of the one asset."""
    store = RunFolder.load(run)
    (spec,) = store.manifest.specs
    entries = zip(store.load_ledger(spec).steps, store.load_transcript(spec), strict=True)
    said = {step.decided_on: json.loads(entry.submission or "")["decisions"] for step, entry in entries}
    assert {len(items) for items in said.values()} == {1}
    return pd.Series({day: SIDES[items[0]["decision"]] for day, items in said.items()})


@pytest.fixture(scope="module")
def twin() -> MarketSnapshot:
    return make_twin(TwinParams())


@pytest.mark.parametrize("name", RULES)
def test_every_rule_runs_on_the_twin_decides_as_its_function_does_and_verifies(
    name: str, twin: MarketSnapshot, tmp_path: Path
) -> None:
    task = "investorbench_msft_history" + ("_bright" if name == "turn_of_month" else "")
    out = tmp_path / "run"
    (card,) = ktdeval.evaluate(f"builtin/{name}", task, data="synthetic_investorbench", out=str(out), limit=40, quiet=True).cards
    found = decisions(out)
    assert len(found) == card.plain["decisions"]["model"] == card.plain["coverage"]["steps_planned"]
    closes = pd.Series(twin.close[:, twin.asset_index["MSFT"]], index=twin.days.astype(str)).dropna()
    closes = closes.map(lambda price: float(f"{price:.6g}"))  # as shown
    for day, side in found.items():
        shown = closes[:day][-60:].to_numpy()
        if name == "turn_of_month":
            expected = turn_of_month(np.array([day], "M8[D]"), "XNYS", **rules()[name]["numbers"])
        else:
            expected = RULES[name](Bars(shown, shown, shown), **rules()[name]["numbers"])
        assert expected.sides[-1] == side, day
    assert len(set(found)) > 1
    assert main(["card", "verify", str(out / "cards" / f"{task}.json")]) == 0


@pytest.mark.parametrize("task", ["investorbench_portfolio", "investorbench_portfolio_equal"])
def test_equal_weight_says_buy_of_everything_in_a_rebuilt_portfolio(task: str, tmp_path: Path) -> None:
    ktdeval.evaluate("builtin/equal_weight", task, data="synthetic_investorbench", out=str(tmp_path / "run"), limit=40, quiet=True)
    store = RunFolder.load(tmp_path / "run")
    (spec,) = store.manifest.specs
    said = [json.loads(entry.submission or "")["decisions"] for entry in store.load_transcript(spec)]
    assert {len(items) for items in said} == {5}
    assert {item["decision"] for items in said for item in items} == {"BUY"}
    assert main(["card", "verify", str(tmp_path / "run" / "cards" / f"{task}.json")]) == 0
