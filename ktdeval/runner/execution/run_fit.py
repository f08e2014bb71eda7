"""Whether a model can handle the tasks of a run, found before anything is asked or drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ktdeval.calls.failures.context_refusals import Context
from ktdeval.harness.chat_messages import Model, as_remote
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.runner.execution.batched_calls import check_batch_calls
from ktdeval.runner.plans.additional_models import known_context, own_model
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.model_settings import with_model_settings
from ktdeval.runner.plans.plan import choose_tasks, make_plan
from ktdeval.runner.rehearsals.context_check import check_context
from ktdeval.runner.rehearsals.model_task_fit import check_model
from ktdeval.runner.rehearsals.rehearsal import rehearse
from ktdeval.task_api.episode_spec import EpisodeSpec


def check_fit(
    config: RunConfig,
    plugins: Plugins,
    model: Model,
    specs: Sequence[EpisodeSpec],
    factory: Callable[[], EpisodeFactory],
    *,
    asks_server: bool = True,
) -> Context | None:
    """Raise UsageError if the model can't handle a task, or if its context is too small for a task.

    Returns the known context; None for a local model. `asks_server`: whether a model's server may
    be asked for its context.
    """
    rehearsal = rehearse(specs, factory)
    check_model(config.model, model, rehearsal, plugins)
    check_batch_calls(config, rehearsal)
    remote = as_remote(model)
    if remote is None or not (asks_server or config.context_tokens is not None):
        return None

    context = known_context(config, remote)
    if context is not None:
        check_context(context, rehearsal, config.max_output_tokens or 0)

    return context


def check_system(config: RunConfig, plugins: Plugins, snapshot: MarketSnapshot | None) -> None:
    """Raise the error with which a run of this config would stop before its first step, because the
    market or the system does not fit a task. No model and no server is asked.
    """
    config = with_model_settings(config, plugins)
    tasks = choose_tasks(config, plugins)
    plan = make_plan(config, plugins, tasks, snapshot, None)
    model = own_model(config, plugins)

    def factory() -> EpisodeFactory:
        return EpisodeFactory(tasks, plugins, snapshot)

    check_fit(config, plugins, model, plan.specs, factory, asks_server=False)
