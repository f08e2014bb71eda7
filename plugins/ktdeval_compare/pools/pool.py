"""`ktdeval compare --pool`: one pooled estimate over windows and markets.

Cards that ask the same question about the same systems on several markets become cells, which are
figures with their variances. The cells are pooled with random effects. Cards that ask different
questions are rejected.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval import stats
from ktdeval.cards import System, task_facts
from ktdeval.errors import CardError, UsageError
from ktdeval.values import load_yaml
from ktdeval_compare.pairs.compare import CompareOptions, pair_figures
from ktdeval_compare.pairs.compared_cards import (
    Cell,
    EntrantCard,
    chosen_metrics,
    flag_notes,
    label,
    left_out_notes,
    notes_of_groups,
    on_side,
    paired_cells,
)
from ktdeval_compare.pairs.report_types import ComparedCard, describe_cards
from ktdeval_compare.pairs.shared_facts import (
    check_same,
    check_same_config,
    facets,
)
from ktdeval_compare.pairs.verdicts import with_verdicts
from ktdeval_compare.pools.meta_analysis import grouped_effects, random_effects
from ktdeval_compare.pools.pooled_cells import (
    CellFigure,
    WindowFigure,
    independent_cells,
    lengths_problem,
    shared_correlation,
    source_of,
    window_figures,
)

_RULES: Mapping[str, Any] = load_yaml(Path(__file__).with_name("pool.yaml"))
MARKET_FIELDS = frozenset(_RULES["market_fields"])
ZEROS: Mapping[str, str] = _RULES["zeros"]
_WITHOUT_CURRENCY = frozenset(_RULES["units_without_currency"])
#: A note says that markets differ if the p-value of Q is at most this value; with few markets, Q
#: has little power
#: power
_MARKETS_DIFFER = 0.1
_THEN = "they measure different things and can't be pooled (choose cards of one task with --tasks)"


# ---- the report


@dataclass(frozen=True, kw_only=True)
class PooledCell:
    """A cell in a pooled estimate: a window on one market, or several windows that share days."""

    cell: str
    windows: int
    unit: str
    value: float  #: observed value, the mean over seeds and windows
    se: float
    #: empirical-Bayes estimate, shrunk towards the pooled estimate; None if the latter is undefined
    shrunk: float | None
    #: weight in the pooled estimate, from 0 to 1; None if the pooled estimate is undefined
    weight: float | None


@dataclass(frozen=True, kw_only=True)
class PooledMarket:
    """Estimate for one market, over its cells."""

    market: str
    k: int  #: number of cells
    unit: str
    value: float
    se: float


@dataclass(frozen=True, kw_only=True)
class OverMarkets:
    """A pooled estimate whose cells are markets. It generalises to other markets, but not to other
    windows on the same markets.
    """

    markets: Sequence[PooledMarket]
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    tau: float | None  #: standard deviation of the true figures between markets
    tau_within: float  #: standard deviation of the true figures between the windows of one market
    #: Cochran's Q over the markets' figures; large if markets differ by more than their cells do
    q: float | None
    q_p: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class PooledTest:
    """One metric, pooled over the windows of all markets."""

    metric: str
    unit: str
    better: str
    first: str
    second: str  #: the other system, or what 0 means
    markets: int
    windows: int
    seeds: int
    source: str | None  #: what the cells' variances are computed from: `days` or `seeds`
    k: int  #: number of cells
    value: float | None = None
    low: float | None = None  #: lower end of the Hartung-Knapp interval
    high: float | None = None
    se: float | None = None
    p: float | None = None
    #: lower end of the normal interval that treats tau² as known
    plain_low: float | None = None
    plain_high: float | None = None
    scale: float | None = None  #: scale factor for the variance (Hartung-Knapp)
    tau: float | None = None  #: standard deviation of the true figures between windows
    q: float | None = None
    q_p: float | None = None
    i2: float | None = None
    #: lower end of the prediction interval for a further window
    prediction_low: float | None = None
    prediction_high: float | None = None
    cells: Sequence[PooledCell] = ()
    #: None if there is only one market, or if any cell spans several markets
    over_markets: OverMarkets | None = None
    left_out: Mapping[str, int]  #: number of omitted (window, seed) cells, by reason
    reason: str | None = None
    p_holm: float | None = None
    p_benjamini_hochberg: float | None = None
    verdict: str | None = None


@dataclass(frozen=True, kw_only=True)
class PoolReport:
    """Report of `ktdeval compare --pool`."""

    alpha: float
    cards: Sequence[ComparedCard]
    pooled: Sequence[PooledTest]  #: one row per metric and pair of systems
    notes: Sequence[str]


def pool(entrants: Sequence[EntrantCard], options: CompareOptions) -> PoolReport:
    """Pool each metric for each pair of systems over the windows of all markets. A single system is
    compared with 0, if 0 has a meaning for the metric.

    Raises CardError if cards ask different questions, or if a market lacks a system. Raises
    UsageError if no card has a metric, or if 0 has no meaning for it.
    """
    if options.unit != "window":
        raise UsageError("--pool combines windows; leave out --pairs episode")

    markets = _markets(entrants, options)
    metrics = chosen_metrics(entrants_of(markets), options.metrics, _year_free_formula)
    count = len(markets[0].entrants)
    pairs: list[tuple[int, ...]] = [(0,)] if count == 1 else list(options.pairs_of(count))
    tests: list[PooledTest] = []
    notes: list[str] = []

    for metric, pair in itertools.product(metrics, pairs):
        test, cells = _pooled_test(markets, metric, pair, options)
        tests.append(test)
        notes += _test_notes(test, cells)

    tests = with_verdicts(tests, options.alpha)
    cards: list[ComparedCard] = []
    for market in markets:
        cards += describe_cards(market.name, market.entrants)

    return PoolReport(
        alpha=options.alpha,
        cards=cards,
        pooled=tests,
        notes=list(dict.fromkeys([*_market_notes(markets, options), *notes])),
    )


# ---- markets


@dataclass(frozen=True)
class _Market:
    """Cards for one task on one snapshot, one card per system."""

    name: str
    entrants: list[EntrantCard]
    cells: list[Cell]


def entrants_of(markets: Sequence[_Market]) -> list[EntrantCard]:
    """Return the cards of all markets, in order."""
    entrants: list[EntrantCard] = []
    for market in markets:
        entrants += market.entrants

    return entrants


def _markets(entrants: Sequence[EntrantCard], options: CompareOptions) -> list[_Market]:
    """Return the cards by market, after checking that all markets ask the same question about the
    same systems.
    """
    check_same(entrants, facets(*_RULES["question"]), _THEN)
    check_same_config(entrants, _THEN, _question)
    groups: dict[tuple[str, str], list[EntrantCard]] = {}
    for entrant in entrants:
        key = (entrant.card.task.name, entrant.card.snapshot.id)
        groups.setdefault(key, []).append(entrant)

    names = _market_names([members[0] for members in groups.values()])
    systems = list(dict.fromkeys(entrant.system for entrant in entrants))
    markets = []
    for name, members in zip(names, groups.values(), strict=True):
        ordered = label(_one_of_each(systems, members, name))
        _check_finished_any(ordered)
        cells = paired_cells(ordered, options.common)
        if options.side:
            cells = on_side(ordered, cells, options.side)

        markets.append(_Market(name, ordered, cells))

    return markets


def _question(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a task config that define a question: those that can change a result and
    do not say where it was asked.
    """
    facts = task_facts(config)
    return {name: value for name, value in facts.items() if name not in MARKET_FIELDS}


