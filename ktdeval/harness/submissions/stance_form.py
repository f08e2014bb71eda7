"""Submission form for tasks that ask for BUY, SELL or HOLD on each asset shown, and the orders that
follow from a submission.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ktdeval.harness.agent import HarnessConfig, Submission
from ktdeval.harness.chat_messages import ToolSpec, encodable
from ktdeval.harness.steps.step_schema import decisions_of, with_schema
from ktdeval.harness.submissions.submission_form import (
    SUBMIT_TOOL,
    SubmissionForm,
    SubmissionReading,
    count_attempts,
    problem,
    read_valid,
)
from ktdeval.harness.submissions.submission_schema import SubmissionSchema
from ktdeval.harness.tools.reading import with_side_words
from ktdeval.market.venues.venue import Fees
from ktdeval.masking.lens import Lens
from ktdeval.observation.state import ObservedState
from ktdeval.trading.types import Order, Position, Side

HoldRule = Literal["keep", "flat"]  #: meaning of HOLD: keep the position, or close it
# Share of a weight that is ordered after the opposite side is closed, or after costs. Since costs
# are rounded up and a reversal is filled whole or not at all, an order for the full weight could
# fail by a cent.
_ROUNDED = 1 - 1e-6
_MAX_NAMED = 20  # maximum number of labels listed in feedback
_DESCRIPTION = "Submit this step's decisions. Call it once, with one decision for each asset."


@dataclass(frozen=True, slots=True)
class Target:
    """Target position of an asset when a portfolio is rebuilt."""

    weight: float  #: share of NAV; negative for a short position
    steps: int  #: the resulting position, in steps of the venue


Rebuild = Callable[[Mapping[int, int]], Mapping[int, Target]]
"""Sides decided on by asset (+1, -1, 0) -> targets by asset; one without a target is not traded."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An asset's position before a decision."""

    invested: float = 1.0  #: share of a weight that is left to invest after costs
    weight: float = 0.0  #: size of the position, as a share of NAV
    #: share of the position that was closed on the previous day; 0 if nothing was closed
    closed: float = 0.0


NOTHING_HELD = Standing()


@dataclass(frozen=True, slots=True)
class _StanceOrder:
    """Order that follows from a decision."""

    asset: int
    side: Side
    weight: float  #: target share of NAV


@dataclass(frozen=True, slots=True)
class StanceRule:
    """Meaning of BUY, SELL and HOLD as positions in an asset. BUY is a long position of `weight` of
    the NAV. SELL is a short position of the same size, or no position if short sales are not
    allowed. `hold` defines HOLD. Sides are +1, -1, or 0 for no position.
    """

    weight: float  #: share of NAV
    hold: HoldRule
    shorts: bool  #: True if the account may hold short positions
    #: True if SELL of a holding only closes the holding, so that only a later SELL opens a short
    #: position
    sell_closes: bool = False
    #: parts of a position, in non-decreasing order: each decision against the position on
    #: consecutive days closes the next part, and the last decision closes the rest. Empty: the
    #: first decision closes the whole position.
    exit: tuple[int, ...] = ()

    @staticmethod
    def compute_invested(fees: Fees, exposure: float) -> float:
        """Return the share of a weight that is left to invest after a position worth `exposure` of
        the NAV is closed and the next position is opened, given the costs in basis points.
        """
        rate = max(fees.buy_bps, fees.sell_bps) / 1e4
        return max(0.0, 1.0 - rate * exposure) / (1.0 + rate)

    def side(self, decision: str, now: int) -> int:
        """Return the side that follows from a decision, given the side held now."""
        if decision == "HOLD":
            return 0 if self.hold == "flat" else now
        if decision == "BUY":
            return 1

        only_closes = self.sell_closes and now > 0
        if only_closes or not self.shorts:
            return 0
        return -1

    def trade(
        self, side: int, now: int, standing: Standing = NOTHING_HELD
    ) -> tuple[Side, float] | None:
        """Return the direction and target weight of the order that changes sides or closes part of
        the position; None if nothing changes. `standing` is the position before the decision.
        """
        if side == now:
            return None
        if self.exit and now:
            left = 1.0 - self._part(standing.closed)
            return _direction(-now), now * min(standing.weight, 1.0) * left

        is_reversal = side * now < 0
        rounded = _ROUNDED if is_reversal or standing.invested < 1.0 else 1.0
        return _direction(side - now), side * self.weight * standing.invested * rounded

    def _part(self, closed: float) -> float:
        """Return the share of a position that the next decision against it closes. `closed` is the
        share that was closed on the previous day; the part nearest to this share is taken as the
        part closed last. This is correct for parts 1, 2, 3 unless a price halves within the day.
        """
        shares: list[float] = []
        for index, part in enumerate(self.exit):
            shares.append(part / sum(self.exit[index:]))

        if not closed:
            return shares[0]

        last = min(range(len(shares) - 1), key=lambda index: abs(shares[index] - closed))
        return shares[last + 1]


