"""Templates of broker queries and of order types."""

from __future__ import annotations

from datetime import date

from ktdeval.api import JsonValue
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.items import ACCOUNT, SESSION, Call, Draft, Step, Template
from ktdeval_qfinzero.bench.phrases import Random, dollars, pick, several, spoken, whole
from ktdeval_qfinzero.bench.situations import IDS, Desk, desk, holding, option, place, step, stock
from ktdeval_qfinzero.instruments import OptionContract
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

_ORDER = "ord-000001"


def _where(rng: Random) -> str:
    """The session and account, in words."""
    return pick(
        rng,
        (
            f"in session {SESSION} on account {ACCOUNT}",
            f"on account {ACCOUNT}, session {SESSION}",
            f"for account {ACCOUNT} in session {SESSION}",
        ),
    )


def _cents(value: float) -> float:
    return round(value, 2)


# -- queries


def _positions(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, 2)]
    text = pick(
        rng,
        (
            f"What are the current positions in account {ACCOUNT}?",
            f"List what account {ACCOUNT} holds right now.",
            f"Show me the holdings of {ACCOUNT}.",
            f"Which instruments, and how many of each, are in account {ACCOUNT}?",
            f"Positions of {ACCOUNT}, please.",
            f"Is account {ACCOUNT} long or short anything? Get its positions.",
        ),
    )
    return Draft(
        text, (Step(Call("PMB.account.positions", {"account_id": ACCOUNT})),), holding(facts, names, whole(rng, 1, 9) * 10)
    )


