"""The pages of models in a real browser: what they show is what the data and the library say."""

from __future__ import annotations

import json
import re
import statistics
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.stats.intervals import wilson
from ktdeval.values import sha256_hex
from ktdeval_board.site.build import build_site
from support.board.board_forge import forge_board
from support.pages.browser_pages import Reader, axis_troubles, needs_browser, wait_until
from support.pages.site_pages import (
    DIVISION,
    changed_site,
    chart_table,
    draw_all,
    entry_of,
    link,
    model_page,
    numbers,
    rank_words,
    ranked,
    read_data,
    table_rows,
)

SITE = "odd_site"

pytestmark = [needs_browser, pytest.mark.exhaustive]


@pytest.fixture(scope="module")
def row(forged_site: Path) -> dict[str, Any]:
    """The best of the ranked cards that have all there is."""
    return ranked(forged_site)[0]


# -- the page of a model


def test_a_model_page_states_the_rank_of_each_card(
    session: Reader, forged_site: Path, row: Any
) -> None:
    tab = session.open(link("model.html", model=row["model"]))
    assert tab.inner_text("h1") == row["model"]

    own = read_data(forged_site, f"model/{sha256_hex(row['model'])[:16]}")["cards"]
    shown = table_rows(tab, "Cards of this model")

    assert len(shown) == len(own) >= 2

    for card in own:
        (cells,) = [
            cells
            for cells in shown
            if cells[0].startswith(card["division"]) and cells[2].startswith(card["agent"])
        ]
        rank = alpha = "–"
        if card["ranked"]:
            rank = rank_words(card)
        if card["ranked"] and card["shared_alpha_rank"]:
            alpha = rank_words(card, "alpha_rank")

        assert cells[3:5] == [rank, alpha]

    table = read_data(forged_site, f"division/{DIVISION}/all")
    (cells,) = [
        cells
        for cells in shown
        if cells[0].startswith(DIVISION) and cells[2].startswith(row["agent"])
    ]

    assert cells[1] == row["label"], "systems of one model are told apart"
    assert numbers(cells[5]) == [
        round(100 * row["values"][table["columns"].index("total_return")], 2)
    ]


def test_windows_are_shown_before_within_and_after_the_training_data(
    session: Reader, forged_site: Path, row: Any, tmp_path: Path
) -> None:
    first, second, *_ = entry_of(forged_site, row["card"])["card"]["windows"]
    cutoff = second["first"]  # within the second window

    def cut(entry: Any) -> Any:
        entry["submission"]["model"]["cutoff_date"] = cutoff
        for episode in entry["card"]["episodes"]:
            episode["metrics"]["information_ratio"]["detail"] = {
                "dividend_growth": 0.02 * 252 / episode["steps"]
            }

        return entry

    site = changed_site(forged_site, tmp_path / "site", {f"card/{row['card']}": cut})
    tab = session.open(link("model.html", model=row["model"], card=row["card"]), folder=site)
    words = {cells[0]: cells[4] for cells in table_rows(tab, "Windows")}

    assert words.pop(first["name"]) == ("inside" if first["last"] > cutoff else "before")
    assert words.pop(second["name"]) == "inside"
    assert set(words.values()) == {"after"}
    assert f"{len(words)} of {len(words) + 2} windows are wholly later" in tab.inner_text("main")

    draw_all(tab)
    assert (
        "A price index lacks dividends: +2.00\u202f% an episode by the members' factors."
        in tab.inner_text(".report")
    )


def test_equity_is_that_of_the_series_with_and_without_fees(
    session: Reader, forged_site: Path, row: Any
) -> None:
    series = read_data(forged_site, f"series/{row['card']}")
    tab = model_page(session, row, window="W3", seed="1")
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


