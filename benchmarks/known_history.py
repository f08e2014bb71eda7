"""A market's whole history, as figures that a task shows and as what can be traded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ktdeval.attribution import filled_forward
from ktdeval.attribution.style_factor_panel import FACTOR_NAMES, factor_panel
from ktdeval.market import DAILY_LIMIT_PCT
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import TradingConfig
from ktdeval_deanon.certificate.public_history import PublicHistory

PERCENT = ("MOM_12_1", "RV_60", "REV_ON", "MOM_ID", "HIGH_52W")  # shown in per cent
MEASURES = (
    "return_1d_pct",
    "return_5d_pct",
    "return_20d_pct",
    "drawdown_60d_pct",
    "amount_20d_cny",
)
DIMS = (*FACTOR_NAMES, *MEASURES)
CLOSES = ("close_cny", "last_close_cny")
BUFFER_PCT = 0.5  #: short of the daily limit, where a stock counts as at it


class KnownHistory:
    """A market's whole history, as figures that a task shows."""

    def __init__(self, market: MarketSnapshot) -> None:
        self.market = market
        self._public = PublicHistory(market)
        self._tapes: dict[TradingConfig, MarketTape] = {}

    @cached_property
    def _factors(self) -> Mapping[str, np.ndarray]:
        panel = factor_panel(self.market, range(len(self.market.days)))
        scale = {name: 100.0 if name in PERCENT else 1.0 for name in FACTOR_NAMES}
        return {name: panel[k] * scale[name] for k, name in enumerate(FACTOR_NAMES)}

    @cached_property
    def last_closes(self) -> np.ndarray:
        """[T, N] last closes in the share terms of each day."""
        filled: np.ndarray = filled_forward(self.market.close * self.market.factor)
        return filled / self.market.factor

    def figure(self, name: str) -> np.ndarray | None:
        """[T, N] values of a column of a table; None for one that is not known."""
        if name in FACTOR_NAMES:
            return self._factors[name]
        if name == "amount_cny":
            return self.market.amount
        if name in CLOSES:
            return self.last_closes
        if name.startswith(("return_", "drawdown_", "amount_")):
            return self._public.figure(name)
        return None

    @cached_property
    def index_returns_pct(self) -> np.ndarray:
        """[T, 1] daily returns of the benchmark in per cent."""
        levels = self.market.benchmark
        returns = np.full((len(levels), 1), np.nan)
        returns[1:, 0] = 100.0 * (levels[1:] / levels[:-1] - 1.0)
        return returns

    def tape(self, trading: TradingConfig) -> MarketTape:
        """What can be traded, under a task's rules."""
        if trading not in self._tapes:
            self._tapes[trading] = MarketTape.from_snapshot(self.market, trading)
        return self._tapes[trading]

    @cached_property
    def _limits_pct(self) -> np.ndarray:
        return np.array([DAILY_LIMIT_PCT[board] for board in self.market.boards]) - BUFFER_PCT

    def screened(self, row: int) -> np.ndarray:
        """[N] whether a screen at a day's close ranks a stock: a member that trades and is not at
        its upper limit.
        """
        market = self.market
        trades = np.isfinite(market.close[row]) & (market.volume[row] > 0)
        change = self._public.figure("return_1d_pct")
        assert change is not None
        is_up = np.nan_to_num(change[row]) >= self._limits_pct
        found: np.ndarray = market.member[row] & trades & ~is_up
        return found


def log_likelihood(values: np.ndarray, shown: float, spread: float, worst: float) -> np.ndarray:
    """That a figure of these values is shown so, up to a constant; at least `-worst`."""
    distance = np.nan_to_num((values - shown) / spread, nan=1e3, posinf=1e3, neginf=-1e3)
    return np.maximum(-0.5 * distance**2, -worst)
