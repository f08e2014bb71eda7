"""Reader for DeepFund databases (SQLite), whose signals and decisions are tested for validity and
consistency by model.

A database is untrusted, so it is opened read-only, its views, triggers and virtual tables are
refused, and prompts are never read.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.errors import DataError
from ktdeval.harness import SIGNALS, Signal
from ktdeval.values import load_yaml, loads_untrusted
from ktdeval_arena.signal_decision_consistency import (
    ACTIONS,
    Action,
    AnalystSignal,
    SignalRecord,
    TickerDecision,
)

RULES = Path(__file__).with_name("replay.yaml")
MAX_ROWS = 1_000_000  #: row limit per table
_Row = dict[str, Any]  #: column -> value, from an untrusted database
_COLUMNS = {
    "config": ("id", "exp_name", "llm_model"),
    "portfolio": ("id", "config_id", "positions"),
    "decision": ("portfolio_id", "trading_date", "ticker", "action", "shares", "justification"),
    "signal": ("portfolio_id", "ticker", "analyst", "signal", "justification"),
}


def read_database(path: Path) -> SignalRecord:
    """Read a DeepFund database. Raises DataError if the file is not a readable SQLite database, a
    table or column is missing, or DeepFund does not use a value; the message names the table and
    row.
    """
    rows = _read_tables(path)
    defaults = load_yaml(RULES)["error_defaults"]
    configs = {row["id"]: (str(row["exp_name"]), str(row["llm_model"])) for row in rows["config"]}
    portfolios: dict[str, _Portfolio] = {}
    for number, row in enumerate(rows["portfolio"], 1):
        where = f"{path}: portfolio, row {number}"
        config = _allowed_value(row["config_id"], configs, f"{where}: config_id")
        portfolios[row["id"]] = _Portfolio(config, _holdings(row["positions"], where))

    opinions: list[AnalystSignal] = []
    signals: dict[tuple[str, str], list[Signal]] = defaultdict(list)
    for number, row in enumerate(rows["signal"], 1):
        where = f"{path}: signal, row {number}"
        portfolio = _allowed_value(row["portfolio_id"], portfolios, f"{where}: portfolio_id")
        signal = _allowed_value(row["signal"], SIGNALS, f"{where}: signal")
        ticker = str(row["ticker"])
        signals[portfolio, ticker].append(signal)
        opinions.append(
            AnalystSignal(
                config=portfolios[portfolio].config,
                portfolio=portfolio,
                ticker=ticker,
                analyst=str(row["analyst"]),
                signal=signal,
                # After an error, DeepFund also stores a signal, with one of these justifications.
                is_default=row["justification"] in defaults["signal"],
            )
        )

    decisions: list[TickerDecision] = []
    for number, row in enumerate(rows["decision"], 1):
        where = f"{path}: decision, row {number}"
        portfolio = _allowed_value(row["portfolio_id"], portfolios, f"{where}: portfolio_id")
        action: Action = _allowed_value(row["action"], ACTIONS, f"{where}: action")
        if type(row["shares"]) is not int:
            raise DataError(
                f"{where}: shares: expected a whole number, was {type(row['shares']).__name__}"
            )

        ticker = str(row["ticker"])
        decisions.append(
            TickerDecision(
                config=portfolios[portfolio].config,
                portfolio=portfolio,
                day=_day_of_stamp(row["trading_date"], f"{where}: trading_date"),
                ticker=ticker,
                action=action,
                shares=row["shares"],
                held=portfolios[portfolio].shares.get(ticker, 0.0),
                signals=tuple(signals[portfolio, ticker]),
                is_default=row["justification"] in defaults["decision"],
            )
        )

    return SignalRecord(configs, opinions, decisions)


@dataclass(frozen=True, slots=True)
class _Portfolio:
    """A portfolio in the database."""

    config: str
    shares: Mapping[str, float]  #: number of shares held, by ticker


def _day_of_stamp(stamp: object, where: str) -> str:
    """Return the day of a timestamp. Raises DataError unless the timestamp is a date or
    midnight.
    """
    day = str(stamp)[:10]
    midnight = str(stamp)[10:]
    if midnight.strip("T ") not in ("", "00:00:00", "00:00:00.000000"):
        expected = "expected a day such as 2025-03-03"
        raise DataError(f"{where}: {stamp!r} is a time within a day; {expected}")

    return day


def _read_tables(path: Path) -> dict[str, list[_Row]]:
    """Return the rows of the four tables, in file order."""
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; give a DeepFund database, such as its src/example/deepfund.db"
        )

    try:
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as base:
            base.execute("PRAGMA trusted_schema = OFF")
            base.row_factory = sqlite3.Row
            return {
                table: list(_table_rows(base, table, columns, path))
                for table, columns in _COLUMNS.items()
            }
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: not a readable SQLite database: {' '.join(str(error).split())}"
        ) from error


def _table_rows(
    base: sqlite3.Connection, table: str, columns: Sequence[str], path: Path
) -> Iterator[_Row]:
    definition = base.execute(
        "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)
    ).fetchone()
    if definition is None or not str(definition["sql"]).upper().startswith("CREATE TABLE"):
        raise DataError(
            f"{path}: no table {table}; give a DeepFund database, such as its"
            " src/example/deepfund.db"
        )

    present = {row["name"] for row in base.execute(f"PRAGMA table_info({table})")}
    missing = [name for name in columns if name not in present]
    if missing:
        raise DataError(
            f"{path}: table {table} has no column {', '.join(missing)}; it is not a DeepFund "
            f"database"
        )

    query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid"  # noqa: S608 - constants
    for number, row in enumerate(base.execute(query), 1):
        if number > MAX_ROWS:
            raise DataError(
                f"{path}: table {table} has more than {MAX_ROWS:,} rows; split the database"
            )

        yield dict(row)


def _allowed_value(value: Any, allowed: Any, where: str) -> Any:
    if not isinstance(value, str) or value not in allowed:
        expected = "an id from the database"
        if isinstance(allowed, tuple):
            expected = f"one of {', '.join(allowed)}"

        raise DataError(f"{where}: expected {expected}, was {str(value)[:40]!r}")
    return value


def _holdings(text: Any, where: str) -> dict[str, float]:
    """Return the shares held by ticker, from a portfolio's `positions`: {"TSLA": {"value": 0.0,
    "shares": 0}}.
    """
    try:
        positions: Any = loads_untrusted(text)
        held = {ticker: position["shares"] for ticker, position in positions.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{where}: positions: expected an object that maps tickers to shares"
        ) from error

    if any(type(shares) not in (int, float) for shares in held.values()):
        raise DataError(f"{where}: positions: shares must be a number")

    return {ticker: float(shares) for ticker, shares in held.items()}


def notes(of: str = "database") -> list[str]:
    """Return caveats about the figures for a `database` or a `run`."""
    rules = load_yaml(RULES)
    quoted: list[str] = []
    for kind, texts in rules["error_defaults"].items():
        quoted += [f'{kind} "{text}"' for text in texts]

    remarks = [*rules["notes"][of], *rules["notes"]["both"]]
    return [note.format(defaults="; ".join(quoted)) for note in remarks]
