"""Reports of cards of evaluations as words and figures, the same in a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap

from msgspec.structs import asdict

from ktdeval.cards.card import Evaluation, ScoreLine, ScoringCard, TradingCard
from ktdeval.cards.cutoff import cutoff_words
from ktdeval.cards.derive import aggregate, not_counted
from ktdeval.cards.figures import (
    PARTS,
    chosen_columns,
    is_fraction,
    memory_claim,
    number,
    panel,
    rests_on,
    return_claim,
    selection_tables,
)
from ktdeval.cards.parts import Calls, EpisodeMetric, Line, MetricLine, Pluggable, PriceEntry
from ktdeval.cards.table import UNDEFINED, Grid, Report, clean, count, dollars, share_of, tally, word_grid
from ktdeval.stats.metric import never_in

_LONGEST_POLICY = 22  # characters; tables fit 80 columns
_LONGEST_UNIT = 6

AnyCard = TradingCard | ScoringCard
Row = tuple[str, str]


def trading_report(card: TradingCard, attached: Iterable[Row] = ()) -> Report:
    """Return the report of a valid trading card; `attached`: names and words of the card that is attached to it."""
    orders, calibration = card.orders, card.calibration
    statuses = {"filled": orders.filled, "partially_filled": orders.partially_filled, "rejected": orders.rejected}
    left_out = {"no_fill": calibration.no_fill, "no_next_open": calibration.no_next_open}
    in_all, in_pooled = rests_on(card)
    activity = [
        ("orders", f"{orders.submitted:,} submitted: {tally(statuses)}{in_all}"),
        ("order rules", tally(orders.rules)),
        ("calibration", f"{count(calibration.n, 'order')} judged; left out: {tally(left_out)}{in_pooled}"),
        ("failures", tally(card.failures)),
        ("tool calls", f"{card.usage.tool_calls:,}, {card.usage.tool_calls_valid:,} valid"),
    ]
    facts = [_task_row(card), *_run_rows(card, "step"), ("rules", card.rules), *attached]
    report = _report(card, facts, (*panel(card), _windows(card)), activity, _trading_notes(card))
    sentences = (memory_claim(card), return_claim(card))
    return replace(report, claims=tuple(clean(line) for sentence in sentences for line in wrap(sentence, 80)))


def scoring_report(card: ScoringCard) -> Report:
    """Return the report of a scoring card."""
    target = [] if card.target_task is None else [("subject", f"{card.target_task.name} ({card.target_task.hash[:12]})")]
    activity = [("failures", tally(card.failures)), ("submissions", f"{card.usage.submissions:,}")]
    return _report(card, [_task_row(card), *target, *_run_rows(card, "sample")], (_scores(card),), activity, _scoring_notes(card))


def _report(card: AnyCard, facts: Iterable[Row], grids: tuple[Grid, ...], activity: Iterable[Row], notes: Iterable[str]) -> Report:
    """Return the report of a card; `activity`: rows that only its kind has on decisions, failures and use."""
    step = "step" if isinstance(card, TradingCard) else "sample"
    return Report(
        title=clean(f"{card.task.name} · {card.model.name}"),
        labels=tuple(card.labels),
        ranking=clean("rankable" if card.rankable.value else f"not rankable: {'; '.join(card.rankable.reasons)}"),
        facts=word_grid("", facts),
        grids=grids,
        activity=word_grid("Activity", [*_coverage_rows(card, step), *activity, *_spending_rows(card)]),
        notes=tuple(map(clean, notes)),
    )


# ---- facts of every evaluation


def _task_row(card: Evaluation) -> Row:
    variant = ", ".join(filter(None, (card.task.mask, card.task.mode)))
    return "task", f"{card.task.name}, version {card.task.version}" + (f" ({variant})" if variant else "")


def _run_rows(card: Evaluation, step: str) -> Iterator[Row]:
    """Yield model, agent, calls, market, windows and seeds; `step` is the name of a step."""
    windows = [f"{window.name} {window.first}…{window.last}" for window in card.windows]
    spans = ", ".join(windows[:2]) + (f" and {len(windows) - 2} more" if len(windows) > 2 else "")
    yield "model", with_args(card.model)
    yield "agent", with_args(card.agent)
    yield "calls", ", ".join(f"{name} {value}" for name, value in sorted(card.call.items()))
    settings = card.request_settings or {}
    if unsent := [clean(str(name)) for field in ("not_sent", "omit") for name in settings.get(field) or ()]:
        yield "not sent", f"{', '.join(unsent)}: the provider does not take it"
    yield "cutoff", cutoff_words(card)
    if card.snapshot is not None:
        yield "market", f"{card.snapshot.name}, {card.snapshot.assets} assets, id {card.snapshot.id[:12]}"
    limited = f"the first {count(card.limit, step)} of each" if card.limit is not None else ""
    if spans or limited:
        yield "windows" if spans else "episodes", ", ".join(filter(None, (spans, limited)))
    yield "seeds", ", ".join(map(str, card.seeds))
    if card.mask_key:
        yield "mask key", card.mask_key
    if card.registration:
        yield "registration", f"{card.registration[:12]}: its board drew the mask key"


def with_args(entry: Pluggable) -> str:
    """Return the name of a model or agent with its arguments."""
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry.args.items()))
    return f"{entry.name} ({args})" if args else entry.name


def _coverage_rows(card: AnyCard, step: str) -> Iterator[Row]:
    """Yield how much of the plan was run, and who decided it."""
    coverage = card.coverage
    share = f" = {100 * coverage.steps_decided / coverage.steps:.1f} %" if coverage.steps else ""
    if coverage.steps < coverage.steps_planned:
        share += f"; {count(coverage.steps_planned, step)} planned"
    yield "episodes", f"{coverage.episodes_finished:,} of {coverage.episodes_planned:,} finished"
    yield "coverage", f"{coverage.steps_decided:,} of {count(coverage.steps, step)} decided by the model{share}"
    yield "decisions", tally(asdict(card.decisions))


def _spending_rows(card: AnyCard) -> Iterator[Row]:
    """Yield tokens in and out, their cost and return, the drift of the model, and the calls of its provider."""
    usage, cost, drift, calls = card.usage, card.cost, card.drift, card.provenance.calls
    uncounted = uncounted_tokens(card)
    inside = _some({"read from the provider's cache": usage.cache_read_tokens, "written to it": usage.cache_write_tokens})
    outside = _some({"reasoning": usage.reasoning_tokens})
    replies = sum(episode.uncounted for episode in card.episodes)
    lacking = f"; {not_counted(replies)}" if replies else ""
    yield "tokens", f"{usage.input_tokens:,} in{inside}, {usage.output_tokens:,} out{outside}{lacking}"
    if cost.value is None or not cost.per_episode:
        yield "cost", f"not known: {cost.reason}"
    else:
        each = cost.per_episode
        words = f"{dollars(cost.value)} USD" + ("" if each.n < 2 else f", {dollars(each.value or 0.0)} USD an episode (median)")
        yield "cost", f"at least {words}: {uncounted}" if uncounted else words
    if cost.value and cost.price:
        yield "price", _price_words(cost.price)
        if isinstance(card, TradingCard) and (gain := card.cost.return_per_usd):
            median = " (median over episodes)" if gain.n > 1 else ""
            words = f"not defined: {gain.reason}" if gain.value is None else f"{100 * gain.value:+,.4g} %{median}"
            yield "return per USD", f"not known: {uncounted}" if uncounted else words
    if drift.value is not None:
        distances = f"{drift.value:.3f} between start and end over {count(drift.prompts or 0, 'question')}"
        changed = "; the provider named another model at the end" if drift.served_by_changed else ""
        yield "drift", f"{distances}, {drift.noise:.3f} within one round (0 equal, 1 different){changed}"
    if calls is not None:
        yield from _call_rows(calls)


def uncounted_tokens(card: AnyCard) -> str:
    """Say why a card's cost is less than what was paid: the price is known, the amount is not; empty where all was counted."""
    calls = card.provenance.calls
    is_partial = card.cost.value is not None and calls is not None and calls.paid_usd is None
    return "the provider did not count the tokens of every reply" if is_partial else ""


