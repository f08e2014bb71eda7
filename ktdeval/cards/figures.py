"""Figures of a card: its panel of metrics, its claims, and several cards side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from ktdeval.cards.card import ScoreLine, ScoringCard, TradingCard, TradingEpisode
from ktdeval.cards.parts import MetricLine, ordered_value
from ktdeval.cards.system import System, system_labels
from ktdeval.cards.table import UNDEFINED, Grid, clean, share_of
from ktdeval.stats.panel import DIAGNOSTICS, PANEL_FAMILIES
from ktdeval.stats.series import TRADING_DAYS

PARTS = ("common_return", "industry_return", "style_return", "selection_alpha", "trading_effect")
_PAPER_PARTS = ("paper_common_return", "paper_style_return", "paper_selection_alpha")
_FAMILIES = {**PANEL_FAMILIES, "parts of the total return (linked)": PARTS, "as the paper: without industries": _PAPER_PARTS}
_SIGNED = frozenset({"total_return", *PARTS, *_PAPER_PARTS})
SCHEME_HEADS = ("industries", "selection %", "R²", "adjusted R²", "parameters", "degrees of freedom")
_SCHEME_FIGURES = {
    "selection": "fraction",
    "r_squared": "score",
    "adjusted_r_squared": "score",
    "parameters": "ratio",
    "degrees_of_freedom": "ratio",
}
NEVER_SHOWN = "never"
_UNITS = {"ratio": "", "index": "", "probability": "", "score": "", "count": ""}
_DECIMALS = {"ratio": 3, "per year": 2}


def memory_claim(card: TradingCard) -> str:
    """Return the sentence on memory: what was hidden, and how well."""
    words = {"blinded": "codes and days", "stock_blind": "codes, but not days,", "date_blind": "days, but not codes,"}
    hidden = words.get(card.task.mask)
    if hidden is None:
        return "Memory: codes and days were in sight, so what it remembers and what it decides can't be told apart here."
    certified = "the certificate says how well" if card.certificate.value else "no certificate says how well"
    return f"Memory: {hidden} were hidden from the model; {certified}."


def nearest_to_median(values: Sequence[float]) -> int:
    """Index of the value nearest to the median of at least one; of equally near ones the first, so that none is preferred for
    being higher or lower.
    """
    middle = median(values)
    distances = [abs(value - middle) for value in values]
    least = min(distances)
    # The two in the middle of an even number are equally near but for rounding.
    room = 1e-12 * max(abs(middle), *map(abs, values))
    return next(index for index, distance in enumerate(distances) if distance <= least + room)


def return_claim(card: TradingCard) -> str:
    """Return the sentence on skill: the median return, and of one episode the parts that add to its return and the benchmark's.

    Medians over episodes do not add up; the parts of one episode do. It is the one whose return is nearest to the median.
    """
    defined: list[TradingEpisode] = []
    total_returns: list[float] = []
    for episode in card.pooled:
        line = episode.metrics.get("total_return")
        if line is not None and line.value is not None:
            defined.append(episode)
            total_returns.append(line.value)
    if not defined:
        return f"Return: not {'defined in any episode' if 'total_return' in card.metrics else 'among the metrics of this card'}."
    one = defined[nearest_to_median(total_returns)]
    returns = {name: line.value for name, line in one.metrics.items() if name in _SIGNED and line.value is not None}
    texts = {name: number(name, "fraction", value) for name, value in returns.items()}
    parts = ", ".join(f"{name.partition('_')[0]} {texts[name]}" for name in PARTS if name in texts)
    paper = texts.get(_PAPER_PARTS[-1])
    without = f" (without industries, as the paper: selection {paper})" if paper else ""
    opening = "Return, %:"
    if len(card.pooled) > 1:
        middle = number("total_return", "fraction", median(total_returns))
        opening = f"Return, %: median {middle} over {len(defined)} episodes. One episode, {one.window}, seed {one.seed}:"
    reference = card.reference.benchmark_buy_and_hold.get(one.window)
    held = None if reference is None else reference.metrics.total_return.value
    against = "" if held is None else f" The benchmark made {number('total_return', 'fraction', held)} %{price_index([one])}."
    return f"{opening} {texts['total_return']}, of which {parts or 'nothing is attributed'}{without}.{against}"


def episode_excess(card: TradingCard, episode: TradingEpisode) -> float | None:
    """Return the excess return of an episode: its total return less that of the benchmark, bought and held over the same days. None
    where one of them is not defined.
    """
    gain, held = episode.metrics.get("total_return"), card.reference.benchmark_buy_and_hold.get(episode.window)
    if gain is None or gain.value is None or held is None or held.metrics.total_return.value is None:
        return None
    return gain.value - held.metrics.total_return.value


def excess_return(card: TradingCard) -> float | None:
    """Return the excess return of a card: the median over its episodes, as of any metric. None where no episode has one."""
    known = [value for episode in card.pooled if (value := episode_excess(card, episode)) is not None]
    return median(known) if known else None


def rests_on(card: TradingCard) -> tuple[str, str]:
    """Return of how many episodes counts are, and figures over episodes: empty where they are of the same ones."""
    finished, pooled = len(card.episodes), len(card.pooled)
    if finished == pooled:
        return "", ""
    return f", in all {finished} episodes", f", in the {pooled} of {finished} episodes that figures rest on"


def price_index(episodes: Sequence[TradingEpisode]) -> str:
    """Return words on the dividend-like growth that a price index lacks; empty without the information ratio's detail."""
    growths, has_none = [], False
    for one in episodes:
        detail = one.metrics["information_ratio"].detail if "information_ratio" in one.metrics else None
        if not isinstance(detail, Mapping) or "dividend_growth" not in detail:
            continue
        growth = detail["dividend_growth"]
        if isinstance(growth, float):
            growths.append((100 * growth * one.steps / TRADING_DAYS, one.steps))
        has_none = has_none or growth is None
    if not growths:
        return " (dividends: none in the data)" if has_none else ""
    rise, days = map(fmean, zip(*growths, strict=True))
    return f" (a price index lacks dividends: the members' adjustment factors grew by {rise:.1f} % in {days:.0f} days)"


