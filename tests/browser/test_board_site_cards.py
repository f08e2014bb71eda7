"""The pages of one card and of two cards in a real browser, and what holds on those of models
too.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.stats import (
    blocks_of,
    hodges_lehmann,
    overlap_correlation,
    overlap_null,
    sign_flip,
    signed_rank,
)
from ktdeval.testing import not_empty
from ktdeval.values import sha256_hex
from support.pages.browser_pages import (
    Reader,
    every_screen,
    needs_browser,
    page_troubles,
    scrolls_sideways,
    wait_until,
)
from support.pages.site_pages import (
    DIVISION,
    MARKUP,
    OTHER,
    cards_of,
    changed_site,
    draw_all,
    entry_of,
    facts_of,
    link,
    model_page,
    numbers,
    pair_page,
    ranked,
    read_data,
    table_rows,
    with_markup,
)

SITE = "odd_site"

pytestmark = [needs_browser, pytest.mark.exhaustive]


# -- two cards head-to-head


def values_by_cell(card: Any, metric: str) -> dict[tuple[str, int], Any]:
    """A metric's value by window and seed."""
    return {
        (one["window"], one["seed"]): one["metrics"][metric]["value"] for one in card["episodes"]
    }


def library_test(site: Path, first: str, second: str, metric: str) -> tuple[Any, Any, Any]:
    """Signed-rank test, shift and sign flips as the library has them."""
    cards = [entry_of(site, card)["card"] for card in (first, second)]
    first_values, second_values = (values_by_cell(card, metric) for card in cards)
    windows = [window["name"] for window in cards[0]["windows"]]
    seeds = [seed for seed in cards[0]["seeds"] if seed in cards[1]["seeds"]]
    medians = []

    for window in windows:
        cells = [(window, seed) for seed in seeds]
        medians.append(np.median([first_values[cell] - second_values[cell] for cell in cells]))

    sample = np.array(medians)
    days = {one["window"]: (one["first_day"], one["last_day"]) for one in cards[0]["episodes"]}
    spans = [days[window] for window in windows]
    correlation = overlap_correlation(spans)
    null = overlap_null(correlation)
    assert (null is not None) == read_data(site, f"pairs/{DIVISION}/all")["overlap"]
    blocks = blocks_of(correlation)

    return (
        signed_rank(sample, null=null),
        hodges_lehmann(sample, 0.95, null),
        sign_flip(sample, blocks),
    )


def test_a_head_to_head_gives_the_figures_of_the_library(
    session: Reader, forged_site: Path
) -> None:
    rows = ranked(forged_site)
    for first, second, metric in (
        (rows[0], rows[-1], "total_return"),
        (rows[1], rows[2], "max_drawdown"),
        (rows[2], rows[0], "sharpe"),
    ):
        ranks, shift, flips = library_test(forged_site, first["card"], second["card"], metric)
        tab = pair_page(session, first, second, metric=metric)
        shown = facts_of(tab)
        assert numbers(shown["Wilcoxon p"])[0] == pytest.approx(ranks.p, abs=6e-5)
        assert numbers(shown["Sign-flip p"])[0] == pytest.approx(flips.p, abs=6e-5)
        scale, slack = (100, 0.0051) if metric != "sharpe" else (1, 0.0051)
        assert numbers(shown["Shift, A less B"])[0] == pytest.approx(scale * shift.value, abs=slack)
        assert numbers(shown["Rank-biserial"])[0] == pytest.approx(ranks.rank_biserial, abs=0.0051)
        (interval,) = [text for term, text in shown.items() if term.startswith("Interval")]
        if shift.low is not None:
            assert numbers(interval) == pytest.approx(
                [scale * shift.low, scale * shift.high], abs=slack
            )

        verdict = tab.inner_text(".verdict")
        assert ("can't be told apart" in verdict) == (ranks.p > 0.05)
        if ranks.p <= 0.05:
            is_first = (ranks.rank_biserial > 0) != (metric == "max_drawdown")
            assert verdict.startswith("A, " if is_first else "B, ")

        paths = [entry_of(forged_site, row["card"])["path"] for row in (first, second)]
        assert f"ktdeval compare {paths[0]} {paths[1]} --metric {metric}" in tab.inner_text(
            ".command"
        )


def test_the_metric_is_chosen_and_stays_in_the_address(session: Reader, forged_site: Path) -> None:
    first, second = ranked(forged_site)[:2]
    tab = pair_page(session, first, second)

    assert "by total return" in tab.inner_text(".verdict").lower()

    tab.select_option("label:has-text('Metric') select", "sharpe")
    assert "metric=sharpe" in tab.url
    assert "sharpe" in tab.inner_text(".verdict").lower()

    tab.get_by_role("button", name="Swap").click()
    wait_until(
        tab,
        f"document.querySelector('.side h2').textContent.includes({json.dumps(second['label'])})",
    )

    assert f"a={second['card']}" in tab.url
    assert "metric=sharpe" in tab.url


