"""Options of a task for any market, named as in task files, and checks that the options are
compatible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.errors import ConfigError
from ktdeval.harness import HoldRule
from ktdeval.market import FILLS_OF_MINUTES, parse_day
from ktdeval.task_api import MaskedConfig
from ktdeval.trading import AccountConfig
from ktdeval.values import near_matches, option
from ktdeval_markets.portfolio import WeightRule
from ktdeval_markets.stance_orders import Answers, StanceConfig


@dataclass(frozen=True, kw_only=True)
class MarketConfig(MaskedConfig):
    """One variant of a task for any market."""

    shown: int = option(
        120,
        help="maximum number of assets in a step's table; if there are more, the most traded ones",
        minimum=1,
    )
    news: int = option(
        0,
        help=(
            "maximum number of documents shown in a step: the newest of each asset in turn, and "
            "of the market as a whole; 0: none"
        ),
        minimum=0,
        maximum=200,
    )
    news_each: int | None = option(
        None,
        help=("maximum number of these per asset, and for the market as a whole; null: no limit"),
        minimum=1,
    )
    news_days: int = option(
        5, help="maximum age of a document shown, in days of the market", minimum=1
    )
    news_characters: int = option(
        2_000,
        help=(
            "maximum length of a document's text, in characters; a longer text is cut in the middle"
        ),
        minimum=120,
        maximum=20_000,
    )
    intraday: int | None = option(
        None, help="maximum number of assets whose last session is shown; null: none", minimum=1
    )
    history: int | None = option(
        None, help="number of last bars shown per asset; null: none", minimum=1, maximum=500
    )
    full_bars: int | None = option(
        None,
        help=(
            "number of the bars shown per asset that have all prices and the volume; older ones "
            "show only the close; null: all"
        ),
        minimum=1,
    )
    assets: tuple[str, ...] = option(
        (), help="codes of the assets shown and traded; none: all members"
    )
    answers: Answers = option(
        "orders",
        help=(
            "form of a submission: orders, or BUY, SELL or HOLD for each asset shown"
            " (`ktdeval.harness.StanceForm`)"
        ),
    )
    hold: HoldRule = option(
        "keep", help="for stances: whether HOLD keeps the position or closes it (flat)"
    )
    sell: Literal["close"] | None = option(
        None,
        help=(
            "for stances: close: SELL of a holding only closes it, and the next SELL opens a "
            "short; null: SELL turns a holding into a short"
        ),
    )
    exit: tuple[int, ...] | None = option(
        None,
        help=(
            "for stances: non-decreasing parts of a position that decisions against it close on "
            "consecutive days; null: the first such decision closes it"
        ),
    )
    weights: WeightRule | None = option(
        None,
        help=(
            "for stances: weights of a portfolio rebuilt at every close "
            "(`ktdeval_markets.portfolio`); null: max_weight each"
        ),
    )
    warm_up: dict[str, str] | None = option(
        None,
        help=(
            "first day of the warm-up before each window; its days are shown, with their "
            "outcomes, to agents that learn"
        ),
    )
    labels: Literal["inverted"] | None = option(
        None,
        help=(
            "labels of a warm-up: inverted shows the opposite of each change, like the public "
            "code of InvestorBench; null: correct ones"
        ),
    )
    prescribes_fills: bool = option(
        False,
        help=(
            "true for a task of a paper that fills orders at the close that was decided on; changes"
            " no result and is no part of the config's hash"
        ),
        is_silent=True,
    )
    trading: AccountConfig = option(
        AccountConfig(), help="account, limits, and overrides of venue rules"
    )

    @property
    def older_closes(self) -> int:
        """Number of the oldest shown bars for which only the close is shown."""
        if self.full_bars is None or self.history is None or self.is_compact:
            return 0
        return max(0, self.history - self.full_bars)

    @property
    def stances(self) -> StanceConfig:
        """The task's options for decisions."""
        return StanceConfig(
            answers=self.answers,
            hold=self.hold,
            sell=self.sell,
            exit=self.exit,
            weights=self.weights,
            max_weight=self.trading.max_weight,
        )

    def check(self, where: str) -> None:
        """Raise ConfigError if values are incompatible."""
        super().check(where)
        self.trading.rules(f"{where}: trading")
        self.stances.check(where)
        self._check_warm_up(where)
        self._check_limit_orders(where)
        if self.trading.fill in FILLS_OF_MINUTES and self.mask_config.is_coarse:
            raise ConfigError(
                f"{where}: trading.fill {self.trading.fill} and round_digits or noise_pct cannot "
                "be combined: such a fill averages a day's prices, which has no single price to "
                "round or add noise to"
            )
        if self.intraday and self.noise_pct:
            raise ConfigError(
                f"{where}: noise_pct and intraday cannot be combined: daily noise leaves the"
                " intraday shape visible"
            )

    def _check_limit_orders(self, where: str) -> None:
        if not self.trading.limit_orders:
            return

        if self.answers != "orders":
            raise ConfigError(
                f"{where}: trading: limit_orders: only orders have limits, but the task asks for "
                "decisions; set answers: orders, or leave out limit_orders"
            )

    def _check_warm_up(self, where: str) -> None:
        warm_up = self.warm_up or {}
        for name, first in warm_up.items():
            if name not in self.windows:
                raise ConfigError(
                    f"{where}: warm_up: no window {name!r}{near_matches(name, self.windows)}"
                )

            window_first = self.windows[name].first
            first_day = parse_day(first, f"{where}: warm_up.{name}: ", ConfigError)
            if first_day >= parse_day(window_first):
                raise ConfigError(
                    f"{where}: warm_up.{name}: {first} is not before the window, which begins"
                    f" {window_first}"
                )

        if self.labels and not warm_up:
            raise ConfigError(f"{where}: labels: inverted requires a warm-up; set warm_up")
