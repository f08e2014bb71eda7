"""Scores over answered questions, and the sentence that follows from them for each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ktdeval.stats import Interval, studentised_mean, wilson
from ktdeval.task_api import (
    UNANSWERED,
    VERDICT,
    AnswerRecord,
    Score,
    ScoreDefinition,
    unanswered_definition,
    unanswered_score,
)
from ktdeval.values import JsonValue, convert_value, load_yaml
from ktdeval_memory_floor.market_facts import OPTIONS
from ktdeval_memory_floor.questions import KINDS

LEVEL = 0.95
REMEMBERS = "remembers"
COPIED = "copied_probability"
BLIND = {"code": 1.0 / OPTIONS, "month": 0.5, "close": 0.0}
"""Share of right answers of blind guesses, by kind."""
Ends = tuple[float, float]
READS = 0.75  # share of controls that a reader answers right at least
_ANSWERED = 0.8  # share of questions that need an answer before a miss is evidence

_define = partial(
    ScoreDefinition,
    unit="fraction of answers",
    range=(0.0, 1.0),
    better="",
    source="of our own",
    # a question without an answer is not a wrong answer; it is counted as unanswered
    unanswered="left_out",
)

DEFINITIONS: Mapping[str, ScoreDefinition] = {
    **{
        name: _define(**fields)
        for name, fields in load_yaml(Path(__file__).with_name("scores.yaml")).items()
    },
    UNANSWERED: unanswered_definition(),
}
"""Definition of each score, in the order shown."""

SAMPLE_SCORES = tuple(name for name in DEFINITIONS if name != UNANSWERED)
"""Scores that an answer to one question may have."""


@dataclass(frozen=True, slots=True)
class RightAnswers:
    """Right answers among answered questions, and how often guessing is right on them."""

    right: int
    n: int
    asked: int  #: questions, also those without a valid answer
    chance: float

    @property
    def value(self) -> float:
        """Share of right answers."""
        return self.right / self.n

    @property
    def interval(self) -> Interval:
        """Wilson's interval."""
        return wilson(self.right, self.n, LEVEL)

    @property
    def ends(self) -> Ends:
        """Ends of the interval."""
        return _ends(self.interval)


def _words(share: RightAnswers, ends: Ends) -> str:
    """Return count, interval and chance as text."""
    low, high = ends
    asked = f" ({share.asked} asked)" if share.asked > share.n else ""
    clusters = " with months as clusters" if ends != share.ends else ""
    return (
        f"{share.right} of {share.n} right{asked}, interval {100.0 * low:.1f} to"
        f" {100.0 * high:.1f} %{clusters}, guessing {_percent(share.chance)}"
    )


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def _ends(interval: Interval) -> Ends:
    if interval.low is None or interval.high is None:
        raise ValueError("an interval of at least one trial has two ends")
    return interval.low, interval.high


def summarise(records: Sequence[AnswerRecord], *, is_masked: bool) -> dict[str, Score]:
    """Return all scores in `DEFINITIONS` over these records, which may span several windows and
    seeds. A fact that is asked several times counts once, with the first of its answers.
    """
    distinct = _first_of_each(records)
    of_kind: dict[tuple[str, bool], list[AnswerRecord]] = {}
    for record in distinct:
        key = (str(record.facts["kind"]), bool(record.facts["control"]))
        of_kind.setdefault(key, []).append(record)

    scores: dict[str, Score] = {}
    for kind in KINDS:
        asked = of_kind.get((kind, False), [])
        controls = of_kind.get((kind, True), [])
        scores[kind] = _memory_score(kind, asked, controls, is_masked)
        scores[f"{kind}_control"] = _control_score(kind, controls)
        scores[f"{kind}_brier"] = _brier_score(kind, asked)

    scores[COPIED] = _copied_score(distinct)
    scores[UNANSWERED] = unanswered_score(records, "questions")
    return {name: scores[name] for name in DEFINITIONS}


def _first_of_each(records: Sequence[AnswerRecord]) -> list[AnswerRecord]:
    """Return the first answered record of each fact, or the first record if none is answered."""
    first: dict[tuple[JsonValue, ...], AnswerRecord] = {}
    for record in records:
        facts = record.facts
        when = facts.get("day") or facts.get("month")
        key = (facts["kind"], facts["control"], facts["code"], when)
        if key not in first or (first[key].answer is None and record.answer is not None):
            first[key] = record

    return list(first.values())


