"""When an attacker has passed its positive control, and for which scores it then counts; the terms are in `controls.yaml`.

A miss behind a mask shows something about the mask only if the attacker would have named the stock or the day where they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ktdeval.jsonio import JsonValue
from ktdeval.stats import clopper_pearson_upper
from ktdeval.yamlio import load_yaml

_TERMS = load_yaml(Path(__file__).with_name("controls.yaml"))
LEVEL: float = _TERMS["level"]  #: Nominal coverage of the intervals
LEAST_READ: float = _TERMS["least_read"]  #: Share that must have been read rather than guessed
READS: Mapping[str, str] = _TERMS["reads"]
"""What is to be read off an unmasked probe -> when an answer has read it."""


def needs_of(scores: Sequence[str]) -> dict[str, list[str]]:
    """Return by score what an attacker must have read for its misses of this score to count."""
    return {score: list(_TERMS["needs"].get(score, _TERMS["otherwise"])) for score in scores}


def control_share(successes: int, n: int, baseline: float | None) -> dict[str, JsonValue]:
    """Return one line of a control: the share, its exact interval, the least lower end that passes, and whether it passed."""
    ends: dict[str, JsonValue] = {"level": LEVEL, "kind": "clopper-pearson", "n": n}
    if not n or baseline is None:
        nothing: dict[str, JsonValue] = {"value": None, "reason": "no unmasked probe has a known truth", "needed": None}
        interval = {"low": None, "high": None, **ends, "reason": "there are no trials"}
        return {**nothing, "successes": successes, "n": n, "interval": interval, "baseline": baseline, "passed": False}
    tail = 1.0 - (1.0 - LEVEL) / 2.0
    high = clopper_pearson_upper(successes, n, tail)
    low = 1.0 - clopper_pearson_upper(n - successes, n, tail)
    needed = baseline + LEAST_READ * (1.0 - baseline)
    return {
        "value": successes / n,
        "successes": successes,
        "n": n,
        "interval": {"low": low, "high": high, **ends},
        "baseline": baseline,
        "needed": needed,
        "passed": low >= needed,
    }


def counted_scores(
    scores: Sequence[str], control: Mapping[str, Mapping[str, Any]] | None, needs: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the scores for which an attacker counts: those of which it has read all that they need."""
    passed = {name for name, read in (control or {}).items() if read["passed"]}
    return sorted(score for score in scores if passed.issuperset(needs.get(score, READS)))
