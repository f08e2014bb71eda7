"""Document of a judgement (`judge.json` in the run folder): its input and its findings."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ktdeval.runner import JUDGEMENT, load_result
from ktdeval.values import Value, format_version
from ktdeval_judge.printed_figure import JudgedFigure

FORMAT = "judge"
JUDGE_VERSION = format_version(FORMAT)


class Figure(Value):
    """A figure with its 95 % interval; null with the reason where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class Unfilled(Value):
    """A decision, or a part of it, that could not be filled."""

    day: str  #: of the fill, ISO
    code: str
    reason: str  #: rule of the executor, or finding on a declared trade
    detail: str  #: the reason in words
    side: str | None = None
    missing: float | None = None  #: part of the NAV that was not filled; null: not known


class NavPart(Value):
    """A part of the difference between the claimed and the executed return."""

    cause: str
    value: float  #: claimed less executed, a share of the first NAV


class NavReport(Value):
    """The claimed NAV against the executed one."""

    days: int  #: that both have
    claimed_return: float
    executed_return: float
    parts: tuple[NavPart, ...]  #: add up to claimed less executed
    first_parting: str | None  #: first day on which they part, ISO; null: they agree
    parting_cause: str | None  #: cause of the largest part; null: they agree
    largest_gap: float  #: largest relative difference of a day
    remaining_gap: float  #: of it, left with the causes found
    is_explained: bool  #: whether next to nothing is left
    #: whether the claimed NAV is one of fills at the close of the decision, or at the close before
    looks_ahead: bool
    fee_bps: float = 0.0  #: proportional fee fitted to the claim, of what is traded
    #: root mean square of the daily log returns that the causes found leave; null: of an old version
    daily_error: float | None = None
    #: the least that fills without look-ahead leave, at their own best fee
    achievable_error: float | None = None


class CleanPart(Value):
    """The part of a result after the end of a model's training data."""

    model: str
    cutoff: str  #: day or month with which the training data end; `none`: nothing was trained
    origin: str  #: who says so
    is_lower_bound: bool  #: whether the data may end later: then no return is certainly after them
    before: int  #: returns that end by the cutoff
    across: int  #: returns that contain it, or may
    after: int  #: returns that begin at it or later
    first: str | None  #: day at whose close the returns after it begin; null: there are none
    months: float | None  #: length of the returns after it; null: the returns of a year are unknown
    total_return: Figure
    max_drawdown: Figure
    sharpe: Figure
    psr: Figure
    #: further months until this Sharpe ratio is above 0 with 95 %; 0: it is by now
    months_needed: Figure
    #: whose Sharpe ratio `months_needed` assumes: the `part` after the cutoff, or the `whole` period
    months_needed_by: str


class JudgeFile(Value):
    """What `ktdeval judge` found (`judge.json`)."""

    version: int
    program: str  #: name of the reader
    source: str  #: name of the file
    source_sha256: str
    plan_sha256: (
        str | None
    )  #: of `declared.json`, by which the run's spec names it; null: a NAV only
    form: str  #: `weight`, `shares`, `orders`, `trades` or `nav`
    decisions: int  #: rows
    codes: int
    market: str | None  #: null: a NAV without a market
    snapshot: str | None
    first: str  #: first fill day, ISO
    last: str
    cash: float
    currency: str | None  #: null: a NAV without a market, whose file names none
    task: str | None
    rules: str  #: in words
    executed_return: Figure | None  #: null: a NAV only
    claimed_return: Figure | None  #: null: nothing is claimed
    benchmark_return: Figure
    sharpe: Figure
    excess_sharpe: Figure  #: information ratio over the benchmark
    selection: Figure | None  #: null: a NAV has no holdings
    #: of a NAV, by its returns alone: what the benchmark does not explain, a year
    alpha_a_year: Figure | None
    beta: Figure | None  #: likewise, slope of the returns by those of the benchmark
    psr: Figure
    years_needed: Figure  #: until such a Sharpe ratio would be significant
    unfilled: tuple[Unfilled, ...]
    unfilled_counts: dict[str, int]
    nav: NavReport | None
    notes: tuple[str, ...]
    #: linked parts of the executed return, by name; they add up to it. Empty: a NAV only
    return_parts: dict[str, float] = msgspec.field(default_factory=dict)
    returns_a_year: float | None = None  #: with which figures of a NAV are a year's
    returns: int | None = None  #: number of returns; null: of an old version
    max_drawdown: Figure | None = None  #: a positive share; null: of an old version
    #: commission, duties and interest paid, a share of the first account value; null: a NAV only
    costs: Figure | None = None
    evidence: JudgedFigure | None = None  #: the Sharpe ratio against luck; null: see `no_evidence`
    no_evidence: str | None = None  #: why there is none
    trials_from: str | None = (
        None  #: who counted the trials: `assumed`, `--trials` or a study's ledger
    )
    clean: CleanPart | None = None  #: null: no model is named


def load_judgement(folder: Path) -> JudgeFile:
    """Read the document of a judgement. Raises StoreError if it is missing or not readable."""
    return load_result(folder, JUDGEMENT, JudgeFile, FORMAT)
