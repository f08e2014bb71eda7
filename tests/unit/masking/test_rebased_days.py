"""For how many days the rebased tasks hide the day: pages and data cards say what the benchmark
printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

SHOWN = "3 digits (the task)"
TABLE_TASK = "blinded_rebased_fixed_candidate"
DAYS = (1, 5, 10, 20, 40)


@pytest.fixture(scope="module")
def printed(repository: Path) -> Mapping[tuple[str, str], list[str]]:
    """Rows of the benchmark: (shown, attacker) -> cells of the days."""
    text = (repository / "benchmarks" / "identifiability_tables.md").read_text()
    section = text.split("## Days of whole episodes")[1].split("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 + len(DAYS):
            rows[cells[0], cells[1]] = [cell.replace("100.0", "100") for cell in cells[3:]]

    return rows


def percent(cell: str) -> str:
    """The share of a cell, without its interval."""
    return f"{cell.split()[0]} %"


@pytest.mark.parametrize(
    ("words", "row"),
    [
        ("(`open_research`) ", (SHOWN, "index")),
        ("`fixed_candidate` ", (f"3 digits ({TABLE_TASK})", "index")),
        ("main board's ", (SHOWN, "boards")),
        ("returns each day ", (SHOWN, "spread")),
        ("row by row ", (SHOWN, "rows")),
    ],
)
def test_curve_of_the_page_is_what_the_benchmark_printed(
    repository: Path,
    printed: Mapping[tuple[str, str], list[str]],
    words: str,
    row: tuple[str, str],
) -> None:
    page = (repository / "docs" / "certificate.md").read_text()
    found = re.search(rf"^\|[^|]*{re.escape(words)}\| \d+ \|(.*)\|$", page, re.MULTILINE)
    assert found is not None
    assert [cell.strip() for cell in found[1].split("|")] == printed[row]
