"""Orders, outcomes and positions: the values that the executor and the ledger use.

Money is in integer minor units of the account's currency (fen, 1/100 CNY, in A-shares). Prices are
in integer ticks (1/10,000 CNY, fine enough for adjusted prices without a factor). Quantities are in
integer steps of the instrument's venue (whole A-shares, 1/10,000 of a US share, 1e-8 of a coin).
`ktdeval.market.venues.venue` defines how these units are related. All quantities called shares are
in steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct

from ktdeval.errors import ConfigError
from ktdeval.market.rules.fees import is_dated
from ktdeval.market.venues.execution import Execution, ExecutionName, find_execution
from ktdeval.market.venues.venue import Fees, FillRule, Venue, find_venue
from ktdeval.values.options.config_options import build, option

Side = Literal["BUY", "SELL"]
BoardRuleSet = Literal["paper", "exchange"]
"""Rules of the A-share boards. `paper` (KTD-Fin, Appendix H): a constant limit by board, with
trading stopped `limit_buffer_pct` before it, one lot size, and flat costs. `exchange`: the limits,
listings and order sizes in force on each day (`ktdeval.market.rules.board_rules`). The day's stamp
duty and transfer fee (`ktdeval.market.rules.fees`) are charged in addition to the commission.
"""

EXECUTION_HELP = (
    "what fills cost beyond commission and duties: none, spread, sqrt (spread, square-root impact"
    " and at most a tenth of the day's volume), or own coefficients; null: the venue's setting,"
    " by default none"
)
LIMIT_HELP = (
    "orders may have a limit, a price that a buy does not exceed and a sell does not fall below"
)


@dataclass(frozen=True)
class TradingConfig:
    """Costs, lots and limits. Part of every task config and thus of the card. Costs, lots and the
    limit buffer are for A-shares; other venues define their own.

    Example:
        TradingConfig(max_positions=5, max_weight=0.2)
    """

    # KTD-Fin §3.1: CNY 1,000,000
    initial_cash: int = option(
        1_000_000, help="starting cash in units of the account's currency", minimum=1
    )
    # KTD-Fin §3.1: 5 bps of a buy
    buy_fee_bps: float = option(
        5.0,
        help=(
            "cost of a buy in basis points of its notional; under board_rules exchange the"
            " commission of both sides"
        ),
        minimum=0,
        maximum=1000,
    )
    # KTD-Fin §3.1: 15 bps of a sell
    sell_fee_bps: float = option(
        15.0,
        help="cost of a sell in basis points of its notional, with the stamp duty",
        minimum=0,
        maximum=1000,
    )
    # KTD-Fin §3.1: at least CNY 5 an order
    min_fee_cny: float = option(5.0, help="smallest cost of a filled order in CNY", minimum=0)
    # Trading Rules of SSE and SZSE: orders of 100 shares or a multiple
    lot_shares: int = option(100, help="shares in a lot; buys are whole lots", minimum=1)
    # SSE Special Provisions on Trading on the STAR Market (2019)
    star_min_shares: int = option(200, help="smallest buy on the STAR board in shares", minimum=1)
    # KTD-Fin Appendix H: a small buffer below the board's limit
    limit_buffer_pct: float = option(
        0.5,
        help="percentage points short of the board's daily limit at which trading stops",
        minimum=0,
        maximum=5,
    )
    # KTD-Fin Appendix I, as is the next option
    max_positions: int = option(20, help="largest number of names held at once", minimum=1)
    max_weight: float = option(
        0.10,
        help="largest weight of one name that a buy may reach, as a share of NAV",
        minimum=0.001,
        maximum=1,
    )
    constraint_feedback: bool = option(
        False,
        help=(
            "return a submission with feedback for a retry if one of its orders is already known"
            " to break a rule"
        ),
    )
    venue: Venue | None = option(None, help="venue of all assets; null: each one's own")
    board_rules: BoardRuleSet = option(
        "paper",
        help=(
            "rules of A-share boards: paper (constant limits, lots of lot_shares, flat costs) or"
            " exchange (limits, lots, stamp duty and transfer fee in force on each day)"
        ),
    )

    execution: ExecutionName | Execution | None = option(None, help=EXECUTION_HELP, is_silent=True)
    limit_orders: bool = option(False, help=LIMIT_HELP, is_silent=True)

    def __post_init__(self) -> None:
        if self.execution is not None:
            object.__setattr__(self, "execution", find_execution(self.execution))
        if self.board_rules == "paper":
            return

        own: dict[str, float] = {
            "lot_shares": self.lot_shares,
            "star_min_shares": self.star_min_shares,
            "limit_buffer_pct": self.limit_buffer_pct,
        }
        if self.venue is None or is_dated(self.venue):
            own["sell_fee_bps"] = self.sell_fee_bps

        usual = {field.name: field.default for field in dataclasses.fields(self)}
        for name, value in own.items():
            if value != usual[name]:
                raise ConfigError(
                    f"trading: {name} applies only to board_rules paper; with exchange, board and"
                    " day set it: leave it out"
                )


@dataclass(frozen=True)
class AccountConfig:
    """Account of a task on any market. Like the rules of the venue that it names, it is part of the
    task's config and thus of the card.
    """

    initial_cash: int = option(
        100_000, help="starting cash in units of the market's currency", minimum=1
    )
    venue: str | None = option(
        None, help="venue whose rules all assets trade under; null: each asset under its own"
    )
    fees: Fees | None = option(None, help="costs instead of the venue's; null: the venue's own")
    fill: FillRule | None = option(
        None, help="price of fills instead of the venue's; null: the venue's own"
    )
    max_positions: int = option(20, help="largest number of names held at once", minimum=1)
    max_weight: float = option(
        0.25, help="largest weight of one name that an order may reach", minimum=0.001, maximum=1
    )
    constraint_feedback: bool = option(
        False,
        help=(
            "return a submission with feedback for a retry if one of its orders is already known"
            " to break a rule"
        ),
    )
    board_rules: BoardRuleSet = option(
        "exchange",
        help=(
            "rules of A-share boards: exchange (limits, lots, stamp duty and transfer fee in force"
            " on each day) or paper (constant limits, lots of 100, flat costs)"
        ),
    )
    execution: ExecutionName | Execution | None = option(None, help=EXECUTION_HELP, is_silent=True)
    limit_orders: bool = option(False, help=LIMIT_HELP, is_silent=True)

    def __post_init__(self) -> None:
        if self.execution is not None:
            object.__setattr__(self, "execution", find_execution(self.execution))

    def rules(self, where: str) -> TradingConfig:
        """Return the rules for the executor. Raises ConfigError if costs or a fill rule are given
        without their venue.
        """
        own = {
            name: value for name in ("fees", "fill") if (value := getattr(self, name)) is not None
        }
        if own and self.venue is None:
            raise ConfigError(
                f"{where}: {' and '.join(own)}: name the venue whose rules they replace"
            )

        venue = None if self.venue is None else dataclasses.replace(find_venue(self.venue), **own)
        shared = (
            "initial_cash",
            "max_positions",
            "max_weight",
            "constraint_feedback",
            "board_rules",
            "execution",
            "limit_orders",
        )
        rules = TradingConfig(**{name: getattr(self, name) for name in shared}, venue=venue)
        if venue is None or self.fees is None or not venue.has_boards:
            return rules
        return _with_costs(rules, self.fees, where)


def _with_costs(rules: TradingConfig, fees: Fees, where: str) -> TradingConfig:
    """Return A-share rules with costs specified by a task. Raises ConfigError if A-shares do not
    have one of these costs.
    """
    own = ("buy_bps", "sell_bps", "minimum")
    for field in dataclasses.fields(fees):
        if field.name not in own and getattr(fees, field.name) != field.default:
            raise ConfigError(
                f"{where}: fees.{field.name}: costs of A-shares are {', '.join(own)}; leave it out"
            )

    return dataclasses.replace(
        rules,
        buy_fee_bps=fees.buy_bps,
        sell_fee_bps=fees.sell_bps,
        min_fee_cny=fees.minimum,
    )


def trading_rules(mapping: Mapping[str, Any], where: str) -> TradingConfig:
    """Return the rules that result from a card's `trading` options: A-share rules, or the rules of
    an account on any market. Raises ConfigError if the options are invalid; the message starts with
    `where`.
    """
    # A-share costs are options of the task. On any other market, the venue defines them.
    if "buy_fee_bps" in mapping:
        return build(TradingConfig, mapping, where)
    return build(AccountConfig, mapping, where).rules(where)


Status = Literal["filled", "partially_filled", "rejected"]


class Order(Struct, frozen=True, gc=False):
    """One order as decided, with a target weight (fraction of NAV, 0..1; negative for a short) or a
    number of shares. `asset` is None if the `stock_id` is unknown. An order with both was sized at
    the decision: its shares are derived from the weight, and are 0 if the weight was already
    reached. A limit is in decision-day prices and is good for the fill day.

    Example:
        Order(0, "BUY", 0.7, "it fell below its mean", target_weight=0.1)
    """

    asset: int | None
    side: Side
    confidence: float
    reason: str
    target_weight: float | None = None
    shares: int | None = None
    limit_ticks: int | None = None


class Outcome(Struct, frozen=True, gc=False):
    """Outcome of one order. `rule` is None if the order was filled completely. If the order was
    rejected, `shares`, `notional_minor` and `fee_minor` are 0.
    """

    status: Status
    rule: str | None
    message: str
    shares: int = 0
    price_ticks: int = 0
    notional_minor: int = 0
    fee_minor: int = 0


class Position(Struct, frozen=True, gc=False):
    """Shares held of one asset (negative if sold short). `locked` shares were bought on the
    account's current day and can't be sold on that day (T+1).
    """

    shares: int
    locked: int = 0


class CorporateAction(Struct, frozen=True):
    """A factor change applied to a holding. The value before the change equals `shares_after` at
    the ex-price plus the cash, to the minor unit. A short pays the cash that a holding of the same
    size would receive.
    """

    asset: int
    ratio: float
    shares_before: int
    shares_after: int
    cash_minor: int


class Scale(NamedTuple):
    """Units of a code's integers, and the rule for its fill price."""

    ticks_per_unit: int = 10_000  #: ticks per currency unit
    steps_per_unit: int = 1  #: steps per share or coin
    fill: FillRule = "next_open"


