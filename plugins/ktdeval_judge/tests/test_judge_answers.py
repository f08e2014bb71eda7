"""What `ktdeval judge` answers: a sentence to act on first, then figures, then one next step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from msgspec import structs

from ktdeval.testing import Terminal
from ktdeval_judge.document import Figure, JudgeFile, NavPart, NavReport
from ktdeval_judge.evidence import Tries, judge_returns
from ktdeval_judge.nav_only import NavTrack
from ktdeval_judge.printed_figure import JudgedFigure
from ktdeval_judge.texts import headline, judge_lines


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


# ---- an account value, as somebody types it


def test_the_answer_comes_first_and_one_step_last(tmp_path: Path, terminal: Terminal) -> None:
    assert terminal.text("judge", "--nav", written(tmp_path)) == snapshot("""\
This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.

Judged: nav.csv: a NAV only
  2024-01-03 … 2024-12-17, 250 daily returns, without a market

Return claimed      +20.62 %  (two-sided 95 % interval -18.07 … +77.58)
Maximum drawdown    11.29 %
Sharpe ratio        +1.27  (two-sided 95 % interval -1.09 … +3.79)
  annualised with 252 returns a year (--periods)
PSR                 0.90  one-sided probability that the true Sharpe ratio is above 0
Deflated (DSR)      as PSR: one try is assumed (--trials N, or --study NAME to count them)

note: A NAV has no holdings: selection, costs and look-ahead need the decisions
note: No benchmark, alpha or beta: name the market with --data

next    give the number of strategies tried with --trials N, or count them with --study NAME
""")


def test_two_days_say_nothing_instead_of_a_ratio(tmp_path: Path, terminal: Terminal) -> None:
    assert terminal.text("judge", "--nav", written(tmp_path, days=2)) == snapshot("""\
2 daily returns don't allow a statement about skill: at least 20 are needed, or half a year of them.

Judged: nav.csv: a NAV only
  2024-01-03 … 2024-01-04, 2 daily returns, without a market

Return claimed      +0.16 %  (no interval: fewer than 20 days)
Maximum drawdown    0.63 %
Sharpe ratio        undefined: 2 returns are too few

note: A NAV has no holdings: selection, costs and look-ahead need the decisions
note: No benchmark, alpha or beta: name the market with --data

next    judge a longer record
""")


def test_luck_is_deflated_by_the_trials(tmp_path: Path, terminal: Terminal) -> None:
    path = written(tmp_path, mean=0.0025)
    one = terminal.report("judge", "--nav", path)
    many = terminal.report("judge", "--nav", path, "--trials", 500)
    assert one["evidence"]["luck"]["probability"] == pytest.approx(one["psr"]["value"])
    assert many["evidence"]["luck"]["probability"] < one["psr"]["value"]

    assert many["evidence"]["luck"]["sharpe"] == pytest.approx(3.07, abs=0.005)
    assert terminal.text("judge", "--nav", path, "--trials", 500) == snapshot("""\
This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above luck's ceiling of 3.07 is 81 %, and 95 % is required. It takes 1.4 years of such returns; there are 1.0 years.

Judged: nav.csv: a NAV only
  2024-01-03 … 2024-12-17, 250 daily returns, without a market

Return claimed      +84.38 %  (two-sided 95 % interval +24.65 … +172.73)
Maximum drawdown    8.52 %
Sharpe ratio        +3.97  (two-sided 95 % interval +1.47 … +6.48)
  annualised with 252 returns a year (--periods)
PSR                 1.00  one-sided probability that the true Sharpe ratio is above 0
Deflated (DSR)      0.81  one-sided probability that it is above luck's ceiling
Luck's ceiling      3.07  Sharpe ratio of the best of 500 tries without skill, on average
  tries: --trials; their Sharpe ratios have a standard deviation of 1.01, as chance alone gives

note: A NAV has no holdings: selection, costs and look-ahead need the decisions
note: No benchmark, alpha or beta: name the market with --data

next    judge the decisions behind it: ktdeval judge DECISIONS --nav NAV --data MARKET
""")
    assert terminal.text("judge", "--nav", path).partition("\n")[0] == snapshot(
        "This is evidence of skill, if no other strategy was tried and its trades were possible: the one-sided probability that the true Sharpe ratio is above zero is more than 99.9 %."
    )


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
    assert terminal.text("judge", "--nav", first, "--study", "own") == snapshot("""\
