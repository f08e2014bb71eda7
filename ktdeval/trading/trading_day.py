"""One day of a market as the executor reads it: integer prices and flags of each asset."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ktdeval.trading.execution_costs import Liquidity
from ktdeval.trading.factor_events import FactorEvent
from ktdeval.trading.market_rules import MarketRules


class TradingDay(Struct, frozen=True):
    """One fill day, indexed by asset column. Treat as immutable. Flags are stored as bytes of 0 and
    1, the fastest type to read one by one.
    """

    row: int  #: row of the day in the snapshot
    #: fill price; for an asset that does not trade, the reference price, so that it can be used to
    #: mark a NAV
    open_ticks: Sequence[int]
    close_ticks: Sequence[int]  #: the mark at the close; 0 before an asset's first bar
    tradable: bytes  #: 1 if the asset has a fill price and volume
    member: bytes  #: 1 if the asset is in the universe
    limit_up: bytes  #: 1 if the open is too close to the upper limit to buy
    limit_down: bytes  #: 1 if the open is too close to the lower limit to sell
    #: the day's factor changes by asset; assets without a previous price are absent
    events: dict[int, FactorEvent]
    rules: MarketRules  #: rules in force on the day
    #: the mark at the previous close, in the previous day's terms; empty if short sales are not
    #: allowed
    previous_ticks: Sequence[int] = ()
    liquidity: Liquidity | None = None  #: None if no fill price depends on size
    #: lowest and highest price of the day, 0 if unknown; empty if there are no limit orders
    low_ticks: Sequence[int] = ()
    high_ticks: Sequence[int] = ()
