"""Edges of the board's check and pages: verdicts on these very bytes, sizes of folders, counts of
ranks, records for others.
"""

from __future__ import annotations

import copy
import datetime as dt
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ktdeval.registry import load_plugins
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.content import check_content
from ktdeval_board.checking.files import BoardTree, _items
from ktdeval_board.checking.rules import Stage, findings_of
from ktdeval_board.errata import load_errata
from ktdeval_board.exchange.board_data import read_board
from ktdeval_board.exchange.eval_results_export import _generation, write_every_eval_ever
from ktdeval_board.layout import BoardFolder
from ktdeval_board.ranking.model_pages import model_pages
from ktdeval_board.rules import load_rules
from support.board.board_cards import changed
from support.board.board_forge import forge_board
from support.board.board_ranks import tables_of
from support.board.forged_models import PLUGIN
from support.figures.card_cases import card, typed
from support.figures.renewed_cards import renewed_card

TODAY = "2026-12-01"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A board of two cards, each with the board's verdict."""
    return forge_board(
        tmp_path_factory.mktemp("edges") / "board", 2, decisions=False, baselines=False
    )


@pytest.fixture
def board(whole: Path, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(whole, tmp_path / "board"))


def looked_at(board: Path) -> tuple[list[tuple[str, str, str]], set[str]]:
    """File, rule and message of each finding, and the cards that are sound."""
    findings, sound = check_content(board, load_rules(board), load_errata(board), TODAY)
    return [(Path(each.path).name, each.rule, each.message) for each in findings], {
        one.card_id for one in sound
    }


def reopen(board: Path) -> None:
    """Let the rules of cards change: divisions that ask for a certificate, which no card has."""
    text = (board / "board.yaml").read_text()
    changed = text.replace(
        "rank_by: total_return",
        "rank_by: total_return\n  certificate: required\n  attackers: [a/b]",
    )

    assert changed != text

    (board / "board.yaml").write_text(changed)


def test_a_verdict_counts_for_the_bytes_that_it_is_on_and_no_others(board: Path) -> None:
    reopen(board)
    first, second = BoardFolder(board).list_cards()
    verdict = BoardFolder(board).verdict(first.card_id)
    verdict.unlink()

    assert [(name, rule) for name, rule, _ in looked_at(board)[0]] == [
        (first.card.name, "certificate")
    ]

    shutil.copy(BoardFolder(board).verdict(second.card_id), verdict)
    findings, sound = looked_at(board)
    on_another = (
        "belongs to another card; delete it and run `ktdeval leaderboard check` on the main branch"
    )

    assert (verdict.name, "verdict", on_another) in findings
    assert (first.card.name, "certificate") in {(name, rule) for name, rule, _ in findings}, (
        "it is no verdict on this card"
    )
    assert sound == {second.card_id}


@pytest.mark.parametrize("how", ["link", "bytes", "broken"])
def test_linked_altered_or_missing_verdict_gives_no_trust(board: Path, how: str) -> None:
    reopen(board)
    first, _ = BoardFolder(board).list_cards()
    verdict = BoardFolder(board).verdict(first.card_id)

    if how == "link":
        verdict.rename(board / "elsewhere.json")
        verdict.symlink_to(board / "elsewhere.json")
    elif how == "bytes":
        first.card.write_text(first.card.read_text() + "\n")
    else:
        verdict.write_text("{}")

    found = {(name, rule) for name, rule, _ in looked_at(board)[0]}

    assert (first.card.name, "certificate") in found
    assert ((verdict.name, "verdict") in found) is (how == "broken")


# -- sizes of folders of records


def sizes_found(board: Path, **limits: int) -> list[str]:
    """What the stage of the tree says of sizes, of a board with limits."""
    tree = BoardTree(board, structs.replace(load_rules(board).limits, **limits))
    return [finding.message for finding in findings_of(Stage.TREE, tree) if finding.rule == "size"]


def records_of(board: Path) -> Path:
    """The folder of the first card's records."""
    files = next(iter(BoardFolder(board).list_cards()))
    return BoardFolder(board).records(files.card_id)


