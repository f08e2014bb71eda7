"""Cards built from small hand-written ledgers, for the tests of cards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from textwrap import indent
from typing import Any

import numpy as np

from ktdeval.calls.costs.prices import FREE, Price, PriceEntry
from ktdeval.calls.records.call_counts import call_figures
from ktdeval.calls.records.record import ANSWERED, CACHED, CallRecord
from ktdeval.cards import derive_card
from ktdeval.cards.assembly import build_card
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.card_inputs import CardInputs
from ktdeval.cards.fields.episode_parts import Served
from ktdeval.cards.fields.origin.fact_types import (
    Attachment,
    CutoffEntry,
    Drift,
    NoCutoff,
    Provenance,
)
from ktdeval.harness.chat_messages import Usage
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats.metric_panel import panel_metrics
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.trading.ledger import Ledger
from ktdeval.values import from_plain
from support.figures.metric_cases import CODES, TASK, ledger, market, order, spec, step

PROVENANCE = {
    "created_at": "2026-01-02T03:04:05+00:00",
    "suite_version": "0.1.0",
    "source_revision": None,
    "wall_time_s": 1.5,
    "environment": {
        "python": "3.11.9",
        "platform": "Linux",
        **dict.fromkeys(("numpy", "pandas", "pyarrow", "scipy", "zstandard"), "1.0"),
    },
}


def episode(of: EpisodeSpec) -> Ledger:
    """A ledger of up to five days, with retries, rejections and tool failures; the gain depends on
    the seed.
    """
    steps = []

    for number in range(of.limit or 5):
        orders = [
            order(confidence=0.55 + 0.05 * number),
            order(CODES[1], "SELL", 0.7, filled=0, rule="price_limit"),
        ]
        retried: dict[str, Any] = (
            {"failures": {"schema": 1}, "provenance": "model_after_retry"} if number == 2 else {}
        )
        holdings = {CODES[0]: 300 + 7 * number + 20 * number * of.seed, CODES[1]: 200}
        steps.append(
            step(
                number,
                500,
                holdings,
                orders=orders,
                tool_calls=4,
                tool_calls_valid=3,
                submissions=2,
                **retried,
            )
        )

    return ledger(steps, 1000, of)


def inputs(
    seeds: Sequence[int] = (0,),
    failed: Collection[int] = (),
    limit: int | None = None,
    **changes: Any,
) -> CardInputs:
    """Inputs of a card over one window; episodes of `failed` seeds have no ledger."""
    call = changes.pop("call", {"temperature": 0.7})
    specs = [spec(seed, limit, call=call) for seed in seeds]
    fields: dict[str, Any] = {
        "task": TASK,
        "price": FREE,
        "rules": "strict",
        "snapshot": market(),
        "specs": specs,
        "ledgers": [episode(each) for each in specs if each.seed not in failed],
        "metrics": panel_metrics(),
        "artefacts": {"episodes/x/ledger.parquet": "a" * 64},
        "missing_episodes": {
            each.id: "the model\ncall failed" for each in specs if each.seed in failed
        },
        "provenance": PROVENANCE,
    }

    return CardInputs(**typed_inputs(fields | changes))


TYPES: dict[str, Any] = {
    "price": PriceEntry | None,
    "knowledge_cutoff": CutoffEntry | NoCutoff,
    "drift": Drift,
    "certificate": Attachment,
    "provenance": Provenance,
}


def typed_inputs(fields: dict[str, Any]) -> dict[str, Any]:
    """Inputs of a card whose facts are given as JSON, with `calls` beside `provenance`."""
    calls = fields.pop("calls", None)
    fields["provenance"] = {**fields["provenance"], "calls": calls}

    if calls is not None:
        fields.setdefault("request_settings", {})

    return {
        name: from_plain(value, TYPES[name], name) if is_json(value) and name in TYPES else value
        for name, value in fields.items()
    }


def is_json(value: Any) -> bool:
    return value is None or isinstance(value, dict | str)


def card(
    seeds: Sequence[int] = (0,),
    failed: Collection[int] = (),
    limit: int | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A card over one window."""
    return build_card(inputs(seeds, failed, limit, **changes)).plain


def without_bars(last_bars: Mapping[str, int]) -> MarketSnapshot:
    """The tiny market, in which the bars of some codes end after a row."""
    made = market()
    closes = made.close.copy()
    for code, row in last_bars.items():
        closes[row + 1 :, made.asset_index[code]] = np.nan

    return replace(made, close=closes)


def stale_card(values: Mapping[str, int], last_bars: Mapping[str, int]) -> dict[str, Any]:
    """A card whose account holds values whose bars end after some rows."""
    steps = [step(number, 500, values, orders=[order()]) for number in range(5)]
    made = ledger(steps, 1000, spec(snapshot=market().id))
    return card(ledgers=[made], snapshot=without_bars(last_bars))


