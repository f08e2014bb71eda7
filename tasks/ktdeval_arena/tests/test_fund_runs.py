"""Signals, decisions, results and weekly figures of runs and of DeepFund's public database, checked
by hand; files that are not valid databases.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.cli.main import main
from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval.harness import SIGNAL_FORM, SIGNALS, TranscriptEntry
from ktdeval.testing import Terminal, on_each_row, snapshot_of_days
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.values import to_plain
from ktdeval_arena import deepfund_database, deepfund_runs, signal_decision_consistency
from ktdeval_arena.deepfund_database import notes, read_database
from ktdeval_arena.deepfund_runs import EpisodeGroup, read_groups, read_record
from ktdeval_arena.signal_decision_consistency import (
    ACTIONS,
    Action,
    AnalystSignal,
    Signal,
    SignalRecord,
    TickerDecision,
    dominant,
    is_consistent,
    share,
)
from support.figures.metric_cases import order
from support.searching import examples
from support.tables import beside


def summary_rows(record: SignalRecord) -> Any:
    return to_plain(signal_decision_consistency.summary_rows(record))


def analyst_rows(record: SignalRecord) -> Any:
    return to_plain(signal_decision_consistency.analyst_rows(record))


def decision_rows(record: SignalRecord) -> Any:
    return to_plain(signal_decision_consistency.decision_rows(record))


def result_rows(groups: Any, markets: Any) -> Any:
    return to_plain(deepfund_runs.result_rows(groups, markets))


def weekly_rows(groups: Any) -> Any:
    return to_plain(deepfund_runs.weekly_rows(groups))


SPEC: Any = SimpleNamespace(id="e", window_name="live", seed=1)
MARKET = snapshot_of_days(
    ("AAA", "BBB"), [[10.0, 5.0], [12.0, 5.0], [11.0, 6.0], [11.0, 4.0], [12.0, 4.0]]
)


def exchange(
    role: str, answer: str | None, held: float, system: str = SIGNAL_FORM
) -> dict[str, Any]:
    """A call of a role that is shown three assets, of which asset_1 may be held."""
    positions = {"columns": ["stock_id", "shares"], "rows": [["asset_1", held]] if held else []}
    candidates = {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"], ["asset_3"]]}
    shown = f"```json\n{json.dumps({'positions': positions, 'candidates': candidates})}\n```"
    sent = [{"role": "system", "content": system}, {"role": "user", "content": shown}]
    done = (
        {"error": "timeout"}
        if answer is None
        else {"reply": {"content": answer, "finish_reason": "stop"}}
    )

    return {"role": role, "kept": 0, "sent": sent, **done}


def talk(
    step: int, held: float, news: str | None, macro: str | None, submission: Any
) -> TranscriptEntry:
    calls = (
        exchange("planner", "", held, "Choose."),
        exchange("news", news, held),
        exchange("macro", macro, held),
    )
    return TranscriptEntry(
        step=step,
        exchanges=calls,
        submission=submission if submission is None else json.dumps(submission),
    )


def says(**signals: str) -> str:
    return json.dumps(signals)


def asks(*orders: tuple[str, str]) -> dict[str, Any]:
    return {"orders": [{"stock_id": label, "side": side} for label, side in orders]}


TALKS = [
    # AAA is Bullish by both and bought: consistent. BBB is mixed and sold: not. asset_3: Bearish,
    # no order, not held.
    talk(
        0,
        0,
        says(asset_1="Bullish", asset_2="Bullish", OTHERS="Bearish"),
        says(asset_1="Bullish", OTHERS="Bearish"),
        asks(("ASSET_1", "BUY"), ("asset_2", "SELL")),
    ),
    # macro can't be read: three invalid signals, and news alone is dominant. AAA is Bearish, held
    # and kept: not consistent.
    talk(1, 5, says(asset_1="Bearish", OTHERS="Neutral"), "Neutral, I think.", asks()),
    # Both calls failed: no decision has signals to follow. The order is rejected, and a decision
    # all the same.
    talk(2, 5, None, None, asks(("asset_1", "SELL"))),
    # No valid submission: three Holds by default, which are no decisions, whatever the signals.
    talk(3, 5, says(OTHERS="Bullish"), says(OTHERS="Bullish"), None),
]
STEPS = [
    step_record(
        MARKET, 0, 1, orders=[order("AAA", "BUY", filled=5), order("BBB", "SELL", filled=2)]
    ),
    step_record(MARKET, 1, 2),
    step_record(MARKET, 2, 3, orders=[order("AAA", "SELL", filled=0)]),
    step_record(MARKET, 3, 4, provenance="fallback"),
]


def group(talks: Sequence[TranscriptEntry] = TALKS, steps: Any = STEPS) -> EpisodeGroup:
    folder: Any = SimpleNamespace(
        path=Path("run"),
        episode_path=lambda _: Path("run/e"),
        card_path=lambda _: Path("run/none.json"),
        load_transcript=lambda _: talks,
        load_ledger=lambda _: ledger_of(steps),
    )
    return EpisodeGroup(folder, "task", "task", "model · deepfund", [SPEC])


def test_signals_and_decisions_of_a_run_by_hand() -> None:
    record = read_record([group()])
    whole, row = summary_rows(record)

    assert {**row, "experiment": "all", "model": "all"} == whole
    assert (row["experiment"], row["model"]) == ("task", "model · deepfund")
    assert (row["signals"], row["signal_errors"], row["signal_validity"]) == (24, 9, 15 / 24)
    assert [row[name] for name in ("Bullish", "Bearish", "Neutral")] == [3 + 6, 3 + 1, 2]
    assert (row["decisions"], row["decision_errors"], row["decision_validity"]) == (12, 3, 0.75)
    assert [row[name] for name in ("Buy", "Sell", "Hold")] == [1, 2, 6]
    assert (row["judged"], row["consistent"], row["consistent_held"]) == (6, 1 + 2, 1 + 1 + 2)

    analysts = []

    for one in analyst_rows(record):
        by_signal = [one[name] for name in SIGNALS]
        analysts.append((one["analyst"], one["signals"], one["errors"], by_signal))

    assert analysts == [("macro", 12, 6, [4, 2, 0]), ("news", 12, 3, [5, 2, 2])]

    made = decision_rows(record)
    rows = [
        (one["ticker"], one["action"], one["shares"], one["consistent"], one["consistent_held"])
        for one in made
    ]

    assert rows == [
        ("AAA", "Buy", 5, True, True),
        ("BBB", "Sell", 2, False, False),
        ("asset_3", "Hold", 0, False, True),
        ("AAA", "Hold", 0, False, False),
        ("BBB", "Hold", 0, True, True),
        ("asset_3", "Hold", 0, True, True),
        ("AAA", "Sell", 0, None, None),
        ("BBB", "Hold", 0, None, None),
        ("asset_3", "Hold", 0, None, None),
        *[(name, "Hold", 0, None, None) for name in ("AAA", "BBB", "asset_3")],
    ]
    assert [one["is_valid"] for one in made] == [True] * 9 + [False] * 3
    assert [[one[name] for name in SIGNALS] for one in made] == [
        [2, 0, 0], [1, 1, 0], [0, 2, 0],
        [0, 1, 0], [0, 0, 1], [0, 0, 1],
        *[[0, 0, 0]] * 3,
        *[[2, 0, 0]] * 3,
    ]  # fmt: skip
    assert {(one["experiment"], one["model"]) for one in made} == {("task", "model · deepfund")}
    assert [one["day"] for one in made] == [
        *["1970-01-01"] * 3,
        *["1970-01-02"] * 3,
        *["1970-01-03"] * 3,
        *["1970-01-04"] * 3,
    ]
    assert [one["held"] for one in made if one["ticker"] == "AAA" and one["action"] == "Hold"] == [
        5.0,
        5.0,
    ]
    assert {one["portfolio"] for one in made} == {"live seed 1"}


def test_analysts_are_listed_by_name_and_each_run_has_its_own_row() -> None:
    """Two runs of one task: a first of two decisions and seven analysts, and a second whose model
    says nothing.
    """
    names = ("zeta", "alpha", "mu", "kappa", "beta", "omega", "gamma")
    opinions = [AnalystSignal("0", "p", "AAA", name, "Bullish", False) for name in names]
    decisions = [
        TickerDecision("1", "q", "2025-04-01", "AAA", "Buy", 1.0, 0.0, ("Bearish",), False)
    ]
    record = SignalRecord({"0": ("first", "m"), "1": ("second", "n")}, opinions, decisions)

    assert [row["analyst"] for row in analyst_rows(record)] == sorted(names)

    _, first, second = summary_rows(record)
    assert (first["signals"], first["decisions"], first["consistency"]) == (7, 0, None)
    assert (
        second["signals"],
        second["signal_validity"],
        second["decisions"],
        second["consistency"],
    ) == (0, None, 1, 0.0)

    (row,) = decision_rows(record)
    assert (row["experiment"], row["model"], row["portfolio"], row["held"]) == (
        "second",
        "n",
        "q",
        None,
    )


def test_a_submission_without_assets_is_not_a_decision_but_stances_are() -> None:
    voted = read_record(
        [group([talk(0, 0, says(OTHERS="Bullish"), "", None)], [step_record(MARKET, 0, 1)])]
    )

    assert (len(voted.opinions), len(voted.decisions)) == (6, 0)

    stances = {
        "decisions": [
            {"stock_id": "asset_1", "decision": "BUY"},
            {"stock_id": "asset_2", "decision": "HOLD"},
        ]
    }
    record = read_record(
        [group([talk(0, 0, says(OTHERS="Bullish"), says(), stances)], [step_record(MARKET, 0, 1)])]
    )

    assert [decision.action for decision in record.decisions] == ["Buy", "Hold", "Hold"]

    odd = read_record([group([talk(0, 0, "", "", {"orders": 5})], [step_record(MARKET, 0, 1)])])
    assert [one.action for one in odd.decisions] == ["Hold"] * 3

    with pytest.raises(StoreError, match="4 steps in the ledger, but 1 in the transcript"):
        read_record([group(TALKS[:1])])


def test_effective_decisions_by_side() -> None:
    # From day 1 to day 2 AAA goes from 12 to 11 and BBB from 5 to 6; from day 2 to day 3 AAA stays.
    first = [
        order("AAA", "BUY", filled=5),
        order("AAA", "SELL", filled=1),
        order("BBB", "BUY", filled=2),
        order("BBB", "BUY", filled=0),
        order(None, "BUY", filled=0),
    ]
    steps = [
        step_record(MARKET, 0, 1, orders=first),
        step_record(MARKET, 1, 2, orders=[order("AAA", "SELL", filled=4)]),
    ]
    (row,) = result_rows([group(steps=steps)], {Path("run"): MARKET})

    assert [row[name] for name in ("buys", "effective_buys", "sells", "effective_sells")] == [
        2,
        1,
        2,
        1,
    ]
    assert row["return_per_usd"] is None

    (row,) = result_rows([group()], {Path("run"): "gone"})
    assert row["buys"] is None


def weeks_of(
    navs: Sequence[Sequence[float]], days: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    """Rows of one group of seeds with these NAVs, the first of which is the cash at the start, on
    these days.
    """
    ledgers = [
        SimpleNamespace(nav=np.array(nav), days=np.array(own, "datetime64[D]"))
        for nav, own in zip(navs, days, strict=True)
    ]
    specs = [SimpleNamespace(window_name="live", number=number) for number in range(len(navs))]
    folder: Any = SimpleNamespace(path=Path("run"), load_ledger=lambda spec: ledgers[spec.number])

    return weekly_rows([EpisodeGroup(folder, "task", "task", "m", specs)])  # type: ignore[arg-type]


def test_weeks_end_on_sundays_with_the_mean_of_the_seeds() -> None:
    """Friday, Monday, Wednesday, Sunday, Monday. By hand, for the first and the second seed:
    returns in the weeks 0.2 and 0, then 21/120 and 0.21, then -20/141 and 20/101 of Sunday's NAV;
    drawdowns 0 and 0, then 22/120 and 0, then the same.
    """
    days = ["2025-04-04", "2025-04-07", "2025-04-09", "2025-04-13", "2025-04-14"]
    rows = weeks_of(
        [[100.0, 120, 98, 100, 141, 121], [100.0, 100, 100, 100, 101, 121]], [days, days]
    )

    assert [(row["week"], row["seeds"], row["nav"]) for row in rows] == [
        ("2025-04-06", 2, 110),
        ("2025-04-13", 2, 121),
        ("2025-04-20", 2, 121),
    ]
    assert [row["total_return"] for row in rows] == pytest.approx([0.1, 0.21, 0.21])
    assert [row["week_return"] for row in rows] == pytest.approx(
        [0.1, (21 / 120 + 0.01) / 2, (-20 / 141 + 20 / 101) / 2]
    )
    assert [row["max_drawdown"] for row in rows] == pytest.approx([0.0, 11 / 120, 11 / 120])

    with pytest.raises(UsageError, match="seeds cover different days"):
        weeks_of([[100.0, 100], [100.0, 100]], [["2025-04-04"], ["2025-04-07"]])


def test_drawdown_over_seeds_is_not_that_of_their_mean_nav() -> None:
    """One seed halves and recovers, then the other halves: each has a drawdown of 50 %, and their
    mean NAV one of 25 %.
    """
    days = ["2025-04-07", "2025-04-08", "2025-04-09"]
    rows = weeks_of([[100.0, 50, 100, 100], [100.0, 100, 100, 50]], [days, days])

    assert [(row["nav"], row["max_drawdown"]) for row in rows] == [(75.0, 0.5)]


@pytest.mark.exhaustive
def test_a_run_of_the_team_is_reported(tmp_path: Path, terminal: Terminal) -> None:
    run = tmp_path / "run"
    rows = [
        "--plugin",
        "support.runs.run_plugin",
        "--model",
        "test/member",
        "--agent",
        "deepfund",
        "--limit",
        "3",
        "--price",
        "input=3",
    ]
    rows += [
        "--tasks",
        "deepfund_berkshire",
        "--data",
        "synthetic_deepfund",
        "--price",
        "output=15",
        "--out",
        str(run),
    ]

    assert main([*rows, "--quiet"]) == 0

    models, analysts, decisions, results = (
        rows_of(terminal, f"deepfund-{name}", run)
        for name in ("consistency", "signals", "decisions", "effectiveness")
    )
    whole = models[0]
    card = json.loads((run / "cards/deepfund_berkshire.json").read_text())

    assert (
        whole["decisions"],
        whole["decision_errors"],
        whole["Buy"] + whole["Sell"] + whole["Hold"],
    ) == (15, 0, 15)
    assert whole["signals"] == sum(row["signals"] for row in analysts[len(models) :]) > 0
    assert [row["signals"] for row in analysts[: len(models)]] == [row["signals"] for row in models]
    assert whole["Buy"] + whole["Sell"] == card["orders"]["submitted"]

    (result,) = results
    judged = card["episodes"][0]["metrics"]["df_effectiveness"]

    assert result["buys"] + result["sells"] == judged["n"]
    assert sum(result[f"effective_{name}"] or 0 for name in ("buys", "sells")) / judged[
        "n"
    ] == pytest.approx(judged["value"])
    assert result["total_return"] / result["usd"] == pytest.approx(result["return_per_usd"])
    assert result["total_return"] == card["metrics"]["total_return"]["value"]
    assert result["usd"] == card["cost"]["per_episode"]["value"]
    assert (whole["experiment"], models[1]["experiment"]) == ("all", "deepfund_berkshire")
    assert (result["experiment"], result["model"]) == (
        "deepfund_berkshire",
        "test/member · deepfund",
    )
    assert f"{whole['consistent']} of {whole['judged']}" in terminal.out(
        "paper", "table", run, "--like", "deepfund-consistency"
    )

    heads, *listed = terminal.out(
        "paper", "table", run, "--like", "deepfund-decisions", "--format", "csv"
    ).splitlines()

    assert heads.split(",") == list(decisions[0])
    assert [line.split(",")[3:5] for line in listed] == [
        [row["day"], row["ticker"]] for row in decisions
    ]
    assert len(listed) == 15

    (path,) = (run / "cards").glob("*.json")
    weeks = rows_of(terminal, "deepfund-4", run)
    shown = {
        "deepfund-4": "{nav:,.2f}",
        "deepfund-4-cr": "{total_return:+.2%}",
        "deepfund-4-week": "{week_return:+.2%}",
        "deepfund-4-mdd": "{max_drawdown:.2%}",
    }

    for figure, form in shown.items():
        rows = (
            terminal.text("paper", "table", path, "--like", figure).replace(" %", "%").splitlines()
        )
        assert rows[-1] == "  1  test/member · deepfund · deepfund_berkshire · live"
        assert rows[1].split() == ["week", "to", "1"]
        assert [line.split() for line in rows[2:-1]] == [
            [row["week"], form.format(**row)] for row in weeks
        ]

    assert [row["week"] for row in weeks] == ["2025-03-23"]

    lines = terminal.out(
        "paper", "table", run, "--like", "deepfund-4", "--format", "csv"
    ).splitlines()
    assert float(lines[-1].split(",")[6]) == pytest.approx(
        card["metrics"]["total_return"]["value"], rel=1e-9
    )
    assert [one.experiment for one in read_groups([run, path])] == ["deepfund_berkshire"]

    other = Path(shutil.copytree(run, tmp_path / "other" / "run"))
    named = terminal.out("paper", "table", run, other, "--like", "deepfund-4")

    assert [
        f"{number}  test/member · deepfund · deepfund_berkshire · {folder} · live" in named
        for number, folder in ((1, run), (2, other))
    ] == [True, True]
    assert "no run here" in terminal.error(
        "paper", "table", tmp_path, "--like", "deepfund-consistency"
    )


# ---- DeepFund's public database


COLUMNS, ROWS = (beside(__file__)[name] for name in ("columns", "rows"))


def database(path: Path, **rows: list[tuple[Any, ...]]) -> Path:
    """A database of one decision, with the rows of some tables replaced; None: without that
    table.
    """
    with closing(sqlite3.connect(path)) as base:
        for table, content in {**ROWS, **rows}.items():
            if content is not None:
                base.execute(f"CREATE TABLE {table} ({COLUMNS[table]})")
                base.executemany(
                    f"INSERT INTO {table} VALUES"
                    f" ({','.join('?' * len(COLUMNS[table].split(', ')))})",
                    content,
                )

        base.commit()

    return path


@on_each_row(
    "signals, action, held, strict, lenient",
    (["Bullish", "Bullish", "Bearish"], "Buy", 0, True, True),
    (["Bullish", "Bullish", "Bearish"], "Hold", 0, False, False),
    (["Bearish", "Neutral", "Bearish"], "Sell", 3, True, True),
    # it could have been sold
    (["Bearish", "Neutral", "Bearish"], "Hold", 3, False, False),
    (["Bearish", "Neutral", "Bearish"], "Hold", 0, False, True),
    (["Bearish"], "Buy", 0, False, False),
    (["Neutral", "Neutral", "Bullish"], "Hold", 0, True, True),
    # mixed
    (["Bullish", "Bearish", "Neutral"], "Hold", 5, True, True),
    # two are dominant, so none is
    (["Bullish", "Bullish", "Bearish", "Bearish", "Neutral"], "Buy", 0, False, False),
    ([], "Hold", 0, None, None),
)
def test_a_decision_follows_its_signals(
    signals: tuple[Signal, ...],
    action: Action,
    held: float,
    strict: bool | None,
    lenient: bool | None,
) -> None:
    assert is_consistent(signals, action, held) is strict
    assert is_consistent(signals, action, held, accepts_empty=True) is lenient


@examples(40)
@given(st.lists(st.sampled_from(SIGNALS), min_size=1), st.randoms(use_true_random=False))
def test_signals_call_for_one_action_in_any_order(signals: list[Signal], rng: Any) -> None:
    mixed = rng.sample(signals, len(signals))
    assert dominant(mixed) == dominant(signals)

    for held in (0.0, 1.0):
        follows = {action for action in ACTIONS if is_consistent(signals, action, held)}
        accepted = {
            action for action in ACTIONS if is_consistent(signals, action, held, accepts_empty=True)
        }
        assert len(follows) == 1
        assert accepted - follows == (
            {"Hold"} if dominant(signals) == "Bearish" and held == 0 else set()
        )


def test_shares_omit_unjudged_signals() -> None:
    assert share([True, None, False, False]) == pytest.approx(1 / 3)
    assert share([None]) is None


def test_the_public_database_has_the_documented_figures(
    shared_data: Path, terminal: Terminal
) -> None:
    path = shared_data / "deepfund" / "deepfund.db"
    record = read_database(path)
    whole, *models = summary_rows(record)
    lines = (
        "signals",
        "signal_errors",
        "decisions",
        "decision_errors",
        "judged",
        "consistent",
        "consistent_held",
    )

    assert [whole[name] for name in lines] == [105, 20, 24, 0, 24, 5, 17]
    assert f"{100 * whole['signal_validity']:.1f}" == "81.0"
    assert [whole[name] for name in (*SIGNALS, *ACTIONS)] == [12, 57, 36, 8, 0, 16]
    assert len(models) == 6
    assert {name: sum(row[name] for row in models) for name in lines} == {
        name: whole[name] for name in lines
    }

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
        bulls = (
            "SELECT sum(s.signal = ?) FROM signal s WHERE s.portfolio_id = d.portfolio_id AND"
            " s.ticker = d.ticker"
        )
        plural = [f"({bulls})".replace("?", f"'{name}'") for name in SIGNALS]
        rows = base.execute(
            f"SELECT d.action, {', '.join(plural)} FROM decision d ORDER BY d.rowid"
        ).fetchall()
        assert base.execute(errors).fetchone() == (20,)

    follows = [
        {"Buy": bull > max(bear, flat), "Sell": bear > max(bull, flat)}.get(
            action, max(bull, bear) <= flat or bull == bear
        )
        for action, bull, bear, flat in rows
    ]

    assert follows == [row["consistent"] for row in decision_rows(record)]

    text = terminal.out("paper", "table", path, "--like", "deepfund-consistency")
    assert all(
        lines in text
        for lines in (
            "105",
            "81.0 %",
            "5 of 24",
            "17 of 24",
            "100.0 %",
            "No justification provided due to error",
        )
    )
    assert rows_of(terminal, "deepfund-consistency", path)[0] == whole


def test_a_default_is_recognised_by_its_whole_text(tmp_path: Path) -> None:
    more = (
        "p",
        "AAA",
        "policy",
        "Neutral",
        "It is Neutral. No justification provided due to error in the feed.",
    )
    whole, row = summary_rows(
        read_database(database(tmp_path / "a.db", signal=[*ROWS["signal"], more]))
    )

    assert (whole["signal_errors"], whole["decision_errors"], whole["signal_validity"]) == (
        1,
        1,
        pytest.approx(2 / 3),
    )
    assert {**row, "experiment": "all", "model": "all"} == whole

    empty = read_database(
        database(tmp_path / "b.db", signal=[], decision=[], config=[], portfolio=[])
    )

    assert [
        summary_rows(empty)[0][name]
        for name in ("signal_validity", "decision_validity", "consistency")
    ] == [None] * 3
    assert "Just hold due to error" in notes()[0]


def lines_of(text: str) -> list[str]:
    """Lines of a table without its caption, with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()[1:]]


