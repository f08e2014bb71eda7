"""A broker written from its documents alone: slow, one instrument, one bar and one order at a time,
with fractions and lists.

It knows one account that is rich enough for every order; margin is no part of it. Money is whole
ten-thousandths of a dollar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction

from ktdeval_qfinzero.data.rows import DividendRow, SplitRow
from ktdeval_qfinzero.instruments import OptionContract, read_contract
from ktdeval_qfinzero.timestamps import MINUTE
from ktdeval_qfinzero.trading_hours import trading_hours

Row = tuple[int, int, int, int, int]
"""open, high, low, close, volume."""


class Refused(Exception):
    """Error of a command that the broker refuses."""


@dataclass(frozen=True)
class World:
    """Days and minutes of everything: symbol -> day -> bar, symbol -> start of the minute ->
    bar.
    """

    days: dict[str, dict[date, Row]]
    minutes: dict[str, dict[int, Row]]
    splits: list[SplitRow]
    dividends: list[DividendRow]
    fees: dict[str, list[tuple[int, int]]]
    """Borrow fees: symbol -> (since when, hundredths of a percent a year)."""


@dataclass(frozen=True)
class Terms:
    """Costs and fill rules of a session's orders."""

    frequency: str = "1d"
    share_fee: int = 0
    contract_fee: int = 0
    exercise_fee: int = 0
    slippage_bps: int = 0
    spread_bps: int = 0
    volume_pct: int = 100
    interest_bps: int = 0


@dataclass
class Holding:
    qty: int = 0
    cost: int = 0
    profit: int = 0

    def add(self, units: int, paid: int) -> None:
        """Units that come (negative: go), and what was paid for them (negative: received)."""
        gone = min(abs(units), abs(self.qty)) if units * self.qty < 0 else 0
        if gone:
            paid_for_gone = math.floor(Fraction(paid * gone, abs(units)))
            cost_of_gone = math.floor(Fraction(self.cost * gone, abs(self.qty)))
            self.profit += -paid_for_gone - cost_of_gone
            self.cost -= cost_of_gone
            paid -= paid_for_gone

        self.cost += paid
        self.qty += units


@dataclass(eq=False)
class Ticket:
    """An order. `sign` is 1 for a purchase and -1 for a sale."""

    symbol: str
    sign: int
    kind: str
    qty: int
    tif: str
    since: int
    limit: int | None = None
    stop: int | None = None
    until: int | None = None
    status: str = "ACCEPTED"
    filled: int = 0
    triggered: bool = False
    spread: Spread | None = None

    @property
    def works(self) -> bool:
        return self.status in ("ACCEPTED", "PARTIALLY_FILLED")


@dataclass(eq=False)
class Spread:
    legs: list[Ticket]
    ratios: list[int]
    limit: int | None


def closes_of(bars: dict[str, Row]) -> dict[str, int]:
    return {symbol: bar[3] for symbol, bar in bars.items()}


def shares_of(symbol: str) -> int:
    return 100 if symbol.startswith("O:") else 1


def slipped(price: int, sign: int, bps: Fraction, symbol: str) -> int:
    """The price that a buyer (1) or seller (-1) gets who pays `bps` beyond it."""
    if not bps:
        return price

    worse = Fraction(price) * (1 + sign * bps / 10_000)
    step = 1 if not symbol.startswith("O:") and worse < 10_000 else 100
    if sign > 0:
        return math.ceil(worse / step) * step

    return max(min(step, price), math.floor(worse / step) * step)


def adjusted(contract: OptionContract, split: SplitRow) -> OptionContract:
    """The series that an option becomes: its strike divided, to the nearest cent."""
    strike = math.floor(Fraction(contract.strike_e4, split.new * 100) + Fraction(1, 2)) * 100
    return OptionContract(contract.underlying, contract.expiry, strike, contract.right)


