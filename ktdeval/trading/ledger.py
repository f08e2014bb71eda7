"""Ledger of one episode: orders as decided, fills as booked, and NAV after each day. This module
has values only; file handling is elsewhere.

Attributes ending in `_minor` are integers in the minor unit of the ledger's currency. For A-shares,
this is the fen (1/100 CNY).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.venues.venue import FillRule
from ktdeval.trading.market_rules import MarketRules
from ktdeval.trading.types import Provenance, Scale, Status
from ktdeval.values.documents.strict_json import JsonObject
from ktdeval.values.documents.typed_json import Value

#: integer as stored in a column of a ledger file
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


CONSTRAINT_AFTER_RETRIES = "constraint_after_retries"
"""Failure of a step whose last submission was in the required form but broke a trading rule."""


class CountsRecord(Value):
    """Counts of one step or sample, under the same names in all records."""

    failures: dict[str, Int64]  #: failure kind -> count; empty when nothing failed
    tool_calls: Int64  #: research tool calls
    tool_calls_valid: Int64  #: of these, calls that parsed and were dispatched
    submissions: Int64  #: number of times the model was asked to submit
    unmask_attempts: Int64  #: real identities that the model wrote although the mask hides them
    input_tokens: Int64  #: all input tokens
    output_tokens: Int64  #: all output tokens
    reasoning_tokens: Int64  #: part of the output tokens
    cache_read_tokens: Int64  #: part of the input tokens
    cache_write_tokens: Int64  #: part of the input tokens


class OrderRecord(Value, omit_defaults=True):
    """One order as decided (by a target weight, by shares, or by both under masks that round
    prices); the fields from `status` on describe its outcome (`ktdeval.trading.Outcome`).
    """

    code: str | None  #: None if the stock_id is not an asset
    #: as submitted if `code` is None, with hidden identities withheld; else None
    stock_id: str | None
    side: str
    confidence: float
    reason: str
    target_weight: float | None
    shares: Int64 | None
    status: Status
    rule: str | None
    message: str
    filled_shares: Int64
    price_ticks: Int64
    notional_minor: Int64
    fee_minor: Int64  #: commission and duties
    #: parts of the fee other than the commission: `stamp_duty`, `transfer_fee`, `sec_fee`,
    #: `finra_fee`, or the `levy` of a venue
    duties: dict[str, Int64] = msgspec.field(default_factory=dict)
    #: limit of the order, in prices of the decision day; None: no limit
    limit_ticks: Int64 | None = None


class CorporateActionRecord(Value):
    """A factor change applied to a holding; `cash_minor` is the cash in lieu."""

    code: str
    ratio: float
    shares_before: Int64
    shares_after: Int64
    cash_minor: Int64


class PositionRecord(Value):
    """One holding at a close; its `locked` shares were bought that day and can't be sold on it."""

    code: str
    shares: Int64
    locked: Int64
    price_ticks: Int64
    value_minor: Int64


class ChargeRecord(Value, omit_defaults=True):
    """Charge by the venue before the day's orders (`ktdeval.trading.Charge`); `cash_minor` is the
    change in cash, including costs.
    """

    kind: Literal["borrow", "margin_call"]
    code: str
    shares: Int64  #: shares borrowed; or bought (above 0) or sold by a margin call
    price_ticks: Int64
    cash_minor: Int64
    fee_minor: Int64
    #: parts of a margin call's fee, as in an order
    duties: dict[str, Int64] = msgspec.field(default_factory=dict)

    @property
    def side(self) -> str:
        """Side of a margin call, as in an order."""
        if self.shares > 0:
            return "BUY"
        return "SELL"

    @property
    def filled_shares(self) -> int:
        """Shares traded by a margin call; 0 for interest."""
        if self.kind != "margin_call":
            return 0
        return abs(self.shares)

    @property
    def notional_minor(self) -> int:
        """Notional of a margin call, excluding its costs; 0 for interest."""
        if self.kind != "margin_call":
            return 0
        return abs(self.cash_minor + self.fee_minor)

    @property
    def costs_minor(self) -> int:
        """Costs of a margin call, or the interest."""
        if self.kind == "margin_call":
            return self.fee_minor
        return -self.cash_minor


class WorkingRecord(Value, omit_defaults=True):
    """Remainder of an order that the day's volume cut; it stays in force on the next day."""

    code: str
    side: Literal["BUY", "SELL"]
    confidence: float
    reason: str
    shares: Int64
    limit_ticks: Int64 | None = None  #: as in an order


