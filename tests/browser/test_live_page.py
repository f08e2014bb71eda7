"""Live pages in a real browser: figures as in the data, readable with 20 entrants and 250 days, by
keyboard alone, on a laptop and on a telephone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktdeval.testing import not_empty
from ktdeval_live.page.data import LivePage, PageEntry
from ktdeval_live.page.write import write_page
from ktdeval_live.results.card_types import LiveInterval
from support.live.live_pages import DAYS_A_YEAR, Shape, generated_page
from support.pages.browser_pages import (
    Reader,
    axe_violations,
    every_screen,
    is_in_sight,
    is_shown,
    needs_browser,
    page_troubles,
    press,
    wait_until,
)

pytestmark = needs_browser

MARKUP = "<img src=x onerror=\"document.title='owned'\"></script>"
PANELS = ".panel-plot svg"


@pytest.fixture(scope="module")
def big() -> LivePage:
    """Twenty entrants over 250 days; a model's name and a detail of a gap carry markup."""
    page = generated_page()
    first = msgspec.structs.replace(page.entries[0], model=MARKUP)
    gap = msgspec.structs.replace(page.gaps[0], detail=MARKUP)

    return msgspec.structs.replace(
        page, entries=(first, *page.entries[1:]), gaps=(gap, *page.gaps[1:])
    )


@pytest.fixture(scope="module")
def big_file(folder: Path, big: LivePage) -> Path:
    return write_page(big, folder / "big")


@pytest.fixture(scope="module")
def rehearsal() -> LivePage:
    """Three markets of thirty days, the last of which has no index."""
    page = generated_page(
        Shape(entrants=6, days=30, markets=("us", "csi300", "coins"), kind="rehearsal")
    )
    *others, coins = page.markets
    entries = [_without_index(entry) for entry in page.entries]
    markets = (*others, msgspec.structs.replace(coins, index=None))

    return msgspec.structs.replace(page, markets=markets, entries=tuple(entries))


def _without_index(entry: PageEntry) -> PageEntry:
    if entry.market != "coins":
        return entry

    nothing = msgspec.structs.replace(
        entry.over_index, sessions=(), mean=(), low=(), high=(), asymptotic_low=(),
        asymptotic_high=(),
    )  # fmt: skip
    equity = msgspec.structs.replace(entry.equity, index=(None,) * len(entry.equity.held))

    return msgspec.structs.replace(entry, over_index=nothing, equity=equity)


@pytest.fixture(scope="module")
def rehearsal_file(folder: Path, rehearsal: LivePage) -> Path:
    return write_page(rehearsal, folder / "rehearsal")


def open_page(session: Reader, file: Path, **screen: Any) -> Any:
    return session.open(file.as_uri(), **screen)


def texts(tab: Any, selector: str) -> list[str]:
    found = tab.evaluate(
        f"[...document.querySelectorAll('{selector}')].map(one => one.textContent)"
    )
    return list(found)


def table_cells(tab: Any, caption: str) -> list[dict[str, str]]:
    """Rows of a table by the heads of its columns."""
    rows = tab.evaluate(
        "caption => { const table = [...document.querySelectorAll('table')].find(one =>"
        " one.caption.textContent.startsWith(caption));"
        " return [...table.rows].map(row => [...row.cells].map(cell => cell.innerText.trim())); }",
        caption,
    )
    heads = [head.split("\n")[0].split(" ")[0] for head in rows[0]]

    return [dict(zip(heads, row, strict=True)) for row in rows[1:]]


def chosen_in(tab: Any, label: str) -> Any:
    """The field with a label in which one of several is chosen."""
    return tab.get_by_role("combobox", name=label, exact=True)


def signed(value: float, decimals: int = 1) -> str:
    """A figure as the page writes it, with a sign unless it is 0."""
    text = f"{abs(value):.{decimals}f}"
    if float(text) == 0:
        return text

    return f"{'+' if value > 0 else '−'}{text}"


def plain_sum(excess: LiveInterval, sign: int = 1) -> str:
    """A mean in % a year as the sum over its days."""
    assert excess.mean is not None
    assert excess.n is not None
    return signed(sign * excess.mean * excess.n / DAYS_A_YEAR, 2)


# ---- readable