# ---- right answers


def _share(kind: str, score: str, records: Sequence[AnswerRecord]) -> RightAnswers | None:
    """Return the right answers to questions of a kind; None without an answer."""
    answered = [record for record in records if record.answer is not None]
    if not answered:
        return None

    right = sum(record.scores[score] is True for record in answered)
    return RightAnswers(right, len(answered), len(records), guessing_share(kind, answered))


def guessing_share(kind: str, records: Sequence[AnswerRecord]) -> float:
    """Return the share of these questions that the best guess without a memory gets right.

    code: a choice at random, or of the code that is spelled like the name, whichever is better.
    month: the direction that is more frequent, in the market or among these questions. close: the
    one number that is right for most closes of the market.
    """
    if kind == "code":
        return max(1.0 / OPTIONS, _mean(records, "spelled_share"))
    if kind == "close":
        return _mean(records, "constant_share")

    in_market = _mean(records, "rising_share")
    in_sample = sum(record.facts["right"] == "rise" for record in records) / len(records)
    return max(in_market, 1.0 - in_market, in_sample, 1.0 - in_sample)


def _mean(records: Sequence[AnswerRecord], fact: str) -> float:
    values = [convert_value(record.facts[fact], float) for record in records]
    return math.fsum(values) / len(values)


def _nothing_asked(kind: str, records: Sequence[AnswerRecord]) -> Score:
    """Return the score without a value, with the reason."""
    if records:
        return Score(None, 0, reason="no question of this kind has a valid answer")
    return Score(
        None,
        0,
        reason=f"no question of the kind {kind} was asked; the run was cut short, or the market has"
        f" {_LACKS[kind]}",
    )


_LACKS = {
    "code": "no four companies of one industry with names of their own",
    "month": "no whole month in the window",
    "close": "no close in the window",
}


def _memory_score(
    kind: str,
    records: Sequence[AnswerRecord],
    controls: Sequence[AnswerRecord],
    is_masked: bool,
) -> Score:
    share = _share(kind, kind, records)
    if share is None:
        nothing = _nothing_asked(kind, records)
        return replace(nothing, detail={VERDICT: f"no evidence: {nothing.reason}"})

    answered = [record for record in records if record.answer is not None]
    detail: dict[str, JsonValue] = {"successes": share.right, "asked": share.asked}
    low, high = share.ends
    if kind == "month":
        detail |= _month_detail(answered)
        low, high = _clustered_ends(share, answered)
        detail |= {"clustered_low": low, "clustered_high": high}

    level = 0.0
    if kind == "close":
        level = sum(record.facts["level_is_right"] is True for record in answered) / share.n
        detail["level_share"] = level

    control = _share(kind, f"{kind}_control", controls)
    sentence = verdict(kind, share, (low, high), control, is_masked)
    if kind == "close" and sentence.startswith(REMEMBERS):
        sentence += _level_words(low, level)

    detail[VERDICT] = sentence
    if share.asked > share.n:
        n = share.asked
        bounds = {"n": n, "low": share.right / n, "high": (share.right + n - share.n) / n}
        detail["with_unanswered"] = dict(bounds)

    return Score(share.value, share.n, share.interval, share.chance, detail)


def _control_score(kind: str, controls: Sequence[AnswerRecord]) -> Score:
    share = _share(kind, f"{kind}_control", controls)
    if share is None:
        return _nothing_asked(kind, controls)

    detail: dict[str, JsonValue] = {"successes": share.right, "asked": share.asked}
    return Score(share.value, share.n, share.interval, share.chance, detail)


# ---- months are clusters


def _month_detail(answered: Sequence[AnswerRecord]) -> dict[str, JsonValue]:
    """Return the base rates of the market and of the sample, and how far months count as one."""
    rising = sum(record.facts["right"] == "rise" for record in answered)
    months = {str(record.facts["month"]) for record in answered}
    return {
        "rising_in_market": _mean(answered, "rising_share"),
        "rising_in_sample": rising / len(answered),
        "months": len(months),
        "design_effect": design_effect(answered),
    }


