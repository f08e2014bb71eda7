"""Rules of a session: fees, fills and margin, with what they are by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from ktdeval_qfinzero.pmb.values import Instrument


def _bounded(description: str, least: int, most: int) -> Meta:
    return Meta(description=description, ge=least, le=most)


_BPS: Final = (0, 10_000)


class FeeRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fees."""

    stock_per_share_e4: Annotated[int, _bounded("Ten-thousandths of a dollar a share.", 0, 10_000)] = 5
    option_per_contract_e4: Annotated[int, _bounded("Ten-thousandths of a dollar a contract.", 0, 1_000_000)] = 6_500
    option_exercise_e4: Annotated[int, _bounded("Ten-thousandths of a dollar an exercised or assigned contract.", 0, 1_000_000)] = 0

    def trade_e4(self, instrument: Instrument, qty: int) -> int:
        """Fee of a trade."""
        return qty * (self.stock_per_share_e4 if instrument.kind == "STOCK" else self.option_per_contract_e4)


class FillRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How orders meet bars. Slippage and half the spread are always against the trader."""

    slippage_bps: Annotated[int, _bounded("What a market or triggered stop order pays beyond the reference price.", *_BPS)] = 1
    option_spread_bps: Annotated[
        int, _bounded("Bid-ask spread of options around the bar's price; a market order pays half of it.", *_BPS)
    ] = 100
    max_volume_pct: Annotated[
        int, _bounded("Most of a bar's volume that all orders for an instrument may take together.", 1, 100)
    ] = 10

    def half_bps(self, instrument: Instrument) -> int:
        """What a market order pays beyond the reference price: slippage and half the spread, in halves of a basis point."""
        return 2 * self.slippage_bps + (self.option_spread_bps if instrument.kind == "OPTION" else 0)


class MarginRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Margin, shorting and financing; percentages of market value unless said otherwise.

    An uncovered short option requires its premium and the greater of `option_short_pct` × underlying less the amount out of the
    money, and `option_short_floor_pct` × underlying (call) or strike (put).
    """

    long_initial_pct: Annotated[int, _bounded("Initial requirement of long stock.", 1, 100)] = 50
    long_maintenance_pct: Annotated[int, _bounded("Maintenance requirement of long stock.", 1, 100)] = 25
    short_initial_pct: Annotated[int, _bounded("Initial requirement of short stock, beside the proceeds.", 1, 1_000)] = 50
    short_maintenance_pct: Annotated[int, _bounded("Maintenance requirement of short stock, beside the proceeds.", 1, 1_000)] = 30
    short_minimum_e4: Annotated[
        int, _bounded("Least maintenance of a share sold short, in ten-thousandths of a dollar.", 0, 10_000_000)
    ] = 50_000
    option_short_pct: Annotated[
        int, _bounded("Uncovered short options: of the underlying, less the amount out of the money.", 1, 1_000)
    ] = 20
    option_short_floor_pct: Annotated[
        int, _bounded("Uncovered short options: at least this of the underlying (call) or the strike (put).", 1, 1_000)
    ] = 10
    call_days: Annotated[
        int, _bounded("Trading days after which an unmet margin call is liquidated; 0: on the bar that follows.", 0, 30)
    ] = 1
    debit_interest_bps: Annotated[int, _bounded("Interest a year on borrowed cash.", *_BPS)] = 700


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rules of a session."""

    fees: Annotated[FeeRules, Meta(description="Rules of fees.")] = FeeRules()
    fills: Annotated[FillRules, Meta(description="Rules of fills.")] = FillRules()
    margin: Annotated[MarginRules, Meta(description="Rules of margin.")] = MarginRules()
