"""Models that decide by rule, each differently, for elections: what a run of theirs submits can be
counted by hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest

SIDES = ("BUY", "SELL", "HOLD")


def draw(*parts: object) -> int:
    """Return a number that looks drawn and follows from its parts."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16)


def stance_model(name: str, fails_on: frozenset[str] = frozenset()) -> Callable[..., str]:
    """Return a model that decides BUY, SELL or HOLD of each asset by day and name; on some days its
    call fails.
    """

    def decide(request: ModelRequest) -> str:
        assert request.state is not None

        day = request.state.day
        if day in fails_on:
            raise ModelError("bad_response", "no reply")

        decisions = []
        for label in request.state.assets:
            side = SIDES[draw(name, day) % 3]
            confidence = draw(name, day, "confidence") % 100 / 100
            decisions.append(
                {"stock_id": label, "decision": side, "confidence": confidence, "reason": label * 3}
            )

        return json.dumps({"decisions": decisions, "overall_reason": f"by {name}"})

    decide.__name__ = name

    return decide


def order_model(name: str) -> Callable[..., str]:
    """Return a model that orders some of the assets shown, by day, price and name: what it orders
    does not depend on labels.
    """

    def decide(request: ModelRequest) -> str:
        return json.dumps({"orders": list(orders(request)), "overall_reason": f"by {name}"})

    def orders(request: ModelRequest) -> Iterator[dict[str, Any]]:
        assert request.state is not None

        for label, asset in request.state.assets.items():
            seed = (name, request.state.day, asset.price)
            which = draw(*seed) % 4
            if which == 3:
                continue

            is_sale = which == 2
            weight = 0.05 + draw(*seed, "weight") % 9 / 100
            yield {
                "stock_id": label,
                "side": "SELL" if is_sale else "BUY",
                "confidence": draw(*seed, "confidence") % 100 / 100,
                "reason": "by day and price",
                "target_weight": 0.0 if is_sale else weight,
            }

    decide.__name__ = name

    return decide
