"""Questions in a probe set: what a scoring task asks about one trading task, without answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator
from msgspec.structs import asdict

from ktdeval.errors import ConfigError, UsageError
from ktdeval.harness import StepCounts
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, choose_windows, make_plan, target_task_of
from ktdeval.task_api import (
    AnswerRecord,
    EpisodeSpec,
    Sample,
    SampleSet,
    ScoringTask,
    TargetTask,
    is_scoring,
)
from ktdeval.values import JsonValue, dumps_canonical, loads_strict, sha256_hex
from ktdeval_deanon.answer import days_off, tickers_of

PAYLOADS, GOLD = "payloads.jsonl", "gold.jsonl"
"""Files of a probe set: what is sent and, separately, the true answers."""

Entry = dict[str, JsonValue]

_OPEN = "```json\n"
_CLOSE = "\n```"
_NOBODY = "builtin/hold"  # plans need a model; questions do not


@dataclass(frozen=True)
class ProbeQuestion:
    """One question in a probe set."""

    spec: EpisodeSpec  #: the episode of the question
    number: int  #: index within the episode, from 0
    samples: SampleSet
    sample: Sample
    payload: Mapping[str, JsonValue]  #: parsed tool results in the question

    @cached_property
    def key(self) -> str:
        """Id of the question, independent of its episode. It is the hash of the question's text,
        which reveals neither the window nor the number.
        """
        return sha256_hex(self.sample.user)[:16]

    def fact(self, name: str) -> str:
        """Return a fact about the sample, such as the true `code` or the true `day` (ISO)."""
        try:
            return str(self.sample.facts[name])
        except KeyError as error:
            raise ConfigError(
                f"sample {self.sample.id}: its facts have no {name!r}; only probes of stock and day"
                " can be certified"
            ) from error

    def record(self, answer: Mapping[str, JsonValue]) -> AnswerRecord:
        """Return a built-in attacker's answer in the form in which the runner records models'
        answers.
        """
        sample = self.sample
        scores = dict(self.samples.score(self.number, answer))
        return AnswerRecord(
            **asdict(StepCounts().record()),
            step=self.number,
            sample=sample.id,
            provenance="model",
            answer=dict(answer),
            facts=dict(sample.facts),
            scores=scores,
        )


@dataclass(frozen=True)
class ProbeSet:
    """A probe set."""

    task: ScoringTask  #: the scoring task that asks the questions
    target_task: TargetTask  #: trading task whose mask is under attack, with its tools
    snapshot: MarketSnapshot
    #: one episode per window, in order; model and agent are placeholders
    specs: tuple[EpisodeSpec, ...]
    all: tuple[ProbeQuestion, ...]  #: the questions in order

    @cached_property
    def period(self) -> range:
        """Rows of the days that may be asked about, from the task's first default window to its
        last, extended by this set's windows.
        """
        windows = [self.task.windows[name] for name in self.task.default_windows]
        windows += [spec.span for spec in self.specs]
        first = min(window.first for window in windows)
        last = max(window.last for window in windows)
        days = self.snapshot.days
        start = int(np.searchsorted(days, np.datetime64(first, "D"), side="left"))
        stop = int(np.searchsorted(days, np.datetime64(last, "D"), side="right"))
        return range(start, stop)

    @cached_property
    def recoveries(self) -> tuple[str, ...]:
        """Scores that record, for each question, whether something was recovered, in the task's
        order.

        Raises ConfigError if answers to these questions have a different form from `blank_answer`.
        """
        question = self.all[0]
        form = question.sample.form
        blank = blank_answer("nothing")
        errors = list(Draft202012Validator(dict(form.parameters)).iter_errors(blank))
        if errors:
            raise ConfigError(
                f"tool {form.name}: its answers lack tickers, date, sector, board, confidence or "
                f"reasoning ({errors[0].message}); only answers with these fields can be certified"
            )

        scores = question.samples.score(question.number, blank)
        found: list[str] = []
        for name in self.task.scores:
            if name in scores and isinstance(scores[name], bool | None):
                found.append(name)

        return tuple(found)

    def of(self, spec: EpisodeSpec) -> list[ProbeQuestion]:
        """Return the questions of one window."""
        return [question for question in self.all if question.spec.span == spec.span]

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Contents of the `PAYLOADS` and `GOLD` files, with one JSON object per line."""
        payloads: list[str] = []
        gold: list[str] = []
        # Sorted by hash, since the original order would reveal the windows.
        for question in sorted(self.all, key=lambda question: question.key):
            sample = question.sample
            shown = {
                "id": question.key,
                "system": sample.system,
                "user": sample.user,
                "form": sample.form.name,
            }
            payloads.append(f"{dumps_canonical(shown)}\n")
            gold.append(f"{dumps_canonical({'id': question.key, **sample.facts})}\n")

        return {PAYLOADS: "".join(payloads), GOLD: "".join(gold)}

    def describe(self) -> dict[str, JsonValue]:
        """Return a certificate's `probes` entry: the number of questions, their windows and boards,
        and the hash of everything that was shown.
        """
        boards: Counter[str] = Counter()
        for question in self.all:
            boards[str(question.sample.facts.get("board", "unknown"))] += 1

        windows: list[JsonValue] = []
        for spec in self.specs:
            span = spec.span
            probes = len(self.of(spec))
            windows.append(
                {"name": span.name, "first": span.first, "last": span.last, "probes": probes}
            )

        first = self.specs[0]
        return {
            "count": len(self.all),
            "seed": first.seed,
            "limit": first.limit,
            "mask_key": first.mask_key,
            "windows": windows,
            "boards": dict(sorted(boards.items())),
            "sha256": sha256_hex(self.files[PAYLOADS]),
        }