def _market_names(firsts: Sequence[EntrantCard]) -> list[str]:
    """Return the names of markets, given one card per market. A name is the snapshot's name. If
    there are several tasks, the task's name is prepended. If names are still equal, the start of
    the snapshot's id is appended.
    """
    names = [entrant.card.snapshot.name for entrant in firsts]
    if len({entrant.card.task.name for entrant in firsts}) > 1:
        names = [
            f"{entrant.card.task.name} {name}" for entrant, name in zip(firsts, names, strict=True)
        ]

    counts = Counter(names)
    return [
        f"{name} {entrant.card.snapshot.id[:8]}" if counts[name] > 1 else name
        for entrant, name in zip(firsts, names, strict=True)
    ]


def _one_of_each(
    systems: Sequence[System], members: Sequence[EntrantCard], market: str
) -> list[EntrantCard]:
    """Return the cards on one market, in the order of the systems.

    Raises CardError if the market lacks a system, or has two cards for the same system.
    """
    by_system: dict[System, EntrantCard] = {}
    for member in members:
        if member.system in by_system:
            raise CardError(
                f"{member.path} and {by_system[member.system].path} are of one system on {market};"
                " give one of them, a run of all its windows and seeds"
            )

        by_system[member.system] = member

    for system in systems:
        if system not in by_system:
            raise CardError(
                f"{members[0].path}: {market} has no card of {system.model_name}, agent "
                f"{system.agent}, with these parameters, which another market has; pooling needs "
                "the same systems on every market"
            )

    return [by_system[system] for system in systems]


