"""The market at one day's close, as the KTD-Fin tasks query it: status, returns, factors, rankings,
and the rendered text of each.

Nothing here depends on an account, a mask or an episode, so all episodes that reach a day share it
(`MarketView.derive_figures`). The mask fills in identities in the rendered text (`Prepared`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ktdeval.attribution import FACTORS, factor_values, filled_forward, last_known
from ktdeval.market import BoolArray, FloatArray, MarketView, code_version
from ktdeval.masking import AssetRef, DayRef, Payload, Prepared, figure, prepare_payload
from ktdeval.values import group_by_place, places, whole_groups

IntArray = npt.NDArray[np.int64]
T = TypeVar("T")

TICKS_PER_CNY = 10_000
LOOKBACK_DAYS = 60
AMOUNT_DAYS = 20
PPM = 1_000_000

FACTOR_NAMES = tuple(factor.name for factor in FACTORS)
MEASURE_NAMES = (
    "return_1d_pct",
    "return_5d_pct",
    "return_20d_pct",
    "drawdown_60d_pct",
    "amount_20d_cny",
)
DIM_NAMES = (*FACTOR_NAMES, *MEASURE_NAMES)
_RETURN_DAYS = {f"return_{days}d_pct": days for days in (1, 5, 20)}
# Returns and ratios to a price are shown in per cent, because rounding would strip the digits of
# raw daily means.
_PERCENT_FACTORS = frozenset({"MOM_12_1", "RV_60", "REV_ON", "MOM_ID", "HIGH_52W"})
#: Number of latest answers that a day keeps, since episodes of a rule-based agent ask the same
_MAX_RECENT = 12


@dataclass(frozen=True, slots=True)
class LastCloses:
    """Last closes in today's share terms, in CNY per share, [N] each; NaN before the first bar."""

    marks: FloatArray  #: as of today
    previous: FloatArray  #: as of the day before; today's price limits refer to these


class MarketDay:
    """The market at the close of a view's day.

    `limit_ppm`: [N] distance from the previous close at which trading stops, in parts per million.
    `shown`: the same day rounded to a mask's digits (`ShownFigures.as_shown`), from which figures
    and rankings are computed; None to compute them from `view`.
    """

    def __init__(
        self, view: MarketView, limit_ppm: IntArray, shown: MarketView | None = None
    ) -> None:
        self.view = view
        self.limit_ppm = limit_ppm
        self._shown = shown or view
        self._recent: OrderedDict[Hashable, object] = OrderedDict()
        self._found: dict[Hashable, object] = {}
        #: rendered rows of a candidate table, by asset
        self.feature_rows: dict[int, Prepared] = {}

    @property
    def is_exact(self) -> bool:
        """True if figures are computed from the unmasked market."""
        return self._shown is self.view

    # --- trading status and price limits

    @cached_property
    def has_bar(self) -> BoolArray:
        """[N] True where the asset trades on this day."""
        view = self.view
        traded: BoolArray = np.isfinite(view.close[view.day]) & (view.volume[view.day] > 0)
        return traded

    @cached_property
    def closes(self) -> LastCloses:
        """Last closes as of today and as of the day before."""
        version = _code_version()
        return LastCloses(*self.view.load_arrays("ktdfin closes", version, closes_table)["closes"])

    @cached_property
    def close_ticks(self) -> list[int]:
        """[N] last closes in ticks; 0 before the first bar."""
        marks = self.closes.marks
        ticks: list[int] = _ticks(np.where(np.isnan(marks), 0.0, marks)).tolist()
        return ticks

    @cached_property
    def limit_moves(self) -> tuple[BoolArray, BoolArray]:
        """Two [N] arrays: True where the close is too near the upper price limit to buy, and True
        where it is too near the lower limit to sell.
        """
        known = self.has_bar & np.isfinite(self.closes.previous)
        close = _ticks(np.where(known, self.closes.marks, 0.0))
        reference = _ticks(np.where(known, self.closes.previous, 0.0))
        limit = self.limit_ppm

        is_up = known & (close * PPM >= reference * (PPM + limit))
        is_down = known & (close * PPM <= reference * (PPM - limit))
        return is_up, is_down

    @property
    def member(self) -> BoolArray:
        """[N] True where the asset is in the index on this day."""
        member: BoolArray = self.view.member[self.view.day]
        return member

    @cached_property
    def candidates(self) -> BoolArray:
        """[N] True where the asset can be bought now: a member that trades and is not limit-up."""
        is_up, _ = self.limit_moves
        return self.member & self.has_bar & ~is_up

    @cached_property
    def statuses(self) -> list[str]:
        """[N] status at this close: `trading`, `limit_up`, `limit_down`, `suspended` or
        `not_listed`.
        """
        is_up, is_down = self.limit_moves
        found = ["trading"] * len(is_up)
        # If several statuses apply to an asset, the last one wins.
        states = {
            "limit_down": is_down,
            "limit_up": is_up,
            "suspended": ~self.has_bar,
            "not_listed": np.isnan(self.closes.marks),
        }
        for status, holds in states.items():
            for asset in np.flatnonzero(holds).tolist():
                found[asset] = status

        return found

    # --- figures

    @cached_property
    def dims(self) -> Mapping[str, FloatArray]:
        """All figures by which candidates can be ranked and compared: name -> [N], in the units
        shown to models.
        """
        table = self._shown.load_arrays("ktdfin dims", _code_version(), dims_table)["dims"]
        return dict(zip(DIM_NAMES, table, strict=True))

    def show_figure(self, name: str, asset: int) -> Payload:
        """Return one figure of `dims` as a payload; null where undefined."""
        value = figure(self.dims[name][asset])
        if value is None:
            return None

        day = self.view.day
        days = _RETURN_DAYS.get(name)
        if days is not None:
            last = self.view.bar_row(asset, day)
            since = self.view.bar_row(asset, day - days)
            if last is not None and since is not None:
                return AssetRef(asset).change_pct(value, last, since)

        return AssetRef(asset).figure(value, name, day)

    def market_figure(self, value: float) -> Payload:
        """Return a market-wide figure as a payload; null where undefined."""
        number = figure(value)
        if number is None:
            return None
        return DayRef(self.view.day).figure(number)

    # --- rankings

    def rank_groups(
        self, keys: Sequence[FloatArray], pool: BoolArray, most: int | None = None
    ) -> list[Sequence[int]]:
        """Return groups of assets in `pool` ([N]), best first by `keys` ([N] each, most important
        first, larger is better).

        Ties are broken by all factor values, then by the other figures. Assets that are equal in
        all figures form one group, in ascending order. `most`: return only the first whole groups
        with at most this many assets in total.
        """
        assets = np.flatnonzero(pool)
        columns = chain(keys, self.dims.values())
        placed = np.array(places(column[assets] for column in columns), dtype=np.int64)
        if most is None:
            return list(group_by_place(assets.tolist(), placed.tolist()))

        # One more asset is sorted, to see whether the last group is complete.
        best = np.argsort(placed, kind="stable")[: most + 1]
        groups = group_by_place(assets[best].tolist(), placed[best].tolist())
        return list(whole_groups(groups, most))

    # --- shared by episodes

    def once(self, key: Hashable, make: Callable[[MarketDay], T]) -> T:
        """Return `make(self)`, computed once per day. Callers must not modify the result."""
        found = self._found.get(key)
        if found is None:
            found = self._found.setdefault(key, make(self))
        return found  # type: ignore[return-value]  # made by the `make` of this key

    def recent(self, key: Hashable, make: Callable[[MarketDay], T]) -> T:
        """Return `make(self)` as `once` does, but keep only the latest results, since the number of
        a model's queries is unbounded.
        """
        found = self._recent.get(key)
        if found is None:
            found = self._recent.setdefault(key, make(self))
            if len(self._recent) > _MAX_RECENT:
                self._recent.popitem(last=False)
        return found  # type: ignore[return-value]  # made by the `make` of this key

    def answer(self, key: Hashable, make: Callable[[], Payload]) -> Prepared:
        """Return the rendered payload that this day and `key` determine. Only the latest
        are kept.
        """
        return self.recent(("answer", key), lambda _: prepare_payload(make()))


