"""Complete a run's config with the settings of its model and agent, and expand metric groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ktdeval.errors import UsageError
from ktdeval.harness.call_params import DEFAULT_PARAMS
from ktdeval.harness.traits import agent_traits, model_traits
from ktdeval.registry.metric_groups import metric_names
from ktdeval.registry.plugin_boundary import PIN, call_through
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.plans.additional_models import own_model, with_address
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.plan import choose_tasks


def with_model_settings(config: RunConfig, plugins: Plugins) -> RunConfig:
    """Return the config with the model's own settings applied and metric groups expanded.

    `--base-url` is added to the model's parameters, and the values that pin the model and the agent
    (`recorded_args`) are added to theirs. For an agent's own program, the default temperature and
    reply limit are removed. If the model replays recorded replies, its
    `recorded_settings` replace those options that have their default values. Raises UsageError.
    """
    config = with_address(config, plugins)
    traits = model_traits(own_model(config, plugins))
    metrics = metric_names(plugins, config.metrics)
    arguments = {**config.model_args, **traits.recorded_args}
    config = replace(config, metrics=metrics, model_args=arguments)
    config = _with_agent_pins(config, plugins)
    if traits.recorded_settings is None:
        return config

    where = f"model {config.model}: recorded_settings()"
    tasks = tuple(choose_tasks(config, plugins))
    recorded = call_through(traits.recorded_settings, where, tasks)
    defaults = RunConfig(model=config.model, tasks=config.tasks)
    changes = {}
    for name, value in recorded.items():
        if getattr(config, name) == getattr(defaults, name):
            changes[name] = value

    return replace(config, **changes)


def _with_agent_pins(config: RunConfig, plugins: Plugins) -> RunConfig:
    """Return the config with the values that pin the agent (its `recorded_args`) added to
    `agent_args`.
    """
    traits = agent_traits(plugins.make_agent(config.agent, config.agent_args))
    pins = traits.recorded_args
    is_plain = plugins.spec("agents", config.agent).params is None
    if is_plain and config.agent_args.keys() - pins.keys():
        raise UsageError(f"agent {config.agent} takes no arguments, was given {PIN}; omit it")
    if traits.acts_outside:
        config = _without_call_defaults(config)
    return replace(config, agent_args={**config.agent_args, **pins})


def _without_call_defaults(config: RunConfig) -> RunConfig:
    """Return the config of an agent's own program: what neither the program nor the user names is
    not sent, so that the provider chooses it.
    """
    changes: dict[str, Any] = {}
    for name in ("temperature", "max_output_tokens"):
        if getattr(config, name) == getattr(DEFAULT_PARAMS, name):
            changes[name] = None

    return replace(config, **changes)