def _check_finished_any(entrants: Sequence[EntrantCard]) -> None:
    for entrant in entrants:
        if not entrant.card.episodes:
            raise CardError(f"{entrant.path}: has no finished episode to pool")


def _year_free_formula(metric: str) -> Callable[[EntrantCard], str]:
    """Return a function that reads a metric's formula from a card. The market's number of days per
    year is replaced by words, so that annual figures on different markets have equal formulas.
    """

    def formula(entrant: EntrantCard) -> str:
        year = entrant.card.snapshot.days_a_year
        return re.sub(rf"\b{year}\b", "days a year", entrant.card.metrics[metric].formula)

    return formula


# ---- tests


def _pooled_test(
    markets: Sequence[_Market], metric: str, pair: tuple[int, ...], options: CompareOptions
) -> tuple[PooledTest, list[CellFigure]]:
    """Pool one metric for a pair of systems, or for one system against 0."""
    first = markets[0].entrants[pair[0]]
    definition = first.card.metrics[metric]
    second = _second_label(markets, metric, pair)
    _check_currency(markets, metric, definition.unit)

    left_out: Counter[str] = Counter()
    figures: list[WindowFigure] = []
    seeds: set[int] = set()
    lacking: list[str] = []
    for market in markets:
        compared = [market.entrants[index] for index in pair]
        values, excluded = _values(compared, metric, market.cells)
        left_out.update(excluded)
        if not values:
            lacking.append(f"{market.name} has no figure: {'; '.join(excluded)}")

        seeds.update(seed for _, seed in values)
        figures += window_figures(compared, metric, values, market.name)

    if figures:
        problem = lengths_problem(figures)
        if problem:
            raise CardError(
                f"{first.path}: {problem}; pool markets with windows of similar lengths"
            )

    shared: dict[str, Any] = {
        "metric": metric,
        "unit": definition.unit,
        "better": definition.better,
        "first": first.label,
        "second": second,
        "markets": len({figure.market for figure in figures}),
        "windows": len(figures),
        "seeds": len(seeds),
        "left_out": dict(left_out),
    }
    # A market can lack a figure because a target was never reached. Omitting such a market would
    # make the result look better than it is.
    source = lacking[0] if lacking else source_of(figures)
    if source not in ("days", "seeds"):
        return PooledTest(**shared, source=None, k=0, reason=source), []

    cells = independent_cells(figures, source)  # type: ignore[arg-type]
    return _estimate_test(shared, source, cells, options), cells


def _second_label(markets: Sequence[_Market], metric: str, pair: tuple[int, ...]) -> str:
    """Return the label of what the first system is compared with: the second system, or the meaning
    of 0.

    Raises UsageError if there is only one system, and 0 has no meaning for the metric.
    """
    if len(pair) == 2:
        return markets[0].entrants[pair[1]].label
    if metric not in ZEROS:
        raise UsageError(
            f"with one system, {metric} can't be tested against 0; give cards of a second system,"
            f" or one of --metric {', '.join(ZEROS)}"
        )

    return ZEROS[metric]


def _check_currency(markets: Sequence[_Market], metric: str, unit: str) -> None:
    """Raise CardError for a monetary figure if the markets have different currencies."""
    if unit in _WITHOUT_CURRENCY:
        return

    currencies = {market.entrants[0].card.snapshot.currency: market for market in markets}
    if len(currencies) > 1:
        raise CardError(
            f"{markets[0].entrants[0].path}: {metric} is in {unit}, and the markets count in"
            f" {' and '.join(currencies)}: amounts of different currencies are not pooled"
        )


def _values(
    compared: Sequence[EntrantCard], metric: str, cells: Sequence[Cell]
) -> tuple[dict[Cell, float], Counter[str]]:
    """Return one card's figures, or the differences between two cards, by cell. Also return the
    number of undefined figures, by reason.
    """
    values, excluded = pair_figures(compared, metric, cells)
    if len(compared) == 2:
        return values, excluded

    named = {f"{compared[0].label}: {reason}": count for reason, count in excluded.items()}
    return values, Counter(named)