def find_scoring_task(name: str, target_task: str, plugins: Plugins) -> ScoringTask:
    """Return the scoring task that asks about a trading task.

    `name`: name of the scoring task; if empty, all installed tasks are searched. Raises UsageError
    if no task, or more than one, asks about the trading task.
    """
    if is_scoring(plugins.make_task(target_task)):
        raise UsageError(
            f"task {target_task} scores answers and has no mask of its own; name the trading task"
            " that it asks about"
        )

    if name:
        task: Any = plugins.make_task(name)
        if not is_scoring(task) or task.target_task != target_task:
            raise UsageError(
                f"task {name} asks nothing about {target_task}; leave out --exam to find one that "
                f"does"
            )

        return task

    tasks: list[Any] = [plugins.make_task(other) for other in plugins.specs("tasks")]
    asking = [task for task in tasks if is_scoring(task) and task.target_task == target_task]
    if not asking:
        raise UsageError(
            f"no task asks about {target_task}; write a probe of your own in a task file"
            " (docs/certificate.md)"
        )

    if len(asking) > 1:
        names = ", ".join(task.name for task in asking)
        raise UsageError(f"several tasks ask about {target_task} ({names}); name one with --exam")

    return asking[0]


@dataclass(frozen=True)
class ProbeChoice:
    """Selection of questions to ask."""

    windows: tuple[str, ...] = ()  #: names, globs or date ranges; the task's own if empty
    seed: int = 0
    #: number of questions per window, counted from the first; None for all
    per_window: int | None = None
    mask_key: str | None = None  #: draws probes and handles; required for a certificate