@dataclass
class ReferenceBroker:
    world: World
    now: int
    cash: int
    holdings: dict[str, Holding] = field(default_factory=dict)
    orders: list[Ticket] = field(default_factory=list)
    trades: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Number of the order, end of the bar, quantity, price."""
    history: list[tuple[date, int, int]] = field(default_factory=list)
    """Day, cash, equity."""
    known: dict[str, int] = field(default_factory=dict)
    """Last closes, of minutes or days; at the same moment the day's."""
    ticked: dict[str, int] | None = None
    """Last closes of the bars of the running session; None before its first open."""
    terms: Terms = field(default_factory=Terms)
    running: bool = False
    end: int = 0
    fees: int = 0
    interest: int = 0
    borrow_fees: int = 0
    dividends: int = 0
    do_not_exercise: set[str] = field(default_factory=set)
    at_open: set[int] = field(default_factory=set)
    """Orders whose stop the last bar's open reached; `room`: what that bar has left to fill."""
    room: dict[str, int] = field(default_factory=dict)
    bar_end: int = 0
    before_split: dict[str, int] = field(default_factory=dict)
    """Options' last prices before the last split."""

    def __post_init__(self) -> None:
        hours = trading_hours()
        rows = range(len(hours.days))
        self.sessions = [
            (hours.day(row), int(hours.open_ns[row]), int(hours.close_ns[row])) for row in rows
        ]
        self.sessions = [
            each for each in self.sessions if abs(each[1] - self.now) < 60 * 86_400 * 10**9
        ]
        now, self.now = self.now, self.sessions[0][1] - 1
        self.go(now)

    # -- commands

    def begin(self, start: int, end: int, terms: Terms) -> None:
        self.go(start)
        self.terms = terms
        self.running = True
        self.ticked = None
        self.end = max(tick for tick in self.ticks(self.now, end))

        if any(opens <= self.now < closes for _, opens, closes in self.sessions):
            self.ticked = dict(self.known)

    def ticks(self, after: int, to: int) -> list[int]:
        """Ticks in (after, to]."""
        step = MINUTE if self.terms.frequency == "1m" else None
        ends: list[int] = []

        for _, opens, closes in self.sessions:
            ends += range(opens + step, closes + 1, step) if step else [closes]

        return [end for end in ends if after < end <= to]

    def step(self, count: int) -> None:
        self._must_run()
        self.go(self.ticks(self.now, self.end)[:count][-1])

    def until(self, to: int) -> None:
        self._must_run()
        if to <= self.now:
            raise Refused

        self.go(min(to, self.end))

    def stop(self) -> None:
        self._must_run()
        self._must_be_free(self.orders)
        self._finish()

    def place(self, ticket: Ticket) -> None:
        self._must_run()
        self._must_live(ticket.symbol)
        self._accept(ticket)

    def place_spread(self, spread: Spread) -> None:
        self._must_run()
        for leg in spread.legs:
            self._must_live(leg.symbol)

        for leg in spread.legs:
            leg.spread = spread
            self._accept(leg)

    def cancel(self, number: int) -> None:
        self._must_run()
        ticket = self._working(number)
        self._must_be_free([ticket])

        for leg in ticket.spread.legs if ticket.spread else [ticket]:
            leg.status = "CANCELLED"

    def modify(self, number: int, qty: int | None, limit: int | None, stop: int | None) -> None:
        self._must_run()
        old = self._working(number)
        self._must_be_free([old])
        lacks = (limit is not None and old.limit is None) or (
            stop is not None and (old.stop is None or old.triggered)
        )

        if old.spread or lacks or (qty is not None and qty <= old.filled):
            raise Refused

        old.status = "CANCELLED"
        prices = (old.limit if limit is None else limit, old.stop if stop is None else stop)
        new = Ticket(
            old.symbol,
            old.sign,
            old.kind,
            (qty or old.qty) - old.filled,
            old.tif,
            self.now,
            *prices,
            old.until,
        )
        new.triggered = old.triggered
        self.orders.append(new)

    def exercise(self, symbol: str, qty: int) -> None:
        self._must_run()
        if self.qty(symbol) < qty:
            raise Refused

        self._must_be_free(self.orders)
        self._deliver(symbol, qty)

    def keep(self, symbol: str) -> None:
        """Do not exercise at expiry."""
        self._must_run()
        self.do_not_exercise.add(symbol)

    def go(self, to: int) -> None:
        """Everything that happens up to a moment."""
        moments = []
        for day, opens, closes in self.sessions:
            moments += [(opens, 0, day), (closes, 3, day)]

        for rows in self.world.minutes.values():
            moments += [(start + MINUTE, 1, date.min) for start in rows]

        if self.running:
            moments += [(tick, 2, date.min) for tick in self.ticks(self.now, min(to, self.end))]

        for moment, what, day in sorted({each for each in moments if self.now < each[0] <= to}):
            self.now = moment
            if what == 0:
                self._open(day)
            elif what == 1:
                self.known |= closes_of(self._minutes(moment))
            elif what == 2:
                self._tick()
            else:
                self._close(day)

            at_close = any(moment == closes for _, _, closes in self.sessions)
            if self.running and moment == self.end and (what == 3 or (what == 2 and not at_close)):
                self._finish()

        self.now = max(to, self.now)
        self._expire_orders()

    # -- helps

    def qty(self, symbol: str) -> int:
        return self.holdings[symbol].qty if symbol in self.holdings else 0

    def equity(self) -> int:
        held = [(symbol, each.qty) for symbol, each in self.holdings.items() if each.qty]
        return self.cash + sum(qty * self.marks[symbol] * shares_of(symbol) for symbol, qty in held)

    @property
    def marks(self) -> dict[str, int]:
        return self.known if self.ticked is None else self.ticked

    def _minutes(self, end: int) -> dict[str, Row]:
        start = end - MINUTE
        return {symbol: rows[start] for symbol, rows in self.world.minutes.items() if start in rows}

    def _bars(self, tick: int) -> dict[str, Row]:
        """The session's bars that end with a tick."""
        if self.terms.frequency == "1m":
            return self._minutes(tick)

        day = next(day for day, _, closes in self.sessions if closes == tick)

        return {symbol: rows[day] for symbol, rows in self.world.days.items() if day in rows}

    def _must_run(self) -> None:
        if not self.running:
            raise Refused

    def _must_live(self, symbol: str) -> None:
        contract = read_contract(symbol)
        if contract is not None and self._last_close(contract) <= self.now:
            raise Refused

    def _working(self, number: int) -> Ticket:
        if not self.orders[number].works:
            raise Refused

        return self.orders[number]

    def _accept(self, ticket: Ticket) -> None:
        if ticket.tif == "DAY":
            ticket.until = self._day_order_ends(ticket.since)

        self.orders.append(ticket)

    def _day_order_ends(self, since: int) -> int:
        """The close of the day of the first bar that begins at or after a moment."""
        for _, opens, closes in self.sessions:
            starts = range(opens, closes, MINUTE) if self.terms.frequency == "1m" else [opens]
            if any(start >= since for start in starts):
                return closes

        raise AssertionError

    def _last_close(self, contract: OptionContract) -> int:
        return max(closes for day, _, closes in self.sessions if day <= contract.expiry)

    def _finish(self) -> None:
        self.running = False
        self.ticked = None
        for ticket in self.orders:
            if ticket.works:
                ticket.status = "EXPIRED"

    def _expire_orders(self) -> None:
        for ticket in self.orders:
            if ticket.works and ticket.until is not None and ticket.until <= self.now:
                ticket.status = "EXPIRED"

    def _holding(self, symbol: str) -> Holding:
        return self.holdings.setdefault(symbol, Holding())

    # -- the open

    def _open(self, day: date) -> None:
        splits = [each for each in self.world.splits if each.ex_day == day]
        dividends = [each for each in self.world.dividends if each.ex_day == day]
        if self.running and self.ticked is None:
            self.ticked = dict(self.known)

        for marks in {
            id(each): each for each in (self.known, self.ticked) if each is not None
        }.values():
            for split in splits:
                self._carry(marks, split)

            for dividend in dividends:
                if dividend.symbol in marks:
                    marks[dividend.symbol] -= dividend.amount_e4

        for split in splits:
            self._split(split)

        for dividend in dividends:
            amount = self.qty(dividend.symbol) * dividend.amount_e4
            self.cash += amount
            self.dividends += amount

    def _carry(self, marks: dict[str, int], split: SplitRow) -> None:
        """Last prices as a split leaves them: those of options go to the series that they
        become.
        """
        options = {}

        for symbol in list(marks):
            contract = read_contract(symbol)
            if symbol == split.symbol:
                marks[symbol] = marks[symbol] * split.old // split.new
            elif contract is not None and contract.underlying == split.symbol:
                before = self.before_split[symbol] = marks.pop(symbol)
                if split.old == 1:
                    options[adjusted(contract, split).symbol] = before // split.new

        marks.update(options)

    def _split(self, split: SplitRow) -> None:
        for ticket in self.orders:
            contract = read_contract(ticket.symbol)
            if ticket.works and split.symbol == (
                contract.underlying if contract else ticket.symbol
            ):
                ticket.status = "CANCELLED"

        for symbol in sorted(self.holdings):
            contract = read_contract(symbol)
            holding = self.holdings[symbol]
            if not holding.qty:
                continue

            if symbol == split.symbol:
                self._split_shares(holding, split)
            elif contract is not None and contract.underlying == split.symbol:
                self._split_options(symbol, contract, split)

    def _split_shares(self, holding: Holding, split: SplitRow) -> None:
        exact = Fraction(holding.qty * split.new, split.old)
        whole = math.trunc(exact)
        rest = exact - whole
        paid_out = math.floor(rest * self.marks[split.symbol])
        cost_of_rest = math.floor(holding.cost * rest / exact)
        self.cash += paid_out
        holding.profit += paid_out - cost_of_rest
        holding.cost -= cost_of_rest
        holding.qty = whole

    def _split_options(self, symbol: str, contract: OptionContract, split: SplitRow) -> None:
        holding = self.holdings[symbol]
        if split.old == 1:
            becomes = adjusted(contract, split).symbol
            if symbol in self.do_not_exercise:
                self.do_not_exercise = self.do_not_exercise - {symbol} | {becomes}

            new = self._holding(becomes)
            new.qty += holding.qty * split.new
            new.cost += holding.cost
        else:
            value = holding.qty * self.before_split[symbol] * 100
            self.cash += value
            holding.profit += value - holding.cost

        holding.qty = holding.cost = 0

    # -- a tick

    def _tick(self) -> None:
        bars, self.bar_end = self._bars(self.now), self.now
        self._bar_opens(bars)
        inside = []

        for ticket in self._in_the_bar():
            bar = bars.get(ticket.symbol)
            if (
                bar is not None
                and bar[4]
                and ticket.spread is None
                and id(ticket) not in self.at_open
            ):
                reached = self._price_inside(ticket, bar)
                if reached is not None:
                    inside.append(
                        (
                            ticket.sign * (bar[0] - reached) * 1_000_000 // bar[0],
                            self.orders.index(ticket),
                            reached,
                        )
                    )

        for _, number, price in sorted(inside):  # the path inside a bar is the worst for the trader
            ticket = self.orders[number]
            self._fill(ticket, min(self.room[ticket.symbol], ticket.qty - ticket.filled), price)

        self._expire_orders()

        assert self.ticked is not None

        self.ticked |= closes_of(bars)

    def _in_the_bar(self) -> list[Ticket]:
        start = self.bar_start()
        in_time = (each for each in self.orders if each.works and each.since <= start)
        return [each for each in in_time if each.until is None or each.until >= self.bar_end]

    def bar_start(self) -> int:
        if self.terms.frequency == "1m":
            return self.bar_end - MINUTE

        return next(opens for _, opens, closes in self.sessions if closes == self.bar_end)

    def _bar_opens(self, bars: dict[str, Row]) -> None:
        """Whatever fills at the opens of the bars; it is told at their end, for it depends on the
        volume of the whole bar.
        """
        self.at_open = set()
        self.room = {symbol: bar[4] * self.terms.volume_pct // 100 for symbol, bar in bars.items()}

        for ticket in self._in_the_bar():
            if ticket.spread is not None:
                if ticket is ticket.spread.legs[0]:
                    self._meet_spread(ticket.spread, bars)
            elif ticket.symbol in bars and bars[ticket.symbol][4]:
                price = self._price_at_open(ticket, bars[ticket.symbol][0])
                if price is not None:
                    self._fill(
                        ticket, min(self.room[ticket.symbol], ticket.qty - ticket.filled), price
                    )

    def _must_be_free(self, tickets: list[Ticket]) -> None:
        """Orders in a bar that runs stay in it."""
        ends = self.ticks(self.now, self.end)
        self.bar_end = ends[0] if ends else 0

        if (
            self.bar_end
            and self.bar_start() < self.now
            and any(each.works and each.since <= self.bar_start() for each in tickets)
        ):
            raise Refused

    def _meet_spread(self, spread: Spread, bars: dict[str, Row]) -> None:
        if any(leg.symbol not in bars or self.room[leg.symbol] < leg.qty for leg in spread.legs):
            return

        prices = [self._slip(leg, bars[leg.symbol][0]) for leg in spread.legs]
        net = Fraction(0)
        for leg, ratio, price in zip(spread.legs, spread.ratios, prices, strict=True):
            net += Fraction(leg.sign * ratio * price * shares_of(leg.symbol), 100)

        if spread.limit is None or net <= spread.limit:
            for leg, price in zip(spread.legs, prices, strict=True):
                self._fill(leg, leg.qty, price)

    def _slip(self, ticket: Ticket, price: int) -> int:
        spread = Fraction(self.terms.spread_bps, 2) if ticket.symbol.startswith("O:") else 0
        return slipped(
            price, ticket.sign, self.terms.slippage_bps + Fraction(spread), ticket.symbol
        )

    def _price_at_open(self, ticket: Ticket, opens: int) -> int | None:
        buys = ticket.sign > 0
        within = ticket.limit is None or (opens <= ticket.limit if buys else opens >= ticket.limit)
        if ticket.stop is not None and not ticket.triggered:
            ticket.triggered = opens >= ticket.stop if buys else opens <= ticket.stop
            if not ticket.triggered:
                return None

            self.at_open.add(id(ticket))

        if not within:
            return None

        return opens if ticket.limit is not None else self._slip(ticket, opens)

    def _price_inside(self, ticket: Ticket, bar: Row) -> int | None:
        _, high, low = bar[:3]
        buys = ticket.sign > 0
        if ticket.stop is not None and not ticket.triggered:
            ticket.triggered = high >= ticket.stop if buys else low <= ticket.stop
            if not ticket.triggered:
                return None

            if ticket.limit is None:
                return self._slip(ticket, ticket.stop)

            return (
                ticket.stop
                if (ticket.stop <= ticket.limit if buys else ticket.stop >= ticket.limit)
                else None
            )

        if ticket.limit is None:
            return None

        return ticket.limit if (low <= ticket.limit if buys else high >= ticket.limit) else None

    def _fill(self, ticket: Ticket, qty: int, price: int) -> None:
        if qty <= 0:
            return

        self.room[ticket.symbol] -= qty
        ticket.filled += qty
        ticket.status = "FILLED" if ticket.filled == ticket.qty else "PARTIALLY_FILLED"
        value = ticket.sign * qty * price * shares_of(ticket.symbol)
        self._holding(ticket.symbol).add(ticket.sign * qty, value)
        self.cash -= value
        self._fee(
            qty
            * (self.terms.contract_fee if ticket.symbol.startswith("O:") else self.terms.share_fee)
        )
        self.trades.append((self.orders.index(ticket), self.now, qty, price))

    def _fee(self, amount: int) -> None:
        self.cash -= amount
        self.fees += amount

    # -- the close

    def _close(self, day: date) -> None:
        row = [each[0] for each in self.sessions].index(day)
        next_day = self.sessions[row + 1][0]
        held = any(each.qty for each in self.holdings.values())
        self.known |= closes_of(
            {symbol: rows[day] for symbol, rows in self.world.days.items() if day in rows}
        )

        for ticket in self.orders:
            contract = read_contract(ticket.symbol)
            if ticket.works and contract is not None and self._last_close(contract) == self.now:
                for leg in ticket.spread.legs if ticket.spread else [ticket]:
                    leg.status = "EXPIRED"

        self._expire()
        self._assign_early(next_day)
        nights = (next_day - day).days
        self._finance(nights)

        if self.running or held:
            self.history.append((day, self.cash, self.equity()))

    def _expire(self) -> None:
        for symbol in sorted(self.holdings):
            contract = read_contract(symbol)
            if contract is None or not self.qty(symbol) or self._last_close(contract) != self.now:
                continue

            in_the_money = contract.intrinsic_e4(self.known[contract.underlying]) >= 100
            if in_the_money and not (self.qty(symbol) > 0 and symbol in self.do_not_exercise):
                self._deliver(symbol, self.qty(symbol))
            else:
                holding = self.holdings[symbol]
                holding.profit -= holding.cost
                holding.qty = holding.cost = 0

    def _deliver(self, symbol: str, qty: int) -> None:
        """Shares at the strike for contracts (negative: short ones), whose premium becomes part of
        the shares' cost.
        """
        contract = read_contract(symbol)
        holding = self.holdings[symbol]

        assert contract is not None

        premium = math.floor(Fraction(holding.cost * qty, holding.qty))
        holding.cost -= premium
        holding.qty -= qty
        shares = qty * 100 * (1 if contract.right == "C" else -1)
        self._holding(contract.underlying).add(shares, shares * contract.strike_e4 + premium)
        self.cash -= shares * contract.strike_e4
        self._fee(abs(qty) * self.terms.exercise_fee)

    def _assign_early(self, next_day: date) -> None:
        for dividend in self.world.dividends:
            if dividend.ex_day != next_day or dividend.declared_ns > self.now:
                continue

            for symbol in sorted(self.holdings):
                contract = read_contract(symbol)
                if (
                    contract is None
                    or self.qty(symbol) >= 0
                    or (contract.underlying, contract.right) != (dividend.symbol, "C")
                ):
                    continue

                intrinsic = contract.intrinsic_e4(self.marks[dividend.symbol])
                if intrinsic > 0 and self.marks[symbol] - intrinsic < dividend.amount_e4:
                    self._deliver(symbol, self.qty(symbol))

    def _finance(self, nights: int) -> None:
        shorts = [
            symbol
            for symbol in self.holdings
            if not symbol.startswith("O:") and self.qty(symbol) < 0
        ]
        worth = {symbol: -self.qty(symbol) * self.marks[symbol] for symbol in shorts}
        interest = self._yearly(
            max(0, sum(worth.values()) - self.cash), self.terms.interest_bps, nights
        )
        self.cash -= interest
        self.interest += interest

        for symbol in shorts:
            rates = [bps for since, bps in self.world.fees.get(symbol, []) if since <= self.now]
            fee = self._yearly(worth[symbol], rates[-1] if rates else 0, nights)
            self.cash -= fee
            self.borrow_fees += fee

    @staticmethod
    def _yearly(amount: int, bps: int, nights: int) -> int:
        return math.ceil(Fraction(amount * bps * nights, 10_000 * 360))
