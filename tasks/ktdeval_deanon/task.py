"""A probe task: config in, exams out, answers summarised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.api import (
    AnswerRecord,
    ConfigError,
    EpisodeSpec,
    JsonValue,
    MarketSnapshot,
    Score,
    ScoreDefinition,
    Subject,
    Window,
    to_mapping,
)
from ktdeval_deanon.answer import ANSWER_FORM
from ktdeval_deanon.brief import prompt_hashes
from ktdeval_deanon.config import MODE, DeanonConfig, load_config, windows_of
from ktdeval_deanon.exam import DeanonExam
from ktdeval_deanon.scores import DEFINITIONS, summarise


class DeanonTask:
    """One variant: a mask, and the trading task that shows it. Implements `ktdeval.api.ScoringTask`.

    Attributes:
        name: what a user types.
        version: of the task family.
        mask: the mask under attack.
        mode: `deanon_probe`.
        tools: none; a probe shows what tools would answer.
        harness: the limits.
        subject: name of the trading task whose scene and tools are shown.
        windows, default_windows: where days are drawn from.
        scores: what `summarise` gives.
    """

    mode: str = MODE
    tools: tuple[str, ...] = ()
    scores: Mapping[str, ScoreDefinition] = DEFINITIONS

    def __init__(self, name: str, config: DeanonConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.harness = config.harness
        self.subject: str | None = config.subject
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self._config = config

    def describe(self) -> Mapping[str, JsonValue]:
        """The whole config, the answer form, and the hashes of the prompts."""
        form = {"name": ANSWER_FORM.name, "description": ANSWER_FORM.description, "parameters": ANSWER_FORM.parameters}
        return {"name": self.name, "mode": self.mode, **to_mapping(self._config), "form": form, "prompts": prompt_hashes()}

    def exam(self, spec: EpisodeSpec, snapshot: MarketSnapshot, subject: Subject | None) -> DeanonExam:
        """The probes of one window and seed.

        Args:
            spec: the window and the seed.
            snapshot: the market.
            subject: the trading task that the config names, with its tools.

        Raises:
            ConfigError: the subject is missing or has another mask, or the window has too few stocks.
            DataError: the window lies outside the snapshot.
        """
        if subject is None:
            raise ConfigError(f"task {self.name}: needs its subject {self.subject!r}, a trading task with research tools")
        if subject.task.mask != self.mask:
            raise ConfigError(
                f"task {self.name}: its mask is {self.mask}, but that of its subject {subject.task.name} is {subject.task.mask};"
                " name a subject of the same mask"
            )
        defaults = [self.windows[name] for name in self.default_windows]
        return DeanonExam(self._config, defaults, spec, snapshot, subject)

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """The recovery rates over all answered probes together; pure."""
        return summarise(records)


def make_task(name: str, config: Mapping[str, Any], where: str) -> DeanonTask:
    """Build a variant from its resolved config.

    Args:
        name: the variant's name.
        config: plain values of the task file.
        where: prefix of error messages.

    Raises:
        ConfigError: the config is not valid.
    """
    return DeanonTask(name, load_config(config, where))
