"""A mask key that was known before the run is on its card, and labelled where the task hides
something.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ktdeval.cards import OWN_KEY_ALONE, derive_card, load_evaluation
from ktdeval.cards.fields.origin.fact_types import Decider
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate

WINDOW = "2024-03-01:2024-03-05"
KEY = "5eed" * 8


def card_of(market: Path, out: Path, task: str = "blinded_memory_only", **changes: Any) -> Any:
    """Run a rule for two days; return the card's file."""
    config = RunConfig(
        model="builtin/first_listed",
        tasks=(task,),
        windows=(WINDOW,),
        limit=2,
        data=str(market),
        out=str(out),
        quiet=True,
        **changes,
    )
    (path,) = evaluate(config, load_plugins()).cards
    return json.loads(path.read_text())


def test_key_that_the_run_drew_is_not_public(market: Path, tmp_path: Path) -> None:
    card = card_of(market, tmp_path / "run")
    assert "key_source" not in card
    assert "public key" not in card["labels"]


def test_given_key_is_public_and_stays_so_when_the_run_goes_on(
    market: Path, tmp_path: Path
) -> None:
    first = card_of(market, tmp_path / "run", mask_key=KEY)
    again = card_of(market, tmp_path / "run")  # takes the key from the records
    for card in (first, again):
        assert card["key_source"] == "given"
        assert "public key" in card["labels"]


def test_own_key_that_is_given_again_to_the_same_run_stays_its_own(
    market: Path, tmp_path: Path
) -> None:
    drawn = card_of(market, tmp_path / "run")["mask_key"]
    assert "key_source" not in card_of(market, tmp_path / "run", mask_key=drawn)

    # A repeat is another run, whose key was known.
    assert card_of(market, tmp_path / "repeat", mask_key=drawn)["key_source"] == "given"


def test_task_that_hides_nothing_has_no_label(market: Path, tmp_path: Path) -> None:
    card = card_of(market, tmp_path / "run", "bright_memory_only", mask_key=KEY)
    assert card["key_source"] == "given"
    assert "public key" not in card["labels"]


@pytest.mark.parametrize(
    ("task", "kind", "is_barred"),
    [
        ("blinded_memory_only", "sandboxed_program", True),
        ("blinded_memory_only", "rule", False),
        ("blinded_memory_only", "model", False),
        ("bright_memory_only", "sandboxed_program", False),
        ("blinded_fixed_candidate", "sandboxed_program", False),
    ],
)
def test_program_in_memory_only_waits_for_the_boards_own_run(
    market: Path, tmp_path: Path, task: str, kind: Any, is_barred: bool
) -> None:
    card_of(market, tmp_path / "run", task)
    (path,) = (tmp_path / "run" / "cards").glob("*.json")
    decided = structs.replace(load_evaluation(path), deciders=[Decider(name="mine", kind=kind)])
    reasons = derive_card(decided).rankable.reasons
    assert any(reason.endswith(OWN_KEY_ALONE) for reason in reasons) is is_barred
