"""Margin of an account (Regulation T and FINRA Rule 4210, strategy based): what it needs, what it may buy, what must be closed.

Equity is the net liquidation value; requirements are what it must reach, so that the two compare directly. The published rules of
options set premiums against cash and give options no value; both sides of that comparison plus the market value of all options give
ours: long and short stock by their rates, long options whole, and of short options what `portfolio` requires less their market
value, which equity has lost already. Amounts are whole ten-thousandths of a dollar; requirements are rounded up and buying
power down, against the trader. Rates are at least 1%.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import CONTRACT_SIZE
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
from ktdeval_qfinzero.pmb.values import Account, AccountType, Instrument, MarginRules, Rules, Side

ProblemCode = Literal[
    "INSUFFICIENT_BUYING_POWER", "UNSETTLED_FUNDS", "MARGIN_RESTRICTED", "NO_LOCATE", "SHORT_NOT_ALLOWED", "UNCOVERED_OPTION",
    "NO_MARK",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a trade is refused: a code, and one line of what is wrong and how to fix it."""

    code: ProblemCode
    words: str


@dataclass(frozen=True, slots=True)
class Requirements:
    """Amounts that equity must reach to open positions (initial) and to keep them (maintenance, which is never more)."""

    initial_e4: int
    maintenance_e4: int


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Circumstances that decide on a trade."""

    today: date  # the account's trading day, `engine.hours.session_day(clock)`
    borrowable: Mapping[str, int]  # ticker -> `BorrowRow.shares`; a ticker that is absent has no locate
    reserved_e4: int = 0  # sum of `reservation_e4` over the account's OTHER working orders


@dataclass(frozen=True, slots=True)
class MarginState:
    """An account's margin at given marks; there is a margin call where the deficit is above 0."""

    equity_e4: int
    initial_e4: int
    maintenance_e4: int
    buying_power_e4: int
    deficit_e4: int  # by how much maintenance is missed; in a CASH account also what shares sold short are worth


def equity_e4(account: Account, marks: Mapping[str, int]) -> int:
    """Net liquidation value: cash (proceeds of short sales among it) and the market value of all positions, shorts negative."""
    return portfolio_of(account, marks).equity_e4


def margin_state(account: Account, marks: Mapping[str, int], rules: Rules, today: date | None = None) -> MarginState:
    """Margin of an account, for snapshots and for the test of a margin call after each tick.
    Buying power is what new long stock could be bought for: (equity − initial requirement) / initial rate; never negative. In a
    CASH account: settled cash that no short put has set aside. Without `today`, no entry of `unsettled` counts as settled. Marks
    (instrument id -> price) are of every position, and `STOCK:X` of a short option's; raises ServiceError `unavailable` without.
    """
    portfolio = portfolio_of(account, marks)
    equity, required = portfolio.equity_e4, portfolio_requirements(portfolio, rules.margin)
    if account.type == "CASH":
        power = account.settled_e4(today) - portfolio.secured_e4()
    else:
        rate = max(rules.margin.long_initial_pct, rules.margin.long_maintenance_pct)
        power = (equity - required.initial_e4) * 100 // rate
    return MarginState(equity, required.initial_e4, required.maintenance_e4, max(0, power), _deficit_e4(portfolio, required))


def reservation_e4(account: Account, trades: Sequence[WantedTrade], marks: Mapping[str, int], rules: Rules) -> int:
    """What a working order (one trade; the legs of a spread together) ties up: the rise of requirement less equity, never negative.
    In a CASH account: the cash that it would take or set aside. Each order is taken by itself, as if no other were filled.
    """
    before = portfolio_of(account, marks)
    if _only_lowers(before, trades, rules.margin):
        return 0
    after = after_trades(before, trades)
    if account.type == "CASH":
        return max(0, _outlay_e4(trades) + after.secured_e4() - before.secured_e4())
    return max(0, _initial_excess_e4(before, rules.margin) - _initial_excess_e4(after, rules.margin))


def order_problem(
    account: Account, trades: Sequence[WantedTrade], marks: Mapping[str, int], rules: Rules, circumstances: Circumstances
) -> Problem | None:
    """Why an order can't be placed, or a fill not be made; None where it can.
    Judged by the requirement AFTER the trade against the equity after it. Trades that only close positions without raising the
    requirement, and trades that lower it by more than they cost, pass always; selling what covers a short option is not among them.
    One that crosses through zero is a closing and an opening, so it must pass as the latter. Units that are opened count at their
    own price, closed ones at no better a price than their mark. For use at placement, and again at each fill with the fill's price
    and the tick's marks. `account`: before the trade; `trades`: one trade; all legs of a spread together, for a spread is judged as
    a whole; `marks`: as of `margin_state`, with `STOCK:X` of the underlying of a wanted option; `circumstances`: day, locates and
    other orders.
    """
    before = portfolio_of(account, marks)
    after = after_trades(before, trades)
    missing = [ticker for ticker in after.short_underlyings() if ticker not in after.spots_e4]
    if missing:
        return Problem("NO_MARK", f"no price of {missing[0]} is known yet, so options on it can't be margined; order later")
    if account.type == "CASH":
        return _cash_problem(account, before, after, trades, circumstances)
    problem = _locate_problem(before, after, circumstances)
    if problem is not None or _only_lowers(before, trades, rules.margin):
        return problem
    if account.margin_call_due is not None or deficit_e4(before, rules.margin):
        return Problem("MARGIN_RESTRICTED", "until the margin call is met, only trades that lower the requirement are allowed")
    short_of = circumstances.reserved_e4 - _initial_excess_e4(after, rules.margin)
    if short_of > 0:
        return Problem(
            "INSUFFICIENT_BUYING_POWER",
            f"after the trade equity would be {_dollars(short_of)} below the initial requirement and what other orders reserve;"
            " trade less, or close or cancel something first",
        )
    return None


