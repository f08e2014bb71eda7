"""A task of the suite: its config, its samples, and the summary of its answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ktdeval.task_api import (
    AnswerRecord,
    EpisodeSpec,
    Score,
    ScoreDefinition,
    TargetTask,
    TaskTraits,
    Window,
)
from ktdeval.values import JsonValue, to_mapping
from ktdeval_qfinzero.scoring.sample_files import source_name
from ktdeval_qfinzero.suite.config import SuiteConfig
from ktdeval_qfinzero.suite.environment import answer_form
from ktdeval_qfinzero.suite.prompt_texts import prompt_hashes, tool_hashes
from ktdeval_qfinzero.suite.samples import SampleMaterial, SuiteSamples, open_material
from ktdeval_qfinzero.suite.scores import definitions, summarise


class SuiteTask:
    """One variant. Implements `ktdeval.api.ScoringTask`. `opened` provides the questions when they
    are first needed.
    """

    tools: tuple[str, ...] = ()  # none, since samples have their own
    target_task: str | None = None
    mask = None
    windows: Mapping[str, Window] = {}
    default_windows: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        config: SuiteConfig,
        opened: Callable[[SuiteConfig], SampleMaterial] = open_material,
    ) -> None:
        self.name = name
        self.version = config.version
        self.mode = f"{config.suite}_{config.calls}_{config.execution}"
        self.harness = config.harness
        self.scores: Mapping[str, ScoreDefinition] = definitions(config)
        self.traits = TaskTraits(usual_tool_calls=self._usual_tool_calls)
        self._config = config
        self._opened = opened

    @cached_property
    def material(self) -> SampleMaterial:
        """Questions of the variant."""
        return self._opened(self._config)

    def _usual_tool_calls(self) -> int:
        """Average number of expected calls, rounded up; 0 if calls are written as text."""
        if self._config.calls == "text":
            return 0
        expected = [len(question.task.calls) for question in self.material.questions]
        return math.ceil(sum(expected) / len(expected))

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config (for a file of tasks, only its name), the form, and the hashes of
        questions, data, prompts and tools.
        """
        config = self._config
        form = answer_form(self._config.calls)
        plain = dict(to_mapping(config))
        plain.pop("wordings")  # the material describes them: name, hash and model
        return {
            "name": self.name,
            "mode": self.mode,
            **plain,
            "tasks_file": None if config.tasks_file is None else source_name(config.tasks_file),
            "form": {
                "name": form.name,
                "description": form.description,
                "parameters": form.parameters,
            },
            "material": dict(self.material.described),
            "prompts": prompt_hashes(),
            "service_tools": tool_hashes(),
        }

    def samples(
        self,
        spec: EpisodeSpec,  # noqa: ARG002
        snapshot: None,  # noqa: ARG002
        target_task: TargetTask | None,  # noqa: ARG002
    ) -> SuiteSamples:
        """Return the questions, which are the same for every seed."""
        return SuiteSamples(self._config, self.material)

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the scores over all records together. Pure."""
        return summarise(records, self._config)
