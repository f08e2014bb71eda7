"""Question-and-answer tasks in a few lines of code: samples, and a function that scores an answer.

Such tasks need no market, window or mask.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from statistics import fmean, stdev
from typing import Any, Literal, get_args

from ktdeval.errors import ConfigError, PluginError
from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.hookspecs import Spec
from ktdeval.masking.lens import UNMASKED
from ktdeval.stats.distributions import student_quantile
from ktdeval.stats.intervals import Interval, no_interval, wilson
from ktdeval.stats.metric import range_problem
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.scoring import AnswerRecord, Sample, Score, ScoreDefinition, TargetTask
from ktdeval.task_api.unanswered import (
    UNANSWERED,
    unanswered_definition,
    unanswered_score,
    with_bounds,
)
from ktdeval.values.documents.strict_json import JsonValue, Schema, dumps_canonical
from ktdeval.values.hashes import content_hash, sha256_hex
from ktdeval.values.options.rules import mismatch

QASample = Mapping[str, JsonValue]
"""Sample of a task: `question` is shown to the model, `choices` (strings) limit the answer, and
`id` identifies the sample.

All other fields, such as `gold`, are used only for scoring.
"""

ScoreValue = float | bool | None
Scorer = Callable[[str, QASample], ScoreValue | Mapping[str, ScoreValue]]
"""`score(answer, sample)` returns a number or truth value, a mapping of several by name, or None
without a score.
"""

Answers = Literal["call", "text"]
"""How answers may be given: only by calling the tool submit_answer, or also as plain text."""

LEVEL = 0.95
_SHOWN = ("question", "choices", "id")


class QATask:
    """Scoring task made of questions. Implements `ktdeval.api.ScoringTask`.

    `score` is a pure function that scores a submitted answer. `scores` names the figures that it
    returns, which are truth values or numbers from 0 to 1, where higher is better. To define other
    scores, pass a mapping from names to `ScoreDefinition`s. A sample without a valid answer gets
    the worst figure in each score. The additional score `unanswered` is the fraction of such
    samples.

    `name` is the task's name in `--tasks`. `version` is shown on every card, and must be raised
    whenever a change may alter a score. A subclass may set a different `system` prompt, name the
    paper or other origin in `source`, and accept plain-text replies as answers with `answers =
    "text"`.

    Raises ConfigError if no samples are given, if a sample is not a question, if `score` is not a
    suitable function, or if `scores` are not names.

    Example:
        QATask([{"question": "What is 2 + 3?", "gold": "5"}], score, name="sums")
    """

    mask = None
    mode = None
    tools: tuple[str, ...] = ()
    target_task: str | None = None
    windows: Mapping[str, Window] = {}
    default_windows: tuple[str, ...] = ()
    harness = HarnessConfig()
    system = (
        "Answer the question. Submit your answer with the tool submit_answer, as short as the"
        " question allows."
    )
    source = "defined by this task"
    answers: Answers = "call"

    def __init__(
        self,
        samples: Sequence[QASample],
        score: Scorer,
        *,
        name: str,
        version: str = "1",
        summary: str = "Questions and answers",
        scores: Sequence[str] | Mapping[str, ScoreDefinition] = ("accuracy",),
    ) -> None:
        if not callable(score):
            raise ConfigError(
                f"task {name}: score: expected a function of answer and sample, was"
                f" {type(score).__name__}"
            )

        problem = mismatch(score, ("answer", "sample"))
        if problem:
            raise ConfigError(
                f"task {name}: score: expected a function of answer and sample: {problem}"
            )

        # A string is also a sequence of strings, and ("accuracy") is a common mistake for
        # ("accuracy",).
        if isinstance(scores, str) or not scores or not _are_texts(scores):
            raise ConfigError(
                f"task {name}: scores: expected names such as ('accuracy',), was {scores!r:.80}"
            )

        if self.answers not in get_args(Answers):
            raise ConfigError(
                f"task {name}: answers: expected one of {', '.join(get_args(Answers))}, was"
                f" {self.answers!r:.80}"
            )

        self.name = name
        self.version = version
        self.summary = summary
        if UNANSWERED in scores:
            raise ConfigError(
                f"task {name}: scores: {UNANSWERED!r} counts samples without an answer in every"
                " task; choose another name"
            )

        self._scored: Mapping[str, ScoreDefinition] = _score_definitions(scores, self.source, name)
        self.scores: Mapping[str, ScoreDefinition] = {
            **self._scored,
            UNANSWERED: unanswered_definition(),
        }
        self._samples = tuple(samples or ())
        self._score = score
        _check_samples(self._samples, name)

    def spec(self) -> Spec:
        """Return the task's `Spec`, for a plugin's `ktdeval_tasks` hook."""
        return Spec(self.name, lambda: self, self.summary)

    def describe(self) -> Mapping[str, JsonValue]:
        """Return everything that can change an outcome as JSON.

        Samples and prompts are represented by their hashes.
        """
        description: dict[str, JsonValue] = {
            "name": self.name,
            "version": self.version,
            "summary": self.summary,
            "source": self.source,
            "samples": {"count": len(self._samples), "sha256": content_hash(list(self._samples))},
            "prompts": {"system": sha256_hex(self.system)},
            "scores": {
                name: _plain_definition(definition) for name, definition in self._scored.items()
            },
        }
        if self.answers != "call":
            description["answers"] = self.answers

        return description

    def samples(
        self,
        spec: EpisodeSpec,  # noqa: ARG002
        snapshot: None,  # noqa: ARG002
        target_task: TargetTask | None,  # noqa: ARG002
    ) -> _EpisodeQuestions:
        """Return the questions, which are the same in every episode."""
        questions = _EpisodeQuestions(self._samples, self._score, self.system, self._scored)
        if self.answers == "text":
            questions.text_field = "answer"

        return questions

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the mean of each score over the samples, with its interval, and the fraction of
        samples without a valid answer.

        A sample without a valid answer gets the worst figure. If a model call failed, its answer is
        missing, and the detail of the score contains bounds. If a sample has several answers, for
        example with several seeds, their mean counts once.
        """
        summary: dict[str, Score] = {}
        for name, definition in self._scored.items():
            summary[name] = _score_summary(records, name, definition)

        return {**summary, UNANSWERED: unanswered_score(records)}


