"""Planning templates around stocks, events and the life of orders."""

from __future__ import annotations

from datetime import timedelta

from ktdeval.api import JsonValue
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.items import ACCOUNT, SESSION, Call, Draft, Step, Template
from ktdeval_qfinzero.bench.phrases import Random, dollars, pick, several, spoken, week_of, whole
from ktdeval_qfinzero.bench.planning_options import OPEN_ORDERS, POSITIONS, daily, earnings
from ktdeval_qfinzero.bench.situations import IDS, Desk, desk, holding, place, step, stock
from ktdeval_qfinzero.data.rows import EventType
from ktdeval_qfinzero.data.stores import Tags
from ktdeval_qfinzero.moments import moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

_WITH = f"Using session_id={SESSION} and account_id={ACCOUNT}: "
_SUMMARY = Step(Call("PMB.session.summary", {"session_id": SESSION}))
_NEWS: tuple[EventType, ...] = ("breaking_news", "daily_news", "analyst_action")


def _limit(symbol: str, side: str, qty: int, price: float, force: str = "DAY") -> Step:
    return Step(place(stock(symbol), side, qty, "LIMIT", limit_price=price, time_in_force=force))


def _market(symbol: str, side: str, qty: int) -> Step:
    return Step(place(stock(symbol), side, qty, "MARKET", time_in_force="DAY"))


def _test_order(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 6) * 10
    close = facts.close(symbol)
    low, fair = round(close * 0.8, 2), round(close * 0.97, 2)
    text = (
        f"{_WITH}(1) Place a GTC limit order to buy {qty} {symbol} at {dollars(low)}, far below the market, as a test. (2) List "
        f"the orders with status OPEN to find its order id. (3) Get {symbol}'s daily bar of {spoken(rng, facts.last_day)}. (4) "
        f"Cancel the test order by its id. (5) Place a new GTC limit order to buy {qty} {symbol} at {dollars(fair)}."
    )
    steps = (
        _limit(symbol, "BUY", qty, low, "GTC"),
        OPEN_ORDERS,
        daily(symbol, facts.last_day, facts.last_day),
        Step(Call("PMB.order.cancel", {**IDS, "order_id": "<s2.orders[0].order_id>"})),
        _limit(symbol, "BUY", qty, fair, "GTC"),
    )
    return Draft(text, steps, desk(facts, Desk((symbol,))))


def _reprice(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 3, 8) * 10
    close, fewer = facts.close(symbol), whole(rng, 1, 2) * 10
    first, past = round(close * 0.85, 2), facts.session(-4)
    second = round(close * 0.96, 2)
    text = (
        f"{_WITH}(1) Place a GTC limit order to buy {qty} {symbol} at {dollars(first)}. (2) List the orders with status OPEN and "
        f"note its order id. (3) Fetch {symbol}'s daily bars from {spoken(rng, past)} through {spoken(rng, facts.last_day)} as an "
        f"anchor. (4) Modify that order: limit {dollars(second)}, quantity {fewer}. (5) List the orders with status OPEN again."
    )
    modify = Call(
        "PMB.order.modify", {**IDS, "order_id": "<s2.orders[0].order_id>", "updates": {"limit_price": second, "qty": fewer}}
    )
    steps = (
        _limit(symbol, "BUY", qty, first, "GTC"),
        OPEN_ORDERS,
        daily(symbol, past, facts.last_day),
        Step(modify),
        OPEN_ORDERS,
    )
    return Draft(text, steps, desk(facts, Desk((symbol,))))


def _news_then_buy(rng: Random, facts: Facts) -> Draft:
    first = facts.last_day - timedelta(days=whole(rng, 10, 25))
    articles = [row for row in facts.news(first, Tags(types=_NEWS)) if row.tickers]
    tradable = {row.symbol for row in facts.stocks}
    symbol = pick(rng, sorted({ticker for row in articles for ticker in row.tickers if ticker in tradable}))
    limit, qty = round(facts.close(symbol) * 0.98, 2), whole(rng, 1, 5) * 10
    ahead = facts.last_day + timedelta(days=60)
    text = (
        f"{_WITH}(1) Check {symbol}'s earnings date in the calendar from {spoken(rng, facts.last_day)} through "
        f"{spoken(rng, ahead)}. (2) Search the articles about {symbol} since {spoken(rng, first)}, 00:00 UTC. (3) Read the first "
        f"one of them in full. (4) Get {symbol}'s daily bar of {spoken(rng, facts.last_day)}. (5) Bid {dollars(limit)} for {qty} "
        "shares with a GTC limit order."
    )
    search: dict[str, JsonValue] = {"tickers": [symbol], "start_utc": f"{first}T00:00:00Z"}
    steps = (
        earnings(symbol, facts.last_day, ahead),
        Step(Call("ESP.news.search", search), ("start_utc",), "60min"),
        Step(Call("ESP.news.body", {"news_id": "<s2.events[0].event_id>"})),
        daily(symbol, facts.last_day, facts.last_day),
        _limit(symbol, "BUY", qty, limit, "GTC"),
    )
    return Draft(text, steps, desk(facts, Desk((symbol,))))


