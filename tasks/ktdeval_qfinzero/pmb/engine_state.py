"""State on which the broker's commands and ticks operate: accounts and orders, the log, the
position in the calendar, and the day's bars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from ktdeval_qfinzero.pmb.bar_feed import BarFeed, DayFrame, require_reach
from ktdeval_qfinzero.pmb.broker_types import Account, Instrument, Order, Rules, Session
from ktdeval_qfinzero.pmb.lifecycle_rules import daily_charges
from ktdeval_qfinzero.pmb.log import EventLog
from ktdeval_qfinzero.pmb.reference_data import BrokerReference
from ktdeval_qfinzero.pmb.state_events import BrokerEvent, BrokerState, EventData, apply
from ktdeval_qfinzero.trading_hours import TradingHours


@dataclass(frozen=True, slots=True)
class Charges:
    """Charges at a close, all positive."""

    interest_e4: int
    fees_e4: Mapping[str, int]  #: fees for borrowed stock, by ticker
    fee_bps: Mapping[str, int]  #: annual rates of these fees, by ticker

    @property
    def total_e4(self) -> int:
        """Sum of all charges."""
        return self.interest_e4 + sum(self.fees_e4.values())


@dataclass(slots=True)
class Engine:
    """State, calendar and bars on which commands and ticks act."""

    reference: BrokerReference
    now_ns: int
    state: BrokerState = field(default_factory=BrokerState)  #: result of all events
    log: EventLog = field(default_factory=EventLog)  #: commands and events
    day_row: int = 0  #: calendar row of the current or next trading day
    opened: bool = False  #: whether the day at `day_row` has been opened
    frame: DayFrame | None = None  #: bars of the running session's current or last day
    done: int = 0  #: number of completed ticks in the frame
    feed: BarFeed | None = None  #: bars of the running session
    #: order or spread id -> next tick at which it can fill or expire
    due: dict[str, int] = field(default_factory=dict)
    _marks: tuple[int, dict[str, int]] = (-1, {})

    def emit(self, data: EventData, ts_ns: int | None = None) -> None:
        """Record an event, by default at the current time, and apply it to the state."""
        if ts_ns is None:
            ts_ns = self.now_ns

        entry = self.log.add(ts_ns, "event", data.type, data)
        apply(self.state, BrokerEvent(entry.seq, entry.ts_ns, data))

    @property
    def hours(self) -> TradingHours:
        """Sessions of the dataset's market."""
        return self.reference.hours

    @property
    def session(self) -> Session | None:
        """Running session; None without one."""
        if not self.state.running:
            return None
        return self.state.sessions[self.state.running]

    @property
    def day(self) -> date:
        """Current or next trading day."""
        return self.hours.day(self.day_row)

    def place_in_calendar(self, ns: int) -> None:
        """Jump to a time before which no event can happen. Raises ServiceError `invalid_argument`
        if the calendar ends too soon.
        """
        hours = self.hours
        require_reach(hours, ns, "clock")
        self.now_ns = ns
        self.day_row = int(np.searchsorted(hours.close_ns, ns, side="right"))
        self.opened = int(hours.open_ns[self.day_row]) <= ns
        self.frame = None

    def bar_end(self, order: Order) -> int | None:
        """Return the end of the bar in progress if the order has worked since the bar's open, else
        None.
        """
        if self.frame is None or self.session is None or self.done == len(self.frame.tick_ns):
            return None

        start_ns = int(self.frame.start_ns[self.done])
        end_ns = int(self.frame.tick_ns[self.done])
        is_inside = start_ns < self.now_ns and end_ns <= self.session.end_ns
        if not is_inside or order.accepted_ns > start_ns:
            return None
        return end_ns

    def marks(self) -> Mapping[str, int]:
        """Return the last prices of all positions and of the running session's universe, including
        the underlyings of options.
        """
        if self.frame is not None:
            marks = self.frame.marks_at(self.done)
            missing = [
                instrument for instrument in self.held_instruments() if instrument.id not in marks
            ]
            return marks | self.visible_marks(missing, self.now_ns)

        # Without a frame each mark is a query, so marks are cached until the clock moves.
        moment, cached = self._marks
        if moment != self.now_ns:
            cached = {}
            self._marks = (self.now_ns, cached)

        missing = [instrument for instrument in self.instruments() if instrument.id not in cached]
        cached |= self.visible_marks(missing, self.now_ns)
        return dict(cached)

    def visible_marks(self, instruments: Iterable[Instrument], as_of_ns: int) -> dict[str, int]:
        """Return the last prices of instruments as of a point in time. A position that never had a
        price is marked at its average cost.
        """
        marks: dict[str, int] = {}
        for instrument in instruments:
            mark = self.reference.visible_mark(instrument, as_of_ns) or self._cost(instrument.id)
            if mark:
                marks[instrument.id] = mark

        return marks

    def load_frame(self, opened: Mapping[str, int]) -> None:
        """Read the bars of the running session's day. `opened`: the marks at its open."""
        self.due = {}
        self.done = 0
        self.frame = None
        if self.feed is not None and self.session is not None:
            self.frame = self.feed.frame(self.day_row, self.instruments(), opened)
            self.done = int(np.searchsorted(self.frame.tick_ns, self.now_ns, side="right"))

    def borrowable(
        self, account: Account, symbols: Iterable[str], as_of_ns: int
    ) -> Mapping[str, int]:
        """Return, by ticker, the shares that an account can be short: the pool shared by all
        accounts, less what other accounts have borrowed.
        """
        locates = self.reference.lent(symbols, as_of_ns)
        left = {symbol: row.shares for symbol, row in locates.items()}
        for other in self.state.accounts.values():
            if other is account:
                continue
            for symbol in left:
                left[symbol] -= max(0, -other.count_units(f"STOCK:{symbol}"))

        return left

    def charges(self, account: Account, nights: int) -> Charges:
        """Return the charges for an account's borrowed cash and shares over a number of nights, at
        the current marks.
        """
        shorts: list[str] = []
        for position in account.positions.values():
            if position.qty < 0 and position.instrument.kind == "STOCK":
                shorts.append(position.instrument.symbol)

        if account.cash_e4 >= 0 and not shorts:
            return Charges(0, {}, {})

        lent = self.reference.lent(shorts, self.now_ns)
        bps = {ticker: row.fee_bps_per_year for ticker, row in lent.items()}
        rules = self.rules_of(account)
        interest_e4, fees_e4 = daily_charges(account, self.marks(), rules, bps, nights)

        return Charges(interest_e4, fees_e4, bps)

    def instruments(self) -> tuple[Instrument, ...]:
        """Return the running session's universe and all held instruments, with the underlyings of
        options, each once.
        """
        universe: Sequence[Instrument] = ()
        if self.session is not None:
            universe = self.session.universe
        return tuple(dict.fromkeys((*_with_underlyings(universe), *self.held_instruments())))

    def held_instruments(self) -> tuple[Instrument, ...]:
        """Return the instruments in all accounts' positions, with the underlyings of options."""
        held: list[Instrument] = []
        for account in self.state.accounts.values():
            for position in account.positions.values():
                if position.qty:
                    held.append(position.instrument)

        return _with_underlyings(held)

    def rules_of(self, account: Account) -> Rules:
        """Return the rules of the account's latest session; the default rules before its first."""
        for session in reversed(self.state.sessions.values()):
            if session.account_id == account.id:
                return session.rules

        return Rules()

    def legs_of(self, order: Order) -> tuple[Order, ...]:
        """Return all orders in the spread of an order, or only the order itself if it has no
        spread.
        """
        if not order.spread_id:
            return (order,)

        spread = self.state.spreads[order.spread_id]
        return tuple(self.state.orders[order_id] for order_id in spread.order_ids)

    def _cost(self, instrument_id: str) -> int | None:
        """Return the average cost of a position, which serves as its mark until it has a price. The
        result is at least 0.0001 dollars, since a deal may have paid more cash than the position
        had cost.
        """
        for account in self.state.accounts.values():
            position = account.positions.get(instrument_id)
            if position is not None and position.qty:
                return max(1, position.cost_e4 // (position.qty * position.instrument.multiplier))
        return None


def _with_underlyings(instruments: Sequence[Instrument]) -> tuple[Instrument, ...]:
    stocks: list[Instrument] = []
    for instrument in instruments:
        if instrument.kind == "OPTION":
            stocks.append(Instrument("STOCK", instrument.underlying))

    return tuple(dict.fromkeys((*instruments, *stocks)))
