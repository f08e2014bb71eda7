"""A KTD-Fin trading task: config in, scenes and tools out."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.contracts import EpisodeSpec, Window, windows_of
from ktdeval.fields import to_mapping
from ktdeval.jsonio import JsonValue
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import Lens, MaskConfig
from ktdeval_ktdfin.config import KtdfinConfig
from ktdeval_ktdfin.scene import KtdfinScene, prompt_hashes
from ktdeval_ktdfin.step import Stage


class KtdfinTask:
    """One variant: a mask, a mode, and the limits of market and harness. Implements `ktdeval.api.Task`.

    Attributes:
        name: what a user types.
        version: of the task family.
        mask, mode: what is hidden and what is shown.
        tools: names of the research tools, in the order offered; none outside open_research.
        harness, trading: the limits.
        metrics: names of the metrics on the card.
        windows, default_windows: evaluation windows.
    """

    def __init__(self, name: str, config: KtdfinConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.mode: str = config.mode
        self.tools = config.tools
        self.harness = config.harness
        self.trading = config.trading
        self.metrics = config.metrics
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self._config = config

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config, and the hashes of the prompts."""
        return {"name": self.name, **to_mapping(self._config), "prompts": prompt_hashes(self._config.mode)}

    def scene(self, spec: EpisodeSpec, snapshot: MarketSnapshot) -> KtdfinScene:
        """Open one episode.

        Raises:
            DataError: the window lies outside the snapshot.
        """
        start, _ = window_rows(snapshot.days, spec.window.first, spec.window.last)
        base_row = start - 1
        config = self._config
        mask = MaskConfig(config.mask, config.rebase_prices, config.round_digits, config.noise_pct)
        lens = Lens(mask, spec.mask_seed, snapshot, base_row)
        return KtdfinScene(self._config, lens, Stage.open(snapshot, lens, base_row, (self.harness, self.trading)))
