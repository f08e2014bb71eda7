"""The market on a board is described by the board that opened it, never by a card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ktdeval.registry import load_plugins
from ktdeval_board.board_entries import load_board, load_markets
from ktdeval_board.checking.check import CheckOptions, CheckReport, check_board
from ktdeval_board.checking.content import check_content
from ktdeval_board.errata import load_errata
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.market_document import NOT_OPENED, description_problems
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.rules import load_rules
from ktdeval_board.site.data import board_data, card_data
from support.board.board_cards import put_json, verdict_of
from support.board.board_checked import change_card, make_board, submit

ON = "2026-03-02"
LIES: dict[str, Any] = {
    "name": "CSI300 real prices",
    "source": "the exchange",
    "repairs": ["12 splits were put right"],
    "benchmark_name": "CSI 300",
    "assets": 300,
    "first_day": "1990-01-01",
}


@pytest.fixture
def board(market: Path, whole: Path, tmp_path: Path) -> Path:
    """A board whose first card is one run's."""
    return make_board(tmp_path / "board", market, whole, baselines=[])


def lied(board: Path, files: CardFiles, *fields: str) -> CardFiles:
    """The submitted card with lies about its market, all hashes made anew."""

    def change(card: dict[str, Any]) -> None:
        card["snapshot"].update({name: LIES[name] for name in fields or LIES})

    return change_card(board, files, change)


def checked(board: Path) -> CheckReport:
    return check_board(board, load_plugins(), CheckOptions(today=ON))


@pytest.mark.exhaustive
@pytest.mark.parametrize("stored", ["repository", "elsewhere"])
def test_the_first_card_that_misdescribes_the_market_is_refused(
    board: Path, whole: Path, other_run: Path, stored: str
) -> None:
    liar = lied(board, submit(board, whole, stored), "name", "source", "repairs")
    honest = submit(board, other_run)
    report = checked(board)

    assert {(each.path, each.rule) for each in report.findings} == {
        (BoardFolder(board).relative(liar.card), "snapshot")
    }
    assert [each.message.split(":")[0] for each in report.findings] == [
        "snapshot.name",
        "snapshot.repairs",
        "snapshot.source",
    ]
    assert [(each.card_id, each.tier) for each in report.checked] == [
        (honest.card_id, "re-executed")
    ]


@pytest.mark.parametrize("field", LIES)
def test_a_board_that_opened_its_market_needs_no_other_card_to_tell(
    board: Path, whole: Path, field: str
) -> None:
    checked(board)  # without a card: the market alone is written
    lied(board, submit(board, whole), field)
    refused, _ = check_content(board, load_rules(board), load_errata(board), ON)

    assert [(each.rule, each.message.split(":")[0]) for each in refused] == [
        ("snapshot", f"snapshot.{field}")
    ]


def test_the_benchmark_is_that_of_the_market(board: Path, whole: Path) -> None:
    def change(card: dict[str, Any]) -> None:
        (policy,) = card["reference"]["benchmark_buy_and_hold"].values()
        policy["metrics"]["total_return"]["value"] = 0.5

    checked(board)
    change_card(board, submit(board, whole), change)
    refused, _ = check_content(board, load_rules(board), load_errata(board), ON)

    assert {each.rule for each in refused} == {"reference"}


def test_days_of_windows_are_those_of_the_market(board: Path, whole: Path) -> None:
    checked(board)
    submit(board, whole)
    loaded = load_board(board)
    market = load_markets(loaded.folder, loaded.rules)["market"]
    (entry,) = loaded.entries

    assert list(description_problems(entry.card, market)) == []

    (window,) = entry.card.windows
    longer = replace(entry.card, windows=[replace(window, days=window.days + 1)])
    ((rule, message),) = description_problems(longer, market)

    assert (rule, message) == (
        "windows",
        f"{window.name} has {window.days + 1} trading days; the board's market has {window.days}",
    )


def test_where_no_market_was_opened_no_card_describes_it(
    board: Path, whole: Path, other_run: Path
) -> None:
    liar = lied(board, submit(board, whole, "elsewhere"))
    honest = submit(board, other_run, "elsewhere")
    refused, sound = check_content(board, load_rules(board), load_errata(board), ON)

    assert (refused, len(sound)) == ([], 2)

    folder = BoardFolder(board)

    for files in (liar, honest):
        verdict = verdict_of(files.card_id, "blinded", "self-reported")
        put_json(folder.verdict(files.card_id), verdict)

    loaded = load_board(board)
    tables = {"blinded": rank_division(loaded, loaded.rules.divisions[0], lambda _: None)}
    data = board_data(loaded, tables, {})
    cards = [card_data(loaded, entry, (True, []), {}) for entry in loaded.entries]
    shown = json.dumps([data, tables, cards], default=str)

    for lie in ("CSI300 real prices", "the exchange", "12 splits", "CSI 300", "1990-01-01"):
        assert lie not in shown

    (snapshot,) = data["snapshots"]

    assert (snapshot["name"], snapshot["source"], snapshot["assets"]) == ("market", None, None)
    assert [card["market"] for card in cards] == [
        {
            "name": "market",
            "source": NOT_OPENED,
            "repairs": [],
            "benchmark_name": "the benchmark",
        }
    ] * 2


def test_the_first_card_does_not_say_which_way_is_better(
    board: Path, whole: Path, other_run: Path
) -> None:
    def turn(card: dict[str, Any]) -> None:
        card["metrics"]["total_return"]["better"] = "lower"

    liar = change_card(board, submit(board, whole, "elsewhere"), turn)
    honest = submit(board, other_run, "elsewhere")
    report = checked(board)
    ((path, rule),) = [(each.path, each.rule) for each in report.findings]

    assert (path, rule) == (BoardFolder(board).relative(liar.card), "metric")
    assert [each.card_id for each in report.checked] == [honest.card_id]
