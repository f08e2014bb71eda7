"""Account margin (Regulation T and FINRA Rule 4210, strategy-based): requirements, buying power,
refusals of trades, and liquidation.

Equity is the net liquidation value, and a requirement is an amount that equity must reach. The
published rules compare cash with requirements and give options no value, whereas here the market
value of all options is added to both sides. Stock is therefore margined at its rates and long
options in full. Short options are margined at the requirement from `portfolio` less their market
value, which is already deducted from equity. Amounts are whole ten-thousandths of a dollar;
requirements are rounded up and buying power down, against the trader. Rates are at least 1%.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import CONTRACT_SIZE
from ktdeval_qfinzero.pmb.broker_types import (
    Account,
    AccountType,
    Instrument,
    MarginRules,
    Rules,
    Side,
)
from ktdeval_qfinzero.pmb.portfolio import (
    Holding,
    MarginGroup,
    Portfolio,
    WantedTrade as WantedTrade,
    after_trades,
    cash_account_groups,
    margin_groups,
    portfolio_of,
    required_e4,
    uncovered_calls,
)

ProblemCode = Literal[
    "INSUFFICIENT_BUYING_POWER",
    "UNSETTLED_FUNDS",
    "MARGIN_RESTRICTED",
    "NO_LOCATE",
    "SHORT_NOT_ALLOWED",
    "UNCOVERED_OPTION",
    "NO_MARK",
]


@dataclass(frozen=True, slots=True)
class TradeProblem:
    """Reason for refusing a trade: a code, and one line with the problem and its remedy."""

    code: ProblemCode
    words: str


@dataclass(frozen=True, slots=True)
class MarginRequirements:
    """Amounts that equity must reach: `initial` to open positions, and `maintenance` (never more)
    to keep them.
    """

    initial_e4: int
    maintenance_e4: int


@dataclass(frozen=True, slots=True)
class TradeCircumstances:
    """Inputs to the decision on a trade, other than the account and prices."""

    today: date  #: trading day for the account, `engine.hours.session_day(clock)`
    borrowable: Mapping[str, int]  #: ticker -> borrowable shares; 0 if absent
    reserved_e4: int = 0  #: sum of `reservation_e4` over the account's other working orders


@dataclass(frozen=True, slots=True)
class MarginState:
    """An account's margin at given marks. A deficit above 0 causes a margin call."""

    equity_e4: int
    long_value_e4: int  #: market value of long and short positions, both positive
    short_value_e4: int
    initial_e4: int
    maintenance_e4: int
    buying_power_e4: int
    #: maintenance requirement less equity; in a CASH account, plus the value of short shares
    deficit_e4: int


def equity_e4(account: Account, marks: Mapping[str, int]) -> int:
    """Return the net liquidation value: cash, which includes the proceeds of short sales, plus the
    market value of all positions, which is negative for short ones.
    """
    return portfolio_of(account, marks).equity_e4


def margin_state(
    account: Account, marks: Mapping[str, int], rules: Rules, today: date | None = None
) -> MarginState:
    """Return the margin of an account, for snapshots and for the check after each tick.

    Buying power is the amount of new long stock that could be bought: (equity − initial
    requirement) / initial rate, never negative. In a CASH account it is the settled cash that does
    not secure short puts; without `today`, all entries in `unsettled` are unsettled.

    `marks` (instrument id -> price) must contain all positions, and the underlying (`STOCK:X`) of
    each short option. Raises ServiceError `unavailable` if one is missing.
    """
    portfolio = portfolio_of(account, marks)
    equity = portfolio.equity_e4
    required = portfolio_requirements(portfolio, rules.margin)
    values = [holding.value_e4 for holding in portfolio.holdings.values()]

    if account.type == "CASH":
        power = account.settled_e4(today) - portfolio.secured_e4()
    else:
        # No special memorandum account: buying power from past gains is not kept.
        rate = max(rules.margin.long_initial_pct, rules.margin.long_maintenance_pct)
        power = (equity - required.initial_e4) * 100 // rate

    return MarginState(
        equity_e4=equity,
        long_value_e4=sum(value for value in values if value > 0),
        short_value_e4=-sum(value for value in values if value < 0),
        initial_e4=required.initial_e4,
        maintenance_e4=required.maintenance_e4,
        buying_power_e4=max(0, power),
        deficit_e4=_deficit_e4(portfolio, required),
    )


