"""What a file writes with a sign or a status: fees paid are fees whatever their sign, orders that were
not filled are no trades, and trades that are open have no exit.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_judge.readers.roles import word_kinds, words_of


def trades_of(folder: Path, lines: list[str]) -> pd.DataFrame:
    path = folder / "trades.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    trades = read_declared(path, ReadOptions()).trades
    assert trades is not None
    return trades


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["fee", "commission"])
def test_fees_of_fills_are_paid_whatever_their_sign(tmp_path: Path, name: str, sign: int) -> None:
    lines = [
        f"date,symbol,side,shares,price,{name}",
        f"2024-01-02,AAA,buy,10,20,{1.5 * sign}",
        f"2024-01-03,AAA,sell,4,21,{0.5 * sign}",
        f"2024-01-04,AAA,sell,6,22,{2.5 * sign}",
    ]
    assert trades_of(tmp_path, lines)["fee"].tolist() == [1.5, 0.5, 2.5]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_fee_of_a_whole_trade_is_paid_in_halves_whatever_its_sign(
    tmp_path: Path, sign: int
) -> None:
    lines = [
        "symbol,type,shares,entry_date,entry_price,exit_date,exit_price,commission",
        f"AAA,long,10,2024-01-02,20,2024-01-04,21,{3 * sign}",
        f"BBB,short,10,2024-01-03,20,2024-01-05,21,{4 * sign}",
    ]
    trades = trades_of(tmp_path, lines)
    assert trades.groupby("code")["fee"].apply(list).to_dict() == {
        "AAA": [1.5, 1.5],
        "BBB": [2.0, 2.0],
    }


@pytest.mark.parametrize("sign", [1, -1])
def test_fees_at_entry_and_exit_are_each_paid_whatever_their_sign(
    tmp_path: Path, sign: int
) -> None:
    lines = [
        "symbol,type,shares,entry_date,entry_price,entry fee,exit_date,exit_price,exit fee",
        f"AAA,long,10,2024-01-02,20,{sign},2024-01-04,21,{2 * sign}",
        f"AAA,long,10,2024-01-05,20,{3 * sign},2024-01-08,21,{4 * sign}",
    ]
    assert trades_of(tmp_path, lines)["fee"].tolist() == [1.0, 2.0, 3.0, 4.0]


def statuses(kind: str) -> list[str]:
    return sorted(word for word, kinds in word_kinds().items() if kind in kinds)


def orders(status: str) -> list[str]:
    return [
        "date,symbol,side,filled shares,price,status",
        "2024-01-02,AAA,buy,10,20,filled",
        f"2024-01-03,BBB,buy,5,21,{status}",
    ]


@pytest.mark.parametrize("status", [*statuses("done"), *statuses("partly")])
def test_an_order_that_was_filled_or_partly_filled_is_a_trade(tmp_path: Path, status: str) -> None:
    assert trades_of(tmp_path, orders(status))["code"].tolist() == ["AAA", "BBB"]


@pytest.mark.parametrize("status", [*statuses("undone"), "pending_new"])
def test_an_order_that_was_canceled_or_waits_is_no_trade(tmp_path: Path, status: str) -> None:
    assert trades_of(tmp_path, orders(status))["code"].tolist() == ["AAA"]


@pytest.mark.parametrize(
    ("status", "sides"),
    [
        *((status, ["buy"]) for status in statuses("live")),
        ("closed", ["buy", "sell"]),
        ("", ["buy", "sell"]),
    ],
)
def test_a_trade_that_is_still_open_has_no_exit_whatever_its_last_price(
    tmp_path: Path, status: str, sides: list[str]
) -> None:
    lines = [
        "symbol,type,shares,entry_date,entry_price,exit_date,exit_price,status",
        f"AAA,long,10,2024-01-02,20,2024-01-04,21,{status}",
        "BBB,long,10,2024-01-03,20,2024-01-05,21,closed",
    ]
    trades = trades_of(tmp_path, lines)
    assert trades.loc[trades["code"] == "AAA", "side"].tolist() == sides


def test_each_word_has_its_kind_in_the_spelling_in_which_cells_are_looked_up() -> None:
    kinds = word_kinds()
    spelled = words_of(pd.Series(sorted(kinds)))
    lost = {
        word: kinds[word]
        for word, spelling in zip(sorted(kinds), spelled, strict=True)
        if not kinds[word] <= kinds.get(spelling, frozenset())
    }
    assert lost == {}
