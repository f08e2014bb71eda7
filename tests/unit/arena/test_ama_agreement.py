"""Agreement of raters: worked by hand, against another way to the same figure, and files that are no ratings."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ktdeval.cli.main import main
from ktdeval_arena.agreement import COLUMNS, RULES, agreement, alpha
from searching import examples
from tables import on_each_row


def by_coincidences(shared: list[list[int]]) -> float:
    """Krippendorff (2011), from the matrix of coincidences."""
    matrix: Counter[tuple[int, int]] = Counter()
    for scores in shared:
        for first, one in enumerate(scores):
            for second, other in enumerate(scores):
                if first != second:
                    matrix[one, other] += 1 / (len(scores) - 1)  # type: ignore[assignment]
    totals = Counter[int]()
    for (one, _), count in matrix.items():
        totals[one] += count
    n = sum(totals.values())
    observed = sum(count * (one - other) ** 2 for (one, other), count in matrix.items()) / n
    expected = sum(totals[one] * totals[other] * (one - other) ** 2 for one in totals for other in totals) / (n * (n - 1))
    return 1 - observed / expected


def test_shares_as_the_papers_are_a_small_agreement_beyond_chance() -> None:
    # 40 items of two raters, 87.5 % the same; of the 7 items with a 1, 5 are those on which they differ, and 2 both scored 1.
    date = {f"d{place}": ([1, 2] if place < 5 else [1, 1] if place < 7 else [2, 2]) for place in range(40)}
    found = agreement("date_accuracy", date)
    assert (found.same, found.levels, found.items, found.shared) == (0.875, (0, 9, 71), 40, 40)
    assert found.alpha == pytest.approx(1 - (5 / 40) / (2 * 9 * 71 / (80 * 79)), rel=1e-12)  # 0.38
    assert (found.low, found.high) == (pytest.approx(0.7389, abs=1e-4), pytest.approx(0.9454, abs=1e-4))
    bias = agreement("bias_awareness", {str(place): [2, 2] for place in range(40)})
    assert (bias.same, bias.alpha, bias.mean) == (1.0, None, 2.0)
    alone = agreement("coverage", {"a": [1], "b": [2]})
    assert (alone.mean, alone.shared, alone.same, alone.low, alone.alpha) == (1.5, 0, None, None, None)


@examples(40)
@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=4), min_size=2, max_size=12))
def test_alpha_is_that_of_the_matrix_of_coincidences_and_1_only_for_equal_scores(shared: list[list[int]]) -> None:
    found = alpha(shared)
    if found is None:
        assert len({score for scores in shared for score in scores}) == 1
        return
    assert found == pytest.approx(by_coincidences(shared), abs=1e-12)
    assert (found == 1.0) == all(len(set(scores)) == 1 for scores in shared)


def ratings(path: Path, *rows: str) -> str:
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n", encoding="utf-8")
    return str(path)


def test_the_command_reports_each_rule_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{item},{rater},{rule},{2 - (rule == 'coverage' and item == 'b' and rater == 'y')}"
            for item in "abc" for rater in "xy" for rule in ("coverage", "bias_awareness")]  # fmt: skip
    path = ratings(tmp_path / "r.csv", *rows)
    assert main(["ama", "agreement", path]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split() == ["coverage", "3", "3", "1.83", "0", "1", "5", "66.7", "20.8", "…", "93.9", "0.000"]
    assert shown[-1] == "- Bias awareness: all scores are equal, which does not show that raters agree beyond chance"
    assert main(["ama", "agreement", path, "--json"]) == 0
    assert [one["rule"] for one in json.loads(capsys.readouterr().out)] == ["coverage", "bias_awareness"]
    assert {len(rule["levels"]) for rule in RULES.values()} == {3}


@on_each_row
def test_a_file_of_something_else_is_one_line(
    rows: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ama", "agreement", ratings(tmp_path / "r.csv", *rows)]) != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["ama", "agreement", str(tmp_path / "other.csv")]) != 0
    assert "column 'item' is missing; a line has item, rater, rule, score" in capsys.readouterr().err