def reservation_e4(
    account: Account, trades: Sequence[WantedTrade], marks: Mapping[str, int], rules: Rules
) -> int:
    """Return the amount that a working order reserves: the increase in the requirement less equity,
    never negative; in a CASH account, the cash that the order would pay or secure.

    The legs of a spread are taken together. Each order is considered as if no other were filled.
    """
    before = portfolio_of(account, marks)
    if _only_lowers(before, trades, rules.margin):
        return 0

    after = after_trades(before, trades)
    if account.type == "CASH":
        return max(0, _outlay_e4(trades) + after.secured_e4() - before.secured_e4())

    excess_before = _initial_excess_e4(before, rules.margin)
    excess_after = _initial_excess_e4(after, rules.margin)
    return max(0, excess_before - excess_after)


def order_problem(
    account: Account,
    trades: Sequence[WantedTrade],
    marks: Mapping[str, int],
    rules: Rules,
    circumstances: TradeCircumstances,
) -> TradeProblem | None:
    """Return the reason for refusing an order or a fill; None if the account can carry it. Orders
    are checked when placed, and again at each fill with the fill's price and the tick's marks.

    Equity after the trade is compared with the requirement after it. Trades always pass if they
    only close positions without raising the requirement, or if they lower it by more than they
    cost. A sale of shares that cover a short option is not such a trade. A trade from long to
    short, or from short to long, is an opening trade. Opened units are valued at their own price,
    closed units at no better price than their mark.

    The legs of a spread are checked together. `marks` are those that `margin_state` takes, with the
    underlyings of traded options.
    """
    before = portfolio_of(account, marks)
    after = after_trades(before, trades)
    missing = [ticker for ticker in after.short_underlyings() if ticker not in after.spots_e4]
    if missing:
        return TradeProblem(
            "NO_MARK",
            f"no price of {missing[0]} is known yet, so options on it can't be margined; order"
            " later",
        )
    if account.type == "CASH":
        return _cash_problem(account, before, after, trades, circumstances)

    problem = _locate_problem(before, after, circumstances)
    if problem is not None or _only_lowers(before, trades, rules.margin):
        return problem
    if account.margin_call_due is not None or deficit_e4(before, rules.margin):
        return TradeProblem(
            "MARGIN_RESTRICTED",
            "until the margin call is met, only trades that lower the requirement are allowed",
        )

    short_of = circumstances.reserved_e4 - _initial_excess_e4(after, rules.margin)
    if short_of > 0:
        return TradeProblem(
            "INSUFFICIENT_BUYING_POWER",
            f"after the trade equity would be {_dollars(short_of)} below the initial requirement"
            " and what other orders reserve; trade less, or close or cancel something first",
        )

    return None


def liquidation_plan(
    account: Account, marks: Mapping[str, int], rules: Rules, cushion_e4: int = 0
) -> tuple[tuple[Instrument, Side, int], ...]:
    """Return the closing trades, in order, that raise equity to the maintenance requirement plus a
    cushion, such as the charges that come due next. Without a deficit there are no trades.

    If closing one position or part of it is enough, the position with the smallest traded value is
    chosen, with ties broken by instrument id. If no single position is enough, the position whose
    closing leaves the smallest deficit is closed entirely, and the search repeats; if none helps,
    short positions come first. Trades are assumed to fill at the marks, with fees, slippage and
    half the spread. If equity is negative, everything is closed and the deficit stays.
    """
    portfolio = portfolio_of(account, marks)
    plan: list[tuple[Instrument, Side, int]] = []
    if not deficit_e4(portfolio, rules.margin):
        return ()

    while portfolio.holdings and deficit_e4(portfolio, rules.margin, cushion_e4):
        cures = list(_cures(portfolio, rules, cushion_e4))
        if cures:
            _, _, trade = min(cures, key=lambda cure: cure[:2])
        else:
            trade = _greatest_relief(portfolio, rules)

        portfolio = after_trades(portfolio, (trade,))
        plan.append((trade.instrument, trade.side, trade.qty))

    return tuple(plan)


def portfolio_requirements(portfolio: Portfolio, rules: MarginRules) -> MarginRequirements:
    """Return the requirements for all positions. Raises ServiceError `unavailable` if the
    underlying of a short option has no price.
    """
    for_short_options = required_e4(_option_groups(portfolio, rules))
    value_of_options = sum(option.value_e4 for option in portfolio.of_kind("OPTION"))
    # FINRA Rule 4210(f)(2)(D): a long option has no loan value.
    maintenance = for_short_options + value_of_options
    initial = maintenance

    for stock in portfolio.of_kind("STOCK"):
        stock_initial, stock_maintenance = _stock_e4(stock, portfolio.type, rules)
        # docs/qfinzero.md: initial is never less than maintenance.
        initial += max(stock_initial, stock_maintenance)
        maintenance += stock_maintenance

    return MarginRequirements(initial, maintenance)


