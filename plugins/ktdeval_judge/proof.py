"""One rule for all doors of `judge`: when a Sharpe ratio is evidence of skill.

It is evidence if three things hold. The probability that the true ratio is above its bar (one-sided)
reaches the required confidence. No interval of a result that is shown (two-sided) includes zero.
Nothing puts the data in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ktdeval_judge.document import JudgeFile
from ktdeval_judge.printed_figure import JudgedFigure

Ends = tuple[float | None, float | None]
_RESULTS: Mapping[str, str] = {
    "executed_return": "the return",
    "claimed_return": "the claimed return",
    "sharpe": "the Sharpe ratio",
    "excess_sharpe": "the information ratio",
    "alpha_a_year": "alpha",
    "selection": "selection",
}
"""Field of a judgement with an interval -> its name in a sentence."""
_LOOK_AHEAD = "the fills are at a price that nobody can trade at"


def objections(intervals: Mapping[str, Ends], doubts: Iterable[str] = ()) -> Iterator[str]:
    """Yield what keeps a ratio from being evidence, whatever its probability: intervals (by the
    name of their figure) that include zero, and doubts about the data.
    """
    holding = []
    for name, (low, high) in intervals.items():
        if low is not None and high is not None and low <= 0 <= high:
            holding.append(name)
    if holding:
        verb = "includes" if len(holding) == 1 else "include"
        noun = "interval" if len(holding) == 1 else "intervals"
        yield f"the two-sided 95 % {noun} of {_listed(holding)} {verb} zero"
    yield from doubts


def file_objections(file: JudgeFile, found: JudgedFigure, is_look_ahead: bool) -> list[str]:
    """Return what keeps a judged file from being evidence. Of a ratio without a bootstrap interval,
    the interval of its standard error counts.
    """
    intervals = {}
    for field, name in _RESULTS.items():
        figure = getattr(file, field)
        if figure is not None and not _is_claim_of_executed(file, field):
            intervals[name] = (figure.low, figure.high)
    if file.sharpe.low is None:
        intervals[_RESULTS["sharpe"]] = found.interval

    doubts = list(file.doubts)
    if is_look_ahead:
        doubts.append(_LOOK_AHEAD)
    if file.stale is not None and file.stale.is_large:
        doubts.append(file.stale.words)
    return list(objections(intervals, doubts))


def _is_claim_of_executed(file: JudgeFile, field: str) -> bool:
    """Return whether a field is a claim that the executed return replaces."""
    return field == "claimed_return" and file.executed_return is not None


def returns_for_evidence(found: JudgedFigure) -> float | None:
    """Return the number of returns after which a ratio of this size would be evidence: its
    probability is high enough and its interval above zero. None if never.
    """
    record = found.luck.track_record
    if record is None:
        return None
    # documents of earlier versions have no `interval_days`
    return max(record, found.interval_days or 0.0)


def _listed(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
