"""First sentences of pages: they say no more than their figures, whatever these are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats as scipy_stats

from ktdeval.cards import TradingCard
from ktdeval_pages.card_sentences import card_sentence, cards_sentence, excess_figure
from ktdeval_pages.sentences import NOTHING, PageFigure, figure_sentence, systems_sentence
from ktdeval_pages.tear_sheet.missing import missing_lines
from support.figures.card_cases import typed
from support.figures.compare_cards import make_card

PER_CENT = re.compile("[+\N{MINUS SIGN}][0-9]+[.][0-9]\N{NO-BREAK SPACE}%")


def returns() -> st.SearchStrategy[float]:
    return st.floats(-0.9, 5.0).map(lambda value: round(value, 4))


@st.composite
def figures(draw: st.DrawFn) -> PageFigure:
    """Draw a figure: without a value, without an interval, or with both."""
    kind = draw(st.sampled_from(("none", "alone", "whole")))
    low, value, high = sorted(draw(st.lists(returns(), min_size=3, max_size=3)))
    against = draw(st.sampled_from(("", "the benchmark")))
    if kind == "none":
        return PageFigure(value=None, per="", over="", against=against, reason="no window")
    if kind == "alone":
        return PageFigure(value=value, per="in 9 days", over="", against=against, reason="one day")
    return PageFigure(
        value=value, low=low, high=high, per="in 9 days", over="over days", against=against
    )


def test_a_sentence_claims_a_side_only_where_the_whole_interval_lies_on_it() -> None:
    met = Counter[str]()

    @given(figures())
    @settings(max_examples=300)
    def read(figure: PageFigure) -> None:
        sentence = figure_sentence(figure)
        has_interval = figure.low is not None and figure.high is not None
        above = has_interval and min(figure.low, figure.high) > 0  # type: ignore[type-var]
        below = has_interval and max(figure.low, figure.high) < 0  # type: ignore[type-var]

        words = {
            "above": ("more than the benchmark.", "a gain."),
            "below": ("less than the benchmark.", "a loss."),
            "nothing": (f"{NOTHING}.",) * 2,
        }
        side = "above" if above else "below" if below else "nothing"
        assert sentence.endswith(words[side][0 if figure.against else 1])

        shown = [value for value in (figure.value, figure.low, figure.high) if value is not None]
        numbers = [float(text[1:-2]) for text in PER_CENT.findall(sentence)]
        assert numbers == pytest.approx([abs(100 * value) for value in shown], abs=0.051)
        if not has_interval:
            assert figure.reason in sentence
        met[side] += 1
        met["alone"] += figure.value is not None and not has_interval

    read()

    assert min(met[side] for side in ("above", "below", "nothing", "alone")) > 5, met


@given(st.lists(figures(), max_size=6))
@settings(max_examples=200)
def test_a_sentence_of_several_systems_names_those_above_and_the_best(
    drawn: Sequence[PageFigure],
) -> None:
    named = [(f"system {number}", figure) for number, figure in enumerate(drawn)]
    sentence = systems_sentence(named)
    above = [name for name, one in named if one.low is not None and one.low > 0]
    known = [(one.value, name) for name, one in named if one.value is not None]

    if not known:
        assert sentence.endswith("nothing shown.")
        return
    if len(known) == 1:
        assert sentence.startswith(known[0][1])
        return

    best = max(value for value, _ in known)
    assert any(name in sentence for value, name in known if value == best)
    assert sentence.startswith(f"{len(above) or 'None'} of {len(known)} ")
    for name in above:
        assert name in sentence


def test_undefined_figures_with_one_reason_share_a_line() -> None:
    found = missing_lines(
        {"CAGR": ["30 days", "30 days"], "Calmar": ["30 days"], "Beta": ["", ""], "Hits": "abcd"}
    )
    assert found == [
        "CAGR; Calmar: n/a, 30 days",
        "Beta: n/a, not defined",
        "Hits: n/a, a; b; and 2 more reasons",
    ]


def benchmark_return(card: TradingCard) -> float:
    """The return of the benchmark, which is the same in each window of a made card."""
    (value,) = {
        policy.metrics.panel["total_return"].value
        for policy in card.reference.benchmark_buy_and_hold.values()
    }
    assert value is not None
    return value


CELLS = {("A1", 0): 0.04, ("A1", 1): 0.02, ("A2", 0): 0.05, ("A3", 0): 0.01}


def test_the_figure_of_a_card_is_the_mean_of_its_windows_medians() -> None:
    """Windows A1, A2, A3 have medians 0.03, 0.05, 0.01; the ends are those of Student's t."""
    card = typed(make_card(CELLS))
    figure = excess_figure(card)
    windows = np.array([0.03, 0.05, 0.01]) - benchmark_return(card)
    low, high = scipy_stats.t.interval(0.95, 2, loc=windows.mean(), scale=scipy_stats.sem(windows))
    assert figure.value == pytest.approx(windows.mean())
    assert (figure.low, figure.high) == pytest.approx((low, high))


def test_the_intervals_of_several_systems_hold_together() -> None:
    """Of two, each has the level 97.5 %: Bonferroni's rule."""
    card = typed(make_card(CELLS))
    figure = excess_figure(card, 2)
    windows = np.array([0.03, 0.05, 0.01]) - benchmark_return(card)
    low, high = scipy_stats.t.interval(0.975, 2, loc=windows.mean(), scale=scipy_stats.sem(windows))
    assert (figure.low, figure.high) == pytest.approx((low, high))

    sentence = cards_sentence([("one", card), ("two", card)])
    assert "95 % interval for all 2 together" in sentence


def test_a_single_window_shows_nothing() -> None:
    sentence = card_sentence(typed(make_card({("A1", 0): 0.3})))
    assert sentence.endswith(f"{NOTHING}.")
    assert "a single window does not show how windows vary" in sentence


def test_scores_have_no_sentence() -> None:
    assert cards_sentence([]) == ""
