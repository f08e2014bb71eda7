"""The pages around the board, in a real browser where they need one: what they tell, and what none
may do.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import closing
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ktdeval_board
import ktdeval_pages
from ktdeval_board.rules import Rules, SnapshotRule
from ktdeval_board.site.build import build_site
from ktdeval_board.site.files import (
    CONTENT_SECURITY_POLICY,
    NO_SOURCES_POLICY,
    data_file,
    render_pages,
)
from ktdeval_board.templates import render
from support.board.board_runs import sums_board
from support.pages.browser_pages import (
    PAGES,
    Chromium,
    Reader,
    axe_violations,
    axis_troubles,
    is_shown,
    needs_browser,
    overprinted_texts,
    tick,
    wait_until,
    watching,
)
from support.pages.site_pages import MARKUP, changed_site, draw_all, read_data, with_markup

SITE = "plain_site"

pytestmark = pytest.mark.exhaustive


# -- the frame, without a browser


def rules_of(**texts: str) -> Rules:
    snapshot = SnapshotRule(name="m", id="0" * 64)
    return Rules(
        **({"name": "b", "title": "Board", "market": "real"} | texts),
        snapshots=(snapshot,),
        divisions=(),
    )  # type: ignore[arg-type]


def test_every_page_forbids_foreign_code_and_has_no_inline_code() -> None:
    for name, page in render_pages(rules_of()).items():
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
        assert policy is not None, name
        assert unescape(policy[1]) == CONTENT_SECURITY_POLICY
        assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=|https?://", page), (
            name
        )
        assert 'href="data/board.json"' in page, (
            "readers without scripts are told where the data are"
        )

    assert {"default-src 'none'", "script-src 'self'", "connect-src 'none'"} <= set(
        CONTENT_SECURITY_POLICY.split("; ")
    )


def test_texts_of_the_rules_are_escaped() -> None:
    pages = render_pages(rules_of(title=MARKUP, summary=MARKUP, contact=MARKUP))
    assert {("<img" in page, "&lt;img" in page) for page in pages.values()} == {(False, True)}


@pytest.mark.parametrize(
    ("contact", "links"),
    [
        ("https://example.org/a", ["https://example.org/a"]),
        ("team@example.org", ["mailto:team@example.org"]),
        ("javascript:alert(1)", []),
        ("team@example.org?cc=all@example.org", []),
    ],
)
def test_only_a_contact_that_is_a_plain_address_is_a_link(contact: str, links: list[str]) -> None:
    page = render_pages(rules_of(contact=contact))["index.html"]
    found = re.findall(r'href="([^"]+)"', page.split("<footer")[1])
    assert [link for link in found if contact in link] == links
    assert len(found) == 2 + len(links)


@pytest.mark.parametrize("market", ["synthetic", "real"])
def test_every_page_of_a_synthetic_market_says_so(market: str) -> None:
    pages = render_pages(rules_of(market=market)).values()
    assert {"synthetic market" in page for page in pages} == {market == "synthetic"}


# -- what pages tell


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", ["market.html", "history.html"])
def test_an_axis_names_nothing_twice_and_no_date_over_another(
    session: Reader, page: str, width: int
) -> None:
    tab = session.open(page, width=width)
    draw_all(tab)
    assert overprinted_texts(tab) == []
    assert tab.locator("g.role-axis-label").count() >= 2
    assert axis_troubles(tab) == []


@needs_browser
@pytest.mark.parametrize("depth", ["", "nothing/", "nothing/so/deep/"])
def test_a_wrong_address_at_any_depth_of_a_project_path_leads_to_the_site(
    chromium: Chromium, forged_site: Path, tmp_path: Path, depth: str
) -> None:
    shutil.copytree(forged_site / "assets", tmp_path / "assets")
    (tmp_path / depth).mkdir(parents=True, exist_ok=True)
    shutil.copy(forged_site / "404.html", tmp_path / depth / "wrong.html")
    home = chromium.address_of(tmp_path)
    with closing(chromium.new_context()) as context:
        tab = context.new_page()
        tab.goto(f"{home}{depth}wrong.html")
        wait_until(tab, "getComputedStyle(document.body).maxWidth === '1680px'")
        link = tab.get_by_role("link", name="first page")
        assert link.evaluate("link => link.href") == f"{home}index.html"
        assert axe_violations(tab) == []


@needs_browser
def test_the_page_on_show_is_in_view_of_a_narrow_row_of_pages(session: Reader) -> None:
    tab = session.open("about.html", width=390)
    assert tab.evaluate("scrollY") == 0
    box = tab.locator(".site-head [aria-current]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


@needs_browser
def test_axe_finds_nothing_on_the_page_of_a_site_that_cant_be_built(
    session: Reader, tmp_path: Path
) -> None:
    page = tmp_path / "problem.html"
    page.write_text(render("site/problem.html", message="a card", policy=NO_SOURCES_POLICY))
    tab = session.open(page.as_uri(), ready="document.readyState === 'complete'")
    assert axe_violations(tab) == []


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_pages_work_from_a_folder_without_a_server(session: Reader, page: str) -> None:
    tab = session.open(page, as_file=True)
    assert tab.locator("table.grid tbody tr").count() > 0

    if page == "index.html":
        tab.click("[data-key=sharpe]")
        assert "sort=-sharpe" in tab.url


@needs_browser
def test_a_task_page_shows_the_question_the_entrants_and_the_command(
    session: Reader, forged_site: Path
) -> None:
    tab = session.open("task.html#division=bright-open-research")
    command = tab.inner_text(".command >> nth=0")

    assert "--tasks bright_open_research" in command
    assert "--windows W1,W2,W3" in command

    best = read_data(forged_site, "division/bright-open-research/all")["rows"]
    first = next(row for row in best if row["rank"] == 1)

    for text in ("2024-04-01", "Data card", "monotone bear", first["label"]):
        assert is_shown(tab, text)


@needs_browser
def test_a_market_page_shows_regimes_and_entrants_next_to_the_benchmark(
    session: Reader, forged_site: Path
) -> None:
    tab = session.open("market.html")
    market = read_data(forged_site, "market/main")
    for index, window in enumerate(market["windows"]):
        row = tab.locator("section:has-text('Regimes') tbody tr").nth(index)
        assert window["regime"] in row.inner_text()
        assert f"{abs(window['total_return']) * 100:.2f}" in row.inner_text()

    tab.wait_for_selector("text=Return by window")
    for number, window in enumerate(("W1", "W2", "W3")):
        table = read_data(forged_site, f"division/blinded-open-research/{window}")
        index = table["columns"].index("total_return")
        benchmark = next(
            row["values"][index] for row in table["rows"] if row["baseline"] == "benchmark"
        )
        ranked = [
            row["values"][index]
            for row in table["rows"]
            if row["ranked"] and row["baseline"] is None
        ]
        ahead = sum(value > benchmark for value in ranked) / len(ranked)
        row = tab.locator("section:has-text('Entrants beside the market') tbody tr").nth(number)
        assert f"{ahead * 100:.0f}\u202f% of {len(ranked)}" in row.inner_text()

    tab.wait_for_selector("[role=img] svg path")


@needs_browser
def test_history_tells_events_errata_and_who_was_ahead(session: Reader, forged_site: Path) -> None:
    tab = session.open("history.html")
    history = read_data(forged_site, "history")

    assert is_shown(tab, f"{len(history['events'])} events")

    for erratum in read_data(forged_site, "board")["errata"]:
        assert is_shown(tab, erratum["what"])

    days = {(event["date"], event["system"], event["division"]) for event in history["events"]}
    folds = tab.locator(".days details")
    assert 0 < folds.count() <= len(days)
    assert folds.locator("li").count() >= folds.count()

    tick(tab, "Events", "erratum")
    wait_until(tab, "location.hash === '#kind=erratum'")

    assert is_shown(tab, f"{sum(event['kind'] == 'erratum' for event in history['events'])} events")

    tab.wait_for_selector("text=Best total return over time")


MANY = 2_000
PAGE = 50


def repeated(given: list[dict[str, Any]], **named: str) -> list[dict[str, Any]]:
    """`MANY` values like these, numbered in one text field: name -> text with the number."""
    ((name, text),) = named.items()
    return [{**given[at % len(given)], name: text.format(at)} for at in range(MANY)]


@pytest.fixture(scope="module")
def many_site(forged_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with two thousand models and systems in its history."""

    def many_events(history: dict[str, Any]) -> dict[str, Any]:
        events = [event for event in history["events"] if event["system"]]
        return {**history, "events": repeated(events, system="house/system-{:04}")}

    def many_models(board: dict[str, Any]) -> dict[str, Any]:
        return {**board, "models": repeated(board["models"], name="house/model-{:04}")}

    folder = tmp_path_factory.mktemp("many") / "site"
    return changed_site(forged_site, folder, {"history": many_events, "board": many_models})


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    ("page", "item", "word"),
    [("model.html", "tbody tr", "model"), ("history.html", ".days > li > ul > li", "system")],
)
def test_two_thousand_models_and_events_come_in_pages_with_a_search(
    chromium: Chromium, many_site: Path, page: str, item: str, word: str, width: int
) -> None:
    with watching(chromium, many_site) as session:
        tab = session.open(page, width=width)
        seen = set(tab.locator(item).all_inner_texts())
        assert (len(seen), tab.locator(item).count()) == (PAGE, PAGE)
        assert tab.inner_text(".pager").strip().startswith(f"Page 1 of {MANY // PAGE}")

        tab.click("text=Next page")
        wait_until(tab, "location.hash === '#page=2'")
        assert tab.locator(item).count() == PAGE
        assert seen.isdisjoint(tab.locator(item).all_inner_texts())
        assert f"51–100 of {MANY:,}" in tab.inner_text("#content .count")

        tab.fill("#content input[type=search]", f"{word}-1234")
        wait_until(tab, f"document.querySelectorAll('{item}').length === 1")
        assert f"house/{word}-1234" in tab.inner_text(item)
        assert tab.locator(".pager").is_hidden()

        tab.fill("#content input[type=search]", "no such words")
        wait_until(tab, "document.querySelector('.empty') !== null")
        again = session.open(f"{page}#page=40&q={word}-1", width=width)
        assert again.locator(item).count() > 0


