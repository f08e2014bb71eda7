"""`ktdeval compare cutoff`: results before and after a model's training cutoff. The two sides are
never combined. A card without a known cutoff gets no figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import UNSET, UnsetType

from ktdeval.attribution import Fit, attribute, attribution_problem, fit_factors
from ktdeval.cards import (
    SIDES,
    STATES,
    CutoffEntry,
    TradingEpisode,
    card_cutoff,
    check_match,
    parse_cutoff_or_state,
    sides,
)
from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.stats import (
    Bootstrap,
    Interval,
    Resampling,
    benchmark_levels,
    beta_to,
    ends_of_difference,
)
from ktdeval.trading import Ledger
from ktdeval_compare.pairs.card_markets import CardMarkets
from ktdeval_compare.pairs.compared_cards import EntrantCard, Values, label, recorded_ledger

if TYPE_CHECKING:
    from ktdeval_compare.cutoffs.options import CutoffOptions

BEFORE, ACROSS, AFTER = SIDES
_REASONS = {
    "unknown": "unknown: no public date of this model; give one with --cutoff MODEL=DATE",
    "none": STATES["none"],
}
_ONLY_A_BOUND = (
    "the date is a lower bound, so no day is known to be after the training data; give their end "
    "with --cutoff MODEL=DATE"
)
_NO_MARKET = "no daily excess, no alpha and no selection"
_FEW = 3  #: minimum number of days on one side of the cutoff for fitting a beta


#: Day -> figure
_Days = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class DecayEstimate:
    """Mean before the cutoff minus mean after it. `reason` says why the interval is missing."""

    mean_before: float | None
    mean_after: float | None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class CutoffRow:
    """An annualised figure of one card before and after its model's cutoff."""

    card: str
    model: str
    cutoff: str  #: a date, `none` or `unknown`; without a date, all figures are unset
    confidence: str | None = None
    source: str | None = None
    figure: str | None = None
    unit: str | UnsetType = UNSET
    days_before: int | UnsetType = UNSET
    days_across: int | UnsetType = UNSET
    days_after: int | UnsetType = UNSET
    mean_before: float | UnsetType | None = UNSET
    mean_after: float | UnsetType | None = UNSET
    value: float | UnsetType | None = UNSET
    low: float | UnsetType | None = UNSET
    high: float | UnsetType | None = UNSET
    reason: str | None = None


@dataclass(frozen=True)
class CutoffReport:
    """Report of `ktdeval compare cutoff`."""

    alpha: float
    cards: Sequence[CutoffRow]  #: one row per card and figure
    notes: Sequence[str]


def decay(
    before: Values, after: Values, level: float = 0.95, years: Sequence[Values | int] = (1, 1)
) -> DecayEstimate:
    """Return the mean of daily values before the cutoff minus the mean after it. Both means are
    annualised with `years`, the days per year of each side or of each day. The interval for the
    difference combines the intervals of the two means (stationary bootstrap, studentised), assuming
    that the means are independent.
    """
    mean_before = float((before * years[0]).mean()) if len(before) else None
    mean_after = float((after * years[1]).mean()) if len(after) else None
    if mean_before is None or mean_after is None:
        side = BEFORE if mean_before is None else AFTER
        return DecayEstimate(
            mean_before=mean_before,
            mean_after=mean_after,
            reason=f"no days with this figure {side} the cutoff",
        )

    of_before = _annual_interval(before, years[0], level)
    of_after = _annual_interval(after, years[1], level)
    ends = ends_of_difference((mean_before, of_before), (mean_after, of_after))
    result = DecayEstimate(
        mean_before=mean_before, mean_after=mean_after, value=mean_before - mean_after
    )
    if ends is not None:
        return replace(result, low=ends[0], high=ends[1])
    if of_before.reason:
        return replace(result, reason=f"{BEFORE} the cutoff: {of_before.reason}")
    return replace(result, reason=f"{AFTER} the cutoff: {of_after.reason}")