def design_effect(answered: Sequence[AnswerRecord]) -> float:
    """Return by how much the variance of right answers may exceed that of independent questions
    (Kish 1965): 1 + (m - 1) rho, at least 1.

    Assets rise and fall together. A model that answers by the month alone, whatever the asset, is
    right or wrong for most assets of a month at once. m is the mean number of questions of a
    question's month, and rho the share of the variance of directions that lies between months.
    """
    shares: dict[str, float] = {}
    counts: dict[str, int] = {}
    for record in answered:
        month = str(record.facts["month"])
        shares[month] = convert_value(record.facts["rising_share_of_month"], float)
        counts[month] = counts.get(month, 0) + 1

    n = len(answered)
    mean = math.fsum(shares[month] * count for month, count in counts.items()) / n
    if not 0.0 < mean < 1.0:
        return 1.0

    between = math.fsum(count * (shares[month] - mean) ** 2 for month, count in counts.items()) / n
    together = sum(count * count for count in counts.values()) / n
    return max(1.0, 1.0 + (together - 1.0) * between / (mean * (1.0 - mean)))


def _clustered_ends(share: RightAnswers, answered: Sequence[AnswerRecord]) -> Ends:
    """Return the ends of Wilson's interval for as many independent questions as the months are
    worth.
    """
    n = max(1, math.floor(share.n / design_effect(answered)))
    low, _ = _ends(wilson(math.floor(share.value * n), n, LEVEL))
    _, high = _ends(wilson(math.ceil(share.value * n), n, LEVEL))
    return low, high


# ---- the sentence


def verdict(
    kind: str, share: RightAnswers, ends: Ends, control: RightAnswers | None, is_masked: bool
) -> str:
    """Return what right answers show. `ends`: of the interval that counts.

    A memory is claimed only if the lower end lies above guessing and the controls are read. A miss
    is evidence only if the controls are read and most questions are answered.
    """
    words = _words(share, ends)
    if control is None:
        return f"no evidence: no control was answered; {words}"
    if not reads(control):
        problem = "too few controls to tell reading from guessing"
        if control.value < READS:
            problem = "the control was failed"

        return f"no evidence: {problem}, {_words(control, control.ends)}; questions: {words}"

    low, high = ends
    read = f"control: {control.right} of {control.n}"
    if low > share.chance:
        found = "above guessing behind the mask" if is_masked else REMEMBERS
        return f"{found}: {words}; {read}"

    if share.n < _ANSWERED * share.asked:
        return f"no evidence: too few questions were answered; {words}"

    blind = BLIND[kind]
    bound = max(0.0, (high - blind) / (1.0 - blind))
    return (
        f"not above guessing: {words}; the interval allows a memory of at most {_percent(bound)} of"
        f" these facts if the others are guessed blindly; {read}"
    )


def _level_words(low: float, level: float) -> str:
    """Return what a memory of price levels alone would give, for closes that are remembered."""
    answer = f"the median close of each asset would be right in {_percent(level)}"
    if low > level:
        return f"; more than levels of prices: {answer}"
    return f"; levels of prices may be all that is remembered: {answer}"


def reads(control: RightAnswers) -> bool:
    """Return whether a model reads: at least three in four of its controls are right, and more than
    guessing explains.
    """
    return control.value >= READS and control.ends[0] > control.chance


# ---- probabilities


def _brier_score(kind: str, records: Sequence[AnswerRecord]) -> Score:
    answered = [record for record in records if record.answer is not None]
    if not answered:
        return _nothing_asked(kind, records)

    values = [convert_value(record.scores[f"{kind}_brier"], float) for record in answered]
    value = math.fsum(values) / len(values)
    chance = guessing_share(kind, answered)
    return Score(value, len(values), _mean_interval(values), chance * (1.0 - chance))


def _mean_interval(values: Sequence[float]) -> Interval:
    return studentised_mean(np.array(values), "Brier scores", level=LEVEL, bounds=(0.0, 1.0))


def _copied_score(records: Sequence[AnswerRecord]) -> Score:
    answered = [record for record in records if record.answer is not None]
    if not answered:
        return Score(None, 0, reason="no question has a valid answer")

    copied = sum(record.scores[COPIED] is True for record in answered)
    n = len(answered)
    return Score(copied / n, n, wilson(copied, n, LEVEL), detail={"successes": copied})
