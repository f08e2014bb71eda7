"""Tables for a trading card on the page, and the values for its template."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.cards import (
    NEVER_SHOWN,
    OVER_DAYS,
    OVER_WINDOWS,
    SCHEME_HEADS,
    FigureInterval,
    MetricLine,
    TradingCard,
    TradingEpisode,
    account_claims,
    count,
    figure_interval,
    figure_notes,
    percent,
    scheme_rows,
    share_of,
    shown_metrics,
)
from ktdeval.stats import DIAGNOSTICS, PANEL_FAMILIES, Interval
from ktdeval.values import file_sha256
from ktdeval_report.canvas import PageFigure
from ktdeval_report.card_figures import CardStudy, WindowStudy, median, quartiles
from ktdeval_report.inputs import ReportedCard, is_never_somewhere, known_values
from ktdeval_report.value_formatting import (
    UNDEFINED,
    WORDS,
    PageTable,
    figure,
    interval_text,
    metric_name,
    span,
    unbroken,
    unit_name,
)
from ktdeval_report.window_means import over_windows
from ktdeval_report.window_seed_spread import deviation, variances

_PARTS = {
    "common_return": "common",
    "industry_return": "industry",
    "style_return": "style",
    "selection_alpha": "selection",
    "trading_effect": "trading",
}
"""For each metric, the part of the attribution that it equals and whose interval it shares."""

_PAPER = ("paper_common_return", "paper_style_return", "paper_selection_alpha")

_LINE_NAMES = WORDS["lines"]
_SIGNED = frozenset({"total_return", *_PARTS, *_PAPER})


def families(card: TradingCard) -> Iterator[tuple[str, list[str]]]:
    """Yield a card's metrics by family, in panel order. Additional families come last."""
    known = {
        **PANEL_FAMILIES,
        "parts of the total return": tuple(_PARTS),
        "as the KTD-Fin paper, without industries": _PAPER,
        "diagnostics": DIAGNOSTICS,
    }
    further = set(card.metrics)
    for names in known.values():
        further -= set(names)

    known["further metrics"] = tuple(sorted(further))
    for family, names in known.items():
        present = [name for name in names if name in card.metrics]
        if present:
            yield family, present


def panel(study: CardStudy) -> PageTable:
    """Return the table of all metrics, with values, intervals, and the spread over windows and
    seeds.
    """
    card = study.evaluation.card
    has_episodes = len(card.pooled) > 1
    has_windows = len(study.evaluation.pooled_windows) > 1

    heads = ["metric", "median" if has_episodes else "value", "unit", "better"]
    if has_episodes:
        spread = "both values" if len(card.pooled) == 2 else "quartiles"
        heads += [spread, "episodes"]
    if has_windows:
        heads += ["mean of windows", "its 95 % interval", "SD of windows", "SD of seeds"]
    else:
        heads.append(_days_head(study))
        if has_episodes:
            heads.append("SD of seeds")

    metrics = shown_metrics(card)
    rows: list[list[object]] = []
    for family, names in families(card):
        rows.append([family])
        for name in names:
            row = _metric_cells(metrics[name], name)
            if has_episodes:
                row += _episode_cells(card, metrics[name], name)
            if has_windows:
                row += _window_cells(study, name)
            else:
                row += _day_cells(study, name)

            rows.append(row)

    caption = "Metrics, median over episodes" if has_episodes else "Metrics"
    return PageTable(caption, heads, rows)


def _days_head(study: CardStudy) -> str:
    """Return the heading for intervals over the days of the only window, including the seed that
    they refer to.
    """
    window = _pooled_window(study)
    if window is None:
        return "95 % interval"
    return f"95 % interval, seed {window.seed}"


def _metric_cells(metric: MetricLine, name: str) -> list[object]:
    shown = figure(metric.value, metric.unit, name in _SIGNED)
    if metric.value is None and metric.never:
        shown = NEVER_SHOWN

    better = "" if metric.better == "neither" else metric.better
    return [metric_name(name), shown, unit_name(metric.unit), better]


