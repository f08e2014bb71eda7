"""Train a policy with stable-baselines3 in a Gymnasium environment. Importing this needs the extra
`rl`.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import gymnasium
import stable_baselines3
import torch

from ktdeval.values import load_yaml
from ktdeval_gym.policies.policy import PolicyFile
from ktdeval_gym.policies.policy_training import PolicyTraining
from ktdeval_gym.policies.training_options import Algorithm
from ktdeval_gym.rl.policy_env import PolicyEnv


def learn(training: PolicyTraining, algorithm: Algorithm, steps: int, seed: int) -> Any:
    """Train and return a stable-baselines3 model, on rewards divided by the training's scale.

    Training is deterministic: until the process ends, torch computes on one thread and uses only
    deterministic algorithms.
    """
    env = gymnasium.wrappers.TransformReward(
        PolicyEnv(training), lambda reward: reward / training.scale
    )
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    settings = load_yaml(Path(__file__).with_name("algorithms.yaml"))[algorithm]
    learner = getattr(stable_baselines3, algorithm.upper())(
        "MlpPolicy", env, seed=seed, device="cpu", **settings
    )

    return learner.learn(steps)


def policy_file(training: PolicyTraining, learner: Any) -> PolicyFile:
    """Return the contents of a trained model's file."""
    net = learner.policy
    if hasattr(net, "q_net"):  # DQN chooses by Q-values, the other algorithms by the actor's logits
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
        **training.facts,
        steps=learner.num_timesteps,
        seed=learner.seed,
        libraries={name: metadata.version(name) for name in packages},
        weights=tuple(weights),
        biases=tuple(biases),
    )
