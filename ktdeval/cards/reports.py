"""Cards of evaluations laid out as words and figures, the same in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import asdict

from ktdeval.cards.card import ScoreLine, ScoringCard, TradingCard
from ktdeval.cards.derive import aggregate
from ktdeval.cards.facts import absence_notes, coverage_rows, ranking_words, run_rows, spending_rows, task_row
from ktdeval.cards.parts import EpisodeMetric, Line, MetricLine
from ktdeval.cards.table import UNDEFINED, Grid, Report, clean, count, tally, word_grid
from ktdeval.stats.panel import DIAGNOSTICS, PANEL_FAMILIES

_PARTS = ("common_return", "style_return", "selection_alpha", "trading_effect")
_SIGNED = frozenset({"total_return", *_PARTS})
_UNITS = {"fraction": "%", "ratio": "", "index": "", "probability": "", "score": "", "count": ""}
_DECIMALS = {"ratio": 3, "per year": 2}
_LONGEST_POLICY = 22  # characters; tables fit 80 columns
_LONGEST_UNIT = 6
_UNDEFINED_LINE = Line(value=None, n=0, undefined={}, reason="was not asked for")

Figures = Mapping[str, Line | EpisodeMetric]


# ---- trading cards


def trading_report(card: TradingCard, attached: Iterable[tuple[str, str]] = ()) -> Report:
    """Lay the figures of a trading card out as words.

    Args:
        card: valid.
        attached: names and words of the card that is attached to it.
    """
    return Report(
        title=clean(f"{card.task.name} · {card.model.name}"),
        labels=tuple(card.labels),
        ranking=clean(ranking_words(card)),
        facts=word_grid("", [task_row(card), *run_rows(card, "step"), ("rules", card.rules), *attached]),
        grids=(_panel(card), _windows(card)),
        activity=_trading_activity(card),
        notes=tuple(_trading_notes(card)),
    )


def _panel(card: TradingCard) -> Grid:
    metrics = card.metrics
    families = {**PANEL_FAMILIES, "parts of the total return (linked)": _PARTS, "diagnostics": DIAGNOSTICS}
    known = {name for names in families.values() for name in names}
    families["further metrics"] = tuple(sorted(set(metrics) - known))
    rows: list[tuple[str, ...]] = []
    for family, names in families.items():
        present = [name for name in names if name in metrics]
        if present:
            rows.append((family,))
            rows.extend(_metric_row(name, metrics[name]) for name in present)
    several = len(card.episodes) > 1
    value, spread = ("median", "quartiles") if several else ("value", "95 % interval")
    columns = ("metric", value, "unit", "better", spread, "episodes")
    keep = [place for place, column in enumerate(columns) if several or column != "episodes"]
    return Grid(
        "Metrics",
        tuple(columns[place] for place in keep),
        tuple(row if len(row) == 1 else tuple(row[place] for place in keep) for row in rows),
    )


def _metric_row(name: str, metric: MetricLine) -> tuple[str, ...]:
    unit, interval = metric.unit, metric.interval
    spread = ""
    if interval and interval.low is not None:
        spread = f"{_number(name, unit, interval.low)} … {_number(name, unit, interval.high)}"
    total = metric.n + sum(metric.undefined.values())
    coverage = str(total) if metric.n == total else f"{metric.n} of {total}"
    better = "" if metric.better == "neither" else metric.better
    return (clean(name), _number(name, unit, metric.value), clean(_UNITS.get(unit, unit)), better, spread, coverage)


def _number(name: str, unit: str, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    sign = "+" if name in _SIGNED else ""
    if unit == "fraction":
        return f"{100 * value:{sign},.2f}"
    if unit == "count":
        return f"{value:,.10g}"
    return f"{value:{sign},.{_DECIMALS.get(unit, 4)}f}"


def _windows(card: TradingCard) -> Grid:
    """For each window the model's median over seeds, and the benchmark beneath it."""
    references = card.reference.benchmark_buy_and_hold
    benchmark = clean(f"{card.snapshot.benchmark_name} buy and hold")
    rows: list[tuple[str, ...]] = []
    for name in (window.name for window in card.windows):
        episodes = [episode for episode in card.episodes if episode.window == name]
        if not episodes:
            continue
        held = asdict(references[name].metrics)
        own = {
            metric: aggregate(episode.metrics[metric] for episode in episodes) if metric in card.metrics else _UNDEFINED_LINE
            for metric in held
        }
        days = str(episodes[0].steps)
        gain, *risk = _return_and_risk(own)
        rows.append((clean(name), _short_model(clean(card.model.name)), days, str(len(episodes)), gain, _excess(own, held), *risk))
        gain, *risk = _return_and_risk(held)
        rows.append(("", benchmark, days, "", gain, "", *risk))
    columns = ("window", "policy", "days", "seeds", "return", "excess", "sharpe", "drawdown")
    return Grid("Against the benchmark (return, excess and drawdown in %)", columns, tuple(rows), left=2)


