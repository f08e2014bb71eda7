"""Index of a run: one line for each episode, whether it has a page or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ktdeval.jsonio import JsonValue
from ktdeval.market import MarketSnapshot
from ktdeval.runner import RunFolder
from ktdeval_view.document import Page, render
from ktdeval_view.episode_page import planned_steps
from ktdeval_view.market_facts import benchmark_levels
from ktdeval_view.payload import Redactor, pack_value
from ktdeval_view.records import EpisodeRecords

_SPARK_POINTS = 60


def make_entry(records: EpisodeRecords, market: MarketSnapshot | None, page: str | None) -> dict[str, JsonValue]:
    """One episode's line. `market`: the snapshot that ran, where it is at hand. `page`: file name of its page; None where it has
    none.
    """
    spec, steps = records.spec, records.steps
    entry: dict[str, JsonValue] = {
        "task": spec.task,
        "window": spec.window.name,
        "first": spec.window.first,
        "last": spec.window.last,
        "seed": spec.seed,
        "id": spec.id,
        "state": records.state,
        "problem": records.problem,
        "page": page,
        "planned": planned_steps(records, market),
        "steps": len(steps),
    }
    return entry | _figures(records, market) if steps else entry


def _figures(records: EpisodeRecords, market: MarketSnapshot | None) -> dict[str, JsonValue]:
    steps = records.steps
    nav = np.array([records.initial_cash_minor, *(step.nav_minor for step in steps)], dtype=np.float64)
    orders = [order for step in steps for order in step.orders]
    levels = None if market is None else np.array(benchmark_levels(steps, market))
    return {
        "nav": _sparse(nav),
        "return": float(nav[-1] / nav[0] - 1.0),
        "levels": None if levels is None else _sparse(levels),
        "benchmark": None if levels is None else float(levels[-1] / levels[0] - 1.0),
        "decided": sum(step.provenance in ("model", "model_after_retry") for step in steps) / len(steps),
        "failures": sum(sum(step.failures.values()) for step in steps),
        "orders": len(orders),
        "rejected": sum(order.status == "rejected" for order in orders),
        "input_tokens": sum(step.input_tokens for step in steps),
        "output_tokens": sum(step.output_tokens for step in steps),
    }


def _sparse(values: npt.NDArray[np.float64]) -> list[float]:
    """At most `_SPARK_POINTS` of a series, both ends among them, as returns since its start to a hundredth of a per cent."""
    places = np.unique(np.linspace(0, len(values) - 1, min(len(values), _SPARK_POINTS)).round().astype(int))
    return [round(float(value), 4) for value in values[places] / values[0] - 1.0]


def make_index_page(run: RunFolder, market: MarketSnapshot | None, entries: Sequence[JsonValue], redactor: Redactor) -> str:
    """Return the page as HTML. `market`: the snapshot that ran, where it is at hand. `entries`: a line for each of its episodes, in
    its order.
    """
    first = run.manifest.specs[0]
    head = {
        "run": run.path.resolve().name,
        "model": first.model,
        "agent": first.agent,
        "market": None if market is None else market.meta.name,
        "synthetic": market is not None and market.meta.synthetic,
        "benchmark": None if market is None else market.index_names.get(market.meta.benchmark) or market.meta.benchmark,
        "episodes": list(entries),
    }
    title = redactor.text(f"{first.model} · {head['run']}")
    return render(Page(title, "index.html", ("base.js", "index.js"), {"head": pack_value(redactor.value(head))}))
