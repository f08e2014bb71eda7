"""A market's public history in the form that payloads show: everything that a perfect memory could
look up.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.errors import DataError
from ktdeval.market import BoolArray, FloatArray, MarketSnapshot
from ktdeval.masking import Lens, MaskConfig

SingleArray = npt.NDArray[np.float32]

PARTS = ("open", "high", "low", "close")
#: Integer figures in the market breadth
COUNTS = ("members", "advancing", "declining", "suspended")

_REBASED_TO = 100.0
_RETURN = re.compile(r"return_([1-9][0-9]{0,3})d_pct")
_DRAWDOWN = re.compile(r"drawdown_([1-9][0-9]{0,3})d_pct")
_VOLATILITY = re.compile(r"volatility_([1-9][0-9]{0,3})d_pct")
_AMOUNT = re.compile(r"amount_([1-9][0-9]{0,3})d_cny")
_DAYS_PER_YEAR = 252.0
#: positions in the history at which rounding errors are sampled, as fractions of its length
_SAMPLED = (0.3, 0.6, 0.9)
_SAMPLED_DAYS = 10


class PublicHistory:
    """Every asset and day of a snapshot, arranged for comparison with what a payload shows.

    Arrays are [T, N] in single precision, NaN where missing. `factors`: name -> [T, N] factor
    values at each close, in the units that payloads show. Factors without an entry are not
    compared; returns, drawdowns and mean amounts are computed here. Raises DataError if a factor's
    shape differs from the market's.
    """

    def __init__(
        self, market: MarketSnapshot, factors: Mapping[str, FloatArray] | None = None
    ) -> None:
        shape = (len(market.days), len(market.codes))
        for name, values in (factors or {}).items():
            if values.shape != shape:
                raise DataError(f"factor {name} has shape {values.shape}, the market {shape}")

        self.market = market
        self.days: tuple[str, ...] = tuple(np.datetime_as_string(market.days, unit="D").tolist())
        self.rows = {day: row for row, day in enumerate(self.days)}
        self.boards = np.array([str(board) for board in market.boards])
        self.industries = np.array(market.industries)
        self._closes: FloatArray = pd.DataFrame(market.adjusted_close).ffill().to_numpy()
        self._figures: dict[str, SingleArray | None] = {
            name: single(values) for name, values in (factors or {}).items()
        }
        self._index_figures: dict[tuple[int, str], SingleArray | None] = {}
        self._under: dict[tuple[str, MaskConfig], tuple[SingleArray | None, float]] = {}

    @cached_property
    def has_bar(self) -> BoolArray:
        """True where the asset has a bar."""
        return np.isfinite(self.market.close)

    @cached_property
    def is_listed(self) -> BoolArray:
        """True from an asset's first bar onwards."""
        return np.isfinite(self._closes)

    @cached_property
    def log_prices(self) -> Mapping[str, SingleArray]:
        """Natural logarithm of the open, high, low and close, in CNY per share as traded."""
        return {part: single(_log(getattr(self.market, part))) for part in PARTS}

    @cached_property
    def log_base(self) -> SingleArray:
        """Natural logarithm of the `rebase_prices` divisor for each possible day_+0. The divisor is
        the last close (or else the next one) divided by 100.
        """
        closes = pd.DataFrame(self.market.close).ffill().bfill().to_numpy()
        return single(_log(closes / _REBASED_TO))

    @cached_property
    def minus_log_base(self) -> SingleArray:
        """Return `-log_base`, for volumes, which are rescaled inversely to prices."""
        return -self.log_base

    @cached_property
    def log_volume(self) -> SingleArray:
        """Natural logarithm of the volume in shares."""
        return single(_log(self.market.volume))

    @cached_property
    def log_amount(self) -> SingleArray:
        """Natural logarithm of the turnover in CNY."""
        return single(_log(self.market.amount))

    @cached_property
    def absence(self) -> SingleArray:
        """[T, N] 1 where the asset has no bar, 0 where it has one."""
        return (~self.has_bar).astype(np.float32)

    def figure(self, name: str) -> SingleArray | None:
        """Return a figure for every asset and day; None for an unknown name."""
        if name not in self._figures:
            values = _moves(self._closes, name)
            amount = _AMOUNT.fullmatch(name)
            if amount:
                values = _trailing_positive_mean(self.market.amount, int(amount[1]))

            self._figures[name] = None if values is None else single(values)

        return self._figures[name]

    def figure_under(self, name: str, mask: MaskConfig) -> tuple[SingleArray | None, float]:
        """Return a figure as computed from prices, volumes and amounts that a mask has rounded, and
        its root-mean-square difference from the figure shown.

        Rebased prices are rounded on a scale that differs between episodes, so for them the true
        figure is returned.
        """
        if mask.round_digits is None or mask.noise_pct:
            return self.figure(name), 0.0

        key = (name, mask)
        if key not in self._under:
            self._under[key] = self._rounded_figure(name, mask)
        return self._under[key]

    def _rounded_figure(self, name: str, mask: MaskConfig) -> tuple[SingleArray | None, float]:
        true = self.figure(name)
        if true is None:
            return None, 0.0

        last = len(self.days) - 1
        if not mask.rebase_prices or _AMOUNT.fullmatch(name):
            plain = replace(mask, rebase_prices=False)
            return single(self._cell_of(name, plain, last, range(last + 1))), 0.0

        errors = []
        for base in sorted({round(part * last) for part in _SAMPLED}):
            rows = range(base, min(base + _SAMPLED_DAYS, last + 1))
            rounded = self._cell_of(name, mask, base, rows)
            errors.append((rounded - true[rows.start : rows.stop]).ravel())

        found = np.concatenate(errors)
        found = found[np.isfinite(found)]
        return true, float(np.sqrt(np.mean(found**2))) if len(found) else 0.0

    def _cell_of(self, name: str, mask: MaskConfig, base: int, rows: range) -> FloatArray:
        """Return some rows of a figure for an episode that begins at the close of row `base`."""
        view = Lens(mask, 0, self.market, base).figures.as_shown(self.market.as_of(rows[-1]))
        part = slice(rows.start, rows.stop)
        if name in FACTOR_NAMES:
            values: FloatArray = factor_panel(view, rows)[FACTOR_NAMES.index(name)]
            return values * self._unit(name)

        moves = _moves(pd.DataFrame(view.adjusted_close).ffill().to_numpy(), name)
        if moves is None:
            amount = _AMOUNT.fullmatch(name)
            moves = _trailing_positive_mean(view.amount, int(amount[1]) if amount else 1)
        return moves[part]

    def _unit(self, name: str) -> float:
        """Return the unit in which a factor is shown."""
        rows = range(max(0, len(self.days) - _SAMPLED_DAYS), len(self.days))
        raw = factor_panel(self.market, rows)[FACTOR_NAMES.index(name)]
        shown = self.figure(name)
        assert shown is not None  # callers have checked that it exists
        ratios = shown[rows.start :] / np.where(raw == 0.0, np.nan, raw)
        known = ratios[np.isfinite(ratios)]
        return float(np.median(known)) if len(known) else 1.0

    def index_figure(self, index: int, name: str) -> SingleArray | None:
        """Return a [T, 1] index figure; None for an unknown index or name. Index 0 is the
        benchmark; the others follow in the snapshot's order.
        """
        key = (index, name)
        if key not in self._index_figures and index < len(self._index_levels):
            levels = self._index_levels[index][:, None]
            values = _moves(levels, name)
            volatility = _VOLATILITY.fullmatch(name)
            if volatility:
                values = _volatility_pct(levels[:, 0], int(volatility[1]))[:, None]

            self._index_figures[key] = None if values is None else single(values)

        return self._index_figures.get(key)

    def log_index_level(self, index: int) -> SingleArray | None:
        """Return the [T, 1] natural logarithm of an index level; None for an unknown index."""
        levels = self._index_levels
        if index >= len(levels):
            return None
        return single(np.log(levels[index])[:, None])

    @cached_property
    def breadth(self) -> Mapping[str, SingleArray]:
        """[T, 1] counts and sums over the index members, keyed by their names in the market
        context.
        """
        market = self.market
        member = self.market.member
        traded = self.has_bar & (market.volume > 0) & member
        silent = member & ~self.has_bar & self.is_listed
        change = np.where(traded, _change_over(self._closes, 1) * 100.0, np.nan)
        amount = np.where(np.isfinite(market.amount) & member, market.amount, 0.0)
        sums = {"amount_cny": amount.sum(axis=1)}

        # On days when no member traded, the median is NaN, with a warning.
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            sums["median_return_1d_pct"] = np.nanmedian(change, axis=1)
            for name, which in zip(COUNTS, (member, change > 0, change < 0, silent), strict=True):
                sums[name] = which.sum(axis=1)

        return {name: single(values[:, None]) for name, values in sums.items()}

    @cached_property
    def _index_levels(self) -> list[FloatArray]:
        market = self.market
        all_levels = [market.benchmark]
        for code, levels in market.indices.items():
            if code != market.meta.benchmark:
                all_levels.append(levels)

        return all_levels


