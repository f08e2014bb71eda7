"""Printed text about a grid: its estimate, its status and how it ended, as lines and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards import clean, count, dollars, folded_texts
from ktdeval.cli import grid_lines
from ktdeval_grid.planning.estimate_types import SCENARIOS, GridEstimate, ModelEstimate
from ktdeval_grid.state.status import GridStatus, Tally

_COLUMNS = (
    "MODEL",
    "done",
    "running",
    "failed",
    "stopped",
    "left",
    "settled",
    "pruned",
    "USD",
    "ETA",
)
_UNKNOWN = "?"
_MILLION = 1_000_000
_MAX_WORDS = 300  #: maximum length of a printed error


def status_lines(status: GridStatus, width: int | None = None) -> list[str]:
    """Return a grid's status as plain lines of at most `width` columns, or without a limit if it is
    None.
    """
    columns, *rows = progress_table(status)
    lines = [headline(status), ""]
    lines += grid_lines(columns, rows, ("MODEL",), width)
    lines += ["", *folded_texts(_status_notes(status), width)]
    while not lines[-1]:
        lines.pop()

    return lines


def headline(status: GridStatus) -> str:
    """Return a grid's state in one line."""
    total = status.total
    parts = [f"{total.done:,} of {count(total.planned, 'episode')} done"]
    if total.running:
        parts.append(f"{total.running:,} running")
    if total.failed:
        parts.append(f"{total.failed:,} failed")
    if total.stopped:
        parts.append(f"{total.stopped:,} stopped")
    if total.settled:
        parts.append(f"{total.settled:,} settled and not run")
    if status.unresolved:
        parts.append(f"{count(len(status.unresolved), 'system')} not begun and not counted")
    if status.paused:
        parts.append("paused")

    return f"{status.name}: {', '.join(parts)}"


def progress_table(status: GridStatus) -> Sequence[Sequence[str]]:
    """Return the header of a table of models, followed by its rows.

    The table has a column for settled units if there are any.
    """
    tallies = list(status.models)
    if len(tallies) > 1:
        tallies.append(status.total)

    table = [_COLUMNS, *map(_tally_cells, tallies)]
    if status.total.settled:
        return table

    place = _COLUMNS.index("settled")
    return [(*row[:place], *row[place + 1 :]) for row in table]


def _tally_cells(tally: Tally) -> tuple[str, ...]:
    name = tally.name
    if tally.dropped:
        name += " (dropped)"

    return (
        name,
        f"{tally.done:,}/{tally.planned:,}",
        _count_text(tally.running),
        _count_text(tally.failed),
        _count_text(tally.stopped),
        _count_text(tally.left),
        _count_text(tally.settled),
        _count_text(tally.pruned),
        _describe_cost(tally),
        "" if tally.eta_s is None else duration(tally.eta_s),
    )


def _count_text(value: int) -> str:
    return f"{value:,}" if value else ""


def _describe_cost(tally: Tally) -> str:
    """Return the cost for a model, with `≥` if the cost of some episodes is unknown."""
    if not tally.uncosted:
        return dollars(tally.cost_usd)
    if not tally.cost_usd:
        return _UNKNOWN
    return f"≥ {dollars(tally.cost_usd)}"


