"""Agent Market Arena on real prices: the paper's Buy & Hold rows by runs of the tasks."""

from __future__ import annotations

from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.testing import Terminal, on_each_row
from support.accept.accept_runs import verify

FIGURES = ("cumulative_return", "annualised_return", "volatility", "sharpe", "max_drawdown")
FILES = {
    "us_equity": "us_daily/nasdaq100_daily.csv.gz",
    "crypto_spot": "crypto_daily/crypto10_daily.csv.gz",
}
# Returns, Sharpe ratio and drawdown of buying and holding. For BTC and ETH the paper prints .66/4.02/30.05/.28/11.95 and
# 18.56/176.92/-/1.77/20.23: its vendor's closes are other ones.
ROWS = (
    ("ama_tsla", "us_equity", [46.88, 962.13, 40.89, 6.0, 6.34]),
    ("ama_btc", "crypto_spot", [0.67, 4.09, 30.27, 0.28, 12.25]),
    ("ama_eth", "crypto_spot", [18.86, 181.18, 72.39, 1.78, 19.78]),
)


@pytest.fixture(scope="module")
def markets(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ama")
    for venue, file in FILES.items():
        words = f"data make long --bars {shared_data / file} --venue {venue} --last 2025-11-15"
        assert main([*words.split(), "--out", str(folder / venue)]) == 0

    return {venue: folder / venue for venue in FILES}


def run(market: Path, out: Path, task: str, model: str, **more: Any) -> Any:
    (card,) = ktdeval.evaluate(
        model, task, data=str(market), out=str(out), rules="paper", quiet=True, **more
    ).typed_cards
    return card.plain


@on_each_row("task, venue, expected", *ROWS)
def test_buy_and_hold_gives_the_rows_of_the_paper(
    task: str, venue: str, expected: list[float], markets: dict[str, Path], tmp_path: Path
) -> None:
    card = run(markets[venue], tmp_path / "run", task, "builtin/buy_and_hold")
    found = [card["metrics"][f"ama_{name}"]["value"] for name in FIGURES]

    assert [
        round(value * (1 if place == 3 else 100), 2) for place, value in enumerate(found)
    ] == expected
    assert card["orders"] == {
        "submitted": 1,
        "filled": 1,
        "partially_filled": 0,
        "rejected": 0,
        "rules": {},
    }
    assert card["metrics"]["ama_days_above_buy_and_hold"]["value"] == 0.0
    assert card["metrics"]["ama_gap_to_buy_and_hold"]["value"] == pytest.approx(0.0, abs=1e-5)
    assert card["metrics"]["ama_win_rate"]["value"] == 1.0
    verify(tmp_path / "run")


def test_the_papers_table_is_made_of_these_cards(
    markets: dict[str, Path], tmp_path: Path, terminal: Terminal
) -> None:
    expected = {}
    for task, venue, figures in ROWS:
        run(markets[venue], tmp_path / task, task, "builtin/buy_and_hold")
        expected[task.removeprefix("ama_").upper()] = figures

    cards = [tmp_path / f"ama_{asset.lower()}" for asset in expected]
    _, text, _ = terminal.call("paper", "table", *cards, "--like", "ama-1")
    heads, row = text.splitlines()[1:3]
    columns = product(("TSLA", "BTC", "ETH"), ("CR", "AR", "AV", "SR", "MDD"))

    assert heads.split()[2:] == list(chain.from_iterable(columns))

    cells = [float(cell) for cell in row.split()[4:]]
    assert cells == [*expected["TSLA"], *expected["BTC"], *expected["ETH"]]
