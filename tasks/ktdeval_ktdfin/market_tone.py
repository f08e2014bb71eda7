"""State of the market as a whole: indices, breadth, sectors."""

from __future__ import annotations

import numpy as np

from ktdeval.market import FloatArray
from ktdeval.masking import DayRef, IndexLevel, Payload, SectorRef
from ktdeval_ktdfin.step import Step, figure
from ktdeval_ktdfin.tables import table

SECTORS_SHOWN = 6
INDEX_COLUMNS = (
    "index", "level", "return_1d_pct", "return_5d_pct", "return_20d_pct", "return_60d_pct",
    "volatility_20d_pct", "drawdown_60d_pct",
)  # fmt: skip
SECTOR_COLUMNS = ("sector", "members", "return_1d_pct", "return_5d_pct", "return_20d_pct", "advancing_pct")
HORIZONS = (1, 5, 20)


def market_context(step: Step) -> Payload:
    """Indices, calendar, breadth and sector tone at this close."""
    day, first = step.view.day, max(0, step.view.day - 4)
    strongest, weakest, total = _sectors(step)
    return {
        "calendar": {
            "day": DayRef(day),
            "step": step.number,
            "last_trading_days": [DayRef(row) for row in range(first, day + 1)],
        },
        "indices": table(INDEX_COLUMNS, _index_rows(step)),
        "breadth": _breadth(step),
        "sectors": {"total": total, "strongest_20d": strongest, "weakest_20d": weakest},
    }


def _index_rows(step: Step) -> list[list[Payload]]:
    """Return the benchmark, then the other indices. Their names are shown only where stocks are: an index is an identity too."""
    view, hidden = step.view, step.stage.lens.hides_assets
    others = [code for code in view.indices if code != view.benchmark_code]
    rows: list[list[Payload]] = []
    for number, code in enumerate([view.benchmark_code, *others]):
        label = "benchmark" if number == 0 else f"index_{number}" if hidden else view.index_names.get(code, f"index_{number}")
        rows.append([label, IndexLevel(code, float(view.indices[code][-1])), *_index_figures(step, view.indices[code])])
    return rows


def _index_figures(step: Step, levels: FloatArray) -> list[Payload]:
    returns = [levels[-1] / levels[-1 - days] - 1.0 if len(levels) > days else np.nan for days in (*HORIZONS, 60)]
    daily = np.diff(np.log(levels[-21:]))
    volatility = float(np.std(daily, ddof=1)) * np.sqrt(252.0) if len(daily) > 1 else np.nan
    drawdown = levels[-1] / np.max(levels[-60:]) - 1.0
    return [_shown(step, value * 100.0) for value in (*returns, volatility, drawdown)]


def _shown(step: Step, value: float) -> Payload:
    """Return a figure of the whole market today, null where it is not defined."""
    number = figure(value)
    return None if number is None else DayRef(step.view.day).figure(number)


def _breadth(step: Step) -> Payload:
    member = step.member
    trading = member & step.has_bar
    change = step.dims["return_1d_pct"][trading]
    amount = step.view.amount[-20:, member]
    daily = np.where(np.isfinite(amount), amount, 0.0).sum(axis=1)
    mean = float(daily.mean())
    return {
        "members": int(member.sum()),
        "advancing": int((change > 0).sum()),
        "declining": int((change < 0).sum()),
        "suspended": int((member & ~step.has_bar).sum()),
        "limit_up": int((member & step.limit_up).sum()),
        "limit_down": int((member & step.limit_down).sum()),
        "median_return_1d_pct": _shown(step, float(np.median(change))) if len(change) else None,
        "amount_cny": _shown(step, float(daily[-1])),
        "amount_vs_20d_mean": _shown(step, float(daily[-1]) / mean) if mean > 0 else None,
    }


def _sectors(step: Step) -> tuple[Payload, Payload, int]:
    """Strongest and weakest sectors by their members' mean 20-day return: ranked tables, and how many sectors there are."""
    stage = step.stage
    sectors, size = stage.sector_of, len(stage.sectors)
    means = [_mean_by(sectors, size, step.dims[f"return_{days}d_pct"], step.member) for days in HORIZONS]
    change = step.dims["return_1d_pct"]
    advancing = _mean_by(sectors, size, np.where(np.isfinite(change), np.where(change > 0, 100.0, 0.0), np.nan), step.member)
    members = np.bincount(sectors[step.member], minlength=size)
    filled = [number for number in range(size) if members[number]]
    # A sector without a 20-day return is neither strong nor weak; where none has one, the other figures decide.
    shown = [number for number in filled if np.isfinite(means[-1][number])] or filled
    # Ties fall to the other figures, then to the episode's shuffled order of sectors.
    shown.sort(key=lambda number: (*(-_or_lowest(float(mean[number])) for mean in reversed(means)), int(members[number]), number))
    rows = {
        number: [
            SectorRef(stage.sectors[number]), int(members[number]),
            *(_shown(step, mean[number]) for mean in means), _shown(step, advancing[number]),
        ]
        for number in shown
    }  # fmt: skip
    split = min(SECTORS_SHOWN, (len(shown) + 1) // 2)
    weakest = shown[split:][-SECTORS_SHOWN:][::-1]
    return table(SECTOR_COLUMNS, (rows[n] for n in shown[:split])), table(SECTOR_COLUMNS, (rows[n] for n in weakest)), len(filled)


def _mean_by(groups: np.ndarray, size: int, values: FloatArray, member: np.ndarray) -> FloatArray:
    used = member & np.isfinite(values)
    with np.errstate(all="ignore"):
        mean: FloatArray = np.bincount(groups[used], values[used], size) / np.bincount(groups[used], minlength=size)
    return mean


def _or_lowest(value: float) -> float:
    return value if value == value else -np.inf
