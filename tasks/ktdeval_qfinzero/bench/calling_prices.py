"""Templates of price, rate and option queries."""

from __future__ import annotations

from datetime import date, timedelta

from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.items import Call, Draft, Step, Template
from ktdeval_qfinzero.bench.phrases import Random, clock_text, dollars, listed, month_of, pick, several, spoken, spoken_range, whole
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import moment_text

_DAYS = ("start", "end")


def _past_range(rng: Random, facts: Facts, longest: int = 20) -> tuple[date, date]:
    """Two trading days that are over, the first at most `longest` sessions before the second."""
    last = -whole(rng, 0, 25)
    return facts.session(last - whole(rng, 3, longest)), facts.session(last)


def _daily(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks)
    first, last = _past_range(rng, facts)
    when = spoken_range(rng, first, last)
    words = pick(
        rng,
        (
            f"Get the daily prices of {symbol.symbol} {when}.",
            f"I need {symbol.symbol}'s daily bars {when}.",
            f"Pull the daily price history of {symbol.name} ({symbol.symbol}) {when}.",
            f"How did {symbol.symbol} trade day by day {when}?",
        ),
    )
    call = Call("UPQ.stock.daily", {"tickers": symbol.symbol, "start": first.isoformat(), "end": last.isoformat()})
    return Draft(words, (Step(call, _DAYS),))


def _daily_several(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 2, 4))]
    first, last = _past_range(rng, facts)
    when = spoken_range(rng, first, last)
    words = pick(
        rng,
        (
            f"Compare the daily prices of {listed(names)} {when}.",
            f"Fetch daily bars for {listed(names)} {when}; I want them side by side.",
            f"Show me how {listed(names)} moved each day {when}.",
        ),
    )
    call = Call("UPQ.stock.daily", {"tickers": ",".join(names), "start": first.isoformat(), "end": last.isoformat()})
    return Draft(words, (Step(call, _DAYS),))


