"""Access of a run's episodes to its models: direct for local models, and through a client that
tracks the cost of calls for remote models.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from ktdeval.calls.batches.batch_api import batches_of
from ktdeval.calls.batches.batch_client import BatchClient
from ktdeval.calls.batches.episode_rounds import EpisodeRounds
from ktdeval.calls.client import ClientSettings, ModelClient
from ktdeval.calls.costs.prices import FREE, Price, choose_price
from ktdeval.calls.failures.http_errors import ParameterRefused
from ktdeval.calls.failures.retry import Notify
from ktdeval.calls.records.call_counts import CallCounter
from ktdeval.calls.records.call_log import CallLog
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import NO_EPISODE, CallRecord
from ktdeval.calls.stop_flag import Fence, StopSignal, no_fence
from ktdeval.calls.tool_protocol_probe import choose_protocol
from ktdeval.errors import ConfigError, PluginError, ProviderError, StoreError, UsageError
from ktdeval.harness.call_params import DEFAULT_PARAMS
from ktdeval.harness.chat_messages import (
    CallParams,
    Model,
    ModelRequest,
    RemoteModel,
    Reply,
    ToolProtocol,
    as_remote,
)
from ktdeval.harness.tools.tool_protocols import ProtocolModel
from ktdeval.harness.traits import model_traits
from ktdeval.registry.plugin_boundary import call_foreign, call_through
from ktdeval.runner.models.model_drift import ask_at_end, ask_at_start
from ktdeval.runner.models.timed_model import TimedModel
from ktdeval.runner.plans.additional_models import RunModel, known_context
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.data_source import cache_folder
from ktdeval.runner.records.run_file_names import MANIFEST, REPLIES
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.secrets.redaction import hide_keys, redact_secrets
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.events import BatchProgress, CallDelayed, CallFinished, CheckDelayed, Event
from ktdeval.values.documents.strict_json import dumps_canonical
from ktdeval.values.options.config_options import user_path

_LOG = logging.getLogger(__name__)
_TEMPERATURE = "temperature"
_CANARY, _CHECK = NO_EPISODE  # labels of calls outside episodes


@dataclass(frozen=True, slots=True)
class EpisodeAccess:
    """Access of one episode to its models, until the episode ends or is interrupted."""

    model: Model
    counter: CallCounter  #: counts the episode's calls
    #: additional models, keyed by the name that the agent uses
    further: Mapping[str, Model] = field(default_factory=dict)


class ModelAccess:
    """Access to local models, which episodes call directly."""

    #: tool protocol of the run's own model; None if there is nothing to choose
    protocol: ToolProtocol | None = None
    #: False if the check before the run found that the model takes no temperature
    sends_temperature: bool = True
    #: additional models, each with the protocol by which tools are offered to it
    further: tuple[RunModel, ...] = ()

    def __init__(
        self,
        model: Model,
        max_errors: int | None,
        protocol: ToolProtocol | None = None,
        further: Sequence[RunModel] = (),
    ) -> None:
        self._model = model if protocol is None else ProtocolModel(model)
        self.protocol = protocol
        self.further = tuple(each.offered_by(protocol) for each in further)
        #: number of consecutive steps with a failed call after which the run stops; None for no
        #: limit
        self.max_errors = max_errors
        models = [model, *(each.model for each in further)]
        #: True if a model is a person
        self.asks_person = any(model_traits(each).is_person for each in models)
        #: True if all models are local, free and not a person, so that replays give the same result
        self.is_repeatable = all(map(_is_repeatable, models))

    def config_as_sent(self, config: RunConfig) -> RunConfig:
        """Return the config without the default temperature, if the model turned out to take none."""
        return config if self.sends_temperature else replace(config, temperature=None)

    batches: BatchClient | None = None  #: batch client; None if calls are made individually

    def ask_in_rounds(self, rounds: EpisodeRounds) -> None:
        """Make the calls of running episodes in these rounds, if calls are made in batches."""

    log: CallLog | None = None  #: call log of the run; None if calls are not recorded

    def for_episode(
        self,
        spec: EpisodeSpec,  # noqa: ARG002 - it makes no call that could wait or be paid
        emit: Callable[[Event], None],  # noqa: ARG002 - as above
        fence: Fence = no_fence,  # noqa: ARG002 - as above
    ) -> EpisodeAccess:
        """Return the access of one episode. `fence` is called before each paid call."""
        further: dict[str, Model] = {}
        for each in self.further:
            is_plain = self.protocol is None
            further[each.choice.asked_as] = each.model if is_plain else ProtocolModel(each.model)

        return EpisodeAccess(self._model, CallCounter(), further)

    def redact(self, text: str) -> str:
        """Return `text` with secrets from the environment or the models removed."""
        return redact_secrets(text, os.environ)

    def begin(self, fence: Fence = no_fence) -> None:
        """Make the calls that a run needs before its first episode. `fence` is called before each
        call.
        """

    def finish(self, fence: Fence = no_fence) -> None:
        """Make the calls that a run needs after its last episode. `fence` is called before each
        call.
        """

    def take_over(self, label: str, other: Path) -> None:
        """Take over the calls and paid replies that another run folder has for an episode. The
        episode must not be running here.
        """

    def list_costs(self) -> dict[str, float | None]:
        """Return the cost of each episode's calls in US dollars, as `CallLog.list_costs` does."""
        return {} if self.log is None else self.log.list_costs()

    def flush(self) -> None:
        """Make recorded calls readable in the run folder."""

    def close(self) -> None:
        """Write pending records. No call may be made afterwards."""