def _moves(values: FloatArray, name: str) -> FloatArray | None:
    """Return the return or drawdown, in per cent, that a name such as `return_5d_pct` denotes,
    computed from [T, N] prices or levels; None for other names.
    """
    change = _RETURN.fullmatch(name)
    if change:
        return _change_over(values, int(change[1])) * 100.0

    drawdown = _DRAWDOWN.fullmatch(name)
    if drawdown:
        window = pd.DataFrame(values).rolling(int(drawdown[1]), min_periods=1)
        highest: FloatArray = window.max().to_numpy()
        return (values / highest - 1.0) * 100.0

    return None


def _change_over(values: FloatArray, days: int) -> FloatArray:
    return pd.DataFrame(values).pct_change(days, fill_method=None).to_numpy()


def _volatility_pct(levels: FloatArray, days: int) -> FloatArray:
    """Return the annualised [T] standard deviation of daily log returns over `days` days."""
    daily = np.diff(np.log(levels))
    values = np.full(len(levels), np.nan)
    for row in range(len(levels)):
        span = daily[max(0, row - days) : row]
        if len(span) > 1:
            values[row] = np.std(span, ddof=1)

    return values * (math.sqrt(_DAYS_PER_YEAR) * 100.0)


def single(values: npt.NDArray[np.generic]) -> SingleArray:
    """Return values in single precision, with NaN in place of infinite values."""
    return np.where(np.isfinite(values), values, np.nan).astype(np.float32)


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.log(np.where(values > 0, values, np.nan))


def _trailing_positive_mean(values: FloatArray, days: int) -> FloatArray:
    usable = np.isfinite(values) & (values > 0)
    sums = np.cumsum(np.where(usable, values, 0.0), axis=0)
    counts = np.cumsum(usable, axis=0).astype(np.float64)

    for totals in (sums, counts):
        totals[days:] = totals[days:] - totals[:-days]

    with np.errstate(all="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)
