"""The board in a real browser: what a reader sorts, filters, chooses and links to is what the data
say.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.pages.browser_pages import (
    PAGES,
    Reader,
    axis_troubles,
    every_screen,
    is_in_sight,
    is_shown,
    needs_browser,
    page_troubles,
    scrolls_sideways,
    tick,
    wait_until,
)
from support.pages.site_pages import changed_site, rank_words, read_data

SITE = "plain_site"

pytestmark = [needs_browser, pytest.mark.exhaustive]

ALL = "division/blinded-open-research/all"
BLUE_INK = "rgb(28, 33, 40)"
NIGHT = "rgb(21, 25, 31)"


@pytest.fixture
def tab(session: Reader) -> Any:
    """The board as it opens."""
    return session.open("index.html")


def rows_of(tab: Any) -> list[dict[str, Any]]:
    """The rows on show: card, name, and the text of each cell."""
    return list(
        tab.evaluate(
            "[...document.querySelectorAll('tbody tr:not(.gap)')].map(row => ({card:"
            " row.dataset.card || null, name: row.querySelector('.name').firstChild.textContent,"
            " isBase: row.classList.contains('base'), cells: [...row.cells].map(cell =>"
            " cell.innerText)}))"
        )
    )


def names_of(tab: Any) -> list[str]:
    return [row["name"] for row in rows_of(tab)]


def values_of(tab: Any, key: str) -> list[float]:
    """Figures of a column, top to bottom, as shown; those that are not defined are left out."""
    column = tab.evaluate(
        "[...document.querySelectorAll('thead th')].findIndex(head =>"
        f" head.querySelector('[data-key={key}]'))"
    )
    shown = [
        row["cells"][column].split("\n")[0].replace("−", "-").replace(",", "")
        for row in rows_of(tab)
    ]

    return [float(text) for text in shown if re.fullmatch(r"[+-]?[0-9.]+", text)]


# -- the table


def test_the_board_shows_the_rows_of_its_data_in_their_order(tab: Any, forged_site: Path) -> None:
    data = read_data(forged_site, ALL)
    shown = rows_of(tab)

    assert [row["card"] for row in shown] == [row["card"] for row in data["rows"]]
    assert [row["cells"][1].split("\n")[0].strip() for row in shown if not row["isBase"]] == [
        rank_words(row) if row["rank"] else "–" for row in data["rows"] if row["baseline"] is None
    ]

    for row in data["rows"]:
        assert all(is_shown(tab, why) for why in row["why"])

    assert {row["baseline"] for row in data["rows"]} >= {
        "rule",
        "random",
        "benchmark",
    }


def test_entrants_of_a_tie_group_show_all_ranks_of_the_group(tab: Any, forged_site: Path) -> None:
    rows = read_data(forged_site, ALL)["rows"]
    shown = tab.evaluate(
        "Object.fromEntries([...document.querySelectorAll('tr[data-card]')].map(row => {"
        " const cell = row.querySelector('td.rank');"
        " return [row.dataset.card, [cell.innerText, +getComputedStyle(cell).fontWeight]]; }))"
    )
    ranked = [row for row in rows if row["rank"]]

    assert {bool(row["tied_with"]) for row in ranked} == {True, False}

    for row in ranked:
        text, weight = shown[row["card"]]
        assert text.split()[0] == rank_words(row)
        assert weight == (400 if row["tied_with"] else 700)


POINTS = """[...document.querySelectorAll('.standings .mark-symbol path')]
  .map((point) => [point.__data__.datum.name, point.__data__.datum.value])"""
LINES = """[...document.querySelectorAll('.standings .mark-rule line')]
  .map((line) => line.__data__.datum)
  .filter(({name}) => name)
  .map(({name, low, high}) => [name, [low, high]])"""
BAND = """[...document.querySelectorAll('.standings .mark-rect path')]
  .map((area) => area.__data__.datum)
  .map(({low, high}) => [low, high])"""
PICTURE = "document.querySelector('.standings [data-drawn]')"
DRAWN = 15


def excess_by_name(data: dict[str, Any], reference: str) -> dict[str, list[float | None]]:
    """Name -> mean daily excess and ends of its interval, as the table's data have them: baselines,
    and the systems with the highest means.
    """
    place = [test["reference"] for test in data["tests"]].index(reference)
    rows = [row for row in data["rows"] if row["excess"] and row["excess"][place]]
    systems = [row for row in rows if row["baseline"] is None]
    systems.sort(key=lambda row: -row["excess"][place][0])
    shown = systems[:DRAWN] + [row for row in rows if row["baseline"] is not None]
    return {row["label"]: row["excess"][place] for row in shown}


@pytest.mark.parametrize("width", [1280, 390])
def test_the_first_screen_has_a_picture_of_what_its_sentence_tests(
    session: Reader, forged_site: Path, width: int
) -> None:
    tab = session.open("index.html", width=width)
    wait_until(tab, PICTURE)
    box = tab.locator(".standings .chart-plot").bounding_box()
    data = read_data(forged_site, ALL)
    expected = excess_by_name(data, "random traders")
    (test,) = (one for one in data["tests"] if one["reference"] == "random traders")

    assert box["y"] < 900, "within the height of a laptop's window"
    assert dict(tab.evaluate(POINTS)) == {name: mean for name, (mean, _, _) in expected.items()}
    assert dict(tab.evaluate(LINES)) == {
        name: [low, high] for name, (_, low, high) in expected.items() if low is not None
    }
    assert tab.evaluate(BAND) == [test["band"]]
    assert axis_troubles(tab) == []


def test_the_sentence_stands_above_its_figures_and_the_picture_says_who_is_drawn(
    tab: Any, forged_site: Path
) -> None:
    wait_until(tab, PICTURE)
    data = read_data(forged_site, ALL)
    systems = data["tests"][0]["systems"]
    baselines = sum(row["baseline"] is not None and bool(row["excess"]) for row in data["rows"])
    said = tab.inner_text(".standings figcaption")
    assert tab.inner_text(".verdict") == data["verdict"]
    assert tab.inner_text(".verdict-figures") == data["verdict_figures"]
    assert f"{systems} ranked systems and all {baselines} baselines, " in said
    assert f"simultaneous for all {systems}" in said


def test_readers_choose_what_the_picture_compares_with(session: Reader, forged_site: Path) -> None:
    tab = session.open("index.html")
    wait_until(tab, PICTURE)
    data = read_data(forged_site, ALL)
    index = data["tests"][0]["reference"]
    tab.select_option("label:has-text('Picture') select", index)
    wait_until(
        tab,
        f"{PICTURE} && document.querySelector('.standings figcaption').textContent.includes('the index')",
    )
    expected = excess_by_name(data, index)
    assert dict(tab.evaluate(POINTS)) == {name: mean for name, (mean, _, _) in expected.items()}
    assert "against=" in tab.url


def test_paper_has_the_picture_of_the_screen(session: Reader) -> None:
    tab = session.open("index.html", color_scheme="dark")
    wait_until(tab, PICTURE)
    on_screen = tab.evaluate(POINTS)
    tab.evaluate(
        f"""() => window.addEventListener("beforeprint", () => {{
          const {{clientWidth}} = document.querySelector(".standings svg");
          window.printed = [{POINTS}, clientWidth];
        }})"""
    )
    tab.pdf()
    on_paper, width = tab.evaluate("window.printed")

    assert len(on_screen) > 3
    assert on_paper == on_screen
    assert 300 < width <= 680, "as wide as a page of A4"


@pytest.mark.parametrize("division", ["blinded-open-research", "bright-open-research"])
def test_a_telephone_shows_the_figure_that_ranks_without_scrolling(
    session: Reader, division: str
) -> None:
    tab = session.open(f"index.html#division={division}", width=390)
    assert tab.inner_text("thead th.metric >> nth=0").startswith("Total")
    assert is_in_sight(tab, "tbody tr[data-card] td.metric")


def test_a_header_sorts_best_first_and_then_the_other_way(tab: Any) -> None:
    everyone = sorted(names_of(tab))
    for key, is_lower_better in (("sharpe", False), ("max_drawdown", True)):
        tab.click(f"[data-key={key}]")
        assert values_of(tab, key) == sorted(values_of(tab, key), reverse=not is_lower_better)
        head = tab.locator(f"th:has([data-key={key}])")
        assert head.get_attribute("aria-sort") == ("ascending" if is_lower_better else "descending")
        tab.click(f"[data-key={key}]")
        assert values_of(tab, key) == sorted(values_of(tab, key), reverse=is_lower_better)
        assert sorted(names_of(tab)) == everyone, (
            "baselines are sorted among the entrants, and none is lost"
        )

    assert tab.locator("th[aria-sort=ascending], th[aria-sort=descending]").count() == 1


def test_filters_leave_matching_entrants_and_every_baseline(tab: Any, forged_site: Path) -> None:
    data = read_data(forged_site, ALL)["rows"]
    baselines = [row["card"] for row in data if row["baseline"]]

    def expect(matches: Callable[[dict[str, Any]], bool]) -> None:
        wanted = [row["card"] for row in data if row["baseline"] or matches(row)]
        assert len(wanted) > len(baselines)
        wait_until(tab, f"document.querySelectorAll('tbody tr:not(.gap)').length === {len(wanted)}")
        assert [row["card"] for row in rows_of(tab)] == wanted

    tick(tab, "Agents", "debate", "react")
    expect(lambda row: row["agent"] in ("debate", "react"))
    tick(tab, "Strategies", "momentum")
    expect(lambda row: row["agent"] in ("debate", "react") and row["strategy"] == "momentum")
    tick(tab, "Agents", "debate", "react")
    tick(tab, "Strategies", "momentum")
    tick(tab, "Models", "alder/model-1", "cedar/model-2")
    expect(lambda row: row["model"] in ("alder/model-1", "cedar/model-2"))
    tick(tab, "Models", "alder/model-1", "cedar/model-2")
    tick(tab, "Tiers", "self-reported")
    expect(lambda row: row["tier"] == "self-reported")
    tick(tab, "Tiers", "self-reported")
    tab.check("label:has-text('hide unranked') input")
    expect(lambda row: row["ranked"])
    tab.uncheck("label:has-text('hide unranked') input")
    tab.fill(".filters input[type=search]", "alder model-1")
    expect(lambda row: "alder/model-1" in row["label"])
    tab.fill(".filters input[type=search]", "no such model")
    tab.wait_for_selector(".empty")

    assert [row["card"] for row in rows_of(tab)] == baselines

    tab.click("text=Clear filters")
    expect(lambda row: True)


def test_a_link_keeps_the_view_and_back_undoes_it(session: Reader) -> None:
    tab = session.open("index.html")
    first = names_of(tab)
    tab.click("[data-key=sharpe]")
    sorted_names = names_of(tab)
    tick(tab, "Agents", "debate")
    view = names_of(tab)
    link = tab.url

    assert "sort=-sharpe" in link
    assert "agent=debate" in link
    assert names_of(session.open(f"index.html#{link.split('#')[1]}")) == view

    tab.reload()
    tab.wait_for_selector("tbody tr")

    assert names_of(tab) == view

    tab.go_back()
    wait_until(tab, f"document.querySelectorAll('tbody tr').length === {len(first)}")

    assert names_of(tab) == sorted_names

    tab.go_back()
    wait_until(tab, "document.querySelector('th.rank').getAttribute('aria-sort') === 'ascending'")

    assert names_of(tab) == first

    tab.go_forward()
    wait_until(tab, "document.querySelector('th.rank').getAttribute('aria-sort') === 'none'")

    assert names_of(tab) == sorted_names


def test_the_link_to_a_view_is_copied(session: Reader) -> None:
    tab = session.open("index.html#sort=-sharpe", permissions=["clipboard-read", "clipboard-write"])
    tab.click("text=Copy link to this view")
    wait_until(tab, "document.getElementById('notice').textContent === 'Link copied.'")
    assert tab.evaluate("navigator.clipboard.readText()") == tab.url


def test_mask_and_window_choose_the_table(tab: Any, forged_site: Path) -> None:
    tab.select_option("label:has-text('Mask') select", "bright")
    tab.select_option("label:has-text('Window') select", "W2")
    wanted = read_data(forged_site, "division/bright-open-research/W2")["rows"]
    wait_until(
        tab,
        "document.querySelector('tbody tr[data-card]').dataset.card ==="
        f" '{next(row['card'] for row in wanted if row['card'])}'",
    )

    assert [row["card"] for row in rows_of(tab)] == [row["card"] for row in wanted]
    assert tab.input_value("label:has-text('Task') select") == "bright_open_research"
    assert tab.url.endswith("#division=bright-open-research&scope=W2")


def test_readers_choose_columns_fees_and_intervals(tab: Any, forged_site: Path) -> None:
    tick(tab, "Columns", "Sharpe ratio", "Submitter", "Training cut-off")
    heads = tab.locator("thead th").all_inner_texts()

    assert [text.split("\n")[0].strip() for text in heads[4:]] == [
        "Sharpe ratio annualised",
        "Submitter",
        "Training cut-off",
    ]

    tab.goto(tab.url.split("#")[0] + "#fees=before&intervals=numbers")
    tab.wait_for_selector("[data-key=gross_return]")
    data = read_data(forged_site, ALL)
    column = data["columns"].index("gross_return")
    expected = [
        round(row["values"][column] * 100, 2)
        for row in data["rows"]
        if row["values"][column] is not None
    ]

    assert values_of(tab, "gross_return") == expected
    assert tab.locator("[data-key=total_return]").count() == 0
    assert tab.locator(".between").count() > 0
    assert tab.locator("span.bar").count() == 0
    assert is_shown(tab, "ranks are by the return after fees")


def test_ranks_by_selection_are_shown_next_to_ranks_by_return(tab: Any, forged_site: Path) -> None:
    by_card = {row["card"]: row for row in read_data(forged_site, ALL)["rows"]}
    ranked = [row for row in rows_of(tab) if by_card[row["card"]]["alpha_rank"]]

    assert len(ranked) > 4

    without = []

    for entry in by_card.values():
        if entry["ranked"] and not entry["alpha_rank"]:
            without.append(entry["shared_rank"])

    assert without, "one without a selection alpha is ranked among them"

    for row in ranked:
        entry = by_card[row["card"]]
        above = sum(rank < entry["shared_rank"] for rank in without)
        gain = entry["shared_rank"] - above - entry["shared_alpha_rank"]
        mark = f"{'▲' if gain > 0 else '▼'}{abs(gain)}" if gain else ""
        words = rank_words(entry, "alpha_rank")
        assert re.match(rf"{words}\s*{mark}", row["cells"][4]), row

    tab.click("[data-key=alpha_rank]")
    order = [
        by_card[row["card"]]["alpha_rank"]
        for row in rows_of(tab)
        if row["card"] and by_card[row["card"]]["alpha_rank"]
    ]

    assert order == sorted(order)


def test_two_picked_rows_give_a_head_to_head_link_and_an_equity_chart(tab: Any) -> None:
    boxes = tab.locator("td.pick input")
    boxes.nth(0).check()

    assert is_shown(tab, "Pick another row")

    boxes.nth(1).check()
    cards = [row["card"] for row in rows_of(tab) if row["card"]][:2]

    assert tab.get_attribute(".tray a.call", "href") == f"compare.html#a={cards[0]}&b={cards[1]}"

    tab.click(".tray >> text=Equity")
    tab.wait_for_selector(".equity svg path")

    assert tab.locator(".equity [role=img]").get_attribute("aria-label")

    tab.select_option(".equity select", "W3")
    tab.wait_for_selector("text=Equity in W3")
    boxes.nth(2).check()

    assert tab.locator(".pairs li").count() == 3

    for number in range(3, 6):
        boxes.nth(number).check()

    assert tab.inner_text(".pairs summary") == "Head-to-head: 10 pairs of the first 5"

    tab.click(".tray >> text=Clear")
    assert not tab.is_visible(".tray")


def test_a_csv_holds_the_rows_and_columns_on_show(session: Reader, forged_site: Path) -> None:
    formula = "=HYPERLINK(0)"

    def rename(data: Any) -> Any:
        data["rows"][0] |= {"label": formula, "model": formula, "submitter": 'a "b", c'}
        return data

    folder = changed_site(forged_site, forged_site.parent / "formula", {ALL: rename})
    tab = session.open("index.html#columns=sharpe,submitter&sort=-sharpe", folder=folder)
    with tab.expect_download() as download:
        tab.click("text=CSV")

    assert download.value.suggested_filename == "forged-blinded-open-research-all.csv"

    table = list(
        csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8")))
    )
    data = read_data(folder, ALL)
    column = data["columns"].index("sharpe")
    by_card = {row["card"] or "": row for row in data["rows"]}

    assert [row["card"] for row in table] == [row["card"] or "" for row in rows_of(tab)]
    assert all(
        float(row["sharpe"]) == by_card[row["card"]]["values"][column]
        for row in table
        if row["card"] and row["sharpe"]
    )

    first = next(row for row in table if row["card"] == data["rows"][0]["card"])
    assert (first["model"], first["submitter"]) == (
        f"'{formula}",
        'a "b", c',
    ), "a spreadsheet does not run a name"


def test_a_long_table_shows_its_beginning_and_all_baselines(
    session: Reader, forged_site: Path
) -> None:
    def lengthen(data: Any) -> Any:
        entrant = next(row for row in data["rows"] if row["rank"])
        more = [
            entrant
            | {
                "card": f"{number:064x}",
                "label": f"more/{number}",
                "model": f"more/{number}",
            }
            for number in range(250)
        ]
        data["rows"] = more + data["rows"]

        return data

    folder = changed_site(forged_site, forged_site.parent / "long", {ALL: lengthen})
    tab = session.open("index.html", folder=folder)
    entrants = [row for row in rows_of(tab) if not row["isBase"]]
    baselines = [row for row in read_data(folder, ALL)["rows"] if row["baseline"]]

    assert len(entrants) == 100
    assert len(rows_of(tab)) == 100 + len(baselines)
    assert is_shown(tab, "baselines are always shown")

    tab.click("text=Show 100 more")
    assert tab.evaluate("document.activeElement.textContent") == "more/100", (
        "reading goes on where it ended"
    )

    tab.click(".more button")
    assert len(rows_of(tab)) == len(read_data(folder, ALL)["rows"])


def test_a_division_without_cards_shows_how_to_begin(session: Reader, forged_site: Path) -> None:
    folder = changed_site(
        forged_site, forged_site.parent / "empty", {ALL: lambda data: data | {"rows": []}}
    )
    tab = session.open("index.html", folder=folder)

    assert is_shown(tab, "No entrant yet")


# -- reading without a mouse, on a phone, in the dark


def test_everything_is_reached_by_keyboard(tab: Any) -> None:
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"

    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    assert "#main" not in tab.url

    def walk_to(wanted: str) -> None:
        for _ in range(80):
            tab.keyboard.press("Tab")
            if tab.evaluate(
                f"(() => {{ const at = document.activeElement; return Boolean({wanted}); }})()"
            ):
                return

        raise AssertionError(f"not reached: {wanted}")

    walk_to("at.textContent.startsWith('Columns')")
    tab.keyboard.press("Enter")
    walk_to("at.type === 'checkbox' && at.parentElement.textContent.includes('Turnover')")
    tab.keyboard.press("Space")
    tab.keyboard.press("Escape")

    assert tab.evaluate("document.activeElement.textContent").startswith("Columns")

    walk_to("at.dataset.key === 'turnover'")
    tab.keyboard.press("Enter")

    assert tab.locator("th:has([data-key=turnover])").get_attribute("aria-sort") in (
        "ascending",
        "descending",
    )
    assert tab.evaluate("document.activeElement.dataset.key") == "turnover", (
        "the focus stays on the button"
    )

    for _ in range(2):
        walk_to("at.matches('td.pick input') && !at.checked")
        tab.keyboard.press("Space")
        assert tab.evaluate("document.activeElement.checked"), "the focus stays on the box"

    walk_to("at.textContent === 'Head-to-head' && at.matches('.tray a')")


def test_phone_layout_keeps_the_model_visible_and_folds_filters(
    session: Reader,
) -> None:
    tab = session.open("index.html", width=390)
    lines_of_parts = """() => [...document.querySelectorAll('.model .name')].flatMap(name => {
        const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT), found = [];
        while (walker.nextNode()) {
            const range = document.createRange();
            range.selectNodeContents(walker.currentNode);
            found.push([walker.currentNode.data, range.getClientRects().length]);
        }
        return found;
    })"""

    assert {lines for text, lines in tab.evaluate(lines_of_parts) if " " not in text} == {1}
    assert not tab.is_visible(".filters")

    tab.click("text=Filters and columns")
    assert tab.is_visible(".filters")

    for menu in tab.locator("details.many summary:visible").all():
        menu.click()
        assert not scrolls_sideways(tab), menu.inner_text()
        tab.keyboard.press("Escape")

    region = tab.locator(".scroll").first
    hint = "element => getComputedStyle(element, '::before').content"

    assert region.evaluate(hint) == '"more columns →"'

    region.evaluate("element => { element.scrollLeft = element.scrollWidth; }")
    tab.wait_for_selector(".scroll:not(.cut)")

    assert region.evaluate(hint) == "none", "until the last is in sight"
    assert 0 <= tab.locator("tbody th.model").first.bounding_box()["x"] < 60


def test_colours_follow_the_system_until_the_reader_chooses(session: Reader) -> None:
    tab = session.open("index.html", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"

    assert tab.evaluate(background) == NIGHT

    tab.select_option("#theme select", "light")
    assert tab.evaluate(background) == "rgb(255, 255, 255)"
    assert tab.evaluate("getComputedStyle(document.body).color") == BLUE_INK

    tab.click("nav >> text=About")
    tab.wait_for_selector("text=Tiers")

    assert tab.evaluate(background) == "rgb(255, 255, 255)", "remembered from page to page"


@pytest.mark.parametrize("page", PAGES)
@every_screen
def test_the_page_never_scrolls_sideways_and_axe_finds_nothing(
    session: Reader, page: str, scheme: str, width: int
) -> None:
    tab = session.open(page, color_scheme=scheme, width=width)
    assert page_troubles(tab) == []
