"""Files of programs that readers are tested on, and the market that they traded."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared

FILES = Path(__file__).parent / "files"

READERS_BY_FILE = {
    "qlib/report.csv": "qlib",
    "qlib/positions.csv": "qlib",
    "qlib_parsed/positions.csv": "qlib",
    "qlib_parquet/report.parquet": "qlib",
    "backtrader/orders.csv": "backtrader",
    "backtrader/returns.csv": "backtrader",
    "backtrader_transactions/transactions.csv": "backtrader",
    "backtrader_writer/writer.csv": "backtrader",
    "backtrader_cheat_on_close/orders.csv": "backtrader",
    "bt/transactions.csv": "bt",
    "vectorbt/orders.csv": "vectorbt",
    "vectorbt_trades/trades.csv": "vectorbt",
    "zipline/positions.csv": "zipline",
    "zipline/returns.csv": "zipline",
    "zipline/transactions.csv": "zipline",
    "zipline_perf/perf.csv": "zipline",
    "finrl/account_value.csv": "finrl",
    "finrl_portfolio/returns.csv": "finrl",
    "ai_hedge_fund/backtest.json": "ai-hedge-fund",
    "ai_hedge_fund_v1/backtest.json": "ai-hedge-fund",
    "tradingagents/009005.SZ/TradingAgentsStrategy_logs/full_states_log_2025-03-17.json": (
        "tradingagents"
    ),
    "lean/result.json": "lean",
    "lean_events/backtest-order-events.json": "lean",
    "interactive_brokers/statement.csv": "interactive-brokers",
    "interactive_brokers_flex/flex.csv": "interactive-brokers",
    "alpaca/activities.json": "alpaca",
    "alpaca_orders/orders.json": "alpaca",
    "alpaca_table/activities.csv": "alpaca",
}
"""Files that a reader recognises by itself."""

UNNAMED = {
    "bt/values.csv": "bt",
    "bt_prices/prices.csv": "bt",
    "vectorbt/value.csv": "vectorbt",
    "finrl/actions.csv": "finrl",
    "finrl_portfolio/actions.csv": "finrl",
}
"""Files whose columns have no names of their own, so that the program has to be said."""

ALL_FILES = {**READERS_BY_FILE, **UNNAMED}


def declared(name: str, program: str = "", zone: str = "") -> Declared:
    """What a file or folder of `files/` declares, with the market's trading days."""
    sessions = tuple(bars("close").index)
    options = ReadOptions(program=program or None, zone=zone, sessions=sessions)
    return read_declared(FILES / name, options)


@cache
def bars(field: str) -> pd.DataFrame:
    """A field of the bars, days (yyyymmdd) by codes."""
    table = pd.read_csv(FILES / "market.csv")
    table["day"] = table["date"].str.replace("-", "").astype(int)
    return table.pivot(index="day", columns="code", values=field)
