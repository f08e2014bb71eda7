"""What the pages say of informed traders is what `informed_traders.py` wrote, and obeys it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from informed_returns import (
    FORESIGHT,
    HIDDEN,
    REBASED,
    SHOWN,
    Earned,
    Row,
    at_least_and_most,
    best_attacker,
    earned,
    read_rows,
    table,
    write_rows,
)

from ktdeval.registry import load_plugins
from support.paths import REPOSITORY

ROWS = read_rows()
TASKS = (*SHOWN, *HIDDEN, *REBASED)
WINDOWS = [f"W{number}" for number in range(1, 11)]
HEADLINE = "blinded_open_research"
NOTHING = ("builtin/first_listed", "builtin/momentum", "builtin/random")


def page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text(encoding="utf-8")


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_file_has_each_task_and_window() -> None:
    plugins = load_plugins()
    masked = [
        name
        for name in plugins.specs("tasks")
        if re.match(r"(stock_blind|date_blind|blinded)_", name)
        and name.endswith(("_memory_only", "_fixed_candidate", "_open_research", "_paper"))
    ]
    assert sorted(TASKS) == sorted(masked)
    for task in TASKS:
        for trader in {row.trader for row in ROWS if row.task == task}:
            windows = [row.window for row in ROWS if (row.task, row.trader) == (task, trader)]
            assert windows == WINDOWS


@pytest.mark.parametrize("task", TASKS)
def test_no_trader_of_the_file_exceeds_the_bound(task: str) -> None:
    most = {
        row.window: row.return_pct for row in ROWS if (row.task, row.trader) == (task, FORESIGHT)
    }
    compared = 0
    for row in ROWS:
        if row.task == task and row.trader != FORESIGHT:
            assert row.return_pct <= most[row.window]
            compared += 1

    assert compared >= 4 * len(WINDOWS)


def test_a_mean_has_the_interval_of_student() -> None:
    """Of 1, 2, 3: 2 with 4.302653 * 1 / sqrt(3) on each side."""
    found = Earned.of([1.0, 2.0, 3.0])
    assert (found.mean, found.low, found.high) == pytest.approx((2.0, -0.484138, 4.484138))
    assert str(found) == "+2.0 % (−0.5 … +4.5)"
    assert str(Earned(1234.5, -3.0, 2000.0)) == "+1,234 % (−3 … +2,000)"


def test_a_file_of_returns_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [Row("task", "informed, cash", "W1", 7.25, "1 of 1, by step 0", "3 of 4")]
    write_rows(tmp_path / "rows.csv", rows)
    assert read_rows(tmp_path / "rows.csv") == rows


# ---- the pages


def test_the_pages_have_the_tables_of_the_file() -> None:
    assert table(ROWS, SHOWN, ("first_listed", "momentum", "random")) in page("certificate.md")
    assert table(ROWS, REBASED, ("momentum", "random")) in page("certificate.md")
    assert table(ROWS, HIDDEN, ("first_listed", "random")) in page("masks.md")


def test_sentences_of_the_pages_have_the_figures_of_the_file() -> None:
    masks = words(page("masks.md"))
    assert f"`{HEADLINE}`, that earns {at_least_and_most(ROWS, HEADLINE)}" in masks
    windows = "date_blind_memory_only"
    assert best_attacker(ROWS, windows).trader == "informed, windows"
    assert f"In `{windows}`, with codes in sight, that earns" in masks
    assert f"that earns {at_least_and_most(ROWS, windows)}. The attack is `windows`" in masks

    timed = earned(ROWS, "stock_blind_memory_only", "informed, cash")
    assert f"cash on others: {timed}" in masks
    behind = earned(ROWS, "blinded_memory_only", "informed, windows")
    assert f"Behind `blinded` it earns {behind}" in masks

    both = [earned(ROWS, task, best_attacker(ROWS, task).trader) for task in REBASED]
    assert f"its holder earned at least {both[0]} and {both[1]} an episode" in masks
    assert f"perfect foresight earns at most {earned(ROWS, REBASED[0], FORESIGHT)} (" in masks


def test_sentences_of_the_pages_are_true_of_the_file() -> None:
    least = earned(ROWS, HEADLINE, "informed, cash")
    most = earned(ROWS, HEADLINE, FORESIGHT)
    text = words(page("certificate.md"))
    assert f"In the headline task this is {100 * least.mean / most.mean:.0f} % of the bound" in text

    # in blinded_memory_only the best of the attackers earns what chance does
    plain = earned(ROWS, "blinded_memory_only", "builtin/first_listed")
    best = earned(ROWS, "blinded_memory_only", best_attacker(ROWS, "blinded_memory_only").trader)
    assert plain.low <= best.mean <= plain.high

    # everywhere else the attack shows: its interval lies above those of rules that know nothing
    for task in set(TASKS) - {"blinded_memory_only", "stock_blind_memory_only"}:
        found = earned(ROWS, task, best_attacker(ROWS, task).trader)
        assert found.low > max(earned(ROWS, task, rule).high for rule in NOTHING), task


def test_data_cards_say_no_more_than_the_file() -> None:
    """They are part of a task's identity, so a stronger attack leaves them as lower bounds."""
    plugins = load_plugins()
    compared = []
    for task in (*HIDDEN[1:], *REBASED):
        card = plugins.make_task(task).describe()["data_card"]
        said = re.search(r"\+([\d.]+) % a window against", words(card.get("identifiable", "")))
        if said is None:
            continue

        compared.append(task)
        least = earned(ROWS, task, best_attacker(ROWS, task).trader)
        assert float(said[1]) <= least.mean, task

    assert len(compared) == 6
