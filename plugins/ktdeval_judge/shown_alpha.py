"""Alpha as it is read: at a year's pace only once the account's returns span a year."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from ktdeval.stats import yearly_return_problem
from ktdeval_judge.document import Figure, JudgeFile


@dataclass(frozen=True)
class ShownAlpha:
    """Return that the benchmark does not explain, as a fraction."""

    name: str  #: `Alpha a year`, or `Alpha, 60 days`
    figure: Figure
    no_year: str  #: why it is not at a year's pace; empty if it is


def shown_alpha(file: JudgeFile, alpha: Figure) -> ShownAlpha:
    """Return the recorded alpha, a fraction a year, as it is shown: with less than a year of
    returns it is over these returns (`ktdeval.stats.yearly_return_problem`).
    """
    yearly = ShownAlpha("Alpha a year", alpha, "")
    if alpha.value is None or file.returns is None or file.returns_a_year is None:
        return yearly

    problem = yearly_return_problem(file.returns, file.returns_a_year)
    if problem is None:
        return yearly

    share = file.returns / file.returns_a_year
    plain = replace(alpha, value=alpha.value * share)
    if alpha.low is not None and alpha.high is not None:
        plain = replace(plain, low=alpha.low * share, high=alpha.high * share)
    return ShownAlpha(f"Alpha, {file.returns} returns", plain, problem)
