"""What the page of an episode begins with: where its return came from, whatever was traded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktdeval.harness import TranscriptEntry
from ktdeval.runner import RunFolder
from ktdeval.testing import not_empty
from ktdeval_view.document import EnvironmentRedactor
from ktdeval_view.episode_pages import PageSurroundings, make_episode_page
from ktdeval_view.episode_records import EpisodeRecords
from ktdeval_view.pair_pages import PairedEpisode, make_pair_page
from support.figures.hand_account import A, Account, B, sold_in_two_parts
from support.pages.browser_pages import (
    Reader,
    every_screen,
    needs_browser,
    page_troubles,
    press,
    wait_until,
)
from support.pages.view_page import days_of, head_of, pages

pytestmark = needs_browser

SHOWN = "document.querySelector('#day-body')?.children.length > 0"


def open_page(session: Reader, page: Path, address: str = "", **screen: Any) -> Any:
    return session.open(f"{page.as_uri()}#{address}", ready=SHOWN, **screen)


def table(tab: Any, caption: str) -> list[list[str]]:
    """The cells of a table whose caption begins so."""
    script = """caption => [...document.querySelectorAll('#why-tables table')]
        .filter(table => table.caption.textContent.startsWith(caption))
        .flatMap(table => [...table.tBodies[0].rows])
        .map(row => [...row.cells].map(cell => cell.textContent))"""
    cells: list[list[str]] = tab.evaluate(script, caption)
    return cells


def top_of(tab: Any, selector: str) -> float:
    top = tab.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().top")
    return float(top)


def percent(fraction: float) -> str:
    """A fraction as pages have it."""
    text = f"{100 * fraction:+.2f}".replace("-", "\N{MINUS SIGN}")
    if not float(text[1:]):
        text = text[1:]
    return f"{text}\N{NARROW NO-BREAK SPACE}%"


# -- of runs


@every_screen
def test_a_page_begins_with_its_sentence_and_the_parts_that_add_up(
    session: Reader, runs_folder: Path, width: int, scheme: str
) -> None:
    (page,) = pages(runs_folder / "bright" / "view")
    why = head_of(page)["why"]
    tab = open_page(session, page, width=width, color_scheme=scheme)

    assert tab.inner_text("#why-sentence") == why["sentence"]
    assert tab.evaluate("window.scrollY") == 0
    assert top_of(tab, "#why-sentence") < min(top_of(tab, "#day-panel"), 600)
    assert sum(part["value"] for part in why["parts"]) == pytest.approx(why["total"], abs=1e-9)
    for cells, part in not_empty(zip(table(tab, "Parts"), why["parts"], strict=True)):
        assert cells[0].startswith(part["label"])
        assert cells[2].startswith(percent(part["value"]))

    assert page_troubles(tab) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", ["talk", "seeds", "bright"])
def test_assets_trips_and_days_are_those_of_the_records(
    session: Reader, runs_folder: Path, run: str
) -> None:
    for page in not_empty(pages(runs_folder / run / "view")):
        why = head_of(page)["why"]
        assets = why["assets"]
        rows = [*assets["best"], *assets["worst"]]
        listed = sum(row["contribution"] for row in rows)

        assert assets["unexplained"] == 0
        assert listed + assets["others_contribution"] == pytest.approx(why["total"], abs=1e-12)

        tab = open_page(session, page)
        shown = table(tab, "Assets that gained") + table(tab, "Assets that lost")
        for cells, row in zip(shown, rows, strict=True):
            assert cells[0].startswith(row["code"])
            assert percent(row["contribution"]) in cells[2]

        dates = [row["filled_on"] for row in head_of(page)["rows"]]
        shown = table(tab, "Round trips that gained") + table(tab, "Round trips that lost")
        for cells, trip in zip(shown, [*why["trips"]["best"], *why["trips"]["worst"]], strict=True):
            end = "still open" if trip["exit"] is None else dates[trip["exit"]]
            assert f"{dates[trip['entry']]} – {end}" in cells[1]

        days = [row["day"] for row in why["worst_days"]]
        assert [cells[0] for cells in table(tab, "Worst days")] == [dates[day] for day in days]


@pytest.mark.parametrize("width", [1280, 390])
def test_a_day_named_above_leads_to_the_day(session: Reader, runs_folder: Path, width: int) -> None:
    (page,) = pages(runs_folder / "bright" / "view")
    day = head_of(page)["why"]["worst_days"][0]["day"]
    tab = open_page(session, page, width=width)

    tab.click("#why-tables table:has(caption:text('Worst days')) tbody a")
    wait_until(tab, f"document.querySelector('#said').textContent.startsWith('Day {day},')")
    wait_until(tab, "document.querySelector('#day-panel').getBoundingClientRect().top < 540")

    assert top_of(tab, "#day-panel") >= 0


@pytest.mark.exhaustive
def test_an_unfinished_episode_has_no_parts_and_says_why(
    session: Reader, runs_folder: Path
) -> None:
    (page,) = pages(runs_folder / "killed" / "view")
    tab = open_page(session, page)

    assert "in 9 days so far" in tab.inner_text("#why-sentence")
    assert "The parts of the return are not known: the run has no readable card" in tab.inner_text(
        "#why-tables"
    )


@pytest.mark.exhaustive
def test_long_answers_of_tools_are_folded(session: Reader, runs_folder: Path) -> None:
    (page,) = pages(runs_folder / "talk" / "view")
    answers = []
    for day in days_of(page):
        texts = []
        for exchange in day["talk"]["exchanges"]:
            texts += [one["content"] for one in exchange["sent"] if one["role"] == "tool"]
        answers.append(texts)

    number = next(at for at, texts in enumerate(answers) if any(len(one) > 1000 for one in texts))
    tab = open_page(session, page, f"day={number}")
    folds = "[...document.querySelectorAll('details.turn.tool')]"

    assert tab.evaluate(f"{folds}.length") > 0
    assert not tab.evaluate(f"{folds}.some(fold => fold.open)")
    assert "letters" in tab.evaluate(f"{folds}[0].firstChild.textContent")

    press(tab, "u")
    wait_until(tab, f"{folds}.length && {folds}.every(fold => fold.open)")


# -- of accounts kept by hand


@pytest.fixture
def page_of(runs_folder: Path, tmp_path: Path) -> Callable[[Account], Path]:
    """Writes the page of an account."""
    (spec,) = RunFolder.load(runs_folder / "talk").manifest.specs

    def write(account: Account) -> Path:
        ledger = account.ledger
        talks = [
            TranscriptEntry(step=step.step, exchanges=(), submission=None) for step in ledger.steps
        ]
        records = EpisodeRecords(spec, "finished", ledger, talks)
        path = tmp_path / "episode.html"
        path.write_text(make_episode_page(records, PageSurroundings(), EnvironmentRedactor({})))
        return path

    return write


def test_a_round_trip_worked_by_hand_is_shown_with_its_days_and_gain(
    session: Reader, page_of: Callable[[Account], Path]
) -> None:
    account = sold_in_two_parts()
    first, _, last = (step.filled_on for step in account.steps)
    tab = open_page(session, page_of(account))
    gain = "+20.00 CNY+10.00\N{NARROW NO-BREAK SPACE}%"

    assert table(tab, "Round trips that gained") == [
        [f"{A} ", f"{first} – {last}2 trading days", gain]
    ]
    assert table(tab, "Round trips that lost") == [["none"]]
    assert "1 trip closed, 0 still open" in tab.inner_text("#why-tables")


def test_open_and_short_positions_and_failed_days_are_named(
    session: Reader, page_of: Callable[[Account], Path]
) -> None:
    account = Account()
    account.trade(A, -10, 20_000)
    account.trade(B, 10, 10_000)
    account.close({A: 1_900, B: 900})
    account.close({A: 1_800, B: 900}, provenance="fallback", failures={"bad_json": 4})
    tab = open_page(session, page_of(account))
    ((short, held, gain),) = table(tab, "Round trips that gained")

    assert (short, gain[:10]) == (f"{A} short", "+20.00 CNY")
    assert "still open" in held
    assert "1 day not decided by the model." in tab.inner_text("#why-sentence")
    assert page_troubles(tab) == []


def test_an_account_that_never_traded_has_no_tables_of_trades(
    session: Reader, page_of: Callable[[Account], Path]
) -> None:
    account = Account()
    account.close({})
    tab = open_page(session, page_of(account))

    assert "nothing was bought or sold" in tab.inner_text("#why-sentence")
    assert table(tab, "Assets") == table(tab, "Round") == []
    assert table(tab, "Worst days") == [["none"]]
    assert page_troubles(tab) == []


def test_what_no_asset_explains_is_stated(
    session: Reader, page_of: Callable[[Account], Path]
) -> None:
    account = sold_in_two_parts()
    account.cash += 1_000
    account.close({})
    tab = open_page(session, page_of(account))
    rest = percent(0.01)

    assert f"No asset explains {rest}" in tab.inner_text("#why-tables")


# -- of two episodes


@pytest.mark.parametrize(
    ("windows", "address", "expected"),
    [
        (("W1", "W2", "W2"), "", ["1", "2"]),
        (("W1", "W2", "W1"), "", ["0", "2"]),
        (("W1", "W2"), "", ["0", "1"]),
        (("W1", "W2", "W1", "W2"), "first=3", ["3", "1"]),
        (("W1", "W2", "W1"), "first=0&second=1", ["0", "1"]),
    ],
)
def test_two_episodes_are_of_one_window_unless_another_is_chosen(
    session: Reader, tmp_path: Path, windows: tuple[str, ...], address: str, expected: list[str]
) -> None:
    page = pair_page(tmp_path, [("run", "task", window) for window in windows])
    ready = "document.querySelectorAll('#pair-days tbody tr').length > 0"
    tab = session.open(f"{page.as_uri()}#{address}", ready=ready)
    first, second = expected

    assert [tab.input_value(name) for name in ("#first", "#second")] == expected
    assert tab.locator("#sentences li").all_text_contents() == [
        f"A sentence {first}",
        f"B sentence {second}",
    ]

    tab.select_option("#first", "1")
    partner = [place for place, window in enumerate(windows) if window == windows[1] and place != 1]
    if partner:
        wait_until(tab, f"document.querySelector('#second').value === '{partner[0]}'")


def test_an_episode_of_another_run_comes_before_one_of_the_same(
    session: Reader, tmp_path: Path
) -> None:
    episodes = [("mine", "blind", "W1"), ("mine", "blind", "W1"), ("other", "bright", "W1")]
    page = pair_page(tmp_path, [*episodes, ("other", "blind", "W1"), ("other", "blind", "W2")])
    tab = session.open(
        page.as_uri(), ready="document.querySelectorAll('#pair-days tbody tr').length > 0"
    )

    assert [tab.input_value(name) for name in ("#first", "#second")] == ["0", "3"]
    assert "other · W1 3" in tab.inner_text("#legend")


def pair_page(folder: Path, episodes: Sequence[tuple[str, str, str]]) -> Path:
    """A page of episodes: the run, task and window of each."""
    row = {
        "decided_on": "2024-01-02",
        "filled_on": "2024-01-03",
        "provenance": "model",
        "failures": {},
        "nav": 101.0,
        "orders": [],
    }
    listed = []
    for number, (run, task, window) in enumerate(episodes):
        days: Any = {"initial_cash": 100.0, "rows": [row]}
        listed.append(
            PairedEpisode(
                run=run,
                task=task,
                window=window,
                label=f"{window} {number}",
                page="a.html",
                sentence=f"sentence {number}",
                days=days,
            )
        )

    folder_of_run: Any = SimpleNamespace(path=folder)
    page = folder / "pair.html"
    page.write_text(make_pair_page(folder_of_run, listed, EnvironmentRedactor({})))
    return page
