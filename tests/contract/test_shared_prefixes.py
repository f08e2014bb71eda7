"""Requests of a task begin alike at every step and item, so that prompt caches serve what they share.

Providers keep a prompt from its beginning on. A clock at the head, or a label of the day in a tool,
ends the reuse of all that follows. Make the table in docs/models.md again:
`PYTHONPATH=tests python tests/contract/test_shared_prefixes.py`
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ktdeval.harness.tools.tool_protocols import encode
from ktdeval.values import dumps_canonical
from support.paths import REPOSITORY
from support.tables import beside
from support.tasks.planned_tasks import TASKS
from support.tasks.shared_prefixes import SharedPrefix, first_requests, prefix_of, shared_prefix

PAGE = REPOSITORY / "docs/models.md"
BEFORE: Mapping[str, Any] = beside(__file__)["before"]
KEPT_PCT = 90.0
BEGIN, END = "<!-- table: shared prefixes -->\n", "<!-- end of table -->"
HEAD = """
| task | tokens | begin alike: before | now | of what both have, %: before | now |
|---|--:|--:|--:|--:|--:|
"""

measured = cache(prefix_of)


def test_lines_that_both_requests_have_count_wherever_they_stand() -> None:
    """By hand: of three shared lines, one of them twice, the first two begin both requests."""
    found = shared_prefix("rules\nrules\nMonday\nend\n", "rules\nrules\nTuesday\nend\n")
    kept = shared_prefix("", "rules\nrules\n").tokens
    both = shared_prefix("", "rules\nrules\nend\n").tokens

    assert (found.reused, found.shared) == (kept, both)
    assert shared_prefix("Monday\nrules\n", "Tuesday\nrules\n").reused == 0.0


@pytest.mark.parametrize("task", ["blinded_fixed_candidate", "market_blinded", "qfinzero_calling"])
def test_requests_of_two_steps_begin_with_what_they_share(task: str) -> None:
    assert measured(task).kept_pct >= KEPT_PCT


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", TASKS)
def test_requests_of_every_task_begin_with_what_they_share(task: str) -> None:
    assert measured(task).kept_pct >= KEPT_PCT


def test_labels_of_the_day_are_in_no_prompt_but_a_reply_is_held_to_them() -> None:
    requests = first_requests("blinded_fixed_candidate")
    for request in requests:
        assert request.state is not None
        labels = list(request.state.candidates)
        tools = dumps_canonical([tool.parameters for tool in request.tools])
        assert not re.search(r"asset_\d", tools)

        params = replace(request.params, tool_protocol="json_schema")
        sent = encode(replace(request, params=params))
        assert not re.search(r"asset_\d", sent.messages[0].content)
        assert set(labels) <= set(re.findall(r"asset_\d{4}", dumps_canonical(sent.response_schema)))

    assert len({dumps_canonical(request.tools[0].parameters) for request in requests}) == 1


@pytest.mark.exhaustive
def test_the_table_of_the_documentation_is_what_is_measured() -> None:
    """To a twentieth, so that a word in a prompt does not change the page."""
    text = PAGE.read_text("utf-8")
    rows = dict(_figures(text.partition(BEGIN)[2].partition(END)[0]))
    made = dict(_figures(table({task: measured(task) for task in BEFORE})))

    assert rows.keys() == made.keys()
    for task, figures in made.items():
        assert rows[task] == pytest.approx(figures, rel=0.05), task


def _figures(rows: str) -> list[tuple[str, list[float]]]:
    found: list[tuple[str, list[float]]] = []
    for row in rows.splitlines():
        if row.startswith("| `"):
            task, *cells = row.strip("| ").split(" | ")
            found.append((task, [float(cell.replace(",", "")) for cell in cells]))

    return found


def table(now: Mapping[str, SharedPrefix]) -> str:
    """Return the table, between its marks."""
    rows: list[str] = []
    for task, prefix in now.items():
        reused, kept = BEFORE[task]
        rows.append(
            f"| `{task}` | {prefix.tokens:,.0f} | {reused:,.0f} | {prefix.reused:,.0f} | {kept:.0f} |"
            f" {prefix.kept_pct:.0f} |\n"
        )

    return f"{BEGIN}{HEAD}{''.join(rows)}\n{END}"


def write_table(page: Path = PAGE) -> None:
    """Write the table, from markets that are generated for it."""
    with TemporaryDirectory() as folder:
        os.environ["KTDEVAL_CACHE_DIR"] = folder
        made = table({task: prefix_of(task) for task in BEFORE})

    text = page.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    page.write_text(f"{before}{made}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    write_table()
