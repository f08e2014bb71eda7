"""The pages of a model, of two cards and of one card, in a real browser: what they show is what the data and the library say."""

from __future__ import annotations

import itertools
import json
import re
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from board_forge import forge_board
from browser_pages import Reader, axe_violations, keep_drawing, needs_browser, scrolls_sideways, wait_until
from ktdeval.jsonio import sha256_hex
from ktdeval.stats import blocks_of, correlated_null, hodges_lehmann, overlap_correlation, sign_flip, signed_rank
from ktdeval.stats.intervals import wilson
from ktdeval_board.ranking.pairing import NULL_DRAWS
from ktdeval_board.site.build import build_site
from site_data import changed_site, read_data

pytestmark = needs_browser

DIVISION, OTHER = "blinded-open-research", "bright-open-research"
NEXT_TO_DRAW = """() => {
    const open = [...document.querySelectorAll('.chart-plot:not([data-drawn]), .loading')].filter(part => part.checkVisibility());
    open[0]?.scrollIntoView({block: 'center'});
    return open[0]?.parentElement.outerHTML.slice(0, 400);
}"""


@pytest.fixture(scope="module")
def forged_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two masks of one mode, six windows and two seeds, with an entrant of each odd kind and a scoring division."""
    home = tmp_path_factory.mktemp("models")
    board = forge_board(home / "board", entrants=12, divisions=2, windows=6, seeds=(0, 1), specials=True, scoring=2)
    build_site(board, home / "site", workers=1)
    return home / "site"


# -- reading data and pages


def cards_of(site: Path, division: str = DIVISION) -> list[dict[str, Any]]:
    """Rows of the index of cards, as mappings."""
    index = read_data(site, "cards-index")
    rows = [dict(zip(index["columns"], row, strict=True)) for row in index["rows"]]
    return [row for row in rows if row["division"] == division]


def entry_of(site: Path, card: str) -> dict[str, Any]:
    return dict(read_data(site, f"card/{card}"))


def ranked(site: Path, division: str = DIVISION) -> list[dict[str, Any]]:
    """Rows of ranked entrants with all there is of them, best first."""
    rows = [row for row in read_data(site, f"division/{division}/all")["rows"] if row["ranked"]]
    entries = [entry_of(site, row["card"]) for row in rows]
    whole = [entry["has_decisions"] and entry["card"]["attribution"]["value"] is not None for entry in entries]
    return list(itertools.compress(rows, whole))


def numbers(text: str) -> list[float]:
    """Figures in a text as shown, percent as percent."""
    return [float(found.replace("−", "-").replace(",", "")) for found in re.findall(r"[−+-]?\d[\d,]*(?:\.\d+)?", text)]


def draw_all(tab: Any) -> None:
    """Bring every chart into view, and what is loaded on the way, until all are drawn; then back to the top."""
    deadline = time.monotonic() + 240
    for turn in itertools.count(1):
        if not (waits := tab.evaluate(NEXT_TO_DRAW)):
            break
        assert time.monotonic() < deadline, f"never drawn: {waits}"
        time.sleep(0.03)
        if turn % 100 == 0:
            keep_drawing(tab)
    tab.evaluate("scrollTo(0, 0)")


def chart_table(tab: Any, title: str) -> list[list[str]]:
    """The figures of a chart, from the table that its button opens."""
    figure = tab.locator("figure.chart", has=tab.locator("figcaption strong", has_text=title)).first
    if figure.locator(".chart-table").is_hidden():
        figure.get_by_role("button", name="Table of the figures").click()
    return list(figure.locator("table").evaluate("table => [...table.rows].map(row => [...row.cells].map(cell => cell.innerText))"))


def table_rows(tab: Any, caption: str) -> list[list[str]]:
    """The body of a table by its caption."""
    table = tab.locator("table.grid", has=tab.locator("caption", has_text=re.compile(rf"^{re.escape(caption)}$"))).first
    return list(table.evaluate("table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.innerText))"))


def facts_of(tab: Any, scope: str = "main") -> dict[str, str]:
    """Terms and what they say."""
    pairs = tab.locator(f"{scope} dl.facts > div").evaluate_all(
        "all => all.map(div => [...div.children].map(part => part.innerText))"
    )
    return {pair[0]: pair[1] for pair in pairs}


def link(page: str, **state: str) -> str:
    return f"{page}#{'&'.join(f'{name}={value}' for name, value in state.items())}"


# -- the page of a model


def test_a_model_page_says_where_each_card_stands(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    tab = session.open(link("model.html", model=row["model"]))
    assert tab.inner_text("h1") == row["model"]
    own = read_data(forged_site, f"model/{sha256_hex(row['model'])[:16]}")["cards"]
    shown = table_rows(tab, "Cards of this model")
    assert len(shown) == len(own) >= 2
    for card in own:
        (cells,) = [cells for cells in shown if cells[0].startswith(card["division"]) and cells[1].startswith(card["agent"])]
        assert cells[2:4] == ([str(card["rank"]), str(card["alpha_rank"])] if card["ranked"] else ["—", "—"])
    table = read_data(forged_site, f"division/{DIVISION}/all")
    (cells,) = [cells for cells in shown if cells[0].startswith(DIVISION) and cells[1].startswith(row["agent"])]
    assert numbers(cells[4]) == [round(100 * row["values"][table["columns"].index("total_return")], 2)]


def test_windows_stand_before_within_and_after_the_training_data(session: Reader, forged_site: Path, tmp_path: Path) -> None:
    row = ranked(forged_site)[0]
    first, second, *_ = entry_of(forged_site, row["card"])["card"]["windows"]
    cutoff = second["first"]  # within the second window

    def cut(entry: Any) -> Any:
        entry["submission"]["model"]["cutoff_date"] = cutoff
        for episode in entry["card"]["episodes"]:
            episode["metrics"]["information_ratio"]["detail"] = {"dividend_growth": 0.02 * 252 / episode["steps"]}
        return entry

    site = changed_site(forged_site, tmp_path / "site", {f"card/{row['card']}": cut})
    tab = session.open(link("model.html", model=row["model"], card=row["card"]), folder=site)
    words = {cells[0]: cells[4] for cells in table_rows(tab, "Windows")}
    assert words.pop(first["name"]) == ("inside" if first["last"] > cutoff else "before")
    assert words.pop(second["name"]) == "inside"
    assert set(words.values()) == {"after"}
    assert f"{len(words)} of {len(words) + 2} windows are wholly later" in tab.inner_text("main")
    draw_all(tab)
    assert "A price index lacks dividends: +2.00\u202f% an episode by the members' factors." in tab.inner_text(".report")


def test_equity_is_that_of_the_series_with_and_without_fees(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    series = read_data(forged_site, f"series/{row['card']}")
    tab = session.open(link("model.html", model=row["model"], card=row["card"], window="W3", seed="1"))
    draw_all(tab)
    (episode,) = [one for one in series["episodes"] if (one["window"], one["seed"]) == ("W3", 1)]
    for fees, name in (("with", "nav"), ("without", "gross_nav")):
        if fees == "without":
            tab.select_option("label:has-text('Fees') select", "without")
        head, *body = chart_table(tab, f"Return in W3, {fees} fees")
        assert head == ["Day", "portfolio", "benchmark"]
        assert [cells[0] for cells in body] == [episode["base_day"], *episode["days"]]
        for at in (0, 1, len(body) - 1):
            wanted = [100 * (episode[name][at] - 1), 100 * (episode["benchmark"][at] - 1)]
            assert [numbers(cell)[0] for cell in body[at][1:]] == pytest.approx(wanted, abs=0.0051)
    assert "fees=without" in tab.url
    tab.go_back()
    assert tab.locator("label:has-text('Fees') select").input_value() == ""
    assert tab.locator("figcaption strong", has_text="Return in W3, with fees").count() == 1


def test_charts_of_an_episode_are_those_of_its_series(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    episode = read_data(forged_site, f"series/{row['card']}")["episodes"][0]
    state = {"window": episode["window"], "seed": str(episode["seed"])}
    tab = session.open(link("model.html", model=row["model"], card=row["card"], **state))
    draw_all(tab)
    # the drawdown is the fall from the peak
    _, *body = chart_table(tab, f"Drawdown in {episode['window']}")
    nav = np.array(episode["nav"])
    wanted = 100 * (nav / np.maximum.accumulate(nav) - 1)
    assert [numbers(cells[1])[0] for cells in body] == pytest.approx(list(wanted), abs=0.0051)
    assert min(wanted) < 0
    # parts of the return add up
    *parts, total, returned = numbers(tab.inner_text(".sum"))[:7]
    wanted = [100 * episode[name][-1] for name in ("common", "industry", "style", "selection", "trading")]
    assert parts == pytest.approx(wanted, abs=0.0051)
    assert (total, returned) == pytest.approx((sum(wanted), 100 * (episode["nav"][-1] - 1)), abs=0.0051)
    assert total == pytest.approx(returned, abs=0.011)
    # a chart is saved as a spec that holds its data
    with tab.expect_download() as saved:
        tab.get_by_role("button", name=re.compile("Download the Vega-Lite spec: Return in")).first.click()
    spec = json.loads(Path(saved.value.path()).read_text())
    assert spec["$schema"].endswith("/v6.json")
    values = [row for layer in spec["layer"] for row in layer["data"]["values"] if row.get("series") == "portfolio"]
    assert [row["value"] for row in values] == pytest.approx([level - 1 for level in episode["nav"]])
    # and tells the day under the pointer
    plot = tab.locator("figure.chart", has_text=f"Return in {episode['window']}").locator(".chart-plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    for at in (300, 330):
        tab.mouse.move(box["x"] + at, box["y"] + box["height"] / 2)
    plot.locator(".chart-tip").wait_for(state="visible")
    said = plot.locator(".chart-tip").inner_text()
    (day,) = re.findall(r"\d{4}-\d\d-\d\d", said)
    value = 100 * (episode["nav"][[episode["base_day"], *episode["days"]].index(day)] - 1)
    assert numbers(said.split("portfolio")[1])[0] == pytest.approx(value, abs=0.0051)


def test_exposures_calibration_and_random_traders_are_those_of_the_records(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    card = entry_of(forged_site, row["card"])["card"]
    episodes = read_data(forged_site, f"series/{row['card']}")["episodes"]
    tab = session.open(link("model.html", model=row["model"], card=row["card"]))
    draw_all(tab)
    _, *exposures = chart_table(tab, "Exposure to style factors")
    middle = statistics.median(one["exposures"]["MOM_12_1"] for one in episodes)
    (momentum,) = [numbers(cells[1])[0] for cells in exposures if cells[0].startswith("momentum, 12")]
    assert momentum == pytest.approx(middle, abs=0.0051)
    head, *lines = chart_table(tab, "All lines of the attribution")
    assert head[2:] == ["Low", "High"]
    assert [cells[0] for cells in lines][-5:] == ["industries", "selection", "timing of fills", "fees", "rounding of money"]
    _, *bins = chart_table(tab, "Stated confidence and outcome")
    assert [numbers(cells[4])[0] for cells in bins] == [one["n"] for one in card["calibration"]["bins"] if one["n"]]
    _, *beaten = chart_table(tab, "Share of random traders beaten")
    wanted = [100 * one["envelope"]["rank"] for one in episodes if one["envelope"]]
    assert [numbers(cells[2])[0] for cells in beaten] == pytest.approx(wanted, abs=0.0051)


def test_wilson_intervals_are_those_of_the_library_and_labels_that_occur_twice_are_told_apart(session: Reader) -> None:
    tab = session.open("compare.html")
    for successes, n in ((0, 5), (3, 7), (40, 41), (11, 11)):
        expected, found = wilson(successes, n), tab.evaluate("([share, n]) => kt.charts.wilson(share, n)", [successes / n, n])
        assert found == pytest.approx([expected.low, expected.high], abs=1e-12)
    names = tab.evaluate("kt.charts.distinct([{label: 'a.b'}, {label: 'a.b'}, {label: 'c'}]).map(line => line.label)")
    assert names == ["a.b", "a.b (2)", "c"]


def test_mask_effects_are_shown_where_both_masks_are_there(session: Reader, forged_site: Path) -> None:
    pages = {row["model"]: read_data(forged_site, f"model/{sha256_hex(row['model'])[:16]}") for row in ranked(forged_site)}
    model, page = next((name, page) for name, page in pages.items() if page["mask_effects"])
    tab = session.open(link("model.html", model=model))
    effect = next(row for row in page["mask_effects"] if row["metric"] == "total_return")
    shown = table_rows(tab, "Mask effects: Total return")
    assert numbers(shown[0][1]) == [pytest.approx(100 * effect["value"], abs=0.0051)]
    assert numbers(shown[0][2]) == pytest.approx([100 * effect["low"], 100 * effect["high"]], abs=0.0051)


def test_the_portfolio_of_a_day_is_that_of_the_decisions(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    episode = read_data(forged_site, f"decisions/{row['card']}")["episodes"][2]
    step = next(one for one in episode["steps"][3:] if one["orders"])
    state = {"window": episode["window"], "seed": str(episode["seed"]), "day": step["day"]}
    tab = session.open(link("model.html", model=row["model"], card=row["card"], **state))
    draw_all(tab)
    _, *held = chart_table(tab, f"Holdings at the close of {step['day']}")
    assert [cells[0] for cells in held] == [*(code for code, _ in step["holdings"]), "cash"]
    assert [numbers(cells[1])[0] for cells in held[:-1]] == pytest.approx(
        [100 * weight for _, weight in step["holdings"]], abs=0.0051
    )
    said = tab.inner_text(".orders")
    for order in step["orders"]:
        assert order["code"] in said
        assert order["side"] in said
    assert step["why"] in tab.inner_text(".why-text")
    tab.get_by_role("button", name="Day after").click()
    after = episode["steps"][episode["steps"].index(step) + 1]["day"]
    assert f"day={after}" in tab.url
    assert tab.locator("figcaption strong", has_text=f"Holdings at the close of {after}").count() == 1


def test_the_report_says_what_the_card_says(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[2]
    entry = entry_of(forged_site, row["card"])
    tab = session.open(link("model.html", model=row["model"], card=row["card"]))
    report = tab.inner_text(".report")
    place, of = (entry["ranks"]["all"][name] for name in ("rank", "of"))
    assert f"It is ranked {place}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(place, 'th') } of {of}" in report
    total = entry["card"]["metrics"]["total_return"]
    (said,) = re.findall(r"median total return of an episode is ([^ ]+)", report)
    assert numbers(said) == [pytest.approx(100 * total["value"], abs=0.0051)]
    reference = entry["card"]["reference"]["benchmark_buy_and_hold"]
    wins = 0
    for window in entry["card"]["windows"]:
        own = [one["metrics"]["total_return"]["value"] for one in entry["card"]["episodes"] if one["window"] == window["name"]]
        wins += statistics.median(own) > reference[window["name"]]["metrics"]["total_return"]["value"]
    assert f"benchmark in {wins} of {len(entry['card']['windows'])} windows" in report
    assert row["card"] in report
    assert f"in tie group {chr(64 + entry['ranks']['all']['tie'])}:" in report
    for page in (link("card.html", card=row["card"]), link("compare.html", a=row["card"], b=row["card"])):
        tie = f"Tie group\\s+{chr(64 + entry['ranks']['all']['tie'])}\\b"
        assert re.search(tie, session.open(page).inner_text("main")), "by the letter that the board has"


def test_bounds_are_called_quartiles_only_where_they_are(session: Reader, forged_site: Path, tmp_path: Path) -> None:
    row = ranked(forged_site)[0]

    def single(entry: Any) -> Any:
        for figure in (*entry["card"]["metrics"].values(), *entry["card"]["attribution"]["value"]["lines"].values()):
            figure["interval"] = {"kind": "stationary bootstrap, percentile", "low": -0.5, "high": 0.5}
        return entry

    site = changed_site(forged_site, tmp_path / "site", {f"card/{row['card']}": single})
    both = (forged_site, "Interquartile range", "middle half of episodes"), (site, "Interval", "(interval −0.50")
    for folder, name, said in both:
        tab = session.open(link("card.html", card=row["card"]), folder=folder)
        heads = tab.locator("th", has_text=re.compile(f"^{name}$"))
        assert heads.count() == 3, "headline figures, further figures, attribution"
        assert said in session.open(link("model.html", model=row["model"], card=row["card"]), folder=folder).inner_text(".report")
    assert session.open(link("task.html", division=DIVISION)).locator("th", has_text="Interquartile range").count() == 1


def test_every_odd_card_has_its_page(session: Reader, forged_site: Path) -> None:
    board = read_data(forged_site, "board")
    cards = [card for model in board["models"] for card in model["cards"]]
    odd = [card for card in cards if not entry_of(forged_site, card)["ranked"]]
    assert len(odd) > 8
    for card in odd[:: len(odd) // 3]:
        entry = entry_of(forged_site, card)
        tab = session.open(link("model.html", model=entry["card"]["model"]["name"], card=card))
        draw_all(tab)
        text = tab.inner_text("main")
        for reason in entry["why"]:
            assert reason in text
        session.close()


def test_a_model_or_card_that_is_not_there_is_said_so(chromium: Any, forged_site: Path) -> None:
    session = Reader(chromium, forged_site)
    assert "can't be read" in session.open(link("model.html", model="nobody/nothing")).inner_text("[role=alert]")
    for card in ("", "../../etc/passwd", "0" * 64):
        assert session.open(link("card.html", card=card)).locator("[role=alert]").count() == 1
    session.close()


# -- two cards head-to-head


def library_test(site: Path, first: str, second: str, metric: str) -> tuple[Any, Any, Any]:
    """Signed-rank test, shift and sign flips as the library has them."""
    cards = [entry_of(site, card)["card"] for card in (first, second)]
    values = [{(one["window"], one["seed"]): one["metrics"][metric]["value"] for one in card["episodes"]} for card in cards]
    windows = [window["name"] for window in cards[0]["windows"]]
    seeds = [seed for seed in cards[0]["seeds"] if seed in cards[1]["seeds"]]
    sample = np.array([np.median([values[0][window, seed] - values[1][window, seed] for seed in seeds]) for window in windows])
    spans = [(one["first_day"], one["last_day"]) for name in windows for one in cards[0]["episodes"] if one["window"] == name][
        :: len(cards[0]["seeds"])
    ]
    correlation = overlap_correlation(spans)
    null = correlated_null(correlation, NULL_DRAWS, 0) if read_data(site, f"pairs/{DIVISION}/all")["overlap"] else None
    blocks = blocks_of(correlation)
    return signed_rank(sample, null=null), hodges_lehmann(sample, 0.95, null), sign_flip(sample, blocks)


def test_a_head_to_head_gives_the_figures_of_the_library(session: Reader, forged_site: Path) -> None:
    rows = ranked(forged_site)
    for first, second, metric in (
        (rows[0], rows[-1], "total_return"),
        (rows[1], rows[2], "max_drawdown"),
        (rows[2], rows[0], "sharpe"),
    ):
        ranks, shift, flips = library_test(forged_site, first["card"], second["card"], metric)
        tab = session.open(link("compare.html", a=first["card"], b=second["card"], metric=metric))
        shown = facts_of(tab)
        assert numbers(shown["Wilcoxon p"])[0] == pytest.approx(ranks.p, abs=6e-5)
        assert numbers(shown["Sign-flip p"])[0] == pytest.approx(flips.p, abs=6e-5)
        scale, slack = (100, 0.0051) if metric != "sharpe" else (1, 0.0051)
        assert numbers(shown["Shift, A less B"])[0] == pytest.approx(scale * shift.value, abs=slack)
        assert numbers(shown["Rank-biserial"])[0] == pytest.approx(ranks.rank_biserial, abs=0.0051)
        (interval,) = [said for term, said in shown.items() if term.startswith("Interval")]
        if shift.low is not None:
            assert numbers(interval) == pytest.approx([scale * shift.low, scale * shift.high], abs=slack)
        verdict = tab.inner_text(".verdict")
        assert ("can't be told apart" in verdict) == (ranks.p > 0.05)
        if ranks.p <= 0.05:
            is_first = (ranks.rank_biserial > 0) != (metric == "max_drawdown")
            assert verdict.startswith("A, " if is_first else "B, ")
        paths = [entry_of(forged_site, row["card"])["path"] for row in (first, second)]
        assert f"ktdeval compare {paths[0]} {paths[1]} --metric {metric}" in tab.inner_text(".command")


def test_the_metric_is_chosen_and_stays_in_the_address(session: Reader, forged_site: Path) -> None:
    first, second = ranked(forged_site)[:2]
    tab = session.open(link("compare.html", a=first["card"], b=second["card"]))
    assert "by total return" in tab.inner_text(".verdict").lower()
    tab.select_option("label:has-text('Metric') select", "sharpe")
    assert "metric=sharpe" in tab.url
    assert "sharpe" in tab.inner_text(".verdict").lower()
    tab.get_by_role("button", name="Swap").click()
    wait_until(tab, f"document.querySelector('.side h2').textContent.includes({json.dumps(second['label'])})")
    assert f"a={second['card']}" in tab.url
    assert "metric=sharpe" in tab.url


def test_cards_of_two_divisions_are_refused_in_words(session: Reader, forged_site: Path) -> None:
    first, second = ranked(forged_site)[0], ranked(forged_site, OTHER)[0]
    tab = session.open(link("compare.html", a=first["card"], b=second["card"]))
    said = tab.inner_text("[role=alert]")
    assert f"A is of the division {DIVISION}, B of {OTHER}" in said
    assert tab.locator(".verdict").count() == 0
    same = session.open(link("compare.html", a=first["card"], b=first["card"]))
    assert "Both are the same card" in same.inner_text("[role=alert]")


def test_a_pair_without_a_test_says_why_and_shows_its_differences(session: Reader, forged_site: Path, tmp_path: Path) -> None:
    first, second = ranked(forged_site)[:2]

    def without_p(tests: Any) -> Any:
        row = tests["tests"][second["card"]]["total_return"]
        row[2:4], row[6] = [None, None], "windows share days"
        return tests

    def untested(index: Any) -> Any:
        return {**index, "cards": [card for card in index["cards"] if card != second["card"]]}

    for number, (name, change, said) in enumerate(
        (
            (f"pairs/{DIVISION}/{first['card']}", without_p, "share days"),
            (f"pairs/{DIVISION}/all", untested, "this site tests the best"),
        )
    ):
        site = changed_site(forged_site, tmp_path / f"site{number}", {name: change})
        tab = session.open(link("compare.html", a=first["card"], b=second["card"]), folder=site)
        assert "No p-value here" in tab.inner_text(".verdict")
        assert said in facts_of(tab)["Wilcoxon p"]
        assert "ktdeval compare" in tab.inner_text(".command")
        assert len(table_rows(tab, "Total return by window")) == 6


def test_a_baseline_of_other_seeds_is_compared_on_those_in_common(session: Reader, forged_site: Path) -> None:
    random = next(row for row in cards_of(forged_site) if row["baseline"] == "random")
    tab = session.open(link("compare.html", a=ranked(forged_site)[0]["card"], b=random["card"]))
    assert "compared on those that both have: 0, 1" in tab.inner_text("main")
    assert [cells[-1] for cells in table_rows(tab, "Total return by window")] == ["2"] * 6


def test_decisions_stand_side_by_side_where_they_differ(session: Reader, forged_site: Path) -> None:
    first, second = ranked(forged_site)[:2]
    steps = [read_data(forged_site, f"decisions/{row['card']}")["episodes"][0]["steps"] for row in (first, second)]
    told = [[sorted((o["code"], o["side"], o["asked"]) for o in step["orders"]) for step in own] for own in steps]
    differing = [step["day"] for step, one, other in zip(steps[0], *told, strict=True) if one != other]
    tab = session.open(link("compare.html", a=first["card"], b=second["card"]))
    draw_all(tab)
    tab.wait_for_selector("text=The orders differ on")
    assert f"The orders differ on {len(differing)} of {len(steps[0])} days" in tab.inner_text("main")
    fold = tab.locator("details", has_text=differing[0]).first
    fold.locator("summary").click()
    fold.locator("h4").first.wait_for()
    own = next(step for step in steps[0] if step["day"] == differing[0])
    for order in own["orders"]:
        assert order["code"] in fold.inner_text()


def test_head_to_head_opens_with_the_two_best_and_others_are_chosen_from_lists(session: Reader, forged_site: Path) -> None:
    first, second, third = [row for row in read_data(forged_site, f"division/{DIVISION}/all")["rows"] if row["ranked"]][:3]
    tab = session.open("compare.html")
    tab.wait_for_selector(".verdict")
    assert f"a={first['card']}&b={second['card']}" in tab.url
    tab.select_option("label:has-text('First (A)') select", "")
    tab.wait_for_selector("text=Choose the other card")
    tab.select_option("label:has-text('First (A)') select", third["card"])
    tab.wait_for_selector(".verdict")
    assert f"a={third['card']}" in tab.url
    tab.select_option("label:has-text('Division') select", OTHER)
    best = [row["card"] for row in read_data(forged_site, f"division/{OTHER}/all")["rows"] if row["ranked"]][:2]
    wait_until(tab, f"location.hash.includes('a={best[0]}&b={best[1]}')")  # the verdict of before stands until then
    tab.wait_for_selector(".verdict")


# -- one card


def test_a_card_page_shows_every_figure_and_where_it_is_from(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    entry = entry_of(forged_site, row["card"])
    card, metrics = entry["card"], read_data(forged_site, "board")["metrics"]
    tab = session.open(link("card.html", card=row["card"]))
    shown = {cells[0]: cells for caption in ("Headline figures", "Further figures") for cells in table_rows(tab, caption)}
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
    href = tab.get_attribute("main a[href^='cards/']", "href")
    assert sha256_hex((forged_site / href).read_text()) == row["card"]


def test_a_card_with_a_cutoff_says_the_days_on_each_side(session: Reader, forged_site: Path, tmp_path: Path) -> None:
    name = ranked(forged_site)[0]["card"]

    def known(entry: Any) -> Any:
        windows = {window["name"]: {"before": 2, "across": 1, "after": window["days"] - 3} for window in entry["card"]["windows"]}
        entry["card"]["knowledge_cutoff"] = {"date": "2024-06", "confidence": "given", "source": "x", "windows": windows}
        return entry | {"labels": ["spans cutoff"]}

    file = f"card/{name}"
    first = read_data(forged_site, file)["card"]["windows"][0]
    tab = session.open(link("card.html", card=name), folder=changed_site(forged_site, tmp_path / "site", {file: known}))
    shown = tab.inner_text("main")
    assert f"{first['name']}: 2 before, 1 across, {first['days'] - 3} after" in shown
    assert "(2024-06)" in shown
    assert "pool days before and after" in tab.get_attribute(".chip:has-text('spans cutoff')", "title")
    assert "Days to it, by the card" not in session.open(link("card.html", card=name)).inner_text("main")


def test_a_card_without_a_rank_says_why_and_shows_its_errata(session: Reader, forged_site: Path) -> None:
    board = read_data(forged_site, "board")
    erratum = board["errata"][0]
    tab = session.open(link("card.html", card=erratum["card"]))
    assert erratum["what"] in tab.inner_text(".errata")
    unranked = next(
        card
        for model in board["models"]
        for card in model["cards"]
        if entry_of(forged_site, card)["why"] and card != erratum["card"]
    )
    tab = session.open(link("card.html", card=unranked))
    for reason in entry_of(forged_site, unranked)["why"]:
        assert reason in tab.inner_text(".trouble")


def test_cards_of_scoring_tasks_have_scores_in_the_place_of_returns(session: Reader, forged_site: Path) -> None:
    board = read_data(forged_site, "board")
    division = next(division for division in board["divisions"] if division["kind"] == "scoring")
    first, second = [row for row in cards_of(forged_site, division["id"]) if row["tier"] != "unchecked"][:2]
    card = entry_of(forged_site, first["card"])["card"]
    tab = session.open(link("card.html", card=first["card"]))
    shown = [
        cells
        for caption in ("Headline figures", "Further figures")
        if caption in tab.inner_text("main")
        for cells in table_rows(tab, caption)
    ]
    assert len(shown) == len(card["scores"])
    page = session.open(link("model.html", model=card["model"]["name"], card=first["card"]))
    assert page.locator(".report").count() == 1
    assert "Equity" not in page.inner_text("main")
    pair = session.open(link("compare.html", a=first["card"], b=second["card"]))
    assert "no paired test over windows" in pair.inner_text("main")


# -- charts


def test_charts_are_drawn_without_any_code_made_of_text(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    tab = session.open(link("model.html", model=row["model"], card=row["card"]), as_file=True)
    draw_all(tab)
    assert "unsafe" not in tab.get_attribute("meta[http-equiv=Content-Security-Policy]", "content")
    assert tab.evaluate("[...document.querySelectorAll('.chart-plot')].every(plot => plot.querySelector('svg path'))")
    assert tab.locator(".chart-plot").count() >= 11
    assert tab.locator(".chart-plot .trouble").count() == 0
    assert tab.evaluate("[...document.querySelectorAll('.chart-plot')].every(plot => plot.getAttribute('aria-label').length > 20)")


def test_a_chart_is_drawn_anew_for_another_theme(session: Reader, forged_site: Path) -> None:
    tab = session.open(link("model.html", model=ranked(forged_site)[0]["model"]))
    draw_all(tab)
    strokes = "[...document.querySelectorAll('.chart-plot path')].map(path => path.getAttribute('stroke'))"
    assert "#1d63a8" in tab.evaluate(strokes)
    tab.select_option("select[aria-label=Colours]", "dark")
    wait_until(tab, f"{strokes}.includes('#68b0f7')")
    assert "#1d63a8" not in tab.evaluate(strokes)


# -- what holds on every page


def pages_of(site: Path) -> list[str]:
    first, second = ranked(site)[:2]
    return [
        link("model.html", model=first["model"], card=first["card"]),
        link("compare.html", a=first["card"], b=second["card"]),
        link("card.html", card=first["card"]),
    ]


@pytest.mark.parametrize("place", range(3), ids=["model", "compare", "card"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["laptop", "telephone"])
def test_pages_fit_the_screen_are_in_order_and_axe_finds_nothing_serious(
    session: Reader, forged_site: Path, place: int, width: int, scheme: str
) -> None:
    tab = session.open(pages_of(forged_site)[place], width=width, color_scheme=scheme)
    draw_all(tab)
    assert not scrolls_sideways(tab)
    too_wide = """[...document.querySelectorAll('main *')].filter(part => part.checkVisibility() &&
        !part.closest('.scroll, pre, .unseen, svg') &&
        part.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(part => part.outerHTML.slice(0, 99))"""
    assert tab.evaluate(too_wide) == []
    levels = tab.evaluate(
        "[...document.querySelectorAll('main :is(h1,h2,h3,h4)')].filter(one => one.offsetParent).map(one => +one.tagName[1])"
    )
    assert levels[0] == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels)), levels
    nameless = """[...document.querySelectorAll('main :is(button, a[href], input, select)')].filter(part =>
        !part.textContent.trim() && !part.getAttribute('aria-label') && !part.closest('label')).map(part => part.outerHTML)"""
    assert tab.evaluate(nameless) == []
    tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert not scrolls_sideways(tab)
    assert tab.evaluate(too_wide) == []
    assert axe_violations(tab) == []


def test_keys_alone_reach_everything(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[0]
    tab = session.open(link("model.html", model=row["model"], card=row["card"]))
    draw_all(tab)

    def reach(selector: str) -> None:
        for _ in range(150):
            tab.keyboard.press("Tab")
            if tab.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"never reached by Tab: {selector}")

    reach("nav.jump button")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "part-windows"
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


def test_hostile_words_are_shown_as_words(session: Reader, forged_site: Path, tmp_path: Path) -> None:
    first, second = ranked(forged_site)[:2]
    markup = "<img src=x onerror=\"document.title='owned'\">"

    def spoil_card(entry: Any) -> Any:
        entry["card"]["agent"]["name"] = markup
        entry["card"]["model"]["args"] = {markup: [markup, {"deep": markup}]}
        entry["submission"]["submitter"] = {
            "name": markup,
            "contact": "https://example.org/x",
            "url": "javascript:document.title='owned'",
        }
        entry["submission"]["note"] = markup
        entry["verdict"]["notes"] = [markup]
        entry["errata"] = [{"date": "2026-01-01", "effect": "note", "what": markup, "by": markup}]
        for metric in entry["card"]["metrics"].values():
            metric["formula"] = markup
        return entry

    def spoil_decisions(value: Any) -> Any:
        for episode in value["episodes"]:
            for step in episode["steps"]:
                step["why"] = markup
                step["holdings"] = [[markup, 0.5], ["signal.data(1)['x']", 0.2]]
                step["orders"] = [{"code": markup, "side": "BUY", "asked": markup, "filled": 0, "price": None, "status": "rejected",
                                   "rule": markup, "reason": markup}]  # fmt: skip
        return value

    site = changed_site(
        forged_site, tmp_path / "site", {f"card/{first['card']}": spoil_card, f"decisions/{first['card']}": spoil_decisions}
    )
    for page in (
        link("card.html", card=first["card"]),
        link("model.html", model=first["model"], card=first["card"]),
        link("compare.html", a=first["card"], b=second["card"]),
    ):
        tab = session.open(page, folder=site)
        draw_all(tab)
        tab.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        assert markup in tab.inner_text("main")
        assert tab.locator("main img, main script, main [onerror], [href^='javascript:']").count() == 0
        assert "owned" not in tab.title().replace(markup, "")


def test_pages_print_on_white_with_every_chart(session: Reader, forged_site: Path) -> None:
    tab = session.open(pages_of(forged_site)[0], color_scheme="dark")
    tab.evaluate("window.print = () => { window.printed = document.querySelectorAll('.chart-plot[data-drawn]').length; }")
    tab.get_by_role("button", name="Print this page").click()
    wait_until(tab, "window.printed > 8")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.locator(".jump").is_hidden()
    assert tab.locator(".report").is_visible()
