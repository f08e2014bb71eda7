"""Submission form of tasks that ask for BUY, SELL or HOLD of each asset shown, and what these mean as orders."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jsonschema import Draft202012Validator

from ktdeval.harness.action import SUBMIT_TOOL, Reading, count_attempts, problem, read_valid
from ktdeval.harness.agent import HarnessConfig, Submission
from ktdeval.harness.messages import ToolSpec, encodable
from ktdeval.market.venue import Fees
from ktdeval.masking.lens import Lens
from ktdeval.trading.types import Order, Position, Side

HoldRule = Literal["keep", "flat"]  #: What HOLD means: the position stays, or there is none
# Of the weight, after the other side or at costs: what is owed is rounded up, and a reversal is filled whole or not at all.
_ROUNDED = 1 - 1e-6
_DESCRIPTION = "Submit this step's decisions. Call it once, with one decision for each asset."


class Target(NamedTuple):
    """What an asset comes to in a portfolio that is rebuilt."""

    weight: float  #: share of NAV, below 0 a short
    steps: int  #: the position that it leads to, in steps of the venue


Rebuild = Callable[[Mapping[int, int]], Mapping[int, Target]]
"""Sides decided on by asset (+1, -1, 0) -> targets by asset; one without a target is not traded."""


class Standing(NamedTuple):
    """An asset's position before a decision."""

    invested: float = 1.0  #: share of a weight that costs leave to invest
    weight: float = 0.0  #: size of the position, as a share of NAV
    closed: float = 0.0  #: share of it that the day before closed; 0 where it closed nothing


NOTHING_HELD = Standing()


class StanceRule(NamedTuple):
    """What BUY, SELL and HOLD mean as positions of an asset: BUY is a holding of `weight` of the NAV, SELL a short of it (where
    there are no short sales: nothing), HOLD as of its rule. Sides are +1, -1, or 0 for no position.
    """

    weight: float  #: share of NAV
    hold: HoldRule
    shorts: bool  #: whether the account may hold shorts
    sell_closes: bool = False  #: whether SELL of a holding only closes it, and a later one goes short
    #: parts, each no smaller than the one before, that decisions against a position on days in a row close of it, whose last one
    #: leaves no position; none: the first one ends it
    exit: tuple[int, ...] = ()

    @staticmethod
    def invested(fees: Fees, exposure: float) -> float:
        """Return the share of a weight that is left to invest once a position, worth `exposure` of the NAV, is closed and the next
        one opened, at the costs that are in basis points.
        """
        rate = max(fees.buy_bps, fees.sell_bps) / 1e4
        return max(0.0, 1.0 - rate * exposure) / (1.0 + rate)

    def side(self, decision: str, now: int) -> int:
        """Return the side that a decision ends on, from the side that is held now."""
        if decision == "HOLD":
            return 0 if self.hold == "flat" else now
        if decision == "BUY":
            return 1
        return 0 if not self.shorts or (self.sell_closes and now > 0) else -1

    def trade(self, side: int, now: int, standing: Standing = NOTHING_HELD) -> tuple[Side, float] | None:
        """Return direction and target weight of the order that changes sides, or closes a part; None where there is nothing to
        change. `standing`: the position before.
        """
        if side == now:
            return None
        if self.exit and now:
            return _direction(-now), now * min(standing.weight, 1.0) * (1.0 - self._part(standing.closed))
        invested = standing.invested
        return _direction(side - now), side * self.weight * invested * (_ROUNDED if side * now < 0 or invested < 1.0 else 1.0)

    def _part(self, closed: float) -> float:
        """Share of a holding that the next decision against it closes. The stage of an exit is the part whose share is nearest to
        what the day before closed, at the prices of both days: correct for 1, 2, 3 unless a price halves within the day.
        """
        shares = [part / sum(self.exit[index:]) for index, part in enumerate(self.exit)]
        return shares[1 + min(range(len(shares) - 1), key=lambda index: abs(shares[index] - closed)) if closed else 0]


