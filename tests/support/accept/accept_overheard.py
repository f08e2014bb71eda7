"""A plugin for tests: models that keep every request they get, so that what left can be compared
with what was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from ktdeval.harness import Model, ModelRequest, ModelTraits, Reply, ToolCall, model_traits
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import load_plugins
from ktdeval.values import derive_seed

HEARD: list[ModelRequest] = []
"""Every request since it was last cleared, in order."""

IDENTITIES: list[str] = []
"""Text of `overheard/parrot`: the test fills in real codes, names, industries and dates of the
market.
"""


PURCHASES: list[str] = []
"""Stocks that `overheard/buyer` buys."""


class Overheard:
    """Passes requests on to another model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        traits = model_traits(model)
        self.traits = ModelTraits(draws_chance=traits.draws_chance, is_free=traits.is_free)

    def reply(self, request: ModelRequest) -> Reply:
        HEARD.append(request)
        return self.model.reply(request)


class Parrot:
    """Says real identities wherever a reply has room for text: content, reasoning, calls, their
    names, ids, keys and values.
    """

    traits = ModelTraits(draws_chance=True)

    def reply(self, request: ModelRequest) -> Reply:
        chance = np.random.default_rng(derive_seed(request.chance_seed, "parrot"))

        def word() -> str:
            return str(
                WRITERS[chance.integers(len(WRITERS))](IDENTITIES[chance.integers(len(IDENTITIES))])
            )

        content = (
            f"It is {word()}, that is {word()}; since {word()} I hold **{word()}** ({word()})."
        )

        if chance.random() < 0.25:
            return Reply(content, reasoning=content)

        order = {
            "stock_id": word(),
            "side": "BUY",
            "confidence": 0.5,
            "reason": f"buy {word()} before {word()} comes",
        }
        orders = [order | {"target_weight": 0.05} for _ in range(1 + int(chance.integers(3)))]

        if chance.random() < 0.5:
            orders[0] = {word(): word(), "target_weight": 0.1}

        digits = "".join(character for character in word() if character in "0123456789")
        submission = [
            json.dumps(
                {"orders": orders, "overall_reason": f"{word()} {word()}"},
                ensure_ascii=bool(chance.random() < 0.5),
            ),
            f"not JSON {word()} {{{word()}",
            json.dumps({"stock_id": int(digits or 0), "shares": [float(digits or 0), word()]}),
            f'{{"orders": [], "overall_reason": "{word()}\\n{word()}\\u0020{word()}"}}',
        ]
        arguments = [
            json.dumps({"stock_id": word(), "lookback": 5}),
            json.dumps({"target_weights": {word(): 0.1, word(): 0.2}}, ensure_ascii=False),
            json.dumps({word(): [word(), {word(): int(digits or 0)}]}),
            f"{word()} {word()}",
        ]
        research = ["get_stock_snapshot", "risk_check", "compare_candidates", word()]
        names, texts = (
            (["submit_action"], submission) if request.tool_choice else (research, arguments)
        )
        calls = tuple(
            ToolCall(
                f"{word()}-{number}",
                names[chance.integers(len(names))],
                texts[chance.integers(len(texts))],
            )
            for number in range(1 + int(chance.integers(3)))
        )

        return Reply(content, calls, "tool_calls", reasoning=content)


class Buyer:
    """Buys `PURCHASES` in equal parts when nothing is held, and then holds."""

    def reply(self, request: ModelRequest) -> Reply:
        state = json.loads(request.messages[1].content.split("```json\n")[1].split("\n```")[0])
        order = {
            "side": "BUY",
            "confidence": 0.5,
            "reason": "bought to be held",
            "target_weight": 0.98 / len(PURCHASES),
        }
        orders = (
            []
            if state["positions"]["rows"]
            else [{"stock_id": code, **order} for code in PURCHASES]
        )
        text = json.dumps({"orders": orders, "overall_reason": "held"})

        return Reply("", (ToolCall("call_1", "submit_action", text),), "tool_calls")


WRITERS: tuple[Callable[[str], str], ...] = (
    str, str, str, str.lower, str.upper,
    lambda text: text.split(".")[0],
    lambda text: ".".join(text.split(".")[::-1]),
    lambda text: "".join(text.split(".")[::-1]),
    lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    lambda text: "\u200b".join(text),
    lambda text: f"id_{text}",
    lambda text: f"{text}, {text}",
)  # fmt: skip
"""Ways to write an identity; codes come as `600519.SH`."""

_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "momentum": ("builtin/momentum", {}),
    "chaos": ("builtin/chaos", {}),
    "wild": ("builtin/chaos", {"misbehaviour": 0.95, "model_errors": 0.0}),
}


_OWN: dict[str, Callable[[], Model]] = {"parrot": Parrot, "buyer": Buyer}


def _make(name: str, params: Any = None) -> Model:
    if name in _OWN:
        return Overheard(_OWN[name]())

    model, arguments = _MODELS[name]
    return Overheard(load_plugins().make_model(model, arguments))


@hookimpl
def ktdeval_models() -> list[Spec]:
    return [
        Spec(f"overheard/{name}", _make, "a model whose requests are kept")
        for name in (*_MODELS, *_OWN)
    ]
