"""Templates that take several services, that leave something to the conventions, or that can't be done."""

from __future__ import annotations

from datetime import timedelta

from ktdeval.api import JsonValue
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.items import ACCOUNT, SESSION, Call, Draft, Step, Template
from ktdeval_qfinzero.bench.phrases import Random, dollars, listed, month_of, pick, several, spoken, spoken_range, week_of, whole
from ktdeval_qfinzero.bench.situations import Desk, desk, holding, place, step, stock
from ktdeval_qfinzero.data.rows import EventType
from ktdeval_qfinzero.data.stores import Tags
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

_DAYS = ("start", "end")
_DATES = ("start_date", "end_date")
_MACRO: tuple[EventType, ...] = ("macro_calendar",)


def _daily(tickers: str, first: object, last: object) -> Step:
    return Step(Call("UPQ.stock.daily", {"tickers": tickers, "start": str(first), "end": str(last)}), _DAYS)


# -- several services


def _positions_and_prices(rng: Random, facts: Facts) -> Draft:
    names = sorted(row.symbol for row in several(rng, facts.stocks, 2))
    day = facts.last_day
    text = (
        f"Check the positions of account {ACCOUNT}, then get the daily bar of {spoken(rng, day)} for {listed(names)}, which "
        "should be what it holds."
    )
    steps = (Step(Call("PMB.account.positions", {"account_id": ACCOUNT})), _daily(",".join(names), day, day))
    return Draft(text, steps, holding(facts, names, 40))


def _dual_calendar(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 3))]
    first = facts.last_day + timedelta(days=whole(rng, 0, 5))
    last = first + timedelta(days=whole(rng, 6, 20))
    text = (
        f"For the days {spoken_range(rng, first, last)}: which earnings of {listed(names)} are due, and which economic releases "
        "of high importance are due?"
    )
    days: dict[str, JsonValue] = {"start_date": first.isoformat(), "end_date": last.isoformat()}
    steps = (
        Step(Call("ESP.calendar.earnings", {**days, "tickers": names}), _DATES, may_be_empty=True),
        Step(Call("ESP.calendar.econ", {**days, "min_importance": "high"}), _DATES, may_be_empty=True),
    )
    return Draft(text, steps)


def _macro_news_minutes(rng: Random, facts: Facts) -> Draft:
    symbol, day = pick(rng, facts.stocks).symbol, facts.session(-whole(rng, 1, 4))
    monday, friday = week_of(day)
    hours = pick(rng, (24, 48, 72))
    start, end = facts.local_moment(day, 9, 30), facts.local_moment(day, 11, 0)
    text = (
        f"First the high-importance economic releases {spoken_range(rng, monday, friday)}, then query the events for breaking "
        f"news on {symbol} of the past {hours} hours, and last get {symbol}'s minute bars of {spoken(rng, day)} from the open at "
        "9:30 a.m. to 11:00 a.m. New York time."
    )
    econ: dict[str, JsonValue] = {"start_date": monday.isoformat(), "end_date": friday.isoformat(), "min_importance": "high"}
    news: dict[str, JsonValue] = {
        "mode": "just_happened", "horizon_minutes": hours * 60, "event_types": ["breaking_news"], "tickers": [symbol],
    }  # fmt: skip
    minutes = {"tickers": symbol, "start": moment_text(start), "end": moment_text(end)}
    steps = (
        Step(Call("ESP.calendar.econ", econ), _DATES, may_be_empty=True),
        Step(Call("ESP.events.query", news), ("horizon_minutes",), may_be_empty=True),
        Step(Call("UPQ.stock.minute", minutes), _DAYS, "5min"),
    )
    return Draft(text, steps)


