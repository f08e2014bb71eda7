"""Replay of DeepFund's public database: its figures, rules of consistency by hand, and files that are no such database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError
from ktdeval.harness import SIGNALS
from ktdeval_arena.consistency import (
    ACTIONS,
    Action,
    Signal,
    analyst_rows,
    decision_rows,
    dominant,
    is_consistent,
    share,
    summary_rows,
)
from ktdeval_arena.replay import notes, read_database
from searching import examples
from tables import beside, on_each_row
from terminal import Terminal

COLUMNS, ROWS = (beside(__file__)[name] for name in ("columns", "rows"))


def database(path: Path, **rows: list[tuple[Any, ...]]) -> Path:
    """A database of one decision, with the rows of some tables replaced; None: without that table."""
    with closing(sqlite3.connect(path)) as base:
        for table, content in {**ROWS, **rows}.items():
            if content is not None:
                base.execute(f"CREATE TABLE {table} ({COLUMNS[table]})")
                base.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(COLUMNS[table].split(', ')))})", content)
        base.commit()
    return path


@on_each_row
def test_a_decision_follows_its_signals(
    signals: tuple[Signal, ...], action: Action, held: float, strict: bool | None, lenient: bool | None
) -> None:
    assert is_consistent(signals, action, held) is strict
    assert is_consistent(signals, action, held, accepts_empty=True) is lenient


@examples(40)
@given(st.lists(st.sampled_from(SIGNALS), min_size=1), st.randoms(use_true_random=False))
def test_signals_call_for_one_action_in_any_order_and_the_held_rule_adds_only_holds(signals: list[Signal], rng: Any) -> None:
    mixed = rng.sample(signals, len(signals))
    assert dominant(mixed) == dominant(signals)
    for held in (0.0, 1.0):
        follows = {action for action in ACTIONS if is_consistent(signals, action, held)}
        accepted = {action for action in ACTIONS if is_consistent(signals, action, held, accepts_empty=True)}
        assert len(follows) == 1
        assert accepted - follows == ({"Hold"} if dominant(signals) == "Bearish" and held == 0 else set())


def test_shares_leave_out_what_is_not_judged() -> None:
    assert share([True, None, False, False]) == pytest.approx(1 / 3)
    assert share([None]) is None


def test_the_public_database_has_the_figures_told_of_it(shared_data: Path, terminal: Terminal) -> None:
    path = shared_data / "deepfund" / "deepfund.db"
    record = read_database(path)
    whole, *models = summary_rows(record)
    told = ("signals", "signal_errors", "decisions", "decision_errors", "judged", "consistent", "consistent_held")
    assert [whole[name] for name in told] == [105, 20, 24, 0, 24, 5, 17]
    assert f"{100 * whole['signal_validity']:.1f}" == "81.0"
    assert [whole[name] for name in (*SIGNALS, *ACTIONS)] == [12, 57, 36, 8, 0, 16]
    assert len(models) == 6
    assert {name: sum(row[name] for row in models) for name in told} == {name: whole[name] for name in told}
    analysts = analyst_rows(record)
    assert {row["analyst"]: row["signals"] for row in analysts} == {
        "company_news": 38,
        "insider": 29,
        "policy": 12,
        "technical": 26,
    }
    assert sum(row["errors"] for row in analysts) == 20
    # Counted once more, by SQL alone.
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as base:
        errors = "SELECT count(*) FROM signal WHERE justification LIKE '%due to error'"
        bulls = "SELECT sum(s.signal = ?) FROM signal s WHERE s.portfolio_id = d.portfolio_id AND s.ticker = d.ticker"
        plural = [f"({bulls})".replace("?", f"'{name}'") for name in SIGNALS]
        rows = base.execute(f"SELECT d.action, {', '.join(plural)} FROM decision d ORDER BY d.rowid").fetchall()
        assert base.execute(errors).fetchone() == (20,)
    follows = [
        {"Buy": bull > max(bear, flat), "Sell": bear > max(bull, flat)}.get(action, max(bull, bear) <= flat or bull == bear)
        for action, bull, bear, flat in rows
    ]
    assert follows == [row["consistent"] for row in decision_rows(record)]
    text = terminal.out("deepfund", "replay", path, "--decisions")
    assert all(
        told in text for told in ("105", "81.0 %", "5 of 24", "17 of 24", "100.0 %", "No justification provided due to error")
    )
    assert json.loads(terminal.out("deepfund", "replay", path, "--json"))["models"][0] == whole


def test_a_default_is_told_by_its_whole_text(tmp_path: Path) -> None:
    more = ("p", "AAA", "policy", "Neutral", "It is Neutral. No justification provided due to error in the feed.")
    (whole, row) = summary_rows(read_database(database(tmp_path / "a.db", signal=[*ROWS["signal"], more])))
    assert (whole["signal_errors"], whole["decision_errors"], whole["signal_validity"]) == (1, 1, pytest.approx(2 / 3))
    assert {**row, "experiment": "all", "model": "all"} == whole
    empty = read_database(database(tmp_path / "b.db", signal=[], decision=[], config=[], portfolio=[]))
    assert [summary_rows(empty)[0][name] for name in ("signal_validity", "decision_validity", "consistency")] == [None] * 3
    assert "Just hold due to error" in notes()[0]


@on_each_row
def test_what_is_no_database_of_deepfund_is_one_line(rows: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_database(database(tmp_path / "a.db", **rows))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_files_of_another_kind_and_schemas_that_run_are_refused(tmp_path: Path) -> None:
    text, missing, viewed, bare = (tmp_path / name for name in ("a.txt", "no.db", "view.db", "bare.db"))
    text.write_text("no database " * 100)
    with closing(sqlite3.connect(database(viewed, signal=None))) as base:  # type: ignore[arg-type]
        base.execute("CREATE VIEW signal AS SELECT 'p' portfolio_id, 'AAA' ticker, 'x' analyst, 'Neutral' signal, '' justification")
        base.commit()
    with closing(sqlite3.connect(bare)) as base:
        base.execute("CREATE TABLE config (id)")
        base.commit()
    cases = {text: "not a readable SQLite database", missing: "no such file", viewed: "no table signal", bare: "no column exp_name"}
    cases[database(tmp_path / "bytes.db", portfolio=[("p", "c", b"\xff")])] = (
        "portfolio, row 1: positions: expected an object of tickers"
    )
    for path, told in cases.items():
        with pytest.raises(DataError, match=told):
            read_database(path)
    assert not missing.exists()