def _short_model(name: str) -> str:
    """A model's name that leaves room for figures; its whole name stands above."""
    if len(name) > _LONGEST_POLICY:
        name = name.rpartition("/")[2]
    return name if len(name) <= _LONGEST_POLICY else f"{name[: _LONGEST_POLICY - 1]}…"


def trading_summary(cards: Sequence[TradingCard]) -> Grid:
    """Headline metrics of several cards side by side, a row for each task."""
    headlines = ("total_return", "sharpe", "max_drawdown", "information_ratio", "decision_coverage")
    rows = []
    for card in cards:
        figures = []
        for name in headlines:
            metric = card.metrics.get(name)
            figures.append(UNDEFINED if metric is None else _number(name, metric.unit, metric.value))
        rows.append((clean(card.task.name), *figures))
    title = "All tasks (medians; return, drawdown and decided steps in %)"
    return Grid(title, ("task", "return", "sharpe", "drawdown", "info ratio", "decided"), tuple(rows))


def _excess(own: Figures, held: Figures) -> str:
    ours, theirs = own["total_return"].value, held["total_return"].value
    return UNDEFINED if ours is None or theirs is None else _number("total_return", "fraction", ours - theirs)


def _return_and_risk(values: Figures) -> tuple[str, str, str]:
    return (
        _number("total_return", "fraction", values["total_return"].value),
        _number("sharpe", "ratio", values["sharpe"].value),
        _number("max_drawdown", "fraction", values["max_drawdown"].value),
    )


def _trading_activity(card: TradingCard) -> Grid:
    """Who decided, what became of the orders, what failed, what it took."""
    statuses = {"filled": card.orders.filled, "partially_filled": card.orders.partially_filled, "rejected": card.orders.rejected}
    left_out = {"no_fill": card.calibration.no_fill, "no_next_open": card.calibration.no_next_open}
    rows = [
        *coverage_rows(card, "step"),
        ("orders", f"{card.orders.submitted:,} submitted: {tally(statuses)}"),
        ("order rules", tally(card.orders.rules)),
        ("calibration", f"{count(card.calibration.n, 'order')} judged; left out: {tally(left_out)}"),
        ("failures", tally(card.failures)),
        ("tool calls", f"{card.usage.tool_calls:,}, {card.usage.tool_calls_valid:,} valid"),
        *spending_rows(card),
    ]
    return word_grid("Activity", rows)


def _trading_notes(card: TradingCard) -> Iterator[str]:
    for name, metric in card.metrics.items():
        for reason, times in metric.undefined.items():
            where = f" in {times} of {len(card.episodes)} episodes" if len(card.episodes) > 1 else ""
            yield clean(f"{name} is not defined{where}: {reason}")
    yield from absence_notes(card, "attribution", "certificate")


# ---- scoring cards


def scoring_report(card: ScoringCard) -> Report:
    """Lay the figures of a scoring card out as words."""
    return Report(
        title=clean(f"{card.task.name} · {card.model.name}"),
        labels=tuple(card.labels),
        ranking=clean(ranking_words(card)),
        facts=word_grid("", [task_row(card), *_target_row(card), *run_rows(card, "sample")]),
        grids=(_scores(card),),
        activity=_scoring_activity(card),
        notes=tuple(_scoring_notes(card)),
    )