@needs_browser
def test_the_list_of_models_leads_to_a_model(session: Reader, forged_site: Path) -> None:
    tab = session.open("model.html")
    name = read_data(forged_site, "board")["models"][0]["name"]
    tab.click("tbody a >> nth=0")
    wait_until(tab, "document.querySelector('h1').textContent !== 'Model'")
    assert tab.inner_text("h1") == name


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_markup_in_any_text_is_shown_and_never_run(
    session: Reader, forged_site: Path, page: str
) -> None:
    folder = forged_site.parent / "markup"
    if not folder.exists():
        scopes = [
            f"division/{division}-open-research/{scope}"
            for division, scope in product(("blinded", "bright"), ("all", "W1", "W2", "W3"))
        ]
        changed_site(
            forged_site,
            folder,
            dict.fromkeys(["board", "history", "market/main", "cards-index", *scopes], with_markup),
        )

    tab = session.open(page, folder=folder)
    tab.wait_for_timeout(200)

    assert is_shown(tab, "<img src=x onerror=")
    assert tab.locator("#content img, #content script, #content iframe").count() == 0
    assert tab.title() != "owned"


@needs_browser
def test_the_policy_stops_code_that_is_not_the_sites_own(chromium: Any, forged_site: Path) -> None:
    session = Reader(chromium, forged_site)
    tab = session.open("index.html")
    tab.evaluate(
        "document.body.insertAdjacentHTML('beforeend', `<img src='data:,'"
        " onerror=\"document.title='owned'\">`);const code = document.createElement('script');"
        " code.textContent = `document.title = 'owned'`; document.body.append(code);const far ="
        " document.createElement('script'); far.src = 'https://example.org/x.js';"
        " document.body.append(far);"
    )
    tab.wait_for_timeout(200)

    assert tab.title() != "owned"

    session.close()
    assert sum("Content Security Policy" in trouble for trouble in session.troubles) >= 2
    assert "failed: https://example.org/x.js" in session.troubles


