"""`ktdeval tasks` in a screen: families, narrower groups, and what the ends of names mean."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from ktdeval.cli.families import families, family_lines, family_of, split_name, suffixes_of
from ktdeval.hookspecs import Spec
from ktdeval.registry import load_plugins
from terminal import Terminal

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


def test_each_task_is_in_one_family_which_its_config_names() -> None:
    found = families(SPECS.values())
    specs = chain.from_iterable(family.specs for family in found)
    counts = Counter(spec.name for spec in specs)

    assert counts == Counter(SPECS.keys())

    for family in found:
        assert {spec.extra["config"]["family"] for spec in family.specs} == {family.name}


def test_the_families_that_ship_are_those_of_the_table() -> None:
    assert [family.name for family in families(SPECS.values())] == list(BASES)


@pytest.mark.parametrize("family", BASES)
def test_what_is_left_of_a_name_without_its_suffixes_is_what_is_traded_or_asked(
    family: str,
) -> None:
    assert bases_of(family) == BASES[family]


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


def test_the_listing_of_tasks_fits_a_screen(terminal: Terminal) -> None:
    lines = terminal.text("tasks").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_a_line_has_the_family_how_many_tasks_it_has_and_its_summary(terminal: Terminal) -> None:
    lines = [" ".join(line.split()) for line in terminal.text("tasks").splitlines()]
    assert lines[:3] == [
        "FAMILY TASKS SUMMARY",
        "ama 16 Agent Market Arena, one asset, BUY, SELL or HOLD a day",
        "ama_crypto 8 btc, eth",
    ]
    assert "deepfund_sector 4 bank, crypto, gold, oil" in lines


def test_every_end_of_a_name_is_explained(terminal: Terminal) -> None:
    footer = " ".join(terminal.text("tasks").partition("Ends of names:")[2].split())
    used = set(chain.from_iterable(split_name(name, SUFFIXES)[1] for name in SPECS))

    assert len(used) == 18

    for end in used:
        assert f"{end} {SUFFIXES[end]}" in footer


@pytest.mark.parametrize("words", [["tasks", "ama_stock"], ["tasks", "show", "ama_stock"]])
def test_a_family_or_group_is_shown_with_the_lines_of_its_tasks(
    words: list[str], terminal: Terminal
) -> None:
    header, *lines = terminal.text(*words).splitlines()
    assert header.split() == ["TASK", "GROUPS", "SUMMARY"]
    assert len(lines) == 8
    assert lines[0].startswith("ama_bmrn")


@pytest.mark.parametrize("words", [["show"], []])
def test_a_task_is_shown_in_full_with_or_without_the_word_show(
    words: list[str], terminal: Terminal
) -> None:
    shown = terminal.report("tasks", *words, "ama_btc_flat")
    assert (shown["name"], shown["hold"]) == ("ama_btc_flat", "flat")


def test_a_task_with_a_compact_prompt_is_shown_in_full(terminal: Terminal) -> None:
    assert terminal.report("tasks", "market_blinded_compact")["prompt"] == "compact"


# ---- tasks of others


def test_tasks_of_others_are_families_of_their_own(tmp_path: Path, terminal: Terminal) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "family: mine\nversion: '1'\nsummary: My own days\n"
        "suffixes: {_calm: a market that hardly moves}\n"
        "variants:\n  mine_a: {extends: ama_btc}\n  mine_a_calm: {extends: ama_btc, seed: 1}\n"
    )
    lines = terminal.text("tasks", "--plugin", path).splitlines()

    assert [line.split() for line in lines if line.startswith("mine")] == [
        ["mine", "2", "My", "own", "days"]
    ]
    assert "_calm" in " ".join(lines)
    assert "a market that hardly moves" in " ".join(lines)


def test_a_task_without_groups_is_a_family_of_its_own() -> None:
    alone = Spec("quiz", lambda: None, "Questions on bonds")
    (family,) = families([alone])
    assert (family.name, family.summary, family.specs) == ("quiz", "Questions on bonds", (alone,))


def test_a_family_without_a_line_has_that_of_its_first_task() -> None:
    first = Spec("quiz_a", lambda: None, "Questions on bonds", groups=("quiz",))
    second = Spec("quiz_b", lambda: None, "Questions on stocks", groups=("quiz",))
    (family,) = families([first, second])
    assert family.summary == "Questions on bonds"


def test_no_line_is_wider_than_the_terminal() -> None:
    lines = family_lines(list(SPECS.values()), 60)
    assert max(map(len, lines)) <= 60
    assert "  _flat             HOLD means no position" in lines
