"""Settings that a run gives to external agents, and a trial start of the agent before the first
model call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ktdeval.harness.external.external_acts import KeptFiles, Outside, goes_on
from ktdeval.harness.traits import agent_traits
from ktdeval.registry.plugin_boundary import call_through
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.data_source import private_paths
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.values.options.config_options import split_local


def outside_of(
    config: RunConfig,
    plugins: Plugins,
    folder: Path,
    files: KeptFiles | None = None,
    check: Callable[[], None] = goes_on,
) -> Outside:
    """Return the settings that a run in `folder` passes to its agent at each step."""
    _, local = split_local(plugins.spec("agents", config.agent).params, config.agent_args)
    named = [config.data, config.data_args, config.registration, config.items, config.cache]
    private = (folder.resolve(), *private_paths(named))
    return Outside(files=files, check=check, private=private, agent_args=local, model=config.model)


def try_agent(
    config: RunConfig, plugins: Plugins, folder: Path, recorded: RunFolder | None
) -> None:
    """Start the agent once as a trial, before any model call that could cost money.

    Does nothing if the run is complete. Raises KtdevalError if the agent can't be started on this
    machine.
    """
    if recorded is not None and all(map(recorded.is_complete, recorded.manifest.specs)):
        return

    agent = plugins.make_agent(config.agent, config.agent_args)
    trial = agent_traits(agent).trial
    if trial is not None:
        where = f"agent {config.agent} of plugin {plugins.owner('agents', config.agent)}: trial()"
        call_through(trial, where, outside_of(config, plugins, folder))


def outside_note(config: RunConfig, plugins: Plugins) -> str:
    """Return a note about an external agent for use in an estimate; empty for other agents."""
    traits = agent_traits(plugins.make_agent(config.agent, config.agent_args))
    if not traits.acts_outside:
        return ""

    known = ""
    if traits.plan_note is not None:
        known = call_through(traits.plan_note, f"agent {config.agent}: plan_note()")
    begin = f"the external agent {config.agent} is not started for an estimate: calls"
    if known:
        return f"{begin} are estimated as for the agent react, with {known}"
    return (
        f"{begin} and tokens are estimated as for the agent react, without its own prompts (a run"
        " with --limit 1 shows them)"
    )
