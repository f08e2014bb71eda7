"""One card on the page: tables of its panel of metrics, windows and attribution, and all that its template prints."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ktdeval.cards import (
    NEVER_SHOWN,
    SCHEME_HEADS,
    MetricLine,
    ScoreLine,
    ScoringCard,
    System,
    TradingCard,
    count,
    figure_notes,
    scheme_rows,
    share_of,
    system_labels,
    tally,
)
from ktdeval.jsonio import file_sha256
from ktdeval.stats import DIAGNOSTICS, PANEL_FAMILIES, Interval, MetricValue, mean_with_interval, overlap_correlation
from ktdeval_report.inputs import Evaluation, is_never_somewhere, known_values
from ktdeval_report.render import UNDEFINED, WORDS, Table, figure, interval_text, span, unbroken, unit_name
from ktdeval_report.study import CardStudy, WindowStudy, median, quartiles

_PARTS = {
    "common_return": "common",
    "industry_return": "industry",
    "style_return": "style",
    "selection_alpha": "selection",
    "trading_effect": "trading",
}
"""Metric -> part of the attribution that it is, whose interval it has."""

_PAPER = ("paper_common_return", "paper_style_return", "paper_selection_alpha")

_LINE_NAMES = WORDS["lines"]
_ROUNDING = 1e-15  #: How far below 0 rounding alone can put the estimate of a variance
_SIGNED = frozenset({"total_return", *_PARTS, *_PAPER})


def families(card: TradingCard) -> Iterator[tuple[str, list[str]]]:
    """Return the metrics of a card by family, in the order of the panel; those that the panel does not know come last."""
    known = {
        **PANEL_FAMILIES,
        "parts of the total return": tuple(_PARTS),
        "as the paper: without industries": _PAPER,
        "diagnostics": DIAGNOSTICS,
    }
    others = set(card.metrics) - {name for names in known.values() for name in names}
    known["further metrics"] = tuple(sorted(others))
    for family, names in known.items():
        present = [name for name in names if name in card.metrics]
        if present:
            yield family, present


def over_windows(evaluation: Evaluation, name: str, less: Callable[[str], float | None] = lambda _: 0.0) -> MetricValue:
    """Mean over windows of a metric's median over seeds, `less` another figure of the window; `detail` holds its interval."""
    if is_never_somewhere(evaluation.card.pooled, name):
        return MetricValue(None, 0, "an episode never reaches it")
    values, days = [], []
    for window in evaluation.pooled_windows:
        episodes = evaluation.episodes_of(window)
        own, other = median(known_values(episodes, name)), less(window)
        if own is not None and other is not None:
            values.append(own - other)
            days.append((episodes[0].first_day, episodes[0].last_day))
    return mean_with_interval(np.array(values), overlap_correlation(days))


def panel(study: CardStudy) -> Table:
    """Every metric of the card: value, interval, and how much of its spread is windows and how much seeds."""
    one, card = study.evaluation, study.evaluation.card
    several, windows = len(card.pooled) > 1, len(one.pooled_windows)
    heads = ["metric", "median" if several else "value", "unit", "better"]
    if several:
        heads += ["quartiles", "episodes"]
    if windows > 1:
        heads += ["mean of windows", "its 95 % interval", "SD of windows", "SD of seeds"]
    else:
        heads += ["95 % interval", *(["SD of seeds"] if several else [])]
    rows: list[list[object]] = []
    for family, names in families(card):
        rows.append([family])
        rows += [_panel_row(study, name, several, windows) for name in names]
    return Table(f"Metrics{', median over episodes' if several else ''}", heads, rows)


def _panel_row(study: CardStudy, name: str, several: bool, windows: int) -> list[object]:
    one, metric = study.evaluation, study.evaluation.card.metrics[name]
    unit, signed = metric.unit, name in _SIGNED
    better = "" if metric.better == "neither" else metric.better
    shown = NEVER_SHOWN if metric.value is None and metric.never else figure(metric.value, unit, signed)
    row: list[object] = [name, shown, unit_name(unit), better]
    known = () if is_never_somewhere(one.card.pooled, name) else one.card.pooled
    of_windows, of_seeds = variances({(each.window, each.seed): each.metrics[name].value for each in known})
    if several:
        ends, total = metric.interval if metric.n > 1 else None, metric.n + sum(metric.undefined.values())
        row.append(span(ends.low, ends.high, unit, signed) if ends else UNDEFINED)
        row.append(share_of(metric.n, total))
    if windows > 1:
        mean = over_windows(one, name)
        detail = mean.detail or {}
        low, high = _within(detail.get("low"), detail.get("high"), metric)
        row += [figure(mean.value, unit, signed), span(low, high, unit, signed)]
        return [*row, _deviation(of_windows, unit), _deviation(of_seeds, unit)]
    row.append(interval_text(_interval_over_days(study, name), unit, signed))
    return [*row, _deviation(of_seeds, unit)] if several else row