def _open_orders(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    setup = (*desk(facts, Desk((symbol,))), _resting(facts, symbol))
    text = pick(
        rng,
        (
            f"Which orders of account {ACCOUNT} are still open in session {SESSION}? Filter by the status OPEN.",
            f"List the orders with status OPEN on account {ACCOUNT}, session {SESSION} only.",
            f"Show account {ACCOUNT}'s orders of session {SESSION} that have the status OPEN.",
            f"I need the OPEN orders (by status) of {ACCOUNT} in {SESSION}.",
            f"Are there orders with status OPEN in session {SESSION} of account {ACCOUNT}?",
        ),
    )
    arguments: dict[str, JsonValue] = {"account_id": ACCOUNT, "session_id": SESSION, "status_in": "OPEN"}
    return Draft(text, (Step(Call("PMB.account.orders", arguments)),), setup)


def _resting(facts: Facts, symbol: str) -> Call:
    """An order that stays open: a good-till-cancelled bid far below the market."""
    return place(stock(symbol), "BUY", 40, "LIMIT", limit_price=_cents(facts.close(symbol) * 0.7), time_in_force="GTC")


def _trades(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    text = pick(
        rng,
        (
            f"Show all executed trades of account {ACCOUNT} in session {SESSION}.",
            f"I want the fills of session {SESSION} on account {ACCOUNT}.",
            f"List what account {ACCOUNT} bought and sold in session {SESSION}, trade by trade.",
            f"Get the trades of {ACCOUNT}, session {SESSION} only.",
            f"Which executions did account {ACCOUNT} have in session {SESSION}?",
        ),
    )
    call = Call("PMB.account.trades", {"account_id": ACCOUNT, "session_id": SESSION})
    return Draft(text, (Step(call),), holding(facts, (symbol,), 30))


def _session_read(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    tool, text = pick(
        rng,
        (
            ("PMB.session.summary", f"Give me the performance summary of session {SESSION}, Sharpe ratio and drawdown included."),
            ("PMB.session.summary", f"How has session {SESSION} performed so far? Its summary, please."),
            ("PMB.session.get", f"What is the state of session {SESSION}: is it running, and until when?"),
            ("PMB.session.get", f"Look up session {SESSION}: its clock, its universe and its status."),
            ("PMB.session.market", f"Show the latest market bars of everything in the universe of session {SESSION}."),
        ),
    )
    return Draft(text, (Step(Call(tool, {"session_id": SESSION})),), holding(facts, (symbol,), 20))


def _account_read(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    tool, text = pick(
        rng,
        (
            ("PMB.account.get", f"How much cash, equity and buying power does account {ACCOUNT} have?"),
            ("PMB.account.get", f"Give me the balance of account {ACCOUNT}: cash, equity, margin."),
            ("PMB.account.history", f"Show the daily equity history of account {ACCOUNT}."),
            ("PMB.account.history", f"How did the equity of account {ACCOUNT} develop from day to day?"),
        ),
    )
    return Draft(text, (Step(Call(tool, {"account_id": ACCOUNT})),), holding(facts, (symbol,), 20))


def _export(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    text = pick(
        rng,
        (
            f"Export the full history of session {SESSION} as CSV.",
            f"I need session {SESSION}'s complete log in CSV format.",
            f"Give me everything that happened in session {SESSION} as a CSV export.",
        ),
    )
    call = Call("PMB.session.export", {"session_id": SESSION, "format": "csv"})
    return Draft(text, (Step(call),), holding(facts, (symbol,), 20))


def _advance(rng: Random, facts: Facts) -> Draft:
    symbol, count = pick(rng, facts.stocks).symbol, whole(rng, 2, 6)
    text = pick(rng, (f"Step session {SESSION} forward by {count} ticks.", f"Advance session {SESSION} {count} bars."))
    return Draft(text, (Step(step(count)),), desk(facts, Desk((symbol,))))


def _stop(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    text = pick(
        rng,
        (
            f"Stop session {SESSION}.",
            f"End trading session {SESSION} now, before its last day.",
            f"I'm done with session {SESSION}; stop it.",
        ),
    )
    return Draft(text, (Step(Call("PMB.session.stop", {"session_id": SESSION})),), desk(facts, Desk((symbol,))))


def _cancel(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    text = pick(rng, (f"Cancel order {_ORDER} {_where(rng)}.", f"Please pull order {_ORDER} {_where(rng)}."))
    call = Call("PMB.order.cancel", {**IDS, "order_id": _ORDER})
    return Draft(text, (Step(call),), (*desk(facts, Desk((symbol,))), _resting(facts, symbol)))


def _modify(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    limit, qty = _cents(facts.close(symbol) * (0.75 + 0.01 * whole(rng, 0, 9))), whole(rng, 5, 35)
    text = pick(
        rng,
        (
            f"Change order {_ORDER} {_where(rng)}: limit price {dollars(limit)}, quantity down to {qty}.",
            f"Modify {_ORDER} {_where(rng)} so that it is for {qty} shares with a limit of {dollars(limit)}.",
        ),
    )
    call = Call("PMB.order.modify", {**IDS, "order_id": _ORDER, "updates": {"limit_price": limit, "qty": qty}})
    return Draft(text, (Step(call),), (*desk(facts, Desk((symbol,))), _resting(facts, symbol)))


def _order_read(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    text = pick(
        rng,
        (
            f"What is the status of order {_ORDER}?",
            f"Look up order {_ORDER}: has any of it been filled?",
            f"Show me order {_ORDER}.",
        ),
    )
    setup = (*desk(facts, Desk((symbol,))), _resting(facts, symbol))
    return Draft(text, (Step(Call("PMB.order.get", {"order_id": _ORDER})),), setup)


def _open_account(rng: Random, _: Facts) -> Draft:
    cash, kind = float(whole(rng, 2, 40) * 25_000), pick(rng, ("MARGIN", "CASH"))
    text = pick(
        rng,
        (
            f"Open a {kind.lower()} account in US dollars with {dollars(cash)}.",
            f"Create a USD {kind.lower()} account that starts with {dollars(cash)} in cash.",
        ),
    )
    arguments: dict[str, JsonValue] = {"base_currency": "USD", "account_type": kind, "initial_cash": cash}
    return Draft(text, (Step(Call("PMB.account.create", arguments)),))


def _open_session(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 3))]
    first, last = facts.session(1), facts.session(whole(rng, 8, 18))
    frequency, word = pick(rng, (("1d", "daily"), ("1m", "one-minute")))
    start, end = facts.local_moment(first, 9, 30), trading_hours().close_of(last)
    text = (
        f"Create a session with {word} bars on account {ACCOUNT} for {', '.join(names)}: from the open of {spoken(rng, first)} to "
        f"the close of {spoken(rng, last)}, in regular trading hours."
    )
    arguments: dict[str, JsonValue] = {
        "account_id": ACCOUNT, "frequency": frequency, "start_ts": moment_text(start), "end_ts": moment_text(end),
        "universe": {"stocks": names},
    }  # fmt: skip
    setup = (Call("PMB.account.create", {"account_type": "MARGIN", "initial_cash": 100_000.0}),)
    return Draft(text, (Step(Call("PMB.session.create", arguments), ("start_ts", "end_ts"), "5min"),), setup)


def _borrow(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 3))]
    text = f"How many shares of {' and '.join(names)} can be borrowed for a short sale, and what does it cost?"
    return Draft(text, (Step(Call("PMB.borrow.query", {"tickers": ",".join(names)})),), desk(facts, Desk(tuple(names))))


# -- order types


def _order(rng: Random, text: str, call: Call, setup: tuple[Call, ...], notes: str = "") -> Draft:
    return Draft(f"{text} {_where(rng)}.", (Step(call),), setup, notes=notes)


def _market_buy(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 20) * 10
    words = pick(rng, ("Place a market buy order, good for the day, for", "Buy at the market, day order,"))
    call = place(stock(symbol), "BUY", qty, "MARKET", time_in_force="DAY")
    return _order(rng, f"{words} {qty} shares of {symbol}", call, desk(facts, Desk((symbol,))))


def _limit(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 20) * 5
    limit = _cents(facts.close(symbol) * (0.95 + 0.001 * whole(rng, 0, 40)))
    force, words = pick(rng, (("GTC", "good till cancelled"), ("DAY", "for the day only"), ("GTC", "GTC")))
    call = place(stock(symbol), "BUY", qty, "LIMIT", limit_price=limit, time_in_force=force)
    return _order(rng, f"Bid {dollars(limit)} for {qty} {symbol} with a limit order, {words},", call, desk(facts, Desk((symbol,))))


def _stop_loss(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 2, 10) * 10
    trigger = _cents(facts.close(symbol) * (0.80 + 0.005 * whole(rng, 0, 20)))
    call = place(stock(symbol), "SELL", qty, "STOP", stop_price=trigger, time_in_force="GTC")
    text = f"Protect the long position in {symbol} with a GTC stop order to sell {qty} shares at {dollars(trigger)}"
    return _order(rng, text, call, holding(facts, (symbol,), qty))


def _stop_limit(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 2, 10) * 10
    close = facts.close(symbol)
    trigger = _cents(close * (0.88 + 0.002 * whole(rng, 0, 20)))
    limit = _cents(trigger - max(0.01, close * 0.01))
    force = pick(rng, ("DAY", "GTC"))
    call = place(stock(symbol), "SELL", qty, "STOP_LIMIT", stop_price=trigger, limit_price=limit, time_in_force=force)
    text = (
        f"Place a stop-limit order to sell {qty} {symbol}: stop {dollars(trigger)}, limit {dollars(limit)}, time in force {force},"
    )
    return _order(rng, text, call, holding(facts, (symbol,), qty))


def _good_till_date(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 10) * 10
    limit = _cents(facts.close(symbol) * 0.93)
    day = facts.session(whole(rng, 3, 8))
    expires = moment_text(trading_hours().close_of(day))
    call = place(stock(symbol), "BUY", qty, "LIMIT", limit_price=limit, time_in_force="GTD", expire_ts=expires)
    text = f"Enter a limit order to buy {qty} {symbol} at {dollars(limit)}, good till the regular close of {spoken(rng, day)},"
    return _order(rng, text, call, desk(facts, Desk((symbol,))), "A good-till-date order names the moment of its end in UTC.")


def _short(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, [row for row in facts.stocks if _can_borrow(facts, row.symbol)]).symbol
    qty = whole(rng, 1, 5) * 10
    limit = _cents(facts.close(symbol) * 1.02)
    call = place(stock(symbol), "SELL", qty, "LIMIT", limit_price=limit, time_in_force="DAY")
    text = f"Sell {qty} shares of {symbol} short with a day limit order at {dollars(limit)}"
    return _order(rng, text, call, desk(facts, Desk((symbol,))))


def _can_borrow(facts: Facts, symbol: str) -> bool:
    row = facts.view.borrow(symbol)
    return row is not None and row.shares >= 1_000


def _contracts(facts: Facts, underlying: str, right: str) -> tuple[date, list[float]]:
    """An expiry at least two weeks ahead with its strikes."""
    expiry = next(day for day in facts.expiries(underlying) if day > facts.session(9))
    return expiry, [row.strike_e4 / 10_000 for row in facts.contracts_of(underlying) if (row.expiry, row.right) == (expiry, right)]


def _at_the_money(facts: Facts, underlying: str, right: str, away: int = 0) -> OptionContract:
    """The listed contract whose strike is nearest to the last close; `away` is how many strikes further up."""
    expiry, strikes = _contracts(facts, underlying, right)
    strikes = sorted(strikes)
    nearest = min(range(len(strikes)), key=lambda place: (abs(strikes[place] - facts.close(underlying)), place))
    strike = strikes[min(max(nearest + away, 0), len(strikes) - 1)]
    return OptionContract(underlying, expiry, round(strike * 10_000), "C" if right == "C" else "P")


def _option_limit(rng: Random, facts: Facts) -> Draft:
    underlying, right = pick(rng, facts.optionable).symbol, pick(rng, ("C", "P"))
    contract = _at_the_money(facts, underlying, right, whole(rng, -1, 1))
    qty, limit = whole(rng, 1, 5), _cents(facts.close(underlying) * 0.01 * whole(rng, 1, 3))
    call = place(option(contract.symbol), "BUY", qty, "LIMIT", limit_price=limit, time_in_force="DAY")
    word, strike = ("call" if right == "C" else "put"), dollars(contract.strike_e4 / 10_000)
    text = (
        f"Buy {qty} contract{'s' if qty > 1 else ''} of the {underlying} {spoken(rng, contract.expiry)} {strike} {word} at a "
        f"limit of {dollars(limit)}, day order,"
    )
    return _order(rng, text, call, desk(facts, Desk((underlying,), (contract.symbol,))))


def _spread(rng: Random, facts: Facts) -> Draft:
    underlying, right = pick(rng, facts.optionable).symbol, pick(rng, ("C", "P"))
    low, high = _at_the_money(facts, underlying, right), _at_the_money(facts, underlying, right, 1)
    bought, sold = (low, high) if right == "C" else (high, low)
    qty, debit = whole(rng, 1, 4), _cents((high.strike_e4 - low.strike_e4) / 10_000 * 0.5)
    name = "bull call" if right == "C" else "bear put"
    legs: list[JsonValue] = [
        {"instrument": option(bought.symbol), "side": "BUY", "ratio": 1},
        {"instrument": option(sold.symbol), "side": "SELL", "ratio": 1},
    ]
    call = Call("PMB.spread.place", {**IDS, "legs": legs, "qty": qty, "net_limit_price": debit})
    text = (
        f"Put on a {name} spread, {qty} time{'s' if qty > 1 else ''}: buy {bought.symbol} and sell {sold.symbol}, one for one, "
        f"for a net debit of at most {dollars(debit)} a share,"
    )
    return _order(rng, text, call, desk(facts, Desk((underlying,), (low.symbol, high.symbol))))


def _exercise(rng: Random, facts: Facts) -> Draft:
    contract = facts.most_traded(pick(rng, facts.optionable).symbol)
    opened = desk(facts, Desk((contract.underlying,), (contract.symbol,)))
    bought = place(option(contract.symbol), "BUY", 1, "MARKET", time_in_force="GTC")
    call, text = pick(
        rng,
        (
            (
                Call("PMB.option.exercise", {**IDS, "contract": contract.symbol, "qty": 1}),
                f"Exercise one contract of {contract.symbol} early,",
            ),
            (
                Call("PMB.option.exercise", {**IDS, "contract": contract.symbol, "do_not_exercise": True}),
                f"Instruct the broker not to exercise {contract.symbol} at its expiry,",
            ),
        ),
    )
    return _order(rng, text, call, (*opened, bought, step(2)))


TEMPLATES = (
    Template("positions", "broker_query", "easy", _positions, 4),
    Template("open_orders", "broker_query", "medium", _open_orders, 4),
    Template("trades", "broker_query", "easy", _trades, 4),
    Template("session_read", "broker_query", "easy", _session_read, 4),
    Template("account_read", "broker_query", "easy", _account_read, 3),
    Template("export", "broker_query", "medium", _export, 2),
    Template("advance", "broker_query", "easy", _advance, 3),
    Template("stop", "broker_query", "easy", _stop, 2),
    Template("cancel", "broker_query", "medium", _cancel, 4),
    Template("modify", "broker_query", "hard", _modify, 6),
    Template("order_read", "broker_query", "easy", _order_read, 2),
    Template("open_account", "broker_query", "medium", _open_account, 5),
    Template("open_session", "broker_query", "hard", _open_session, 6),
    Template("borrow", "broker_query", "medium", _borrow, 5),
    Template("market_buy", "order_types", "easy", _market_buy, 6),
    Template("limit", "order_types", "medium", _limit, 7),
    Template("stop_loss", "order_types", "medium", _stop_loss, 6),
    Template("stop_limit", "order_types", "hard", _stop_limit, 7),
    Template("good_till_date", "order_types", "hard", _good_till_date, 6),
    Template("short", "order_types", "medium", _short, 5),
    Template("option_limit", "order_types", "hard", _option_limit, 7),
    Template("spread", "order_types", "hard", _spread, 6),
    Template("exercise", "order_types", "hard", _exercise, 5),
)
