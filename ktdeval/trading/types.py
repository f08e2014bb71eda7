"""Orders, outcomes and positions: the words of the executor and the ledger.

Money is integer fen (1/100 CNY). Prices are integer ticks of 1/10,000 CNY, so that adjusted prices without a factor trade
without a second path; a price in whole fen is exact. `notional_fen = round_half_up(price_ticks * shares / 100)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from ktdeval.fields import option


@dataclass(frozen=True)
class TradingConfig:
    """Costs, lots and limits. Part of every task config, and so of the card."""

    initial_cash_cny: int = option(1_000_000, help="starting cash in CNY", minimum=1)
    buy_fee_bps: float = option(5.0, help="cost of a buy in basis points of its notional", minimum=0, maximum=1000)
    sell_fee_bps: float = option(15.0, help="cost of a sell in basis points of its notional", minimum=0, maximum=1000)
    min_fee_cny: float = option(5.0, help="smallest cost of a filled order in CNY", minimum=0)
    lot_shares: int = option(100, help="shares in a lot; buys are whole lots", minimum=1)
    star_min_shares: int = option(200, help="smallest buy on the STAR board in shares", minimum=1)
    limit_buffer_pct: float = option(
        0.5, help="percentage points short of the board's daily limit at which trading stops", minimum=0, maximum=5
    )
    max_positions: int = option(20, help="names held at once", minimum=1)
    max_weight: float = option(
        0.10, help="largest weight of one name that a buy may reach, as a share of NAV", minimum=0.001, maximum=1
    )
    constraint_feedback: bool = option(
        False, help="give feedback and a retry for a submission with an order that is known to break a rule when it is decided"
    )


Side = Literal["BUY", "SELL"]
Status = Literal["filled", "partially_filled", "rejected"]
TICKS_PER_CNY = 10_000
TICKS_PER_FEN = 100


class Order(NamedTuple):
    """One order as decided, with a target weight (share of NAV, 0..1) or shares; `asset` is None for an unknown stock_id."""

    asset: int | None
    side: Side
    confidence: float
    reason: str
    target_weight: float | None = None
    shares: int | None = None


class Outcome(NamedTuple):
    """How one order ended. `rule` is None when filled whole; `shares`, `notional_fen`, `fee_fen` are 0 when rejected."""

    status: Status
    rule: str | None
    message: str
    shares: int = 0
    price_ticks: int = 0
    notional_fen: int = 0
    fee_fen: int = 0


class Position(NamedTuple):
    """Shares held of one asset, and how many of them were bought on the account's current day (T+1: not yet sellable)."""

    shares: int
    locked: int = 0


class CorporateAction(NamedTuple):
    """A factor change applied to a holding: the value before equals shares_after at the ex-price plus cash, to the fen."""

    asset: int
    ratio: float
    shares_before: int
    shares_after: int
    cash_fen: int


class Account(NamedTuple):
    """Cash and positions (by asset column, none of zero) at one moment. Treat as immutable: the executor returns a new one."""

    cash_fen: int
    positions: Mapping[int, Position]


Action = tuple[Order, ...]
Provenance = Literal["model", "model_after_retry", "fallback", "error"]
PROVENANCES: tuple[Provenance, ...] = get_args(Provenance)
"""Who decided a step: the model at its first submission, the model after retries with feedback, the engine because every
submission was invalid (hold), the engine because the model call failed (hold)."""
