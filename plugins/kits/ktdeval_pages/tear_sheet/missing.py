"""Figures and plots that are undefined throughout: their names stand once beneath, by reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

_MOST_REASONS = 2  #: reasons that are named of a figure; windows may each have their own


def missing_lines(reasons: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a line for each reason: the labels of all figures that are undefined for it.

    `reasons` has the reasons of each undefined figure, keyed by label. Figures with the same reasons
    share a line.

    Example:
        missing_lines({"CAGR": ["30 days"], "Calmar ratio": ["30 days"]})
        # ["CAGR; Calmar ratio: n/a, 30 days"]
    """
    labels: dict[str, list[str]] = {}
    for label, found in reasons.items():
        labels.setdefault(_joined(list(dict.fromkeys(found))), []).append(label)
    return [f"{'; '.join(names)}: n/a, {reason}" for reason, names in labels.items()]


def _joined(reasons: Sequence[str]) -> str:
    known = [reason for reason in reasons if reason]
    if not known:
        return "not defined"

    text = "; ".join(known[:_MOST_REASONS])
    others = len(known) - _MOST_REASONS
    return f"{text}; and {others} more reasons" if others > 0 else text
