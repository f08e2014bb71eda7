"""Round trips of an episode: from the fill that opens a position to the one that closes it.

A trip is flat to flat: buys that enlarge a position and sells that reduce it belong to the same trip,
and so do its splits, dividends and interest. A fill that turns a holding into a short closes one trip
and opens another; its money and costs are divided by shares. A position that is still held at the
last close is an open trip, valued at that close. The gains of an asset's trips therefore add up to
its gain over the episode (`ktdeval_view.asset_gains`).

Example, worked by hand: 10 shares are bought at 20.00 for a cost of 1.00, 4 are sold at 23.00 for a
cost of 2.00, and two days after the first fill 6 at 22.00 for a cost of 1.00. The trip has taken two
days. It gains 92.00 + 132.00 - 200.00 - 4.00 = 20.00, or 10.0 % of the 200.00 that opened it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ktdeval.errors import DataError
from ktdeval.trading import Ledger, StepRecord
from ktdeval_view.asset_gains import AssetEvent, asset_events


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """A position from its first share to its last. Money is in minor units, after costs."""

    code: str
    is_short: bool
    entry: int  #: step of the fill that opened it
    exit: int | None  #: step that closed it; None if it is still open at the last close
    days: int  #: trading days from entry to exit, or to the last close
    opened_minor: int  #: money of the fills that opened or enlarged it, before costs
    gain_minor: int

    @property
    def gain(self) -> float | None:
        """Gain over the money that opened the trip; None if it was opened for nothing."""
        if not self.opened_minor:
            return None
        return self.gain_minor / self.opened_minor


@dataclass(slots=True)
class _OpenTrip:
    """A position that has not been closed yet."""

    code: str
    entry: int
    shares: int = 0
    cash_minor: int = 0  # received minus paid, after costs
    opened_minor: int = 0
    is_short: bool = False

    def add(self, event: AssetEvent) -> None:
        is_first = not self.shares
        if is_first:
            self.is_short = event.shares < 0

        enlarges = (event.shares < 0) == self.is_short
        if event.is_fill and enlarges:
            self.opened_minor += abs(event.received_minor)

        self.shares += event.shares
        self.cash_minor += event.cash_minor

    def end(self, last: int, value_minor: int, *, is_closed: bool) -> RoundTrip:
        return RoundTrip(
            code=self.code,
            is_short=self.is_short,
            entry=self.entry,
            exit=last if is_closed else None,
            days=last - self.entry,
            opened_minor=self.opened_minor,
            gain_minor=self.cash_minor + value_minor,
        )


class _Positions:
    """Open trips by code, and the trips that are closed."""

    def __init__(self) -> None:
        self.open: dict[str, _OpenTrip] = {}
        self.closed: list[RoundTrip] = []

    def book(self, number: int, step: StepRecord) -> None:
        """Book the events of a step. Raises DataError if they don't lead to its positions."""
        for event in asset_events(step):
            if event.code not in self.open and not event.is_fill:
                raise DataError(
                    f"{event.code} has interest, a split or a dividend on {step.filled_on} without"
                    " a position"
                )
            self._book_event(number, event)

        tracked = {code: trip.shares for code, trip in self.open.items()}
        recorded = {held.code: held.shares for held in step.positions}
        if tracked != recorded:
            different = min(dict(tracked.items() ^ recorded.items()))
            raise DataError(
                f"the fills of {different} don't explain its position on {step.filled_on}"
            )

    def _book_event(self, number: int, event: AssetEvent) -> None:
        trip = self.open.setdefault(event.code, _OpenTrip(event.code, number))
        after = trip.shares + event.shares
        if trip.shares * after < 0:
            closing, event = _divided(event, -trip.shares)
            self._add(number, trip, closing)
            trip = self.open[event.code] = _OpenTrip(event.code, number)

        self._add(number, trip, event)

    def _add(self, number: int, trip: _OpenTrip, event: AssetEvent) -> None:
        trip.add(event)
        if not trip.shares:
            self.closed.append(trip.end(number, 0, is_closed=True))
            del self.open[trip.code]


def _divided(event: AssetEvent, shares: int) -> tuple[AssetEvent, AssetEvent]:
    """Divide a fill into the given number of shares and the rest. Their money and costs add up to
    those of the fill.
    """
    received = event.received_minor * shares // event.shares
    costs = event.costs_minor * shares // event.shares
    first = replace(event, shares=shares, received_minor=received, costs_minor=costs)
    second = replace(
        event,
        shares=event.shares - shares,
        received_minor=event.received_minor - received,
        costs_minor=event.costs_minor - costs,
    )
    return first, second


def round_trips(ledger: Ledger) -> Sequence[RoundTrip]:
    """Return the round trips of an episode: those that are closed, in the order of their exits, and
    then those that are open at the last close.

    Raises DataError if the fills don't explain a position, as in records of another program.
    """
    positions = _Positions()
    for number, step in enumerate(ledger.steps):
        positions.book(number, step)

    trips = positions.closed
    if not ledger.steps:
        return trips

    last = len(ledger.steps) - 1
    values = {held.code: held.value_minor for held in ledger.steps[-1].positions}
    for code, trip in positions.open.items():
        trips.append(trip.end(last, values[code], is_closed=False))

    return trips
