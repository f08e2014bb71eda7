"""Market around an episode: the benchmark, the days after each order, closes, positions and signals of what was traded, true names
behind a mask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktdeval.errors import KtdevalError
from ktdeval.harness import TranscriptEntry, step_signals
from ktdeval.jsonio import JsonValue
from ktdeval.market import FillRule, FloatArray, MarketSnapshot, window_rows
from ktdeval.masking import AssetRef, Lens
from ktdeval.registry import Plugins
from ktdeval.stats import next_return
from ktdeval.trading import Ledger, OrderRecord, StepRecord
from ktdeval_view.records import EpisodeRecords, submitted_handles

_CLOSES_BEFORE, _CLOSES_AFTER = 40, 10
"""Days around an episode of which closes are shown, so that its first and last orders have a surrounding too."""

_NAMES_BEFORE, _NAMES_AFTER = 320, 5
"""Days around a window whose handles a model can have seen: look-back bars before it, and a fill after its last decision."""

_CLOSE_SCALE = 1000  #: Adjusted closes are kept in thousandths: what a plot of them can show; outside A-shares in ticks


def order_facts(step: StepRecord, market: MarketSnapshot, ledger: Ledger) -> list[JsonValue]:
    """For each order of a step prices around it, and returns adjusted for splits and dividends as fractions.

    `to_open` is from the close before to the fill day's open, `to_close` from that open to the day's close, `to_next_open`
    from that open to the next trading day's; outside A-shares to that of the asset's next day with a bar, and None where its
    venue fills at a close. `right`: whether what calibration judges filled orders by (KTD-Fin Appendix G; `ktdeval.stats`'s
    `next_return`) was positive for a buy, negative for a sell. None for an order in no asset, and instead of
    a figure that the market lacks.
    """
    row = market.day_index(step.filled_on)
    columns = [market.asset_index.get(order.code or "") for order in step.orders]
    return [
        None if column is None else _facts(market, row, column, order, ledger.fill(order.code or ""))
        for order, column in zip(step.orders, columns, strict=True)
    ]


def _facts(market: MarketSnapshot, row: int, column: int, order: OrderRecord, fill: FillRule | None) -> dict[str, JsonValue]:
    opens, closes = market.adjusted_open[:, column], market.adjusted_close[:, column]
    later = np.flatnonzero(np.isfinite(opens[row + 1 :])) if market.instruments else np.arange(len(opens) - row - 1)
    change, at_open = next_return(market, row, column, fill), fill in (None, "next_open")
    has_next, digits = at_open and bool(later.size), 10 if market.instruments else 6
    judged = bool(order.filled_shares) and bool(np.isfinite(change))
    return {
        "close_before": _figure(_last_known(market.close[:row, column]), digits),
        "open": _figure(market.open[row, column], digits),
        "close": _figure(market.close[row, column], digits),
        "next_open": _figure(market.open[row + 1 + later[0], column], digits) if has_next else None,
        "to_open": _figure(opens[row] / _last_known(closes[:row]) - 1.0),
        "to_close": _figure(closes[row] / opens[row] - 1.0),
        "to_next_open": _figure(change) if at_open else None,
        "right": bool(change > 0 if order.side == "BUY" else change < 0) if judged else None,
    }


def _last_known(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known[-1]) if len(known) else float("nan")


def _figure(value: float, digits: int = 6) -> float | None:
    return round(float(value), digits) if np.isfinite(value) else None


def close_series(records: EpisodeRecords, market: MarketSnapshot, judged: Collection[str] = ()) -> dict[str, JsonValue]:
    """Adjusted closes of every stock that was ordered, held or `judged` (codes), in terms of the last day shown.

    `days`: ISO days. `start`: which of them is the day of the first decision. `scale`: units in one of the currency.
    `closes`: code -> the first close in these units, then the change from the last known one; None on a day without a bar.
    """
    steps = records.steps
    scale = max((ticks for ticks, _, _ in records.ledger.scales.values()), default=_CLOSE_SCALE)
    base = market.day_index(steps[0].decided_on)
    first, last = max(0, base - _CLOSES_BEFORE), min(len(market.days), base + 1 + len(steps) + _CLOSES_AFTER)
    codes = {order.code for step in steps for order in step.orders if order.code is not None}
    codes |= {position.code for step in steps for position in step.positions}
    closes: dict[str, JsonValue] = {}
    for code in sorted(codes.union(judged) & market.asset_index.keys()):
        column = market.asset_index[code]
        values = market.adjusted_close[first:last, column] / market.factor[last - 1, column]
        changes: list[JsonValue] = []
        known = 0
        for value in values.tolist():
            now = None if value != value else round(value * scale)  # NaN: no bar
            changes.append(None if now is None else now - known)
            known = known if now is None else now
        closes[code] = changes
    days: list[JsonValue] = [str(day) for day in market.days[first:last]]
    return {"days": days, "start": base - first, "scale": scale, "closes": closes}


@dataclass(frozen=True)
class Names:
    """Identities behind one episode's handles: which code, day and industry the model meant without knowing it."""

    #: handle -> code and company, of every asset; under a mask that shows codes, code -> code and company
    assets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sectors: Mapping[str, str] = field(default_factory=dict)  # handle -> industry; empty where industries are shown
    days: Sequence[str] = ()  # ISO days, the first of which is `day_<first_day>`; empty where dates are shown
    first_day: int = 0
    problem: str = ""  # why there are none, in a sentence; empty when there are