def stance_schema(min_reason_chars: int) -> dict[str, Any]:
    """Return the JSON Schema of decisions as a model receives it, with the shortest reason that a task takes. It does not name its
    draft, whose address contains a date.
    """
    schema: dict[str, Any] = json.loads(Path(__file__).with_name("stance_schema.json").read_text("utf-8"))
    del schema["$schema"]
    schema["properties"]["decisions"]["items"]["properties"]["reason"]["minLength"] = min_reason_chars
    return schema


class StanceForm:
    """Form of decisions under one mask; `today` sets what they apply to, `StanceRule` what they mean. A position that is already on
    the side decided on stays as it is, whatever its weight: only a change of side trades, at once or in parts. Where `today` gives
    a `Rebuild`, the decisions are sides of a portfolio whose weights are its own: every position trades to its target, sells before
    buys and sells of holdings before short sales.
    """

    def __init__(self, config: HarnessConfig, lens: Lens, rule: StanceRule) -> None:
        schema = stance_schema(config.min_reason_chars)
        self._lens, self._rule = lens, rule
        self._validator = Draft202012Validator(schema)
        self._assets: frozenset[int] = frozenset()
        self._held: dict[int, int] = {}
        self._rebuild: Rebuild | None = None
        self._standing: Mapping[int, Standing] = {}
        self.tool = ToolSpec(SUBMIT_TOOL, _DESCRIPTION, copy.deepcopy(schema))  # an agent could change it in place
        """The tool that a model submits with."""

    def today(
        self,
        assets: Sequence[int],
        positions: Mapping[int, Position],
        rebuild: Rebuild | None = None,
        standing: Mapping[int, Standing] | None = None,
    ) -> None:
        """Set the assets (columns) shown at this step, what is held, the rebuild of the portfolio, if any, and how assets stand,
        where the rule needs it.
        """
        self._assets = frozenset(assets)
        self._held = {asset: held.shares for asset, held in positions.items()}
        self._rebuild, self._standing = rebuild, standing or {}

    def read(self, text: str) -> Reading:
        """Return the submission in `text`. Whatever it holds, the answer is a Reading."""
        value, feedback = read_valid(text, self._validator)
        if feedback is not None:
            return Reading(feedback, count_attempts(value, "decisions", self._lens))
        items = value["decisions"]
        assets = [self._lens.parse_asset(item["stock_id"]) for item in items]
        hidden = sum(
            asset is None and self._lens.is_hidden_identity(item["stock_id"]) for asset, item in zip(assets, items, strict=True)
        )
        if Counter(assets) != Counter(self._assets):
            return Reading(problem("schema", "decisions", "must have exactly one decision for each asset shown"), hidden)
        decisions = {asset: item for asset, item in zip(assets, items, strict=True) if asset is not None}
        trades = self._trades({asset: self._rule.side(item["decision"], self._side(asset)) for asset, item in decisions.items()})
        orders = tuple(
            Order(asset, side, float(decisions[asset]["confidence"]), encodable(decisions[asset]["reason"]), weight, None)
            for asset, side, weight in trades
        )
        return Reading(Submission(orders, encodable(value["overall_reason"]), ("",) * len(orders)), hidden)

    def _side(self, asset: int) -> int:
        steps = self._held.get(asset, 0)
        return (steps > 0) - (steps < 0)

    def _trades(self, sides: Mapping[int, int]) -> list[tuple[int, Side, float]]:
        """Return asset, side and target weight of what has to be traded for the sides decided on."""
        if self._rebuild is not None:
            targets = self._rebuild(sides)
            moves = [(asset, targets[asset].steps - self._held.get(asset, 0)) for asset in sides if asset in targets]
            trades = [(asset, _direction(move), targets[asset].weight) for asset, move in moves if move]
            return sorted(trades, key=lambda trade: trade[2] < 0.0)
        changes = [
            (asset, self._rule.trade(side, self._side(asset), self._standing.get(asset, NOTHING_HELD)))
            for asset, side in sides.items()
        ]
        return [(asset, *change) for asset, change in changes if change is not None]


def _direction(move: int) -> Side:
    return "BUY" if move > 0 else "SELL"