def _score_definitions(
    scores: Sequence[str] | Mapping[str, ScoreDefinition], source: str, task: str
) -> dict[str, ScoreDefinition]:
    """Return the definition of each score. Scores that are given only by name are fractions."""
    formula = "mean over samples; one without a valid answer counts as the worst figure"
    share = ScoreDefinition(formula, "1", (0.0, 1.0), "higher", source)
    if not isinstance(scores, Mapping):
        return dict.fromkeys(scores, share)

    for name, definition in scores.items():
        if not isinstance(definition, ScoreDefinition):
            raise ConfigError(
                f"task {task}: scores: {name}: expected a ScoreDefinition, was"
                f" {type(definition).__name__}"
            )

    return dict(scores)


def _plain_definition(definition: ScoreDefinition) -> JsonValue:
    """Return the parts of a definition that affect results."""
    return {
        "better": definition.better,
        "range": list(definition.range),
        "unanswered": definition.unanswered,
    }


def _are_texts(values: Iterable[object]) -> bool:
    """Return whether all values are non-empty strings."""
    return all(isinstance(value, str) and value for value in values)


def _score_summary(
    records: Sequence[AnswerRecord], name: str, definition: ScoreDefinition
) -> Score:
    """Return the mean of one score over the samples in the records."""
    worst: float | bool | None = definition.worst
    if worst is not None and tuple(definition.range) == (0.0, 1.0):
        worst = bool(worst)  # a boolean, so that the values remain hits and misses

    silent = 0
    known: list[tuple[str, ScoreValue]] = []
    figures: list[tuple[str, float | None]] = []
    for record in records:
        if record.provenance == "error":
            figures.append((record.sample, None))
            continue

        value = worst
        if record.answer is not None:
            value = _answer_score(record, name)
        elif worst is None:
            silent += 1

        if value is not None:
            known.append((record.sample, value))
            figures.append((record.sample, float(value)))

    if silent and definition.unanswered == "worst":
        return Score(
            None,
            0,
            reason=(
                f"{silent} of {len(records)} samples have no valid answer, and the score has no"
                " worst figure: its definition names no direction, or no end of its range"
            ),
        )

    return with_bounds(_mean_over_samples(known), figures, definition.range)


def _answer_score(record: AnswerRecord, name: str) -> ScoreValue:
    """Return one score of an answer; None if the score is undefined for this answer."""
    value = record.scores[name]
    if isinstance(value, bool | int | float):
        return value
    return None


def _python_scalar(value: Any) -> Any:
    """Convert a numpy scalar, such as the result of a comparison, to a Python scalar."""
    is_numpy_scalar = getattr(value, "shape", None) == ()
    return value.item() if is_numpy_scalar else value


def _choices(sample: QASample) -> list[str]:
    """Return the answers that a sample permits; empty if it permits any text."""
    choices = sample.get("choices")
    if not isinstance(choices, list | tuple):
        return []
    return [str(choice) for choice in choices]