def test_charts_of_an_episode_show_its_series(session: Reader, forged_site: Path, row: Any) -> None:
    episode = read_data(forged_site, f"series/{row['card']}")["episodes"][0]
    state = {"window": episode["window"], "seed": str(episode["seed"])}
    tab = model_page(session, row, **state)
    # the drawdown is the fall from the peak
    _, *body = chart_table(tab, f"Drawdown in {episode['window']}")
    nav = np.array(episode["nav"])
    wanted = 100 * (nav / np.maximum.accumulate(nav) - 1)

    assert [numbers(cells[1])[0] for cells in body] == pytest.approx(list(wanted), abs=0.0051)
    assert min(wanted) < 0

    # parts of the return add up
    *parts, total, returned = numbers(tab.inner_text(".sum"))[:7]
    wanted = [
        100 * episode[name][-1] for name in ("common", "industry", "style", "selection", "trading")
    ]

    assert parts == pytest.approx(wanted, abs=0.0051)
    assert (total, returned) == pytest.approx(
        (sum(wanted), 100 * (episode["nav"][-1] - 1)), abs=0.0051
    )
    assert total == pytest.approx(returned, abs=0.011)

    # a chart is saved as a spec that holds its data
    with tab.expect_download() as saved:
        tab.get_by_role(
            "button", name=re.compile("Download the Vega-Lite spec: Return in")
        ).first.click()

    spec = json.loads(Path(saved.value.path()).read_text())

    assert spec["$schema"].endswith("/v6.json")

    values = []

    for layer in spec["layer"]:
        values += [row for row in layer["data"]["values"] if row.get("series") == "portfolio"]

    assert [row["value"] for row in values] == pytest.approx(
        [level - 1 for level in episode["nav"]]
    )

    # and tells the day under the pointer
    plot = (
        tab.locator("figure.chart", has_text=f"Return in {episode['window']}")
        .locator(".chart-plot")
        .first
    )
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()

    for at in (300, 330):
        tab.mouse.move(box["x"] + at, box["y"] + box["height"] / 2)

    plot.locator(".chart-tip").wait_for(state="visible")
    tip = plot.locator(".chart-tip").inner_text()
    (day,) = re.findall(r"\d{4}-\d\d-\d\d", tip)
    value = 100 * (episode["nav"][[episode["base_day"], *episode["days"]].index(day)] - 1)

    assert numbers(tip.split("portfolio")[1])[0] == pytest.approx(value, abs=0.0051)


def test_exposures_calibration_and_random_traders_match_the_records(
    session: Reader, forged_site: Path, row: Any
) -> None:
    card = entry_of(forged_site, row["card"])["card"]
    episodes = read_data(forged_site, f"series/{row['card']}")["episodes"]
    tab = model_page(session, row)
    _, *exposures = chart_table(tab, "Exposure to style factors")
    middle = statistics.median(one["exposures"]["MOM_12_1"] for one in episodes)
    (momentum,) = [
        numbers(cells[1])[0] for cells in exposures if cells[0].startswith("momentum, 12")
    ]

    assert momentum == pytest.approx(middle, abs=0.0051)

    head, *lines = chart_table(tab, "All lines of the attribution")
    assert head[2:] == ["Low", "High"]
    assert [cells[0] for cells in lines][-5:] == [
        "industries",
        "selection",
        "timing of fills",
        "fees",
        "rounding of money",
    ]

    _, *bins = chart_table(tab, "Stated confidence and outcome")
    assert [numbers(cells[4])[0] for cells in bins] == [
        one["n"] for one in card["calibration"]["bins"] if one["n"]
    ]

    pool = [
        (one["n"], one["mean_confidence"], one["accuracy"]) for one in card["calibration"]["bins"]
    ]
    gap = sum(n * abs(right - stated) for n, stated, right in pool) / card["calibration"]["n"]
    shown = " ".join(tab.inner_text("#content").split())
    assert f"and their calibration error is {gap:.3f}." in shown, "of the orders that are counted"
    assert f"all orders: calibration error (ECE) {gap:.3f}" in shown

    _, *beaten = chart_table(tab, "Share of random traders beaten")
    wanted = [100 * one["envelope"]["rank"] for one in episodes if one["envelope"]]

    assert [numbers(cells[2])[0] for cells in beaten] == pytest.approx(wanted, abs=0.0051)

    tails = [one["envelope"] for one in episodes if one["envelope"]]
    best = sum(one["p_value"] <= 0.05 for one in tails)
    worst = sum(one["rank"] <= 0.05 for one in tails)
    assert f"In {best} of {len(tails)} episodes it is among their best twentieth" in shown
    assert f"in {worst} among their worst" in shown


def test_browser_wilson_intervals_match_and_repeated_labels_are_numbered(
    session: Reader,
) -> None:
    tab = session.open("compare.html")
    for successes, n in ((0, 5), (3, 7), (40, 41), (11, 11)):
        expected = wilson(successes, n)
        drawn = tab.evaluate("([share, n]) => kt.charts.wilson(share, n)", [successes / n, n])
        assert drawn == pytest.approx([expected.low, expected.high], abs=1e-12)

    names = tab.evaluate(
        "kt.charts.distinct([{label: 'a.b'}, {label: 'a.b'}, {label: 'c'}]).map(line => line.label)"
    )

    assert names == ["a.b", "a.b (2)", "c"]


