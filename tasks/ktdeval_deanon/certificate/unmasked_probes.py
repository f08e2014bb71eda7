"""Unmasked probes for the same windows as a probe set, and what an attacker reads from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ktdeval.errors import ConfigError
from ktdeval.registry import Plugins
from ktdeval.task_api import AnswerRecord, Window, is_scoring, task_traits
from ktdeval_deanon.answer import days_off
from ktdeval_deanon.certificate.questions import (
    Entry,
    ProbeChoice,
    ProbeQuestion,
    ProbeSet,
    blank_answer,
    open_questions,
)

BRIGHT = "bright"
_DEFAULT_CONTROL = "deanon_probe_bright"
# Item to read -> the score that measures the same thing and has a known chance level
_SCORE_OF = {"stock": "ticker_top1", "industry": "sector"}


def open_control(questions: ProbeSet, plugins: Plugins, choice: ProbeChoice) -> ProbeSet:
    """Return the unmasked questions for the same windows, with the same number in each. For a task
    without a mask, these are its own questions.

    Raises ConfigError if the control that the scoring task names is masked, or asks a different
    number of probes in a window.
    """
    task = questions.task
    if task.mask == BRIGHT:
        return questions

    name = task_traits(task).control or _DEFAULT_CONTROL
    control_task: Any = plugins.make_task(name)
    if not is_scoring(control_task) or control_task.mask != BRIGHT:
        raise ConfigError(
            f"task {task.name}: its control {name} is not a scoring task without a mask; name one,"
            f" such as {_DEFAULT_CONTROL}"
        )

    control = open_questions(control_task, plugins, questions.snapshot, choice)
    if _probes_by_window(questions) != _probes_by_window(control):
        raise ConfigError(
            f"task {task.name}: its control {name} has different windows or numbers of probes; "
            f"give both tasks the same windows and probes_per_window"
        )

    return control


def _probes_by_window(questions: ProbeSet) -> list[tuple[Window, int]]:
    return [(spec.span, len(questions.of(spec))) for spec in questions.specs]


def control_tally(control: ProbeSet, records: Sequence[AnswerRecord]) -> dict[str, Entry]:
    """Return successes, n and baseline over all unmasked probes, for each item to be read.

    A probe without a valid answer is a failure.
    """
    hits: dict[str, list[bool]] = {"stock": [], "day": [], "stock_and_day": [], "industry": []}
    for question, record in zip(control.all, records, strict=True):
        stock = bool(record.scores.get("ticker_top1"))
        day = _names_the_day(control, question, record)
        hits["stock"].append(stock)
        hits["day"].append(day)
        hits["stock_and_day"].append(stock and day)
        if _has_sector(question):
            hits["industry"].append(bool(record.scores.get("sector")))

    chances = _baselines(control)
    tallies: dict[str, Entry] = {}
    for name, read in hits.items():
        baseline = chances[name] if read else None
        tallies[name] = {"successes": sum(read), "n": len(read), "baseline": baseline}

    return tallies


def _names_the_day(control: ProbeSet, question: ProbeQuestion, record: AnswerRecord) -> bool:
    """Return whether an answer names the exact day of its question."""
    if record.answer is None:
        return False

    days = control.snapshot.days
    row = int(np.searchsorted(days, np.datetime64(question.fact("day"), "D")))
    return days_off(record.answer, days, row) == 0


def _has_sector(question: ProbeQuestion) -> bool:
    """Return whether the data give an industry for the stock in a question."""
    return question.sample.facts.get("sector") is not None


def _baselines(control: ProbeSet) -> dict[str, float]:
    """Return, for each item, the fraction that chance or the best constant answer would read,
    whichever is larger.
    """
    # Empty answers have no hits, but their summary contains the chance levels.
    blank = [question.record(blank_answer("nothing")) for question in control.all]
    summary = control.task.summarise(blank)
    pairs = [(question.fact("code"), question.fact("day")) for question in control.all]
    sectors = [question.fact("sector") for question in control.all if _has_sector(question)]
    constant = {
        "stock": _largest_share([code for code, _ in pairs]),
        "day": _largest_share([day for _, day in pairs]),
        "stock_and_day": _largest_share(pairs),
        "industry": _largest_share(sectors),
    }

    for name, score in _SCORE_OF.items():
        chance = summary[score].baseline if score in summary else None
        constant[name] = max(constant[name], chance or 0.0)

    return constant


def _largest_share(values: Sequence[Hashable]) -> float:
    """Return the relative frequency of the most common value; 0 without values."""
    if not values:
        return 0.0

    [(_, most)] = Counter(values).most_common(1)
    return most / len(values)