def test_cards_of_two_divisions_are_refused_in_words(session: Reader, forged_site: Path) -> None:
    first = ranked(forged_site)[0]
    second = ranked(forged_site, OTHER)[0]
    tab = pair_page(session, first, second)
    text = tab.inner_text("[role=alert]")

    assert f"A is of the division {DIVISION}, B of {OTHER}" in text
    assert tab.locator(".verdict").count() == 0

    same = session.open(link("compare.html", a=first["card"], b=first["card"]))
    assert "Both are the same card" in same.inner_text("[role=alert]")


def test_a_pair_without_a_test_gives_the_reason_and_shows_its_differences(
    session: Reader, forged_site: Path, tmp_path: Path
) -> None:
    first, second = ranked(forged_site)[:2]

    def without_p(tests: Any) -> Any:
        row = tests["tests"][second["card"]]["total_return"]
        row[2:4], row[6] = [None, None], "windows share days"
        return tests

    def untested(index: Any) -> Any:
        return {**index, "cards": [card for card in index["cards"] if card != second["card"]]}

    for number, (name, change, reason) in enumerate(
        (
            (f"pairs/{DIVISION}/{first['card']}", without_p, "share days"),
            (f"pairs/{DIVISION}/all", untested, "this site tests the best"),
        )
    ):
        site = changed_site(forged_site, tmp_path / f"site{number}", {name: change})
        tab = session.open(link("compare.html", a=first["card"], b=second["card"]), folder=site)
        assert "No p-value here" in tab.inner_text(".verdict")
        assert reason in facts_of(tab)["Wilcoxon p"]
        assert "ktdeval compare" in tab.inner_text(".command")
        assert len(table_rows(tab, "Total return by window")) == 6


def test_a_baseline_of_other_seeds_is_compared_on_those_in_common(
    session: Reader, forged_site: Path
) -> None:
    random = next(row for row in cards_of(forged_site) if row["baseline"] == "random")
    tab = session.open(link("compare.html", a=ranked(forged_site)[0]["card"], b=random["card"]))
    assert "compared on those that both have: 0, 1" in tab.inner_text("main")
    assert [cells[-1] for cells in table_rows(tab, "Total return by window")] == ["2"] * 6


def asked_in(step: Any) -> list[Any]:
    return sorted((order["code"], order["side"], order["asked"]) for order in step["orders"])


def test_decisions_are_shown_side_by_side_where_they_differ(
    session: Reader, forged_site: Path
) -> None:
    first, second = ranked(forged_site)[:2]
    steps = [
        read_data(forged_site, f"decisions/{row['card']}")["episodes"][0]["steps"]
        for row in (first, second)
    ]
    differing = [
        one["day"] for one, other in zip(*steps, strict=True) if asked_in(one) != asked_in(other)
    ]
    tab = pair_page(session, first, second)
    draw_all(tab)
    tab.wait_for_selector("text=The orders differ on")

    assert f"The orders differ on {len(differing)} of {len(steps[0])} days" in tab.inner_text(
        "main"
    )

    fold = tab.locator("details", has_text=differing[0]).first
    fold.locator("summary").click()
    fold.locator("h4").first.wait_for()
    own = next(step for step in steps[0] if step["day"] == differing[0])

    for order in own["orders"]:
        assert order["code"] in fold.inner_text()


def test_head_to_head_opens_with_the_two_best_and_offers_lists_of_others(
    session: Reader, forged_site: Path
) -> None:
    first, second, third = [
        row for row in read_data(forged_site, f"division/{DIVISION}/all")["rows"] if row["ranked"]
    ][:3]
    tab = session.open("compare.html")
    tab.wait_for_selector(".verdict")

    assert f"a={first['card']}&b={second['card']}" in tab.url

    tab.select_option("label:has-text('First (A)') select", "")
    tab.wait_for_selector("text=Choose the other card")
    tab.select_option("label:has-text('First (A)') select", third["card"])
    tab.wait_for_selector(".verdict")

    assert f"a={third['card']}" in tab.url

    tab.select_option("label:has-text('Division') select", OTHER)
    best = [
        row["card"]
        for row in read_data(forged_site, f"division/{OTHER}/all")["rows"]
        if row["ranked"]
    ][:2]
    # the verdict of before stands until then
    wait_until(tab, f"location.hash.includes('a={best[0]}&b={best[1]}')")
    tab.wait_for_selector(".verdict")


