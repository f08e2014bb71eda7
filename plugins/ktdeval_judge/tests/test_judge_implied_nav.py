"""The account value of declared trades at their own prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.market import MarketSnapshot
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig
from ktdeval_judge.implied_nav import implied_nav
from ktdeval_judge.market_plan import market_plan
from ktdeval_judge.readers import ReadOptions, read_declared

CODE = "600001.SH"
TRADING = AccountConfig(max_weight=1.0, max_positions=10).rules("test")


def implied(folder: Path, text: str, market: MarketSnapshot) -> list[float]:
    path = folder / "trades.csv"
    path.write_text(text)
    made = market_plan(read_declared(path, ReadOptions()), market, TRADING)
    return implied_nav(made.trades, market, 1000.0, 0, len(market.days) - 1).tolist()


def test_a_purchase_is_marked_at_the_closes(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE], [[10.0]] * 4, [[10.0], [11.0], [12.0], [9.0]], first="2024-01-01"
    )
    # 50 shares at 10.50 with a fee of 5: 470 of cash are left
    text = "date,code,qty,price,fee\n2024-01-02,600001.SH,50,10.5,5\n"
    assert implied(tmp_path, text, market) == pytest.approx([1000.0, 1020.0, 1070.0, 920.0])


def test_a_sale_pays_its_price_and_leaves_cash(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE], [[10.0]] * 4, [[10.0], [11.0], [12.0], [9.0]], first="2024-01-01"
    )
    text = "date,code,qty,price\n2024-01-02,600001.SH,50,10\n2024-01-03,600001.SH,-50,13\n"
    assert implied(tmp_path, text, market) == pytest.approx([1000.0, 1050.0, 1150.0, 1150.0])


def test_a_dividend_is_reinvested_as_the_factor_has_it(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE],
        [[10.0]] * 4,
        [[10.0], [10.0], [5.0], [5.0]],
        factor=[[1.0], [1.0], [2.0], [2.0]],
        first="2024-01-01",
    )
    text = "date,code,qty,price\n2024-01-02,600001.SH,50,10\n"
    assert implied(tmp_path, text, market) == pytest.approx([1000.0] * 4)


def test_a_day_without_a_close_keeps_the_last_one(tmp_path: Path) -> None:
    market = snapshot_of_days(
        [CODE], [[10.0], [10.0], [None], [10.0]], [[10.0], [11.0], [None], [9.0]],
        first="2024-01-01",
    )  # fmt: skip
    text = "date,code,qty,price\n2024-01-02,600001.SH,10,11\n"
    assert implied(tmp_path, text, market) == pytest.approx([1000.0, 1000.0, 1000.0, 980.0])
