"""What a broker works on: its state and log, its position in the calendar, and the frame of the day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from ktdeval_qfinzero.pmb.events import BrokerState, Event, Happening, apply
from ktdeval_qfinzero.pmb.frames import BarFeed, Frame, require_reach
from ktdeval_qfinzero.pmb.log import EventLog
from ktdeval_qfinzero.pmb.reference import Reference
from ktdeval_qfinzero.pmb.values import Account, Instrument, Order, Rules, Session
from ktdeval_qfinzero.trading_hours import TradingHours

Observer = Callable[[BrokerState, Mapping[str, int]], None]
"""Called after each tick of a session with the state and the marks (instrument id -> price)."""


@dataclass(slots=True)
class Engine:
    """State, calendar and bars that commands and ticks act on."""

    reference: Reference
    now_ns: int  # the moment that the engine has come to
    state: BrokerState = field(default_factory=BrokerState)  # what the events made
    log: EventLog = field(default_factory=EventLog)  # commands and events
    day_row: int = 0  # trading day (row of the calendar) that runs, or comes next
    opened: bool = False  # whether that day's open is over
    frame: Frame | None = None  # bars of the running session's present or last day
    done: int = 0  # ticks of the frame that are over
    feed: BarFeed | None = None  # of the running session
    due: dict[str, int] = field(default_factory=dict)  # order or spread id -> tick at which it can next fill or expire
    observer: Observer | None = None
    _marks: tuple[int, dict[str, int]] = (-1, {})

    def emit(self, data: Happening, ts_ns: int | None = None) -> None:
        """Write an event of now down, or of another moment, and apply it."""
        entry = self.log.add(self.now_ns if ts_ns is None else ts_ns, "event", data.type, data)
        apply(self.state, Event(entry.seq, entry.ts_ns, data))

    @property
    def hours(self) -> TradingHours:
        """Sessions of the dataset's market."""
        return self.reference.hours

    @property
    def session(self) -> Session | None:
        """Running session."""
        return self.state.sessions[self.state.running] if self.state.running else None

    @property
    def day(self) -> date:
        """Trading day that runs, or comes next."""
        return self.hours.day(self.day_row)

    def place_in_calendar(self, ns: int) -> None:
        """Go to a moment up to which nothing can happen; raises ServiceError `invalid_argument`."""
        hours = self.hours
        require_reach(hours, ns, "clock")
        self.now_ns = ns
        self.day_row = int(np.searchsorted(hours.close_ns, ns, side="right"))
        self.opened = int(hours.open_ns[self.day_row]) <= ns
        self.frame = None

    def bar_end(self, order: Order) -> int | None:
        """End of the bar that the clock is inside of and that the order works in since its open; None where it is in none."""
        if self.frame is None or self.session is None or self.done == len(self.frame.tick_ns):
            return None
        start_ns, end_ns = int(self.frame.start_ns[self.done]), int(self.frame.tick_ns[self.done])
        inside = start_ns < self.now_ns and end_ns <= self.session.end_ns
        return end_ns if inside and order.accepted_ns <= start_ns else None

    def marks(self) -> Mapping[str, int]:
        """Last prices of everything held and everything in the running session's universe, with the underlyings of options."""
        if self.frame is not None:
            marks = self.frame.marks_at(self.done)
            missing = [instrument for instrument in self.held() if instrument.id not in marks]
            return marks | self.visible_marks(missing, self.now_ns) if missing else marks
        if self._marks[0] != self.now_ns:
            self._marks = (self.now_ns, {})
        cached = self._marks[1]
        cached |= self.visible_marks([instrument for instrument in self.instruments() if instrument.id not in cached], self.now_ns)
        return dict(cached)

    def visible_marks(self, instruments: Iterable[Instrument], as_of_ns: int) -> dict[str, int]:
        """Last prices of instruments in the data as of a moment; of a position that never had one, its average cost."""
        found = ((each.id, self.reference.visible_mark(each, as_of_ns) or self._cost(each.id)) for each in instruments)
        return {name: mark for name, mark in found if mark}

    def load_frame(self, opened: Mapping[str, int]) -> None:
        """Read the bars of the running session's day. `opened`: marks at the day's open."""
        self.due, self.done, self.frame = {}, 0, None
        if self.feed is not None and self.session is not None:
            self.frame = self.feed.frame(self.day_row, self.instruments(), opened)
            self.done = int(np.searchsorted(self.frame.tick_ns, self.now_ns, side="right"))

    def borrowable(self, account: Account, symbols: Iterable[str], as_of_ns: int) -> Mapping[str, int]:
        """Ticker -> shares that an account can be short of then: those of the one pool less what other accounts have borrowed."""
        left = {symbol: row.shares for symbol, row in self.reference.lent(symbols, as_of_ns).items()}
        for other in self.state.accounts.values():
            for symbol in left if other is not account else ():
                left[symbol] -= max(0, -other.held(f"STOCK:{symbol}"))
        return left

    def instruments(self) -> tuple[Instrument, ...]:
        """Running session's universe and what any account holds, with the underlyings of options; each once."""
        universe = () if self.session is None else self.session.universe
        return tuple(dict.fromkeys((*_with_underlyings(universe), *self.held())))

    def held(self) -> tuple[Instrument, ...]:
        """Instruments that any account holds, with the underlyings of options."""
        positions = (position for account in self.state.accounts.values() for position in account.positions.values())
        return _with_underlyings(tuple(position.instrument for position in positions if position.qty))

    def rules_of(self, account: Account) -> Rules:
        """Rules of the account's latest session; the defaults before its first."""
        return next((each.rules for each in reversed(self.state.sessions.values()) if each.account_id == account.id), Rules())

    def legs_of(self, order: Order) -> tuple[Order, ...]:
        """Order, or all orders of the spread that it belongs to."""
        if not order.spread_id:
            return (order,)
        return tuple(self.state.orders[order_id] for order_id in self.state.spreads[order.spread_id].order_ids)

    def _cost(self, instrument_id: str) -> int | None:
        """Average cost of a position, for the price of what has never had one; at least a step, as where a deal's cash was more."""
        for account in self.state.accounts.values():
            position = account.positions.get(instrument_id)
            if position is not None and position.qty:
                return max(1, position.cost_e4 // (position.qty * position.instrument.multiplier))
        return None


def _with_underlyings(instruments: Sequence[Instrument]) -> tuple[Instrument, ...]:
    stocks = (Instrument("STOCK", instrument.underlying) for instrument in instruments if instrument.kind == "OPTION")
    return tuple(dict.fromkeys((*instruments, *stocks)))