def _from_nothing(rng: Random, facts: Facts) -> Draft:
    symbol, cash, qty = pick(rng, facts.stocks).symbol, float(whole(rng, 2, 8) * 50_000), whole(rng, 1, 10) * 10
    first, last = facts.session(1), facts.session(whole(rng, 8, 15))
    start, end = moment_text(facts.local_moment(first, 9, 30)), moment_text(trading_hours().close_of(last))
    text = (
        f"Create a margin account in US dollars with {dollars(cash)}, then on it a session of daily bars with {symbol} in its "
        f"universe, from the open of {spoken(rng, first)} to the close of {spoken(rng, last)} in regular hours, step it by one "
        f"tick, and then buy {qty} shares of {symbol} at the market, day order."
    )
    account: dict[str, JsonValue] = {"base_currency": "USD", "account_type": "MARGIN", "initial_cash": cash}
    session: dict[str, JsonValue] = {
        "account_id": "<s1.account_id>", "frequency": "1d", "start_ts": start, "end_ts": end, "universe": {"stocks": [symbol]},
    }  # fmt: skip
    order: dict[str, JsonValue] = {
        "session_id": "<s2.session_id>",
        "account_id": "<s1.account_id>",
        "order": {"instrument": stock(symbol), "side": "BUY", "order_type": "MARKET", "qty": qty, "time_in_force": "DAY"},
    }
    steps = (
        Step(Call("PMB.account.create", account)),
        Step(Call("PMB.session.create", session), ("start_ts", "end_ts"), "5min"),
        Step(Call("PMB.session.step", {"session_id": "<s2.session_id>", "step": 1})),
        Step(Call("PMB.order.place", order)),
    )
    return Draft(text, steps)


def _step_and_look(rng: Random, facts: Facts) -> Draft:
    symbol, count = pick(rng, facts.stocks).symbol, whole(rng, 2, 5)
    resting = place(stock(symbol), "BUY", 10, "LIMIT", limit_price=round(facts.close(symbol) * 0.6, 2), time_in_force="GTC")
    text = f"Step session {SESSION} forward by {count} ticks, then list the positions of {ACCOUNT} and its orders with status OPEN."
    steps = (
        Step(step(count)),
        Step(Call("PMB.account.positions", {"account_id": ACCOUNT})),
        Step(Call("PMB.account.orders", {"account_id": ACCOUNT, "status_in": "OPEN"})),
    )
    return Draft(text, steps, (*holding(facts, (symbol,), 10), resting))


def _stock_and_coin(rng: Random, facts: Facts) -> Draft:
    symbol, coin = pick(rng, facts.stocks).symbol, pick(rng, facts.coins).symbol
    first, last = facts.session(-whole(rng, 8, 20)), facts.session(-whole(rng, 1, 5))
    text = f"Compare the stock {symbol} with the coin {coin}, day by day, {spoken_range(rng, first, last)}."
    coins = {"tickers": coin, "start": first.isoformat(), "end": last.isoformat()}
    return Draft(text, (_daily(symbol, first, last), Step(Call("UPQ.crypto.daily", coins), _DAYS)))


def _carry(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    first, last = month_of(facts.session(-whole(rng, 60, 100)))[0], facts.last_day
    day = facts.session(-whole(rng, 1, 4))
    text = (
        f"I want to know what it costs to be short {symbol}: its dividends with ex-dates {spoken_range(rng, first, last)}, the "
        f"borrow fee now, and the 3-month Treasury yield of {spoken(rng, day)}."
    )
    dividends = {"tickers": symbol, "start": first.isoformat(), "end": last.isoformat()}
    rates = {"start": day.isoformat(), "end": day.isoformat(), "tenors": "3M"}
    steps = (
        Step(Call("UPQ.dividends.query", dividends), _DAYS, may_be_empty=True),
        Step(Call("PMB.borrow.query", {"tickers": symbol})),
        Step(Call("UPQ.rates.query", rates), _DAYS),
    )
    return Draft(text, steps)


# -- left to the conventions


def _first_two_weeks(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    first = month_of(facts.last_day - timedelta(days=15))[0]
    text = f"How did {symbol} do, day by day, in the first two weeks of {first:%B} {first.year}?"
    return Draft(text, (_daily(symbol, first, first + timedelta(days=13)),), notes="Convention: the month's days 1 to 14.")


def _last_week(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 2))]
    monday, friday = week_of(facts.last_day - timedelta(days=7))
    text = pick(
        rng, (f"Daily bars of {listed(names)} for last week, please.", f"How was last week for {listed(names)}? Daily bars.")
    )
    return Draft(
        text, (_daily(",".join(names), monday, friday),), notes="Convention: Monday to Friday of the week before the clock's."
    )


