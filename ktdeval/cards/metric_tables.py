"""Figures on a card: the metrics panel, the claims, and several cards side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.episode_parts import TradingEpisode
from ktdeval.cards.fields.origin.fact_types import ScoreLine
from ktdeval.cards.fields.returns.metrics import MetricLine
from ktdeval.cards.fields.units import figure_text, unit_word
from ktdeval.cards.fields.words import metric_word
from ktdeval.cards.short_records import shown_metrics
from ktdeval.cards.system import System, system_labels
from ktdeval.cards.table_types import UNDEFINED, Grid, clean, share_of
from ktdeval.stats.panel_names import DIAGNOSTICS, PANEL_FAMILIES

PARTS = ("common_return", "industry_return", "style_return", "selection_alpha", "trading_effect")
_PAPER_PARTS = ("paper_common_return", "paper_style_return", "paper_selection_alpha")
_FAMILIES = {
    **PANEL_FAMILIES,
    "parts of the total return (linked)": PARTS,
    "as the KTD-Fin paper, without industries": _PAPER_PARTS,
}
_SIGNED = frozenset({"total_return", *PARTS, *_PAPER_PARTS})
SCHEME_HEADS = (
    "industries",
    "selection %",
    "R²",
    "adjusted R²",
    "parameters",
    "degrees of freedom",
)
_SCHEME_FIGURES = {
    "selection": "fraction",
    "r_squared": "score",
    "adjusted_r_squared": "score",
    "parameters": "ratio",
    "degrees_of_freedom": "ratio",
}
NEVER_SHOWN = "never"


def nearest_to_median(values: Sequence[float]) -> int:
    """Return the index of the value nearest to the median of a non-empty sequence. The first of
    several equally near values is chosen, so that neither the higher nor the lower value is
    preferred.
    """
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    least = min(distances)
    # With an even number of values, the middle two are equally near except for rounding.
    room = 1e-12 * max(abs(middle), *map(abs, values))

    return next(index for index, distance in enumerate(distances) if distance <= least + room)


def return_claim(card: TradingCard) -> str:
    """Return the sentence on skill: the median return, and for one episode the components of its
    return and the benchmark's return.

    Medians over episodes do not add up, but the components of one episode do. The episode chosen is
    the one whose return is nearest to the median.
    """
    defined: list[TradingEpisode] = []
    total_returns: list[float] = []
    for episode in card.pooled:
        line = episode.metrics.get("total_return")
        if line is not None and line.value is not None:
            defined.append(episode)
            total_returns.append(line.value)

    if not defined:
        if "total_return" in card.metrics:
            return "Return: not defined in any episode."

        return "Return: not among the metrics of this card."

    one = defined[nearest_to_median(total_returns)]
    opening = "Return, %:"
    if len(card.pooled) > 1:
        middle = number("total_return", "fraction", median(total_returns))
        opening = (
            f"Return, %: median {middle} over {len(defined)} episodes. One episode, {one.window},"
            f" seed {one.seed}:"
        )

    return f"{opening} {_parts_of_return(one)}.{_benchmark_words(card, one)}"


def _parts_of_return(episode: TradingEpisode) -> str:
    """Return the total return of an episode and its components: `+1.63, of which common +1.41, …`."""
    texts = {}
    for name, line in episode.metrics.items():
        if name in _SIGNED and line.value is not None:
            texts[name] = number(name, "fraction", line.value)

    named = [f"{name.partition('_')[0]} {texts[name]}" for name in PARTS if name in texts]
    parts = ", ".join(named) or "nothing is attributed"
    words = f"{texts['total_return']}, of which {parts}"

    paper = texts.get(_PAPER_PARTS[-1])
    if paper:
        words += f" (without industries, as the KTD-Fin paper: selection {paper})"

    return words


def _benchmark_words(card: TradingCard, episode: TradingEpisode) -> str:
    """Return the sentence on the benchmark over the days of an episode; empty if there is no
    benchmark.
    """
    held = _benchmark_return(card, episode.window)
    if held is None:
        return ""
    dividends = price_index([episode], card.snapshot.days_a_year)
    return f" The benchmark made {number('total_return', 'fraction', held)} %{dividends}."


def _benchmark_return(card: TradingCard, window: str) -> float | None:
    """Return the total return of the benchmark over a window; None if it is undefined."""
    reference = card.reference.benchmark_buy_and_hold.get(window)
    return None if reference is None else reference.metrics.total_return.value


def episode_excess(card: TradingCard, episode: TradingEpisode) -> float | None:
    """Return an episode's excess return: its total return minus the buy-and-hold benchmark's return
    over the same days. None if either return is undefined.
    """
    gain = episode.metrics.get("total_return")
    held = _benchmark_return(card, episode.window)
    if gain is None or gain.value is None or held is None:
        return None
    return gain.value - held


def excess_return(card: TradingCard) -> float | None:
    """Return a card's excess return: the median over its episodes, as for any metric. None if no
    episode has an excess return.
    """
    excesses = [episode_excess(card, episode) for episode in card.pooled]
    known = [excess for excess in excesses if excess is not None]
    return median(known) if known else None


def price_index(episodes: Sequence[TradingEpisode], days_a_year: int) -> str:
    """Return a note on the dividend growth that a price index lacks; empty if the information ratio
    has no such detail. `days_a_year` is the number of days per year in the card's snapshot.
    """
    rises: list[float] = []
    days: list[int] = []
    has_none = False
    for one in episodes:
        line = one.metrics.get("information_ratio")
        detail = None if line is None else line.detail
        if not isinstance(detail, Mapping) or "dividend_growth" not in detail:
            continue

        growth = detail["dividend_growth"]
        if isinstance(growth, float):
            rises.append(100 * growth * one.steps / days_a_year)
            days.append(one.steps)
        elif growth is None:
            has_none = True

    if not rises:
        return " (dividends: none in the data)" if has_none else ""

    return (
        f" (a price index lacks dividends: the members' adjustment factors grew by"
        f" {fmean(rises):.1f} % in {fmean(days):.0f} days)"
    )


def scheme_rows(card: TradingCard) -> list[tuple[str, ...]]:
    """Return selection alpha for each industry scheme used in the regression, one row per scheme,
    as means over episodes. The column heads are `SCHEME_HEADS`.
    """
    tables = selection_tables(card, "schemes")
    rows = []
    for scheme in ("strict", "paper", "coarse", "fine"):
        if scheme == "paper" and _PAPER_PARTS[-1] not in card.metrics:
            # the regression used in the KTD-Fin paper appears only on cards for that paper's tasks
            continue

        every = [table.get(scheme) for table in tables]
        entries = [entry for entry in every if isinstance(entry, Mapping)]
        if not entries:
            continue

        cells = [scheme]
        for name, unit in _SCHEME_FIGURES.items():
            values = [entry[name] for entry in entries if isinstance(entry.get(name), float)]
            mean = fmean(values) if values else None
            cells.append(number(f"{name}_alpha", unit, mean))

        rows.append(tuple(cells))

    return rows


def selection_tables(card: TradingCard, part: str) -> list[Mapping[str, Any]]:
    """Return one mapping from the selection metric's detail, for each episode whose detail contains
    it.
    """
    tables = []
    for episode in card.pooled:
        line = episode.metrics.get("selection_alpha")
        detail = None if line is None else line.detail
        table = detail.get(part) if isinstance(detail, Mapping) else None
        if isinstance(table, Mapping):
            tables.append(table)

    return tables


def panel(card: TradingCard) -> tuple[Grid, ...]:
    """Return the headline figures, then all others."""
    listed = {*DIAGNOSTICS}
    for names in _FAMILIES.values():
        listed |= {*names}

    further = tuple(sorted(set(card.metrics) - listed))
    families = {**_FAMILIES, "metrics asked for": further}
    grids = [
        _metric_grid(f"Metrics{_excluded_words(card)}", families, card),
        _metric_grid("Diagnostics", {"": DIAGNOSTICS}, card),
    ]

    schemes = scheme_rows(card)
    if schemes:
        title = "Selection by the industries in the fit, mean over episodes"
        grids.append(Grid(title, SCHEME_HEADS, tuple(schemes), left=1))

    return tuple(grids)


def _metric_grid(title: str, families: Mapping[str, Sequence[str]], card: TradingCard) -> Grid:
    """Return the metric rows, each family under its heading."""
    episodes = len(card.pooled)
    several = episodes > 1
    metrics = shown_metrics(card)
    rows: list[tuple[str, ...]] = []
    for family, names in families.items():
        present = [name for name in names if name in card.metrics]
        if present and family:
            rows.append((family,))

        for name in present:
            row = _metric_row(name, metrics[name], several)
            if episodes == 2:
                row = (*row[:4], _both_values(card, metrics[name], name), *row[5:])
            rows.append(row)

    columns: tuple[str, ...] = ("metric", "value", "unit", "better", "95 % interval")
    if several:
        spread = "both values" if episodes == 2 else "quartiles"
        columns = ("metric", "median", "unit", "better", spread, "n")

    return Grid(title, columns, tuple(rows))


def _excluded_words(card: TradingCard) -> str:
    """Return which windows the figures cover and which are excluded; empty if none is excluded."""
    if not card.left_out:
        return ""

    pooled = dict.fromkeys(clean(episode.window) for episode in card.pooled)
    excluded = [f"; left out: {clean(window)}" for window in card.left_out]
    return f" of {', '.join(pooled)}{''.join(excluded)}"


def columns_of(cards: Sequence[TradingCard | ScoringCard]) -> Grid:
    """Return cards of one kind side by side, with a row for each figure and a column for each card.
    A column is named by what differs between the cards (system, task); cards with the same name are
    numbered.
    """
    labels = system_labels(map(System.of, cards))
    systems = [clean(labels[System.of(card)]) for card in cards]
    tasks = [clean(card.task.name) for card in cards]
    differing = [names for names in (systems, tasks) if len(set(names)) > 1] or [systems]
    same = [names[0] for names in (tasks, systems) if names not in differing]

    figures = [
        shown_metrics(card) if isinstance(card, TradingCard) else card.scores for card in cards
    ]
    rows = []
    for name in _ordered_names(figures):
        lines = [card_figures.get(name) for card_figures in figures]
        unit = next(line.unit for line in lines if line is not None)
        cells = [UNDEFINED if line is None else _figure_cell(name, line) for line in lines]
        rows.append((clean(metric_word(name)), unit_word(unit), *cells))

    what = "medians over episodes" if isinstance(cards[0], TradingCard) else "scores"
    title = f"{' '.join(same)}: {what}" if same else what
    return Grid(title, ("metric", "unit", *_number_heads(differing)), tuple(rows), left=2)


def _number_heads(names: Sequence[Sequence[str]]) -> list[str]:
    """Return the head of each column, joined from its names. Equal heads are numbered."""
    heads = [" ".join(words) for words in zip(*names, strict=True)]
    numbered = []
    for index, head in enumerate(heads, 1):
        numbered.append(f"{head} #{index}" if heads.count(head) > 1 else head)

    return numbered


def _ordered_names(figures: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the names of all figures: first the panel figures in panel order, then the others."""
    fixed: list[str] = []
    for family in (*_FAMILIES.values(), DIAGNOSTICS):
        fixed += family

    names = {name for lines in figures for name in lines}
    places = {name: place for place, name in reversed(list(enumerate(fixed)))}
    return sorted(names, key=lambda name: (places.get(name, len(fixed)), name))


