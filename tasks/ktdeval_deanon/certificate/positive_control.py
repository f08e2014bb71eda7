"""Criteria for passing an attacker's positive control, and the scores for which the attacker then
counts. Both are defined in `controls.yaml`.

A miss on a masked probe says something about the mask only if the attacker would have identified
the stock or the day on an unmasked probe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from ktdeval.stats import clopper_pearson_upper
from ktdeval.values import load_yaml
from ktdeval_deanon.certificate.types import ControlShare, ShareInterval

_TERMS = load_yaml(Path(__file__).with_name("controls.yaml"))
LEVEL: float = _TERMS["level"]  #: Nominal coverage of the intervals
#: Minimum fraction that must have been read rather than guessed
MIN_READ: float = _TERMS["least_read"]
READS: Mapping[str, str] = _TERMS["reads"]
"""Item to read from an unmasked probe -> test of whether an answer has read the item."""


def needs_of(scores: Sequence[str]) -> dict[str, list[str]]:
    """Return, keyed by score, the items that an attacker must have read for its misses on the score
    to count.
    """
    return {score: list(_TERMS["needs"].get(score, _TERMS["otherwise"])) for score in scores}


def control_share(successes: int, n: int, baseline: float | None) -> ControlShare:
    """Return one line of a control: the fraction read, its exact interval, the minimum lower limit
    for passing, and whether the attacker passed.
    """
    interval = ShareInterval(
        low=None,
        high=None,
        level=LEVEL,
        kind="clopper-pearson",
        n=n,
        reason="there are no trials",
    )
    if not n or baseline is None:
        return ControlShare(
            value=None,
            reason="no unmasked probe has a known truth",
            successes=successes,
            n=n,
            interval=interval,
            baseline=baseline,
            needed=None,
            passed=False,
        )

    tail = 1.0 - (1.0 - LEVEL) / 2.0
    high = clopper_pearson_upper(successes, n, tail)
    low = 1.0 - clopper_pearson_upper(n - successes, n, tail)
    needed = baseline + MIN_READ * (1.0 - baseline)

    return ControlShare(
        value=successes / n,
        successes=successes,
        n=n,
        interval=replace(interval, low=low, high=high, reason=UNSET),
        baseline=baseline,
        needed=needed,
        passed=low >= needed,
    )


def counted_scores(
    scores: Sequence[str],
    control: Mapping[str, ControlShare],
    needs: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return the scores for which an attacker counts: those whose required items the attacker has
    read.
    """
    passed = {name for name, read in control.items() if read.passed}
    return sorted(score for score in scores if passed.issuperset(needs.get(score, READS)))
