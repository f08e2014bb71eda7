"""A market that differs from another one below the digits of a mask, and models that ask all that
can be asked about prices.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from typing import Any

import numpy as np

from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.aliases_and_noise import first_levels, round_each, round_significant


def scaled_below(market: MarketSnapshot, base_row: int, digits: int) -> MarketSnapshot:
    """The same market, with the prices of each asset multiplied by a number that its close of
    `base_row` at so many digits does not show, and its volumes divided by it; amounts stay.
    """
    scale = np.ones(len(market.codes))

    for asset in range(len(market.codes)):
        known = market.close[: base_row + 1, asset]
        level = float(known[np.isfinite(known)][-1])
        shown = round_significant(level, digits)
        half = 0.5 * 10.0 ** (np.floor(np.log10(shown)) - digits + 1)
        # To the far side of what the digits leave open.
        target = shown + 0.9 * half if level < shown else shown - 0.9 * half
        if round_significant(target, digits) == shown:
            scale[asset] = target / level

    prices = {name: getattr(market, name) * scale for name in ("open", "high", "low", "close")}

    return replace(market, **prices, volume=market.volume / scale)


def moved_below(market: MarketSnapshot, base_row: int, digits: int) -> MarketSnapshot:
    """The same market, with each price, volume and amount of each bar moved by a chance of its own
    within what so many digits of rebased prices leave open. Closes of `base_row`, which prices are
    rebased to, stay, and so do bars of large moves, which may be at a price limit.
    """
    chance = np.random.default_rng(3)
    scale = 100.0 / first_levels(market.close, base_row)
    moves = np.abs(np.diff(market.adjusted_close, axis=0, prepend=np.nan))
    is_large = ~(moves < 0.07 * market.adjusted_close)
    is_large[:-1] |= is_large[1:]
    is_large[base_row] = True

    def shown(values: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
        once = round_each(values * unit, digits)
        twice = round_each(round_each(values * unit, 4), digits)
        return np.stack([once, twice])

    def moved(values: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
        for size in (0.0002, 0.001, 0.004):
            other = values * (1.0 + chance.uniform(-size, size, values.shape))
            same = (shown(other, unit) == shown(values, unit)).all(axis=0)
            values = np.where(same & ~is_large, other, values)
        return values

    bars = {name: moved(getattr(market, name), scale) for name in ("open", "high", "low", "close")}
    volume = moved(market.volume, 1.0 / scale)
    return replace(market, **bars, volume=volume, amount=moved(market.amount, 1.0))


class Prober:
    """Asks and orders at random, every choice a function of all that it was shown: bisections,
    plans of twenty names, weights with nine digits, orders in shares, orders that break rules.
    `most`: of NAV that it plans to hold.
    """

    def __init__(self, most: float = 0.7) -> None:
        self.most = most
        self.requests: list[str] = []

    def reply(self, request: ModelRequest) -> Reply:
        text = json.dumps([message.to_json() for message in request.messages], sort_keys=True)
        self.requests.append(text)
        chance = random.Random(hashlib.sha256(text.encode()).hexdigest())
        conversation = Conversation(request)
        state = conversation.state
        held = {row["stock_id"]: row for row in conversation.rows(state["positions"])}
        names = [
            row["stock_id"]
            for row in conversation.rows(
                conversation.result("screen_candidates").get("candidates", {})
            )
        ]

        if not conversation.is_submission and not names:
            factors = [chance.choice(("MOM_12_1", "-RV_60", "SKEW", "return_5d_pct"))]
            return conversation.call([("screen_candidates", {"factors": factors, "k": 30})])

        if not conversation.is_submission and conversation.calls_made < 8:
            weights = {
                name: round(chance.uniform(0.0, 0.12), 9)
                for name in chance.sample(sorted({*names, *held}), 12)
            }
            calls = [("risk_check", {"target_weights": weights}), ("portfolio_state", {})]
            calls += [("get_stock_snapshot", {"stock_id": chance.choice(names), "lookback": 20})]
            return conversation.call(calls)

        orders: list[Any] = []
        invested = sum(row["weight"] for row in held.values())
        for name in chance.sample(names, min(6, len(names))):
            order = {
                "stock_id": name,
                "side": "BUY",
                "confidence": 0.5,
                "reason": "to see what comes back",
            }
            kind = chance.random()
            weight = round(chance.uniform(0.0005, 0.11), 9)
            if kind < 0.2:
                order["shares"] = round(chance.uniform(1.0, 2000.0), 3)
            else:
                order["target_weight"] = weight

            if invested + 0.11 < self.most:
                invested += 0.11
                orders.append(order)

        for name in chance.sample(sorted(held), len(held) // 2):
            target = chance.choice((0.0, round(chance.uniform(0.0, held[name]["weight"]), 9)))
            order = {
                "stock_id": name,
                "side": "SELL",
                "confidence": 0.5,
                "reason": "to see what comes back",
                "target_weight": target,
            }
            orders.append(order)

        return conversation.submit(orders, "what comes back tells a price")
