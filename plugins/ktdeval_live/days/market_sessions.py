"""Sessions of a market during a test: when each day is over, and the cutoff for decisions on it.

A market's days are the union of its assets' calendars. A day's data are complete after the last
close on any of these calendars. A decision must be committed before the earliest time at which one
of its orders could fill: the next day's open, or the next day's close if the venue fills at the
close. Times come from `exchange_calendars`, which knows early closes, holidays and daylight saving
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from typing import Any

import numpy as np

from ktdeval.errors import ConfigError
from ktdeval.market import FILLS_OF_MINUTES, FillRule, MarketSnapshot, sessions
from ktdeval.trading import MarketRules, TradingConfig
from ktdeval.values import Value
from ktdeval_live.days.clock import Zoned
from ktdeval_live.plan import LivePlan


class Session(Value):
    """One day of a market, with times in UTC."""

    day: str  #: ISO day
    complete_at: Zoned  #: last close of the day
    #: time before which a decision on this day must be committed; null for the last day, which only
    #: fills
    cutoff: Zoned | None


class Schedule(Value):
    """All sessions of a market in a test: the day before the first fills, and the fill days. They
    are computed once and stored, so that a later version of the calendars changes nothing.
    """

    market: str
    sessions: tuple[Session, ...]

    @property
    def days(self) -> tuple[str, ...]:
        """ISO days, one per session."""
        return tuple(session.day for session in self.sessions)

    @property
    def deciding(self) -> tuple[Session, ...]:
        """Sessions on which decisions are made: all except the last."""
        return self.sessions[:-1]


def fill_rules(snapshot: MarketSnapshot, trading: TradingConfig) -> dict[str, FillRule]:
    """Return the fill rule for each calendar of a market.

    Raises ConfigError if a calendar has two fill rules, or if orders fill at the close at which the
    decision is made.
    """
    scales = MarketRules.of(snapshot, trading).scales
    rules: dict[str, FillRule] = {}
    for asset, venue_name in enumerate(snapshot.venues):
        calendar = snapshot.rules[venue_name].calendar
        rule = scales[asset].fill
        if rule == "same_close":
            raise ConfigError(
                f"{snapshot.codes[asset]} fills at the close of its decision, which is "
                "impossible in a forward test; choose a task whose orders fill later"
            )
        if rule in FILLS_OF_MINUTES:
            raise ConfigError(
                f"{snapshot.codes[asset]} fills at {rule}, a price of bars within days, which a"
                " forward test does not collect; choose a task whose orders fill at opens or closes"
            )
        if rules.setdefault(calendar, rule) != rule:
            raise ConfigError(
                f"assets of the calendar {calendar} fill by {rules[calendar]} and by {rule}; put"
                " them into two markets"
            )

    return rules


def plan_schedule(
    plan: LivePlan, market: str, base: MarketSnapshot, trading: TradingConfig
) -> Schedule:
    """Return the sessions of a market in a plan, from the current calendars. Raises ConfigError."""
    margin = timedelta(minutes=plan.margin_minutes)
    return schedule(market, fill_rules(base, trading), plan.first, plan.last, margin)


def schedule(
    market: str, rules: Mapping[str, FillRule], first: str, last: str, margin: timedelta
) -> Schedule:
    """Return the sessions of a market, given the fill rule for each of its calendars.

    Raises ConfigError if no day is left for a decision, or if there is no time between a close and
    the next fill.
    """
    before = str(np.datetime64(first, "D") - np.timedelta64(15, "D"))
    days_of = {calendar: set(map(str, sessions(before, last, calendar))) for calendar in rules}
    hours = {calendar: _hours(calendar, before, last) for calendar in rules}
    all_days = sorted(set().union(*days_of.values()))
    filled = [day for day in all_days if day >= first]
    earlier = [day for day in all_days if day < first]
    if not filled or not earlier:
        raise ConfigError(f"market {market}: has no session from {first} to {last}")

    days = [earlier[-1], *filled]
    found = []
    for day, fill_day in zip_longest(days, filled):
        closes = [_close(hours[name], day) for name in rules if day in days_of[name]]
        fills = []
        for name, rule in rules.items():
            if fill_day in days_of[name]:
                fills.append(_fill_time(hours[name], rule, fill_day))

        cutoff = None
        if fill_day is not None:
            cutoff = min(fills) - margin

        session = Session(day=day, complete_at=max(closes), cutoff=cutoff)
        _check_order(market, session)
        found.append(session)

    return Schedule(market=market, sessions=tuple(found))


def _check_order(market: str, session: Session) -> None:
    if session.cutoff is None or session.complete_at < session.cutoff:
        return
    raise ConfigError(
        f"market {market}: orders decided after {session.day} could fill from"
        f" {session.cutoff:%Y-%m-%d %H:%M} UTC on (margin_minutes before the fill), when that day is"
        " not over; on a market that never closes use a task whose orders fill at the next close"
        " (trading: {fill: next_close}) and give other assets a market of their own, or choose a"
        " smaller margin_minutes"
    )


def _hours(calendar: str, first: str, last: str) -> Any:
    """Return an exchange's opening and closing times. The calendar and the days must already be
    checked.
    """
    import exchange_calendars  # noqa: PLC0415 - heavy, and `ktdeval --help` needs no calendar

    return exchange_calendars.get_calendar(calendar, start=first, end=last)


def _close(hours: Any, day: str) -> datetime:
    return _utc(hours.session_close(day))


def _fill_time(hours: Any, rule: FillRule, day: str) -> datetime:
    if rule == "next_close":
        return _close(hours, day)
    return _utc(hours.session_open(day))


def _utc(time: Any) -> datetime:
    found: datetime = time.to_pydatetime()
    return found.astimezone(UTC)


def due(plan_schedules: Iterable[Schedule], now: datetime) -> tuple[str, datetime] | None:
    """Return the market and time of the next close after `now`; None after the last close."""
    times = []
    for one in plan_schedules:
        for session in one.sessions:
            if session.complete_at > now:
                times.append((session.complete_at, one.market))

    if not times:
        return None
    time, market = min(times)
    return market, time
