"""Unmasked probes of the same windows as a probe set, and what an attacker reads off them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ktdeval.contracts import AnswerRecord, is_scoring
from ktdeval.errors import ConfigError
from ktdeval.registry import Plugins
from ktdeval_deanon.answer import days_off
from ktdeval_deanon.certificate.questions import Entry, ProbeChoice, Questions, blank_answer, open_questions

BRIGHT = "bright"
_DEFAULT_CONTROL = "deanon_probe_bright"
_SCORE_OF = {"stock": "ticker_top1", "industry": "sector"}  # the score that says the same, and whose chance is known


def open_control(questions: Questions, plugins: Plugins, choice: ProbeChoice) -> Questions:
    """Return the unmasked questions of the same windows, as many in each; of a task without a mask, its own.

    Raises ConfigError: the control that the scoring task names is masked, or asks another number of probes in a window.
    """
    task = questions.task
    if task.mask == BRIGHT:
        return questions
    name = getattr(task, "control", "") or _DEFAULT_CONTROL
    control_task: Any = plugins.make_task(name)
    if not is_scoring(control_task) or control_task.mask != BRIGHT:
        raise ConfigError(
            f"task {task.name}: its control {name} is no scoring task without a mask; name one, such as {_DEFAULT_CONTROL}"
        )
    control = open_questions(control_task, plugins, questions.snapshot, choice)
    asked, shown = ([(spec.span, len(one.of(spec))) for spec in one.specs] for one in (questions, control))
    if asked != shown:
        raise ConfigError(
            f"task {task.name}: its control {name} asks other numbers of probes, or of other windows; give both the "
            "same windows and probes_per_window"
        )
    return control


def control_tally(control: Questions, records: Sequence[AnswerRecord]) -> dict[str, Entry]:
    """Return by what was to be read: successes, n and baseline over all unmasked probes. No valid answer has read nothing."""
    rows = {str(day): row for row, day in enumerate(control.snapshot.days)}
    true_rows = [rows[question.fact("day")] for question in control.all]
    stocks = [bool(record.scores.get("ticker_top1")) for record in records]
    days = [
        record.answer is not None and days_off(record.answer, control.snapshot.days, row) == 0
        for record, row in zip(records, true_rows, strict=True)
    ]
    known = [index for index, question in enumerate(control.all) if question.sample.facts.get("sector") is not None]
    read = {
        "stock": stocks,
        "day": days,
        "stock_and_day": [stock and day for stock, day in zip(stocks, days, strict=True)],
        "industry": [bool(records[index].scores.get("sector")) for index in known],
    }
    chances = _baselines(control, known)
    return {
        name: {"successes": sum(hits), "n": len(hits), "baseline": chances[name] if hits else None} for name, hits in read.items()
    }


def _baselines(control: Questions, known: Sequence[int]) -> dict[str, float]:
    """Return the share that chance or the best constant answer reads, whichever is more."""
    blank = [question.record(blank_answer("nothing")) for question in control.all]
    summary = control.task.summarise(blank)
    pairs = [(question.fact("code"), question.fact("day")) for question in control.all]
    constant = {
        "stock": _largest_share([code for code, _ in pairs]),
        "day": _largest_share([day for _, day in pairs]),
        "stock_and_day": _largest_share(pairs),
        "industry": _largest_share([control.all[index].fact("sector") for index in known]),
    }
    for name, score in _SCORE_OF.items():
        chance = summary[score].baseline if score in summary else None
        constant[name] = max(constant[name], chance or 0.0)
    return constant


def _largest_share(values: Sequence[Any]) -> float:
    """Return the share of the most common value; 0 without values."""
    return max(Counter(values).values(), default=0) / max(len(values), 1)
