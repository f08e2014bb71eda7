"""The config of a probe task: what a variant in the task file may say, validated."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.contracts import Mask, TaskConfig
from ktdeval.errors import ConfigError
from ktdeval.fields import option
from ktdeval.harness import HarnessConfig

MODE = "deanon_probe"


@dataclass(frozen=True, kw_only=True)
class DeanonConfig(TaskConfig):
    """One variant of the probes."""

    mask: Mask = option(help="the mask under attack; that of the subject")
    subject: str = option(help="the trading task whose scene and research tools the attacker sees the answers of")
    screen_factors: tuple[str, ...] = option(help="what the shown screen is ranked by")
    probes_per_window: int = option(40, help="probes drawn from each window", minimum=1, maximum=10_000)
    max_probes_per_stock: int = option(1, help="most probes of one window that ask about one stock", minimum=1)
    lookback: int = option(60, help="trading days of bars that a payload shows", minimum=1)
    harness: HarnessConfig = option(HarnessConfig(), help="budgets of a sample; of these, only schema_retries counts")

    def check(self, where: str) -> None:
        """Raise ConfigError if values do not go together."""
        super().check(where)
        if not self.screen_factors:
            raise ConfigError(f"{where}: screen_factors: name at least one factor")