class _EpisodeQuestions:
    """Questions of one episode. Implements `ktdeval.api.SampleSet`."""

    text_field = ""  #: field of the form that is filled from a plain-text reply

    def __init__(
        self,
        samples: Sequence[QASample],
        score: Scorer,
        system: str,
        scored: Mapping[str, ScoreDefinition],
    ) -> None:
        self._samples = samples
        self._score = score
        self._system = system
        self._scored = scored

    def __len__(self) -> int:
        return len(self._samples)

    def sample(self, number: int) -> Sample:
        sample = self._samples[number]
        answer: Schema = {"type": "string", "minLength": 1}
        user = str(sample["question"])

        choices = _choices(sample)
        if choices:
            answer["enum"] = choices
            user += "\n\nAnswer with one of: " + "; ".join(choices)

        schema: Schema = {
            "type": "object",
            "properties": {"answer": answer},
            "required": ["answer"],
            "additionalProperties": False,
        }
        form = ToolSpec("submit_answer", "Submit the answer to the question.", schema)
        facts = {name: value for name, value in sample.items() if name not in _SHOWN}

        identity = str(sample.get("id", number))
        return Sample(
            identity,
            UNMASKED,
            self._system,
            user,
            form,
            facts,
            text_field=self.text_field,
        )

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        # a copy, since the author's function may change it
        sample = deepcopy(self._samples[number])
        result = self._score(str(answer["answer"]), sample)
        given: Mapping[str, ScoreValue]
        if isinstance(result, Mapping):
            given = result
        else:
            given = {next(iter(self._scored)): result}

        scores = {name: _python_scalar(value) for name, value in given.items()}
        if set(scores) != set(self._scored):
            gave = ", ".join(map(str, scores)) or "nothing"
            raise PluginError(
                f"sample {number}: score() gave {gave}, expected {', '.join(self._scored)}"
            )

        for name, value in scores.items():
            is_finite = isinstance(value, int | float) and abs(value) <= sys.float_info.max
            if value is not None and not is_finite:
                raise PluginError(
                    f"sample {number}: score {name!r} is {value!r:.80}, expected a finite number, a"
                    " truth value or None"
                )

            figure = None if value is None else float(value)
            problem = range_problem(figure, self._scored[name].range)
            if problem:
                raise PluginError(
                    f"sample {number}: score {name!r}: {problem}; declare its range:"
                    f" scores={{{name!r}: ScoreDefinition(formula, unit, (least, most), better,"
                    " source)}"
                )

        return scores


def _check_samples(samples: Sequence[QASample], name: str) -> None:
    if not samples:
        raise ConfigError(f"task {name}: has no samples")

    identities: set[str] = set()
    for number, sample in enumerate(samples):
        where = f"task {name}: sample {number}"
        if not isinstance(sample, Mapping):
            raise ConfigError(
                f"{where}: expected a mapping with a question, was {type(sample).__name__}"
            )
        if not isinstance(sample.get("question"), str) or not sample["question"]:
            raise ConfigError(f"{where}: question: expected text")

        try:
            # `encode` fails on a lone surrogate, which JSON text may contain but UTF-8 may not
            dumps_canonical(dict(sample)).encode()
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{where}: not plain JSON: {error}; keep days as text, and sets as lists"
            ) from error

        choices = sample.get("choices") or ()
        if not isinstance(choices, list | tuple) or not _are_texts(choices):
            raise ConfigError(f"{where}: choices: expected a list of texts, none of them empty")
        if len(set(choices)) < len(choices):  # providers refuse schemas with repeated choices
            raise ConfigError(f"{where}: choices: a value appears twice")

        identity = str(sample.get("id", number))
        if identity in identities:
            raise ConfigError(f"{where}: id {identity!r} is also that of another sample")

        identities.add(identity)


def _mean_over_samples(answers: Sequence[tuple[str, ScoreValue]]) -> Score:
    """Return the mean over samples with a 95 % interval. `answers`: pairs of sample and value.

    The interval is Wilson's if the answers to each sample are either all true or all false;
    otherwise, it is based on Student's t.
    """
    by_sample: dict[str, list[float | bool]] = {}
    for sample, value in answers:
        if value is not None:
            by_sample.setdefault(sample, []).append(value)

    if not by_sample:
        return Score(None, 0, reason="no sample has an answer that can be scored")

    n = len(by_sample)
    means = [fmean(map(float, values)) for values in by_sample.values()]
    all_values = chain.from_iterable(by_sample.values())
    is_share = all(isinstance(value, bool) for value in all_values)

    if is_share and set(means) <= {0.0, 1.0}:
        hits = means.count(1.0)
        return Score(hits / n, n, wilson(hits, n, LEVEL), detail={"successes": hits})

    mean = fmean(means)
    if len(set(means)) < 2:  # without spread, Student's t interval would have zero width
        reason = "all samples have the same figure"
        if n < 2:
            reason = "a single sample has no spread"

        return Score(mean, n, no_interval(reason, n))

    half = student_quantile(n - 1, (1 + LEVEL) / 2) * stdev(means) / math.sqrt(n)
    low = mean - half
    high = mean + half
    if is_share:
        low = max(0.0, low)
        high = min(1.0, high)

    return Score(mean, n, Interval(low, high, LEVEL, "Student's t over samples", n))
