"""Compare an account's returns with luck, overall and after the end of a model's training data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktdeval.cards import CutoffEntry, listed_cutoff, parse_cutoff_or_state, sides
from ktdeval.errors import UsageError
from ktdeval.runner import Study, StudyTry, record_try, study_ledger
from ktdeval.stats import (
    NEVER,
    annualisation_problem,
    deflated_sharpe_ratio,
    level_problem,
    max_drawdown,
    minimum_track_record,
    shape_of,
    sharpe,
    standard_deviation,
)
from ktdeval_judge.document import CleanPart, Figure
from ktdeval_judge.nav_only import NO_YEAR, NavTrack, nav_figures
from ktdeval_judge.printed_figure import JudgedFigure, PrintedFigure, judge_figure, trial_problems

_MAX_SHARPE = 1e6  #: larger ratios occur only if returns hardly vary
ASSUMED = "assumed"
_MONTHS = 12.0


@dataclass(frozen=True, kw_only=True)
class LuckSettings:
    """Context for a result: the number of trials, and the model that decided."""

    #: number of strategies tried, including this one; if None, see `study`
    trials: int | None = None
    trial_sd: float | None = None  #: standard deviation of the trials' annual Sharpe ratios
    study: str | None = None  #: name of the study whose ledger counts this file as a try
    model: str | None = None  #: model that decided; clean days lie after its training cutoff
    #: end of the model's training data, a day or month; if None, the listed cutoff is used
    cutoff: str | None = None

    def check(self) -> None:
        """Raise UsageError if the cutoff is unknown, the study's name is invalid, or the number of
        trials is impossible.
        """
        for problem in trial_problems(self.trials, self.trial_sd):
            raise UsageError(problem)
        find_training_end(self.model, self.cutoff)
        if self.study is not None:
            study_ledger(Path(), self.study)


@dataclass(frozen=True, kw_only=True)
class JudgedSource:
    """The judged file, as recorded in a study's ledger."""

    name: str
    sha256: str
    #: hash of the run's plan; None for account values without a plan
    plan_sha256: str | None = None
    folder: Path  #: folder that contains the ledgers of studies


@dataclass(frozen=True, kw_only=True)
class Tries:
    """Number of strategies tried, and where the number comes from."""

    number: int = 1
    source: str = ASSUMED  #: `assumed`, `--trials`, or the file name of a study's ledger
    #: standard deviation of the tries' annual ratios; if None, the standard deviation due to chance
    spread: float | None = None


def evidence_fields(
    track: NavTrack, source: JudgedSource, settings: LuckSettings
) -> dict[str, Any]:
    """Return the document fields on luck, and on results after the end of a model's training data.
    If a study is given, also add the file to its ledger. Raises UsageError if settings are not
    valid, or StoreError if the ledger can't be used.
    """
    problem = level_problem(track.values)
    study = None
    if settings.study is not None:
        ratio = None
        if not problem and not annualisation_problem(len(track.returns), track.a_year):
            ratio = sharpe(track.returns, 1, track.resolution).value
        study = _record_source(track, source, settings.study, ratio)

    tries = count_tries(settings.trials, settings.trial_sd, study)
    fields: dict[str, Any] = {
        "returns": len(track.values) - 1,
        "max_drawdown": drawdown_of(track),
        "trials_from": tries.source,
    }
    found = problem or judge_returns(track, tries)
    if isinstance(found, str):
        fields["no_evidence"] = found
    else:
        fields["evidence"] = found

    model = find_training_end(settings.model, settings.cutoff)
    if model is not None and not problem:
        fields["clean"] = clean_part(track, model)
    return fields


def _record_source(track: NavTrack, source: JudgedSource, name: str, ratio: float | None) -> Study:
    """Add the judged file to a study's ledger, with its Sharpe ratio per return, and return the
    study.
    """
    tried = StudyTry(
        sha256=source.sha256,
        source=source.name,
        plan_sha256=source.plan_sha256,
        returns=len(track.values) - 1,
        returns_a_year=track.a_year,
        sharpe=ratio,
    )
    return record_try(study_ledger(source.folder, name), tried)


def count_tries(trials: int | None, spread: float | None, study: Study | None) -> Tries:
    """Return the number of tries: the study's count, or `--trials` if it is larger. The spread is
    given by `--trial-sd`; otherwise, it is the standard deviation of the study's ratios.
    """
    if study is None or len(study.tries) < (trials or 0):
        source = ASSUMED if trials is None else "--trials"
        return Tries(number=trials or 1, source=source, spread=spread)

    ratios = study.sharpes_at(1.0)
    if spread is None and len(ratios) > 1:
        # the formula needs a positive spread, so equal ratios give None
        spread = standard_deviation(ratios) or None
    return Tries(number=len(study.tries), source=study.path.name, spread=spread)


