"""Market rules an account trades under; defaults are those of the CSI300 benchmark (KTD-Fin §3.1, Appendices H and I)."""

from __future__ import annotations

from dataclasses import dataclass

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
