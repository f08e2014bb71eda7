"""Parts of a report: escaping, colours, plots, windows, effects, deviations; tokens, cost and calls
as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from ktdeval.cards import figure_notes
from ktdeval.registry import load_plugins
from ktdeval.stats import Interval
from ktdeval.trading.ledger import Ledger
from ktdeval_compare.masks.mask_effects import EffectsOptions as EffectOptions, effects as compared
from ktdeval_compare.pairs.compared_cards import load_entrants
from ktdeval_pages.marks import LegendEntry, lines, measure, path_rows, stroke_at, ticks
from ktdeval_report.canvas import PALETTE, Plot, inline_svg, picture, plot_file
from ktdeval_report.card_figures import (
    CardStudy,
    WindowStudy,
    choose_windows,
    over_episodes,
    representative,
)
from ktdeval_report.card_plots import drawdown_plot, equity_plot, held_to, weights_plot, x_positions
from ktdeval_report.card_tables import panel, panel_notes
from ktdeval_report.command import draw_report
from ktdeval_report.forest_plot import ForestPoint, forest_plot
from ktdeval_report.inputs import ReportedCard, ReportSources, load_evaluations
from ktdeval_report.mask_effects import EFFECT_NAMES, find_effects
from ktdeval_report.page import ReportPageOptions, make_report
from ktdeval_report.value_formatting import (
    UNDEFINED,
    PageTable,
    figure,
    p_value,
    percent,
    span,
    templates,
    unbroken,
    unit_name,
)
from ktdeval_report.window_seed_spread import variances
from support.figures import card_cases
from support.figures.card_cases import CALLS, card, remote_card, typed
from support.figures.compare_cards import APART, make_card, save_card
from support.figures.metric_cases import CODES, ledger, market, nav_ledger, step
from support.pages.report_page import Page, check_page

pytest.importorskip("vl_convert")

EVIL = "<img src=x onerror=alert(1)>\"'&\u202e\x07$x^2$"


def evaluations(*paths: Path) -> list[ReportedCard]:
    return load_evaluations(paths, ReportSources(load_plugins()))[0]


# -- escaping


@pytest.mark.exhaustive
@given(st.text())
def test_any_text_comes_out_as_text(text: str) -> None:
    """No text from a card becomes an element or an attribute."""
    page = Page(
        templates().from_string('<p title="{{ text }}" class="a">{{ text }}</p>').render(text=text)
    )

    assert [element.name for element in page.elements()] == ["p"]
    assert set(page.elements()[0].attributes) == {"title", "class"}

    shown = page.elements()[0].attributes["title"] or ""
    assert len(shown) == len(text)
    assert all(letter in (" ", original) for letter, original in zip(shown, text, strict=True))


def test_a_table_names_its_rows_and_columns_and_scrolls_in_its_box() -> None:
    table = templates().get_template("pages/macros.html").module.table  # type: ignore[attr-defined]
    rows = [["group"], ["a<b", "1"], [unbroken("n\u202e"), unbroken("c<d")]]
    page = Page(table(PageTable("Of <things>", ("name", "size"), rows)))

    assert [row.text for row in page.all("tr")][2:] == ["a<b 1", "n  c<d"]
    assert [cell.attributes.get("scope") for cell in page.all("th")] == [
        "col",
        "col",
        "colgroup",
        "row",
        "row",
    ]
    assert page.all("caption")[0].text == "Of <things>"
    assert page.all("div")[0].attributes["aria-label"] == "Table: Of <things>"


@pytest.mark.exhaustive
def test_a_hostile_card_stays_text_on_the_page(tmp_path: Path) -> None:
    cells = {(name, 0): 0.01 * number for number, name in enumerate(APART)}
    card = make_card(cells, model=EVIL)
    card["snapshot"]["benchmark_name"] = EVIL
    page = check_page(make_report(evaluations(save_card(tmp_path, card)), ReportPageOptions()).html)

    assert "<img src=x onerror=alert(1)>" in page.text
    assert "\u202e" not in page.text


@pytest.mark.exhaustive
def test_cards_without_a_finished_episode_or_with_missing_ones_make_a_page(tmp_path: Path) -> None:
    nothing = card_cases.card((0,), failed={0})
    some = card_cases.card((0, 1), failed={1})
    page = check_page(
        make_report(
            evaluations(save_card(tmp_path / "a", nothing), save_card(tmp_path / "b", some)),
            ReportPageOptions(),
        ).html
    )

    assert "INCOMPLETE" in page.text
    assert "the model call failed" in page.text
    assert [row[-1] for row in page.table("All cards")[1:]] == ["0 of 1", "1 of 2"]


@pytest.mark.exhaustive
def test_a_median_over_fewer_seeds_states_their_number(tmp_path: Path) -> None:
    cards = (
        save_card(tmp_path / "a", card_cases.ruined_card()),
        save_card(tmp_path / "b", card_cases.card((0, 1))),
    )
    page = check_page(make_report(evaluations(*cards), ReportPageOptions()).html)

    assert ["return in 2 of 3 episodes" in row[0] for row in page.table("All cards")[1:]] == [
        True,
        False,
    ]
    assert [row[3] for row in page.table("By window")[1:]] == ["2 of 3"]


# -- figures


def test_figures_read_as_people_write_them() -> None:
    shown = {
        figure(0.12345, "fraction"): "12.35",
        figure(0.12345, "fraction of answers"): "12.35",
        unit_name("fraction of answers"): "%",
        figure(-0.5, "fraction", signed=True): "−50.00",
        figure(-0.000001, "fraction", signed=True): "0.00",
        figure(1234.5, "per year"): "1,234.50",
        figure(3.0, "count"): "3",
        figure(None) + span(None, 0.2) + p_value(None): "–––",
        span(-0.1, 0.2, "fraction", signed=True): "−10.00 … +20.00",
        percent(0.5): "+50.00\u202f%",
        p_value(0.00001): "< 0.0001",
    }

    assert list(shown) == list(shown.values())


# -- colours


@pytest.mark.parametrize("side", [0, 1])
def test_each_colour_of_a_plot_belongs_to_one_token(side: int) -> None:
    """In a page, a light colour is replaced by the variable of its token, so no two tokens can
    share a colour.
    """
    codes = [astuple(colour)[side] for colour in PALETTE.values()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"#[0-9a-f]{6}", code) for code in codes)


# -- plots


NAME = 'id="x" font: 9px a #1c2128 0.98765'


def sample() -> Plot:
    x = measure("x", "")
    y = measure("y", "height", **ticks({0.025: "0.025", 0.075: "0.07512"}))
    rows = path_rows([0.0, 1.0], [0.0, 0.123456789], name=NAME)
    layers = [stroke_at(0.0, y, "y"), lines(rows, x, y, [LegendEntry(NAME, "series1")])]
    return Plot("sample", "A title", "Its text.", picture(layers, 200), context="a card")


@pytest.mark.slow
def test_a_file_of_a_plot_has_its_title_and_the_same_bytes_each_time() -> None:
    svg = plot_file(sample(), "svg")
    words = " ".join(text.text for text in Page(svg.decode()).all("text"))
    png = plot_file(sample(), "png")

    assert "A title" in words
    assert "a card" in words
    assert png.startswith(b"\x89PNG")
    assert (plot_file(sample(), "svg"), plot_file(sample(), "png")) == (svg, png)


@pytest.mark.parametrize("days", [1, 2, 43, 548])
def test_areas_have_a_value_for_each_place(days: int) -> None:
    places, step = x_positions(days)
    values = np.arange(3.0 * days).reshape(3, days)
    held = held_to(values, places)

    assert held.shape == (3, len(places))
    assert (held[:, :days] == values).all()
    assert len(places) == days + (step == "step-after")


def test_figures_without_interval_or_value_can_be_drawn() -> None:
    points = [ForestPoint("a · b", 0.1), ForestPoint("c", 0.2, -0.1, 0.5), ForestPoint("d", None)]
    svg = inline_svg(forest_plot("f", "T", "x, %", points))

    assert "no interval" in svg
    assert "interval −10.00 to +50.00" in svg
    assert "d –" not in svg


# -- choices


def nav_of(*levels: int) -> Ledger:
    return nav_ledger(levels, 100)


def test_a_ruined_account_is_drawn() -> None:
    code = CODES[0]
    steps = [
        step(0, 2000, {code: -1000}),
        step(1, 2000, {code: -3000}),
        step(2, -1000, {}, open_nav_minor=-1000),
    ]
    window = WindowStudy("W1", True, (), 0, ledger(steps))

    assert equity_plot(window, "index").text == "The agent ends at −200.00\u202f%."
    assert drawdown_plot(window, "index").text == "The agent falls 200.00\u202f% below its peak."

    weights = weights_plot(window)  # of the one day with a NAV
    assert weights.text.startswith(
        "At most 1 name at once, 100.00\u202f% sold short and 200.00\u202f% cash on average; 0.00"
    )
    assert "<path" in inline_svg(weights)


def test_the_seed_nearest_to_the_median_return_is_shown_of_its_window() -> None:
    ledgers = {("W", seed): nav_of(level) for seed, level in enumerate([130, 90, 110, 120])}
    assert representative(ledgers) == ("W", 2)
    assert representative({("W", 4): nav_of(100), ("W", 3): nav_of(100)}) == ("W", 3)

    for returns in ([104, 100], [100, 104]):  # two are equally close, one higher and one lower
        of_two = {("W", seed): nav_of(level) for seed, level in enumerate(returns)}
        assert representative(of_two) == ("W", 0)


def test_the_benchmark_and_not_the_agent_chooses_the_windows(tmp_path: Path) -> None:
    chosen = []
    for sign in (1, -1):
        cells = {(name, 0): sign * 0.01 * number for number, name in enumerate(list(APART)[:6])}
        card = make_card(cells)
        held = card["reference"]["benchmark_buy_and_hold"]
        for name, value in zip(held, (0.0, 0.3, -0.2, 0.1, 0.05, 0.01), strict=True):
            held[name] = {
                **held[name],
                "metrics": {**held[name]["metrics"], "total_return": {"value": value, "n": 5}},
            }

        evaluation = ReportedCard(tmp_path, card_cases.typed(card))
        chosen.append([choose_windows(evaluation, most) for most in (0, 1, 2, 3, 9)])

    assert chosen[0] == chosen[1]
    assert chosen[0] == [
        [],
        ["A5"],
        ["A2", "A3"],
        ["A2", "A3", "A5"],
        ["A1", "A2", "A3", "A4", "A5", "A6"],
    ]


# -- effects


def grid(rng: np.random.Generator, seeds: int = 2) -> Mapping[tuple[str, int], float]:
    cells = product(list(APART)[:7], range(seeds))
    return {cell: float(rng.normal(0, 0.1)) for cell in cells}


@pytest.mark.exhaustive
def test_effects_match_the_effects_command(tmp_path: Path) -> None:
    """The report shows the same figures as `ktdeval compare masks`."""
    rng = np.random.default_rng(3)
    variants = [
        (mask, "open_research") for mask in ("bright", "stock_blind", "date_blind", "blinded")
    ]
    variants += [("blinded", "fixed_candidate"), ("blinded", "memory_only")]
    paths = [
        save_card(tmp_path / str(number), make_card(grid(rng), mask=mask, mode=mode))
        for number, (mask, mode) in enumerate(variants)
    ]
    expected = compared(load_entrants(paths), EffectOptions())
    effects = find_effects(evaluations(*paths), "total_return")

    assert not effects.notes

    wanted = [
        (EFFECT_NAMES[row.effect], row.value, row.low, row.high, row.n) for row in expected.effects
    ]

    assert len(wanted) == len(effects.masks) == 4

    for one, (name, *figures) in zip(effects.masks, wanted, strict=True):
        assert one.name == name
        assert [one.value, one.low, one.high, one.n] == pytest.approx(figures)

    ladder = [row for row in expected.ladder if row.over == "blinded"]

    assert (
        [one.name.partition(" (")[0] for one in effects.modes]
        == [row.piece for row in ladder]
        == ["data", "tools", "total"]
    )

    for one, row in zip(effects.modes, ladder, strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((row.value, row.low, row.high))

    assert effects.modes[0].value + effects.modes[1].value == pytest.approx(effects.modes[2].value)  # type: ignore[operator]


@pytest.mark.exhaustive
def test_cards_that_do_not_go_together_are_left_out_with_a_reason(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    bright = save_card(tmp_path / "a", make_card(grid(rng), mask="bright"))
    blinded = save_card(tmp_path / "b", make_card(grid(rng, 1), mask="blinded"))
    again = save_card(tmp_path / "c", make_card(grid(rng), mask="blinded"))
    other = save_card(tmp_path / "d", make_card(grid(rng), mask="blinded", model="house/two"))
    effects = find_effects(evaluations(bright, blinded, again, other), "total_return")

    assert {one.agent for one in effects.masks} == {"house/one"}
    assert any("is there already" in note for note in effects.notes)
    assert any(
        "7 of 14 (window, seed) have a figure on every card" in note for note in effects.notes
    )
    assert find_effects(evaluations(bright, other), "total_return").masks == []

    rebased = save_card(
        tmp_path / "e", make_card(grid(rng, 1), mask="blinded", config={"rebase_prices": True})
    )

    assert find_effects(evaluations(bright, rebased), "total_return").masks == []


def test_a_figure_that_is_missing_everywhere_is_a_reason_and_no_number(tmp_path: Path) -> None:
    cells = {(name, 0): None for name in list(APART)[:3]}
    paths = [
        save_card(tmp_path / mask, make_card(cells, mask=mask)) for mask in ("bright", "blinded")
    ]
    (effect,) = find_effects(evaluations(*paths), "total_return").masks

    assert effect.value is None
    assert effect.reason == "no window"


def test_the_page_repeats_the_cards_notes_on_its_figures_verbatim(
    tmp_path: Path,
) -> None:
    """A window that is longer than the others is excluded from figures over episodes, and not
    counted among them.
    """
    windows = {
        "W1": ("2024-01-01", "2024-01-05"),
        "W2": ("2024-01-08", "2024-01-12"),
        "long": ("2024-01-01", "2024-01-26"),
    }
    made = make_card({("W1", 0): None, ("W2", 0): 0.1, ("long", 0): 0.2}, windows=windows)
    (one,) = evaluations(save_card(tmp_path / "run", made))
    notes = list(figure_notes(one.card))

    assert notes[0].startswith(
        "window long has its own rows and is excluded from figures over episodes: it "
    )
    assert [note.partition(":")[0] for note in notes if "total_return" in note] == [
        "total_return is not defined in 1 of 2 episodes"
    ]
    assert list(panel_notes(CardStudy(one)))[-len(notes) :] == notes


def test_the_interval_of_a_figure_is_of_the_window_that_the_figure_is_of(tmp_path: Path) -> None:
    """A shorter window comes first by day and is in separate rows: its days reveal nothing about
    the figure of the long window.
    """
    windows = {"short": ("2024-01-01", "2024-01-05"), "long": ("2024-01-02", "2024-01-26")}
    made = make_card({("short", 0): 0.1, ("long", 0): 0.2}, windows=windows)
    (one,) = evaluations(save_card(tmp_path / "run", made))

    assert one.windows == ["short", "long"]

    studies = [
        WindowStudy(
            name,
            False,
            (),
            seed,
            nav_of(120),
            intervals={"total_return": Interval(low, 2 * low, 0.95, "kind", 5)},
        )
        for name, seed, low in (("short", 1, 0.05), ("long", 2, 0.15))
    ]
    study = CardStudy(replace(one, market=market()), studies)

    assert [row[-1] for row in panel(study).rows if row[0] == "total_return"] == [
        span(0.15, 0.3, "fraction", signed=True)
    ]

    notes = list(panel_notes(study))
    assert notes[0] == "Intervals are over the days of seed 2."
    assert [note.partition(":")[0] for note in notes if "nominal" in note] == [
        "total_return, 5 days"
    ]


def test_single_episode_interval_is_not_shown_as_quartiles(
    tmp_path: Path,
) -> None:
    made = make_card({("A1", 0): 0.1, ("A2", 0): None})
    made["metrics"]["total_return"]["interval"] = {
        "kind": "bootstrap",
        "low": 0.05,
        "high": 0.2,
        "level": 0.95,
        "n": 43,
    }
    table = panel(CardStudy(ReportedCard(tmp_path, typed(made))))
    (row,) = (row for row in table.rows if row[0] == "total_return")

    assert dict(zip(table.heads, row, strict=True))["both values"] == UNDEFINED


@pytest.mark.exhaustive
def test_an_option_that_is_none_is_the_default(tmp_path: Path) -> None:
    path = save_card(tmp_path / "run", make_card({("A1", 0): 0.1}))
    pages = [
        draw_report(path, out=tmp_path / f"{len(more)}.html", **more)
        for more in ({}, {"windows": None, "data": None})
    ]

    assert pages[0].read_text() == pages[1].read_text()


# -- tokens, cost and calls


def facts(shown: dict[str, Any]) -> dict[str, str]:
    """The facts about one card on its page, by name."""
    page = Page(make_report([ReportedCard(Path(__file__), typed(shown))], ReportPageOptions()).html)
    rows = [*page.table("What was evaluated"), *page.table("Activity and failures")]
    return {row[0]: row[1] for row in rows}


@pytest.mark.exhaustive
def test_cost_calls_and_drift_are_given_in_words() -> None:
    shown = facts(remote_card())
    assert (shown["cost"], shown["return per USD"][:1]) == ("0.00018 USD", "+")
    assert (
        shown["price"]
        == "input 2, output 8, cache read 0.5 USD a million tokens (as of 2026-01-02, a price list)"
    )
    assert shown["requests"] == "3: 1 answered by the provider, 1 from the cache"
    assert shown["failed attempts"] == "rate_limited 1, timeout 1"
    assert shown["paid"] == "1.50 USD, possibly 0.2500 USD more"
    assert shown["served by"] == "gpt-4.1-2025-04-14 (2 replies)"

    partial = facts(remote_card(calls=CALLS | {"paid_usd": None}))
    uncounted = "the provider did not count the tokens of every reply"

    assert partial["cost"] == f"at least 0.00018 USD: {uncounted}"
    assert partial["return per USD"] == f"not known: {uncounted}"

    drift = {
        "value": 0.25,
        "noise": 0.125,
        "excess": 0.125,
        "prompts": 6,
        "served_by_changed": True,
    }
    words = facts(remote_card(drift=drift))["drift"]

    assert words.startswith(
        "0.250 between the answers to 6 questions at the start and at the end, within one round"
        " 0.125"
    )
    assert words.endswith("the provider named another model at the end")


@pytest.mark.exhaustive
def test_unknown_and_missing_values_are_not_shown_as_zero() -> None:
    words = facts(remote_card(price=None))
    assert words["cost"].startswith("not known: no price of the model is known")
    assert "price" not in words

    words = facts(card())  # a local model
    assert words["cost"] == "0.00 USD"
    assert not {"drift", "requests", "paid", "price"} & set(words)
    assert words["ranking"] == "may be ranked"
    assert (
        facts(card(limit=3))["ranking"] == "may not be ranked: every episode was cut after 3 steps"
    )


# ==== deviations between windows and between seeds: by hand, against statsmodels, and from planted
# truths


def cells(table: list[list[float]]) -> dict[tuple[str, int], float | None]:
    by_cell = {}
    for row, line in enumerate(table):
        by_cell |= {(f"W{row}", seed): value for seed, value in enumerate(line)}

    return by_cell


@pytest.mark.parametrize(
    ("figures", "window", "seed"),
    [
        # Window means 2, 6, 4. Within: (2 + 2 + 8) / 3 = 4. Between: 2 * (4 + 4 + 0) / 2 = 8.
        # Variance of windows: (8 - 4) / 2 = 2.
        (cells([[1.0, 3.0], [5.0, 7.0], [2.0, 6.0]]), 2, 4),
        # an undefined figure is omitted
        ({**cells([[1.0, 3.0], [5.0, 7.0], [2.0, 6.0]]), ("W0", 9): None}, 2, 4),
        # Means 2 and 6 of 2 and 1 figures: within (1 + 1) / 1 = 2; grand 10/3; between 2*(4/3)^2 +
        # (8/3)^2 = 32/3; n0 = (3 - 5/3) / 1 = 4/3; window (32/3 - 2) / (4/3) = 6.5.
        ({("A", 0): 1.0, ("A", 1): 3.0, ("B", 0): 6.0}, 6.5, 2),
        (cells([[0.0, 2.0], [2.0, 0.0]]), -1, 2),  # both means are 1: between 0, so (0 - 2) / 2
        ({}, None, None),
        ({("A", 0): 1.0}, None, None),
        ({("A", 0): 1.0, ("A", 1): 2.0}, None, 0.5),
        # one seed per window: window and seed can't be separated
        ({("A", 0): 1.0, ("B", 0): 2.0}, None, None),
    ],
)
def test_variances_by_hand(
    figures: dict[tuple[str, int], float], window: float | None, seed: float | None
) -> None:
    assert variances(figures) == tuple(
        None if variance is None else pytest.approx(variance) for variance in (window, seed)
    )


@pytest.mark.exhaustive
def test_a_negative_variance_is_no_deviation_of_zero(tmp_path: Path) -> None:
    """Returns of 0 and 2 %, and of 2 and 0 %: the means are equal, so the variance of windows is
    estimated at -0.0001.
    """
    card = make_card({("A1", 0): 0.0, ("A1", 1): 0.02, ("A2", 0): 0.02, ("A2", 1): 0.0})
    page = check_page(make_report(evaluations(save_card(tmp_path, card)), ReportPageOptions()).html)
    heads, *rows = page.table("Metrics, median over episodes")
    row = next(row for row in rows if row[0] == "total_return")

    assert row[heads.index("SD of windows")] == "variance −1.0e−04"
    assert row[heads.index("SD of seeds")] == "1.41"


@pytest.mark.exhaustive
@given(st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=2, max_size=5))
@settings(max_examples=20)
def test_mean_squares_match_statsmodels(table: list[list[float]]) -> None:
    values = np.array(table)
    frame = pd.DataFrame(
        {"y": values.ravel(), "w": np.repeat(np.arange(len(values)), values.shape[1])}
    )
    between, within = anova_lm(OLS.from_formula("y ~ C(w)", frame).fit())["mean_sq"]
    window, seed = variances(cells(table))

    assert seed == pytest.approx(within, rel=1e-8, abs=1e-12)
    assert window == pytest.approx((between - within) / values.shape[1], rel=1e-8, abs=1e-12)


def test_planted_variances_are_found_on_average() -> None:
    rng = np.random.default_rng(5)
    tables = rng.normal(0, 0.05, (400, 10, 1)) + rng.normal(0, 0.02, (400, 10, 5))
    window, seed = np.mean([variances(cells(table.tolist())) for table in tables], axis=0)
    assert (window, seed) == (pytest.approx(0.05**2, rel=0.06), pytest.approx(0.02**2, rel=0.03))


@pytest.mark.exhaustive
def test_excess_is_the_median_over_episodes_unlike_the_mean_over_windows(
    tmp_path: Path,
) -> None:
    """Returns of 0, 3 and 9 % and one of the benchmark: the median excess is that of 3 %, the mean
    over windows that of 4 %.
    """
    one = make_card({("A1", 0): 0.0, ("A2", 0): 0.03, ("A3", 0): 0.09})
    held = one["reference"]["benchmark_buy_and_hold"]["A1"]["metrics"]["total_return"]["value"]
    paths = (
        save_card(tmp_path / "a", one),
        save_card(tmp_path / "b", make_card({("A1", 0): 0.01}, "house/two")),
    )
    page = check_page(make_report(evaluations(*paths), ReportPageOptions()).html)
    heads, row, *_ = page.table("All cards: medians over episodes")

    assert figure(0.03 - held, "fraction", signed=True) == row[heads.index("excess, %")]
    assert (
        figure(0.04 - held, "fraction", signed=True)
        == row[heads.index("mean excess over windows, %")]
    )
    assert row[heads.index("its 95 % interval")] != UNDEFINED


@pytest.mark.exhaustive
def test_cards_of_one_name_are_labelled_by_their_system_differences(
    tmp_path: Path,
) -> None:
    cells = {(name, 0): 0.01 * number for number, name in enumerate(("A1", "A2", "A3"))}
    bright = make_card(cells, mask="bright")
    blinded = make_card(cells, args={"positions": 3})
    page = check_page(
        make_report(
            evaluations(save_card(tmp_path / "a", bright), save_card(tmp_path / "b", blinded)),
            ReportPageOptions(),
        ).html
    )
    names = [row[0] for row in page.table("All cards")[1:]]

    assert [name.partition(" · ")[0] for name in names] == ["house/one", "house/one(positions=3)"]
    assert "Masks and modes" not in page.text  # two systems reveal no effect of a mask

    # The same system under both masks does.
    alike = save_card(tmp_path / "a", bright), save_card(tmp_path / "c", make_card(cells))
    assert (
        "Masks and modes"
        in check_page(make_report(evaluations(*alike), ReportPageOptions()).html).text
    )


def test_mean_exposures_weigh_the_days_of_all_episodes_alike() -> None:
    """By hand: exposures of 1 on four days of one episode, and of 5 on one day of another: (4 * 1 +
    1 * 5) / 5.
    """
    attributions: Any = [
        SimpleNamespace(
            factor_names=("SKEW",),
            notes=(),
            linked=SimpleNamespace(lines={}),
            mean_exposures=lambda mean=mean: np.array([mean]),
            exposure_days=lambda days=days: np.array([days]),
        )
        for mean, days in ((1.0, 4), (5.0, 1))
    ]

    assert over_episodes(attributions)[1] == {"SKEW": 9 / 5}
