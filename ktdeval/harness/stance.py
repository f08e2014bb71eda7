"""Submission form of tasks that ask for BUY, SELL or HOLD of each asset shown, and what these mean as orders."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import islice
from typing import Any, Literal

from jsonschema import Draft202012Validator

from ktdeval.harness.action import MAX_PROBLEMS, SUBMIT_TOOL, Reading, not_of_schema, problem, read_json
from ktdeval.harness.agent import HarnessConfig, Submission
from ktdeval.harness.messages import ToolSpec, encodable
from ktdeval.masking.lens import Lens
from ktdeval.trading.types import Order, Position

HoldRule = Literal["keep", "flat"]  #: What HOLD means: the position stays, or there is none
_REVERSED = (
    1 - 1e-6
)  # of the weight, after the other side: what is owed is rounded up, and a reversal is filled whole or not at all
_DESCRIPTION = "Submit this step's decisions. Call it once, with one decision for each asset."


class StanceForm:
    """Reads decisions under one mask; `today` says what they are about. BUY is a holding of `weight` of the NAV, SELL a short of it
    (where there are no short sales: nothing), HOLD as of its rule. A position that is already on the side decided on stays as it
    is, whatever its weight: only a change of side trades.
    """

    def __init__(self, config: HarnessConfig, lens: Lens, weight: float, hold: HoldRule, shorts: bool) -> None:
        text = resources.files("ktdeval.harness").joinpath("stance_schema.json").read_text("utf-8")
        schema: dict[str, Any] = json.loads(text)
        schema["properties"]["decisions"]["items"]["properties"]["reason"]["minLength"] = config.min_reason_chars
        self._lens, self._weight, self._hold, self._shorts = lens, weight, hold, shorts
        self._validator = Draft202012Validator(schema)
        self._assets: frozenset[int] = frozenset()
        self._held: dict[int, int] = {}
        shown = copy.deepcopy(schema)
        del shown["$schema"]
        self.tool = ToolSpec(SUBMIT_TOOL, _DESCRIPTION, shown)
        """The tool that a model submits with."""

    def today(self, assets: Sequence[int], positions: Mapping[int, Position]) -> None:
        """Say which assets (columns) are shown at this step, and what is held."""
        self._assets = frozenset(assets)
        self._held = {asset: held.shares for asset, held in positions.items()}

    def read(self, text: str) -> Reading:
        """Return the submission in `text`. Whatever it holds, the answer is a Reading."""
        value = read_json(text)
        if isinstance(value, Submission):
            return Reading(value)
        if errors := list(islice(self._validator.iter_errors(value), MAX_PROBLEMS)):
            return Reading(not_of_schema(errors))
        return self._read(value)

    def _read(self, value: Mapping[str, Any]) -> Reading:
        items = value["decisions"]
        assets = [self._lens.parse_asset(item["stock_id"]) for item in items]
        hidden = sum(
            asset is None and self._lens.is_hidden_identity(item["stock_id"]) for asset, item in zip(assets, items, strict=True)
        )
        if Counter(assets) != Counter(self._assets):
            return Reading(problem("schema", "decisions", "must have exactly one decision for each asset shown"), hidden)
        orders = [self._order(asset, item) for asset, item in zip(assets, items, strict=True) if asset is not None]
        given = tuple(order for order in orders if order is not None)
        return Reading(Submission(given, encodable(value["overall_reason"]), ("",) * len(given)), hidden)

    def _order(self, asset: int, item: Mapping[str, Any]) -> Order | None:
        """Return the order that a decision comes to; None where the position is already that."""
        now = self._held.get(asset, 0)
        if item["decision"] == "HOLD":
            wanted = 0 if self._hold == "flat" else now
        else:
            wanted = 1 if item["decision"] == "BUY" else -1 if self._shorts else 0
        if (wanted > 0) == (now > 0) and (wanted < 0) == (now < 0):
            return None
        side: Literal["BUY", "SELL"] = "BUY" if wanted > 0 or (wanted == 0 and now < 0) else "SELL"
        weight = wanted * self._weight * (_REVERSED if wanted * now < 0 else 1.0)
        return Order(asset, side, float(item["confidence"]), encodable(item["reason"]), weight, None)
