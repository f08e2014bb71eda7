"""Amendments: what a plan may add, take away and change, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from grid_store import small_plan
from ktdeval.errors import UsageError
from ktdeval_grid.amend import amendment, with_key

KEY = "5eed" * 8


def test_an_equal_plan_amends_nothing() -> None:
    begun = with_key(small_plan(), KEY)
    assert amendment(begun, small_plan()).is_empty
    assert amendment(begun, small_plan(mask_key=KEY)).is_empty


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"models": ["builtin/momentum", "builtin/reversal", "builtin/random"]},
            "new: model builtin-random",
        ),
        ({"models": ["builtin/momentum"]}, "no longer planned: model builtin-reversal"),
        ({"windows": ["W1", "W2", "W3"]}, "new: window W3"),
        ({"seeds": 4}, "new: seed 2, seed 3"),
        ({"seeds": 1}, "no longer planned: seed 1"),
        ({"agents": ["react", "vote"]}, "new: agent vote"),
        ({"tasks": ["bright_open_research"]}, "new: task bright_open_research"),
        ({"prune": ["informative"]}, "new: rule of pruning informative"),
        ({"max_cost": 5.0}, "changed: max_cost: 5.0 (was none)"),
        ({"concurrency": 3}, "changed: concurrency: 3 (was none)"),
    ],
)
def test_what_is_new_is_said(change: dict[str, Any], line: str) -> None:
    assert line in list(amendment(small_plan(), small_plan(**change)).lines())


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"data": "./other"}, "data: synthetic; now ./other"),
        ({"options": {"temperature": 0}}, 'options: none; now {"temperature":0}'),
        ({"mask_key": "0" * 32}, "mask_key: not that of the grid; leave it out"),
        ({"windows": []}, "windows: W1, W2; now each task's own"),
        (
            {"models": [{"name": "builtin/random", "label": "builtin-momentum"}]},
            "model builtin-momentum: ",
        ),
    ],
)
def test_what_a_grid_keeps_is_refused_with_the_difference(
    change: dict[str, Any], difference: str
) -> None:
    begun = with_key(small_plan(), KEY)
    with pytest.raises(UsageError) as refused:
        amendment(begun, small_plan(**change))
    assert difference in str(refused.value)
    assert "choose another --out" in str(refused.value)


def test_another_price_of_a_model_is_a_change_and_no_other_model() -> None:
    priced = small_plan(
        models=[{"name": "builtin/momentum", "price": {"input": 1}}, "builtin/reversal"]
    )
    found = amendment(small_plan(), priced)
    assert (found.added, found.removed) == ((), ())
    assert found.changed == ('price of builtin-momentum: {"input":1} (was none)',)