def _episode_cells(card: TradingCard, metric: MetricLine, name: str) -> list[object]:
    """Return the quartiles over episodes, or the values of only two, and the number of episodes
    with a value out of all episodes.
    """
    quartiles_text = UNDEFINED
    if len(card.pooled) == 2:
        values = [episode.metrics[name].value for episode in card.pooled]
        if metric.n == len(values):
            signed = name in _SIGNED
            quartiles_text = ", ".join(figure(value, metric.unit, signed) for value in values)
    elif metric.quartiles:
        ends = metric.quartiles
        quartiles_text = span(ends.low, ends.high, metric.unit, name in _SIGNED)

    total = metric.n + sum(metric.undefined.values())
    return [quartiles_text, share_of(metric.n, total)]


def _window_cells(study: CardStudy, name: str) -> list[object]:
    """Return the mean over windows with its interval, and the spread between windows and between
    seeds.
    """
    metric = shown_metrics(study.evaluation.card)[name]
    if metric.n == 0:
        return [UNDEFINED] * 4

    signed = name in _SIGNED
    mean = over_windows(study.evaluation, name)
    low, high = _within(mean.low, mean.high, metric)
    of_windows, of_seeds = _variances(study, name)

    return [
        figure(mean.value, metric.unit, signed),
        span(low, high, metric.unit, signed),
        deviation(of_windows, metric.unit),
        deviation(of_seeds, metric.unit),
    ]


def _day_cells(study: CardStudy, name: str) -> list[object]:
    """Return the interval over the days of the only window, and the spread between its seeds."""
    card = study.evaluation.card
    unit = card.metrics[name].unit
    cells: list[object] = [
        interval_text(_interval_over_days(study, name), unit, name in _SIGNED),
    ]
    if len(card.pooled) > 1:
        _, of_seeds = _variances(study, name)
        cells.append(deviation(of_seeds, unit))

    return cells


def _variances(study: CardStudy, name: str) -> tuple[float | None, float | None]:
    episodes = study.evaluation.card.pooled
    if is_never_somewhere(episodes, name):
        return variances({})

    figures = {}
    for episode in episodes:
        figures[episode.window, episode.seed] = episode.metrics[name].value

    return variances(figures)


def _within(
    low: float | None, high: float | None, metric: MetricLine
) -> tuple[float | None, float | None]:
    """Return the ends of an interval, clipped to the range of values that the metric can have."""
    smallest, largest = metric.range
    if low is not None and smallest is not None:
        low = max(low, smallest)

    if high is not None and largest is not None:
        high = min(high, largest)

    return low, high


def _interval_over_days(study: CardStudy, name: str) -> Interval | None:
    window = _pooled_window(study)
    if window is None:
        return None
    if name in _PARTS:
        return window.lines.get(_PARTS[name])
    return window.intervals.get(name)


def sharpe_interval(study: CardStudy) -> FigureInterval:
    """Return the interval of a card's Sharpe ratio. Several seeds of one window show that of the
    seed whose return is nearest to the median, if its ledger is known.
    """
    own = figure_interval(study.evaluation.card, "sharpe")
    over_days = _interval_over_days(study, "sharpe")
    if own.over == OVER_WINDOWS or own.low is not None or over_days is None:
        return own
    return FigureInterval(OVER_DAYS, over_days.low, over_days.high, over_days.reason or "")


def _pooled_window(study: CardStudy) -> WindowStudy | None:
    """Return the first window that counts in the card's pooled figures; None without ledgers."""
    pooled = study.evaluation.pooled_windows
    return next((window for window in study.windows if window.name in pooled), None)


