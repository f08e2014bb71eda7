"""Parts that vector environments share: spaces and resets."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

Info = dict[str, Any]


class StepwiseVectorEnv(VectorEnv):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """N environments that step together. After an episode ends, the next step restarts it."""

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def _set_spaces(self, number: int, observation: Any, action: Any) -> None:
        """Set the spaces of `number` environments, given the spaces of a single environment."""
        self.num_envs = number
        self.render_mode = None
        self.single_observation_space = observation
        self.single_action_space = action
        self.observation_space = batch_space(observation, number)
        self.action_space = batch_space(action, number)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Restart all environments with cash only. Nothing is random, so `seed` has no effect."""
        if not isinstance(seed, list):
            super().reset(seed=seed, options=options)
        self.begin()
        return self.observations(), self.info()

    def begin(self) -> None:
        """Start all environments with cash only."""
        raise NotImplementedError

    def observations(self) -> Any:
        """Return the current observations, arrays of [N, …]."""
        raise NotImplementedError

    def info(self) -> Info:
        """Return what is known about each account, arrays of [N]."""
        raise NotImplementedError