def test_mask_effects_are_shown_where_both_masks_are_there(
    session: Reader, forged_site: Path
) -> None:
    pages = {
        row["model"]: read_data(forged_site, f"model/{sha256_hex(row['model'])[:16]}")
        for row in ranked(forged_site)
    }
    model, page = next((name, page) for name, page in pages.items() if page["mask_effects"])
    tab = session.open(link("model.html", model=model))
    effect = next(row for row in page["mask_effects"] if row["metric"] == "total_return")
    shown = table_rows(tab, "Mask effects: Total return")

    assert numbers(shown[0][1]) == [pytest.approx(100 * effect["value"], abs=0.0051)]
    assert numbers(shown[0][2]) == pytest.approx(
        [100 * effect["low"], 100 * effect["high"]], abs=0.0051
    )


def test_the_portfolio_of_a_day_is_that_of_the_decisions(
    session: Reader, forged_site: Path, row: Any
) -> None:
    episode = read_data(forged_site, f"decisions/{row['card']}")["episodes"][2]
    step = next(one for one in episode["steps"][3:] if one["orders"])
    state = {"window": episode["window"], "seed": str(episode["seed"]), "day": step["day"]}
    tab = model_page(session, row, **state)
    _, *held = chart_table(tab, f"Holdings at the close of {step['day']}")

    assert [cells[0] for cells in held] == [*(code for code, _ in step["holdings"]), "cash"]
    assert [numbers(cells[1])[0] for cells in held[:-1]] == pytest.approx(
        [100 * weight for _, weight in step["holdings"]], abs=0.0051
    )

    text = tab.inner_text(".orders")

    for order in step["orders"]:
        assert order["code"] in text
        assert order["side"] in text

    assert step["why"] in tab.inner_text(".why-text")

    tab.get_by_role("button", name="Day after").click()
    after = episode["steps"][episode["steps"].index(step) + 1]["day"]

    assert f"day={after}" in tab.url
    assert (
        tab.locator("figcaption strong", has_text=f"Holdings at the close of {after}").count() == 1
    )


def test_the_report_agrees_with_the_card(session: Reader, forged_site: Path) -> None:
    row = ranked(forged_site)[2]
    entry = entry_of(forged_site, row["card"])
    tab = session.open(link("model.html", model=row["model"], card=row["card"]))
    report = tab.inner_text(".report")
    place = entry["ranks"]["all"]

    assert place["tied_with"] > 1

    assert f"It is {rank_words(place)} of {place['of']}, tied with " in report
    assert "(not distinguishable)." in report

    total = entry["card"]["metrics"]["total_return"]
    (median,) = re.findall(r"median total return of an episode is ([^ ]+)", report)

    assert numbers(median) == [pytest.approx(100 * total["value"], abs=0.0051)]

    reference = entry["card"]["reference"]["benchmark_buy_and_hold"]
    wins = 0

    for window in entry["card"]["windows"]:
        own = [
            one["metrics"]["total_return"]["value"]
            for one in entry["card"]["episodes"]
            if one["window"] == window["name"]
        ]
        wins += (
            statistics.median(own) > reference[window["name"]]["metrics"]["total_return"]["value"]
        )

    assert f"benchmark in {wins} of {len(entry['card']['windows'])} windows" in report
    assert row["card"] in report
    assert f"in tie group {chr(64 + entry['ranks']['all']['tie'])}:" in report

    for page in (
        link("card.html", card=row["card"]),
        link("compare.html", a=row["card"], b=row["card"]),
    ):
        tie = f"Tie group\\s+{chr(64 + entry['ranks']['all']['tie'])}\\b"
        assert re.search(tie, session.open(page).inner_text("main")), (
            "by the letter that the board has"
        )