@cache
def _code_version() -> str:
    return code_version(
        __name__, "ktdeval.attribution.style_factors", "ktdeval.market.snapshots.snapshot"
    )


def dims_table(view: MarketView) -> dict[str, FloatArray]:
    """Return the figures of `MarketDay.dims` at the view's close as one [14, N] array."""
    raw = factor_values(view).values
    values: dict[str, FloatArray] = {}
    for name in FACTOR_NAMES:
        scale = 100.0 if name in _PERCENT_FACTORS else 1.0
        values[name] = raw[name] * scale

    closes = _filled_closes(view)
    for name, days in _RETURN_DAYS.items():
        values[name] = _trailing_returns(closes, days) * 100.0

    values["drawdown_60d_pct"] = _drawdown_pct(closes)
    values["amount_20d_cny"] = _mean_amount_cny(view)
    table = np.stack([values[name] for name in DIM_NAMES])
    table.setflags(write=False)  # shared by the episodes of all masks

    return {"dims": table}


def closes_table(view: MarketView) -> dict[str, FloatArray]:
    """Return the arrays of `MarketDay.closes` at the view's close as one [2, N] array."""
    closes = _filled_closes(view)
    factor = view.factor[view.day]
    close = view.close[view.day]
    marks = np.where(np.isnan(close), closes[-1] / factor, close)
    previous = np.full(len(view.codes), np.nan)
    if len(closes) > 1:
        previous = closes[-2] / factor

    table = np.stack([marks, previous])
    table.setflags(write=False)  # shared by the episodes of all masks
    return {"closes": table}


def _filled_closes(view: MarketView) -> FloatArray:
    """Return the [≤ 61, N] adjusted closes, forward-filled; NaN before an asset's first bar."""
    history = view.adjusted_close
    start = max(0, view.day - LOOKBACK_DAYS)
    return filled_forward(history[start:], last_known(history, start))


def _mean_amount_cny(view: MarketView) -> FloatArray:
    """Return the [N] mean amount over those of the last 20 days on which the asset traded; NaN if
    it traded on no day.
    """
    amount = view.amount[-AMOUNT_DAYS:]
    usable = np.isfinite(amount) & (amount > 0)
    count = usable.sum(axis=0)
    total = np.where(usable, amount, 0.0).sum(axis=0)
    with np.errstate(all="ignore"):
        mean: FloatArray = np.where(count > 0, total / count, np.nan)

    return mean


def _trailing_returns(closes: FloatArray, days: int) -> FloatArray:
    """Return the [N] simple close-to-close returns over the last `days` trading days (at most 60);
    NaN where the history is shorter.
    """
    if len(closes) <= days:
        return np.full(closes.shape[1], np.nan)
    change: FloatArray = closes[-1] / closes[-1 - days] - 1.0
    return change


def _drawdown_pct(closes: FloatArray) -> FloatArray:
    """Return the [N] distance of the close from the 60-day high, in per cent."""
    with np.errstate(all="ignore"):
        highest = np.fmax.reduce(closes[-LOOKBACK_DAYS:], axis=0)
        drawdown: FloatArray = (closes[-1] / highest - 1.0) * 100.0

    return drawdown


def _ticks(cny: FloatArray) -> IntArray:
    return np.rint(cny * TICKS_PER_CNY).astype(np.int64)
