"""Find the ranked systems that earn significantly more than the index, and those that earn
significantly more than random traders.

Each system's mean daily return is compared with that of each reference. Intervals are simultaneous
over all systems, since some of many systems would otherwise win by chance. The sentence and the
picture of a table both show these figures and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ktdeval.cards import percent
from ktdeval.stats import ExcessIntervals, excess_intervals
from ktdeval_board.ranking.daily_summaries import Vector

_MAX_NAMES = 5


@dataclass(frozen=True)
class Reference:
    """Reference returns that a system may exceed."""

    name: str  #: name as used in a sentence, such as `random traders`
    returns: Vector  #: [days]


@dataclass(frozen=True)
class ReferenceTest:
    """Test of all systems against one reference."""

    reference: Reference
    systems: Sequence[str]  #: labels
    excess: ExcessIntervals

    def winners(self) -> list[str]:
        """Return the labels of the systems that earn significantly more than the reference."""
        above = self.excess.low > 0  # false without an interval
        return [label for label, is_above in zip(self.systems, above, strict=True) if is_above]


def reference_tests(
    systems: Sequence[str], returns: Vector, references: Sequence[Reference], level: float
) -> list[ReferenceTest]:
    """Return a test against each reference; none without systems. `returns`: daily returns, [days,
    systems]; `systems`: their labels.
    """
    if not systems:
        return []

    tests = []
    for reference in references:
        excess = excess_intervals(returns, reference.returns, level)
        tests.append(ReferenceTest(reference, systems, excess))

    return tests


def verdict(tests: Sequence[ReferenceTest]) -> str:
    """Return a sentence on the systems whose mean daily return significantly exceeds that of a
    reference; empty without tests.
    """
    if not tests:
        return ""

    count = len(tests[0].systems)
    better: dict[str, Sequence[str]] = {}
    untested: dict[str, str] = {}
    for test in tests:
        name = test.reference.name
        if test.excess.reason is not None:
            untested[name] = test.excess.reason
        else:
            better[name] = test.winners()

    said = [_words(name, winners, count) for name, winners in better.items()]
    if len(said) > 1 and not any(better.values()):
        said = [_words(" or ".join(better), [], count)]
    said += [f"{name}: not tested, {reason}" for name, reason in untested.items()]
    days = tests[0].excess.days
    level = tests[0].excess.level
    # the test is two-sided, and only the side of higher returns counts as beating
    levels = f"two-sided level of {percent(level, 'g')}, {percent(level / 2, 'g')} one-sided"
    return f"{'; '.join(said)} (mean daily return over {days} days, at a {levels})."


def _words(name: str, winners: Sequence[str], count: int) -> str:
    if not winners:
        return f"No ranked system is shown to beat {name}"

    listed = ", ".join(winners[:_MAX_NAMES])
    if len(winners) > _MAX_NAMES:
        listed += f" and {len(winners) - _MAX_NAMES} more"
    return f"{len(winners)} of {count} beat {name}: {listed}"


def verdict_figures(tests: Sequence[ReferenceTest]) -> str:
    """Return a sentence with the figures and intervals of the system with the highest mean daily
    return; empty if nothing was tested.
    """
    tested = [test for test in tests if test.excess.reason is None]
    if not tested:
        return ""

    # References are the same for all systems, so one system leads against each of them.
    best = int(tested[0].excess.mean.argmax())
    count = len(tested[0].systems)
    said = [_figure_words(test, best) for test in tested]
    label = tested[0].systems[best]
    level = percent(1 - tested[0].excess.level, "g")
    if count == 1:
        return f"{label}: {'; '.join(said)} ({level} intervals)."

    whose = f"highest mean of {count:,} ranked"
    return f"{label}, {whose}: {'; '.join(said)} (simultaneous {level} intervals)."


def _figure_words(test: ReferenceTest, system: int) -> str:
    excess = test.excess
    what = f"{_points(excess.mean[system])} % a day over {test.reference.name}"
    low = excess.low[system]
    if math.isnan(low):
        return f"{what}, no interval: it differs on too few days"

    return f"{what}, {_points(low)} … {_points(excess.high[system])} %"


def _points(share: float) -> str:
    """Return a share in per cent to three decimals, with a sign."""
    return f"{100 * share:+.3f}".replace("-", "−")
