"""Task of the memory floor: its config, the questions of an episode, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ktdeval.errors import ConfigError, DataError
from ktdeval.harness import HarnessConfig
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import Lens
from ktdeval.task_api import (
    AnswerRecord,
    EpisodeSpec,
    Sample,
    Score,
    ScoreDefinition,
    TargetTask,
    TaskConfig,
    TaskTraits,
    Window,
    windows_of,
)
from ktdeval.values import JsonValue, convert_value, option, to_mapping
from ktdeval_memory_floor.findings import DEFINITIONS, SAMPLE_SCORES, summarise
from ktdeval_memory_floor.market_facts import is_close_right
from ktdeval_memory_floor.questions import (
    FORMS,
    QuestionWriter,
    draw_questions,
    is_copied,
    prompt_hashes,
    prompt_text,
    question_facts,
)


@dataclass(frozen=True, kw_only=True)
class MemoryFloorConfig(TaskConfig):
    """One variant of the memory floor."""

    mask: Literal["bright", "blinded"] = option(
        help="bright: true names and dates; blinded: the same questions through the mask"
    )
    questions: int = option(
        100, help="questions of each kind in a window, fewer if it has fewer facts", minimum=1
    )
    controls: int = option(
        40, help="how many of them are asked again with the answer in the prompt", minimum=1
    )
    harness: HarnessConfig = option(
        HarnessConfig(), help="budgets of a question; only schema_retries has an effect"
    )

    def check(self, where: str) -> None:
        """Raise ConfigError if values are incompatible."""
        super().check(where)
        if self.controls > self.questions:
            raise ConfigError(
                f"{where}: controls is {self.controls}, but a control repeats one of the"
                f" {self.questions} questions; lower controls or raise questions"
            )


class MemoryFloorQuestions:
    """Questions of one window and seed. Pure: equal arguments give equal bytes.

    The mask key determines which facts are asked. Each mask has its own facts, since a question
    with true names would give away the answer to the same question behind the mask. Raises
    DataError if the window lies outside the snapshot, or if nothing can be asked about it.
    """

    def __init__(
        self, config: MemoryFloorConfig, spec: EpisodeSpec, snapshot: MarketSnapshot
    ) -> None:
        self._rows = window_rows(snapshot.days, spec.span.first, spec.span.last)
        counts = (config.questions, config.controls)
        seed = spec.hidden_seed("questions")
        self.questions, self._chances = draw_questions(snapshot, self._rows, counts, seed)
        if not self.questions:
            raise DataError(
                f"window {spec.span.name}: {snapshot.meta.name} has no fact to ask about in it;"
                " choose a longer one by --windows FIRST:LAST"
            )

        self._snapshot = snapshot
        self._window = spec.span.name
        self._writer = QuestionWriter(snapshot, config.mask, spec.mask_seed)
        # A question is written when it is asked and again when it is scored; a mask takes time.
        self._written: tuple[int, Lens, str] | None = None

    def __len__(self) -> int:
        """Return the number of questions, with their controls."""
        return len(self.questions)

    def sample(self, number: int) -> Sample:
        """Return one question as a model receives it."""
        question = self.questions[number]
        lens, user = self._write(number)
        form = FORMS[question.kind]
        return Sample(question.id, lens, prompt_text("system"), user, form, self.facts(number))

    def _write(self, number: int) -> tuple[Lens, str]:
        """Return the mask and the words of a question."""
        if self._written is None or self._written[0] != number:
            question = self.questions[number]
            lens = self._writer.lens(question)
            self._written = (number, lens, self._writer.text(question, lens))

        return self._written[1:]

    def facts(self, number: int) -> dict[str, JsonValue]:
        """Return the fact, the right answer and the chance of a question."""
        question = self.questions[number]
        facts = question_facts(self._snapshot, question, self._chances, self._rows)
        return {**facts, "window": self._window}

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return whether an answer is right, its Brier score, and whether its probability is a
        figure of the prompt. Scores of other kinds are null.
        """
        question = self.questions[number]
        right = self.facts(number)["right"]
        is_right = answer["answer"] == right
        if question.kind == "close":
            given = convert_value(answer["answer"], float)
            is_right = is_close_right(given, convert_value(right, float))

        probability = convert_value(answer["probability"], float)
        _, text = self._write(number)
        scores: dict[str, JsonValue] = dict.fromkeys(SAMPLE_SCORES)
        scores["copied_probability"] = is_copied(probability, text)
        if question.is_control:
            scores[f"{question.kind}_control"] = is_right
        else:
            scores[question.kind] = is_right
            scores[f"{question.kind}_brier"] = (probability - is_right) ** 2

        return scores


class MemoryFloorTask:
    """One variant of the memory floor. Implements `ktdeval.api.ScoringTask`."""

    mode: str = "memory_floor"
    tools: tuple[str, ...] = ()
    target_task: str | None = None
    traits = TaskTraits(
        never_ranked="it measures what a model remembers of a market, not what it can do"
    )
    scores: Mapping[str, ScoreDefinition] = DEFINITIONS

    def __init__(self, name: str, config: MemoryFloorConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: Literal["bright", "blinded"] = config.mask
        self.harness = config.harness
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self._config = config

    @cached_property
    def _description(self) -> dict[str, JsonValue]:
        forms: dict[str, JsonValue] = {}
        for kind, form in FORMS.items():
            forms[kind] = {
                "name": form.name,
                "description": form.description,
                "parameters": dict(form.parameters),
            }

        return {"forms": forms, "prompts": dict(prompt_hashes())}

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config, with the forms of answers and the hashes of the prompts."""
        return {
            "name": self.name,
            "mode": self.mode,
            **to_mapping(self._config),
            **self._description,
        }

    def samples(
        self,
        spec: EpisodeSpec,
        snapshot: MarketSnapshot,
        target_task: TargetTask | None,  # noqa: ARG002 - it asks about no other task
    ) -> MemoryFloorQuestions:
        """Return the questions of one window and seed. Raises DataError if the window lies outside
        the snapshot or has no fact to ask about.
        """
        return MemoryFloorQuestions(self._config, spec, snapshot)

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the scores over all answered questions, with a finding for each kind. Pure."""
        return summarise(records, is_masked=self.mask != "bright")
