"""Config of a KTD-Fin task: what a variant in the task file may say, validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.contracts import Mask, TaskConfig
from ktdeval.errors import ConfigError
from ktdeval.fields import option
from ktdeval.trading import TradingConfig

Mode = Literal["memory_only", "fixed_candidate", "open_research"]


@dataclass(frozen=True, kw_only=True)
class KtdfinConfig(TaskConfig):
    """One variant of KTD-Fin."""

    mask: Mask = option(
        help="what the model may not see: codes (stock_blind), dates (date_blind), both (blinded), nothing (bright)"
    )
    mode: Mode = option(help="what the model is shown: labels only, a candidate table, or six research tools")
    metrics: tuple[str, ...] = option(help="metrics on the card, in order")
    tools: tuple[str, ...] = option((), help="research tools by name, in the order offered; open_research only")
    rebase_prices: bool = option(False, help="rescale each asset's prices and share counts by a hidden constant")
    round_digits: int | None = option(
        None, help="significant digits of the figures that are shown; null: as they are", minimum=1, maximum=6
    )
    noise_pct: float = option(
        0.0, help="multiplicative noise on each stock's shown prices and volumes, in per cent", minimum=0.0, maximum=50.0
    )
    trading: TradingConfig = option(TradingConfig(), help="costs, lots and limits")

    def check(self, where: str) -> None:
        """Raise ConfigError if values do not go together."""
        super().check(where)
        if bool(self.tools) != (self.mode == "open_research"):
            raise ConfigError(f"{where}: tools: mode {self.mode} has {'none' if self.tools else 'research tools; name some'}")
