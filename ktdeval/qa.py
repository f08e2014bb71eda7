"""A question-and-answer task in a few lines: samples and a function that scores an answer. It needs no market, window or mask."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from statistics import fmean, stdev
from typing import Any

from ktdeval.contracts.scoring import AnswerRecord, Sample, Score, ScoreDefinition, TargetTask
from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.errors import ConfigError, PluginError
from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.messages import ToolSpec
from ktdeval.hookspecs import Spec
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical, sha256_hex
from ktdeval.masking.lens import UNMASKED
from ktdeval.plugin_import import mismatch
from ktdeval.stats.intervals import Interval, no_interval, wilson

QASample = Mapping[str, JsonValue]
"""`question` is shown; `choices` (texts) limit the answer; `id` names the sample. All else, such as `gold`, is for scoring."""

ScoreValue = float | bool | None
Scorer = Callable[[str, QASample], ScoreValue | Mapping[str, ScoreValue]]
"""`score(answer, sample)`: a number or truth value, or several by name; None where this sample has none."""

LEVEL = 0.95
_SHOWN = ("question", "choices", "id")


class QATask:
    """A scoring task made of questions. Implements `ktdeval.api.ScoringTask`. `score` scores a submitted answer (pure); `scores`
    names the figures that it gives; `name` is what `--tasks` calls the task; raise `version` whenever a change may alter a score:
    it is on every card. A subclass may have another `system` prompt, and names the paper or other origin in `source`. Raises
    ConfigError: there are no samples, one is not a question, `score` is no function, or `scores` are no names.
    """

    mask = None
    mode = None
    tools: tuple[str, ...] = ()
    target_task: str | None = None
    windows: Mapping[str, Window] = {}
    default_windows: tuple[str, ...] = ()
    harness = HarnessConfig()
    system = "Answer the question. Submit your answer with the tool submit_answer, as short as the question allows."
    source = "defined by this task"

    def __init__(
        self,
        samples: Sequence[QASample],
        score: Scorer,
        *,
        name: str,
        version: str = "1",
        summary: str = "Questions and answers",
        scores: Sequence[str] = ("accuracy",),
    ) -> None:
        if not callable(score):
            raise ConfigError(f"task {name}: score: expected a function of answer and sample, was {type(score).__name__}")
        if problem := mismatch(score, ("answer", "sample")):
            raise ConfigError(f"task {name}: score: expected a function of answer and sample: {problem}")
        if isinstance(scores, str) or not scores or not all(isinstance(each, str) and each for each in scores):
            raise ConfigError(f"task {name}: scores: expected names such as ('accuracy',), was {scores!r:.80}")
        self.name, self.version, self.summary = name, version, summary
        formula = "mean over the samples with a valid answer"
        self.scores: Mapping[str, ScoreDefinition] = {
            score_name: ScoreDefinition(formula, "1", (None, None), "higher", self.source) for score_name in scores
        }
        self._samples = tuple(samples or ())
        self._score = score
        _check_samples(self._samples, name)

    def spec(self) -> Spec:
        """Return the task's `Spec` for a plugin's `ktdeval_tasks` hook."""
        return Spec(self.name, lambda: self, self.summary)

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the config as JSON: what can change an outcome, the samples and the prompt by their hashes."""
        return {
            "name": self.name,
            "version": self.version,
            "summary": self.summary,
            "source": self.source,
            "samples": {"count": len(self._samples), "sha256": content_hash(list(self._samples))},
            "prompts": {"system": sha256_hex(self.system)},
            "scores": list(self.scores),
        }

    def samples(self, spec: EpisodeSpec, snapshot: None, target_task: TargetTask | None) -> _Questions:  # noqa: ARG002
        """Return the questions: the same in every episode."""
        return _Questions(self._samples, self._score, self.system, tuple(self.scores))

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the mean of each score over all samples with a valid answer, with its interval; several answers to one sample, as
        of several seeds, count as one, by their mean.
        """
        answered = [record for record in records if record.answer is not None]
        return {name: _mean([(record.sample, record.scores[name]) for record in answered]) for name in self.scores}


class _Questions:
    """Questions of one episode. Implements `ktdeval.api.SampleSet`."""

    def __init__(self, samples: Sequence[QASample], score: Scorer, system: str, names: tuple[str, ...]) -> None:
        self._samples, self._score, self._system, self._names = samples, score, system, names

    def __len__(self) -> int:
        return len(self._samples)

    def sample(self, number: int) -> Sample:
        sample = self._samples[number]
        answer: dict[str, JsonValue] = {"type": "string", "minLength": 1}
        user = str(sample["question"])
        if sample.get("choices"):
            answer["enum"] = list(sample["choices"])
            user += "\n\nAnswer with one of: " + "; ".join(sample["choices"])
        schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"], "additionalProperties": False}
        form = ToolSpec("submit_answer", "Submit the answer to the question.", schema)
        facts = {name: value for name, value in sample.items() if name not in _SHOWN}
        return Sample(str(sample.get("id", number)), UNMASKED, self._system, user, form, facts)

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        result = self._score(answer["answer"], deepcopy(self._samples[number]))  # a copy, which it may change
        scores: dict[str, Any] = dict(result) if isinstance(result, Mapping) else {self._names[0]: result}
        # Comparing with numpy gives its scalars, whose truth values and numbers count as Python's own.
        scores = {name: value.item() if getattr(value, "shape", None) == () else value for name, value in scores.items()}
        if set(scores) != set(self._names):
            gave = ", ".join(map(str, scores)) or "nothing"
            raise PluginError(f"sample {number}: score() gave {gave}, expected {', '.join(self._names)}")
        for name, value in scores.items():
            if not (value is None or (isinstance(value, int | float) and abs(value) <= sys.float_info.max)):
                raise PluginError(
                    f"sample {number}: score {name!r} is {value!r:.80}, expected a finite number, a truth value or None"
                )
        return scores


def _check_samples(samples: Sequence[QASample], name: str) -> None:
    if not samples:
        raise ConfigError(f"task {name}: has no samples")
    identities: set[str] = set()
    for number, sample in enumerate(samples):
        where = f"task {name}: sample {number}"
        if not isinstance(sample, Mapping):
            raise ConfigError(f"{where}: expected a mapping with a question, was {type(sample).__name__}")
        if not isinstance(sample.get("question"), str) or not sample["question"]:
            raise ConfigError(f"{where}: question: expected text")
        try:
            dumps_canonical(dict(sample)).encode()
        except (TypeError, ValueError) as error:  # a lone surrogate is no text, too
            raise ConfigError(f"{where}: not plain JSON: {error}; keep days as text, and sets as lists") from error
        choices = sample.get("choices") or ()
        if not isinstance(choices, list | tuple) or not all(isinstance(choice, str) and choice for choice in choices):
            raise ConfigError(f"{where}: choices: expected a list of texts, none of them empty")
        if len(set(choices)) < len(choices):  # providers refuse such a schema, each call of it
            raise ConfigError(f"{where}: choices: one stands there twice")
        identity = str(sample.get("id", number))
        if identity in identities:
            raise ConfigError(f"{where}: id {identity!r} is that of another sample")
        identities.add(identity)


def _mean(answers: Sequence[tuple[str, ScoreValue]]) -> Score:
    """Return the mean over samples with a 95 % interval: Wilson's for truth values that are all true or all false on each sample,
    else Student's. `answers`: sample and value.
    """
    by_sample: dict[str, list[float | bool]] = {}
    for sample, value in answers:
        if value is not None:
            by_sample.setdefault(sample, []).append(value)
    if not by_sample:
        return Score(None, 0, reason="no sample has a valid answer that can be scored")
    n, means = len(by_sample), [fmean(map(float, values)) for values in by_sample.values()]
    is_share = all(isinstance(value, bool) for values in by_sample.values() for value in values)
    if is_share and {*means} <= {0.0, 1.0}:
        hits = means.count(1.0)
        return Score(hits / n, n, wilson(hits, n, LEVEL), detail={"successes": hits})
    mean = fmean(means)
    if len({*means}) < 2:  # t has nothing to measure chance by
        return Score(mean, n, no_interval("a single sample has no spread" if n < 2 else "all samples have the same figure", n))
    from scipy.special import stdtrit  # noqa: PLC0415 - only where a mean is made

    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * stdev(means) / math.sqrt(n)
    low, high = (max(0.0, mean - half), min(1.0, mean + half)) if is_share else (mean - half, mean + half)
    return Score(mean, n, Interval(low, high, LEVEL, "Student's t over samples", n))
