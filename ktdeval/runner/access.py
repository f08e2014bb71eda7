"""Ways of a run's episodes to its model: straight, where it runs on this machine; through the client, where it costs money."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ktdeval.calls.call_log import CallLog
from ktdeval.calls.capability import choose_protocol
from ktdeval.calls.client import ClientSettings, ModelClient
from ktdeval.calls.database import CallDatabase
from ktdeval.calls.prices import FREE, Price, choose_price
from ktdeval.calls.record import NO_EPISODE
from ktdeval.calls.stop import StopSignal
from ktdeval.calls.tally import CallCounter
from ktdeval.config import RunConfig
from ktdeval.contracts.events import CallDelayed, Event
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.errors import SHORTEST_SECRET, ConfigError, PluginError, ProviderError, StoreError, UsageError, redact_secrets
from ktdeval.fields import user_path
from ktdeval.harness.messages import CallParams, Model, RemoteModel, ToolProtocol, as_remote
from ktdeval.harness.protocols import ProtocolModel
from ktdeval.jsonio import dumps_canonical
from ktdeval.plugin_import import call_foreign, call_through
from ktdeval.runner.canary import ask_at_end, ask_at_start
from ktdeval.runner.data_source import cache_folder
from ktdeval.runner.store import MANIFEST, REPLIES, RunFolder

_CANARY, _CHECK = NO_EPISODE


class EpisodeAccess(NamedTuple):
    """Way of one episode to its model, from one opening of it to its end or interruption."""

    model: Model
    counter: CallCounter  #: counts its calls


class ModelAccess:
    """Access to a model of this machine: every episode asks it directly."""

    protocol: ToolProtocol | None = None  #: Tool protocol; None where nothing has to be chosen

    def __init__(self, model: Model, max_errors: int | None) -> None:
        self._model = model
        self.max_errors = max_errors  #: Steps in a row that may end in a failed call; None sets no limit

    log: CallLog | None = None  #: Record of the run's calls; None where none are made

    def for_episode(self, spec: EpisodeSpec, emit: Callable[[Event], None]) -> EpisodeAccess:  # noqa: ARG002 - nothing to tell
        """Return the way of one episode to the model."""
        return EpisodeAccess(self._model, CallCounter())

    def redact(self, text: str) -> str:
        """Return `text` without secrets of the environment, and without the model's own."""
        return redact_secrets(text, os.environ)

    def begin(self) -> None:
        """Ask what a run asks before its first episode."""

    def finish(self) -> None:
        """Ask what a run asks after its last episode."""

    def flush(self) -> None:
        """Make what was recorded readable from the run folder."""

    def close(self) -> None:
        """Write down what is still to be written; nothing is asked afterwards."""


class RemoteAccess(ModelAccess):
    """Access to a model behind a network, through cache, budget, limits and retries; each attempt is recorded."""

    def __init__(self, model: RemoteModel, config: RunConfig, price: Price | None, folder: Path, stop: StopSignal) -> None:
        """Open cache and record of calls for a connected model, and find out how it takes tools, or raise KtdevalError."""
        super().__init__(model, config.max_failures)
        protocol = requested_protocol(config, folder)
        if protocol == "auto" and (folder / MANIFEST).exists():  # before the model is asked
            raise StoreError(f"{folder}: holds another run (of a model of this machine); choose another --out")
        self._remote = model
        self._folder, self._canaries, self._params = folder, config.canary, CallParams(**_options(config, CallParams))
        settings = ClientSettings(**_options(config, ClientSettings))
        self._files = contextlib.ExitStack()
        try:
            path, cache = cache_path(config.cache, folder), None
            if config.cache != "run" or path.exists():  # a file of its own is there in folders of older runs
                cache = self._files.enter_context(CallDatabase(path))
            self.log: CallLog = self._files.enter_context(CallLog(folder, cache))
            self.client = ModelClient(model, settings, price, self.log, stop)
            self._ask_canary = partial(self.client.ask_fresh, label=_CANARY)
            self.protocol = self._choose_protocol(protocol)
        except BaseException:
            self._files.close()
            raise

    def _choose_protocol(self, requested: Literal["auto"] | ToolProtocol) -> ToolProtocol:
        """Find out how the model takes tools; not from a cached verdict that it takes none, for its server may have been fixed."""
        try:
            return choose_protocol(self._remote, requested, self.client.for_episode(_CHECK).reply, self._params)
        except ProviderError:
            if self.client.sent:
                raise
        fresh_seed = time.time_ns() % 2**31  # a question that no cache and no log knows
        return choose_protocol(self._remote, requested, partial(self.client.ask_fresh, label=_CHECK), self._params, fresh_seed)

    def begin(self) -> None:
        """Ask the fixed questions, where they were not asked at the start of this run."""
        ask_at_start(self._folder, self._ask_canary, self._canaries, self._params)

    def finish(self) -> None:
        """Ask them again."""
        ask_at_end(self._folder, self._ask_canary, self._params)

    def for_episode(self, spec: EpisodeSpec, emit: Callable[[Event], None]) -> EpisodeAccess:
        """Return the way of one episode to the model; waits of its calls become events."""
        model = self.client.for_episode(spec.id, lambda *wait: emit(CallDelayed(spec, *wait)))
        counter = CallCounter(model.begin_step, self.log.flush, partial(self.log.episode_calls, spec.id))
        return EpisodeAccess(ProtocolModel(model), counter)

    def redact(self, text: str) -> str:
        """Return `text` without secrets of the environment, and without the model's own, which may come from elsewhere."""
        for secret in self._remote.secrets():
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "[key]")
        return super().redact(text)

    def flush(self) -> None:
        """Make what was recorded readable from the run folder."""
        self.log.flush()

    def close(self) -> None:
        """Write down what is still to be written."""
        self._files.close()