def liquidation_plan(account: Account, marks: Mapping[str, int], rules: Rules) -> tuple[tuple[Instrument, Side, int], ...]:
    """Closing trades, in order, that bring equity to the maintenance requirement; empty where it is met.
    Where closing one position, or a part of it, is enough: the one and the quantity with the least traded value, the first by
    instrument id of equal ones. Where none is enough: the one whose closing leaves the least deficit is closed whole, and so on;
    short positions before long ones where none helps. Trades are taken to fill at the marks, with fees, slippage and half the
    spread. When equity is negative everything is closed, and the deficit stays.
    """
    portfolio = portfolio_of(account, marks)
    plan: list[tuple[Instrument, Side, int]] = []
    while portfolio.holdings and deficit_e4(portfolio, rules.margin):
        trade = min(_cures(portfolio, rules), key=lambda cure: cure[:2], default=(0, "", _greatest_relief(portfolio, rules)))[2]
        portfolio = after_trades(portfolio, (trade,))
        plan.append((trade.instrument, trade.side, trade.qty))
    return tuple(plan)


def portfolio_requirements(portfolio: Portfolio, rules: MarginRules) -> Requirements:
    """Initial and maintenance requirement; raises ServiceError `unavailable`: an underlying of a short option has no price."""
    options = portfolio.of_kind("OPTION")
    for_options = required_e4(_option_groups(portfolio, rules)) + sum(option.value_e4 for option in options)
    initial = maintenance = for_options
    for stock in portfolio.of_kind("STOCK"):
        stock_initial, stock_maintenance = _stock_e4(stock, portfolio.type, rules)
        initial += max(stock_initial, stock_maintenance)
        maintenance += stock_maintenance
    return Requirements(initial, maintenance)


def deficit_e4(portfolio: Portfolio, rules: MarginRules) -> int:
    """By how much maintenance is missed; as in `MarginState`."""
    return _deficit_e4(portfolio, portfolio_requirements(portfolio, rules))


def _cures(portfolio: Portfolio, rules: Rules) -> Iterator[tuple[int, str, WantedTrade]]:
    """(traded value, instrument id, trade) of each single closing, in its least quantity, that ends the deficit."""

    def deficit(holding: Holding, qty: int) -> int:
        return deficit_e4(after_trades(portfolio, (_closing(holding, qty, rules),)), rules.margin)

    for name, holding in portfolio.holdings.items():
        least, enough = 1, abs(holding.qty)
        if deficit(holding, enough):
            continue
        while least < enough:
            middle = (least + enough) // 2
            least, enough = (middle + 1, enough) if deficit(holding, middle) else (least, middle)
        yield enough * holding.mark_e4 * holding.instrument.multiplier, name, _closing(holding, enough, rules)


def _greatest_relief(portfolio: Portfolio, rules: Rules) -> WantedTrade:
    """Closing of a whole position that leaves the least deficit."""
    before = deficit_e4(portfolio, rules.margin)
    trades = {name: _closing(holding, abs(holding.qty), rules) for name, holding in portfolio.holdings.items()}
    left = {name: deficit_e4(after_trades(portfolio, (trade,)), rules.margin) for name, trade in trades.items()}
    return trades[min(trades, key=lambda name: (min(left[name], before), trades[name].side == "SELL", name))]


