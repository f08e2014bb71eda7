"""A model with a planted memory of codes and of what rose later: worth much in bright, nothing
where codes or days are hidden.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.stats.factorial_effects import NO_VARIATION
from ktdeval.testing import small_market
from support.paths import SUPPORT
from support.runs.run_support import card_of, ktdeval

PLUGIN = SUPPORT / "masking" / "label_plugin.py"
MASKS = ("bright", "stock_blind", "date_blind", "blinded")
TASKS = tuple(f"{mask}_open_research" for mask in MASKS)
WINDOWS = tuple(f"2023-{month:02d}-06:2023-{month:02d}-12" for month in range(3, 11))
RISEN = 8


def what_rose(market: MarketSnapshot) -> dict[str, list[str]]:
    """By the day of each window's first decision: the members that rise most from the next open to
    the window's last close.
    """
    memory = {}

    for window in WINDOWS:
        start, stop = window_rows(market.days, *window.split(":"))
        gain = (
            market.close[stop - 1]
            * market.factor[stop - 1]
            / (market.open[start] * market.factor[start])
        )
        gain = np.where(
            market.member[start - 1] & np.isfinite(market.close[start - 1]), gain, np.nan
        )
        best = np.argsort(np.nan_to_num(-gain, nan=np.inf))[:RISEN]
        memory[str(market.days[start - 1])] = [market.codes[asset] for asset in best]

    return memory


@pytest.fixture(scope="module")
def runs(desk: Path) -> Path:
    """Four masks of a model that remembers (`memory`) and of the same model without its memory
    (`amnesia`).
    """
    (desk / "memory.json").write_text(json.dumps(what_rose(small_market())))
    words = (
        "--tasks",
        ",".join(TASKS),
        "--data",
        "market",
        "--windows",
        ",".join(WINDOWS),
        "--plugin",
        PLUGIN,
        "--quiet",
    )

    for model in ("memory", "amnesia"):
        done = ktdeval("--model", f"test/{model}", *words, "--out", model, cwd=desk,
                       environment={"LABEL_PLUGIN_MEMORY": "memory.json"})  # fmt: skip
        assert done.code == 0, done

    return desk


def effects(runs: Path, model: str) -> dict[str, Any]:
    done = ktdeval("compare", "masks", model, "--json", cwd=runs)
    assert (done.code, done.err) == (0, "")
    return {row["effect"]: row for row in json.loads(done.out)["effects"]}


def returns(runs: Path, mask: str) -> np.ndarray:
    """Total return of each window of the model that remembers, from the card."""
    episodes = card_of(runs / "memory", f"{mask}_open_research")["episodes"]
    by_window = {
        episode["window"]: episode["metrics"]["total_return"]["value"] for episode in episodes
    }

    return np.array([by_window[window] for window in WINDOWS])


def steps(runs: Path, model: str, mask: str) -> list[Any]:
    """All steps of a model under a mask."""
    folder = RunFolder.load(runs / model)
    specs = [spec for spec in folder.manifest.specs if spec.mask == mask]
    return list(chain.from_iterable(folder.load_ledger(spec).steps for spec in specs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mask", MASKS)
def test_the_memory_is_used_in_bright_and_nowhere_else(mask: str, runs: Path) -> None:
    remembering = steps(runs, "memory", mask)
    without = steps(runs, "amnesia", mask)
    orders = chain.from_iterable(step.orders for step in remembering)
    reasons = {order.reason for order in orders}
    is_shown = mask == "bright"

    assert (reasons == {"remembered to have risen"}) == is_shown
    assert ("remembered to have risen" in reasons) == is_shown
    assert (remembering != without) == is_shown


def test_effects_find_the_premium_with_the_right_test_interval_and_verdict(runs: Path) -> None:
    found = effects(runs, "memory")
    premium = found["memory_premium"]
    truth = returns(runs, "bright") - returns(runs, "blinded")

    assert premium["n"] == len(WINDOWS)

    interval = stats.t.interval(0.95, len(truth) - 1, truth.mean(), stats.sem(truth))
    assert (premium["value"], premium["low"], premium["high"]) == pytest.approx(
        (truth.mean(), *interval), abs=1e-12
    )
    assert premium["p"] == pytest.approx(stats.wilcoxon(truth, method="exact").pvalue)
    # it rose in every window: as small as eight windows allow
    assert premium["p"] == pytest.approx(2 / 2 ** len(WINDOWS))
    assert premium["low"] > 0.01
    assert premium["verdict"] == "above zero"

    line = next(
        line
        for line in ktdeval("compare", "masks", "memory", cwd=runs).out.splitlines()
        if "memory premium (bright" in line
    )

    assert line.rstrip().endswith("above zero")

    # A memory that needs code and day is all interaction: hiding either takes all of it, so each is
    # credited with half.
    worth = premium["value"]
    values = [found[name]["value"] for name in ("interaction", "stock_effect", "date_effect")]

    assert values == pytest.approx([worth, worth / 2, worth / 2])


def test_without_the_memory_or_behind_a_mask_there_is_no_premium(runs: Path) -> None:
    for row in effects(runs, "amnesia").values():
        # equal values have a mean and a test, and no interval
        assert (row["value"], row["low"], row["high"], row["p"], row["verdict"]) == (
            0.0,
            None,
            None,
            1.0,
            "not shown",
        )
        assert row["reason"] == NO_VARIATION

    report = json.loads(ktdeval("compare", "memory", "amnesia", "--json", cwd=runs).out)
    verdicts = {row["task"]: row["verdict"] for row in report["tests"]}

    assert verdicts == {
        f"{mask}_open_research": "test/memory better" if mask == "bright" else "tied"
        for mask in MASKS
    }
