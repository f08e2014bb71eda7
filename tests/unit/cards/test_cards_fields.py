"""A field of cards is declared in its class, and is a row of `FIELDS`."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from typing import Any

import pytest

from ktdeval.cards.fields.all_fields import FIELDS
from support.paths import REPOSITORY
from support.source_trees import imports_in


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.name} {field.only}")
def test_every_field_is_either_gathered_or_derived(field: Any) -> None:
    assert (field.gather is None) != (field.derive is None)


@pytest.mark.slow
def test_card_modules_have_no_import_cycle_even_for_types() -> None:
    """`graphlib` raises CycleError, which names the circle."""
    modules = {}
    for path in (REPOSITORY / "ktdeval" / "cards").rglob("*.py"):
        name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        modules[name] = set(imports_in(ast.walk(ast.parse(path.read_text("utf-8"))), names=True))

    order = list(TopologicalSorter(modules).static_order())

    assert order.index("ktdeval.cards.fields.origin.recorded_facts") < order.index(
        "ktdeval.cards.fields.all_fields"
    )
    assert order.index("ktdeval.cards.fields.all_fields") < order.index(
        "ktdeval.cards.card_reading"
    )