def _estimate_test(
    shared: Mapping[str, Any], source: str, cells: Sequence[CellFigure], options: CompareOptions
) -> PooledTest:
    values = np.array([cell.value for cell in cells])
    variances = np.array([cell.variance for cell in cells])
    shares = np.array([cell.share for cell in cells])
    found = asdict(random_effects(values, variances, 1.0 - options.alpha, shares))
    nothing = (None,) * len(cells)
    weights = found.pop("weights") or nothing
    shrunk = found.pop("shrunk") or nothing
    tau2 = found.pop("tau2")
    rows = [
        PooledCell(
            cell=cell.name,
            windows=len(cell.windows),
            unit=shared["unit"],
            value=cell.value,
            se=cell.variance**0.5,
            shrunk=estimate,
            weight=weight,
        )
        for cell, weight, estimate in zip(cells, weights, shrunk, strict=True)
    ]
    tau = None if tau2 is None else tau2**0.5

    return PooledTest(
        **shared,
        source=source,
        tau=tau,
        cells=rows,
        over_markets=_over_markets(cells, shared["unit"], 1.0 - options.alpha),
        **found,
    )


def _over_markets(cells: Sequence[CellFigure], unit: str, confidence: float) -> OverMarkets | None:
    """Pool the cells within each market, then pool the markets. Return None if a cell belongs to
    several markets, or if there is only one market.
    """
    in_order: dict[str, None] = {}
    for cell in cells:
        in_order.update(dict.fromkeys(sorted(cell.markets)))

    names = list(in_order)
    if len(names) < 2 or any(len(cell.markets) > 1 for cell in cells):
        return None

    values = np.array([cell.value for cell in cells])
    variances = np.array([cell.variance for cell in cells])
    # each cell belongs to one market
    labels = np.array([names.index(min(cell.markets)) for cell in cells])
    shares = np.array([cell.share for cell in cells])
    found = grouped_effects(values, variances, labels, confidence, shares)
    over = found.over
    rows = [
        PooledMarket(market=name, k=k, unit=unit, value=value, se=se)
        for name, k, value, se in zip(names, found.counts, found.values, found.errors, strict=True)
    ]

    return OverMarkets(
        markets=rows,
        value=over.value,
        low=over.low,
        high=over.high,
        p=over.p,
        tau=None if over.tau2 is None else over.tau2**0.5,
        tau_within=found.tau2_within**0.5,
        q=over.q,
        q_p=over.q_p,
        reason=over.reason,
    )


# ---- notes


def _market_notes(markets: Sequence[_Market], options: CompareOptions) -> Iterator[str]:
    of_markets = {}
    for market in markets:
        lines = [*left_out_notes(market.entrants)]
        lines += flag_notes(market.entrants, are_sides_mixed=options.side is None)
        of_markets[market.name] = lines

    yield from notes_of_groups(of_markets)


def _test_notes(test: PooledTest, cells: Sequence[CellFigure]) -> Iterator[str]:
    """Yield the caveats that apply to one pooled estimate."""
    for reason, count in test.left_out.items():
        yield f"{test.metric}: {count} (window, seed) left out: {reason}"

    for cell in cells:
        if len(cell.windows) > 1:
            yield f"{cell.name} share days of one venue: their mean is one cell"

    yield from _dependence_notes(cells)
    over = test.over_markets
    if over is not None and over.q_p is not None and over.q_p <= _MARKETS_DIFFER:
        yield (
            f"{test.metric}, {test.first}, {test.second}: markets differ more than their windows do"
            f" (p {over.q_p:.2g}): the pooled interval is of these markets, that over markets of"
            " others"
        )

    if test.source == "seeds":
        yield (
            f"{test.metric}: not all cells have daily series, so errors of cells measure variation over"
            " seeds only; variation over a market's days is in tau"
        )

    if test.low is not None and test.plain_low is not None and test.low > test.plain_low:
        yield (
            f"{test.metric}, {test.first}, {test.second}: cells differ less than their errors say,"
            " and the interval is shorter than the normal one of these errors (plain_low and"
            " plain_high of --json): take the longer one"
        )


def _dependence_notes(cells: Sequence[CellFigure]) -> Iterator[str]:
    windows = list(itertools.chain.from_iterable(cell.windows for cell in cells))
    if len(windows) < 2:
        return

    correlation = shared_correlation(windows, at_one_venue=False)
    pairs = int((np.triu(correlation, 1) > stats.INDEPENDENT).sum())
    if pairs:
        yield (
            f"pairs of windows with common days at different venues: {pairs}; they are treated as "
            "independent, and if the markets move together, the interval is too short"
        )