def test_bounds_are_called_quartiles_only_where_they_are(
    session: Reader, forged_site: Path, row: Any, tmp_path: Path
) -> None:

    def single(entry: Any) -> Any:
        for figure in (
            *entry["card"]["metrics"].values(),
            *entry["card"]["attribution"]["value"]["lines"].values(),
        ):
            figure.pop("quartiles", None)
            figure["interval"] = {
                "kind": "stationary bootstrap, percentile",
                "low": -0.5,
                "high": 0.5,
            }

        return entry

    site = changed_site(forged_site, tmp_path / "site", {f"card/{row['card']}": single})
    both = (
        (forged_site, "Interquartile range", "middle half of episodes"),
        (site, "Interval", "(interval −0.50"),
    )

    for folder, name, expected in both:
        tab = session.open(link("card.html", card=row["card"]), folder=folder)
        heads = tab.locator("th", has_text=re.compile(f"^{name}$"))
        assert heads.count() == 3, "headline figures, further figures, attribution"
        assert expected in session.open(
            link("model.html", model=row["model"], card=row["card"]), folder=folder
        ).inner_text(".report")

    assert (
        session.open(link("task.html", division=DIVISION))
        .locator("th", has_text="Interquartile range")
        .count()
        == 1
    )


def test_every_odd_card_has_its_page(session: Reader, forged_site: Path) -> None:
    board = read_data(forged_site, "board")
    cards = list(chain.from_iterable(model["cards"] for model in board["models"]))
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


def test_a_missing_model_or_card_is_reported(chromium: Any, forged_site: Path) -> None:
    session = Reader(chromium, forged_site)
    assert "can't be read" in session.open(link("model.html", model="nobody/nothing")).inner_text(
        "[role=alert]"
    )

    for card in ("", "../../etc/passwd", "0" * 64):
        assert session.open(link("card.html", card=card)).locator("[role=alert]").count() == 1

    session.close()


# -- charts


def test_charts_are_drawn_without_any_code_made_of_text(session: Reader, row: Any) -> None:
    tab = session.open(link("model.html", model=row["model"], card=row["card"]), as_file=True)
    draw_all(tab)

    assert "unsafe" not in tab.get_attribute("meta[http-equiv=Content-Security-Policy]", "content")
    assert tab.evaluate(
        "[...document.querySelectorAll('.chart-plot')].every(plot => plot.querySelector('svg"
        " path'))"
    )
    assert tab.locator(".chart-plot").count() >= 11
    assert tab.locator(".chart-plot .trouble").count() == 0
    assert tab.evaluate(
        "[...document.querySelectorAll('.chart-plot')].every(plot =>"
        " plot.getAttribute('aria-label').length > 20)"
    )


def test_a_chart_is_drawn_anew_for_another_theme(session: Reader, forged_site: Path) -> None:
    tab = session.open(link("model.html", model=ranked(forged_site)[0]["model"]))
    draw_all(tab)
    strokes = (
        "[...document.querySelectorAll('.chart-plot path')].map(path =>"
        " path.getAttribute('stroke'))"
    )

    assert "#1d63a8" in tab.evaluate(strokes)

    tab.select_option("select[aria-label=Colours]", "dark")
    wait_until(tab, f"{strokes}.includes('#68b0f7')")

    assert "#1d63a8" not in tab.evaluate(strokes)


@pytest.mark.parametrize(
    ("cutoff", "word"), [("none", "nothing trained"), ("unknown", "not known")]
)
def test_nothing_trained_and_not_known_are_two_words(
    session: Reader, forged_site: Path, row: Any, tmp_path: Path, cutoff: str, word: str
) -> None:
    def cut(entry: Any) -> Any:
        entry["submission"]["model"]["cutoff_date"] = cutoff
        return entry

    site = changed_site(forged_site, tmp_path / "site", {f"card/{row['card']}": cut})
    tab = session.open(link("model.html", model=row["model"], card=row["card"]), folder=site)

    assert {cells[4] for cells in table_rows(tab, "Windows")} == {word}


def test_one_window_with_one_seed_is_a_sentence_and_no_chart_of_one_point(
    session: Reader, tmp_path: Path
) -> None:
    build_site(forge_board(tmp_path / "board", entrants=1, windows=1), tmp_path / "site", workers=1)
    row = ranked(tmp_path / "site")[0]
    tab = session.open(link("model.html", model=row["model"]), folder=tmp_path / "site")
    text = tab.inner_text("main")

    assert re.search(r"In W1 it beats [0-9.]+\s%\sof [0-9]+ random traders", text)

    for title in ("Total return by window", "Share of random traders beaten", "All windows"):
        assert title not in text

    draw_all(tab)

    assert axis_troubles(tab) == []

    market = session.open("market.html", folder=tmp_path / "site")
    draw_all(market)

    assert axis_troubles(market) == []
    assert "Median entrant" in market.inner_text("main")
    assert "Return by window" not in market.inner_text("main")