def rows_of(terminal: Terminal, name: str, *paths: object) -> list[dict[str, Any]]:
    """Rows of a table as JSON has them."""
    rows: list[dict[str, Any]] = terminal.report("paper", "table", *paths, "--like", name)["rows"]
    return rows


@pytest.mark.exhaustive
def test_database_is_printed_as_tables_of_models_analysts_and_decisions(
    tmp_path: Path, terminal: Terminal
) -> None:
    sold = ("p", "2025-04-02T00:00:00", "AAA", "Sell", 1, "because")
    policy = ("p", "AAA", "policy", "Bearish", "why")
    path = database(
        tmp_path / "a.db", signal=[*ROWS["signal"], policy], decision=[*ROWS["decision"], sold]
    )
    models = [
        (
            "model experiment signals errors valid decisions errors valid consistent held rule Buy"
            " Sell Hold"
        ),
        "all all 3 1 66.7 % 2 1 50.0 % 1 of 1 1 of 1 0 1 0",
        "a model mine 3 1 66.7 % 2 1 50.0 % 1 of 1 1 of 1 0 1 0",
    ]
    analysts = [
        "model / analyst signals errors Bullish Bearish Neutral",
        "all 3 1 0 2 1",
        "a model 3 1 0 2 1",
        "insider 1 1 0 0 1",
        "news 1 0 0 1 0",
        "policy 1 0 0 1 0",
    ]
    decisions = [
        "model day ticker Bullish Bearish Neutral action shares held valid consistent held rule",
        "a model 2025-04-01 AAA 0 2 1 Hold 0 2 no - -",
        "a model 2025-04-02 AAA 0 2 1 Sell 1 - yes yes yes",
    ]
    tables = {"consistency": models, "signals": analysts, "decisions": decisions}

    for name, lines in tables.items():
        text = terminal.text("paper", "table", path, "--like", f"deepfund-{name}")
        assert lines_of(text) == [*lines, *(" ".join(note.split()) for note in notes())]

    record = read_database(path)

    assert rows_of(terminal, "deepfund-consistency", path) == summary_rows(record)
    assert rows_of(terminal, "deepfund-signals", path)[len(models) - 1 :] == analyst_rows(record)
    assert rows_of(terminal, "deepfund-decisions", path) == decision_rows(record)

    shown = terminal.report("paper", "table", path, "--like", "deepfund-decisions")
    assert shown["notes"] == list(notes())


