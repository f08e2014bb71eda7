"""Holdings at given prices, the holdings after trades, and the margin of options on one underlying
(`docs/qfinzero.md`).

Options are margined by strategy, following FINRA Rule 4210(f)(2) and the Cboe Margin Manual. As in
the published formulas, requirements here include the market value of short options and exclude the
market value of long options; `margin.MarginRequirements` expresses them in terms of equity. A
contract is 100 shares and rates are whole percents, so all amounts are exact without rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import CONTRACT_SIZE, OptionContract
from ktdeval_qfinzero.pmb.broker_types import (
    Account,
    AccountType,
    Instrument,
    Kind,
    MarginRules,
    Side,
)

Strategy = Literal["COVERED", "SPREAD", "COMBINATION", "UNCOVERED", "CASH_SECURED"]


@dataclass(frozen=True, slots=True)
class OptionHolding:
    """An option position. `qty`: contracts, negative when short; `mark_e4`: price per share."""

    contract: OptionContract
    qty: int
    mark_e4: int


@dataclass(frozen=True, slots=True)
class MarginGroup:
    """Short options that are margined together with the positions that offset them."""

    #: type of offset: shares (COVERED), long options (SPREAD), a short option of the other right
    #: (COMBINATION), cash (CASH_SECURED), or nothing (UNCOVERED)
    strategy: Strategy
    legs: tuple[tuple[OptionContract, int], ...]  #: (option, contracts), negative when short
    required_e4: int  #: requirement, including the market value of the short options


@dataclass(frozen=True, slots=True)
class _ShortLot:
    """Contracts of one short series that are not yet in a group, with amounts per contract."""

    contract: OptionContract
    qty: int
    mark_e4: int
    uncovered_e4: int  #: requirement without an offset
    intrinsic_e4: int


@dataclass(frozen=True, slots=True, order=True)
class _SpreadPair:
    """A short and a long option that can form a spread. Pairs are tried in the order of these
    fields.
    """

    cost_e4: int  #: requirement of the pair, minus the requirement of the uncovered short option
    bought_expiry: date
    distance_e4: int
    sold: OptionContract
    bought: OptionContract


def uncovered_e4(contract: OptionContract, mark_e4: int, spot_e4: int, rules: MarginRules) -> int:
    """Return the requirement for one short contract without an offset, including its premium.

    Example: the underlying is at $45, and a call with strike 47 is worth $2.10. A share requires
    2.10 + max(0.2 × 45 − 2, 0.1 × 45) = 9.10, so the contract requires $910.
    """
    if contract.right == "C":
        out_of_the_money = max(0, contract.strike_e4 - spot_e4)
        least = rules.option_short_floor_pct * spot_e4
    else:
        out_of_the_money = max(0, spot_e4 - contract.strike_e4)
        # The floor is a percentage of the strike for puts, of the underlying for calls.
        least = rules.option_short_floor_pct * contract.strike_e4

    # FINRA Rule 4210(f)(2)(E)–(H)
    usual = rules.option_short_pct * spot_e4 - 100 * out_of_the_money
    return CONTRACT_SIZE * mark_e4 + max(usual, least) * CONTRACT_SIZE // 100


def margin_groups(
    holdings: Iterable[OptionHolding], shares: int, spot_e4: int, rules: MarginRules
) -> tuple[MarginGroup, ...]:
    """Group the short options on one underlying in a MARGIN account, each contract once.

    The grouping with the smallest requirement is taken; ties go to the first candidate. The first
    candidate consists only of combinations of calls with puts, so the requirement is never above
    the uncovered one, as the rule demands. The others use shares before long options, or long
    options before shares, each either with only the pairs that save something or with all pairs.
    Using all pairs can be better, since two spreads together can lose less than the sum of their
    losses, as in a butterfly.

    `shares` of the underlying are negative when short: long shares cover calls, short shares cover
    puts.
    """
    positions = sorted(holdings, key=lambda holding: holding.contract)
    shorts = tuple(_lot(holding, spot_e4, rules) for holding in positions if holding.qty < 0)
    longs = {holding.contract: holding.qty for holding in positions if holding.qty > 0}
    if not shorts:
        return ()

    pairs = _spread_pairs(shorts, longs)
    # The rule takes the lesser of the two: never more than all of them uncovered.
    ways = [_combinations(shorts)]
    choices = (False, True) if pairs else (False,)
    for every_pair in choices:
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
    """Group the short options on one underlying in a CASH account. Shares cover calls, and cash for
    the whole strike secures puts. An uncovered call can't be opened in a CASH account; a call that
    has become uncovered has the uncovered requirement.
    """
    shorts = [_lot(holding, spot_e4, rules) for holding in holdings if holding.qty < 0]
    calls = [lot for lot in shorts if lot.contract.right == "C"]
    puts = [lot for lot in shorts if lot.contract.right == "P"]
    covered, rest = _cover(calls, max(shares, 0))
    secured = [_cash_secured(lot) for lot in puts]
    uncovered = [_make_uncovered_group(lot) for lot in rest]

    return (*covered, *secured, *uncovered)


def _cash_secured(put: _ShortLot) -> MarginGroup:
    # docs/qfinzero.md, CASH_SECURED: the whole strike
    required = put.qty * CONTRACT_SIZE * put.contract.strike_e4
    return MarginGroup("CASH_SECURED", ((put.contract, -put.qty),), required)


def required_e4(groups: Iterable[MarginGroup]) -> int:
    """Return the total requirement for all groups."""
    return sum(group.required_e4 for group in groups)


def uncovered_calls(qty_by_contract: Mapping[OptionContract, int], shares: int) -> int:
    """Return the number of short calls on one underlying that its shares do not cover."""
    calls = 0
    for contract, qty in qty_by_contract.items():
        if contract.right == "C" and qty < 0:
            calls -= qty

    covered = max(shares, 0) // CONTRACT_SIZE
    return max(0, calls - covered)


def greatest_loss_e4(legs: Mapping[OptionContract, int]) -> int:
    """Return the largest amount that a set of options can owe at expiry, without premiums. Long and
    short contracts of each right must balance.

    The value at expiry is piecewise linear in the underlying's price, with kinks at the strikes. If
    contracts balance, the value is flat beyond the strikes, so its minimum is at a strike (Cboe
    Rule 12.3, SEC Release 34-67752; FINRA Regulatory Notice 12-44).
    """
    min_e4 = 0
    strikes_e4 = {contract.strike_e4 for contract in legs}
    for price_e4 in strikes_e4:
        value_e4 = sum(qty * contract.intrinsic_e4(price_e4) for contract, qty in legs.items())
        min_e4 = min(min_e4, value_e4)

    return -min_e4 * CONTRACT_SIZE


def _lot(holding: OptionHolding, spot_e4: int, rules: MarginRules) -> _ShortLot:
    contract = holding.contract
    return _ShortLot(
        contract=contract,
        qty=-holding.qty,
        mark_e4=holding.mark_e4,
        uncovered_e4=uncovered_e4(contract, holding.mark_e4, spot_e4, rules),
        intrinsic_e4=CONTRACT_SIZE * contract.intrinsic_e4(spot_e4),
    )


def _make_uncovered_group(lot: _ShortLot) -> MarginGroup:
    return MarginGroup("UNCOVERED", ((lot.contract, -lot.qty),), lot.qty * lot.uncovered_e4)


def _cover(
    shorts: Sequence[_ShortLot], shares: int
) -> tuple[tuple[MarginGroup, ...], tuple[_ShortLot, ...]]:
    """Cover calls with long shares, or puts with short shares, largest saving first. Return the
    groups and the lots left.

    The intrinsic value stays required: on assignment the shares bring only the strike, so they are
    worth no more than the strike.
    """
    left = abs(shares) // CONTRACT_SIZE
    right = "C" if shares > 0 else "P"
    groups = []
    rest = []

    for lot in sorted(shorts, key=lambda lot: (lot.intrinsic_e4 - lot.uncovered_e4, lot.contract)):
        qty = 0
        if lot.contract.right == right:
            qty = min(lot.qty, left)

        left -= qty
        if qty:
            groups.append(MarginGroup("COVERED", ((lot.contract, -qty),), qty * lot.intrinsic_e4))

        if lot.qty > qty:
            rest.append(replace(lot, qty=lot.qty - qty))

    return tuple(groups), tuple(rest)


def _spread_pairs(
    shorts: Sequence[_ShortLot], longs: Mapping[OptionContract, int]
) -> list[_SpreadPair]:
    """Return the spreads that can be formed, sorted by largest saving and then by earliest expiry
    of the long option.
    """
    pairs: list[_SpreadPair] = []
    for lot in shorts:
        sold = lot.contract
        for bought in longs:
            # docs/qfinzero.md, SPREAD: no long option expires before the short ones.
            if bought.right != sold.right or bought.expiry < sold.expiry:
                continue

            difference = bought.strike_e4 - sold.strike_e4
            loss_e4 = difference
            if bought.right == "P":
                loss_e4 = -difference

            cost_e4 = CONTRACT_SIZE * max(0, loss_e4) - lot.uncovered_e4
            pairs.append(_SpreadPair(cost_e4, bought.expiry, abs(difference), sold, bought))

    return sorted(pairs)


def _spreads(
    shorts: Sequence[_ShortLot],
    longs: Mapping[OptionContract, int],
    pairs: Iterable[_SpreadPair],
    every_pair: bool,
) -> tuple[tuple[MarginGroup, ...], tuple[_ShortLot, ...]]:
    """Form spreads from pairs, in the order of the pairs. Return the groups and the lots left.
    Pairs whose short options expire on the same day form one spread.
    """
    short_left = {lot.contract: lot.qty for lot in shorts}
    long_left = dict(longs)
    sets: dict[date, Counter[OptionContract]] = {}

    for pair in pairs:
        saves = pair.cost_e4 < 0
        qty = min(short_left.get(pair.sold, 0), long_left[pair.bought])
        if qty and (saves or every_pair):
            short_left[pair.sold] -= qty
            long_left[pair.bought] -= qty
            # Universal spread rule (SEC Release 34-67752, FINRA Regulatory Notice 12-44)
            legs = sets.setdefault(pair.sold.expiry, Counter())
            legs.update({pair.sold: -qty, pair.bought: qty})

    groups: list[MarginGroup] = []
    for legs in sets.values():
        loss_e4 = greatest_loss_e4(legs)
        groups.append(MarginGroup("SPREAD", tuple(sorted(legs.items())), loss_e4))

    rest: list[_ShortLot] = []
    for lot in shorts:
        left = short_left[lot.contract]
        if left:
            rest.append(replace(lot, qty=left))

    return tuple(groups), tuple(rest)


def _combinations(shorts: Sequence[_ShortLot]) -> tuple[MarginGroup, ...]:
    """Combine uncovered calls with uncovered puts, largest requirements first. A combination
    requires the larger of the two requirements, plus the premium of the other option.
    """
    dearest_first = sorted(shorts, key=lambda lot: (-lot.uncovered_e4, lot.contract))
    calls = [lot for lot in dearest_first if lot.contract.right == "C"]
    puts = [lot for lot in dearest_first if lot.contract.right == "P"]
    groups: list[MarginGroup] = []
    while calls and puts:
        call = calls.pop(0)
        put = puts.pop(0)
        qty = min(call.qty, put.qty)
        greater, other = call, put
        if put.uncovered_e4 > call.uncovered_e4:
            greater, other = put, call

        # Cboe Margin Manual: the short straddle
        required = qty * (greater.uncovered_e4 + CONTRACT_SIZE * other.mark_e4)
        legs = ((call.contract, -qty), (put.contract, -qty))
        groups.append(MarginGroup("COMBINATION", legs, required))

        if call.qty > qty:
            calls.insert(0, replace(call, qty=call.qty - qty))

        if put.qty > qty:
            puts.insert(0, replace(put, qty=put.qty - qty))

    for lot in (*calls, *puts):
        groups.append(_make_uncovered_group(lot))

    return tuple(groups)


@dataclass(frozen=True, slots=True)
class WantedTrade:
    """A proposed trade: an order, one leg of a spread, or a fill about to happen."""

    instrument: Instrument
    side: Side
    qty: int  #: above 0
    #: unit price without the multiplier: the limit, or else the expected fill price
    price_e4: int
    fees_e4: int = 0

    @property
    def change(self) -> int:
        """Change in the position, negative for sales."""
        if self.side == "BUY":
            return self.qty
        return -self.qty


@dataclass(frozen=True, slots=True)
class Holding:
    """Units of an instrument, with its unit price."""

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
    holdings: Mapping[str, Holding]  #: by instrument id, in order; no position is flat
    spots_e4: Mapping[str, int]  #: stock prices by ticker

    @property
    def equity_e4(self) -> int:
        """Cash plus the market value of all holdings."""
        return self.cash_e4 + sum(holding.value_e4 for holding in self.holdings.values())

    def count_units(self, instrument: Instrument) -> int:
        """Return the units held, negative when short."""
        holding = self.holdings.get(instrument.id)
        return 0 if holding is None else holding.qty

    def of_kind(self, kind: Kind) -> list[Holding]:
        """Return the holdings in stocks, or in options."""
        return [holding for holding in self.holdings.values() if holding.instrument.kind == kind]

    def shares(self, ticker: str) -> int:
        """Return the shares held of a stock."""
        return self.count_units(Instrument("STOCK", ticker))

    def options(self) -> list[OptionHolding]:
        """Option positions."""
        options: list[OptionHolding] = []
        for option in self.of_kind("OPTION"):
            contract = option.instrument.contract
            if contract is not None:
                options.append(OptionHolding(contract, option.qty, option.mark_e4))

        return options

    def options_on(self, ticker: str) -> list[OptionHolding]:
        """Return the option positions on a stock."""
        return [option for option in self.options() if option.contract.underlying == ticker]

    def short_underlyings(self) -> list[str]:
        """Underlyings of short options, sorted."""
        return sorted({option.contract.underlying for option in self.options() if option.qty < 0})

    def secured_e4(self) -> int:
        """Cash that secures short puts in a CASH account: their strikes."""
        secured_e4 = 0
        for option in self.options():
            if option.contract.right == "P" and option.qty < 0:
                secured_e4 += -option.qty * CONTRACT_SIZE * option.contract.strike_e4

        return secured_e4

    def closes(self, trade: WantedTrade) -> bool:
        """Return whether a trade only reduces a position."""
        held = self.count_units(trade.instrument)
        closable = -held if trade.side == "BUY" else held
        return trade.qty <= closable

    def crosses(self, trade: WantedTrade) -> bool:
        """Return whether a trade closes a position and opens one on the opposite side."""
        held = self.count_units(trade.instrument)
        return held * trade.change < 0 and trade.qty > abs(held)


def portfolio_of(account: Account, marks: Mapping[str, int]) -> Portfolio:
    """Value an account at marks (instrument id -> unit price). Raises ServiceError `unavailable` if
    a position has no mark.
    """
    holdings: dict[str, Holding] = {}
    for name, position in sorted(account.positions.items()):
        if not position.qty:
            continue
        if name not in marks:
            raise ServiceError(
                "unavailable", f"no price of {name} is known, so the account can't be valued"
            )

        holdings[name] = Holding(position.instrument, position.qty, marks[name])

    spots: dict[str, int] = {}
    for name, mark in marks.items():
        kind, _, ticker = name.partition(":")
        if kind == "STOCK":
            spots[ticker] = mark

    return Portfolio(account.type, account.cash_e4, holdings, spots)


def after_trades(portfolio: Portfolio, trades: Iterable[WantedTrade]) -> Portfolio:
    """Return the portfolio after trades, valued with caution, since an order with a limit far from
    the market must not improve the account before it fills.

    Closed units are valued at their mark or at the trade's price, whichever is worse for the
    trader. Opened units are marked at the trade's price or, if sold short, at the higher of price
    and mark. An enlarged position is marked at the average mark of its units, rounded against the
    trader.
    """
    holdings = dict(portfolio.holdings)
    cash = portfolio.cash_e4
    for trade in trades:
        market = portfolio.spots_e4.get(trade.instrument.symbol, trade.price_e4)
        held = holdings.pop(trade.instrument.id, Holding(trade.instrument, 0, market))
        closed = 0
        if held.qty * trade.change < 0:
            closed = min(trade.qty, abs(held.qty))

        opened = trade.qty - closed
        if trade.side == "BUY":
            worse = max(trade.price_e4, held.mark_e4)
            sign = 1
        else:
            worse = min(trade.price_e4, held.mark_e4)
            sign = -1

        value = (closed * worse + opened * trade.price_e4) * trade.instrument.multiplier
        cash -= sign * value + trade.fees_e4

        qty = held.qty + trade.change
        if qty:
            mark = _mark_e4(trade, held, closed)
            holdings[trade.instrument.id] = Holding(trade.instrument, qty, mark)

    return Portfolio(portfolio.type, cash, dict(sorted(holdings.items())), portfolio.spots_e4)


def _mark_e4(trade: WantedTrade, held: Holding, closed: int) -> int:
    """Return the mark of a position after a trade that closed some of its units."""
    opened = trade.qty - closed
    price = trade.price_e4
    if trade.side == "SELL":
        price = max(trade.price_e4, held.mark_e4)

    total = (abs(held.qty) - closed) * held.mark_e4 + opened * price
    qty = held.qty + trade.change

    # Rounded down for a long position and up for a short one, for which `qty` is negative.
    if qty > 0:
        return total // qty
    return -(total // qty)