def scheme_rows(card: TradingCard) -> list[tuple[str, ...]]:
    """Return selection by the industries in the fit: means over episodes, a row a scheme; heads are `SCHEME_HEADS`."""
    tables, rows = selection_tables(card, "schemes"), []
    for scheme in ("strict", "paper", "coarse", "fine"):
        entries = [entry for table in tables if isinstance(entry := table.get(scheme), Mapping)]
        figures = {name: [entry[name] for entry in entries if isinstance(entry.get(name), float)] for name in _SCHEME_FIGURES}
        if entries:
            means = {name: fmean(values) if values else None for name, values in figures.items()}
            cells = (number(f"{name}_alpha", unit, means[name]) for name, unit in _SCHEME_FIGURES.items())
            rows.append((scheme, *cells))
    return rows


def selection_tables(card: TradingCard, part: str) -> list[Mapping[str, Any]]:
    """Return a mapping in the detail of selection, of each episode that has it."""
    details = [one.metrics["selection_alpha"].detail for one in card.pooled if "selection_alpha" in one.metrics]
    return [table for detail in details if isinstance(detail, Mapping) and isinstance(table := detail.get(part), Mapping)]


def panel(card: TradingCard) -> tuple[Grid, ...]:
    """Return the headline figures, and all others."""
    metrics = card.metrics
    first = dict(_FAMILIES)
    listed = {name for names in (*first.values(), DIAGNOSTICS) for name in names}
    first["metrics asked for"] = tuple(sorted(set(metrics) - listed))
    several = len(card.pooled) > 1
    value, spread = ("median", "quartiles") if several else ("value", "95 % interval")
    columns, keep = ("metric", value, "unit", "better", spread, "episodes"), range(6 if several else 5)

    def table(title: str, families: Mapping[str, Sequence[str]]) -> Grid:
        rows: list[tuple[str, ...]] = []
        for family, names in families.items():
            if present := [name for name in names if name in metrics]:
                rows += [*([(family,)] if family else []), *(_metric_row(name, metrics[name], several) for name in present)]
        return chosen_columns(title, columns, rows, keep)

    schemes = Grid("Selection by the industries in the fit, mean over episodes", SCHEME_HEADS, tuple(scheme_rows(card)), left=1)
    out = "".join(f"; left out: {clean(window)}" for window in card.left_out or {})
    stand = f" of {', '.join(dict.fromkeys(clean(episode.window) for episode in card.pooled))}{out}" if out else ""
    return table(f"Metrics{stand}", first), table("Diagnostics", {"": DIAGNOSTICS}), *((schemes,) if schemes.rows else ())


