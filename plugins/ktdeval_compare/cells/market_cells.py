"""`ktdeval compare --by regime|venue|year`: cards' figures and paired differences, by cells of the
market that the cards traded.

A window belongs to the cell of its first decision. A day belongs to the cell of the decision whose
orders were filled on that day. Regimes and venues are read from the market itself at the close of
the decision; window descriptions on cards are not used.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ktdeval.errors import CardError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.runner import open_snapshot
from ktdeval.values import Address
from ktdeval_compare.cells.cell_estimates import Estimate, mean_of_days, mean_of_windows, welch
from ktdeval_compare.cells.regimes import RULES, MarketRegimes, Regime
from ktdeval_compare.pairs.card_markets import CardMarkets
from ktdeval_compare.pairs.compare import (
    TaskGroup,
    mixed_notes,
    pair_figures,
    paired_group,
    window_medians,
)
from ktdeval_compare.pairs.compared_cards import (
    DailyTable,
    EntrantCard,
    Values,
    daily_table,
    flag_notes,
    left_out_notes,
    notes_of_groups,
    spans,
)
from ktdeval_compare.pairs.verdicts import with_verdicts
from ktdeval_compare.study_options import CommonOptions, LevelOptions, MetricOptions

DAILY = "daily_return"
_NO_MARKET = "cells are facts about the market"


@dataclass(frozen=True)
class CellOptions(MetricOptions, LevelOptions, CommonOptions):
    """Settings for a comparison by cell."""

    by: Literal["regime", "venue", "year"] = "regime"
    #: `window`: each value belongs to a window and is the median over its seeds. `day`: each value
    #: is a daily return
    unit: Literal["window", "day"] = "window"
    against_first: bool = False  #: compare only the first card with each of the others
    #: only windows on this side of the cutoff of every card that records one; None: all
    side: Literal["before", "after"] | None = None
    #: folders or providers of the markets, if the markets have moved
    data: tuple[Address, ...] = ()


# ---- the report


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """A card's mean in a cell. In a cell such as `up less down`, the value is the difference
    between the means of the two cells.
    """

    task: str
    market: str  #: name of the snapshot
    by: str  #: trend, volatility, breadth, venue or year
    cell: str
    metric: str
    unit: str
    better: str
    first: str  #: label of the card
    n: int  #: number of windows or days
    value: float | None
    low: float | None
    high: float | None
    reason: str | None  #: why a figure is null


@dataclass(frozen=True, kw_only=True)
class CellTest(CellRow):
    """Mean difference between two cards in a cell, `first` minus `second`, with its t test."""

    second: str
    p: float | None
    p_holm: float | None = None
    p_benjamini_hochberg: float | None = None
    verdict: str | None = None


@dataclass(frozen=True, kw_only=True)
class WindowCell:
    """The cell that a window belongs to, and the figure that determined it."""

    task: str
    market: str
    window: str
    decided_on: str | None  #: day at whose close the cell is known; None if cells are years
    by: str
    cell: str | None
    figure: float | None  #: value of the rule's measure
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class CellReport:
    """Report of `ktdeval compare --by`."""

    alpha: float
    by: str
    unit: str  #: what `n` counts: `window` or `day`
    cards: Sequence[CellRow]  #: one row per card and cell
    tests: Sequence[CellTest]  #: one row per cell and pair of cards
    windows: Sequence[WindowCell]  #: empty if `unit` is `day`
    notes: Sequence[str]


@dataclass(frozen=True)
class _Group(TaskGroup):
    """Cards of one task on one market."""

    market: str = ""  #: name of the snapshot
    #: the market's regimes; None if only years were requested
    regimes: MarketRegimes | None = None


@dataclass(frozen=True)
class _Compared:
    """One metric for a card or a pair of cards."""

    group: _Group
    metric: str
    first: EntrantCard
    second: EntrantCard | None = None


def by_cells(entrants: Sequence[EntrantCard], options: CellOptions) -> CellReport:
    """Report cards' figures, and paired differences between cards of one task, by cells of the
    market.

    Raises CardError if cards of the same task and market can't be compared, if a market can't be
    opened, or if ledgers are missing. Raises UsageError if no card has a metric, or if an item of
    `data` matches no card.
    """
    if options.unit == "day" and options.metrics:
        raise UsageError("--metric applies to windows; --pairs day compares daily returns")

    groups = _groups(entrants, options)
    cards: list[CellRow] = []
    tests: list[CellTest] = []
    windows: list[WindowCell] = []
    notes: dict[str, list[str]] = {}

    for group in groups:
        own_notes = notes.setdefault(f"{group.task} on {group.market}", [])
        own_notes += left_out_notes(group.entrants)
        own_notes += flag_notes(group.entrants, are_sides_mixed=options.side is None)
        own_notes += mixed_notes(group.entrants)

        if options.unit == "window":
            known = _window_cells(group, options.by)
            windows += known
            rows = list(_window_rows(group, known, options))
            own_notes += _unknown_windows(known)
            own_notes += _undefined_notes(group)
        else:
            table = _daily(group)
            of_day = {day: _cells_at(group, options.by, day) for day in table.days}
            rows = list(_day_rows(group, table, of_day, options))
            own_notes += _unknown_days(of_day)

        for row in rows:
            if isinstance(row, CellTest):
                tests.append(row)
            else:
                cards.append(row)

    return CellReport(
        alpha=options.alpha,
        by=options.by,
        unit=options.unit,
        cards=cards,
        tests=with_verdicts(tests, options.alpha),
        windows=windows,
        notes=list(notes_of_groups(notes)),
    )


# ---- cards by task and market


def _groups(entrants: Sequence[EntrantCard], options: CellOptions) -> list[_Group]:
    by_place: dict[tuple[str, str], list[EntrantCard]] = {}
    for entrant in entrants:
        place = (entrant.card.task.name, entrant.card.snapshot.id)
        by_place.setdefault(place, []).append(entrant)

    names = _market_names(entrants)
    markets = {}
    if options.by != "year":
        markets = _open_markets(entrants, options.data)
    elif options.data:
        raise UsageError("--data applies to regimes and venues; years are on the cards")

    groups = []
    for (task, snapshot), members in by_place.items():
        for member in members:
            if not member.episodes():
                raise CardError(f"{member.path}: has no finished episode")

        group = paired_group(task, members, options.metrics, options.common, options.side)
        groups.append(
            _Group(
                group.task,
                group.entrants,
                group.cells,
                group.metrics,
                market=names[snapshot],
                regimes=markets.get(snapshot),
            )
        )

    return groups


def _market_names(entrants: Iterable[EntrantCard]) -> dict[str, str]:
    """Return the names of snapshots by id. If two snapshots have the same name, the start of the id
    is appended.
    """
    names = {entrant.card.snapshot.id: entrant.card.snapshot.name for entrant in entrants}
    counts = Counter(names.values())
    return {
        identity: name if counts[name] == 1 else f"{name} {identity[:8]}"
        for identity, name in names.items()
    }


def _open_markets(entrants: Sequence[EntrantCard], data: Sequence[str]) -> dict[str, MarketRegimes]:
    """Open the market of each card and return the markets by id. A market is one of those given in
    `data`, or the one that the run recorded.
    """
    markets = CardMarkets(_NO_MARKET)
    opened = markets.opened
    wanted = dict.fromkeys(entrant.card.snapshot.id for entrant in entrants)
    for given in data:
        market = open_snapshot(markets.plugins, given, {})
        if market.id not in wanted:
            of_cards = ", ".join(identity[:12] for identity in wanted)
            raise UsageError(
                f"--data {given} is snapshot {market.id[:12]}; the cards are of {of_cards}"
            )
        opened[market.id] = market

    problems: dict[str, str] = {}
    for entrant in entrants:
        found = markets.find(entrant)
        if isinstance(found, str):
            hint = "" if entrant.is_in_run else "; give it with --data FOLDER"
            problems[entrant.card.snapshot.id] = f"{entrant.path}: {found}{hint}"

    for identity in wanted:
        if identity not in opened:
            raise CardError(problems[identity])

    return {identity: MarketRegimes(market) for identity, market in opened.items()}


# ---- cells


def _cells_at(group: _Group, by: str, fill_day: str) -> dict[str, Regime]:
    """Return the cells of orders that were filled on a day, as known at the close at which the
    orders were decided.
    """
    if by == "year":
        return {by: Regime(fill_day[:4])}

    assert group.regimes is not None
    row = group.regimes.market.day_index(fill_day) - 1
    if by == "venue":
        return {by: _venues_at(group.regimes.market, max(row, 0))}
    if row < 0:
        return dict.fromkeys(RULES, Regime(None, reason="the market has no day before"))

    return {rule: group.regimes.at(row, rule) for rule in RULES}


def _venues_at(market: MarketSnapshot, row: int) -> Regime:
    """Return the venues of the market's members on a day, joined into one name."""
    members = market.member[row]
    venues = {venue for venue, is_member in zip(market.venues, members, strict=True) if is_member}
    if not venues:
        return Regime(None, reason=f"the market has no members on {market.days[row]}")
    return Regime(" + ".join(sorted(venues)))