# -- one card


def test_a_card_page_shows_every_figure_and_where_it_is_from(
    session: Reader, forged_site: Path
) -> None:
    row = ranked(forged_site)[0]
    entry = entry_of(forged_site, row["card"])
    card = entry["card"]
    metrics = read_data(forged_site, "board")["metrics"]
    tab = session.open(link("card.html", card=row["card"]))
    shown = {}

    for caption in ("Headline figures", "Further figures"):
        shown |= {cells[0]: cells for cells in table_rows(tab, caption)}

    assert len(shown) == len(card["metrics"])

    for name, metric in card["metrics"].items():
        cells = shown[metrics[name]["title"] if name in metrics else name.replace("_", " ")]
        assert metric["formula"] in cells[5]
        assert metric["source"] in cells[5]
        if metric["unit"] == "fraction" and metric["value"] is not None:
            assert numbers(cells[1]) == [pytest.approx(100 * metric["value"], abs=0.0051)]

    assert len(table_rows(tab, "Episodes")) == len(card["episodes"])

    tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    wait_until(tab, "document.querySelector('pre.raw').textContent.length > 0")

    assert json.loads(tab.evaluate("document.querySelector('pre.raw').textContent")) == card

    text = tab.inner_text("main")

    for path, digest in card["artefacts"].items():
        assert path in text
        assert digest in text

    for fact in (
        entry["submission"]["submitter"]["name"],
        entry["verdict"]["checked_on"],
        card["task"]["hash"],
        card["snapshot"]["id"],
    ):
        assert fact in text

    assert f"ktdeval leaderboard check . --card {row['card']}" in text

    with tab.expect_download() as saved:
        tab.get_by_role("button", name=f"{row['card'][:8]}").click()
    assert saved.value.suggested_filename == f"{row['card']}.json"
    assert sha256_hex(Path(saved.value.path()).read_text()) == row["card"]


def test_a_card_with_a_cutoff_states_the_days_on_each_side(
    session: Reader, forged_site: Path, tmp_path: Path
) -> None:
    name = ranked(forged_site)[0]["card"]

    def known(entry: Any) -> Any:
        windows = {
            window["name"]: {"before": 2, "across": 1, "after": window["days"] - 3}
            for window in entry["card"]["windows"]
        }
        entry["card"]["knowledge_cutoff"] = {
            "date": "2024-06",
            "confidence": "given",
            "source": "x",
            "windows": windows,
        }
        return entry | {"labels": ["spans cutoff"]}

    file = f"card/{name}"
    first = read_data(forged_site, file)["card"]["windows"][0]
    tab = session.open(
        link("card.html", card=name),
        folder=changed_site(forged_site, tmp_path / "site", {file: known}),
    )
    shown = tab.inner_text("main")

    assert f"{first['name']}: 2 before, 1 across, {first['days'] - 3} after" in shown
    assert "(2024-06)" in shown
    assert "in the model's training time" in tab.get_attribute(
        ".chip:has-text('spans cutoff')", "title"
    )
    assert "Days to it, by the card" not in session.open(link("card.html", card=name)).inner_text(
        "main"
    )


def test_a_card_without_a_rank_gives_the_reason_and_shows_its_errata(
    session: Reader, forged_site: Path
) -> None:
    board = read_data(forged_site, "board")
    erratum = board["errata"][0]
    tab = session.open(link("card.html", card=erratum["card"]))

    assert erratum["what"] in tab.inner_text(".errata")

    cards = itertools.chain.from_iterable(model["cards"] for model in board["models"])
    unranked = next(
        card for card in cards if entry_of(forged_site, card)["why"] and card != erratum["card"]
    )
    tab = session.open(link("card.html", card=unranked))

    told = "\n".join(tab.locator(".trouble").all_inner_texts())
    for reason in entry_of(forged_site, unranked)["why"]:
        assert reason in told


def test_cards_of_scoring_tasks_have_scores_in_the_place_of_returns(
    session: Reader, forged_site: Path
) -> None:
    board = read_data(forged_site, "board")
    division = next(division for division in board["divisions"] if division["kind"] == "scoring")
    first, second = [
        row for row in cards_of(forged_site, division["id"]) if row["tier"] != "unchecked"
    ][:2]
    card = entry_of(forged_site, first["card"])["card"]
    tab = session.open(link("card.html", card=first["card"]))
    shown = []

    for caption in ("Headline figures", "Further figures"):
        if caption in tab.inner_text("main"):
            shown += table_rows(tab, caption)

    assert len(shown) == len(card["scores"])

    page = session.open(link("model.html", model=card["model"]["name"], card=first["card"]))
    assert page.locator(".report").count() == 1
    assert "Equity" not in page.inner_text("main")

    pair = pair_page(session, first, second)
    assert "no paired test over windows" in pair.inner_text("main")


