"""Holdings at prices, what trades would make of them, and the margin of options on one underlying (`docs/qfinzero-margin.md`).

Options are margined by strategy, as FINRA Rule 4210(f)(2) and the Cboe Margin Manual have it. Requirements here INCLUDE the
market value of the short options, as the published formulas do, and not that of the long ones; `margin.Requirements` puts them
into terms of equity. One contract is 100 shares and rates are whole percents, so every amount is exact: nothing is rounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import CONTRACT_SIZE, OptionContract
from ktdeval_qfinzero.pmb.values import Account, AccountType, Instrument, Kind, MarginRules, Side

Strategy = Literal["COVERED", "SPREAD", "COMBINATION", "UNCOVERED", "CASH_SECURED"]


@dataclass(frozen=True, slots=True)
class OptionHolding:
    """An option position. `qty`: contracts, negative when short; `mark_e4`: price for one share."""

    contract: OptionContract
    qty: int
    mark_e4: int


@dataclass(frozen=True, slots=True)
class MarginGroup:
    """Short options that are margined together, with what offsets them."""

    strategy: Strategy  # COVERED by shares; SPREAD with long options; COMBINATION of a call and a put; UNCOVERED; CASH_SECURED
    legs: tuple[tuple[OptionContract, int], ...]  # (option, contracts), negative when short
    required_e4: int  # requirement, the short options' market value included


@dataclass(frozen=True, slots=True)
class _Lot:
    """Contracts of one short series that are still to be margined, with the requirement of one that is not covered."""

    contract: OptionContract
    qty: int
    mark_e4: int
    uncovered_e4: int
    intrinsic_e4: int


@dataclass(frozen=True, slots=True, order=True)
class _Pair:
    """A short and a long option of one spread; ordered by what it costs more than the short one by itself."""

    cost_e4: int
    bought_expiry: date
    distance_e4: int
    sold: OptionContract
    bought: OptionContract


def uncovered_e4(contract: OptionContract, mark_e4: int, spot_e4: int, rules: MarginRules) -> int:
    """Requirement of one contract sold short without an offset, its premium included.
    The underlying at $45, a call struck at 47 and worth $2.10: 2.10 + max(0.2 × 45 − 2, 0.1 × 45) = 9.10 a share, so $910.
    """
    call = contract.right == "C"
    out_of_the_money = max(0, contract.strike_e4 - spot_e4 if call else spot_e4 - contract.strike_e4)
    usual = rules.option_short_pct * spot_e4 - 100 * out_of_the_money
    least = rules.option_short_floor_pct * (spot_e4 if call else contract.strike_e4)
    return CONTRACT_SIZE * mark_e4 + max(usual, least) * CONTRACT_SIZE // 100


def margin_groups(holdings: Iterable[OptionHolding], shares: int, spot_e4: int, rules: MarginRules) -> tuple[MarginGroup, ...]:
    """Short options of one underlying in a MARGIN account, each in one group.
    Up to five ways of grouping are worked out and the one with the least requirement is taken, the first of equal ones: no offset
    but that of calls by puts; and shares first or long options first, each with only those pairs that save something or with all
    that can be made (two pairs together may lose less than each can, as in a butterfly). So they never require more than they would
    all uncovered, as the rule has it: the lesser of the uncovered requirement and the greatest loss of the spread. `holdings`: of
    one underlying; flat ones are passed over; `shares`: of the underlying, negative when short: long ones cover calls, short ones
    puts; `spot_e4`: price of the underlying.
    """
    positions = sorted((holding for holding in holdings if holding.qty), key=lambda holding: holding.contract)
    shorts = tuple(_lot(holding, spot_e4, rules) for holding in positions if holding.qty < 0)
    longs = {holding.contract: holding.qty for holding in positions if holding.qty > 0}
    if not shorts:
        return ()
    pairs = _pairs(shorts, longs)
    ways = [_combinations(shorts)]
    for every_pair in (False, True) if pairs else (False,):
        covered, rest = _cover(shorts, shares)
        spreads, rest = _spreads(rest, longs, pairs, every_pair)
        ways.append((*covered, *spreads, *_combinations(rest)))
        if pairs and covered:
            spreads, rest = _spreads(shorts, longs, pairs, every_pair)
            covered, rest = _cover(rest, shares)
            ways.append((*covered, *spreads, *_combinations(rest)))
    return min(ways, key=required_e4)


def cash_account_groups(
    holdings: Iterable[OptionHolding], shares: int, spot_e4: int, rules: MarginRules
) -> tuple[MarginGroup, ...]:
    """Short options of one underlying in a CASH account: calls covered by shares, puts by the whole strike in cash.
    A call that shares do not cover can't be opened there; one that became so has the uncovered requirement.
    """
    shorts = tuple(_lot(holding, spot_e4, rules) for holding in holdings if holding.qty < 0)
    puts = (lot for lot in shorts if lot.contract.right == "P")
    covered, rest = _cover(tuple(lot for lot in shorts if lot.contract.right == "C"), max(shares, 0))
    secured = (
        MarginGroup("CASH_SECURED", ((lot.contract, -lot.qty),), lot.qty * CONTRACT_SIZE * lot.contract.strike_e4) for lot in puts
    )
    return (*covered, *secured, *(_uncovered(lot) for lot in rest))


def required_e4(groups: Iterable[MarginGroup]) -> int:
    """Requirement of all groups together."""
    return sum(group.required_e4 for group in groups)


def uncovered_calls(qty_by_contract: Mapping[OptionContract, int], shares: int) -> int:
    """Short calls of one underlying that its shares do not cover."""
    calls = sum(-qty for contract, qty in qty_by_contract.items() if contract.right == "C" and qty < 0)
    return max(0, calls - max(shares, 0) // CONTRACT_SIZE)


def greatest_loss_e4(legs: Mapping[OptionContract, int]) -> int:
    """What a set of options can owe at most when it is exercised, without premiums; long and short of a right must balance.
    The value at expiry is piecewise linear in the underlying's price, with kinks at the strikes, and flat beyond them where
    contracts balance: its least value is at a strike (Cboe Rule 12.3, SEC Release 34-67752; FINRA Regulatory Notice 12-44).
    """
    points = {contract.strike_e4 for contract in legs}
    worth = (sum(qty * contract.intrinsic_e4(point) for contract, qty in legs.items()) for point in points)
    return max(0, -min(worth, default=0)) * CONTRACT_SIZE


def _lot(holding: OptionHolding, spot_e4: int, rules: MarginRules) -> _Lot:
    contract = holding.contract
    uncovered = uncovered_e4(contract, holding.mark_e4, spot_e4, rules)
    return _Lot(contract, -holding.qty, holding.mark_e4, uncovered, CONTRACT_SIZE * contract.intrinsic_e4(spot_e4))


def _uncovered(lot: _Lot) -> MarginGroup:
    return MarginGroup("UNCOVERED", ((lot.contract, -lot.qty),), lot.qty * lot.uncovered_e4)


def _cover(shorts: Sequence[_Lot], shares: int) -> tuple[tuple[MarginGroup, ...], tuple[_Lot, ...]]:
    """Cover calls by shares, or puts by shares sold short: those first where it saves most.
    What is in the money is still required, for shares count for no more than what the assignment brings.
    """
    left = abs(shares) // CONTRACT_SIZE
    right = "C" if shares > 0 else "P"
    groups, rest = [], []
    for lot in sorted(shorts, key=lambda lot: (lot.intrinsic_e4 - lot.uncovered_e4, lot.contract)):
        qty = min(lot.qty, left) if lot.contract.right == right else 0
        left -= qty
        if qty:
            groups.append(MarginGroup("COVERED", ((lot.contract, -qty),), qty * lot.intrinsic_e4))
        if lot.qty > qty:
            rest.append(replace(lot, qty=lot.qty - qty))
    return tuple(groups), tuple(rest)


def _pairs(shorts: Sequence[_Lot], longs: Mapping[OptionContract, int]) -> list[_Pair]:
    """What each short option could be paired with, the greatest saving first; of equal ones the long option that expires first."""
    pairs = []
    for lot in shorts:
        for bought in longs:
            if bought.right == lot.contract.right and bought.expiry >= lot.contract.expiry:
                difference = bought.strike_e4 - lot.contract.strike_e4
                width_e4 = CONTRACT_SIZE * max(0, difference if bought.right == "C" else -difference)  # greatest loss of the pair
                pairs.append(_Pair(width_e4 - lot.uncovered_e4, bought.expiry, abs(difference), lot.contract, bought))
    return sorted(pairs)


def _spreads(
    shorts: Sequence[_Lot], longs: Mapping[OptionContract, int], pairs: Iterable[_Pair], every_pair: bool
) -> tuple[tuple[MarginGroup, ...], tuple[_Lot, ...]]:
    """Pair short with long options, in order; the pairs whose short legs expire together are one spread."""
    short_left = {lot.contract: lot.qty for lot in shorts}
    long_left = dict(longs)
    sets: dict[date, Counter[OptionContract]] = {}
    for pair in pairs:
        qty = min(short_left.get(pair.sold, 0), long_left[pair.bought]) if every_pair or pair.cost_e4 < 0 else 0
        if qty:
            short_left[pair.sold] -= qty
            long_left[pair.bought] -= qty
            sets.setdefault(pair.sold.expiry, Counter()).update({pair.sold: -qty, pair.bought: qty})
    groups = tuple(MarginGroup("SPREAD", tuple(sorted(legs.items())), greatest_loss_e4(legs)) for legs in sets.values())
    return groups, tuple(replace(lot, qty=short_left[lot.contract]) for lot in shorts if short_left[lot.contract])


def _combinations(shorts: Sequence[_Lot]) -> tuple[MarginGroup, ...]:
    """Uncovered calls with uncovered puts, the dearest together: the greater requirement and the premium of the other."""
    calls, puts = (
        sorted((lot for lot in shorts if lot.contract.right == right), key=lambda lot: (-lot.uncovered_e4, lot.contract))
        for right in "CP"
    )
    groups = []
    while calls and puts:
        call, put = calls.pop(0), puts.pop(0)
        qty = min(call.qty, put.qty)
        greater, other = (call, put) if call.uncovered_e4 >= put.uncovered_e4 else (put, call)
        required = qty * (greater.uncovered_e4 + CONTRACT_SIZE * other.mark_e4)
        groups.append(MarginGroup("COMBINATION", ((call.contract, -qty), (put.contract, -qty)), required))
        if call.qty > qty:
            calls.insert(0, replace(call, qty=call.qty - qty))
        if put.qty > qty:
            puts.insert(0, replace(put, qty=put.qty - qty))
    return (*groups, *(_uncovered(lot) for lot in (*calls, *puts)))


@dataclass(frozen=True, slots=True)
class WantedTrade:
    """A proposed trade: an order, one leg of a spread, or a fill about to happen."""

    instrument: Instrument
    side: Side
    qty: int  # above 0
    price_e4: int  # price of a unit (of a share, without multiplier): the limit of a limit order, else what it would fill at now
    fees_e4: int = 0  # what the trade costs besides

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
    """An account at given prices."""

    type: AccountType
    cash_e4: int
    holdings: Mapping[str, Holding]  # by instrument id, in order; none is flat
    spots_e4: Mapping[str, int]  # prices of stocks by ticker

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

    def short_underlyings(self) -> list[str]:
        """Underlyings of its short options, in order."""
        return sorted({option.contract.underlying for option in self.options() if option.qty < 0})

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
        buys, market = trade.side == "BUY", portfolio.spots_e4.get(trade.instrument.symbol, trade.price_e4)
        held = holdings.pop(trade.instrument.id, Holding(trade.instrument, 0, market))
        closed = min(trade.qty, abs(held.qty)) if held.qty * trade.change < 0 else 0
        worse = (max if buys else min)(trade.price_e4, held.mark_e4)
        moved = (closed * worse + (trade.qty - closed) * trade.price_e4) * trade.instrument.multiplier
        cash -= (moved if buys else -moved) + trade.fees_e4
        if held.qty + trade.change:
            holdings[trade.instrument.id] = Holding(trade.instrument, held.qty + trade.change, _mark_e4(trade, held, closed))
    return Portfolio(portfolio.type, cash, dict(sorted(holdings.items())), portfolio.spots_e4)


def _mark_e4(trade: WantedTrade, held: Holding, closed: int) -> int:
    """Mark of what is held after a trade."""
    opened = trade.qty - closed
    price = trade.price_e4 if trade.side == "BUY" else max(trade.price_e4, held.mark_e4)
    total = (abs(held.qty) - closed) * held.mark_e4 + opened * price
    qty = held.qty + trade.change
    return total // qty if qty > 0 else -(total // qty)