def _macro_detail(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    events = facts.events(facts.last_day - timedelta(days=30), facts.last_day, Tags(types=("macro_calendar",), least="high"))
    event = pick(rng, events)
    day = moment_text(event.time_ns)[:10]
    monday = facts.last_day - timedelta(days=5)
    text = (
        f"{_WITH}(1) Query the events for breaking news of the past 24 hours first; there may be none that helps. (2) Then find "
        f"the high-importance economic releases of {day} in the calendar. (3) Get the full record of the first one in that list. "
        f"(4) Fetch {symbol}'s daily bars from {spoken(rng, monday)} through {spoken(rng, facts.last_day)}. (5) Show the "
        "account's positions."
    )
    news: dict[str, JsonValue] = {"mode": "just_happened", "horizon_minutes": 1440, "event_types": ["breaking_news"]}
    econ: dict[str, JsonValue] = {"start_date": day, "end_date": day, "min_importance": "high"}
    steps = (
        Step(Call("ESP.events.query", news), ("horizon_minutes",), may_be_empty=True),
        Step(Call("ESP.calendar.econ", econ), ("start_date", "end_date")),
        Step(Call("ESP.events.get", {"event_id": "<s2.events[0].event_id>"})),
        daily(symbol, monday, facts.last_day),
        POSITIONS,
    )
    return Draft(text, steps, holding(facts, (symbol,), 20), notes="Recovery: the calendar has what the news have not.")


def _timeline(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 2, 6) * 10
    monday, friday = week_of(facts.last_day - timedelta(days=7))
    trigger = round(facts.close(symbol) * 0.9, 2)
    text = (
        f"{_WITH}(1) Build a timeline of {symbol}'s events from {monday}T00:00:00Z to {friday}T23:59:59Z in buckets of four "
        f"hours. (2) Fetch {symbol}'s daily bars from {spoken(rng, monday)} through {spoken(rng, friday)}. (3) Show the account's "
        f"positions. (4) Protect the {qty} shares of {symbol} with a GTC stop order to sell them at {dollars(trigger)}. (5) List "
        "the orders with status OPEN."
    )
    timeline: dict[str, JsonValue] = {
        "tickers": [symbol], "start_utc": f"{monday}T00:00:00Z", "end_utc": f"{friday}T23:59:59Z", "bucket_minutes": 240,
    }  # fmt: skip
    steps = (
        Step(Call("ESP.timeline", timeline), ("start_utc", "end_utc"), "60min", may_be_empty=True),
        daily(symbol, monday, friday),
        POSITIONS,
        Step(place(stock(symbol), "SELL", qty, "STOP", stop_price=trigger, time_in_force="GTC")),
        OPEN_ORDERS,
    )
    return Draft(text, steps, holding(facts, (symbol,), qty))


def _audit(rng: Random, facts: Facts) -> Draft:
    symbol, count = pick(rng, facts.stocks).symbol, whole(rng, 1, 3)
    past = facts.session(-8)
    text = (
        f"{_WITH}(1) Get all executed trades of the account in this session. (2) Fetch {symbol}'s daily bars from "
        f"{spoken(rng, past)} through {spoken(rng, facts.last_day)}. (3) What are the next triggers for {symbol} of medium "
        f"importance or more within 72 hours? (4) Step the session by {count} tick{'s' if count > 1 else ''}. (5) Give me the "
        "session's summary."
    )
    triggers: dict[str, JsonValue] = {"tickers": [symbol], "min_importance": "medium", "horizon_minutes": 4320}
    steps = (
        Step(Call("PMB.account.trades", {"account_id": ACCOUNT, "session_id": SESSION})),
        daily(symbol, past, facts.last_day),
        Step(Call("ESP.triggers.next", triggers), ("horizon_minutes",), may_be_empty=True),
        Step(step(count)),
        _SUMMARY,
    )
    return Draft(text, steps, holding(facts, (symbol,), 30))


def _stream_then_trade(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, 2)]
    hours, qty = pick(rng, (24, 48)), whole(rng, 1, 4) * 5
    limit = round(facts.close(names[0]) * 0.99, 2)
    text = (
        f"{_WITH}(1) Poll the event stream for {names[0]} and {names[1]} with the cursor HEAD; it may be empty. (2) Query what "
        f"just happened to both in the past {hours} hours. (3) Fetch their daily bars of {spoken(rng, facts.last_day)}. (4) Buy "
        f"{qty} {names[0]} with a day limit order at {dollars(limit)}."
    )
    stream: dict[str, JsonValue] = {"cursor": "HEAD", "tickers": names}
    query: dict[str, JsonValue] = {"mode": "just_happened", "horizon_minutes": hours * 60, "tickers": names}
    steps = (
        Step(Call("ESP.events.stream", stream), may_be_empty=True),
        Step(Call("ESP.events.query", query), ("horizon_minutes",), may_be_empty=True),
        daily(",".join(names), facts.last_day, facts.last_day),
        _limit(names[0], "BUY", qty, limit),
    )
    return Draft(text, steps, desk(facts, Desk(tuple(names))))