FIGURES = [
    (0.12345, "fraction", "12.35\u202f%"),
    (-0.00001, "fraction", "0.00\u202f%"),
    (-0.5, "fraction of probes", "−50.00\u202f%"),
    (1234567.891, "ratio", "1,234,567.891"),
    (15.55, "per year", "15.55\u202fper year"),
    (3, "count", "3"),
    (2.5, "count", "2.5"),
    (0.01402, "USD", "$0.0140"),
    (0, "USD", "$0"),
    (1234.5, "USD", "$1,234.50"),
    (None, "ratio", "–"),
    (0.25, "fractions seen", "0.2500\u202ffractions seen"),
]
SIGNED = (
    "fraction",
    "fraction of NAV",
    "fraction per year",
    "ratio",
    "annualised ratio",
    "annualised ratio over 4.29 %",
)
UNSIGNED = (
    "index",
    "score",
    "years",
    "fraction-like",
    "annualised fraction",
    "ratio of trades",
    "",
)


@needs_browser
def test_figures_are_shown_by_unit_and_script_addresses_become_no_link(
    session: Reader,
) -> None:
    tab = session.open("about.html")
    texts = [
        tab.evaluate("([value, unit]) => kt.format.value(value, unit)", [value, unit])
        for value, unit, _ in FIGURES
    ]

    assert texts == [shown for _, _, shown in FIGURES]
    assert tab.evaluate("kt.format.percent(0.015, 1, true)") == "+1.5\u202f%"

    signed = "units => units.filter((unit) => kt.format.hasSign(unit))"
    assert tab.evaluate(signed, [*SIGNED, *UNSIGNED]) == [*SIGNED]

    for value in ("javascript:alert(1)", " JavaScript:alert(1)", "data:text/html,x", "vbscript:x"):
        assert (
            tab.evaluate("value => kt.el('a', {href: value}).getAttribute('href')", value) is None
        )

    assert (
        tab.evaluate("kt.el('a', {href: 'https://example.org/a?b'}).getAttribute('href')")
        == "https://example.org/a?b"
    )

    for name in (
        "",
        "openai/gpt-4.1",
        "模型/é" * 9,
        *("x" * length for length in (55, 56, 63, 64, 119, 200)),
    ):
        assert (
            tab.evaluate("name => kt.modelKey(name)", name)
            == hashlib.sha256(name.encode()).hexdigest()[:16]
        )


