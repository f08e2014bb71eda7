"""Reports on evaluation cards as text and figures, identical in a terminal and on a web page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import UnsetType

from ktdeval.cards.assembly import AnyCard, card_rows
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.claims import account_claims, memory_claim
from ktdeval.cards.fields.episode_parts import TradingEpisode
from ktdeval.cards.fields.episodes import missing_notes
from ktdeval.cards.fields.origin.fact_types import ScoreLine
from ktdeval.cards.fields.replies.cost import uncounted_tokens as unpaid_words
from ktdeval.cards.fields.returns.medians import EpisodeMetric, Interval, Line, aggregate
from ktdeval.cards.fields.returns.metrics import MetricLine
from ktdeval.cards.fields.units import is_fraction
from ktdeval.cards.fields.words import label_word
from ktdeval.cards.metric_tables import (
    PARTS,
    number,
    panel,
    return_claim,
    selection_tables,
)
from ktdeval.cards.short_records import hidden_figures, shown_metrics
from ktdeval.cards.table_types import (
    UNDEFINED,
    Grid,
    Report,
    clean,
    count,
    percent,
    points,
    share_of,
    tally,
    word_grid,
)
from ktdeval.stats.data_limits import ONE_DAY, annualisation_problem, yearly_return_problem
from ktdeval.stats.metric import never_in
from ktdeval.task_api.scoring import FAILURE_MODES, VERDICT
from ktdeval.task_api.unanswered import BOUNDS, bounds_words

_LONGEST_POLICY = 22  # characters; tables fit in 80 columns
_LONGEST_UNIT = 6


def trading_report(card: TradingCard) -> Report:
    """Return the report on a valid trading card."""
    grids = (*panel(card), _windows_grid(card))
    sentences = (*account_claims(card), memory_claim(card), return_claim(card))
    return assemble_report(card, grids, _trading_notes(card), sentences)


def scoring_report(card: ScoringCard) -> Report:
    """Return the report on a valid scoring card."""
    sentences = (
        *account_claims(card),
        *verdict_claims(card),
        *failure_mode_claims(card),
        *score_bounds_notes(card),
    )
    return assemble_report(card, (_scores_grid(card),), _scoring_notes(card), sentences)


# ---- trading cards


def _windows_grid(card: TradingCard) -> Grid:
    """Return the model's median over seeds for each window, with the benchmark below it."""
    rows: list[tuple[str, ...]] = []
    for window in card.windows:
        episodes = [episode for episode in card.episodes if episode.window == window.name]
        if episodes:
            rows += _window_rows(card, window.name, episodes)

    columns = ("window", "policy", "days", "seeds", "return", "excess", "sharpe", "drawdown")
    return Grid(
        "Against the benchmark (return, excess and drawdown in %)", columns, tuple(rows), left=2
    )


def _window_rows(
    card: TradingCard, window: str, episodes: Sequence[TradingEpisode]
) -> Iterator[tuple[str, ...]]:
    """Yield the row for the model, and the row for the benchmark if the market has one."""
    held = card.reference.benchmark_buy_and_hold[window].metrics.panel
    own: dict[str, Line] = {}
    for name in held:
        own[name] = aggregate(one.metrics[name] for one in episodes if name in one.metrics)

    ours = own["total_return"].value
    theirs = held["total_return"].value
    excess = UNDEFINED
    if ours is not None and theirs is not None:
        excess = number("total_return", "fraction", ours - theirs)

    days = str(episodes[0].steps)
    seeds = share_of(_least(own.values(), len(episodes)), len(episodes))
    is_short = (
        annualisation_problem(episodes[0].steps, float(card.snapshot.days_a_year)) is not None
    )
    gain, *risk = _return_and_risk(own, is_short)
    yield clean(window), _policy_name(card), days, seeds, gain, excess, *risk

    if card.snapshot.benchmark != "none":
        benchmark = clean(f"{card.snapshot.benchmark_name} buy and hold")
        held_gain, *held_risk = _return_and_risk(held, is_short)
        yield "", benchmark, days, "", held_gain, "", *held_risk


def _policy_name(card: TradingCard) -> str:
    """Return the model's name, shortened to leave room for figures; it is shown in full above."""
    policy = clean(card.model.name)
    if len(policy) > _LONGEST_POLICY:
        policy = policy.rpartition("/")[2]

    if len(policy) > _LONGEST_POLICY:
        policy = f"{policy[: _LONGEST_POLICY - 1]}…"

    return policy


