"""Recovery rates over answered probes, each with its interval, its exact bound, and the chance
level on the same probes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ktdeval.stats import clopper_pearson_upper, poisson_binomial, wilson
from ktdeval.task_api import (
    VERDICT,
    AnswerRecord,
    Score,
    ScoreDefinition,
    unanswered_detail,
)
from ktdeval.values import JsonValue, convert_value, load_yaml

LEVEL = 0.95
UNPARSABLE = "unparsable_rate"
IN_LABELS = "label_rate"
STOCK_IN_LABELS = "stock_in_labels"
SECTOR_IN_LABELS = "sector_in_labels"
LEFT_OUT_BY: Mapping[str, str] = {
    "ticker_top1": STOCK_IN_LABELS,
    "ticker_top5": STOCK_IN_LABELS,
    "joint": STOCK_IN_LABELS,
    "sector": SECTOR_IN_LABELS,
}
"""Score -> mark of an answer that makes no attempt at it: it names the item by the mask's labels."""

_SOURCE = "KTD-Fin, section 4.3 and Appendix K"
_define = partial(
    ScoreDefinition,
    unit="fraction of answers",
    range=(0.0, 1.0),
    better="lower",
    source=_SOURCE,
    headline=True,
    # an unanswered probe is neither a miss for the attacker nor a success for the mask
    unanswered="left_out",
)

DEFINITIONS: Mapping[str, ScoreDefinition] = {
    name: _define(**fields)
    for name, fields in load_yaml(Path(__file__).with_name("scores.yaml")).items()
}
"""What each score means, in the order shown."""


def _board_members(facts: Mapping[str, Any]) -> int:
    return int(facts["members"][facts["board"]])


def _near(margin: int, facts: Mapping[str, Any]) -> float:
    return float(facts["near_days"][str(margin)] / facts["period_days"])


_CHANCES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "ticker_top1": lambda facts: min(1.0, 1 / _board_members(facts)),
    "ticker_top5": lambda facts: min(1.0, 5 / _board_members(facts)),
    "board": lambda _: 1.0,
    "sector": lambda facts: facts["sector_members"] / _board_members(facts),
    "date_within_5": partial(_near, 5),
    "date_within_20": partial(_near, 20),
    "date_within_60": partial(_near, 60),
    "joint": lambda facts: min(1.0, 5 / _board_members(facts)) * _near(5, facts),
}


def chance_of(name: str, facts: Mapping[str, JsonValue]) -> float:
    """Return the probability that a random guess scores on one item (any score except
    `unparsable_rate` and `label_rate`) for a probe with these facts.

    The guesser knows the day's index members and the board, which is shown. It draws its codes from
    the members on the board, and takes the industry of a member drawn in the same way. Its date is
    a random trading day of the period, independent of the codes.
    """
    return _CHANCES[name](facts)


def summarise(records: Sequence[AnswerRecord]) -> dict[str, Score]:
    """Return all scores in `DEFINITIONS` over these records, which may span several windows and
    seeds.
    """
    answered = [record for record in records if record.answer is not None]
    silent = len(records) - len(answered)
    return {
        **{name: _recovery(name, answered, silent) for name in _CHANCES},
        UNPARSABLE: _unparsable(records),
        IN_LABELS: _label_rate(answered),
    }


