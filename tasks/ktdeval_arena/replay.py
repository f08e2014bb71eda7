"""Reader of a database of DeepFund (SQLite): validity of signals and decisions, and their consistency, by model.

A database is untrusted: it is opened read-only, its views, triggers and virtual tables are refused, and prompts are not read.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.errors import DataError
from ktdeval.jsonio import loads_untrusted
from ktdeval.yamlio import load_yaml
from ktdeval_arena.consistency import ACTIONS, SIGNALS, Action, Signal, is_consistent, share

RULES = Path(__file__).with_name("replay.yaml")
MOST_ROWS = 1_000_000  #: of one table
_COLUMNS = {
    "config": ("id", "exp_name", "llm_model"),
    "portfolio": ("id", "config_id", "positions"),
    "decision": ("portfolio_id", "trading_date", "ticker", "action", "shares", "justification"),
    "signal": ("portfolio_id", "ticker", "analyst", "signal", "justification"),
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Opinion:
    """Signal of one analyst on one ticker. `is_default`: it stands for a reply that could not be had or read."""

    config: str
    portfolio: str
    ticker: str
    analyst: str
    signal: Signal
    is_default: bool


@dataclass(frozen=True)
class Decided:
    """Decision on one ticker, with the signals it was made on. `held`: shares before it, exact for a Hold (`replay.yaml`)."""

    config: str
    portfolio: str
    day: str
    ticker: str
    action: Action
    shares: int
    held: float
    signals: tuple[Signal, ...]
    is_default: bool


@dataclass(frozen=True)
class Replay:
    """What a database tells. `configs`: experiment and model by id, in the order of the file."""

    configs: Mapping[str, tuple[str, str]]
    opinions: Sequence[Opinion]
    decisions: Sequence[Decided]


def read_database(path: Path) -> Replay:
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
    return Replay(configs, opinions, decisions)


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
    found = base.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone()
    if found is None or not str(found["sql"]).upper().startswith("CREATE TABLE"):
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
        told = f"one of {', '.join(allowed)}" if isinstance(allowed, tuple) else "an id of the database"
        raise DataError(f"{where}: expected {told}, was {str(value)[:40]!r}")
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


def summary_rows(replay: Replay) -> list[Row]:
    """One row for the whole database, then one a config: counts; validity and consistency as fractions, None of nothing."""
    rows = [_summary("all", "all", replay.opinions, replay.decisions)]
    for key, (experiment, model) in replay.configs.items():
        opinions = [one for one in replay.opinions if one.config == key]
        rows.append(_summary(experiment, model, opinions, [one for one in replay.decisions if one.config == key]))
    return rows


def _summary(experiment: str, model: str, opinions: Sequence[Opinion], decisions: Sequence[Decided]) -> Row:
    strict = [is_consistent(one.signals, one.action, one.held) for one in decisions]
    lenient = [is_consistent(one.signals, one.action, one.held, accepts_empty=True) for one in decisions]
    return {
        "experiment": experiment,
        "model": model,
        "signals": len(opinions),
        "signal_errors": sum(one.is_default for one in opinions),
        "signal_validity": share([not one.is_default for one in opinions]),
        "decisions": len(decisions),
        "decision_errors": sum(one.is_default for one in decisions),
        "decision_validity": share([not one.is_default for one in decisions]),
        "judged": sum(flag is not None for flag in strict),
        "consistent": sum(flag is True for flag in strict),
        "consistency": share(strict),
        "consistent_held": sum(flag is True for flag in lenient),
        "consistency_held": share(lenient),
        **_counts([one.action for one in decisions], ACTIONS),
        **_counts([one.signal for one in opinions], SIGNALS),
    }


def analyst_rows(replay: Replay) -> list[Row]:
    """One row an analyst, all models together: counts of its signals, and of those that are defaults after an error."""
    rows = []
    for analyst in sorted({one.analyst for one in replay.opinions}):
        own = [one for one in replay.opinions if one.analyst == analyst]
        errors = sum(one.is_default for one in own)
        rows.append({"analyst": analyst, "signals": len(own), "errors": errors, **_counts([one.signal for one in own], SIGNALS)})
    return rows


def decision_rows(replay: Replay) -> list[Row]:
    """One row a decision, in the order of the file: its signals, what they call for, and whether it follows them by both rules."""
    return [
        {
            "experiment": replay.configs[one.config][0],
            "model": replay.configs[one.config][1],
            "day": one.day,
            "ticker": one.ticker,
            **_counts(one.signals, SIGNALS),
            "action": one.action,
            "shares": one.shares,
            "held": one.held if one.action == "Hold" else None,
            "consistent": is_consistent(one.signals, one.action, one.held),
            "consistent_held": is_consistent(one.signals, one.action, one.held, accepts_empty=True),
        }
        for one in replay.decisions
    ]


def notes() -> list[str]:
    """What a reader must know of the figures."""
    rules = load_yaml(RULES)
    quoted = "; ".join(f'{kind} "{text}"' for kind, texts in rules["error_defaults"].items() for text in texts)
    return [note.format(defaults=quoted) for note in rules["notes"]]


def _counts(values: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    counted = Counter(values)
    return {name: counted[name] for name in names}
