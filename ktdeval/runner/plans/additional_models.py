"""Additional models that a run's agent calls by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from ktdeval.calls.costs.context_window import given_context, listed_context, stated_context
from ktdeval.calls.costs.prices import FREE, Price, choose_price
from ktdeval.calls.failures.context_refusals import Context
from ktdeval.cards.fields.knowledge.listed_cutoffs import listed_cutoff
from ktdeval.cards.fields.origin.fact_types import CutoffEntry, NoCutoff
from ktdeval.errors import ConfigError, KtdevalError, UsageError
from ktdeval.harness.chat_messages import Model, RemoteModel, ToolProtocol, as_remote
from ktdeval.harness.traits import agent_traits, model_traits
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.plans.config import RunConfig, split_model
from ktdeval.task_api.episode_spec import FurtherModel
from ktdeval.values.documents.strict_json import JsonValue


@dataclass(frozen=True)
class RunModel:
    """Additional model that a run can call."""

    choice: FurtherModel  #: name and parameters, as in the run's specs
    model: Model
    price: Price | None  #: token price; None if unknown

    @property
    def remote(self) -> RemoteModel | None:
        """The model if it is remote; None if it is local."""
        return as_remote(self.model)

    @property
    def protocol(self) -> ToolProtocol | None:
        """Tool protocol used with the model; None if unknown."""
        # `offered_by` has set the protocol
        return cast("ToolProtocol | None", self.choice.tool_protocol)

    @property
    def cutoff(self) -> CutoffEntry | NoCutoff:
        """Listed end of the model's training data."""
        return listed_cutoff(self.choice.name, self.choice.args)

    def offered_by(self, protocol: ToolProtocol | None) -> RunModel:
        """Return a copy that uses this protocol to offer tools to the model."""
        return replace(self, choice=replace(self.choice, tool_protocol=protocol))


def with_address(config: RunConfig, plugins: Plugins) -> RunConfig:
    """Return the config with `--base-url` added to the model's parameters.

    Raises UsageError if the model does not take an address, or if `--model-args` contains a
    different one.
    """
    if config.base_url is None:
        return config

    spec = plugins.spec("models", plugins.model_spec_name(config.model)[0])
    fields = () if spec.params is None else dataclasses.fields(spec.params)
    if "base_url" not in {field.name for field in fields}:
        raise UsageError(f"--base-url: {config.model} has no server address; omit the option")

    if config.model_args.get("base_url", config.base_url) != config.base_url:
        raise UsageError(
            "--base-url and --model-args base_url=… are two addresses; use only one of them"
        )

    return replace(config, model_args={**config.model_args, "base_url": config.base_url})


def own_model(config: RunConfig, plugins: Plugins) -> Model:
    """Return the model that a config names, with the config's `--base-url`.

    Runs, grid workers, forward-test entrants and estimates all create their model here. Raises
    KtdevalError.
    """
    config = with_address(config, plugins)
    return plugins.make_model(config.model, config.model_args)


def further_models(config: RunConfig, plugins: Plugins) -> tuple[RunModel, ...]:
    """Return the models that a run's agent calls in addition to the run's own model, in the agent's
    order.

    If an additional model has the same remote provider as the run's own model, it also gets the
    run's `--model-args`, including the server address. Raises KtdevalError if a model is unknown or
    has invalid parameters, or if the run would mix local and remote models.
    """
    agent = plugins.make_agent(config.agent, config.agent_args)
    names = agent_traits(agent).further_models
    if not names:
        return ()

    where = f"agent {config.agent}"
    own = own_model(config, plugins)
    found = []
    for name in dict.fromkeys(names):
        if name == config.model:  # refers to the run's own model
            continue

        further = _further_model(name, own, config, plugins)
        if (further.remote is None) != (as_remote(own) is None):
            raise ConfigError(
                f"{where}: {further.choice.name} and {config.model} can't be used in one run: one"
                " is local, the other remote; choose two of the same kind"
            )

        found.append(further)

    return tuple(found)


def _further_model(asked_as: str, own: Model, config: RunConfig, plugins: Plugins) -> RunModel:
    """Return one additional model of a run."""
    if (
        model_traits(own).recorded_settings is not None
    ):  # replays a run, including the replies of its additional models
        choice = FurtherModel(asked_as, config.model, dict(config.model_args))
        return RunModel(choice, own, FREE)

    name, own_args = split_model(asked_as)
    args = {**_shared_args(name, own, config, plugins), **own_args}
    model = plugins.make_model(name, args)
    traits = model_traits(model)
    if traits.recorded_settings is not None:
        raise UsageError(
            f"agent {config.agent}: {name} repeats a recorded run and can only be used as the"
            " run's --model"
        )

    args |= traits.recorded_args
    return RunModel(FurtherModel(asked_as, name, args), model, _model_price(name, model, config))


def _shared_args(
    name: str, own: Model, config: RunConfig, plugins: Plugins
) -> Mapping[str, JsonValue]:
    """Return the parameters of the run's own model if the named model has the same remote provider;
    otherwise, return an empty mapping.
    """
    if as_remote(own) is None:
        return {}
    if plugins.model_spec_name(name)[0] != plugins.model_spec_name(config.model)[0]:
        return {}
    return config.model_args


def _model_price(name: str, model: Model, config: RunConfig) -> Price | None:
    """Return the price of an additional model. `--price` only applies to the run's own model."""
    if model_traits(model).is_free:
        return FREE

    remote = as_remote(model)
    table = None
    address = ""
    if remote is not None:
        table = remote.price_table
        address = remote.endpoint

    price = choose_price(name, {}, config.price_table, table, address=address)
    if price is None and config.max_cost is not None:
        raise ConfigError(
            f"--max-cost: no price is known for {name}; add it to a file for --price-table"
        )

    return price


def choices(models: Sequence[RunModel]) -> tuple[FurtherModel, ...]:
    """Return additional models as specs record them."""
    return tuple(each.choice for each in models)


def offer_protocols(
    models: Sequence[RunModel], protocols: Mapping[str, ToolProtocol]
) -> tuple[RunModel, ...]:
    """Return the additional models, each with its tool protocol if known."""
    return tuple(each.offered_by(protocols.get(each.choice.asked_as)) for each in models)


def known_context(config: RunConfig, model: RemoteModel) -> Context | None:
    """Return the context that the user specified or, failing that, the context that the server
    reports. None if neither is available.
    """
    if config.context_tokens is not None:
        return given_context(config.context_tokens)
    try:
        return stated_context(model)
    except KtdevalError:  # a missing key or package is reported by another check
        return None


def planned_context(config: RunConfig, model: RemoteModel) -> Context | None:
    """Return the known context or, failing that, the listed context. None if neither is available.

    The listed context is used for planning only.
    """
    return known_context(config, model) or listed_context(config.model, model.price_table)