def find_names(records: EpisodeRecords, plugins: Plugins, market: MarketSnapshot) -> Names:
    """Return the names of one episode, through the lens that its task gave it.

    They are believed only where the ledger agrees: each order of a recorded submission must name the asset that was traded for it.
    """
    spec = records.spec
    try:
        lens = plugins.make_task(spec.task).scene(spec, market).lens
        start, _ = window_rows(market.days, spec.span.first, spec.span.last)
    except KtdevalError as error:
        return Names(problem=f"The handles can't be resolved: {error}")
    lens.render([AssetRef(column) for column in range(len(market.codes))])  # all are understood from here
    base = start - 1
    for number, (step, talk) in enumerate(zip(records.steps, records.talks, strict=True)):
        lens.move_to(base + number)
        if _contradicts(lens, market, step, talk):
            return Names(problem="The installed task gives other handles than the one that ran, so true names are left out.")
    assets: dict[str, tuple[str, str]] = {}
    for row in (base + max(len(records.steps) - 1, 0), base):  # codes may change on the way
        lens.move_to(row)
        assets |= {lens.asset_handle(column): market.called(column, row) for column in range(len(market.codes))}
    sectors = {lens.sector_handle(industry): industry for industry in sorted(set(market.industries))}
    first, last = max(0, base - _NAMES_BEFORE), min(len(market.days), base + len(records.steps) + _NAMES_AFTER)
    days = [str(day) for day in market.days[first:last]] if lens.hides_dates else []
    return Names(assets, sectors if lens.hides_assets else {}, days, first - base)


def _contradicts(lens: Lens, market: MarketSnapshot, step: StepRecord, talk: TranscriptEntry) -> bool:
    """Return whether an order of the ledger is in another asset than the handle of its submission means."""
    for handle, order in zip(submitted_handles(talk, len(step.orders)), step.orders, strict=False):
        asset = lens.parse_asset(handle)
        if order.code is not None and (asset is None or market.codes[asset] != order.code):
            return True
    return False


_LETTERS = {"Bullish": "+", "Bearish": "-", "Neutral": "0", None: "x"}
_NOT_ASKED = "."


def stock_paths(records: EpisodeRecords, names: Names) -> dict[str, JsonValue]:
    """Return positions and signals through an episode by code, or by label where the true name behind it is not known.

    `weights`: code -> [steps] shares of the NAV at the close of the fill day, of what was held. `analysts`: roles that were asked
    for signals. `signals`: code -> for each analyst a text of [steps] letters: + Bullish, - Bearish, 0 Neutral, x none that can be
    read, . not asked, or not shown the asset.
    """
    steps = records.steps
    weights: dict[str, list[float]] = {}
    for number, step in enumerate(steps):
        for position in step.positions if step.nav_minor > 0 else ():
            weights.setdefault(position.code, [0.0] * len(steps))[number] = round(position.value_minor / step.nav_minor, 4)
    readings = [step_signals(talk) for talk in records.talks]
    analysts = list(dict.fromkeys(analyst for reading in readings for analyst in reading.answers))
    signals: dict[str, list[list[str]]] = {}
    for number, reading in enumerate(readings):
        for label in reading.held if reading.answers else ():
            code = names.assets.get(label, (label, ""))[0]
            rows = signals.setdefault(code, [[_NOT_ASKED] * len(steps) for _ in analysts])
            for analyst, signal_of in reading.answers.items():
                rows[analysts.index(analyst)][number] = _LETTERS[signal_of.get(label)]
    texts = {code: ["".join(row) for row in rows] for code, rows in signals.items()}
    return {"weights": {**weights}, "analysts": [*analysts], "signals": {**texts}}