def _within(low: float | None, high: float | None, metric: MetricLine) -> tuple[float | None, float | None]:
    """Return the ends of an interval, cut at the smallest and largest value that the metric can have."""
    smallest, largest = metric.range
    if low is not None and smallest is not None:
        low = max(low, smallest)
    if high is not None and largest is not None:
        high = min(high, largest)
    return low, high


def _interval_over_days(study: CardStudy, name: str) -> Interval | None:
    if (window := _pooled_window(study)) is None:
        return None
    return window.lines.get(_PARTS[name]) if name in _PARTS else window.intervals.get(name)


def _pooled_window(study: CardStudy) -> WindowStudy | None:
    """First window that the card's figures rest on; those in rows of their own may come before it. None without ledgers."""
    return next((window for window in study.windows if window.name in study.evaluation.pooled_windows), None)


def panel_notes(study: CardStudy) -> Iterator[str]:
    """How to read the intervals of the panel, and what the card says of its figures."""
    if len(study.evaluation.pooled_windows) > 1:
        yield (
            "The interval is a t interval of the mean over windows, widened where windows share days, cut at the metric's range. "
            "SD of windows: between them, free of what seeds put into it; SD of seeds: within a window (both by ANOVA moments). "
            "A negative variance in its place: windows differ by less than seeds alone explain."
        )
    elif (window := _pooled_window(study)) is not None and study.evaluation.market is not None:
        yield f"Intervals are over the days of seed {window.seed}."
        yield from coverage_notes([window])
    yield from figure_notes(study.evaluation.card)


