"""Commands about accounts, sessions and time."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.api import JsonValue
from ktdeval_qfinzero.errors import conflict, invalid, not_found
from ktdeval_qfinzero.instruments import TICKER, parse_contract
from ktdeval_qfinzero.moments import day_of, moment_text, parse_day, parse_moment
from ktdeval_qfinzero.pmb.engine import Engine
from ktdeval_qfinzero.pmb.events import read_rules, rules_payload
from ktdeval_qfinzero.pmb.frames import BarFeed
from ktdeval_qfinzero.pmb.margin import equity_e4
from ktdeval_qfinzero.pmb.option_life import settlement_session
from ktdeval_qfinzero.pmb.placement import exact_e4, running_session
from ktdeval_qfinzero.pmb.records import Session
from ktdeval_qfinzero.pmb.schedule import require_reach, tick_at, ticks_by
from ktdeval_qfinzero.pmb.timeline import advance, end_session, last_tick
from ktdeval_qfinzero.pmb.types import Frequency, Instrument
from ktdeval_qfinzero.trading_hours import FIRST, LAST, trading_hours

Given = Mapping[str, JsonValue]

MOST_ACCOUNTS = 100


def create_account(engine: Engine, given: Given) -> JsonValue:
    """Open an account at the clock."""
    if len(engine.book.accounts) >= MOST_ACCOUNTS:
        raise conflict(f"a workspace has at most {MOST_ACCOUNTS} accounts")
    start = given.get("start_date")
    if start is not None and parse_day(start, "start_date") < day_of(engine.now_ns):
        raise conflict(f"the clock stands at {moment_text(engine.now_ns)}; accounts can't be opened before it", "start_date")
    account_id = f"acct-{len(engine.book.accounts) + 1:06d}"
    engine.journal.emit(
        engine.now_ns,
        "ACCOUNT_CREATED",
        account_id=account_id,
        account_type=given["account_type"],
        initial_cash_e4=exact_e4(given["initial_cash"], "initial_cash"),
    )
    return {"account_id": account_id}


def create_session(engine: Engine, given: Given) -> JsonValue:
    """Begin a session; the clock goes to its start where that is later."""
    account = engine.book.accounts.get(given["account_id"])
    if account is None:
        raise not_found("account_id", "there is no such account")
    if engine.session is not None:
        raise conflict("another session is running, and there is one clock; stop it first", "session_id")
    frequency: Frequency = given["frequency"]
    start_ns, end_ns = _span(engine, given, frequency)
    stocks, options = _universe(engine, given["universe"], start_ns)
    if start_ns > engine.now_ns:
        advance(engine, start_ns)
    engine.frame = None
    session_id = f"sess-{len(engine.book.sessions) + 1:06d}"
    engine.journal.emit(
        engine.now_ns,
        "SESSION_CREATED",
        session_id=session_id,
        account_id=account.id,
        frequency=frequency,
        start_ns=start_ns,
        end_ns=end_ns,
        stocks=list(stocks),
        options=list(options),
        rules=rules_payload(read_rules(given.get("execution_config") or {})),
        equity_e4=equity_e4(account, engine.marks()),
    )
    resume(engine)
    return {"session_id": session_id}


def resume(engine: Engine) -> None:
    """Make the running session's bars readable, and load the present day's where it is open."""
    session, hours = engine.session, trading_hours()
    if session is None:
        return
    last = int(hours.close_ns.searchsorted(last_tick(session)))
    engine.feed = BarFeed(engine.reference.prices, session.frequency, last)
    if engine.opened:
        before_ns = int(hours.open_ns[engine.day_row]) if session.frequency == "1m" else engine.now_ns
        engine.load_frame(engine.visible_marks(engine.instruments(), before_ns))
    else:
        engine.frame = None


def step(engine: Engine, given: Given) -> JsonValue:
    """Let a number of ticks pass, or time up to a moment; the session ends after its last tick."""
    session = running_session(engine, given["session_id"])
    final = last_tick(session)
    until = given.get("until_ts")
    if until is None:
        number = ticks_by(engine.now_ns, session.frequency) + given.get("step", 1)
        reached = number >= ticks_by(final, session.frequency)
        to_ns = final if reached else tick_at(number, session.frequency)
    else:
        to_ns = min(parse_moment(until, "until_ts"), final)
        if to_ns <= engine.now_ns:
            raise conflict(f"the clock stands at {moment_text(engine.now_ns)}; give a later moment", "until_ts")
    advance(engine, to_ns)
    return {"session_id": session.id}


def stop(engine: Engine, given: Given) -> JsonValue:
    """End a session before its time."""
    session = running_session(engine, given["session_id"])
    end_session(engine, session, engine.now_ns, stopped=True)
    return {"session_id": session.id}


def move_clock(engine: Engine, given: Given) -> JsonValue:
    """Follow the workspace's clock, which somebody else has set forward."""
    advance(engine, given["to_ns"])
    return {}


def _span(engine: Engine, given: Given, frequency: Frequency) -> tuple[int, int]:
    """(start, end) of a session.

    Raises:
        ServiceError: `conflict`: it starts before the clock; `invalid_argument`: it has no tick, or is outside of the calendar.
    """
    start_ns = parse_moment(given["start_ts"], "start_ts")
    end_ns = parse_moment(given["end_ts"], "end_ts", end_of_day=True)
    if start_ns < engine.now_ns:
        raise conflict(f"the clock stands at {moment_text(engine.now_ns)}; a session can't start before it", "start_ts")
    if not FIRST <= day_of(start_ns) <= day_of(end_ns) <= LAST:
        raise invalid("end_ts", f"expected start_ts before end_ts, both between {FIRST} and {LAST}")
    require_reach(end_ns, "end_ts")
    if ticks_by(end_ns, frequency) <= ticks_by(start_ns, frequency):
        raise invalid("end_ts", "the market is not open between start_ts and end_ts")
    info = engine.reference.dataset.info
    # Where the data end is not told: it may lie ahead of the clock. Beyond it a session has ticks and no bars.
    first = info.first_day if frequency == "1d" else info.minute_first_day
    if day_of(end_ns) < first:
        raise invalid("end_ts", f"bars of {frequency} begin on {first} only")
    return start_ns, end_ns


def _universe(engine: Engine, given: Given, start_ns: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(stocks, options), each once.

    Raises:
        ServiceError: `invalid_argument`: empty; a stock that is not listed by now; a contract that is none or has expired.
    """
    stocks = tuple(dict.fromkeys(given.get("stocks") or ()))
    options = tuple(dict.fromkeys(given.get("options") or ()))
    if not stocks and not options:
        raise invalid("universe", "give at least one stock or option")
    for number, symbol in enumerate(stocks):
        if not TICKER.fullmatch(symbol) or not engine.reference.listed(Instrument("STOCK", symbol), engine.now_ns):
            raise invalid(f"universe.stocks[{number}]", "no such stock is listed as of the clock")
    first_day = trading_hours().session_day(start_ns + 1)
    for number, symbol in enumerate(options):
        contract = parse_contract(symbol, f"universe.options[{number}]")
        if settlement_session(Instrument("OPTION", contract.symbol)) < first_day:
            raise invalid(f"universe.options[{number}]", "the contract has expired at the start")
    return stocks, options


def session_of(engine: Engine, session_id: str) -> Session:
    """A session by id.

    Raises:
        ServiceError: `not_found`.
    """
    session = engine.book.sessions.get(session_id)
    if session is None:
        raise not_found("session_id", "there is no such session")
    return session
