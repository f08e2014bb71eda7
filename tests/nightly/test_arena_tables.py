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
from ktdeval.cards.short_records import shown_metrics
from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.testing import Terminal
from support.accept.voting_models import order_model, stance_model

METRICS = ("cumulative_return", "annualised_return", "volatility", "sharpe", "max_drawdown")
NAMES = ("one", "two", "three")


def run(model: Any, out: Path, tasks: str, data: str = "synthetic_arena", **more: Any) -> Path:
    options = {"limit": 21, "rules": "paper", "quiet": True, **more}
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

    runs["vote"] = voted(list(runs.values()), folder / "vote")
    runs["held"] = run("builtin/buy_and_hold", folder / "held", "ama_btc,ama_tsla")
    runs["partly"] = run(stance_model("partly"), folder / "partly", "ama_btc")

    return runs


def voted(runs: Sequence[Path], out: Path) -> Path:
    assert main(["paper", "vote", *map(str, runs), "--out", str(out)]) == 0
    return out


def value_in(cell: str) -> float | None:
    """A cell's figure; None if it is empty."""
    if cell == "":
        return None
    return float(cell)


def table(terminal: Terminal, name: str, *cards: Path) -> list[dict[str, str]]:
    out = terminal.out("paper", "table", *cards, "--like", name, "--format", "csv")
    return list(csv.DictReader(io.StringIO(out)))


def test_rows_are_agents_and_models_with_buy_and_hold_first_and_vote_last(
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
        cards = {
            card.task.name: shown_metrics(card)
            for card in ktdeval.load_run(arena[name]).typed_cards
        }
        for column in columns:
            asset, metric = column.split()
            task = f"ama_{asset.lower()}"
            if task in cards:
                assert value_in(row[column]) == cards[task][metric].value
            else:
                assert row[column] == ""


def test_a_fund_has_a_row_for_each_model_their_vote_and_the_index(
    tmp_path: Path, terminal: Terminal
) -> None:
    runs = []
    for name in NAMES:
        out = tmp_path / name
        runs.append(run(order_model(name), out, "deepfund_berkshire", "synthetic_deepfund"))

    rows = table(terminal, "deepfund-3", *runs, voted(runs, tmp_path / "vote"))
    by_name = {row.pop("Model"): row for row in rows}
    returns = [float(row["total_return"]) for row in rows]

    assert returns[:-1] == sorted(returns[:-1], reverse=True)
    assert list(by_name)[-1] == "SYNFUND"
    assert {*by_name} == {*(f"python/{name}" for name in NAMES), "Vote (react)", "SYNFUND"}

    for name in ("one", "vote"):
        (card,) = ktdeval.load_run(tmp_path / name).typed_cards
        row = by_name["Vote (react)" if name == "vote" else f"python/{name}"]
        metrics = shown_metrics(card)
        for metric, cell in row.items():
            assert value_in(cell) == metrics[metric].value

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