def _recovery(name: str, answered: Sequence[AnswerRecord], silent: int) -> Score:
    """Return one recovery rate with its breakdown.

    A probe whose gold answer is missing from the data (null score) doesn't count. The `silent`
    probes, which have no valid answer, and answers in the mask's own labels do not enter the rate;
    the detail gives the rate over all probes if they had all missed, and if they had all hit.
    """
    scored = [record for record in answered if record.scores[name] is not None]
    labelled = _count_marks(LEFT_OUT_BY.get(name, ""), answered)
    if not scored:
        reason = "the data contain no gold answer for any probe"
        if labelled:
            reason = "every answer is a label of the mask, which is not an attempt"
        elif not answered:
            reason = "no probe has a valid answer"

        return Score(None, 0, reason=reason)

    hits = sum(bool(record.scores[name]) for record in scored)
    chances = [chance_of(name, record.facts) for record in scored]
    detail: dict[str, JsonValue] = {
        "successes": hits,
        "upper_95": clopper_pearson_upper(hits, len(scored), LEVEL),
        "p_value": min(1.0, float(poisson_binomial(chances)[hits:].sum())),
        "by_window": _by_stratum("window", name, scored),
        "by_board": _by_stratum("board", name, scored),
    }
    missing = silent + labelled
    if missing:
        n = len(scored) + missing
        detail["with_unanswered"] = {"n": n, "low": hits / n, "high": (hits + missing) / n}

    if name == "ticker_top1":
        confidences: list[float] = []
        for record in scored:
            if record.answer:
                confidences.append(convert_value(record.answer["confidence"], float))

        detail["mean_confidence"] = math.fsum(confidences) / len(scored)

    if name == "sector":
        largest: list[float] = []
        for record in scored:
            industry = convert_value(record.facts["largest_sector"], int)
            largest.append(industry / _board_members(record.facts))

        detail["always_the_largest"] = math.fsum(largest) / len(largest)

    return Score(
        hits / len(scored),
        len(scored),
        wilson(hits, len(scored), LEVEL),
        math.fsum(chances) / len(chances),
        detail,
    )


def _by_stratum(key: str, name: str, scored: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
    """Return the rate in each window or board, with its interval and its chance level."""
    rates: dict[str, JsonValue] = {}
    by_stratum: dict[str, list[AnswerRecord]] = {}
    for record in scored:
        by_stratum.setdefault(str(record.facts[key]), []).append(record)

    for stratum, records in sorted(by_stratum.items()):
        n = len(records)
        hits = sum(bool(record.scores[name]) for record in records)
        interval = wilson(hits, n, LEVEL)
        chance = math.fsum(chance_of(name, record.facts) for record in records) / n
        ends = {"low": interval.low, "high": interval.high}
        rates[stratum] = {"n": n, "successes": hits, "value": hits / n, **ends, "baseline": chance}

    return rates


def _count_marks(mark: str, answered: Sequence[AnswerRecord]) -> int:
    """Return how many answers have a mark."""
    return sum(record.scores.get(mark) is True for record in answered)


def _label_rate(answered: Sequence[AnswerRecord]) -> Score:
    """Return the fraction of valid answers that name stock or industry by the mask's own labels."""
    if not answered:
        return Score(None, 0, reason="no probe has a valid answer")

    stocks = _count_marks(STOCK_IN_LABELS, answered)
    sectors = _count_marks(SECTOR_IN_LABELS, answered)
    either = sum(
        record.scores.get(STOCK_IN_LABELS) is True or record.scores.get(SECTOR_IN_LABELS) is True
        for record in answered
    )
    n = len(answered)
    detail: dict[str, JsonValue] = {
        "successes": either,
        "upper_95": clopper_pearson_upper(either, n, LEVEL),
        "stock": stocks,
        "industry": sectors,
    }
    if either:
        detail[VERDICT] = (
            f"of {n:,} answers, {stocks:,} name the stock and {sectors:,} the industry by the mask's"
            " own labels; these are not attempts, and the rates leave them out"
        )

    return Score(either / n, n, wilson(either, n, LEVEL), detail=detail)


def _unparsable(records: Sequence[AnswerRecord]) -> Score:
    """Return the fraction of probes without a valid answer, with their number by cause: an invalid
    form (`fallback`) or a failed call (`error`).
    """
    if not records:
        return Score(None, 0, reason="there are no probes")

    missing = unanswered_detail(records)
    count = convert_value(missing["count"], int)
    n = len(records)
    detail: dict[str, JsonValue] = {
        "successes": count,
        "upper_95": clopper_pearson_upper(count, n, LEVEL),
        "by_provenance": missing["by_provenance"],
    }
    return Score(count / n, n, wilson(count, n, LEVEL), detail=detail)
