"""Parts of the papers' figures, checked by hand: means of paths, days of an asset and its news,
decisions, charts.
"""

from __future__ import annotations

import datetime
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import CardError, UsageError
from ktdeval.market import Document, Documents
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval_compare.papers.figures.definitions import (
    FigureChoices,
    figure_frame,
    find_paper_figure,
    known_figures,
)
from ktdeval_compare.papers.figures.events import asset_days, decision_of, sentiment_sign
from ktdeval_compare.papers.figures.figure_runs import mean_of_paths
from ktdeval_compare.papers.figures.vega_specs import dash_of, vega_spec, with_ends

DAYS = ("2025-01-02", "2025-01-03")


def test_a_mean_of_three_paths_has_the_t_interval_of_three_values() -> None:
    """By hand: 1, 2, 3 have mean 2 and standard error 1/√3; t with two degrees of freedom is
    4.3027.
    """
    paths = {Path("a"): [(DAYS, np.array([0.0, value])) for value in (1.0, 2.0, 3.0)]}
    mean = mean_of_paths(paths)
    half = 4.302652729911275 / math.sqrt(3.0)

    assert (mean.n, mean.mean.tolist()) == (3, [0.0, 2.0])
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low.tolist() == pytest.approx([0.0, 2.0 - half])
    assert mean.high.tolist() == pytest.approx([0.0, 2.0 + half])
    assert (mean.least.tolist(), mean.most.tolist()) == ([0.0, 1.0], [0.0, 3.0])


# ---- means


def test_two_paths_and_equal_paths_have_no_interval() -> None:
    """Equal paths, as from a deterministic rule, are no evidence of the variation between seeds."""
    two = mean_of_paths({Path("a"): [(DAYS, np.array([0.0, value])) for value in (1.0, 2.0)]})
    equal = mean_of_paths({Path("a"): [(DAYS, np.array([0.0, 1.0]))] * 3})

    assert (two.low, two.high) == (None, None)
    assert equal.low is not None
    assert math.isnan(equal.low[1])


def test_paths_of_other_days_have_no_mean() -> None:
    paths = {Path("a"): [(DAYS, np.zeros(2))], Path("b"): [(DAYS[:1], np.zeros(1))]}
    with pytest.raises(CardError, match="b: its ledgers cover other days than those of a"):
        mean_of_paths(paths)


# ---- news


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("Somewhat-Bullish", 1),
        ("bearish", -1),
        ("positive", 1),
        ("Neutral", 0),
        ("0.31", 1),
        ("-0.02", -1),
        ("0", 0),
        ("positive 0.10, neutral 0.20, negative 0.70", -1),
        ("positive 0.10, neutral 0.80, negative 0.10", 0),
        ("", None),
        ("nan", None),
        ("who knows", None),
    ],
)
def test_a_sentiment_is_a_label_a_score_or_three_scores(text: str, sign: int | None) -> None:
    assert sentiment_sign(text) == sign


def news(
    day: int, title: str, sentiment: str = "", assets: tuple[str, ...] = ("TSLA",)
) -> Document:
    at = datetime.datetime(2025, 8, day, 10, tzinfo=datetime.UTC)
    return Document(at, at, "wire", "news", assets, title, "text", sentiment)


def test_days_have_the_last_price_the_titles_and_the_sum_of_signs() -> None:
    """By hand: Saturday has no price, and one positive against two negative news items; Friday has
    news on the whole market, Monday on another asset.
    """
    items = [
        news(1, "rates", assets=()),
        news(2, "up", "bullish"),
        news(2, "down", "bearish"),
        news(2, "down again", "-0.4"),
        news(4, "other", "bullish", assets=("ETH",)),
    ]
    market = open_snapshot(load_plugins(), "synthetic_arena", {})
    market = replace(market, documents=Documents.of(items, market.documents.close))
    days = ["2025-08-01", "2025-08-02", "2025-08-04"]
    friday, saturday, monday = asset_days(market, "TSLA", days)

    closes = market.adjusted_close[:, market.asset_index["TSLA"]]
    first, gap, last = (closes[market.day_index(day)] for day in days)
    assert np.isnan(gap)
    assert (friday.ratio, saturday.ratio, monday.ratio) == (1.0, 1.0, last / first)
    assert [day.documents for day in (friday, saturday, monday)] == [1, 3, 0]
    assert [day.sentiment for day in (friday, saturday, monday)] == [None, "bearish", None]
    assert (friday.titles, monday.titles) == ("rates", "")
    assert sorted(saturday.titles.split(" · ")) == ["down", "down again", "up"]


# ---- decisions


class _Step:
    def __init__(self, provenance: str) -> None:
        self.provenance = provenance


class _Talk:
    def __init__(self, submission: str | None, ballots: tuple[str, ...] = ()) -> None:
        self.submission = submission
        self.exchanges = [_exchange(ballot) for ballot in ballots]


def stance(side: str) -> str:
    return json.dumps({"decisions": [{"stock_id": "a", "decision": side}]})