@needs_browser
def test_a_page_without_its_data_reports_it(
    chromium: Any, forged_site: Path, tmp_path: Path
) -> None:
    folder = changed_site(forged_site, tmp_path / "site", {})
    (folder / "data" / "history.js").unlink()
    session = Reader(chromium, folder)
    tab = session.open("history.html")

    assert "data/history.js can't be read" in tab.inner_text("[role=alert]")

    session.close()


@needs_browser
def test_pages_of_questions_about_no_market_show_no_window_mask_or_market(
    chromium: Any, tmp_path: Path
) -> None:
    build_site(sums_board(tmp_path), tmp_path / "site", workers=1)
    (card,) = read_data(tmp_path / "site", "board")["models"][0]["cards"]
    pages = {
        "index.html": "",
        "task.html": "",
        "history.html": "",
        f"card.html#card={card}": ".facts, th, h3",
        "about.html": "thead th",
        "model.html#model=right/adder&division=sums": ".report, th, h2",
    }

    with watching(chromium, tmp_path / "site") as session:
        for page, parts in pages.items():
            shown = session.open(page).locator(parts or "main").all_inner_texts()
            assert shown, page
            for words in shown:
                matches = re.findall(
                    "window|mask|market|snapshot|undefined|null|medians|engine held",
                    words.replace("own market", ""),
                    re.IGNORECASE,
                )
                assert not matches, (page, words)

        # with a division of another task, whose mask hides something
        data = tmp_path / "site" / "data" / "board.js"
        masked = '"divisions":[{"id":"masked","task":"other","mask":"blinded","scopes":["all"],"windows":[]},{'
        text = data.with_suffix(".json").read_text().replace('"divisions":[{', masked, 1)
        data.write_bytes(data_file("board", text.encode()))
        tab = session.open("index.html#division=sums")
        assert tab.inner_text("label:has-text('Mask') option:checked") == "none"


# ==== figures that a page sets beside each other


ASSETS = Path(ktdeval_board.__file__).parent / "site" / "assets"
VENDOR = Path(ktdeval_pages.__file__).parent / "vendor"