def _some(parts: Mapping[str, int]) -> str:
    texts = [f"{number:,} {name}" for name, number in parts.items() if number]
    return f" ({', '.join(texts)})" if texts else ""


def _price_words(price: PriceEntry) -> str:
    """Return a price with its day and source."""
    cached = {"cache read": price.cache_read, "cache write": price.cache_write}
    parts = [f"{price.input:g} in", f"{price.output:g} out"]
    parts += [f"{value:g} {name}" for name, value in cached.items() if value is not None]
    origin = ", ".join(part for part in (price.as_of and f"as of {price.as_of}", price.source) if part)
    return f"{', '.join(parts)} USD a million tokens{f' ({origin})' if origin else ''}"


def _call_rows(calls: Calls) -> Iterator[Row]:
    """Yield calls of the provider: how often, what failed, how long it took, what was paid, who answered."""
    failed = f"{sum(calls.failed_attempts.values()):,} failed attempts"
    if kinds := ", ".join(f"{kind} {number:,}" for kind, number in calls.failed_attempts.items()):
        failed += f": {kinds}"
    answered = f"{calls.answered:,} answered by the provider, {calls.cached:,} from the cache"
    again = f", {calls.repeated:,} given again after an interruption" if calls.repeated else ""
    yield "requests", f"{calls.requests:,}: {answered}{again}; {failed}"
    if calls.unused:
        openings = max(own.openings for own in calls.episodes.values())
        drawn = f"an episode was opened {openings:,} times, and answered otherwise the last time"
        yield "unused answers", f"{count(calls.unused, 'answer')} that no transcript holds: {drawn}"
    seconds = calls.latency_s
    if seconds.median is not None:
        lost = f"; {calls.lost_s:,.1f} s in failed attempts" if calls.lost_s else ""
        most = f"99 % within {seconds.p99:.2f} s, longest {seconds.longest:.2f} s"
        yield "latency", f"median {seconds.median:.2f} s, {most}{lost}"
    paid = "not known" if calls.paid_usd is None else f"{dollars(calls.paid_usd)} USD"
    besides = f", possibly {dollars(calls.possibly_paid_usd)} USD more" if calls.possibly_paid_usd else ""
    own = f"; checks of the run {dollars(calls.checks.paid_usd)} USD" if calls.checks.paid_usd else ""
    yield "paid", f"{paid}{besides}{own}"
    if calls.served_by:
        yield "served by", ", ".join(f"{name} ({number:,})" for name, number in calls.served_by.items())


