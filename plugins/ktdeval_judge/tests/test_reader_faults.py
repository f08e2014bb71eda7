"""A wrong file is refused in one line with file, place and fix: a column or key that is missing, a
value of another type, a file that was cut off.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ktdeval.errors import DataError
from ktdeval_judge.readers import ReadOptions, read_declared
from program_files import ALL_FILES, FILES

Change = Callable[[str], str]
LOG = "tradingagents/009005.SZ/TradingAgentsStrategy_logs/full_states_log_2025-03-17.json"


def swap(old: str, new: str) -> Change:
    """Replace the first place of a text."""

    def change(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return change


def cut(text: str) -> str:
    """Cut a file off within its last line."""
    return text.rstrip("\n")[:-3]


CASES: list[tuple[str, Change, str]] = [
    # Qlib
    ("qlib/report.csv", swap(",account,", ",wealth,"), 'lacks the column account; include it in the export'),
    ("qlib/report.csv", swap("991774.2464300537", "n/a"),
     "line 2: column account: expected a number, was 'n/a'"),
    ("qlib/report.csv", cut, "its last line has no line break, so the file may be cut off"),
    ("qlib/positions.csv", swap("amount", "volume"), "lacks the column amount"),
    ("qlib/positions.csv", swap("2025-03-11", "11.03.2025"),
     "line 2: column datetime: '11.03.2025' is not a date; write it as 2024-01-02"),
    ("qlib/positions.csv", swap("009116.SZ", "009034.SZ"),
     "line 3: column instrument: 009034.SZ appears twice on one day; keep one row"),
    ("qlib/positions.csv", cut, "may be cut off; write it again in full"),
    # backtrader
    ("backtrader/orders.csv", swap("price", "cost"), "lacks the column price"),
    ("backtrader/orders.csv", swap("9100", "many"), "line 2: column size: expected a number, was"),
    ("backtrader/orders.csv", cut, "may be cut off"),
    ("backtrader_transactions/transactions.csv", swap("symbol", "name"), "lacks the column symbol"),
    ("backtrader_transactions/transactions.csv", swap("9100", "0"),
     "line 2: column amount: expected a number other than zero, was '0'"),
    ("backtrader_transactions/transactions.csv", cut, "may be cut off"),
    ("backtrader_writer/writer.csv", swap("2025-03-03 00:00:00", "first"),
     "line 3: column datetime: 'first' is not a date; write it as 2024-01-02"),
    ("backtrader_writer/writer.csv", lambda text: text[: text.index("\n40,") + 60],
     'line 41: its table has no closing line of =====; write the file whole'),
    ("backtrader_writer/writer.csv", lambda text: text[: text.index("\n40,") + 1],
     "its table has no closing line of =====; write the file whole"),
    ("backtrader_writer/writer.csv", swap("len,cash,value", "len,cash,worth"),
     'lacks the column value; include it in the export'),
    ("backtrader/returns.csv", swap(",0.0\n", ",flat\n"), "line 2: column return: expected a"),
    # bt
    ("bt/transactions.csv", swap("quantity", "q"), "lacks the column quantity"),
    ("bt/transactions.csv", swap("49.23", "-1"),
     "line 2: column price: expected a number above zero, was '-1'"),
    ("bt/transactions.csv", cut, "may be cut off"),
    ("bt/values.csv", swap(",value", "when,value"), "lacks the column date; no name in its first line is known"),
    ("bt/values.csv", swap("2025-03-03", "2025-03-02"), "the day 20250302 appears twice"),
    ("bt/values.csv", cut, "may be cut off"),
    # vectorbt
    ("vectorbt/orders.csv", swap("Timestamp", "When"), "lacks the column Timestamp"),
    ("vectorbt/orders.csv", cut, "may be cut off"),
    ("vectorbt_trades/trades.csv", swap("Avg Exit Price", "Exit"), "lacks the column Avg Exit Price"),
    ("vectorbt_trades/trades.csv", swap("Long", "Both"),
     "line 2: column Direction: expected long or short, was 'Both'"),
    ("vectorbt_trades/trades.csv", cut, "may be cut off"),
    ("vectorbt/value.csv", swap("date,group", "date,a,b"), "can't read: its last row has 2 of 3 cells, so that the file may be cut off; writ"),
    # zipline
    ("zipline/transactions.csv", swap(",price,", ",cost,"), "lacks the column price"),
    ("zipline/transactions.csv", swap("48.88443", "dear"), "line 2: column price: expected a"),
    ("zipline/transactions.csv", cut, "may be cut off"),
    ("zipline/positions.csv", swap("446580.4", "x"),
     "line 8: column Equity(2 [009034.SZ]): expected a number, was 'x'"),
    ("zipline/returns.csv", swap(",returns", "when,returns"), "lacks the column date"),
    ("zipline_perf/perf.csv", swap("1000000.0", ""),
     "line 2: column portfolio_value: expected a number, was empty"),
    # FinRL
    ("finrl/account_value.csv", swap("account_value", "value"), "lacks the column account_value"),
    ("finrl/account_value.csv", swap("1000000.0", "start"),
     "line 2: column account_value: expected a number, was 'start'"),
    ("finrl/account_value.csv", cut, "may be cut off"),
    ("finrl/actions.csv", swap("date,", "when,"), "lacks the column date; no name in its first line is known"),
    ("finrl/actions.csv", swap(",1588,", ",[1, 2],"), "cells"),
    ("finrl/actions.csv", cut, "may be cut off"),
    # ai-hedge-fund
    ("ai_hedge_fund/backtest.json", cut, "is not valid JSON: "),
    ("ai_hedge_fund_v1/backtest.json", swap('"quantity": 1000', '"quantity": "all"'),
     "results: row 2: column decisions.009005.SZ.quantity: expected a number, was 'a"),
    ("ai_hedge_fund_v1/backtest.json", swap('"009005.SZ": {', '"009005.SX": {'),
     "results: lacks the column executed_trades.009005.SX; its columns: date"),
    ("ai_hedge_fund_v1/backtest.json", cut, "is not valid JSON: "),
    # TradingAgents
    (LOG, swap('"trade_date"', '"day"'), 'has no column of days (date, datetime, timestamp)'),
    (LOG, swap('"company_of_interest"', '"company"'), "has no column of days"),
    (LOG, cut, "is not valid JSON: "),
    # LEAN
    ("lean/result.json", swap("1740978000", '"noon"'),
     "charts.Strategy Equity.series.Equity.values: row 1: column 0: 'noon' is not a"),
    ("lean/result.json", swap('"Start Equity": "1000000"', '"Start Equity": "10000m0"'),
     "Start Equity: expected a number above zero, was '10000m0'"),
    ("lean/result.json", cut, "is not valid JSON: "),
    ("lean_events/backtest-order-events.json", swap('"fillPrice"', '"at"'),
     "row 1: column fillPrice: expected a number, was empty"),
    ("lean_events/backtest-order-events.json", swap('"fillQuantity": 9100', '"fillQuantity": true'),
     "row 1: column fillQuantity: expected a number, was 'true'"),
    ("lean_events/backtest-order-events.json", cut, "is not valid JSON: "),
    # Interactive Brokers
    ("interactive_brokers/statement.csv", swap("T. Price", "Price"),
     'Trades: lacks the column T. Price; include it in the export'),
    ("interactive_brokers/statement.csv", swap('"2025-03-11, 09:30:00"', '"11-Mar-25, 09:30"'),
     "Trades: line 8: column Date/Time: '11-Mar-25, 09:30' is not a date; write it a"),
    ("interactive_brokers/statement.csv", lambda text: text[: text.index("Trades,SubTotal") - 20],
     'line 46: has 9 of 14 cells; export the file again, to its end'),
    ("interactive_brokers/statement.csv", swap("Stocks,USD", "Stocks,EUR"),
     'Trades: column Currency: EUR, USD: write one file per currency'),
    ("interactive_brokers_flex/flex.csv", swap('"BUY"', '"SELL"'),
     "line 4: column Quantity: -17600 is below 0 although there is a side; write sizes above 0"),
    ("interactive_brokers_flex/flex.csv", lambda text: text[: text.rindex(',"0","0"')],
     "has 3 of 6 cells; export the file again, to its end"),
    # Alpaca
    ("alpaca/activities.json", swap('"transaction_time"', '"time"'),
     "row 1: column transaction_time: expected a day such as 2024-01-31, was empty"),
    ("alpaca/activities.json", swap('"qty": "9100"', '"qty": "-9100"'),
     "row 1: column qty: -9100 is below 0 although there is a side; write sizes above 0"),
    ("alpaca/activities.json", cut, "is not valid JSON: "),
    ("alpaca_orders/orders.json", swap('"filled_avg_price": "49.13"', '"filled_avg_price": null'),
     "row 1: column filled_avg_price: expected a number, was empty"),
    ("alpaca_table/activities.csv", swap("symbol", "name"), "lacks the column symbol"),
    ("alpaca_table/activities.csv", cut, "may be cut off"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), CASES)
def test_a_wrong_file_is_refused_with_its_place(
    tmp_path: Path, name: str, change: Change, words: str
) -> None:
    path = tmp_path / Path(name).name
    path.write_text(change((FILES / name).read_text()))
    with pytest.raises(DataError) as caught:
        read_declared(path, ReadOptions(program=ALL_FILES[name]))

    message = str(caught.value)
    assert words in message
    assert message.startswith(str(path))
    assert "\n" not in message


def test_there_are_three_cases_for_each_reader() -> None:
    programs = [ALL_FILES[name] for name, _, _ in CASES]
    assert {
        program: programs.count(program) >= 3 for program in ALL_FILES.values()
    } == dict.fromkeys(ALL_FILES.values(), True)


def test_a_statement_without_a_table_of_trades_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    path.write_text(
        "Statement,Header,Field Name,Field Value\n"
        "Statement,Data,BrokerName,Interactive Brokers LLC\n"
        "Change in NAV,Header,Field Name,Field Value\n"
        "Change in NAV,Data,Starting Value,100\n"
    )
    with pytest.raises(
        DataError, match="contains no decision, trade or account value of interactive"
    ):
        read_declared(path, ReadOptions(program="interactive-brokers"))


def test_a_parquet_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.parquet"
    path.write_bytes((FILES / "qlib_parquet/report.parquet").read_bytes()[:-40])
    with pytest.raises(DataError, match=r"report\.parquet: can't read"):
        read_declared(path, ReadOptions(program="qlib"))


@pytest.mark.parametrize("name", ["report_normal_1day.pkl", "positions.csv"])
def test_a_pickle_is_refused_by_its_name_or_its_first_bytes(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    pd.DataFrame({"account": [1.0]}).to_pickle(path)
    for program in (None, "qlib"):
        with pytest.raises(DataError, match=r"is a pickle, .* save it by \.to_csv"):
            read_declared(path, ReadOptions(program=program))


def test_a_folder_of_pickles_alone_says_how_to_export(tmp_path: Path) -> None:
    pd.DataFrame({"account": [1.0]}).to_pickle(tmp_path / "report_normal_1day.pkl")
    with pytest.raises(DataError, match=r"report_normal_1day\.pkl: is a pickle"):
        read_declared(tmp_path, ReadOptions())


@pytest.mark.parametrize("content", ["", "date,account_value\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "values.csv"
    path.write_text(content)
    with pytest.raises(
        DataError, match=r"values\.csv: (is empty|has no rows|contains no account value)"
    ):
        read_declared(path, ReadOptions(program="finrl"))


def test_actions_on_one_asset_need_its_code(tmp_path: Path) -> None:
    path = tmp_path / "actions.csv"
    path.write_text("date,actions\n2025-03-03,[12]\n2025-03-04,[-5]\n")
    with pytest.raises(
        DataError,
        match="'actions' does not name the asset; rename it to the asset's code",
    ):
        read_declared(path, ReadOptions())

    path.write_text("date,SPY\n2025-03-03,[12]\n2025-03-04,[-5]\n")
    decisions = read_declared(path, ReadOptions(program="finrl")).decisions
    assert decisions is not None
    assert decisions.to_numpy().tolist() == [
        [20250303, "SPY", "buy", 12.0],
        [20250304, "SPY", "sell", 5.0],
    ]


@pytest.mark.parametrize("document", [[], {"id": "1"}, ["x"]])
def test_an_answer_without_fills_is_refused(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="holds no list of objects"):
        read_declared(path, ReadOptions(program="alpaca"))


def test_text_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    activities = (FILES / "alpaca/activities.json").read_text()
    path.write_text(activities.replace("009034.SZ", "\\ud800", 1))
    with pytest.raises(DataError, match=r"is not valid JSON: .* surrogates not allowed"):
        read_declared(path, ReadOptions())


def test_two_ratings_of_one_asset_and_day_are_refused(tmp_path: Path) -> None:
    shutil.copy(FILES / LOG, tmp_path / "a.json")
    (tmp_path / "b.json").write_text((FILES / LOG).read_text().replace("Buy", "Sell"))
    with pytest.raises(DataError, match=r"009005\.SZ has two ratings on 20250317; keep one log"):
        read_declared(tmp_path, ReadOptions())
