"""The columns of a board's data frames: name, type, unit and meaning, each said once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Frame = Literal["cards", "episodes", "daily", "metrics", "imported"]
FRAMES: tuple[Frame, ...] = ("cards", "episodes", "daily", "metrics", "imported")

Type = Literal["text", "texts", "flag", "count", "counts", "number", "day"]
"""What a column holds: a text, a list of texts, yes or no, an integer, a list of integers, a float, a day. All but lists may be
missing; a list is empty then."""

FRAME_SUMMARIES: dict[Frame, str] = {
    "cards": "one row for each card that was not withdrawn",
    "episodes": "one row for each finished episode: one window, one seed",
    "daily": "one row for each trading day of each episode whose records the board has executed again",
    "metrics": "one row for each metric or score: what it means, and in which unit",
    "imported": "one row for each result of another harness; shown, never ranked",
}


@dataclass(frozen=True)
class Column:
    """A column of a frame.

    Attributes:
        name: its name.
        type: what it holds.
        meaning: in a sentence.
        unit: of its figures; empty where it has none.
    """

    name: str
    type: Type
    meaning: str
    unit: str = ""


def columns_of(frame: Frame, metrics: dict[str, str] | None = None) -> tuple[Column, ...]:
    """All columns of a frame, in order.

    Args:
        frame: which.
        metrics: for cards and episodes: name of each metric's first column to its unit; their columns come last.
    """
    fixed = _FIXED[frame]
    if frame not in ("cards", "episodes"):
        return fixed
    return (*fixed, *(column for name, unit in (metrics or {}).items() for column in metric_columns(name, unit)))


def metric_columns(name: str, unit: str) -> tuple[Column, ...]:
    """The columns of one metric."""
    return (
        Column(name, "number", f"{name}: the card's figure or the episode's; missing exactly where a reason says why", unit),
        Column(f"{name}_low", "number", "lower end of its interval; missing where there is none", unit),
        Column(f"{name}_high", "number", "upper end of its interval", unit),
        Column(f"{name}_interval", "text", "how the interval was made, such as interquartile (over episodes) or a bootstrap"),
        Column(f"{name}_n", "count", "what it rests on: episodes of a card, days or orders of an episode, samples", "count"),
        Column(f"{name}_reason", "text", "why the figure is missing"),
    )


_WHO = (
    Column("card", "text", "id of the card: the SHA-256 of its file"),
    Column("division", "text", "the board's division that it belongs to; missing where there is none"),
    Column("model", "text", "full name of the model"),
    Column("agent", "text", "name of the agent scaffold"),
    Column("settings", "text", "reasoning settings of the model calls, in words; missing where none were set"),
    Column("baseline", "text", "kind of baseline (rule, random, supervised); missing for an entrant"),
    Column("tier", "text", "how far its figures have been confirmed: unchecked, self-reported, re-executed, re-run"),
    Column("ranked", "flag", "whether it has a rank"),
)

_USAGE = (
    Column("input_tokens", "count", "tokens sent to the model", "tokens"),
    Column("output_tokens", "count", "tokens of the model's replies", "tokens"),
    Column("reasoning_tokens", "count", "of these, tokens of reasoning", "tokens"),
    Column("tool_calls", "count", "research tools called", "calls"),
)

_CARDS = (
    *_WHO,
    Column("why", "texts", "why it has no rank"),
    Column("rank", "count", "place by the division's figure over all windows; equal figures share a place"),
    Column("alpha_rank", "count", "place by selection_alpha over all windows"),
    Column("labels", "texts", "what a reader must know first, such as synthetic or limited"),
    Column("errata", "texts", "what maintainers said of it since"),
    Column("kind", "text", "trading or scoring"),
    Column("task", "text", "name of the task"),
    Column("task_version", "text", "version of the task"),
    Column("task_hash", "text", "SHA-256 of the task's config"),
    Column("mask", "text", "what is hidden of the market: bright, stock_blind, date_blind, blinded"),
    Column("mode", "text", "how far the agent may research"),
    Column("snapshot", "text", "SHA-256 over the market's content"),
    Column("market", "text", "name of the market"),
    Column("synthetic", "flag", "whether the market is made up"),
    Column("rules", "text", "rule set of the metrics; missing on cards of scoring tasks"),
    Column("windows", "texts", "names of the windows"),
    Column("seeds", "counts", "seeds of the plan"),
    Column("submitter", "text", "who submitted it"),
    Column("organisation", "text", "of which organisation"),
    Column("submitted_on", "day", "day of the submission"),
    Column("cutoff_date", "day", "last day of the model's training data, as declared; missing where it is not known"),
    Column("open_weights", "flag", "whether the model's weights can be had, as declared"),
    Column("strategy", "text", "what the agent is told to do, in a word"),
    Column("attempts", "count", "runs that were made of it, as declared", "runs"),
    Column("created_on", "day", "day of the run"),
    Column("suite_version", "text", "version of ktdeval that made the card"),
    Column("episodes_planned", "count", "episodes of the plan", "episodes"),
    Column("episodes_finished", "count", "of these, finished ones", "episodes"),
    Column("steps_planned", "count", "steps of the plan (samples of a scoring task)", "steps"),
    Column("steps_decided", "count", "of these, steps that the model decided", "steps"),
    *_USAGE,
    Column("total_cost_usd", "number", "what all tokens cost; missing where a reason says why", "USD"),
    Column("total_cost_usd_reason", "text", "why the cost is missing"),
)

_EPISODES = (
    *_WHO,
    Column("episode", "text", "id of the episode: a hash of its spec"),
    Column("window", "text", "name of the window"),
    Column("seed", "count", "seed of the episode"),
    Column("first_day", "day", "first day on which orders are filled (first day of the window, of a scoring task)"),
    Column("last_day", "day", "last day"),
    Column("steps", "count", "steps, one for each trading day (samples of a scoring task)", "steps"),
    Column("steps_decided", "count", "of these, steps that the model decided", "steps"),
    Column("final_nav_cny", "number", "net asset value at the last close; missing on cards of scoring tasks", "CNY"),
    Column("orders", "count", "orders submitted; missing on cards of scoring tasks", "orders"),
    Column("orders_rejected", "count", "of these, orders of which nothing was filled", "orders"),
    *_USAGE,
    Column("benchmark_return", "number", "total return of the benchmark index over the window, without costs", "fraction"),
)

_DAILY = (
    *_WHO,
    Column("episode", "text", "id of the episode"),
    Column("window", "text", "name of the window"),
    Column("seed", "count", "seed of the episode"),
    Column("day", "day", "trading day; all other figures are at its close"),
    Column("nav", "number", "net asset value over the initial cash", "ratio"),
    Column("gross_nav", "number", "the same with each day's fees added back", "ratio"),
    Column("benchmark", "number", "its level over that of the day before the first; missing where there is none", "ratio"),
    Column("daily_return", "number", "change of nav since the close before", "fraction"),
    Column("benchmark_daily_return", "number", "change of benchmark since the close before", "fraction"),
    Column("invested", "number", "holdings over net asset value", "fraction"),
    Column("names", "count", "names held", "names"),
    Column("turnover", "number", "bought and sold on the day, over net asset value", "fraction"),
    Column("common", "number", "linked contribution of the common return since the start", "fraction"),
    Column("style", "number", "linked contribution of style factors since the start", "fraction"),
    Column("selection", "number", "linked contribution of selection since the start", "fraction"),
    Column("trading", "number", "linked contribution of fills, fees and rounding since the start", "fraction"),
    Column("selection_daily", "number", "selection on the day, not linked", "fraction"),
    Column("attribution_reason", "text", "why the contributions are missing"),
)

_METRICS = (
    Column("metric", "text", "name of its first column in the frames of cards and episodes"),
    Column("name", "text", "name on the cards"),
    Column("unit", "text", "unit of its figures"),
    Column("better", "text", "which way is better: higher, lower or neither"),
    Column("lowest", "number", "least value that it can take; missing where there is none"),
    Column("highest", "number", "greatest value that it can take; missing where there is none"),
    Column("headline", "flag", "whether it is one of the main figures"),
    Column("formula", "text", "identifier with version, and formula"),
    Column("source", "text", "where it is from"),
    Column("cards", "count", "cards that have it", "cards"),
)

_IMPORTED = (
    Column("file", "text", "its file under imported/"),
    Column("harness", "text", "name of the harness"),
    Column("harness_version", "text", "version of the harness"),
    Column("model", "text", "name of the model, as the harness says it"),
    Column("task", "text", "name of the task"),
    Column("task_version", "text", "version of the task"),
    Column("metric", "text", "name of the metric"),
    Column("filter", "text", "how answers were taken out of replies"),
    Column("value", "number", "the figure, in the harness's own unit; missing where a reason says why"),
    Column("value_reason", "text", "why the value is missing"),
    Column("stderr", "number", "standard error, in the unit of the value"),
    Column("n", "count", "samples", "samples"),
    Column("higher_is_better", "flag", "which way is better; missing where the harness does not say"),
    Column("few_shot", "count", "examples in the prompt", "examples"),
    Column("is_group", "flag", "whether it sums up other rows of its file"),
    Column("limit", "number", "samples, or their share if below 1, that each task was cut to; missing where it was not cut"),
    Column("date", "day", "day of the evaluation (UTC)"),
    Column("source_sha256", "text", "SHA-256 of the imported file"),
)

_FIXED: dict[Frame, tuple[Column, ...]] = {
    "cards": _CARDS,
    "episodes": _EPISODES,
    "daily": _DAILY,
    "metrics": _METRICS,
    "imported": _IMPORTED,
}
