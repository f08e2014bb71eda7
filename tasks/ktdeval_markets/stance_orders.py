"""Decisions in place of orders: what BUY, SELL and HOLD mean for each asset in a task, and checks
that the task's options are compatible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ktdeval.errors import ConfigError
from ktdeval.harness import HoldRule, StanceRule
from ktdeval_markets.portfolio import WeightRule

Answers = Literal["orders", "stances"]


@dataclass(frozen=True)
class StanceConfig:
    """A task's options for decisions. A task file gives each one as a field of the task."""

    answers: Answers  #: whether the task asks for orders or for decisions (`stances`)
    hold: HoldRule  #: meaning of HOLD
    sell: Literal["close"] | None  #: `close`: SELL only closes a holding
    #: relative sizes of the parts in which decisions against a position on consecutive days close
    #: it; None: the first such decision closes all of it
    exit: tuple[int, ...] | None
    #: rule for a portfolio rebuilt at every close; None: `max_weight` each
    weights: WeightRule | None
    max_weight: float  #: maximum weight of one asset, as a fraction of NAV

    @property
    def are_asked_for(self) -> bool:
        """True if the task asks for decisions instead of orders."""
        return self.answers == "stances"

    def rule(self, shorts: bool) -> StanceRule:
        """Return the meaning of decisions in an account that can or can't hold shorts."""
        return StanceRule(
            weight=self.max_weight,
            hold=self.hold,
            shorts=shorts,
            sell_closes=self.sell == "close",
            exit=self.exit or (),
        )

    def check(self, where: str) -> None:
        """Raise ConfigError if options are incompatible."""
        if self.sell and not self.are_asked_for:
            raise ConfigError(
                f"{where}: sell: close applies to decisions, but the task asks for orders; set"
                " answers: stances"
            )

        if self.exit is not None:
            self._check_exit(where, self.exit)

        # The absolute weights of all positions sum to 1, so one position may take the whole sum.
        if self.weights and not (self.are_asked_for and self.max_weight >= 1.0):
            raise ConfigError(
                f"{where}: weights needs decisions without a weight limit; set answers: stances "
                f"and trading.max_weight: 1"
            )

    def _check_exit(self, where: str, parts: Sequence[int]) -> None:
        is_ordered = list(parts) == sorted(parts)
        if len(parts) < 2 or parts[0] < 1 or not is_ordered:
            raise ConfigError(
                f"{where}: exit: expected two or more non-decreasing whole numbers from 1, such "
                f"as [1, 2, 3]"
            )

        keeps_position = self.are_asked_for and self.hold == "keep"
        if not keeps_position or self.sell or self.weights:
            raise ConfigError(
                f"{where}: exit requires answers: stances and hold: keep, without sell or weights"
            )
