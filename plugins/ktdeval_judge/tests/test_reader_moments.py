"""A fill never comes before the moment of its row, whatever the reader; and no row is lost at the end
of the market without a word.

The market is five weekdays from 2024-01-01 that open at 09:30 and close at 15:00 in Shanghai.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ktdeval.errors import DataError
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import AccountConfig
from ktdeval_judge.market_plan import MarketPlan, market_plan
from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_judge.readers.options import Dated

CODE = "600001.SH"
OPEN = 9 * 60 + 30
SESSIONS = (20240101, 20240102, 20240103, 20240104, 20240105)
OPENS = (OPEN,) * len(SESSIONS)
MARKET = snapshot_of_days([CODE], opens=[[10.0]] * 5, first="2024-01-01")
TRADING = AccountConfig(max_weight=1.0, max_positions=10).rules("test")

Moments = Sequence[str]
Writer = Callable[[Moments], str]


def plan_of(
    text: str, name: str, program: str | None = None, dated: Dated = "decision"
) -> MarketPlan:
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        options = ReadOptions(
            program=program, sessions=SESSIONS, opens=OPENS, market_zone="Asia/Shanghai"
        )
        declared = read_declared(path, options)
    return market_plan(declared, MARKET, TRADING, dated=dated)


def fills_of(plan: MarketPlan) -> list[tuple[str, float]]:
    """The sessions in which orders are filled, at the open, with their numbers."""
    days = [str(day) for day in MARKET.days]
    filled = []
    for each in plan.plan.days:
        number = sum(number for _, number in each.rows)
        filled.append((days[days.index(each.day) + 1], number))
    return filled


# ---- by hand


def positions(*rows: tuple[str, int]) -> str:
    lines = [{"date": "2024-01-02 08:30:00", "id": 0, "positions": {CODE: 0, "CASH": 1e5}}]
    for number, (moment, shares) in enumerate(rows, start=1):
        lines.append({"date": moment, "id": number, "positions": {CODE: shares, "CASH": 9e4}})
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_position_of_the_afternoon_is_filled_at_the_next_open() -> None:
    plan = plan_of(positions(("2024-01-03 15:00:00", 100)), "position.jsonl")
    assert fills_of(plan) == [("2024-01-04", 100.0)]


def test_a_position_before_the_open_is_filled_on_its_day() -> None:
    plan = plan_of(positions(("2024-01-03 08:30:00", 100)), "position.jsonl")
    assert fills_of(plan) == [("2024-01-03", 100.0)]


def test_a_position_without_a_time_is_filled_on_its_day() -> None:
    text = positions(("2024-01-03", 100)).replace(" 08:30:00", "")
    assert fills_of(plan_of(text, "position.jsonl")) == [("2024-01-03", 100.0)]


def test_of_positions_between_two_opens_the_last_counts() -> None:
    rows = [
        ("2024-01-03 10:30:00", 100),
        ("2024-01-03 15:00:00", 300),
        ("2024-01-04 08:30:00", 200),
    ]
    assert fills_of(plan_of(positions(*rows), "position.jsonl")) == [("2024-01-04", 200.0)]


def test_a_trade_after_the_open_is_executed_in_the_next_session() -> None:
    text = "datetime,code,side,shares,price\n2024-01-03 10:15:00,600001.SH,buy,100,10\n"
    plan = plan_of(text, "trades.csv")

    assert fills_of(plan) == [("2024-01-04", 100.0)]
    assert any("1 of 1 trade have a time after" in note for note in plan.notes)
    # the claim itself is still compared with a fill on its own day
    assert plan.at_declared_days is not None
    assert plan.at_declared_days.days[0].day == "2024-01-02"


def test_a_purchase_that_waits_for_the_open_of_its_sale_is_not_made() -> None:
    """Bought in the afternoon, sold at the next open: both fall on one open, and nothing is held."""
    text = (
        "datetime,code,side,shares,price\n2024-01-02 14:00:00,600001.SH,buy,300,10\n"
        "2024-01-03 09:30:00,600001.SH,sell,200,10\n"
    )
    assert fills_of(plan_of(text, "trades.csv")) == [("2024-01-03", 100.0)]


def test_days_of_fills_are_not_moved_twice() -> None:
    """AI-Trader's reader knows that its days are those of fills; --dated fill says the same."""
    text = positions(("2024-01-04", 100)).replace(" 08:30:00", "")
    assert fills_of(plan_of(text, "position.jsonl", dated="fill")) == [("2024-01-04", 100.0)]


# ---- the end of the market


def test_decisions_of_the_last_day_are_left_out_with_a_note() -> None:
    text = "date,code,weight\n2024-01-03,600001.SH,0.3\n2024-01-05,600001.SH,0.5\n"
    plan = plan_of(text, "weights.csv")

    assert fills_of(plan) == [("2024-01-04", 0.3)]
    assert plan.left_out == ("2024-01-05",)
    assert plan.notes == (
        "Left out: 1 row decided on 2024-01-05, the market's last day, because nothing is filled "
        "after it; import later days to judge them",
    )


@pytest.mark.parametrize("dated", ["decision", "fill"])
@pytest.mark.parametrize("name", ["position.jsonl", "weights.csv", "trades.csv", "qlib.csv"])
def test_rows_after_the_last_day_are_refused_with_their_day(name: str, dated: Dated) -> None:
    texts = {
        "position.jsonl": positions(("2024-01-03", 100), ("2024-01-08", 300)),
        "weights.csv": "date,code,weight\n2024-01-03,600001.SH,0.3\n2024-01-08,600001.SH,0.5\n",
        "trades.csv": (
            "date,code,side,shares,price\n2024-01-03,600001.SH,buy,100,10\n"
            "2024-01-08,600001.SH,buy,100,10\n"
        ),
        "qlib.csv": (
            "instrument,datetime,amount,price,weight\n600001.SH,2024-01-03,100,10,0.1\n"
            "600001.SH,2024-01-08,300,10,0.3\n"
        ),
    }
    with pytest.raises(DataError, match=r"line 3.*2024-01-08"):
        plan_of(texts[name], name, dated=dated)


