"""Planning templates around options."""

from __future__ import annotations

from datetime import date, timedelta

from ktdeval.api import JsonValue
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.items import ACCOUNT, SESSION, Call, Draft, Step, Template
from ktdeval_qfinzero.bench.phrases import Random, dollars, month_of, pick, spoken, whole
from ktdeval_qfinzero.bench.situations import IDS, Desk, desk, holding, option, place, step
from ktdeval_qfinzero.instruments import OptionContract

_DAYS = ("start", "end")
_WITH = f"Using session_id={SESSION} and account_id={ACCOUNT}: "
OPEN_ORDERS = Step(Call("PMB.account.orders", {"account_id": ACCOUNT, "status_in": "OPEN"}))
POSITIONS = Step(Call("PMB.account.positions", {"account_id": ACCOUNT}))


def daily(tickers: str, first: date, last: date) -> Step:
    """Daily bars of some stocks."""
    return Step(Call("UPQ.stock.daily", {"tickers": tickers, "start": first.isoformat(), "end": last.isoformat()}), _DAYS)


def earnings(symbol: str, first: date, last: date) -> Step:
    """The earnings calendar of a stock."""
    arguments: dict[str, JsonValue] = {"start_date": first.isoformat(), "end_date": last.isoformat(), "tickers": [symbol]}
    return Step(Call("ESP.calendar.earnings", arguments), ("start_date", "end_date"), may_be_empty=True)


def monthly(facts: Facts, underlying: str) -> date:
    """The first monthly expiry at least two weeks ahead."""
    return next(day for day in facts.monthly_expiries(underlying) if day > facts.session(9))


def near_strikes(facts: Facts, underlying: str, expiry: date, right: str) -> list[OptionContract]:
    """The five listed contracts of an expiry around the last close, by strike."""
    rows = [row for row in facts.contracts_of(underlying) if (row.expiry, row.right) == (expiry, right)]
    spot = facts.close(underlying) * 10_000
    nearest = sorted(sorted(rows, key=lambda row: (abs(row.strike_e4 - spot), row.strike_e4))[:5], key=lambda row: row.strike_e4)
    return [OptionContract(underlying, row.expiry, row.strike_e4, row.right) for row in nearest]


def chain(contracts: list[OptionContract], day: date, **more: JsonValue) -> Step:
    """The chain of one expiry and right between the lowest and the highest strike of some contracts."""
    arguments: dict[str, JsonValue] = {
        "underlying": contracts[0].underlying,
        "date": day.isoformat(),
        "expiry_min": contracts[0].expiry.isoformat(),
        "expiry_max": contracts[0].expiry.isoformat(),
        "strike_min": contracts[0].strike_e4 / 10_000,
        "strike_max": contracts[-1].strike_e4 / 10_000,
        "type": contracts[0].right,
        **more,
    }
    return Step(Call("UPQ.option.chain_query", arguments), ("date", "expiry_min", "expiry_max"))


def _chain_words(rng: Random, contracts: list[OptionContract], day: date) -> str:
    word = "calls" if contracts[0].right == "C" else "puts"
    low, high = (dollars(contracts[place_].strike_e4 / 10_000) for place_ in (0, -1))
    return (
        f"the {contracts[0].underlying} {word} expiring {spoken(rng, contracts[0].expiry)}, strikes {low} to {high}, observed on "
        f"{spoken(rng, day)}"
    )


def _limit_order(contract: OptionContract, side: str, qty: int, limit: float, force: str = "DAY") -> Step:
    return Step(place(option(contract.symbol), side, qty, "LIMIT", limit_price=limit, time_in_force=force))


def _premium(facts: Facts, contract: OptionContract) -> float:
    return round(max(0.05, facts.close(contract.underlying) * 0.02), 2)


def _put_protection(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.optionable).symbol
    first, last = facts.last_day + timedelta(days=1), facts.last_day + timedelta(days=75)
    puts = near_strikes(facts, symbol, monthly(facts, symbol), "P")
    contract, qty = puts[0], whole(rng, 1, 4)
    limit = _premium(facts, contract)
    past = facts.session(-4)
    text = (
        f"{_WITH}(1) Find {symbol}'s next earnings date in the calendar from {spoken(rng, first)} through {spoken(rng, last)}. "
        f"(2) Fetch {symbol}'s daily bars from {spoken(rng, past)} through {spoken(rng, facts.last_day)}. (3) Get "
        f"{_chain_words(rng, puts, facts.last_day)}. (4) Buy {qty} of {contract.symbol} as protection, limit {dollars(limit)}, "
        "DAY."
    )
    steps = (
        earnings(symbol, first, last),
        daily(symbol, past, facts.last_day),
        chain(puts, facts.last_day),
        _limit_order(contract, "BUY", qty, limit),
    )
    return Draft(text, steps, desk(facts, Desk((symbol,), (contract.symbol,))))


