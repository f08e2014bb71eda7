"""Reader of a database of DeepFund (SQLite): validity of signals and decisions, and their consistency, by model.

A database is untrusted: it is opened read-only, its views, triggers and virtual tables are refused, and prompts are not read.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from ktdeval.errors import DataError
from ktdeval.harness import SIGNALS
from ktdeval.jsonio import loads_untrusted
from ktdeval.yamlio import load_yaml
from ktdeval_arena.consistency import ACTIONS, Action, Decided, Opinion, Record, Row

RULES = Path(__file__).with_name("replay.yaml")
MOST_ROWS = 1_000_000  #: of one table
_COLUMNS = {
    "config": ("id", "exp_name", "llm_model"),
    "portfolio": ("id", "config_id", "positions"),
    "decision": ("portfolio_id", "trading_date", "ticker", "action", "shares", "justification"),
    "signal": ("portfolio_id", "ticker", "analyst", "signal", "justification"),
}


def read_database(path: Path) -> Record:
    """Read a database of DeepFund. Raises DataError: no readable SQLite file, a table or column is missing, or a value is not one
    of DeepFund's, with table and row.
    """
    rows = _read(path)
    defaults = load_yaml(RULES)["error_defaults"]
    configs = {row["id"]: (str(row["exp_name"]), str(row["llm_model"])) for row in rows["config"]}
    owner, held = {row["id"]: row["config_id"] for row in rows["portfolio"]}, {}
    for number, row in enumerate(rows["portfolio"], 1):
        where = f"{path}: portfolio, row {number}"
        _known(row["config_id"], configs, f"{where}: config_id")
        held[row["id"]] = _holdings(row["positions"], where)
    opinions, decisions, heard = [], [], defaultdict(list)
    for number, row in enumerate(rows["signal"], 1):
        where = f"{path}: signal, row {number}"
        portfolio = _known(row["portfolio_id"], owner, f"{where}: portfolio_id")
        signal = _known(row["signal"], SIGNALS, f"{where}: signal")
        ticker, failed = str(row["ticker"]), row["justification"] in defaults["signal"]
        opinions.append(Opinion(owner[portfolio], portfolio, ticker, str(row["analyst"]), signal, failed))
        heard[portfolio, ticker].append(signal)
    for number, row in enumerate(rows["decision"], 1):
        where, ticker = f"{path}: decision, row {number}", str(row["ticker"])
        portfolio = _known(row["portfolio_id"], owner, f"{where}: portfolio_id")
        action: Action = _known(row["action"], ACTIONS, f"{where}: action")
        if type(row["shares"]) is not int:
            raise DataError(f"{where}: shares: expected a whole number, was {type(row['shares']).__name__}")
        signals, failed = tuple(heard[portfolio, ticker]), row["justification"] in defaults["decision"]
        day, before = str(row["trading_date"])[:10], held[portfolio].get(ticker, 0.0)
        decisions.append(Decided(owner[portfolio], portfolio, day, ticker, action, row["shares"], before, signals, failed))
    return Record(configs, opinions, decisions)


def _read(path: Path) -> dict[str, list[Row]]:
    """Rows of the four tables, in the order of the file."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a database of DeepFund, such as its src/example/deepfund.db")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as base:
            base.execute("PRAGMA trusted_schema = OFF")
            base.row_factory = sqlite3.Row
            return {table: list(_rows(base, table, columns, path)) for table, columns in _COLUMNS.items()}
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable SQLite database: {' '.join(str(error).split())}") from error


def _rows(base: sqlite3.Connection, table: str, columns: Sequence[str], path: Path) -> Iterator[Row]:
    definition = base.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    if definition is None or not str(definition["sql"]).upper().startswith("CREATE TABLE"):
        raise DataError(f"{path}: no table {table}; give a database of DeepFund, such as its src/example/deepfund.db")
    present = {row["name"] for row in base.execute(f"PRAGMA table_info({table})")}
    if missing := [name for name in columns if name not in present]:
        raise DataError(f"{path}: table {table} has no column {', '.join(missing)}; it is not of DeepFund")
    for number, row in enumerate(base.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid"), 1):  # noqa: S608 - constants
        if number > MOST_ROWS:
            raise DataError(f"{path}: table {table} has more than {MOST_ROWS:,} rows; split the database")
        yield dict(row)


def _known(value: Any, allowed: Any, where: str) -> Any:
    if not isinstance(value, str) or value not in allowed:
        expected = f"one of {', '.join(allowed)}" if isinstance(allowed, tuple) else "an id of the database"
        raise DataError(f"{where}: expected {expected}, was {str(value)[:40]!r}")
    return value


def _holdings(text: Any, where: str) -> dict[str, float]:
    """Shares held by ticker, of a portfolio's `positions`: {"TSLA": {"value": 0.0, "shares": 0}}."""
    try:
        positions: Any = loads_untrusted(text)
        held = {ticker: position["shares"] for ticker, position in positions.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(f"{where}: positions: expected an object of tickers, each with its shares") from error
    if any(type(shares) not in (int, float) for shares in held.values()):
        raise DataError(f"{where}: positions: shares are a number")
    return {ticker: float(shares) for ticker, shares in held.items()}


def notes(of: str = "database") -> list[str]:
    """Return remarks on the figures of a `database` or of a `run`."""
    rules = load_yaml(RULES)
    quoted = "; ".join(f'{kind} "{text}"' for kind, texts in rules["error_defaults"].items() for text in texts)
    return [note.format(defaults=quoted) for note in (*rules["notes"][of], *rules["notes"]["both"])]
