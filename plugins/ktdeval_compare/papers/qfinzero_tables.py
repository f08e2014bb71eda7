"""Tables from QFinZero, for its tool calling and planning suites: scores by model, the parts in
which models lose points, and scores by kind of task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ktdeval.cards import ScoringCard, system_labels
from ktdeval.errors import CardError, UsageError
from ktdeval.values import JsonValue
from ktdeval_compare.pairs.compared_cards import ScoringEntrant

PARTS = ("tm", "pa", "ta")  #: scores whose mean is the overall score
_NONE = "no card of tool calling or planning here; run --tasks qfinzero_calling,qfinzero_planning"


def suite_frame(entrants: Sequence[ScoringEntrant], scores: Sequence[str]) -> pd.DataFrame:
    """Return one row per model, best overall score first. A row has the scores in each suite
    (`calling_tm`) or the shares of the points lost in each part (`calling_lost_tm`).

    Raises UsageError or CardError if the cards lack the scores.
    """
    rows: dict[str, dict[str, float | None]] = {}
    best: dict[str, list[float]] = {}
    seen: set[tuple[str, str]] = set()
    names = system_labels(entrant.system for entrant in entrants)
    for entrant in entrants:
        suite = suite_of(entrant.card)
        if suite is None:
            continue

        model = names[entrant.system]
        _check_first(entrant, model, suite, seen)
        row = rows.setdefault(model, dict.fromkeys(scores))
        for name, value in _score_values(entrant.card).items():
            if f"{suite}_{name}" in row:
                row[f"{suite}_{name}"] = value

        overall = entrant.card.scores.get("overall")
        if overall is not None and overall.value is not None:
            best.setdefault(model, []).append(overall.value)

    frame = pd.DataFrame.from_dict(rows, orient="index", columns=list(scores), dtype=float)
    frame = frame.rename_axis("Model")
    if not rows or (not best and frame.isna().all(axis=None)):
        raise UsageError(_NONE)

    means = np.array([np.mean(best[model]) if model in best else -np.inf for model in frame.index])
    return frame.iloc[np.argsort(-means, kind="stable")]


def _check_first(
    entrant: ScoringEntrant, model: str, suite: str, seen: set[tuple[str, str]]
) -> None:
    """Raise CardError if this is the second card for the same model and suite."""
    if (model, suite) in seen:
        raise CardError(f"{entrant.path}: {model} has two cards of the suite {suite}; give one")
    seen.add((model, suite))


def suite_of(card: ScoringCard) -> str | None:
    """Return a card's suite, or None if its task belongs to no suite."""
    suite = card.task.config.get("suite")
    return suite if suite in ("calling", "planning") else None


def _score_values(card: ScoringCard) -> dict[str, float | None]:
    """Return a card's scores by name, and the share of its lost points in each part as
    `lost_tm`, …
    """
    values = {name: line.value for name, line in card.scores.items()}
    missing = {}
    for part in PARTS:
        value = values.get(part)
        if value is None:
            return values
        missing[part] = 1.0 - value

    total = math.fsum(missing.values())
    for part, share in missing.items():
        # without lost points, shares are undefined
        values[f"lost_{part}"] = share / total if total > 0 else None

    return values


def kind_frame(entrants: Sequence[ScoringEntrant]) -> pd.DataFrame:
    """Return [suite and kind of task, models], with the overall score for each kind, from 0 to 100.

    Raises UsageError or CardError if the cards lack the scores.
    """
    names = system_labels(entrant.system for entrant in entrants)
    cells: dict[tuple[str, str], dict[str, float | None]] = {}
    seen: set[tuple[str, str]] = set()
    for entrant in entrants:
        suite = suite_of(entrant.card)
        if suite is None:
            continue

        model = names[entrant.system]
        _check_first(entrant, model, suite, seen)
        for kind, value in _by_kind(entrant.card).items():
            cells.setdefault((suite, kind), {})[model] = value

    if not cells:
        raise UsageError(_NONE)

    frame = pd.DataFrame.from_dict(cells, orient="index", dtype=float).sort_index()
    frame.index = pd.MultiIndex.from_tuples(list(frame.index), names=["Suite", "Kind of task"])
    frame.attrs["columns"] = [(model, model, "points") for model in frame]
    return frame


def _by_kind(card: ScoringCard) -> dict[str, float | None]:
    """Return the overall score for each kind of task, from the detail on a card."""
    line = card.scores.get("overall")
    groups: JsonValue = None if line is None else line.detail.get("by_category")
    if not isinstance(groups, Mapping):
        return {}

    values: dict[str, float | None] = {}
    for kind, group in groups.items():
        value = group.get("overall") if isinstance(group, Mapping) else None
        values[kind] = float(value) if isinstance(value, int | float) else None

    return values