def _least(lines: Iterable[Line | MetricLine], episodes: int) -> int:
    """Return the smallest number of episodes behind any of the medians; `episodes` if there are no
    medians.
    """
    return min((line.n for line in lines if line.n), default=episodes)


def _return_and_risk(values: Mapping[str, Line | EpisodeMetric], is_short: bool) -> Iterator[str]:
    """Yield return, Sharpe ratio and drawdown; `is_short`: the days are too few for a ratio."""
    for name, unit in (
        ("total_return", "fraction"),
        ("sharpe", "ratio"),
        ("max_drawdown", "fraction"),
    ):
        value = None if is_short and name == "sharpe" else values[name].value
        yield number(name, unit, value)


_HEADLINES = ("total_return", "sharpe", "max_drawdown", "information_ratio", "decision_coverage")
"""Metrics of the table over several cards."""


def trading_summary(cards: Sequence[TradingCard]) -> Grid:
    """Return the headline metrics of several cards, one row per task."""
    title = "All tasks (medians; return, drawdown and decided steps in %)"
    columns = ("task", "return", "sharpe", "drawdown", "info ratio", "decided")
    return Grid(title, columns, tuple(_summary_row(card) for card in cards))


def _summary_row(card: TradingCard) -> tuple[str, ...]:
    shown = shown_metrics(card)
    metrics = {name: shown[name] for name in _HEADLINES if name in shown}
    episodes = len(card.pooled)
    least = _least(metrics.values(), episodes)
    task = clean(card.task.name)
    if least < episodes:
        task += f" ({share_of(least, episodes)} episodes)"

    figures = []
    for name in _HEADLINES:
        metric = metrics.get(name)
        figures.append(UNDEFINED if metric is None else number(name, metric.unit, metric.value))

    return task, *figures


def figures_differ_in(cards: Iterable[TradingCard]) -> str:
    """Return what makes the cards' figures over episodes incomparable: different windows (days
    covered), snapshots or metric rules; empty if nothing differs.
    """
    windows = set()
    snapshots = set()
    rules = set()
    for card in cards:
        windows.add(frozenset((one.first_day, one.last_day) for one in card.pooled))
        snapshots.add(card.snapshot.id)
        rules.add(card.rules)

    if len(windows) > 1:
        return "windows"
    if len(snapshots) > 1:
        return "snapshots"
    return "metric rules" if len(rules) > 1 else ""


def figure_notes(card: TradingCard) -> Iterator[str]:
    """Yield notes on how to read medians of the components of return, on windows excluded from
    figures over episodes, and on why metrics are undefined.
    """
    pooled = card.pooled
    several = len(pooled) > 1
    parts = [name for name in PARTS if name in card.metrics]
    if several and len(parts) > 1:
        yield (
            f"{', '.join(parts)}: parts of the total return of each episode; their medians need not"
            " add up to its median"
        )

    hidden = hidden_figures(card)
    yield from pace_notes([card], hidden)
    for window, reason in (card.left_out or {}).items():
        yield (
            f"window {window} has its own rows and is excluded from figures over episodes: it"
            f" {reason}"
        )

    for reason in dict.fromkeys(hidden.values()):
        names = [name for name in hidden if hidden[name] == reason]
        yield f"{', '.join(names)}: not shown, since {reason}"

    for name, metric in card.metrics.items():
        if name in hidden:
            continue
        interval = metric.interval
        if interval and interval.reason and interval.reason.startswith(ONE_DAY):
            yield f"{name} has no interval: {interval.reason}"
        if metric.never and several:
            yield (f"{name}: {never_in(metric.never, metric.n)}, ranked after every number")
        elif metric.never:
            yield f"{name}: {pooled[0].metrics[name].reason}"

        for reason, times in metric.undefined.items():
            where = f" in {times} of {len(pooled)} episodes" if several else ""
            yield f"{name} is not defined{where}: {reason}"


