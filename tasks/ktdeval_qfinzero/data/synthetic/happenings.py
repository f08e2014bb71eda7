"""News of a company's own that nobody expected, and what analysts say of it: when, of which kind, and how the price takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval_qfinzero.data.synthetic.corporate import Life
from ktdeval_qfinzero.data.synthetic.earnings import Report
from ktdeval_qfinzero.data.synthetic.engine import Shock
from ktdeval_qfinzero.data.synthetic.grid import Grid, new_york, stream
from ktdeval_qfinzero.data.synthetic.wordings import wordings

_A_YEAR = 6.5  #: Mean number of pieces of news of a company in 252 sessions
_ACTIONS_A_YEAR = 4.0  #: Mean number of analysts' actions besides those that follow a report
RATINGS = ("Sell", "Hold", "Buy")
ACTIONS = ("upgrade", "downgrade", "target_raised", "target_cut")


@dataclass(frozen=True, slots=True)
class Happening:
    """A piece of news. `broker, rating_before, rating`: of an analyst's action."""

    ticker: str  #: whose
    kind: str  #: one of the happenings of `news.yaml`, or of `ACTIONS`
    time_ns: int  #: when it becomes public
    row: int  #: the session that takes it
    shock: Shock  #: the jump of the price, never later than the first trade after `time_ns`
    broker: str = ""
    rating_before: str = ""
    rating: str = ""
    target: float = 0.0  #: price target in multiples of the last close
    target_before: float = 0.0  #: the one before it, likewise


def draw_happenings(seed: int, life: Life, reports: Sequence[Report], grid: Grid) -> tuple[Happening, ...]:
    """News of a company and analysts' actions, by time."""
    found = [*_news(seed, life, grid), *_actions(seed, life, reports, grid)]
    return tuple(sorted(found, key=lambda happening: (happening.time_ns, happening.kind)))


def _news(seed: int, life: Life, grid: Grid) -> list[Happening]:
    stock = life.stock
    rng = stream(seed, "happenings", stock.ticker)
    kinds = [name for name, kind in wordings().happenings.items() if not kind.sectors or stock.sector in kind.sectors]
    found = []
    last_kind = ""
    for row in np.flatnonzero(rng.random(len(grid)) < _A_YEAR / 252).tolist():
        kind = str(rng.choice([name for name in kinds if name != last_kind]))
        when, minute = float(rng.random()), int(rng.integers(5, max(6, grid.lengths[row] - 15)))
        strength = float(rng.uniform(0.6, 1.5))
        size = float(np.clip(wordings().happenings[kind].size * stock.volatility * strength, -0.3, 0.3))
        early, late = int(rng.integers(6 * 60, 9 * 60 + 10)), int(rng.integers(16 * 60 + 20, 19 * 60))
        takes = row + 1 if when > 0.85 else row
        if takes >= len(grid) or life.quiet(row) or life.quiet(takes):
            continue
        if when < 0.6:
            time_ns, shock = grid.minute_ns(row, minute), Shock(row, minute, size, 1.8)
        elif when <= 0.85:
            time_ns, shock = new_york(grid.days[row], *divmod(early, 60)), Shock(row, 0, size, 1.4)
        else:
            time_ns, shock = new_york(grid.days[row], *divmod(late, 60)), Shock(takes, 0, size, 1.4)
        last_kind = kind
        found.append(Happening(stock.ticker, kind, time_ns, takes, shock))
    return found


def _actions(seed: int, life: Life, reports: Sequence[Report], grid: Grid) -> list[Happening]:
    """Return analysts' actions before the open; the ratings of each broker follow from one another."""
    stock = life.stock
    rng = stream(seed, "analysts", stock.ticker)
    ratings = {broker: int(rng.choice([0, 1, 1, 2, 2])) for broker in wordings().brokers}
    sides = {row: float(rng.choice([-1.0, 1.0])) for row in np.flatnonzero(rng.random(len(grid)) < _ACTIONS_A_YEAR / 252).tolist()}
    sides |= _after_reports(rng, reports)
    found = []
    for row, side in sorted(sides.items()):
        broker, moves = str(rng.choice(wordings().brokers)), bool(rng.random() < 0.5)
        strength, at = float(rng.uniform(0.6, 1.4)), int(rng.integers(7 * 60, 9 * 60 + 15))
        before = ratings[broker]
        after = before + int(side) if moves and 0 <= before + int(side) < len(RATINGS) else before
        if row >= len(grid) or life.quiet(row):
            continue
        kind = ACTIONS[0 if after > before else 1 if after < before else 2 if side > 0 else 3]
        ratings[broker] = after
        base = 0.93 + 0.11 * after
        size = side * stock.volatility * strength * (0.8 if after != before else 0.3)
        found.append(
            Happening(
                ticker=stock.ticker,
                kind=kind,
                time_ns=new_york(grid.days[row], *divmod(at, 60)),
                row=row,
                shock=Shock(row, 0, size),
                broker=broker,
                rating_before=RATINGS[before],
                rating=RATINGS[after],
                target=base * (1.0 + 0.03 * strength),
                target_before=base * (1.0 + 0.03 * strength) * (1.0 - side * 0.07 * strength),
            )
        )
    return found


def _after_reports(rng: np.random.Generator, reports: Sequence[Report]) -> dict[int, float]:
    """Rows of the mornings after reports on which an analyst acts, and on which side: that of the surprise."""
    rows = {}
    for report in reports:
        acts = rng.random() < 0.6
        if acts and report.reaction_row is not None:
            rows[report.reaction_row + int(report.before_open)] = 1.0 if report.eps >= report.estimate else -1.0
    return rows
