"""Market data around an episode: the benchmark, the days after each order, the closes, positions
and signals of traded assets, and the true names behind a mask.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ktdeval.errors import KtdevalError
from ktdeval.harness import TranscriptEntry, step_signals
from ktdeval.market import FillRule, FloatArray, MarketSnapshot, window_rows
from ktdeval.masking import AssetRef, Lens
from ktdeval.registry import Plugins
from ktdeval.stats import next_return
from ktdeval.trading import Ledger, OrderRecord, StepRecord
from ktdeval.values import JsonValue
from ktdeval_view.episode_records import EpisodeRecords, submitted_handles

_CLOSES_BEFORE, _CLOSES_AFTER = 40, 10
"""Number of days before and after an episode for which closes are shown, to give its first and last
orders some context.
"""

_NAMES_BEFORE, _NAMES_AFTER = 320, 5
"""Number of days before and after a window whose handles a model can have seen: look-back bars
before it, and a fill after its last decision.
"""

#: Units per currency unit in which adjusted closes of A-shares are stored; precise enough for a
#: plot. Other markets use ticks.
_CLOSE_SCALE = 1000


def order_facts(step: StepRecord, market: MarketSnapshot, ledger: Ledger) -> list[JsonValue]:
    """Return the prices around each order of a step, and returns as fractions, adjusted for splits
    and dividends. The entry is None for an order without an asset, and so is any figure that the
    market lacks.

    `to_open`: from the previous close to the open of the fill day.
    `to_close`: from that open to the close of the fill day.
    `to_next_open`: from that open to the open of the next trading day. Outside A-shares, that is
    the next day with a bar, and the figure is None if the venue fills at a close or intraday.
    `right`: whether a buy was followed by a positive return, or a sell by a negative one. The
    return is the one by which calibration judges filled orders (KTD-Fin Appendix G;
    `ktdeval.stats.next_return`).
    """
    row = market.day_index(step.filled_on)
    facts: list[JsonValue] = []
    for order in step.orders:
        code = order.code or ""
        column = market.asset_index.get(code)
        if column is None:
            facts.append(None)
        else:
            facts.append(_price_facts(market, row, column, order, ledger.fill(code)))

    return facts


def _price_facts(
    market: MarketSnapshot, row: int, column: int, order: OrderRecord, fill: FillRule | None
) -> dict[str, JsonValue]:
    opens = market.adjusted_open[:, column]
    closes = market.adjusted_close[:, column]
    is_at_open = fill in (None, "next_open")
    change = next_return(market, row, column, fill)
    digits = 10 if market.instruments else 6

    next_open = None
    later = _next_row(market, row, column)
    if is_at_open and later is not None:
        next_open = _rounded_figure(market.open[later, column], digits)

    right = None
    if order.filled_shares and np.isfinite(change):
        gain = change if order.side == "BUY" else -change
        right = bool(gain > 0)

    return {
        "close_before": _rounded_figure(_last_known(market.close[:row, column]), digits),
        "open": _rounded_figure(market.open[row, column], digits),
        "close": _rounded_figure(market.close[row, column], digits),
        "next_open": next_open,
        "to_open": _rounded_figure(opens[row] / _last_known(closes[:row]) - 1.0),
        "to_close": _rounded_figure(closes[row] / opens[row] - 1.0),
        "to_next_open": _rounded_figure(change) if is_at_open else None,
        "right": right,
    }


def _next_row(market: MarketSnapshot, row: int, column: int) -> int | None:
    """Return the row of the next trading day, or None after the last. Outside A-shares, days on
    which the asset has no bar are skipped.
    """
    opens = market.adjusted_open[row + 1 :, column]
    if not market.instruments:
        return row + 1 if len(opens) else None

    with_bar = np.flatnonzero(np.isfinite(opens))
    if not with_bar.size:
        return None

    return row + 1 + int(with_bar[0])


def _last_known(values: FloatArray) -> float:
    """Return the last known value; NaN if no value is known."""
    known = values[np.isfinite(values)]
    if not len(known):
        return float("nan")

    return float(known[-1])


def _rounded_figure(value: float, digits: int = 6) -> float | None:
    """Return a figure rounded as on a page; None if it is unknown."""
    if not np.isfinite(value):
        return None

    return round(float(value), digits)


def close_series(
    records: EpisodeRecords, market: MarketSnapshot, judged: Collection[str] = ()
) -> dict[str, JsonValue]:
    """Return the closes of every stock that was ordered, held or `judged`, adjusted to the last day
    shown. `judged` contains codes.

    `days`: ISO days. `start`: index of the day of the first decision. `scale`: stored units per
    unit of currency. `closes`: for each code, the first close in stored units, followed by the
    change from the last known close; None on a day without a bar.
    """
    steps = records.steps
    scale = max((ticks for ticks, _, _ in records.ledger.scales.values()), default=_CLOSE_SCALE)
    base = market.day_index(steps[0].decided_on)
    first = max(0, base - _CLOSES_BEFORE)
    last = min(len(market.days), base + 1 + len(steps) + _CLOSES_AFTER)

    codes = set(judged)
    for step in steps:
        codes.update(order.code for order in step.orders if order.code is not None)
        codes.update(position.code for position in step.positions)

    closes: dict[str, JsonValue] = {}
    for code in sorted(codes & market.asset_index.keys()):
        column = market.asset_index[code]
        values = market.adjusted_close[first:last, column] / market.factor[last - 1, column]
        closes[code] = _scaled_changes(values, scale)

    days = [str(day) for day in market.days[first:last]]
    return {"days": days, "start": base - first, "scale": scale, "closes": closes}


def _scaled_changes(values: FloatArray, scale: int) -> list[JsonValue]:
    """Return the first known value in units of `1 / scale`, followed by the change from the last
    known value on each later day. Unknown values are None.
    """
    changes: list[JsonValue] = []
    known = 0
    for value in values.tolist():
        if math.isnan(value):
            changes.append(None)
            continue

        now = round(value * scale)
        changes.append(now - known)
        known = now

    return changes


@dataclass(frozen=True)
class TrueNames:
    """True identities behind an episode's handles: codes, days and industries."""

    #: code and company of every asset, keyed by handle, or by code under a mask that shows codes
    assets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # industries, keyed by handle; empty if the mask shows industries
    sectors: Mapping[str, str] = field(default_factory=dict)
    # ISO days, starting with the day behind the handle `day_<first_day>`; empty if the mask shows
    # dates
    days: Sequence[str] = ()
    first_day: int = 0
    problem: str = ""  # why the names are missing, as a sentence; empty if they are known


