"""Amendments: what a plan may add, take away and change, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from grid_store import small_plan
from ktdeval.errors import UsageError
from ktdeval.testing import on_each_row
from ktdeval_grid.state.amend import amendment, with_key

KEY = "5eed" * 8


def test_an_equal_plan_amends_nothing() -> None:
    begun = with_key(small_plan(), KEY)
    assert amendment(begun, small_plan()).is_empty
    assert amendment(begun, small_plan(mask_key=KEY)).is_empty


@on_each_row(
    "change, line",
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
)
def test_what_is_new_is_said(change: dict[str, Any], line: str) -> None:
    assert line in list(amendment(small_plan(), small_plan(**change)).lines())


@on_each_row(
    "change, difference",
    ({"data": "./other"}, "data: synthetic; now ./other"),
    ({"options": {"temperature": 0}}, 'options: none; now {"temperature":0}'),
    (
        {"mask_key": "00000000000000000000000000000000"},
        "mask_key: not that of the grid; leave it out",
    ),
    ({"windows": []}, "windows: W1, W2; now each task's own"),
    (
        {"models": [{"name": "builtin/random", "label": "builtin-momentum"}]},
        "model builtin-momentum: ",
    ),
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


@on_each_row(
    "value, shown",
    (
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        {"a": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        '{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}',
    ),
    (
        {"a": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        '{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…',
    ),
)
def test_a_long_value_is_cut_after_sixty_characters(value: Any, shown: str) -> None:
    field = "data" if isinstance(value, str) else "data_args"
    before = {"data": "synthetic", "data_args": "none"}[field]

    with pytest.raises(UsageError) as refused:
        amendment(with_key(small_plan(), KEY), small_plan(**{field: value}))

    assert f"({field}: {before}; now {shown})" in str(refused.value)


def test_changed_pruning_is_an_amendment_but_a_changed_reason_is_not() -> None:
    rule = {"name": "odd", "reason": "odd seeds are enough", "cells": [{"seeds": [0]}]}
    begun = small_plan(prune=[rule])

    other = amendment(begun, small_plan(prune=[{**rule, "cells": [{"seeds": [1]}]}]))
    reworded = amendment(begun, small_plan(prune=[{**rule, "reason": "for another reason"}]))

    assert other.changed == ("rule of pruning odd",)
    assert reworded.is_empty


def test_windows_that_a_grid_did_not_name_may_not_be_named_later() -> None:
    with pytest.raises(UsageError, match="windows: each task's own; now W1, W2"):
        amendment(small_plan(windows=[]), small_plan())


def test_label_reused_for_another_model_is_refused_with_both_models() -> None:
    with pytest.raises(UsageError) as refused:
        amendment(
            small_plan(models=[{"name": "a/b", "label": "x"}]),
            small_plan(models=[{"name": "a/c", "label": "x"}]),
        )

    assert 'model x: {"args":{},"base_url":null,"name":"a/b"' in str(refused.value)
    assert "; give it another label)" in str(refused.value)
