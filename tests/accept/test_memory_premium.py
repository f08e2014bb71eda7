"""A model with a planted memory of codes and of what rose later: worth much in bright, nothing where codes or days are hidden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ktdeval.market.calendar import window_rows
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.runner.store import RunFolder
from ktdfin_market import small_market
from paths import SUPPORT
from run_support import card_of, ktdeval, store_market

PLUGIN = SUPPORT / "label_plugin.py"
MASKS = ("bright", "stock_blind", "date_blind", "blinded")
TASKS = tuple(f"{mask}_open_research" for mask in MASKS)
WINDOWS = tuple(f"2023-{month:02d}-06:2023-{month:02d}-12" for month in range(3, 11))
RISEN = 8


def what_rose(market: MarketSnapshot) -> dict[str, list[str]]:
    """By the day of each window's first decision: the members that rise most from the next open to the window's last close."""
    memory = {}
    for window in WINDOWS:
        start, stop = window_rows(market.days, *window.split(":"))
        gain = market.close[stop - 1] * market.factor[stop - 1] / (market.open[start] * market.factor[start])
        gain = np.where(market.member[start - 1] & np.isfinite(market.close[start - 1]), gain, np.nan)
        best = np.argsort(np.nan_to_num(-gain, nan=np.inf))[:RISEN]
        memory[str(market.days[start - 1])] = [market.codes[asset] for asset in best]
    return memory


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four masks of a model that remembers (`memory`) and of the same model without its memory (`amnesia`)."""
    session = tmp_path_factory.mktemp("premium")
    store_market(session / "market")
    (session / "memory.json").write_text(json.dumps(what_rose(small_market())))
    words = ("--tasks", ",".join(TASKS), "--data", "market", "--windows", ",".join(WINDOWS), "--plugin", PLUGIN, "--quiet")
    for model in ("memory", "amnesia"):
        done = ktdeval("--model", f"test/{model}", *words, "--out", model, cwd=session,
                       environment={"LABEL_PLUGIN_MEMORY": "memory.json"})  # fmt: skip
        assert done.code == 0, done
    return session


def effects(runs: Path, *words: str) -> dict[str, Any]:
    done = ktdeval("effects", *words, "--json", cwd=runs)
    assert (done.code, done.err) == (0, "")
    return {row["effect"]: row for row in json.loads(done.out)["effects"]}


def returns(runs: Path, model: str, mask: str) -> np.ndarray:
    """Total return of each window, from the card."""
    episodes = card_of(runs / model, f"{mask}_open_research")["episodes"]
    by_window = {episode["window"]: episode["metrics"]["total_return"]["value"] for episode in episodes}
    return np.array([by_window[window] for window in WINDOWS])


def steps(runs: Path, model: str, mask: str) -> list[Any]:
    """All steps of a model under a mask."""
    folder = RunFolder.load(runs / model)
    return [folder.load_ledger(spec).steps for spec in folder.manifest.specs if spec.mask == mask]


def reasons(runs: Path, model: str, mask: str) -> set[str]:
    return {order.reason for episode in steps(runs, model, mask) for step in episode for order in step.orders}


def test_the_memory_is_used_in_bright_and_nowhere_else(runs: Path) -> None:
    remembered = "remembered to have risen"
    assert reasons(runs, "memory", "bright") == {remembered}
    for mask in ("stock_blind", "date_blind", "blinded"):
        assert remembered not in reasons(runs, "memory", mask)
        assert steps(runs, "memory", mask) == steps(runs, "amnesia", mask), mask
    assert steps(runs, "memory", "bright") != steps(runs, "amnesia", "bright")


def test_effects_find_the_premium_with_the_right_test_interval_and_verdict(runs: Path) -> None:
    found = effects(runs, "memory")
    premium = found["memory_premium"]
    truth = returns(runs, "memory", "bright") - returns(runs, "memory", "blinded")
    assert premium["n"] == len(WINDOWS)
    assert premium["value"] == pytest.approx(truth.mean(), abs=1e-12)
    interval = stats.t.interval(0.95, len(truth) - 1, truth.mean(), stats.sem(truth))
    assert (premium["low"], premium["high"]) == pytest.approx(interval, abs=1e-12)
    assert premium["p"] == pytest.approx(stats.wilcoxon(truth, method="exact").pvalue)
    assert premium["p"] == pytest.approx(2 / 2 ** len(WINDOWS))  # it rose in every window: as small as eight windows allow
    assert premium["low"] > 0.01
    assert premium["verdict"] == "above zero"


def test_a_memory_that_needs_code_and_day_is_all_interaction(runs: Path) -> None:
    """Hiding either takes all of it, so each is credited with half, and what they are worth together is the whole."""
    found = {name: row["value"] for name, row in effects(runs, "memory").items()}
    assert found["interaction"] == pytest.approx(found["memory_premium"])
    assert found["stock_effect"] == pytest.approx(found["memory_premium"] / 2)
    assert found["date_effect"] == pytest.approx(found["memory_premium"] / 2)


def test_without_the_memory_there_is_no_premium(runs: Path) -> None:
    for row in effects(runs, "amnesia").values():
        assert (row["value"], row["low"], row["high"], row["p"], row["verdict"]) == (0.0, 0.0, 0.0, 1.0, "not shown")


def test_the_memory_is_worth_nothing_against_its_twin_when_blinded(runs: Path) -> None:
    """`compare` under one mask: better in bright, tied in blinded."""
    report = json.loads(ktdeval("compare", "memory", "amnesia", "--json", cwd=runs).out)
    verdicts = {row["task"]: row["verdict"] for row in report["tests"]}
    assert verdicts == {f"{mask}_open_research": "test/memory better" if mask == "bright" else "tied" for mask in MASKS}


def test_the_table_says_it_in_words(runs: Path) -> None:
    line = next(line for line in ktdeval("effects", "memory", cwd=runs).out.splitlines() if "memory premium (bright" in line)
    assert line.rstrip().endswith("above zero")
