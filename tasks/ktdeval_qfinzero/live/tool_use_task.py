"""Task of one question that calls answer: config in, the question out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ktdeval.task_api import EpisodeSpec, TargetTask, Window
from ktdeval.values import JsonValue, to_mapping
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.live.score_summary import read_definitions
from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.live.tool_use_question import LiveQuestion, LiveSamples
from ktdeval_qfinzero.suite.prompt_texts import tool_hashes
from ktdeval_qfinzero.suite.samples import embedded_dataset


class LiveTask:
    """Common parts of a turn of a chat and a traded session. A subclass implements
    `ktdeval.api.ScoringTask`: it has `mode`, and summarises the figures.
    """

    tools: tuple[str, ...] = ()  # none; the sample brings its own
    target_task: str | None = None
    mask = None
    mode: str
    windows: Mapping[str, Window] = {}
    default_windows: tuple[str, ...] = ()

    def __init__(self, name: str, config: LiveConfig, question: LiveQuestion) -> None:
        self.name = name
        self.version = config.version
        self.harness = config.harness
        self.scores = read_definitions(question.folder / "scores.yaml")
        self._config = config
        self._question = question

    @cached_property
    def dataset(self) -> Dataset:
        """Data that the question is about."""
        return embedded_dataset(self._config.data_seed)

    def describe(self) -> dict[str, JsonValue]:
        """Whole config without what belongs to the other kind of question, the form, and hashes of
        prompts and tools.
        """
        plain = to_mapping(self._config)
        form = self._question.form
        return {
            "name": self.name,
            "mode": self.mode,
            **{name: value for name, value in plain.items() if value is not None},
            "form": {"name": form.name, "parameters": form.parameters},
            "prompts": self._question.prompt_hashes(),
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
