"""System of a planned run, as fixed by its registration with a leaderboard."""

from __future__ import annotations

from ktdeval.errors import UsageError
from ktdeval.harness import agent_traits, as_remote
from ktdeval.registry import Plugins, call_through
from ktdeval.runner import (
    RegisteredSystem,
    RunConfig,
    call_parameters,
    choose_tasks,
    own_model,
    registered_call,
    with_model_settings,
)
from ktdeval.values import split_local


def registered_system(config: RunConfig, plugins: Plugins) -> RegisteredSystem:
    """Return the system that a config evaluates, with the arguments that pin its model. No model is
    called.

    Raises UsageError if the tool protocol is left open, since it could then be chosen after the
    mask key is known. Raises KtdevalError if the model or the agent can't be created.
    """
    config = with_model_settings(config, plugins)
    choose_tasks(config, plugins)  # raises if the agent does not accept one of its parameters
    protocol = None

    if as_remote(own_model(config, plugins)) is not None:
        if config.tool_protocol == "auto":
            raise UsageError(
                "--tool-protocol: choose native, json_schema or text, because auto would choose it"
                " after the key is drawn (cards of earlier runs with this model name the protocol"
                " that works)"
            )

        protocol = config.tool_protocol

    agent_args, _ = split_local(plugins.spec("agents", config.agent).params, config.agent_args)
    traits = agent_traits(plugins.make_agent(config.agent, config.agent_args))
    if traits.registered_args is not None:
        where = f"agent {config.agent}: registered_args()"
        agent_args |= call_through(traits.registered_args, where)

    return RegisteredSystem(
        model=config.model,
        model_args=dict(config.model_args),
        agent=config.agent,
        agent_args=agent_args,
        call=registered_call(call_parameters(config, protocol)),
    )
