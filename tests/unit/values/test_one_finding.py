"""Findings of checks: how they sort, read and end a command."""

from __future__ import annotations

import pytest

from ktdeval.values.findings import (
    Finding,
    Level,
    exit_code,
    finding_lines,
    findings_json,
    sort_by_level,
)

FAULT = Finding(path="notes.csv", line=3, day="2024-01-02", rule="dates", message="a day twice")
GAPS = Finding(
    rule="gaps",
    level="warning",
    message="days without a row",
    count=1200,
    examples=("a", "b", "c", "d", "e"),
    fix="add the rows",
)


def test_a_finding_tells_where_what_and_how_to_fix_it() -> None:
    assert list(finding_lines(FAULT)) == ["error [dates] notes.csv:3, 2024-01-02: a day twice"]
    assert list(finding_lines(GAPS)) == [
        "warning [gaps × 1,200] days without a row",
        "  » a, b, c, d, e, …",
        "  fix: add the rows",
    ]


def test_json_has_all_fields_of_each_finding_and_counts_them() -> None:
    report = findings_json([FAULT, GAPS], market="m")
    assert (report["market"], report["errors"], report["warnings"]) == ("m", 1, 1)
    assert isinstance(report["findings"], list)
    assert all(set(each) == set(Finding.__dataclass_fields__) for each in report["findings"])


@pytest.mark.parametrize(
    ("levels", "least", "code"),
    [
        ([], "error", 0),
        (["error"], "error", 1),
        (["warning", "note"], "error", 0),
        (["warning"], "warning", 1),
        (["note"], "warning", 0),
    ],
)
def test_a_check_ends_with_1_from_a_level_on(levels: list[Level], least: Level, code: int) -> None:
    assert exit_code([Finding(message="m", level=level) for level in levels], least) == code


def test_the_most_severe_come_first_and_others_keep_their_order() -> None:
    assert sort_by_level([GAPS, FAULT, GAPS]) == [FAULT, GAPS, GAPS]