@pytest.fixture(scope="module")
def blank(chromium: Chromium) -> Any:
    blank = chromium.new_context().new_page()
    blank.add_script_tag(path=str(ASSETS / "stats.js"))
    return blank


def card_of(*episodes: tuple[str, int, float | None]) -> dict[str, Any]:
    """A card of three windows with these Sharpe ratios, by window and seed."""
    names = ("window", "seed", "metrics")
    rows = []
    for window, seed, value in episodes:
        metrics = {"sharpe": {"value": value, "reason": "no trade"}}
        rows.append(dict(zip(names, (window, seed, metrics), strict=True)))

    return {"windows": [{"name": name} for name in ("W1", "W2", "W3")], "episodes": rows}


@needs_browser
def test_a_window_is_one_pair_for_any_number_of_seeds(blank: Any) -> None:
    first = card_of(
        *(("W2", 0, 1.0), ("W2", 1, 5.0), ("W2", 2, 2.0)),
        *(("W1", 0, 1.0), ("W1", 1, 3.0), ("W3", 0, None)),
    )
    second = card_of(
        *(("W1", 0, 0.5), ("W1", 1, 0.5), ("W1", 7, 9.0)),
        *(("W2", 2, 1.0), ("W2", 0, 3.0), ("W2", 1, 1.0), ("W3", 0, 1.0)),
    )
    differences = blank.evaluate(
        "([first, second]) => kt.stats.windowDifferences(first, second, 'sharpe')", [first, second]
    )

    assert [(row["window"], row["value"], len(row["pairs"])) for row in differences["rows"]] == [
        ("W1", 1.5, 2),
        ("W2", 1.0, 3),
    ]
    assert differences["leftOut"] == {"no trade": 1}


# -- what of others the site carries


def carried() -> list[dict[str, Any]]:
    """What is known of each library."""
    files: list[dict[str, Any]] = json.loads((VENDOR / "versions.json").read_text())["files"]
    return files


def test_libraries_of_others_are_what_their_packages_hold() -> None:
    listed = {entry["file"]: entry for entry in carried()}

    assert set(listed) == {path.name for path in VENDOR.glob("*.js")}

    for name, entry in listed.items():
        content = (VENDOR / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], name
        assert "Redistribution and use" in (VENDOR / entry["licence_file"]).read_text()
        if "change" not in entry:
            assert entry["sha256"] == entry["sha256_in_package"]


def test_the_one_change_to_a_library_can_be_undone() -> None:
    (entry,) = [entry for entry in carried() if "change" in entry]
    text = (VENDOR / entry["file"]).read_text()
    names = "ascending, isString, DisallowedObjectProperties"
    opening = f"(function (vega) {{ const {{ {names} }} = vega;\n"
    closing = "vega.expressionInterpreter = expression; })(globalThis.vega);\n"

    assert (text.count(opening), text.count(closing)) == (1, 1)

    original = text.replace(opening, f"import {{ {names} }} from 'vega-util';\n").replace(
        closing, "export { expression as expressionInterpreter };\n"
    )

    assert hashlib.sha256(original.encode()).hexdigest() == entry["sha256_in_package"]


def test_licences_of_bundled_libraries_are_included() -> None:
    bundled = (
        "d3-array d3-ease d3-scale-chromatic delaunator robust-predicates topojson-client tslib"
    )
    text = (VENDOR / "THIRD-PARTY.txt").read_text()
    for package in bundled.split():
        assert f"\n{package} " in text, package


A4_PX = 718
"""Width of a sheet of A4 at 96 dots per inch, less Chromium's margins of 10 mm."""


@pytest.mark.parametrize("page", PAGES)
def test_the_browsers_own_print_keeps_every_column(session: Reader, page: str) -> None:
    tab = session.open(page, width=A4_PX)
    tab.emulate_media(media="print")

    wider = tab.evaluate(
        "width => [...document.querySelectorAll('main table, main p, main figure')]"
        ".filter(one => one.checkVisibility() && one.getBoundingClientRect().right > width + 1)"
        ".map(one => `${one.tagName} ${one.textContent.trim().slice(0, 40)}`)",
        A4_PX,
    )
    assert wider == []
    assert "Loading" not in tab.inner_text("main")