def _pair(rng: Random, facts: Facts) -> Draft:
    lendable = [row for row in facts.stocks if (found := facts.view.borrow(row.symbol)) is not None and found.shares >= 1_000]
    short = pick(rng, lendable).symbol
    long = pick(rng, [row.symbol for row in facts.stocks if row.symbol != short])
    qty, past = whole(rng, 1, 4) * 10, facts.session(-10)
    text = (
        f"{_WITH}(1) Compare the daily bars of {long} and {short} from {spoken(rng, past)} through {spoken(rng, facts.last_day)}. "
        f"(2) Check what borrowing {short} costs and how much there is. (3) Buy {qty} {long} at the market. (4) Sell {qty} "
        f"{short} short at the market. (5) Step the session by one tick. (6) Show the positions."
    )
    steps = (
        daily(f"{long},{short}", past, facts.last_day),
        Step(Call("PMB.borrow.query", {"tickers": short})),
        _market(long, "BUY", qty),
        _market(short, "SELL", qty),
        Step(step()),
        POSITIONS,
    )
    return Draft(text, steps, desk(facts, Desk((long, short))))


def _bracket(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 6) * 10
    close = facts.close(symbol)
    trigger, target = round(close * 0.85, 2), round(close * 1.2, 2)
    words, exit_order = pick(
        rng,
        (
            (
                f"stop order to sell {qty} at {dollars(trigger)}",
                Step(place(stock(symbol), "SELL", qty, "STOP", stop_price=trigger, time_in_force="GTC")),
            ),
            (f"limit order to sell {qty} at {dollars(target)}", _limit(symbol, "SELL", qty, target, "GTC")),
        ),
    )
    text = (
        f"{_WITH}(1) Buy {qty} {symbol} at the market. (2) Step the session by one tick, so that it fills. (3) Show the "
        f"positions. (4) Place a GTC {words}. (5) Step by two more ticks. (6) Give me the session's summary."
    )
    steps = (_market(symbol, "BUY", qty), Step(step()), POSITIONS, exit_order, Step(step(2)), _SUMMARY)
    return Draft(text, steps, desk(facts, Desk((symbol,))))


def _whole_life(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 8) * 10
    cash, count = float(whole(rng, 2, 8) * 50_000), whole(rng, 2, 4)
    first, last = facts.session(1), facts.session(12)
    start, end = moment_text(facts.local_moment(first, 9, 30)), moment_text(trading_hours().close_of(last))
    text = (
        f"(1) Create a USD cash account with {dollars(cash)}. (2) On it, create a session of daily bars with {symbol} in its "
        f"universe from {start} to {end}. (3) Buy {qty} {symbol} at the market, day order. (4) Step the session by {count} ticks. "
        "(5) Show the account's positions. (6) Stop the session. (7) Give me its summary."
    )
    account: dict[str, JsonValue] = {"base_currency": "USD", "account_type": "CASH", "initial_cash": cash}
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
        Step(Call("PMB.session.create", session), ("start_ts", "end_ts")),
        Step(Call("PMB.order.place", order)),
        Step(Call("PMB.session.step", {"session_id": "<s2.session_id>", "step": count})),
        Step(Call("PMB.account.positions", {"account_id": "<s1.account_id>"})),
        Step(Call("PMB.session.stop", {"session_id": "<s2.session_id>"})),
        Step(Call("PMB.session.summary", {"session_id": "<s2.session_id>"})),
    )
    return Draft(text, steps)


def _liquidate(rng: Random, facts: Facts) -> Draft:
    names = sorted(row.symbol for row in several(rng, facts.stocks, 2))
    text = (
        f"{_WITH}(1) Show the account's positions. (2) It holds 30 {names[0]} and 30 {names[1]}: sell all of {names[0]} at the "
        f"market. (3) Sell all of {names[1]} at the market. (4) Step the session by one tick. (5) Show the positions again. (6) "
        "Give me the session's summary."
    )
    steps = (
        POSITIONS,
        _market(names[0], "SELL", 30),
        _market(names[1], "SELL", 30),
        Step(step()),
        Step(POSITIONS.call, may_be_empty=True),
        _SUMMARY,
    )
    return Draft(text, steps, holding(facts, names, 30))


