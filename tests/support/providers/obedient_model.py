"""A model of rules that obeys its instructions to the letter. It takes the most bullish view of the
first asset that may be bought, buys as much of it as every stated limit allows, and keeps it by the
decision that is said to keep it. Where what is stated allows no purchase, or one limit is below what
another sentence says a purchase is, it holds and notes the contradiction.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolCall
from support.providers.obedient_text import Offer, Prompt, Stated

_NEAR = 1e-9
_COSTS_PCT = 1.0  # of NAV, left in cash for the costs of a purchase
_NAMED = 8  # assets in an answer, which has a limit of words
_NO_MEMORY = "[memory: none]"


class Contradiction(Exception):
    """What is stated allows no purchase."""


class ObedientModel:
    """Model that does as it is told. `contradictions` has a line for each purchase that its
    instructions forbade.
    """

    traits = ModelTraits(is_free=True)

    def __init__(self) -> None:
        self.contradictions: list[str] = []

    def reply(self, request: ModelRequest) -> Reply:
        """Answer by the text of the messages and the schemas of the tools."""
        prompt = Prompt(request)
        submit = prompt.submit_tool

        if submit is not None:
            schema = prompt.tools[submit]
            if {"decisions", "orders"} & schema["properties"].keys():
                return _call(submit, self._submission(prompt, schema))

            return _call(submit, _whole(schema))

        search = prompt.search_tool
        if search is not None and not prompt.offers:
            return _call(search, _least(prompt.tools[search]))

        submit = request.submit_tool
        if prompt.says(f"To submit, call `{submit}` alone"):
            return _call(submit, self._submission(prompt, prompt.tools[submit]))

        return Reply(_answer(prompt))

    def _submission(self, prompt: Prompt, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a submission: decisions or orders, as the schema has it."""
        decides = "decisions" in schema["properties"]
        reason = "Bullish: as much as every limit allows."

        try:
            items = _decisions(prompt, reason) if decides else _orders(prompt, reason)
        except Contradiction as problem:
            self.contradictions.append(str(problem))
            reason = "Held: the instructions allow no purchase."
            held = prompt.candidates if decides else []
            items = [_decision(offer, "HOLD", reason) for offer in held]

        summary = f"{reason} {_NO_MEMORY}" if prompt.says(_NO_MEMORY) else reason

        return {"decisions" if decides else "orders": items, "overall_reason": summary}


def to_buy(prompt: Prompt) -> list[Offer]:
    """Return the first asset on offer whose status lets it be bought; all such assets if those that
    are bought share the NAV. Raises Contradiction: there is none.
    """
    opened = [offer for offer in prompt.offers if offer.is_open]

    if not opened:
        raise Contradiction("nothing is shown that may be bought")

    return opened if prompt.is_portfolio else opened[:1]


def _decisions(prompt: Prompt, reason: str) -> list[dict[str, Any]]:
    """Return a decision on each candidate. Raises Contradiction: HOLD or the size of a purchase is
    stated in two ways, or that size is beyond a limit.
    """
    bought = to_buy(prompt)
    holds = prompt.meanings_of_hold()

    if len(holds) > 1:
        raise Contradiction(f"{holds['keep']!r} and {holds['close']!r}")

    sizes = prompt.sizes_of_buy(len(bought))
    for offer in bought:
        for size in sizes:
            if size.percent != sizes[0].percent:
                raise Contradiction(f"{sizes[0].sentence!r} and {size.sentence!r}")

            for limit in prompt.limits(offer.label):
                if limit.percent < size.percent - _NEAR:
                    raise Contradiction(f"{size.sentence!r} and {limit.sentence!r}")

    decisions = []
    for offer in prompt.candidates:
        is_kept = "keep" in holds and prompt.holds(offer.label)
        is_bought = offer in bought and not is_kept
        decisions.append(_decision(offer, "BUY" if is_bought else "HOLD", reason))

    return decisions


def _orders(prompt: Prompt, reason: str) -> list[dict[str, Any]]:
    """Return the largest purchase that every limit allows; none if that much is held. Raises
    Contradiction: a limit leaves nothing to buy.
    """
    offer = to_buy(prompt)[0]
    held = prompt.held_pct(offer.label)
    cash = 100.0 * (prompt.number("cash_weight") or 0.0)
    limits = [
        *prompt.limits(offer.label),
        Stated(held + cash - _COSTS_PCT, "cash without the costs"),
    ]
    least = min(limits, key=lambda limit: limit.percent)
    weight = math.floor(least.percent * 100.0) / 1e4

    if least.percent <= held + _COSTS_PCT and held:
        return []

    if weight <= 0.0:
        raise Contradiction(f"{least.sentence!r} leaves nothing to buy")

    nav = prompt.nav()
    if nav and offer.price and weight * nav < offer.price * prompt.min_lot(offer):
        raise Contradiction(f"{least.sentence!r} is less than a lot of {offer.label}")

    order = {"stock_id": offer.label, "side": "BUY", "target_weight": weight}

    return [{**order, "confidence": 1.0, "reason": reason}]


def _decision(offer: Offer, decision: str, reason: str) -> dict[str, Any]:
    return {"stock_id": offer.label, "decision": decision, "confidence": 1.0, "reason": reason}


def _answer(prompt: Prompt) -> str:
    """Return an answer in words, with a JSON object at its end if the prompt asks for one."""
    labels = [offer.label for offer in prompt.offers if offer.is_open][:_NAMED]
    name = labels[0] if labels else "what may be bought"
    parts = [f"Buy {name}, as much as every limit allows. My confidence is the highest."]

    if prompt.analysts():
        parts.append(f"I ask all of these: {prompt.analysts()}.")

    example = prompt.example()
    if example is not None:
        parts.append(json.dumps(_filled(example, prompt, labels)))

    if prompt.says(_NO_MEMORY):
        parts.append(_NO_MEMORY)

    return "\n".join(parts)


def _filled(example: Mapping[str, Any], prompt: Prompt, labels: list[str]) -> dict[str, Any]:
    """Return an example's object with the most bullish values, and each label in place of
    `<label>`.
    """
    filled: dict[str, Any] = {}
    for name, value in example.items():
        best = _max_bullish(value, prompt, labels)
        filled.update(dict.fromkeys(labels if name == "<label>" else [name], best))

    return filled


def _max_bullish(value: Any, prompt: Prompt, labels: list[str]) -> Any:
    if isinstance(value, Mapping):
        return _filled(value, prompt, labels)

    if "Bullish" in value:
        return "Bullish"

    if value == "<ratio>":
        return max(prompt.ratios(), default=1.0)

    return value


def _call(name: str, arguments: Mapping[str, Any]) -> Reply:
    return Reply("", (ToolCall("call_1", name, json.dumps(arguments)),), "tool_calls")


def _whole(schema: Mapping[str, Any]) -> Any:
    """Return a value that follows a schema, with all of what a list may name."""
    if schema["type"] == "object":
        return {name: _whole(part) for name, part in schema["properties"].items()}

    if schema["type"] == "array":
        return [*schema["items"]["enum"]]

    return "All of them, for the most bullish view."


def _least(schema: Mapping[str, Any]) -> Any:
    """Return the smallest value that follows a schema; of an enumeration its first."""
    if "enum" in schema:
        return schema["enum"][0]

    if schema["type"] == "object":
        properties = schema.get("properties", {})
        return {name: _least(properties[name]) for name in schema.get("required", ())}

    if schema["type"] == "array":
        return [_least(schema["items"])] * schema.get("minItems", 0)

    if schema["type"] in ("integer", "number"):
        return schema.get("minimum", 0)

    return ""