def _absence_notes(card: AnyCard, *fields: str) -> Iterator[str]:
    """Yield a line for each planned episode that did not finish, and for each of these fields that the card does not have."""
    for episode in card.missing_episodes:
        yield f"missing: window {episode.window or 'none'}, seed {episode.seed}: {episode.error}"
    # A model of this machine has no provider that could change it.
    asked = () if card.provenance.calls is None else ("drift",)
    for name in (*fields, *asked):
        part = getattr(card, name)
        if part.value is None:
            yield f"no {name}: {part.reason}"


# ---- trading cards


def _windows(card: TradingCard) -> Grid:
    """Return for each window the model's median over seeds, and the benchmark below it."""
    policy = clean(card.model.name)
    if len(policy) > _LONGEST_POLICY:  # leave room for figures; the whole name stands above
        policy = policy.rpartition("/")[2]
    if len(policy) > _LONGEST_POLICY:
        policy = f"{policy[: _LONGEST_POLICY - 1]}…"
    rows: list[tuple[str, ...]] = []
    for window in card.windows:
        episodes = [episode for episode in card.episodes if episode.window == window.name]
        if not episodes:
            continue
        held: dict[str, EpisodeMetric] = asdict(card.reference.benchmark_buy_and_hold[window.name].metrics)
        own = {name: aggregate(one.metrics[name] for one in episodes if name in one.metrics) for name in held}
        ours, theirs = own["total_return"].value, held["total_return"].value
        excess = UNDEFINED if ours is None or theirs is None else number("total_return", "fraction", ours - theirs)
        days, (gain, *risk), (held_gain, *held_risk) = str(episodes[0].steps), _return_and_risk(own), _return_and_risk(held)
        seeds = share_of(_least(own.values(), len(episodes)), len(episodes))
        rows.append((clean(window.name), policy, days, seeds, gain, excess, *risk))
        if card.snapshot.benchmark != "none":
            rows.append(("", clean(f"{card.snapshot.benchmark_name} buy and hold"), days, "", held_gain, "", *held_risk))
    columns = ("window", "policy", "days", "seeds", "return", "excess", "sharpe", "drawdown")
    return Grid("Against the benchmark (return, excess and drawdown in %)", columns, tuple(rows), left=2)


