"""Pages of a run: the index, and a page for each episode.

An episode's page loads a short row for each day at once. The rest of a day is unpacked when a
reader selects the day.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, StoreError
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.runner import RunFolder, known_transplant
from ktdeval.stats import benchmark_levels, benchmark_problem
from ktdeval.task_api import EpisodeSpec
from ktdeval.trading import DECIDED, Ledger, OrderRecord
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_view.conversation import SharedTexts, shown_talk
from ktdeval_view.document import EnvironmentRedactor, PageData, pack_value, render, single_page
from ktdeval_view.episode_records import (
    EpisodeRecords,
    episode_label,
    step_in_units,
    submitted_handles,
)
from ktdeval_view.market_facts import TrueNames, close_series, order_facts, stock_paths
from ktdeval_view.memory import memory_panels
from ktdeval_view.return_summary import Benchmark, ReturnSummary, summarise_return
from ktdeval_view.run_cards import NO_CARD, ReturnPart

_SCRIPTS = (
    "base.js",
    "json.js",
    "names.js",
    "chart.js",
    "days.js",
    "pieces.js",
    "why.js",
    "walk.js",
    "talk.js",
    "orders.js",
    "paths.js",
    "stock.js",
    "trades.js",
    "memory.js",
    "day.js",
    "main.js",
)
_INDEX_SCRIPTS = ("base.js", "index.js")
_ROW_FIELDS = ("decided_on", "filled_on", "provenance", "failures", "unmask_attempts")
_SPARK_POINTS = 60
_MASK_NOTES = {
    "bright": "codes and dates shown",
    "stock_blind": "codes hidden, dates shown",
    "date_blind": "codes shown, dates hidden",
    "blinded": "codes and dates hidden",
}


@dataclass(frozen=True)
class PageSurroundings:
    """Further inputs of an episode's page: the market, the true names and the neighbouring
    episodes.
    """

    market: MarketSnapshot | None = None  # snapshot that the run used; None with `no_market`
    no_market: str = ""  # why the market can't be read, in a sentence
    names: TrueNames = field(default_factory=TrueNames)  # true names behind the handles
    parts: Sequence[ReturnPart] | str = NO_CARD  # parts of the return, or why there are none
    #: file name and label of each neighbouring episode that has a page, keyed by `previous` and
    #: `next`
    neighbours: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def _planned_steps(records: EpisodeRecords, market: MarketSnapshot | None) -> int | None:
    """Return the number of steps in the whole episode; None if it depends on a market that is
    missing.
    """
    spec = records.spec
    if records.state == "finished":
        return len(records.steps)
    if market is None:
        return None

    try:
        start, stop = window_rows(market.days, spec.span.first, spec.span.last)
    except DataError:
        return None

    steps = stop - start
    return steps if spec.limit is None else min(spec.limit, steps)


def make_episode_page(
    records: EpisodeRecords, around: PageSurroundings, redactor: EnvironmentRedactor
) -> str:
    """Return the page as HTML in one file. The output is byte-identical for equal records, market
    and versions.
    """
    return single_page(episode_data(records, around, redactor))


def episode_data(
    records: EpisodeRecords, around: PageSurroundings, redactor: EnvironmentRedactor
) -> PageData:
    """Return the contents of an episode's page."""
    texts = SharedTexts()
    days = _day_details(records, around.market, texts)
    # This must precede `texts.list_texts()`, since a day adds the texts that it shares with other
    # days.
    lines = [dumps_canonical(redactor.value(day)) for day in days]
    head: dict[str, JsonValue] = {
        **_episode_facts(records, around),
        "rows": day_rows(records),
        "why": return_summary(records, around.market, around.parts).to_json(),
        "names": _identities(around.names),
    }
    paths = stock_paths(records, around.names)
    closes = None
    if around.market is not None:
        closes = close_series(records, around.market, paths.signals)

    title = f"{episode_label(records.spec)} · {records.spec.model}"
    return PageData(
        title=redactor.text(title),
        template="episode.html",
        scripts=_SCRIPTS,
        head=redactor.record(head),
        values={
            "texts": redactor.value(texts.list_texts()),
            "closes": closes,
            "paths": redactor.value(paths.to_json()),
        },
        days=lines,
    )


def _identities(names: TrueNames) -> dict[str, JsonValue]:
    """Return the true names behind handles, in the format that the page's scripts read. They are
    sorted by code, so that pages for one market share codes and companies although their handles
    differ.
    """
    ordered = sorted((code, handle, company) for handle, (code, company) in names.assets.items())
    return {
        "codes": [code for code, _, _ in ordered],
        "handles": [handle for _, handle, _ in ordered],
        "companies": [company for _, _, company in ordered],
        "sectors": dict(names.sectors),
        "days": list(names.days),
        "first_day": names.first_day,
    }


