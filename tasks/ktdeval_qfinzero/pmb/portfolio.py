"""Values that margin is worked out from: holdings at prices, and what trades would make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import CONTRACT_SIZE
from ktdeval_qfinzero.pmb.option_margin import OptionHolding
from ktdeval_qfinzero.pmb.values import Account, AccountType, Instrument, Kind, Side


@dataclass(frozen=True, slots=True)
class WantedTrade:
    """A trade that somebody wants to make: an order, one leg of a spread, or a fill about to happen.
    `instrument, side, qty`: what; qty > 0; `price_e4`: price of a unit (of a share, without multiplier): the limit of a limit
    order, else what it would fill at now; `fees_e4`: what the trade costs besides.
    """

    instrument: Instrument
    side: Side
    qty: int
    price_e4: int
    fees_e4: int = 0

    @property
    def change(self) -> int:
        """Units that come in; negative: go out."""
        return self.qty if self.side == "BUY" else -self.qty


@dataclass(frozen=True, slots=True)
class Holding:
    """Units of an instrument at a price of a unit."""

    instrument: Instrument
    qty: int
    mark_e4: int

    @property
    def value_e4(self) -> int:
        """Market value, negative when short."""
        return self.qty * self.mark_e4 * self.instrument.multiplier


@dataclass(frozen=True, slots=True)
class Portfolio:
    """An account at given prices.
    `type, cash_e4`: as the account has them; `holdings`: by instrument id, in order; none is flat; `spots_e4`: prices of stocks by
    ticker.
    """

    type: AccountType
    cash_e4: int
    holdings: Mapping[str, Holding]
    spots_e4: Mapping[str, int]

    @property
    def equity_e4(self) -> int:
        """Cash and the market value of everything."""
        return self.cash_e4 + sum(holding.value_e4 for holding in self.holdings.values())

    def held(self, instrument: Instrument) -> int:
        """Units held, negative when short."""
        holding = self.holdings.get(instrument.id)
        return 0 if holding is None else holding.qty

    def of_kind(self, kind: Kind) -> list[Holding]:
        """Its stocks or its options."""
        return [holding for holding in self.holdings.values() if holding.instrument.kind == kind]

    def shares(self, ticker: str) -> int:
        """Shares held of a stock."""
        return self.held(Instrument("STOCK", ticker))

    def options(self) -> list[OptionHolding]:
        """Its options."""
        held = ((option.instrument.contract, option) for option in self.of_kind("OPTION"))
        return [OptionHolding(contract, option.qty, option.mark_e4) for contract, option in held if contract is not None]

    def options_on(self, ticker: str) -> list[OptionHolding]:
        """Its options on a stock."""
        return [option for option in self.options() if option.contract.underlying == ticker]

    def written(self) -> list[str]:
        """Underlyings of its short options, in order."""
        return sorted({option.contract.underlying for option in self.options() if option.qty < 0})

    def short_stock_e4(self) -> int:
        """Market value, positive, of shares sold short."""
        return -sum(min(0, holding.value_e4) for holding in self.of_kind("STOCK"))

    def secured_e4(self) -> int:
        """Cash that its short puts set aside in a CASH account: their strikes."""
        puts = (option for option in self.options() if option.contract.right == "P" and option.qty < 0)
        return sum(-put.qty * CONTRACT_SIZE * put.contract.strike_e4 for put in puts)

    def closes(self, trade: WantedTrade) -> bool:
        """Whether a trade only reduces what is held."""
        return trade.qty <= self.held(trade.instrument) * (-1 if trade.side == "BUY" else 1)

    def crosses(self, trade: WantedTrade) -> bool:
        """Whether a trade closes all that is held and opens the other side."""
        held = self.held(trade.instrument)
        return held * trade.change < 0 and trade.qty > abs(held)


def portfolio_of(account: Account, marks: Mapping[str, int]) -> Portfolio:
    """An account at given marks.
    `marks`: instrument id -> price of a unit; every position held must be there. Raises ServiceError `unavailable`: a position has
    no mark.
    """
    holdings = {}
    for name, position in sorted(account.positions.items()):
        if position.qty:
            if name not in marks:
                raise ServiceError("unavailable", f"no price of {name} is known, so the account can't be valued")
            holdings[name] = Holding(position.instrument, position.qty, marks[name])
    spots = {name.removeprefix("STOCK:"): mark for name, mark in marks.items() if name.startswith("STOCK:")}
    return Portfolio(account.type, account.cash_e4, holdings, spots)


def after_trades(portfolio: Portfolio, trades: Iterable[WantedTrade]) -> Portfolio:
    """Portfolio after trades.
    Closed units bring or cost their mark or the trade's price, whichever is worse for the trader. Opened ones count at the trade's
    price, what is sold short at its mark where that is higher, so that an order whose limit lies far from the market makes nobody
    richer before it fills. Units of an enlarged position count at their mean, rounded against the trader.
    """
    holdings, cash = dict(portfolio.holdings), portfolio.cash_e4
    for trade in trades:
        market = portfolio.spots_e4.get(trade.instrument.symbol, trade.price_e4)
        held = holdings.pop(trade.instrument.id, Holding(trade.instrument, 0, market))
        closed = min(trade.qty, abs(held.qty)) if held.qty * trade.change < 0 else 0
        cash -= _paid_e4(trade, held, closed) + trade.fees_e4
        if held.qty + trade.change:
            holdings[trade.instrument.id] = Holding(trade.instrument, held.qty + trade.change, _mark_e4(trade, held, closed))
    return Portfolio(portfolio.type, cash, dict(sorted(holdings.items())), portfolio.spots_e4)


def _paid_e4(trade: WantedTrade, held: Holding, closed: int) -> int:
    """Cash that a trade takes, fees aside; negative: brings."""
    worse = (max if trade.side == "BUY" else min)(trade.price_e4, held.mark_e4)
    sign = trade.instrument.multiplier * (1 if trade.side == "BUY" else -1)
    return sign * (closed * worse + (trade.qty - closed) * trade.price_e4)


def _mark_e4(trade: WantedTrade, held: Holding, closed: int) -> int:
    """Mark of what is held after a trade."""
    opened = trade.qty - closed
    price = trade.price_e4 if trade.side == "BUY" else max(trade.price_e4, held.mark_e4)
    total = (abs(held.qty) - closed) * held.mark_e4 + opened * price
    qty = held.qty + trade.change
    return total // qty if qty > 0 else -(total // qty)
