"""`replay/RUN`: replies from the transcripts of an earlier run, so that a changed metric, rule or
harness can be tried for free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from ktdeval.errors import ModelError, ProviderError, UsageError
from ktdeval.harness import Message, ModelRequest, ModelTraits, Reply, TranscriptEntry
from ktdeval.runner import RecordedExchange, RunFolder, local_run_path, read_exchanges
from ktdeval.values import content_hash


class ReplayModel:
    """Returns the recorded reply to an identical request, that is, a request with the same
    messages, offered tools, forced tool and call seed. An unfinished episode is replayed as far as
    it was recorded. A recorded failure fails again.
    """

    def __init__(self, name: str) -> None:
        """Replay the run in folder `name`. Raises UsageError if the run is missing."""
        self._folder = folder = local_run_path(name)
        if not (folder / "manifest.json").is_file():
            raise UsageError(
                f"replay/{name}: {folder} is not a run folder (manifest.json is missing); name one"
                " that `ktdeval run` made"
            )

        self._replies: dict[str, RecordedExchange] | None = None
        self._predictions: dict[str, Mapping[str, float]] = {}
        self._lock = threading.Lock()
        self.traits = ModelTraits(
            is_free=True,
            recorded_settings=self._settings,
            recorded_predictions=self._find_predictions,
        )

    def _settings(self, tasks: Sequence[str]) -> Mapping[str, Any]:
        """Return the settings in the run's config that affect requests, for the episodes of the
        given tasks.
        """
        manifest = RunFolder.load(self._folder).manifest
        specs = [spec for spec in manifest.specs if spec.task in tasks]
        if not specs:
            raise UsageError(
                f"replay/{self._folder}: that run is of"
                f" {', '.join(sorted({spec.task for spec in manifest.specs}))}"
            )

        seeds = sorted({spec.seed for spec in specs})
        first = specs[0]
        windows = dict.fromkeys(spec.window_name for spec in specs)

        return {
            # questions without a market have no windows
            "windows": tuple(name for name in windows if name),
            "seeds": seeds[-1] - seeds[0] + 1,
            "seed": seeds[0],
            "limit": first.limit,
            "mask_key": first.mask_key,
            "agent": first.agent,
            "agent_args": first.agent_args,
            **(manifest.data or {}),
        }

    def reply(self, request: ModelRequest) -> Reply:
        """Return the recorded reply. If the recorded call failed, raises ModelError of the recorded
        kind. If nothing was recorded for this request, raises ProviderError.
        """
        exchange = self._index().get(_key_of(request))
        if exchange is None:
            raise ProviderError(
                f"replay/{self._folder}: that run has no reply to request {len(request.messages)}"
                f" messages long with call seed {request.params.seed}; its task, window, seed,"
                " agent or prompts differ"
            )
        if exchange.reply is UNSET:
            raise ModelError(str(exchange.error), "recorded")

        return exchange.reply

    def _find_predictions(self, first: ModelRequest) -> Mapping[str, float] | None:
        """Return the recorded predictions of the step that began with a request; None if there are
        none.
        """
        self._index()
        return self._predictions.get(_key_of(first))

    def _index(self) -> dict[str, RecordedExchange]:
        with self._lock:
            if self._replies is None:
                folder = RunFolder.load(self._folder)
                entries: list[TranscriptEntry] = []
                for spec in folder.manifest.specs:
                    _, recorded = folder.load_recorded(spec)
                    entries.extend(recorded)

                self._replies = {}
                for entry in entries:
                    exchanges = list(_exchanges(entry))
                    self._replies.update(exchanges)
                    if entry.predicted is not UNSET and exchanges:
                        first, _ = exchanges[0]
                        self._predictions[first] = entry.predicted

            return self._replies


def _exchanges(entry: TranscriptEntry) -> Iterator[tuple[str, RecordedExchange]]:
    """Yield each exchange of a step with the key of its request."""
    messages: list[Message] = []
    for exchange in read_exchanges(entry, f"step {entry.step}"):
        messages = [*messages[: exchange.kept], *exchange.sent]
        yield _key(messages, exchange.tools, exchange.tool_choice, exchange.seed), exchange


def _key_of(request: ModelRequest) -> str:
    """Return the key of a request as sent. The messages and the seed identify one episode, because
    each task and mask has its own seeds.
    """
    tools = [tool.name for tool in request.tools]
    return _key(request.messages, tools, request.tool_choice, request.params.seed)


def _key(
    messages: Sequence[Message], tools: Sequence[str], tool_choice: str | None, seed: int | None
) -> str:
    shown = [message.to_json() for message in messages]
    return content_hash([shown, list(tools), tool_choice, seed])
