"""The market knowledge of `builtin/memory`: a share of the market's facts, fixed by a seed, with
noise.

A fact is the growth of a name from the close of a day over the next `horizon` sessions of the
name's exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ktdeval.market import FloatArray, MarketSnapshot, session_groups
from ktdeval.values import derive_seed
from ktdeval_models.params import MemoryParams

INDEX = "the index"
"""Name under which the market as a whole appears among the facts. Codes contain no spaces."""
_BITS = 53  # bits in the mantissa of a double

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.intp]


class RememberedFacts:
    """The facts about a market that a model remembers, one for each name and day.

    A fact is remembered if the uniform draw for that fact is below `recall`, so a larger share
    contains every smaller share.
    """

    def __init__(self, market: MarketSnapshot, params: MemoryParams) -> None:
        self.market = market
        self._params = params
        self._days = market.days.astype(str)
        self._drawn: dict[str, BoolArray] = {}

    @cached_property
    def adjusted(self) -> FloatArray:
        """Adjusted closes, [days, assets]; a day without a bar repeats the previous close."""
        closes = self.market.adjusted_close
        rows = np.where(np.isnan(closes), 0, np.arange(len(closes))[:, np.newaxis])
        return np.take_along_axis(closes, np.maximum.accumulate(rows, axis=0), axis=0)

    @cached_property
    def last_row(self) -> int:
        """Row of the last day with known prices; -1 if no prices are known."""
        until = self._params.until
        if until is None:
            return len(self._days) - 1
        return int(np.searchsorted(self._days, until, side="right")) - 1

    @cached_property
    def _ends(self) -> IntArray:
        """Row on which the growth of each fact ends, [days, assets]."""
        days = len(self._days)
        rows = np.arange(days)
        ends = np.zeros(self.market.close.shape, dtype=np.intp)
        for group in session_groups(self.market):
            sessions = rows[group.rows]
            if len(sessions):
                past = group.sessions_before(range(1, days + 1))
                later = np.minimum(past - 1 + self._params.horizon, len(sessions) - 1)
                ends[:, group.columns] = np.minimum(sessions[later], self.last_row)[:, None]

        return ends

    def row_of(self, day: str) -> int | None:
        """Return the row of a real day; None for a masked day."""
        rows = np.flatnonzero(self._days == day)
        return int(rows[0]) if rows.size else None

    def reach(self, row: int) -> bool:
        """Return whether any fact for a day can be known."""
        return self._params.until is None or row < self.last_row

    def is_remembered(self, name: str) -> BoolArray:
        """Return for each day whether the fact is remembered, [days]. `name` is a code or `INDEX`."""
        known = self._drawn.get(name)
        if known is None:
            if self._params.recall >= 1.0:
                known = np.ones(len(self._days), dtype=bool)
            else:
                draws = [self._uniform("recall", name, day) for day in self._days]
                known = np.array(draws) < self._params.recall

            self._drawn[name] = known

        return known

    def on_day(self, assets: IntArray, row: int) -> tuple[FloatArray, BoolArray]:
        """Return each asset's growth from a day on, with noise, and whether that growth is
        remembered, both [assets]. Growth is 1 for an unchanged price, and NaN without a price.
        """
        growth = self._growth(row, assets)
        names = [self.market.codes[asset] for asset in assets]
        known = np.array([self.is_remembered(name)[row] for name in names], dtype=bool)

        return growth + self._errors(names, row), known

    def over_all_days(self, assets: IntArray) -> tuple[FloatArray, BoolArray]:
        """Return each asset's growth over all remembered days combined, and whether the asset is
        remembered, both [assets]. This is what the model knows about a code if no day is shown. An
        asset without remembered days is not remembered.
        """
        rows = slice(0, self.last_row)
        growth = self.adjusted[self.last_row, assets] / self.adjusted[0, assets]
        known = np.zeros(len(assets), dtype=bool)
        for place, asset in enumerate(assets):
            remembered = self.is_remembered(self.market.codes[asset])[rows]
            known[place] = remembered.any()
            path = self.adjusted[: self.last_row + 1, asset]
            daily = path[1:] / path[:-1]
            # Without forgotten days the product is 1, so a full memory is exact.
            growth[place] /= np.prod(daily[~remembered])

        if self._params.noise:
            names = [self.market.codes[asset] for asset in assets]
            spread = float(np.nanstd(growth))
            growth = growth + spread * self._normals("all days", names)

        return growth, known

    def index_rises(self, row: int) -> bool | None:
        """Return whether the index is remembered to rise from a day on; None if that fact is
        forgotten.
        """
        if not self.is_remembered(INDEX)[row]:
            return None

        levels = self.market.benchmark[: self.last_row + 1]
        known = np.flatnonzero(np.isfinite(levels))
        past = int(np.searchsorted(known, row, side="right"))
        if not past:
            return None

        end = min(past - 1 + self._params.horizon, len(known) - 1)
        error = float(self._errors([INDEX], row)[0])
        return bool(levels[known[end]] > levels[known[past - 1]] * (1.0 - error))

    def said_to_rise(self, code: str, row: int) -> bool:
        """Return whether a name's latest remembered fact predicts a rise, among the facts whose
        horizon ends after the day.
        """
        asset = self.market.asset_index[code]
        first = int(np.searchsorted(self._ends[: row + 1, asset], row, side="right"))
        remembered = np.flatnonzero(self.is_remembered(code)[first : row + 1])
        if not remembered.size:
            return False

        growth, _ = self.on_day(np.array([asset]), first + int(remembered[-1]))
        return bool(growth[0] > 1.0)

    def _growth(self, row: int, assets: IntArray) -> FloatArray:
        ends = self._ends[row, assets]
        growth: FloatArray = self.adjusted[ends, assets] / self.adjusted[row, assets]
        return growth

    def _errors(self, names: Sequence[str], row: int) -> FloatArray:
        """Return the noise of each fact on a day, scaled by the dispersion of growth across the
        index members on that day.
        """
        if not self._params.noise:
            return np.zeros(len(names))

        members = np.flatnonzero(self.market.member[row])
        spread = float(np.nanstd(self._growth(row, members)))
        return spread * self._normals(self._days[row], names)

    def error_of(self, name: str, row: int) -> float:
        """Return the noise of one fact, as a relative error."""
        return float(self._errors([name], row)[0])

    def _normals(self, day: str, names: Sequence[str]) -> FloatArray:
        """Return `noise` times a standard normal draw for each name on a day."""
        law = NormalDist()
        draws = [law.inv_cdf(self._uniform("error", name, day)) for name in names]
        return self._params.noise * np.array(draws)

    def _uniform(self, purpose: str, name: str, day: str) -> float:
        """Return a uniform draw strictly between 0 and 1."""
        return uniform_of(self._params.seed, purpose, name, str(day))


def uniform_of(*parts: str | int) -> float:
    """Return the uniform draw for the given parts, strictly between 0 and 1."""
    return (derive_seed(*parts, bits=_BITS - 1) + 0.5) / 2.0 ** (_BITS - 1)