def _daily_count(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    count, last = whole(rng, 4, 12), -whole(rng, 0, 20)
    first_day, last_day = facts.session(last - count + 1), facts.session(last)
    words = pick(
        rng,
        (
            f"Get {symbol}'s daily prices for the {count} trading days ending {spoken(rng, last_day)}.",
            f"Fetch the last {count} daily bars of {symbol} up to and including {spoken(rng, last_day)}.",
        ),
    )
    call = Call("UPQ.stock.daily", {"tickers": symbol, "start": first_day.isoformat(), "end": last_day.isoformat()})
    return Draft(words, (Step(call, _DAYS),), notes="Counted in sessions of the exchange: weekends and holidays don't count.")


def _indicators(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    first, last = _past_range(rng, facts)
    length = pick(rng, (5, 10, 20, 30))
    words, names = pick(
        rng,
        (
            (f"the {length}-day simple moving average", f"ma_{length}"),
            (f"the {length}-day exponential moving average", f"ema_{length}"),
            ("the MACD", "macd"),
            (f"the {length}-day simple moving average and the MACD", f"ma_{length},macd"),
        ),
    )
    text = f"Give me {symbol}'s daily bars {spoken_range(rng, first, last)} together with {words} of its closes."
    arguments = {"tickers": symbol, "start": first.isoformat(), "end": last.isoformat(), "indicators": names}
    return Draft(text, (Step(Call("UPQ.stock.daily", arguments), _DAYS),))


def _adjusted(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    first, last = _past_range(rng, facts)
    words, adjust = pick(
        rng,
        (
            ("adjusted for splits only", "split"),
            ("split-adjusted, but not adjusted for dividends", "split"),
            ("adjusted for splits and cash dividends", "total"),
            ("on a total-return basis, so adjusted for splits and dividends", "total"),
        ),
    )
    text = f"I want {symbol}'s daily prices {spoken_range(rng, first, last)}, {words}."
    arguments = {"tickers": symbol, "start": first.isoformat(), "end": last.isoformat(), "adjust": adjust}
    return Draft(text, (Step(Call("UPQ.stock.daily", arguments), _DAYS),))


def _minutes_utc(rng: Random, facts: Facts) -> Draft:
    symbol, day = pick(rng, facts.stocks).symbol, facts.session(-whole(rng, 1, 8))
    start = facts.local_moment(day, 10, 0) + whole(rng, 0, 8) * 15 * 60 * 10**9
    end = start + whole(rng, 2, 6) * 15 * 60 * 10**9
    text = pick(
        rng,
        (
            f"Get {symbol}'s minute bars from {moment_text(start)} to {moment_text(end)}.",
            f"One-minute prices of {symbol} between {moment_text(start)} and {moment_text(end)} please.",
        ),
    )
    call = Call("UPQ.stock.minute", {"tickers": symbol, "start": moment_text(start), "end": moment_text(end)})
    return Draft(text, (Step(call, _DAYS, "5min"),))


def _minutes_local(rng: Random, facts: Facts) -> Draft:
    symbol, day = pick(rng, facts.stocks).symbol, facts.session(-whole(rng, 1, 8))
    hour, minute = whole(rng, 10, 13), pick(rng, (0, 15, 30, 45))
    length = pick(rng, (30, 45, 60, 90))
    start, end = facts.local_moment(day, hour, minute), facts.local_moment(day, hour, minute + length)
    later = divmod(hour * 60 + minute + length, 60)
    text = (
        f"Get the minute-by-minute prices of {symbol} on {spoken(rng, day)} from {clock_text(hour, minute)} to "
        f"{clock_text(*later)} New York time."
    )
    call = Call("UPQ.stock.minute", {"tickers": symbol, "start": moment_text(start), "end": moment_text(end)})
    return Draft(text, (Step(call, _DAYS, "5min"),), notes="The clocks of New York go forward on 2025-03-09.")


def _coin_daily(rng: Random, facts: Facts) -> Draft:
    coin = pick(rng, facts.coins)
    last = facts.last_day - timedelta(days=whole(rng, 1, 20))
    first = last - timedelta(days=whole(rng, 5, 20))
    text = pick(
        rng,
        (
            f"Get the daily prices of the coin {coin.name} ({coin.symbol}) {spoken_range(rng, first, last)}, weekends included.",
            f"Show {coin.symbol}, day by day, {spoken_range(rng, first, last)}.",
        ),
    )
    call = Call("UPQ.crypto.daily", {"tickers": coin.symbol, "start": first.isoformat(), "end": last.isoformat()})
    return Draft(text, (Step(call, _DAYS),))


def _coin_minutes(rng: Random, facts: Facts) -> Draft:
    coin, day = pick(rng, facts.coins), facts.last_day - timedelta(days=whole(rng, 1, 6))
    hour = whole(rng, 0, 20)
    start, end = f"{day.isoformat()}T{hour:02d}:00:00Z", f"{day.isoformat()}T{hour + 2:02d}:30:00Z"
    text = f"Fetch minute bars of {coin.symbol} on {spoken(rng, day)} between {hour:02d}:00 and {hour + 2:02d}:30 UTC."
    return Draft(text, (Step(Call("UPQ.crypto.minute", {"tickers": coin.symbol, "start": start, "end": end}), _DAYS, "5min"),))


def _curve(rng: Random, facts: Facts) -> Draft:
    day = facts.session(-whole(rng, 1, 30))
    text = pick(
        rng,
        (
            f"Get the full Treasury yield curve, all tenors, for {spoken(rng, day)}.",
            f"What did the whole US yield curve look like on {spoken(rng, day)}?",
        ),
    )
    return Draft(text, (Step(Call("UPQ.rates.query", {"start": day.isoformat(), "end": day.isoformat()}), _DAYS),))


def _tenors(rng: Random, facts: Facts) -> Draft:
    first, last = _past_range(rng, facts)
    words, names = pick(
        rng,
        (
            ("10-year and 30-year", "10Y,30Y"),
            ("2-year and 10-year", "2Y,10Y"),
            ("3-month", "3M"),
            ("1-month, 1-year and 5-year", "1M,1Y,5Y"),
        ),
    )
    text = f"What were the {words} Treasury yields {spoken_range(rng, first, last)}?"
    arguments = {"start": first.isoformat(), "end": last.isoformat(), "tenors": names}
    return Draft(text, (Step(Call("UPQ.rates.query", arguments), _DAYS),))


def _dividends(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 3))]
    first, last = month_of(facts.session(-whole(rng, 90, 150)))[0], facts.last_day
    text = f"Which cash dividends of {listed(names)} had their ex-date {spoken_range(rng, first, last)}?"
    arguments = {"tickers": ",".join(names), "start": first.isoformat(), "end": last.isoformat()}
    return Draft(text, (Step(Call("UPQ.dividends.query", arguments), _DAYS, may_be_empty=True),))


def _splits(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 2, 4))]
    first, last = month_of(facts.session(-whole(rng, 120, 200)))[0], facts.last_day
    text = f"Did {listed(names)} have any stock splits {spoken_range(rng, first, last)}? Look them up."
    arguments = {"tickers": ",".join(names), "start": first.isoformat(), "end": last.isoformat()}
    return Draft(text, (Step(Call("UPQ.splits.query", arguments), _DAYS, may_be_empty=True),))


