"""Whether a registered system can take part in its division: the check that `ktdeval run` makes
before its first step. A key that is drawn for a system that can't run would count as an unused one.
"""

from __future__ import annotations

from dataclasses import replace

from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins
from ktdeval.runner import Registration, RunConfig, check_system, open_snapshot
from ktdeval_board.rules import Division, Rules

_BUILT_IN = "builtin/"
_OF_FILES = ("builtin/script",)  #: built-in models with a parameter that names a file


def check_fits(rules: Rules, division: Division, config: RunConfig, plugins: Plugins) -> str | None:
    """Raise the error with which a run of this system on the division would stop before its first
    step. Return why this was not checked, or None. No model is called.
    """
    market = rules.snapshot_of(division)
    if market is None or not market.data:
        return f"board.yaml does not give the location of market {division.snapshot}"

    try:
        snapshot = open_snapshot(plugins, market.data, market.data_args)
    except KtdevalError as error:
        return f"market {market.name} can't be opened here: {error}"

    windows = config.windows[:1]
    config = replace(
        config, data=market.data, data_args=dict(market.data_args), windows=windows, quiet=True
    )
    check_system(config, plugins, snapshot)
    return None


def misfit_of(rules: Rules, registration: Registration, plugins: Plugins) -> str | None:
    """Return why the division's task refuses the system of a registration; None if it takes it, or
    if that can't be found here. Only built-in models are made, because a parameter of another one
    may name a file or a program of this machine.
    """
    system = registration.system
    if not system.model.startswith(_BUILT_IN) or system.model in _OF_FILES:
        return None

    division = rules.division(registration.division)
    config = RunConfig(
        model=system.model,
        model_args=dict(system.model_args),
        agent=system.agent,
        agent_args=dict(system.agent_args),
        tasks=(division.task,),
        windows=tuple(division.window_names()),
    )
    try:
        check_fits(rules, division, config, plugins)
    except KtdevalError as error:
        return str(error)
    return None
