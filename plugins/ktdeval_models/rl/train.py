"""Train a policy by stable-baselines3 in a Gymnasium environment. Importing this needs the extra
`rl`.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import stable_baselines3
import torch

from ktdeval.values.yamlio import load_yaml
from ktdeval_models.rl.environment import TradingSimulation
from ktdeval_models.rl.policy import DECISIONS, LIMIT, Algorithm, PolicyFile, Vector


class TradingEnv(gymnasium.Env):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """Gymnasium environment of a `TradingSimulation`. Actions are indices into `DECISIONS`. An
    episode is truncated after the last day, and terminated if the account is ruined.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, simulation: TradingSimulation) -> None:
        self._simulation = simulation
        self.observation_space = gymnasium.spaces.Box(
            -LIMIT, LIMIT, simulation.observation().shape, np.float32
        )
        self.action_space = gymnasium.spaces.Discrete(len(DECISIONS))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin again with cash only."""
        super().reset(seed=seed, options=options)
        return self._simulation.reset(), {}

    def step(self, action: int) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Settle one decision."""
        return *self._simulation.step(int(action)), {}


def learn(simulation: TradingSimulation, algorithm: Algorithm, steps: int, seed: int) -> Any:
    """Train and return a model of stable-baselines3, on rewards divided by the simulation's scale.

    The same arguments give the same model: from here to the end of the process torch computes on
    one thread, with deterministic algorithms only.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    env = gymnasium.wrappers.TransformReward(
        TradingEnv(simulation), lambda reward: reward / simulation.scale
    )
    settings = load_yaml(Path(__file__).with_name("algorithms.yaml"))[algorithm]
    learner = getattr(stable_baselines3, algorithm.upper())(
        "MlpPolicy", env, seed=seed, device="cpu", **settings
    )

    return learner.learn(steps)


def policy_file(simulation: TradingSimulation, learner: Any) -> PolicyFile:
    """Return the content of a trained model's file."""
    net = learner.policy
    if hasattr(net, "q_net"):  # DQN prefers by values, the others by an actor's logits
        parts = [net.q_net]
    else:
        parts = [net.mlp_extractor.policy_net, net.action_net]

    weights = []
    biases = []
    activation: Literal["tanh", "relu"] = "tanh"
    for part in parts:
        for module in part.modules():
            if isinstance(module, torch.nn.ReLU):
                activation = "relu"
            elif isinstance(module, torch.nn.Linear):
                weights.append(tuple(map(tuple, module.weight.tolist())))
                biases.append(tuple(module.bias.tolist()))

    algorithm: Any = type(learner).__name__.lower()
    packages = ("gymnasium", "stable-baselines3", "torch")

    return PolicyFile(
        format="ktdeval-rl-policy/1",
        algorithm=algorithm,
        activation=activation,
        **simulation.facts,
        steps=learner.num_timesteps,
        seed=learner.seed,
        libraries={name: metadata.version(name) for name in packages},
        weights=tuple(weights),
        biases=tuple(biases),
    )
