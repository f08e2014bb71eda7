"""Task with one question answered by tool calls, made from a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ktdeval.task_api import (
    UNANSWERED,
    AnswerRecord,
    EpisodeSpec,
    Score,
    TargetTask,
    Window,
    unanswered_score,
)
from ktdeval.values import JsonValue, from_plain, to_mapping
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.live.score_summary import mean_of_all, share_score
from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.live.tool_use_question import LiveQuestion, LiveSamples
from ktdeval_qfinzero.suite.prompt_texts import prompt_hashes, tool_hashes
from ktdeval_qfinzero.suite.samples import embedded_dataset
from ktdeval_qfinzero.suite.score_definitions import read_scores


class LiveTask:
    """Common parts of a chat turn and a trading session. Subclasses, which have a `mode`, implement
    `ktdeval.api.ScoringTask`.
    """

    tools: tuple[str, ...] = ()  # none, since the sample has its own
    target_task: str | None = None
    mask = None
    mode: str
    windows: Mapping[str, Window] = {}
    default_windows: tuple[str, ...] = ()

    def __init__(self, name: str, config: LiveConfig, question: LiveQuestion) -> None:
        self.name = name
        self.version = config.version
        self.harness = config.harness
        self.scores = read_scores(question.folder).define()
        self._config = config
        self._question = question

    @cached_property
    def dataset(self) -> Dataset:
        """Data that the question is about."""
        return embedded_dataset(self._config.data_seed)

    def describe(self) -> dict[str, JsonValue]:
        """Return the whole config without the fields of the other kind of question, the form, and
        the hashes of prompts and tools.
        """
        plain = to_mapping(self._config)
        form = self._question.form
        return {
            "name": self.name,
            "mode": self.mode,
            **{name: value for name, value in plain.items() if value is not None},
            "form": {"name": form.name, "parameters": form.parameters},
            "prompts": prompt_hashes(self._question.folder),
            "service_tools": tool_hashes(),
        }

    def samples(
        self,
        spec: EpisodeSpec,  # noqa: ARG002
        snapshot: None,  # noqa: ARG002
        target_task: TargetTask | None,  # noqa: ARG002
    ) -> LiveSamples:
        """Return the question."""
        return LiveSamples(self.name, self._question, self.dataset)

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Compute the figures over all records together. Pure. Scores whose `of` is answers that
        follow the task treat other answers as missing.
        """
        question = self._question
        file = read_scores(question.folder)
        asked = [record for record in records if record.provenance != "error"]
        answered = [
            from_plain(dict(record.scores), question.earned_type, self.name)
            for record in asked
            if record.answer is not None
        ]
        followed = [each for each in answered if not each.problem]
        summary: dict[str, Score] = {UNANSWERED: unanswered_score(records, file.asked)}
        for name, row in file.scores.items():
            of = followed if row.of == "followed" else answered
            if row.is_share:
                summary[name] = share_score(len(of), len(asked), file.nothing)
            elif name != UNANSWERED:
                summary[name] = mean_of_all(
                    [each.figure(name) for each in of],
                    len(asked) - len(of),
                    len(records) - len(asked),
                    self.scores[name],
                    row.undefined or (file.undefined if of else file.nothing),
                )

        return {name: summary[name] for name in file.scores}
