"""Answers to questions whose form has an answer and its probability, by rules: the first choice, a
random choice, or what is remembered.

The words of a question are lines `key: value`; a table that it shows follows after an empty line in
the same form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from ktdeval.harness import ModelRequest, ToolSpec, as_object
from ktdeval.values import JsonValue
from ktdeval_models.params import MemoryParams
from ktdeval_models.remembered_facts import RememberedFacts, uniform_of

_ASKED = frozenset({"answer", "probability"})
_LINE = re.compile(r"^([^:\n]+): (\S.*)$", re.MULTILINE)
_NAMED = re.compile(r" \(.*\)$")
_RISE, _FALL = "rise", "fall"
_MOST = 2.0  # random numbers lie between 1 and ten to this power


def question_form(request: ModelRequest) -> ToolSpec | None:
    """Return the form of a question that a request asks; None if it asks for something else."""
    for tool in request.tools:
        fields = as_object(tool.parameters.get("properties"))
        if fields.keys() == _ASKED:
            return tool

    return None


def _choices(form: ToolSpec) -> Sequence[str]:
    """Return the answers that a form allows; empty if the answer is a number."""
    fields = as_object(form.parameters.get("properties"))
    choices = as_object(fields.get("answer")).get("enum", ())
    return [str(choice) for choice in choices]


def first_answer(form: ToolSpec) -> dict[str, JsonValue]:
    """Return the first choice, with the probability of any choice. A number is 0."""
    choices = _choices(form)
    if not choices:
        return {"answer": 0.0, "probability": 0.0}
    return {"answer": choices[0], "probability": 1.0 / len(choices)}


def random_answer(form: ToolSpec, chance: np.random.Generator) -> dict[str, JsonValue]:
    """Return a random choice, with the probability of any choice. A number is drawn from 1 to 100,
    each factor alike.
    """
    choices = _choices(form)
    if not choices:
        number = float(10.0 ** chance.uniform(0.0, _MOST))
        return {"answer": round(number, 2), "probability": 0.1}

    index = int(chance.integers(len(choices)))
    return {"answer": choices[index], "probability": 1.0 / len(choices)}


# ---- a model that remembers


def remembered_answer(
    request: ModelRequest, form: ToolSpec, params: MemoryParams, facts: RememberedFacts
) -> dict[str, JsonValue]:
    """Return what the question shows, else what is remembered, else a guess. Only true codes and
    dates are recognised.
    """
    text = _question(request)
    asked, _, shown = text.partition("\n\n")
    lines = dict(_LINE.findall(asked))
    choices = _choices(form)
    answer = _read(lines, dict(_LINE.findall(shown)), choices)
    if answer is None and not params.invents and params.keyed_by != "date":
        answer = _recall_answer(lines, choices, facts)
    if answer is not None:
        return {"answer": answer, "probability": 1.0}

    draw = uniform_of(params.seed, "guess", text)
    if not choices:
        return {"answer": round(10.0 ** (_MOST * draw), 2), "probability": 0.1}

    guess = choices[int(draw * len(choices))]
    return {"answer": guess, "probability": 1.0 / len(choices)}


def _question(request: ModelRequest) -> str:
    """Return the latest message of a user."""
    for message in reversed(request.messages):
        if message.role == "user":
            return message.content

    return ""


def _read(lines: Mapping[str, str], shown: Mapping[str, str], choices: Sequence[str]) -> JsonValue:
    """Return the answer that the table below a question shows; None if there is none."""
    if "close of the day" in shown:
        return float(shown["close of the day"])

    before = shown.get("last close before the month")
    if before is not None:
        rises = float(shown["last close of the month"]) > float(before)
        return _RISE if rises else _FALL

    asked = lines.get("company") or lines.get("asset in the other list")
    for choice in choices:
        code = lines.get(choice, "")
        if asked is not None and shown.get(code) == asked:
            return choice

    return None


def _recall_answer(
    lines: Mapping[str, str], choices: Sequence[str], facts: RememberedFacts
) -> JsonValue:
    """Return the answer that is remembered; None if it is not."""
    if "company" in lines:
        return _recall_code(lines, choices, facts)

    code = _NAMED.sub("", lines.get("asset", ""))
    asset = facts.market.asset_index.get(code)
    if asset is None:
        return None
    if "day" in lines:
        row = facts.row_of(lines["day"])
        return None if row is None else _recall_close(facts, asset, row)
    if "month" in lines:
        return _recall_direction(facts, asset, lines["month"])

    return None


def _recall_code(
    lines: Mapping[str, str], choices: Sequence[str], facts: RememberedFacts
) -> str | None:
    """Return the choice of the company's code, if its first fact is remembered."""
    market = facts.market
    for choice in choices:
        code = lines.get(choice, "")
        asset = market.asset_index.get(code)
        if asset is not None and market.names[asset] == lines["company"]:
            return choice if facts.is_remembered(code)[0] else None

    return None


def _recall_close(facts: RememberedFacts, asset: int, row: int) -> float | None:
    """Return a close with the error of a remembered fact; None if the fact is not remembered."""
    code = facts.market.codes[asset]
    if row > facts.last_row or not facts.is_remembered(code)[row]:
        return None

    close = float(facts.market.close[row, asset])
    if not np.isfinite(close):
        return None
    return max(0.0, close * (1.0 + facts.error_of(code, row)))


def _recall_direction(facts: RememberedFacts, asset: int, month: str) -> str | None:
    """Return the direction of a month such as `October 2024`, if its end is remembered."""
    try:
        first = datetime.strptime(month, "%B %Y").date()
    except ValueError:  # the label of a masked day
        return None

    market = facts.market
    of_month = market.days.astype("datetime64[M]")
    start = int(np.searchsorted(of_month, np.datetime64(first, "M")))
    stop = int(np.searchsorted(of_month, np.datetime64(first, "M"), side="right"))
    if start == 0 or start == stop:
        return None

    end = _recall_close(facts, asset, stop - 1)
    before: Any = market.close[start - 1, asset]
    if end is None:
        return None
    return _RISE if end > before else _FALL