def deficit_e4(portfolio: Portfolio, rules: MarginRules, cushion_e4: int = 0) -> int:
    """Return the deficit, as defined in `MarginState`, if equity must exceed the requirement by a
    cushion.
    """
    required = portfolio_requirements(portfolio, rules)
    return _deficit_e4(portfolio, required, cushion_e4)


def _cures(
    portfolio: Portfolio, rules: Rules, cushion_e4: int
) -> Iterator[tuple[int, str, WantedTrade]]:
    """Yield (traded value, instrument id, trade) for each position whose closing ends the deficit,
    in the smallest sufficient quantity.
    """

    def deficit(holding: Holding, qty: int) -> int:
        closing = _closing(holding, qty, rules)
        return deficit_e4(after_trades(portfolio, (closing,)), rules.margin, cushion_e4)

    for name, holding in portfolio.holdings.items():
        least = 1
        enough = abs(holding.qty)
        if deficit(holding, enough):
            continue

        # Bisection: closing more of a position never raises the deficit.
        while least < enough:
            middle = (least + enough) // 2
            if deficit(holding, middle):
                least = middle + 1
            else:
                enough = middle

        value_e4 = enough * holding.mark_e4 * holding.instrument.multiplier
        yield value_e4, name, _closing(holding, enough, rules)


def _greatest_relief(portfolio: Portfolio, rules: Rules) -> WantedTrade:
    """Return the trade that closes a whole position and leaves the smallest deficit; ties go to
    short positions.
    """
    before = deficit_e4(portfolio, rules.margin)
    choices: list[tuple[int, bool, str]] = []
    trades: dict[str, WantedTrade] = {}
    for name, holding in portfolio.holdings.items():
        trade = _closing(holding, abs(holding.qty), rules)
        left = deficit_e4(after_trades(portfolio, (trade,)), rules.margin)
        trades[name] = trade
        # Closing trades that raise the deficit are tied, since none of them helps.
        choices.append((min(left, before), trade.side == "SELL", name))

    _, _, best = min(choices)
    return trades[best]