def _annual_interval(values: Values, year: Values | int, level: float) -> Interval:
    return Bootstrap(values * year, Resampling(level=level), values).mean()


def cutoff(entrants: Sequence[EntrantCard], dates: Mapping[str, str], alpha: float) -> CutoffReport:
    """Report each card's figures before and after the model's cutoff: `daily_return` and, if the
    market can be read, `daily_excess`, `daily_alpha` and `daily_selection`.

    `dates` gives cutoffs by system pattern. Raises UsageError if a cutoff is not a date, or if a
    pattern matches no card.
    """
    for pattern, date in dates.items():
        check_match(pattern, (entrant.system for entrant in entrants), "--cutoff")
        parse_cutoff_or_state(date, "--cutoff")

    markets = CardMarkets(_NO_MARKET)
    rows: list[CutoffRow] = []
    notes: list[str] = []
    for entrant in label(entrants):
        known = _cutoff_of(entrant, dates)
        if isinstance(known, CutoffEntry):
            series = _daily_series(entrant, known, markets)
            notes += [f"{entrant.label}: {reason}" for reason in series.notes]
            rows += _cutoff_rows(entrant, known, series, alpha)
        else:
            rows.append(
                CutoffRow(
                    card=entrant.label,
                    model=entrant.card.model.name,
                    cutoff=known,
                    reason=_REASONS[known],
                )
            )

    return CutoffReport(alpha, rows, list(dict.fromkeys(notes)))


def cutoff_report(entrants: Sequence[EntrantCard], options: CutoffOptions) -> CutoffReport:
    """Return the report of the command. Raises UsageError if an option is not MODEL=DATE, and in
    the same cases as `cutoff`.
    """
    dates: dict[str, str] = {}
    for given in options.cutoffs:
        name, _, date = given.rpartition("=")
        if not name:
            raise UsageError(f"--cutoff {given!r}: expected MODEL=DATE")
        if name in dates:
            raise UsageError("--cutoff: the same model is given twice; give its date once")

        dates[name] = date

    return cutoff(entrants, dates, options.alpha)


def _cutoff_rows(
    entrant: EntrantCard, cutoff: CutoffEntry, series: _DailySeries, alpha: float
) -> Iterator[CutoffRow]:
    for figure, by_side in series.figures.items():
        before = by_side[BEFORE]
        after = by_side[AFTER]
        years = [
            np.array([series.days_a_year[day] for day in before]),
            np.array([series.days_a_year[day] for day in after]),
        ]
        estimate = decay(
            np.array(list(before.values())), np.array(list(after.values())), 1.0 - alpha, years
        )
        if cutoff.is_lower_bound:
            estimate = replace(estimate, reason=_ONLY_A_BOUND)

        yield CutoffRow(
            card=entrant.label,
            model=entrant.card.model.name,
            cutoff=cutoff.date,
            confidence=cutoff.confidence,
            source=cutoff.source,
            figure=figure,
            unit="fraction",
            days_before=len(before),
            days_across=len(by_side[ACROSS]),
            days_after=len(after),
            **asdict(estimate),
        )


def _cutoff_of(entrant: EntrantCard, dates: Mapping[str, str]) -> CutoffEntry | str:
    """Return the cutoff that is given for a card's system or recorded on the card. Without a date,
    the cutoff has a state (`none` or `unknown`).

    Raises UsageError if two cutoffs are given.
    """
    matched = {date: pattern for pattern, date in dates.items() if entrant.system.matches(pattern)}
    if len(matched) > 1:
        raise UsageError(
            f"--cutoff: {' and '.join(matched.values())} both match {entrant.label}; give its date"
            " once"
        )

    for date in matched:
        return parse_cutoff_or_state(date, "--cutoff")
    return card_cutoff(entrant.card)


# ---- daily figures


@dataclass(frozen=True, slots=True)
class _DailySeries:
    """Daily figures of one card: means over seeds and over windows that share the day."""

    figures: dict[str, dict[str, _Days]]  #: figure -> side of the cutoff -> day
    #: by day: the largest number of days per year in any window that includes the day
    days_a_year: dict[str, int]
    notes: Sequence[str]  #: reasons why figures are missing