def columns_of(cards: Sequence[TradingCard | ScoringCard]) -> Grid:
    """Return cards of one kind side by side: a row for each figure, a column for each card, named by what differs (system,
    task); those of one name are numbered.
    """
    labels = system_labels(map(System.of, cards))
    systems, tasks = [clean(labels[System.of(card)]) for card in cards], [clean(card.task.name) for card in cards]
    differing = [names for names in (systems, tasks) if len(set(names)) > 1] or [systems]
    heads = [" ".join(words) for words in zip(*differing, strict=True)]
    heads = [f"{head} #{index}" if heads.count(head) > 1 else head for index, head in enumerate(heads, 1)]
    figures = [card.metrics if isinstance(card, TradingCard) else card.scores for card in cards]
    order = {**_FAMILIES, "diagnostics": DIAGNOSTICS}
    fixed = [name for names in order.values() for name in names]
    names = sorted(
        {name for lines in figures for name in lines}, key=lambda name: (fixed.index(name) if name in fixed else len(fixed), name)
    )
    rows = []
    for name in names:
        lines = [card_figures.get(name) for card_figures in figures]
        unit = next(line.unit for line in lines if line is not None)
        cells = [UNDEFINED if line is None else _cell(name, line) for line in lines]
        rows.append((clean(name), _unit_word(unit), *cells))
    same = " ".join(names[0] for names in (tasks, systems) if names not in differing)
    what = "medians over episodes" if isinstance(cards[0], TradingCard) else "scores"
    return Grid(f"{same}: {what}".removeprefix(": "), ("metric", "unit", *heads), tuple(rows), left=2)


def _cell(name: str, line: MetricLine | ScoreLine) -> str:
    is_never = isinstance(line, MetricLine) and ordered_value(line.value, line.reason) == math.inf
    return NEVER_SHOWN if is_never else number(name, line.unit, line.value)


def _metric_row(name: str, metric: MetricLine, several: bool) -> tuple[str, ...]:
    unit, interval = metric.unit, metric.interval
    spread = ""
    if interval and interval.low is not None and several == (metric.n > 1):  # one of several has its own interval, no quartiles
        spread = f"{number(name, unit, interval.low)} … {number(name, unit, interval.high)}"
    total = metric.n + sum(metric.undefined.values())
    better = "" if metric.better == "neither" else metric.better
    return (clean(name), _cell(name, metric), _unit_word(unit), better, spread, share_of(metric.n, total))


def _unit_word(unit: str) -> str:
    return "%" if is_fraction(unit) else clean(_UNITS.get(unit, unit))


def is_fraction(unit: str) -> bool:
    """Whether values are shown in per cent: `fraction`, or a fraction of something, as `fraction of answers`."""
    return unit == "fraction" or unit.startswith("fraction of ")


def number(name: str, unit: str, value: float | None) -> str:
    """Return a metric's value for tables: fractions in per cent."""
    if value is None:
        return UNDEFINED
    sign = "+" if name in _SIGNED else ""
    if is_fraction(unit):
        return f"{100 * value:{sign}z,.2f}"  # z: no zero below zero
    if unit == "count":
        return f"{value:,.10g}"
    return f"{value:{sign}z,.{_DECIMALS.get(unit, 4)}f}"


def chosen_columns(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]], keep: Iterable[int]) -> Grid:
    """Return a table of chosen columns; rows of one cell are headings."""
    indices = tuple(keep)
    chosen = tuple(row if len(row) == 1 else tuple(row[index] for index in indices) for row in rows)
    return Grid(title, tuple(columns[index] for index in indices), chosen)
