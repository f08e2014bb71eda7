"""`ktdeval tasks` in a screen: families, narrower groups, and what the ends of names mean."""

from __future__ import annotations

import pytest

from ktdeval.cli.families import families, family_lines, family_of, split_name, suffixes_of
from ktdeval.registry import load_plugins
from support.terminal import Terminal

SPECS = load_plugins().specs("tasks")
SUFFIXES = suffixes_of(SPECS.values())

#: Names of all tasks that ship, without their suffixes, by family
BASES = {
    "ama": ["ama_bmrn", "ama_btc", "ama_eth", "ama_tsla"],
    "deanon": ["deanon_probe"],
    "deanon_rebased": ["deanon_probe"],
    "deepfund": ["bank", "berkshire", "crypto", "gold", "oil"],
    "investorbench": [
        "aapl", "btc", "etf", "eth", "hon", "jnj", "msft", "nflx", "nio", "portfolio", "tsla", "uvv",
    ],
    "ktdfin": ["blinded", "bright", "date_blind", "stock_blind"],
    "ktdfin_paper": ["blinded", "bright", "date_blind", "stock_blind"],
    "ktdfin_rebased": ["blinded"],
    "markets": ["market", "market_coins", "market_minutes", "market_news"],
    "qfinzero": ["qfinzero_calling", "qfinzero_planning"],
    "views": ["views"],
}  # fmt: skip


def bases_of(family: str) -> list[str]:
    """The names of a family's tasks without suffixes, as the table above has them."""
    bases = set()
    for spec in SPECS.values():
        if family_of(spec) == family:
            base, _ = split_name(spec.name, SUFFIXES)
            bases.add(base)

    if family in ("deepfund", "investorbench"):
        return sorted(base.removeprefix(f"{family}_") for base in bases)

    return sorted(bases)


def test_the_families_that_ship_are_those_of_the_table() -> None:
    assert [family.name for family in families(SPECS.values())] == list(BASES)


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
    assert terminal.report("tasks", "market_blinded_compact")["prompt"] == "compact"


# ---- tasks of others


def test_no_line_is_wider_than_the_terminal() -> None:
    lines = family_lines(list(SPECS.values()), 60)
    assert max(map(len, lines)) <= 60
    assert "  _flat             HOLD means no position" in lines