# -- options


def _near_strikes(facts: Facts, underlying: str, expiry: date) -> tuple[float, float]:
    """Two listed strikes around the last close."""
    strikes, spot = facts.strikes(underlying, expiry), facts.close(underlying)
    below = [strike for strike in strikes if strike <= spot] or list(strikes[:1])
    above = [strike for strike in strikes if strike > spot] or list(strikes[-1:])
    return below[-min(3, len(below))], above[min(2, len(above) - 1)]


def _chain_month(rng: Random, facts: Facts) -> Draft:
    underlying = pick(rng, facts.optionable).symbol
    expiry = pick(rng, facts.monthly_expiries(underlying))
    first, last = month_of(expiry)
    low, high = _near_strikes(facts, underlying, expiry)
    word, right = pick(rng, (("puts", "P"), ("calls", "C")))
    day = facts.session(-whole(rng, 0, 3))
    text = pick(
        rng,
        (
            f"Get the daily option chain of all {underlying} {word} with strikes between {dollars(low)} and {dollars(high)} that "
            f"expire in {expiry:%B} {expiry.year}, as observed on {spoken(rng, day)}.",
            f"On {spoken(rng, day)}, what were the {underlying} {word} expiring in {expiry:%B} {expiry.year}, strikes "
            f"{dollars(low)} to {dollars(high)}?",
        ),
    )
    arguments = {
        "underlying": underlying, "date": day.isoformat(), "expiry_min": first.isoformat(), "expiry_max": last.isoformat(),
        "strike_min": low, "strike_max": high, "type": right,
    }  # fmt: skip
    return Draft(text, (Step(Call("UPQ.option.chain_query", arguments), ("date",)),))


def _chain_monthly(rng: Random, facts: Facts) -> Draft:
    underlying = pick(rng, facts.optionable).symbol
    expiry = pick(rng, facts.monthly_expiries(underlying))
    day = facts.session(-whole(rng, 0, 3))
    word, right = pick(rng, (("puts", "P"), ("calls", "C")))
    text = (
        f"Show the {underlying} {word} of the {expiry:%B} {expiry.year} monthly expiry only, as of {spoken(rng, day)}, all strikes."
    )
    arguments = {
        "underlying": underlying, "date": day.isoformat(), "expiry_min": expiry.isoformat(), "expiry_max": expiry.isoformat(),
        "type": right,
    }  # fmt: skip
    notes = "Monthly options expire on the third Friday, or on the trading day before where that is a holiday."
    return Draft(text, (Step(Call("UPQ.option.chain_query", arguments), ("date", "expiry_min", "expiry_max")),), notes=notes)


def _chain_greeks(rng: Random, facts: Facts) -> Draft:
    underlying = pick(rng, facts.optionable).symbol
    expiry = pick(rng, facts.expiries(underlying))
    low, high = _near_strikes(facts, underlying, expiry)
    day = facts.session(-whole(rng, 0, 3))
    text = (
        f"I need implied volatilities and Greeks of the {underlying} options expiring on {spoken(rng, expiry)} with strikes from "
        f"{dollars(low)} to {dollars(high)}, puts and calls, observed {spoken(rng, day)}."
    )
    arguments = {
        "underlying": underlying, "date": day.isoformat(), "expiry_min": expiry.isoformat(), "expiry_max": expiry.isoformat(),
        "strike_min": low, "strike_max": high, "include_greeks": True,
    }  # fmt: skip
    return Draft(text, (Step(Call("UPQ.option.chain_query", arguments), ("date", "expiry_min", "expiry_max")),))