def test_a_database_has_no_results_and_is_a_table_alone(tmp_path: Path, terminal: Terminal) -> None:
    path = database(tmp_path / "a.db")
    refused = terminal.refusal("paper", "table", path, "--like", "deepfund-effectiveness")

    assert "a DeepFund database has no later prices; give run folders" in refused

    refused = terminal.refusal("paper", "table", path, tmp_path, "--like", "deepfund-signals")
    assert "give either one database or run folders, not both" in refused


@on_each_row(
    "rows, message",
    ({"signal": None}, "no table signal; give a DeepFund database"),
    (
        {"signal": [["p", "AAA", "news", "Rising", ""]]},
        "signal, row 1: signal: expected one of Bullish, Bearish, Neutral, was 'Rising'",
    ),
    (
        {"decision": [["p", "2025-04-01", "AAA", "Short", 0, ""]]},
        "decision, row 1: action: expected one of Buy, Sell, Hold",
    ),
    (
        {"decision": [["x", "2025-04-01", "AAA", "Hold", 0, ""]]},
        "decision, row 1: portfolio_id: expected an id from the database",
    ),
    (
        {"decision": [["p", "2025-04-01", "AAA", "Hold", "no", ""]]},
        "decision, row 1: shares: expected a whole number, was str",
    ),
    (
        {"portfolio": [["p", "x", "{}"]]},
        "portfolio, row 1: config_id: expected an id from the database, was 'x'",
    ),
    (
        {"portfolio": [["p", "c", '{"AAA": 3}']]},
        "portfolio, row 1: positions: expected an object that maps tickers to shares",
    ),
    (
        {"portfolio": [["p", "c", '{"AAA": {"shares": "inf"}}']]},
        "portfolio, row 1: positions: shares must be a number",
    ),
)
def test_a_file_that_is_not_a_deepfund_database_is_refused_in_one_line(
    rows: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as error:
        read_database(database(tmp_path / "a.db", **rows))

    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_table_of_more_rows_than_are_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(tmp_path / "a.db")  # two signals, and one row of each other table
    monkeypatch.setattr(deepfund_database, "MAX_ROWS", 2)

    assert len(read_database(path).opinions) == 2

    monkeypatch.setattr(deepfund_database, "MAX_ROWS", 1)

    with pytest.raises(DataError, match="signal"):
        read_database(path)


@pytest.mark.exhaustive
def test_two_systems_of_one_name_are_distinguished_by_their_parameters(
    tmp_path: Path, terminal: Terminal
) -> None:
    runs = []
    for number, positions in enumerate((3, 5, 5)):
        run = tmp_path / f"run{number}"
        words = [
            "--model",
            "builtin/momentum",
            "--model-args",
            f"positions={positions}",
            "--limit",
            "1",
            "--quiet",
        ]
        assert (
            main(
                [
                    *words,
                    "--tasks",
                    "deepfund_berkshire",
                    "--data",
                    "synthetic_deepfund",
                    "--out",
                    str(run),
                ]
            )
            == 0
        )
        runs.append(run)

    two = [group.model for group in read_groups(runs[:2])]

    assert len(set(two)) == 2
    assert ["3" in two[0], "5" in two[1]] == [True, True]
    assert [group.model for group in read_groups(runs[1:])] == ["builtin/momentum · react"] * 2
    assert [group.experiment for group in read_groups(runs[1:])] == [
        f"deepfund_berkshire · run{number}" for number in (1, 2)
    ]

    terminal.out("paper", "table", *runs[:2], "--like", "deepfund-4")


def test_files_of_another_kind_and_schemas_that_run_are_refused(tmp_path: Path) -> None:
    text, missing, viewed, bare = (
        tmp_path / name for name in ("a.txt", "no.db", "view.db", "bare.db")
    )
    text.write_text("no database " * 100)

    with closing(sqlite3.connect(database(viewed, signal=None))) as base:  # type: ignore[arg-type]
        base.execute(
            "CREATE VIEW signal AS SELECT 'p' portfolio_id, 'AAA' ticker, 'x' analyst, 'Neutral'"
            " signal, '' justification"
        )
        base.commit()

    with closing(sqlite3.connect(bare)) as base:
        base.execute("CREATE TABLE config (id)")
        base.commit()

    cases = {
        text: "not a readable SQLite database",
        missing: "no such file",
        viewed: "no table signal",
        bare: "no column exp_name",
    }
    cases[database(tmp_path / "bytes.db", portfolio=[("p", "c", b"\xff")])] = (
        "portfolio, row 1: positions: expected an object that maps tickers"
    )

    for path, message in cases.items():
        with pytest.raises(DataError, match=message):
            read_database(path)

    assert not missing.exists()