def pace_notes(cards: Iterable[TradingCard], unseen: Collection[str] = ()) -> Iterator[str]:
    """Yield a note on how many days figures at a year's pace cover, if some cover under a year. The
    names of `unseen` are not shown.
    """
    names: dict[str, None] = {}
    lengths: list[int] = []
    for card in cards:
        yearly = []
        for name, line in card.metrics.items():
            if line.unit == "fraction per year" and name not in unseen:
                yearly.append(name)

        days = [episode.steps for episode in card.pooled]
        a_year = float(card.snapshot.days_a_year)
        if yearly and yearly_return_problem(min(days), a_year) is not None:
            names |= dict.fromkeys(yearly)
            lengths += days

    if names:
        shown = f"{min(lengths)}"
        if max(lengths) > min(lengths):
            shown += f" to {max(lengths)}"

        yield f"{', '.join(names)}: annualised from {shown} days"


def _trading_notes(card: TradingCard) -> Iterator[str]:
    yield from figure_notes(card)
    yield from _resampling_notes(metric.interval for metric in shown_metrics(card).values())
    yield from _collinearity_notes(card)
    yield from absence_notes(card, "attribution", "certificate")


def _resampling_notes(intervals: Iterable[Interval | UnsetType]) -> Iterator[str]:
    """Yield a note on the largest Monte Carlo error of an interval end, as a share of the interval
    width.
    """
    shares: list[float] = []
    draws = 0
    for interval in intervals:
        if not interval or not interval.monte_carlo_se or not interval.draws:
            continue

        draws = draws or interval.draws
        width = (interval.high or 0.0) - (interval.low or 0.0)
        if width > 0:
            shares.append(interval.monte_carlo_se / width)

    if shares:
        yield (
            f"ends of intervals have a Monte-Carlo error of {percent(max(shares))} of the width,"
            f" or less ({draws:,} resamples)"
        )


def _collinearity_notes(card: TradingCard) -> Iterator[str]:
    """Yield a note on the largest variance inflation factor among the style factors."""
    factors: list[tuple[float, str]] = []
    for table in selection_tables(card, "vif"):
        factors += [(value, name) for name, value in table.items() if isinstance(value, float)]

    if factors:
        value, name = max(factors)
        yield (
            f"variance inflation of the styles over the 60 days before a window: {value:.1f} or"
            f" less ({name})"
        )


# ---- scoring cards


def scoring_summary(cards: Sequence[ScoringCard]) -> Grid:
    """Return the headline scores of several cards, one column per task."""
    names: dict[str, None] = {}
    for card in cards:
        names |= dict.fromkeys(name for name in card.score_order if card.scores[name].headline)

    rows = []
    for name in names:
        cells = [clean(name)]
        for card in cards:
            score = card.scores.get(name)
            cells.append(UNDEFINED if score is None else _score_number(score.unit, score.value))

        rows.append(tuple(cells))

    columns = _short_names([clean(card.task.name) for card in cards])
    return Grid("All scoring tasks (fractions in %)", ("score", *columns), tuple(rows))


def _short_names(names: Sequence[str]) -> list[str]:
    """Return names without the leading words that they share, except that the first name stays
    whole: `a_probe, a_probe_bright` becomes `a_probe, …bright`.
    """
    words = [name.split("_") for name in names]
    shared = 0
    while all(word[shared : shared + 1] == words[0][shared : shared + 1] != [] for word in words):
        shared += 1

    short = [names[0]]
    for name, own_words in zip(names[1:], words[1:], strict=True):
        end = "_".join(own_words[shared:])
        short.append(f"…{end}" if shared and end else name)

    return short


def _scores_grid(card: ScoringCard) -> Grid:
    """Return a row for each score: headline scores first, the others under their own heading."""
    scores = card.scores
    headlines = [name for name in card.score_order if scores[name].headline]
    diagnostics = [name for name in card.score_order if name not in headlines]
    rows: list[tuple[str, ...]] = []
    for title, names in (("scores", headlines), ("diagnostics", diagnostics)):
        if headlines and diagnostics:
            rows.append((title,))

        rows += [_score_row(name, scores[name]) for name in names]

    columns = ("score", "value", "unit", _interval_head(card), "upper 95 %", "baseline", "n")
    grid = Grid("Scores", columns, tuple(rows))
    return grid.with_columns(grid.used_columns)


def _interval_head(card: ScoringCard) -> str:
    """Return the head of the interval column. It includes the confidence level if all intervals
    share one.
    """
    intervals = [score.interval for score in card.scores.values() if score.interval]
    levels = {interval.level for interval in intervals if interval.level}
    return f"{percent(levels.pop(), 'g')} interval" if len(levels) == 1 else "interval"


