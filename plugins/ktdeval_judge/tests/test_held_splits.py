"""An account is not executed over a split that its market does not have.

Ten shares are bought at 300.00; a split of 15:1 follows, and 150 shares are sold at 20.50: a gain of
75.00, which a market without the split would show as a loss of 2,795.00 and a short position.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval.market import MarketSnapshot
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig
from ktdeval_judge.held_splits import check_held_splits
from ktdeval_judge.market_plan import market_plan
from ktdeval_judge.readers import ReadOptions, read_declared

TRADING = AccountConfig(max_weight=1.0, max_positions=10).rules("test")
TRADES = (
    "date,code,side,shares,price\n1970-01-02,600001.SH,buy,10,300\n{sold},600001.SH,sell,150,20.5\n"
)


def market(*closes: float | None, has_factor: bool = False) -> MarketSnapshot:
    made = snapshot_of_days(["600001.SH"], opens=[[close] for close in closes])
    return replace(made, meta=replace(made.meta, has_factor=has_factor))


def check(folder: Path, text: str, snapshot: MarketSnapshot) -> None:
    path = folder / "trades.csv"
    path.write_text(text)
    declared = read_declared(path, ReadOptions())
    check_held_splits(declared, market_plan(declared, snapshot, TRADING), snapshot)


SPLIT = (300.0, 300.0, 20.1, 20.5, 20.5)


def test_a_split_while_held_is_refused_with_its_day_and_ratio(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"600001\.SH is held.* 300 to 20\.1 on 1970-01-03.*15:1.*--splits"
    ):
        check(tmp_path, TRADES.format(sold="1970-01-04"), market(*SPLIT))


def test_weights_that_are_held_over_a_split_are_refused_too(tmp_path: Path) -> None:
    text = "date,code,weight\n1970-01-01,600001.SH,0.5\n1970-01-04,600001.SH,0.5\n"
    with pytest.raises(DataError, match="as at a split of 15:1"):
        check(tmp_path, text, market(*SPLIT))


def test_a_split_after_the_sale_does_not_matter(tmp_path: Path) -> None:
    text = "date,code,side,shares,price\n1970-01-02,600001.SH,buy,10,300\n1970-01-03,600001.SH,sell,10,300\n"
    check(tmp_path, text, market(300.0, 300.0, 300.0, 20.1, 20.1))


def test_a_market_with_splits_is_not_checked(tmp_path: Path) -> None:
    check(tmp_path, TRADES.format(sold="1970-01-04"), market(*SPLIT, has_factor=True))


def test_a_sale_of_a_multiple_is_refused_where_the_market_is_adjusted(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"150 shares are sold at 20\.5.* 10 are held, bought at 300"
    ):
        check(tmp_path, TRADES.format(sold="1970-01-04"), market(20.0, 20.0, 20.1, 20.5, 20.5))


def test_a_short_sale_of_a_multiple_is_not_a_split(tmp_path: Path) -> None:
    text = "date,code,side,shares,price\n1970-01-02,600001.SH,buy,10,20\n1970-01-03,600001.SH,sell,150,20\n"
    check(tmp_path, text, market(20.0, 20.0, 20.1, 20.5, 20.5))


def test_a_code_that_returns_at_a_ninth_of_its_price_is_refused(tmp_path: Path) -> None:
    """Twenty-seven sessions without a bar: another company under the same ticker."""
    closes = [97.0, 97.0, *[None] * 27, 10.4, 10.5, 10.5]
    text = "date,code,weight\n1970-01-01,600001.SH,0.5\n1970-01-30,600001.SH,0.5\n"
    with pytest.raises(DataError, match=r"after 27 sessions without a bar.*a code of its own"):
        check(tmp_path, text, market(*closes))