This is evidence of skill, if its trades were possible: the one-sided probability that the true Sharpe ratio is above luck's ceiling of 0.00 is more than 99.9 %.

Judged: nav.csv: a NAV only
  2024-01-03 … 2024-12-17, 250 daily returns, without a market

Return claimed      +62.76 %  (two-sided 95 % interval +10.42 … +139.90)
Maximum drawdown    9.34 %
Sharpe ratio        +3.17  (two-sided 95 % interval +0.63 … +5.58)
  annualised with 252 returns a year (--periods)
PSR                 1.00  one-sided probability that the true Sharpe ratio is above 0
Deflated (DSR)      1.00  one-sided probability that it is above luck's ceiling
Luck's ceiling      0.00  Sharpe ratio of the best of 2 tries without skill, on average
  tries: study-own.jsonl; their Sharpe ratios have a standard deviation of 0.00, as measured or given

note: A NAV has no holdings: selection, costs and look-ahead need the decisions
note: No benchmark, alpha or beta: name the market with --data

next    judge the decisions behind it: ktdeval judge DECISIONS --nav NAV --data MARKET
""")


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
    shown = ""
    for more in (
        ("--model", "own/model", "--cutoff", "2024-07-01"),
        ("--cutoff", "2030-01"),
        ("--cutoff", "2024-12-10"),
        ("--model", "builtin/momentum"),
    ):
        *_, clean, _, _ = terminal.text("judge", "--nav", path, *more).split("\n\n")
        shown += f"{clean}\n"

    assert shown == snapshot("""\
Clean months: 5.8. 121 of 250 returns lie after 2024-07-01, the end of the training data of own/model (given: --cutoff).
  from 2024-07-01 on:
  Return              +13.98 %  (two-sided 95 % interval -15.22 … +53.23)
  Maximum drawdown    8.88 %
  Sharpe ratio        +1.76  (two-sided 95 % interval -1.94 … +5.44)
  PSR                 0.89
  5 further months are needed until their Sharpe ratio is above zero at 95 % (one-sided).
Clean months: 0.0. 0 of 250 returns lie after 2030-01, the end of the training data of the model (given: --cutoff).
  21 further months are needed until the Sharpe ratio of the whole period is above zero at 95 % (one-sided).
Clean months: 0.2. 5 of 250 returns lie after 2024-12-10, the end of the training data of the model (given: --cutoff).
  from 2024-12-10 on:
  Return              -2.86 %  (no interval: fewer than 20 days)
  Maximum drawdown    4.55 %
  Sharpe ratio        undefined: 5 returns are too few
  21 further months are needed until the Sharpe ratio of the whole period is above zero at 95 % (one-sided).
Clean months: all. builtin/momentum is a rule without training data.
""")


def test_a_wrong_option_is_refused_in_one_line(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path)
    refused = ""
    for words in (
        ("--nav", path, "--model", "nobody/x"),
        ("--nav", path, "--cutoff", "soon"),
        ("--nav", path, "--trials", "0"),
        ("--nav", path, "--trial-sd", "0"),
        ("--nav", path, "--study", "a/b"),
        ("--nav", path, "--days", "5"),
        ("--nav", path, "--out", "nav.csv"),
        ("--sharpe", 2, "--study", "x"),
    ):
        refused += terminal.refusal("judge", *words)

    assert refused == snapshot("""\
