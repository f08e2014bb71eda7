"""Tables of docs/audit.md are those that the benchmarks have stored; that of prose is made anew."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Mapping, Sequence

import pytest

from support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs/audit.md").read_text(encoding="utf-8")
ROWS = list(csv.DictReader((REPOSITORY / "benchmarks/audit_recall.csv").open(encoding="utf-8")))
PROSE = list(csv.DictReader((REPOSITORY / "benchmarks/audit_prose.csv").open(encoding="utf-8")))
AUTHORS = list(csv.DictReader((REPOSITORY / "benchmarks/audit_authors.csv").open(encoding="utf-8")))
Row = Mapping[str, str]


def of_part(*parts: str) -> list[Row]:
    return [row for row in ROWS if row["part"] in parts]


def _share(row: Row) -> str:
    low, high = float(row["low"]), float(row["high"])
    return f"{int(row['found']) / int(row['of']):.0%} ({low:.0%} to {high:.0%})"


def _kinds(rows: Sequence[Row]) -> list[str]:
    """Return the kinds of leak that one rule found equally often on one line, most first."""
    groups: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["rule"], int(row["found"]), int(row["of"])), []).append(row)

    lines = ["| rule | found | share (95 %) | kinds of leak |", "|---|---|---|---|"]
    for rule, found, of in sorted(groups, key=lambda group: -group[1] / group[2]):
        same = groups[rule, found, of]
        names = "; ".join(row["name"] for row in same)
        lines.append(f"| `{rule}` | {found} of {of} | {_share(same[0])} | {names} |")

    return lines


def _alarms() -> list[str]:
    lines = ["| logs | level | decisions with one | share (95 %) |", "|---|---|---|---|"]
    for row in of_part("clean", "look-alikes"):
        low, high = float(row["low"]), float(row["high"])
        share = f"{int(row['found']) / int(row['of']):.1%} ({low:.1%} to {high:.1%})"
        lines.append(f"| {row['part']} | {row['name']} | {row['found']} of {row['of']} | {share} |")
    return lines


def _prose() -> list[str]:
    lines = [
        "| texts | level | rules of before | first look | now |",
        "|---|---|---|---|---|",
    ]
    for row in PROSE:
        texts = f"{row['set']} set: {row['label']}"
        cells = [texts, row["level"]]
        for column in ("rules_before", "first_look", "now"):
            cells.append(f"{row[column]} of {row['of']}" if row[column] else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _authors() -> list[str]:
    lines = ["| author | leaks found | precision | clean texts accused |", "|---|---|---|---|"]
    for row in AUTHORS:
        found, accused = int(row["found"]), int(row["accused"])
        cells = [
            f"{row['set']} set: {row['author']}",
            f"{found} of {row['leaks']}",
            f"{found} of {found + accused}",
            f"{accused} of {row['clean']}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def tables() -> dict[str, list[str]]:
    return {
        "recall": _kinds(of_part("recall")),
        "hard": _kinds(of_part("hard")),
        "alarms": _alarms(),
        "prose": _prose(),
        "authors": _authors(),
    }


@pytest.mark.parametrize("name", ["recall", "hard", "alarms", "prose", "authors"])
def test_a_table_of_the_page_is_the_stored_one(name: str) -> None:
    shown = PAGE.split(f"<!-- table: {name} -->\n")[1].split("<!-- end of table -->")[0]

    assert shown.strip().splitlines() == tables()[name]


def test_the_page_has_the_recall_that_every_format_shares() -> None:
    (count,) = {f"{row['found']} of {row['of']}" for row in of_part("format")}

    assert f"{count} in each of the six formats" in PAGE


def test_the_page_says_what_the_worst_author_after_the_rules_of_today_met() -> None:
    latest = [row for row in AUTHORS if row["set"] in ("seventh", "eighth")]
    recall = min(latest, key=lambda row: int(row["found"]) / int(row["leaks"]))
    alarms = max(latest, key=lambda row: int(row["accused"]) / int(row["clean"]))

    assert f"{recall['found']} of {recall['leaks']} leaks of an {recall['author']}" in PAGE
    assert f"{alarms['accused']} of {alarms['clean']} clean texts of a {alarms['author']}" in PAGE


def test_the_benchmark_has_30_kinds_in_6_formats_and_200_clean_decisions() -> None:
    assert len(of_part("recall", "hard")) >= 30
    assert len(of_part("format")) == 6
    assert all(int(row["of"]) >= 200 for row in of_part("clean"))


@pytest.mark.slow
def test_the_rules_of_today_give_the_stored_figures_of_prose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    counted = importlib.import_module("audit_prose").prose_rows()

    stored = {}
    for row in PROSE:
        stored[row["set"], row["label"], row["level"]] = (int(row["now"]), int(row["of"]))

    assert counted == stored