def _score_row(name: str, score: ScoreLine) -> tuple[str, ...]:
    unit = score.unit
    interval = score.interval
    upper = score.detail.get("upper_95")
    spread = ""

    if interval is not None and interval.low is not None:
        spread = f"{_score_number(unit, interval.low)} … {_score_number(unit, interval.high)}"

    bound = _score_number(unit, upper) if type(upper) in (int, float) else ""
    baseline = "" if score.baseline is None else _score_number(unit, score.baseline)
    return (
        clean(name),
        _score_number(unit, score.value),
        _short_unit(unit),
        spread,
        bound,
        baseline,
        f"{score.n:,}",
    )


def _short_unit(unit: str) -> str:
    """Return the unit if it is short; a longer unit is given in a note instead."""
    if is_fraction(unit):
        return "%"
    return clean(unit) if len(unit) <= _LONGEST_UNIT else ""


def _score_number(unit: str, value: float | None) -> str:
    if value is None or is_fraction(unit):
        return points(value, ",.2f")
    return f"{value:,.4g}"


def verdict_claims(card: ScoringCard) -> Iterator[str]:
    """Yield the sentence that the task gives to each score."""
    for name in card.score_order:
        sentence = card.scores[name].detail.get(VERDICT)
        if isinstance(sentence, str):
            yield f"{clean(name)}: {clean(sentence)}."


def failure_mode_claims(card: ScoringCard) -> Iterator[str]:
    """Yield a sentence for each score on what its answers got wrong, by kind, if it counts that."""
    for name in card.score_order:
        score = card.scores[name]
        modes = score.detail.get(FAILURE_MODES)
        if not isinstance(modes, Mapping):
            continue

        counts = {
            clean(str(mode)).replace("_", " "): number
            for mode, number in modes.items()
            if type(number) is int and number > 0
        }
        if counts:
            answers = count(score.n, "answer")
            yield f"{clean(name)}: what {answers} lost points by: {tally(counts)}."


def score_bounds_notes(card: ScoringCard) -> Iterator[str]:
    """Yield a note for each headline score on how much failed model calls leave undetermined."""
    for name in card.score_order:
        score = card.scores[name]
        bounds = score.detail.get(BOUNDS)
        if bounds is None or not score.headline:
            continue

        low = "−∞" if bounds["low"] is None else _score_number(score.unit, bounds["low"])
        high = "∞" if bounds["high"] is None else _score_number(score.unit, bounds["high"])
        unit = " %" if is_fraction(score.unit) else ""
        yield f"{name}: {bounds_words(score.detail, low, high)}{unit}"


def _scoring_notes(card: ScoringCard) -> Iterator[str]:
    for name in card.score_order:
        score = card.scores[name]
        if score.value is None:
            yield f"{name} is not defined: {score.reason}"
        elif not _short_unit(score.unit):
            yield f"{name} is given in {score.unit}"

    if card.missing_episodes:
        yield "the scores cover only the finished episodes"

    yield from absence_notes(card)


# ---- both kinds


def assemble_report(
    card: AnyCard, grids: tuple[Grid, ...], notes: Iterable[str], sentences: Iterable[str]
) -> Report:
    """Return the report on a card with the given tables, notes and claims. Empty claims are
    omitted.
    """
    return Report(
        title=clean(f"{card.task.name} · {card.model.name}"),
        labels=tuple(map(label_word, card.labels)),
        ranking=clean(card.rankable.words),
        facts=word_grid("", card_rows(card, "run")),
        grids=grids,
        activity=word_grid("Activity", card_rows(card, "activity")),
        notes=tuple(map(clean, notes)),
        claims=tuple(map(clean, filter(None, sentences))),
    )


def uncounted_tokens(card: AnyCard) -> str:
    """Return why a card's cost is an underestimate if the price is known but some tokens were not
    counted; otherwise empty.
    """
    return unpaid_words(card, card.cost)


def absence_notes(card: AnyCard, *fields: str) -> Iterator[str]:
    """Yield a line for each planned episode that did not finish, and for each of the given fields
    that is missing from the card.
    """
    yield from missing_notes(card.missing_episodes)

    # A local model has no provider that could change it, so its drift is not measured.
    asked = () if card.provenance.calls is None else ("drift",)
    for name in (*fields, *asked):
        part = getattr(card, name)
        if part.value is None:
            yield f"no {name}: {part.reason}"
