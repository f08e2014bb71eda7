"""Costs on a board are at the board's own prices; a submitter's price ranks nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.errors import ConfigError
from ktdeval.testing import on_each_row
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.layout import BoardFolder
from ktdeval_board.ranking.model_pages import model_pages
from ktdeval_board.ranking.rows import Table
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.rules import load_rules
from ktdeval_board.site.data import card_data
from support.board.board_cards import put_json, verdict_of
from support.board.board_checked import change_card, make_board, submit

OURS = {
    "match": "acme/*",
    "input": 2.0,
    "output": 10.0,
    "cache_read": 0.5,
    "as_of": "2026-01-01",
    "source": "the provider's list",
}
NEARLY_NOTHING = {
    "input": 0.000001,
    "output": 0.000001,
    "cache_read": None,
    "cache_write": None,
    "as_of": "",
    "source": "--price",
}
# 1,000,000 of the prompt, of which 400,000 cached, and 100,000 of replies.
TOKENS = {"input_tokens": 1_000_000, "cache_read_tokens": 400_000, "output_tokens": 100_000}
BY_HAND = 0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 10.0


def claim(card: dict[str, Any]) -> None:
    """Let a card be of a model of a provider, with tokens, at next to nothing."""
    card["model"] = {"name": "acme/one", "args": {}}
    card["usage"].update(TOKENS)

    for episode in card["episodes"]:
        episode["usage"].update(TOKENS)

    card["cost"] = {
        "value": 1e-12,
        "currency": "USD",
        "price": NEARLY_NOTHING,
        "per_episode": {"value": 1e-12, "n": 1, "undefined": {}},
        "return_per_usd": {"value": 1e12, "n": 1, "undefined": {}},
    }


def priced_board(folder: Path, market: Path, run: Path, **rules: Any) -> LoadedBoard:
    """A board with one checked card at its submitter's price."""
    board = make_board(folder, market, run, baselines=[], **rules)
    files = change_card(board, submit(board, run), claim)
    path = BoardFolder(board).verdict(files.card_id)
    put_json(path, verdict_of(files.card_id, "blinded"))
    content = yaml.safe_load((board / "board.yaml").read_text())
    content["divisions"][0]["rank_by"] = "cost_usd"
    (board / "board.yaml").write_text(yaml.safe_dump(content))

    return load_board(board)


def only(board: LoadedBoard) -> tuple[BoardEntry, Table]:
    (entry,) = board.entries
    return entry, rank_division(board, board.rules.divisions[0], lambda _: None)["all"]


def cost_in(table: Table) -> float | None:
    (row,) = [row for row in table["rows"] if row["card"]]
    return row["values"][table["columns"].index("cost_usd")]


@pytest.mark.exhaustive
def test_a_submitters_price_is_labelled_and_ranks_nobody(
    tmp_path: Path, market: Path, whole: Path
) -> None:
    board = priced_board(tmp_path / "board", market, whole)
    entry, table = only(board)

    assert "price by submitter" in entry.labels

    (row,) = [row for row in table["rows"] if row["card"]]
    assert row["rank"] is None
    assert any(
        reason.startswith(
            "its cost uses a price by submitter: the board lists no price for acme/one"
        )
        for reason in row["why"]
    )
    assert card_data(board, entry, (False, []), {})["cost"] is None


def test_the_boards_own_price_replaces_a_submitters_everywhere(
    tmp_path: Path, market: Path, whole: Path
) -> None:
    board = priced_board(tmp_path / "board", market, whole, prices=[OURS])
    entry, table = only(board)

    assert "price by submitter" not in entry.labels
    assert cost_in(table) == pytest.approx(BY_HAND)

    (row,) = [row for row in table["rows"] if row["card"]]
    assert row["rank"] == 1, row["why"]

    total_return = entry.trading.episodes[0].metrics["total_return"].value
    cost = card_data(board, entry, (True, []), {})["cost"]

    assert isinstance(cost, dict)
    assert cost["value"] == pytest.approx(BY_HAND)
    assert cost["price"]["source"] == "the provider's list"
    assert cost["return_per_usd"]["value"] == pytest.approx(total_return / BY_HAND)

    ((_, page),) = model_pages(board, {"blinded": {"all": table}})
    assert page["cards"][0]["cost"]["value"] == pytest.approx(BY_HAND)


@on_each_row(
    "matches, price",
    # a name is before a pattern
    (["acme/*", "acme/one"], 2.0),
    # in any order
    (["acme/one", "acme/o*"], 1.0),
    (["other/*"], None),
)
def test_the_most_specific_pattern_has_the_price(
    tmp_path: Path, market: Path, whole: Path, matches: list[str], price: float | None
) -> None:
    prices = [{**OURS, "match": each, "input": n} for n, each in enumerate(matches, 1)]
    board = priced_board(tmp_path / "board", market, whole, prices=prices)
    found = board.rules.price_of("acme/one")
    assert (None if found is None else found.input) == price


@on_each_row(
    "field, value",
    ("source", ""),
    ("as_of", "today"),
    ("match", "one"),
    ("input", -1.0),
)
def test_rules_refuse_prices_that_say_too_little(
    tmp_path: Path, market: Path, whole: Path, field: str, value: object
) -> None:
    board = make_board(tmp_path / "board", market, whole, prices=[{**OURS, field: value}])
    with pytest.raises(ConfigError, match=f"prices.*{field}"):
        load_rules(board)
