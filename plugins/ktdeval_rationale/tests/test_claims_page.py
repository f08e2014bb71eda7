"""docs/metrics.md prints the measured counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from ktdeval.values import csv_rows
from support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs/metrics.md").read_text(encoding="utf-8")
BENCHMARKS = REPOSITORY / "benchmarks"
NOW = csv_rows(BENCHMARKS / "process_scores.csv")
FIRST_LOOK = csv_rows(BENCHMARKS / "process_scores_first_look.csv")
PARTS = ("first", "later", "last", "final")
MIN_PRECISION = 0.95


def total(rows: Iterable[Mapping[str, str]], column: str) -> int:
    return sum(int(row[column]) for row in rows)


def line_of(name: str, text: str) -> str:
    """Return the row of a table that begins with a name."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return line


@pytest.mark.parametrize("part", PARTS)
def test_the_page_has_the_counts_of_each_part(part: str) -> None:
    rows = [row for row in NOW if row["part"] == part]
    line = line_of(f"all of `{part}`", PAGE.split("The first looks", 1)[0])

    hits = total(rows, "false_called_wrong")
    alarms = total(rows, "true_called_wrong")
    assert f"({hits:,} of {hits + alarms:,})" in line
    assert f"({hits:,} of {total(rows, 'false'):,})" in line
    assert f"({total(rows, 'true_called_right'):,} of {total(rows, 'true'):,})" in line


@pytest.mark.parametrize("part", ["hard", "hard_last", "hard_final"])
def test_the_page_has_the_false_alarms_at_the_first_look(part: str) -> None:
    rows = [row for row in FIRST_LOOK if row["part"] == part]
    line = line_of(f"`{part}`", PAGE.split("The first looks", 1)[1])
    assert f"({total(rows, 'true_called_wrong'):,} of {total(rows, 'true'):,})" in line


@pytest.mark.parametrize("rows", [NOW, FIRST_LOOK], ids=["now", "first look"])
def test_planted_false_claims_are_detected_with_95_per_cent_precision(
    rows: list[dict[str, str]],
) -> None:
    """Over planted claims; now also with all sentences that claim nothing false."""
    planted = [row for row in rows if row["part"] in PARTS]
    counted = rows if rows is NOW else planted
    hits = total(counted, "false_called_wrong")
    alarms = total(counted, "true_called_wrong")
    assert hits / (hits + alarms) >= MIN_PRECISION
