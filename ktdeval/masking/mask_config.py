"""Options of a mask, and the assets that each mask names in a list without figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ktdeval.errors import ConfigError
from ktdeval.market.snapshots.snapshot import BoolArray

MaskKind = Literal["bright", "stock_blind", "date_blind", "blinded"]
MASK_KINDS: tuple[MaskKind, ...] = get_args(MaskKind)
MAX_DIGITS = 6
MAX_NOISE_PCT = 50.0


@dataclass(frozen=True)
class MaskConfig:
    """Mask: what is hidden from the model. Part of every task config, and so of the card."""

    #: bright: all is shown; stock_blind: asset_NNNN; date_blind: day_+N; blinded: both
    kind: MaskKind = "blinded"
    #: show each asset's close of day_+0 (listed later: its first) as 100, volumes to match
    rebase_prices: bool = False
    #: significant digits of shown prices, volumes, amounts, returns, factor values and index
    #: figures; None: as they are
    round_digits: int | None = None
    #: log-normal noise on each asset's shown prices, volumes, amounts, returns and factor values,
    #: in per cent
    noise_pct: float = 0.0

    @property
    def is_coarse(self) -> bool:
        """Return whether market figures are rounded or have noise."""
        return self.round_digits is not None or self.noise_pct > 0.0

    @property
    def leaves_out_whole_market(self) -> bool:
        """Return whether figures for the whole market (indices, breadth, sectors) are omitted. This
        is necessary if days are hidden and other figures are coarse. The market has one such figure
        a day, so even a coarse figure would reveal the day.
        """
        return self.is_coarse and self.hides_dates

    @property
    def hides_dates(self) -> bool:
        """Return whether days are shown as handles."""
        return self.kind in ("date_blind", "blinded")

    def __post_init__(self) -> None:
        if self.round_digits is not None and not 1 <= self.round_digits <= MAX_DIGITS:
            raise ConfigError(
                f"round_digits: expected 1 … {MAX_DIGITS} significant digits or null, was"
                f" {self.round_digits!r}"
            )
        if not 0.0 <= self.noise_pct <= MAX_NOISE_PCT:
            raise ConfigError(
                f"noise_pct: expected 0 … {MAX_NOISE_PCT:g} per cent, was {self.noise_pct!r}"
            )


def listed_assets(order: Sequence[int], member: BoolArray, kind: str, row: int) -> list[int]:
    """Return, in `order`, the assets named by a list without figures, in an episode that begins at
    `row`. These are the members of the universe. `member`: [T, N].

    If days are hidden, the list must not reveal the day. Under `date_blind`, the members' codes
    would reveal it, so the list has every asset of the market, including later members. Under
    `blinded`, the number of members would reveal it. Therefore, other assets fill the list up to
    the largest number of members on any day.
    """
    if kind == "date_blind":
        return list(order)

    inside = member[row].copy()
    if kind == "blinded":
        ever: BoolArray = np.logical_or.reduce(member, axis=0)
        others = [asset for asset in order if ever[asset] and not inside[asset]]
        missing = int(member.sum(axis=1).max() - inside.sum())
        inside[others[:missing]] = True

    return [asset for asset in order if inside[asset]]
