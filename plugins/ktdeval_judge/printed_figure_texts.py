"""Reports of `judge --sharpe` as plain text: sentences, then a table, then the assumptions."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from ktdeval.cards import count, percent
from ktdeval.cli import grid_lines, print_json, terminal_width
from ktdeval.errors import UsageError
from ktdeval.stats import annualisation_problem
from ktdeval.values import to_plain
from ktdeval_judge.printed_figure import (
    ROUGH_BELOW,
    USUAL_PERIODS,
    JudgedFigure,
    LuckBar,
    PrintedFigure,
    is_daily,
    judge_figure,
)
from ktdeval_judge.printed_figure_options import PrintedFigureOptions
from ktdeval_judge.proof import objections, returns_for_evidence

_UNDEFINED = "–"
_WIDEST = 100  #: maximum width of the text, in columns


def print_printed_figure(options: PrintedFigureOptions) -> None:
    """Print the evidence in a reported Sharpe ratio. Raises UsageError if a value is impossible, or
    if the ratio or the number of days is missing.
    """
    if options.sharpe is None:
        raise UsageError("no figure: give --sharpe, such as --sharpe 2.1 --days 170")
    if options.days is None:
        raise UsageError(
            f"--sharpe {options.sharpe:g} needs --days, the number of daily returns behind it, such"
            " as --days 170"
        )

    periods = USUAL_PERIODS if options.periods is None else options.periods
    trials = 1 if options.trials is None else options.trials
    report = judge_figure(
        PrintedFigure(
            sharpe=options.sharpe,
            days=options.days,
            trials=trials,
            trial_sd=options.trial_sd,
            skew=options.skew,
            kurtosis=options.kurtosis,
            autocorrelation=options.autocorrelation,
            periods=periods,
        )
    )
    if options.as_json:
        print_json(to_plain(report))
        return

    for line in printed_figure_lines(report, min(terminal_width(), _WIDEST)):
        click.echo(line)


def printed_figure_lines(report: JudgedFigure, width: int = _WIDEST) -> Iterator[str]:
    """Yield the lines of a report, which fits on one screen and is at most `width` columns wide."""
    yield from _wrap_words(" ".join(verdict(report)), width)
    yield ""
    if _problem(report) is None:
        yield from _table(report)
        yield ""
    for note in _assumptions(report):
        yield from _wrap_words(note, width, "  ")


def _wrap_words(words: str, width: int, indent: str = "") -> Iterator[str]:
    """Yield the lines of a wrapped text. A percent sign stays on the same line as its number."""
    joined = words.replace(" %", "\N{NO-BREAK SPACE}%")
    for line in textwrap.wrap(joined, width, initial_indent=indent, subsequent_indent=2 * indent):
        yield line.replace("\N{NO-BREAK SPACE}", " ")


def _problem(report: JudgedFigure) -> str | None:
    """Return why a ratio of so few returns allows no statement about skill, or None."""
    return annualisation_problem(report.days, report.periods)


def verdict(report: JudgedFigure) -> Iterator[str]:
    """Yield the sentences of the verdict."""
    problem = _problem(report)
    if problem is not None:
        yield f"No statement about skill is possible: {problem}."
        return

    what = f"A Sharpe ratio of {report.sharpe:.4g} over {_returns(report.days, report)}"
    often = share_words(report.luck.reached_by_luck)
    if report.trials == 1:
        yield f"{what} would be beaten by a strategy without skill {often} of the time."
    else:
        yield (
            f"{what} would be beaten by the best of {report.trials:,} lucky tries {often} of the"
            " time."
        )

    low, high = report.interval
    interval = f"two-sided {share_words(report.confidence)} interval is {low:.2f} to {high:.2f}"
    if report.trials == 1:
        yield f"Its {interval}."
    else:
        yield f"As an only try, its {interval}; as the best of {report.trials:,} it is too high."
    yield from _proof(report)


def _proof(report: JudgedFigure) -> Iterator[str]:
    """Yield sentences on whether the ratio is significantly above its threshold, and how many days
    this would take.
    """
    bar = report.zero
    measure = "its probabilistic Sharpe ratio, the one-sided confidence that it exceeds 0,"
    if report.trials > 1:
        bar = report.luck
        measure = (
            f"its deflated Sharpe ratio, the one-sided confidence that it exceeds {bar.sharpe:.2f}, the"
            f" average best of {report.trials:,} tries without skill,"
        )

    chance = f"{measure} is {share_against(bar.probability, report.confidence)}"
    required = f"and {share_words(report.confidence)} is required"
    against = list(objections({"the ratio": report.interval}))
    if bar.probability >= report.confidence and not against:
        yield f"This is evidence of skill: {chance}, and its interval lies above zero."
    elif bar.probability >= report.confidence:
        yield f"This is not evidence of skill: {'; '.join(against)}, although {chance}."
    elif bar.reached_by_luck <= 1 - report.confidence:
        # The deflated ratio also includes the estimation error of the ratio; in the probability of
        # luck, the threshold is random instead.
        yield f"Luck alone seldom reaches this ratio, but {chance}, {required}."
    else:
        yield f"This is not evidence of skill: {chance}, {required}."

    needed = returns_for_evidence(report)
    if bar.track_record is None:
        yield f"No number of returns would change that: {bar.reason}."
    elif needed is not None and needed > report.days:
        yield f"A ratio of this size needs {_days(needed, report)} to be evidence."

    if bar.smallest_shown is not None:
        yield (
            f"{_returns(report.days, report)} detect a true ratio of {bar.smallest_shown:.2f} in "
            f"{share_words(report.power)} of all cases, and a smaller one less often."
        )


def _table(report: JudgedFigure) -> list[str]:
    bars = [report.zero]
    columns = ["", "against 0"]
    if report.trials > 1:
        bars.append(report.luck)
        columns.append(f"against the best of {report.trials:,}")

    sure = share_words(report.confidence)
    unit = f"{_unit(report)}s"
    rows = [
        ["bar: annual Sharpe ratio", *(f"{bar.sharpe:.2f}" for bar in bars)],
        [
            "luck alone reaches the printed ratio",
            *(share_words(bar.reached_by_luck) for bar in bars),
        ],
        [
            "one-sided confidence that it exceeds the bar (PSR, DSR)",
            *(share_words(bar.probability) for bar in bars),
        ],
        [
            f"{unit} until that confidence is {sure} (MinTRL)",
            *(_rounded_up(bar.track_record) for bar in bars),
        ],
        [
            f"{unit} to show such a true ratio, {share_words(report.power)} of the time",
            *(_rounded_up(bar.days_needed) for bar in bars),
        ],
        [
            f"smallest true ratio that {report.days:,} {unit} show",
            *(_smallest(bar) for bar in bars),
        ],
    ]
    return grid_lines(columns, rows, left=("",), indent="  ")


def _assumptions(report: JudgedFigure) -> Iterator[str]:
    """Yield the assumptions behind the figures."""
    yield (
        f"Assumed: {report.periods:g} returns a year, skew {report.skew:g}, kurtosis"
        f" {report.kurtosis:g}, autocorrelation {report.autocorrelation:g}; standard error"
        f" {report.standard_error:.2f} a year."
    )
    yield from _about_trials(report)
    if report.autocorrelation:
        yield f"With this autocorrelation, the annual ratio is {report.annualised:.2f} by Lo's rule."
    if report.days < ROUGH_BELOW:
        yield f"Fewer than {ROUGH_BELOW} returns: all figures are rough approximations."
    if _problem(report) is not None:
        return

    yield (
        "PSR: probabilistic, DSR: deflated Sharpe ratio, MinTRL: minimum track record length "
        "(Bailey"
        " and López de Prado 2012, 2014)."
    )


def _about_trials(report: JudgedFigure) -> Iterator[str]:
    """Yield the assumption about the trials' ratios, and a note if the given spread contradicts
    it.
    """
    if report.trials == 1:
        if report.is_trial_sd_given:
            yield (
                "--trial-sd is not used: the test against 0 uses the error of one ratio. With "
                "--trials, the spread gives the ratio that the best of them reaches by luck."
            )
        return

    origin = "assumed: chance alone, no skill (--trial-sd)"
    if report.is_trial_sd_given:
        origin = "given"

    spread = f"their annual ratios have a standard deviation of {report.trial_sd:.2f} ({origin})"
    if not report.trial_correlation:
        yield f"Trials are independent; {spread}."
        return

    yield (
        f"Trials: {spread}, below {report.error_without_skill:.2f}, the error of one ratio without"
        " skill. Independent trials scatter at least that much, so these are assumed to share "
        f"luck, with a correlation of {report.trial_correlation:.2f}."
    )


def share_words(value: float) -> str:
    """Return a probability in percent."""
    if value < 0.001:
        return "less than 0.1 %"
    if value > 0.999:
        return "more than 99.9 %"
    return percent(value, ".3g")


def share_against(value: float, required: float) -> str:
    """Return a probability in percent, worded unlike a larger one that is required."""
    words = share_words(value)
    if value < required and words == share_words(required):
        return f"just below {words}"
    return words


def _rounded_up(days: float | None) -> str:
    if days is None:
        return "never"
    return f"{_whole(days):,}"


def _whole(days: float) -> int:
    """Return the number of days, rounded up to a whole number."""
    return -int(-days // 1)


def _days(days: float, report: JudgedFigure) -> str:
    return f"{_returns(_whole(days), report)} ({days / report.periods:.1f} years)"


def _returns(number: int, report: JudgedFigure) -> str:
    return count(number, _unit(report))


def _unit(report: JudgedFigure) -> str:
    """Return `day` if a year has about as many returns as trading days, and `return` otherwise."""
    if is_daily(report.periods):
        return "day"
    return "return"


def _smallest(bar: LuckBar) -> str:
    if bar.smallest_shown is None:
        return _UNDEFINED
    return f"{bar.smallest_shown:.2f}"
