"""`ktdeval list tasks` in a screen: families, narrower groups, and what the ends of names mean."""

from __future__ import annotations

import pytest

from ktdeval.cli.families import families, family_lines, split_name, suffixes_of
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal

SPECS = load_plugins().specs("tasks")
SUFFIXES = suffixes_of(SPECS.values())

FAMILIES = [
    "ama",
    "deanon",
    "deanon_rebased",
    "deepfund",
    "investorbench",
    "ktdfin",
    "ktdfin_paper",
    "ktdfin_rebased",
    "markets",
    "memory_floor",
    "qfinzero",
    "views",
]


def test_the_families_that_ship_are_those_of_the_table() -> None:
    assert [family.name for family in families(SPECS.values())] == FAMILIES


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_suffix_means_the_same_in_every_task_file(suffix: str) -> None:
    meanings = {SUFFIXES[suffix]}
    for spec in SPECS.values():
        own = spec.extra["lineage"][-1].suffixes
        meanings.add(own.get(suffix, SUFFIXES[suffix]))

    assert len(meanings) == 1


@pytest.mark.parametrize(
    ("name", "base", "ends"),
    [
        ("ama_btc_long_flat", "ama_btc", ("_long", "_flat")),
        ("investorbench_msft_history_bright", "investorbench_msft", ("_history", "_bright")),
        ("blinded_rebased_open_research", "blinded", ("_rebased", "_open_research")),
        ("views_blinded_compact", "views", ("_blinded", "_compact")),
        ("_flat", "_flat", ()),
    ],
)
def test_a_name_is_taken_apart_from_its_end(name: str, base: str, ends: tuple[str, ...]) -> None:
    assert split_name(name, SUFFIXES) == (base, ends)


# ---- the listing


def test_a_task_with_a_compact_prompt_is_shown_in_full(terminal: Terminal) -> None:
    assert terminal.report("list", "tasks", "market_blinded_compact")["prompt"] == "compact"


# ---- tasks of others


def test_no_line_is_wider_than_the_terminal() -> None:
    lines = family_lines(list(SPECS.values()), 60)
    assert max(map(len, lines)) <= 60
    assert "  _flat             HOLD means no position" in lines