def stance_schema(min_reason_chars: int, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON Schema of decisions as a model receives it, including the task's minimum
    reason length. It requires one decision on each of `labels`, or accepts any labels if none are
    given. It does not specify its draft, since the draft's address contains a date.
    """
    text = Path(__file__).with_name("stance_schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    del schema["$schema"]
    decision = schema["properties"]["decisions"]["items"]
    decision["properties"]["reason"]["minLength"] = min_reason_chars

    return decisions_of(schema, labels)


class StanceForm(SubmissionForm):
    """Form for decisions under one mask. `today` sets the assets to which the decisions apply, and
    `StanceRule` defines their meaning.

    A position that is already on the decided side stays unchanged, whatever its weight. Only a
    change of side trades, either at once or in parts. If `today` receives a `Rebuild`, the
    decisions are the sides of a portfolio whose weights the rebuild determines. Every position then
    trades to its target, with sells before buys, and sales of holdings before short sales.
    """

    def __init__(self, config: HarnessConfig, lens: Lens, rule: StanceRule) -> None:
        schema = stance_schema(config.min_reason_chars)
        self._lens = lens
        self._rule = rule
        self._schema = SubmissionSchema(schema)
        self._assets: tuple[int, ...] = ()
        self._held: dict[int, int] = {}
        self._rebuild: Rebuild | None = None
        self._standing: Mapping[int, Standing] = {}
        self._closed: frozenset[int] = frozenset()
        # an agent could change the schema in place
        self.tool = ToolSpec(SUBMIT_TOOL, _DESCRIPTION, copy.deepcopy(schema))
        """The tool that a model submits with."""

    def today(
        self,
        assets: Sequence[int],
        positions: Mapping[int, Position],
        rebuild: Rebuild | None = None,
        standing: Mapping[int, Standing] | None = None,
        closed: frozenset[int] = frozenset(),
    ) -> None:
        """Set the assets (columns) shown at this step and the positions held. Also set the
        portfolio rebuild if there is one, and the positions before the decision if the rule needs
        them. `closed` contains the assets that this step's orders can't trade; a decision on one of
        these creates no order.
        """
        self._assets = tuple(assets)
        self._held = {asset: held.shares for asset, held in positions.items()}
        self._rebuild = rebuild
        self._standing = standing or {}
        self._closed = closed

    def tool_for(self, _state: ObservedState, _researches: bool, /) -> ToolSpec:
        """Return the submit tool for one step, with one decision on each asset shown, as set by
        `today`.
        """
        return with_schema(self.tool, decisions_of(self.tool.parameters, self._labels))

    @property
    def _labels(self) -> list[str]:
        """Labels of the assets shown at this step, in display order."""
        return [self._lens.asset_handle(asset) for asset in self._assets]

    def read(self, text: str) -> SubmissionReading:
        """Return the submission in `text`, or the feedback that explains why it was rejected."""
        value, feedback = read_valid(text, self._schema, with_side_words)
        if feedback is not None:
            return SubmissionReading(feedback, count_attempts(value, "decisions", self._lens))

        decisions: dict[int, Mapping[str, Any]] = {}
        named: list[int | None] = []
        hidden = 0
        for item in value["decisions"]:
            label = item["stock_id"]
            asset = self._lens.parse_asset(label)
            named.append(asset)
            if asset is not None:
                decisions[asset] = item
            elif self._lens.is_hidden_identity(label):
                hidden += 1

        if Counter(named) != Counter(self._assets):
            return SubmissionReading(
                problem("schema", "decisions", self._explain_miscount(named)), hidden
            )

        orders = tuple(self._orders(decisions))
        overall_reason = encodable(value["overall_reason"])
        return SubmissionReading(Submission(orders, overall_reason, ("",) * len(orders)), hidden)

    def _explain_miscount(self, named: Sequence[int | None]) -> str:
        """Return the rule that decisions on the given assets break, and where. The rule names the
        assets without a decision, the assets with several decisions, and the number of decisions on
        assets that are not shown.
        """
        counts = Counter(named)
        lacking: list[str] = []
        repeated: list[str] = []
        for asset, label in zip(self._assets, self._labels, strict=True):
            if not counts[asset]:
                lacking.append(label)
            elif counts[asset] > 1:
                repeated.append(label)

        faults: list[str] = []
        if lacking:
            faults.append(f"lacks {_listed_labels(lacking)}")
        if repeated:
            faults.append(f"has more than one for {_listed_labels(repeated)}")

        others = sum(count for asset, count in counts.items() if asset not in self._assets)
        if others:
            faults.append(f"has {others} for no asset shown; leave out what is not shown")

        rule = "must have exactly one decision for each asset shown"
        return f"{rule}: {', '.join(faults)}"

    def _orders(self, decisions: Mapping[int, Mapping[str, Any]]) -> Iterator[Order]:
        """Yield the orders that follow from decisions, which are keyed by asset."""
        sides: dict[int, int] = {}
        for asset, item in decisions.items():
            sides[asset] = self._rule.side(item["decision"], self._side(asset))

        for trade in self._trades(sides):
            if trade.asset in self._closed:
                continue

            item = decisions[trade.asset]
            yield Order(
                asset=trade.asset,
                side=trade.side,
                confidence=float(item["confidence"]),
                reason=encodable(item["reason"]),
                target_weight=trade.weight,
                shares=None,
            )

    def _side(self, asset: int) -> int:
        """Return the side that is held now."""
        steps = self._held.get(asset, 0)
        return (steps > 0) - (steps < 0)

    def _trades(self, sides: Mapping[int, int]) -> list[_StanceOrder]:
        """Return the orders that reach the decided sides."""
        if self._rebuild is not None:
            return self._rebuilding(sides, self._rebuild(sides))

        trades: list[_StanceOrder] = []
        for asset, side in sides.items():
            standing = self._standing.get(asset, NOTHING_HELD)
            change = self._rule.trade(side, self._side(asset), standing)
            if change is not None:
                trades.append(_StanceOrder(asset, *change))

        return trades

    def _rebuilding(
        self, sides: Mapping[int, int], targets: Mapping[int, Target]
    ) -> list[_StanceOrder]:
        """Return the orders that reach the targets, in the order of the decisions, with short sales
        last.
        """
        trades: list[_StanceOrder] = []
        for asset in sides:
            if asset not in targets:
                continue

            target = targets[asset]
            move = target.steps - self._held.get(asset, 0)
            if move:
                trades.append(_StanceOrder(asset, _direction(move), target.weight))

        return sorted(trades, key=lambda trade: trade.weight < 0.0)


def _listed_labels(labels: Sequence[str]) -> str:
    """Return the first labels as a comma-separated string, followed by the number of remaining
    labels.
    """
    text = ", ".join(labels[:_MAX_NAMED])
    if len(labels) > _MAX_NAMED:
        text += f" and {len(labels) - _MAX_NAMED} more"
    return text


def _direction(move: int) -> Side:
    return "BUY" if move > 0 else "SELL"
