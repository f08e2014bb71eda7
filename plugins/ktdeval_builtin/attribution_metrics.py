"""Performance attribution as metrics: how the market, industries, styles, selection and trading
contribute to the total return.

Two rule sets are computed for every card. `strict` includes industries, and its five parts add up
to the total return. `paper` (KTD-Fin eq. 1) has no industries; its three parts and the same
`trading_effect` add up to the total return.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, cast, get_args

from ktdeval.attribution import (
    FEW_ASSETS,
    TRADING_LINES,
    Fit,
    LedgerAttribution,
    Scheme,
    attribute,
    attribution_problem,
    fit_factors,
    has_few_assets,
    vif_screen,
)
from ktdeval.errors import DataError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.stats import Bootstrap, FunctionMetric, Metric, MetricValue, Same, newey_west_mean
from ktdeval.trading import Ledger
from ktdeval.values import JsonValue, csv_rows, near_matches

_SOURCE = "KTD-Fin §4.5; Carino 1999"
_PAPER_FIT = (
    "daily weighted least squares of returns on an intercept and nine style exposures of the day"
    " before"
)
_FIT = f"{_PAPER_FIT}, with industries of weighted mean 0 (fewer than 5 names: pooled)"
_CALIBRATION = 60  # trading days
NO_INDUSTRY = "no industry is known of five names or more: all are one cross-section"
NO_STYLE = "no style exposure is known on any day of the window"
Better = Literal["higher", "lower", "neither"]
_Lines = Callable[[LedgerAttribution], tuple[str, ...]]
_Detail = Callable[["AttributedLedger"], Mapping[str, JsonValue]]


# Pure functions of their arguments. They are cached because all metrics need the same attribution,
# and all ledgers of a window need the same fit. The cache sizes suffice for the fits of all windows
# on a card, and for the metrics of one ledger after another.
@lru_cache(maxsize=48)
def _factor_fit(market: Same[MarketSnapshot], first_row: int, last_row: int, scheme: Scheme) -> Fit:
    # Exposures do not depend on the scheme, so the paper's fit reuses those from the strict fit.
    exposures = None
    if scheme != "strict":
        exposures = _factor_fit(market, first_row, last_row, "strict").exposures

    return fit_factors(market.value, first_row, last_row, scheme, known=exposures)


@lru_cache(maxsize=8)
def _attribution(
    ledger: Same[Ledger], market: Same[MarketSnapshot], scheme: Scheme
) -> LedgerAttribution:
    first_row = market.value.day_index(ledger.value.days[0])
    last_row = first_row + len(ledger.value.steps) - 1
    fit = _factor_fit(market, first_row, last_row, scheme)
    return attribute(ledger.value, market.value, fit)


@lru_cache(maxsize=16)
def _variance_inflation(market: Same[MarketSnapshot], first_row: int) -> dict[str, JsonValue]:
    """Return a mapping from factor to variance inflation factor over the `_CALIBRATION` days before
    the episode; empty if there are too few days or assets.
    """
    if has_few_assets(market.value):
        return {}

    days = range(first_row - _CALIBRATION, first_row)
    try:
        return dict(vif_screen(market.value, days, first_row).vif)
    except DataError:
        return {}


@dataclass(frozen=True, slots=True)
class AttributedLedger:
    """A ledger with its market, which can be attributed under any scheme."""

    ledger: Ledger
    market: MarketSnapshot

    def by(self, scheme: Scheme) -> LedgerAttribution:
        """Return the attribution under a scheme."""
        return _attribution(Same(self.ledger), Same(self.market), scheme)


def _attribution_part(
    lines: _Lines, detail: _Detail, scheme: Scheme, ledger: Ledger, market: MarketSnapshot
) -> MetricValue | str:
    """Return the linked sum of some lines in one episode's attribution, or the reason why it is
    undefined. The reason is the same under both rule sets.
    """
    problem = attribution_problem(ledger, market)
    if problem:
        return problem

    attributed = AttributedLedger(ledger, market)
    attribution = attributed.by(scheme)
    linked = attribution.linked
    if linked.lines is None:
        return linked.reason or ""

    unknown = _unknown_part(lines(attribution), attribution, market)
    if unknown:
        return unknown

    names = set(lines(attribution)) & set(_known_lines(attribution))
    value = math.fsum(linked.lines[line] for line in linked.lines if line in names)
    return MetricValue(value + 0.0, len(ledger.steps), detail=dict(detail(attributed)))


def _unknown_part(
    names: tuple[str, ...], attribution: LedgerAttribution, market: MarketSnapshot
) -> str | None:
    """Return why a part is unknown, in which case its sum would wrongly be 0; None if at least one
    of its lines is known.
    """
    if names and set(names) & set(_known_lines(attribution)):
        return None
    if has_few_assets(market):
        return FEW_ASSETS
    if "industry" in names:
        return NO_INDUSTRY
    return NO_STYLE


def _known_lines(attribution: LedgerAttribution) -> tuple[str, ...]:
    """Return the known lines. Industries are left out if none was fitted, and so are styles that
    were not fitted on any day.
    """
    unknown = set(attribution.factor_names) - set(attribution.fitted_styles)
    if not attribution.has_industries:
        unknown.add("industry")
    return tuple(name for name in attribution.line_names if name not in unknown)


def _link_contributions(
    attribution: LedgerAttribution, names: tuple[str, ...]
) -> dict[str, JsonValue]:
    """Return the linked contributions of the known lines."""
    lines = attribution.linked.lines or {}
    known = _known_lines(attribution)
    return {name: lines[name] + 0.0 for name in names if name in known}  # no negative zeros


def _selection_detail(attributed: AttributedLedger) -> dict[str, JsonValue]:
    attribution = attributed.by("strict")
    first_row = attributed.market.day_index(attributed.ledger.days[0])
    return {
        "linked": _link_contributions(attribution, attribution.line_names),
        "intervals": _line_intervals(attribution),
        "total_return": attribution.linked.total_return,
        "daily": _daily(attribution),
        "mean_exposures": _mean_exposures(attribution),
        "exposure_days": _exposure_days(attribution),
        # Selection with and without industries in the fit, and the goodness of each fit.
        "schemes": _schemes(attributed),
        "vif": _variance_inflation(Same(attributed.market), first_row),
        "notes": _attribution_notes(attribution),
    }


def _line_intervals(attribution: LedgerAttribution) -> dict[str, JsonValue]:
    """Return a confidence interval for each known line, from a block bootstrap over days."""
    columns = dict(zip(attribution.line_names, attribution.linked_lines.T, strict=True))
    lines = Bootstrap(attribution.returns).of_columns(columns)
    return {name: lines[name].sum().to_json() for name in _known_lines(attribution)}


def _attribution_notes(attribution: LedgerAttribution) -> list[JsonValue]:
    """Return the notes without their explanations. The explanations are in the docs, because a card
    repeats its notes for every episode.
    """
    return [
        {"kind": note.kind, "subject": note.subject, "count": note.count, "days": note.days}
        for note in attribution.notes
    ]


def _daily(attribution: LedgerAttribution) -> dict[str, JsonValue]:
    """Return the mean daily selection, with its Newey-West standard error and t statistic."""
    if len(attribution.selection) < 2:
        return {"mean": None, "se": None, "t": None, "reason": "fewer than two days"}

    mean, se = newey_west_mean(attribution.selection)
    if se <= 1e-15:
        return {"mean": mean + 0.0, "se": None, "t": None, "reason": "selection has no variance"}

    return {"mean": mean, "se": se, "t": mean / se, "reason": None}


def _schemes(attributed: AttributedLedger) -> dict[str, JsonValue]:
    """Return a mapping from scheme to its selection and fit. The value is null if there is no
    cross-section to fit, or if the scheme has no industry and so equals the paper's scheme.
    """
    if has_few_assets(attributed.market):
        return dict.fromkeys(get_args(Scheme))

    found: dict[str, JsonValue] = {}
    for scheme in get_args(Scheme):
        attribution = attributed.by(scheme)
        found[scheme] = None
        if scheme == "paper" or attribution.has_industries:
            found[scheme] = _scheme(attribution)

    return found


def _scheme(attribution: LedgerAttribution) -> dict[str, JsonValue]:
    """Return linked selection and goodness of fit under a scheme."""
    linked = _link_contributions(attribution, ("selection",))
    return {**linked, **asdict(attribution.goodness)}


def _mean_exposures(attribution: LedgerAttribution) -> dict[str, JsonValue]:
    """Return a mapping from factor to the mean exposure of the NAV over `exposure_days`; null
    without such days.
    """
    exposures = attribution.mean_exposures().tolist()
    means: dict[str, JsonValue] = {}
    for name, value in zip(attribution.factor_names, exposures, strict=True):
        means[name] = None
        if math.isfinite(value):
            means[name] = value + 0.0  # no negative zero

    return means


def _exposure_days(attribution: LedgerAttribution) -> dict[str, JsonValue]:
    """Return a mapping from factor to the number of days on which at least one holding had a value
    for the factor.
    """
    return dict(zip(attribution.factor_names, attribution.exposure_days().tolist(), strict=True))


def _lines_of(scheme: Scheme, names: _Lines) -> _Detail:
    """Return a function that returns each line of a part that is a sum of several lines."""

    def detail(attributed: AttributedLedger) -> Mapping[str, JsonValue]:
        attribution = attributed.by(scheme)
        return {"linked": _link_contributions(attribution, names(attribution))}

    return detail


def _styles(attribution: LedgerAttribution) -> tuple[str, ...]:
    return attribution.factor_names


_LINES: Mapping[str, _Lines] = {
    "common_return": lambda _: ("common",),
    "industry_return": lambda _: ("industry",),
    "style_return": _styles,
    "selection_alpha": lambda _: ("selection",),
    "trading_effect": lambda _: TRADING_LINES,
}
_DETAILS: Mapping[str, _Detail] = {
    "common_return": lambda attributed: {
        "invested": float(attributed.by("strict").invested.mean())
    },
    "style_return": _lines_of("strict", _styles),
    "selection_alpha": _selection_detail,
    "trading_effect": _lines_of("strict", lambda _: TRADING_LINES),
    "paper_style_return": _lines_of("paper", _styles),
    "paper_selection_alpha": lambda attributed: {"daily": _daily(attributed.by("paper"))},
}
"""Details of the parts that have any: lines of the attribution, or figures, under either scheme."""

ATTRIBUTION = {
    row["name"]: row for row in csv_rows(Path(__file__).with_name("metrics.csv")) if row["version"]
}
"""The parts of each scheme, in the order in which they add up to the total return. The parts of
`strict` end with trading, which is the same in both schemes.
"""


def attribution_metric(name: str) -> Metric:
    """Return one part of the total return as a metric. Raises UsageError if the name is unknown."""
    if name not in ATTRIBUTION:
        raise UsageError(f"no attribution metric {name!r}{near_matches(name, ATTRIBUTION)}")

    row = ATTRIBUTION[name]
    scheme: Scheme = "paper" if name.startswith("paper_") else "strict"
    formula = f"{name}/{row['version']}: {row['formula'].format(fit=_FIT, paper_fit=_PAPER_FIT)}"
    part = partial(
        _attribution_part,
        _LINES[name.removeprefix("paper_")],
        _DETAILS.get(name, lambda _: {}),
        scheme,
    )
    better = cast("Better", row["better"])

    return FunctionMetric(
        name,
        formula,
        "fraction",
        (None, None),
        better,
        _SOURCE,
        part,
        row["summary"],
        asks_for=("ledger", "market"),
    )