# -- what holds on the pages of a model, of two cards and of one card


def test_a_name_that_is_wider_than_the_screen_is_cut_in_its_choice(
    session: Reader, forged_site: Path, tmp_path: Path
) -> None:
    def with_long_labels(index: Any) -> Any:
        column = index["columns"].index("label")
        return {
            **index,
            "rows": [[*row[:column], "W" * 100, *row[column + 1 :]] for row in index["rows"]],
        }

    site = changed_site(forged_site, tmp_path / "site", {"cards-index": with_long_labels})

    assert not scrolls_sideways(session.open("compare.html", folder=site, width=1280))


def pages_of(site: Path) -> list[str]:
    first, second = ranked(site)[:2]
    return [
        link("model.html", model=first["model"], card=first["card"]),
        link("compare.html", a=first["card"], b=second["card"]),
        link("card.html", card=first["card"]),
    ]


@pytest.mark.parametrize("index", range(3), ids=["model", "compare", "card"])
@every_screen
def test_pages_fit_the_screen_are_in_order_and_axe_finds_nothing(
    session: Reader, forged_site: Path, index: int, width: int, scheme: str
) -> None:
    tab = session.open(pages_of(forged_site)[index], width=width, color_scheme=scheme)
    draw_all(tab)
    too_wide = """[...document.querySelectorAll('main *')].filter(part => part.checkVisibility() &&
        !part.closest('.scroll, pre, .unseen, svg') &&
        part.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(part => part.outerHTML.slice(0, 99))"""

    assert tab.evaluate(too_wide) == []

    assert page_troubles(tab) == []
    assert tab.evaluate(too_wide) == []


def test_keys_alone_reach_everything(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    tab = model_page(session, row)

    def reach(selector: str) -> None:
        for _ in range(150):
            tab.keyboard.press("Tab")
            if tab.evaluate("selector => document.activeElement.matches(selector)", selector):
                return

        raise AssertionError(f"never reached by Tab: {selector}")

    reach("nav.jump button")
    tab.keyboard.press("Enter")

    assert tab.evaluate("document.activeElement.id") == "part-report"

    reach("button[aria-label^='Table of the figures: Total return by window']")
    tab.keyboard.press("Space")

    assert tab.locator(".chart-table:visible table").count() == 1

    reach("#content label select")
    tab.keyboard.press("ArrowDown")
    wait_until(tab, "location.hash.includes('window=W2')")
    wait_until(tab, "document.activeElement.value === 'W2'")
    reach(".days-slider")
    tab.keyboard.press("Home")
    wait_until(tab, r"/day=\d{4}-\d\d-\d\d/.test(location.hash)")
    wait_until(tab, "document.activeElement.matches('.days-slider')")


def test_hostile_words_are_shown_as_words(
    session: Reader, forged_site: Path, tmp_path: Path
) -> None:
    first = ranked(forged_site)[0]

    def spoil_card(entry: Any) -> Any:
        entry = with_markup(entry)
        entry["card"]["model"]["args"] = {MARKUP: [MARKUP, {"deep": MARKUP}]}
        entry["submission"]["submitter"]["url"] = "javascript:document.title='owned'"
        return entry

    def spoil_decisions(value: Any) -> Any:
        steps = itertools.chain.from_iterable(episode["steps"] for episode in value["episodes"])
        for step in steps:
            step["holdings"].append(["signal.data(1)['x']", 0.2])

        return with_markup(value)

    changes = {f"card/{first['card']}": spoil_card, f"decisions/{first['card']}": spoil_decisions}
    site = changed_site(forged_site, tmp_path / "site", changes)
    for page in not_empty(pages_of(forged_site)):
        tab = session.open(page, folder=site)
        draw_all(tab)
        tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        assert MARKUP in tab.inner_text("main")
        assert (
            tab.locator("main img, main script, main [onerror], [href^='javascript:']").count() == 0
        )
        assert "owned" not in tab.title().replace(MARKUP, "")


def test_pages_print_on_white_with_every_chart(session: Reader, forged_site: Path) -> None:
    tab = session.open(pages_of(forged_site)[0], color_scheme="dark")
    tab.evaluate(
        "window.print = () => { window.printed ="
        " document.querySelectorAll('.chart-plot[data-drawn]').length; }"
    )
    tab.get_by_role("button", name="Print this page").click()
    wait_until(tab, "window.printed > 8")
    tab.emulate_media(media="print")

    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.locator(".jump").is_hidden()
    assert tab.locator(".report").is_visible()