def _window_cells(group: _Group, by: str) -> list[WindowCell]:
    """Return the cells of each window in a group, one for each rule."""
    windows = group.windows()
    rows = []
    for window, (first, _) in zip(windows, spans(group.entrants[0], windows), strict=True):
        decided_on = None
        if group.regimes is not None:
            market = group.regimes.market
            row = market.day_index(first) - 1
            decided_on = str(market.days[row]) if row >= 0 else None

        for name, regime in _cells_at(group, by, first).items():
            rows.append(
                WindowCell(
                    task=group.task,
                    market=group.market,
                    window=window,
                    decided_on=decided_on,
                    by=name,
                    cell=regime.name,
                    figure=regime.figure,
                    reason=regime.reason,
                )
            )

    return rows


def _cell_names(by: str, known: Iterable[str | None]) -> list[str]:
    """Return the cells to report: for a rule, both of its regimes, even if empty; otherwise the
    known cells, sorted by name.
    """
    if by in RULES:
        return [RULES[by].high, RULES[by].low]
    return sorted({name for name in known if name is not None})


def _unknown_windows(known: Sequence[WindowCell]) -> Iterator[str]:
    unknown: dict[str, list[WindowCell]] = {}
    for one in known:
        if one.cell is None:
            unknown.setdefault(one.by, []).append(one)

    for by, rows in unknown.items():
        names = ", ".join(row.window for row in rows)
        yield f"{names}: not in any cell of {by}; {rows[0].window}: {rows[0].reason}"