def _is_repeatable(model: Model) -> bool:
    traits = model_traits(model)
    return traits.is_free and not traits.is_person and as_remote(model) is None


@dataclass(frozen=True)
class RunSignals:
    """Callbacks between a run and its calls."""

    stop: StopSignal  #: flag that prevents further calls
    #: receives an event whenever a check has to wait
    emit: Callable[[Event], None] = lambda _: None
    fence: Fence = no_fence  #: called before each call of a check


class RemoteAccess(ModelAccess):
    """Access to remote models through cache, budget, rate limits and retries. Every call is
    recorded.
    """

    def __init__(
        self,
        model: RemoteModel,
        config: RunConfig,
        price: Price | None,
        folder: Path,
        signals: RunSignals,
        further: Sequence[RunModel] = (),
    ) -> None:
        """Open the cache and call log for connected models, and probe the tool protocol of each
        model.

        `further`: additional models of the run. Raises KtdevalError.
        """
        super().__init__(model, config.max_failures)
        protocol = requested_protocol(config, folder)
        if protocol == "auto" and (folder / MANIFEST).exists():  # checked before any call
            raise StoreError(
                f"{folder}: contains another run (of a local model); choose another --out"
            )

        self._remote = model
        self._config = config
        self._folder = folder
        self._emit = signals.emit
        self._check_fence = signals.fence
        self._canaries = config.canary
        self._is_default_temperature = config.temperature == DEFAULT_PARAMS.temperature
        self._params = CallParams(**_options(config, CallParams))
        if self._is_default_temperature and _is_without_temperature(folder):
            self._leave_out_temperature()

        settings = ClientSettings(**_options(config, ClientSettings))

        # If anything below fails, the files are closed.
        with contextlib.ExitStack() as files:
            cache = None
            # with `--cache run`, the call log serves as the cache
            if config.cache != "run":
                cache = files.enter_context(CallDatabase(cache_path(config.cache)))

            self.log: CallLog = files.enter_context(CallLog(folder, cache))
            if config.batch:
                # the run's checks are ordinary calls, charged at the normal price
                price = run_price(replace(config, batch=False), model)
                self.batches = BatchClient(model, settings, price, self.log, signals.stop)

            self.client = self.batches or ModelClient(
                model, settings, price, self.log, signals.stop
            )
            self._ask_canary = partial(
                self.client.ask_fresh, label=_CANARY, notify=self._waits_of(_CANARY)
            )
            self.protocol = self._choose_protocol(self.client, model, protocol)
            self.further, self._further_clients = self._open_further(config, further)
            self._files = files.pop_all()

    def _open_further(
        self, config: RunConfig, models: Sequence[RunModel]
    ) -> tuple[tuple[RunModel, ...], dict[str, ModelClient]]:
        """Return the additional models with their protocols, and a client for each."""
        offered = []
        clients = {}
        for each in models:
            remote = each.remote
            if remote is None:
                raise ConfigError(f"{each.choice.name}: is not a remote model")

            client = self.client.beside(remote, each.price)
            requested: Literal["auto"] | ToolProtocol | None = each.protocol
            if requested is None:
                requested = requested_protocol(config, self._folder, each.choice.asked_as)

            protocol = self._choose_protocol(client, remote, requested)
            client.context.learn(known_context(config, remote))
            clients[each.choice.asked_as] = client
            offered.append(each.offered_by(protocol))

        return tuple(offered), clients

    def _choose_protocol(
        self, client: ModelClient, model: RemoteModel, requested: Literal["auto"] | ToolProtocol
    ) -> ToolProtocol:
        """Return the tool protocol that a model supports, probing the model if necessary. If the
        run's own model refuses the default temperature, none is sent from then on.
        """
        try:
            return self._probe(client, model, requested)
        except ParameterRefused as refused:
            is_default = self._is_default_temperature and client is self.client
            if refused.parameter != _TEMPERATURE or not is_default:
                raise

            _LOG.warning(
                "%s: none is sent in this run, and its cards say so",
                str(refused).partition("; ")[0],
            )

        self._leave_out_temperature()
        return self._probe(client, model, requested)

    def _leave_out_temperature(self) -> None:
        """Send no temperature from now on."""
        self.sends_temperature = False
        self._params = replace(self._params, temperature=None)

    def _probe(
        self, client: ModelClient, model: RemoteModel, requested: Literal["auto"] | ToolProtocol
    ) -> ToolProtocol:
        notify = self._waits_of(_CHECK)
        ask_cached = client.for_episode(_CHECK, notify, self._check_fence).reply
        try:
            return choose_protocol(model, requested, ask_cached, self._params)
        except ParameterRefused:
            raise
        except ProviderError:
            if client.sent:
                raise

        # According to cached replies, the model does not support tools. Since its server may have
        # been fixed since then, make a call that is in neither the cache nor the log.
        ask_fresh = partial(client.ask_fresh, label=_CHECK, notify=notify, fence=self._check_fence)
        fresh_seed = time.time_ns() % 2**31
        return choose_protocol(model, requested, ask_fresh, self._params, fresh_seed)

    def _waits_of(self, check: str) -> Notify:
        """Return a callback that emits an event whenever a check has to wait."""
        return lambda *wait: self._emit(CheckDelayed(check, *wait))

    def ask_in_rounds(self, rounds: EpisodeRounds) -> None:
        """Make the calls of running episodes in these rounds, if calls are made in batches."""
        if self.batches is not None:

            def tell(done: int, total: int, wait_s: float) -> None:
                self._emit(BatchProgress(done, total, wait_s))

            self.batches.ask_in_rounds(rounds, tell, self._waits_of("batch"))

    def begin(self, fence: Fence = no_fence) -> None:
        """Ask the fixed questions, unless this run has already asked them at its start."""
        ask = partial(self._ask_canary, fence=fence)
        ask_at_start(self._folder, ask, self._canaries, self._params)

    def finish(self, fence: Fence = no_fence) -> None:
        """Ask the fixed questions again."""
        ask_at_end(self._folder, partial(self._ask_canary, fence=fence), self._params)

    def for_episode(
        self, spec: EpisodeSpec, emit: Callable[[Event], None], fence: Fence = no_fence
    ) -> EpisodeAccess:
        """Return the access of one episode, whose calls and waits are emitted as events."""

        def notify(*wait: Any) -> None:
            emit(CallDelayed(spec, *wait))

        def watch(request: ModelRequest, record: CallRecord, reply: Reply | None) -> None:
            emit(
                CallFinished(
                    spec,
                    step=record.step,
                    model=record.model,
                    outcome=record.outcome,
                    attempt=record.attempt,
                    latency_s=record.latency_s,
                    cost_usd=record.cost_usd,
                    request=request,
                    reply=reply,
                )
            )

        model = self.client.for_episode(spec.id, notify, fence, watch)
        calls_of_episode = partial(self.log.episode_calls, spec.id)
        settle = partial(self.log.settle, spec.id)
        counter = CallCounter(model.begin_step, settle, calls_of_episode)
        further: dict[str, Model] = {}
        for name, client in self._further_clients.items():
            further[name] = ProtocolModel(TimedModel.of(model.beside(client), self._config))

        timed = TimedModel.of(model, self._config)
        return EpisodeAccess(ProtocolModel(timed), counter, further)

    def redact(self, text: str) -> str:
        """Return `text` with secrets from the environment or the models removed.

        A model's secrets may come from elsewhere than the environment.
        """
        secrets = list(self._remote.secrets())
        for each in self.further:
            if each.remote is not None:
                secrets += each.remote.secrets()

        return super().redact(hide_keys(text, tuple(secrets)))

    def take_over(self, label: str, other: Path) -> None:
        """Take over the calls and paid replies that another run folder has for an episode. Raises
        StoreError.
        """
        calls = self.log.take_over(label, other)
        for client in (self.client, *self._further_clients.values()):
            client.take_over(calls)

    def flush(self) -> None:
        """Make recorded calls readable in the run folder."""
        self.log.flush()

    def close(self) -> None:
        """Write pending records."""
        self._files.close()