def _figure_cell(name: str, line: MetricLine | ScoreLine) -> str:
    if isinstance(line, MetricLine) and line.ordered == math.inf:
        return NEVER_SHOWN
    return number(name, line.unit, line.value)


def _both_values(card: TradingCard, metric: MetricLine, name: str) -> str:
    """Return the values of a card's two episodes, which have no quartiles; empty unless both are
    defined and shown.
    """
    values = [episode.metrics[name].value for episode in card.pooled]
    if metric.n != len(values) or None in values:
        return ""
    return ", ".join(number(name, metric.unit, value) for value in values)


def _metric_row(name: str, metric: MetricLine, several: bool) -> tuple[str, ...]:
    unit = metric.unit
    spread = ""

    # A median over several episodes has quartiles; a figure from a single episode has an interval.
    ends = metric.quartiles if several else metric.interval
    if ends and ends.low is not None:
        spread = f"{number(name, unit, ends.low)} … {number(name, unit, ends.high)}"

    better = "" if metric.better == "neither" else metric.better
    row = (clean(metric_word(name)), _figure_cell(name, metric), unit_word(unit), better, spread)
    if not several:
        return row

    total = metric.n + sum(metric.undefined.values())
    return (*row, share_of(metric.n, total))


def number(name: str, unit: str, value: float | None) -> str:
    """Return a metric's value formatted for tables: fractions in per cent, returns with a sign."""
    return figure_text(unit, value, "+" if name in _SIGNED else "")