def window_rows(evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    """Figures of each window next to the benchmark's: `own`, its median return over seeds, and the least and greatest of these."""
    for name in evaluation.windows:
        episodes = evaluation.episodes_of(name)
        returns = known_values(episodes, "total_return")
        own, held = median(returns), evaluation.card.reference.benchmark_buy_and_hold[name].metrics.total_return.value
        least, greatest = (min(returns), max(returns)) if len(returns) > 1 else (None, None)
        excess = None if own is None or held is None else own - held
        seeds = share_of(len(returns) or len(episodes), len(episodes))
        row = {"name": name, "first": episodes[0], "seeds": seeds, "own": own, "least": least, "greatest": greatest}
        yield {**row, "benchmark": held, "excess": excess}


def windows_notes(study: CardStudy) -> list[str]:
    """Measured coverage of the intervals, and where intervals are missing."""
    notes = coverage_notes(study.windows) if len(study.windows) > 1 else []
    missing: dict[str, list[str]] = {}
    for window in study.windows:
        for interval in window.intervals.values():
            if interval.reason:
                missing.setdefault(interval.reason, []).append(window.name)
    return notes + [
        f"{', '.join(dict.fromkeys(names))}: intervals are missing: {reason}" for reason, names in sorted(missing.items())
    ]


def coverage_notes(windows: Sequence[WindowStudy]) -> list[str]:
    """For each daily metric, how often its kind of interval covered the truth in simulations of such lengths."""
    by_metric: dict[str, list[Interval]] = {}
    for window in windows:
        for name, interval in window.intervals.items():
            if interval.low is not None:
                by_metric.setdefault(name, []).append(interval)
    notes = []
    for name, intervals in by_metric.items():
        days = sorted({interval.n for interval in intervals})
        length = f"{days[0]} days" if len(days) == 1 else f"{days[0]} to {days[-1]} days"
        measured = [interval.coverage for interval in intervals if interval.coverage is not None]
        coverage = (
            f"in simulations of such lengths it covered the truth in {100 * min(measured):.1f} % or more"
            if len(measured) == len(intervals)
            else "how often it covers the truth was not measured"
        )
        notes.append(f"{name}, {length}: nominal {100 * intervals[0].level:g} % ({intervals[0].kind}); {coverage}.")
    return notes


def attribution_table(study: CardStudy) -> Table:
    """Every line of the attribution: over all episodes, and with intervals for the windows that are drawn."""
    drawn = [window for window in study.windows if window.drawn and window.lines]
    episodes = len(next(iter(study.lines.values())))
    heads: list[object] = ["line", *(["median, %", "quartiles, %"] if episodes > 1 else []), "mean exposure"]
    total: list[object] = ["total return", *(["", ""] if episodes > 1 else []), ""]
    for window in drawn:
        heads += [f"{window.name}, %", "95 % interval"]
        split = window.attribution
        total += [figure(split.linked.total_return if split else None, "fraction", signed=True), ""]
    rows = [_line_row(study, name, drawn) for name in study.lines]
    return Table(f"Linked contributions to the total return, over {count(episodes, 'episode')}", heads, [*rows, total])


def attribution_notes(study: CardStudy) -> list[str]:
    """Lines without an interval, and what the attribution had to do without."""
    missing = {
        f"{window.name}: no interval of {name}: {interval.reason}"
        for window in study.windows
        for name, interval in (window.lines.items() if window.drawn else ())
        if interval.low is None
    }
    notes = [f"{times:,} × {meaning}{f' ({subject})' if subject else ''}" for (meaning, subject), times in study.notes.items()]
    return [*sorted(missing), *notes]


def _line_row(study: CardStudy, name: str, drawn: Sequence[WindowStudy]) -> list[object]:
    values = study.lines[name]
    row: list[object] = [unbroken(_LINE_NAMES.get(name, name))]
    if len(values) > 1:
        row += [figure(median(values), "fraction", signed=True), span(*quartiles(values), "fraction", signed=True)]
    row.append("" if name in _LINE_NAMES else figure(study.exposures.get(name), signed=True))
    for window in drawn:
        interval, split = window.lines[name], window.attribution
        linked: Mapping[str, float] = (split.linked.lines if split else None) or {}
        row += [figure(linked.get(name), "fraction", signed=True), span(interval.low, interval.high, "fraction", signed=True)]
    return row


def variances(figures: Mapping[tuple[str, int], float | None]) -> tuple[float | None, float | None]:
    """Variances of (window, seed) -> figure between windows and between seeds of a window; None where there are too few.

    Random effects by ANOVA moments. A seed's chance (the model's sampling, the alias map) is drawn anew in each window, so seeds
    are nested in windows: `figure = mean + window effect + seed effect within the window`. With `k` windows, `n_i` seeds in window
    i and N figures in all,

        MS_within  = sum over windows of sum (y - window mean)^2 / (N - k)              seed variance
        MS_between = sum over windows of n_i * (window mean - mean)^2 / (k - 1)
        window variance = (MS_between - MS_within) / n0;  n0 = (N - sum n_i^2 / N) / (k - 1)

    The estimate of the window variance is negative where windows differ by less than seeds alone explain.

    (Searle, Casella and McCulloch 1992, chapter 3). statsmodels' MixedLM fits the same model by restricted likelihood: equal to
    7 digits on a balanced table, and 17 against 0.05 ms a figure. Figures that are None are left out.
    """
    groups: dict[str, list[float]] = {}
    for (window, _), value in sorted(figures.items()):
        if value is not None:
            groups.setdefault(window, []).append(float(value))
    sizes = np.array([len(group) for group in groups.values()])
    k, total = len(groups), int(sizes.sum())
    if total == k:  # one seed a window, or no figure: window and seed can't be separated
        return None, None
    means = np.array([math.fsum(group) / len(group) for group in groups.values()])
    squares = [(value - mean) ** 2 for group, mean in zip(groups.values(), means.tolist(), strict=True) for value in group]
    seed = math.fsum(squares) / (total - k)
    if k < 2:
        return None, seed
    grand = float((sizes * means).sum() / total)
    between = float((sizes * (means - grand) ** 2).sum() / (k - 1))
    n0 = (total - float((sizes**2).sum()) / total) / (k - 1)
    return (between - seed) / n0, seed


def _deviation(variance: float | None, unit: str) -> str:
    """Return the standard deviation of a variance in words: of a negative estimate, which has none, the estimate itself."""
    if variance is None:
        return UNDEFINED
    if variance < -_ROUNDING:
        return unbroken(f"variance {variance:.1e}".replace("-", "−"))
    return figure(math.sqrt(max(variance, 0.0)), unit)


def _no_attribution(study: CardStudy) -> str:
    reasons = {window.no_attribution for window in study.windows} - {""}
    return study.evaluation.problem or f"There is none: {'; '.join(sorted(reasons)) or 'no episode has one'}."


def card_view(study: CardStudy, plots: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """Values of `card.html`. `plots`: figures by their window, or by `lead`, those that come before any table."""
    one, card = study.evaluation, study.evaluation.card
    has_market = bool(study.windows) and one.market is not None
    windows = [(f"{window.name}, seed {window.seed}", plots[window.name]) for window in study.windows if plots.get(window.name)]
    return {
        "label": one.label,
        "anchor": one.anchor,
        "labels": [(name, "") for name in card.labels],
        "of": card,
        "problem": one.problem,
        "recorded_rules": one.recorded_rules,
        "panel": panel(study),
        "panel_notes": list(panel_notes(study)),
        "metrics": [name for _, names in families(card) for name in names],
        "windows": list(window_rows(one)),
        "has_market": has_market,
        "studied": study.windows,
        "window_notes": windows_notes(study),
        "drawn": windows,
        "attribution": attribution_table(study) if study.lines else None,
        "no_attribution": _no_attribution(study),
        "attribution_notes": attribution_notes(study),
        "schemes": Table("Selection by the industries in the fit, mean of episodes", SCHEME_HEADS, scheme_rows(card)),
        "several": any(len(values) > 1 for values in study.lines.values()),
        "lead": plots.get("lead", ()),
        "is_calibrated": card.calibration.n > 0,
        "quoted_path": shlex.quote(str(one.path)),
        "sha256": file_sha256(one.path),
    }


# ---- cards of scoring tasks


def score_views(cards: Sequence[ScoringCard]) -> list[dict[str, Any]]:
    """Tables of each task, as the page's template takes them."""
    tasks: dict[str, list[ScoringCard]] = {}
    for card in cards:
        tasks.setdefault(card.task.name, []).append(card)
    return [{"task": task, "tables": list(_tables(task, members))} for task, members in tasks.items()]


def _tables(task: str, cards: Sequence[ScoringCard]) -> Iterator[Table]:
    first, names = cards[0], [name for name in cards[0].score_order if cards[0].scores[name].headline]
    labels = _labels(cards)
    rows = [[label, *(_cell(card.scores.get(name)) for name in names), _answered(card)]
            for label, card in zip(labels, cards, strict=True)]  # fmt: skip
    heads = ["card", *(_head(first, name) for name in names), "answered"]
    yield Table(f"{task}: scores of each card, with 95 % interval", heads, rows)
    details = [card.scores[names[0]].detail if names else {} for card in cards]
    for key in (key for key in details[0] if key.startswith("by_")):
        groups = sorted({group for detail in details for group in detail.get(key, {})})
        rows = [[group, *(_group(names[0], card, key, group) for card in cards)] for group in groups]
        kind = key.removeprefix("by_")
        yield Table(f"{task}: {_head(first, names[0])} by {kind}, and how many samples", [kind, *labels], rows)
    modes = [[label, tally(detail["failure_modes"])]
             for label, detail in zip(labels, details, strict=True) if "failure_modes" in detail]  # fmt: skip
    if modes:
        yield Table(f"{task}: how answers fail", ["card", "failures, most frequent first"], modes, words=2)


def _labels(cards: Sequence[ScoringCard]) -> list[str]:
    """Names of cards of one task by their systems; several of one system are numbered."""
    systems = system_labels(map(System.of, cards))
    labels = [systems[System.of(card)] for card in cards]
    return [f"{label} ({labels[:at].count(label) + 1})" if labels.count(label) > 1 else label for at, label in enumerate(labels)]


def _head(card: ScoringCard, name: str) -> str:
    unit = unit_name(card.scores[name].unit)
    return f"{name}, {unit}" if unit else name


def _cell(line: ScoreLine | None) -> object:
    if line is None or line.value is None:
        return UNDEFINED
    interval = "" if line.interval is None else f" [{span(line.interval.low, line.interval.high, line.unit)}]"
    return unbroken(f"{figure(line.value, line.unit)}{interval}")


def _group(name: str, card: ScoringCard, key: str, group: str) -> str:
    entry = card.scores[name].detail.get(key, {}).get(group)
    return UNDEFINED if entry is None else f"{figure(entry.get(name, entry.get('value')), card.scores[name].unit)} ({entry['n']})"


def _answered(card: ScoringCard) -> str:
    return f"{sum(one.answered for one in card.episodes):,} of {sum(one.steps for one in card.episodes):,}"