def scoring_summary(cards: Sequence[ScoringCard]) -> Grid:
    """Headline scores of several cards side by side, a column for each task."""
    columns = _short_names([clean(card.task.name) for card in cards])
    scores = dict.fromkeys(name for card in cards for name in card.score_order if card.scores[name].headline)
    rows = [(clean(name), *(_own_value(card.scores.get(name)) for card in cards)) for name in scores]
    return Grid("All scoring tasks (fractions in %)", ("score", *columns), tuple(rows))


def _short_names(names: Sequence[str]) -> list[str]:
    """Names without the words that all begin with, but for the first: `a_probe, a_probe_bright` are `a_probe, …bright`."""
    words = [name.split("_") for name in names]
    shared = 0
    while all(word[shared : shared + 1] == words[0][shared : shared + 1] != [] for word in words):
        shared += 1
    rest = ["_".join(word[shared:]) for word in words]
    return [f"…{end}" if place and shared and end else name for place, (name, end) in enumerate(zip(names, rest, strict=True))]


def _own_value(score: ScoreLine | None) -> str:
    return UNDEFINED if score is None else _score_number(score.unit, score.value)


def _target_row(card: ScoringCard) -> Iterator[tuple[str, str]]:
    if card.target_task is not None:
        yield "subject", f"{card.target_task.name} ({card.target_task.hash[:12]})"


def _scores(card: ScoringCard) -> Grid:
    """A row for each score: the headlines first, the others below a heading of their own."""
    scores = card.scores
    groups = [[name for name in card.score_order if scores[name].headline is headline] for headline in (True, False)]
    rows: list[tuple[str, ...]] = []
    for title, names in zip(("scores", "diagnostics"), groups, strict=True):
        if names and all(groups):
            rows.append((title,))
        rows.extend(_score_row(name, scores[name]) for name in names)
    levels = {score.interval.level for score in scores.values() if score.interval and score.interval.level}
    interval = f"{100 * levels.pop():g} % interval" if len(levels) == 1 else "interval"
    columns = ("score", "value", "unit", interval, "upper 95 %", "baseline", "n")
    full = [row for row in rows if len(row) > 1]
    keep = [place for place, column in enumerate(columns) if column in ("score", "value", "n") or any(row[place] for row in full)]
    return Grid(
        "Scores",
        tuple(columns[place] for place in keep),
        tuple(row if len(row) == 1 else tuple(row[place] for place in keep) for row in rows),
    )


def _score_row(name: str, score: ScoreLine) -> tuple[str, ...]:
    unit, interval, upper = score.unit, score.interval, score.detail.get("upper_95")
    spread = ""
    if interval is not None and interval.low is not None:
        spread = f"{_score_number(unit, interval.low)} … {_score_number(unit, interval.high)}"
    return (
        clean(name),
        _score_number(unit, score.value),
        _short_unit(unit),
        spread,
        _score_number(unit, upper) if type(upper) in (int, float) else "",
        "" if score.baseline is None else _score_number(unit, score.baseline),
        f"{score.n:,}",
    )


def _short_unit(unit: str) -> str:
    """Unit where there is room for it; a longer one stands in a note."""
    if _is_fraction(unit):
        return "%"
    return clean(unit) if len(unit) <= _LONGEST_UNIT else ""


def _is_fraction(unit: str) -> bool:
    """Whether values are shown in per cent: `fraction`, or a fraction of something, as `fraction of answers`."""
    return unit == "fraction" or unit.startswith("fraction of ")


def _score_number(unit: str, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return f"{100 * value:,.2f}" if _is_fraction(unit) else f"{value:,.4g}"


def _scoring_activity(card: ScoringCard) -> Grid:
    """Who answered, what failed, what it took."""
    rows = [
        *coverage_rows(card, "sample"),
        ("failures", tally(card.failures)),
        ("submissions", f"{card.usage.submissions:,}"),
        *spending_rows(card),
    ]
    return word_grid("Activity", rows)


def _scoring_notes(card: ScoringCard) -> Iterator[str]:
    for name in card.score_order:
        score = card.scores[name]
        if score.value is None:
            yield clean(f"{name} is not defined: {score.reason}")
        elif not _short_unit(score.unit):
            yield clean(f"{name} is given in {score.unit}")
    if card.missing_episodes:
        yield "the scores are of the finished episodes alone"
    yield from absence_notes(card)
