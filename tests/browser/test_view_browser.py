"""Pages of `ktdeval view` in a real browser: days are reached by key, list, address and search, and
all that was said is there.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ktdeval.market import load_snapshot
from ktdeval.runner import RunFolder
from ktdeval.testing import not_empty
from ktdeval_view.document import EnvironmentRedactor
from ktdeval_view.episode_pages import PageSurroundings, make_episode_page
from ktdeval_view.episode_records import EpisodeRecords, read_episode
from support.pages.browser_pages import (
    Reader,
    axe_violations,
    every_screen,
    needs_browser,
    page_troubles,
    press,
    wait_until,
)
from support.pages.view_page import KEY, SECRETS, days_of, head_of, pages
from support.pages.view_plugin import (
    CUT,
    FAILING,
    INJECTING,
    MARKUP,
    MUDDLED,
    NAMING,
    SHOWN_MARKUP,
    TELLING,
)
from support.runs.run_support import DAYS_IN_WINDOW

pytestmark = needs_browser

LONG = 548


@pytest.fixture(scope="module")
def talk(runs_folder: Path) -> Path:
    """The page of an episode whose model thinks aloud and misbehaves."""
    (page,) = pages(runs_folder / "talk" / "view")
    return page


@pytest.fixture(scope="module")
def long(runs_folder: Path) -> Path:
    """A page of 548 days: those of a short episode again and again."""
    run = RunFolder.load(runs_folder / "talk")
    (spec,) = run.manifest.specs
    records = read_episode(run, spec)
    steps = [replace(records.steps[day % DAYS_IN_WINDOW], step=day) for day in range(LONG)]
    talks = [records.talks[day % DAYS_IN_WINDOW] for day in range(LONG)]
    text = make_episode_page(
        EpisodeRecords(spec, "finished", dataclasses.replace(records.ledger, steps=steps), talks),
        PageSurroundings(),
        EnvironmentRedactor(SECRETS),
    )
    path = runs_folder / "long.html"
    path.write_text(text)

    return path


def open_day(session: Reader, page: Path, address: str = "", **screen: Any) -> Any:
    """A page at a place in it, once its day is shown."""
    return session.open(
        f"{page.as_uri()}#{address}",
        ready="document.querySelector('#day-body')?.children.length > 0",
        **screen,
    )


def open_index(session: Reader, run: Path, episodes: int) -> Any:
    ready = f"document.querySelectorAll('tbody tr').length === {episodes}"
    return session.open((run / "view" / "index.html").as_uri(), ready=ready)


def wait_for_day(tab: Any, day: int) -> None:
    wait_until(tab, f"document.querySelector('#said').textContent.startsWith('Day {day},')")


def chosen(tab: Any) -> tuple[str, str, str]:
    """The day as the heading, the list and the address have it."""
    title = tab.inner_text("#day-title").removeprefix("Day ")
    in_list = tab.evaluate(
        "[...document.querySelectorAll('#list a[aria-current]')].map((day) => day.hash).join()"
    )

    return title, in_list.removeprefix("#day="), tab.evaluate("location.hash").removeprefix("#day=")


# -- the look of it


@pytest.mark.exhaustive
@every_screen
def test_pages_fit_the_screen_follow_its_scheme_and_can_be_read_by_all(
    session: Reader, runs_folder: Path, talk: Path, width: int, scheme: str
) -> None:
    for page in (talk, runs_folder / "seeds" / "view" / "index.html"):
        ready = "document.querySelectorAll('#list a, tbody tr').length > 0"
        tab = session.open(page.as_uri(), ready=ready, width=width, color_scheme=scheme)
        too_wide = """[...document.querySelectorAll('body *')].filter((part) => !part.closest('.scroll, svg, .skip, dialog') &&
            part.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map((part) => part.outerHTML)"""
        assert tab.evaluate(too_wide) == []
        assert page_troubles(tab) == []
        paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(21, 25, 31)" if scheme == "dark" else "rgb(255, 255, 255)")


# -- all trades


def fills_of(page: Path) -> list[list[str]]:
    """Trades of an episode by its records: day, date, stock, side, shares."""
    fills = []
    for number, day in enumerate(days_of(page)):
        step = day["step"]
        for order in step["orders"]:
            if order["filled_shares"]:
                trade = [number, step["filled_on"], order["code"], order["side"]]
                fills.append([*map(str, trade), str(order["filled_shares"])])

    return fills


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_trades_of_an_episode_are_one_table_that_narrows_and_is_saved(
    session: Reader, runs_folder: Path, width: int, scheme: str
) -> None:
    (page,) = pages(runs_folder / "bright" / "view")
    tab = open_day(session, page, "day=0", width=width, color_scheme=scheme)
    expected = not_empty(fills_of(page))

    tab.click("#all-trades")
    assert tab.inner_text("#trade-matches") == f"{len(expected)} rows"
    assert axe_violations(tab) == []
    with tab.expect_download() as saving:
        tab.click("#trade-csv")
    saved = list(csv.DictReader(Path(saving.value.path()).read_text().splitlines()))
    names = ("day", "date", "stock", "side", "shares")
    assert [[row[name] for name in names] for row in saved] == expected
    assert all(float(row["value_CNY"]) > 0 for row in saved)

    stock = expected[0][2]
    tab.fill("#trade-search", f"{stock} buy")
    bought = [trade for trade in expected if trade[2:4] == [stock, "BUY"]]
    shown = (
        "[...document.querySelectorAll('#trade-list tbody tr')].map(row => row.cells[1].innerText)"
    )
    assert tab.evaluate(shown) == [date for _, date, *_ in bought]

    tab.click("#trade-list tbody a")
    wait_for_day(tab, int(bought[0][0]))
    assert not tab.evaluate("document.querySelector('#trades').open")


# -- two episodes


def orders_by_day(page: Path) -> dict[str, set[tuple[str, str]]]:
    """Side and stock of each day's orders, by the day of the fills."""
    rows = head_of(page)["rows"]
    return {row["filled_on"]: {(order[1], order[0]) for order in row["orders"]} for row in rows}


def held_days(page: Path) -> set[str]:
    """Days of fills whose step was held, since nothing valid was submitted or the calls failed."""
    rows = head_of(page)["rows"]
    return {row["filled_on"] for row in rows if row["provenance"] in {"fallback", "error"}}


@every_screen
def test_two_episodes_stand_side_by_side_with_their_differences(
    session: Reader, runs_folder: Path, width: int, scheme: str
) -> None:
    folder = runs_folder / "seeds" / "view"
    address = (folder / "side-by-side.html").as_uri()
    ready = "document.querySelectorAll('#pair-days tbody tr').length > 0"
    tab = session.open(f"{address}#first=0&second=2", ready=ready, width=width, color_scheme=scheme)
    links = tab.evaluate("[...document.querySelectorAll('#legend a')].map(link => link.href)")
    pages = [folder / link.rsplit("/", 1)[1] for link in links]
    first, second = (orders_by_day(page) for page in pages)
    held = held_days(pages[0]) ^ held_days(pages[1])
    differing = [day for day in first if first[day] != second[day] or day in held]

    days = "[...document.querySelectorAll('#pair-days tbody th')].map(day => day.innerText.slice(0, 10))"
    assert tab.evaluate(days) == list(first)
    tab.check("#differing")
    assert tab.evaluate(days) == not_empty(differing)
    assert f"{len(differing)} of {DAYS_IN_WINDOW} days" in tab.inner_text("#legend")
    marked = tab.evaluate("[...document.querySelectorAll('#pair-days mark')].length")
    assert marked >= sum(len(first[day] ^ second[day]) for day in differing)
    assert page_troubles(tab) == []

    tab.select_option("#second", "0")  # an episode beside itself
    wait_until(tab, "document.querySelector('#pair-days tbody').children.length === 0")
    assert tab.evaluate("location.hash") == "#first=0&second=0"


# -- ways to a day


@pytest.mark.exhaustive
def test_the_address_names_the_day_a_call_or_a_part(session: Reader, talk: Path) -> None:
    dates = [row["filled_on"] for row in head_of(talk)["rows"]]
    for address, day in (("day=17", 17), (f"day={dates[5]}", 5), ("day=day_+3", 3), ("", 0)):
        tab = open_day(session, talk, address)
        wait_for_day(tab, day)
        assert chosen(tab)[:2] == (str(day), str(day))
        assert dates[day] in tab.inner_text("#day-when")

    tab.evaluate("location.hash = 'day=9'")
    wait_for_day(tab, 9)
    tab.evaluate("history.back()")
    wait_for_day(tab, 0)
    # A day that is not there is said so.
    tab = open_day(session, talk, "day=99")

    assert (
        f"There is no day 99 in this episode; it has days 0 to {DAYS_IN_WINDOW - 1}"
        in tab.inner_text("#trouble")
    )
    assert chosen(tab)[0] == "0"

    press(tab, "j")
    wait_for_day(tab, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("address", "selector"), [("call=3", "#call-3"), ("part=portfolio", "#part-portfolio")]
)
def test_an_address_that_names_a_call_or_a_part_shows_it(
    session: Reader, talk: Path, address: str, selector: str
) -> None:
    tab = open_day(session, talk, f"day=8&{address}")
    wait_for_day(tab, 8)
    top = tab.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().top")
    assert 0 <= top < 600


@pytest.mark.exhaustive
def test_keys_walk_through_the_days_and_leave_fields_alone(session: Reader, talk: Path) -> None:
    tab = open_day(session, talk, "day=5")
    for keys, day in (
        (("j", "j"), 7),
        (("k",), 6),
        (("ArrowRight",), 7),
        (("ArrowLeft", "ArrowLeft"), 5),
    ):
        press(tab, *keys)
        wait_for_day(tab, day)
        assert chosen(tab) == (str(day),) * 3

    press(tab, "Home", "k")
    wait_for_day(tab, 0)
    press(tab, "End", "j")
    wait_for_day(tab, DAYS_IN_WINDOW - 1)
    tab.evaluate("document.querySelector('#list a[aria-current]').focus()")
    press(tab, "ArrowUp")
    wait_for_day(tab, DAYS_IN_WINDOW - 2)

    assert tab.evaluate("document.activeElement.hash") == f"#day={DAYS_IN_WINDOW - 2}"

    before = tab.evaluate("history.length")
    press(tab, "k", "k", "k")
    wait_for_day(tab, DAYS_IN_WINDOW - 5)

    assert tab.evaluate("history.length") == before, "a walk must not fill the browser's history"

    # Keys leave fields alone.
    tab = open_day(session, talk, "day=5")
    press(tab, "/")

    assert tab.evaluate("document.activeElement.id") == "search"

    press(tab, "j")
    assert tab.evaluate("document.querySelector('#search').value") == "j"
    assert chosen(tab)[0] == "5"


@pytest.mark.exhaustive
def test_the_plot_and_the_slider_choose_a_day(session: Reader, talk: Path) -> None:
    tab = open_day(session, talk, "day=0")
    tab.evaluate(
        "{const slider = document.querySelector('#scrub'); slider.value = 12;"
        " slider.dispatchEvent(new Event('input'));}"
    )
    wait_for_day(tab, 12)

    assert tab.evaluate(
        "document.querySelector('#scrub').getAttribute('aria-valuetext')"
    ).startswith("Day 12, ")

    tab.click("#chart")
    wait_for_day(tab, int(tab.inner_text("#day-title").removeprefix("Day ")))

    assert chosen(tab)[0] in ("9", "10", "11")
    assert tab.evaluate("document.querySelectorAll('#chart .nav').length") == 1
    assert tab.evaluate("document.querySelectorAll('#chart .benchmark').length") == 1
    assert tab.evaluate("document.querySelectorAll('#chart .undecided').length") == 2


@pytest.mark.exhaustive
def test_the_list_narrows_and_keys_stay_in_it(session: Reader, talk: Path) -> None:
    tab = open_day(session, talk, "day=0")
    tab.evaluate(
        "{const show = document.querySelector('#show'); show.value = 'held'; show.dispatchEvent(new"
        " Event('change'));}"
    )

    assert tab.inner_text("#matches") == f"2 of {DAYS_IN_WINDOW} days"

    shown = tab.evaluate(
        "[...document.querySelectorAll('#list li:not([hidden]) a')].map((day) => day.hash)"
    )

    assert shown == [f"#day={FAILING}", f"#day={MUDDLED}"]

    press(tab, "j")
    wait_for_day(tab, FAILING)
    press(tab, "j")
    wait_for_day(tab, MUDDLED)
    press(tab, "j")

    assert chosen(tab)[0] == str(MUDDLED)


@pytest.mark.exhaustive
def test_the_search_finds_messages_and_stocks_by_their_true_names(
    session: Reader, runs_folder: Path, talk: Path
) -> None:
    def search(words: str) -> list[int]:
        box = "const box = document.querySelector('#search')"
        tab.evaluate(
            f"{{{box}; box.value = {json.dumps(words)}; box.dispatchEvent(new Event('input'));}}"
        )
        tab.evaluate("new Promise((done) => setTimeout(done, 200))")  # it waits for the next letter
        wait_until(tab, "document.querySelector('#matches').textContent !== 'searching'")
        days = tab.evaluate(
            "[...document.querySelectorAll('#list li:not([hidden]) a')].map((day) =>"
            " +day.hash.slice(5))"
        )

        return list(days)

    tab = open_day(session, talk, "day=0")

    assert search("on day 13 I have READ") == [13]
    assert search("surely 600519") == [NAMING]
    assert search("stub-secret") == []
    assert search("notional") == [], "names of fields are not what was said"

    day = next(day for day in days_of(talk) if day["step"]["orders"])
    market = load_snapshot(runs_folder / "market")
    code = day["step"]["orders"][0]["code"]
    handle = day["handles"][0]
    expected = [
        number
        for number, one in enumerate(days_of(talk))
        if handle in json.dumps(one["talk"]) or code in json.dumps(one["step"])
    ]

    assert search(code) == expected
    assert set(expected) <= set(search(market.names[market.asset_index[code]]))
    assert search("") == list(range(DAYS_IN_WINDOW))


# -- what is shown of a day


@pytest.mark.exhaustive
def test_every_word_of_a_day_is_there_in_order(session: Reader, talk: Path) -> None:
    """Letter by letter and unfolded, as `v` and `u` show it."""
    days = days_of(talk)
    for day in (0, INJECTING, NAMING, MUDDLED, CUT, TELLING, 12):
        tab = open_day(session, talk, f"day={day}")
        press(tab, "v", "u")
        wait_until(
            tab,
            "document.querySelectorAll('.folded').length === 0 &&"
            " document.querySelector('#verbatim').ariaPressed === 'true'",
        )
        tab.evaluate("new Promise((done) => setTimeout(done, 50))")
        shown = tab.evaluate("document.querySelector('#part-talk').textContent")
        at = 0
        for exchange in not_empty(days[day]["talk"]["exchanges"]):
            new = [
                message["content"] for message in exchange["sent"] if message["role"] != "assistant"
            ]
            reply = exchange.get("reply", {})
            new += [reply.get("content", ""), reply.get("reasoning", ""), exchange.get("error", "")]
            new += [
                call["arguments"]
                for call in reply.get("tool_calls", ())
                if call["arguments"] != "{}"
            ]
            for text in not_empty(new):
                start = shown.find(text.replace(MARKUP, SHOWN_MARKUP), at)
                assert start >= 0, (day, text[:80])
                at = start


@pytest.mark.exhaustive
def test_text_of_a_model_is_shown_escaped_next_to_its_withheld_parts(
    session: Reader, talk: Path
) -> None:
    tab = open_day(session, talk, f"day={INJECTING}")
    shown = tab.evaluate("document.querySelector('#day-body').textContent")

    assert SHOWN_MARKUP in shown
    assert (
        tab.evaluate("document.querySelectorAll('img, #day-body script, #day-body b').length") == 0
    )
    assert "owned" not in tab.evaluate("document.title")

    # What was withheld is shown beside what was written.
    tab = open_day(session, talk, f"day={NAMING}")
    assert "asset_0001 is surely 600519.SH" in tab.evaluate(
        "document.querySelector('#call-2 .turn.reply').textContent"
    )

    wait_until(
        tab, "document.querySelector('.withheld').innerText"
    )  # what is below the screen has no letters until a frame is drawn

    assert "asset_0001 is surely [withheld]" in tab.inner_text(".withheld")

    # A secret is nowhere on the page.
    tab = open_day(session, talk, f"day={TELLING}")
    shown = tab.evaluate("document.documentElement.textContent")

    assert "my key is [TALKER_API_KEY]" in shown
    assert KEY not in shown


def has_order(day: dict[str, Any], status: str) -> bool:
    return any(order["status"] == status for order in day["step"]["orders"])


@pytest.mark.exhaustive
def test_orders_show_true_names_handles_and_what_became_of_them(
    session: Reader, runs_folder: Path
) -> None:
    market = load_snapshot(runs_folder / "market")
    page = pages(runs_folder / "seeds" / "view")[0]
    days = days_of(page)

    for status in ("filled", "rejected"):
        number = next(number for number, day in enumerate(days) if has_order(day, status))
        tab = open_day(session, page, f"day={number}")
        day = days[number]
        shown = tab.evaluate(
            "[...document.querySelectorAll('.order')].map((order) => order.innerText)"
        )
        for text, order, handle, facts in not_empty(
            zip(shown, day["step"]["orders"], day["handles"], day["facts"], strict=True)
        ):
            assert order["side"] in text
            assert order["reason"] in text
            assert order["message"] in text
            if order["code"] is not None:
                assert f"{order['code']} {market.names[market.asset_index[order['code']]]}" in text
                assert handle in text

            if order["status"] == "rejected":
                assert f"rejected: {order['rule']}" in text

            if order["filled_shares"]:
                assert f"{order['filled_shares']:,} share" in text
                assert f"{order['price']:.2f}" in text
                assert ("came out right" in text) == (facts["right"] is True)


@pytest.mark.exhaustive
def test_days_without_orders_show_the_reason_and_replies_their_cost(
    session: Reader, talk: Path
) -> None:
    tab = open_day(session, talk, f"day={FAILING}")
    assert "the model call failed" in tab.inner_text("#part-decision")
    assert "bad response × 1" in tab.inner_text("#part-decision")
    assert "The call failedbad_response" in tab.evaluate(
        "document.querySelector('#part-talk').textContent"
    )

    tab = open_day(session, talk, f"day={MUDDLED}")
    assert "no submission was valid" in tab.inner_text("#part-decision")
    assert "bad JSON × 4" in tab.inner_text("#part-decision")
    assert tab.evaluate("document.querySelectorAll('.tool-call .chip.bad').length") == 4

    # Cut replies tokens and servers are shown.
    tab = open_day(session, talk, f"day={CUT}")
    shown = tab.evaluate("document.querySelector('#part-talk').innerText")

    for words in (
        "cut off at the longest reply",
        "64 from the prompt cache",
        "200 of reasoning",
        "served by talker-2024-01-01",
    ):
        assert words in shown, words

    # Another conversation of an agent is marked.
    tab = open_day(session, talk, "day=0")
    first, second = (
        tab.evaluate(f"document.querySelector('#call-{number}').textContent") for number in (1, 2)
    )

    assert first.index("You doubt everything.") < first.index("I doubt it.")
    assert "Another conversation: it begins with 0 messages of the call before." in second
    assert "I doubt it." not in second
    # The submission that was taken is marked.
    assert tab.locator(".tool-call .chip.good").all_text_contents() == ["taken"]

    last = "document.querySelector('.call:last-of-type .tool-call').textContent"
    assert "submit_action" in tab.evaluate(last)


@pytest.mark.exhaustive
def test_figures_and_true_names_are_shown_as_written(session: Reader, talk: Path) -> None:
    tab = open_day(session, talk, "day=0")
    made = tab.evaluate("""(() => {
        const assets = {handles: ["asset_0001"], codes: ["600000.SH"], companies: ["Bank"]};
        const names = new Names({...assets, sectors: {}, days: ["2024-01-01"], first_day: -1});
        const text = '{"b": 1.16684e6, "a": 2000.0, "a": 1e999, "7": [1, 2], "s": "asset_0001 day_-1 asset_0002 \\\\u00e9"}';
        return kt.el("div", {}, showJson(parseJson(text), names)).textContent; })()""")

    assert made == "b1.16684e6a2000.0a1e99971, 2sasset_0001 day_-1 asset_0002 é"

    for text in ("{", "[1,]", '{"a":NaN}', "nul", '"\\x"', "1 2", "[" * 400, '"' + "a" * 200_000):
        assert tab.evaluate(f"parseJson({json.dumps(text)})") is None, text[:20]

    # True names are style beside the words.
    tab = open_day(session, talk, "day=8")
    truth = "getComputedStyle(document.querySelector('#part-talk .handle'), '::after').content"

    assert tab.evaluate(truth) not in ("none", "normal")
    assert tab.evaluate("document.querySelector('#part-talk .handle').dataset.true.length") > 5

    press(tab, "t")
    assert tab.evaluate(truth) in ("none", "normal")

    # The portfolio adds up.
    tab = open_day(session, talk, "day=9")
    rows = tab.evaluate(
        "[...document.querySelectorAll('.positions tbody tr')].map((row) =>"
        " row.cells[4].textContent)"
    )
    nav = days_of(talk)[9]["step"]["nav"]

    assert sum(int(row.replace(",", "")) for row in rows) == pytest.approx(nav, abs=len(rows))


@pytest.mark.exhaustive
def test_a_stock_shows_every_order_in_it(session: Reader, talk: Path) -> None:
    days = days_of(talk)
    number = next(number for number, day in enumerate(days) if day["step"]["orders"])
    code = days[number]["step"]["orders"][0]["code"]
    expected = []

    for index, day in enumerate(days):
        expected += [index for order in day["step"]["orders"] if order["code"] == code]

    tab = open_day(session, talk, f"day={number}")
    tab.click(".order .link")
    wait_until(tab, "document.querySelector('#stock').open")

    assert code in tab.inner_text("#stock-title")
    assert (
        tab.evaluate(
            "[...document.querySelectorAll('#stock-body a')].map((link) => +link.hash.slice(5))"
        )
        == expected
    )
    assert tab.evaluate("document.querySelectorAll('#stock-body :is(.bought, .sold)').length") >= 1

    press(tab, "j")
    assert chosen(tab)[0] == str(number), "keys must not act behind an open box"

    press(tab, "Escape")
    wait_until(tab, "!document.querySelector('#stock').open")


# -- telephone


@pytest.mark.exhaustive
def test_on_a_phone_the_list_covers_the_page(session: Reader, talk: Path) -> None:
    tab = open_day(session, talk, "day=4", width=390)
    assert not tab.evaluate("document.querySelector('#days').checkVisibility()")

    tab.click("#bar-day")
    assert tab.evaluate("document.querySelector('#days').checkVisibility()")

    tab.click("#list a[href='#day=6']")
    wait_for_day(tab, 6)

    assert not tab.evaluate("document.querySelector('#days').checkVisibility()")

    tab.click("#bar-later")
    wait_for_day(tab, 7)

    assert tab.inner_text("#bar-day").startswith("Day 7 · ")


# -- many days, many episodes


@pytest.mark.exhaustive
def test_page_of_548_days_loads_quickly_and_shows_all_messages(session: Reader, long: Path) -> None:
    tab = open_day(session, long, "day=500")
    wait_for_day(tab, 500)

    assert tab.evaluate("document.querySelectorAll('#list li').length") == LONG
    assert tab.evaluate("document.querySelectorAll('#list *').length") <= 8 * LONG

    item = (
        "{const box = document.querySelector('#list').getBoundingClientRect(); const day ="
        " document.querySelector('[aria-current]')"
    )

    assert tab.evaluate(
        item + ".getBoundingClientRect(); box.top <= day.top && day.bottom <= box.bottom;}"
    )

    elements = tab.evaluate("document.querySelectorAll('*').length")
    press(tab, "Home")
    wait_for_day(tab, 0)

    for _ in range(2 * DAYS_IN_WINDOW):
        press(tab, "j")

    press(tab, "End")
    wait_for_day(tab, LONG - 1)
    tab.evaluate("location.hash = 'day=500'")
    wait_for_day(tab, 500)

    assert tab.evaluate("document.querySelectorAll('*').length") == elements, (
        "days that were left stay in the page"
    )

    # Without the market a page still shows all that was said.
    tab = open_day(session, long, "day=0")
    assert tab.evaluate("document.querySelector('#true-names').hidden")
    assert tab.evaluate("document.querySelectorAll('#chart .benchmark').length") == 0
    assert tab.evaluate("document.querySelectorAll('.order').length") > 0
    assert "among the best by MOM_12_1" in tab.evaluate(
        "document.querySelector('#part-talk').textContent"
    )


@pytest.mark.exhaustive
def test_the_index_sorts_narrows_and_leads_to_the_pages(session: Reader, runs_folder: Path) -> None:
    tab = open_index(session, runs_folder / "seeds", 3)
    entries = head_of(runs_folder / "seeds" / "view" / "index.html")["episodes"]
    by_return = [entry["page"] for entry in sorted(entries, key=lambda entry: entry["return"])]
    pages_shown = (
        "[...document.querySelectorAll('tbody a')].map((link) => link.getAttribute('href'))"
    )
    tab.click("thead th:nth-child(4) button")

    assert tab.evaluate(pages_shown) == by_return
    assert tab.evaluate("document.querySelector('thead th:nth-child(4)').ariaSort") == "ascending"

    tab.click("thead th:nth-child(4) button")
    assert tab.evaluate(pages_shown) == by_return[::-1]

    tab.evaluate(
        "{const box = document.querySelector('#search'); box.value = 'seed-1';"
        " box.dispatchEvent(new Event('input'));}"
    )

    assert tab.evaluate(pages_shown) == [entries[1]["page"]]
    assert tab.inner_text("#matches") == "1 of 3 episodes"

    tab.click("tbody a")
    wait_until(tab, "document.querySelector('#day-body')?.children.length > 0")

    assert "seed 1" in tab.inner_text("#title")

    links = tab.evaluate(
        "[...document.querySelectorAll('.top nav a:not([hidden])')].map((link) =>"
        " link.getAttribute('href'))"
    )

    assert links == [entries[0]["page"], "index.html", entries[2]["page"]]


@pytest.mark.exhaustive
def test_an_unfinished_episode_is_marked(session: Reader, runs_folder: Path) -> None:
    (page,) = pages(runs_folder / "killed" / "view")
    tab = open_day(session, page, "day=8")

    assert "UNFINISHED" in tab.inner_text("#notes")
    assert f"9 of {DAYS_IN_WINDOW} days so far" in tab.inner_text("#facts")

    tab = open_index(session, runs_folder / "killed", 2)
    assert "not begun" in tab.inner_text("tbody tr:nth-child(2)")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("buy \u202e100 lles", "buy ⟨U+202E⟩100 lles"),  # turned around
        ("NV\u200bDA", "NV⟨U+200B⟩DA"),
        ("a\U000e0041b", "a⟨U+E0041⟩b"),  # a tag
        ("12\u202f%", "12\u202f%"),  # a narrow space, as figures have
        ("买入 é ☂", "买入 é ☂"),
    ],
)
def test_characters_that_nobody_sees_are_shown_as_marks(
    session: Reader, talk: Path, text: str, shown: str
) -> None:
    tab = open_day(session, talk)

    assert tab.evaluate("text => kt.el('p', {}, text).textContent", text) == shown
