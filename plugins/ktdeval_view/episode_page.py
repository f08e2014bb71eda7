"""Page of one episode: its facts and a light row for each day at once, everything else of a day when it is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ktdeval.errors import DataError
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import JsonValue
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.trading import OrderRecord
from ktdeval.typed import to_plain
from ktdeval_view.document import Page, render
from ktdeval_view.labels import episode_label, mask_note
from ktdeval_view.market_facts import benchmark_levels, close_series, order_facts
from ktdeval_view.names import Names, submitted_handles
from ktdeval_view.payload import Redactor, Shared, pack_days, pack_value
from ktdeval_view.records import EpisodeRecords

_SCRIPTS = (
    "base.js", "json.js", "names.js", "chart.js", "days.js", "talk.js", "orders.js", "stock.js", "day.js", "main.js",
)  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """Surroundings that an episode's page knows beyond its records."""

    market: MarketSnapshot | None = None  # the snapshot that ran; None with `no_market`
    no_market: str = ""  # why it is not at hand, in a sentence
    names: Names = field(default_factory=Names)  # true names behind the handles
    #: `previous` and `next` -> file name and label of the episode's neighbours that have a page
    neighbours: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def planned_steps(records: EpisodeRecords, market: MarketSnapshot | None) -> int | None:
    """How many steps the whole episode has; None where only the market could tell."""
    if records.state == "finished":
        return len(records.steps)
    if market is None:
        return None
    try:
        start, stop = window_rows(market.days, records.spec.window.first, records.spec.window.last)
    except DataError:
        return None
    return stop - start if records.spec.limit is None else min(records.spec.limit, stop - start)


def make_episode_page(records: EpisodeRecords, around: Surroundings, redactor: Redactor) -> str:
    """Return the page as HTML. Equal records, market and versions give equal bytes."""
    shared = Shared()
    counts, pieces = pack_days(redactor.value(day) for day in _days(records, around.market, shared))
    head = redactor.value({**_facts(records, around), "pieces": counts, "rows": _rows(records), "names": _names(around.names)})
    data = {"head": pack_value(head), "texts": pack_value(redactor.value(shared.texts))}
    data["closes"] = pack_value(None if around.market is None else close_series(records.steps, around.market))
    data |= {f"days-{place}": piece for place, piece in enumerate(pieces)}
    return render(Page(redactor.text(f"{episode_label(records.spec)} · {records.spec.model}"), "episode.html", _SCRIPTS, data))


def _facts(records: EpisodeRecords, around: Surroundings) -> dict[str, JsonValue]:
    spec, market = records.spec, around.market
    levels, benchmark = None, around.no_market
    if market is not None:
        levels = benchmark_levels(records.steps, market)
        benchmark = market.index_names.get(market.meta.benchmark) or market.meta.benchmark
    return {
        "label": episode_label(records.spec),
        "state": records.state,
        "planned": planned_steps(records, market),
        "notes": [note for note in (records.problem, around.no_market, around.names.problem) if note],
        "synthetic": market is not None and market.meta.synthetic,
        "spec": {**spec.to_json(), "id": spec.id, "mask_note": mask_note(spec)},
        "market": None if market is None else market.meta.name,
        "benchmark": {"name": benchmark, "levels": levels},
        "initial_cash_fen": records.initial_cash_minor,
        "neighbours": {where: list(target) for where, target in around.neighbours.items()},
    }


def _names(names: Names) -> dict[str, JsonValue]:
    return {
        "assets": {handle: list(asset) for handle, asset in names.assets.items()},
        "sectors": dict(names.sectors),
        "days": list(names.days),
        "first_day": names.first_day,
    }


_ROW_FIELDS = ("decided_on", "filled_on", "provenance", "failures", "unmask_attempts")


def _rows(records: EpisodeRecords) -> list[JsonValue]:
    """Rows of days for the list, the plot and the filter."""
    rows: list[JsonValue] = []
    for step in records.steps:
        row: dict[str, JsonValue] = {name: getattr(step, name) for name in _ROW_FIELDS}
        row |= {"nav_fen": step.nav_minor, "cash_fen": step.cash_minor, "orders": [_order_row(order) for order in step.orders]}
        rows.append(row)
    return rows


def _order_row(order: OrderRecord) -> list[JsonValue]:
    """Code, side, status, shares and price of an order: enough for the list, and for the plot of its stock."""
    return [order.code or order.stock_id, order.side, order.status, order.filled_shares, order.price_ticks]


def _days(records: EpisodeRecords, market: MarketSnapshot | None, shared: Shared) -> Iterator[dict[str, JsonValue]]:
    """Everything of each day: its step as booked, what was said, and what became of the prices of its orders."""
    for step, talk in zip(records.steps, records.talks, strict=True):
        yield {
            "step": to_plain(step),
            "handles": submitted_handles(talk, len(step.orders)),
            "talk": {"submission": talk.submission, "exchanges": _with_shared(talk, shared)},
            "facts": [] if market is None else order_facts(step, market),
        }


def _with_shared(talk: TranscriptEntry, shared: Shared) -> list[JsonValue]:
    """Return the exchanges of a day, with the place of its text for each system prompt."""
    exchanges: list[JsonValue] = []
    for exchange in talk.exchanges:
        sent: Sequence[Mapping[str, JsonValue]] = exchange["sent"]
        kept = [
            {"role": "system", "text": shared.place_of(message["content"])} if message["role"] == "system" else message
            for message in sent
        ]
        exchanges.append({**exchange, "sent": kept})
    return exchanges