def _exchange(side: str) -> dict[str, Any]:
    calls = [{"id": "c", "name": "submit", "arguments": stance(side)}] if side else []
    request = {"kept": 0, "sent": [], "tools": [], "tool_choice": None, "seed": 0}
    return {**request, "reply": {"tool_calls": calls}}


@pytest.mark.parametrize(
    ("provenance", "talk", "decision"),
    [
        ("model", _Talk(stance("SELL")), "SELL"),
        ("fallback", _Talk(stance("SELL")), "none"),
        ("elected", _Talk(None, ("BUY", "BUY", "SELL")), "BUY"),
        ("elected", _Talk(None, ("BUY", "HOLD", "SELL")), "HOLD"),
        # two of four voters are not more than half
        ("elected", _Talk(None, ("BUY", "BUY", "", "")), "HOLD"),
    ],
)
def test_a_decision_is_what_was_submitted_or_elected(
    provenance: str, talk: Any, decision: str
) -> None:
    step: Any = _Step(provenance)
    assert decision_of(step, talk) == decision


# ---- charts


def test_bars_at_the_ends_of_lines_have_days_of_their_own() -> None:
    figure = find_paper_figure("ama-2")
    rows = []
    for line, low in (("one", 0.1), ("two", 0.2), ("alone", None)):
        for day in ("2025-01-01", "2025-04-11"):
            rows.append({"panel": "BTC", "line": line, "day": day, "low": low, "high": low})

    ends = [row for row in with_ends(figure, rows) if "end" in row]

    # a hundred days, of which a bar has a fortieth
    assert [(row["line"], row["end"]) for row in ends] == [
        ("one", "2025-04-13"),
        ("two", "2025-04-15"),
    ]


def test_lines_beyond_eight_differ_in_dashes_since_colours_repeat() -> None:
    assert [dash_of(at) for at in (0, 7, 8, 16, 23)] == [(1, 0), (1, 0), (6, 3), (2, 2), (2, 2)]


def test_each_picture_of_lines_names_days_of_its_own_window() -> None:
    windows = {
        "W1": ("2024-01-05", "2024-01-08", "2024-01-09"),
        "W2": ("2024-03-01", "2024-03-04"),
    }
    rows = [
        {
            "panel": window,
            "line": "one",
            "day": day,
            "value": 0.0,
            "low": None,
            "high": None,
            "n": 1,
        }
        for window, days in windows.items()
        for day in days
    ]
    spec = vega_spec(find_paper_figure("ktdfin-2"), pd.DataFrame(rows))

    shown = {}
    for picture in spec["concat"]:
        line = next(one for one in picture["layer"] if one["mark"]["type"] == "line")
        shown[picture["title"]["text"]] = tuple(line["encoding"]["x"]["axis"]["values"])

    assert shown == windows


@pytest.mark.parametrize("name", known_figures())
def test_a_figure_names_a_paper_its_needs_and_a_function(name: str) -> None:
    figure = known_figures()[name]

    assert "Figure" in figure.source
    assert figure.needs
    assert figure.rows.startswith("ktdeval_compare.papers.figures.")


def test_a_spec_says_null_where_a_figure_is_not_defined() -> None:
    frame = pd.DataFrame(
        {
            "panel": ["p", "p"],
            "row": ["a", "b"],
            "value": [0.5, np.nan],
            "low": [0.4, np.nan],
            "high": [0.6, np.nan],
            "reference": [0.1, 0.1],
            "n": [9, 0],
        }
    )
    frame.attrs.update(notes=("one note",), reference="chance")
    spec = vega_spec(find_paper_figure("ktdfin-3"), frame)

    assert spec["data"]["values"][1] == {
        "panel": "p",
        "row": "b",
        "value": None,
        "low": None,
        "high": None,
        "reference": 0.1,
        "n": 0,
    }
    assert spec["usermeta"] == {"figure": "ktdfin-3", "notes": ["one note"]}
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec


# ---- refusals


def test_an_unknown_figure_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="no figure 'ama-5'; did you mean 'ama-"):
        find_paper_figure("ama-5")


@pytest.mark.parametrize(
    ("name", "choice", "words"),
    [
        ("ama-2", {"events": ("2025-08-01",)}, "--event: ama-2 does not take it; ama-3 do"),
        ("ktdfin-2", {"rules": "paper"}, "--rules: ktdfin-2 does not take it; investorbench-3"),
        ("investorbench-3", {"tasks": ("x",)}, "--tasks: investorbench-3 does not take it"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(
    name: str, choice: dict[str, Any], words: str
) -> None:
    choices = FigureChoices(plugins=load_plugins(), **choice)
    with pytest.raises(UsageError, match=words):
        figure_frame(find_paper_figure(name), [], choices)


def test_the_arena_market_has_news_on_the_days_of_the_paper() -> None:
    """The requirements of AMA's Figure 3 on the synthetic market, whose documents are not rated."""
    market = open_snapshot(load_plugins(), "synthetic_arena", {})
    days = [f"2025-08-{day:02}" for day in range(1, 32)]
    shown = asset_days(market, "BTC", days)

    assert sum(day.documents > 0 for day in shown) >= 10
    assert {day.sentiment for day in shown} == {None}