def local_protocol(config: RunConfig, model: Model) -> ToolProtocol | None:
    """Return the tool protocol that the user chose for a local model; None if the model gets native
    tools.

    Raises UsageError if the model is free, since such models use tools directly.
    """
    requested = config.tool_protocol
    if requested == "auto" or requested == "native" or requested == "native_required":
        return None
    if model_traits(model).is_free:
        raise UsageError(
            f"--tool-protocol {requested}: {config.model} uses tools directly; omit the option"
        )

    return requested


def connect(model: RemoteModel, where: str) -> None:
    """Connect a model.

    Raises PluginError, with a message that starts with `where`, if the connection fails, or if the
    model's settings or secrets are of the wrong type.
    """
    call_through(model.connect, where)
    settings = call_through(model.settings, where)
    secrets = call_through(model.secrets, where)
    call_foreign(
        lambda: dumps_canonical({**settings}).encode(),
        f"{where}: settings() must be a mapping of plain JSON",
    )
    # A secret that is not a string can't be removed from messages.
    is_list = isinstance(secrets, tuple | list)
    if not is_list or not all(isinstance(secret, str) for secret in secrets):
        raise PluginError(
            f"{where}: secrets() must be a tuple of texts, was {type(secrets).__name__}"
        )


def requested_protocol(
    config: RunConfig, folder: Path, asked_as: str | None = None
) -> Literal["auto"] | ToolProtocol:
    """Return the requested tool protocol. For `auto`, return the protocol that the run in this
    folder has already chosen, if any, for its own model or for the additional model `asked_as`.
    """
    if config.tool_protocol != "auto":
        return config.tool_protocol

    spec = _recorded_spec(folder)
    if spec is None:
        return "auto"

    # the manifest was validated when it was loaded
    recorded = spec.call.get("tool_protocol")
    if asked_as is not None:
        protocols = {each.asked_as: each.tool_protocol for each in spec.further_models}
        recorded = protocols.get(asked_as)

    if recorded is None:
        return "auto"
    return cast('Literal["auto"] | ToolProtocol', recorded)


