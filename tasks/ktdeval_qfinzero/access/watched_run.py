"""Runs in which a watcher, such as a chat view, sees the model calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

from ktdeval.calls import Fence, StopSignal, no_fence
from ktdeval.harness import Model, ModelRequest, Reply, ReplyPiece
from ktdeval.registry import Plugins
from ktdeval.runner import (
    EpisodeAccess,
    ModelAccess,
    RunConfig,
    RunResult,
    execute_run,
    prepare_run,
)
from ktdeval.task_api import EpisodeSpec, Event


class Watcher(Protocol):
    """Receives requests and replies without being able to change them. If it raises an exception,
    the run ends.
    """

    def keep_request(self, spec: EpisodeSpec, request: ModelRequest) -> None:
        """Receive a request before the model is called."""

    def heard(self, spec: EpisodeSpec, piece: ReplyPiece) -> None:
        """Receive a piece of a reply that is still being streamed by the provider."""

    def keep_reply(self, spec: EpisodeSpec, reply: Reply) -> None:
        """Receive a reply, after it was recorded."""


class _WatchedModel:
    """Model of an episode whose calls are shown to a watcher. Everything except `reply` is
    delegated to the model.
    """

    def __init__(self, model: Model, spec: EpisodeSpec, watcher: Watcher) -> None:
        self._model = model
        self._spec = spec
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def reply(self, request: ModelRequest) -> Reply:
        """Return the model's reply. Raises as the model does."""
        self._watcher.keep_request(self._spec, request)
        listener = partial(self._watcher.heard, self._spec)
        reply = self._model.reply(replace(request, listener=listener))
        self._watcher.keep_reply(self._spec, reply)
        return reply


class _WatchedAccess:
    """Access to a run's model whose calls are shown to a watcher. Everything except `for_episode`
    is delegated to the access.
    """

    def __init__(self, access: ModelAccess, watcher: Watcher) -> None:
        self._access = access
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access, name)

    def for_episode(
        self, spec: EpisodeSpec, emit: Callable[[Event], None], fence: Fence = no_fence
    ) -> EpisodeAccess:
        """Return the access of one episode."""
        given = self._access.for_episode(spec, emit, fence)
        return replace(given, model=_WatchedModel(given.model, spec, self._watcher))


def evaluate_watched(
    config: RunConfig, plugins: Plugins, stop: StopSignal, watcher: Watcher
) -> RunResult:
    """Run a config from plan to cards, like `evaluate`, while a watcher sees the model calls.
    `stop` can end the run between two calls.

    Raises KtdevalError, or KeyboardInterrupt after `stop.interrupt()`.
    """
    prepared = prepare_run(config, plugins, stop)
    try:
        access = cast("ModelAccess", _WatchedAccess(prepared.access, watcher))
        return execute_run(replace(prepared, access=access))
    finally:
        prepared.close()