ktdeval: error: --model nobody/x: the end of its training data is not listed; give it with --cutoff DAY, such as --cutoff 2025-06-01
ktdeval: error: --cutoff: 'soon' is neither a day (2024-06-01) nor a month (2024-06)
ktdeval: error: --trials 0: expected 1 to 10^9, including the judged strategy
ktdeval: error: --trial-sd 0: expected a number above 0, the standard deviation of the trials' annual Sharpe ratios
ktdeval: error: --study 'a/b': expected a name of letters, digits, dots and hyphens, such as momentum
ktdeval: error: --days applies to --sharpe only; a file determines its own value
ktdeval: error: nav.csv: is a file, not a folder; choose another --out
ktdeval: error: --study applies to a file, not to --sharpe
""")


# ---- the tear sheet of an account value


def test_an_account_value_has_a_tear_sheet_without_holdings(
    tmp_path: Path, terminal: Terminal
) -> None:
    path = written(tmp_path)
    text = terminal.out("judge", "--nav", path, "--out", tmp_path / "judged")
    sheet = tmp_path / "judged" / "tear-sheet.html"
    assert f"page    {sheet}\n" in text

    page = sheet.read_text()
    assert "Tear sheet: nav.csv" in page
    charts = "growth, drawdown, Sharpe ratio, volatility, days by return; no beta without a market"
    assert page.count("<svg") == 5, charts
    for absent in ("Exposure and holdings", "Top holdings: n/a", "All episodes"):
        assert absent not in page
    report = terminal.report("judge", tmp_path / "judged")
    assert f"{100 * report['max_drawdown']['value']:.2f}" in page

    terminal.out("judge", "--nav", path, "--out", tmp_path / "again")
    assert (tmp_path / "again" / "tear-sheet.html").read_text() == page


def test_monthly_values_have_no_tear_sheet_and_it_says_so(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"2023-{month:02d}-28,{100 + month + month % 3}" for month in range(1, 13)]
    Path("nav.csv").write_text("\n".join(["date,nav", *rows]) + "\n")
    assert terminal.text("judge", "--nav", "nav.csv", "--out", "judged") == snapshot("""\
This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is just below 95 %, and 95 % is required. It takes 1.3 years of such returns; there are 0.9 years.

Judged: nav.csv: a NAV only
  2023-02-28 … 2023-12-28, 11 monthly returns, without a market

Return claimed      +9.80 %  (no interval: fewer than 20 days)
Maximum drawdown    0.96 %
Sharpe ratio        +2.11  (no interval: fewer than 20 days)
  annualised with 12 returns a year (--periods)
PSR                 0.95  one-sided probability that the true Sharpe ratio is above 0
Deflated (DSR)      as PSR: one try is assumed (--trials N, or --study NAME to count them)

note: A NAV has no holdings: selection, costs and look-ahead need the decisions
note: No benchmark, alpha or beta: name the market with --data

folder  judged
page    none: a tear sheet needs 20 daily returns or more
next    give the number of strategies tried with --trials N, or count them with --study NAME
""")


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


def test_what_the_execution_shows_is_said_first() -> None:
    shown = ""
    for changes in (
        {},
        {"nav": claim(first_parting=None)},
        {"nav": claim()},
        {"nav": claim(parting_cause="remainder", largest_gap=2e-4)},
        {"nav": claim(is_explained=False)},
        {"nav": claim(looks_ahead=True)},
        {"rules": "fills at the close of the decision (a look-ahead)"},
    ):
        first, *_, last = judge_lines(executed(**changes), Path("run"))
        shown += f"{first}\n{last}\n"

    assert shown == snapshot("""\