def _episode_facts(records: EpisodeRecords, around: PageSurroundings) -> dict[str, JsonValue]:
    spec = records.spec
    market = around.market
    notes = [records.problem, around.no_market, around.names.problem]
    mask_note = _MASK_NOTES.get(str(spec.mask), "")

    market_name = None
    shown_name = around.no_market
    if market is not None:
        market_name = market.meta.name
        shown_name = benchmark_name(market)

    levels = _levels(records, market)
    benchmark: dict[str, JsonValue] = {"name": shown_name, "levels": None}
    if levels is not None:
        benchmark["levels"] = levels.tolist()

    neighbours: dict[str, JsonValue] = {}
    for where, (page, label) in around.neighbours.items():
        neighbours[where] = [page, label]

    return {
        "label": episode_label(spec),
        "state": records.state,
        "planned": _planned_steps(records, market),
        "notes": [note for note in notes if note],
        "synthetic": market is not None and market.meta.synthetic,
        "spec": {**spec.to_json(), "id": spec.id, "mask_note": mask_note},
        "market": market_name,
        "benchmark": benchmark,
        "initial_cash": float(records.ledger.nav[0]),
        "currency": records.ledger.currency,
        "is_exact": bool(records.ledger.scales),
        "neighbours": neighbours,
    }


def benchmark_name(market: MarketSnapshot) -> str:
    """Return the name of a market's benchmark as readers see it."""
    return market.index_names.get(market.meta.benchmark) or market.meta.benchmark or "no index"


def _levels(
    records: EpisodeRecords, market: MarketSnapshot | None
) -> npt.NDArray[np.float64] | None:
    """Return the [steps + 1] benchmark closes, starting on the day of the first decision; None
    without a market or an index.
    """
    if market is None or not market.meta.benchmark:
        return None
    return benchmark_levels(records.ledger, market)


def return_summary(
    records: EpisodeRecords, market: MarketSnapshot | None, parts: Sequence[ReturnPart] | str
) -> ReturnSummary:
    """Return what explains the return of an episode with at least one step. `parts` are those of
    its card, or the reason why there are none.
    """
    levels = _levels(records, market)
    benchmark = None
    if market is not None and levels is not None and not benchmark_problem(market, levels):
        benchmark = Benchmark(benchmark_name(market), levels)

    is_finished = records.state == "finished"
    return summarise_return(records.ledger, parts, benchmark, is_finished=is_finished)


def day_rows(records: EpisodeRecords) -> list[JsonValue]:
    """Return a row for each day, with the fields needed for lists, plots and filters."""
    ledger = records.ledger
    rows: list[JsonValue] = []
    for step in records.steps:
        row: dict[str, JsonValue] = {name: getattr(step, name) for name in _ROW_FIELDS}
        row["nav"] = step.nav_minor / ledger.minor_per_unit
        row["cash"] = step.cash_minor / ledger.minor_per_unit
        row["orders"] = [_order_row(ledger, order) for order in step.orders]
        if step.carried:
            row["carried"] = [_order_row(ledger, order) for order in step.carried]
        rows.append(row)

    return rows


def _order_row(ledger: Ledger, order: OrderRecord) -> list[JsonValue]:
    """Return an order's stock, side, status, filled shares, price, value and cost."""
    ticks, steps, _ = ledger.scale(order.code)
    filled: float = order.filled_shares  # whole shares stay integers in the page
    if steps > 1:
        filled = order.filled_shares / steps

    stock = order.code or order.stock_id
    value = order.notional_minor / ledger.minor_per_unit
    cost = order.fee_minor / ledger.minor_per_unit
    return [stock, order.side, order.status, filled, order.price_ticks / ticks, value, cost]


def _day_details(
    records: EpisodeRecords, market: MarketSnapshot | None, texts: SharedTexts
) -> Iterator[JsonValue]:
    """Yield the full data for each day: the step as booked, its transcript, and the prices after
    its orders.
    """
    panels: Iterator[JsonValue] = itertools.repeat(None)
    if records.memories:
        panels = memory_panels(records.memories, records.talks, texts)

    for step, talk, panel in zip(records.steps, records.talks, panels, strict=False):
        facts = [] if market is None else order_facts(step, market, records.ledger)
        yield {
            "memory": panel,
            "step": step_in_units(records.ledger, step),
            "handles": submitted_handles(talk, len(step.orders)),
            "talk": shown_talk(talk, texts),
            "facts": facts,
        }