class StepRecord(CountsRecord, omit_defaults=True):
    """One step of an episode, in true (unmasked) identities. Positions and amounts are as of the
    close of `filled_on`.
    """

    step: Int64  #: 0, 1, 2 …
    decided_on: str  #: ISO day of the decision, which knew nothing after this day's close
    filled_on: str  #: ISO day of the fills and of the NAV; always later than `decided_on`
    provenance: Provenance  #: who decided
    overall_reason: str  #: the model's text, "" on a fallback
    orders: tuple[OrderRecord, ...]
    corporate_actions: tuple[CorporateActionRecord, ...]
    positions: tuple[PositionRecord, ...]  #: by code
    cash_minor: Int64
    holdings_minor: Int64
    nav_minor: Int64
    open_nav_minor: Int64  #: NAV marked at the fills' opens before any fill of the step
    charges: tuple[ChargeRecord, ...]  #: interest and margin calls before the day's orders
    #: remainders of earlier orders that worked on the fill day (`rest: carry`), placed before
    #: `orders`
    carried: tuple[OrderRecord, ...] = ()
    #: orders that work on the next day, unless they are replaced
    working: tuple[WorkingRecord, ...] = ()

    @property
    def fills(self) -> tuple[OrderRecord, ...]:
        """Orders that could fill on the day: those carried from earlier days, then the
        step's orders.
        """
        if not self.carried:
            return self.orders
        return self.carried + self.orders

    @property
    def traded_minor(self) -> int:
        """Notional of the step's fills, including margin calls."""
        by_orders = sum(order.notional_minor for order in self.fills)
        by_charges = sum(charge.notional_minor for charge in self.charges)
        return by_orders + by_charges

    @property
    def costs_minor(self) -> int:
        """Costs of the step's fills, including margin calls, and interest on shorts."""
        of_orders = sum([order.fee_minor for order in self.fills])
        if not self.charges:
            return of_orders
        return of_orders + sum(charge.costs_minor for charge in self.charges)

    @property
    def weights(self) -> dict[str, float]:
        """Value of each position at the close as a fraction of NAV, by code; negative for shorts.
        NaN if the NAV is not positive, since the fraction is then undefined.
        """
        nav = self.nav_minor if self.nav_minor > 0 else math.nan
        return {held.code: held.value_minor / nav for held in self.positions}


A_SHARE_SCALE = Scale()


@dataclass(frozen=True)
class Ledger:
    """All steps of an episode, with array columns for metrics.

    Example:
        ledger = ledger_of([step_record(snapshot, 0, 1)])
        ledger.returns.mean()  # 0.0
    """

    spec: JsonObject  #: the episode's spec (task, mask, window, seed, …) as JSON
    initial_cash_minor: int  #: initial value of the NAV series
    steps: Sequence[StepRecord]  #: step records in order
    currency: str = "CNY"  #: currency of all amounts
    minor_per_unit: int = 100  #: minor units per currency unit
    days_a_year: int = 252  #: trading days per year for annualised figures
    #: units of codes that are not A-shares
    scales: Mapping[str, Scale] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))  # shared by all metrics

    def scale(self, code: str | None) -> Scale:
        """Return the units of a code's prices and quantities. These are A-share units, unless the
        code has its own.
        """
        return self.scales.get(code or "", A_SHARE_SCALE)

    def fill(self, code: str) -> FillRule | None:
        """Return the rule for a code's fill price; None for A-shares, which fill at the
        next open.
        """
        if not self.scales:
            return None
        return self.scale(code).fill

    def in_units_of(self, market: MarketSnapshot, rules: MarketRules) -> Ledger:
        """Return the ledger with a market's currency and units under these rules."""
        if rules.has_boards and all(scale == A_SHARE_SCALE for scale in rules.scales):
            return self

        traded: set[str | None] = set()
        for step in self.steps:
            traded.update(order.code for order in step.fills)

        scales = {}
        for code, scale in zip(market.codes, rules.scales, strict=True):
            if code in traded:
                scales[code] = scale

        years = market.days_a_year_of(self.days)

        return Ledger(
            self.spec,
            self.initial_cash_minor,
            self.steps,
            rules.currency,
            rules.minor_per_unit,
            years,
            scales,
        )

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """Return an integer attribute of the step records as int64 values. Shape: [steps]."""
        return np.array([getattr(step, name) for step in self.steps], dtype=np.int64)

    @cached_property
    def nav(self) -> npt.NDArray[np.float64]:
        """NAV in currency units: the initial cash, then the NAV at each fill day's close. Shape:
        [steps + 1].
        """
        in_minor = np.concatenate([[self.initial_cash_minor], self.column("nav_minor")])
        nav = in_minor / float(self.minor_per_unit)
        nav.setflags(write=False)  # all metrics share these arrays
        return nav

    @cached_property
    def returns(self) -> npt.NDArray[np.float64]:
        """Simple daily returns of the NAV. Shape: [steps]."""
        returns = self.nav[1:] / self.nav[:-1] - 1.0
        returns.setflags(write=False)
        return returns

    @property
    def return_resolution(self) -> float:
        """Smallest daily return that amounts in minor units can represent: one minor unit divided
        by the lowest positive NAV.

        A NAV is rounded to minor units, so each return is known only to this precision. Variation
        of returns below this value is rounding error. 0 if no NAV is positive.
        """
        positive = self.nav[self.nav > 0.0]
        if not len(positive):
            return 0.0
        return 1.0 / (float(positive.min()) * self.minor_per_unit)

    @cached_property
    def days(self) -> npt.NDArray[np.datetime64]:
        """Fill days. Shape: [steps]."""
        days = np.array([step.filled_on for step in self.steps], dtype="datetime64[D]")
        days.setflags(write=False)
        return days

    @property
    def base_day(self) -> np.datetime64:
        """Day of the first decision; its close is the base for benchmark returns."""
        return np.datetime64(self.steps[0].decided_on, "D")