@pytest.mark.parametrize(
    ("surplus", "message"), [(0, []), (1, ["has 1,000,001 bytes; at most 1,000,000 are allowed"])]
)
def test_records_folder_may_reach_but_not_exceed_the_byte_limit(
    board: Path, surplus: int, message: list[str]
) -> None:
    folder = records_of(board)
    folder.mkdir(parents=True)
    for name, size in (("a", 600_000), ("b", 400_000 + surplus)):
        (folder / name).touch()
        os.truncate(folder / name, size)

    assert sizes_found(board) == []
    assert sizes_found(board, records_mb=1) == message


@pytest.mark.parametrize(
    ("count", "message"), [(3, []), (4, ["has 4 episodes; at most 3 are allowed"])]
)
def test_records_folder_may_reach_but_not_exceed_the_episode_limit(
    board: Path, count: int, message: list[str]
) -> None:
    for index in range(count):
        (records_of(board) / "episodes" / str(index)).mkdir(parents=True)

    assert sizes_found(board, episodes=3) == message


# -- pages of models


def test_model_page_counts_ranked_cards_and_omits_unlisted_ones(
    board: Path,
) -> None:
    first, second = (files.card_id for files in BoardFolder(board).list_cards())

    def cards_after(effect: str) -> dict[str, dict[str, Any]]:
        erratum = (
            f"errata:\n- {{card: {first}, date: 2026-11-01, effect: {effect}, what: a fault}}\n"
        )
        (board / "errata.yaml").write_text(erratum)
        loaded = load_board(board)
        pages = dict(model_pages(loaded, tables_of(loaded))).values()
        return {card["card"]: card for page in pages for card in page["cards"]}

    cards = cards_after("unranked")
    unranked = cards[first]

    assert (unranked["rank"], unranked["ranked"], unranked["of"]) == (None, False, 1)
    assert unranked["why"] == ["erratum of 2026-11-01: a fault"]
    assert (cards[second]["rank"], cards[second]["of"]) == (1, 1)

    withdrawn = cards_after("withdrawn")[first]

    assert (withdrawn["withdrawn"], withdrawn["of"]) == (True, 1)
    for name in ("rank", "alpha_rank", "tie", "alpha_tie", "ranked", "why"):
        assert withdrawn[name] is None, name


def test_a_card_without_a_defined_figure_is_omitted_from_exports(
    board: Path,
) -> None:
    data = read_board(board)
    day = dt.date(2026, 12, 1)
    plugins = load_plugins((str(PLUGIN),))
    exported = write_every_eval_ever(data, board.parent / "out", day, plugins)

    assert len(exported.files) == 2
    assert min(exported.files.values()) > 0
    assert exported.excluded == {}

    undefined = replace(
        data, entries=tuple(changed(entry, without_values) for entry in data.entries)
    )
    nothing = write_every_eval_ever(undefined, board.parent / "empty", day, plugins)

    assert (nothing.files, nothing.excluded) == ({}, {"none of its figures is defined": 2})


def without_values(card: dict[str, Any]) -> None:
    """Let every figure of a card be undefined."""
    for entry in card["metrics"].values():
        entry.update(value=None, n=0, reason="nothing was there to measure")
        entry.pop("interval", None)


def test_names_that_differ_in_case_alone_are_counted_in_folders(
    tmp_path: Path,
) -> None:
    for name in ("card.json", "Card.json", "other.json"):
        (tmp_path / name).touch()

    assert {item.name: item.twins for item in _items(tmp_path, "cards")} == {
        "Card.json": 2,
        "card.json": 2,
        "other.json": 1,
    }


@pytest.mark.parametrize(("most", "expected"), [(1, {"max_tokens": 1}), (0, {})])
def test_a_limit_of_tokens_is_exported_from_one_token_on(
    most: int, expected: dict[str, int]
) -> None:
    made = structs.replace(typed(card()), call={"max_output_tokens": most})
    arguments: Any = _generation(made)["generation_args"]

    assert {name: arguments[name] for name in arguments if name == "max_tokens"} == expected


def test_a_forged_card_has_the_labels_and_ids_that_follow_from_it() -> None:
    made = card()
    renewed = renewed_card(copy.deepcopy(made))

    assert renewed["labels"] == made["labels"]
    assert [episode["id"] for episode in renewed["episodes"]] == [
        episode["id"] for episode in made["episodes"]
    ]