def panel_notes(study: CardStudy) -> Iterator[str]:
    """Yield notes on how to read the panel's intervals, and the card's notes on its figures."""
    window = _pooled_window(study)
    if len(study.evaluation.pooled_windows) > 1:
        yield (
            "The interval is a t interval of the mean over windows, widened where windows share"
            " days, cut at the metric's range. SD of windows: between them, free of what seeds put"
            " into it; SD of seeds: within a window (both by ANOVA moments). A negative variance in"
            " its place: windows differ by less than seeds alone explain."
        )
    elif window is not None and study.evaluation.market is not None:
        yield f"Intervals are over the days of seed {window.seed}."
        yield from coverage_notes([window])

    yield from figure_notes(study.evaluation.card)


@dataclass(frozen=True)
class ReportWindowRow:
    """Figures of a window, as medians over its seeds, next to the benchmark's."""

    name: str
    first: TradingEpisode
    seeds: str  # number of seeds with a return, out of all seeds
    own: float | None
    least: float | None  # lowest return of any seed; None if there is only one seed
    greatest: float | None
    benchmark: float | None
    excess: float | None


def window_rows(evaluation: ReportedCard) -> Iterator[ReportWindowRow]:
    """Yield the figures for each window."""
    for name in evaluation.windows:
        episodes = evaluation.episodes_of(name)
        returns = known_values(episodes, "total_return")
        own = median(returns)
        reference = evaluation.card.reference.benchmark_buy_and_hold[name]
        benchmark = reference.metrics.total_return.value

        excess = None
        if own is not None and benchmark is not None:
            excess = own - benchmark

        least = None
        greatest = None
        if len(returns) > 1:
            least = min(returns)
            greatest = max(returns)

        # no episode has a return, so there is nothing to distinguish
        with_return = len(returns) or len(episodes)
        seeds = share_of(with_return, len(episodes))
        yield ReportWindowRow(name, episodes[0], seeds, own, least, greatest, benchmark, excess)


def windows_notes(study: CardStudy) -> list[str]:
    """Return notes on the measured coverage of the intervals, and on missing intervals."""
    missing: dict[str, list[str]] = {}
    for window in study.windows:
        for interval in window.intervals.values():
            if interval.reason:
                missing.setdefault(interval.reason, []).append(window.name)

    # For a card with one window, the coverage is given below its table of metrics.
    notes = []
    if len(study.windows) > 1:
        notes += coverage_notes(study.windows)

    for reason, names in sorted(missing.items()):
        windows = ", ".join(dict.fromkeys(names))
        notes.append(f"{windows}: intervals are missing: {reason}")

    return notes


def coverage_notes(windows: Sequence[WindowStudy]) -> list[str]:
    """Return, for each daily metric, how often its kind of interval covered the truth in
    simulations of the same length.
    """
    by_metric: dict[str, list[Interval]] = {}
    for window in windows:
        for name, interval in window.intervals.items():
            if interval.low is not None:
                by_metric.setdefault(name, []).append(interval)

    return [_coverage_note(name, intervals) for name, intervals in by_metric.items()]


def _coverage_note(name: str, intervals: Sequence[Interval]) -> str:
    days = sorted({interval.n for interval in intervals})
    length = f"{days[0]} days" if len(days) == 1 else f"{days[0]} to {days[-1]} days"
    nominal = f"nominal {percent(intervals[0].level, 'g')} ({intervals[0].kind})"

    measured = [interval.coverage for interval in intervals if interval.coverage is not None]
    coverage = "its coverage was not measured"
    if len(measured) == len(intervals):
        least = 100 * min(measured)
        coverage = f"in simulations of such lengths it covered the truth in {least:.1f} % or more"

    return f"{name}, {length}: {nominal}; {coverage}."


