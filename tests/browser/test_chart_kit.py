"""Charts of the kit in a real browser: what is null is a gap in every one of them, never a figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ktdeval.testing import on_each_row
from ktdeval_pages.assets import charts_script, shared_script, vendor_files
from support.pages.browser_pages import Chromium, needs_browser, wait_until

pytestmark = needs_browser


@pytest.fixture
def tab(chromium: Chromium) -> Iterator[Any]:
    """An empty page with the kit's scripts, and a place as wide as a chart."""
    page = chromium.new_context().new_page()
    page.set_content('<html><body><div id="place" style="width:400px"></div></body></html>')
    page.add_script_tag(content=shared_script())
    page.add_script_tag(content=charts_script())
    yield page
    page.close()


def table_of_figures(tab: Any, chart: str, values: list[float | None]) -> list[str]:
    """Return the figures of a chart of days, as its table has them."""
    days = [f"2024-01-0{day}" for day in range(2, 2 + len(values))]
    return list(
        tab.evaluate(
            """([chart, days, nav]) => {
              const place = document.getElementById("place");
              kt.charts[chart](place, [{label: "NAV", days, nav}]);
              place.querySelector("button").click();
              return [...place.querySelectorAll("td:last-child")].map((cell) => cell.innerText);
            }""",
            [chart, days, values],
        )
    )


@on_each_row(
    "chart, values, figures",
    ("drawdown", [100.0, None, 90.0], ["0.00 %", "– not defined", "−10.00 %"]),
    ("drawdown", [None, 100.0, 80.0], ["– not defined", "0.00 %", "−20.00 %"]),
    ("equity", [100.0, None, 90.0], ["0.00 %", "– not defined", "−10.00 %"]),
    ("equity", [None, 100.0, 120.0], ["– not defined", "0.00 %", "20.00 %"]),
)
def test_a_day_without_a_value_is_a_dash_among_the_figures(
    tab: Any, chart: str, values: list[float | None], figures: list[str]
) -> None:
    found = [
        text.replace("\u00a0", " ").replace("\u202f", " ")
        for text in table_of_figures(tab, chart, values)
    ]

    assert found == figures


def test_line_has_gaps_at_null_values_and_ends_at_known_ones(
    tab: Any,
) -> None:
    path, ends = tab.evaluate(
        """() => [
          kt.drawing.line([1, 2, null, 4], (at) => 10 * at, (value) => value),
          kt.drawing.roomy([[1, null, 3]], {share: 0}),
        ]"""
    )

    assert path == "M0.0 1.0L10.0 2.0M30.0 4.0m-2 0h4"
    assert ends == [1, 3]


def test_values_of_an_axis_are_round_and_zero_has_a_line_of_its_own(tab: Any) -> None:
    marks = tab.evaluate(
        """() => {
          const scale = kt.drawing.scale({width: 100, height: 100, ends: [-0.05, 0.1], span: [0, 4]});
          const say = (value) => `${value} %`;
          const marks = kt.drawing.valueAxis(scale, [-0.05, 0.1], {most: 4, factor: 100, say});
          return marks.map(([line, text]) => [line.getAttribute("class"), text.textContent]);
        }"""
    )

    assert marks == [
        ["grid-line", "-5 %"],
        ["zero", "0 %"],
        ["grid-line", "5 %"],
        ["grid-line", "10 %"],
    ]


def test_interval_without_an_end_reaches_the_edge_and_needs_a_mean(
    tab: Any,
) -> None:
    reach, nothing = tab.evaluate(
        """() => {
          const drawn = kt.drawing.whisker({mean: 1, low: null, high: 2}, [-2, 2]);
          const reach = drawn.querySelector(".reach");
          return [
            [reach.getAttribute("x1"), reach.getAttribute("x2")],
            kt.drawing.whisker({mean: null, low: null, high: null}, [-2, 2]),
          ];
        }"""
    )

    assert reach == ["0", "117"]
    assert nothing is None


@pytest.mark.exhaustive
def test_a_bar_that_is_null_is_not_drawn(tab: Any) -> None:
    heights = tab.evaluate(
        """() => [...kt.drawing.bars([2, null, 4], {width: 30, height: 20, label: "costs"})
          .querySelectorAll("rect")].map((bar) => bar.getAttribute("height"))"""
    )

    assert heights == ["10.0", "20.0"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_intervals_are_drawn_for_rows_that_have_one(tab: Any, scheme: str) -> None:
    rows = [
        {"name": "one", "value": 0.1, "low": 0.05, "high": 0.15},
        {"name": "two", "value": None, "low": None, "high": None},
    ]
    tab.emulate_media(color_scheme=scheme)
    cells = tab.evaluate(
        """(rows) => {
          const place = document.getElementById("place");
          kt.charts.intervals(place, rows, {title: "Effects", heads: ["Name", "Mean", "Interval"]});
          place.querySelector("button").click();
          return [...place.querySelectorAll("tbody tr")].map((row) => row.cells.length);
        }""",
        rows,
    )

    assert cells == [4, 4]


def test_paper_has_every_chart_at_its_own_width(tab: Any) -> None:
    """One that nobody has looked at, too; on a wide screen the end of each would be cut off."""
    scripts = dict(vendor_files())
    for name in ("vega.min.js", "vega-lite.min.js", "vega-interpreter.js"):
        tab.add_script_tag(content=scripts[name])
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.evaluate(
        """() => {
          const place = document.getElementById("place");
          place.style.width = "1200px";
          for (let at = 0; at < 2; at++) {
            const line = {label: "NAV", days: ["2024-01-02", "2024-01-03"], nav: [100, 101]};
            kt.charts.equity(place.appendChild(document.createElement("div")), [line]);
            place.append(Object.assign(document.createElement("div"), {style: "height:3000px"}));
          }
        }"""
    )
    wait_until(tab, "document.querySelectorAll('[data-drawn]').length === 1")
    on_screen = tab.evaluate("document.querySelector('[data-drawn] svg').clientWidth")

    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    wait_until(tab, "document.querySelectorAll('[data-drawn]').length === 2")
    widths = tab.evaluate(
        "[...document.querySelectorAll('[data-drawn] svg')].map((svg) => svg.clientWidth)"
    )

    assert on_screen > 1000
    assert max(widths) <= 680


def test_what_is_loaded_when_seen_is_loaded_before_the_page_prints(tab: Any) -> None:
    scripts = dict(vendor_files())
    for name in ("vega.min.js", "vega-lite.min.js", "vega-interpreter.js"):
        tab.add_script_tag(content=scripts[name])
    found = tab.evaluate(
        """async () => {
          const loaded = [];
          const places = ["far", "gone"].map((name) => {
            const place = document.createElement("div");
            document.body.append(Object.assign(document.createElement("div"), {style: "height:3000px"}), place);
            kt.charts.whenSeen(place, async () => loaded.push(name));
            return place;
          });
          places[1].remove();
          window.print = () => loaded.push("print");
          await kt.charts.print();
          await kt.charts.print();
          return loaded;
        }"""
    )

    assert found == ["far", "print", "print"]