def _is_without_temperature(folder: Path) -> bool:
    """Return whether the run in a folder has begun without a temperature."""
    spec = _recorded_spec(folder)
    return spec is not None and spec.call.get(_TEMPERATURE, 0) is None


def _recorded_spec(folder: Path) -> EpisodeSpec | None:
    """Return the first planned episode of the run in a folder; None before a run."""
    if not (folder / MANIFEST).exists():
        return None
    return next(iter(RunFolder.load(folder).manifest.specs), None)


def _options(config: RunConfig, cls: type[Any]) -> dict[str, Any]:
    """Return those options of a run that are fields of a dataclass.

    A call's `seed` and `tool_protocol` are left out, because the options with these names have a
    different meaning.
    """
    names = {field.name for field in fields(cls)} - {"seed", "tool_protocol"}
    return {name: getattr(config, name) for name in names if hasattr(config, name)}


def cache_path(where: str) -> Path:
    """Return the named cache file, or the file in the user's cache for `--cache shared`.

    Raises UsageError if `where` is a URL.
    """
    if where == "shared":
        return cache_folder() / REPLIES
    if "://" in where:
        raise UsageError(f"--cache {where}: is a URL; expected a local file, or shared")

    return user_path(where)


def run_price(config: RunConfig, model: Model) -> Price | None:
    """Return the model's token price, which is the batch price with `--batch`. None if the price is
    unknown.

    Raises UsageError if a price is given for a free model. Raises ConfigError if the price is
    malformed. Also raises ConfigError if money or tokens are limited but the limit can't be
    enforced, because the model is neither a RemoteModel nor declared free.
    """
    remote = as_remote(model)
    if remote is not None:
        price = choose_price(
            config.model,
            config.price,
            config.price_table,
            remote.price_table,
            address=remote.endpoint,
        )
        batches = batches_of(model)
        if price is None or not config.batch or batches is None:
            return price

        return batches.price(price)

    if model_traits(model).is_free:
        for name in ("price", "price_table"):
            if getattr(config, name):
                raise UsageError(
                    f"--{name.replace('_', '-')}: {config.model} runs on this machine at no cost;"
                    " omit the option"
                )

        return FREE

    for name in ("max_cost", "max_tokens"):
        if getattr(config, name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')}: {config.model} makes its own calls, so no limit can"
                " be enforced; omit the option, or make the model a"
                " ktdeval.api.RemoteModel (if it calls no provider: traits ="
                " ModelTraits(is_free=True))"
            )

    return choose_price(config.model, config.price, config.price_table)
