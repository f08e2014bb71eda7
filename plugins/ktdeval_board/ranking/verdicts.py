"""Find the ranked systems that earn significantly more than the index, and those that earn
significantly more than random traders.

Each system is paired with each reference, and the model confidence set in `tie_groups` tests
whether both could be the best. Holm's correction covers all systems, since some of many systems
would otherwise win by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktdeval.cards import percent
from ktdeval.stats import holm, tie_groups
from ktdeval_board.ranking.daily_summaries import Vector

_MAX_NAMES = 5


@dataclass(frozen=True)
class Reference:
    """Reference returns that a system may exceed."""

    name: str  #: name as used in a sentence, such as `random traders`
    returns: Vector  #: [days]


def verdict(systems: Mapping[str, Vector], references: Sequence[Reference], level: float) -> str:
    """Return a sentence on the systems whose mean daily return significantly exceeds a reference;
    empty without systems or references. `systems` contains [days] returns, keyed by label.
    """
    better: dict[str, Sequence[str]] = {}
    untested: dict[str, str] = {}
    for reference in references:
        p_values: list[float | None] = []
        for returns in systems.values():
            ties = tie_groups(np.column_stack([returns, reference.returns]), level)
            if ties.p is None:
                untested[reference.name] = ties.reason or ""
                break
            is_higher = returns.mean() > reference.returns.mean()
            p_values.append(ties.p[1] if is_higher else 1.0)
        else:
            corrected = zip(systems, holm(p_values), strict=True)
            better[reference.name] = [name for name, p in corrected if p is not None and p <= level]

    if not systems or not references:
        return ""

    said = [_words(name, winners, len(systems)) for name, winners in better.items()]
    if len(said) > 1 and not any(better.values()):
        said = [_words(" or ".join(better), [], len(systems))]
    said += [f"{name}: not tested, {reason}" for name, reason in untested.items()]
    days = len(references[0].returns)
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
