"""How the episodes of a run reach its model: straight, where it runs on this machine; through the gate, where it costs money."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ktdeval.calls.book import NO_EPISODE, CallBook
from ktdeval.calls.cache import ReplyCache
from ktdeval.calls.canary import finish_record, start_record
from ktdeval.calls.capability import choose_protocol
from ktdeval.calls.gate import CallGate, GateSettings
from ktdeval.calls.prices import Price, choose_price
from ktdeval.calls.stop import StopSignal
from ktdeval.config import RunConfig
from ktdeval.errors import RunStop
from ktdeval.harness.messages import CallParams, Model, ModelRequest, Reply, ToolProtocol
from ktdeval.harness.protocols import ProtocolModel
from ktdeval.harness.provider import RemoteModel
from ktdeval.runner.canary_file import load_canary, save_canary
from ktdeval.runner.data_source import cache_folder
from ktdeval.runner.events import CallDelayed, Event
from ktdeval.runner.redaction import redact_secrets
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import CALLS, MANIFEST, REPLIES, RunFolder

_CANARY, _CHECK = NO_EPISODE


class ModelAccess:
    """A model of this machine: every episode has it as it is."""

    protocol: ToolProtocol | None = None
    """How tools are offered; None where nothing has to be chosen."""
    max_errors: int | None = None
    """Steps in a row that may end in a failed call; None sets no limit."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def for_episode(self, spec: EpisodeSpec, emit: Callable[[Event], None]) -> Model:  # noqa: ARG002 - there is nothing to tell
        """The model as one episode asks it."""
        return self._model

    def redact(self, text: str) -> str:
        """`text` without secrets of the environment, and without the model's own."""
        return redact_secrets(text, os.environ)

    def begin(self) -> None:
        """What is to be asked before the first episode."""

    def finish(self) -> None:
        """What is to be asked after the last one."""

    def flush(self) -> None:
        """See that what was booked can be read from the run folder."""

    def close(self) -> None:
        """Write down what is still to be written; nothing is asked afterwards."""


class RemoteAccess(ModelAccess):
    """A model behind a network: cache, budget, limits and retries stand in front of it, and each attempt is booked."""

    def __init__(self, model: RemoteModel, config: RunConfig, price: Price | None, folder: Path, stop: StopSignal) -> None:
        """Open the cache and the run's book, and find out how the model takes tools.

        Args:
            model: connected.
            config: of the run.
            price: of the model's tokens, where known.
            folder: the run folder, held by this process.
            stop: ends the run.

        Raises:
            KtdevalError: a file can't be used, a budget can't be kept without a price, or no call to the model can succeed.
        """
        super().__init__(model)
        self.max_errors = config.max_failures
        self._remote = model
        self._folder, self._canaries, self._params = folder, config.canary, call_params(config)
        settings = GateSettings(
            concurrency=config.concurrency,
            call_gap_s=config.call_gap_s,
            max_retries=config.max_retries,
            max_wait_s=config.max_wait_s,
            max_failures=config.max_failures,
            max_cost=config.max_cost,
            max_tokens=config.max_tokens,
        )
        self._files = contextlib.ExitStack()
        cache = self._files.enter_context(ReplyCache(cache_path(config.cache, folder)))
        try:
            book = self._files.enter_context(CallBook(folder / CALLS))
            self.gate = CallGate(model, settings, price, cache, book, stop)
            self._files.callback(self.gate.close)
            self.protocol = choose_protocol(model, wanted_protocol(config, folder), self._check_call, self._params)
        except BaseException:
            self._files.close()
            raise

    def begin(self) -> None:
        """Ask the fixed questions, where they were not asked at the start of this run."""
        if self._canaries and load_canary(self._folder) is None:
            save_canary(self._folder, start_record(self._ask_canary, self._canaries, self._params))

    def finish(self) -> None:
        """Ask them again. A run that is complete is not undone by a budget or a provider that allows no further call."""
        record = load_canary(self._folder)
        if record is not None and record["end"] is None:
            with contextlib.suppress(RunStop):
                save_canary(self._folder, finish_record(record, self._ask_canary, self._params))

    def _ask_canary(self, request: ModelRequest) -> Reply:
        return self.gate.ask_fresh(request, _CANARY)

    def _check_call(self, request: ModelRequest) -> Reply:
        return self.gate.for_episode(_CHECK, _tell_nobody).reply(request)

    def for_episode(self, spec: EpisodeSpec, emit: Callable[[Event], None]) -> Model:
        """The model as one episode asks it; waits of its calls become events."""

        def notify(kind: str, wait_s: float, attempt: int, attempts: int) -> None:
            emit(CallDelayed(spec, kind, wait_s, attempt, attempts))

        return ProtocolModel(self.gate.for_episode(spec.id, notify))

    def redact(self, text: str) -> str:
        """`text` without secrets of the environment, and without the model's own, which may come from elsewhere."""
        for secret in self._remote.secrets():
            text = text.replace(secret, "[key]")
        return super().redact(text)

    def flush(self) -> None:
        """See that what was booked can be read from the run folder."""
        self.gate.flush()

    def close(self) -> None:
        """Write down what is still to be written."""
        self._files.close()


def _tell_nobody(kind: str, wait_s: float, attempt: int, attempts: int) -> None:
    """Before a run there is no bar to name a wait on."""


def wanted_protocol(config: RunConfig, folder: Path) -> Literal["auto"] | ToolProtocol:
    """The tool protocol asked for; where the choice is free, the one that a run begun in this folder has chosen."""
    if config.tool_protocol != "auto" or not (folder / MANIFEST).exists():
        return config.tool_protocol
    specs = RunFolder.load(folder).manifest.specs
    recorded: Literal["auto"] | ToolProtocol = specs[0].call.get("tool_protocol", "auto") if specs else "auto"
    return recorded


def call_params(config: RunConfig) -> CallParams:
    """The call parameters of a config, but for seed and tool protocol."""
    return CallParams(
        temperature=config.temperature,
        max_output_tokens=config.max_output_tokens,
        timeout_s=config.timeout_s,
        reasoning_effort=config.reasoning_effort,
        reasoning_tokens=config.reasoning_tokens,
    )


def cache_path(where: str, folder: Path) -> Path:
    """The file that `--cache` stands for: the one of this user, the run folder's, or the file itself."""
    if where == "shared":
        return cache_folder() / REPLIES
    return folder / REPLIES if where == "run" else Path(where).expanduser()


def run_price(config: RunConfig, remote: RemoteModel | None) -> Price | None:
    """What the model's tokens cost, by the options or by the table of its plugin; None for a model of this machine.

    Raises:
        ConfigError: the price or the table is malformed.
    """
    if remote is None:
        return None
    return choose_price(config.model, config.price, config.price_table, remote.price_table)
