"""Readers of other programs' backtest files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.fuzzing.fuzz_kit import Parser, of_file
from support.paths import REPOSITORY

FILES = REPOSITORY / "plugins/ktdeval_judge/tests/files"
_LOG = "tradingagents/009005.SZ/TradingAgentsStrategy_logs/full_states_log_2025-03-17.json"
_SEEDS: dict[str, tuple[str, ...]] = {
    "ai-hedge-fund": ("ai_hedge_fund_v1/backtest.json", "ai_hedge_fund/backtest.json"),
    "alpaca": ("alpaca/activities.json", "alpaca_orders/orders.json"),
    "backtrader": ("backtrader/orders.csv", "backtrader/returns.csv"),
    "bt": ("bt/transactions.csv", "bt/values.csv"),
    "finrl": ("finrl/actions.csv", "finrl/account_value.csv"),
    "interactive-brokers": ("interactive_brokers/statement.csv",
                            "interactive_brokers_flex/flex.csv"),
    "lean": ("lean/result.json", "lean_events/backtest-order-events.json"),
    "qlib": ("qlib/report.csv", "qlib/positions.csv", "qlib_parquet/report.parquet"),
    "tradingagents": (_LOG,),
    "vectorbt": ("vectorbt/orders.csv", "vectorbt_trades/trades.csv", "vectorbt/value.csv"),
    "zipline": ("zipline/transactions.csv", "zipline/positions.csv", "zipline/returns.csv"),
}  # fmt: skip


def program_file_parsers() -> dict[str, Parser]:
    """Return a parser for each reader, and one that chooses among them."""
    writer = FILES / "backtrader_writer/writer.csv"
    seeds = tuple(_start(FILES / names[0]) for names in _SEEDS.values())
    chosen = Parser(
        of_file(_read(None), "file.csv"),
        (*seeds, _start(writer)),
        ("ktdeval_judge/readers/programs.py", "ktdeval_judge/readers/program_forms.py"),
    )

    parsers = {"judged file": chosen}
    for program, names in _SEEDS.items():
        read = of_file(_read(program), "file.csv")
        files = tuple(_start(FILES / name) for name in names)
        parsers[f"judged file of {program}"] = Parser(read, files, ())

    return parsers


def _read(program: str | None) -> Callable[[Path], object]:
    from ktdeval_judge.readers import ReadOptions, read_declared

    return lambda path: read_declared(path, ReadOptions(program=program))


def _start(path: Path) -> bytes:
    """Return the first rows of a table, or the first members of the lists in a document."""
    data = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(_short(json.loads(data))).encode()
    if path.suffix == ".csv":
        return b"".join(data.splitlines(keepends=True)[:12])

    return data


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(item) for item in value[:3]]
    if not isinstance(value, dict):
        return value

    keys = [key for key in value if key != "Total Orders"]
    most = 3 if len(keys) > 25 else len(keys)  # orders by their number
    return {key: _short(value[key]) for key in keys[:most]}
