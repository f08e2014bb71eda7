"""A new field of cards is one file, and one line in `FIELDS`."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

from card_cases import card
from ktdeval.cards.assembly import card_type
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.fields.all_fields import FIELDS, fields_of
from paths import REPOSITORY
from source_trees import imports_in

# The one file. `haste` is gathered from the records, `spread` derived from the card's episodes.
NEW_FIELDS = """
from ktdeval.cards.fields.field import TradingField
from ktdeval.cards.fields.words import FieldWords


def haste_problems(haste, facts):
    if haste > len(facts.seeds):
        yield ("haste",), f"there are {len(facts.seeds)} seeds"


HASTE = TradingField(
    "haste",
    type=int,
    gather=lambda sources: len(sources.finished),
    rows=lambda haste, facts: [("haste", f"{haste} of {len(facts.seeds)} in haste")],
    problems=haste_problems,
    words={"haste": FieldWords("haste", "episodes", "episodes that finished in haste")},
)

SPREAD = TradingField(
    "spread",
    type=int,
    derive=lambda basis: sum(one.steps for one in basis.facts.episodes),
    rows=lambda spread, facts: [("spread", f"over {spread} {facts.STEP}s")],
    table="activity",
    words={"spread": FieldWords("spread", "steps", "steps over which it is spread")},
)
"""

# `FIELDS` as with their lines, and what a card then is; the result is JSON for the test.
USE = """
import json

from ktdeval.cards.fields import all_fields

import new_fields

all_fields.FIELDS += (new_fields.HASTE, new_fields.SPREAD)

from card_cases import card
from ktdeval.cards import card_lines, parse_card, validate_card
from ktdeval.cards.words_file import card_fields, words_text
from ktdeval.cards.schema import SCHEMAS, card_schema
from ktdeval.errors import CardError


def refusal(**changes):
    try:
        validate_card({**made, **changes})
    except CardError as error:
        return str(error)


made = card((0, 1))
read = parse_card(json.dumps(made), "card.json")
words = json.loads(words_text())["fields"]
print(json.dumps({
    "file": [made["haste"], made["spread"]],
    "read": [read.haste, read.spread],
    "lines": [line.plain.split() for line in card_lines(read)],
    "false_haste": refusal(haste=3),
    "false_spread": refusal(spread=1),
    "words": [words["haste"]["meaning"], words["spread"]["unit"]],
    "docs": card_fields()["haste"],
    "schema": card_schema(*SCHEMAS["result-card-v1.json"])["properties"]["spread"],
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a fresh process says of a card with two new fields."""
    folder = tmp_path_factory.mktemp("field")
    (folder / "new_fields.py").write_text(NEW_FIELDS, encoding="utf-8")
    paths = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )

    assert done.returncode == 0, done.stderr

    result: dict[str, Any] = json.loads(done.stdout)

    return result


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_new_field_is_gathered_derived_and_read_again(seen: dict[str, Any]) -> None:
    steps = sum(episode["steps"] for episode in card((0, 1))["episodes"])
    assert seen["file"] == [2, steps]
    assert seen["read"] == [2, steps]


def test_a_new_field_is_a_row_of_the_printed_card(seen: dict[str, Any]) -> None:
    steps = seen["file"][1]
    assert ["haste", "2", "of", "2", "in", "haste"] in seen["lines"]
    assert ["spread", "over", str(steps), "steps"] in seen["lines"]

    # in its table: what ran stands above what happened
    titles = [line[0] for line in seen["lines"] if line]
    assert titles.index("haste") < titles.index("Activity") < titles.index("spread")


@pytest.mark.parametrize(
    ("case", "refusal"),
    [
        ("false_haste", "haste: there are 2 seeds"),
        ("false_spread", "spread: recorded 1, recomputed 10 from the card's own episodes"),
    ],
)
def test_a_new_field_is_checked(seen: dict[str, Any], case: str, refusal: str) -> None:
    assert refusal in seen[case]


def test_a_new_field_has_words_and_a_schema(seen: dict[str, Any]) -> None:
    assert seen["words"] == ["episodes that finished in haste", "steps"]
    assert seen["docs"] == ["trading"]
    assert seen["schema"] == {"type": "integer"}


@pytest.mark.parametrize(("kind", "declared"), [("trading", TradingCard), ("scoring", ScoringCard)])
def test_the_classes_of_cards_declare_all_fields(kind: str, declared: Any) -> None:
    """What the suite reads by name has a type; and no class declares what no field fills."""
    assert sorted(field.name for field in fields_of(kind)) == sorted(declared.__struct_fields__)
    assert card_type(declared) is declared


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.name} {field.KINDS}")
def test_every_field_is_either_gathered_or_derived(field: Any) -> None:
    assert (field.gather is None) != (field.derive is None)


@pytest.mark.slow
def test_no_module_of_cards_imports_itself_through_others_not_even_for_a_type() -> None:
    """`graphlib` raises CycleError, which names the circle."""
    modules = {}
    for path in (REPOSITORY / "ktdeval" / "cards").rglob("*.py"):
        name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        modules[name] = set(imports_in(ast.walk(ast.parse(path.read_text("utf-8"))), names=True))

    order = list(TopologicalSorter(modules).static_order())

    assert order.index("ktdeval.cards.fields.recorded_facts") < order.index(
        "ktdeval.cards.fields.all_fields"
    )
    assert order.index("ktdeval.cards.fields.all_fields") < order.index(
        "ktdeval.cards.card_reading"
    )
