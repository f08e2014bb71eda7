"""Task of one turn of a chat: config in, one question out, its figures summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.task_api import UNANSWERED, AnswerRecord, Score, TaskTraits, unanswered_score
from ktdeval.values import JsonValue
from ktdeval_qfinzero.chat.question import turn_question
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.live.score_summary import mean_of_all, share_score
from ktdeval_qfinzero.live.tool_use_config import ChatHistory, LiveConfig
from ktdeval_qfinzero.live.tool_use_task import LiveTask
from ktdeval_qfinzero.suite.samples import embedded_dataset

_NO_TURN = "no turn was answered"


@cache
def _dataset_in(folder: str) -> Dataset:
    return open_dataset(Path(folder))


class ChatTask(LiveTask):
    """One turn of a chat. Implements `ktdeval.api.ScoringTask`."""

    mode = "chat_native_live"
    traits = TaskTraits(
        never_ranked="a person steered the model turn by turn: a chat is not a benchmark"
    )

    def __init__(self, name: str, config: LiveConfig) -> None:
        super().__init__(name, config, turn_question(config))

    @cached_property
    def dataset(self) -> Dataset:
        """Data that the chat is about. Raises DataError: they are not there, or have changed."""
        conversation = self._conversation
        if conversation.data is None:
            dataset = embedded_dataset(self._config.data_seed)
        else:
            dataset = _dataset_in(conversation.data)

        found = dataset.info.content_id
        if found != conversation.content_id:
            raise DataError(
                f"{self.name}: the chat is about the dataset {conversation.content_id[:12]}…, and"
                f" the one there is {found[:12]}…: it was changed since; restore it"
            )
        return dataset

    @property
    def _conversation(self) -> ChatHistory:
        assert self._config.conversation is not None
        return self._config.conversation

    def describe(self) -> dict[str, JsonValue]:
        """As of `LiveTask`, without the dataset's folder."""
        described = super().describe()
        conversation = described["conversation"]
        assert isinstance(conversation, dict)
        del conversation["data"]
        return described

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Compute the figures over all records together; pure."""
        asked = [record for record in records if record.provenance != "error"]
        answered = [record for record in asked if record.answer is not None]
        silent = len(asked) - len(answered)
        failed = len(records) - len(asked)
        accepted = _share_accepted(answered)
        calls = [float(_count_of(record, "calls")) for record in answered]
        return {
            "accepted": mean_of_all(
                accepted, silent, failed, self.scores["accepted"], "no call was made"
            ),
            "answered": share_score(len(answered), len(asked), _NO_TURN),
            "calls": mean_of_all(calls, silent, failed, self.scores["calls"], _NO_TURN),
            UNANSWERED: unanswered_score(records, "turns"),
        }


def _share_accepted(answered: Sequence[AnswerRecord]) -> list[float | None]:
    """Return the share of accepted calls of each turn; None of one without calls."""
    shares: list[float | None] = []
    for record in answered:
        calls = _count_of(record, "calls")
        shares.append(_count_of(record, "accepted") / calls if calls else None)

    return shares


def _count_of(record: AnswerRecord, name: str) -> int:
    return int(str(record.scores[name]))
