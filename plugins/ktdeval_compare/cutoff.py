"""`ktdeval cutoff`: results in a model's training time and out of it, never mixed; an unknown cutoff stays unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ktdeval.attribution import Fit, attribute, attribution_problem, fit_factors
from ktdeval.cards import SIDES, STATES, Cutoff, card_cutoff, parse_cutoff_or_state, sides
from ktdeval.errors import UsageError
from ktdeval.fields import near_matches
from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, recorded_market
from ktdeval.stats import Bootstrap, Resampling, benchmark_levels, beta_to, ends_of_difference
from ktdeval.trading import Ledger
from ktdeval_compare.entrants import Entrant, Row, Values, label, recorded_ledger

BEFORE, ACROSS, AFTER = SIDES
_REASONS = {
    "unknown": "unknown: no public date of this model; --cutoff MODEL=DATE gives one",
    "none": STATES["none"],
}
_NO_MARKET = "no excess return, no alpha and no selection"
_FEW = 3  #: Days on a side below which no beta is fitted


def decay(before: Values, after: Values, level: float = 0.95, years: Sequence[Values | int] = (1, 1)) -> Row:
    """Mean of daily values before the cutoff less that after, each times the days a year of its side or day (`years`): `value`, and
    an interval from those of both means (stationary bootstrap, studentised), combined as of independent estimates; or the `reason`
    why there is none.
    """
    sides_of = list(zip((before, after), years, strict=True))
    one, other = (Bootstrap(values * year, Resampling(level=level), values).mean() for values, year in sides_of)
    first, second = (float((values * year).mean()) if len(values) else None for values, year in sides_of)
    row: Row = {"mean_before": first, "mean_after": second, "value": None, "low": None, "high": None, "reason": None}
    if first is None or second is None:
        return row | {"reason": f"no days with this figure {BEFORE if first is None else AFTER} the cutoff"}
    row["value"] = first - second
    if ends := ends_of_difference((first, one), (second, other)):
        return row | {"low": ends[0], "high": ends[1]}
    side, end = (BEFORE, one) if one.reason else (AFTER, other)
    return row | {"reason": f"{side} the cutoff: {end.reason}"}


def cutoff(entrants: Sequence[Entrant], dates: Mapping[str, str], alpha: float) -> Row:
    """Rows `cards`: one for each card and figure (return; excess over the benchmark, alpha and selection, where there is a market),
    with the days before, across and after the model's cutoff and the decay, annualised. Raises UsageError: a cutoff is no date, or
    of a model that is on no card.
    """
    models = [entrant.card.model.name for entrant in entrants]
    for name in dates:
        if name not in models:
            raise UsageError(f"--cutoff {name}: no card is of this model{near_matches(name, models)}")
        parse_cutoff_or_state(dates[name], "--cutoff")
    rows, notes = [], list[str]()
    for entrant in label(entrants):
        name = entrant.card.model.name
        cutoff = parse_cutoff_or_state(dates[name], "--cutoff") if name in dates else card_cutoff(entrant.card)
        head: Row = {"card": entrant.label, "model": name, "cutoff": cutoff, "confidence": None, "source": None}
        if not isinstance(cutoff, Cutoff):
            rows.append(head | {"figure": None, "reason": _REASONS[cutoff]})
            continue
        head |= {"cutoff": cutoff.text, "confidence": cutoff.confidence, "source": cutoff.source}
        series, years, why = _series(entrant, cutoff)
        notes += [f"{entrant.label}: {reason}" for reason in why]
        for figure, by_side in series.items():
            before, after = (np.array(list(by_side[side].values())) for side in (BEFORE, AFTER))
            scales = [np.array([years[day] for day in by_side[side]]) for side in (BEFORE, AFTER)]
            estimate = decay(before, after, 1.0 - alpha, scales)
            counts = {f"days_{side}": len(by_side[side]) for side in (BEFORE, ACROSS, AFTER)}
            rows.append(head | {"figure": figure, "unit": "fraction", **counts, **estimate})
    return {"alpha": alpha, "cards": rows, "notes": list(dict.fromkeys(notes))}


def _series(entrant: Entrant, cutoff: Cutoff) -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, int], list[str]]:
    """Figure -> side -> day -> mean over seeds and over windows that share the day; the days a year of each day, the largest of its
    windows; and what there is not.
    """
    market: MarketSnapshot | str = f"{_NO_MARKET}: the card lies in no run folder"
    if entrant.is_in_run:
        market = recorded_market(RunFolder.load(entrant.run_folder), load_plugins(), None, _NO_MARKET)
    notes = [market] if isinstance(market, str) else []
    samples: dict[str, dict[str, dict[str, list[float]]]] = {}
    fits: dict[tuple[int, int], Fit] = {}
    years: dict[str, int] = {}
    for episode in entrant.card.episodes:
        ledger = recorded_ledger(entrant, episode.id)
        if isinstance(ledger, str) or (ledger.nav <= 0).any():
            ruined = f"the NAV of window {episode.window}, seed {episode.seed} is not positive on a day, so it has no returns"
            problem = f"{ledger}; days are those of the run folder" if isinstance(ledger, str) else f"{ruined}; leave the card out"
            raise UsageError(f"{entrant.path}: {problem}")
        years |= {str(day): max(years.get(str(day), 0), ledger.days_a_year) for day in ledger.days}
        for figure, values in _daily(ledger, market, fits).items():
            by_side = samples.setdefault(figure, {BEFORE: {}, ACROSS: {}, AFTER: {}})
            for day, side, value in zip(ledger.days, sides(ledger.days, ledger.base_day, cutoff), values, strict=True):
                by_side[side].setdefault(str(day), []).append(float(value))
    means = {figure: {side: {day: float(np.mean(values)) for day, values in sorted(days.items())} for side, days in by_side.items()}
             for figure, by_side in samples.items()}  # fmt: skip
    if "excess" in means:
        means["alpha"] = {str(side): _alpha(means["return"][side], means["excess"][side]) for side in SIDES}
    return means, years, notes


def _alpha(returns: Mapping[str, float], excess: Mapping[str, float]) -> dict[str, float]:
    """Daily returns less beta times those of the benchmark, beta fitted by least squares to the days of this side: their mean is
    Jensen's alpha, without a riskless rate. Empty where there are too few days, or days without a benchmark.
    """
    own = np.array(list(returns.values()))
    market = own - np.array([excess.get(day, np.nan) for day in returns])
    beta = beta_to(market, own) if len(own) >= _FEW and np.isfinite(market).all() else None
    return {} if beta is None else dict(zip(returns, (own - beta * market).tolist(), strict=True))


def _daily(ledger: Ledger, market: MarketSnapshot | str, fits: dict[tuple[int, int], Fit]) -> dict[str, Values]:
    """Daily figures of a ledger, as far as its market is at hand."""
    figures = {"return": ledger.returns}
    if isinstance(market, str):
        return figures
    levels = benchmark_levels(ledger, market)
    if market.meta.benchmark and (levels > 0).all():
        figures["excess"] = ledger.returns - (levels[1:] / levels[:-1] - 1.0)
    if not attribution_problem(ledger, market):
        first = market.day_index(ledger.days[0])
        key = (first, first + len(ledger.steps) - 1)
        fits.setdefault(key, fits.get(key) or fit_factors(market, *key))
        figures["selection"] = attribute(ledger, market, fits[key]).selection
    return figures