def _daily_series(entrant: EntrantCard, cutoff: CutoffEntry, markets: CardMarkets) -> _DailySeries:
    market = markets.find(entrant)
    samples: dict[str, dict[str, dict[str, list[float]]]] = {}
    fits: dict[tuple[int, int], Fit] = {}
    days_a_year: dict[str, int] = {}

    for episode in entrant.card.episodes:
        ledger = _ledger_of(entrant, episode)
        days = [str(day) for day in ledger.days]
        for day in days:
            days_a_year[day] = max(days_a_year.get(day, 0), ledger.days_a_year)

        sides_of_days = sides(ledger.days, ledger.base_day, cutoff)
        for figure, values in _daily(ledger, market, fits).items():
            by_side = samples.setdefault(figure, {BEFORE: {}, ACROSS: {}, AFTER: {}})
            for day, side, value in zip(days, sides_of_days, values, strict=True):
                by_side[side].setdefault(day, []).append(float(value))

    figures: dict[str, dict[str, _Days]] = {}
    for figure, by_side in samples.items():
        figures[figure] = {side: _means(of_day) for side, of_day in by_side.items()}

    if "daily_excess" in figures:
        figures["daily_alpha"] = {
            str(side): _alpha(figures["daily_return"][side], figures["daily_excess"][side])
            for side in SIDES
        }

    notes = [market] if isinstance(market, str) else []
    return _DailySeries(figures, days_a_year, notes)


def _ledger_of(entrant: EntrantCard, episode: TradingEpisode) -> Ledger:
    """Return the ledger of an episode.

    Raises UsageError if the ledger can't be read, or if returns are undefined because a NAV is not
    positive.
    """
    ledger = recorded_ledger(entrant, episode.id)
    if isinstance(ledger, str):
        raise UsageError(f"{entrant.path}: {ledger}; days are those of the run folder")
    if (ledger.nav <= 0).any():
        raise UsageError(
            f"{entrant.path}: the NAV of window {episode.window}, seed {episode.seed} is not"
            " positive on a day, so it has no returns; leave the card out"
        )
    return ledger


def _means(samples: Mapping[str, Sequence[float]]) -> _Days:
    return {day: float(np.mean(values)) for day, values in sorted(samples.items())}


def _alpha(returns: _Days, excess: _Days) -> _Days:
    """Return daily returns minus beta times the benchmark's returns. Beta is fitted by least
    squares to the days on one side of the cutoff. The mean is Jensen's alpha with a risk-free rate
    of 0.

    Empty if there are too few days, if the benchmark lacks a day, or if beta is undefined.
    """
    own = np.array(list(returns.values()))
    market = own - np.array([excess.get(day, np.nan) for day in returns])
    if len(own) < _FEW or not np.isfinite(market).all():
        return {}

    beta = beta_to(market, own)
    if beta is None:
        return {}

    alphas = (own - beta * market).tolist()
    return dict(zip(returns, alphas, strict=True))


def _daily(
    ledger: Ledger, market: MarketSnapshot | str, fits: dict[tuple[int, int], Fit]
) -> dict[str, Values]:
    """Return the daily figures of a ledger. Figures relative to the market are included only if the
    market can be read.
    """
    figures = {"daily_return": ledger.returns}
    if isinstance(market, str):
        return figures

    levels = benchmark_levels(ledger, market)
    if market.meta.benchmark and (levels > 0).all():
        figures["daily_excess"] = ledger.returns - (levels[1:] / levels[:-1] - 1.0)

    if not attribution_problem(ledger, market):
        first = market.day_index(ledger.days[0])
        last = first + len(ledger.steps) - 1
        # Cached because fits are slow and all seeds of a window cover the same days.
        if (first, last) not in fits:
            fits[first, last] = fit_factors(market, first, last)

        figures["daily_selection"] = attribute(ledger, market, fits[first, last]).selection

    return figures
