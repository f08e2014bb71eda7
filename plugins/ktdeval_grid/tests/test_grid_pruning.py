"""Rules of pruning: which cells they leave out, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest

from ktdeval_grid.planning.pruning_rules import Cells, PruneRule, pruned_by, shipped_rules

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("memory_only", "fixed_candidate", "open_research")


@dataclass(frozen=True)
class ACell:
    model: str = "openai/gpt-5.5"
    agent: str = "react"
    task: str = "blinded_open_research"
    mask: str | None = "blinded"
    mode: str | None = "open_research"
    window_name: str | None = "W1"
    seed: int = 0


def kept(rule: str) -> list[tuple[str, str]]:
    """Masks and modes of the grid that a shipped rule keeps."""
    rules = (shipped_rules()[rule],)
    cells = product(MASKS, MODES)

    return [
        (mask, mode)
        for mask, mode in cells
        if pruned_by(rules, ACell(mask=mask, mode=mode)) is None
    ]


def test_informative_cells_are_those_of_table_3() -> None:
    assert sorted(kept("informative")) == sorted(product(("bright", "blinded"), MODES))


def test_without_a_figure_and_without_a_name_there_is_nothing_to_remember() -> None:
    left_out = set(product(MASKS, MODES)) - set(kept("no_stock_to_remember"))
    assert left_out == {("stock_blind", "memory_only")}


@pytest.mark.parametrize("rule", shipped_rules().values(), ids=lambda rule: rule.name)
def test_every_rule_says_why_with_its_source(rule: PruneRule) -> None:
    assert "KTD-Fin" in rule.reason


@pytest.mark.parametrize(
    ("cells", "change"),
    [
        (Cells(models=("openai/*",)), {"model": "google/gemini"}),
        (Cells(agents=("react",)), {"agent": "vote"}),
        (Cells(tasks=("blinded_*",)), {"task": "bright_open_research"}),
        (Cells(masks=("blinded",)), {"mask": "bright"}),
        (Cells(modes=("open_research",)), {"mode": "memory_only"}),
        (Cells(windows=("W1", "W2")), {"window_name": "W3"}),
        (Cells(seeds=(0, 1)), {"seed": 2}),
        (Cells(masks=("*",)), {"mask": None}),
    ],
)
def test_a_cell_fits_all_fields_that_are_given(cells: Cells, change: dict[str, object]) -> None:
    cell = ACell()
    assert cells.has(cell)
    assert not cells.has(replace(cell, **change))  # type: ignore[arg-type]


def test_the_first_rule_that_leaves_a_cell_out_is_its_reason() -> None:
    first = PruneRule(name="first", reason="because of this", cells=(Cells(seeds=(0,)),))
    second = PruneRule(name="second", reason="because of that", cells=(Cells(),))

    assert pruned_by((first, second), ACell(seed=0)) is first
    assert pruned_by((first, second), ACell(seed=1)) is second
    assert pruned_by((first,), ACell(seed=1)) is None
