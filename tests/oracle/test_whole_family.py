"""The commands that the README and the start pages name for comparisons, on the whole family of
KTD-Fin: all masks and modes of one run. Their figures are computed again from the cards.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.testing import Terminal

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("open_research", "fixed_candidate", "memory_only")
WINDOWS = ("W1", "W2")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has seen the market before, for some days of two windows, in all twelve
    tasks.
    """
    folder = tmp_path_factory.mktemp("family") / "run"
    words = f"run --model builtin/memory --tasks ktdfin --windows {','.join(WINDOWS)} --limit 5"
    assert main([*words.split(), "--quiet", "--out", str(folder)]) == 0

    return folder


def returns(run: Path) -> dict[tuple[str, str], list[float]]:
    """The total return of each window by mask and mode, from the cards alone."""
    found = {}
    for mask, mode in product(MASKS, MODES):
        card = json.loads((run / "cards" / f"{mask}_{mode}.json").read_text(encoding="utf-8"))
        by_window = {one["window"]: one["metrics"]["total_return"] for one in card["episodes"]}
        found[mask, mode] = [value_of(by_window[window]) for window in WINDOWS]

    return found


def value_of(entry: Any) -> float:
    return float(entry["value"] if isinstance(entry, dict) else entry)


def test_compare_masks_reports_effects_of_all_modes(run: Path, terminal: Terminal) -> None:
    report = terminal.report("compare", "masks", run)
    by_variant = returns(run)

    premiums = {row["mode"]: row for row in report["effects"] if row["effect"] == "memory_premium"}
    assert set(premiums) == set(MODES)
    for mode, row in premiums.items():
        pairs = zip(by_variant["bright", mode], by_variant["blinded", mode], strict=True)
        assert row["value"] == pytest.approx(mean(one - other for one, other in pairs), abs=1e-12)
        assert row["n"] == len(WINDOWS)


def test_compare_masks_adds_the_modes_of_each_mask_up(run: Path, terminal: Terminal) -> None:
    report = terminal.report("compare", "masks", run)
    by_variant = returns(run)

    for mask in MASKS:
        rows = {row["piece"]: row["value"] for row in report["ladder"] if row["over"] == mask}
        first, middle, last = (mean(by_variant[mask, mode]) for mode in reversed(MODES))
        assert rows["data"] == pytest.approx(middle - first, abs=1e-12)
        assert rows["tools"] == pytest.approx(last - middle, abs=1e-12)
        assert rows["total"] == pytest.approx(last - first, abs=1e-12)


def test_the_papers_main_table_has_both_windows_of_each_mask_and_mode(
    run: Path, terminal: Terminal
) -> None:
    lines = terminal.out("paper", "table", run, "--like", "ktdfin-3").splitlines()
    by_variant = returns(run)

    for mode in MODES:
        (line,) = [line for line in lines if f" {mode} " in line]
        cells = [" ".join(cell.split()) for cell in line.split("  ") if "," in cell]
        shown = [
            [round(100 * value, 2) + 0.0 for value in by_variant[mask, mode]] for mask in MASKS
        ]
        assert cells == [f"{first:+.2f}, {second:+.2f}" for first, second in shown]


def test_the_report_draws_effects_of_all_modes(
    run: Path, terminal: Terminal, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    terminal.out("view", "report", run, "--out", page)
    text = page.read_text(encoding="utf-8")

    for mode in MODES:
        assert f"memory premium · {mode}" in text

    for mask in MASKS:
        assert f"tools · {mask}" in text
    assert "are not compared" not in text


def test_cohorts_test_declines_of_all_modes(run: Path, terminal: Terminal) -> None:
    report = terminal.report("compare", "cohorts", run)
    assert {row["mode"] for row in report["declines"]} == set(MODES)


def test_one_task_is_compared_at_a_time(run: Path, terminal: Terminal) -> None:
    assert "`ktdeval compare masks` compares masks and modes" in terminal.error("compare", run)