def _expiring_bid(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 1, 6) * 10
    limit, day = round(facts.close(symbol) * 0.7, 2), facts.session(2)
    expires = moment_text(trading_hours().close_of(day))
    text = (
        f"{_WITH}(1) Enter a limit order to buy {qty} {symbol} at {dollars(limit)}, good till {expires}. (2) List the orders with "
        "status OPEN. (3) Step the session by three ticks. (4) Look up that order by its id to see that it has expired."
    )
    call = place(stock(symbol), "BUY", qty, "LIMIT", limit_price=limit, time_in_force="GTD", expire_ts=expires)
    steps = (
        Step(call),
        OPEN_ORDERS,
        Step(step(3)),
        Step(Call("PMB.order.get", {"order_id": "<s2.orders[0].order_id>"})),
    )
    return Draft(text, steps, desk(facts, Desk((symbol,))))


def _dividend_capture(rng: Random, facts: Facts) -> Draft:
    symbol, qty = pick(rng, facts.stocks).symbol, whole(rng, 2, 6) * 10
    past, ahead = facts.last_day - timedelta(days=100), facts.last_day + timedelta(days=30)
    text = (
        f"{_WITH}(1) Look up {symbol}'s dividends with ex-dates from {spoken(rng, past)} through {spoken(rng, ahead)}. (2) Get "
        f"its daily bar of {spoken(rng, facts.last_day)}, adjusted for splits and dividends. (3) Buy {qty} {symbol} at the "
        "market. (4) Step the session by five ticks. (5) Show what cash, equity and buying power the account has."
    )
    dividends = {"tickers": symbol, "start": past.isoformat(), "end": ahead.isoformat()}
    bars = {"tickers": symbol, "start": facts.last_day.isoformat(), "end": facts.last_day.isoformat(), "adjust": "total"}
    steps = (
        Step(Call("UPQ.dividends.query", dividends), ("start", "end"), may_be_empty=True),
        Step(Call("UPQ.stock.daily", bars), ("start", "end")),
        _market(symbol, "BUY", qty),
        Step(step(5)),
        Step(Call("PMB.account.get", {"account_id": ACCOUNT})),
    )
    return Draft(text, steps, desk(facts, Desk((symbol,))))


def _impossible(rng: Random, facts: Facts) -> Draft:
    symbol, day = pick(rng, facts.stocks).symbol, facts.session(3)
    text = pick(
        rng,
        (
            f"{_WITH}(1) Get {symbol}'s actual close of {spoken(rng, day)}, which is still to come. (2) If it is above the last "
            "close, buy 100 shares today.",
            f"{_WITH}(1) Turn the session back to its first day. (2) Buy {symbol} there, knowing how it went on.",
            "(1) Move $10,000 from my bank to the account. (2) Send me the receipt by mail.",
            f"{_WITH}(1) Read tomorrow's headlines about {symbol}. (2) Trade on them before anybody else does.",
            f"{_WITH}(1) Get the euro's exchange rate of {spoken(rng, facts.last_day)}. (2) Change the account's cash into euros.",
            f"{_WITH}(1) Find out what the other customers of the broker hold in {symbol}. (2) Do the opposite.",
        ),
    )
    return Draft(text, setup=holding(facts, (symbol,), 10), notes="It can't be done with these tools, or can't be known yet.")


TEMPLATES = (
    Template("test_order", "order_lifecycle", "hard", _test_order, 7),
    Template("reprice", "order_lifecycle", "hard", _reprice, 7),
    Template("expiring_bid", "order_lifecycle", "hard", _expiring_bid, 6),
    Template("bracket", "order_lifecycle", "medium", _bracket, 7),
    Template("liquidate", "order_lifecycle", "medium", _liquidate, 6),
    Template("whole_life", "order_lifecycle", "hard", _whole_life, 6),
    Template("news_then_buy", "event_driven", "medium", _news_then_buy, 7),
    Template("macro_detail", "event_driven", "hard", _macro_detail, 6),
    Template("timeline", "event_driven", "hard", _timeline, 6),
    Template("stream_then_trade", "event_driven", "hard", _stream_then_trade, 6),
    Template("audit", "portfolio", "medium", _audit, 6),
    Template("pair", "portfolio", "hard", _pair, 7),
    Template("dividend_capture", "portfolio", "medium", _dividend_capture, 6),
    Template("impossible", "impossible", "hard", _impossible, 8),
)
