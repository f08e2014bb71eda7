"""Document of a judgement (`judge.json` in the run folder): what was judged, and the findings."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ktdeval.runner import JUDGEMENT, load_result
from ktdeval.trading import StaleHoldings
from ktdeval.values import Value, format_version
from ktdeval_judge.printed_figure import JudgedFigure

FORMAT = "judge"
JUDGE_VERSION = format_version(FORMAT)


class Figure(Value):
    """A figure with its 95 % interval; null, with the reason, if it is undefined."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    #: why a value has no interval; null: it has one, or its kind has none
    no_interval: str | None = None


class Unfilled(Value):
    """A decision, or a part of it, that could not be filled."""

    day: str  #: day of the fill, ISO
    code: str
    reason: str  #: the executor's rule, or a finding on a declared trade
    detail: str  #: the reason in detail, as text
    side: str | None = None
    missing: float | None = None  #: unfilled part, as a share of the NAV; null if unknown
    #: last day on which the same target was refused again for the same reason, ISO; null: not again
    until: str | None = None
    times: int = 1  #: number of days on which it was refused


class NavPart(Value):
    """A part of the difference between the claimed and the executed return."""

    cause: str
    value: float  #: claimed minus executed return, as a share of the first NAV


class NavReport(Value):
    """The claimed NAV against the executed one."""

    days: int  #: number of days common to both NAVs
    claimed_return: float
    executed_return: float
    #: parts of claimed minus executed return; their sum is the whole difference
    parts: tuple[NavPart, ...]
    first_parting: str | None  #: first day on which the NAVs differ, ISO; null if they agree
    parting_cause: str | None  #: cause of the largest part; null if the NAVs agree
    largest_gap: float  #: largest relative difference on any day
    remaining_gap: float  #: largest relative difference that the causes found do not explain
    is_explained: bool  #: whether the causes found explain almost all of the gap
    #: whether the claimed NAV fills at the close of the decision, or at the close before
    looks_ahead: bool
    fee_bps: float = 0.0  #: fee fitted to the claim, in basis points of the value traded
    #: root mean square of the daily log returns that the causes found do not explain; null in old
    #: versions
    daily_error: float | None = None
    #: smallest such error for fills without look-ahead, each with its best-fitting fee
    achievable_error: float | None = None


class DeclaredGap(Value):
    """The account that the file itself declares, next to the executed one, in currency units."""

    #: source of the declared account: `books` (cash and holdings at the close), `trades` (trades at
    #: their own prices) or `nav` (account values)
    source: str
    day: str  #: day of the last close that both accounts have, ISO
    declared_value: float
    executed_value: float
    #: declared minus executed value, by cause; their sum is the whole gap
    parts: tuple[NavPart, ...]
    largest_gap: float  #: largest absolute gap at any close
    largest_gap_day: str  #: ISO
    #: largest part, at any close, that the causes do not explain; null: known at the last close only
    largest_residual: float | None = None


class CleanPart(Value):
    """The part of a result after the end of a model's training data."""

    model: str
    cutoff: str  #: end of the training data, a day or month; `none` if nothing was trained
    origin: str  #: source of the cutoff
    is_lower_bound: (
        bool  #: whether the data may end later; then no return is certainly after their end
    )
    before: int  #: number of returns that end by the cutoff
    across: int  #: number of returns that contain the cutoff, or may contain it
    after: int  #: number of returns that begin at or after the cutoff
    first: (
        str | None
    )  #: day at whose close the returns after the cutoff begin; null: no such returns
    months: (
        float | None
    )  #: months covered by these returns; null: the number of returns per year is unknown
    total_return: Figure
    max_drawdown: Figure
    sharpe: Figure
    psr: Figure
    #: further months until this Sharpe ratio is above 0 at 95 %; 0: already reached
    months_needed: Figure
    #: the Sharpe ratio on which `months_needed` is based: `part` (after the cutoff) or `whole` (all
    #: returns)
    months_needed_by: str


class JudgeFile(Value):
    """Findings of `ktdeval judge` (`judge.json`)."""

    version: int
    program: str  #: name of the reader
    source: str  #: name of the file that was judged
    source_sha256: str
    plan_sha256: (
        str | None
    )  #: SHA-256 of `declared.json`, by which the run's spec refers to it; null: a NAV only
    form: str  #: `weight`, `shares`, `orders`, `trades` or `nav`
    decisions: int  #: number of rows with decisions
    codes: int
    market: str | None  #: null if a NAV is judged without a market
    snapshot: str | None
    first: str  #: first fill day, ISO
    last: str
    cash: float
    currency: str | None  #: null: a NAV without a market, whose file gives no initial cash
    task: str | None
    rules: str  #: as text
    executed_return: Figure | None  #: null if only a NAV is judged
    claimed_return: Figure | None  #: null: no NAV is claimed
    benchmark_return: Figure
    sharpe: Figure
    excess_sharpe: Figure  #: information ratio over the benchmark
    selection: Figure | None  #: null if only a NAV is judged, because it has no holdings
    #: only for a NAV: annual return that the benchmark does not explain
    alpha_a_year: Figure | None
    #: only for a NAV: slope of the regression of the NAV's returns on the benchmark's
    beta: Figure | None
    psr: Figure
    years_needed: Figure  #: years until a Sharpe ratio of this size would be significant
    unfilled: tuple[Unfilled, ...]
    unfilled_counts: dict[str, int]
    nav: NavReport | None
    notes: tuple[str, ...]
    #: linked parts of the executed return, by name; their sum is the executed return. Empty if only
    #: a NAV is judged
    return_parts: dict[str, float] = msgspec.field(default_factory=dict)
    #: number of returns per year, used to annualise a NAV's figures
    returns_a_year: float | None = None
    returns: int | None = None  #: number of returns; null in old versions
    #: maximum drawdown as a positive share; null in old versions
    max_drawdown: Figure | None = None
    #: commission, duties and interest paid, as a share of the first account value; null if only a
    #: NAV is judged
    costs: Figure | None = None
    evidence: JudgedFigure | None = (
        None  #: the Sharpe ratio compared with luck; null: see `no_evidence`
    )
    no_evidence: str | None = None  #: why `evidence` is null
    trials_from: str | None = (
        None  #: source of the number of trials: `assumed`, `--trials` or a study's ledger
    )
    clean: CleanPart | None = None  #: null: no model is given
    #: null: the file declares no account value, and its trades have no prices
    declared: DeclaredGap | None = None
    #: why the returns may not be a strategy's, or rest on one day; then they are no evidence
    doubts: tuple[str, ...] = ()
    #: holdings without a bar at the last close; null: none, or not recorded
    stale: StaleHoldings | None = None


def load_judgement(folder: Path) -> JudgeFile:
    """Read the document of a judgement. Raises StoreError if it is missing or not readable."""
    return load_result(folder, JUDGEMENT, JudgeFile, FORMAT, "judge")