# ---- index


class RecordedEpisode(Protocol):
    """Records of an episode that consists of days or samples."""

    @property
    def spec(self) -> EpisodeSpec:
        """Plan of the episode."""

    @property
    def state(self) -> str:
        """State of the records, such as `finished`."""

    @property
    def problem(self) -> str:
        """Problem with the records; empty if they are complete."""

    @property
    def steps(self) -> Sequence[object]:
        """Recorded days or samples."""


def entry_head(
    records: RecordedEpisode, page: str | None, planned: int | None
) -> dict[str, JsonValue]:
    """Return the part of an episode's index entry that all kinds of episodes share. `page` is the
    file name of the episode's page, if it has one.
    """
    spec = records.spec
    entry: dict[str, JsonValue] = {"task": spec.task, "seed": spec.seed, "id": spec.id}
    if spec.window is not None:
        entry |= {
            "window": spec.window.name,
            "first": spec.window.first,
            "last": spec.window.last,
        }

    entry |= {
        "state": records.state,
        "problem": records.problem,
        "page": page,
        "planned": planned,
        "steps": len(records.steps),
    }
    return entry


def make_entry(
    records: EpisodeRecords, market: MarketSnapshot | None, page: str | None
) -> dict[str, JsonValue]:
    """Return an episode's index entry."""
    entry = entry_head(records, page, _planned_steps(records, market))
    if records.steps:
        entry |= _episode_figures(records, market)

    return entry


def _episode_figures(
    records: EpisodeRecords, market: MarketSnapshot | None
) -> dict[str, JsonValue]:
    steps = records.steps
    nav = records.ledger.nav
    orders = [order for step in steps for order in step.orders]
    decided = sum(step.provenance in DECIDED for step in steps)
    failures = sum(sum(step.failures.values()) for step in steps)
    figures: dict[str, JsonValue] = {
        "nav": _sparse(nav),
        "return": float(nav[-1] / nav[0] - 1.0),
        "levels": None,
        "benchmark": None,
        "decided": decided / len(steps),
        "failures": failures,
        "orders": len(orders),
        "rejected": sum(order.status == "rejected" for order in orders),
        "input_tokens": sum(step.input_tokens for step in steps),
        "output_tokens": sum(step.output_tokens for step in steps),
    }

    levels = _levels(records, market)
    if levels is not None:
        figures["levels"] = _sparse(levels)
        figures["benchmark"] = float(levels[-1] / levels[0] - 1.0)

    return figures


def _sparse(values: npt.NDArray[np.float64]) -> list[float]:
    """Return at most `_SPARK_POINTS` points of a series, including both ends. They are returns
    since the start, rounded to 0.01 %.
    """
    count = min(len(values), _SPARK_POINTS)
    indices = np.unique(np.linspace(0, len(values) - 1, count).round().astype(int))
    returns = values[indices] / values[0] - 1.0
    return [round(float(value), 4) for value in returns]


def capacity_lines(run: Path) -> list[str]:
    """Return a line for each task and measure of the transplant next to a run, with the capital at
    which the edge vanishes; empty without a transplant.
    """
    try:
        file = known_transplant(run)
    except StoreError as error:  # the run itself can still be shown
        return [str(error)]

    if file is None:
        return []

    lines = []
    for task in dict.fromkeys(line.task for line in file.lines):
        lines += [f"{task}: {words}, transplanted" for words in file.break_even_words(task)]

    return lines


def make_index_page(
    run: RunFolder,
    market: MarketSnapshot | None,
    entries: Sequence[JsonValue],
    sheets: Mapping[str, str],
    pair: str,
    redactor: EnvironmentRedactor,
) -> str:
    """Return the index page as HTML, with a line for each episode of the run. `sheets` contains the
    file name of each task's tear sheet. `pair` is the file name of the page that compares two
    episodes, or empty if it does not exist.
    """
    first = run.manifest.specs[0]
    name = run.path.resolve().name
    head: dict[str, JsonValue] = {
        "run": name,
        "model": first.model,
        "agent": first.agent,
        "market": None,
        "synthetic": False,
        "benchmark": None,
        "capacity": capacity_lines(run.path),
        "episodes": entries,
        "sheets": [[task, page] for task, page in sheets.items()],
        "pair": pair,
    }
    if market is not None:
        head["market"] = market.meta.name
        head["synthetic"] = market.meta.synthetic
        head["benchmark"] = benchmark_name(market)

    data = {"head": pack_value(redactor.value(head))}
    return render(redactor.text(f"{first.model} · {name}"), "index.html", _INDEX_SCRIPTS, data)
