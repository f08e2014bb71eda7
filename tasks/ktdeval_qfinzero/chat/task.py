"""Task of one turn of a chat: config in, one question out, its figures summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from ktdeval.tasks import (
    UNANSWERED,
    AnswerRecord,
    EpisodeSpec,
    Score,
    ScoreDefinition,
    TargetTask,
    Window,
    unanswered_score,
)
from ktdeval.values.fields import to_mapping
from ktdeval.values.jsonio import JsonValue, sha256_hex
from ktdeval_qfinzero.chat.config import ChatConfig
from ktdeval_qfinzero.chat.samples import (
    FORM,
    PROMPTS,
    ChatSamples,
    check_dataset_of,
    prompt_text,
)
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.folder import open_dataset
from ktdeval_qfinzero.suite.brief import tool_hashes
from ktdeval_qfinzero.suite.one_question import mean_of_all, read_definitions, share_score
from ktdeval_qfinzero.suite.samples import embedded_dataset

_NO_TURN = "no turn was answered"


@cache
def definitions() -> Mapping[str, ScoreDefinition]:
    """Define the scores of a chat, in the order shown."""
    return read_definitions(Path(__file__).with_name("scores.yaml"))


@cache
def _dataset_in(folder: str) -> Dataset:
    return open_dataset(Path(folder))


class ChatTask:
    """One turn of a chat. Implements `ktdeval.api.ScoringTask`."""

    tools: tuple[str, ...] = ()  # none; the sample brings its own
    target_task: str | None = None
    mask = None
    mode = "chat_native_live"
    never_ranked = "a person steered the model turn by turn: a chat is not a benchmark"
    windows: Mapping[str, Window] = {}
    default_windows: tuple[str, ...] = ()

    def __init__(self, name: str, config: ChatConfig) -> None:
        self.name = name
        self.version = config.version
        self.harness = config.harness
        self.scores = definitions()
        self._config = config

    @cached_property
    def dataset(self) -> Dataset:
        """Data that the chat is about. Raises DataError: they are not there, or have changed."""
        config = self._config
        folder = config.conversation.data
        if folder is None:
            dataset = embedded_dataset(config.data_seed)
        else:
            dataset = _dataset_in(folder)

        check_dataset_of(dataset, config, self.name)
        return dataset

    def describe(self) -> Mapping[str, JsonValue]:
        """Whole config without the dataset's folder, the form, and hashes of prompts and tools."""
        plain = to_mapping(self._config)
        conversation = dict(plain["conversation"])
        conversation.pop("data")
        return {
            "name": self.name,
            "mode": self.mode,
            **plain,
            "conversation": conversation,
            "form": {"name": FORM.name, "parameters": FORM.parameters},
            "prompts": {f"{name}.md": sha256_hex(prompt_text(name)) for name in PROMPTS},
            "service_tools": tool_hashes(),
        }

    def samples(
        self,
        spec: EpisodeSpec,  # noqa: ARG002
        snapshot: None,  # noqa: ARG002
        target_task: TargetTask | None,  # noqa: ARG002
    ) -> ChatSamples:
        """Return the question of the turn."""
        return ChatSamples(self.name, self._config, self.dataset)

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Compute the figures over all records together; pure."""
        asked = [record for record in records if record.provenance != "error"]
        answered = [record for record in asked if record.answer is not None]
        silent = len(asked) - len(answered)
        failed = len(records) - len(asked)
        accepted = _accepted(answered)
        calls = [float(_count_of(record, "calls")) for record in answered]
        return {
            "accepted": mean_of_all(
                accepted, silent, failed, self.scores["accepted"], "no call was made"
            ),
            "answered": share_score(len(answered), len(asked), _NO_TURN),
            "calls": mean_of_all(calls, silent, failed, self.scores["calls"], _NO_TURN),
            UNANSWERED: unanswered_score(records, "turns"),
        }


def _accepted(answered: Sequence[AnswerRecord]) -> list[float | None]:
    """Return the share of accepted calls of each turn; None of one without calls."""
    shares: list[float | None] = []
    for record in answered:
        calls = _count_of(record, "calls")
        shares.append(_count_of(record, "accepted") / calls if calls else None)

    return shares


def _count_of(record: AnswerRecord, name: str) -> int:
    return int(str(record.scores[name]))