def _least(lines: Iterable[Line | MetricLine], episodes: int) -> int:
    """Return on how many of so many episodes the least of these medians rests."""
    return min((line.n for line in lines if line.n), default=episodes)


def _return_and_risk(values: Mapping[str, Line | EpisodeMetric]) -> Iterator[str]:
    for name, unit in (("total_return", "fraction"), ("sharpe", "ratio"), ("max_drawdown", "fraction")):
        yield number(name, unit, values[name].value)


def trading_summary(cards: Sequence[TradingCard]) -> Grid:
    """Return the headline metrics of several cards, a row for each task."""
    headlines = ("total_return", "sharpe", "max_drawdown", "information_ratio", "decision_coverage")
    rows = []
    for card in cards:
        metrics = {name: card.metrics[name] for name in headlines if name in card.metrics}
        figures = (number(name, metrics[name].unit, metrics[name].value) if name in metrics else UNDEFINED for name in headlines)
        least, episodes = _least(metrics.values(), len(card.pooled)), len(card.pooled)
        rests = f" ({share_of(least, episodes)} episodes)" if least < episodes else ""
        rows.append((clean(card.task.name) + rests, *figures))
    title = "All tasks (medians; return, drawdown and decided steps in %)"
    return Grid(title, ("task", "return", "sharpe", "drawdown", "info ratio", "decided"), tuple(rows))


def figures_differ_in(cards: Iterable[TradingCard]) -> str:
    """Return what makes figures over episodes incomparable: windows (days covered), snapshots or metric rules that differ between
    cards; empty where none does.
    """
    facts = [(frozenset((one.first_day, one.last_day) for one in card.pooled), card.snapshot.id, card.rules) for card in cards]
    return next((name for name, *of in zip(("windows", "snapshots", "metric rules"), *facts, strict=True) if len(set(of)) > 1), "")


def figure_notes(card: TradingCard) -> Iterator[str]:
    """Yield what medians of the return's parts do not do, windows that are in no figure over episodes, and why metrics are not
    defined, a line each.
    """
    parts = [name for name in PARTS if name in card.metrics]
    if len(card.pooled) > 1 and len(parts) > 1:
        yield f"{', '.join(parts)}: parts of the total return of each episode; their medians need not add up to its median"
    for window, reason in (card.left_out or {}).items():
        yield f"window {window} stands in rows of its own and in no figure over episodes: it {reason}"
    for name, metric in card.metrics.items():
        if metric.never and len(card.pooled) > 1:
            yield f"{name}: {never_in(metric.never, metric.n)}, which count as later than any number"
        elif metric.never:
            yield f"{name}: {card.pooled[0].metrics[name].reason}"
        for reason, times in metric.undefined.items():
            where = f" in {times} of {len(card.pooled)} episodes" if len(card.pooled) > 1 else ""
            yield f"{name} is not defined{where}: {reason}"