def _yesterday(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    day = facts.session(-1)
    text = pick(rng, (f"What was {symbol}'s daily bar yesterday?", f"Get yesterday's open, high, low and close of {symbol}."))
    return Draft(text, (_daily(symbol, day, day),), notes="Convention: the trading day before the clock's day.")


def _month_so_far(rng: Random, facts: Facts) -> Draft:
    symbol, today = pick(rng, facts.stocks).symbol, facts.last_day
    text = pick(rng, (f"Show {symbol}'s daily bars of this month so far.", f"{symbol}, month to date, one bar a day."))
    return Draft(text, (_daily(symbol, today.replace(day=1), today),), notes="Convention: from the 1st through the clock's day.")


def _past_sessions(rng: Random, facts: Facts) -> Draft:
    symbol, count = pick(rng, facts.stocks).symbol, whole(rng, 3, 10)
    text = f"Give me {symbol}'s daily bars of the past {count} trading days."
    call = _daily(symbol, facts.session(1 - count), facts.last_day)
    return Draft(text, (call,), notes="Convention: they end with the last session that is over.")


def _next_week(rng: Random, facts: Facts) -> Draft:
    monday, friday = week_of(facts.last_day + timedelta(days=7))
    least = pick(rng, ("high", "medium"))
    words = "high-importance economic releases" if least == "high" else "economic releases of at least medium importance"
    arguments: dict[str, JsonValue] = {"start_date": monday.isoformat(), "end_date": friday.isoformat(), "min_importance": least}
    step_ = Step(Call("ESP.calendar.econ", arguments), _DATES, may_be_empty=True)
    text = pick(
        rng,
        (
            f"Which {words} are due next week?",
            f"Next week's {words}, please.",
            f"What does the economic calendar have in store next week? Only {words}.",
        ),
    )
    return Draft(text, (step_,), notes="Convention: Monday to Friday of the week after the clock's.")


def _just_buy(rng: Random, facts: Facts) -> Draft:
    symbol, qty, side = pick(rng, facts.stocks).symbol, whole(rng, 1, 20) * 5, pick(rng, ("BUY", "SELL"))
    setup = desk(facts, Desk((symbol,))) if side == "BUY" else holding(facts, (symbol,), qty)
    call = place(stock(symbol), side, qty, "MARKET", time_in_force="DAY")
    text = f"{side.capitalize()} {qty} {symbol} (account {ACCOUNT}, session {SESSION})."
    return Draft(text, (Step(call),), setup, notes="Convention: a market order for the day.")


def _limit_without_force(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 20) * 5
    limit = round(facts.close(symbol) * 0.97, 2)
    call = place(stock(symbol), "BUY", qty, "LIMIT", limit_price=limit, time_in_force="DAY")
    text = f"Buy {qty} {symbol} at {dollars(limit)} or better, account {ACCOUNT}, session {SESSION}."
    return Draft(text, (Step(call),), desk(facts, Desk((symbol,))), notes="Convention: for the day, where nothing else is said.")


# -- impossible


def _future_prices(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    first, last = facts.session(whole(rng, 2, 5)), facts.session(whole(rng, 6, 12))
    text = f"What will {symbol}'s daily closes have been {spoken_range(rng, first, last)}? I need the actual prices."
    attempt = Call("UPQ.stock.daily", {"tickers": symbol, "start": first.isoformat(), "end": last.isoformat()})
    return Draft(text, attempt=attempt, notes="The days lie after the clock.")


def _future_actual(rng: Random, facts: Facts) -> Draft:
    ahead = facts.events(facts.last_day + timedelta(days=2), facts.last_day + timedelta(days=40), Tags(types=_MACRO))
    event = pick(rng, ahead)
    text = f"Tell me the actual value of the release “{event.title}” due on {moment_text(event.time_ns)[:10]}; not the consensus."
    return Draft(text, notes="It is not released as of the clock; consensus and previous value are no answer.")


def _unknown_ticker(rng: Random, facts: Facts) -> Draft:
    known = {row.symbol for row in facts.view.symbols()}
    symbol = pick(rng, [name for name in ("QWXZ", "ZZTP", "KLMW", "XQQA", "WVUT", "PQZZ") if name not in known])
    first, last = facts.session(-8), facts.session(-1)
    text = f"Get the daily prices of {symbol} {spoken_range(rng, first, last)}."
    attempt = Call("UPQ.stock.daily", {"tickers": symbol, "start": first.isoformat(), "end": last.isoformat()})
    return Draft(text, attempt=attempt, notes="No such ticker is in the universe.")


def _other_market(rng: Random, facts: Facts) -> Draft:
    day = facts.session(-whole(rng, 1, 10))
    text = pick(
        rng,
        (
            f"What was the EUR/USD exchange rate on {spoken(rng, day)}?",
            f"Get the daily settlement price of the front-month crude oil future on {spoken(rng, day)}.",
            f"Show the net asset value of my pension fund on {spoken(rng, day)}.",
            f"Pull the order book of the Tokyo stock exchange at the close of {spoken(rng, day)}.",
            f"What was the spot price of gold in London on {spoken(rng, day)}?",
            f"Give me the 5-year credit default swap spread of {pick(rng, facts.stocks).name} on {spoken(rng, day)}.",
        ),
    )
    return Draft(text, notes="No tool has it.")


def _no_session(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 20) * 50
    text = pick(
        rng,
        (
            f"Sell {qty} shares of {symbol} short at the market. I have no account and no session; don't open any.",
            f"Place a market order for {qty} {symbol} right away, without any account or session.",
        ),
    )
    return Draft(text, notes="Orders need an account and a session, and none may be opened unasked.")


def _live_feed(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    text = pick(
        rng,
        (
            f"Open a websocket and push me every tick of {symbol} in real time.",
            f"Stream {symbol}'s live bid and ask to my screen from now on.",
            f"Call me on the phone as soon as {symbol} moves by more than 2 %.",
        ),
    )
    return Draft(text, notes="Nothing is streamed in real time, and nobody is called.")


def _no_tool(rng: Random, facts: Facts) -> Draft:
    text = pick(
        rng,
        (
            f"Wire {dollars(float(whole(rng, 1, 9) * 1_000))} from account {ACCOUNT} to my bank.",
            f"Change the tax lots of account {ACCOUNT} to last in, first out.",
            f"E-mail the statement of account {ACCOUNT} to my accountant.",
            f"Vote the proxy of my {pick(rng, facts.stocks).symbol} shares on account {ACCOUNT} against the board.",
            f"Undo the last trade of account {ACCOUNT} as if it had never happened.",
            f"Turn session {SESSION} back by three days, so that I can trade them again.",
        ),
    )
    return Draft(text, setup=holding(facts, (pick(rng, facts.stocks).symbol,), 10), notes="There is no tool for it.")


def _expired_option(rng: Random, facts: Facts) -> Draft:
    underlying = pick(rng, facts.optionable).symbol
    gone = [row for row in facts.view.contracts(underlying) if row.expiry < facts.last_day]
    contract = pick(rng, gone).symbol
    alive = facts.contracts_of(underlying)[0].symbol
    call = place({"type": "OPTION", "contract": contract}, "BUY", 1, "LIMIT", limit_price=1.0, time_in_force="DAY")
    text = f"Buy one contract of {contract} at a limit of $1 for the day (account {ACCOUNT}, session {SESSION})."
    return Draft(text, setup=desk(facts, Desk((underlying,), (alive,))), attempt=call, notes="It has expired.")


TEMPLATES = (
    Template("positions_and_prices", "multi_tool_chain", "hard", _positions_and_prices, 5),
    Template("dual_calendar", "multi_tool_chain", "medium", _dual_calendar, 6),
    Template("macro_news_minutes", "multi_tool_chain", "hard", _macro_news_minutes, 5),
    Template("from_nothing", "multi_tool_chain", "hard", _from_nothing, 5),
    Template("step_and_look", "multi_tool_chain", "medium", _step_and_look, 4),
    Template("stock_and_coin", "multi_tool_chain", "medium", _stock_and_coin, 4),
    Template("carry", "multi_tool_chain", "hard", _carry, 5),
    Template("first_two_weeks", "ambiguous", "medium", _first_two_weeks, 4),
    Template("last_week", "ambiguous", "hard", _last_week, 5),
    Template("yesterday", "ambiguous", "medium", _yesterday, 4),
    Template("month_so_far", "ambiguous", "medium", _month_so_far, 4),
    Template("past_sessions", "ambiguous", "hard", _past_sessions, 5),
    Template("next_week", "ambiguous", "hard", _next_week, 4),
    Template("just_buy", "ambiguous", "medium", _just_buy, 5),
    Template("limit_without_force", "ambiguous", "medium", _limit_without_force, 4),
    Template("future_prices", "impossible", "medium", _future_prices, 5),
    Template("future_actual", "impossible", "hard", _future_actual, 5),
    Template("unknown_ticker", "impossible", "medium", _unknown_ticker, 4),
    Template("other_market", "impossible", "easy", _other_market, 5),
    Template("no_session", "impossible", "hard", _no_session, 4),
    Template("live_feed", "impossible", "easy", _live_feed, 4),
    Template("no_tool", "impossible", "medium", _no_tool, 5),
    Template("expired_option", "impossible", "hard", _expired_option, 4),
)