_BAR_OF_FILL: Mapping[FillRule, tuple[int, Literal["open", "close"]]] = {
    "next_open": (0, "open"),
    "next_close": (0, "close"),
    "same_close": (-1, "close"),
    # An intraday mean is not the price of any single bar. Masks that change prices refuse such
    # means (`ktdeval.runner.episodes.shown_account`), and all other masks show prices unchanged, so
    # the part does not matter.
    "vwap_30m": (0, "close"),
    "twap_day": (0, "close"),
}


def bar_of_fill(scale: Scale, row: int) -> tuple[int, Literal["open", "close"]]:
    """Return the row and the price part of the bar in which fills on the day of `row` occur."""
    days, part = _BAR_OF_FILL[scale.fill]
    return row + days, part


class Charge(Struct, frozen=True):
    """A charge by the venue before the day's orders: interest on a short, or a margin call that
    closes a position.
    """

    kind: Literal["borrow", "margin_call"]
    asset: int
    #: for interest: shares borrowed at the previous close; for a margin call: shares bought (> 0)
    #: or sold (< 0)
    shares: int
    #: for interest: the mark at the previous close; for a margin call: the fill price
    price_ticks: int
    cash_minor: int  #: change in cash, including costs
    fee_minor: int = 0  #: costs included in `cash_minor`


class Account(Struct, frozen=True):
    """Cash and positions (by asset column; none is zero) at one point in time. Treat as immutable:
    the executor returns a new account.
    """

    cash_minor: int
    positions: Mapping[int, Position]
    #: remainders of orders that were cut by the day's volume and stay in force; in shares, in the
    #: original order
    working: tuple[Order, ...] = ()


BOOK_NAV = 1_000_000_000
"""NAV of an account whose cash and shares are weights in billionths
(`ktdeval.runner.episodes.book_account`).
"""

Action = tuple[Order, ...]
Provenance = Literal["model", "model_after_retry", "elected", "fallback", "error"]
PROVENANCES: tuple[Provenance, ...] = get_args(Provenance)
"""Source of a step's decision: the model at its first submission; the model after retries with
feedback; the majority of several voters; the engine, which holds because every submission was
invalid; or the engine, which holds because the model call failed.
"""
DECIDED: tuple[Provenance, ...] = ("model", "model_after_retry", "elected")
"""Provenances of steps decided by the model or a majority of voters."""