def connect(model: RemoteModel, where: str) -> None:
    """Connect a model. Raises PluginError, which `where` starts: it fails, or its settings or secrets are not what they must be."""
    call_through(model.connect, where)
    settings, secrets = call_through(model.settings, where), call_through(model.secrets, where)
    call_foreign(lambda: dumps_canonical({**settings}).encode(), f"{where}: settings() must be a mapping of plain JSON")
    if not isinstance(secrets, tuple | list) or not all(isinstance(secret, str) for secret in secrets):  # or a key would be shown
        raise PluginError(f"{where}: secrets() must be a tuple of texts, was {type(secrets).__name__}")


def requested_protocol(config: RunConfig, folder: Path) -> Literal["auto"] | ToolProtocol:
    """Return the tool protocol asked for; where the choice is free, the one that a run begun in this folder has chosen."""
    if config.tool_protocol != "auto" or not (folder / MANIFEST).exists():
        return config.tool_protocol
    specs = RunFolder.load(folder).manifest.specs
    recorded: Literal["auto"] | ToolProtocol = specs[0].call.get("tool_protocol", "auto") if specs else "auto"
    return recorded


def _options(config: RunConfig, cls: type[Any]) -> dict[str, Any]:
    """Options of a run by the fields of a dataclass that have their names; a call's seed and tool protocol are not the run's."""
    names = {field.name for field in fields(cls)} - {"seed", "tool_protocol"}
    return {name: getattr(config, name) for name in names if hasattr(config, name)}


def cache_path(where: str, folder: Path) -> Path:
    """Return the file that `--cache` stands for: the one of this user, the run folder's, or the file itself."""
    if where == "shared":
        return cache_folder() / REPLIES
    return folder / REPLIES if where == "run" else user_path(where)


def run_price(config: RunConfig, model: Model) -> Price | None:
    """Return the price of the model's tokens; None where it is not known. Raises UsageError for a price of a model that is free;
    ConfigError where it is malformed, and for a limit of money or tokens that can't be kept: the model is neither a
    RemoteModel nor declared free.
    """
    remote = as_remote(model)
    if remote is not None:
        return choose_price(config.model, config.price, config.price_table, remote.price_table)
    if getattr(model, "is_free", False) is True:
        for name in ("price", "price_table"):
            if getattr(config, name):
                raise UsageError(f"--{name.replace('_', '-')}: {config.model} runs on this machine and bills nothing; leave it out")
        return FREE
    for name in ("max_cost", "max_tokens"):
        if getattr(config, name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')}: {config.model} makes its calls by itself, so that no limit can be kept; leave the "
                "option out, or make the model a ktdeval.api.RemoteModel (one that calls nobody: is_free = True)"
            )
    return choose_price(config.model, config.price, config.price_table)