def judge_returns(track: NavTrack, tries: Tries) -> JudgedFigure | str:
    """Return the evidence in an account's Sharpe ratio, or the reason why it is undefined."""
    returns = track.returns
    psr = deflated_sharpe_ratio(returns, (), resolution=track.resolution)
    if psr.value is None:
        return psr.reason or "undefined"
    problem = annualisation_problem(len(returns), track.a_year)
    if problem is not None:
        return problem
    if track.a_year is None:
        return NO_YEAR

    shape = shape_of(returns)
    annual = shape.sharpe * math.sqrt(track.a_year)
    if abs(annual) >= _MAX_SHARPE:
        return "returns hardly vary"

    figure = PrintedFigure(
        sharpe=annual,
        days=shape.days,
        trials=tries.number,
        trial_sd=tries.spread,
        skew=shape.skew,
        # the lower bound of kurtosis, which two distinct values reach up to rounding
        kurtosis=max(shape.kurtosis, 1 + shape.skew**2),
        periods=track.a_year,
    )
    return judge_figure(figure)


def drawdown_of(track: NavTrack) -> Figure:
    """Return the maximum drawdown, as a positive share of the peak."""
    found = max_drawdown(track.values)
    return Figure(value=found.value, reason=found.reason)


# ---- after the end of a model's training data


@dataclass(frozen=True, kw_only=True)
class TrainingEnd:
    """A model, and the end of its training data."""

    name: str
    cutoff: CutoffEntry | None  #: None if nothing was trained


def find_training_end(name: str | None, cutoff: str | None) -> TrainingEnd | None:
    """Return the model given with `--model`, and its cutoff, which is listed or given with
    `--cutoff`. Return None if neither option is set. Raises UsageError if the cutoff is not known,
    or is neither a day nor a month.
    """
    if name is None and cutoff is None:
        return None

    if cutoff is None:
        assert name is not None, "one of the two is given"
        entry = listed_cutoff(name, {})
    else:
        entry = parse_cutoff_or_state(cutoff, "--cutoff")
    if entry == "unknown":
        raise UsageError(
            f"--model {name or ''}: the end of its training data is not listed; give it with "
            "--cutoff DAY, such as --cutoff 2025-06-01"
        )
    end = entry if isinstance(entry, CutoffEntry) else None
    return TrainingEnd(name=name or "the model", cutoff=end)


def clean_part(track: NavTrack, model: TrainingEnd) -> CleanPart:
    """Return an account's results after the end of a model's training data."""
    cutoff = model.cutoff
    days = track.days
    if cutoff is None:
        where: Sequence[str] = ["after"] * len(track.returns)
    else:
        where = sides(days[1:], days[0], cutoff)

    after = where.count("after")
    reason = "no return lies after the end of the training data"
    none = Figure(value=None, reason=reason)
    figures = dict.fromkeys(("claimed_return", "sharpe", "psr"), none)
    drawdown = none
    part = None
    if after:
        part = _last_returns(track, after)
        figures = nav_figures(part)
        drawdown = drawdown_of(part)

    measured = track
    measured_by = "whole"
    if part is not None and not annualisation_problem(after, track.a_year):
        measured = part
        measured_by = "part"

    date = "none"
    origin = "a rule without training data"
    if cutoff is not None:
        date = cutoff.date
        origin = f"{cutoff.confidence}: {cutoff.source}"
    first = None if part is None else str(part.days[0])
    months = None if track.a_year is None else after / track.a_year * _MONTHS
    return CleanPart(
        model=model.name,
        cutoff=date,
        origin=origin,
        is_lower_bound=cutoff is not None and cutoff.is_lower_bound,
        before=where.count("before"),
        across=where.count("across"),
        after=after,
        first=first,
        months=months,
        total_return=figures["claimed_return"],
        max_drawdown=drawdown,
        sharpe=figures["sharpe"],
        psr=figures["psr"],
        months_needed=_months_needed(measured, after),
        months_needed_by=measured_by,
    )


def _last_returns(track: NavTrack, number: int) -> NavTrack:
    """Return a track with the last `number` returns of an account."""
    benchmark = track.benchmark
    if not isinstance(benchmark, str):
        benchmark = benchmark[-number - 1 :]
    return replace(
        track,
        days=track.days[-number - 1 :],
        values=track.values[-number - 1 :],
        benchmark=benchmark,
    )


def _months_needed(measured: NavTrack, after: int) -> Figure:
    """Return the number of months, in addition to `after` returns, until the Sharpe ratio is
    significantly above 0 at 95 %.
    """
    psr = deflated_sharpe_ratio(measured.returns, (), resolution=measured.resolution)
    if psr.value is None or measured.a_year is None:
        return Figure(value=None, reason=psr.reason or NO_YEAR)

    needed = minimum_track_record(shape_of(measured.returns))
    if needed is None:
        return Figure(value=None, reason=f"{NEVER}the Sharpe ratio is not positive")
    return Figure(value=max(0.0, needed - after) / measured.a_year * _MONTHS)