def _trading_notes(card: TradingCard) -> Iterator[str]:
    yield from figure_notes(card)
    intervals = [one for metric in card.metrics.values() if (one := metric.interval) and one.monte_carlo_se and one.draws]
    if shares := [(one.monte_carlo_se or 0) / width for one in intervals if (width := (one.high or 0.0) - (one.low or 0.0)) > 0]:
        error = f"a Monte-Carlo error of {100 * max(shares):.1f} % of the width, or less ({intervals[0].draws:,} resamples)"
        yield f"ends of intervals have {error}"
    tables = selection_tables(card, "vif")
    if factors := [(value, name) for table in tables for name, value in table.items() if isinstance(value, float)]:
        value, name = max(factors)
        yield f"variance inflation of the styles over the 60 days before a window: {value:.1f} or less ({name})"
    yield from _absence_notes(card, "attribution", "certificate")


# ---- scoring cards


def scoring_summary(cards: Sequence[ScoringCard]) -> Grid:
    """Return the headline scores of several cards, a column for each task."""
    columns = _short_names([clean(card.task.name) for card in cards])
    names = dict.fromkeys(name for card in cards for name in card.score_order if card.scores[name].headline)
    lines = {name: [card.scores.get(name) for card in cards] for name in names}
    rows = [
        (clean(name), *(UNDEFINED if score is None else _score_number(score.unit, score.value) for score in scores))
        for name, scores in lines.items()
    ]
    return Grid("All scoring tasks (fractions in %)", ("score", *columns), tuple(rows))


def _short_names(names: Sequence[str]) -> list[str]:
    """Return names without the words that all begin with, except for the first: `a_probe, a_probe_bright` to `a_probe, …bright`."""
    words = [name.split("_") for name in names]
    shared = 0
    while all(word[shared : shared + 1] == words[0][shared : shared + 1] != [] for word in words):
        shared += 1
    rest = ["_".join(word[shared:]) for word in words]
    return [f"…{end}" if index and shared and end else name for index, (name, end) in enumerate(zip(names, rest, strict=True))]


def _scores(card: ScoringCard) -> Grid:
    """Return a row for each score: the headlines first, the others below a heading of their own."""
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
    keep = [index for index, column in enumerate(columns) if column in ("score", "value", "n") or any(row[index] for row in full)]
    return chosen_columns("Scores", columns, rows, keep)


def _score_row(name: str, score: ScoreLine) -> tuple[str, ...]:
    unit, interval, upper = score.unit, score.interval, score.detail.get("upper_95")
    spread = ""
    if interval is not None and interval.low is not None:
        spread = f"{_score_number(unit, interval.low)} … {_score_number(unit, interval.high)}"
    bound = _score_number(unit, upper) if type(upper) in (int, float) else ""
    baseline = "" if score.baseline is None else _score_number(unit, score.baseline)
    return (clean(name), _score_number(unit, score.value), _short_unit(unit), spread, bound, baseline, f"{score.n:,}")


def _short_unit(unit: str) -> str:
    """Return the unit where there is room for it; a longer one is in a note."""
    if is_fraction(unit):
        return "%"
    return clean(unit) if len(unit) <= _LONGEST_UNIT else ""


def _score_number(unit: str, value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return f"{100 * value:,.2f}" if is_fraction(unit) else f"{value:,.4g}"


def _scoring_notes(card: ScoringCard) -> Iterator[str]:
    for name in card.score_order:
        score = card.scores[name]
        if score.value is None:
            yield f"{name} is not defined: {score.reason}"
        elif not _short_unit(score.unit):
            yield f"{name} is given in {score.unit}"
    if card.missing_episodes:
        yield "the scores are of the finished episodes alone"
    yield from _absence_notes(card)
