"""Agent Market Arena on real prices: the paper's Buy & Hold rows by runs of the tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.cli.main import main
from tables import on_each_row

FIGURES = ("cumulative_return", "annualised_return", "volatility", "sharpe", "max_drawdown")
FILES = {"us_equity": "us_daily/nasdaq100_daily.csv.gz", "crypto_spot": "crypto_daily/crypto10_daily.csv.gz"}


@pytest.fixture(scope="module")
def markets(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("ama")
    for venue, file in FILES.items():
        last = ["--last", "2025-11-15"] if venue == "crypto_spot" else []
        words = ["data", "import", "long", "--bars", str(shared_data / file), "--venue", venue, *last]
        assert main([*words, "--out", str(folder / venue)]) == 0
    return {venue: folder / venue for venue in FILES}


def run(market: Path, out: Path, task: str, model: str, **more: Any) -> Any:
    (card,) = ktdeval.evaluate(model, task, data=str(market), out=str(out), rules="paper", quiet=True, **more).cards
    return card.plain


@on_each_row
def test_buy_and_hold_gives_the_rows_of_the_paper(
    task: str, venue: str, told: list[float], markets: dict[str, Path], tmp_path: Path
) -> None:
    card = run(markets[venue], tmp_path / "run", task, "builtin/buy_and_hold")
    found = [card["metrics"][f"ama_{name}"]["value"] for name in FIGURES]
    assert [round(value * (1 if place == 3 else 100), 2) for place, value in enumerate(found)] == told
    assert card["orders"] == {"submitted": 1, "filled": 1, "partially_filled": 0, "rejected": 0, "rules": {}}
    assert card["metrics"]["ama_days_above_buy_and_hold"]["value"] == 0.0
    assert card["metrics"]["ama_gap_to_buy_and_hold"]["value"] == pytest.approx(0.0, abs=1e-5)
    assert card["metrics"]["ama_win_rate"]["value"] == 1.0
    assert main(["card", "verify", str(tmp_path / "run" / "cards" / f"{task}.json")]) == 0
