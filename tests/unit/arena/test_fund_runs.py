"""Signals, decisions, results and weeks of runs, worked by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import StoreError, UsageError
from ktdeval.harness import SIGNAL_FORM, TranscriptEntry
from ktdeval.testing.ledgers import ledger_of, step_record
from ktdeval_arena.consistency import analyst_rows, decision_rows, summary_rows
from ktdeval_arena.fund_runs import Group, read_groups, read_record, result_rows, weekly_rows
from metric_cases import order
from terminal import Terminal
from trading_market import make_market

SPEC: Any = SimpleNamespace(id="e", window_name="live", seed=1)
MARKET = make_market(("AAA", "BBB"), [[10.0, 5.0], [12.0, 5.0], [11.0, 6.0], [11.0, 4.0], [12.0, 4.0]])


def exchange(role: str, answer: str | None, held: float, system: str = SIGNAL_FORM) -> dict[str, Any]:
    """A call of a role that is shown three assets, of which asset_1 may be held."""
    positions = {"columns": ["stock_id", "shares"], "rows": [["asset_1", held]] if held else []}
    candidates = {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"], ["asset_3"]]}
    shown = f"```json\n{json.dumps({'positions': positions, 'candidates': candidates})}\n```"
    sent = [{"role": "system", "content": system}, {"role": "user", "content": shown}]
    done = {"error": "timeout"} if answer is None else {"reply": {"content": answer, "finish_reason": "stop"}}
    return {"role": role, "kept": 0, "sent": sent, **done}


def talk(step: int, held: float, news: str | None, macro: str | None, submission: Any) -> TranscriptEntry:
    calls = (exchange("planner", "", held, "Choose."), exchange("news", news, held), exchange("macro", macro, held))
    return TranscriptEntry(step=step, exchanges=calls, submission=submission if submission is None else json.dumps(submission))


def says(**signals: str) -> str:
    return json.dumps(signals)


def asks(*orders: tuple[str, str]) -> dict[str, Any]:
    return {"orders": [{"stock_id": label, "side": side} for label, side in orders]}


TALKS = [
    # AAA is Bullish by both and bought: consistent. BBB is mixed and sold: not. asset_3: Bearish, no order, not held.
    talk(0, 0, says(asset_1="Bullish", asset_2="Bullish", OTHERS="Bearish"), says(asset_1="Bullish", OTHERS="Bearish"),
         asks(("ASSET_1", "BUY"), ("asset_2", "SELL"))),
    # macro can't be read: three invalid signals, and news alone is dominant. AAA is Bearish, held and kept: not consistent.
    talk(1, 5, says(asset_1="Bearish", OTHERS="Neutral"), "Neutral, I think.", asks()),
    # Both calls failed: no decision has signals to follow. The order is rejected, and a decision all the same.
    talk(2, 5, None, None, asks(("asset_1", "SELL"))),
    # No valid submission: three Holds by default, which are no decisions, whatever the signals.
    talk(3, 5, says(OTHERS="Bullish"), says(OTHERS="Bullish"), None),
]  # fmt: skip
STEPS = [
    step_record(MARKET, 0, 1, orders=[order("AAA", "BUY", filled=5), order("BBB", "SELL", filled=2)]),
    step_record(MARKET, 1, 2),
    step_record(MARKET, 2, 3, orders=[order("AAA", "SELL", filled=0)]),
    step_record(MARKET, 3, 4, provenance="fallback"),
]


def group(talks: Sequence[TranscriptEntry] = TALKS, steps: Any = STEPS) -> Group:
    folder: Any = SimpleNamespace(
        path=Path("run"), episode_path=lambda _: Path("run/e"), card_path=lambda _: Path("run/none.json"),
        load_transcript=lambda _: talks, load_ledger=lambda _: ledger_of(steps),
    )  # fmt: skip
    return Group(folder, "task", "task", "model · deepfund", [SPEC])


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
    assert {one["analyst"]: (one["signals"], one["errors"]) for one in analyst_rows(record)} == {"macro": (12, 6), "news": (12, 3)}
    made = decision_rows(record)
    told = [(one["ticker"], one["action"], one["shares"], one["consistent"], one["consistent_held"]) for one in made]
    assert told == [
        ("AAA", "Buy", 5, True, True), ("BBB", "Sell", 2, False, False), ("asset_3", "Hold", 0, False, True),
        ("AAA", "Hold", 0, False, False), ("BBB", "Hold", 0, True, True), ("asset_3", "Hold", 0, True, True),
        ("AAA", "Sell", 0, None, None), ("BBB", "Hold", 0, None, None), ("asset_3", "Hold", 0, None, None),
        *[(name, "Hold", 0, None, None) for name in ("AAA", "BBB", "asset_3")],
    ]  # fmt: skip
    assert [one["is_valid"] for one in made] == [True] * 9 + [False] * 3
    assert [one["held"] for one in made if one["ticker"] == "AAA" and one["action"] == "Hold"] == [5.0, 5.0]
    assert {one["portfolio"] for one in made} == {"live seed 1"}


def test_a_submission_of_nobody_is_no_decision_and_stances_are() -> None:
    voted = read_record([group([talk(0, 0, says(OTHERS="Bullish"), "", None)], [step_record(MARKET, 0, 1)])])
    assert (len(voted.opinions), len(voted.decisions)) == (6, 0)
    stances = {"decisions": [{"stock_id": "asset_1", "decision": "BUY"}, {"stock_id": "asset_2", "decision": "HOLD"}]}
    record = read_record([group([talk(0, 0, says(OTHERS="Bullish"), says(), stances)], [step_record(MARKET, 0, 1)])])
    assert [decision.action for decision in record.decisions] == ["Buy", "Hold", "Hold"]
    odd = read_record([group([talk(0, 0, "", "", {"orders": 5})], [step_record(MARKET, 0, 1)])])
    assert [one.action for one in odd.decisions] == ["Hold"] * 3
    with pytest.raises(StoreError, match="4 steps in the ledger, 1 in the transcript"):
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
    steps = [step_record(MARKET, 0, 1, orders=first), step_record(MARKET, 1, 2, orders=[order("AAA", "SELL", filled=4)])]
    (row,) = result_rows([group(steps=steps)], {Path("run"): MARKET})
    assert [row[name] for name in ("buys", "effective_buys", "sells", "effective_sells")] == [2, 1, 2, 1]
    assert row["return_per_usd"] is None
    (row,) = result_rows([group()], {Path("run"): "gone"})
    assert row["buys"] is None


def test_weeks_end_on_sundays_with_the_mean_of_the_seeds() -> None:
    # Friday, Monday, Wednesday, Sunday, Monday; the mean NAV is 100, 110, 99, 100, 121, 121.
    days = np.array(["2025-04-04", "2025-04-07", "2025-04-09", "2025-04-13", "2025-04-14"], "datetime64[D]")
    navs = [[100.0, 120, 98, 100, 141, 121], [100.0, 100, 100, 100, 101, 121]]
    ledgers = [SimpleNamespace(nav=np.array(nav), days=days) for nav in navs]
    specs = [SimpleNamespace(window_name="live", number=number) for number in range(2)]
    folder: Any = SimpleNamespace(path=Path("run"), load_ledger=lambda spec: ledgers[spec.number])
    rows = weekly_rows([Group(folder, "task", "task", "m", specs)])  # type: ignore[arg-type]
    assert [(row["week"], row["seeds"], row["nav"]) for row in rows] == [
        ("2025-04-06", 2, 110),
        ("2025-04-13", 2, 121),
        ("2025-04-20", 2, 121),
    ]
    assert [row["total_return"] for row in rows] == pytest.approx([0.1, 0.21, 0.21])
    assert [row["week_return"] for row in rows] == pytest.approx([0.1, 0.1, 0.0])
    assert [row["max_drawdown"] for row in rows] == pytest.approx([0.0, 0.1, 0.1])
    ledgers[1].days = days + np.timedelta64(1, "D")
    with pytest.raises(UsageError, match="seeds have different days"):
        weekly_rows([Group(folder, "task", "task", "m", specs)])  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_run_of_the_team_is_reported(tmp_path: Path, terminal: Terminal) -> None:
    run = tmp_path / "run"
    told = ["--plugin", "run_plugin", "--model", "test/member", "--agent", "deepfund", "--limit", "3", "--price", "input=3"]
    told += ["--tasks", "deepfund_berkshire", "--data", "synthetic_deepfund", "--price", "output=15", "--out", str(run)]
    assert main([*told, "--quiet"]) == 0
    report = json.loads(terminal.out("deepfund", "report", run, "--format", "json"))
    whole, card = report["models"][0], json.loads((run / "cards/deepfund_berkshire.json").read_text())
    assert (whole["decisions"], whole["decision_errors"], whole["Buy"] + whole["Sell"] + whole["Hold"]) == (15, 0, 15)
    assert whole["signals"] == sum(row["signals"] for row in report["analysts"]) > 0
    assert whole["Buy"] + whole["Sell"] == card["orders"]["submitted"]
    (result,) = report["results"]
    judged = card["episodes"][0]["metrics"]["df_effectiveness"]
    assert result["buys"] + result["sells"] == judged["n"]
    assert sum(result[f"effective_{name}"] or 0 for name in ("buys", "sells")) / judged["n"] == pytest.approx(judged["value"])
    assert result["total_return"] / result["usd"] == pytest.approx(result["return_per_usd"])
    assert f"{whole['consistent']} of {whole['judged']}" in terminal.out("deepfund", "report", run, "--decisions")
    assert terminal.out("deepfund", "report", run, "--format", "csv").count("\n") == 16
    (path,) = (run / "cards").glob("*.json")
    for figure in ("nav", "cr", "week", "mdd"):
        assert "2025-03-23" in terminal.out("deepfund", "weekly", path, "--figure", figure)
    lines = terminal.out("deepfund", "weekly", run, "--format", "csv").splitlines()
    assert float(lines[-1].split(",")[6]) == pytest.approx(card["metrics"]["total_return"]["value"], rel=1e-9)
    assert [one.experiment for one in read_groups([run, path])] == ["deepfund_berkshire"]
    other = Path(shutil.copytree(run, tmp_path / "other" / "run"))
    named = terminal.out("deepfund", "weekly", run, other)
    assert [
        f"{number}  test/member · deepfund · deepfund_berkshire · {folder} · live" in named
        for number, folder in ((1, run), (2, other))
    ] == [True, True]
    assert "no run here" in terminal.error("deepfund", "report", tmp_path)
