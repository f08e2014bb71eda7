"""What a scoring card must agree on with itself beyond ids and totals: its episodes' counts, and each score with its own detail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ktdeval.cards.identity import Problem
from ktdeval.jsonio import JsonValue
from ktdeval.stats.proportions import clopper_pearson_upper, wilson

Entry = Mapping[str, JsonValue]

_TOLERANCE = 1e-9
"""Relative: quantiles of two versions of SciPy may differ in their last digits."""


def scoring_problem(card: Entry) -> Problem | None:
    """The first count or score that contradicts the rest of the card."""
    return next(_episode_problems(card), None) or next(_score_problems(card), None)


def _episode_problems(card: Entry) -> Iterator[Problem]:
    limit = card["limit"]
    for field in ("episodes", "missing_episodes"):
        for place, episode in enumerate(card[field]):
            if limit is not None and episode["steps"] > limit:
                yield (field, place, "steps"), f"the limit is {limit}"
    for place, episode in enumerate(card["episodes"]):
        decisions = episode["decisions"]
        if sum(decisions.values()) != episode["steps"]:
            yield ("episodes", place, "decisions"), f"the episode has {episode['steps']} steps, each with one decision"
        if episode["answered"] > decisions["model"] + decisions["model_after_retry"]:
            yield ("episodes", place, "answered"), "more answers than steps that the model decided"


def _score_problems(card: Entry) -> Iterator[Problem]:
    if sorted(card["score_order"]) != sorted(card["scores"]):
        yield ("score_order",), "must name every score once, and nothing else"
    steps = sum(episode["steps"] for episode in card["episodes"])
    for name, score in card["scores"].items():
        for field, problem in (*_range_problems(score, steps), *_proportion_problems(score)):
            yield ("scores", name, *field), problem


def _range_problems(score: Entry, steps: int) -> Iterator[Problem]:
    if score["n"] > steps:
        yield ("n",), f"the finished episodes have {steps} samples"
    low, high = score["range"]
    for field in ("value", "baseline"):
        value = score[field]
        if value is not None and not (-math.inf if low is None else low) <= value <= (math.inf if high is None else high):
            yield (field,), f"lies outside the score's range {low} … {high}"


def _proportion_problems(score: Entry) -> Iterator[Problem]:
    """Of a share of successes, everything follows from their number: value, Wilson's interval, the exact bound."""
    detail, n = score["detail"], score["n"]
    successes = detail.get("successes")
    if score["value"] is None or type(successes) is not int:
        return
    if not 0 <= successes <= n or n == 0:
        yield ("detail", "successes"), f"of {n} trials"
        return
    if score["value"] != successes / n:
        yield ("value",), f"recorded {score['value']}, {successes} successes of {n} are {successes / n}"
    interval = score["interval"]
    if interval is not None and interval["kind"] == "Wilson score":
        expected = wilson(successes, n, interval.get("level", 0.95))
        for end, value in (("low", expected.low), ("high", expected.high)):
            if not _is_close(interval[end], value):
                yield ("interval", end), f"recorded {interval[end]}, {successes} successes of {n} give {value}"
    upper = detail.get("upper_95")
    if upper is not None and not _is_close(upper, expected_upper := clopper_pearson_upper(successes, n)):
        yield ("detail", "upper_95"), f"recorded {upper}, {successes} successes of {n} give {expected_upper}"


def _is_close(recorded: JsonValue, expected: float | None) -> bool:
    if expected is None or type(recorded) not in (int, float):
        return recorded is expected
    return math.isclose(recorded, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