def duration(seconds: float) -> str:
    """Return a duration as text, such as `45 s`, `12 min` or `3.4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _status_notes(status: GridStatus) -> Iterator[str]:
    for name, reason in status.pruned.items():
        yield f"pruned by {name}: {reason}"

    yield from status.settled
    if status.total.settled:
        saved = f"{count(status.total.settled, 'episode')} not run"
        about = [count(status.steps_saved, "decision")]
        if status.calls_saved:
            about.append(count(status.calls_saved, "model call"))
        if status.usd_saved:
            about.append(f"{dollars(status.usd_saved)} USD")

        yield f"saved: {saved}, about {', '.join(about)}"

    yield from failure_lines(status)
    for sentence in status.warnings:
        yield f"warning: {sentence}"


def _shortened_text(text: str) -> str:
    """Return text truncated at a word boundary to at most `_MAX_WORDS` characters."""
    if len(text) <= _MAX_WORDS:
        return text
    return f"{text[:_MAX_WORDS].rpartition(' ')[0] or text[:_MAX_WORDS]} …"


def failure_lines(status: GridStatus) -> Iterator[str]:
    """Yield one line for each kind of failure or stop."""
    for slug, problem in status.unresolved.items():
        yield f"not begun: {_shortened_text(clean(problem))} ({slug})"

    for kind in status.failures:
        error = _shortened_text(clean(kind.error))
        first = kind.example
        if len(kind.units) > 1:
            first = f"first {first}"

        how = "stopped" if kind.is_stopped else "failed"
        yield f"{len(kind.units):,} {how}: {error} ({first})"


def estimate_lines(estimate: GridEstimate, width: int | None = None) -> list[str]:
    """Return an estimate as plain lines, with low, typical and high for each model.

    `width`: as in `status_lines`.
    """
    lines = []
    paid = [model for model in estimate.models if model.episodes and not model.is_free]
    free = [model for model in estimate.models if model.is_free]
    if free:
        names = ", ".join(model.name for model in free)
        episodes = count(sum(model.episodes for model in free), "episode")
        lines.append(f"{names}: {episodes}, no provider is asked")

    if paid:
        is_cached = any(_reads_cache(model) for model in paid)
        columns = ["MODEL", "episodes", "calls", "tokens", "USD", "hours"]
        if is_cached:
            columns[4:5] = ["USD, no cache", "USD, cached"]

        rows = [_estimate_cells(model, is_cached) for model in paid]
        if len(paid) > 1:
            rows.append(_estimate_cells(estimate.total, is_cached))

        lines.append(f"estimate, {' / '.join(SCENARIOS)}, {_pace(paid, estimate.concurrency)}:")
        lines += grid_lines(columns, rows, ("MODEL",), width, indent="  ")

    unpriced = [model.name for model in paid if model.left["typical"].cost_usd is None]
    if unpriced:
        lines.append(
            f"no price is known for {', '.join(unpriced)}; give `price` of the model, or --price-table"
        )

    if estimate.pruned:
        lines.append(f"{count(estimate.pruned, 'episode')} pruned")

    lines += [f"warning: {sentence}" for sentence in estimate.warnings]
    return lines


def _pace(models: Sequence[ModelEstimate], concurrency: int) -> str:
    """Return how many episodes run at once: of a model in batches all, of the others a few."""
    batched = [model.name for model in models if model.is_batched]
    paces = []
    if len(batched) < len(models):
        paces.append(f"{concurrency} at once")

    if batched:
        paces.append(f"all of {', '.join(batched)} at once, in batches")

    return "; ".join(paces)


def assumption_lines(estimate: GridEstimate) -> list[str]:
    """Return an estimate's assumptions as lines."""
    if not estimate.assumptions:
        return []
    return ["", "assumed", *(f"  {sentence}" for sentence in estimate.assumptions)]


def _reads_cache(model: ModelEstimate) -> bool:
    """Return whether a model's prompts are partly read from a cache at a separate price."""
    typical = model.left["typical"]
    return typical.cached_cost_usd not in (None, typical.cost_usd)


def _estimate_cells(model: ModelEstimate, is_cached: bool) -> Sequence[str]:
    left = [model.left[scenario] for scenario in SCENARIOS]
    costs = [_joined_costs([amount.cost_usd for amount in left])]
    if is_cached:
        costs.append(_joined_costs([amount.cached_cost_usd for amount in left]))

    return (
        model.name,
        f"{model.episodes:,}",
        " / ".join(f"{amount.calls:,}" for amount in left),
        " / ".join(_tokens(amount.input_tokens + amount.output_tokens) for amount in left),
        *costs,
        " / ".join(f"{amount.hours:,.1f}" for amount in left),
    )


def _joined_costs(costs_usd: Sequence[float | None]) -> str:
    texts = [_UNKNOWN if cost is None else dollars(cost) for cost in costs_usd]
    return _UNKNOWN if set(texts) == {_UNKNOWN} else " / ".join(texts)


def _tokens(number: int) -> str:
    if number >= _MILLION:
        return f"{number / _MILLION:,.1f}M"
    return f"{number:,}"