def find_names(records: EpisodeRecords, plugins: Plugins, market: MarketSnapshot) -> TrueNames:
    """Return the true names of one episode, from the lens of its task.

    The names are used only if the ledger agrees: each order in a recorded submission must denote
    the asset that was traded.
    """
    spec = records.spec
    try:
        lens = plugins.make_task(spec.task).scene(spec, market).lens
        start, _ = window_rows(market.days, spec.span.first, spec.span.last)
    except KtdevalError as error:
        return TrueNames(problem=f"The handles can't be resolved: {error}")

    # A lens resolves only handles that it has shown, so show all assets first.
    lens.render([AssetRef(column) for column in range(len(market.codes))])
    base = start - 1
    for number, (step, talk) in enumerate(zip(records.steps, records.talks, strict=True)):
        lens.move_to(base + number)
        if _contradicts(lens, market, step, talk):
            return TrueNames(
                problem=(
                    "The installed task gives other handles than the one that ran, so true names"
                    " are left out."
                )
            )

    assets: dict[str, tuple[str, str]] = {}
    last_step = base + max(len(records.steps) - 1, 0)
    # A code may change during the episode. If both rows have a handle, the name at the start is
    # used.
    for row in (last_step, base):
        lens.move_to(row)
        for column in range(len(market.codes)):
            assets[lens.asset_handle(column)] = market.name_asset(column, row)

    sectors = {}
    if lens.hides_assets:
        for industry in sorted(set(market.industries)):
            sectors[lens.sector_handle(industry)] = industry

    days = []
    first = max(0, base - _NAMES_BEFORE)
    if lens.hides_dates:
        last = min(len(market.days), base + len(records.steps) + _NAMES_AFTER)
        days = [str(day) for day in market.days[first:last]]

    return TrueNames(assets, sectors, days, first - base)


def _contradicts(
    lens: Lens, market: MarketSnapshot, step: StepRecord, talk: TranscriptEntry
) -> bool:
    """Return whether an order in the ledger is for a different asset than its handle denotes."""
    for handle, order in zip(submitted_handles(talk, len(step.orders)), step.orders, strict=False):
        asset = lens.parse_asset(handle)
        if order.code is not None and (asset is None or market.codes[asset] != order.code):
            return True
    return False


_LETTERS = {"Bullish": "+", "Bearish": "-", "Neutral": "0", None: "x"}
_NOT_ASKED = "."


@dataclass(frozen=True)
class StockPaths:
    """Positions and signals over an episode, keyed by code, or by label if the true name is
    unknown.
    """

    #: [steps] weights in the NAV at the close of each fill day, keyed by code
    weights: Mapping[str, Sequence[float]]
    #: roles that were asked for signals
    analysts: Sequence[str]
    #: for each code, one text of [steps] letters per analyst: `+` Bullish, `-` Bearish, `0`
    #: Neutral, `x` a signal that can't be read, `.` not asked or not shown the asset
    signals: Mapping[str, Sequence[str]]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the paths in the format of the page's scripts."""
        return {
            "weights": self.weights,
            "analysts": self.analysts,
            "signals": self.signals,
        }


def stock_paths(records: EpisodeRecords, names: TrueNames) -> StockPaths:
    """Return the positions and signals for every stock of an episode."""
    readings = [step_signals(talk) for talk in records.talks]
    asked: dict[str, None] = {}
    for reading in readings:
        asked |= dict.fromkeys(reading.answers)

    analysts = list(asked)
    steps = len(records.steps)
    signals: dict[str, list[list[str]]] = {}
    for number, reading in enumerate(readings):
        if not reading.answers:
            continue

        for label in reading.held:
            code, _ = names.assets.get(label, (label, ""))
            if code not in signals:
                signals[code] = [[_NOT_ASKED] * steps for _ in analysts]
            for analyst, signal_of in reading.answers.items():
                letter = _LETTERS[signal_of.get(label)]
                signals[code][analysts.index(analyst)][number] = letter

    texts = {}
    for code, letters_by_analyst in signals.items():
        texts[code] = ["".join(letters) for letters in letters_by_analyst]

    return StockPaths(_stock_weights(records.steps), analysts, texts)


def _stock_weights(steps: Sequence[StepRecord]) -> dict[str, list[float]]:
    """Return the [steps] weight in the NAV of each stock that was held; 0 if the NAV is not
    positive.
    """
    weights: dict[str, list[float]] = {}
    for number, step in enumerate(steps):
        if step.nav_minor <= 0:
            continue

        for code, weight in step.weights.items():
            path = weights.setdefault(code, [0.0] * len(steps))
            path[number] = round(weight, 4)

    return weights
