"""A task of the suite: config in, exams out, answers summarised."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ktdeval.api import (
    AnswerRecord,
    EpisodeSpec,
    JsonValue,
    Lens,
    MarketSnapshot,
    MaskConfig,
    Score,
    ScoreDefinition,
    Subject,
    Window,
    to_mapping,
)
from ktdeval_qfinzero.suite.brief import prompt_hashes, tool_hashes
from ktdeval_qfinzero.suite.config import SuiteConfig, load_config, windows_of
from ktdeval_qfinzero.suite.exam import SuiteExam
from ktdeval_qfinzero.suite.form import answer_form
from ktdeval_qfinzero.suite.material import Material, open_material
from ktdeval_qfinzero.suite.scores import definitions, summarise


class SuiteTask:
    """One variant. Implements `ktdeval.api.ScoringTask`. The data are opened when they are first needed.

    Args:
        name: what a user types.
        config: the variant.
        opened: gives what is asked.

    Attributes:
        name: what a user types.
        version: of the task family.
        mask: `bright`.
        mode: such as `calling_native_dry`.
        tools: none; samples bring their own.
        harness: the limits.
        subject: none.
        windows, default_windows: for the runner; questions do not depend on them.
        scores: what `summarise` gives.
    """

    tools: tuple[str, ...] = ()
    subject: str | None = None

    def __init__(self, name: str, config: SuiteConfig, opened: Callable[[SuiteConfig], Material] = open_material) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.mode = f"{config.suite}_{config.calls}_{config.execution}"
        self.harness = config.harness
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self.scores: Mapping[str, ScoreDefinition] = definitions(config)
        self._config = config
        self._opened = opened

    @cached_property
    def material(self) -> Material:
        """What is asked."""
        return self._opened(self._config)

    @property
    def usual_tool_calls(self) -> int:
        """Calls that an answer takes, on average and rounded up; none where they are written down."""
        if self._config.calls == "text":
            return 0
        expected = [len(question.task.calls) for question in self.material.questions]
        return math.ceil(sum(expected) / len(expected))

    def describe(self) -> Mapping[str, JsonValue]:
        """The whole config (of a file of tasks its name alone), the form, and hashes of questions, data, prompts and tools."""
        config, form = self._config, answer_form(self._config.calls)
        return {
            "name": self.name,
            "mode": self.mode,
            **to_mapping(config),
            "tasks_file": None if config.tasks_file is None else Path(config.tasks_file).name,
            "form": {"name": form.name, "description": form.description, "parameters": form.parameters},
            "material": dict(self.material.described),
            "prompts": prompt_hashes(),
            "service_tools": tool_hashes(),
        }

    def exam(self, spec: EpisodeSpec, snapshot: MarketSnapshot, subject: Subject | None) -> SuiteExam:  # noqa: ARG002 - has none
        """The questions; the same for every window and seed.

        Args:
            spec: the episode.
            snapshot: the runner's market, of which nothing is shown.
            subject: none.
        """
        return SuiteExam(self._config, self.material, Lens(MaskConfig(self._config.mask), spec.mask_seed, snapshot, 0))

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """The scores over all records together; pure."""
        return summarise(records, self._config)


def make_task(name: str, config: Mapping[str, Any], where: str) -> SuiteTask:
    """Build a variant from its resolved config.

    Args:
        name: the variant's name.
        config: plain values of the task file.
        where: prefix of error messages.

    Raises:
        ConfigError: the config is not valid.
    """
    return SuiteTask(name, load_config(config, where))