def test_account_values_after_the_last_day_are_refused_with_their_day(tmp_path: Path) -> None:
    weights = tmp_path / "weights.csv"
    weights.write_text("date,code,weight\n2024-01-03,600001.SH,0.3\n")
    nav = tmp_path / "nav.csv"
    nav.write_text("date,nav\n2024-01-03,100\n2024-01-05,101\n2024-01-08,102\n")
    options = ReadOptions(sessions=SESSIONS, opens=OPENS)
    both = replace(read_declared(weights, options), values=read_declared(nav, options).values)

    with pytest.raises(DataError, match=r"value of 2024-01-08 is after 2024-01-05.*1 such value"):
        market_plan(both, MARKET, TRADING)


# ---- for every form


def _table(header: str, row: str) -> Writer:
    def write(moments: Moments) -> str:
        rows = [row.format(moment=moment, number=n) for n, moment in enumerate(moments, start=1)]
        return "\n".join([header, *rows]) + "\n"

    return write


def _positions(moments: Moments) -> str:
    return positions(*((moment, 100 * n) for n, moment in enumerate(moments, start=1)))


def _alpaca(moments: Moments) -> str:
    rows = []
    for number, moment in enumerate(moments, start=1):
        rows.append(
            {
                "activity_type": "FILL", "transaction_time": f"{moment.replace(' ', 'T')}+08:00",
                "price": "10", "qty": str(100 * number), "side": "buy", "symbol": CODE,
            }
        )  # fmt: skip
    return json.dumps(rows)


CASES: dict[str, tuple[str, str | None, Writer]] = {
    "fills": ("a.csv", None, _table("datetime,code,side,shares,price", "{moment},600001.SH,buy,{number}00,10")),
    "signed fills": ("a.csv", None, _table("datetime,code,shares,price,fee", "{moment},600001.SH,{number}00,10,1")),
    "closed": ("a.csv", None, _table(
        "entry_time,exit_time,code,side,shares,entry_price,exit_price",
        "{moment},2024-01-05 14:00:00,600001.SH,long,{number}00,10,10")),
    "orders": ("a.csv", None, _table("datetime,code,side,shares", "{moment},600001.SH,buy,{number}00")),
    "cash orders": ("a.csv", None, _table("datetime,code,side,cash", "{moment},600001.SH,buy,{number}000")),
    "weights": ("a.csv", None, _table("datetime,code,weight", "{moment},600001.SH,0.{number}")),
    "holdings": ("a.csv", None, _table("datetime,code,target_shares", "{moment},600001.SH,{number}00")),
    "wide weights": ("a.csv", None, _table("datetime,600001.SH", "{moment},0.{number}")),
    "ai-trader": ("position.jsonl", None, _positions),
    "qlib positions": ("a.csv", None, _table(
        "instrument,datetime,amount,price,weight", "600001.SH,{moment},{number}00,10,0.{number}")),
    "vectorbt orders": ("a.csv", None, _table(
        "Order Id,Column,Timestamp,Size,Price,Fees,Side",
        "{number},600001.SH,{moment},{number}00,10,0,Buy")),
    "backtrader orders": ("a.csv", None, _table(
        "created,executed,data,size,price", "{moment},2024-01-05 15:00:00,600001.SH,{number}00,10")),
    "alpaca": ("a.json", None, _alpaca),
    "freqtrade": ("a.json", None, lambda moments: json.dumps({"trades": [
        {"pair": CODE, "open_date": moment, "close_date": "2024-01-05 14:00:00", "open_rate": 10.0,
         "close_rate": 10.0, "amount": 100.0 * number, "profit_abs": 0.0, "is_short": False}
        for number, moment in enumerate(moments, start=1)]})),
}  # fmt: skip
"""Name of a form -> file name, program, and a writer of one row a moment."""

#: around the open, around the close, at night
MOMENTS = (
    "2024-01-03 08:30:00",
    "2024-01-03 09:30:00",
    "2024-01-03 09:30:01",
    "2024-01-04 23:59:00",
)


@pytest.mark.parametrize("form", CASES)
def test_no_fill_comes_before_its_row(form: str) -> None:
    """Each moment is tried alone, with both meanings of days: 8 files a form."""
    name, program, write = CASES[form]
    reached = 0
    for moment in MOMENTS:
        for dated in ("decision", "fill"):
            filled_on, _ = fills_of(plan_of(write([moment]), name, program, dated))[0]
            assert f"{filled_on} 09:30:00" >= moment, (form, dated, moment, filled_on)
            reached += 1

    assert reached == 8


@pytest.mark.parametrize(
    ("stamp", "session"), [("09:30:00", 1), ("09:31:00", 1), ("09:30:59", 2), ("09:32:00", 2)]
)
def test_the_end_of_the_first_minute_bar_counts_as_the_open(stamp: str, session: int) -> None:
    text = f"date,code,side,shares,price\n2024-01-02 {stamp},{CODE},buy,100,10\n"
    plan = plan_of(text, "trades.csv", dated="fill")

    assert fills_of(plan) == [(str(MARKET.days[session]), 100)]
