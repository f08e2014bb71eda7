"""Pages of a run: an episode's, with a light row for each day at once and everything else of a day when it is chosen; the index."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.runner import RunFolder
from ktdeval.stats import benchmark_levels
from ktdeval.trading import DECIDED
from ktdeval_view.document import Redactor, pack_days, pack_value, render
from ktdeval_view.market_facts import Names, close_series, order_facts, stock_paths
from ktdeval_view.records import EpisodeRecords, episode_label, step_in_units, submitted_handles

_SCRIPTS = (
    "base.js", "json.js", "names.js", "chart.js", "days.js", "pieces.js", "talk.js", "orders.js", "paths.js", "stock.js",
    "memory.js", "day.js", "main.js",
)  # fmt: skip
_ROW_FIELDS = ("decided_on", "filled_on", "provenance", "failures", "unmask_attempts")
_SPARK_POINTS = 60
_MASK_NOTES = {
    "bright": "codes and dates shown",
    "stock_blind": "codes hidden, dates shown",
    "date_blind": "codes shown, dates hidden",
    "blinded": "codes and dates hidden",
}


@dataclass(frozen=True)
class Surroundings:
    """Surroundings that an episode's page knows beyond its records."""

    market: MarketSnapshot | None = None  # the snapshot that ran; None with `no_market`
    no_market: str = ""  # why it is not at hand, in a sentence
    names: Names = field(default_factory=Names)  # true names behind the handles
    #: `previous` and `next` -> file name and label of the episode's neighbours that have a page
    neighbours: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def _planned_steps(records: EpisodeRecords, market: MarketSnapshot | None) -> int | None:
    """Count of the steps of the whole episode; None where only the market could tell."""
    if records.state == "finished":
        return len(records.steps)
    if market is None:
        return None
    try:
        start, stop = window_rows(market.days, records.spec.span.first, records.spec.span.last)
    except DataError:
        return None
    return stop - start if records.spec.limit is None else min(records.spec.limit, stop - start)


def make_episode_page(records: EpisodeRecords, around: Surroundings, redactor: Redactor) -> str:
    """Return the page as HTML. Equal records, market and versions give equal bytes."""
    texts: dict[str, int] = {}  # system prompts, which many days repeat, by their index
    counts, pieces = pack_days(redactor.value(day) for day in _days(records, around.market, texts))
    names = around.names
    assets = {handle: list(asset) for handle, asset in names.assets.items()}
    identities = {"assets": assets, "sectors": dict(names.sectors), "days": list(names.days), "first_day": names.first_day}
    head = redactor.value({**_facts(records, around), "pieces": counts, "rows": _rows(records), "names": identities})
    data = {"head": pack_value(head), "texts": pack_value(redactor.value(list(texts)))}
    paths = stock_paths(records, names)
    data["closes"] = pack_value(None if around.market is None else close_series(records, around.market, paths["signals"]))
    data["paths"] = pack_value(redactor.value(paths))
    data |= {f"days-{number}": piece for number, piece in enumerate(pieces)}
    return render(redactor.text(f"{episode_label(records.spec)} · {records.spec.model}"), "episode.html", _SCRIPTS, data)


def _facts(records: EpisodeRecords, around: Surroundings) -> dict[str, JsonValue]:
    spec, market = records.spec, around.market
    levels, benchmark = _levels(records, market), around.no_market if market is None else _benchmark_name(market)
    return {
        "label": episode_label(spec),
        "state": records.state,
        "planned": _planned_steps(records, market),
        "notes": [note for note in (records.problem, around.no_market, around.names.problem) if note],
        "synthetic": market is not None and market.meta.synthetic,
        "spec": {**spec.to_json(), "id": spec.id, "mask_note": _MASK_NOTES.get(str(spec.mask), "")},
        "market": None if market is None else market.meta.name,
        "benchmark": {"name": benchmark, "levels": None if levels is None else levels.tolist()},
        "initial_cash": float(records.ledger.nav[0]),
        "currency": records.ledger.currency,
        "is_exact": records.ledger.version == 2,
        "neighbours": {where: list(target) for where, target in around.neighbours.items()},
    }


def _benchmark_name(market: MarketSnapshot) -> str:
    return market.index_names.get(market.meta.benchmark) or market.meta.benchmark or "no index"


def _levels(records: EpisodeRecords, market: MarketSnapshot | None) -> npt.NDArray[np.float64] | None:
    """[steps + 1] closes of the benchmark from the day of the first decision on; None without a market or an index."""
    return None if market is None or not market.meta.benchmark else benchmark_levels(records.ledger, market)


