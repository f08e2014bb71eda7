"""Quarterly reports: due dates, estimates, outcomes, and the reaction of the price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import product

import numpy as np

from ktdeval.values import JsonValue
from ktdeval_qfinzero.data.rows import EventRelease, EventRow
from ktdeval_qfinzero.data.synthetic.companies import CompanyLife, Size
from ktdeval_qfinzero.data.synthetic.engine import PriceShock
from ktdeval_qfinzero.data.synthetic.minute_grid import MinuteGrid, new_york, shift_sessions, stream
from ktdeval_qfinzero.timestamps import moment_text

_SHARES: dict[Size, float] = {"mega": 2.4e9, "large": 6.0e8, "mid": 1.6e8, "thin": 4.0e7}
_QUARTER_ENDS = ((3, 31), (6, 30), (9, 30), (12, 31))
GUIDANCE = ("lowered", "maintained", "raised")


@dataclass(frozen=True, slots=True)
class QuarterlyReport:
    """A quarterly report: earnings per share with their first and last estimate, and revenue, all
    in dollars.
    """

    ticker: str
    year: int
    quarter: int
    day: date  #: day on which the report is due
    time_ns: int  #: time at which the report is due
    #: whether the report is published before the session, so that this session's open reflects it;
    #: otherwise, the next session's open does
    before_open: bool
    reaction_row: int | None  #: session whose open reflects the report; None beyond the last day
    announced_ns: int  #: when the date became known
    first_estimate: float
    estimate: float
    estimate_changed_ns: int | None  #: when the estimate changed; None if it did not change
    eps: float
    eps_year_ago: float
    revenue_estimate: float
    revenue: float
    revenue_year_ago: float
    guidance: str  #: change in the company's outlook, one of `GUIDANCE`
    #: original due time if the date was moved; `announced_ns` is then when the move was announced
    first_time_ns: int | None = None
    first_announced_ns: int | None = None  #: when the first date became known
    #: time of a later correction, and the corrected earnings per share
    revision: tuple[int, float] | None = None

    @property
    def period(self) -> str:
        """Fiscal quarter, such as `Q4 2024`."""
        return f"Q{self.quarter} {self.year}"

    @property
    def surprise(self) -> float:
        """Earnings per share minus the last estimate."""
        return self.eps - self.estimate

    @property
    def event_id(self) -> str:
        """Id of the calendar entry to which the outcome belongs."""
        suffix = "" if self.first_time_ns is None else "_moved"
        return f"earn_{self.ticker}_{self.year}Q{self.quarter}{suffix}"


def draw_reports(
    seed: int, life: CompanyLife, grid: MinuteGrid
) -> tuple[tuple[QuarterlyReport, ...], tuple[PriceShock, ...]]:
    """Return a company's reports that are due on the days of the grid, and the jumps that they
    cause.
    """
    habit = stream(seed, "earnings", life.stock.ticker)
    delay = int(habit.integers(19, 46))
    before_open = bool(habit.random() < 0.5)
    margin = float(habit.uniform(0.06, 0.22))
    unprofitable = life.stock.yield_pct == 0 and habit.random() < 0.5
    base_eps = life.stock.price * (-0.006 if unprofitable else float(habit.uniform(0.008, 0.016)))
    growth = float(habit.uniform(0.0, 0.035))
    reports = []
    shocks = []
    quarters = product(range(grid.days[0].year - 1, grid.days[-1].year + 1), (1, 2, 3, 4))

    for count, (year, quarter) in enumerate(quarters):
        rng = stream(seed, "earnings", life.stock.ticker, f"{year}Q{quarter}")
        end = date(year, *_QUARTER_ENDS[quarter - 1])
        day = shift_sessions(end + timedelta(days=delay + int(rng.integers(-2, 3))))
        row = grid.row_on_or_after(day)
        if row is None or day < grid.days[0] or row > life.last_row or row == life.halted_row:
            continue
        if life.first_row > 0 and row < life.first_row + 15:  # listed for at least three weeks
            continue

        facts = _EarningsFacts(
            base_eps / life.shares_per_first(day), growth, count, margin, _SHARES[life.stock.size]
        )
        report, size = _draw_report(rng, life, (year, quarter, day, before_open), facts)
        reaction = row if before_open else row + 1
        reaction_row = reaction if reaction <= life.last_row else None
        reports.append(
            _move_report(
                rng,
                replace(report, reaction_row=reaction_row, revision=_revision(rng, report, grid)),
                grid,
            )
        )

        if reaction_row is not None:
            shocks.append(PriceShock(reaction_row, 0, size, 1.5))

    return tuple(reports), tuple(shocks)


def report_events(life: CompanyLife, reports: Sequence[QuarterlyReport]) -> list[EventRow]:
    """Return the calendar entries for reports. A moved date has its own entry; once a date has
    moved, the entry of the first date refers to the new one.
    """
    rows = []
    for report in reports:
        row = _event(life, report)
        rows.append(row)
        if report.first_time_ns is not None and report.first_announced_ns is not None:
            moved_to: dict[str, JsonValue] = {
                "rescheduled_to_utc": moment_text(report.time_ns),
                "rescheduled_to_event_id": report.event_id,
            }
            expected = {**row.expected, "eps_estimated": report.first_estimate}
            del expected["rescheduled_from_utc"]
            first = replace(
                row,
                event_id=report.event_id.removesuffix("_moved"),
                time_ns=report.first_time_ns,
                announced_ns=report.first_announced_ns,
                expected=expected,
                releases=(EventRelease(report.announced_ns, moved_to),),
            )
            rows.append(first)

    return rows


@dataclass(frozen=True, slots=True)
class _EarningsFacts:
    """Earnings per share in the first quarter, quarterly growth, number of quarters since then,
    profit margin, and number of shares.
    """

    eps: float
    growth: float
    count: int
    margin: float
    shares: float

    def eps_after(self, quarters: int) -> float:
        """Return the trend in earnings per share."""
        return self.eps * (1.0 + self.growth) ** quarters

    def revenue_after(self, quarters: int) -> float:
        """Return the trend in the revenue of the whole company."""
        return abs(self.eps) / self.margin * self.shares * (1.0 + self.growth) ** quarters


def _draw_report(
    rng: np.random.Generator,
    life: CompanyLife,
    due: tuple[int, int, date, bool],
    facts: _EarningsFacts,
) -> tuple[QuarterlyReport, float]:
    """Return a report and the log return that it causes, which usually has the sign of the
    surprise.
    """
    year, quarter, day, before_open = due
    surprise = float(rng.normal(0.25, 1.0))
    change = float(rng.standard_normal())
    unit = max(0.015, 0.06 * abs(facts.eps))
    estimate = _cents(facts.eps_after(facts.count) * (1.0 + 0.03 * float(rng.standard_normal())))
    changed = bool(rng.random() < 0.4)
    first_estimate = _cents(estimate - unit * 0.5 * change) if changed else estimate
    revenue = facts.revenue_after(facts.count) * (1.0 + 0.01 * float(rng.standard_normal()))
    tone = float(rng.standard_normal()) + 0.4 * surprise
    guidance = GUIDANCE[0 if tone < -0.9 else 2 if tone > 0.9 else 1]
    time_ns = new_york(
        day,
        *((7, int(rng.choice([0, 15, 30]))) if before_open else (16, int(rng.choice([5, 10, 15])))),
    )
    announced = new_york(shift_sessions(day, -int(rng.integers(20, 31))), 8)
    report = QuarterlyReport(
        ticker=life.stock.ticker,
        year=year,
        quarter=quarter,
        day=day,
        time_ns=time_ns,
        before_open=before_open,
        reaction_row=None,
        announced_ns=announced,
        first_estimate=first_estimate,
        estimate=estimate,
        estimate_changed_ns=new_york(shift_sessions(day, -int(rng.integers(3, 10))), 11, 30)
        if changed
        else None,
        eps=_cents(estimate + unit * surprise),
        eps_year_ago=_cents(
            facts.eps_after(facts.count - 4) * (1.0 + 0.04 * float(rng.standard_normal()))
        ),
        revenue_estimate=_millions(revenue),
        revenue=_millions(
            revenue * (1.0 + 0.012 * float(rng.standard_normal()) + 0.006 * surprise)
        ),
        revenue_year_ago=_millions(
            facts.revenue_after(facts.count - 4) * (1.0 + 0.02 * float(rng.standard_normal()))
        ),
        guidance=guidance,
    )
    scale = 1.7 * life.stock.volatility
    size = scale * (
        1.1 * np.clip(surprise - 0.15, -2.0, 2.0)
        + 0.8 * GUIDANCE.index(guidance)
        - 0.8
        + 0.7 * rng.standard_normal()
    )

    return report, float(np.clip(size, -0.25, 0.25))


def _move_report(
    rng: np.random.Generator, report: QuarterlyReport, grid: MinuteGrid
) -> QuarterlyReport:
    """Move the date of one report in sixteen, so that it was first due on another day."""
    if rng.random() > 1 / 16:
        return report

    shift = int(rng.choice([-4, -3, 3, 4, 5]))
    first_day = shift_sessions(report.day, shift)
    moved_on = shift_sessions(min(first_day, report.day), -int(rng.integers(11, 15)))
    if moved_on < grid.days[0]:
        return report

    first_time = new_york(first_day, *((7, 0) if report.before_open else (16, 5)))
    return replace(
        report,
        first_time_ns=first_time,
        first_announced_ns=report.announced_ns,
        announced_ns=new_york(moved_on, 9),
    )


def _revision(
    rng: np.random.Generator, report: QuarterlyReport, grid: MinuteGrid
) -> tuple[int, float] | None:
    """Correct one report in twenty by a few cents, some weeks later."""
    day = shift_sessions(report.day, int(rng.integers(12, 22)))
    change = float(rng.choice([-0.02, -0.01, 0.01, 0.02]))
    return (
        (new_york(day, 17), _cents(report.eps + change))
        if rng.random() < 0.05 and day <= grid.days[-1]
        else None
    )


def _event(life: CompanyLife, report: QuarterlyReport) -> EventRow:
    stock = life.stock
    expected: dict[str, JsonValue] = {
        "company_name": stock.name,
        "fiscal_period": f"Q{report.quarter}",
        "fiscal_year": report.year,
        "time_of_day": "before_open" if report.before_open else "after_close",
        "eps_estimated": report.first_estimate,
        "eps_previous": report.eps_year_ago,
        "revenue_estimated": report.revenue_estimate,
        "revenue_previous": report.revenue_year_ago,
    }

    if report.first_time_ns is not None:
        expected["rescheduled_from_utc"] = moment_text(report.first_time_ns)

    releases = []
    if report.estimate_changed_ns is not None and report.estimate_changed_ns > report.announced_ns:
        releases.append(
            EventRelease(report.estimate_changed_ns, {"eps_estimated": report.estimate})
        )
    elif report.estimate_changed_ns is not None:
        expected["eps_estimated"] = report.estimate

    outcome: dict[str, JsonValue] = {
        "eps_actual": report.eps,
        "revenue_actual": report.revenue,
        "guidance": report.guidance,
    }
    releases.append(EventRelease(report.time_ns, outcome))
    if report.revision is not None:
        releases.append(EventRelease(report.revision[0], {"eps_actual": report.revision[1]}))

    return EventRow(
        report.event_id,
        "earnings",
        f"{stock.name} {report.period} earnings",
        report.time_ns,
        report.announced_ns,
        stock.importance,
        (stock.ticker,),
        expected=expected,
        releases=tuple(releases),
    )


def _cents(value: float) -> float:
    return round(value, 2) + 0.0


def _millions(value: float) -> float:
    return round(value / 1e5) * 1e5