def open_questions(
    task: ScoringTask, plugins: Plugins, snapshot: MarketSnapshot, choice: ProbeChoice
) -> ProbeSet:
    """Draw a probe set.

    Raises UsageError if a window is unknown or has fewer probes than requested; ConfigError if the
    task has no `target_task`, or its questions contain no payload; DataError if a window lies
    outside the snapshot.
    """
    target_task = target_task_of(task, plugins)
    if target_task is None:
        raise ConfigError(
            f"task {task.name}: has no target task, so there is no mask that it attacks"
        )

    config = RunConfig(
        model=_NOBODY,
        tasks=(task.name,),
        windows=choice.windows,
        seed=choice.seed,
        limit=choice.per_window,
        mask_key=choice.mask_key,
    )
    tasks: Mapping[str, Any] = {task.name: task}
    specs = make_plan(config, plugins, tasks, snapshot, None).specs
    drawn = [task.samples(spec, snapshot, target_task) for spec in specs]

    for spec, samples in zip(specs, drawn, strict=True):
        if choice.per_window is not None and choice.per_window > len(samples):
            raise UsageError(
                f"task {task.name}: {spec.span.name} has {len(samples)} probes, but "
                f"{choice.per_window} were requested"
            )

    # A limit that has no effect is recorded as None.
    if all(len(samples) == choice.per_window for samples in drawn):
        specs = tuple(replace(spec, limit=None) for spec in specs)

    asked: list[ProbeQuestion] = []
    for spec, samples in zip(specs, drawn, strict=True):
        asked_here = len(samples) if spec.limit is None else spec.limit
        for number in range(asked_here):
            sample = samples.sample(number)
            asked.append(ProbeQuestion(spec, number, samples, sample, _payload_of(task, sample)))

    return ProbeSet(task, target_task, snapshot, specs, tuple(asked))


def per_window(task: ScoringTask, windows: Sequence[str], probes: int) -> int:
    """Return the number of probes per window that gives `probes` in total. Raises UsageError if
    `probes` can't be divided evenly among the windows.
    """
    count = len(choose_windows(task, windows))
    if probes % count:
        raise UsageError(
            f"--probes {probes}: not divisible by {count} windows; use"
            f" {max(1, probes // count) * count}"
        )
    return probes // count


def _payload_of(task: ScoringTask, sample: Sample) -> Mapping[str, JsonValue]:
    """Return the JSON object in a question, parsed from the text that is sent. Raises ConfigError
    unless the question contains exactly one.
    """
    before, opened, rest = sample.user.partition(_OPEN)
    text, closed, after = rest.partition(_CLOSE)
    try:
        payload = loads_strict(text)
    except ValueError:
        payload = None

    if not (opened and closed) or _OPEN in before + after or not isinstance(payload, dict):
        raise ConfigError(
            f"task {task.name}: sample {sample.id}: its question must contain exactly one fenced "
            f"JSON object to attack"
        )

    return payload


def blank_answer(reasoning: str) -> dict[str, JsonValue]:
    """Return an empty answer in the form used by the de-anonymization probes."""
    return {
        "tickers": [],
        "date": None,
        "sector": None,
        "board": None,
        "confidence": 0.0,
        "reasoning": reasoning,
    }


def attacker_entry(
    questions: ProbeSet, name: str, records: Sequence[AnswerRecord], facts: Mapping[str, JsonValue]
) -> Entry:
    """Return an attacker's entry in a certificate, with what the attacker recovered.

    `facts`: the attacker's kind and control, and for a model also its card, model, agent and call.
    """
    answers = [record.answer for record in records if record.answer is not None]
    stocks = sum(bool(tickers_of(answer)) for answer in answers)
    days = questions.snapshot.days
    # A distance in days exists only if the answered date lies within the snapshot.
    dates = sum(days_off(answer, days, 0) is not None for answer in answers)
    return {
        "name": name,
        "card": None,
        "model": None,
        "agent": None,
        "call": None,
        **facts,
        "probes": len(records),
        "answered": len(answers),
        "named": {"tickers": stocks, "date": dates},
        "scores": tally(questions, records),
    }


def tally(questions: ProbeSet, records: Sequence[AnswerRecord]) -> dict[str, dict[str, JsonValue]]:
    """Return how often each item was recovered: score -> successes, n and baseline.

    Records without an answer and null scores (the true answer is unknown) don't count.
    """
    summary = questions.task.summarise(records)
    answered = [record for record in records if record.answer is not None]
    tallies: dict[str, dict[str, JsonValue]] = {}

    for name in questions.recoveries:
        known = [record for record in answered if record.scores[name] is not None]
        tallies[name] = {
            "successes": sum(bool(record.scores[name]) for record in known),
            "n": len(known),
            "baseline": summary[name].baseline,
        }

    return tallies
