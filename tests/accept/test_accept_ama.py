"""Agent Market Arena on real prices: the paper's Buy & Hold rows by runs of the tasks, and fills of random decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.runner.store import RunFolder
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


@pytest.mark.parametrize(("task", "venue", "code"), [("ama_tsla", "us_equity", "TSLA"), ("ama_btc", "crypto_spot", "BTC")])
def test_every_flip_of_random_decisions_is_filled_and_pays_both_sides(
    task: str, venue: str, code: str, markets: dict[str, Path], shared_data: Path, tmp_path: Path
) -> None:
    arguments = {"sell_probability": 0.4, "short_probability": 0.5, "largest_weight": 1.0}
    card = run(markets[venue], tmp_path / "run", task, "builtin/random", model_args=arguments)
    bars = pd.read_csv(shared_data / FILES[venue])
    closes = bars[bars["code"] == code].set_index("date")["close"]
    store = RunFolder.load(tmp_path / "run")
    (spec,) = store.manifest.specs
    steps = store.load_ledger(spec).steps
    assert (steps[0].decided_on, steps[-1].filled_on) == ("2025-08-01", "2025-09-30")
    cash, units, flips, path = 100_000.0, 0.0, 0, list[float]()
    for step in steps:
        price = closes[step.decided_on]
        for order in step.orders:
            assert (order.status, order.rule) == ("filled", None)
            traded = order.filled_shares / 1e8 * (1 if order.side == "BUY" else -1)
            cash -= traded * price
            assert order.fee_minor / 100 == pytest.approx(5e-4 * abs(traded) * price, abs=0.02)
            cash -= order.fee_minor / 100
            flips += units * (units + traded) < 0
            units += traded if abs(units + traded) > 1e-12 else -units
            after = cash + units * price  # all of it is invested, but for a millionth
            assert units == 0 or abs(units) * price == pytest.approx(after, rel=1e-5)
        path.append(cash + units * price)
        assert step.nav_minor / 100 == pytest.approx(cash + units * closes[step.filled_on], abs=0.05 * len(steps))
    assert flips > 3
    path.append(cash + units * closes["2025-09-30"] - 5e-4 * abs(units) * closes["2025-09-30"])
    assert card["metrics"]["ama_cumulative_return"]["value"] == pytest.approx(path[-1] / path[0] - 1, abs=1e-5)
    highest = np.maximum.accumulate(path)
    assert card["metrics"]["ama_max_drawdown"]["value"] == pytest.approx(float((1 - np.array(path) / highest).max()), abs=1e-5)
