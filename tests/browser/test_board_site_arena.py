"""Pages of arenas in a real browser, with 96 entrants: what is shown, narrowed, lit and linked to
is what the data say.
"""

from __future__ import annotations

from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest

from ktdeval_board.site.build import build_site
from support.board.board_arena import AGENTS, HOSTILE, arena_board, play_ama, play_fund, run_frame
from support.pages.browser_pages import (
    Reader,
    every_screen,
    is_in_sight,
    needs_browser,
    page_troubles,
    wait_until,
)
from support.pages.site_pages import read_data

pytestmark = [needs_browser, pytest.mark.exhaustive]
DRAWN = "document.querySelector('.chart-plot').vega"
LINES = (
    "document.querySelectorAll('.chart-plot')[0].querySelectorAll('g.mark-line"
    ' path[opacity]:not([opacity="0"])\')'
)


@pytest.fixture(scope="module")
def forged_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("arena")
    frames = [
        (run_frame("ama_tsla", "synthetic_arena", 2), play_ama),
        (run_frame("ama_btc_long", "synthetic_arena", 1), play_ama),
    ]
    frames.append((run_frame("deepfund_berkshire", "synthetic_deepfund", 2), play_fund))
    build_site(arena_board(home / "board", frames, models=16), home / "site", workers=1)

    return home / "site"


def opacities(tab: Any) -> list[float]:
    """Of the lines of cards, in the order in which they are drawn."""
    return [
        float(value)
        for value in tab.evaluate(f"[...{LINES}].map(line => line.getAttribute('opacity'))")
    ]


def cells_of(tab: Any, rows: str) -> list[list[str]]:
    return list(
        tab.evaluate(
            f"[...document.querySelectorAll('{rows}')].map(row => [...row.cells].map(cell =>"
            " cell.innerText))"
        )
    )


@every_screen
def test_ninety_six_lines_are_drawn_in_a_panel_for_each_agent(
    session: Reader, width: int, scheme: str
) -> None:
    tab = session.open("ama.html", width=width, color_scheme=scheme)
    wait_until(tab, DRAWN)

    assert len(opacities(tab)) == 96
    assert tab.evaluate(
        "document.querySelectorAll('.chart-plot')[0].querySelectorAll('g.cell > g,"
        " g.role-scope.cell').length"
    ) >= len(AGENTS)
    assert tab.evaluate(
        "[...document.querySelectorAll('.agents button')].map(one => one.dataset.agent)"
    ) == sorted(AGENTS)
    assert HOSTILE in tab.inner_text("body")
    assert tab.title() != "owned"
    assert page_troubles(tab) == []
    assert is_in_sight(tab, ".ranking tbody th + td"), "the figure that ranks"

    tab.locator("section >> nth=-1").scroll_into_view_if_needed()
    wait_until(tab, "[...document.querySelectorAll('.chart-plot')].at(-1).vega")
    tab.locator("figure.chart >> nth=-1").locator("button", has_text="Table").click()
    shown = cells_of(tab, ".chart-table:not([hidden]) tbody tr")

    assert len(shown) == 60
    assert all(sum(map(int, row[1:4])) == 192 for row in shown), (
        "each card and seed has one vote a day"
    )


def test_the_address_holds_filters_order_fees_and_the_lit_agent(
    session: Reader, forged_site: Path
) -> None:
    tab = session.open(
        "ama.html#agent=trade,vote&strategy=flip&fees=before&sort=-ama_gap_to_buy_and_hold&focus=vote"
    )
    wait_until(tab, DRAWN)
    table = read_data(forged_site, "division/division-0/all")
    column = table["columns"].index("ama_gap_to_buy_and_hold")
    wanted = [
        row
        for row in table["rows"]
        if row["agent"] in ("trade", "vote") and row["strategy"] == "flip"
    ]
    wanted.sort(key=lambda row: -row["values"][column])

    assert [cells[1] for cells in cells_of(tab, "tbody tr")] == [row["label"] for row in wanted]
    assert len(opacities(tab)) == len(wanted) == 16
    assert sorted(set(opacities(tab))) == [0.15, 0.95]
    assert tab.get_attribute(".agents button[aria-pressed=true]", "data-agent") == "vote"

    drawn = tab.evaluate(
        "document.querySelector('.chart-plot').vega.data('source_0').filter(row => row.id).map(row"
        " => row.value)"
    )
    curves = read_data(forged_site, "curves/division-0")["cards"]

    assert sorted(drawn) == sorted(
        chain.from_iterable(curves[row["card"]]["live"]["before"][0] for row in wanted)
    )

    tab.click("button:has-text('Clear filters')")
    wait_until(tab, "document.querySelectorAll('tbody tr').length === 96")
    tab.select_option("select:has(option[value=together])", "together")
    wait_until(tab, f"{DRAWN} && {LINES}.length === 96 && location.hash.includes('lines=together')")
    tab.go_back()
    wait_until(tab, "!location.hash.includes('lines')")
    tab.select_option("select:has(option[value=BTC])", "BTC")
    wait_until(
        tab, "document.body.innerText.includes('long only') && location.hash.includes('division-1')"
    )


