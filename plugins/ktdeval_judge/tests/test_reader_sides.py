"""A side may have its reason beside it; what could be another side is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared

FILLS = """date,symbol,{name},shares,price
2025-06-02,AAA,BUY - Breakout,10,20
2025-06-03,AAA,{sale},10,19
2025-06-04,AAA,BUY,5,18
"""
TRIPS = """symbol,type,shares,entry_date,entry_price,exit_date,exit_price
AAA,Long,10,2025-06-02,20,2025-06-03,21
AAA,Short,10,2025-06-03,21,2025-06-04,20
AAA,{last},10,2025-06-04,20,2025-06-05,18
"""


def read(tmp_path: Path, text: str) -> Declared:
    path = tmp_path / "trades.csv"
    path.write_text(text, "utf-8")
    return read_declared(path, ReadOptions())


def cash_flow(declared: Declared) -> float:
    """Return the cash that all trades bring in."""
    trades = declared.trades
    assert trades is not None
    signs = trades["side"].map({"buy": -1.0, "sell": 1.0})
    return float((signs * trades["shares"] * trades["price"]).sum())


@pytest.mark.parametrize("name", ["side", "type"])
@pytest.mark.parametrize("sale", ["SELL - Stop Loss", "Sell (stop loss)", "SELL: target hit"])
def test_a_side_with_its_reason_is_that_side(tmp_path: Path, name: str, sale: str) -> None:
    declared = read(tmp_path, FILLS.format(name=name, sale=sale))
    assert cash_flow(declared) == -200 + 190 - 90


@pytest.mark.parametrize("kind", ["Market", "Limit", "Stop", "Stop limit"])
@pytest.mark.parametrize("words", ["{kind} {side}", "{side} {kind}"])
def test_the_kind_of_an_order_may_stand_beside_its_side(
    tmp_path: Path, kind: str, words: str
) -> None:
    sale = words.format(kind=kind, side="sell")
    declared = read(tmp_path, FILLS.format(name="Action", sale=sale))
    assert cash_flow(declared) == -200 + 190 - 90


@pytest.mark.parametrize("last", ["Short (End)", "Short - Stop Loss", "short: timeout"])
def test_the_direction_of_a_whole_trade_with_its_reason_is_read(tmp_path: Path, last: str) -> None:
    # a long gains 10, a short 10, and the last short 20; read as longs, they would lose 20
    assert cash_flow(read(tmp_path, TRIPS.format(last=last))) == 10 + 10 + 20


@pytest.mark.parametrize(
    "sale",
    [
        "SELL - cancelled",
        "SELL (rejected)",
        "SELL - not filled",
        "Long - Stop Loss",
        "Short (End)",
        "BUY - exit",
        "up - x",
    ],
)
def test_a_reason_that_may_change_the_side_is_refused(tmp_path: Path, sale: str) -> None:
    with pytest.raises(DataError, match="line 3: column side: expected buy or sell, was"):
        read(tmp_path, FILLS.format(name="side", sale=sale))
