"""What `ktdeval judge` answers: a sentence to act on first, then figures, then one next step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from ktdeval_judge.document import Figure, JudgeFile, NavPart, NavReport
from ktdeval_judge.evidence import Tries, judge_returns
from ktdeval_judge.nav_only import NavTrack
from ktdeval_judge.printed_figure import JudgedFigure
from ktdeval_judge.texts import headline, judge_lines
from support.terminal import Terminal


def returns_of(days: int, mean: float) -> np.ndarray:
    """Returns with this mean and a standard deviation of 1 %."""
    chance = np.random.default_rng(7).standard_normal(days)
    return mean + 0.01 * (chance - chance.mean()) / chance.std(ddof=1)


def written(folder: Path, days: int = 250, mean: float = 0.0008, name: str = "nav.csv") -> Path:
    returns = returns_of(days, mean)
    values = 100_000 * np.concatenate([[1.0], np.cumprod(1 + returns)])
    when = np.busday_offset("2024-01-02", np.arange(days + 1), roll="forward")
    rows = [f"{day},{value:.2f}" for day, value in zip(when, values, strict=True)]
    path = folder / name
    path.write_text("\n".join(["date,nav", *rows]) + "\n")
    return path


def words(terminal: Terminal, *own: object) -> str:
    return " ".join(terminal.out("judge", "--nav", *own).split())


# ---- an account value, as somebody types it


def test_the_answer_comes_first_and_one_step_last(tmp_path: Path, terminal: Terminal) -> None:
    lines = terminal.out("judge", "--nav", written(tmp_path)).splitlines()
    assert lines[0].startswith("This is not evidence of skill: the probability that the true")
    assert [line for line in lines if line.startswith("next ")] == lines[-1:]
    assert "--trials N, or count them with --study NAME" in lines[-1]


def test_two_days_say_nothing_instead_of_a_ratio(tmp_path: Path, terminal: Terminal) -> None:
    path = written(tmp_path, days=2)
    text = words(terminal, path)
    assert text.startswith("2 daily returns don't allow a statement about skill")
    assert "Sharpe ratio undefined: 2 daily returns are too few" in text
    assert "PSR" not in text


def test_luck_is_deflated_by_the_trials(tmp_path: Path, terminal: Terminal) -> None:
    path = written(tmp_path, mean=0.003)
    one = terminal.report("judge", "--nav", path)
    many = terminal.report("judge", "--nav", path, "--trials", 500)
    assert one["evidence"]["luck"]["probability"] == pytest.approx(one["psr"]["value"])
    assert many["evidence"]["luck"]["probability"] < one["psr"]["value"]

    text = words(terminal, path)
    assert "evidence of skill, if no other strategy was tried and its trades were possible" in text
    text = words(terminal, path, "--trials", 500)
    assert f"Luck's ceiling {many['evidence']['luck']['sharpe']:.2f}" in text
    assert "best of 500 tries without skill" in text


def test_a_study_remembers_the_tries(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = written(tmp_path, mean=0.002)
    second = written(tmp_path, days=251, mean=0.002, name="other.csv")
    for path in (first, second, first):
        terminal.out("judge", "--nav", path, "--study", "own")

    ledger = Path("ktdeval-runs/study-own.jsonl")
    assert len(ledger.read_text().splitlines()) == 2
    text = words(terminal, first, "--study", "own")
    assert "best of 2 tries without skill" in text
    assert "tries: study-own.jsonl" in text


def test_a_folder_holds_the_answer_and_shows_it_again(tmp_path: Path, terminal: Terminal) -> None:
    path = written(tmp_path)
    out = tmp_path / "judged"
    more = ("--model", "openai/gpt-4o", "--study", "own")
    text = terminal.out("judge", "--nav", path, "--out", out, *more)
    assert (tmp_path / "study-own.jsonl").exists(), "beside the folder"
    assert terminal.out("judge", out) == text

    again = tmp_path / "again"
    terminal.out("judge", "--nav", path, "--out", again, *more)
    assert (again / "judge.json").read_bytes() == (out / "judge.json").read_bytes()
    assert "--trials needs the file" in terminal.error("judge", out, "--trials", 3)


def test_clean_months_are_those_after_the_cutoff(tmp_path: Path, terminal: Terminal) -> None:
    path = written(tmp_path)
    text = words(terminal, path, "--model", "own/model", "--cutoff", "2024-07-01")
    assert "Clean months: 5.8. 121 of 250 returns lie after 2024-07-01" in text
    assert "from 2024-07-01 on:" in text

    none = words(terminal, path, "--cutoff", "2030-01")
    assert "Clean months: 0.0. 0 of 250 returns" in none
    assert "further months are needed until the Sharpe ratio of the whole period" in none
    few = words(terminal, path, "--cutoff", "2024-12-10")
    assert "Sharpe ratio undefined: 5 returns are too few" in few
    rule = words(terminal, path, "--model", "builtin/momentum")
    assert "Clean months: all. builtin/momentum is a rule" in rule


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--model", "nobody/x"), "--cutoff DAY"),
        (("--cutoff", "soon"), "--cutoff: 'soon'"),
        (("--trials", "0"), "--trials 0: expected 1 to 10^9"),
        (("--trial-sd", "0"), "--trial-sd 0"),
        (("--study", "a/b"), "--study 'a/b'"),
        (("--days", "5"), "--days applies to --sharpe"),
        (("--out", "nav.csv"), "is a file, not a folder"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(
    more: tuple[str, ...],
    said: str,
    tmp_path: Path,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    error = terminal.error("judge", "--nav", written(tmp_path), *more)
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert "--study applies to a file" in terminal.error("judge", "--sharpe", 2, "--study", "x")


# ---- the tear sheet of an account value


def test_an_account_value_has_a_tear_sheet_without_holdings(
    tmp_path: Path, terminal: Terminal
) -> None:
    path = written(tmp_path)
    text = words(terminal, path, "--out", tmp_path / "judged")
    sheet = tmp_path / "judged" / "tear-sheet.html"
    assert f"page {sheet}" in text

    page = sheet.read_text()
    assert "Tear sheet: nav.csv" in page
    charts = "growth, drawdown, Sharpe ratio, volatility, days by return; no beta without a market"
    assert page.count("<svg") == 5, charts
    for absent in ("Exposure and holdings", "Top holdings: n/a", "All episodes"):
        assert absent not in page
    report = terminal.report("judge", tmp_path / "judged")
    assert f"{100 * report['max_drawdown']['value']:.2f}" in page

    words(terminal, path, "--out", tmp_path / "again")
    assert (tmp_path / "again" / "tear-sheet.html").read_text() == page


def test_monthly_values_have_no_tear_sheet_and_it_says_so(
    tmp_path: Path, terminal: Terminal
) -> None:
    rows = [f"2023-{month:02d}-28,{100 + month + month % 3}" for month in range(1, 13)]
    path = tmp_path / "nav.csv"
    path.write_text("\n".join(["date,nav", *rows]) + "\n")
    text = words(terminal, path, "--out", tmp_path / "judged")
    assert "11 monthly returns" in text
    assert "page none: a tear sheet needs 20 daily returns or more" in text


def test_a_run_is_not_overwritten(tmp_path: Path, terminal: Terminal) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "judge.json").write_text("{}")
    (run / "manifest.json").write_text("{}")
    error = terminal.error("judge", "--nav", written(tmp_path), "--out", run)
    assert "is the folder of a run; choose another --out" in error


# ---- decisions: executed against claimed, look-ahead, costs


def evidence(mean: float) -> JudgedFigure:
    returns = returns_of(250, mean)
    track = NavTrack(
        days=np.busday_offset("2024-01-02", np.arange(251), roll="forward"),
        values=100 * np.concatenate([[1.0], np.cumprod(1 + returns)]),
        a_year=252.0,
        benchmark="none",
    )
    found = judge_returns(track, Tries())
    assert isinstance(found, JudgedFigure)
    return found


def claim(**changes: Any) -> NavReport:
    nav = NavReport(
        days=250,
        claimed_return=0.3,
        executed_return=0.2,
        parts=(NavPart(cause="costs", value=0.1),),
        first_parting="2024-01-03",
        parting_cause="costs",
        largest_gap=0.1,
        remaining_gap=0.0,
        is_explained=True,
        looks_ahead=False,
        daily_error=0.0,
        achievable_error=0.001,
    )
    return structs.replace(nav, **changes)


def executed(**changes: Any) -> JudgeFile:
    figure = Figure(value=0.2)
    file = JudgeFile(
        version=1, program="plain", source="w.csv", source_sha256="0" * 64,
        plan_sha256="0" * 64, form="weight", decisions=3, codes=2, market="m", snapshot="0" * 64,
        first="2024-01-03", last="2024-12-16", cash=1e6, currency="CNY", task="t",
        rules="a_share: fills at the next open", executed_return=figure, claimed_return=None,
        benchmark_return=figure, sharpe=figure, excess_sharpe=figure, selection=None,
        alpha_a_year=None, beta=None, psr=figure, years_needed=figure, unfilled=(),
        unfilled_counts={}, nav=None, notes=(), returns_a_year=252.0, returns=250,
        max_drawdown=figure, costs=Figure(value=0.01), evidence=evidence(0.0008),
        trials_from="assumed",
    )  # fmt: skip
    return structs.replace(file, **changes)


@pytest.mark.parametrize(
    ("changes", "begins", "step"),
    [
        ({}, "Executed, the decisions earn +20.00 %.", "compare luck"),
        (
            {"nav": claim(first_parting=None)},
            "The claim holds: executed, the decisions earn +20.00 %, as claimed.",
            "compare luck",
        ),
        (
            {"nav": claim()},
            "Executed, the decisions earn +20.00 %, not the claimed +30.00 %. The largest cause:"
            " costs not charged.",
            "compare luck",
        ),
        (
            {"nav": claim(parting_cause="remainder", largest_gap=2e-4)},
            "Executed, the decisions earn +20.00 %, not the claimed +30.00 %. They differ by at most"
            " 0.02 % of the account on any day, which no known cause explains.",
            "compare luck",
        ),
        (
            {"nav": claim(is_explained=False)},
            "Executed, the decisions earn +20.00 %, not the claimed +30.00 %, and the known causes"
            " do not explain why.",
            "compare luck",
        ),
        (
            {"nav": claim(looks_ahead=True)},
            "Executed, the decisions earn +20.00 %, not the claimed +30.00 %: the claim trades at prices"
            " from before its decisions (a look-ahead). Quote +20.00 %.",
            "fill one session after the decision",
        ),
        (
            {"rules": "fills at the close of the decision (a look-ahead)"},
            "The +20.00 % is not a valid result",
            "--set fill=next_open",
        ),
    ],
)
def test_what_the_execution_shows_is_said_first(
    changes: dict[str, Any], begins: str, step: str
) -> None:
    lines = list(judge_lines(executed(**changes), Path("run")))
    assert lines[0].startswith(begins)
    assert step in lines[-1]


def test_execution_look_ahead_and_costs_come_in_this_order() -> None:
    text = "\n".join(judge_lines(executed(nav=claim(looks_ahead=True)), Path("run")))
    order = ("Return as executed", "Claimed NAV", "LOOK-AHEAD", "Costs", "Not filled", "\nSharpe")
    places = [text.index(each) for each in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"evidence": evidence(0.004)},
            "This is evidence of skill, if no other strategy was tried:",
        ),
        (
            {"evidence": evidence(0.004), "sharpe": Figure(value=2.2, low=-0.3, high=5.1)},
            "This is weak evidence of skill, if no other strategy was tried:",
        ),
        (
            {"evidence": evidence(0.004), "sharpe": Figure(value=2.2, low=0.3, high=5.1)},
            "This is evidence of skill, if no other strategy was tried:",
        ),
        (
            {"evidence": evidence(0.004), "trials_from": "study-x.jsonl"},
            "This is evidence of skill: the probability that the true Sharpe ratio is above zero",
        ),
        ({"evidence": evidence(0.0008)}, "of such returns; there are 1.0 years."),
        (
            {"evidence": evidence(-0.002)},
            "The Sharpe ratio is not above zero: that is not evidence",
        ),
        ({"evidence": None, "no_evidence": "no variance"}, "about skill is possible: no variance."),
        ({"evidence": None, "returns": None}, "Executed, the decisions earn"),
    ],
)
def test_the_sentence_on_skill_follows_the_figures(changes: dict[str, Any], said: str) -> None:
    assert said in " ".join(headline(executed(**changes)))


def test_a_document_of_before_is_still_shown() -> None:
    file = executed(
        returns=None, max_drawdown=None, costs=None, evidence=None, trials_from=None,
        returns_a_year=None,
    )  # fmt: skip
    text = "\n".join(judge_lines(file, Path("run")))
    assert "Sharpe ratio" in text
    assert "None" not in text
    assert json.loads(json.dumps(structs.asdict(file), default=str))["returns"] is None