def _rows(records: EpisodeRecords) -> list[JsonValue]:
    """Rows of days for the list, the plot and the filter; of an order what these need."""
    rows: list[JsonValue] = []
    for step in records.steps:
        row: dict[str, JsonValue] = {name: getattr(step, name) for name in _ROW_FIELDS}
        in_units = step_in_units(records.ledger, step)
        orders = [
            [order["code"] or order["stock_id"], *(order[name] for name in ("side", "status", "filled_shares", "price"))]
            for order in in_units["orders"]
        ]
        rows.append({**row, "nav": in_units["nav"], "cash": in_units["cash"], "orders": orders})
    return rows


def _days(records: EpisodeRecords, market: MarketSnapshot | None, texts: dict[str, int]) -> Iterator[dict[str, JsonValue]]:
    """Everything of each day: its step as booked, what was said, and what became of the prices of its orders."""
    panels = memory_panels(records.memories, records.talks, texts) if records.memories else itertools.repeat(None)
    for step, talk, panel in zip(records.steps, records.talks, panels, strict=False):
        yield {
            "memory": panel,
            "step": step_in_units(records.ledger, step),
            "handles": submitted_handles(talk, len(step.orders)),
            "talk": {"submission": talk.submission, "exchanges": with_shared(talk, texts)},
            "facts": [] if market is None else order_facts(step, market, records.ledger),
        }


def with_shared(talk: TranscriptEntry, texts: dict[str, int]) -> list[JsonValue]:
    """Return the exchanges of a day, with the index of its text for each system prompt."""
    exchanges: list[JsonValue] = []
    for exchange in talk.exchanges:
        messages: list[JsonValue] = []
        for message in exchange["sent"]:
            is_prompt = message["role"] == "system"
            index = texts.setdefault(message["content"], len(texts)) if is_prompt else 0
            messages.append({"role": "system", "text": index} if is_prompt else message)
        exchanges.append({**exchange, "sent": messages})
    return exchanges


# ---- index


def entry_head(records: Any, page: str | None, planned: int | None) -> dict[str, JsonValue]:
    """Return what the index says of any episode, of days or of samples, whether it has a page (`page`, a file name) or not."""
    spec, window = records.spec, records.spec.window
    days = {} if window is None else {"window": window.name, "first": window.first, "last": window.last}
    plan = {"task": spec.task, **days, "seed": spec.seed, "id": spec.id}
    progress = {"state": records.state, "problem": records.problem, "page": page, "planned": planned, "steps": len(records.steps)}
    return {**plan, **progress}


def make_entry(records: EpisodeRecords, market: MarketSnapshot | None, page: str | None) -> dict[str, JsonValue]:
    """One episode's line of the index."""
    entry = entry_head(records, page, _planned_steps(records, market))
    return entry | _figures(records, market) if records.steps else entry


def _figures(records: EpisodeRecords, market: MarketSnapshot | None) -> dict[str, JsonValue]:
    steps = records.steps
    nav = records.ledger.nav
    orders = [order for step in steps for order in step.orders]
    levels = _levels(records, market)
    return {
        "nav": _sparse(nav),
        "return": float(nav[-1] / nav[0] - 1.0),
        "levels": None if levels is None else _sparse(levels),
        "benchmark": None if levels is None else float(levels[-1] / levels[0] - 1.0),
        "decided": sum(step.provenance in DECIDED for step in steps) / len(steps),
        "failures": sum(sum(step.failures.values()) for step in steps),
        "orders": len(orders),
        "rejected": sum(order.status == "rejected" for order in orders),
        "input_tokens": sum(step.input_tokens for step in steps),
        "output_tokens": sum(step.output_tokens for step in steps),
    }


def _sparse(values: npt.NDArray[np.float64]) -> list[float]:
    """At most `_SPARK_POINTS` of a series, both ends among them, as returns since its start to a hundredth of a per cent."""
    indices = np.unique(np.linspace(0, len(values) - 1, min(len(values), _SPARK_POINTS)).round().astype(int))
    return [round(float(value), 4) for value in values[indices] / values[0] - 1.0]


def make_index_page(run: RunFolder, market: MarketSnapshot | None, entries: Sequence[JsonValue], redactor: Redactor) -> str:
    """Return the page as HTML, with a line for each episode of the run."""
    first = run.manifest.specs[0]
    head = {
        "run": run.path.resolve().name,
        "model": first.model,
        "agent": first.agent,
        "market": None if market is None else market.meta.name,
        "synthetic": market is not None and market.meta.synthetic,
        "benchmark": None if market is None else _benchmark_name(market),
        "episodes": list(entries),
    }
    title = redactor.text(f"{first.model} · {head['run']}")
    return render(title, "index.html", ("base.js", "index.js"), {"head": pack_value(redactor.value(head))})


