"""Gymnasium wrappers that hide identities by applying the masks of tasks to an environment's `info`
and text.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from ktdeval.market import window_rows
from ktdeval.masking import AssetRef, DayRef, Lens, MaskConfig, MaskKind, Price
from ktdeval.task_api import Window
from ktdeval_gym.single_asset_env import Info, TradingEnv, render_info


class Masked(gymnasium.Wrapper[Any, Any, Any, Any]):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """A `TradingEnv` whose `info` and text show asset, day and close through a mask.

    The observations are scaled returns and a side, which identify nothing, so they are unchanged.
    With `rebase_prices`, the close on the day before the episode is shown as 100. `seed` determines
    the handles.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        kind: MaskKind = "blinded",
        seed: int = 0,
        rebase_prices: bool = False,
    ) -> None:
        """Raises TypeError if the environment is not a `TradingEnv`. Other environments apply their
        task's mask themselves.
        """
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, TradingEnv):
            raise TypeError(
                "Masked wraps ktdeval/Trading-v0 of one asset; for other environments choose a task"
                " with the mask, such as blinded_fixed_candidate"
            )

        self._simulation = inner.simulation
        self._mask = MaskConfig(kind, rebase_prices=rebase_prices)
        self._seed = seed
        facts = self._simulation.facts
        self._span = Window("span", facts["first"], facts["last"])
        self._lens = self._new_lens()

    def _new_lens(self) -> Lens:
        snapshot = self._simulation.market.snapshot
        first = window_rows(snapshot.days, self._span.first, self._span.last)[0] - 1
        return Lens(self._mask, self._seed, snapshot, first)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Restart. Nothing from earlier episodes is shown."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._lens = self._new_lens()
        return observation, self._mask_info(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Settle one decision."""
        observation, reward, is_ruined, is_last, info = self.env.step(action)
        return observation, reward, is_ruined, is_last, self._mask_info(info)

    def render(self) -> Any:
        """Return one line of text through the mask, or None without a render mode."""
        inner = self.env.unwrapped
        assert isinstance(inner, TradingEnv)
        if inner.render_mode is None:
            return None
        return render_info(self._mask_info(inner.info()))

    def _mask_info(self, info: Info) -> Info:
        market = self._simulation.market
        row = self._simulation.row
        self._lens.move_to(row)
        last = int(market.traded[int(market.known[row]) - 1])
        shown = self._lens.render(
            {
                "asset": AssetRef(market.asset),
                "day": DayRef(row),
                "close": Price(market.asset, info["close"], last),
            }
        )
        assert isinstance(shown, dict)
        return {**info, **shown}
