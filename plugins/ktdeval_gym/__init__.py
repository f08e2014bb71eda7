"""Training environments: ktdeval's tasks for Gymnasium and OpenEnv, and policies trained in them.
`import ktdeval_gym.envs` registers the environments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later, maker

if TYPE_CHECKING:
    from collections.abc import Sequence


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Return the commands that train policies and serve environments."""
    return [
        Spec(
            "train rl",
            later("ktdeval_gym.rl.command:rl"),
            "Train a policy by reinforcement learning, for the model rl/policy.",
            groups=("train",),
        ),
        Spec(
            "train openenv",
            later("ktdeval_gym.servers.openenv_command:openenv"),
            "Serve a task as an OpenEnv environment, or write the folder of one.",
            groups=("train",),
        ),
    ]


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    """Return the models that act with a trained policy or replay recorded actions."""
    from ktdeval_gym.policies.params import ActionsParams, PolicyParams

    return [
        Spec(
            "rl/policy",
            maker("ktdeval_gym.policies.policy:PolicyModel"),
            "Decides by a policy that was trained",
            PolicyParams,
            remote=False,
        ),
        Spec(
            "gym/actions",
            maker("ktdeval_gym.action_submissions:ActionsModel"),
            "Submits the actions of an environment's episode",
            ActionsParams,
            remote=False,
            decider="file",
        ),
    ]