@pytest.mark.exhaustive
@every_screen
def test_large_page_fits_its_screen_and_can_be_read_by_all(
    session: Reader, big: LivePage, big_file: Path, width: int, scheme: str
) -> None:
    tab = open_page(session, big_file, width=width, color_scheme=scheme)
    assert page_troubles(tab) == []
    assert is_in_sight(tab, "tbody td.with-whisker"), "the figure that ranks"
    assert tab.title() == "generated · live forward test"
    assert len(texts(tab, ".strip-plot svg")) == len(big.entries) == 20
    # each entrant's returns, and the mean excess of those with a year: sums have another scale
    yearly = [entry for entry in big.entries if entry.no_year is None]
    assert len(texts(tab, PANELS)) == 20 + len(yearly) == 39
    assert is_shown(tab, MARKUP)

    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(21, 25, 31)" if scheme == "dark" else "rgb(255, 255, 255)")


_OVERLAPS = """svg => {
  const boxes = [...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect());
  const frame = svg.getBoundingClientRect();
  const out = boxes.filter(box => box.left < frame.left - 1 || box.right > frame.right + 1 ||
    box.bottom > frame.bottom + 1 || box.top < frame.top - 1);
  const hits = boxes.filter((box, at) => boxes.some((other, place) => place > at &&
    box.left < other.right && other.left < box.right &&
    box.top < other.bottom && other.top < box.bottom));
  return [out.length, hits.length, svg.querySelectorAll('path').length];
}"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["big_file", "rehearsal_file"])
def test_no_label_of_a_plot_is_cut_or_lies_on_another(
    session: Reader, request: pytest.FixtureRequest, kind: str, width: int
) -> None:
    tab = open_page(session, request.getfixturevalue(kind), width=width)
    plots = tab.locator(f"{PANELS}, .wide-plot svg")
    found = plots.evaluate_all(f"plots => plots.map({_OVERLAPS})")

    assert len(found) > 10

    for outside, overlapping, lines in found:
        assert (outside, overlapping) == (0, 0)
        assert lines > 1


@pytest.mark.parametrize("width", [1280, 390])
def test_text_of_the_page_is_not_wider_than_its_place(
    session: Reader, big_file: Path, width: int
) -> None:
    tab = open_page(session, big_file, width=width)
    too_wide = tab.evaluate(
        "[...document.querySelectorAll('body *')].filter(part => !part.closest('.scroll, svg,"
        " .skip') && part.getBoundingClientRect().right >"
        " document.documentElement.clientWidth + 1).map(part => part.outerHTML.slice(0, 120))"
    )

    assert too_wide == []


# ---- figures


def test_table_has_the_figures_of_the_data(session: Reader, big: LivePage, big_file: Path) -> None:
    tab = open_page(session, big_file)
    rows = table_cells(tab, "Entrants of us")
    by_name: Mapping[str, PageEntry] = {entry.entrant: entry for entry in big.entries}

    assert len(rows) == 20

    ranks = [row["rank"] for row in rows]
    assert ranks[:-1] == [str(rank) for rank in range(1, 20)]
    assert ranks[-1].startswith("–")

    for row in rows:
        entry = by_name[row["entrant"].split("\n")[0]]
        results = entry.results
        assert row["return"] == signed(100 * (results.held.value or 0.0))
        assert row["flat"] == signed(100 * (results.flat.value or 0.0))
        mean, *days, between = row["over"].split("\n")
        assert between.count("…") == 1
        excess = results.over_buy_and_hold.symmetric
        if entry.no_year is None:
            assert (mean, days) == (signed(excess.mean or 0.0), [])
        else:
            assert (mean, days) == (plain_sum(excess), [f"in {excess.n} days"])
        assert row["days"] == str(entry.days.counted)
        assert row["gaps"] == str(sum(entry.days.gaps.values()))


def test_state_of_today_counts_the_decisions_on_the_latest_day(
    session: Reader, big_file: Path
) -> None:
    tab = open_page(session, big_file)
    (row,) = table_cells(tab, "Markets")
    assert row["decisions"] == "20 sealed"
    assert row["days"] == "250 / 251"


@pytest.mark.exhaustive
def test_unknown_cost_is_a_dash_and_never_0(session: Reader, big: LivePage, big_file: Path) -> None:
    tab = open_page(session, big_file)
    costs = {entry.entrant: entry.costs for entry in big.entries}
    for row in not_empty(table_cells(tab, "Costs of us")):
        own = costs[row["entrant"]]
        assert (row["US"] == "–") == (own.usd_total is None)
        assert (row["tokens"] == "–") == (own.tokens_a_day is None)
        assert (row["errors"] == "–") == (own.error_rate is None)
        assert row["US"] != "$0"


@pytest.mark.exhaustive
def test_each_gap_is_named_with_its_cause(session: Reader, big: LivePage, big_file: Path) -> None:
    tab = open_page(session, big_file)
    tab.locator("summary", has_text="Days without a decision").click()
    rows = table_cells(tab, "Days without a decision")

    assert len(rows) == min(200, len(big.gaps))

    gap = big.gaps[0]
    assert (rows[0]["day"], rows[0]["entrant"], rows[0]["detail"]) == (gap.day, gap.entrant, MARKUP)

    label = tab.evaluate(
        "document.querySelector('.strip-plot svg[aria-label^=\"agent-05\"]').getAttribute('aria-label')"
    )
    (entry,) = [entry for entry in big.entries if entry.entrant == "agent-05"]
    counted = entry.states[entry.uncounted :]

    assert f"{counted.count('missed')} missed" in label
    assert f"{counted.count('sealed')} sealed" in label
    assert f"{entry.uncounted} not counted" in label


@pytest.mark.exhaustive
def test_differences_are_those_of_the_chosen_entrant(
    session: Reader, big: LivePage, big_file: Path
) -> None:
    tab = open_page(session, big_file)
    chosen_in(tab, "Entrant").select_option("agent-09")
    rows = {row["minus"]: row for row in table_cells(tab, "agent-09 minus each other entrant")}

    assert len(rows) == 19

    for pair in big.pairs:
        if "agent-09" not in (pair.entrant, pair.minus):
            continue
        other = pair.minus if pair.entrant == "agent-09" else pair.entrant
        sign = 1 if pair.entrant == "agent-09" else -1
        excess = pair.excess.symmetric
        expected = signed(sign * (excess.mean or 0.0))
        if pair.no_year is not None:
            expected = f"{plain_sum(excess, sign)} in {excess.n} days"
        assert rows[other]["difference"] == expected

    assert {pair.no_year is None for pair in big.pairs} == {True, False}


def test_a_test_of_ten_days_has_no_figure_a_year(session: Reader, folder: Path) -> None:
    short = generated_page(Shape(entrants=3, days=11))
    tab = open_page(session, write_page(short, folder / "short"))
    reason = "10 of a year's 252 days: a return over less than a year is not annualised"
    assert {entry.no_year for entry in short.entries} == {reason}

    text = tab.inner_text("main")
    assert "% a year" not in text
    assert text.count(f"No figure a year: {reason}.") == 2  # below the entrants, above the pairs
    for row in table_cells(tab, "Entrants of us"):
        entry = next(one for one in short.entries if row["entrant"].startswith(one.entrant))
        excess = entry.results.over_buy_and_hold.symmetric
        assert row["over"].split("\n")[0] == plain_sum(excess)


# ---- what a reader chooses, by keyboard


@pytest.mark.exhaustive
def test_entrants_are_sorted_found_and_highlighted_by_keyboard(
    session: Reader, big_file: Path
) -> None:
    tab = open_page(session, big_file)
    tab.locator("button[data-key=entrant]").focus()
    press(tab, "Enter")
    names = [row["entrant"].split("\n")[0] for row in table_cells(tab, "Entrants of us")]

    assert names == sorted(names)

    tab.get_by_label("Highlight agent-11").focus()
    press(tab, "Space")
    wait_until(tab, "document.querySelectorAll('.wide-plot path.c1').length === 1")

    assert tab.evaluate("document.querySelectorAll('.wide-plot path.grey').length") == 19
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "Highlight agent-11"
    assert "agent-11" in tab.inner_text(".readout")

    tab.get_by_label("Find entrants").focus()
    tab.keyboard.type("model-3")
    wait_until(tab, "document.querySelectorAll('.strips li').length === 3")

    assert is_shown(tab, "3 of 20 entrants")

    tab.get_by_label("Find entrants").fill("nobody")
    wait_until(tab, "document.querySelectorAll('.strips li').length === 0")

    assert is_shown(tab, "No entrant has these letters")

    tab.get_by_label("Find entrants").fill("")
    wait_until(tab, "document.querySelectorAll('.strips li').length === 20")

    tab.get_by_label("only ranked").focus()
    press(tab, "Space")
    wait_until(tab, "document.querySelectorAll('.strips li').length === 19")


def test_day_is_read_off_by_keyboard(session: Reader, big: LivePage, big_file: Path) -> None:
    tab = open_page(session, big_file)
    (market,) = big.markets
    tab.get_by_label("Day", exact=True).focus()
    press(tab, "Home", "ArrowRight", "ArrowRight")
    best = min(big.entries, key=lambda entry: entry.rank or 99)
    day = market.days[5 + 3]

    assert tab.inner_text(".readout strong") == day

    (index,) = [text for text in texts(tab, ".readout .key-item") if text.startswith("SYNUS")]
    oldest = max(big.entries, key=lambda entry: len(entry.equity.held)).equity
    value = oldest.index[market.days.index(day) - oldest.first]

    assert index == f"SYNUS {signed(100 * (value or 0.0))}\u202f%"
    assert best.entrant in tab.inner_text(".readout")


def test_market_without_an_index_is_compared_with_buy_and_hold(
    session: Reader, rehearsal_file: Path
) -> None:
    tab = open_page(session, rehearsal_file)
    chosen_in(tab, "Market").select_option("coins")

    assert len(table_cells(tab, "Entrants of coins")) == 6
    assert texts(tab, "button[data-key=excess]") == []
    assert chosen_in(tab, "Over").locator("option").all_inner_texts() == ["Buy & Hold"]

    chosen_in(tab, "Market").select_option("us")
    assert chosen_in(tab, "Over").locator("option").count() == 2


# ---- what it says of itself


@every_screen
def test_rehearsal_is_marked_in_title_bar_and_heading(
    session: Reader, rehearsal_file: Path, width: int, scheme: str
) -> None:
    tab = open_page(session, rehearsal_file, width=width, color_scheme=scheme)
    assert tab.title().startswith("REHEARSAL · generated")
    assert tab.inner_text("h1").startswith("REHEARSAL")

    bar = tab.locator(".rehearsal-bar").bounding_box()
    assert bar["y"] == 0
    assert bar["width"] >= width - 1
    assert texts(tab, "button[data-key=rank]") == []
    assert is_shown(tab, "Nobody has a rank in a rehearsal.")
    assert page_troubles(tab) == []


def test_page_names_the_authority_of_its_stamps_and_does_not_vouch_for_it(
    session: Reader, big: LivePage, big_file: Path
) -> None:
    tab = open_page(session, big_file)
    authority = big.chain.authority

    assert authority is not None
    assert is_shown(tab, f"{authority.subject}, SHA-256 {authority.sha256}")
    assert is_shown(tab, "ktdeval live verify TEST --trust ROOT.pem")
    assert tab.locator("dd", has_text=f"pushed {big.chain.proves}.").count() == 2


def test_times_are_utc_with_the_readers_own(session: Reader, big_file: Path) -> None:
    tab = open_page(session, big_file, timezone_id="Asia/Shanghai")
    assert tab.inner_text(".lead") == "As of 2027-12-20 08:00 UTC (16:00 your time)"
    assert is_shown(tab, "2099-12-20 21:15 UTC (2099-12-21 05:15 your time), data of us")

    tab = open_page(session, big_file, timezone_id="UTC")
    assert tab.inner_text(".lead") == "As of 2027-12-20 08:00 UTC"


@pytest.mark.exhaustive
def test_page_that_is_not_renewed_says_so(session: Reader, folder: Path, big: LivePage) -> None:
    assert big.next_due is not None

    due = msgspec.structs.replace(big.next_due, at="2020-01-02T21:15:00Z")
    old = write_page(msgspec.structs.replace(big, next_due=due), folder / "old")

    assert open_page(session, old).locator("#overdue").count() == 1

    fresh = write_page(big, folder / "fresh")
    assert open_page(session, fresh).locator("#overdue").count() == 0


@pytest.mark.exhaustive
def test_test_that_has_just_begun_has_a_page(session: Reader, folder: Path, big: LivePage) -> None:
    page = generated_page(Shape(entrants=2, days=1))
    entries = []
    for entry in page.entries:
        equity = msgspec.structs.replace(
            entry.equity, held=(), flat=(), low=(), high=(), index=(), buy_and_hold=()
        )
        nothing = msgspec.structs.replace(
            entry.over_index, sessions=(), mean=(), low=(), high=(), asymptotic_low=(),
            asymptotic_high=(),
        )  # fmt: skip
        changed = msgspec.structs.replace(
            entry, equity=equity, over_index=nothing, over_buy_and_hold=nothing, states=()
        )
        entries.append(changed)

    file = write_page(msgspec.structs.replace(page, entries=tuple(entries)), folder / "begun")
    tab = open_page(session, file)

    assert tab.inner_text("#content").count("No day is settled and counted yet.") == 2
    assert axe_violations(tab) == []
