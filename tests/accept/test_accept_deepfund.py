"""DeepFund without a key: a run on the generated market verifies, and pandas finds its figures in
its ledger and the closes.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import ktdeval
from ktdeval_arena.deepfund_figures import FIGURES
from ktdeval_data.params import TwinParams
from ktdeval_data.synthetic_us_crypto import make_twin
from support.accept.accept_runs import verify


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rules", ["paper", "strict"])
def test_the_figures_of_a_run_are_those_of_its_ledger_and_the_closes(
    rules: str, tmp_path: Path
) -> None:
    result = ktdeval.evaluate(
        "builtin/random",
        "deepfund_berkshire",
        data="synthetic_deepfund",
        out=str(tmp_path / "run"),
        rules=rules,
        quiet=True,
    )
    (card,) = result.typed_cards

    verify(tmp_path / "run")

    (path,) = (tmp_path / "run").glob("episodes/*/ledger.parquet")
    steps = pd.read_parquet(path)
    market = make_twin("deepfund", TwinParams())
    closes = pd.DataFrame(
        market.close * market.factor,
        pd.to_datetime(market.days).astype("datetime64[s]"),
        market.codes,
    )
    index = pd.Series(market.benchmark, closes.index)
    days = pd.to_datetime([steps["decided_on"][0], *steps["filled_on"]]).astype("datetime64[s]")
    nav = pd.Series([10_000_000, *steps["nav_minor"]], days) / 100

    assert len(nav) == 24

    r = nav.pct_change().dropna()
    m = index[days].pct_change().dropna()
    free = 0.0429 / 252 if rules == "paper" else 1.0429 ** (1 / 252) - 1
    beta = r.cov(m) / m.var()
    first = pd.Series({one["code"]: one["value_minor"] / 100 for one in steps["positions"][0]})
    grown = closes.loc[days[-1], first.index] / closes.loc[days[1], first.index]
    filled = []

    for day, orders in zip(days, steps["orders"], strict=False):
        filled += [{**order, "day": day} for order in orders if order["filled_shares"]]

    trades = pd.DataFrame(filled)
    # from the close of the decision, at which it is filled, to the next
    moves = closes.pct_change().shift(-1)
    # A price that stays makes neither a buy nor a sell right.
    right = [
        moves.loc[one.day, one.code] * (1 if one.side == "BUY" else -1) > 0
        for one in trades.itertuples()
    ]
    expected = {
        "df_buy_and_hold": (steps["cash_minor"][0] / 100 + (first * grown).sum()) / 100_000 - 1,
        "df_sharpe": (r.mean() - free) / r.std() * 252**0.5,
        "df_beta": beta,
        "df_alpha": 252 * (r.mean() - free - beta * (m.mean() - free)),
        "df_effectiveness": sum(right) / len(right),
        "df_win_rate": (r > 0).mean() if rules == "paper" else wins(trades),
    }

    assert {name: card.plain["metrics"][name]["value"] for name in FIGURES} == pytest.approx(
        expected, rel=1e-9
    )


def wins(trades: pd.DataFrame) -> float:
    """Share of sales above the average price of the holding, which costs of trading do not change
    here.
    """
    found = []

    for _, own in trades.groupby("code"):
        held = paid = 0.0
        for one in own.itertuples():
            price = one.notional_minor / one.filled_shares
            if one.side == "BUY":
                held = held + one.filled_shares
                paid = paid + one.notional_minor
            else:
                found.append(price > paid / held)
                held, paid = held - one.filled_shares, paid * (1 - one.filled_shares / held)

    return sum(found) / len(found)