def test_keys_alone_light_an_agent_a_card_and_sort(session: Reader) -> None:
    tab = session.open("ama.html#lines=together")
    wait_until(tab, DRAWN)
    tab.focus(".agents button >> nth=1")
    wait_until(
        tab, f"[...{LINES}].filter(line => line.getAttribute('opacity') === '0.95').length === 16"
    )
    tab.keyboard.press("Enter")
    wait_until(
        tab,
        "location.hash.includes('focus=deepfund') &&"
        " document.activeElement.getAttribute('aria-pressed') === 'true'",
    )
    tab.keyboard.press("Enter")
    wait_until(tab, "!location.hash.includes('focus')")

    for name in ("annualised_return", "volatility"):
        assert tab.inner_text(f"[data-key=ama_{name}]").endswith(" % a year"), name

    tab.focus("tbody tr >> nth=5 >> a")
    wait_until(
        tab, f"[...{LINES}].filter(line => line.getAttribute('opacity') === '0.95').length === 1"
    )
    tab.focus("[data-key=ama_gap_to_buy_and_hold]")
    tab.keyboard.press("Enter")
    wait_until(
        tab,
        "document.activeElement.dataset.key === 'ama_gap_to_buy_and_hold' &&"
        " location.hash.includes('sort=-ama_gap')",
    )
    gaps = [float(row[-3].replace("−", "-")) for row in cells_of(tab, "tbody tr")]

    assert gaps == sorted(gaps, reverse=True)


def seen(tab: Any, title: str) -> list[list[str]]:
    """The figures of a chart by its title, once it is drawn."""
    figure = tab.locator(f"figure.chart:has(figcaption strong:text-is('{title}'))")
    figure.scroll_into_view_if_needed()
    wait_until(
        tab,
        "[...document.querySelectorAll('figure.chart')].find(one =>"
        f" one.innerText.startsWith('{title}')).querySelector('svg')",
    )
    figure.locator("button", has_text="Table").click()
    rows = [row.split("\t") for row in figure.locator("tbody").inner_text().split("\n")]
    figure.locator("button", has_text="Table").click()

    return rows


@every_screen
def test_funds_are_compared_with_the_index_and_agents_side_by_side(
    session: Reader, width: int, scheme: str
) -> None:
    tab = session.open("deepfund.html", width=width, color_scheme=scheme)
    wait_until(tab, DRAWN)

    assert len(opacities(tab)) == 96
    assert {row[0] for row in seen(tab, "Beta")} == set(AGENTS)
    # an alpha is a year's return, and these windows are shorter
    assert "Alpha: n/a for each of these entrants" in tab.inner_text("main")

    weights = seen(tab, "Mean weights by agent")
    assert len(weights) == 6 * 6, "five assets and cash"

    signals = seen(tab, "Signals")
    assert [row[0] for row in signals] == [
        f"{team} · {role}"
        for team, role in product(("deepfund", "hedge_fund"), ("macro", "news", "technical"))
    ]

    wait_until(
        tab,
        "document.querySelectorAll('.pickers select').length > 4 &&"
        " document.querySelector('.days-slider')",
    )
    days = tab.evaluate(
        "[...document.querySelector('.pickers:has(.pair)').querySelectorAll('select')][1].options"
    ).values()

    for row in signals + seen(tab, "Decisions"):
        assert sum(int(cell.replace(",", "")) for cell in row[1:]) == len(days) * 5 * 2 * 16, row

    assert tab.title() != "owned"
    assert page_troubles(tab) == []


def test_card_portfolio_is_browsed_by_keys_and_kept_in_the_address(
    session: Reader, forged_site: Path
) -> None:
    card = read_data(forged_site, "division/division-2/all")["rows"][3]
    tab = session.open(f"deepfund.html#card={card['card']}")
    tab.locator("h2", has_text="Portfolio analysis").scroll_into_view_if_needed()
    wait_until(tab, "document.querySelector('.days-slider')")

    assert (
        tab.locator("select:has(option[value='" + card["card"] + "'])").input_value()
        == card["card"]
    )

    tab.focus(".days-slider")
    tab.keyboard.press("ArrowLeft")
    wait_until(
        tab, "/day=2025-/.test(location.hash) && document.activeElement.className === 'days-slider'"
    )
    steps = read_data(forged_site, f"decisions/{card['card']}")["episodes"][0]["steps"]

    assert f"day={steps[-2]['day']}" in tab.url

    href = tab.locator("tbody tr >> nth=0 >> a", has_text="report").get_attribute("href")
    assert href.startswith("model.html#model=")