RUIN = "the NAV is not positive on a day"


def ruined_card() -> dict[str, Any]:
    """A card of three seeds, of which one has no return and no risk."""
    made = card((0, 1, 2))
    figures = made["episodes"][1]["metrics"]

    for name in ("total_return", "sharpe", "max_drawdown"):
        figures[name] = {"value": None, "n": 5, "reason": RUIN}

    return derive_card(typed(made)).plain


CALLS = call_figures(
    [
        CallRecord("2026-01-02T03:04:05Z", spec().id, "a", "rate_limited", 1, 0.5),
        CallRecord(
            "2026-01-02T03:04:15Z",
            spec().id,
            "a",
            ANSWERED,
            2,
            2.0,
            Usage(10, 2),
            1.5,
            served_by="gpt-4.1-2025-04-14",
        ),
        CallRecord("2026-01-02T03:04:25Z", spec().id, "b", "timeout", 1, 120.0, held_usd=0.25),
        CallRecord(
            "2026-01-02T03:04:35Z",
            spec().id,
            "c",
            CACHED,
            1,
            0.0,
            Usage(10, 2),
            served_by="gpt-4.1-2025-04-14",
        ),
        CallRecord("2026-01-02T03:00:00Z", "check", "d", ANSWERED, 1, 1.0, Usage(10, 2), 0.125),
    ],
    {spec().id},
)


PRICE = Price(2.0, 8.0, cache_read=0.5, as_of="2026-01-02", source="a price list").to_json()


def paid(protocol: str = "native", price: Any = PRICE) -> dict[str, Any]:
    """Describe a model behind a provider for a card, at 2 and 8 USD a million tokens."""
    return {"call": {"temperature": 0.7, "tool_protocol": protocol}, "price": price}


def remote_card(seeds: Sequence[int] = (0,), **changes: Any) -> dict[str, Any]:
    """A trading card of a model behind a provider; in each of five steps it reads 10 tokens and
    writes 2.
    """
    made = inputs(seeds, **{**paid("json_schema"), "calls": CALLS} | changes)
    served = {made.specs[0].id: [Served(name="gpt-4.1-2025-04-14", replies=2)]}
    return build_card(replace(made, served=served)).plain


def typed(made: dict[str, Any]) -> Any:
    """The typed card of a JSON object, which need not be valid."""
    return from_plain(made, {"trading": TradingCard, "scoring": ScoringCard}[made["kind"]], "card")


def section(text: str, title: str) -> list[str]:
    """Lines of a printed card below a title, up to the next empty one."""
    lines = text.splitlines()
    start = lines.index(title) + 1
    return lines[start : lines.index("", start)] if "" in lines[start:] else lines[start:]


def open_objects(schema: Any, name: str = "card") -> set[str]:
    """Names of the objects of a schema whose fields are open."""
    open_names: set[str] = set()
    for key, entry in schema.items() if isinstance(schema, dict) else ():
        open_names |= open_objects(entry, name if key in ("anyOf", "items") else key)

    for entry in schema if isinstance(schema, list) else ():
        open_names |= open_objects(entry, name)

    is_object = isinstance(schema, dict) and "object" in schema.get("type", ())

    return (
        open_names | {name}
        if is_object and schema.get("additionalProperties", True) is True
        else open_names
    )


def spec_of(card: Any, window: Window | None, seed: int) -> EpisodeSpec:
    """Return the spec of an episode of a card, by its JSON; its hash is the episode's id."""
    task = card["task"]
    model = card["model"]
    agent = card["agent"]

    return EpisodeSpec(
        task=task["name"],
        task_version=task["version"],
        task_hash=task["hash"],
        snapshot=card["snapshot"]["id"] if card.get("snapshot") else None,
        mask=task.get("mask"),
        mode=task.get("mode"),
        window=window,
        model=model["name"],
        model_args=model["args"],
        agent=agent["name"],
        agent_args=agent["args"],
        call=card["call"],
        seed=seed,
        limit=card["limit"],
        mask_key=card.get("mask_key"),
    )


def lines_of(rows: Iterable[tuple[str, str] | tuple[tuple[str | int, ...], str]]) -> str:
    """Rows of a card, or its problems with their places."""
    text = ""
    for label, words in rows:
        place = label if isinstance(label, str) else ".".join(map(str, label))
        text += f"{place}: {words}\n"

    return text


def lines_below(call: Callable[[Any], Iterable[Any]], *cases: Any) -> str:
    """Cases, each with the rows or problems that it has below it."""
    text = ""
    for case in cases:
        text += f"{case}\n{indent(lines_of(call(case)), '  ')}"

    return text