# ---- memory of an agent: layers of memories with what became of each that day, or any JSON as a tree

_DIGITS, _LONGEST_WORD = 4, 300  # characters without a space
_MEMORY_FIELDS = ("id", "text")
_LAYER_ORDER = ("short", "mid", "long")  # other layers follow, in the order of the file


def memory_panels(memories: Sequence[JsonValue], talks: Sequence[TranscriptEntry], texts: dict[str, int]) -> Iterator[JsonValue]:
    """Yield each day's panel: None without a memory, else `rest`, what is no layer, as JSON text; of a memory with layers also
    `layers` (names), `fields` (names) and `rows`: layer and text by index (texts in `texts`), id, whether the text stands in the
    prompt of the day, what happened to it, and the fields.
    """
    before: Mapping[str, tuple[str, Mapping[str, Any]]] = {}  # id -> layer and memory
    for memory, talk in zip(memories, talks, strict=False):
        if (layers := _layers(memory)) is None:
            yield None if memory is None else {"rest": dumps_canonical(_memory_rest(memory))}
            continue
        held = {str(item["id"]): (name, item) for name, items in layers.items() for item in items}
        gone = [(id_, *was) for id_, was in before.items() if id_ not in held]
        listed = [(id_, *now) for id_, now in held.items()]
        fields = list(dict.fromkeys(name for _, _, item in listed + gone for name in item if name not in _MEMORY_FIELDS))
        prompt = "\n".join(str(message["content"]) for exchange in talk.exchanges for message in exchange["sent"])
        names = list(dict.fromkeys([*(name for name in _LAYER_ORDER if name in layers), *layers, *(layer for _, layer, _ in gone)]))
        rows = []
        for id_, layer, item in listed + gone:
            text, note = str(item["text"]), "gone" if id_ not in held else _memory_note(before.get(id_), layer, item)
            values = [_memory_value(item.get(name)) for name in fields]
            rows.append([names.index(layer), texts.setdefault(text, len(texts)), id_, text in prompt, note, *values])
        yield {"layers": names, "fields": fields, "rows": rows, "rest": dumps_canonical(_memory_rest(memory))}
        before = held


def _layers(memory: JsonValue) -> Mapping[str, list[dict[str, Any]]] | None:
    """Return `layers` of a memory, or of an object in it; None where there are none."""
    holders = [memory, *memory.values()] if isinstance(memory, Mapping) else []
    return next((holder["layers"] for holder in holders if isinstance(holder, Mapping) and _are_layers(holder.get("layers"))), None)


def _are_layers(layers: Any) -> bool:
    """Whether a value is lists, by name, of objects with id and text."""
    lists = list(layers.values()) if isinstance(layers, Mapping) else [None]
    return all(
        isinstance(items, list) and all(isinstance(item, Mapping) and {*_MEMORY_FIELDS} <= item.keys() for item in items)
        for items in lists
    )


def _memory_note(was: tuple[str, Mapping[str, Any]] | None, layer: str, item: Mapping[str, Any]) -> str:
    """What happened to a memory since the day before: made, moved, credited."""
    if was is None:
        return "new"
    old, new = was[1].get("count"), item.get("count")
    credit = new - old if isinstance(old, int) and isinstance(new, int) else 0
    return ", ".join(filter(None, (f"credited {credit:+d}" if credit else "", f"{was[0]} → {layer}" if was[0] != layer else "")))


def _memory_rest(value: JsonValue) -> JsonValue:
    """A memory without its layers, and with packed data, such as vectors, shown by their length: they would fill the page."""
    if isinstance(value, Mapping):
        return {name: _memory_rest(item) for name, item in value.items() if name != "layers" or not _are_layers(item)}
    if isinstance(value, list):
        return list(map(_memory_rest, value))
    is_packed = isinstance(value, str) and len(value) > _LONGEST_WORD and not any(map(str.isspace, value))
    return f"({len(value):,} characters of packed data)" if is_packed else value


def _memory_value(value: Any) -> JsonValue:
    """A field's value: figures rounded, whatever is no figure as JSON text."""
    if value is None or isinstance(value, int | str):
        return value
    return round(value, _DIGITS) if isinstance(value, float) else dumps_canonical(value)