def _closing(holding: Holding, qty: int, rules: Rules) -> WantedTrade:
    """A closing at the market: slippage, and for options half the spread and the fee of a contract."""
    worse = -(-holding.mark_e4 * rules.fills.half_bps(holding.instrument) // 20_000)
    buy = holding.qty < 0
    price = holding.mark_e4 + worse if buy else max(0, holding.mark_e4 - worse)
    return WantedTrade(holding.instrument, "BUY" if buy else "SELL", qty, price, rules.fees.trade_e4(holding.instrument, qty))


def _deficit_e4(portfolio: Portfolio, required: Requirements) -> int:
    missed = max(0, required.maintenance_e4 - portfolio.equity_e4)
    return missed + (sum(max(0, -stock.value_e4) for stock in portfolio.of_kind("STOCK")) if portfolio.type == "CASH" else 0)


def _stock_e4(stock: Holding, account_type: AccountType, rules: MarginRules) -> tuple[int, int]:
    """Initial and maintenance requirement of a stock position; FINRA Rule 4210(c)(1) and (3)."""
    value = abs(stock.value_e4)
    if stock.qty < 0:
        maintenance = max(_percent(value, rules.short_maintenance_pct), -stock.qty * rules.short_minimum_e4)
        return _percent(value, rules.short_initial_pct), maintenance
    if account_type == "CASH":
        return value, value
    return _percent(value, rules.long_initial_pct), _percent(value, rules.long_maintenance_pct)


def _option_groups(portfolio: Portfolio, rules: MarginRules) -> tuple[MarginGroup, ...]:
    groups: list[MarginGroup] = []
    work_out = cash_account_groups if portfolio.type == "CASH" else margin_groups
    for ticker in portfolio.short_underlyings():
        if ticker not in portfolio.spots_e4:
            raise ServiceError("unavailable", f"no price of {ticker} is known, so options on it can't be margined")
        groups.extend(work_out(portfolio.options_on(ticker), portfolio.shares(ticker), portfolio.spots_e4[ticker], rules))
    return tuple(groups)


def _initial_excess_e4(portfolio: Portfolio, rules: MarginRules) -> int:
    return portfolio.equity_e4 - portfolio_requirements(portfolio, rules).initial_e4


def _only_lowers(before: Portfolio, trades: Sequence[WantedTrade], rules: MarginRules) -> bool:
    """Whether trades close positions without raising the requirement, or raise the excess of equity over both requirements."""
    if any(before.crosses(trade) for trade in trades):
        return False
    after = after_trades(before, trades)
    was, now = portfolio_requirements(before, rules), portfolio_requirements(after, rules)
    lost = before.equity_e4 - after.equity_e4
    initial, maintenance = now.initial_e4 - was.initial_e4, now.maintenance_e4 - was.maintenance_e4
    closes = all(before.closes(trade) for trade in trades)
    return (closes and initial <= 0 and maintenance <= 0) or (initial + lost <= 0 and maintenance + lost <= 0)


def _locate_problem(before: Portfolio, after: Portfolio, circumstances: Circumstances) -> Problem | None:
    """Whether shares that are newly sold short can be borrowed (Regulation SHO, Rule 203(b)(1)); all that are short count."""
    for holding in after.of_kind("STOCK"):
        ticker = holding.instrument.symbol
        if holding.qty < min(0, before.shares(ticker)) and -holding.qty > circumstances.borrowable.get(ticker, 0):
            return Problem(
                "NO_LOCATE",
                f"{-holding.qty} shares of {ticker} would be short and {circumstances.borrowable.get(ticker, 0)} can be borrowed",
            )
    return None


def _cash_problem(
    account: Account, before: Portfolio, after: Portfolio, trades: Sequence[WantedTrade], circumstances: Circumstances
) -> Problem | None:
    if any(stock.qty < min(0, before.shares(stock.instrument.symbol)) for stock in after.of_kind("STOCK")):
        return Problem("SHORT_NOT_ALLOWED", "a CASH account can't sell shares that it does not hold; that needs a MARGIN account")
    for ticker in after.short_underlyings():
        if _uncovered_calls(after, ticker) > _uncovered_calls(before, ticker):
            return Problem(
                "UNCOVERED_OPTION",
                f"each short call on {ticker} needs {CONTRACT_SIZE} shares of it in a CASH account; long calls do not cover there",
            )
    if all(before.closes(trade) for trade in trades):
        return None
    if account.margin_call_due is not None:
        return Problem("MARGIN_RESTRICTED", "something must be closed first: until then, only closing trades are allowed")
    needed = _outlay_e4(trades) + after.secured_e4() + circumstances.reserved_e4
    short_of = needed - account.settled_e4(circumstances.today)
    if short_of <= 0:
        return None
    if needed <= account.cash_e4:
        return Problem("UNSETTLED_FUNDS", f"{_dollars(short_of)} of what this needs is from sales that settle on a later day")
    return Problem("INSUFFICIENT_BUYING_POWER", f"settled cash not set aside is {_dollars(short_of)} short of what this needs")


def _uncovered_calls(portfolio: Portfolio, ticker: str) -> int:
    options = {option.contract: option.qty for option in portfolio.options_on(ticker)}
    return uncovered_calls(options, portfolio.shares(ticker))


def _outlay_e4(trades: Iterable[WantedTrade]) -> int:
    """Cash that trades take at once: what sales bring settles later."""
    bought = sum(trade.qty * trade.price_e4 * trade.instrument.multiplier for trade in trades if trade.side == "BUY")
    return bought + sum(trade.fees_e4 for trade in trades)


def _percent(amount_e4: int, pct: int) -> int:
    return -(-amount_e4 * pct // 100)


def _dollars(amount_e4: int) -> str:
    return f"${-(-amount_e4 // 100) / 100:,.2f}"
