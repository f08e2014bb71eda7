"""Ratings of daily summaries under Agent Market Arena's rules (`mis.yaml`), and inter-rater
agreement with and without correction for chance.

Agreement, the paper's statistic, is the fraction of items to which all raters gave the same score.
Krippendorff's α corrects agreement for chance: α = 1 − D_o / D_e with squared score differences.
D_o is the mean over pairs of ratings of the same item, with items weighted by their number of
ratings; D_e is the mean over all pairs of ratings. α is undefined if all scores are equal. Items
with fewer than two ratings enter only the mean score.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.stats import wilson
from ktdeval.values import load_yaml, near_matches, read_plain

if TYPE_CHECKING:
    from ktdeval.registry import PaperTable, TableChoices

RULES: Mapping[str, Any] = load_yaml(Path(__file__).with_name("mis.yaml"))["rules"]
COLUMNS = ("item", "rater", "rule", "score")
_SCORES = ("0", "1", "2")
Ratings = Mapping[str, Sequence[int]]  #: item -> its scores under one rule, one per rater


@dataclass(frozen=True, slots=True)
class RuleAgreement:
    """Ratings under one rule."""

    rule: str
    items: int
    shared: int  #: items with at least two ratings
    mean: float  #: mean of all scores, 0 to 2
    same: float | None  #: fraction of shared items whose ratings are all equal
    low: float | None  #: 95 % Wilson interval of `same`
    high: float | None
    alpha: float | None  #: Krippendorff's α, from squared score differences
    levels: tuple[int, int, int]  #: number of scores equal to 0, 1 and 2


def read_ratings(path: Path) -> dict[str, dict[str, list[int]]]:
    """Return the scores in a CSV file with `COLUMNS`, keyed by rule and item, in the order of
    `RULES`.

    Raises DataError if the file is unreadable, a column is missing, a rule or score is unknown, or
    a rater scores an item twice; the message names the file and, for a rating, its line.
    """
    try:
        text = read_plain(path).decode("utf-8-sig")
        reader = csv.DictReader(StringIO(text, newline=""), strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path}: not a readable CSV file: {' '.join(str(error).split())}"
        ) from error

    for name in COLUMNS:
        if name not in (reader.fieldnames or ()):
            raise DataError(
                f"{path}: column {name!r} is missing; the columns are {', '.join(COLUMNS)}"
            )

    scores: dict[str, dict[str, list[int]]] = {rule: defaultdict(list) for rule in RULES}
    seen: set[tuple[str, str, str]] = set()
    for line, row in rows:
        item, rater, rule, score = ((row[name] or "").strip() for name in COLUMNS)
        problem = _rating_problem(item, rater, rule, score)
        if not problem and (item, rater, rule) in seen:
            problem = (
                f"rater {rater[:40]!r} has scored item {item[:40]!r} by {rule} twice; keep one "
                "score"
            )
        if problem:
            raise DataError(f"{path}: line {line}: {problem}")

        seen.add((item, rater, rule))
        scores[rule][item].append(int(score))

    if not rows:
        raise DataError(f"{path}: no ratings below the header")

    return {rule: dict(items) for rule, items in scores.items() if items}


def _rating_problem(item: str, rater: str, rule: str, score: str) -> str:
    """Return the problem with a rating, or an empty string."""
    if not item or not rater:
        return "item and rater must not be empty"
    if rule not in RULES:
        return f"rule {rule[:40]!r} is unknown{near_matches(rule, RULES)}"
    if score not in _SCORES:
        return f"score {score[:40]!r}; expected 0, 1 or 2"
    return ""


def agreement(rule: str, ratings: Ratings) -> RuleAgreement:
    """Return the figures for one rule. `ratings` must contain at least one score."""
    every: list[int] = []
    shared: list[Sequence[int]] = []
    for scores in ratings.values():
        every += scores
        if len(scores) > 1:
            shared.append(scores)

    same = sum(len(set(scores)) == 1 for scores in shared)
    ends = wilson(same, len(shared))
    return RuleAgreement(
        rule=rule,
        items=len(ratings),
        shared=len(shared),
        mean=sum(every) / len(every),
        same=same / len(shared) if shared else None,
        low=ends.low,
        high=ends.high,
        alpha=alpha(shared),
        levels=(every.count(0), every.count(1), every.count(2)),
    )


def alpha(shared: Sequence[Sequence[int]]) -> float | None:
    """Return Krippendorff's α over items with at least two scores each; None if all scores are
    equal.
    """
    pooled: list[int] = []
    for scores in shared:
        pooled += scores

    if len(set(pooled)) < 2:
        return None

    n = len(pooled)
    within = math.fsum(2 * _distance(scores) / (len(scores) - 1) for scores in shared)
    observed = within / n
    return 1.0 - observed / (2 * _distance(pooled) / (n * (n - 1)))


def _distance(scores: Sequence[int]) -> int:
    """Return the sum of squared differences over all pairs of scores."""
    return sum((one - other) ** 2 for one, other in combinations(scores, 2))


def ratings_frame(
    paths: Sequence[Path],
    table: PaperTable,
    choices: TableChoices,  # noqa: ARG001 - as tables are made
) -> pd.DataFrame:
    """Return one row for each rule in a ratings file. Raises UsageError if several files are given;
    DataError if the file has no ratings.
    """
    if len(paths) > 1:
        raise UsageError(f"{table.name} takes exactly one file of ratings")

    rows = []
    equal = []
    for rule, items in read_ratings(paths[0]).items():
        rated = agreement(rule, items)
        row = asdict(rated)
        levels = row.pop("levels")
        for score, count in zip(_SCORES, levels, strict=True):
            row[f"scores_{score}"] = count

        rows.append(row)
        if rated.shared and rated.alpha is None:
            equal.append(RULES[rule]["title"])

    frame = pd.DataFrame(rows, dtype=object)
    if equal:
        frame.attrs["notes"] = (
            f"{', '.join(equal)}: all scores are equal, so agreement beyond chance is undefined",
        )
    return frame
