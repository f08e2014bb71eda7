"""Options of a task on any market, named as in task files, and which of them are compatible."""

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
    """One variant of a task on any market."""

    shown: int = option(
        120,
        help="most assets in the table of a step; the most traded ones where there are more",
        minimum=1,
    )
    news: int = option(
        0,
        help=(
            "most documents shown in a step: each asset's newest ones in turn, and those of the"
            " market as a whole; 0: none"
        ),
        minimum=0,
        maximum=200,
    )
    news_each: int | None = option(
        None,
        help=(
            "most of these that are chosen for one asset, and for the market as a whole; null: as"
            " many as there is room for"
        ),
        minimum=1,
    )
    news_days: int = option(
        5, help="days of the market that a document shown may be old", minimum=1
    )
    news_characters: int = option(
        2_000,
        help="maximum length of a document's text, in characters; a longer text is cut in the middle",
        minimum=120,
        maximum=20_000,
    )
    intraday: int | None = option(
        None, help="most assets whose last session is shown; null: none", minimum=1
    )
    history: int | None = option(
        None, help="last bars shown of each asset; null: none", minimum=1, maximum=500
    )
    full_bars: int | None = option(
        None,
        help="of the bars shown, how many of each asset have all prices and the volume, the older"
        " ones a close alone; null: all",
        minimum=1,
    )
    assets: tuple[str, ...] = option(
        (), help="codes of the only assets shown and traded; none: all members"
    )
    answers: Answers = option(
        "orders",
        help=(
            "what is submitted: orders, or BUY, SELL or HOLD for each asset shown"
            " (`ktdeval.harness.StanceForm`)"
        ),
    )
    hold: HoldRule = option("keep", help="of stances: HOLD keeps the position, or closes it (flat)")
    sell: Literal["close"] | None = option(
        None,
        help=(
            "of stances: close: SELL of a holding only closes it, and the next one sells short;"
            " null: it turns it into a short"
        ),
    )
    exit: tuple[int, ...] | None = option(
        None,
        help=(
            "of stances: parts, none smaller than the one before, that decisions against a position"
            " on days in a row close of it; null: the first one ends it"
        ),
    )
    weights: WeightRule | None = option(
        None,
        help=(
            "of stances: weights of a portfolio rebuilt at every close"
            " (`ktdeval_markets.portfolio`); null: max_weight each"
        ),
    )
    warm_up: dict[str, str] | None = option(
        None,
        help=(
            "by window: first day of a warm-up before it, whose days are shown with what came after"
            " them to agents that learn"
        ),
    )
    labels: Literal["inverted"] | None = option(
        None,
        help=(
            "of a warm-up: inverted shows the opposite of each change, as the public code of"
            " InvestorBench does; null: right ones"
        ),
    )
    trading: AccountConfig = option(
        AccountConfig(), help="account, limits, and what replaces rules of the venues"
    )

    @property
    def older_closes(self) -> int:
        """Number of the oldest shown bars for which only the close is shown."""
        if self.full_bars is None or self.history is None or self.is_compact:
            return 0
        return max(0, self.history - self.full_bars)

    @property
    def stances(self) -> StanceConfig:
        """Options on decisions."""
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
                f"{where}: trading.fill {self.trading.fill} and round_digits or noise_pct cannot be"
                " combined: a mean of a day's prices has no price that they could be applied to"
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
                f"{where}: trading: limit_orders: a limit belongs to an order, and the task asks for"
                " decisions; set answers: orders, or leave limit_orders out"
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
            raise ConfigError(
                f"{where}: labels: inverted applies to a warm-up, and there is none; set warm_up"
            )
