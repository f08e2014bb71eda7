"""Figures of a single card that need its ledgers and its market, computed once for both plots and
tables.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from ktdeval import stats
from ktdeval.attribution import Fit, LedgerAttribution, attribute, attribution_problem, fit_factors
from ktdeval.cards import nearest_to_median
from ktdeval.errors import ConfigError
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.trading import Ledger, MarketTape, TradingConfig, trading_rules
from ktdeval.values import convert_value
from ktdeval_report.inputs import Cell, ReportedCard

_NO_MARKET = "the market is not at hand"


@dataclass(frozen=True)
class ChanceSettings:
    """Number and seed of the random traders to simulate."""

    paths: int = 200
    seed: int = 0


@dataclass(frozen=True)
class WindowStudy:
    """A window of a card, and the episode that represents the window: the episode whose total
    return is closest to the median over seeds. Ties go to the lowest seed.
    """

    name: str
    drawn: bool  # whether plots are drawn for the window
    others: Sequence[Ledger]  # ledgers of the other seeds, if plots are drawn
    seed: int
    ledger: Ledger
    benchmark: FloatArray | None = None  # [steps + 1] index levels; None without the market
    # intervals of the daily metrics, keyed by name; empty without the market
    intervals: Mapping[str, stats.Interval] = field(default_factory=dict)
    # attribution of the episode's returns; None with `no_attribution`
    attribution: LedgerAttribution | None = None
    no_attribution: str = _NO_MARKET  # why there is no attribution
    #: intervals of the linked contributions, keyed by line; `style` and `trading` are each the
    #: total of their lines
    lines: Mapping[str, stats.Interval] = field(default_factory=dict)
    # HAC t statistic of the daily selection; None if undefined
    selection_t: float | None = None
    # random traders with the same activity as the episode; None with `no_envelope`
    envelope: stats.TraderEnvelope | None = None
    no_envelope: str = _NO_MARKET  # why there is no envelope

    @property
    def label(self) -> str:
        """Window and seed, as shown in tables and plots of a single episode."""
        return f"{self.name}, seed {self.seed}"


class ReliabilityBin(msgspec.Struct, frozen=True):
    """Orders with similar stated confidence, and the fraction that turned out right."""

    low: float  # edges of the bin
    high: float
    n: int  # number of orders
    mean_confidence: float
    accuracy: float
    # 95 % interval of the accuracy; None without ledgers and market
    accuracy_low: float | None = None
    accuracy_high: float | None = None


@dataclass(frozen=True)
class CardStudy:
    """A card with the figures that the report shows."""

    evaluation: ReportedCard  # the card and its records
    windows: Sequence[WindowStudy] = ()  # windows with ledgers, in the order of the card
    #: linked contributions of the episodes that have an attribution line, keyed by line
    lines: Mapping[str, Sequence[float]] = field(default_factory=dict)
    #: mean exposure of the NAV over all days of all episodes that have one, keyed by factor
    exposures: Mapping[str, float] = field(default_factory=dict)
    #: number of times that the attributions lacked an input, keyed by meaning and subject
    notes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    reliability: Sequence[ReliabilityBin] = ()


class StudyWorkbench:
    """Computes studies, and caches what cards share: the factor returns in a window, and the prices
    under a rule set.
    """

    def __init__(self, settings: ChanceSettings) -> None:
        self._settings = settings
        self._fits: dict[tuple[str, int, int], Fit] = {}
        self._tapes: dict[tuple[str, TradingConfig], MarketTape] = {}

    def study(self, evaluation: ReportedCard, drawn_windows: Sequence[str]) -> CardStudy:
        """Compute the figures of a single card. The windows to be drawn also get plots and an
        envelope.
        """
        all_ledgers = evaluation.ledgers()
        reliability = [
            convert_value(entry, ReliabilityBin, from_attributes=True)
            for entry in evaluation.card.calibration.bins
        ]
        if not all_ledgers:
            return CardStudy(evaluation, reliability=reliability)

        market = evaluation.market
        windows = []
        splits = []

        for name in evaluation.windows:
            ledgers = {cell: ledger for cell, ledger in all_ledgers.items() if cell[0] == name}
            attributions = {
                cell: self._attribution(ledger, market) for cell, ledger in ledgers.items()
            }
            if name in evaluation.pooled_windows:
                splits += [
                    one for one in attributions.values() if isinstance(one, LedgerAttribution)
                ]

            chosen = representative(ledgers)
            is_drawn = name in drawn_windows
            others: list[Ledger] = []
            if is_drawn:
                others += [ledger for cell, ledger in ledgers.items() if cell != chosen]

            window = WindowStudy(name, is_drawn, others, chosen[1], ledgers[chosen])
            if market is not None:
                window = self._judge_window(window, evaluation, market, attributions[chosen])
            windows.append(window)

        if market is not None:
            forecasts: list[stats.Forecast] = []
            for (window_name, _), ledger in all_ledgers.items():
                if window_name in evaluation.pooled_windows:
                    forecasts += stats.judged_orders(ledger, market).forecasts

            points = stats.reliability_points(forecasts)
            reliability = [convert_value(point, ReliabilityBin) for point in points]

        return CardStudy(evaluation, windows, *over_episodes(splits), reliability)

    def _judge_window(
        self,
        window: WindowStudy,
        evaluation: ReportedCard,
        market: MarketSnapshot,
        attribution: LedgerAttribution | str,
    ) -> WindowStudy:
        """Return a window with the figures that need the market."""
        window = replace(window, intervals=stats.episode_intervals(window.ledger, market))
        if market.meta.benchmark:
            window = replace(window, benchmark=stats.benchmark_levels(window.ledger, market))

        if isinstance(attribution, str):
            window = replace(window, no_attribution=attribution)
        else:
            window = replace(
                window,
                attribution=attribution,
                no_attribution="",
                lines=line_intervals(attribution),
                selection_t=_selection_t(attribution),
            )

        if not window.drawn:
            return replace(window, no_envelope="not drawn")

        envelope = self._envelope(evaluation, window.ledger, market)
        if isinstance(envelope, str):
            return replace(window, no_envelope=envelope)
        return replace(window, envelope=envelope, no_envelope="")

    def _attribution(
        self, ledger: Ledger, market: MarketSnapshot | None
    ) -> LedgerAttribution | str:
        if market is None:
            return _NO_MARKET
        problem = attribution_problem(ledger, market)
        if problem:
            return problem

        first = market.day_index(ledger.days[0])
        last = first + len(ledger.steps) - 1
        key = (market.id, first, last)

        if key not in self._fits:
            self._fits[key] = fit_factors(market, first, last)

        return attribute(ledger, market, self._fits[key])

    def _envelope(
        self, evaluation: ReportedCard, ledger: Ledger, market: MarketSnapshot
    ) -> stats.TraderEnvelope | str:
        problem = stats.envelope_problem(ledger)
        if problem:
            return problem

        try:
            config = trading_rules(
                evaluation.card.task.config.get("trading") or {}, "trading rules on the card"
            )
        except ConfigError as error:
            return str(error)

        key = (market.id, config)
        if key not in self._tapes:
            self._tapes[key] = MarketTape.from_snapshot(market, config)

        return stats.random_envelope(
            ledger,
            market,
            config,
            stats.EnvelopeSettings(self._settings.paths, self._settings.seed),
            self._tapes[key],
        )


def representative(ledgers: Mapping[Cell, Ledger]) -> Cell:
    """Return the episode of a window whose total return is closest to the median. Ties go to the
    lowest seed, so that neither a higher nor a lower return is preferred.
    """
    cells = sorted(ledgers)
    total_returns = [float(ledgers[cell].nav[-1] / ledgers[cell].nav[0] - 1.0) for cell in cells]
    return cells[nearest_to_median(total_returns)]


def choose_windows(evaluation: ReportedCard, most: int) -> list[str]:
    """Return the windows to draw: the windows with the benchmark's worst, best and median return,
    then others in the order of the card.

    The choice depends on the benchmark, not on the agent, so it can't flatter the agent.
    """
    if most <= 0:
        return []

    known = evaluation.windows
    if len(known) <= most:
        return known

    reference = evaluation.card.reference.benchmark_buy_and_hold
    by_return = sorted(known, key=lambda name: reference[name].metrics.total_return.value or 0.0)
    first = [by_return[len(by_return) // 2]]
    if most > 1:
        first = [by_return[0], by_return[-1], *first]

    chosen = list(dict.fromkeys([*first, *known]))[:most]

    return [name for name in known if name in chosen]


def line_intervals(attribution: LedgerAttribution) -> dict[str, stats.Interval]:
    """Return the bootstrap interval over days of each linked line and part. Lines are computed as
    on the card, except that `rounding` has no interval here.
    """
    if attribution.linked.lines is None:
        return {}

    linked = attribution.linked_lines
    series = dict(zip(attribution.line_names, linked.T, strict=True)) | attribution.parts(linked)
    # Rounding is zero up to noise of 1e-16 except on a few days, so a resample without those days
    # would divide by almost nothing.
    remainder = stats.Interval(
        None,
        None,
        0.95,
        "none",
        len(linked),
        reason="it is what the other lines leave, not an estimate",
    )

    intervals = {}
    for name, values in series.items():
        if name == "rounding":
            intervals[name] = remainder
        else:
            intervals[name] = stats.Bootstrap(values, seeded_by=attribution.returns).sum()

    return intervals


def _selection_t(attribution: LedgerAttribution) -> float | None:
    if len(attribution.selection) < 2:
        return None
    mean, error = stats.newey_west_mean(attribution.selection)
    return mean / error if error > 1e-15 else None


def over_episodes(
    attributions: Sequence[LedgerAttribution],
) -> tuple[dict[str, list[float]], dict[str, float], dict[tuple[str, str], int]]:
    """Return the linked contributions keyed by line, the mean exposures keyed by factor, and how
    often each input was missing.
    """
    lines = defaultdict(list)
    weighted = defaultdict(list)
    notes: Counter[tuple[str, str]] = Counter()

    for attribution in attributions:
        for name, value in (attribution.linked.lines or {}).items():
            lines[name].append(value)

        means = attribution.mean_exposures()
        days = attribution.exposure_days()
        for name, mean, count in zip(attribution.factor_names, means, days, strict=True):
            if np.isfinite(mean):
                weighted[name].append((float(mean), int(count)))

        for note in attribution.notes:
            meaning = str(note.to_json()["meaning"])
            notes[meaning, note.subject] += note.count

    # Each day has the same weight, as in `ktdeval compare luck` and `compare cohorts`. An episode
    # with only a week of exposures thus has the weight of a week.
    exposures = {}
    for name, means_and_days in weighted.items():
        exposures[name] = statistics.fmean(
            [mean for mean, _ in means_and_days],
            [day_count for _, day_count in means_and_days],
        )

    return dict(lines), exposures, dict(sorted(notes.items()))


def median(values: Sequence[float]) -> float | None:
    """Return the median; None for an empty sequence."""
    return statistics.median(values) + 0.0 if values else None


def quartiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the lower and upper quartile as on cards; None for fewer than two values."""
    if len(values) < 2:
        return None, None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low + 0.0, high + 0.0