def _covered_call(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.optionable).symbol
    calls = near_strikes(facts, symbol, monthly(facts, symbol), "C")
    contract, limit = calls[-1], _premium(facts, calls[-1])
    text = (
        f"{_WITH}(1) Get {symbol}'s daily bar of {spoken(rng, facts.last_day)}. (2) Confirm from the positions that the account "
        f"holds {symbol}. (3) Look at {_chain_words(rng, calls, facts.last_day)}. (4) Sell one {contract.symbol} against the "
        f"shares, limit {dollars(limit)}, DAY. (5) List the orders with status OPEN to see that it is in."
    )
    steps = (
        daily(symbol, facts.last_day, facts.last_day),
        POSITIONS,
        chain(calls, facts.last_day),
        _limit_order(contract, "SELL", 1, limit),
        OPEN_ORDERS,
    )
    return Draft(text, steps, holding(facts, (symbol,), 100, Desk((symbol,), (contract.symbol,))))


def _vertical(rng: Random, facts: Facts) -> Draft:
    symbol, right = pick(rng, facts.optionable).symbol, pick(rng, ("C", "P"))
    contracts = near_strikes(facts, symbol, monthly(facts, symbol), right)
    low, high = contracts[1], contracts[3]
    bought, sold = (low, high) if right == "C" else (high, low)
    debit, qty = round((high.strike_e4 - low.strike_e4) / 20_000, 2), whole(rng, 1, 3)
    legs: list[JsonValue] = [
        {"instrument": option(bought.symbol), "side": "BUY", "ratio": 1},
        {"instrument": option(sold.symbol), "side": "SELL", "ratio": 1},
    ]
    spread = Call("PMB.spread.place", {**IDS, "legs": legs, "qty": qty, "net_limit_price": debit})
    text = (
        f"{_WITH}(1) Get {_chain_words(rng, contracts, facts.last_day)}, with implied volatilities and Greeks. (2) Put on the "
        f"spread that buys {bought.symbol} and sells {sold.symbol}, one for one, {qty} time{'s' if qty > 1 else ''}, for a net "
        f"debit of at most {dollars(debit)} a share. (3) Step the session by one tick. (4) Show the account's positions."
    )
    steps = (
        chain(contracts, facts.last_day, include_greeks=True),
        Step(spread),
        Step(step()),
        Step(POSITIONS.call, may_be_empty=True),
    )
    return Draft(text, steps, desk(facts, Desk((symbol,), (low.symbol, high.symbol))))


def _macro_hedge(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.optionable).symbol
    first, last = facts.last_day + timedelta(days=1), facts.last_day + timedelta(days=whole(rng, 7, 14))
    puts = near_strikes(facts, symbol, monthly(facts, symbol), "P")
    contract, limit = puts[1], _premium(facts, puts[1])
    text = (
        f"{_WITH}(1) Which high-importance economic releases are due from {spoken(rng, first)} through {spoken(rng, last)}? (2) "
        f"Get the 3-month and 10-year Treasury yields of {spoken(rng, facts.session(-1))}. (3) Get "
        f"{_chain_words(rng, puts, facts.last_day)}. (4) Buy 2 of {contract.symbol} at a limit of {dollars(limit)}, good till "
        "cancelled."
    )
    econ: dict[str, JsonValue] = {"start_date": first.isoformat(), "end_date": last.isoformat(), "min_importance": "high"}
    day = facts.session(-1).isoformat()
    steps = (
        Step(Call("ESP.calendar.econ", econ), ("start_date", "end_date"), may_be_empty=True),
        Step(Call("UPQ.rates.query", {"start": day, "end": day, "tenors": "3M,10Y"}), _DAYS),
        chain(puts, facts.last_day),
        _limit_order(contract, "BUY", 2, limit, "GTC"),
    )
    return Draft(text, steps, desk(facts, Desk((symbol,), (contract.symbol,))))


def _contract_study(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.optionable).symbol
    calls = near_strikes(facts, symbol, monthly(facts, symbol), "C")
    contract = calls[2]
    past, (month_first, month_last) = facts.session(-5), month_of(facts.session(-40))
    text = (
        f"(1) Get {_chain_words(rng, calls, facts.last_day)}. (2) Pull the daily history of {contract.symbol} from "
        f"{spoken(rng, past)} through {spoken(rng, facts.last_day)} with its Greeks. (3) Look up {symbol}'s dividends with "
        f"ex-dates from {spoken(rng, month_first)} through {spoken(rng, facts.last_day)}. (4) Fetch {symbol}'s daily bars of "
        f"{month_first:%B} {month_first.year}."
    )
    history: dict[str, JsonValue] = {
        "contract": contract.symbol, "start": past.isoformat(), "end": facts.last_day.isoformat(), "include_greeks": True,
    }  # fmt: skip
    dividends = {"tickers": symbol, "start": month_first.isoformat(), "end": facts.last_day.isoformat()}
    steps = (
        chain(calls, facts.last_day),
        Step(Call("UPQ.option.ticker_query", history), _DAYS, may_be_empty=True),
        Step(Call("UPQ.dividends.query", dividends), _DAYS, may_be_empty=True),
        daily(symbol, month_first, month_last),
    )
    return Draft(text, steps)


TEMPLATES = (
    Template("put_protection", "option_workflow", "medium", _put_protection, 8),
    Template("covered_call", "option_workflow", "hard", _covered_call, 8),
    Template("vertical", "option_workflow", "hard", _vertical, 7),
    Template("macro_hedge", "option_workflow", "hard", _macro_hedge, 6),
    Template("contract_study", "option_workflow", "medium", _contract_study, 5),
)
