"""Task for one chat turn."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.task_api import TaskTraits
from ktdeval.values import JsonValue
from ktdeval_qfinzero.chat.question import turn_question
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.live.tool_use_config import ChatHistory, LiveConfig
from ktdeval_qfinzero.live.tool_use_task import LiveTask
from ktdeval_qfinzero.suite.samples import embedded_dataset


@cache
def _dataset_in(folder: str) -> Dataset:
    return open_dataset(Path(folder))


class ChatTask(LiveTask):
    """One chat turn. Implements `ktdeval.api.ScoringTask`."""

    mode = "chat_native_live"
    traits = TaskTraits(
        never_ranked="a person steered the model turn by turn: a chat is not a benchmark"
    )

    def __init__(self, name: str, config: LiveConfig) -> None:
        super().__init__(name, config, turn_question(config))

    @cached_property
    def dataset(self) -> Dataset:
        """Data that the chat is about. Raises DataError if the data are missing or have changed."""
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
        """Return the description from `LiveTask.describe`, without the dataset's folder."""
        described = super().describe()
        conversation = described["conversation"]
        assert isinstance(conversation, dict)
        del conversation["data"]
        return described