Executed, the decisions earn +20.00 %. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
next    ktdeval compare luck run --players 10000
The claim holds: executed, the decisions earn +20.00 %, as claimed. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
next    ktdeval compare luck run --players 10000
Executed, the decisions earn +20.00 %, not the claimed +30.00 %. The largest cause: costs not charged. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
next    ktdeval compare luck run --players 10000
Executed, the decisions earn +20.00 %, not the claimed +30.00 %. They differ by at most 0.02 % of the account on any day, which no known cause explains. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
next    ktdeval compare luck run --players 10000
Executed, the decisions earn +20.00 %, not the claimed +30.00 %, and the known causes do not explain why. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
next    ktdeval compare luck run --players 10000
Executed, the decisions earn +20.00 %, not the claimed +30.00 %: the claim trades at prices from before its decisions (a look-ahead). Quote +20.00 %. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
next    fill one session after the decision in your program, and judge the new NAV (if the file's days are the days of the fills: --dated fill)
The +20.00 % is not a valid result: the chosen rules fill at the close of the decision, a price that nobody can trade at. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
next    judge it again with an achievable fill, such as --set fill=next_open
""")


def test_execution_look_ahead_and_costs_come_in_this_order() -> None:
    lines = judge_lines(executed(nav=claim(looks_ahead=True)), Path("run"))
    assert "\n".join(lines) == snapshot("""\
Executed, the decisions earn +20.00 %, not the claimed +30.00 %: the claim trades at prices from before its decisions (a look-ahead). Quote +20.00 %. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.

Judged: w.csv: target weights (plain), 3 rows, 2 codes
  on m, 2024-01-03 … 2024-12-16, 250 daily returns, CNY 1,000,000
  rules: a_share: fills at the next open
  declared: how the decisions were made is not recorded, so no board ranks them

Return as executed  +20.00 %
Benchmark           +20.00 %
Claimed NAV: +30.00 % against +20.00 % executed. They first differ by more than 0.01 % on 2024-01-03. The largest part of the difference: costs not charged.
    +10.000 %  costs not charged
    +10.000 %  in all
  With all causes found, the largest daily gap falls from 10.00 % to 0 %.

LOOK-AHEAD: the claimed NAV uses fills at the same close as the decision: with these its daily error is 0 %, with achievable fills and their best fee 0.1 % (root mean square). Quote the executed return. (If the file's days are the days of the fills, give --dated fill.)

Costs               1.00 % of the first account value: commission, duties, interest
Not filled: nothing; every decision was filled within rounding.

Sharpe ratio        +0.20
  annualised with 252 returns a year (--periods)
Information ratio   +0.20
PSR                 0.20  one-sided probability that the true Sharpe ratio is above 0
Deflated (DSR)      as PSR: one try is assumed (--trials N, or --study NAME to count them)
Maximum drawdown    20.00 %

folder  run
page    none: a tear sheet needs 20 daily returns or more
next    fill one session after the decision in your program, and judge the new NAV (if the file's days are the days of the fills: --dated fill)\
""")


def test_the_sentence_on_skill_follows_the_figures() -> None:
    shown = ""
    for changes in (
        {"evidence": evidence(0.004)},
        {"evidence": evidence(0.004), "sharpe": Figure(value=2.2, low=-0.3, high=5.1)},
        {"evidence": evidence(0.004), "sharpe": Figure(value=2.2, low=0.3, high=5.1)},
        {"evidence": evidence(0.004), "trials_from": "study-x.jsonl"},
        {"evidence": evidence(0.0008)},
        {"evidence": evidence(-0.002)},
        {"evidence": None, "no_evidence": "no variance"},
        {"evidence": None, "returns": None},
    ):
        shown += " ".join(headline(executed(**changes))) + "\n"

    assert shown == snapshot("""\
Executed, the decisions earn +20.00 %. This is evidence of skill, if no other strategy was tried: the one-sided probability that the true Sharpe ratio is above zero is more than 99.9 %.
Executed, the decisions earn +20.00 %. This is not evidence of skill: the two-sided 95 % interval of the Sharpe ratio includes zero, although the one-sided probability that the true Sharpe ratio is above zero is more than 99.9 %.
Executed, the decisions earn +20.00 %. This is evidence of skill, if no other strategy was tried: the one-sided probability that the true Sharpe ratio is above zero is more than 99.9 %.
Executed, the decisions earn +20.00 %. This is evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is more than 99.9 %.
Executed, the decisions earn +20.00 %. This is not evidence of skill: the one-sided probability that the true Sharpe ratio is above zero is 89.6 %, and 95 % is required. It takes 2.4 years of such returns; there are 1.0 years.
Executed, the decisions earn +20.00 %. The Sharpe ratio is not above zero: that is not evidence of skill, however long the record.
Executed, the decisions earn +20.00 %. No statement about skill is possible: no variance.
Executed, the decisions earn +20.00 %.
""")


def test_a_document_of_before_is_still_shown() -> None:
    file = executed(
        returns=None, max_drawdown=None, costs=None, evidence=None, trials_from=None,
        returns_a_year=None,
    )  # fmt: skip
    assert "\n".join(judge_lines(file, Path("run"))) == snapshot("""\
Executed, the decisions earn +20.00 %.

Judged: w.csv: target weights (plain), 3 rows, 2 codes
  on m, 2024-01-03 … 2024-12-16, CNY 1,000,000
  rules: a_share: fills at the next open
  declared: how the decisions were made is not recorded, so no board ranks them

Return as executed  +20.00 %
Benchmark           +20.00 %

Not filled: nothing; every decision was filled within rounding.

Sharpe ratio        +0.20
Information ratio   +0.20
PSR                 0.20  one-sided probability that the true Sharpe ratio is above 0

folder  run
page    none: a tear sheet needs 20 daily returns or more
next    ktdeval compare luck run --players 10000\
""")
    assert json.loads(json.dumps(structs.asdict(file), default=str))["returns"] is None
