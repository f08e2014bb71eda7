"""Submission form: the JSON Schema of an action, and a reader that returns orders or feedback."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.harness.agent import HarnessConfig, Submission
from ktdeval.harness.chat_messages import ToolSpec, encodable
from ktdeval.harness.steps.step_schema import is_compilable, orders_of
from ktdeval.harness.submissions.feedback import MAX_PROBLEMS
from ktdeval.harness.submissions.submission_form import (
    SUBMIT_TOOL,
    SubmissionForm,
    SubmissionReading,
    count_attempts,
    invalid,
    read_valid,
)
from ktdeval.harness.submissions.submission_schema import SubmissionSchema
from ktdeval.harness.tools.reading import with_side_words
from ktdeval.market.venues.venue import MAX_PRICE, FillRule
from ktdeval.masking.lens import Lens
from ktdeval.masking.names.identity_index import WITHHELD
from ktdeval.masking.payload_types import Price, render_json, small_number
from ktdeval.observation.state import ObservedState
from ktdeval.trading.order_outcomes import REJECTIONS
from ktdeval.trading.rule_breaches import RuleBreach
from ktdeval.trading.types import Order, Scale
from ktdeval.values.documents.strict_json import Schema

_TICK_DECIMALS = 6  # digits of a limit in ticks; further digits are floating-point noise
#: maximum units of a crypto asset in a fractional order; too small to be read as a timestamp
_MAX_COINS = 10**11
_MAX_STEPS = (1 << 63) - 1
# Feedback on each rule that is known to be broken at the close: what to do about the order. If a
# model does it literally, the submission is accepted.
_KNOWN: Mapping[str, str] = {
    "universe": "no stock has this label; use a label exactly as it is shown, or leave the order out",
    "holding": "nothing of it is held, so there is nothing to sell; leave the order out",
    "position_limit": (
        "more names would be held than are allowed; leave the order out, or sell all of another holding"
    ),
    "weight_limit": "the holding would exceed the largest weight of one name; order less",
    "cash": "the orders before it leave no cash; leave the order out, or buy less before it",
}
_NO_LABEL = "no label was shown in this step; submit an empty list of orders"

# When orders fill, by the venues' fill rule.
_ORDERS: Mapping[FillRule, str] = {
    "next_open": "Orders for the next open",
    "next_close": "Orders for the next close",
    "same_close": "Orders at the close shown",
    "vwap_30m": "Orders for the first 30 minutes of the next day, at their average price",
    "twap_day": "Orders for the next day, at its average price",
}
_ORDERS_OF_SEVERAL = "Orders, each at the price that the rules name for its asset"
_BY_EITHER = "Each has exactly one of target_weight and shares."
_WITH_SHORTS = "BUY adds to a holding or closes a short, SELL reduces a holding or sells short."

_DESCRIPTION = (
    "Submit this step's action. Call it once; an empty list of orders keeps the portfolio as it is."
)


LastPrices = Callable[[int], Iterable[float]]
"""Returns the last prices of an asset, by its column, in units of currency."""


def _no_prices(_asset: int) -> Iterable[float]:
    return ()


@cache
def _schema_text() -> str:
    return Path(__file__).with_name("action_schema.json").read_text("utf-8")


def action_schema(
    config: HarnessConfig,
    *,
    whole_shares: bool = True,
    fractions: bool = False,
    shorts: bool = False,
    limits: bool = False,
    weights_only: bool = False,
) -> Schema:
    """Return the JSON Schema (draft 2020-12) of an action.

    `whole_shares` is False if share counts are shown rescaled, or if shares trade in fractions.
    `fractions` is True if shares trade in fractions; the maximum is then higher, since holdings of
    a nearly worthless crypto asset can amount to billions of units. With `shorts`, a target weight
    may be negative. With `limits`, an order may have a limit. With `weights_only`, orders can't be
    given in shares.
    """
    schema: Schema = json.loads(_schema_text())
    orders = schema["properties"]["orders"]
    by_weight, by_shares = orders["items"]["anyOf"]
    for order in (by_weight, by_shares):
        order["properties"]["reason"]["minLength"] = config.min_reason_chars

    shares = by_shares["properties"]["shares"]
    if not whole_shares:
        del shares["minimum"]
        shares |= {"type": "number", "exclusiveMinimum": 0}
    if fractions:
        shares["maximum"] = _MAX_COINS

    if shorts:
        by_weight["properties"]["target_weight"]["minimum"] = -1
        by_weight["properties"]["side"]["description"] = _WITH_SHORTS

    if limits:
        # Each alternative is a complete object, since schemas that every provider accepts have no
        # optional fields.
        orders["items"]["anyOf"] += [
            _with_limit(by_weight, "Order by weight with a limit."),
            _with_limit(by_shares, "Order by the number of shares with a limit."),
        ]

    if weights_only:
        orders["items"] = by_weight

    return schema


def _orders_text(scales: Sequence[Scale], weights_only: bool) -> str:
    """Return a sentence that says when and in which sequence orders fill."""
    fills = {scale.fill for scale in scales} or {Scale().fill}
    when = _ORDERS_OF_SEVERAL
    if len(fills) == 1:
        when = _ORDERS[fills.pop()]

    text = f"{when}; sells are executed before buys."
    if weights_only:
        return text
    return f"{text} {_BY_EITHER}"


def _with_limit(order: Schema, about: str) -> Schema:
    """Return the schema of an order extended by a limit."""
    limited = copy.deepcopy(order)
    limited["description"] = about
    limited["required"].append("limit")
    limited["properties"]["limit"] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": int(MAX_PRICE),
        "description": "Price of one share that a BUY does not exceed and a SELL does not fall below.",
    }
    return limited


class ActionForm(SubmissionForm):
    """Reader of submissions under one mask. Create one per episode, since the schema is compiled
    once.
    """

    def __init__(
        self,
        config: HarnessConfig,
        lens: Lens,
        scales: Sequence[Scale] = (),
        shorts: bool = False,
        limits: LastPrices | None = None,
        *,
        weights_only: bool = False,
    ) -> None:
        """Compile the schema.

        `scales` ([N]) are the scales by asset; if empty, the scale of A-shares applies. `shorts` is
        True if any asset can be sold short. `limits` returns the last prices of an asset, if orders
        may have a limit. `weights_only` is True if orders are target weights only.
        """
        fractions = any(scale.steps_per_unit > 1 for scale in scales)
        whole = not lens.mask.rebase_prices and not fractions
        schema, offered = (
            action_schema(
                config,
                whole_shares=whole,
                fractions=fractions,
                shorts=shorts,
                limits=limits is not None,
                weights_only=weights_only,
            )
            for _ in range(2)
        )
        self._lens = lens
        self._scales = scales
        self._schema = SubmissionSchema(schema)
        del offered["$schema"]
        orders = offered["properties"]["orders"]
        orders["description"] = _orders_text(scales, weights_only)
        self._shorts = shorts
        self._last_prices = limits or _no_prices
        self.tool = ToolSpec(SUBMIT_TOOL, _DESCRIPTION, offered)
        """The tool that a model submits with."""

    def step_schema(self, state: ObservedState, researches: bool, /) -> Schema | None:
        """Return a schema that lists the labels, sides and sizes in the state; None if research may
        show more assets, or if the schema is larger than providers accept.
        """
        if researches:
            return None

        schema = orders_of(self.tool.parameters, state, shorts=self._shorts)
        return schema if is_compilable(schema) else None

    def read(self, text: str) -> SubmissionReading:
        """Return the submission in `text`, with counts. Any text can be read."""
        value, feedback = read_valid(text, self._schema, with_side_words)
        if feedback is not None:
            return SubmissionReading(feedback, count_attempts(value, "orders", self._lens))

        orders = []
        shown_ids = []
        attempts = unknown = 0

        for item in value["orders"]:
            stock_id = item["stock_id"]
            asset = self._lens.parse_asset(stock_id)
            if asset is None:
                unknown += 1
                if self._lens.is_hidden_identity(stock_id):
                    attempts += 1
                    stock_id = WITHHELD

            shown_ids.append(encodable(stock_id))
            orders.append(self._order(asset, item))

        submission = Submission(tuple(orders), encodable(value["overall_reason"]), tuple(shown_ids))
        return SubmissionReading(submission, attempts, unknown)

    def _order(self, asset: int | None, item: Mapping[str, Any]) -> Order:
        """Return an order from a valid submission. `asset` is None for an unknown stock."""
        weight = item.get("target_weight")
        if weight is not None:
            weight = float(weight)

        shares = item.get("shares")
        if shares is not None:
            shares = self._true_shares(asset, shares)

        return Order(
            asset=asset,
            side=item["side"],
            confidence=float(item["confidence"]),
            reason=encodable(item["reason"]),
            target_weight=weight,
            shares=shares,
            limit_ticks=self._true_limit(asset, item),
        )

    def _true_limit(self, asset: int | None, item: Mapping[str, Any]) -> int | None:
        """Return the limit of an order in ticks of the asset, rounded to the stricter side (up for
        a sale); None if the order has no limit or the stock is unknown. A limit that equals a last
        price as shown, with fewer digits, does not prevent a fill at that price.
        """
        shown = item.get("limit")
        if shown is None or asset is None:
            return None

        scale = self._scales[asset] if self._scales else Scale()
        # bounded by the highest price that can trade, so that the integers in a ledger can hold the
        # limit
        price = min(self._lens.figures.price_in(asset, shown), MAX_PRICE)
        ticks = round(price * scale.ticks_per_unit, _TICK_DECIMALS)
        is_sell = item["side"] == "SELL"
        limits = [math.ceil(ticks) if is_sell else math.floor(ticks)]

        text = render_json(small_number(float(shown)))
        for last in self._last_prices(asset):
            if self._lens.render_text(Price(asset, last)) == text:
                limits.append(int(last * scale.ticks_per_unit + 0.5))

        return min(limits) if is_sell else max(limits)

    def _true_shares(self, asset: int | None, shown: float) -> int:
        """Convert a number of shares as shown into true steps of the asset. The result is at least
        1, and at most what the integers in a ledger can hold.
        """
        if asset is None:
            return max(1, round(shown))

        steps = 1
        if self._scales:
            steps = self._scales[asset].steps_per_unit

        return min(max(1, round(self._lens.figures.shares_in(asset, shown) * steps)), _MAX_STEPS)


def breaking(breaches: Sequence[RuleBreach], *, shows_labels: bool = True) -> Submission:
    """Return the feedback for an action that breaks rules known at decision time.

    The feedback reports the order and the rule for each of the first breaches. `shows_labels` is
    False if the model has seen no label in the step, so that every order must fail.
    """
    problems: list[dict[str, str]] = []
    for index, rule in breaches[:MAX_PROBLEMS]:
        explanation = _KNOWN.get(rule, REJECTIONS[rule])
        if rule == "universe" and not shows_labels:
            explanation = _NO_LABEL
        problems.append({"at": f"orders[{index}]", "rule": f"{rule}: {explanation}"})

    return invalid("constraint", problems)