def attribution_table(study: CardStudy) -> PageTable:
    """Return all attribution lines over all episodes, with intervals for windows that are drawn."""
    drawn = [window for window in study.windows if window.drawn and window.lines]
    episodes = len(next(iter(study.lines.values())))

    heads: list[object] = ["line"]
    total: list[object] = ["total return"]
    if episodes > 1:
        heads += ["median, %", "quartiles, %"]
        total += ["", ""]

    heads.append("mean exposure")
    total.append("")
    for window in drawn:
        heads += [f"{window.label}, %", "95 % interval"]
        split = window.attribution
        total_return = split.linked.total_return if split else None
        total += [figure(total_return, "fraction", signed=True), ""]

    rows = [_line_row(study, name, drawn) for name in study.lines]
    caption = f"Linked contributions to the total return, over {count(episodes, 'episode')}"
    return PageTable(caption, heads, [*rows, total])


def attribution_notes(study: CardStudy) -> list[str]:
    """Return notes on lines without an interval, and on inputs that were missing from the
    attribution.
    """
    missing = set()
    for window in study.windows:
        if not window.drawn:
            continue

        for name, interval in window.lines.items():
            if interval.low is None:
                missing.add(f"{window.name}: no interval of {name}: {interval.reason}")

    notes = sorted(missing)
    for (meaning, subject), times in study.notes.items():
        of_subject = f" ({subject})" if subject else ""
        notes.append(f"{times:,} × {meaning}{of_subject}")

    return notes


def _line_row(study: CardStudy, name: str, drawn: Sequence[WindowStudy]) -> list[object]:
    values = study.lines[name]
    row: list[object] = [unbroken(_LINE_NAMES.get(name, name))]
    if len(values) > 1:
        row.append(figure(median(values), "fraction", signed=True))
        row.append(span(*quartiles(values), "fraction", signed=True))

    # Only style factors have exposures.
    exposure = "" if name in _LINE_NAMES else figure(study.exposures.get(name), signed=True)
    row.append(exposure)

    for window in drawn:
        interval = window.lines[name]
        linked: Mapping[str, float] = {}
        if window.attribution is not None:
            linked = window.attribution.linked.lines or {}

        row.append(figure(linked.get(name), "fraction", signed=True))
        row.append(span(interval.low, interval.high, "fraction", signed=True))

    return row


def _no_attribution(study: CardStudy) -> str:
    if study.evaluation.problem:
        return study.evaluation.problem

    reasons = sorted({window.no_attribution for window in study.windows} - {""})
    return f"There is none: {'; '.join(reasons) or 'no episode has one'}."


def card_view(study: CardStudy, plots: Mapping[str, Sequence[PageFigure]]) -> dict[str, object]:
    """Return the values for `card.html`. `plots` contains figures by window, and under `lead` those
    shown before any table.
    """
    one = study.evaluation
    card = one.card

    drawn = []
    for window in study.windows:
        figures = plots.get(window.name)
        if figures:
            drawn.append((window.label, figures))

    metrics: list[str] = []
    for _, names in families(card):
        metrics += names

    schemes = PageTable(
        "Selection by the industries in the fit, mean of episodes", SCHEME_HEADS, scheme_rows(card)
    )
    return {
        "label": one.label,
        "anchor": one.anchor,
        "labels": [(name, "") for name in card.labels],
        "claims": list(account_claims(card)),
        "of": card,
        "problem": one.problem,
        "recorded_rules": one.recorded_rules,
        "panel": panel(study),
        "panel_notes": list(panel_notes(study)),
        "metrics": metrics,
        "windows": list(window_rows(one)),
        "has_market": bool(study.windows) and one.market is not None,
        "studied": study.windows,
        "window_notes": windows_notes(study),
        "drawn": drawn,
        "attribution": attribution_table(study) if study.lines else None,
        "no_attribution": _no_attribution(study),
        "attribution_notes": attribution_notes(study),
        "schemes": schemes,
        "several": any(len(values) > 1 for values in study.lines.values()),
        "lead": plots.get("lead", ()),
        "is_calibrated": card.calibration.n > 0,
        "quoted_path": shlex.quote(str(one.path)),
        "sha256": file_sha256(one.path),
    }