def _closing(holding: Holding, qty: int, rules: Rules) -> WantedTrade:
    """Return the trade that closes `qty` units at market, with slippage, fees and, for options,
    half the spread.
    """
    worse_by = -(-holding.mark_e4 * rules.fills.half_bps(holding.instrument) // 20_000)
    side: Side = "SELL"
    price = max(0, holding.mark_e4 - worse_by)
    if holding.qty < 0:
        side = "BUY"
        price = holding.mark_e4 + worse_by

    fees = rules.fees.trade_e4(holding.instrument, qty)
    return WantedTrade(holding.instrument, side, qty, price, fees)


def _deficit_e4(portfolio: Portfolio, required: MarginRequirements, cushion_e4: int = 0) -> int:
    deficit = max(0, required.maintenance_e4 + cushion_e4 - portfolio.equity_e4)
    if portfolio.type == "CASH":
        # Shares that a CASH account is short, such as after an assignment, must be bought back.
        for stock in portfolio.of_kind("STOCK"):
            deficit += max(0, -stock.value_e4)

    return deficit


def _stock_e4(stock: Holding, account_type: AccountType, rules: MarginRules) -> tuple[int, int]:
    """Return the initial and maintenance requirements for a stock (FINRA Rule 4210(c)(1), (3))."""
    value = abs(stock.value_e4)
    if stock.qty < 0:
        initial = _percent_rounded_up(value, rules.short_initial_pct)
        percentage = _percent_rounded_up(value, rules.short_maintenance_pct)
        # FINRA Rule 4210(c)(3): at least $5 a share
        minimum = -stock.qty * rules.short_minimum_e4
        return initial, max(percentage, minimum)

    if account_type == "CASH":
        return value, value

    return _percent_rounded_up(value, rules.long_initial_pct), _percent_rounded_up(
        value, rules.long_maintenance_pct
    )


def _option_groups(portfolio: Portfolio, rules: MarginRules) -> tuple[MarginGroup, ...]:
    """Return the margin groups of all short options, by underlying."""
    groups: list[MarginGroup] = []
    grouping = margin_groups
    if portfolio.type == "CASH":
        grouping = cash_account_groups

    for ticker in portfolio.short_underlyings():
        if ticker not in portfolio.spots_e4:
            raise ServiceError(
                "unavailable", f"no price of {ticker} is known, so options on it can't be margined"
            )

        options = portfolio.options_on(ticker)
        spot_e4 = portfolio.spots_e4[ticker]
        groups += grouping(options, portfolio.shares(ticker), spot_e4, rules)

    return tuple(groups)


def _initial_excess_e4(portfolio: Portfolio, rules: MarginRules) -> int:
    return portfolio.equity_e4 - portfolio_requirements(portfolio, rules).initial_e4


def _only_lowers(before: Portfolio, trades: Sequence[WantedTrade], rules: MarginRules) -> bool:
    """Return whether trades close positions without raising a requirement, or lower both
    requirements by at least their cost.
    """
    if any(before.crosses(trade) for trade in trades):
        return False

    after = after_trades(before, trades)
    required_before = portfolio_requirements(before, rules)
    required_after = portfolio_requirements(after, rules)
    initial_rise = required_after.initial_e4 - required_before.initial_e4
    maintenance_rise = required_after.maintenance_e4 - required_before.maintenance_e4
    rise = max(initial_rise, maintenance_rise)
    if rise <= 0 and all(before.closes(trade) for trade in trades):
        return True

    cost = before.equity_e4 - after.equity_e4
    return rise + cost <= 0


def _locate_problem(
    before: Portfolio, after: Portfolio, circumstances: TradeCircumstances
) -> TradeProblem | None:
    """Return a problem if a short position grows beyond the shares that can be borrowed (Regulation
    SHO, Rule 203(b)(1)).
    """
    for holding in after.of_kind("STOCK"):
        if not _is_sold_shorter(holding, before):
            continue

        ticker = holding.instrument.symbol
        borrowable = circumstances.borrowable.get(ticker, 0)
        if -holding.qty > borrowable:
            return TradeProblem(
                "NO_LOCATE",
                f"{-holding.qty} shares of {ticker} would be short and"
                f" {borrowable} can be borrowed",
            )

    return None


def _is_sold_shorter(stock: Holding, before: Portfolio) -> bool:
    """Return whether a short stock position was opened or enlarged."""
    return stock.qty < min(0, before.shares(stock.instrument.symbol))


def _cash_problem(
    account: Account,
    before: Portfolio,
    after: Portfolio,
    trades: Sequence[WantedTrade],
    circumstances: TradeCircumstances,
) -> TradeProblem | None:
    """Return the reason for refusing trades in a CASH account, which can't borrow."""
    if any(_is_sold_shorter(stock, before) for stock in after.of_kind("STOCK")):
        return TradeProblem(
            "SHORT_NOT_ALLOWED",
            "a CASH account can't sell shares that it does not hold; that needs a MARGIN account",
        )

    for ticker in after.short_underlyings():
        if _uncovered_calls(after, ticker) > _uncovered_calls(before, ticker):
            return TradeProblem(
                "UNCOVERED_OPTION",
                f"each short call on {ticker} needs {CONTRACT_SIZE} shares of it in a CASH account;"
                " long calls do not cover there",
            )

    if all(before.closes(trade) for trade in trades):
        return None
    if account.margin_call_due is not None:
        return TradeProblem(
            "MARGIN_RESTRICTED",
            "something must be closed first: until then, only closing trades are allowed",
        )

    # SEC Rule 15c6-1: sales settle on the next trading day, and their proceeds can't be used
    # before.
    needed = _outlay_e4(trades) + after.secured_e4() + circumstances.reserved_e4
    short_of = needed - account.settled_e4(circumstances.today)
    if short_of <= 0:
        return None
    if needed <= account.cash_e4:
        return TradeProblem(
            "UNSETTLED_FUNDS",
            f"{_dollars(short_of)} of what this needs is from sales that settle on a later day",
        )

    return TradeProblem(
        "INSUFFICIENT_BUYING_POWER",
        f"settled cash not set aside is {_dollars(short_of)} short of what this needs",
    )


def _uncovered_calls(portfolio: Portfolio, ticker: str) -> int:
    options = {option.contract: option.qty for option in portfolio.options_on(ticker)}
    return uncovered_calls(options, portfolio.shares(ticker))


def _outlay_e4(trades: Iterable[WantedTrade]) -> int:
    """Return the cash that trades need at once. Proceeds of sales settle later and do not count."""
    outlay = 0
    for trade in trades:
        outlay += trade.fees_e4
        if trade.side == "BUY":
            outlay += trade.qty * trade.price_e4 * trade.instrument.multiplier

    return outlay


def _percent_rounded_up(amount_e4: int, pct: int) -> int:
    return -(-amount_e4 * pct // 100)


def _dollars(amount_e4: int) -> str:
    return f"${-(-amount_e4 // 100) / 100:,.2f}"