def _near_contract(rng: Random, facts: Facts, underlying: str) -> OptionContract:
    expiry = pick(rng, facts.expiries(underlying)[:4])
    low, high = _near_strikes(facts, underlying, expiry)
    strike = pick(rng, [strike for strike in facts.strikes(underlying, expiry) if low <= strike <= high])
    return OptionContract(underlying, expiry, round(strike * 10_000), pick(rng, ("C", "P")))


def _contract_words(rng: Random, contract: OptionContract) -> str:
    """A contract by its terms, so that its symbol has to be made."""
    word = "call" if contract.right == "C" else "put"
    strike = dollars(contract.strike_e4 / 10_000)
    return f"the {contract.underlying} {spoken(rng, contract.expiry)} {strike} {word}"


def _contract_symbol(rng: Random, facts: Facts) -> Draft:
    contract = _near_contract(rng, facts, pick(rng, facts.optionable).symbol)
    first, last = facts.session(-whole(rng, 4, 9)), facts.session(-whole(rng, 0, 2))
    text = f"Get the daily price history of option contract {contract.symbol} {spoken_range(rng, first, last)}."
    arguments = {"contract": contract.symbol, "start": first.isoformat(), "end": last.isoformat()}
    return Draft(text, (Step(Call("UPQ.option.ticker_query", arguments), _DAYS, may_be_empty=True),))


def _contract_terms(rng: Random, facts: Facts) -> Draft:
    contract = _near_contract(rng, facts, pick(rng, facts.optionable).symbol)
    first, last = facts.session(-whole(rng, 4, 9)), facts.session(-whole(rng, 0, 2))
    text = f"How did {_contract_words(rng, contract)} trade, day by day, {spoken_range(rng, first, last)}?"
    arguments = {"contract": contract.symbol, "start": first.isoformat(), "end": last.isoformat()}
    step = Step(Call("UPQ.option.ticker_query", arguments), _DAYS, may_be_empty=True)
    return Draft(text, (step,), notes="The OPRA symbol follows from the terms.")


def _contract_minutes(rng: Random, facts: Facts) -> Draft:
    contract = _near_contract(rng, facts, pick(rng, facts.optionable).symbol)
    day = facts.session(-whole(rng, 0, 3))
    start, end = facts.local_moment(day, 9, 30), facts.local_moment(day, 16, 0)
    text = f"Get the minute-level prices of {_contract_words(rng, contract)} on {spoken(rng, day)} during regular trading hours."
    arguments = {"contract": contract.symbol, "start": moment_text(start), "end": moment_text(end), "resolution": "minute"}
    step = Step(Call("UPQ.option.ticker_query", arguments), _DAYS, "5min", may_be_empty=True)
    return Draft(text, (step,), notes="Days are the default resolution; trading hours are New York's, calls take UTC.")


TEMPLATES = (
    Template("daily", "price_query", "easy", _daily, 7),
    Template("daily_several", "price_query", "medium", _daily_several, 6),
    Template("daily_count", "price_query", "hard", _daily_count, 6),
    Template("indicators", "price_query", "medium", _indicators, 5),
    Template("adjusted", "price_query", "medium", _adjusted, 5),
    Template("minutes_utc", "price_query", "easy", _minutes_utc, 4),
    Template("minutes_local", "price_query", "hard", _minutes_local, 6),
    Template("coin_daily", "price_query", "easy", _coin_daily, 4),
    Template("coin_minutes", "price_query", "medium", _coin_minutes, 4),
    Template("curve", "rates_query", "easy", _curve, 4),
    Template("tenors", "rates_query", "medium", _tenors, 5),
    Template("dividends", "corporate_action_query", "medium", _dividends, 5),
    Template("splits", "corporate_action_query", "medium", _splits, 4),
    Template("chain_month", "option_query", "medium", _chain_month, 7),
    Template("chain_monthly", "option_query", "hard", _chain_monthly, 6),
    Template("chain_greeks", "option_query", "medium", _chain_greeks, 6),
    Template("contract_symbol", "option_query", "easy", _contract_symbol, 5),
    Template("contract_terms", "option_query", "hard", _contract_terms, 6),
    Template("contract_minutes", "option_query", "hard", _contract_minutes, 5),
)
