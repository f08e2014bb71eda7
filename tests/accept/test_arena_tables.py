"""`ktdeval paper table --like ama-1` and `deepfund-3`: rows and cells of real runs, votes included, and
what can't stand in one table.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktdeval
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from support.accept.voting_models import order_model, stance_model
from support.terminal import Terminal

METRICS = ("cumulative_return", "annualised_return", "volatility", "sharpe", "max_drawdown")
NAMES = ("one", "two", "three")


def run(model: Any, out: Path, tasks: str, data: str = "synthetic_arena", **more: Any) -> Path:
    options = {"limit": 15, "rules": "paper", "quiet": True, **more}
    return ktdeval.evaluate(model, tasks, data=data, out=str(out), **options).folder


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of three models on two assets, their vote, Buy & Hold, and one on the first asset
    alone.
    """
    folder = tmp_path_factory.mktemp("arena")
    runs = {}

    for name in NAMES:
        runs[name] = run(stance_model(name), folder / name, "ama_btc,ama_tsla")

    runs["held"] = run("builtin/buy_and_hold", folder / "held", "ama_btc,ama_tsla")
    runs["partly"] = run(stance_model("partly"), folder / "partly", "ama_btc")
    runs["vote"] = folder / "vote"

    assert ktdeval_vote([runs[name] for name in NAMES], runs["vote"]) == 0

    return runs


def ktdeval_vote(runs: Sequence[Path], out: Path) -> int:
    from ktdeval.cli.main import main

    return main(["paper", "vote", *map(str, runs), "--out", str(out)])


def table(terminal: Terminal, name: str, *cards: Path) -> list[dict[str, str]]:
    out = terminal.out("paper", "table", *cards, "--like", name, "--format", "csv")
    return list(csv.DictReader(io.StringIO(out)))


@pytest.mark.exhaustive
def test_rows_are_agents_and_models_with_buy_and_hold_first_and_the_vote_last(
    arena: dict[str, Path], terminal: Terminal
) -> None:
    given = [arena[name] for name in ("vote", "partly", *NAMES, "held")]
    rows = table(terminal, "ama-1", *given)

    assert [(row["Agent"], row["Model"]) for row in rows] == [
        ("Buy & Hold", "-"),
        ("react", "python/partly"),
        ("react", "python/one"),
        ("react", "python/two"),
        ("react", "python/three"),
        ("react", "Vote"),
    ]

    # The paper's order of assets, whatever that of the cards is.
    columns = [f"{asset} ama_{metric}" for asset, metric in product(("TSLA", "BTC"), METRICS)]
    assert list(rows[0])[2:] == columns

    for row, name in zip(rows, ("held", "partly", *NAMES, "vote"), strict=True):
        cards = {card.task.name: card for card in ktdeval.load_run(arena[name]).typed_cards}
        for column in columns:
            asset, metric = column.split()
            task = f"ama_{asset.lower()}"
            if task in cards:
                assert float(row[column]) == cards[task].metrics[metric].value
            else:
                assert row[column] == ""


@pytest.mark.exhaustive
def test_a_cell_without_a_card_is_a_dash_and_differences_from_the_paper_are_printed(
    arena: dict[str, Path], terminal: Terminal
) -> None:
    _, text, _ = terminal.call("paper", "table", arena["partly"], arena["held"], "--like", "ama-1")
    line = next(line for line in text.splitlines() if "python/partly" in line)

    assert line.split()[2:7] == ["-"] * 5
    assert "-" not in line.split()[7:]
    assert "more than half of all voters, else HOLD" in text
    assert "strict" not in text


@pytest.mark.exhaustive
def test_what_can_not_stand_in_one_table_is_refused(
    arena: dict[str, Path], tmp_path: Path, terminal: Terminal
) -> None:
    def refusal(*cards: Path, name: str = "ama-1") -> str:
        code, _, err = terminal.call("paper", "table", *cards, "--like", name)
        assert code == 2
        return err

    again = run(stance_model("one"), tmp_path / "again", "ama_btc")

    assert "are both of react with python/one on BTC" in refusal(arena["one"], again)

    flat = run(stance_model("flat"), tmp_path / "flat", "ama_btc_flat")
    assert "differ in hold" in refusal(arena["partly"], flat)

    strict = run(stance_model("strict"), tmp_path / "strict", "ama_btc", rules="strict")
    assert "different metric rules" in refusal(arena["partly"], strict)
    assert "scored by strict rules" in terminal.out("paper", "table", strict, "--like", "ama-1")

    fund = run(order_model("fund"), tmp_path / "fund", "deepfund_berkshire", "synthetic_deepfund")
    assert "deepfund_berkshire is not a task of one asset" in refusal(fund)
    assert "of one task" in refusal(arena["one"], name="deepfund-3")


@pytest.mark.exhaustive
def test_a_fund_has_a_row_for_each_model_their_vote_and_the_index(
    tmp_path: Path, terminal: Terminal
) -> None:
    runs = []
    for name in NAMES:
        out = tmp_path / name
        runs.append(run(order_model(name), out, "deepfund_berkshire", "synthetic_deepfund"))

    assert ktdeval_vote(runs, tmp_path / "vote") == 0

    rows = table(terminal, "deepfund-3", *runs, tmp_path / "vote")
    by_name = {row.pop("Model"): row for row in rows}
    returns = [float(row["total_return"]) for row in rows]

    assert returns[:-1] == sorted(returns[:-1], reverse=True)
    assert list(by_name)[-1] == "SYNFUND"
    assert {*by_name} == {*(f"python/{name}" for name in NAMES), "Vote (react)", "SYNFUND"}

    for name in ("one", "vote"):
        (card,) = ktdeval.load_run(tmp_path / name).typed_cards
        row = by_name["Vote (react)" if name == "vote" else f"python/{name}"]
        for metric, cell in row.items():
            value = card.metrics[metric].value
            assert cell == "" if value is None else float(cell) == value

    held = card.reference.benchmark_buy_and_hold["live"].metrics
    index = by_name["SYNFUND"]

    assert float(index["total_return"]) == held.total_return.value
    assert float(index["max_drawdown"]) == held.max_drawdown.value
    assert (float(index["df_beta"]), float(index["df_alpha"])) == (1.0, 0.0)
    assert (index["df_win_rate"], index["df_buy_and_hold"]) == ("", "")
    assert float(index["df_sharpe"]) == pytest.approx(index_sharpe_by_hand(card, 0.0429 / 252))


def index_sharpe_by_hand(card: Any, free: float) -> float:
    """DeepFund's Appendix D eq. 2 on the levels of the market's index, with pandas."""
    held = card.reference.benchmark_buy_and_hold["live"]
    market = open_snapshot(load_plugins(), "synthetic_deepfund", {})
    levels = pd.Series(market.benchmark, index=pd.DatetimeIndex(market.days))
    daily = levels[held.base_day : held.last_day].pct_change().dropna()

    return float((daily.mean() - free) / daily.std() * math.sqrt(252))


@pytest.mark.exhaustive
def test_the_index_has_a_sharpe_ratio_by_strict_rules_too(
    tmp_path: Path, terminal: Terminal
) -> None:
    task = "deepfund_berkshire"
    data = "synthetic_deepfund"
    strict = run(order_model("one"), tmp_path / "one", task, data, rules="strict")
    rows = table(terminal, "deepfund-3", strict)
    (card,) = ktdeval.load_run(strict).typed_cards

    free = 1.0429 ** (1 / 252) - 1

    assert float(rows[-1]["df_sharpe"]) == pytest.approx(index_sharpe_by_hand(card, free))