def _unknown_days(of_day: Mapping[str, Mapping[str, Regime]]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for cells in of_day.values():
        for by, regime in cells.items():
            if regime.name is None:
                counts[by] += 1
                first.setdefault(by, regime.reason or "")

    for by, count in counts.items():
        yield f"{count} days are not in any cell of {by}; the first: {first[by]}"


# ---- rows of windows


def _window_rows(
    group: _Group, known: Sequence[WindowCell], options: CellOptions
) -> Iterator[CellRow]:
    for metric in group.metrics:
        for compared in _compare_cards(group, metric, options.against_first):
            values = _values_by_window(compared)
            for by in dict.fromkeys(one.by for one in known):
                of_window = {one.window: one.cell for one in known if one.by == by}
                estimates = _estimates_of_windows(group, by, values, of_window)
                yield from _rows_of_rule(compared, by, estimates, options.alpha)


def _compare_cards(group: _Group, metric: str, against_first: bool) -> Iterator[_Compared]:
    """Yield each single card, then each pair."""
    for entrant in group.entrants:
        yield _Compared(group, metric, entrant)

    for first, second in itertools.combinations(group.entrants, 2):
        if first is group.entrants[0] or not against_first:
            yield _Compared(group, metric, first, second)


def _values_by_window(compared: _Compared) -> dict[str, float] | str:
    """Return the figure or difference for each window, as the median over the window's seeds, or
    the reason why the figures are missing.
    """
    cards = [compared.first]
    if compared.second is not None:
        cards.append(compared.second)

    by_cell, excluded = pair_figures(cards, compared.metric, compared.group.cells)
    if not by_cell:
        return "; ".join(excluded)

    return window_medians(by_cell)


def _undefined_notes(group: _Group) -> Iterator[str]:
    for metric in group.metrics:
        for entrant in group.entrants:
            _, excluded = pair_figures([entrant], metric, group.cells)
            for reason, count in excluded.items():
                yield f"{entrant.label}: {metric}: {count} (window, seed) left out: {reason}"


def _estimates_of_windows(
    group: _Group, by: str, values: dict[str, float] | str, of_window: Mapping[str, str | None]
) -> dict[str, Estimate]:
    names = _cell_names(by, of_window.values())
    if isinstance(values, str):
        return {name: Estimate(0, reason=values) for name in names}

    estimates = {}
    for name in names:
        windows = [window for window in values if of_window[window] == name]
        sample = np.array([values[window] for window in windows], dtype=np.float64)
        estimates[name] = mean_of_windows(sample, group.correlation(windows))

    if by in RULES:
        estimates[_contrast(names)] = welch(*estimates.values())
    return estimates


# ---- rows of days


def _daily(group: _Group) -> DailyTable:
    table = daily_table(group.entrants, group.cells)
    if isinstance(table, str):
        raise CardError(
            f"{group.entrants[0].path}: {table}; --pairs day needs run folders with the ledgers"
        )
    return table


def _day_rows(
    group: _Group,
    table: DailyTable,
    of_day: Mapping[str, Mapping[str, Regime]],
    options: CellOptions,
) -> Iterator[CellRow]:
    columns = {entrant.label: table.returns[:, k] for k, entrant in enumerate(group.entrants)}
    rules = dict.fromkeys(by for cells in of_day.values() for by in cells)
    labels = {by: [cells[by].name for cells in of_day.values()] for by in rules}

    for compared in _compare_cards(group, DAILY, options.against_first):
        series = columns[compared.first.label]
        if compared.second is not None:
            series = series - columns[compared.second.label]

        for by, names in labels.items():
            estimates = _estimates_of_days(table, by, series, names)
            yield from _rows_of_rule(compared, by, estimates, options.alpha)


def _estimates_of_days(
    table: DailyTable, by: str, series: Values, of_day: Sequence[str | None]
) -> dict[str, Estimate]:
    names = _cell_names(by, of_day)
    masks = [np.array([each == name for each in of_day]) for name in names]
    estimates = {}
    for name, is_in in zip(names, masks, strict=True):
        estimates[name] = mean_of_days(table, series, is_in, None)

    if by in RULES:
        estimates[_contrast(names)] = mean_of_days(table, series, masks[0], masks[1])
    return estimates


# ---- rows


def _contrast(names: Sequence[str]) -> str:
    return " less ".join(names)


def _rows_of_rule(
    compared: _Compared, by: str, estimates: Mapping[str, Estimate], alpha: float
) -> Iterator[CellRow]:
    """Yield a row for each cell of a rule. A single card's figure has no p-value, because a rising
    market would also move it.
    """
    unit, better = "fraction", "higher"
    if compared.metric != DAILY:
        definition = compared.first.card.metrics[compared.metric]
        unit, better = definition.unit, definition.better

    for cell, estimate in estimates.items():
        low = high = None
        half = estimate.half_width(alpha)
        if half is not None and estimate.value is not None:
            low, high = estimate.value - half, estimate.value + half

        row = CellRow(
            task=compared.group.task,
            market=compared.group.market,
            by=by,
            cell=cell,
            metric=compared.metric,
            unit=unit,
            better=better,
            first=compared.first.label,
            n=estimate.n,
            value=estimate.value,
            low=low,
            high=high,
            reason=estimate.reason,
        )
        if compared.second is not None:
            row = CellTest(**vars(row), second=compared.second.label, p=estimate.p())

        yield row
