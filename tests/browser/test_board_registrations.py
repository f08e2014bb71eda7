"""What a site shows of registrations and of keys, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval_board.site.build import build_site
from support.board.board_keys import OTHER, confirm, draw, registered, run_under, submit
from support.board.board_runs import DIVISION, begin, change_rules, make_run
from support.pages.browser_pages import Reader, every_screen, needs_browser, page_troubles
from support.pages.site_pages import read_data

pytestmark = [pytest.mark.exhaustive, needs_browser]

MOMENTUM = "builtin/momentum"
HOLD = "builtin/hold"
REVERSAL = "builtin/reversal"


@pytest.fixture(scope="module")
def forged_site(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a used, an unused and an open registration, and a card under a key of its own."""
    home = tmp_path_factory.mktemp("registrations")
    board = home / "board"
    begin(board, market)
    used = registered(board, MOMENTUM)
    registered(board, HOLD, OTHER)
    draw(board)
    registered(board, REVERSAL)
    run = run_under(board, used, home / "runs" / "run", market)
    own = make_run(home / "runs" / "own", market, model="builtin/low_volatility")

    assert submit(board, run, attempts=2).missing == submit(board, own).missing == ()

    change_rules(
        board,
        ('  - {model: "builtin/equal_weight", kind: rule}\n', ""),
        ("baselines:\n", "baselines: []\n"),
    )
    confirm(board)
    build_site(board, home / "site", workers=1)

    return home / "site"


def test_registrations_page_counts_them_and_states_each_result(
    session: Reader,
) -> None:
    tab = session.open("registrations.html")
    counts, listed = tab.locator("table.grid").all_inner_texts()

    assert counts.splitlines()[-1].split("\t")[1:] == ["3", "1", "1", "1", "1", "10"]

    for words in ("used", "not used", "open", MOMENTUM, HOLD, REVERSAL, "A team", "Another team"):
        assert words in listed

    assert tab.locator("nav a[href='registrations.html']").count() == 1


@every_screen
def test_the_page_of_registrations_can_be_read_on_every_screen(
    session: Reader, width: int, scheme: str
) -> None:
    tab = session.open("registrations.html", width=width, color_scheme=scheme)
    assert page_troubles(tab) == []


def test_a_card_states_who_chose_its_key(session: Reader, forged_site: Path) -> None:
    rows = {
        row["model"]: row
        for row in read_data(forged_site, f"division/{DIVISION}/all")["rows"]
        if row["card"]
    }
    drawn = session.open(f"card.html#card={rows[MOMENTUM]['card']}").inner_text("main")

    assert "Mask key drawn on" in drawn
    assert rows[MOMENTUM]["registration"][:8] in drawn

    own = session.open(f"card.html#card={rows['builtin/low_volatility']['card']}").inner_text(
        "main"
    )

    assert "the submitter's own" in own
    assert "own key: its mask key was not drawn by the board" in own


def test_the_page_of_a_task_tells_to_register_first(session: Reader) -> None:
    text = session.open(f"task.html#division={DIVISION}").inner_text("main")
    assert f"ktdeval leaderboard register --board . --division {DIVISION}" in text
    assert "--registration keys/ID.json" in text
    assert "drawn by the board, after registration" in text
    assert "registrations" in session.open("about.html").inner_text("main")
